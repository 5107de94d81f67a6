"""The report of parametric bounds as plain data, and its construction. Schema number 1.

Texts write a row with one step per period with ``ceil``, and any other as a table over the
remainder. A quotient that is rounded up keeps its whole part outside: ``1,234 + 5*K + ceil((7 +
3*K)/16)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from math import gcd
from typing import Annotated, Literal

from ptxwcet.bounds.formula import Formula, FormulaRow
from ptxwcet.claims import Guarantee, Refusal
from ptxwcet.commands.bound.formula import (
    LaunchFormula,
    OpenParameter,
    SymbolicAnswer,
    SymbolicBound,
)
from ptxwcet.commands.bound.report import AssumptionRow, assumption_rows, citation_texts
from ptxwcet.report.columns import NOTEBOOK, shown
from ptxwcet.report.head import (
    BlockHead,
    MachineHead,
    Refused,
    kernel_head,
    kernel_report,
    row_like,
)
from ptxwcet.support.records import dataclass
from ptxwcet.support.rounding import microseconds_of


def row_text(piece: FormulaRow, name: str) -> tuple[str, ...]:
    """Returns one line, or a table over remainders: a line that defines q and r, then its entries.

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
    """Returns a row that is constant but for one step a period; empty if it is not."""
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
    """Returns a line that defines q and r, then a line for each linear run of remainders."""
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
    """Returns the end of the linear run of remainders from ``begin``, and its slope."""
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
    """Returns a sum divided and rounded up, its whole part apart."""
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


@dataclass(frozen=True, slots=True)
class FormulaRowData:
    """Cycles for ``first <= K <= last``: ``values[r] + increments[r] * q``.

    With ``K = first + q * period + r`` and ``0 <= r < period``; divided by ``divisor`` and rounded
    up (1 where nothing is rounded). ``text`` says the same for people.
    """

    first: int = field(metadata=shown("from", only=NOTEBOOK))
    last: int = field(metadata=shown("to", only=NOTEBOOK))
    period: int
    values: tuple[int, ...]
    increments: tuple[int, ...]
    divisor: int
    text: tuple[str, ...] = field(
        metadata=shown("cycles", lambda row: "\n".join(row.text), only=NOTEBOOK)
    )


@dataclass(frozen=True, slots=True)
class SymbolicLaunch:
    """The bound of the whole launch as a function of the parameter; see SymbolicKernel."""

    guarantee: Annotated[str, Guarantee]
    assumptions: tuple[AssumptionRow, ...]
    rows: tuple[FormulaRowData, ...]
    largest_cycles: int
    largest_at: int
    microseconds: float


@dataclass(frozen=True, slots=True)
class SymbolicKernel(BlockHead):
    """A kernel's bound as a function of ``parameter``, which the user calls ``name``.

    For every number from ``low`` to ``high``; the largest bound is ``largest_cycles``, at
    ``largest_at``, in ``microseconds`` at the machine's clock. ``parameter`` is ``blocks`` for the
    number of blocks of the grid. ``launch`` bounds the launch, None without a grid;
    ``launch_not_bounded`` says why there is no formula though there is one.
    """

    parameter: str
    name: str
    low: int
    high: int
    method: str
    guarantee: Annotated[str, Guarantee]
    assumptions: tuple[AssumptionRow, ...]
    citations: tuple[str, ...]
    rows: tuple[FormulaRowData, ...]
    largest_cycles: int
    largest_at: int
    microseconds: float
    launch: SymbolicLaunch | None = None
    launch_not_bounded: str = ""
    status: Literal["bounded"] = "bounded"


@dataclass(frozen=True, slots=True)
class SymbolicReport(MachineHead):
    """Everything about one run with a parameter left open."""

    kernels: tuple[SymbolicKernel | Refused, ...]


def build_symbolic_report(answer: SymbolicAnswer) -> SymbolicReport:
    """Returns the report of a run."""
    return kernel_report(SymbolicReport, answer, partial(_bounded, answer.machine.clock_mhz))


def _bounded(clock_mhz: int, bound: SymbolicBound) -> SymbolicKernel:
    claim, parameter = bound.claim, bound.parameter
    return SymbolicKernel(
        *kernel_head(bound.kernel, bound.launch),
        bound.launch.warps,
        parameter=parameter.name,
        name=parameter.shown,
        low=parameter.low,
        high=parameter.high,
        method=claim.method,
        guarantee=claim.guarantee.value,
        assumptions=assumption_rows(claim),
        citations=citation_texts(claim),
        rows=_rows(bound.formula, parameter),
        largest_cycles=claim.cycles,
        largest_at=bound.largest_at,
        microseconds=microseconds_of(claim.cycles, clock_mhz),
        launch=_launch(bound.launch_formula, parameter, clock_mhz)
        if isinstance(bound.launch_formula, LaunchFormula)
        else None,
        launch_not_bounded=bound.launch_formula.reason
        if isinstance(bound.launch_formula, Refusal)
        else "",
    )


def _launch(launched: LaunchFormula, parameter: OpenParameter, clock_mhz: int) -> SymbolicLaunch:
    claim = launched.claim
    return SymbolicLaunch(
        claim.guarantee.value,
        assumption_rows(claim),
        _rows(launched.formula, parameter),
        claim.cycles,
        launched.largest_at,
        microseconds_of(claim.cycles, clock_mhz),
    )


def _rows(formula: Formula, parameter: OpenParameter) -> tuple[FormulaRowData, ...]:
    return tuple(
        row_like(FormulaRowData, row, text=row_text(row, parameter.shown)) for row in formula.rows
    )
