"""Reads and writes timed traces: text (``.csv``) or columns (``.npz``), by the file's name.

Columns are a compressed NumPy file, some 0.4 to 2 bytes per event. Entries: ``header`` (the header
of the text form as JSON, in bytes), ``ipoint``, ``sm``, ``warp``, ``steps`` and ``runs``. ``steps``
are the differences of the cycles of successive events, in the first event of a run its cycle. Each
column has the narrowest type that holds it.
"""

from __future__ import annotations

import json
import math
import os
import re
import tokenize
import zipfile
import zlib
from dataclasses import field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ptxwcet.support.array_files import header_of
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.input_files import MOST_DATA_BYTES, open_input
from ptxwcet.support.records import dataclass
from ptxwcet.support.whole_files import whole_file
from ptxwcet.trace.events import IntColumn, Ipoint, TimedTrace, TraceOrigin, check_trace, line_span

VERSION = 1
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # zip's earliest date: equal traces make equal files
_ENTRIES = ("header", "ipoint", "sm", "warp", "steps", "runs")
_UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError, EOFError, OverflowError),
    *(RuntimeError, SyntaxError, MemoryError, zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
"""The exceptions of NumPy and zipfile for a damaged file, or one that is no archive of arrays.
"""

_MOST_UNPACKED = 1 << 28
"""The limit of all columns in bytes: some 60 million events, which take 2 GB as a trace."""


def write_columns(trace: TimedTrace, path: Path) -> None:
    """Writes a trace as columns. Raises PtxwcetError (PW609).

    Cost: linear, some 0.1 to 0.4 s per million events, nearly all of it for compression.
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
    """Returns a trace from columns; it has no ``lines``.

    Raises PtxwcetError: PW600 (cannot be read), PW601 (malformed), PW602 (columns of unequal
    length), PW611 (another version). Its events are not checked: see check_trace. Cost: linear,
    about 0.1 s per million events.
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
    headers state larger arrays than their bytes: sizes are known before anything is unpacked.
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
    """Returns the cycles of events from their steps: running sums that restart with each run."""
    if not len(steps):
        return steps
    total = np.cumsum(steps)
    before = total[runs] - steps[runs]
    return total - np.repeat(before, np.diff(np.append(runs, len(steps))))


def _malformed(path: Path, problem: str) -> PtxwcetError:
    message = f"'{path}': {problem}"
    return PtxwcetError.of("PW601", message, help="docs/trace-format.md describes the format")


_ZIP_MARK = b"PK\x03\x04"


def read_trace(path: str | os.PathLike[str]) -> TimedTrace:
    """Returns the trace in a file of either form; its events are in the table and not negative.

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


# --- Traces as text -------------------------------------------------------------------------------
# ::
#
#     # ptxwcet-trace 1
#     # kernel saxpy
#     # sha256 5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9
#     # recorder simulator lrr
#     # clock cycle
#     # ipoint 0 21 entry
#     # ipoint 1 45 $L__BB0_2
#     # ipoint 2 0 end
#     ipoint,sm,warp,cycle
#     # run 0
#     0,0,0,0
#     1,0,0,57
#     2,0,0,60
#     # events 3
#
# docs/trace-format.md explains each line. A file without its last line was cut.


MAGIC = "ptxwcet-trace 1"
COLUMNS = "ipoint,sm,warp,cycle"

_CHUNK_BYTES = 1 << 23
_LONGEST_LINE = 1 << 16
_SEPARATORS = np.frombuffer(b",,,\n", np.uint8)
_MOST_DIGITS = 18  # fits 64 bits
_ROW = re.compile(rb"\d{1,18}(,\d{1,18}){3}")
_ORIGIN_KEYS = ("kernel", "sha256", "recorder", "clock")
_REQUIRED = ("kernel", "recorder", "clock")
_HELP = "docs/trace-format.md describes the format"


@dataclass(slots=True)
class CsvReader:
    """The reader of one file; see :func:`read_csv`."""

    path: Path
    _line: int = 0
    _rows: int = 0
    _announced: int | None = None
    _runs: list[int] = field(default_factory=list)
    _columns: list[list[IntColumn]] = field(default_factory=lambda: [[], [], [], []])
    _lines: list[IntColumn] = field(default_factory=list)

    def read(self) -> TimedTrace:
        """Returns the trace; see :func:`read_csv`."""
        try:
            with self.path.open("rb") as file:
                origin, ipoints = self._header(file)
                self._body(file)
        except OSError as error:
            message = f"cannot read '{self.path}': {error.strerror or type(error).__name__}"
            raise PtxwcetError.of("PW600", message) from None
        self._check_end()
        ipoint, sm, warp, cycle = (self._joined(column) for column in self._columns)
        return TimedTrace(
            origin,
            ipoints,
            ipoint.astype(np.int32),
            sm.astype(np.int32),
            warp,
            cycle,
            np.array(self._runs, np.int64),
            self._joined(self._lines),
        )

    def _joined(self, parts: list[IntColumn]) -> IntColumn:
        whole = np.concatenate(parts) if parts else np.empty(0, np.int64)
        parts.clear()
        return whole

    # --- header -------------------------------------------------------------------------------

    def _header(self, file: IO[bytes]) -> tuple[TraceOrigin, tuple[Ipoint, ...]]:
        first = self._next(file)
        if first.rstrip() != f"# {MAGIC}".encode():
            if first.startswith(b"# ptxwcet-trace"):
                raise self._wrong(first, "unknown version of the trace format", "PW611")
            raise self._wrong(first, f"not a timed trace: its first line is not '# {MAGIC}'")
        stated: dict[str, str] = {}
        ipoints: list[Ipoint] = []
        while (line := self._next(file)).rstrip() != COLUMNS.encode():
            words = line.decode("utf-8", errors="replace").rstrip("\r\n").split(" ", 2)
            if len(words) < 3 or words[0] != "#":
                raise self._wrong(line, f"expected '# KEY VALUE' or '{COLUMNS}'")
            if words[1] == "ipoint":
                ipoints.append(self._ipoint(line, words[2], len(ipoints)))
            elif words[1] not in _ORIGIN_KEYS or words[1] in stated:
                raise self._wrong(line, f"unknown or repeated key '{words[1]}'")
            else:
                stated[words[1]] = words[2]
        for key in _REQUIRED:
            if key not in stated:
                raise self._wrong(line, f"the header does not say '{key}'")
        origin = TraceOrigin(
            stated["kernel"], stated.get("sha256", ""), stated["recorder"], stated["clock"]
        )
        return origin, tuple(ipoints)

    def _next(self, file: IO[bytes]) -> bytes:
        line = file.readline(_LONGEST_LINE)
        self._line += 1
        if not line.endswith(b"\n"):
            message = "the file ends" if len(line) < _LONGEST_LINE else "the line is too long"
            raise self._wrong(line, f"{message} before '{COLUMNS}'", "PW602")
        return line

    def _ipoint(self, line: bytes, text: str, number: int) -> Ipoint:
        words = text.split(" ", 2)
        if len(words) < 3 or words[0] != str(number) or not re.fullmatch(r"\d{1,9}", words[1]):
            raise self._wrong(line, f"expected '# ipoint {number} LINE LABEL'")
        return Ipoint(words[2], int(words[1]))

    # --- events -------------------------------------------------------------------------------

    def _body(self, file: IO[bytes]) -> None:
        rest = b""
        while chunk := file.read(_CHUNK_BYTES):
            chunk = rest + chunk
            if len(rest) > _LONGEST_LINE:
                self._line += 1
                raise self._wrong(rest[:80], "the line is too long")
            end = chunk.rfind(b"\n") + 1
            rest = chunk[end:]
            whole = chunk[:end]
            self._take(whole.replace(b"\r\n", b"\n") if b"\r" in whole else whole)
        if rest:
            self._line += 1
            raise self._wrong(rest[:80], "the last line is cut", "PW602")

    def _take(self, text: bytes) -> None:
        """Reads whole lines: rows between comments."""
        pieces: list[bytes] = []
        lines: list[IntColumn] = []
        position = 0
        while position < len(text):
            mark = text.find(b"#", position)
            piece = text[position:] if mark < 0 else text[position:mark]
            if piece:
                self._add_rows(piece, pieces, lines)
            if mark < 0:
                break
            end = text.index(b"\n", mark)
            self._line += 1
            whole = text[mark:end]
            if piece and not piece.endswith(b"\n"):
                raise self._wrong(piece.rsplit(b"\n", 1)[-1] + whole, _expected())
            self._comment(whole)
            position = end + 1
        if pieces:
            self._parse(b"".join(pieces), np.concatenate(lines))

    def _add_rows(self, piece: bytes, pieces: list[bytes], lines: list[IntColumn]) -> None:
        count = piece.count(b"\n")
        if self._announced is not None or not self._runs:
            self._line += 1
            where = "after '# events'" if self._runs else "before '# run 0'"
            raise self._wrong(piece.split(b"\n", 1)[0], f"an event {where}")
        pieces.append(piece)
        lines.append(np.arange(self._line + 1, self._line + 1 + count, dtype=np.int64))
        self._line += count
        self._rows += count

    def _comment(self, text: bytes) -> None:
        match = re.fullmatch(rb"# (run|events) (\d{1,18})", text)
        if match is None or self._announced is not None:
            raise self._wrong(text, "expected '# run N' or, at the end, '# events N'")
        number = int(match[2])
        if match[1] == b"events":
            self._announced = number
        elif number != len(self._runs):
            raise self._wrong(text, f"runs are numbered from 0: expected '# run {len(self._runs)}'")
        else:
            self._runs.append(self._rows)

    def _parse(self, text: bytes, lines: IntColumn) -> None:
        columns = _numbers(text)
        if columns is None:
            raise self._bad_row(text, lines)
        for parts, column in zip(self._columns, columns, strict=True):
            parts.append(column)
        for column in columns[:2]:
            if int(column.max()) >= 2**31:
                place = int(np.argmax(column >= 2**31))
                self._line = int(lines[place])
                raise self._wrong(text.split(b"\n", place + 1)[place], "a number is too large")
        self._lines.append(lines)

    def _bad_row(self, text: bytes, lines: IntColumn) -> PtxwcetError:
        rows = text.split(b"\n")
        bad = next(i for i, row in enumerate(rows) if _ROW.fullmatch(row) is None)
        self._line = int(lines[bad])
        return self._wrong(rows[bad], _expected())

    def _check_end(self) -> None:
        if self._announced is None:
            message = f"'{self.path}' is cut: its last line '# events N' is missing"
            raise PtxwcetError.of("PW602", message, help="record or copy it again")
        if self._announced != self._rows:
            message = f"'{self.path}' announces {self._announced} events and holds {self._rows}"
            raise PtxwcetError.of("PW602", message, help="record or copy it again")

    def _wrong(self, text: bytes, message: str, code: str = "PW601") -> PtxwcetError:
        span = line_span(self.path, self._line, text)
        return PtxwcetError.of(code, message, span, help=_HELP)


def _expected() -> str:
    return f"expected a row '{COLUMNS}' of whole numbers"


def _numbers(text: bytes) -> list[IntColumn] | None:
    """Returns the four columns of whole lines; None if a line is not four numbers.

    Every byte that is not a digit must be the separator that its place demands.
    """
    raw = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(raw - np.uint8(ord("0")) > 9)
    if len(ends) % 4 or not (raw[ends].reshape(-1, 4) == _SEPARATORS).all():
        return None
    lengths = np.diff(ends, prepend=-1) - 1
    if int(lengths.min()) < 1 or int(lengths.max()) > _MOST_DIGITS:
        return None
    numbers = np.fromstring(text[:-1].replace(b"\n", b",").decode(), np.int64, sep=",")
    return [np.ascontiguousarray(column) for column in numbers.reshape(-1, 4).T]


_ROWS_AT_ONCE = 1 << 16


def write_csv(trace: TimedTrace, path: Path) -> None:
    """Writes a trace as text. Raises PtxwcetError (PW609). Cost: about 1 s per million events."""
    origin = trace.origin
    header = [f"# {MAGIC}", f"# kernel {origin.kernel}"]
    header += [f"# sha256 {origin.sha256}"] if origin.sha256 else []
    header += [f"# recorder {origin.recorder}", f"# clock {origin.clock}"]
    header += [f"# ipoint {i} {p.line} {p.label}" for i, p in enumerate(trace.ipoints)]
    ends = [*trace.runs[1:].tolist(), len(trace)]
    with whole_file(path, "PW609") as file:
        file.write("\n".join([*header, COLUMNS, ""]).encode())
        for run, (begin, end) in enumerate(zip(trace.runs.tolist(), ends, strict=True)):
            file.write(f"# run {run}\n".encode())
            for first in range(begin, end, _ROWS_AT_ONCE):
                file.write(_rows(trace, first, min(end, first + _ROWS_AT_ONCE)))
        file.write(f"# events {len(trace)}\n".encode())


def _rows(trace: TimedTrace, first: int, last: int) -> bytes:
    part = slice(first, last)
    columns = (trace.ipoint[part], trace.sm[part], trace.warp[part], trace.cycle[part])
    numbers = np.stack(columns, axis=1).ravel().tolist()
    return (b"%d,%d,%d,%d\n" * (last - first)) % tuple(numbers)


def read_csv(path: Path) -> TimedTrace:
    """Returns a trace from text; ``lines`` holds the line of each event.

    Raises PtxwcetError: PW600 (cannot be read), PW601 (malformed), PW602 (cut), PW611 (another
    version). Its events are not checked: see check_trace. Cost: linear, about 0.3 s per million
    events; 32 bytes per event.
    """
    return CsvReader(path).read()
