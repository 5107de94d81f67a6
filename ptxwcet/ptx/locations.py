"""Source lines: what ``.loc`` directives say, and the inlining behind them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ptxwcet.ir.kernel import Directive, Origin, SourceLocation
from ptxwcet.ptx.grammar import parse_rule
from ptxwcet.ptx.literals import integer_value
from ptxwcet.ptx.shapes import slot_tokens
from ptxwcet.ptx.statements import canonical
from ptxwcet.support.source import SourceFile

_DIGITS = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"(?<![\w$%.])(?:0|[1-9][0-9]*)(?![\w$.])", re.ASCII)


@dataclass(slots=True)
class LocationCache:
    """``.loc`` directives by shape, digits being the slots. A file may have one per instruction.

    A shape's value is how many integers it has, and whether only tabs keep it from being canonical.
    """

    _shapes: dict[str, tuple[int, bool]] = field(default_factory=dict)
    _read: dict[str, tuple[list[int], Directive]] = field(default_factory=dict)

    def read(self, text: str) -> tuple[list[int], Directive]:
        """The integers of the directive, and how to print it.

        Raises lark.UnexpectedInput. Cost: about 3 microseconds for a known shape.
        """
        found = self._read.get(text)
        if found is None:
            numbers, line = self._parse(text)
            found = self._read[text] = numbers, Directive(".loc", line)
        return found

    def _parse(self, text: str) -> tuple[list[int], str]:
        shape = _DIGITS.sub("0", text)
        cached = self._shapes.get(shape)
        numbers = _NUMBER.findall(text)
        if cached is None or len(numbers) != cached[0]:
            tree = parse_rule(text, "declaration")
            count = sum(token.type == "INT" for token in slot_tokens(tree))
            if len(numbers) != count:  # hexadecimal, octal: keep out of the cache
                values = [integer_value(t) for t in slot_tokens(tree) if t.type == "INT"]
                return values, canonical(text)
            cached = self._shapes[shape] = (count, canonical(shape) == shape.replace("\t", " "))
        line = text.replace("\t", " ") if cached[1] else canonical(text)
        return [integer_value(number) for number in numbers], line


@dataclass(slots=True)
class Locations:
    """The ``.loc`` directives of one function; ``files`` are the names that ``.file`` gives,
    each with what to call it.

    ``known`` maps the texts seen so far to their meaning; the parser's inner loop reads it.
    """

    source: SourceFile
    files: Mapping[int, tuple[str, str]]
    cache: LocationCache
    known: dict[str, tuple[Origin, Directive]] = field(default_factory=dict)
    _places: dict[tuple[int, int, int], SourceLocation] = field(default_factory=dict)

    def read(self, text: str) -> tuple[Origin, Directive]:
        """What the directive means for the instructions behind it, and how to print it.

        Raises lark.UnexpectedInput, LiteralError.
        """
        numbers, directive = self.cache.read(text)
        found = self.known[text] = Origin(self.source, self._location(numbers)), directive
        return found

    def _location(self, numbers: list[int]) -> SourceLocation:
        """From file, line, column and, behind them, those of the place that it was inlined at.

        That place is one that an earlier ``.loc`` named; if it was inlined too, the chain goes on.
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
