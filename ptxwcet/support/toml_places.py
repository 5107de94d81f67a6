"""Where the entries of a TOML text stand: the standard library reads values without their places.

Only the ordinary layout is found: table headers on lines of their own, ``key = value`` below them.
For anything else there is no place, and a message names the file alone.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ptxwcet.support.source import SourceFile, Span

_HEADER = re.compile(r"^[ \t]*(\[{1,2}([^\[\],\n]+)\]{1,2})[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
_SKIPPED = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"""|\Z)'
    r"|\'\'\'(?:[^']++|'(?!''))*+(?:\'\'\'|\Z)"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+",
    re.DOTALL,
)
_LEAST_BEGINNING = 3  # letters of a name that are enough to tell it
_MOST_PARTS = 16
_MOST_DEPTH = 64
_MOST_DIGITS = 200
_PART = r"[\w-]++[ \t]*+"
_LONG_KEY = re.compile(rf"(?<![\w.-]){_PART}(?:\.[ \t]*+{_PART}){{{_MOST_PARTS},}}", re.ASCII)
_LONG_NUMBER = re.compile(
    rf"(?<![\w-])[+-]?\d[\d_]{{{_MOST_DIGITS}}}|(?<!\w)0[xob]\w{{{_MOST_DIGITS}}}"
)
_BRACKET = re.compile(r"[\[\]{}]")
MOST_PROBLEMS = 100
"""Problems of one TOML file that are reported; each is searched for in the text."""

_POSITION = re.compile(r" \(at line (\d+), column (\d+)\)")


class NotToml(Exception):
    """The text is not TOML: what is wrong, and where."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


def parse_toml(file: SourceFile) -> dict[str, Any]:
    """The tables of a text.

    Raises NotToml for what is no TOML, and for keys, numbers and nesting that no file of this tool
    needs and that would take the standard library's reader time in the square of their size. Cost:
    linear.
    """
    _require_plain(file)
    try:
        return tomllib.loads(file.text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        message = str(error)
    position = _POSITION.search(message)
    if position is None:
        raise NotToml(message, Span(file, len(file.text), len(file.text)))
    offset = file.line_starts()[int(position.group(1)) - 1] + int(position.group(2)) - 1
    raise NotToml(message[: position.start()], Span(file, offset, offset + 1))


def _require_plain(file: SourceFile) -> None:
    """Raises NotToml for keys of many parts, numbers of many digits, deep nesting."""
    text = _SKIPPED.sub(lambda match: "s" * len(match.group()), file.text)
    for pattern, what in (
        (_LONG_KEY, f"a key of more than {_MOST_PARTS} parts"),
        (_LONG_NUMBER, f"a number of more than {_MOST_DIGITS} digits"),
    ):
        match = pattern.search(text)
        if match is not None:
            raise NotToml(what, Span(file, match.start(), match.end()))
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket.group() in "[{" else -1
        if depth > _MOST_DEPTH:
            what = f"brackets nested more than {_MOST_DEPTH} deep"
            raise NotToml(what, Span(file, bracket.start(), bracket.end()))


def locate_table(file: SourceFile, name: str, number: int = 0) -> Span | None:
    """The header of table ``name``, or of the one with this number in an array of tables.

    Of a table that has tables in it and no header of its own it is the first of theirs.
    """
    found = _headers(file, name)
    if not found and number == 0:
        found = _headers(file, name, is_within=True)
    return found[number][0] if number < len(found) else None


def locate_key(file: SourceFile, table: str, key: str, number: int = 0) -> Span | None:
    """``key = value`` in a table (``""``: the top level); ``number`` as in locate_table."""
    if table:
        headers = _headers(file, table)
        if number >= len(headers):
            return None
        _, begin, end = headers[number]
    else:
        first = _HEADER.search(file.text)
        begin, end = 0, first.start() if first is not None else len(file.text)
    entry = re.compile(rf"^[ \t]*([\"']?{re.escape(key)}[\"']?[ \t]*=[^\n]*)", re.MULTILINE)
    match = entry.search(file.text, begin, end)
    return None if match is None else Span(file, match.start(1), match.end(1))


@lru_cache(maxsize=8)  # places of many entries of one table are asked for one after the other
def _headers(
    file: SourceFile, name: str, *, is_within: bool = False
) -> list[tuple[Span, int, int]]:
    """Each header of a table, or of those in it, with where its entries begin and end.

    Cost: linear in the text.
    """
    rows = list(_HEADER.finditer(file.text))
    ends = [*(row.start() for row in rows[1:]), len(file.text)]
    found = []
    for row, end in zip(rows, ends, strict=False):  # without a header there is an end too many
        parts = [part.strip().strip("\"'") for part in row.group(2).split(".")]
        whole = ".".join(parts)
        if whole.startswith(f"{name}.") if is_within else whole == name:
            found.append((Span(file, row.start(1), row.end(1)), row.end(), end))
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """``did you mean x? ``, if there is a name much like it, or only one that it begins."""
    # here: of a known word nothing is near
    from difflib import get_close_matches

    words = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), words, 1)
    if not found and len(name) >= _LEAST_BEGINNING:
        found = [one for one in words if one.startswith(name.lower())]
    return f"did you mean {words[found[0]]}? " if len(found) == 1 else ""
