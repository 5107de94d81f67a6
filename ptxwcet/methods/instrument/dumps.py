"""Dumps of instrumented kernels as timed traces.

Times of different multiprocessors have nothing to do with each other, so those of each one are
counted from the first event on it: that is what release jitter needs ([B] V-B, equation 1). Where
lanes end at different times, the last end of a warp counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

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
    unpack_header,
)
from ptxwcet.methods.instrument.rewriting import Sidecar, SidecarKernel
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.trace.events import TimedTrace, TraceOrigin

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
    """Events of a run."""

    point: Column
    sm: Column
    warp: Column
    clock: Column

    def __getitem__(self, rows: npt.NDArray[np.generic]) -> _Events:
        return _Events(self.point[rows], self.sm[rows], self.warp[rows], self.clock[rows])


def read_dumps(dumps: Sequence[RawDump], sidecar: Sidecar) -> TimedTrace:
    """One run for each dump, all of one kernel, in the order given.

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
    """The events of one dump in order of time, times counted from the first on each SM."""
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
    """The rows by two columns of numbers of at least 0, equal rows as they stand."""
    bits = int(minor.max(initial=0)).bit_length()
    if bits + int(major.max(initial=0)).bit_length() <= _KEY_BITS:
        return np.argsort(major << bits | minor, kind="stable")  # a third of the time
    return np.lexsort((minor, major))


def _records(dump: RawDump, header: BufferHeader) -> npt.NDArray[np.void]:
    """All records of the chunks given out, a row for each chunk; unwritten ones too."""
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
    """The written records, heads left out, each record and each chunk checked by itself."""
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
        chunk, place = (int(row[0]) for row in np.nonzero(back))
        raise _contradiction(dump, header, int(warps[chunk, place]), "its time goes backwards")
    sm = (records["code"] >> 16).astype(np.int64)
    return _Events(code[events] - 1, sm[events], warps[events], clock[events])


def _with_one_end(dump: RawDump, events: _Events, end: int, warps: int) -> _Events:
    """Only the last end of each warp; ``events`` are sorted by warp and time."""
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


def _without(dump: RawDump, header: BufferHeader, warp: int, what: str) -> PtxwcetError:
    return _error(
        "PW659",
        f"'{dump.name}': {_warp(header, warp)} {what}",
        "copy the buffer after the kernel has ended without an error",
    )


def _contradiction(dump: RawDump, header: BufferHeader, warp: int, what: str) -> PtxwcetError:
    return _error(
        "PW660",
        f"'{dump.name}': {_warp(header, warp)}: {what}",
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
