"""The report of pWCET studies as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from ptxwcet.methods.pwcet.report import (
    BoundRow,
    ConditionRow,
    DrawnRow,
    FitRow,
    PointRow,
    PwcetReport,
    SettingsRow,
    TestRow,
)
from ptxwcet.support.printable import aligned
from ptxwcet.support.rounding import text_above

_LONGEST = 1e15


def render_pwcet_text(report: PwcetReport) -> str:
    """The report for people: tests, gates, fits and curve of each condition, then all together."""
    lines = [
        f"ptxwcet {report.version}  {', '.join(report.sources)}",
        *settings_lines(report.settings),
    ]
    for condition in report.conditions:
        lines += ["", *_condition(condition, report)]
    if report.comparisons:
        lines += ["", "conditions by stochastic order (one-sided Kolmogorov-Smirnov tests)"]
        for pair in report.comparisons:
            lines.append(
                f"  {pair.first} {pair.order} {pair.second}   longer by up to {pair.above:z.3f} "
                f"(p {format_p(pair.p_above)}), shorter by up to {pair.below:z.3f} "
                f"(p {format_p(pair.p_below)})"
            )
        lines += ["", *_envelope(report)]
    lines += ["", "assumed, besides the tests"]
    for said in report.assumptions:
        lines += textwrap.wrap(said, 100, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def settings_lines(settings: SettingsRow) -> Iterator[str]:
    """What was asked for, in two lines."""
    how = {"pot": "peaks over a threshold", "bm": "block maxima"}[settings.extremes]
    laws = {
        "larger": "the larger of the laws with and without a shape",
        "free": "the law with a shape",
        "zero": "the law of shape 0",
    }[settings.shape]
    yield f"curve      {how}, {laws}"
    yield (
        f"           {settings.estimator.upper()}, {settings.interval} intervals of "
        f"{100 * settings.confidence:g} %; tests at level {settings.level:g}; seed {settings.seed}"
    )


def _condition(condition: ConditionRow, report: PwcetReport) -> Iterator[str]:
    unit = report.unit
    grid = f", grid of {condition.resolution:g}" if condition.resolution else ""
    yield f"condition  {condition.label}"
    yield (
        f"runs       {condition.runs:,}, mean {condition.mean:,.1f}, high-water mark "
        f"{format_time(condition.high_water_mark)} {unit}{grid}"
    )
    yield from textwrap.wrap(
        f"rare paths {rare_paths_text(condition, report)}", 100, subsequent_indent=" " * 11
    )
    if condition.discarded:
        yield f"discarded  {condition.discarded:,} runs for counter overflows"
    if condition.drawn is not None:
        yield from _drawn(condition.drawn)
    if condition.static_bound is not None:
        yield f"static     {format_bound(condition.static_bound, report.unit)}"
    yield ""
    yield f"{'hypotheses':<31}{'statistic':>11}{'p':>13}  verdict"
    for test in condition.tests:
        yield from _test(test)
    index = condition.extremal_index
    blocks = "-" if index.blocks is None else f"{index.blocks:.3f}"
    yield (
        f"  theta: intervals {index.intervals:.3f}, blocks of {index.block_length} {blocks}, runs "
        f"of {index.run_length} {index.runs:.3f} ({index.runs_if_independent:.3f} if independent), "
        f"sliding blocks {index.sliding_blocks:.3f}; applied {index.applied:.3f}"
    )
    yield ""
    yield "gates"
    for gate in condition.gates:
        yield f"  {gate.gate:<26}{gate.state:<10}{gate.reason}"
    yield ""
    yield from _fits(condition, report)
    for note in condition.notes:
        yield f"  {note}"
    yield ""
    yield from _curve(condition, report)


def rare_paths_text(condition: ConditionRow, report: PwcetReport) -> str:
    """Which second path these runs need not have shown."""
    unseen, shapeless = _share(condition.unseen_share), _share(condition.shapeless_share)
    confidence = f"{100 * report.settings.confidence:g} %"
    return (
        f"one that fewer than {unseen} of runs take may be in none of these, and one that fewer "
        f"than {shapeless} take in too few to shape the tail ({confidence}, "
        "independent runs): how long they take is not in the curve"
    )


def _share(probability: float) -> str:
    """A probability in per cent, two digits of it, rounded up."""
    digits = max(0, 1 - math.floor(math.log10(100 * probability)))
    return f"{text_above(probability, digits, 100)} %"


def format_bound(row: BoundRow, unit: str) -> str:
    """A static bound with its guarantee and where it comes from."""
    if row.cycles is None:
        return row.reason
    claim = f"   {row.guarantee}" if row.guarantee else ""
    return f"{row.cycles:,} {unit}{claim}: {row.reason}"


def _drawn(row: DrawnRow) -> Iterator[str]:
    yield (
        f"drawn      on {row.machine}, {row.sms} SMs with {row.resident_blocks} resident blocks, "
        f"{row.inputs} different input{'s' if row.inputs > 1 else ''}"
    )
    for said in row.assumptions:
        yield f"           assumed: {said}"


def _test(row: TestRow) -> Iterator[str]:
    statistic = "-" if row.statistic is None else f"{row.statistic:.4g}"
    p = "-" if row.p is None else format_p(row.p)
    yield f"  {row.name:<29}{statistic:>11}{p:>13}  {row.verdict:<10}{row.meaning}"


def _fits(row: ConditionRow, report: PwcetReport) -> Iterator[str]:
    head = ["fits", "choice", "n", "scale", "xi", "+-", "p of KS", "AD", "CvM"]
    if any(fit.levels for fit in row.fits):
        head += [f"{p:g}" for p in report.settings.probabilities]
    yield from aligned([head, *(_fit(fit) for fit in row.fits)], range(1, len(head)))


def _fit(fit: FitRow) -> list[str]:
    has_shape = fit.family in ("gev", "gpd")
    tests = (fit.p_kolmogorov_smirnov, fit.p_anderson_darling, fit.p_cramer_von_mises)
    return [
        f"  {fit.family}",
        f"b = {fit.choice:g}" if fit.family in ("gev", "gumbel") else f"u = {fit.choice:,.6g}",
        f"{fit.extremes:,}",
        f"{fit.scale:.4g}",
        f"{fit.shape:+.3f}" if has_shape else "0",
        format_error(fit.shape_error) if has_shape else "",
        *(f"{p:.3f}" for p in tests),
        *(format_time(level) for level in fit.levels),
    ]


def _curve(condition: ConditionRow, report: PwcetReport) -> Iterator[str]:
    if condition.guarantee is None:
        word = "FORCED" if condition.is_forced else "REFUSED"
        yield f"{word:<11}there is no probabilistic WCET of these times:"
        for reason in condition.refused_for:
            yield f"           {reason}"
        if condition.is_forced:
            yield "           the figures below are printed for --force and bound nothing"
    if condition.curve:
        settings = report.settings
        yield (
            f"pWCET      {report.unit}, exceeded by one run with at most the probability: upper "
            f"ends of {100 * settings.confidence:g} % intervals"
        )
        head = ["  probability", "pWCET", "law", "estimated curve", "law", "interval from", "claim"]
        yield from aligned(
            [head, *(_point(point, condition) for point in condition.curve)], range(1, len(head))
        )
    for diagnostic in condition.diagnostics:
        if diagnostic.severity == "warning":
            yield f"  [{diagnostic.code}] {diagnostic.message}"
    for reason in condition.weakened_for:
        yield f"  {'weakened' if condition.guarantee else 'besides'}: {reason}"


def _point(point: PointRow, row: ConditionRow) -> list[str]:
    return [
        f"  {point.exceedance:g}",
        format_pwcet(point.pwcet),
        point.pwcet_law,
        format_time(point.estimate),
        point.estimate_law,
        format_time(point.low),
        row.guarantee or "forced",
    ]


def _envelope(report: PwcetReport) -> Iterator[str]:
    if not report.envelope:
        yield "ENVELOPE   refused: the curve of a condition is refused"
        return
    claim = report.envelope_guarantee or "forced: bounds nothing"
    yield f"ENVELOPE   over the conditions   {claim}"
    rows = [["  probability", "pWCET", "of", "estimated curve"]]
    for row in report.envelope:
        times = format_pwcet(row.pwcet), format_time(row.estimate)
        rows.append([f"  {row.exceedance:g}", times[0], row.condition, times[1]])
    yield from aligned(rows, range(1, len(rows[0])))


def format_error(value: float | None) -> str:
    """A standard error; None is that of a law so short-tailed that it has none."""
    return "-" if value is None else f"{value:.3f}"


def format_p(value: float) -> str:
    """A probability: four digits, or its power of ten."""
    return f"{value:.4f}" if value >= 1e-4 or value == 0 else f"{value:.1e}"


def format_pwcet(value: float | None) -> str:
    """A time that is exceeded with a probability at most: rounded up."""
    if value is None or value <= 0 or value >= _LONGEST:
        return format_time(value)
    digits = 0 if value >= 1000 else 5 - math.floor(math.log10(value))
    shown = text_above(value, digits)
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def format_time(value: float | None) -> str:
    """A time; None is what the interval of a level has where no end was found.

    Times of 1e15 and more have four digits, rounded up.
    """
    if value is None:
        return "no end"
    if value >= _LONGEST:
        power = math.floor(math.log10(value))
        digits = math.ceil(value / 10.0 ** (power - 3))
        return f"{digits / 1000:.3f}e{power}" if digits < 10_000 else f"1.000e{power + 1}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.6g}"
