"""Tables and pictures of the Voronoi study, the published figures beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.experiment import Results
from ptxwcet.methods.pwcet.sample_study import Study
from ptxwcet.methods.pwcet.study import PwcetAnswer

_TESTS = ("runs test", "KS of halves", "Ljung-Box")

PUBLISHED_TESTS = {
    1: ("0.3175", "0.9987", "0.7407", "1", "1"),
    8: ("0.7844", "0.9601", "0.1424", "0", "0.992"),
    28: ("0.664", "0.6104", "0.9205", "0", "1"),
    32: ("0.5288", "0.727811", "0.9715", "0", "1"),
}
"""Their Table 1, T_DEV: p of runs test, of Kolmogorov-Smirnov, of Ljung-Box; AR order, theta."""
PUBLISHED_LEVELS = {
    1: (12083, 12278, 12474),
    8: (20600, 20989, 21248),
    28: (80061, 104613, 128051),
    32: (88252, 115189, 142510),
}
"""Their Table 2: ns at 1e-6, 1e-9 and 1e-12."""
_PICTURES = ("conditions", "exceedance", "series", "extremogram", "stability")


def write_report(
    results: Results, conditions: Sequence[int], answer: PwcetAnswer, theirs: Sequence[Study]
) -> None:
    """Adds tables, times and pictures.

    ``conditions`` are the numbers of blocks; ``theirs`` are the same times with Gumbel's law and
    blocks of 25.
    """
    times = [
        [study.sample.label, f"{value:.0f}"]
        for study in answer.studies
        for value in study.sample.times
    ]
    results.add_csv("times.csv", ("condition", "cycles"), times)
    results.say(
        "Simulated cycles on 8 SMs, not measurements of a GPU; theirs are nanoseconds on one. "
        "Rows in italics are theirs. All times are in [times.csv](times.csv).",
        "## Table 1 (T_DEV): hypothesis tests",
    )
    head = ["", "runs p", "KS p", "LB p", "AR (AIC)", "theta (blocks)", "theta (intervals)"]
    _add_rows(results, "table1.csv", head, [*_tests(conditions, answer)])
    results.say(
        "## Table 2: times that one run exceeds with at most the probability",
        "*Estimated* rows, and theirs, are fitted curves; *pWCET* is the upper end of the 95 % "
        "interval, which is refused where a hypothesis test rejects.",
    )
    head = ["", "1e-6", "1e-9", "1e-12", "high-water mark", "claim"]
    _add_rows(results, "table2.csv", head, [*_levels(conditions, answer, theirs)])
    results.say("Levels cannot be compared, ratios can:")
    head = ["", "here, 1e-9 / 1e-6", "published", "here, over VOR-1", "published"]
    results.add_table(head, _ratios(conditions, theirs))
    results.say("## Static bounds beside it")
    head = ["", "pWCET 1e-12", "SAFE bound", "SAFE over pWCET", "how"]
    results.add_table(head, _bounds(answer))
    _add_pictures(results, answer)


def _add_rows(results: Results, name: str, head: list[str], rows: list[list[str]]) -> None:
    """Adds a table to the report, and as CSV without marks of layout."""
    results.add_table(head, rows)
    plain = [[cell.strip("*-").replace(",", "") for cell in row] for row in rows]
    results.add_csv(name, ["condition", *head[1:]], plain)
    results.say(f"The table as data: [{name}]({name}).")


def _tests(conditions: Sequence[int], answer: PwcetAnswer) -> Iterator[list[str]]:
    for blocks, study in zip(conditions, answer.studies, strict=True):
        p = {test.name: test.p for test in study.outcomes}
        index = study.index
        cells = [f"{p[name]:.4f}" for name in _TESTS]
        cells += [f"{study.serial.order_aic}", f"{index.blocks:.3f}", f"{index.intervals:.3f}"]
        yield [f"VOR-{blocks}", *cells]
        yield ["*published*", *PUBLISHED_TESTS[blocks], ""]


def _levels(
    conditions: Sequence[int], answer: PwcetAnswer, theirs: Sequence[Study]
) -> Iterator[list[str]]:
    for blocks, study, gumbel in zip(conditions, answer.studies, theirs, strict=True):
        mark = f"{study.sample.high_water_mark:,.0f}"
        claim = "refused" if study.claim.guarantee is None else study.claim.guarantee.value
        curves = (
            ("Gumbel, b = 25, estimated", [point.estimate for point in gumbel.curve], "-"),
            ("default, estimated", [point.estimate for point in study.curve], "-"),
            ("default, pWCET", [point.pwcet for point in study.curve], claim),
        )
        for name, levels, said in curves:
            shown = ["-" if said == "refused" else f"{level:,.0f}" for level in levels]
            yield [f"VOR-{blocks}, {name}", *shown, mark, said]
        yield ["*published, ns*", *(f"{level:,}" for level in PUBLISHED_LEVELS[blocks]), "", ""]


def _ratios(conditions: Sequence[int], theirs: Sequence[Study]) -> Iterator[list[str]]:
    base = theirs[0].curve[0].estimate
    for blocks, gumbel in zip(conditions, theirs, strict=True):
        here = [point.estimate for point in gumbel.curve]
        there = PUBLISHED_LEVELS[blocks]
        ratios = (here[1] / here[0], there[1] / there[0])
        yield [
            f"VOR-{blocks}",
            *(f"{ratio:.3f}" for ratio in ratios),
            f"{here[0] / base:.2f}",
            f"{there[0] / PUBLISHED_LEVELS[conditions[0]][0]:.2f}",
        ]


def _bounds(answer: PwcetAnswer) -> Iterator[list[str]]:
    for study, bound in zip(answer.studies, answer.bounds, strict=True):
        assert bound is not None
        assert bound.cycles is not None, "SAFE bounds this kernel"
        level = None if study.claim.guarantee is None else study.curve[-1].pwcet
        cells = ["refused", f"{bound.cycles:,}", ""]
        if level is not None:
            cells = [f"{level:,.0f}", f"{bound.cycles:,}", f"{bound.cycles / level:.2f}"]
        yield [study.sample.label, *cells, bound.reason]


def _add_pictures(results: Results, answer: PwcetAnswer) -> None:
    """Adds pictures of all conditions together and of the last, of others only exceedance."""
    from ptxwcet.methods.pwcet.pictures import draw_plots
    from ptxwcet.methods.pwcet.report import build_pwcet_report

    last = answer.studies[-1].sample.label
    for picture in draw_plots(answer, build_pwcet_report(answer, force=False)):
        label = picture.condition
        is_wanted = label in ("", last) or picture.name == "exceedance"
        if picture.name in _PICTURES and is_wanted:
            name = f"{label}-{picture.name}.png".lstrip("-")
            title = f"{label}: " * bool(label) + picture.caption.replace(": ", ", ", 1)
            results.place_picture(name, title, picture.bytes("png"))
