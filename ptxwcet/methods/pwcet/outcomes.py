"""What a hypothesis test says, and what a group of tests means for the claim."""

from __future__ import annotations

from collections.abc import Sequence
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
    """One test; ``p`` None: it gives a figure only, or cannot be made on these data.

    ``meaning`` is one line for people.
    """

    __test__ = False  # not a test of pytest

    name: str
    gate: Gate | None
    hypothesis: str
    statistic: float | None
    p: float | None
    verdict: Verdict
    meaning: str

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
    """A gate and the test that decides it: the one with the smallest p."""

    gate: Gate
    state: GateState
    reason: str


def judge_gates(outcomes: Sequence[TestOutcome], level: float) -> tuple[GateOutcome, ...]:
    """Takes the tests of each gate together.

    A gate is doubtful if a test of it rejects at ``level``, and failed if it rejects at the level
    divided by the number of tests (Bonferroni): of all that can refuse together, so that good
    measurements are refused in at most that share of studies, and of each weakening gate for
    itself. A gate without a test that could be made is doubtful.
    """
    made = [row for row in outcomes if row.gate is not None and row.p is not None]
    refusing = sum(row.gate is not None and row.gate.refuses for row in made)
    judged = []
    for gate in Gate:
        own = [row for row in made if row.gate is gate]
        judged.append(_judge(gate, own, level, refusing if gate.refuses else len(own)))
    return tuple(judged)


def _judge(gate: Gate, made: list[TestOutcome], level: float, tests: int) -> GateOutcome:
    if not made:
        return GateOutcome(gate, GateState.DOUBTFUL, "no test of it can be made on these data")
    worst = min(made, key=lambda row: row.p or 0.0)
    assert worst.p is not None
    said = f"{worst.name}: p = {worst.p:.3g}"
    if worst.p <= level / tests:
        return GateOutcome(gate, GateState.FAILED, said)
    if worst.p <= level:
        return GateOutcome(gate, GateState.DOUBTFUL, f"{said}, above {level:g} / {tests} tests")
    return GateOutcome(gate, GateState.PASSED, said)
