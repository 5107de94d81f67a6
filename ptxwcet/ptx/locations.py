"""Reads source lines: the content of ``.loc`` directives, and the inlining that they describe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from ptxwcet.ir.kernel import Directive, Origin, SourceLocation
from ptxwcet.ptx.grammar import parse_rule, tokens
from ptxwcet.ptx.literals import integer_value
from ptxwcet.ptx.statements import canonical
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile

_NUMBER = "(0|[1-9][0-9]{0,17})"
_THREE = rf"{_NUMBER}[ \t]{_NUMBER}[ \t]{_NUMBER}"
_NAME = r"(?:[A-Za-z][\w$]*|[_$%][\w$]+)(?:\+(?:0|[1-9][0-9]{0,17}))?"
_PLAIN = re.compile(
    rf"\.loc[ \t]{_THREE}(?:, function_name {_NAME}, inlined_at {_THREE})?\Z", re.ASCII
)
"""The directive as compilers write it, spaced as it is printed."""


@dataclass(slots=True)
class LocationCache:
    """The content of the ``.loc`` directives of a file; each instruction may have one."""

    _read: dict[str, tuple[list[int], Directive]] = field(default_factory=dict)

    def read(self, text: str) -> tuple[list[int], Directive]:
        """Returns the integers of the directive, and its printed form.

        Raises lark.UnexpectedInput. Cost: about 3 microseconds, except for unusual spellings.
        """
        content = self._read.get(text)
        if content is None:
            plain = _PLAIN.match(text)
            if plain is None:
                tree = parse_rule(text, "declaration")
                numbers = [integer_value(token) for token in tokens(tree) if token.type == "INT"]
                line = canonical(text)
            else:
                numbers = [int(number) for number in plain.groups() if number is not None]
                line = text.replace("\t", " ")
            content = self._read[text] = numbers, Directive(".loc", line)
        return content


@dataclass(slots=True)
class Locations:
    """The ``.loc`` directives of one function; ``files`` are the ``.file`` names, with readable
    ones.

    ``known`` maps the texts seen so far to their meaning; the parser's inner loop reads it.
    """

    source: SourceFile
    files: Mapping[int, tuple[str, str]]
    cache: LocationCache
    known: dict[str, tuple[Origin, Directive]] = field(default_factory=dict)
    _places: dict[tuple[int, int, int], SourceLocation] = field(default_factory=dict)

    def read(self, text: str) -> tuple[Origin, Directive]:
        """Returns the origin of the instructions after the directive, and its printed form.

        Raises lark.UnexpectedInput, LiteralError.
        """
        numbers, directive = self.cache.read(text)
        meaning = self.known[text] = Origin(self.source, self._location(numbers)), directive
        return meaning

    def _location(self, numbers: list[int]) -> SourceLocation:
        """Returns the location for file, line and column, followed by the place of inlining.

        An earlier ``.loc`` named that place; if it was inlined too, the chain continues.
        """
        outer: SourceLocation | None = None
        if len(numbers) > 3:
            file, line, column = numbers[-3:]
            outer = self._places.get((file, line, column))
            if outer is None:
                outer = self._place(file, line, column, None)
        file, line, column = numbers[:3]
        location = self._place(file, line, column, outer)
        self._places[file, line, column] = location
        return location

    def _place(
        self, number: int, line: int, column: int, outer: SourceLocation | None
    ) -> SourceLocation:
        file, readable = self.files.get(number, (f"file {number}", ""))
        return SourceLocation(file, line, column, outer, readable)
