"""A row of a formula in words that people use: ``1,234 + 56*ceil((K - 3)/32)``.

A row with one step a period is written with ``ceil``, any other as a table over the remainder.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.bounds.formula import FormulaRow


def row_text(piece: FormulaRow, name: str) -> tuple[str, ...]:
    """One line; for a table over remainders a line that defines q and r, then one for each.

    Cost: linear in the period.
    """
    name = name if name.isidentifier() else f"[{name}]"
    if piece.first == piece.last:
        return (f"{piece.at(piece.first):,}",)
    if piece.period == 1:
        slope = piece.increments[0]
        return (_sum(piece.at(piece.first) - slope * piece.first, slope, name),)
    return _staircase(piece, name) or _table(piece, name)


def _staircase(piece: FormulaRow, name: str) -> tuple[str, ...]:
    """The text of a formula that is constant but for one step a period; empty for any other."""
    step = piece.increments[0]
    jumps = [
        number
        for number in range(piece.first + 1, piece.first + piece.period + 1)
        if piece.at(number) != piece.at(number - 1)
    ]
    if len(jumps) != 1 or len(set(piece.increments)) > 1:
        return ()
    rounds, offset = divmod(jumps[0] - 1, piece.period)
    base = piece.at(jumps[0]) - step * (rounds + 1)
    return (_sum(base, step, f"ceil({_fraction(name, offset, piece.period)})"),)


def _table(piece: FormulaRow, name: str) -> tuple[str, ...]:
    """A line that defines q and r, then one for each run of remainders on one straight line."""
    # the steepest step begins a round
    steps = {offset: abs(piece.at(offset) - piece.at(offset - 1)) for offset in range(piece.period)}
    offset = max(steps, key=lambda candidate: (steps[candidate], -candidate))
    rest = f"({name} - {offset:,})" if offset else name
    lines = [
        f"with q = floor({_fraction(name, offset, piece.period)}), r = {rest} mod {piece.period:,}"
    ]
    values = [piece.at(offset + r) for r in range(piece.period)]
    increments = [piece.at(offset + r + piece.period) - values[r] for r in range(piece.period)]
    begin = 0
    while begin < piece.period:
        end, slope = _run(values, increments, begin)
        where = f"r = {begin:,}" if end == begin + 1 else f"r = {begin:,} to {end - 1:,}"
        text = _sum(values[begin] - slope * begin, slope, "r")
        lines.append(f"{where}: {text}{_term(increments[begin], 'q')}")
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


def _sum(base: int, slope: int, factor: str) -> str:
    if not slope:
        return f"{base:,}"
    if not base and slope > 0:
        return _term(slope, factor)[3:]
    return f"{base:,}{_term(slope, factor)}"


def _term(slope: int, factor: str) -> str:
    if not slope:
        return ""
    sign, size = ("+", slope) if slope > 0 else ("-", -slope)
    return f" {sign} {factor}" if size == 1 else f" {sign} {size:,}*{factor}"
