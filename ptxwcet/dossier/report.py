"""What an assessor asks for about bounds, as plain data: gathers, checks again, computes no bound.

Schema number 1.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from importlib import metadata
from typing import Annotated, Literal

from ptxwcet.claims import AssumptionState, Guarantee
from ptxwcet.commands.bound.report import BoundedKernel, Report, merged_assumptions
from ptxwcet.commands.certificates.report import Rechecked, recheck
from ptxwcet.flow.certificates.checker import Verdict
from ptxwcet.ir.kernel import Kernel, Module, UnreadKernel
from ptxwcet.machine.ledger import made_true
from ptxwcet.machine.model import Machine
from ptxwcet.opened.opening import ReadFile
from ptxwcet.report.head import MachineHead, Refused, as_people_know, launch_text
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.installation import describe_sources
from ptxwcet.support.records import dataclass
from ptxwcet.support.version import VERSION
from ptxwcet.validate.attack_rows import AttackRow, attack_rows
from ptxwcet.validate.selftest import SelfTestReport

LIBRARIES = (
    *("bitwuzla", "click", "lark", "numpy", "platformdirs"),
    *("grandalf", "jinja2", "matplotlib", "networkx", "numba", "scipy", "statsmodels"),
)
"""The packages that ptxwcet may use: those of the base and those of extras."""

OF_PTX = (
    "What is bounded is the PTX that was given, on the machine as its file describes it. The code "
    "that a GPU runs is made from PTX by another compiler, which reorders, merges and splits "
    "instructions: that the bound holds for it, too, is the assumption ptx-is-executed."
)
OF_CODE = (
    "What is bounded is the machine code that was given, on the machine as its file describes it. "
    "That the driver loads it as it is, compiling and patching nothing, and that the GPU waits as "
    "its words say, are the assumptions machine-code-is-executed and waits-as-encoded."
)
LIMITS = (
    "The machine is a model: warps issue in order, a scheduler issues at most one instruction a "
    "cycle, each functional unit has a queue, an op class has one initiation and one latency, "
    "there are no caches. That silicon is so is not proved. Where the machine file doubts what a "
    "bound needs, the bound is called an estimate.",
    "The bound of a block is that of a block alone on its SM. Only the bound of a launch says how "
    "long all blocks take, and only for a launch that has the GPU to itself, but for co-runners "
    "that are stated.",
    "Block size, grid, parameters, facts and launch files are taken as they were given. Facts are "
    "checked against each other and against the code where it contradicts them; that they hold in "
    "every run is up to whoever states them.",
    "Cycles are those of the SM's clock; microseconds hold while it runs at the stated frequency. "
    "Transfers, the driver, the host and the time until a launch reaches the GPU are not bounded.",
    "The theorems are proved in the project's documents, by hand. The program that applies them is "
    "tested and attacked, not verified: the self-test and the attacks look for mistakes, and that "
    "they find none proves nothing. Certificates of loops rest on the solver that confirms them.",
    "The tool has not been qualified by any standard for the safety of systems.",
)
"""What a bound does not say, whatever the kernel; before it, what is said of what is bounded."""


class Outcome(Enum):
    """What a dossier comes to."""

    BOUNDED = "bounded"  # each kernel has a safe bound, and nothing that was checked failed
    ESTIMATED = "estimated"  # so, but a bound is an estimate: nothing is proved by it
    REFUSED = "refused"  # a kernel has no bound
    FAILED = "failed"  # a check failed: a certificate, the self-test, a budget or guarantee


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """What is claimed of a block or of the whole launch, and where the method is proved."""

    of: Literal["block", "launch"]
    statement: str
    cycles: int
    microseconds: float
    guarantee: Annotated[str, Guarantee]
    method: str
    citations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """An assumption with its state and evidence; ``of`` the bounds that rest on it.

    The machine's own are of its ``machine`` file: true by definition of the machine.
    """

    key: str
    text: str
    state: Annotated[str, AssumptionState]
    evidence: str
    of: str


@dataclass(frozen=True, slots=True)
class CertificateVerdict:
    """What the checker said of the certificate in the report for the loop at ``block``."""

    block: str
    iterations: int
    verdict: Annotated[str, Verdict]


@dataclass(frozen=True, slots=True)
class DossierKernel:
    """A bounded kernel: what is claimed, on what it rests, its certificates checked again.

    ``bound`` is its row of the main report, with loops, methods and paths.
    """

    kernel: str
    readable: str
    claims: tuple[ClaimRow, ...]
    ledger: tuple[LedgerRow, ...]
    certificates: tuple[CertificateVerdict, ...]
    bound: BoundedKernel
    status: Literal["bounded"] = "bounded"


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A program or package, and its version here."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file that the answer rests on: what it is, its name, its SHA-256 in hexadecimal."""

    what: str
    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class SelfTestPart:
    """The self-test: ``run`` for this dossier, ``read`` from ``file``, or ``none``.

    ``differs`` names what it was made with that is another here. If there is anything, the
    self-test says nothing of the tool that made these bounds.
    """

    origin: Literal["run", "read", "none"]
    file: FileRow | None
    differs: tuple[str, ...]
    result: SelfTestReport | None


@dataclass(frozen=True, slots=True)
class DossierReport(MachineHead):
    """All that is known of the bounds of a file's kernels, for whoever is to rely on them.

    ``made`` is a time of ISO 8601. ``findings`` say why the outcome is not ``bounded``.
    ``sources_sha256`` is of the tool's Python sources together.
    """

    made: str
    command: str
    outcome: Annotated[str, Outcome]
    findings: tuple[str, ...]
    kernels: tuple[DossierKernel | Refused, ...]
    by_definition: tuple[LedgerRow, ...]
    versions: tuple[VersionRow, ...]
    sources_sha256: str
    files: tuple[FileRow, ...]
    self_test: SelfTestPart
    attacks: tuple[AttackRow, ...]
    limits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How a dossier is made: the command, when, and the files that it rests on."""

    command: str
    at: datetime
    files: Sequence[ReadFile]


def build_dossier(
    report: Report,
    module: Module,
    machine: Machine,
    self_test: SelfTestPart,
    made: Circumstances,
    failed: Sequence[Diagnostic],
) -> DossierReport:
    """The dossier about a report of ``module``; deterministic for equal arguments.

    ``failed`` are checks of bounds that failed, on budgets and guarantees. Certificates are checked
    again as the report has them, by the checker alone. Cost: two questions to the solver for each
    certificate.
    """
    verdicts: dict[str, list[Rechecked]] = {}
    for verdict in recheck(report, module):
        verdicts.setdefault(verdict.kernel, []).append(verdict)
    kernels = tuple(
        row if isinstance(row, Refused) else _kernel(row, machine, verdicts.get(row.kernel, []))
        for row in report.kernels
    )
    refusals = tuple(_refusals(kernels))
    failures = (*failed_checks(kernels, self_test), *(one.message for one in failed))
    estimates = tuple(_estimates(kernels))
    outcome = next(
        (
            one
            for one, why in (
                (Outcome.FAILED, failures),
                (Outcome.REFUSED, refusals),
                (Outcome.ESTIMATED, estimates),
            )
            if why
        ),
        Outcome.BOUNDED,
    )
    is_code = any(map(_is_code, module.kernels))
    return DossierReport(
        *(report.schema, report.tool, report.version, report.file, report.sha256, report.machine),
        made.at.isoformat(timespec="seconds"),
        made.command,
        outcome.value,
        (*failures, *refusals, *estimates),
        kernels,
        tuple(
            LedgerRow(one.key, one.text, one.state.value, one.source, "machine")
            for one in made_true(machine, is_code=is_code)
        ),
        tuple(_versions()),
        describe_sources(),
        tuple(FileRow(one.what, one.name, one.sha256) for one in made.files),
        self_test,
        attack_rows(),
        (OF_CODE if is_code else OF_PTX, *LIMITS),
    )


def _is_code(kernel: Kernel) -> bool:
    return not isinstance(kernel, UnreadKernel) and kernel.code is not None


def _kernel(row: BoundedKernel, machine: Machine, checked: Iterable[Rechecked]) -> DossierKernel:
    return DossierKernel(
        row.kernel,
        row.readable,
        tuple(_claims(row, machine)),
        tuple(LedgerRow(*one) for one in merged_assumptions(row)),
        tuple(CertificateVerdict(one.block, one.iterations, one.verdict.value) for one in checked),
        row,
    )


def _claims(kernel: BoundedKernel, machine: Machine) -> Iterator[ClaimRow]:
    shown = as_people_know(kernel)
    launched = f"kernel {shown.kernel} on {machine.name}, launched with {launch_text(shown)},"
    block, launch = kernel.bounds[0], kernel.launch
    yield ClaimRow(
        "block",
        f"No block of {launched} takes more cycles from its start to its end, alone on its SM, "
        f"whichever eligible warps are issued.{_hedge(kernel.guarantee)}",
        kernel.bound_cycles,
        kernel.microseconds,
        kernel.guarantee,
        block.title,
        block.citations,
    )
    if launch is not None:
        yield ClaimRow(
            "launch",
            f"No launch of {launched} takes more cycles from its beginning until its last block "
            f"has ended, on {launch.sms} SM{'s' * (launch.sms != 1)}, in whichever order and on "
            f"whichever SM its blocks are started.{_hedge(launch.guarantee)}",
            launch.cycles,
            launch.microseconds,
            launch.guarantee,
            f"bound of a launch, {launch.form}",
            launch.citations,
        )


def _hedge(guarantee: str) -> str:
    if guarantee == Guarantee.SAFE_BOUND.value:
        return " Proved under the assumptions below."
    return " An estimate: it is not proved, since the method or an assumption below is doubtful."


def _refusals(kernels: Iterable[DossierKernel | Refused]) -> Iterator[str]:
    for row in kernels:
        if isinstance(row, Refused):
            codes = ", ".join(dict.fromkeys(one.code for one in row.diagnostics))
            yield f"kernel {row.readable} is refused [{codes}]"


def _estimates(kernels: Iterable[DossierKernel | Refused]) -> Iterator[str]:
    for row in kernels:
        for claim in () if isinstance(row, Refused) else row.claims:
            if claim.guarantee != Guarantee.SAFE_BOUND.value:
                yield f"the bound of the {claim.of} of kernel {row.readable} is an estimate"


def failed_checks(
    kernels: Iterable[DossierKernel | Refused], self_test: SelfTestPart
) -> Iterator[str]:
    """Certificates that are not confirmed, and a self-test that does not count."""
    for row in kernels:
        for one in () if isinstance(row, Refused) else row.certificates:
            if one.verdict != Verdict.CONFIRMED.value:
                where = f"loop at {one.block} of kernel {row.readable}"
                yield f"the certificate of the {where} is not confirmed: {one.verdict}"
    if self_test.result is not None and not self_test.result.passed:
        yield "the self-test failed"
    if self_test.differs:
        yield f"the self-test is of another installation: {'; '.join(self_test.differs)}"


def _versions() -> Iterator[VersionRow]:
    yield VersionRow("ptxwcet", VERSION)
    yield VersionRow("Python", platform.python_version())
    for name in LIBRARIES:
        try:
            yield VersionRow(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
