"""Collects the parser's diagnostics, and words each kind of syntax error."""

from __future__ import annotations

import re
from dataclasses import field

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from ptxwcet.ptx.grammar import directive_words, terminal_text
from ptxwcet.ptx.literals import LITERAL, LiteralError
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile, Span

MOST_PROBLEMS = 20
"""The limit of diagnostics for one file: enough to work on, few enough to read."""

_WORD = re.compile(r"[.@]?[A-Za-z0-9_$%]+|\S", re.ASCII)
_BAD_NUMBER = re.compile(r"-?\.?[0-9][A-Za-z0-9_.]*", re.ASCII)
_MOST_EXPECTED = 6


class TooManyProblemsError(Exception):
    """Raised by :meth:`Problems.add` when the file is not worth reading further."""


@dataclass(slots=True)
class Problems:
    """The errors in one file so far."""

    source: SourceFile
    found: list[Diagnostic] = field(default_factory=list)

    def in_order(self) -> list[Diagnostic]:
        """Returns the errors by their place in the file.

        A truncated file breaks its last statement too: then only the truncation is reported.
        """
        cut = max((e.span.end for e in self.found if e.code == "PW111" and e.span), default=0)
        told = [
            diagnostic
            for diagnostic in self.found
            if not (diagnostic.code != "PW111" and diagnostic.span and diagnostic.span.end == cut)
        ]
        return sorted(told, key=lambda error: error.span.start if error.span else 0)

    def add(self, code: str, message: str, place: tuple[int, int], help_text: str = "") -> None:
        """Adds an error at ``place`` (start, end). Raises TooManyProblemsError at the cap."""
        start, end = place
        span = Span(self.source, start, max(end, start + 1))
        self.found.append(Diagnostic(code, message, span, help=help_text or None))
        if len(self.found) >= MOST_PROBLEMS:
            raise TooManyProblemsError

    def add_unread(self, error: UnexpectedInput | LiteralError, start: int, end: int) -> int:
        """Reports why the text at a place cannot be read; returns the offset at fault."""
        if isinstance(error, LiteralError):
            self.add("PW107", str(error), (start, end))
            return end
        text, fault = self.source.text, _offset(error, start, end)
        code, message, help_text = _explain(text, (start, end), fault, error)
        word = _WORD.match(text, fault)
        place = fault, word.end() if word else fault + 1
        if code == "PW102":
            last = max(0, len(text[:fault].rstrip()) - 1)  # the last character before white space
            place = last, last + 1
        self.add(code, message, place, help_text)
        return fault


def _offset(error: UnexpectedInput, base: int, end: int) -> int:
    position = getattr(error, "pos_in_stream", None)
    is_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    if position is None or position < 0 or is_end:
        return end
    return base + int(position)


def _expected(error: UnexpectedInput) -> set[str]:
    if isinstance(error, UnexpectedCharacters):
        return set(error.allowed or ())
    if isinstance(error, UnexpectedToken):
        return set(error.accepts or error.expected)
    return set()


def _explain(
    text: str, statement: tuple[int, int], offset: int, error: UnexpectedInput
) -> tuple[str, str, str]:
    """Returns code, message and help for a syntax error at ``offset`` of a statement."""
    expected = _expected(error)
    word_match = _WORD.match(text, offset)
    word = word_match.group() if word_match and offset < statement[1] else ""
    number = _broken_number(text, statement[0], offset)
    if number is not None:
        return "PW107", f"malformed literal '{number}'", _number_help(number)
    if word[:1] == "." and offset == statement[0] and word not in directive_words():
        return "PW103", f"unknown directive '{word}'", _wanted(expected)
    on_new_line = not text[text.rfind("\n", 0, offset) + 1 : offset].strip()
    if "SEMICOLON" in expected and (on_new_line or word in ("", "}") or word[0] == "@"):
        return "PW102", "missing ';' at the end of the statement", "end the statement with ';'"
    if word == ";":
        return "PW101", "unexpected ';'", _wanted(expected)
    if "COMMA" in expected and (word[:1].isalnum() or word[:1] in tuple("%_${[")):
        return "PW101", f"missing ',' before '{word}'", "separate operands with ','"
    if word == "-" and "[" in text[statement[0] : offset]:
        return "PW101", "unexpected '-' in an address", "write a negative offset as [%r+-4]"
    if isinstance(error, UnexpectedToken) and isinstance(error.token, Token) and word:
        return "PW101", f"unexpected '{word}'", _wanted(expected)
    if not word:
        return "PW101", "the statement is incomplete", _wanted(expected)
    return "PW101", f"unexpected '{word}'", _wanted(expected)


def _wanted(expected: set[str]) -> str:
    words = sorted({terminal_text(name) for name in expected})
    if not words or len(words) > _MOST_EXPECTED:
        return ""
    return "expected " + " or ".join(words)


def _broken_number(text: str, begin: int, offset: int) -> str | None:
    """Returns the malformed literal that ends in or begins at ``offset``, or None."""
    start = offset
    while start > begin and (text[start - 1].isalnum() or text[start - 1] in "._$%"):
        start -= 1
    if text[start : start + 1] == "." and not text[start + 1 : start + 2].isdigit():
        return None
    number = _BAD_NUMBER.match(text, start)
    if number is None or number.end() <= offset:
        return None
    whole = LITERAL.match(number.group())
    return None if whole is not None and whole.end() == len(number.group()) else number.group()


def _number_help(number: str) -> str:
    prefix = number[:2].lower()
    if prefix == "0f":
        return "0f is followed by exactly 8 hexadecimal digits"
    if prefix == "0d":
        return "0d is followed by exactly 16 hexadecimal digits"
    if number[:1] == "0" and number[1:].isdigit():
        return "a leading 0 makes a literal octal: digits 0 to 7 only"
    return "integers take no suffix but U, floats none at all"
