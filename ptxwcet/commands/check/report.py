"""The report of a plan of checks, as plain data.

Schema number 1. A row depends only on its job and on the answer to its request (:func:`judged`),
whichever process analysed it, now or earlier; rows are in the order of the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from enum import Enum
from pathlib import Path
from typing import Annotated

from ptxwcet.claims import Guarantee
from ptxwcet.commands.bound.answers import KeptAnswer, answer_kernel, died
from ptxwcet.commands.bound.build import failed_of, with_verdict
from ptxwcet.commands.bound.report import BoundedKernel
from ptxwcet.commands.check.study import CheckJob, Plan, cached_answers, run_each
from ptxwcet.opened.budgets import BLOCK, KERNEL
from ptxwcet.report.columns import NOTEBOOK, TEXT, shown
from ptxwcet.report.head import (
    DiagnosticRow,
    Refused,
    ReportHead,
    diagnostic_row,
    report_head,
)
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.printable import printable_line
from ptxwcet.support.records import dataclass
from ptxwcet.support.rounding import time_text


class Outcome(Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"  # bounded, but over the budget or with too weak a guarantee
    REFUSED = "refused"  # no bound


_SHOWN = {"passed": "ok", "failed": "FAILED", "refused": "REFUSED"}


def bound_of(answer: BoundedKernel) -> tuple[str, int, float, str]:
    """Returns the bound that a check judges: its kind, cycles, microseconds and guarantee."""
    launch, budget = answer.launch, answer.budget
    if launch is None or (budget is not None and budget.of == BLOCK):
        return BLOCK, answer.bound_cycles, answer.microseconds, answer.guarantee
    return KERNEL, launch.cycles, launch.microseconds, launch.guarantee


@dataclass(frozen=True, slots=True)
class CheckedKernel:
    """A kernel of a plan on a machine: its bound with the verdict on its budget, or its refusal.

    ``check`` is the number of its table in the plan, ``line`` where that begins. ``launch`` is the
    launch as the plan says it. ``required`` is the weakest guarantee that passes; ``failed`` are
    the checks that a bounded kernel does not pass.
    """

    check: int
    line: int | None
    file: str = field(
        metadata=shown("kernel", lambda row: printable_line(row.answer.readable or row.file))
    )
    machine: str = field(metadata=shown("machine", lambda row: printable_line(row.machine), at=1))
    launch: str = field(metadata=shown("launch", lambda row: printable_line(row.launch)))
    outcome: Annotated[str, Outcome] = field(
        metadata=shown("", lambda row: _SHOWN.get(row.outcome), only=TEXT, at=-1)
        | shown("", only=NOTEBOOK, at=-1)
    )
    required: Annotated[str, Guarantee]
    answer: BoundedKernel | Refused = field(
        metadata=shown("bound", lambda row: row.cells[0], is_right=True, only=TEXT, at=2)
        | shown("", lambda row: row.cells[1], is_right=True, only=TEXT, at=2)
        | shown("budget", lambda row: row.cells[2], only=TEXT, at=2)
        | shown("claim", lambda row: row.cells[3], only=TEXT, at=2)
        | shown("cycles", lambda row: row.cycles, only=NOTEBOOK, at=2)
        | shown("budget", lambda row: row.budget, only=NOTEBOOK, at=2)
    )
    failed: tuple[DiagnosticRow, ...]

    @property
    def problems(self) -> tuple[DiagnosticRow, ...]:
        """Why the check did not pass."""
        return self.answer.diagnostics if isinstance(self.answer, Refused) else self.failed

    @property
    def cycles(self) -> int | None:
        """The bound of the launch, or of a block if there is no launch; None without a bound."""
        if isinstance(self.answer, Refused):
            return None
        launch = self.answer.launch
        return self.answer.bound_cycles if launch is None else launch.cycles

    @property
    def budget(self) -> str | None:
        """The budget as it was given; None without a bound or a budget."""
        limit = None if isinstance(self.answer, Refused) else self.answer.budget
        return None if limit is None else limit.budget

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The bound, its time, its verdict on the budget or why it is refused, and its claim."""
        if isinstance(self.answer, Refused):
            return "", "", f"[{self.answer.diagnostics[0].code}]", ""
        limit, (of, cycles, time, guarantee) = self.answer.budget, bound_of(self.answer)
        verdict = "" if limit is None else f"{limit.verdict} {limit.budget}"
        return f"{cycles:,}{' a block' * (of == BLOCK)}", time_text(time), verdict, guarantee

    @property
    def name(self) -> str:
        """What to call it: the kernel if that is known, launch and machine."""
        kernel = self.answer.readable or self.file
        return f"{kernel} [{self.launch or 'no launch'}] on {self.machine}"


@dataclass(frozen=True, slots=True)
class CheckReport(ReportHead):
    """All checks of a plan, whose SHA-256 is in hexadecimal, in its order; how many ended how."""

    plan: str
    sha256: str
    passed: int
    failed: int
    refused: int
    checks: tuple[CheckedKernel, ...]


def run_plan(
    plan: Plan,
    workers: int,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    cache: Path | None = None,
) -> CheckReport:
    """Returns the report of a plan: the same for any number of ``workers``, which are processes.

    ``cache`` is a folder of answers: jobs with an answer there are not analysed, and new answers
    are added; the report is the same without it. ``progress`` receives the number of checks that
    are done, and of all. Raises PtxwcetError (PW825) for an unusable folder. Cost: a bound for each
    job whose answer is not cached.
    """
    requests = [job.request for job in plan.jobs]
    if cache is None:
        answers = run_each(answer_kernel, requests, workers, progress)
    else:
        answers = cached_answers(requests, cache, workers, progress)
    rows = tuple(
        judged(job, died(job.request) if kept is None else kept)
        for job, kept in zip(plan.jobs, answers, strict=True)
    )
    passed, failed, refused = (sum(row.outcome == one.value for row in rows) for one in Outcome)
    return CheckReport(*report_head(), plan.path, plan.sha256, passed, failed, refused, rows)


def judged(job: CheckJob, kept: KeptAnswer) -> CheckedKernel:
    """Returns the row of a job: the answer to its request, judged by its budget and guarantee."""
    answer, failed = kept.answer, []
    if not isinstance(answer, Refused):
        failed = [_placed(one, kept) for one in failed_of(answer, job.checks, kept.clock)]
        answer = with_verdict(answer, job.checks, kept.clock)
    is_refused = isinstance(answer, Refused)
    outcome = Outcome.REFUSED if is_refused else Outcome.FAILED if failed else Outcome.PASSED
    return CheckedKernel(
        job.number,
        job.line,
        job.request.path,
        job.request.machine,
        _launch_text(job),
        outcome.value,
        job.checks.required.value,
        answer,
        tuple(failed),
    )


def _placed(problem: Diagnostic, kept: KeptAnswer) -> DiagnosticRow:
    """Returns a problem of a bounded kernel, where that is declared."""
    row, place = diagnostic_row(problem), kept.place
    if place is None:
        return row
    return replace(row, file=place.file, line=place.line, column=place.column)


def _launch_text(job: CheckJob) -> str:
    """Returns the launch in a few words, as the plan has it."""
    request = job.request
    words = [f"block {request.block}" if request.block else ""]
    words.append(f"grid {request.grid}" if request.grid else "")
    words.append(request.launch_file or "")
    words += (*request.parameters, job.options)
    return ", ".join(filter(None, words))
