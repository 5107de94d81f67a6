"""Locates the entries of a TOML text: the standard library reads values without their places.

Only the ordinary layout is recognised: table headers on lines of their own, ``key = value`` below
them. Any other layout has no place, and a message then names only the file.
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
_LEAST_BEGINNING = 3  # letters of a name that are enough to recognise it
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
"""The most problems of one TOML file that are reported; each is searched for in the text."""

_POSITION = re.compile(r" \(at line (\d+), column (\d+)\)")


class NotToml(Exception):
    """The error of a text that is not TOML: its problem, and its place."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


def parse_toml(file: SourceFile) -> dict[str, Any]:
    """Returns the tables of a text.

    Raises NotToml for a text that is not TOML, and for keys, numbers and nesting that no file of
    this tool needs and that would take the standard library's reader time in the square of their
    size. Cost: linear.
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
    for pattern, problem in (
        (_LONG_KEY, f"a key of more than {_MOST_PARTS} parts"),
        (_LONG_NUMBER, f"a number of more than {_MOST_DIGITS} digits"),
    ):
        match = pattern.search(text)
        if match is not None:
            raise NotToml(problem, Span(file, match.start(), match.end()))
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket.group() in "[{" else -1
        if depth > _MOST_DEPTH:
            problem = f"brackets nested more than {_MOST_DEPTH} deep"
            raise NotToml(problem, Span(file, bracket.start(), bracket.end()))


def locate_table(file: SourceFile, name: str, number: int = 0) -> Span | None:
    """Returns the header of table ``name``, or of the one with this number in an array of tables.

    For a table that has tables in it and no header of its own it is the first of theirs.
    """
    headers = _headers(file, name)
    if not headers and number == 0:
        headers = _headers(file, name, is_within=True)
    return headers[number][0] if number < len(headers) else None


def locate_key(file: SourceFile, table: str, key: str, number: int = 0) -> Span | None:
    """Returns ``key = value`` in a table (``""``: the top level); ``number`` as in locate_table."""
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


@lru_cache(maxsize=8)  # Places of many entries of one table are requested in sequence.
def _headers(
    file: SourceFile, name: str, *, is_within: bool = False
) -> list[tuple[Span, int, int]]:
    """Returns each header of a table, or of those in it, with the range of its entries.

    Cost: linear in the text.
    """
    matches = list(_HEADER.finditer(file.text))
    ends = [*(match.start() for match in matches[1:]), len(file.text)]
    headers = []
    for match, end in zip(matches, ends, strict=False):  # without a header there is an end too many
        parts = [part.strip().strip("\"'") for part in match.group(2).split(".")]
        whole = ".".join(parts)
        if whole.startswith(f"{name}.") if is_within else whole == name:
            headers.append((Span(file, match.start(1), match.end(1)), match.end(), end))
    return headers


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns ``did you mean x? ``, if there is a similar name, or a single one that it begins."""
    # Imported here because a known word needs no similar one.
    from difflib import get_close_matches

    words = {word.lower(): word for word in known}
    similar = get_close_matches(name.lower(), words, 1)
    if not similar and len(name) >= _LEAST_BEGINNING:
        similar = [word for word in words if word.startswith(name.lower())]
    return f"did you mean {words[similar[0]]}? " if len(similar) == 1 else ""
