"""The report of pWCET studies as plain data, and how it is made from them. Schema number 1.

Figures that are not finite are null.
"""

from __future__ import annotations

from typing import Annotated

from ptxwcet.claims import Assumption, Guarantee
from ptxwcet.methods.pwcet.runs import DrawnCondition, SafeBound
from ptxwcet.methods.pwcet.sample_study import Study, rare_paths
from ptxwcet.methods.pwcet.settings import Extraction
from ptxwcet.methods.pwcet.study import ASSUMPTIONS, CITATION, PwcetAnswer, condition_findings
from ptxwcet.methods.pwcet.tail import Fit
from ptxwcet.report.head import DiagnosticRow, ReportHead, diagnostic_row, report_head, row_like
from ptxwcet.support.records import dataclass
from ptxwcet.trace.measurements import TimeUnit


@dataclass(frozen=True, slots=True)
class SettingsRow:
    """What was asked for; ``block_size`` and ``threshold`` null: chosen for each condition."""

    extremes: str
    shape: str
    estimator: str
    interval: str
    confidence: float
    level: float
    block_size: int | None
    threshold: float | None
    probabilities: tuple[float, ...]
    lags: int
    seed: int


@dataclass(frozen=True, slots=True)
class TestRow:
    """A hypothesis test; p null: a figure without a test."""

    __test__ = False  # not a test of pytest

    name: str
    gate: str | None
    hypothesis: str
    statistic: float | None
    p: float | None
    verdict: str
    meaning: str


@dataclass(frozen=True, slots=True)
class GateRow:
    """What extreme value theory needs, and whether the tests let it pass."""

    gate: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexRow:
    """The extremal index by each estimator; ``applied`` is what the curve was corrected by."""

    blocks: float | None
    runs: float
    runs_if_independent: float
    intervals: float
    sliding_blocks: float
    block_length: int
    run_length: int
    threshold: float
    exceedances: int
    applied: float


@dataclass(frozen=True, slots=True)
class FitRow:
    """A fitted law. ``choice`` is block size or threshold; p-values are the bootstrap's.

    ``levels`` are what one run exceeds with the probabilities asked for; empty if refused.
    """

    family: str
    choice: float
    extremes: int
    location: float
    scale: float
    scale_error: float | None
    shape: float
    shape_error: float | None
    p_kolmogorov_smirnov: float
    p_anderson_darling: float
    p_cramer_von_mises: float
    levels: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class RatioRow:
    """Likelihood ratio of the law with a shape over the one without."""

    extremes: str
    statistic: float
    p: float


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A block size or threshold that was tried, for the stability of what follows from it."""

    choice: float
    extremes: int
    shape: float
    shape_error: float | None
    p: float


@dataclass(frozen=True, slots=True)
class PointRow:
    """What one run exceeds with at most a probability.

    ``pwcet`` is the upper end of the interval, ``low`` its lower end (null: it has none), and
    ``estimate`` the estimated curve; ``pwcet_law`` and ``estimate_law`` are the laws they are of.
    """

    exceedance: float
    pwcet: float | None
    estimate: float | None
    low: float | None
    pwcet_law: str
    estimate_law: str


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """How runs were drawn: machine and shape of the grid."""

    machine: str
    sms: int
    resident_blocks: int
    inputs: int
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoundRow:
    """The static bound of a condition; null cycles: there is none, for the reason."""

    cycles: int | None
    guarantee: Annotated[str, Guarantee] | None
    reason: str


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """A condition. ``guarantee`` null: refused; the curve is then empty, unless it was forced.

    A path that runs take with a probability below ``unseen_share`` may be in none of these runs, at
    the confidence of the intervals, one below ``shapeless_share`` in too few to shape the tail.
    ``tested_law`` is the law whose fit the gate tested. ``diagnostics``: PW710 to PW715.
    """

    label: str
    runs: int
    discarded: int
    mean: float
    high_water_mark: float
    resolution: float
    unseen_share: float
    shapeless_share: float
    tests: tuple[TestRow, ...]
    gates: tuple[GateRow, ...]
    extremal_index: IndexRow
    fits: tuple[FitRow, ...]
    shape_tests: tuple[RatioRow, ...]
    block_sizes: tuple[CandidateRow, ...]
    thresholds: tuple[CandidateRow, ...]
    tested_law: str
    curve: tuple[PointRow, ...]
    guarantee: Annotated[str, Guarantee] | None
    is_forced: bool
    refused_for: tuple[str, ...]
    weakened_for: tuple[str, ...]
    notes: tuple[str, ...]
    drawn: DrawnRow | None
    static_bound: BoundRow | None
    diagnostics: tuple[DiagnosticRow, ...]


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """Two conditions by stochastic order."""

    first: str
    order: str
    second: str
    above: float
    p_above: float
    below: float
    p_below: float


@dataclass(frozen=True, slots=True)
class EnvelopeRow:
    """The largest pWCET at a probability and the condition that it is of; the largest estimate."""

    exceedance: float
    pwcet: float | None
    estimate: float | None
    condition: str


@dataclass(frozen=True, slots=True)
class PwcetReport(ReportHead):
    """Everything about one call; ``envelope`` is empty if a condition is refused."""

    sources: tuple[str, ...]
    unit: str
    settings: SettingsRow
    conditions: tuple[ConditionRow, ...]
    comparisons: tuple[ComparisonRow, ...]
    envelope: tuple[EnvelopeRow, ...]
    envelope_guarantee: Annotated[str, Guarantee] | None
    assumptions: tuple[str, ...]
    citation: str


def build_pwcet_report(answer: PwcetAnswer, *, force: bool) -> PwcetReport:
    """The report of an answer; ``force`` shows refused curves, marked. Deterministic."""
    drawn = answer.drawn or (None,) * len(answer.studies)
    conditions = zip(answer.studies, answer.discarded, drawn, answer.bounds, strict=True)
    shown = answer.envelope.guarantee is not None or force
    return PwcetReport(
        *report_head(),
        answer.sources,
        answer.unit.value,
        row_like(
            SettingsRow,
            answer.settings,
            extremes=answer.settings.extraction,
            interval=answer.settings.interval_used,
        ),
        tuple(_condition(*row, answer.unit, force) for row in conditions),
        tuple(row_like(ComparisonRow, row) for row in answer.comparisons),
        tuple(
            row_like(EnvelopeRow, row, condition=row.label)
            for row in (answer.envelope.points if shown else ())
        ),
        answer.envelope.guarantee.value if answer.envelope.guarantee else None,
        tuple(_said(row) for row in ASSUMPTIONS),
        f"{CITATION.paper}, {CITATION.place}",
    )


def _said(row: Assumption) -> str:
    return f"{row.text} ({row.source})"


def _condition(
    study: Study,
    discarded: int,
    drawn: DrawnCondition | None,
    bound: SafeBound | None,
    unit: TimeUnit,
    force: bool,
) -> ConditionRow:
    sample, claim = study.sample, study.claim
    rare = rare_paths(len(sample.times), study.settings.confidence)
    refused = claim.guarantee is None
    shown = force or not refused
    return row_like(
        ConditionRow,
        *(sample, claim, study),
        runs=len(sample.times),
        discarded=discarded,
        mean=float(sample.times.mean()),
        unseen_share=rare.unseen,
        shapeless_share=rare.shapeless,
        tests=tuple(row_like(TestRow, row) for row in study.outcomes),
        gates=tuple(row_like(GateRow, row) for row in study.gates),
        extremal_index=row_like(
            IndexRow, study.index, sliding_blocks=study.index.sliding, applied=study.theta
        ),
        fits=tuple(_fit(study, fit, shown) for fit in study.fits.values()),
        shape_tests=tuple(RatioRow(how.value, *study.likelihood_ratios[how]) for how in Extraction),
        block_sizes=tuple(_candidate(row) for row in study.block_candidates),
        thresholds=tuple(_candidate(row) for row in study.threshold_candidates),
        tested_law=study.settings.families[0].value,
        curve=tuple(row_like(PointRow, row) for row in study.curve) if shown else (),
        is_forced=refused and force,
        drawn=_drawn(drawn) if drawn else None,
        static_bound=row_like(BoundRow, bound) if bound else None,
        diagnostics=tuple(map(diagnostic_row, condition_findings(study, bound, unit))),
    )


def _fit(study: Study, fit: Fit, shown: bool) -> FitRow:
    return row_like(
        FitRow,
        *(fit, fit.tail.law, fit.goodness),
        extremes=len(fit.tail.extremes.values),
        levels=study.levels(fit) if shown else (),
    )


def _candidate(fit: Fit) -> CandidateRow:
    return row_like(
        CandidateRow,
        *(fit, fit.tail.law),
        extremes=len(fit.tail.extremes.values),
        p=fit.goodness.p_anderson_darling,
    )


def _drawn(row: DrawnCondition) -> DrawnRow:
    said = tuple(map(_said, row.assumptions))
    others = {"machine": row.machine.name, "inputs": row.executed_inputs, "assumptions": said}
    return row_like(DrawnRow, row.shape, **others)
