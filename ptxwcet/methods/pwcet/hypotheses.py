"""Tests the hypotheses of extreme value theory on measurements ([E] section 4.1, Table 1).

scipy's and statsmodels' tests are used where they exist; the R/S test is implemented here.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from enum import Enum

import numpy as np

from ptxwcet.methods.pwcet.dependence import (
    ExtremalIndex,
    Extremogram,
    SerialDependence,
    bridge_square_survival,
    independent_gap,
    rescaled_range,
    rescaled_range_survival,
)
from ptxwcet.methods.pwcet.distributions import Floats
from ptxwcet.methods.pwcet.tail import Fit
from ptxwcet.support.records import dataclass


class Verdict(Enum):
    """The outcome of a test at its level."""

    KEPT = "kept"  # the hypothesis is not rejected
    REJECTED = "rejected"
    REPORTED = "reported"  # a figure without a verdict
    NOT_MADE = "not made"  # the test cannot be made on these data


class Gate(Enum):
    """The requirements of extreme value theory on measurements, and the effect of their failure.

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
    """One test; ``p`` None: it gives only a figure, or cannot be made on these data.

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
    """The combined result of a gate's tests."""

    PASSED = "passed"
    DOUBTFUL = "doubtful"  # a test rejects, but not after correction for the number of tests
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """A gate and the test that decides it: the one with the smallest p."""

    gate: Gate
    state: GateState
    reason: str


def judge_gates(outcomes: Sequence[TestOutcome], level: float) -> tuple[GateOutcome, ...]:
    """Combines the tests of each gate.

    A gate is doubtful if a test of it rejects at ``level``, and failed if it rejects at the level
    divided by the number of tests (Bonferroni): of all that can refuse together, so that good
    measurements are refused in at most that share of studies, and of each weakening gate
    separately. A gate without a possible test is doubtful.
    """
    made = [test for test in outcomes if test.gate is not None and test.p is not None]
    refusing = sum(test.gate is not None and test.gate.refuses for test in made)
    judged = []
    for gate in Gate:
        own = [test for test in made if test.gate is gate]
        judged.append(_judge(gate, own, level, refusing if gate.refuses else len(own)))
    return tuple(judged)


def _judge(gate: Gate, made: list[TestOutcome], level: float, tests: int) -> GateOutcome:
    if not made:
        return GateOutcome(gate, GateState.DOUBTFUL, "no test of it can be made on these data")
    worst = min(made, key=lambda test: test.p or 0.0)
    assert worst.p is not None
    figure = f"{worst.name}: p = {worst.p:.3g}"
    if worst.p <= level / tests:
        return GateOutcome(gate, GateState.FAILED, figure)
    if worst.p <= level:
        return GateOutcome(gate, GateState.DOUBTFUL, f"{figure}, above {level:g} / {tests} tests")
    return GateOutcome(gate, GateState.PASSED, figure)


MOST_BDS = 1000
"""The most times in the BDS test, from the first on: its cost grows with their square."""


def _outcome(
    name: str,
    gate: Gate,
    hypothesis: str,
    statistic: float,
    p: float,
    level: float,
    meanings: tuple[str, str],
) -> TestOutcome:
    """Returns a test's outcome; ``meanings`` of a kept and of a rejected hypothesis."""
    if not np.isfinite(p):
        reason = "the test gives no figure for these data"
        return TestOutcome(name, gate, hypothesis, None, None, Verdict.NOT_MADE, reason)
    rejected = bool(p <= level)
    verdict = Verdict.REJECTED if rejected else Verdict.KEPT
    return TestOutcome(
        name, gate, hypothesis, float(statistic), float(p), verdict, meanings[rejected]
    )


def series_outcomes(times: Floats, serial: SerialDependence, level: float) -> Iterator[TestOutcome]:
    """Yields the tests of the whole series. Cost: a few sorts and transforms."""
    yield runs_test(times, level)
    yield ljung_box_test(serial, level)
    yield bds_test(times, level)
    gap = 1
    if serial.ljung_box_p[-1] <= level:
        gap = independent_gap(times, level)
    yield halves_test(times, level, gap)
    yield kpss_test(times, level)
    yield rescaled_range_test(times, level)
    yield autoregressive_order(serial)


def runs_test(times: Floats, level: float) -> TestOutcome:
    """Performs Wald and Wolfowitz' runs test about the median, or the mean if none is below."""
    from statsmodels.sandbox.stats.runs import runstest_1samp

    cut = float(np.median(times))
    if (times >= cut).all():
        cut = float(times.mean())
    statistic, p = runstest_1samp(times, cutoff=cut, correction=False)
    few = "fewer" if statistic < 0 else "more"
    return _outcome(
        "runs test",
        Gate.INDEPENDENT,
        "times are in random order",
        statistic,
        p,
        level,
        (
            "long and short times change as often as in random order",
            f"long and short times change {few} times than in random order",
        ),
    )


def ljung_box_test(serial: SerialDependence, level: float) -> TestOutcome:
    """Performs Ljung and Box' test of all autocorrelations up to the last lag."""
    lags = len(serial.ljung_box)
    return _outcome(
        "Ljung-Box",
        Gate.INDEPENDENT,
        f"no autocorrelation up to lag {lags}",
        float(serial.ljung_box[-1]),
        float(serial.ljung_box_p[-1]),
        level,
        ("no time tells of the next ones", "a time tells of the next ones"),
    )


def bds_test(times: Floats, level: float) -> TestOutcome:
    """Performs Brock, Dechert and Scheinkman's test of any dependence, in dimension 2."""
    from statsmodels.tsa.stattools import bds

    part = times[:MOST_BDS]
    statistic, p = float("nan"), float("nan")
    if part.max() > part.min():
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            statistic, p = (float(np.ravel(figure)[0]) for figure in bds(part, max_dim=2))
    return _outcome(
        "BDS",
        Gate.INDEPENDENT,
        f"the first {len(part):,} times are independent and identically distributed",
        statistic,
        p,
        level,
        ("no pattern in pairs of neighbours", "pairs of neighbours have a pattern"),
    )


def halves_test(times: Floats, level: float, gap: int = 1) -> TestOutcome:
    """Performs Kolmogorov and Smirnov's test of the first half against the second ([E] 4.1.2).

    It holds for independent times: of dependent times every ``gap``-th is taken.
    """
    from scipy.stats import ks_2samp

    taken = times[::gap]
    middle = len(taken) // 2
    comparison = ks_2samp(taken[:middle], taken[middle:], method="auto" if gap == 1 else "asymp")
    which = "" if gap == 1 else f", every {gap}th time"
    return _outcome(
        "KS of halves",
        Gate.IDENTICAL,
        f"both halves have one distribution{which}",
        comparison.statistic,
        comparison.pvalue,
        level,
        (
            "the second half of the runs is like the first",
            "the runs changed under way: the two halves differ",
        ),
    )


def kpss_test(times: Floats, level: float) -> TestOutcome:
    """Performs Kwiatkowski, Phillips, Schmidt and Shin's test of a constant level.

    The statistic is statsmodels'; its table of p ends at 0.01 and 0.1, so that p is taken from the
    limit law itself, which is Cramer's and von Mises'.
    """
    from statsmodels.tsa.stattools import kpss

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for p-values at the table's ends
        statistic, *_ = kpss(times, regression="c", nlags="auto")
    return _outcome(
        "KPSS",
        Gate.IDENTICAL,
        "the series is stationary about a level",
        statistic,
        bridge_square_survival(float(statistic)),
        level,
        ("no drift of the level", "the level drifts or jumps"),
    )


def rescaled_range_test(times: Floats, level: float) -> TestOutcome:
    """Performs Lo's R/S test, on the side of persistence, with the limit distribution."""
    statistic, lags = rescaled_range(times)
    return _outcome(
        "R/S",
        Gate.LONG_RANGE,
        f"far-away runs are independent (Lo, {lags} lags)",
        statistic,
        rescaled_range_survival(statistic),
        level,
        ("dependence, if any, ends soon", "dependence goes on over far-away runs"),
    )


def autoregressive_order(serial: SerialDependence) -> TestOutcome:
    """Returns the order of an AR model: a figure, not a test."""
    return TestOutcome(
        "AR order",
        None,
        "order of an autoregressive model",
        float(serial.order_aic),
        None,
        Verdict.REPORTED,
        f"by AIC; {serial.order_bic} by BIC; 0 is white noise",
    )


def extreme_outcomes(
    index: ExtremalIndex, pairs: Extremogram, level: float
) -> Iterator[TestOutcome]:
    """Yields the tests of the times above a high threshold."""
    yield _outcome(
        "extremal index",
        Gate.EXTREMES,
        "theta = 1 (intervals estimator)",
        index.intervals,
        index.p,
        level,
        (
            "long times come alone",
            f"long times come in clusters of {1 / index.intervals:.1f} on average",
        ),
    )
    yield _outcome(
        "extremogram",
        Gate.EXTREMES,
        f"no more pairs of long times up to lag {len(pairs.values)} than by chance",
        float(pairs.values.max()),
        pairs.p,
        level,
        (
            "a long time does not call for another",
            "after a long time another one is more likely",
        ),
    )


def fit_outcome(fit: Fit, level: float) -> TestOutcome:
    """Returns the test of the law that must describe the extremes."""
    law = fit.tail.law.family.value
    return _outcome(
        f"Anderson-Darling, {law}",
        Gate.FIT,
        f"the extremes follow the {law} law",
        fit.goodness.anderson_darling,
        fit.goodness.p_anderson_darling,
        level,
        (f"{law} describes the extremes", f"{law} is not the law of the extremes"),
    )
