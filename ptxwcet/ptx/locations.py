"""Source lines: what ``.loc`` directives say, and the inlining behind them."""

from __future__ import annotations

import re
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

    A shape's value is its canonical text cut at the digits, and how many integers it has.
    """

    _shapes: dict[str, tuple[list[str], int]] = field(default_factory=dict)

    def read(self, text: str) -> tuple[list[int], str]:
        """The integers of the directive (without ``+n``) and its canonical text.

        Raises lark.UnexpectedInput. Cost: about 3 microseconds for a known shape.
        """
        shape = _DIGITS.sub("0", text)
        known = self._shapes.get(shape)
        numbers = _NUMBER.findall(text)
        if known is None or len(numbers) != known[1]:
            tree = parse_rule(text, "declaration")
            count = sum(token.type == "INT" for token in slot_tokens(tree))
            if len(numbers) != count:  # hexadecimal, octal: keep out of the cache
                values = [integer_value(t) for t in slot_tokens(tree) if t.type == "INT"]
                return values, canonical(text)
            known = self._shapes[shape] = (canonical(shape).split("0"), count)
        pieces = [""] * (2 * len(known[0]) - 1)
        pieces[::2] = known[0]
        pieces[1::2] = _DIGITS.findall(text)
        return [int(number) for number in numbers], "".join(pieces)


@dataclass(slots=True)
class Locations:
    """The ``.loc`` directives of one function; ``files`` are the names that ``.file`` gives."""

    source: SourceFile
    files: dict[int, str]
    cache: LocationCache
    _known: dict[str, tuple[Origin, Directive]] = field(default_factory=dict)
    _places: dict[tuple[int, int, int], SourceLocation] = field(default_factory=dict)

    def read(self, text: str) -> tuple[Origin, Directive]:
        """What the directive means for the instructions behind it, and how to print it.

        Raises lark.UnexpectedInput, LiteralError.
        """
        known = self._known.get(text)
        if known is None:
            numbers, line = self.cache.read(text)
            origin = Origin(self.source, self._location(numbers))
            known = self._known[text] = origin, Directive(".loc", line)
        return known

    def _location(self, numbers: list[int]) -> SourceLocation:
        """From file, line, column and, behind them, those of the place that it was inlined at.

        That place is one that an earlier ``.loc`` named; if it was inlined too, the chain goes on.
        """
        outer: SourceLocation | None = None
        if len(numbers) > 3:
            file, line, column = numbers[-3:]
            outer = self._places.get((file, line, column))
            if outer is None:
                outer = SourceLocation(self._file(file), line, column)
        file, line, column = numbers[:3]
        location = SourceLocation(self._file(file), line, column, outer)
        self._places[file, line, column] = location
        return location

    def _file(self, number: int) -> str:
        return self.files.get(number, f"file {number}")
