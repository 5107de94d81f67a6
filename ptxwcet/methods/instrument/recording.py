"""Instruments, records and imports: the library's entry point to traces of real kernels.

>>> from ptxwcet.methods.instrument.recording import InstrumentRequest, instrument_file
>>> done = instrument_file(InstrumentRequest("samples/scan.ptx"))
>>> [point.label for point in done.sidecar.kernels[0].ipoints][:2]
['entry', 'block 1']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ptxwcet.commands.run.study import diagnostics_of, emulated, read_launch
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import Argument, Array, EmulatorOptions, Progress
from ptxwcet.emulator.launch_model import LaunchFile
from ptxwcet.emulator.layout import argument_bytes
from ptxwcet.flow.launch import Launch, check_launch
from ptxwcet.ir.kernel import Kernel, Module, UnreadKernel
from ptxwcet.methods.instrument.buffers import (
    CHUNK_BYTES,
    EMULATOR_CLOCK,
    GPU_CLOCK,
    HEAD,
    HEADER,
    MAGIC,
    RECORD_BYTES,
    RECORDS_A_CHUNK,
    VERSION,
    BufferHeader,
    prepare_buffer,
    unpack_header,
    written_part,
)
from ptxwcet.methods.instrument.rewriting import (
    Sidecar,
    SidecarKernel,
    build_sidecar,
    instrument_module,
    read_sidecar,
    sidecar_text,
)
from ptxwcet.opened.front_ends import read_program, read_source
from ptxwcet.opened.opening import file_digest, select_kernels
from ptxwcet.opened.request import MOST_INSTRUCTIONS, Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.gpu import GpuLaunch, launch_on_gpu, load_bindings
from ptxwcet.support.input_files import MOST_DATA_BYTES, MOST_TEXT_BYTES, read_bytes
from ptxwcet.support.records import dataclass
from ptxwcet.support.whole_files import whole_file, write_text
from ptxwcet.trace.events import TimedTrace, TraceOrigin

ADDED_PARAMETERS = 2
DEFAULT_BUFFER_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class InstrumentRequest:
    """The input of instrumentation: all kernels and blocks, unless some are named."""

    path: str
    kernels: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InstrumentAnswer:
    """The instrumented text and its description."""

    text: str
    sidecar: Sidecar


def instrument_file(request: InstrumentRequest) -> InstrumentAnswer:
    """Instruments the kernels of a PTX file. Raises PtxwcetError (PW650, PW651, syntax).

    Cost: linear in the file.
    """
    module = read_program(read_source(request.path))
    kernels = select_kernels(module.kernels, request.kernels, request.path)
    done = instrument_module(module, kernels, request.places)
    name, digest = Path(request.path).name, file_digest(request.path)
    return InstrumentAnswer(done.text, build_sidecar(done, name, digest))


def write_instrumented(answer: InstrumentAnswer, out: Path, sidecar: Path) -> None:
    """Writes both files, each whole or not at all. Raises PtxwcetError (PW663)."""
    write_text(out, answer.text, "PW663")
    write_text(sidecar, sidecar_text(answer.sidecar), "PW663")


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """The input of a recording: the instrumented file, its description, the original's launch file.

    ``source`` is the CUDA source that names the parameters; without one the ``.cu`` with the
    original's name next to ``path``, if there is one.
    """

    path: str
    sidecar: str
    launch_file: str
    source: str | None = None
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    max_instructions: int = MOST_INSTRUCTIONS


@dataclass(frozen=True, slots=True)
class Job:
    """A launch of an instrumented kernel; ``values`` are its arguments, buffer and chunks last."""

    module: Module
    kernel: Kernel
    launch: LaunchFile
    values: tuple[Argument, ...]
    max_instructions: int


class Device(Protocol):
    """A device that runs instrumented kernels. ``clock`` states the unit of its clock in dumps."""

    clock: int

    def run(self, job: Job) -> tuple[Array | None, ...]:
        """Returns the arrays after the run, in parameter order. Raises PtxwcetError."""


class Emulator:
    """The emulator: its clock counts warp-instructions, on one multiprocessor."""

    clock = EMULATOR_CLOCK

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress

    def run(self, job: Job) -> tuple[Array | None, ...]:
        """Runs a job. Refuses runs with findings, because their path may be arbitrary."""
        launch = job.launch
        options = EmulatorOptions(max_instructions=job.max_instructions, progress=self._progress)
        run = emulated(launch, job.values)
        execution = execute(job.kernel, job.module, run, options=options)
        if execution.findings:
            raise PtxwcetError(diagnostics_of(execution, launch.block, launch.grid))
        return execution.buffers


class Gpu:
    """The first GPU. ``max_instructions`` has no meaning there: a kernel runs to its end."""

    clock = GPU_CLOCK

    def run(self, job: Job) -> tuple[Array | None, ...]:
        """Runs a job as :class:`Device` does."""
        arguments = tuple(
            value if isinstance(value, np.ndarray) else argument_bytes(job.kernel, parameter, value)
            for parameter, value in zip(job.kernel.parameters, job.values, strict=True)
        )
        launch = job.launch
        return launch_on_gpu(
            load_bindings(),
            GpuLaunch(
                job.module.source.text,
                job.kernel.name,
                launch.grid,
                launch.block,
                launch.dynamic_shared_bytes,
                arguments,
                tuple(launch.variable_bytes().items()),
            ),
        )


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded launch: the dump, and the arrays after the run by argument name."""

    launch: LaunchFile
    dump: bytes
    outputs: dict[str, Array]
    diagnostics: tuple[Diagnostic, ...]


def record_launch(request: RecordRequest, device: Device) -> Recording:
    """Runs an instrumented kernel with the launch file of the original kernel.

    ``diagnostics`` are unexpected results. Raises PtxwcetError: PW652, PW653 (file and description
    do not belong together), PW657 (no room for each warp), problems of the launch file, and
    refusals of the device. Cost: the run.
    """
    sidecar = read_sidecar(_read_bytes(request.sidecar, MOST_TEXT_BYTES), request.sidecar)
    module = read_program(read_source(request.path))
    if file_digest(request.path) != sidecar.instrumented_sha256:
        message = f"'{request.path}' is not the file that '{request.sidecar}' describes"
        help_text = "give the two files that one run of ptxwcet instrument wrote, unchanged"
        raise PtxwcetError.of("PW653", message, help=help_text)
    names = {k.name: k for k in sidecar.kernels}
    original = _without_added(module, names)
    beside = str(Path(request.path).with_name(Path(sidecar.source).name))
    read = Request(beside, source=request.source)
    launch = read_launch(request.launch_file, original, read)
    check_launch(Launch(launch.block, launch.grid), launch.kernel)
    kernel = next(k for k in module.kernels if k.name == launch.kernel.name)
    identity = sidecar.identity(names[kernel.name])
    size, clock = request.buffer_bytes, device.clock
    buffer, chunks = prepare_buffer(size, launch.grid, launch.block, identity, clock)
    values = (*launch.values(), buffer, chunks)
    results = device.run(Job(module, kernel, launch, values, request.max_instructions))
    recorded = results[-ADDED_PARAMETERS]
    assert recorded is not None, "the buffer is an array"
    outputs = {
        argument.name: array
        for argument, array in zip(launch.arguments, results[:-ADDED_PARAMETERS], strict=True)
        if array is not None
    }
    wrong = [check.diagnostic() for check in launch.check(outputs)]
    unexpected = tuple(d for d in wrong if d is not None)
    return Recording(launch, written_part(recorded), outputs, unexpected)


def write_dump(recording: Recording, out: Path) -> None:
    """Writes the dump, whole or not at all. Raises PtxwcetError (PW663)."""
    with whole_file(out, "PW663") as file:
        file.write(recording.dump)


def _without_added(module: Module, instrumented: dict[str, SidecarKernel]) -> Module:
    """Returns the original's module for launch files, with only its instrumented kernels."""
    kernels = [
        kernel
        if isinstance(kernel, UnreadKernel)
        else replace(kernel, parameters=kernel.parameters[:-ADDED_PARAMETERS])
        for kernel in module.kernels
        if kernel.name in instrumented
    ]
    others = [item for item in module.items if not isinstance(item, Kernel)]
    return replace(module, items=(*others, *kernels))


def import_dumps(sidecar: str, dumps: Sequence[str]) -> TimedTrace:
    """Returns the runs of dump files as a timed trace, in the order given.

    Raises PtxwcetError: PW652, and those of :func:`read_dumps`.
    """
    described = read_sidecar(_read_bytes(sidecar, MOST_TEXT_BYTES), sidecar)
    raw = [RawDump(name, _read_bytes(name, MOST_DATA_BYTES)) for name in dumps]
    return read_dumps(raw, described)


def _read_bytes(path: str, most: int) -> bytes:
    try:
        return read_bytes(path, most)
    except OSError as error:
        message = f"cannot read '{path}': {error.strerror or error}"
        raise PtxwcetError.of("PW662", message) from None


# Times of different multiprocessors are unrelated, so those of each one are counted from its first
# event: release jitter requires this ([B] V-B, equation 1). Where lanes end at different times, the
# last end of a warp counts.


_RECORD = np.dtype([("code", "<u4"), ("warp", "<u4"), ("clock", "<u8")])
_KEY_BITS = 63
_LAST_CLOCK = np.uint64(1 << 62)  # a century
_CLOCKS = {GPU_CLOCK: ("clock64", "cycle"), EMULATOR_CLOCK: ("emulator", "instruction")}

Column = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RawDump:
    """The bytes of a dump and the name of its file, for messages."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class _Events:
    """The events of a run."""

    point: Column
    sm: Column
    warp: Column
    clock: Column

    def __getitem__(self, rows: npt.NDArray[np.generic]) -> _Events:
        return _Events(self.point[rows], self.sm[rows], self.warp[rows], self.clock[rows])


def read_dumps(dumps: Sequence[RawDump], sidecar: Sidecar) -> TimedTrace:
    """Returns one run for each dump, all of one kernel, in the order given.

    Raises PtxwcetError, one diagnostic: PW654 (no dump), PW655 (cut off), PW656 (of another
    instrumented file, kernel or clock), PW657 (the buffer was too small), PW658 (a record that no
    point of the kernel writes), PW659 (a warp without start or end), PW660 (times of a warp that
    contradict each other). Cost: sorting the records.
    """
    if not dumps:
        raise ValueError("no dump")
    headers = [_header(dump) for dump in dumps]
    kernel = _kernel(dumps[0], headers[0], sidecar)
    for dump, header in zip(dumps, headers, strict=True):
        if header.identity != headers[0].identity or header.clock != headers[0].clock:
            message = f"'{dump.name}' and '{dumps[0].name}' are of different kernels or clocks"
            raise _error("PW656", message, "import them one by one")
    runs = [_run(dump, header, kernel) for dump, header in zip(dumps, headers, strict=True)]
    recorder, clock = _CLOCKS[headers[0].clock]
    lengths = np.array([len(run.point) for run in runs], dtype=np.int64)
    return TimedTrace(
        TraceOrigin(kernel.name, sidecar.sha256, recorder, clock),
        kernel.ipoints,
        np.concatenate([run.point for run in runs]).astype(np.int32),
        np.concatenate([run.sm for run in runs]).astype(np.int32),
        np.concatenate([run.warp for run in runs]),
        np.concatenate([run.clock for run in runs]),
        np.cumsum(lengths) - lengths,
    )


def _header(dump: RawDump) -> BufferHeader:
    data, name = dump.data, dump.name
    if len(data) < HEADER.size or data[: len(MAGIC)] != MAGIC:
        help_text = "copy the buffer from the device as it is, from its first byte on"
        raise _error("PW654", f"'{name}' is not the dump of an instrumented kernel", help_text)
    version = int.from_bytes(data[8:12], "little")
    if version != VERSION:
        message = f"'{name}' is a dump of version {version}, not {VERSION}"
        raise _error("PW654", message, "instrument and record with this version of ptxwcet")
    header = unpack_header(data)
    if header.clock not in _CLOCKS or min(*header.grid, *header.block) < 1:
        raise _error("PW654", f"the header of '{name}' has impossible values", None)
    return header


def _kernel(dump: RawDump, header: BufferHeader, sidecar: Sidecar) -> SidecarKernel:
    for kernel in sidecar.kernels:
        if sidecar.identity(kernel) == header.identity:
            return kernel
    raise _error(
        "PW656",
        f"'{dump.name}' is not of a kernel of the instrumented {sidecar.source}",
        "give the .json that was written with the PTX that ran",
    )


def _run(dump: RawDump, header: BufferHeader, kernel: SidecarKernel) -> _Events:
    """Returns the events of a dump in order of time, counted from the first on each SM."""
    records = _records(dump, header)
    events = _from_zero(_checked(dump, header, kernel, records))
    events = events[_order(events.warp, events.clock)]
    events = _with_one_end(dump, events, len(kernel.ipoints) - 1, header.warps)
    return events[_order(events.clock, events.sm)]  # stable: by warp


def _from_zero(events: _Events) -> _Events:
    if not len(events.clock):
        return events
    first = np.full(int(events.sm.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, events.sm, events.clock)
    return replace(events, clock=events.clock - first[events.sm])


def _order(major: Column, minor: Column) -> npt.NDArray[np.intp]:
    """Returns the rows by two columns of numbers of at least 0, equal rows in their order."""
    bits = int(minor.max(initial=0)).bit_length()
    if bits + int(major.max(initial=0)).bit_length() <= _KEY_BITS:
        return np.argsort(major << bits | minor, kind="stable")  # a third of the time
    return np.lexsort((minor, major))


def _records(dump: RawDump, header: BufferHeader) -> npt.NDArray[np.void]:
    """Returns all records of the allocated chunks, a row per chunk; unwritten ones, too."""
    if header.used > header.chunks:
        lost = header.used - header.chunks
        raise _error(
            "PW657",
            f"the buffer of '{dump.name}' was too small: {header.chunks:,} chunks, "
            f"{header.used:,} were asked for, so at least {lost:,} records are lost",
            "record again with a larger buffer (--buffer-mib), or with fewer points (--at)",
        )
    if header.used < header.warps:
        message = f"the header of '{dump.name}' has fewer chunks than warps"
        raise _error("PW654", message, "prepare the buffer for the grid that is launched")
    size = header.used * CHUNK_BYTES
    held = len(dump.data) - HEADER.size
    if held < size:
        message = f"'{dump.name}' is cut off: {held:,} bytes of records, {size:,} were written"
        raise _error("PW655", message, "copy the whole buffer from the device")
    records = np.frombuffer(dump.data, _RECORD, size // RECORD_BYTES, HEADER.size)
    return records.reshape(-1, RECORDS_A_CHUNK)


def _checked(
    dump: RawDump, header: BufferHeader, kernel: SidecarKernel, records: npt.NDArray[np.void]
) -> _Events:
    """Returns the written records without heads, with each record and chunk checked."""
    code = (records["code"] & 0xFFFF).astype(np.int64)
    written = code != 0
    heads = code == HEAD
    home = np.zeros_like(heads)
    home[: header.warps, 0] = True
    missing = home & ~heads
    if missing.any():
        warp = int(np.flatnonzero(missing.any(axis=1))[0])
        raise _without(dump, header, warp, "never started")
    warps = records["warp"].astype(np.int64)
    numbers = np.arange(len(records))[:, None]
    wrong = written & ((code > len(kernel.ipoints)) & ~heads | heads & ~home)
    wrong |= written & ~heads & (records["clock"] > _LAST_CLOCK)
    wrong |= written & ((warps >= header.warps) | (numbers < header.warps) & (warps != numbers))
    wrong[:, 1:] |= written[:, 1:] & (~written[:, :-1] | (warps[:, 1:] != warps[:, :-1]))
    if wrong.any():
        raise _impossible(dump, int(np.flatnonzero(wrong.ravel())[0]))
    clock = records["clock"].astype(np.int64)
    events = written & ~heads
    back = events[:, 1:] & events[:, :-1] & (clock[:, 1:] < clock[:, :-1])
    if back.any():
        chunk, place = (int(index[0]) for index in np.nonzero(back))
        raise _contradiction(dump, header, int(warps[chunk, place]), "its time goes backwards")
    sm = (records["code"] >> 16).astype(np.int64)
    return _Events(code[events] - 1, sm[events], warps[events], clock[events])


def _with_one_end(dump: RawDump, events: _Events, end: int, warps: int) -> _Events:
    """Returns only the last end of each warp; ``events`` are sorted by warp and time."""
    header = unpack_header(dump.data)
    is_first = np.ones(len(events.warp), dtype=bool)
    is_first[1:] = events.warp[1:] != events.warp[:-1]
    same = ~is_first[1:]
    if is_first.sum() < warps:
        present = np.zeros(warps, dtype=bool)
        present[events.warp] = True
        raise _without(dump, header, int(np.flatnonzero(~present)[0]), "has no point")
    moved = same & (events.sm[1:] != events.sm[:-1])
    if moved.any():
        warp = int(events.warp[1:][moved][0])
        raise _contradiction(dump, header, warp, "it was moved to another multiprocessor")
    tied = same & (events.clock[1:] == events.clock[:-1])
    if tied.any():
        warp = int(events.warp[1:][tied][0])
        raise _contradiction(dump, header, warp, "two of its records have one time")
    started = events.point[is_first] == 0
    if not started.all():
        warp = int(events.warp[is_first][~started][0])
        raise _without(dump, header, warp, "does not begin at the entry")
    is_last = np.append(is_first[1:], True)
    ended = events.point[is_last] == end
    if not ended.all():
        raise _without(dump, header, int(events.warp[is_last][~ended][0]), "has no end")
    return events[is_last | (events.point != end)]


def _without(dump: RawDump, header: BufferHeader, warp: int, why: str) -> PtxwcetError:
    return _error(
        "PW659",
        f"'{dump.name}': {_warp(header, warp)} {why}",
        "copy the buffer after the kernel has ended without an error",
    )


def _contradiction(dump: RawDump, header: BufferHeader, warp: int, why: str) -> PtxwcetError:
    return _error(
        "PW660",
        f"'{dump.name}': {_warp(header, warp)}: {why}",
        "record again, with no other work or debugger on the GPU",
    )


def _impossible(dump: RawDump, position: int) -> PtxwcetError:
    offset = HEADER.size + position * RECORD_BYTES
    return _error(
        "PW658",
        f"'{dump.name}': the record at byte {offset:,} is none that the kernel writes",
        "the dump is damaged, or the buffer was not zero before the launch",
    )


def _warp(header: BufferHeader, warp: int) -> str:
    block, inner = divmod(warp, header.warps_a_block)
    return f"warp {inner} of block {block}"


def _error(code: str, message: str, help_text: str | None) -> PtxwcetError:
    return PtxwcetError.of(code, message, help=help_text)
