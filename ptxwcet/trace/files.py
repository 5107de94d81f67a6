"""Timed traces in files: text (``.csv``) or columns (``.npz``), by the name of the file.

Columns are a compressed NumPy file, some 0.4 to 2 bytes an event. Entries: ``header`` (the header
of the text form as JSON, in bytes), ``ipoint``, ``sm``, ``warp``, ``steps`` and ``runs``. ``steps``
are the differences of the cycles of successive events, in the first event of a run its cycle. Each
column has the narrowest type that holds it.
"""

from __future__ import annotations

import json
import math
import os
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxwcet.support.array_files import header_of
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.input_files import MOST_DATA_BYTES, open_input
from ptxwcet.support.whole_files import whole_file
from ptxwcet.trace.csv_format import read_csv, write_csv
from ptxwcet.trace.events import IntColumn, Ipoint, TimedTrace, TraceOrigin, check_trace

VERSION = 1
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # zip's earliest date: the same trace makes the same file
_ENTRIES = ("header", "ipoint", "sm", "warp", "steps", "runs")
_UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError, EOFError, OverflowError),
    *(RuntimeError, SyntaxError, MemoryError, zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
"""What NumPy and zipfile raise for a file that is no archive of arrays, or a damaged one."""

_MOST_UNPACKED = 1 << 28
"""Bytes of all columns: some 60 million events, which take 2 GB of memory as a trace."""


def write_columns(trace: TimedTrace, path: Path) -> None:
    """Writes a trace as columns. Raises PtxwcetError (PW609).

    Cost: linear, some 0.1 to 0.4 s a million events, nearly all of it to compress them.
    """
    steps = np.diff(trace.cycle, prepend=0)
    steps[trace.runs] = trace.cycle[trace.runs]
    header = np.frombuffer(json.dumps(_header(trace)).encode(), np.uint8)
    columns = (trace.ipoint, trace.sm, trace.warp, steps, trace.runs)
    arrays: tuple[npt.NDArray[Any], ...] = (header, *columns)
    with whole_file(path, "PW609") as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in zip(_ENTRIES, arrays, strict=True):
            entry = zipfile.ZipInfo(f"{name}.npy", _FIRST_DAY)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as part:
                np.lib.format.write_array(part, _narrowed(array), allow_pickle=False)


def _header(trace: TimedTrace) -> dict[str, Any]:
    origin = trace.origin
    return {
        "ptxwcet-trace": VERSION,
        "kernel": origin.kernel,
        "sha256": origin.sha256,
        "recorder": origin.recorder,
        "clock": origin.clock,
        "ipoints": [[point.line, point.label] for point in trace.ipoints],
        "events": len(trace),
    }


def _narrowed(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if not len(column):
        return column
    low, high = int(column.min()), int(column.max())
    kinds = (np.int8, np.int16, np.int32) if low < 0 else (np.uint8, np.uint16, np.uint32)
    for kind in kinds:
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return column.astype(kind)
    return column.astype(np.int64)


def read_columns(path: Path) -> TimedTrace:
    """A trace from columns; it has no ``lines``.

    Raises PtxwcetError: PW600 (cannot be read), PW601 (malformed), PW602 (columns of unequal
    length), PW611 (another version). Its events are not checked: see check_trace. Cost: linear,
    about 0.1 s a million events.
    """
    try:
        with open_input(path, MOST_DATA_BYTES) as file, zipfile.ZipFile(file) as entries:
            _require_bounded(entries)
        with (
            open_input(path, MOST_DATA_BYTES) as file,
            np.load(file, allow_pickle=False) as archive,
        ):
            arrays = {name: archive[name] for name in _ENTRIES}
        header = json.loads(arrays["header"].tobytes())
        version = header["ptxwcet-trace"]
    except OSError as error:
        message = f"cannot read '{path}': {error.strerror or error}"
        raise PtxwcetError.of("PW600", message) from None
    except _UNREADABLE as error:
        raise _malformed(path, f"not a timed trace ({error})") from None
    if version != VERSION:
        message = f"'{path}' has version {version} of the trace format, not {VERSION}"
        raise PtxwcetError.of("PW611", message)
    return _assembled(path, header, arrays)


def _require_bounded(entries: zipfile.ZipFile) -> None:
    """Raises ValueError for an archive that unpacks to more than a trace that can be held, or whose
    arrays are said to be larger than their bytes: sizes are known before anything is unpacked.
    """
    if sum(entry.file_size for entry in entries.infolist()) > _MOST_UNPACKED:
        raise ValueError(f"it unpacks to more than {_MOST_UNPACKED >> 20:,} MiB")
    for entry in entries.infolist():
        with entries.open(entry) as file:
            shape, dtype = header_of(file)
        if math.prod(shape) * dtype.itemsize > entry.file_size:
            raise ValueError(f"{entry.filename} is shorter than its header says")


def _assembled(
    path: Path, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
) -> TimedTrace:
    for name in _ENTRIES[1:]:
        if arrays[name].ndim != 1 or arrays[name].dtype.kind not in "iu":
            raise _malformed(path, f"'{name}' is not a column of whole numbers")
        if name in ("ipoint", "sm") and len(arrays[name]) and int(arrays[name].max()) >= 2**31:
            raise _malformed(path, f"'{name}' holds a number that is too large")
    try:
        texts = [header[key] for key in ("kernel", "sha256", "recorder", "clock")]
        ipoints = tuple(Ipoint(str(label), int(line)) for line, label in header["ipoints"])
        announced = int(header["events"])
    except _UNREADABLE as error:
        raise _malformed(path, f"its header is malformed ({error!r})") from None
    lengths = {len(arrays[name]) for name in _ENTRIES[1:5]}
    if lengths != {announced}:
        message = f"'{path}' is cut: {announced} events announced, columns hold {sorted(lengths)}"
        raise PtxwcetError.of("PW602", message, help="record or copy it again")
    runs = arrays["runs"].astype(np.int64)
    steps = arrays["steps"].astype(np.int64)
    if announced and not _are_runs(runs, announced):
        raise _malformed(path, "'runs' are not the first events of runs")
    return TimedTrace(
        TraceOrigin(*map(str, texts)),
        ipoints,
        arrays["ipoint"].astype(np.int32),
        arrays["sm"].astype(np.int32),
        arrays["warp"].astype(np.int64),
        _cycles(steps, runs),
        runs,
    )


def _are_runs(runs: IntColumn, events: int) -> bool:
    ascending = bool((np.diff(runs) > 0).all())
    return len(runs) > 0 and runs[0] == 0 and runs[-1] < events and ascending


def _cycles(steps: IntColumn, runs: IntColumn) -> IntColumn:
    """The cycles of events from their steps: running sums that begin anew with each run."""
    if not len(steps):
        return steps
    total = np.cumsum(steps)
    before = total[runs] - steps[runs]
    return total - np.repeat(before, np.diff(np.append(runs, len(steps))))


def _malformed(path: Path, what: str) -> PtxwcetError:
    message = f"'{path}': {what}"
    return PtxwcetError.of("PW601", message, help="docs/tracing.md describes the format")


_ZIP_MARK = b"PK\x03\x04"


def read_trace(path: str | os.PathLike[str]) -> TimedTrace:
    """The trace in a file of either form; its events are within the table and not negative.

    Raises PtxwcetError: PW600 to PW604, PW611. Cost: linear; see the two forms.
    """
    place = Path(path)
    try:
        with open_input(place, MOST_DATA_BYTES) as file:
            mark = file.read(4)
    except OSError as error:
        message = f"cannot read '{place}': {error.strerror or type(error).__name__}"
        raise PtxwcetError.of("PW600", message) from None
    if not mark:
        message = f"'{place}' is empty"
        raise PtxwcetError.of("PW603", message, help="record at least one run")
    trace = read_columns(place) if mark == _ZIP_MARK else read_csv(place)
    check_trace(trace, os.fspath(path))
    return trace


def write_trace(trace: TimedTrace, path: str | os.PathLike[str]) -> None:
    """Writes a trace: columns if the name ends in ``.npz``, text if in ``.csv``.

    Raises PtxwcetError (PW609) for another name, or if the file cannot be written.
    """
    place = Path(path)
    if place.suffix == ".npz":
        write_columns(trace, place)
    elif place.suffix == ".csv":
        write_csv(trace, place)
    else:
        message = f"cannot write '{place}': the name of a trace ends in .csv or .npz"
        raise PtxwcetError.of("PW609", message)
