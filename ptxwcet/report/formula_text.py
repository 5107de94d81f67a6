"""A row of a formula in words that people use: ``1,234 + 56*ceil((K - 3)/32)``.

A row with one step a period is written with ``ceil``, any other as a table over the remainder.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.bounds.formula import FormulaRow


def row_text(row: FormulaRow, name: str) -> tuple[str, ...]:
    """One line; for a table over remainders a line that defines q and r, then one for each.

    Cost: linear in the period.
    """
    name = name if name.isidentifier() else f"[{name}]"
    if row.first == row.last:
        return (f"{row.at(row.first):,}",)
    if row.period == 1:
        slope = row.increments[0]
        return (_sum(row.at(row.first) - slope * row.first, slope, name),)
    return _staircase(row, name) or _table(row, name)


def _staircase(row: FormulaRow, name: str) -> tuple[str, ...]:
    """A row that is constant but for one step a period; empty if it is not."""
    step = row.increments[0]
    jumps = [
        number
        for number in range(row.first + 1, row.first + row.period + 1)
        if row.at(number) != row.at(number - 1)
    ]
    if len(jumps) != 1 or len(set(row.increments)) > 1:
        return ()
    rounds, offset = divmod(jumps[0] - 1, row.period)
    base = row.at(jumps[0]) - step * (rounds + 1)
    return (_sum(base, step, f"ceil({_fraction(name, offset, row.period)})"),)


def _table(row: FormulaRow, name: str) -> tuple[str, ...]:
    """Runs of remainders."""
    # the steepest step begins a round
    steps = {offset: abs(row.at(offset) - row.at(offset - 1)) for offset in range(row.period)}
    offset = max(steps, key=lambda one: (steps[one], -one))
    rest = f"({name} - {offset:,})" if offset else name
    lines = [
        f"with q = floor({_fraction(name, offset, row.period)}), r = {rest} mod {row.period:,}"
    ]
    values = [row.at(offset + r) for r in range(row.period)]
    increments = [row.at(offset + r + row.period) - values[r] for r in range(row.period)]
    begin = 0
    while begin < row.period:
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
