"""The report of parametric bounds as plain data, and how it is made. Schema number 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from ptxwcet.claims import Guarantee
from ptxwcet.report.formula_text import row_text
from ptxwcet.report.head import MachineHead, Refused, kernel_rows, machine_head, name_rows
from ptxwcet.report.model import AssumptionRow
from ptxwcet.studies.formula import SymbolicAnswer
from ptxwcet.studies.formula_search import SymbolicBound
from ptxwcet.support.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class FormulaRowData:
    """Cycles for ``first <= K <= last``: ``values[r] + increments[r] * q``.

    With ``K = first + q * period + r`` and ``0 <= r < period``. ``text`` says the same for people.
    """

    first: int
    last: int
    period: int
    values: tuple[int, ...]
    increments: tuple[int, ...]
    text: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SymbolicKernel:
    """A kernel's bound as a function of ``parameter``, which the user calls ``name``.

    For every number from ``low`` to ``high``; the largest bound is ``largest_cycles``, at
    ``largest_at``, in ``microseconds`` at the machine's clock.
    """

    kernel: str
    readable: str
    block: tuple[int, int, int]
    grid: tuple[int, int, int] | None
    parameters: tuple[tuple[str, int | float], ...]
    parameter_names: tuple[tuple[str, str], ...]
    warp_count: int
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
    status: Literal["bounded"] = "bounded"


@dataclass(frozen=True, slots=True)
class SymbolicReport(MachineHead):
    """Everything about one run with a parameter left open."""

    kernels: tuple[SymbolicKernel | Refused, ...]


def build_symbolic_report(
    answer: SymbolicAnswer, failures: list[Diagnostic] | None = None
) -> SymbolicReport:
    """The report of a run; deterministic for equal input.

    An internal error in a kernel's row makes a refusal of the row and is added to ``failures``.
    """
    row_of = partial(_bounded, answer.machine.clock_mhz)
    rows = kernel_rows(answer, lambda row: row.kernel, row_of, failures)
    return SymbolicReport(*machine_head(answer), rows)


def _bounded(clock_mhz: int, row: SymbolicBound) -> SymbolicKernel:
    claim, parameter = row.claim, row.parameter
    return SymbolicKernel(
        kernel=row.kernel.name,
        readable=row.kernel.readable,
        block=row.launch.block,
        grid=row.launch.grid,
        parameters=tuple(sorted(row.launch.parameters.items())),
        parameter_names=name_rows(row.launch),
        warp_count=row.launch.warps,
        parameter=parameter.name,
        name=parameter.shown,
        low=parameter.low,
        high=parameter.high,
        method=claim.method,
        guarantee=claim.guarantee.value,
        assumptions=tuple(
            AssumptionRow(a.key, a.text, a.state.value, a.source) for a in claim.assumptions
        ),
        citations=tuple(f"{citation.paper}, {citation.place}" for citation in claim.citations),
        rows=tuple(
            FormulaRowData(
                one.first,
                one.last,
                one.period,
                one.values,
                one.increments,
                row_text(one, parameter.shown),
            )
            for one in row.formula.rows
        ),
        largest_cycles=claim.cycles,
        largest_at=row.largest_at,
        microseconds=round(claim.cycles / clock_mhz, 3),
    )
