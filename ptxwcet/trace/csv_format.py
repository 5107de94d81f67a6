"""Timed traces as text: a header of comments, then a row ``ipoint,sm,warp,cycle`` for each event.

::

    # ptxwcet-trace 1
    # kernel saxpy
    # sha256 5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9
    # recorder simulator lrr
    # clock cycle
    # ipoint 0 21 entry
    # ipoint 1 45 $L__BB0_2
    # ipoint 2 0 end
    ipoint,sm,warp,cycle
    # run 0
    0,0,0,0
    1,0,0,57
    2,0,0,60
    # events 3

docs/tracing.md says what each line means. A file without its last line was cut.
"""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import Path
from typing import IO

import numpy as np

from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.whole_files import whole_file
from ptxwcet.trace.events import IntColumn, Ipoint, TimedTrace, TraceOrigin, line_span

MAGIC = "ptxwcet-trace 1"
COLUMNS = "ipoint,sm,warp,cycle"

_CHUNK_BYTES = 1 << 23
_LONGEST_LINE = 1 << 16
_SEPARATORS = np.frombuffer(b",,,\n", np.uint8)
_MOST_DIGITS = 18  # fits 64 bits
_ROW = re.compile(rb"\d{1,18}(,\d{1,18}){3}")
_ORIGIN_KEYS = ("kernel", "sha256", "recorder", "clock")
_REQUIRED = ("kernel", "recorder", "clock")
_HELP = "docs/tracing.md describes the format"


@dataclass(slots=True)
class CsvReader:
    """Reads one file; see ``csv_format.read_csv``."""

    path: Path
    _line: int = 0
    _rows: int = 0
    _announced: int | None = None
    _runs: list[int] = field(default_factory=list)
    _columns: list[list[IntColumn]] = field(default_factory=lambda: [[], [], [], []])
    _lines: list[IntColumn] = field(default_factory=list)

    def read(self) -> TimedTrace:
        """The trace; see ``csv_format.read_csv``."""
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
        said: dict[str, str] = {}
        ipoints: list[Ipoint] = []
        while (line := self._next(file)).rstrip() != COLUMNS.encode():
            words = line.decode("utf-8", errors="replace").rstrip("\r\n").split(" ", 2)
            if len(words) < 3 or words[0] != "#":
                raise self._wrong(line, f"expected '# KEY VALUE' or '{COLUMNS}'")
            if words[1] == "ipoint":
                ipoints.append(self._ipoint(line, words[2], len(ipoints)))
            elif words[1] not in _ORIGIN_KEYS or words[1] in said:
                raise self._wrong(line, f"unknown or repeated key '{words[1]}'")
            else:
                said[words[1]] = words[2]
        for key in _REQUIRED:
            if key not in said:
                raise self._wrong(line, f"the header does not say '{key}'")
        origin = TraceOrigin(
            said["kernel"], said.get("sha256", ""), said["recorder"], said["clock"]
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
        """Whole lines: rows between comments."""
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
    """The four columns of whole lines; None if a line is not four numbers.

    Every byte that is no digit must be the separator that its place demands.
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
    """Writes a trace as text. Raises PtxwcetError (PW609). Cost: about 1 s a million events."""
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
    """A trace from text; ``lines`` holds the line of each event.

    Raises PtxwcetError: PW600 (cannot be read), PW601 (malformed), PW602 (cut), PW611 (another
    version). Its events are not checked: see check_trace. Cost: linear, about 0.3 s a million
    events; 32 bytes an event.
    """
    return CsvReader(path).read()
