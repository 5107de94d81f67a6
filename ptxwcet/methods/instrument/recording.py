"""Instrumenting, recording and importing: the library's front door to traces of real kernels.

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

from ptxwcet.commands.run.study import diagnostics_of, emulated, read_launch
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import Argument, Array, EmulatorOptions, Progress
from ptxwcet.emulator.launch_model import LaunchFile
from ptxwcet.emulator.layout import argument_bytes
from ptxwcet.flow.launch import Launch, check_launch
from ptxwcet.ir.kernel import Kernel, Module, UnreadKernel
from ptxwcet.methods.instrument.buffers import (
    EMULATOR_CLOCK,
    GPU_CLOCK,
    prepare_buffer,
    written_part,
)
from ptxwcet.methods.instrument.dumps import RawDump, read_dumps
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
from ptxwcet.trace.events import TimedTrace

ADDED_PARAMETERS = 2
DEFAULT_BUFFER_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class InstrumentRequest:
    """What to instrument: all kernels unless some are named, every block unless places are."""

    path: str
    kernels: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InstrumentAnswer:
    """The instrumented text and what describes it."""

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
    """What to record: the instrumented file, what describes it, the launch file of the original.

    ``source`` is the CUDA source that names the parameters; without one the ``.cu`` of the
    original's name beside ``path``, if there is one.
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
    """What runs instrumented kernels. ``clock`` says in dumps what their clock counts."""

    clock: int

    def run(self, job: Job) -> tuple[Array | None, ...]:
        """The arrays after the run, in parameter order. Raises PtxwcetError."""


class Emulator:
    """The emulator: its clock counts warp-instructions, on one multiprocessor."""

    clock = EMULATOR_CLOCK

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress

    def run(self, job: Job) -> tuple[Array | None, ...]:
        """See :class:`Device`. A run with findings is refused, as its path may be arbitrary."""
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
        """See :class:`Device`."""
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
    """Runs an instrumented kernel as the launch file of the original kernel says.

    ``diagnostics`` are results that are not as expected. Raises PtxwcetError: PW652, PW653 (file
    and description do not belong together), PW657 (no room for each warp), problems of the launch
    file, and what the device refuses. Cost: that of the run.
    """
    sidecar = read_sidecar(_read_bytes(request.sidecar, MOST_TEXT_BYTES), request.sidecar)
    module = read_program(read_source(request.path))
    if file_digest(request.path) != sidecar.instrumented_sha256:
        message = f"'{request.path}' is not the file that '{request.sidecar}' describes"
        help_text = "give the two files that one run of ptxwcet instrument wrote, unchanged"
        raise PtxwcetError.of("PW653", message, help=help_text)
    names = {row.name: row for row in sidecar.kernels}
    original = _without_added(module, names)
    beside = str(Path(request.path).with_name(Path(sidecar.source).name))
    read = Request(beside, source=request.source)
    launch = read_launch(request.launch_file, original, read)
    check_launch(Launch(launch.block, launch.grid), launch.kernel)
    kernel = next(row for row in module.kernels if row.name == launch.kernel.name)
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
    unexpected = tuple(row for row in wrong if row is not None)
    return Recording(launch, written_part(recorded), outputs, unexpected)


def write_dump(recording: Recording, out: Path) -> None:
    """Writes the dump, whole or not at all. Raises PtxwcetError (PW663)."""
    with whole_file(out, "PW663") as file:
        file.write(recording.dump)


def _without_added(module: Module, known: dict[str, SidecarKernel]) -> Module:
    """The module as launch files of the original see it: its instrumented kernels alone."""
    kernels = [
        kernel
        if isinstance(kernel, UnreadKernel)
        else replace(kernel, parameters=kernel.parameters[:-ADDED_PARAMETERS])
        for kernel in module.kernels
        if kernel.name in known
    ]
    others = [item for item in module.items if not isinstance(item, Kernel)]
    return replace(module, items=(*others, *kernels))


def import_dumps(sidecar: str, dumps: Sequence[str]) -> TimedTrace:
    """The runs of dump files as a timed trace, in the order given.

    Raises PtxwcetError: PW652, and those of :func:`ptxwcet.methods.instrument.dumps.read_dumps`.
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
