"""The study of one condition: tests, fits, curve, and what the curve may claim.

A condition is a series of execution times, all measured under the same circumstances ([E] 4,
Definition 1). Its curve says with which probability one run takes longer than a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet.claims import Guarantee
from ptxwcet.pwcet.distributions import Family, Floats
from ptxwcet.pwcet.estimation import fit_law, shape_error
from ptxwcet.pwcet.extraction import (
    Candidate,
    MeanExcess,
    block_sizes,
    choose,
    maxima_of,
    mean_excess,
    peaks_of,
    resolution_of,
    spread_ties,
    thresholds,
    try_extremes,
)
from ptxwcet.pwcet.extremal import ExtremalIndex, Extremogram, extremal_index, extremogram
from ptxwcet.pwcet.goodness import GoodnessOfFit, assess_fit, likelihood_ratio
from ptxwcet.pwcet.hypotheses import extreme_outcomes, series_outcomes
from ptxwcet.pwcet.intervals import level_interval
from ptxwcet.pwcet.outcomes import (
    Gate,
    GateOutcome,
    GateState,
    TestOutcome,
    Verdict,
    judge_gate,
)
from ptxwcet.pwcet.series import SerialDependence, serial_dependence
from ptxwcet.pwcet.settings import Extraction, Settings
from ptxwcet.pwcet.tail import Extremes, Tail

_COARSE = 0.5
_PICTURE_LEVELS = (1e-3, 1e-4, 1e-5)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The times of a condition, in the order in which they were taken.

    ``spread`` are the times with ties taken apart; ``resolution`` the grid that they lie on, 0 if
    there is none.
    """

    label: str
    times: Floats
    spread: Floats
    resolution: float

    @property
    def high_water_mark(self) -> float:
        """The longest time that was observed."""
        return float(self.times.max())

    def rounded(self, value: float) -> float:
        """A level on the grid of the times, rounded up, and at least the high-water mark."""
        if not np.isfinite(value):
            return value
        if self.resolution:
            base = float(self.times.min())
            steps = np.ceil((value - base) / self.resolution - 1e-9)
            value = base + self.resolution * float(steps)
        return max(value, self.high_water_mark)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A tail, how well it fits, and its levels at the probabilities asked for."""

    tail: Tail
    scale_error: float
    shape_error: float
    goodness: GoodnessOfFit
    levels: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The time that one run exceeds with a probability, and its interval.

    None of them is below the high-water mark. ``law`` is what the law alone says.
    """

    exceedance: float
    value: float
    low: float
    high: float
    law: float


@dataclass(frozen=True, slots=True)
class Claim:
    """What the curve may be taken for: ``guarantee`` None is a refusal. Reasons for less."""

    guarantee: Guarantee | None
    refused_for: tuple[str, ...]
    weakened_for: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Everything about one condition; ``curve`` has the points asked for, ``band`` those to draw.

    ``likelihood_ratios``: statistic and p of shape 0, for maxima and for excesses.
    """

    sample: Sample
    settings: Settings
    outcomes: tuple[TestOutcome, ...]
    gates: tuple[GateOutcome, ...]
    serial: SerialDependence
    index: ExtremalIndex
    pairs: Extremogram
    block_candidates: tuple[Candidate, ...]
    threshold_candidates: tuple[Candidate, ...]
    excesses: MeanExcess
    fits: dict[Family, Fit]
    likelihood_ratios: dict[Extraction, tuple[float, float]]
    curve: tuple[CurvePoint, ...]
    band: tuple[CurvePoint, ...]
    claim: Claim
    notes: tuple[str, ...]

    @property
    def reported(self) -> Fit:
        """The fit that the curve is taken from."""
        return self.fits[self.settings.family]


def make_sample(label: str, times: Floats, seed: int) -> Sample:
    """The sample of a condition. Cost: linear."""
    resolution = resolution_of(times)
    spread = spread_ties(times, resolution, np.random.default_rng(seed))
    return Sample(label, times, spread, resolution)


def study_sample(sample: Sample, settings: Settings) -> Study:
    """Analyses a condition; the same seed gives the same study.

    The times must be finite, positive, not all the same, and enough (``least_times``). Cost: about
    two seconds; ten for a million times.
    """
    random = np.random.default_rng([settings.seed, 1])
    level, spread = settings.level, sample.spread
    serial = serial_dependence(sample.times, settings.lags, level)
    index = extremal_index(spread, random)
    pairs = extremogram(spread, index.threshold, settings.lags, level, random)
    tests = (
        *series_outcomes(sample.times, serial, level),
        *extreme_outcomes(index, pairs, level),
    )
    gates = [judge_gate(gate, tests, level) for gate in Gate if gate is not Gate.FIT]
    # independent extremes: an index a little below 1 by chance is not corrected for
    clustered = gates[-1].state is not GateState.PASSED
    theta = index.intervals if clustered else 1.0
    blocks = _block_candidates(spread, theta, settings, random)
    peaks = _threshold_candidates(spread, theta, settings, random)
    extremes = {
        Extraction.BLOCKS: maxima_of(spread, int(choose(blocks, level).choice), theta),
        Extraction.PEAKS: peaks_of(spread, choose(peaks, level).choice, theta),
    }
    fits = {
        family: _fit(sample, extremes[how], family, settings, random)
        for how in Extraction
        for family in (how.family(has_shape=True), how.family(has_shape=False))
    }
    ratios = {how: _ratio(fits, how) for how in Extraction}
    fit_test = _fit_outcome(fits[settings.family], settings)
    tests = (*tests, fit_test)
    gates.append(judge_gate(Gate.FIT, tests, level))
    tail = fits[settings.family].tail
    claim, notes = _claim(sample, gates, fits, ratios, settings)
    return Study(
        sample=sample,
        settings=settings,
        outcomes=tests,
        gates=tuple(gates),
        serial=serial,
        index=index,
        pairs=pairs,
        block_candidates=blocks,
        threshold_candidates=peaks,
        excesses=mean_excess(spread),
        fits=fits,
        likelihood_ratios=ratios,
        curve=tuple(_point(sample, tail, p, settings) for p in settings.probabilities),
        band=tuple(
            _point(sample, tail, p, settings)
            for p in _PICTURE_LEVELS
            if p < float(tail.exceedance(np.asarray([tail.extremes.values.mean()]))[0])
        ),
        claim=claim,
        notes=notes,
    )


def least_times(settings: Settings) -> int:
    """How many times a study needs: 40 extremes of the block size, and 50 above the threshold."""
    from ptxwcet.pwcet.extraction import LEAST_BLOCK, LEAST_EXTREMES

    return LEAST_EXTREMES * (settings.block_size or LEAST_BLOCK)


def _block_candidates(
    spread: Floats, theta: float, settings: Settings, random: np.random.Generator
) -> tuple[Candidate, ...]:
    family = Extraction.BLOCKS.family(has_shape=True)
    sizes = block_sizes(len(spread))
    if settings.block_size is not None:
        sizes = (settings.block_size,)
    return tuple(
        try_extremes(maxima_of(spread, size, theta), family, settings.estimator, random)
        for size in sizes
    )


def _threshold_candidates(
    spread: Floats, theta: float, settings: Settings, random: np.random.Generator
) -> tuple[Candidate, ...]:
    family = Extraction.PEAKS.family(has_shape=True)
    tried = thresholds(spread)
    if settings.threshold is not None:
        tried = (settings.threshold,)
    return tuple(
        try_extremes(peaks_of(spread, threshold, theta), family, settings.estimator, random)
        for threshold in tried
    )


def _fit(
    sample: Sample,
    extremes: Extremes,
    family: Family,
    settings: Settings,
    random: np.random.Generator,
) -> Fit:
    law = fit_law(family, extremes.values, settings.estimator, extremes.threshold)
    tail = Tail(law, extremes)
    errors = shape_error(law, extremes.values)
    goodness = assess_fit(law, extremes.values, settings.estimator, random)
    levels = tuple(sample.rounded(float(tail.level(p))) for p in settings.probabilities)
    return Fit(tail, *errors, goodness, levels)


def _ratio(fits: dict[Family, Fit], how: Extraction) -> tuple[float, float]:
    full, plain = (fits[how.family(has_shape=shape)].tail for shape in (True, False))
    return likelihood_ratio(full.law, plain.law, full.extremes.values)


def _fit_outcome(fit: Fit, settings: Settings) -> TestOutcome:
    p = fit.goodness.p_anderson_darling
    rejected = p <= settings.level
    return TestOutcome(
        "Anderson-Darling",
        Gate.FIT,
        f"the extremes follow the {fit.tail.law.family.value} law",
        fit.goodness.anderson_darling,
        p,
        Verdict.REJECTED if rejected else Verdict.KEPT,
        "the law is not that of the extremes" if rejected else "the law describes the extremes",
    )


def _point(sample: Sample, tail: Tail, exceedance: float, settings: Settings) -> CurvePoint:
    law = float(tail.level(exceedance))
    low, high = level_interval(
        tail,
        exceedance,
        settings.confidence,
        settings.interval_used,
        settings.estimator,
        np.random.default_rng([settings.seed, 2]),
    )
    rounded = [sample.rounded(value) for value in (law, max(low, -1e300), high)]
    return CurvePoint(exceedance, *rounded, law)
