"""The report of parametric bounds as plain data, and how it is made. Schema number 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from ptxwcet.claims import AssumptionState, Guarantee
from ptxwcet.report.build import name_rows, refused_row, row_or_refusal
from ptxwcet.report.formula_text import row_text
from ptxwcet.report.model import AssumptionRow, MachineRow, Refused
from ptxwcet.studies.formula import SymbolicAnswer
from ptxwcet.studies.formula_search import SymbolicBound
from ptxwcet.studies.opening import RefusedKernel
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.version import VERSION

SCHEMA: Final = 1


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
class SymbolicReport:
    """Everything about one run with a parameter left open."""

    schema: Literal[1]
    tool: str
    version: str
    file: str
    sha256: str
    machine: MachineRow
    kernels: tuple[SymbolicKernel | Refused, ...]


def build_symbolic_report(
    answer: SymbolicAnswer, failures: list[Diagnostic] | None = None
) -> SymbolicReport:
    """The report of a run; deterministic for equal input.

    An internal error in a kernel's row makes a refusal of the row and is added to ``failures``.
    """
    machine = answer.machine
    by_definition = tuple(
        a.key for a in machine.satisfies if a.state is AssumptionState.BY_DEFINITION
    )
    return SymbolicReport(
        SCHEMA,
        "ptxwcet",
        VERSION,
        answer.path,
        answer.sha256,
        MachineRow(
            machine.name,
            machine.description,
            machine.memory_latency_cycles,
            machine.clock_mhz,
            by_definition,
        ),
        tuple(
            refused_row(row)
            if isinstance(row, RefusedKernel)
            else row_or_refusal(row.kernel, partial(_bounded, row, machine.clock_mhz), failures)
            for row in answer.kernels
        ),
    )


def _bounded(row: SymbolicBound, clock_mhz: int) -> SymbolicKernel:
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
