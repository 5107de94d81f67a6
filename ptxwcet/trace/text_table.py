"""Tables of text columns, and refusals that point at a line or a field of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import NoReturn

from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.printable import plural
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile, Span

_MUCH_LIKE = 0.8
"""How alike names are of which one may be the other misspelt."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """The rows of a text file: names of its columns (none: empty) and where its data begin."""

    source: SourceFile
    lines: list[str]
    separator: str | None
    names: tuple[str, ...]
    columns: int
    first: int

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line numbers (from 0) and fields. Raises PtxwcetError (PW702)."""
        separator, columns = self.separator, self.columns
        for number in range(self.first, len(self.lines)):
            line = self.lines[number]
            if not line or line.isspace() or line.lstrip()[0] == "#":
                continue
            fields = line.split(separator)
            if len(fields) != columns:
                self.refuse(
                    "PW702",
                    number,
                    f"{plural(len(fields), 'field')} where the first line has {columns}",
                    "every line has the same columns; decimals are written with a point",
                )
            yield number, fields

    def require_label(self, number: int, label: str) -> None:
        """Raises PtxwcetError (PW702) for the label of a condition that cannot be printed."""
        if not label or not label.isprintable():
            message = "the label of a condition is missing, or cannot be printed"
            self.refuse("PW702", number, message, "labels are printable text")

    def refuse(
        self, code: str, number: int, message: str, help: str, column: int | None = None
    ) -> NoReturn:
        """Raises PtxwcetError at a line, or at a field of it."""
        text = self.source.line_text(number + 1)
        begin, length = len(text) - len(text.lstrip()), len(text.strip())
        if column is not None:
            field = text.split(self.separator)[column]
            before = text.split(self.separator)[:column]
            if self.separator is None:
                begin = _blank_offset(text, column)
            else:
                begin = sum(len(one) + 1 for one in before) + len(field) - len(field.lstrip())
            length = len(field.strip())
        start = self.source.line_starts()[number] + begin
        span = Span(self.source, start, start + max(1, length))
        raise PtxwcetError.of(code, message, span, help=help)


def refuse_file(code: str, message: str, help: str) -> NoReturn:
    """Raises PtxwcetError for a file as a whole."""
    raise PtxwcetError.of(code, message, help=help)


def open_table(source: SourceFile) -> TextTable:
    """Finds separator, names and first row. Raises PtxwcetError (PW705) if there is none.

    A first line is one of names if each of its fields begins with a letter and is no number.
    """
    lines = [line.rstrip("\r") for line in source.text.split("\n")]
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        separator = next((one for one in (",", ";", "\t") if one in line), None)
        fields = [field.strip().strip('"') for field in line.split(separator)]
        is_header = all(field[:1].isalpha() and parse_number(field) is None for field in fields)
        names = tuple(field.lower() for field in fields) if is_header else ()
        first = number + 1 if is_header else number
        return TextTable(source, lines, separator, names, len(fields), first)
    raise PtxwcetError.of("PW705", f"'{source.name}' holds no times", help="give a time a line")


def parse_number(text: str) -> float | None:
    """A decimal number; Python's other notations (1_000) are none."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def find_column(table: TextTable, wanted: str) -> int:
    """The index of a column by name or number from 1. Raises PtxwcetError (PW707)."""
    if wanted.lower() in table.names:
        return table.names.index(wanted.lower())
    if re.fullmatch("[0-9]{1,9}", wanted) and 1 <= int(wanted) <= table.columns:
        return int(wanted) - 1
    listed = f"columns {', '.join(table.names)}" if table.names else f"{table.columns} columns"
    refuse_file(
        "PW707",
        f"'{table.source.name}' has no column '{wanted}'",
        f"it has {listed}; columns are named or numbered from 1",
    )


def refuse_misspelt(table: TextTable, known: Collection[str]) -> None:
    """Raises PtxwcetError (PW707) if a column has a name much like one of those known."""
    for name in table.names:
        meant = get_close_matches(name, known, 1, _MUCH_LIKE) if name not in known else []
        if meant:
            message = f"'{table.source.name}' has a column '{shortened(name)}' that is not known"
            help = f"did you mean {meant[0]}? Else name it otherwise, or say what to read: --column"
            refuse_file("PW707", message, help)


def shortened(text: str) -> str:
    """The beginning of a long field, for a message."""
    return text if len(text) <= 40 else f"{text[:40]}..."


def _blank_offset(text: str, column: int) -> int:
    position = 0
    for k, field in enumerate(text.split()):
        position = text.index(field, position)
        if k == column:
            return position
        position += len(field)
    return position
