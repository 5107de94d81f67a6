"""Studies one condition: tests, fits, curve, and the claim of the curve.

A condition is a series of execution times, all measured under the same circumstances ([E] 4,
Definition 1). Its curve gives the probability with which one run takes longer than a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ptxwcet.claims import Guarantee
from ptxwcet.methods.pwcet.dependence import (
    ExtremalIndex,
    Extremogram,
    SerialDependence,
    extremal_index,
    extremogram,
    serial_dependence,
)
from ptxwcet.methods.pwcet.distributions import Family, Floats
from ptxwcet.methods.pwcet.estimation import Estimator
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
    GateState,
    TestOutcome,
    extreme_outcomes,
    fit_outcome,
    judge_gates,
    series_outcomes,
)
from ptxwcet.methods.pwcet.intervals import level_intervals
from ptxwcet.methods.pwcet.settings import Extraction, Settings, Shape
from ptxwcet.methods.pwcet.tail import CurvePoint, Fit, Sample, Tail, fit_tail, likelihood_ratio
from ptxwcet.support.records import dataclass

_TRIED_REPLICATES = 99
_PICTURE_LEVELS = (1e-3, 1e-4, 1e-5)


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """The study of one condition; ``curve`` has the requested points, ``band`` more to draw.

    ``theta`` is the extremal index by which extremes are corrected: the estimate by intervals, or 1
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
        """The fits whose larger one is the curve; the first one's law must describe the data."""
        return tuple(self.fits[family] for family in self.settings.families)

    def levels(self, fit: Fit) -> tuple[float, ...]:
        """Returns the levels of a fit that one run exceeds with the requested probabilities."""
        asked = self.settings.probabilities
        return tuple(self.sample.rounded(float(fit.tail.level(p))) for p in asked)

    def law_levels(self, exceedances: Floats) -> Floats:
        """Returns the largest levels of the laws only, NaN where they are undefined."""
        levels = np.stack([fit.tail.level(exceedances) for fit in self.used])
        return np.asarray(levels.max(axis=0), np.float64)


def make_sample(label: str, times: Floats, seed: int) -> Sample:
    """Returns the sample of a condition. Cost: linear."""
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
    relative = sample.times / sample.times.mean()  # tests of series square their input
    serial = serial_dependence(relative, settings.lags, level)
    index = extremal_index(spread, random)
    pairs = extremogram(spread, index.threshold, settings.lags, level, random)
    tests: tuple[TestOutcome, ...] = (
        *series_outcomes(relative, serial, level),
        *extreme_outcomes(index, pairs, level),
    )
    # Independent extremes: an index a little below 1 by chance is not corrected for.
    clustered = any(test.is_rejected for test in tests if test.gate is Gate.EXTREMES)
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
    """Returns the number of times that a study needs: 40 blocks of the block size, or of 25."""
    return LEAST_EXTREMES * (settings.block_size or LEAST_BLOCK)


def _candidates(
    spread: Floats,
    theta: float,
    how: Extraction,
    settings: Settings,
    random: np.random.Generator,
) -> tuple[Fit, ...]:
    """Returns the law with a shape at each tried block size or threshold, or at the given one."""
    size, threshold = settings.block_size, settings.threshold
    if how is Extraction.BLOCKS:
        is_given = size is not None
        sizes = (size,) if size is not None else block_sizes(len(spread))
        tried = [maxima_of(spread, n, theta) for n in sizes]
    else:
        is_given = threshold is not None
        above = (threshold,) if threshold is not None else thresholds(spread)
        tried = [peaks_of(spread, n, theta) for n in above]
    family = how.family(has_shape=True)
    fits = (fit_tail(e, family, settings.estimator, random, _TRIED_REPLICATES) for e in tried)
    return tuple(
        replace(fit, is_eligible=is_given or is_eligible(fit.tail.extremes)) for fit in fits
    )


def _ratio(fits: dict[Family, Fit], how: Extraction) -> tuple[float, float]:
    full, plain = (fits[how.family(has_shape=shape)].tail for shape in (True, False))
    return likelihood_ratio(full.law, plain.law, full.extremes.values)


def _points(
    sample: Sample, tails: list[Tail], exceedances: tuple[float, ...], settings: Settings
) -> tuple[CurvePoint, ...]:
    """Returns the largest level of the tails, and the largest ends of their intervals."""
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
    """Returns level and both ends of its interval at each probability; NaN where undefined."""
    defined = [p for p in exceedances if float(tail.survival_of(p)) < 1]
    random = np.random.default_rng([settings.seed, 2])
    how = settings.interval_used
    ends = level_intervals(tail, defined, settings.confidence, how, settings.estimator, random)
    levels = {p: (float(tail.level(p)), *both) for p, both in zip(defined, ends, strict=True)}
    return [levels.get(p, (np.nan, np.nan, np.nan)) for p in exceedances]


# --- the claim of a condition's curve, and the reasons against a stronger one ---------------------


COARSE = 0.5
"""The grid of the times, in scales of the law, from which on a continuous law is doubtful."""

IRREGULAR = -0.5
"""The shape from which on downwards likelihoods have no usual intervals (Smith 1985)."""

FEW_VALUES = 10
"""The number of different extreme times below which a continuous law is doubtful."""


HEAVY = 0.5
"""The shape from which on a curve is an estimate at best: such a law has no variance."""

ENDLESS = 1.0
"""The shape from which on there is no curve: such a law has no mean, and each further digit of the
probability takes ten times as long.
"""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason against a claim; ``code`` is that of its diagnostic, if it has its own."""

    text: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A guarantee (None: refused), and the reasons why it is refused or only an estimate."""

    guarantee: Guarantee | None
    refused: tuple[Doubt, ...]
    weakened: tuple[Doubt, ...]

    @property
    def refused_for(self) -> tuple[str, ...]:
        """The reasons why it is refused, in words."""
        return tuple(doubt.text for doubt in self.refused)

    @property
    def weakened_for(self) -> tuple[str, ...]:
        """The reasons why it is only an estimate, in words."""
        return tuple(doubt.text for doubt in self.weakened)


@dataclass(frozen=True, slots=True)
class Doubts:
    """The reasons to refuse and to weaken."""

    refused: tuple[Doubt, ...] = ()
    weakened: tuple[Doubt, ...] = ()


def judge_claim(
    gates: Sequence[GateOutcome], heavy: Doubts, sample: Sample, tail: Tail, settings: Settings
) -> Claim:
    """Combines gates, tail and grid: the weakest decides.

    ``heavy``: the consequences of a heavy tail.
    """
    refused = list(heavy.refused)
    weakened = [*heavy.weakened, *map(Doubt, _doubts(sample, tail, settings))]
    for outcome in gates:
        if outcome.state is GateState.PASSED:
            continue
        doubt = Doubt(f"{outcome.gate.value}: {outcome.state.value} ({outcome.reason})")
        if outcome.gate.refuses and outcome.state is GateState.FAILED:
            refused.append(doubt)
        elif outcome.gate.refuses or outcome.state is GateState.FAILED:
            weakened.append(doubt)
    guarantee: Guarantee | None = Guarantee.ESTIMATE if weakened else Guarantee.PROBABILISTIC
    return Claim(None if refused else guarantee, tuple(refused), tuple(weakened))


def _doubts(sample: Sample, tail: Tail, settings: Settings) -> list[str]:
    doubts = []
    cells = sample.resolution / tail.law.scale
    if settings.estimator is Estimator.PWM and tail.law.shape >= 0.5:
        doubts.append(f"xi = {tail.law.shape:.3g}: L-moments are not reliable for tails this heavy")
    if tail.law.shape <= IRREGULAR:
        doubts.append(f"xi = {tail.law.shape:.3g}: intervals do not hold for shapes this low")
    if cells > COARSE:
        doubts.append(
            f"coarse times: their grid of {sample.resolution:g} is {cells:.2g} scales of the law"
        )
    if len(tail.extremes.values) < LEAST_EXTREMES:
        doubts.append(f"only {len(tail.extremes.values)} independent extremes")
    if sample.resolution:
        # Spread times are in the cell below the observed one.
        values = tail.extremes.values
        different = len({round(v) for v in ((values - sample.times.min()) / sample.resolution)})
        if different < FEW_VALUES:
            doubts.append(f"only {different} different times among the {len(values)} extremes")
    return doubts


def heavy_tail_doubts(
    fits: Mapping[Family, Fit],
    ratios: Mapping[Extraction, tuple[float, float]],
    curve: Sequence[CurvePoint],
    settings: Settings,
) -> Doubts:
    """Returns the consequences of the tail's shape, and of intervals without an end.

    The shape is that of the law with a shape, whichever law gives the curve.
    """
    shape = fits[settings.extraction.family(has_shape=True)].tail.law.shape
    refused, weakened = [], []
    if shape >= ENDLESS:
        reason = f"heavy tail: xi = {shape:.3g}; from {ENDLESS:g} on levels have no meaning"
        refused.append(Doubt(reason, "PW711"))
    elif shape >= HEAVY:
        reason = f"heavy tail: xi = {shape:.3g}; from {HEAVY:g} on far levels are guesses"
        weakened.append(Doubt(reason, "PW713"))
    open_at = [f"{point.exceedance:g}" for point in curve if not point.has_ends]
    if open_at:
        reason = f"the interval at {', '.join(open_at)} has no end: the times do not bound the tail"
        refused.append(Doubt(reason, "PW712"))
    plain = _without_shape_doubts(shape, ratios, settings)
    return Doubts((*refused, *plain.refused), (*weakened, *plain.weakened))


def _without_shape_doubts(
    shape: float, ratios: Mapping[Extraction, tuple[float, float]], settings: Settings
) -> Doubts:
    """Returns doubts about a law without a shape, which underestimates a heavy tail."""
    if settings.shape is not Shape.ZERO or shape <= 0:
        return Doubts()
    p = ratios[settings.extraction][1]
    name = settings.families[0].value
    if p <= settings.level:
        reason = f"heavy tail: xi = {shape:.3g} (p = {p:.3g}), {name} would be unsafe"
        return Doubts(refused=(Doubt(reason),))
    reason = f"xi = {shape:.3g} may be above 0 (p = {p:.3g}), and {name} too low"
    return Doubts(weakened=(Doubt(reason),))


def law_notes(
    fits: Mapping[Family, Fit], curve: Sequence[CurvePoint], settings: Settings
) -> tuple[str, ...]:
    """Returns a line on the law that the gate tested, and one for each other law in the answers."""
    tested = settings.families[0]
    notes = [f"tested by the gate: {tested.value}"]
    for family in dict.fromkeys(point.pwcet_law for point in curve):
        p = fits[family].goodness.p_anderson_darling
        at = ", ".join(f"{point.exceedance:g}" for point in curve if point.pwcet_law is family)
        line = f"printed at {at}: {family.value}"
        if family is not tested:
            verdict = "rejected" if p <= settings.level else "kept"
            line += f", since it lies above {tested.value}; its own test: {verdict} (p = {p:.3g})"
        notes.append(line)
    return tuple(notes)


def shape_notes(
    fits: Mapping[Family, Fit], ratios: Mapping[Extraction, tuple[float, float]], level: float
) -> tuple[str, ...]:
    """Returns a line on each shape, with emphasis on a heavy tail."""
    notes = []
    for how in Extraction:
        full, plain = how.family(has_shape=True), how.family(has_shape=False)
        law, p = fits[full].tail.law, ratios[how][1]
        line = f"{full.value}: xi = {law.shape:+.3f}"
        if p > level:
            notes.append(f"{line}, not to be told from 0 (p = {p:.3g})")
        elif law.shape > 0:
            notes.append(
                f"{line}, HEAVY TAIL (p = {p:.3g}): {plain.value} would be unsafe, and levels far "
                "beyond the measurements grow without end"
            )
        else:
            notes.append(
                f"{line}, a tail that ends at {law.upper_end:,.6g} (p = {p:.3g}): {plain.value} "
                "lies above it"
            )
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class RarePaths:
    """The probabilities of a path below which, at ``confidence``, runs need not have shown it.

    ``unseen``: not once. ``shapeless``: in fewer runs than the extremes that a law is fitted to
    (``LEAST_EXTREMES``), so that the fitted tail may be that of other paths; 1 if there are fewer
    runs than that.
    """

    unseen: float
    shapeless: float
    confidence: float


def rare_paths(runs: int, confidence: float) -> RarePaths:
    """Returns the probabilities of paths that this many independent runs need not have shown.

    A path that a run takes with probability q is taken by fewer than k of n independent runs with
    probability ``P(Bin(n, q) < k)``. The largest q for which that exceeds 1 - confidence is
    ``I^-1(k, n - k + 1; confidence)``, the inverse of the regularised incomplete beta function
    (Clopper and Pearson 1934); for k = 1 it is ``1 - (1 - confidence)^(1/n)``.

    >>> round(rare_paths(2_000, 0.95).unseen, 6)
    0.001497
    """
    return RarePaths(
        _share(1, runs, confidence), _share(LEAST_EXTREMES, runs, confidence), confidence
    )


def _share(least: int, runs: int, confidence: float) -> float:
    from scipy.special import betaincinv  # loaded only where there are runs

    if runs < least:
        return 1.0
    return float(betaincinv(least, runs - least + 1, confidence))
