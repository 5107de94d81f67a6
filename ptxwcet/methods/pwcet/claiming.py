"""What the curve of a condition may be taken for, and why not for more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptxwcet.claims import Guarantee
from ptxwcet.methods.pwcet.distributions import Family
from ptxwcet.methods.pwcet.estimation import Estimator
from ptxwcet.methods.pwcet.extraction import LEAST_EXTREMES
from ptxwcet.methods.pwcet.hypotheses import GateOutcome, GateState
from ptxwcet.methods.pwcet.settings import Extraction, Settings, Shape
from ptxwcet.methods.pwcet.tail import CurvePoint, Fit, Sample, Tail
from ptxwcet.support.records import dataclass

COARSE = 0.5
"""Grid of the times, in scales of the law, from which on a continuous law is doubtful."""

IRREGULAR = -0.5
"""Shape from which on downwards likelihoods have no intervals of the usual kind (Smith 1985)."""

FEW_VALUES = 10
"""Different times among the extremes below which a continuous law is doubtful."""


HEAVY = 0.5
"""Shape from which on a curve is an estimate at best: such a law has no variance."""

ENDLESS = 1.0
"""Shape from which on there is no curve: such a law has no mean, and each further digit of the
probability takes ten times as long."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason against a claim; ``code`` is that of the diagnostic it is told in, if of its own."""

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
        return tuple(row.text for row in self.refused)

    @property
    def weakened_for(self) -> tuple[str, ...]:
        """The reasons why it is only an estimate, in words."""
        return tuple(row.text for row in self.weakened)


@dataclass(frozen=True, slots=True)
class Doubts:
    """Reasons to refuse and to weaken."""

    refused: tuple[Doubt, ...] = ()
    weakened: tuple[Doubt, ...] = ()


def judge_claim(
    gates: Sequence[GateOutcome], heavy: Doubts, sample: Sample, tail: Tail, settings: Settings
) -> Claim:
    """Takes gates, tail and grid together: the weakest decides.

    ``heavy``: what a heavy tail is a reason for.
    """
    refused = list(heavy.refused)
    weakened = [*heavy.weakened, *map(Doubt, _doubts(sample, tail, settings))]
    for outcome in gates:
        if outcome.state is GateState.PASSED:
            continue
        said = Doubt(f"{outcome.gate.value}: {outcome.state.value} ({outcome.reason})")
        if outcome.gate.refuses and outcome.state is GateState.FAILED:
            refused.append(said)
        elif outcome.gate.refuses or outcome.state is GateState.FAILED:
            weakened.append(said)
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
        # spread times lie in the cell below the observed one
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
    """What the shape of the tail, and intervals without an end, are reasons for.

    The shape is that of the law with one, whichever law the curve is taken from.
    """
    shape = fits[settings.extraction.family(has_shape=True)].tail.law.shape
    refused, weakened = [], []
    if shape >= ENDLESS:
        said = f"heavy tail: xi = {shape:.3g}; from {ENDLESS:g} on levels have no meaning"
        refused.append(Doubt(said, "PW711"))
    elif shape >= HEAVY:
        said = f"heavy tail: xi = {shape:.3g}; from {HEAVY:g} on far levels are guesses"
        weakened.append(Doubt(said, "PW713"))
    open_at = [f"{row.exceedance:g}" for row in curve if not row.has_ends]
    if open_at:
        said = f"the interval at {', '.join(open_at)} has no end: the times do not bound the tail"
        refused.append(Doubt(said, "PW712"))
    plain = _without_shape_doubts(shape, ratios, settings)
    return Doubts((*refused, *plain.refused), (*weakened, *plain.weakened))


def _without_shape_doubts(
    shape: float, ratios: Mapping[Extraction, tuple[float, float]], settings: Settings
) -> Doubts:
    """A law without a shape lies below a heavy tail: a curve from it alone would be unsafe."""
    if settings.shape is not Shape.ZERO or shape <= 0:
        return Doubts()
    p = ratios[settings.extraction][1]
    name = settings.families[0].value
    if p <= settings.level:
        said = f"heavy tail: xi = {shape:.3g} (p = {p:.3g}), {name} would be unsafe"
        return Doubts(refused=(Doubt(said),))
    said = f"xi = {shape:.3g} may be above 0 (p = {p:.3g}), and {name} too low"
    return Doubts(weakened=(Doubt(said),))


def law_notes(
    fits: Mapping[Family, Fit], curve: Sequence[CurvePoint], settings: Settings
) -> tuple[str, ...]:
    """Which law the gate tested, and where another one gives the answer, one line each."""
    tested = settings.families[0]
    notes = [f"tested by the gate: {tested.value}"]
    for family in dict.fromkeys(row.pwcet_law for row in curve):
        p = fits[family].goodness.p_anderson_darling
        at = ", ".join(f"{row.exceedance:g}" for row in curve if row.pwcet_law is family)
        said = f"printed at {at}: {family.value}"
        if family is not tested:
            verdict = "rejected" if p <= settings.level else "kept"
            said += f", since it lies above {tested.value}; its own test: {verdict} (p = {p:.3g})"
        notes.append(said)
    return tuple(notes)


def shape_notes(
    fits: Mapping[Family, Fit], ratios: Mapping[Extraction, tuple[float, float]], level: float
) -> tuple[str, ...]:
    """What the shapes say, one line each: a heavy tail is called out."""
    notes = []
    for how in Extraction:
        full, plain = how.family(has_shape=True), how.family(has_shape=False)
        law, p = fits[full].tail.law, ratios[how][1]
        said = f"{full.value}: xi = {law.shape:+.3f}"
        if p > level:
            notes.append(f"{said}, not to be told from 0 (p = {p:.3g})")
        elif law.shape > 0:
            notes.append(
                f"{said}, HEAVY TAIL (p = {p:.3g}): {plain.value} would be unsafe, and levels far "
                "beyond the measurements grow without end"
            )
        else:
            notes.append(
                f"{said}, a tail that ends at {law.upper_end:,.6g} (p = {p:.3g}): {plain.value} "
                "lies above it"
            )
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class RarePaths:
    """Probabilities of a path below which, at ``confidence``, runs need not have shown it.

    ``unseen``: not once. ``shapeless``: in fewer runs than the extremes that a law is fitted to
    (``LEAST_EXTREMES``), so that the fitted tail may be that of other paths; 1 if there are fewer
    runs than that.
    """

    unseen: float
    shapeless: float
    confidence: float


def rare_paths(runs: int, confidence: float) -> RarePaths:
    """What so many independent runs need not have shown: what the assumption of a tail leaves.

    A path that a run takes with probability q is taken by fewer than k of n independent runs with
    probability ``P(Bin(n, q) < k)``. The largest q for which that is more than what the confidence
    leaves is ``I^-1(k, n - k + 1; confidence)``, the inverse of the regularised incomplete beta
    function (Clopper and Pearson 1934); for k = 1 it is ``1 - (1 - confidence)^(1/n)``.

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
