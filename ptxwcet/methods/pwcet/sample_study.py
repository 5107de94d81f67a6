"""The study of one condition: tests, fits, curve, and what the curve may claim.

A condition is a series of execution times, all measured under the same circumstances ([E] 4,
Definition 1). Its curve says with which probability one run takes longer than a time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptxwcet.methods.pwcet.claiming import (
    Claim,
    heavy_tail_doubts,
    judge_claim,
    law_notes,
    shape_notes,
)
from ptxwcet.methods.pwcet.dependence import (
    ExtremalIndex,
    Extremogram,
    SerialDependence,
    extremal_index,
    extremogram,
    serial_dependence,
)
from ptxwcet.methods.pwcet.distributions import Family, Floats
from ptxwcet.methods.pwcet.extraction import (
    LEAST_BLOCK,
    LEAST_EXTREMES,
    MeanExcess,
    block_sizes,
    choose,
    is_eligible,
    maxima_of,
    mean_excess,
    peaks_of,
    resolution_of,
    spread_ties,
    thresholds,
)
from ptxwcet.methods.pwcet.hypotheses import (
    Gate,
    GateOutcome,
    TestOutcome,
    extreme_outcomes,
    fit_outcome,
    judge_gates,
    series_outcomes,
)
from ptxwcet.methods.pwcet.intervals import level_intervals
from ptxwcet.methods.pwcet.settings import Extraction, Settings
from ptxwcet.methods.pwcet.tail import CurvePoint, Fit, Sample, Tail, fit_tail, likelihood_ratio
from ptxwcet.support.records import dataclass

_TRIED_REPLICATES = 99
_PICTURE_LEVELS = (1e-3, 1e-4, 1e-5)


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Everything about one condition; ``curve`` has the points asked for, ``band`` more to draw.

    ``theta`` is the extremal index that extremes are corrected by: the estimate by intervals, or 1
    where the tests of independent extremes pass.

    ``likelihood_ratios``: statistic and p of shape 0, for maxima and for excesses.
    """

    sample: Sample
    settings: Settings
    outcomes: tuple[TestOutcome, ...]
    gates: tuple[GateOutcome, ...]
    serial: SerialDependence
    index: ExtremalIndex
    theta: float
    pairs: Extremogram
    block_candidates: tuple[Fit, ...]
    threshold_candidates: tuple[Fit, ...]
    excesses: MeanExcess
    fits: dict[Family, Fit]
    likelihood_ratios: dict[Extraction, tuple[float, float]]
    curve: tuple[CurvePoint, ...]
    band: tuple[CurvePoint, ...]
    claim: Claim
    notes: tuple[str, ...]

    @property
    def used(self) -> tuple[Fit, ...]:
        """The fits that the curve is the larger of; the first one's law must describe the data."""
        return tuple(self.fits[family] for family in self.settings.families)

    def levels(self, fit: Fit) -> tuple[float, ...]:
        """What one run exceeds by a fit with the probabilities asked for."""
        asked = self.settings.probabilities
        return tuple(self.sample.rounded(float(fit.tail.level(p))) for p in asked)

    def law_levels(self, exceedances: Floats) -> Floats:
        """What the laws alone say: the largest of their levels, NaN where they say nothing."""
        levels = np.stack([fit.tail.level(exceedances) for fit in self.used])
        return np.asarray(levels.max(axis=0), np.float64)


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
    relative = sample.times / sample.times.mean()  # tests of series square what they are given
    serial = serial_dependence(relative, settings.lags, level)
    index = extremal_index(spread, random)
    pairs = extremogram(spread, index.threshold, settings.lags, level, random)
    tests: tuple[TestOutcome, ...] = (
        *series_outcomes(relative, serial, level),
        *extreme_outcomes(index, pairs, level),
    )
    # independent extremes: an index a little below 1 by chance is not corrected for
    clustered = any(row.is_rejected for row in tests if row.gate is Gate.EXTREMES)
    theta = index.intervals if clustered else 1.0
    blocks = _candidates(spread, theta, Extraction.BLOCKS, settings, random)
    peaks = _candidates(spread, theta, Extraction.PEAKS, settings, random)
    chosen = {Extraction.PEAKS: peaks, Extraction.BLOCKS: blocks}
    extremes = {how: choose(chosen[how], 2 * level).tail.extremes for how in Extraction}
    fits = {
        family: fit_tail(extremes[how], family, settings.estimator, random)
        for how in Extraction
        for family in (how.family(has_shape=True), how.family(has_shape=False))
    }
    ratios = {how: _ratio(fits, how) for how in Extraction}
    tests = (*tests, fit_outcome(fits[settings.families[0]], level))
    gates = judge_gates(tests, level)
    tails = [fits[family].tail for family in settings.families]
    asked = len(settings.probabilities)
    points = _points(sample, tails, (*settings.probabilities, *_PICTURE_LEVELS), settings)
    heavy = heavy_tail_doubts(fits, ratios, points[:asked], settings)
    return Study(
        sample=sample,
        settings=settings,
        outcomes=tests,
        gates=gates,
        serial=serial,
        index=index,
        theta=theta,
        pairs=pairs,
        block_candidates=blocks,
        threshold_candidates=peaks,
        excesses=mean_excess(spread),
        fits=fits,
        likelihood_ratios=ratios,
        curve=points[:asked],
        band=points[asked:],
        claim=judge_claim(gates, heavy, sample, tails[0], settings),
        notes=(
            *shape_notes(fits, ratios, level),
            *law_notes(fits, points[:asked], settings),
        ),
    )


def least_times(settings: Settings) -> int:
    """How many times a study needs: 40 blocks of the block size, of 25 if none is given."""
    return LEAST_EXTREMES * (settings.block_size or LEAST_BLOCK)


def _candidates(
    spread: Floats,
    theta: float,
    how: Extraction,
    settings: Settings,
    random: np.random.Generator,
) -> tuple[Fit, ...]:
    """The law with a shape at each block size or threshold that is tried, or at the one given."""
    size, threshold = settings.block_size, settings.threshold
    if how is Extraction.BLOCKS:
        is_given = size is not None
        sizes = (size,) if size is not None else block_sizes(len(spread))
        tried = [maxima_of(spread, one, theta) for one in sizes]
    else:
        is_given = threshold is not None
        above = (threshold,) if threshold is not None else thresholds(spread)
        tried = [peaks_of(spread, one, theta) for one in above]
    family = how.family(has_shape=True)
    fits = (fit_tail(row, family, settings.estimator, random, _TRIED_REPLICATES) for row in tried)
    return tuple(
        replace(fit, is_eligible=is_given or is_eligible(fit.tail.extremes)) for fit in fits
    )


def _ratio(fits: dict[Family, Fit], how: Extraction) -> tuple[float, float]:
    full, plain = (fits[how.family(has_shape=shape)].tail for shape in (True, False))
    return likelihood_ratio(full.law, plain.law, full.extremes.values)


def _points(
    sample: Sample, tails: list[Tail], exceedances: tuple[float, ...], settings: Settings
) -> tuple[CurvePoint, ...]:
    """The largest level of the tails, and the largest ends of their intervals."""
    levels = [_levels(tail, exceedances, settings) for tail in tails]
    families = [tail.law.family for tail in tails]
    points = []
    for p, own in zip(exceedances, zip(*levels, strict=True), strict=True):
        laws, lows, highs = zip(*own, strict=True)
        points.append(
            CurvePoint(
                exceedance=p,
                pwcet=sample.rounded(max(highs)),
                estimate=sample.rounded(max(laws)),
                low=sample.rounded(max(lows)),
                law=max(laws),
                law_low=max(lows),
                law_high=max(highs),
                estimate_law=families[laws.index(max(laws))],
                pwcet_law=families[highs.index(max(highs))],
            )
        )
    return tuple(points)


def _levels(
    tail: Tail, exceedances: tuple[float, ...], settings: Settings
) -> list[tuple[float, float, float]]:
    """Level and both ends of its interval at each probability; NaN where the law says nothing."""
    known = [p for p in exceedances if float(tail.survival_of(p)) < 1]
    random = np.random.default_rng([settings.seed, 2])
    how = settings.interval_used
    ends = level_intervals(tail, known, settings.confidence, how, settings.estimator, random)
    found = {p: (float(tail.level(p)), *both) for p, both in zip(known, ends, strict=True)}
    return [found.get(p, (np.nan, np.nan, np.nan)) for p in exceedances]
