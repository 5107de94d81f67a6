"""Probabilistic WCET of measured or drawn execution times: the entry point of the library.

>>> import numpy as np
>>> from ptxwcet.methods.pwcet.settings import Settings
>>> from ptxwcet.methods.pwcet.study import study_measurements
>>> from ptxwcet.trace.measurements import Condition, Measurements, TimeUnit
>>> times = 1000 + np.random.default_rng(1).exponential(50, 1200)
>>> measured = Measurements(TimeUnit.CYCLES, (Condition("idle", times),), ("drawn here",))
>>> (study,) = study_measurements(measured, Settings(probabilities=(1e-9,))).studies
>>> study.claim.guarantee.value
'probabilistic'
>>> (point,) = study.curve
>>> truth = 1000 - 50 * np.log(1e-9)
>>> bool(point.low < truth < point.pwcet)
True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum

import numpy as np

from ptxwcet.claims import Assumption, AssumptionState, Citation, Guarantee
from ptxwcet.methods.pwcet.extraction import resolution_of
from ptxwcet.methods.pwcet.runs import (
    DrawnCondition,
    DrawOptions,
    RunProgress,
    SafeBound,
    draw_runs,
)
from ptxwcet.methods.pwcet.sample_study import Study, least_times, make_sample, study_sample
from ptxwcet.methods.pwcet.settings import Settings
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, Severity
from ptxwcet.support.records import dataclass
from ptxwcet.trace.measurements import Measurements, ReadOptions, TimeUnit, read_measurements


class Order(Enum):
    """The order of the first condition with respect to the second."""

    DOMINATES = "dominates"
    DOMINATED = "is dominated by"
    ALIKE = "is not told from"
    CROSSING = "crosses"  # longer at some probabilities, shorter at others


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two conditions. ``above`` and ``below``: the largest difference of the
    distribution functions where the first takes longer and where it is shorter; with p-values.
    """

    first: str
    second: str
    order: Order
    above: float
    p_above: float
    below: float
    p_below: float


@dataclass(frozen=True, slots=True)
class EnvelopePoint:
    """The largest pWCET at a probability with its condition; and the largest estimate."""

    exceedance: float
    pwcet: float
    estimate: float
    label: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """The largest of the curves of all conditions; its guarantee is the weakest of theirs.

    ``guarantee`` None: the curve of a condition is refused, and so is the envelope.
    """

    points: tuple[EnvelopePoint, ...]
    guarantee: Guarantee | None


def compare(first: Study, second: Study, level: float) -> Comparison:
    """Performs one-sided two-sample Kolmogorov-Smirnov tests in both directions. Cost: sorts.

    A condition dominates another ([E] section 4) if its times are longer at every probability:
    ``P(C_j <= d) <= P(C_k <= d)`` for all d.
    """
    from scipy.stats import ks_2samp

    a, b = first.sample.times, second.sample.times
    longer = ks_2samp(a, b, alternative="less", method="asymp")
    shorter = ks_2samp(a, b, alternative="greater", method="asymp")
    is_longer, is_shorter = longer.pvalue <= level, shorter.pvalue <= level
    order = {
        (True, False): Order.DOMINATES,
        (False, True): Order.DOMINATED,
        (False, False): Order.ALIKE,
        (True, True): Order.CROSSING,
    }[bool(is_longer), bool(is_shorter)]
    return Comparison(
        first.sample.label,
        second.sample.label,
        order,
        float(longer.statistic),
        float(longer.pvalue),
        float(shorter.statistic),
        float(shorter.pvalue),
    )


def compare_all(studies: Sequence[Study], level: float) -> tuple[Comparison, ...]:
    """Compares all pairs; the level is divided by their number."""
    pairs = [(a, b) for k, a in enumerate(studies) for b in studies[k + 1 :]]
    return tuple(compare(a, b, level / len(pairs)) for a, b in pairs)


def envelope(studies: Sequence[Study]) -> Envelope:
    """Returns the envelope over the conditions: a bound for a run under any one of them."""
    points = []
    for k, point in enumerate(studies[0].curve):
        top = max(studies, key=lambda study: study.curve[k].pwcet)
        estimate = max(study.curve[k].estimate for study in studies)
        pwcet = top.curve[k].pwcet
        points.append(EnvelopePoint(point.exceedance, pwcet, estimate, top.sample.label))
    guarantees = [study.claim.guarantee for study in studies]
    claimed = [guarantee for guarantee in guarantees if guarantee is not None]
    weakest = Guarantee.weakest(claimed) if len(claimed) == len(guarantees) else None
    return Envelope(tuple(points), weakest)


ASSUMPTIONS = (
    Assumption(
        "representative",
        "the runs measured are like those to come: same inputs, machine, load; what was never "
        "exercised is not in the curve",
        AssumptionState.ASSUMED,
        "[E] section 4: measurements may lack completeness",
    ),
    Assumption(
        "tail",
        "the law that holds at the extremes observed holds beyond them",
        AssumptionState.ASSUMED,
        "extreme value theory: a limit, taken as reached",
    ),
    Assumption(
        "confidence",
        "the truth is below the upper end of the interval, at the stated confidence; the interval "
        "does not know that threshold and block size were chosen by the same times",
        AssumptionState.ASSUMED,
        "docs/experiments/pwcet-voronoi.md: how often it was",
    ),
)
"""The assumptions of every curve, besides its hypothesis tests."""

CITATION = Citation(
    "K. Berezovskyi, L. Santinelli, K. Bletsas, E. Tovar: WCET measurement-based and extreme value "
    "theory characterisation of CUDA kernels, RTNS 2014",
    "sections 3 to 5",
)


@dataclass(frozen=True, slots=True, eq=False)
class PwcetAnswer:
    """The studies of all conditions, and their comparison.

    ``drawn`` describes the runs if they were drawn here, in the order of the studies; ``bounds``
    has the static bound of each condition where one is known, ``discarded`` the runs left out of
    it.
    """

    unit: TimeUnit
    sources: tuple[str, ...]
    settings: Settings
    studies: tuple[Study, ...]
    discarded: tuple[int, ...]
    comparisons: tuple[Comparison, ...]
    envelope: Envelope
    bounds: tuple[SafeBound | None, ...]
    drawn: tuple[DrawnCondition, ...] = ()


def study_files(paths: Sequence[str], reading: ReadOptions, settings: Settings) -> PwcetAnswer:
    """Analyses the times in files. Raises PtxwcetError (PW701 to PW709)."""
    return study_measurements(read_measurements(paths, reading), settings)


def study_launches(
    requests: Sequence[Request],
    options: DrawOptions,
    settings: Settings,
    progress: RunProgress | None = None,
) -> PwcetAnswer:
    """Draws the runs of launch files, a condition each, and analyses them.

    Raises PtxwcetError: refusals of :func:`draw_runs`, PW705 and PW706.
    """
    check_settings(settings, options.runs)
    drawn = []
    for number, request in enumerate(requests):
        show = None
        if progress is not None:
            show = _shifted(progress, number * options.runs, len(requests) * options.runs)
        drawn.append(draw_runs(request, options, show))
    conditions = tuple(r.condition for r in drawn)
    measured = Measurements(TimeUnit.CYCLES, conditions, tuple(r.path for r in requests))
    bounds = tuple(r.bound for r in drawn)
    return replace(study_measurements(measured, settings), drawn=tuple(drawn), bounds=bounds)


def _shifted(progress: RunProgress, before: int, total: int) -> RunProgress:
    return lambda done, _: progress(before + done, total)


def study_measurements(measured: Measurements, settings: Settings) -> PwcetAnswer:
    """Analyses measurements, condition by condition.

    Raises PtxwcetError with a diagnostic for each condition: PW705 (too few times), PW706 (all the
    same). Cost: a few seconds a condition.
    """
    problems: list[Diagnostic] = []
    for condition in measured.conditions:
        problems += _problems(condition.label, condition.times, condition.discarded, settings)
    if problems:
        raise PtxwcetError(problems)
    # Trial steps of fits leave the support of their laws: the infinities there are handled.
    with np.errstate(all="ignore"):
        studies = tuple(
            study_sample(make_sample(condition.label, condition.times, settings.seed), settings)
            for condition in measured.conditions
        )
    return PwcetAnswer(
        measured.unit,
        measured.sources,
        settings,
        studies,
        tuple(condition.discarded for condition in measured.conditions),
        compare_all(studies, settings.level),
        envelope(studies),
        (None,) * len(studies),
    )


def with_stated_bounds(answer: PwcetAnswer, stated: Mapping[str, int]) -> PwcetAnswer:
    """Returns the answer with static bounds that the user states, by condition.

    Raises PtxwcetError (PW707) for a label that no condition has.
    """
    labels = [study.sample.label for study in answer.studies]
    for label in stated:
        if label not in labels:
            raise PtxwcetError.of(
                "PW707",
                f"a bound is stated for '{label}', which is no condition",
                help=f"conditions are: {', '.join(labels)}",
            )
    bounds = tuple(
        SafeBound(stated[label], None, "stated with --static-bound") if label in stated else earlier
        for label, earlier in zip(labels, answer.bounds, strict=True)
    )
    return replace(answer, bounds=bounds)


def findings(answer: PwcetAnswer) -> tuple[Diagnostic, ...]:
    """Returns the findings of all conditions; see :func:`condition_findings`."""
    rows = zip(answer.studies, answer.bounds, strict=True)
    return tuple(finding for row in rows for finding in condition_findings(*row, answer.unit))


def condition_findings(
    study: Study, bound: SafeBound | None, unit: TimeUnit
) -> tuple[Diagnostic, ...]:
    """Returns the problems of a condition's curve; an error is a refused curve.

    PW710 to PW712 (refused), PW713 (a heavy tail), PW714 and PW715 (against the static bound).
    """
    problems = [*_claim_findings(study)]
    if bound is not None and bound.cycles is not None:
        problems += _bound_findings(study, bound.cycles, bound.reason, unit)
    return tuple(problems)


_REMEDIES = {
    "PW710": "see docs/methods/pwcet.md for each test; --force prints the curve, marked",
    "PW711": "look for runs of another kind among the longest ones, and measure them apart",
    "PW712": "measure more runs, or ask for larger probabilities",
    "PW713": "measure more runs, and look for runs of another kind among the longest ones",
}


def _claim_findings(study: Study) -> Iterator[Diagnostic]:
    label, claim = study.sample.label, study.claim
    titles = {
        "PW710": "no probabilistic WCET",
        "PW711": "the tail is too heavy for a probabilistic WCET",
        "PW712": "an interval of the probabilistic WCET has no end",
    }
    for code, title in titles.items():
        notes = tuple(doubt.text for doubt in claim.refused if (doubt.code or "PW710") == code)
        if notes:
            message = f"condition '{label}': {title}"
            yield Diagnostic(code, message, notes=notes, help=_REMEDIES[code])
    for reason in claim.weakened:
        if reason.code is not None:
            message = f"condition '{label}': {reason.text}"
            yield Diagnostic(
                reason.code, message, help=_REMEDIES[reason.code], severity=Severity.WARNING
            )


def _bound_findings(study: Study, most: int, reason: str, unit: TimeUnit) -> Iterator[Diagnostic]:
    label, mark = study.sample.label, study.sample.high_water_mark
    stated = f"the static bound of {most:,} {unit.value}"
    if mark > most:
        yield Diagnostic(
            "PW715",
            f"condition '{label}': {mark:,.10g} was observed, above {stated}",
            notes=(reason,),
            help="the bound is not one of these runs: check kernel, launch, clock and machine",
            severity=Severity.WARNING,
        )
    above = [f"{point.exceedance:g}" for point in study.curve if point.pwcet > most]
    if above and study.claim.guarantee is not None:
        yield Diagnostic(
            "PW714",
            f"condition '{label}': the pWCET at {', '.join(above)} is above {stated}",
            notes=(reason,),
            help="if the bound holds, no run takes longer: the pWCET says nothing more there",
            severity=Severity.WARNING,
        )


def check_settings(settings: Settings, runs: int) -> None:
    """Raises PtxwcetError (PW705) if this few runs cannot be analysed, before they are drawn."""
    needed = least_times(settings)
    if runs < needed:
        raise PtxwcetError(_too_few("the runs to draw", runs, 0, needed, settings))


def _problems(
    label: str, times: np.ndarray[tuple[int], np.dtype[np.float64]], discarded: int, s: Settings
) -> list[Diagnostic]:
    needed = least_times(s)
    if len(times) < needed:
        return [_too_few(f"condition '{label}'", len(times), discarded, needed, s)]
    if times.min() == times.max():
        return [
            Diagnostic(
                "PW706",
                f"condition '{label}': all {len(times):,} times are {times[0]:,.10g}",
                help="nothing varies, so that there is no distribution: check how times were taken",
            )
        ]
    above = int((times > s.threshold).sum()) if s.threshold is not None else needed
    if above < min(needed, 40):
        return [
            Diagnostic(
                "PW705",
                f"condition '{label}': {above} times are above the threshold {s.threshold:,.10g}",
                help="at least 40 are needed: lower it (--extremes pot:NUMBER), or leave it out",
            )
        ]
    extremes = np.sort(times)[-needed // 10 :]
    top = extremes[len(extremes) // 2 :]
    if extremes[0] == extremes[-1] or (not resolution_of(times) and top[0] == top[-1]):
        return [
            Diagnostic(
                "PW706",
                f"condition '{label}': the {len(extremes)} largest times are all, or half of them, "
                f"{extremes[-1]:,.10g}",
                help="the times have no tail that a law could be fitted to: take them more finely",
            )
        ]
    return []


def _too_few(name: str, count: int, discarded: int, needed: int, settings: Settings) -> Diagnostic:
    notes = (f"{discarded:,} runs were discarded for counter overflows",) if discarded else ()
    size = settings.block_size or 25
    return Diagnostic(
        "PW705",
        f"{name}: {count:,} times are too few",
        notes=notes,
        help=f"at least {needed:,} are needed: 40 blocks of {size} runs",
    )
