"""What the curve of a condition may be taken for, and why not for more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptxwcet.claims import Guarantee
from ptxwcet.pwcet.distributions import Family
from ptxwcet.pwcet.estimation import Estimator
from ptxwcet.pwcet.extraction import LEAST_EXTREMES
from ptxwcet.pwcet.outcomes import GateOutcome, GateState
from ptxwcet.pwcet.results import Fit, Sample
from ptxwcet.pwcet.settings import Extraction, Settings, Shape
from ptxwcet.pwcet.tail import Tail

COARSE = 0.5
"""Grid of the times, in scales of the law, from which on a continuous law is doubtful."""

IRREGULAR = -0.5
"""Shape from which on downwards likelihoods have no intervals of the usual kind (Smith 1985)."""

FEW_VALUES = 10
"""Different times among the extremes below which a continuous law is doubtful."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A guarantee (None: refused), and the reasons why it is refused or only an estimate."""

    guarantee: Guarantee | None
    refused_for: tuple[str, ...]
    weakened_for: tuple[str, ...]


def judge_claim(
    gates: Sequence[GateOutcome],
    heavy: tuple[tuple[str, ...], tuple[str, ...]],
    sample: Sample,
    tail: Tail,
    settings: Settings,
) -> Claim:
    """Takes gates, tail and grid together: the weakest decides.

    ``heavy``: reasons of a heavy tail to refuse and to weaken.
    """
    refused = list(heavy[0])
    weakened = [*heavy[1], *_doubts(sample, tail, settings)]
    for row in gates:
        if row.state is GateState.PASSED:
            continue
        said = f"{row.gate.value}: {row.state.value} ({row.reason})"
        if row.gate.refuses and row.state is GateState.FAILED:
            refused.append(said)
        elif row.gate.refuses or row.state is GateState.FAILED:
            weakened.append(said)
    guarantee: Guarantee | None = Guarantee.ESTIMATE if weakened else Guarantee.PROBABILISTIC
    return Claim(None if refused else guarantee, tuple(refused), tuple(weakened))


def _doubts(sample: Sample, tail: Tail, settings: Settings) -> list[str]:
    found = []
    cells = sample.resolution / tail.law.scale
    if settings.estimator is Estimator.PWM and tail.law.shape >= 0.5:
        found.append(f"xi = {tail.law.shape:.3g}: L-moments are not reliable for tails this heavy")
    if tail.law.shape <= IRREGULAR:
        found.append(f"xi = {tail.law.shape:.3g}: intervals do not hold for shapes this low")
    if cells > COARSE:
        found.append(
            f"coarse times: their grid of {sample.resolution:g} is {cells:.2g} scales of the law"
        )
    if len(tail.extremes.values) < LEAST_EXTREMES:
        found.append(f"only {len(tail.extremes.values)} independent extremes")
    if sample.resolution:
        # spread times lie in the cell below the observed one
        values = tail.extremes.values
        different = len({round(v) for v in ((values - sample.times.min()) / sample.resolution)})
        if different < FEW_VALUES:
            found.append(f"only {different} different times among the {len(values)} extremes")
    return found


def heavy_tail_reasons(
    fits: Mapping[Family, Fit],
    ratios: Mapping[Extraction, tuple[float, float]],
    settings: Settings,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Reasons to refuse and to weaken a curve whose law has no shape, where the shape is above 0.

    A law without a shape lies below a heavy tail: it would be unsafe.
    """
    if settings.shape is not Shape.ZERO:
        return (), ()
    how = settings.extraction
    shape = fits[how.family(has_shape=True)].tail.law.shape
    p = ratios[how][1]
    if shape <= 0:
        return (), ()
    name = settings.families[0].value
    if p <= settings.level:
        return (f"heavy tail: xi = {shape:.3g} (p = {p:.3g}), {name} would be unsafe",), ()
    return (), (f"xi = {shape:.3g} may be above 0 (p = {p:.3g}), and {name} too low",)


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
