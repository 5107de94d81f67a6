"""The report of pWCET studies as one HTML page with its pictures inside; nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from ptxwcet.methods.pwcet.pictures import Picture
from ptxwcet.methods.pwcet.report import ConditionRow, PwcetReport
from ptxwcet.methods.pwcet.text import (
    format_bound,
    format_error,
    format_p,
    format_pwcet,
    format_time,
    rare_paths_text,
    settings_lines,
)
from ptxwcet.report.page.parts import Made, page_file, themed
from ptxwcet.support.printable import printable_picture


def render_pwcet_html(report: PwcetReport, pictures: Sequence[Picture], made: Made) -> str:
    """The page. Labels and file names are escaped."""
    body = [
        "<h1>Probabilistic WCET</h1>",
        f"<p>ptxwcet {escape(report.version)}: {escape(', '.join(report.sources))}<br>",
        escape(" ".join(settings_lines(report.settings))) + "</p>",
    ]
    if len(report.conditions) > 1:
        body += [*_summary(report), *_figures(pictures, "")]
    for condition in report.conditions:
        body += _condition(condition, report, pictures)
    body.append("<h2>Assumed, besides the tests</h2><ul>")
    body += [f"<li>{escape(said)}</li>" for said in report.assumptions]
    body.append(f"</ul><p>Method: {escape(report.citation)}.</p>")
    body += _made(made)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>Probabilistic WCET</title><style>{page_file('style.css')}</style>"
    page = f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n'
    return printable_picture(page + "\n".join(body) + "\n</body></html>\n")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        kind = dict.fromkeys(numbers, ' class="n"')
        return "".join(f"<{tag}{kind.get(k, '')}>{cell}</{tag}>" for k, cell in enumerate(row))

    lines = [f"<tr>{cells('th', head)}</tr>", *(f"<tr>{cells('td', row)}</tr>" for row in rows)]
    return "<table>" + "".join(lines) + "</table>"


def _word(word: str) -> str:
    return f'<span class="{escape(word.split(":")[0])}">{escape(word)}</span>'


def _claim(row: ConditionRow) -> str:
    return row.guarantee or ("refused: forced, bounds nothing" if row.is_forced else "refused")


def _summary(report: PwcetReport) -> Iterator[str]:
    yield "<h2>All conditions</h2>"
    head = ["condition", "runs", "high-water mark"]
    head += [f"pWCET, {p:g}" for p in report.settings.probabilities] + ["claim"]
    table = []
    for condition in report.conditions:
        curve = [format_pwcet(point.pwcet) for point in condition.curve]
        curve = curve or ["-"] * len(report.settings.probabilities)
        mark = format_time(condition.high_water_mark)
        table.append(
            [escape(condition.label), f"{condition.runs:,}", mark, *curve, _word(_claim(condition))]
        )
    if report.envelope:
        values = [format_pwcet(point.pwcet) for point in report.envelope]
        claim = report.envelope_guarantee or "refused: forced, bounds nothing"
        table.append(["<b>envelope</b>", "", "", *values, _word(claim)])
    numbers = range(1, 3 + len(report.settings.probabilities))
    yield _table(head, table, list(numbers))
    if not report.envelope:
        yield '<p class="refused">No envelope: the curve of a condition is refused.</p>'
    orders = [
        [
            escape(comparison.first),
            escape(comparison.order),
            escape(comparison.second),
            f"{comparison.above:z.3f}",
            format_p(comparison.p_above),
            f"{comparison.below:z.3f}",
            format_p(comparison.p_below),
        ]
        for comparison in report.comparisons
    ]
    yield _table(["", "", "", "longer by", "p", "shorter by", "p"], orders, [3, 4, 5, 6])


def _condition(
    condition: ConditionRow, report: PwcetReport, pictures: Sequence[Picture]
) -> Iterator[str]:
    yield f"<h2>{escape(condition.label)}</h2>"
    yield (
        f"<p>{condition.runs:,} runs, mean {condition.mean:,.1f} {report.unit}, high-water mark "
        f"{format_time(condition.high_water_mark)} {report.unit}"
        + (
            f"; {condition.discarded:,} runs discarded for counter overflows"
            if condition.discarded
            else ""
        )
        + ".</p>"
    )
    yield f"<p>Rare paths: {rare_paths_text(condition, report)}.</p>"
    if condition.drawn is not None:
        yield (
            f"<p>Drawn on {escape(condition.drawn.machine)}, {condition.drawn.sms} SMs, "
            f"{condition.drawn.resident_blocks} resident blocks.</p>"
        )
    if condition.static_bound is not None:
        yield f"<p>Static bound: {escape(format_bound(condition.static_bound, report.unit))}.</p>"
    yield from _curve(condition, report)
    yield from _figures([one for one in pictures if one.name == "exceedance"], condition.label)
    yield "<h3>Hypotheses</h3>"
    yield _table(
        ["test", "hypothesis", "statistic", "p", "verdict", "meaning"],
        [
            [
                escape(test.name),
                escape(test.hypothesis),
                "-" if test.statistic is None else f"{test.statistic:.4g}",
                "-" if test.p is None else format_p(test.p),
                _word(test.verdict),
                escape(test.meaning),
            ]
            for test in condition.tests
        ],
        [2, 3],
    )
    gates = [
        [escape(gate.gate), _word(gate.state), escape(gate.reason)] for gate in condition.gates
    ]
    yield _table(["needed", "state", "by"], gates, [])
    yield from _figures(
        [one for one in pictures if one.name in ("series", "extremogram")], condition.label
    )
    yield "<h3>Fits</h3>"
    yield _fits(condition, report)
    yield "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in condition.notes) + "</ul>"
    yield from _figures(
        [one for one in pictures if one.name in ("quantiles", "stability")], condition.label
    )


def _curve(condition: ConditionRow, report: PwcetReport) -> Iterator[str]:
    yield f'<div class="box"><p>Claim: {_word(_claim(condition))}</p>'
    for kind, reasons in (("refused", condition.refused_for), ("estimate", condition.weakened_for)):
        for reason in reasons:
            yield f'<p class="{kind}">{escape(reason)}</p>'
    for diagnostic in condition.diagnostics:
        if diagnostic.severity == "warning":
            yield f'<p class="estimate">[{diagnostic.code}] {escape(diagnostic.message)}</p>'
    if condition.curve:
        yield (
            f"<p>pWCET: the upper end of the {100 * report.settings.confidence:g} % interval. "
            f"The gate tested the law {condition.tested_law}.</p>"
        )
        yield _table(
            [
                "one run exceeds with",
                f"pWCET, {report.unit}",
                "law",
                "estimated curve",
                "law",
                "interval from",
            ],
            [
                [
                    f"{point.exceedance:g}",
                    format_pwcet(point.pwcet),
                    point.pwcet_law,
                    format_time(point.estimate),
                    point.estimate_law,
                    format_time(point.low),
                ]
                for point in condition.curve
            ],
            [0, 1, 3, 5],
        )
    yield "</div>"


def _fits(condition: ConditionRow, report: PwcetReport) -> str:
    head = ["law", "choice", "extremes", "location", "scale", "xi", "+-", "p: KS", "AD", "CvM"]
    shown = any(fit.levels for fit in condition.fits)
    head += [f"{p:g}" for p in report.settings.probabilities] if shown else []
    table = [
        [
            fit.family,
            f"{fit.choice:,.6g}",
            f"{fit.extremes:,}",
            f"{fit.location:,.6g}",
            f"{fit.scale:.4g}",
            f"{fit.shape:+.3f}",
            format_error(fit.shape_error),
            f"{fit.p_kolmogorov_smirnov:.3f}",
            f"{fit.p_anderson_darling:.3f}",
            f"{fit.p_cramer_von_mises:.3f}",
            *(format_time(level) for level in fit.levels),
        ]
        for fit in condition.fits
    ]
    return _table(head, table, list(range(1, len(head))))


def _figures(pictures: Sequence[Picture], label: str) -> Iterator[str]:
    for number, picture in enumerate(pictures):
        if picture.condition != label:
            continue
        drawn = themed(picture.bytes("svg").decode("utf-8"), f"{picture.name}{number}-")
        caption = f"{escape(picture.title)}: {escape(picture.caption)}"
        yield f"<figure>{drawn}<figcaption>{caption}</figcaption></figure>"


def _made(made: Made) -> Iterator[str]:
    yield "<h2>How this page was made</h2>"
    yield f"<p><code>{escape(made.command)}</code></p>"
    rows = [
        [escape(one.what), escape(one.name), f'<span class="hash">{one.sha256}</span>']
        for one in made.files
    ]
    yield _table(["file", "name", "SHA-256"], rows, [])
    yield f'<p class="made">Made {made.time}. All that is shown is in this file.</p>'
