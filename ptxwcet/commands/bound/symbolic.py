"""The report of parametric bounds as plain data, and how it is made. Schema number 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from ptxwcet.bounds.formula import Formula
from ptxwcet.claims import Guarantee, Refusal
from ptxwcet.commands.bound.formula import SymbolicAnswer
from ptxwcet.commands.bound.formula_search import LaunchFormula, OpenParameter, SymbolicBound
from ptxwcet.commands.bound.formula_text import row_text
from ptxwcet.commands.bound.report import AssumptionRow, assumption_rows
from ptxwcet.report.head import (
    BlockHead,
    MachineHead,
    Refused,
    kernel_head,
    kernel_rows,
    machine_head,
)
from ptxwcet.support.rounding import microseconds_of


@dataclass(frozen=True, slots=True)
class FormulaRowData:
    """Cycles for ``first <= K <= last``: ``values[r] + increments[r] * q``.

    With ``K = first + q * period + r`` and ``0 <= r < period``; divided by ``divisor`` and rounded
    up (1 where nothing is rounded). ``text`` says the same for people.
    """

    first: int
    last: int
    period: int
    values: tuple[int, ...]
    increments: tuple[int, ...]
    divisor: int
    text: tuple[str, ...]


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
    """The report of a run; deterministic for equal input.

    An internal error in a kernel's row makes a refusal of the row.
    """
    row_of = partial(_bounded, answer.machine.clock_mhz)
    rows = kernel_rows(answer, lambda row: row.kernel, row_of)
    return SymbolicReport(*machine_head(answer), rows)


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
        citations=tuple(f"{citation.paper}, {citation.place}" for citation in claim.citations),
        rows=_rows(bound.formula, parameter),
        largest_cycles=claim.cycles,
        largest_at=bound.largest_at,
        microseconds=microseconds_of(claim.cycles, clock_mhz),
        launch=_launch(bound.launched, parameter, clock_mhz)
        if isinstance(bound.launched, LaunchFormula)
        else None,
        launch_not_bounded=bound.launched.reason if isinstance(bound.launched, Refusal) else "",
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
        FormulaRowData(
            one.first,
            one.last,
            one.period,
            one.values,
            one.increments,
            one.divisor,
            row_text(one, parameter.shown),
        )
        for one in formula.rows
    )
