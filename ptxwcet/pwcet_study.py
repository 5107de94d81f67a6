"""Probabilistic WCET of measured or drawn execution times: the library's front door.

>>> from ptxwcet.pwcet.settings import Settings
>>> from ptxwcet.pwcet_study import study_files
>>> from ptxwcet.trace.measurement_files import ReadOptions
>>> answer = study_files(["times.csv"], ReadOptions(), Settings())  # doctest: +SKIP
>>> [point.value for point in answer.studies[0].curve]  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptxwcet.api import Request
from ptxwcet.claims import Assumption, AssumptionState, Citation
from ptxwcet.pwcet.comparison import Comparison, Envelope, compare_all, envelope
from ptxwcet.pwcet.extraction import resolution_of
from ptxwcet.pwcet.settings import Settings
from ptxwcet.pwcet.study import Study, least_times, make_sample, study_sample
from ptxwcet.pwcet_runs import DrawnCondition, DrawOptions, RunProgress, SafeBound, draw_runs
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.trace.measurement_files import ReadOptions, read_measurements
from ptxwcet.trace.measurements import Measurements, TimeUnit

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
)
"""What every curve rests on, besides its hypothesis tests."""

CITATION = Citation(
    "K. Berezovskyi, L. Santinelli, K. Bletsas, E. Tovar: WCET measurement-based and extreme value "
    "theory characterisation of CUDA kernels, RTNS 2014",
    "sections 3 to 5",
)


@dataclass(frozen=True, slots=True, eq=False)
class PwcetAnswer:
    """The studies of all conditions, and how they stand to one another.

    ``drawn`` says how the runs were made if they were drawn here, in the order of the studies;
    ``bounds`` has the static bound of each condition where one is known, ``discarded`` the runs
    left out of it.
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

    @property
    def refused(self) -> tuple[Study, ...]:
        """The studies whose curve must not be taken for one."""
        return tuple(study for study in self.studies if study.claim.guarantee is None)


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

    Raises PtxwcetError: what :func:`draw_runs` refuses, PW705 and PW706.
    """
    check_settings(settings, options.runs)
    drawn = []
    for number, request in enumerate(requests):
        show = None
        if progress is not None:
            show = _shifted(progress, number * options.runs, len(requests) * options.runs)
        drawn.append(draw_runs(request, options, show))
    conditions = tuple(row.condition for row in drawn)
    measured = Measurements(TimeUnit.CYCLES, conditions, tuple(r.path for r in requests))
    bounds = tuple(row.bound for row in drawn)
    return replace(study_measurements(measured, settings), drawn=tuple(drawn), bounds=bounds)


def _shifted(progress: RunProgress, before: int, total: int) -> RunProgress:
    return lambda done, _: progress(before + done, total)


def study_measurements(measured: Measurements, settings: Settings) -> PwcetAnswer:
    """Analyses measurements, condition by condition.

    Raises PtxwcetError with a diagnostic for each condition: PW705 (too few times), PW706 (all the
    same). Cost: a few seconds a condition.
    """
    problems: list[Diagnostic] = []
    for row in measured.conditions:
        problems += _problems(row.label, row.times, row.discarded, settings)
    if problems:
        raise PtxwcetError(problems)
    # trial steps of fits leave the support of their laws: the infinities there are looked after
    with np.errstate(all="ignore"):
        studies = tuple(
            study_sample(make_sample(row.label, row.times, settings.seed), settings)
            for row in measured.conditions
        )
    return PwcetAnswer(
        measured.unit,
        measured.sources,
        settings,
        studies,
        tuple(row.discarded for row in measured.conditions),
        compare_all(studies, settings.level),
        envelope(studies),
        (None,) * len(studies),
    )


def with_stated_bounds(answer: PwcetAnswer, stated: Mapping[str, int]) -> PwcetAnswer:
    """The answer with static bounds that the user knows, by condition.

    Raises PtxwcetError (PW707) for a label that no condition has.
    """
    labels = [study.sample.label for study in answer.studies]
    for label in stated:
        if label not in labels:
            raise PtxwcetError(
                Diagnostic(
                    "PW707",
                    f"a bound is stated for '{label}', which is no condition",
                    help=f"conditions are: {', '.join(labels)}",
                )
            )
    bounds = tuple(
        SafeBound(stated[label], None, "stated with --static-bound") if label in stated else known
        for label, known in zip(labels, answer.bounds, strict=True)
    )
    return replace(answer, bounds=bounds)


def check_settings(settings: Settings, runs: int) -> None:
    """Raises PtxwcetError (PW705) if so few runs cannot be analysed, before they are drawn."""
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
                help="at least 40 are needed: lower --threshold, or leave it out",
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


def _too_few(what: str, count: int, discarded: int, needed: int, settings: Settings) -> Diagnostic:
    notes = (f"{discarded:,} runs were discarded for counter overflows",) if discarded else ()
    size = settings.block_size or 25
    return Diagnostic(
        "PW705",
        f"{what}: {count:,} times are too few",
        notes=notes,
        help=f"at least {needed:,} are needed: 40 blocks of {size} runs",
    )
