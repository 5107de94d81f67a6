"""What a hypothesis test says, and what a group of tests means for the claim."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """The outcome of a test at its level."""

    KEPT = "kept"  # the hypothesis is not rejected
    REJECTED = "rejected"
    REPORTED = "reported"  # a figure without a verdict
    NOT_MADE = "not made"  # the test cannot be made on these data


class Gate(Enum):
    """What extreme value theory needs of the measurements, and what its failure does.

    ``IDENTICAL``, ``LONG_RANGE`` and ``FIT`` refuse the claim; ``INDEPENDENT`` and ``EXTREMES``
    weaken it to an estimate ([E] Theorems 2 and 3: dependence is allowed, with theta).
    """

    IDENTICAL = "identically distributed"
    INDEPENDENT = "independent"
    LONG_RANGE = "no long-range dependence"
    EXTREMES = "extremes come alone"
    FIT = "the law fits"

    @property
    def refuses(self) -> bool:
        """Whether a failure refuses the claim; otherwise it weakens it."""
        return self in (Gate.IDENTICAL, Gate.LONG_RANGE, Gate.FIT)


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """One test. ``p_is`` is ``=``, ``<=`` or ``>=``: tables of some tests end. ``p`` None: no test.

    ``meaning`` is one line for people. ``level``: a hypothesis is rejected if p is at most that.
    """

    __test__ = False  # not a test of pytest

    name: str
    gate: Gate | None
    hypothesis: str
    statistic: float | None
    p: float | None
    verdict: Verdict
    meaning: str
    p_is: str = "="

    @property
    def is_rejected(self) -> bool:
        """Whether the hypothesis was rejected."""
        return self.verdict is Verdict.REJECTED


class GateState(Enum):
    """A gate's tests taken together."""

    PASSED = "passed"
    DOUBTFUL = "doubtful"  # a test rejects, but not when it is counted how many were made
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """A gate: its tests' smallest p against the level divided by their number (Bonferroni)."""

    gate: Gate
    state: GateState
    reason: str


def judge_gate(gate: Gate, outcomes: tuple[TestOutcome, ...], level: float) -> GateOutcome:
    """Takes the tests of a gate together; one without a test that could be made is doubtful."""
    made = [row for row in outcomes if row.gate is gate and row.p is not None]
    if not made:
        return GateOutcome(gate, GateState.DOUBTFUL, "no test of it can be made on these data")
    worst = min(made, key=lambda row: row.p or 0.0)
    assert worst.p is not None
    said = f"{worst.name}: p {worst.p_is} {worst.p:.3g}"
    if worst.p <= level / len(made):
        return GateOutcome(gate, GateState.FAILED, said)
    if worst.p <= level:
        reason = f"{said}, above {level:g} / {len(made)} tests"
        return GateOutcome(gate, GateState.DOUBTFUL, reason)
    return GateOutcome(gate, GateState.PASSED, said)
