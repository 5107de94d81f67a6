"""Finds the extent of statements: regular expressions and scans that split a PTX text.

They only split: the grammar defines the content of a statement. Comments and white space between
statements are skipped here; inside a statement Lark ignores them.
"""

from __future__ import annotations

import re

from ptxwcet.support.comments import COMMENT, LINE_MARKER

SKIP = rf"(?:[ \t\r\n\f\v]++|{COMMENT})*+"

_NAME = r"(?:[A-Za-z][\w$]*+|[_$%][\w$]++)"
_TABLE = r"\.(?:branchtargets|callprototype|calltargets)\b"
_LOCATION = (
    rf"\.loc\b(?:{SKIP}[0-9]\w*+){{0,3}}+"
    rf"(?:{SKIP},{SKIP}function_name\b[^;{{}}]*?inlined_at(?:{SKIP}[0-9]\w*+){{0,3}}+)?+"
)

STATEMENT = re.compile(
    rf"""{SKIP}(?:
      (@\s*+!?+\s*+{_NAME}(?=[\s]))?+\s*+
        ([a-z][\w$]*+(?:(?:\.|::)\w++)*+)\s*+
        ([^;{{}}/"\#:@]*+(?:\{{[^;{{}}/"\#:@]*+\}}[^;{{}}/"\#:@]*+)*+);
    | ({_LOCATION})
    | ({_NAME}{SKIP}:{SKIP}{_TABLE}[^;{{}}"]*+;)
    | ({_NAME}){SKIP}:(?!:)
    | ([{{}}])
    | (\.[A-Za-z][^;{{}}"/\#]*+;)
    | ([^\s])
    | \Z
    )""",
    re.VERBOSE | re.ASCII,
)
"""The next statement of a body. Groups: 1 guard, 2 mnemonic, 3 operands of an instruction; 4 .loc;
5 a table with its label; 6 a label; 7 a brace; 8 a directive; 9 the first character of a statement
that needs a closer look; no group at the end of the text. It matches everywhere: a search that
skips text would visit white space once for each of its characters."""

INSTRUCTION, LOCATION, TABLE, LABEL, BRACE, DIRECTIVE = 3, 4, 5, 6, 7, 8

_SKIP = re.compile(SKIP)
_OUTSIDE = re.compile(rf'"[^"\n]*+"|{COMMENT}')
_PUNCTUATION = re.compile(rf'"[^"\n]*+"|{COMMENT}|[;{{}}]')
_BRACES = re.compile(rf'"[^"\n]*+"|{COMMENT}|[{{}}]')

LONGEST_STATEMENT = 1 << 16
"""The most characters of an instruction; real ones stay below 2,000."""


def line_marker_end(text: str, offset: int) -> int:
    """Returns the end of the ``# 1 "x.cu"`` line at ``offset``, -1 if it is not on its own line."""
    if text[offset : offset + 1] != "#":
        return -1
    if text[text.rfind("\n", 0, offset) + 1 : offset].strip(" \t"):
        return -1
    match = LINE_MARKER.match(text, offset)
    return -1 if match is None else match.end()


def stray_character(text: str) -> int:
    """Returns the offset of a NUL, or a vertical tab outside comments and strings, or -1.

    ptxas refuses both.
    """
    if "\v" not in text or "\0" in text:
        return text.find("\0")
    return _OUTSIDE.sub(lambda match: " " * len(match.group()), text).find("\v")


def skip(text: str, position: int) -> int:
    """Returns the offset past white space, comments and line markers."""
    while True:
        match = _SKIP.match(text, position)
        assert match is not None
        position = match.end()
        marker = line_marker_end(text, position)
        if marker < 0:
            return position
        position = marker


def statement_end(text: str, start: int) -> tuple[int, bool]:
    """Returns the end of the statement at ``start``, and whether a semicolon ends it.

    The end is past the semicolon, else at the closing brace of an enclosing block, else the end of
    the text. Cost: linear in the statement.
    """
    depth = 0
    for match in _PUNCTUATION.finditer(text, start):
        character = match.group()
        if character == ";":
            return match.end(), True
        if character == "{":
            depth += 1
        elif character == "}":
            if depth == 0:
                return match.start(), False
            depth -= 1
    return len(text), False


def matching_brace(text: str, start: int) -> int:
    """Returns the offset past the ``}`` for the ``{`` at ``start``, else the end of the text."""
    depth = 0
    for match in _BRACES.finditer(text, start):
        character = match.group()
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return match.end()
    return len(text)


_UNCLOSED = re.compile(r'"[^"\n]*+"|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|(\Z))', re.ASCII)


def unclosed_comment(text: str) -> int:
    """Returns the start of a comment without an end, or -1. Cost: linear.

    The other patterns would search for its end again from every later ``/*``.
    """
    unclosed = next((match for match in _UNCLOSED.finditer(text) if match.lastindex), None)
    return -1 if unclosed is None else unclosed.start()


_SPACES = re.compile(rf"(?:\s|{COMMENT})++")
_PADDED = re.compile(r" ?([,;:(){}\[\]<>=+]) ?")


def canonical(text: str) -> str:
    """Returns a directive's text on one line, without comments and with uniform spacing."""
    pieces = re.split(r'("[^"\n]*")', text)
    for index in range(0, len(pieces), 2):
        pieces[index] = _SPACES.sub(" ", pieces[index])
    line = "".join(pieces).strip()
    pieces = re.split(r'("[^"\n]*")', line)
    for index in range(0, len(pieces), 2):
        pieces[index] = _PADDED.sub(_pad, pieces[index])
    return "".join(pieces).strip()


def _pad(match: re.Match[str]) -> str:
    mark = match.group(1)
    return mark + " " if mark in ",:" else mark
