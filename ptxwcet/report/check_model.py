"""The report of a plan of checks, as plain data, and the unit of work that makes a row of it.

Schema number 1. A row is a function of its job alone (:func:`check_kernel`), whichever process runs
it; rows are in the order of the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from ptxwcet.claims import Guarantee
from ptxwcet.report.build import build_report
from ptxwcet.report.head import (
    DiagnosticRow,
    Refused,
    ReportHead,
    diagnostic_row,
    report_head,
)
from ptxwcet.report.model import BoundedKernel
from ptxwcet.studies.block_bound import bound_file
from ptxwcet.studies.check_plan import CheckJob, Plan, recent_module
from ptxwcet.studies.workers import run_each
from ptxwcet.support.demangling import readable_names
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, internal_error


class Outcome(Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"  # bounded, but over the budget or of too weak a guarantee
    REFUSED = "refused"  # no bound


@dataclass(frozen=True, slots=True)
class CheckedKernel:
    """A kernel of a plan on a machine: its bound with the verdict on its budget, or its refusal.

    ``check`` is the number of its table in the plan, ``line`` where that begins. ``launch`` is the
    launch as the plan says it. ``required`` is the weakest guarantee that passes; ``failed`` are
    the checks that a bounded kernel does not pass.
    """

    check: int
    line: int | None
    file: str
    machine: str
    launch: str
    outcome: Annotated[str, Outcome]
    required: Annotated[str, Guarantee]
    answer: BoundedKernel | Refused
    failed: tuple[DiagnosticRow, ...]

    @property
    def problems(self) -> tuple[DiagnosticRow, ...]:
        """Why the check did not pass."""
        return self.answer.diagnostics if isinstance(self.answer, Refused) else self.failed

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
    plan: Plan, workers: int, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> CheckReport:
    """The report of a plan: the same for any number of ``workers``, which are processes.

    ``progress`` is told how many checks are done, of how many. Cost: that of a bound for each job.
    """
    done = run_each(check_kernel, plan.jobs, workers, progress)
    rows = tuple(
        _died(job) if row is None else row for job, row in zip(plan.jobs, done, strict=True)
    )
    passed, failed, refused = (sum(row.outcome == one.value for row in rows) for one in Outcome)
    return CheckReport(*report_head(), plan.path, plan.sha256, passed, failed, refused, rows)


def check_kernel(job: CheckJob) -> CheckedKernel:
    """What comes of a job; it raises nothing: what an analysis raises is the job's refusal."""
    try:
        answer = bound_file(job.request, recent_module(job.request))
        failures: list[Diagnostic] = []
        report = build_report(answer, failures, source=job.request.source, checks=job.checks)
        (kernel,) = report.kernels
        failed = [one for row in answer.answered for one in job.checks.failed_row(row)]
    except PtxwcetError as error:
        return _row(job, _refused(job, *error.diagnostics))
    except Exception as error:
        return _row(job, _refused(job, internal_error(error, _whose(job))))
    return _row(job, kernel, () if isinstance(kernel, Refused) else tuple(failed))


def _row(
    job: CheckJob, answer: BoundedKernel | Refused, failed: tuple[Diagnostic, ...] = ()
) -> CheckedKernel:
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
        tuple(map(diagnostic_row, failed)),
    )


def _refused(job: CheckJob, *diagnostics: Diagnostic) -> Refused:
    (name,) = job.request.kernels or ("",)
    return Refused(name, readable_names([name])[name], tuple(map(diagnostic_row, diagnostics)))


def _died(job: CheckJob) -> CheckedKernel:
    """The row of a job whose process ended without a word."""
    problem = Diagnostic(
        "PW902",
        f"{_whose(job)}: the process that analysed it died",
        help="it may have been killed for the memory that it took: run with fewer --workers; if "
        "that does not help, it is a bug of ptxwcet: please report it with the input",
    )
    return _row(job, _refused(job, problem))


def _whose(job: CheckJob) -> str:
    return " of ".join((*(f"kernel {one}" for one in job.request.kernels), job.request.path))


def _launch_text(job: CheckJob) -> str:
    """The launch in a few words, as the plan has it."""
    request = job.request
    words = [f"block {request.block}" if request.block else ""]
    words.append(f"grid {request.grid}" if request.grid else "")
    words.append(request.launch_file or "")
    words += request.parameters
    return ", ".join(filter(None, words))
