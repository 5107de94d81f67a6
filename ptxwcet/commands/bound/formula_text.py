"""A row of a formula in words that people use: ``1,234 + 56*ceil((K - 3)/32)``.

A row with one step a period is written with ``ceil``, any other as a table over the remainder. What
is divided and rounded up keeps its whole part outside: ``1,234 + 5*K + ceil((7 + 3*K)/16)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ptxwcet.bounds.formula import FormulaRow


def row_text(piece: FormulaRow, name: str) -> tuple[str, ...]:
    """One line, or a table over remainders: a line that defines q and r, then its entries.

    Cost: linear in the period.
    """
    name = name if name.isidentifier() else f"[{name}]"
    if piece.first == piece.last:
        return (f"{piece.at(piece.first):,}",)
    if piece.period == 1:
        slope = piece.increments[0]
        return (
            _sum(piece.parts(piece.first) - slope * piece.first, ((slope, name),), piece.divisor),
        )
    return _staircase(piece, name) or _table(piece, name)


def _staircase(piece: FormulaRow, name: str) -> tuple[str, ...]:
    """A row that is constant but for one step a period; empty if it is not."""
    step = piece.increments[0]
    jumps = [
        number
        for number in range(piece.first + 1, piece.first + piece.period + 1)
        if piece.parts(number) != piece.parts(number - 1)
    ]
    if len(jumps) != 1 or len(set(piece.increments)) > 1:
        return ()
    rounds, offset = divmod(jumps[0] - 1, piece.period)
    base = piece.parts(jumps[0]) - step * (rounds + 1)
    stairs = f"ceil({_fraction(name, offset, piece.period)})"
    return (_sum(base, ((step, stairs),), piece.divisor),)


def _table(piece: FormulaRow, name: str) -> tuple[str, ...]:
    """A line that defines q and r, then one for each run of remainders with a linear value."""
    # the steepest step begins a round
    places = range(piece.period)
    steps = {offset: abs(piece.parts(offset) - piece.parts(offset - 1)) for offset in places}
    offset = max(steps, key=lambda place: (steps[place], -place))
    arg = f"({name} - {offset:,})" if offset else name
    lines = [
        f"with q = floor({_fraction(name, offset, piece.period)}), r = {arg} mod {piece.period:,}"
    ]
    values = [piece.parts(offset + r) for r in places]
    increments = [piece.parts(offset + r + piece.period) - values[r] for r in places]
    begin = 0
    while begin < piece.period:
        end, slope = _run(values, increments, begin)
        where = f"r = {begin:,}" if end == begin + 1 else f"r = {begin:,} to {end - 1:,}"
        base = values[begin] - slope * begin
        text = _sum(base, ((slope, "r"), (increments[begin], "q")), piece.divisor)
        lines.append(f"{where}: {text}")
        begin = end
    return tuple(lines)


def _run(values: Sequence[int], increments: Sequence[int], begin: int) -> tuple[int, int]:
    """The end of the linear run of remainders from ``begin``, and its slope."""
    slope = values[begin + 1] - values[begin] if begin + 1 < len(values) else 0
    end = begin + 1
    while (
        end < len(values)
        and values[end] - values[end - 1] == slope
        and increments[end] == increments[begin]
    ):
        end += 1
    return (begin + 1, 0) if slope and end - begin < 3 else (end, slope)


def _fraction(name: str, offset: int, period: int) -> str:
    return f"({name} - {offset:,})/{period:,}" if offset else f"{name}/{period:,}"


_Terms = Sequence[tuple[int, str]]


def _sum(base: int, terms: _Terms, divisor: int) -> str:
    """A sum divided and rounded up, its whole part apart."""
    shared = gcd(divisor, *(size for size, _ in terms))
    base, divisor = -(-base // shared), divisor // shared
    terms = [(size // shared, factor) for size, factor in terms]
    if divisor == 1:
        return _plain_sum(base, terms)
    whole = _plain_sum(base // divisor, [(size // divisor, factor) for size, factor in terms])
    rest = _plain_sum(base % divisor, [(size % divisor, factor) for size, factor in terms])
    rounded = f"ceil(({rest})/{divisor:,})" if " " in rest else f"ceil({rest}/{divisor:,})"
    return rounded if whole == "0" else f"{whole} + {rounded}"


def _plain_sum(base: int, terms: _Terms) -> str:
    text = "".join(_term(size, factor) for size, factor in terms)
    if base or not text:
        return f"{base:,}{text}"
    return text[3:] if text.startswith(" + ") else f"{base:,}{text}"


def _term(slope: int, factor: str) -> str:
    if not slope:
        return ""
    sign, size = ("+", slope) if slope > 0 else ("-", -slope)
    return f" {sign} {factor}" if size == 1 else f" {sign} {size:,}*{factor}"
