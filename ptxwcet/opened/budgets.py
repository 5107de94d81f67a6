"""Budgets: limits on the time of a block or a launch, and verdicts on their bounds.

A time is compared as a fraction, not rounded: a bound is within 2 ms if its cycles are at most the
cycles of 2 ms at the machine's clock. An estimate proves nothing: it has a verdict of its own, and
fails unless estimates are sufficient (``Checks.required``).
"""

from __future__ import annotations

import re
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

from ptxwcet.claims import AssumptionState, Guarantee, Refusal, TimingClaim
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.records import dataclass
from ptxwcet.support.rounding import float_above, text_above
from ptxwcet.support.source import Span

if TYPE_CHECKING:
    from ptxwcet.bounds.analysed import KernelAnalysis

_BUDGET = re.compile(
    r"(?:(block|kernel): ?)?"
    r"([0-9]{1,18}(?:\.[0-9]{1,9})?|[0-9]{1,3}(?:,[0-9]{3}){1,5}(?:\.[0-9]{1,9})?)"
    r" ?(|cycles|ns|us|µs|ms|s)"
)
_MICROSECONDS = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "µs": Fraction(1),
    "ms": Fraction(1000),
    "s": Fraction(10**6),
}
BLOCK, KERNEL = "block", "kernel"


class NotABudget(ValueError):
    """A text that is not a budget; the message has the format."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A time that must not be exceeded: ``amount`` of ``unit``, as people wrote it in ``text``.

    ``of`` is the bound it applies to, of a block or a kernel, if the text names it.
    """

    text: str
    amount: Fraction
    unit: str
    of: str | None = None

    @property
    def asked(self) -> str:
        """The text, and of whose bound it is."""
        return self.text if self.of is None else f"{self.of}:{self.text}"

    def cycles(self, clock_mhz: int) -> int:
        """Returns the most cycles within the budget, at a clock.

        >>> parse_budget("1.5us").cycles(930)
        1395
        """
        scale = _MICROSECONDS.get(self.unit)
        return int(self.amount if scale is None else self.amount * scale * clock_mhz)

    def exceeded_by(self, subject: str, cycles: int, clock_mhz: int) -> str:
        """Returns the text that a bound exceeds the budget, in its unit.

        >>> parse_budget("1.5us").exceeded_by("the bound", 1396, 930)
        'the bound, 1.502 us (1,396 cycles), is over the budget of 1.5us (1,395 cycles)'
        """
        amount, most = f"{cycles:,} cycles", self.text
        scale = _MICROSECONDS.get(self.unit)
        if scale is not None:
            time = float_above(Fraction(cycles, clock_mhz) / scale)
            amount = f"{text_above(time, 3)} {self.unit} ({amount})"
            most += f" ({self.cycles(clock_mhz):,} cycles)"
        return f"{subject}, {amount}, is over the budget of {most}"


def parse_budget(text: str) -> Budget:
    """Returns the budget of a text: cycles, or a time, as they are printed. Raises NotABudget."""
    match = _BUDGET.fullmatch(text.strip())
    if match is None:
        raise NotABudget(
            f"{text!r} is no budget: a number of cycles, or of ns, us, ms or s, for example "
            "2000us, or block:2000us"
        )
    of, number, unit = match[1], match[2], match[3] or "cycles"
    amount = Fraction(number.replace(",", ""))
    if unit == "cycles" and "." in number:
        raise NotABudget(
            f"{text!r} is no budget: cycles are whole; a time has a unit: ns, us, ms or s"
        )
    if amount == 0:
        raise NotABudget(f"{text!r} is no budget: nothing takes no time at all")
    shown = text.strip().removeprefix(f"{of}:").strip()
    return Budget(shown if match[3] else f"{shown} cycles", amount, unit, of)


def required_guarantee(budget: Budget | None, asked: str | None) -> Guarantee:
    """Returns the weakest guarantee that passes: the requested one, else a proof of a budget."""
    if asked is not None:
        return Guarantee(asked)
    return Guarantee.ESTIMATE if budget is None else Guarantee.SAFE_BOUND


class Verdict(Enum):
    """The verdict of a bound on a budget."""

    WITHIN = "within"  # proved, under the assumptions of the bound
    ESTIMATED_WITHIN = "estimated-within"  # of an estimate: expected, not proved
    OVER = "over"
    NO_BOUND = "no-bound"  # the budget's block or launch has no bound


@dataclass(frozen=True, slots=True)
class Judgement:
    """A budget, the most cycles within it, and the claim that it was compared with, if any."""

    budget: Budget
    cycles: int
    of: str
    claim: TimingClaim | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Checks:
    """The requirements on a bound: a budget, and a guarantee.

    The budget is the launch's if the grid is known, else a block's, unless it names either.
    """

    budget: Budget | None
    required: Guarantee

    def judge(
        self, block: TimingClaim, launch: TimingClaim | Refusal | None, clock_mhz: int
    ) -> Judgement | None:
        """Judges the bounds of a block and of a launch (None: no grid) by the budget, if any."""
        if self.budget is None:
            return None
        of = self.budget.of or (BLOCK if launch is None else KERNEL)
        most = self.budget.cycles(clock_mhz)
        claim = block if of == BLOCK else launch
        if not isinstance(claim, TimingClaim) or (of == BLOCK and _has_co_runner(launch)):
            return Judgement(self.budget, most, of, None, Verdict.NO_BOUND)
        if claim.cycles > most:
            verdict = Verdict.OVER
        elif claim.guarantee is Guarantee.SAFE_BOUND:
            verdict = Verdict.WITHIN
        else:
            verdict = Verdict.ESTIMATED_WITHIN
        return Judgement(self.budget, most, of, claim, verdict)

    def failed_row(self, analysis: KernelAnalysis) -> list[Diagnostic]:
        """Returns the result of :meth:`failed` for an analysis, at the kernel's place."""
        launched = analysis.launch_bound
        launch = launched if launched is None or isinstance(launched, Refusal) else launched.claim
        block, clock_mhz = analysis.worst.bound.claim, analysis.machine.clock_mhz
        return self.failed(analysis.kernel.readable, analysis.kernel.span, block, launch, clock_mhz)

    def failed(
        self,
        kernel: str,
        span: Span | None,
        block: TimingClaim,
        launch: TimingClaim | Refusal | None,
        clock_mhz: int,
    ) -> list[Diagnostic]:
        """Returns PW520, PW521 and PW522 for the bounds of a kernel, at its place."""
        failed = []
        judgement = self.judge(block, launch, clock_mhz)
        if judgement is not None and judgement.verdict is Verdict.NO_BOUND:
            failed.append(_no_bound(kernel, span, launch, judgement.of))
        elif judgement is not None and judgement.verdict is Verdict.OVER:
            failed.append(_over(kernel, span, judgement, clock_mhz))
        claims = [block, *([launch] if isinstance(launch, TimingClaim) else [])]
        weakest = max(claims, key=lambda claim: claim.guarantee.rank)
        problem = too_weak(weakest, self.required, f"kernel {kernel}", span)
        return failed if problem is None else [*failed, problem]


def too_weak(
    claim: TimingClaim, required: Guarantee, whose: str, span: Span | None = None
) -> Diagnostic | None:
    """Returns PW521 if a claim has a weaker guarantee than required; ``whose`` is its subject."""
    if claim.guarantee.rank <= required.rank:
        return None
    doubted = [a.key for a in claim.assumptions if a.state is AssumptionState.DOUBTFUL]
    return Diagnostic(
        "PW521",
        f"{whose}: the bound is only an {claim.guarantee.value}, {required.value} is required",
        span,
        notes=(
            f"doubtful on this machine: {', '.join(doubted)}"
            if doubted
            else f"what the method {claim.method} gives is an {claim.guarantee.value}",
        ),
        help="take a machine whose assumptions hold, or require an estimate only"
        if doubted
        else "take a method that proves its bounds, or require an estimate only",
    )


def _has_co_runner(launch: TimingClaim | Refusal | None) -> bool:
    """Returns whether others use the GPU's memory, which the bound of a block does not count."""
    return isinstance(launch, TimingClaim) and any(
        assumption.key == "co-runner" for assumption in launch.assumptions
    )


def _over(kernel: str, span: Span | None, judgement: Judgement, clock_mhz: int) -> Diagnostic:
    assert judgement.claim is not None, "what is over has a bound"
    what = "the bound" if judgement.of == BLOCK else "the bound of the launch"
    told = judgement.budget.exceeded_by(what, judgement.claim.cycles, clock_mhz)
    return Diagnostic("PW520", f"kernel {kernel}: {told}", span)


def _no_bound(
    kernel: str, span: Span | None, launch: TimingClaim | Refusal | None, of: str
) -> Diagnostic:
    if of == BLOCK:
        what = "the bound of a block counts nobody else at the memory, and --co-runner says others"
        message = f"kernel {kernel}: no bound to compare with the budget: {what}"
        remedy = "compare the bound of the launch: --budget kernel:TIME"
        return Diagnostic("PW522", message, span, help=remedy)
    reason = launch.reason if isinstance(launch, Refusal) else "its grid is not known"
    return Diagnostic(
        "PW522",
        f"kernel {kernel}: no bound of the launch to compare with the budget: {reason}",
        span,
        help="give what is missing, or compare the bound of a block: --budget "
        'block:TIME, budget = "block:TIME" in a plan',
    )
