"""What a pWCET may claim, and how it is told: heavy tails, intervals, laws, bounds below it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import jsonschema
import numpy as np
import pytest

from ptxwcet.claims import Guarantee
from ptxwcet.cli.output import json_text
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.methods.pwcet.distributions import Family, Floats
from ptxwcet.methods.pwcet.page import render_pwcet_html
from ptxwcet.methods.pwcet.pictures import draw_exceedance
from ptxwcet.methods.pwcet.report import build_pwcet_report
from ptxwcet.methods.pwcet.sample_study import Study, make_sample, study_sample
from ptxwcet.methods.pwcet.settings import Extraction, Settings, Shape
from ptxwcet.methods.pwcet.study import (
    PwcetAnswer,
    condition_findings,
    findings,
    study_measurements,
    with_stated_bounds,
)
from ptxwcet.methods.pwcet.text import format_time, render_pwcet_text
from ptxwcet.report.page.parts import Made
from ptxwcet.support.printable import aligned
from ptxwcet.trace.measurements import Condition, Measurements, TimeUnit

SCHEMA = schema_of("pwcet")
MADE = Made("ptxwcet pwcet x.csv", datetime(2026, 1, 2, tzinfo=UTC), ())


def answer_of(times: Floats, settings: Settings | None = None) -> PwcetAnswer:
    measured = Measurements(TimeUnit.CYCLES, (Condition("x", times),), ("x.csv",))
    return study_measurements(measured, settings or Settings())


def mixture(random: np.random.Generator) -> Floats:
    usual = random.random(2000) < 0.995
    return np.round(np.where(usual, random.normal(1000, 10, 2000), random.normal(1200, 15, 2000)))


def pareto(xi: float) -> Callable[[np.random.Generator], Floats]:
    return lambda random: 1000 + 100 * random.pareto(1 / xi, 2000)


@pytest.fixture(scope="module")
def heavy() -> PwcetAnswer:
    return answer_of(np.round(pareto(0.7)(np.random.default_rng(2))))


@pytest.fixture(scope="module")
def mixed() -> PwcetAnswer:
    return answer_of(mixture(np.random.default_rng(0)))


def codes(answer: PwcetAnswer) -> list[str]:
    return [one.code for one in findings(answer)]


def test_a_rare_second_kind_of_run_is_refused(mixed: PwcetAnswer) -> None:
    (study,) = mixed.studies
    assert study.fits[Family.GPD].tail.law.shape > 1
    assert study.claim.guarantee is None
    assert codes(mixed) == ["PW711", "PW712"]
    assert any("xi = 1.7" in reason for reason in study.claim.refused_for)


@pytest.mark.every(2)
@pytest.mark.parametrize("seed", range(4))
def test_no_such_mixture_is_probabilistic(seed: int) -> None:
    sample = make_sample("x", mixture(np.random.default_rng(seed)), 0)
    for settings in (
        Settings(probabilities=(1e-12,)),
        Settings(Extraction.BLOCKS, probabilities=(1e-12,)),
        Settings(shape=Shape.ZERO, probabilities=(1e-12,)),
    ):
        claim = study_sample(sample, settings).claim
        assert claim.guarantee is not Guarantee.PROBABILISTIC, settings


def test_a_heavy_tail_is_an_estimate(heavy: PwcetAnswer) -> None:
    (study,) = heavy.studies
    assert 0.5 <= study.fits[Family.GPD].tail.law.shape < 1
    assert study.claim.guarantee is Guarantee.ESTIMATE
    assert codes(heavy) == ["PW713"]


def with_shape(study: Study, xi: float) -> Study:
    """The times of the study, bent to a tail of another shape: quantile by quantile."""
    ranks = (np.argsort(np.argsort(study.sample.times)) + 0.5) / len(study.sample.times)
    times = 1000 + 100 * ((1 - ranks) ** -xi - 1) / xi
    return study_sample(make_sample("x", times, 0), Settings(probabilities=(1e-6,)))


def test_the_limits_of_shapes_are_a_half_and_one(heavy: PwcetAnswer) -> None:
    (base,) = heavy.studies
    for xi, said in ((0.44, None), (0.56, "PW713"), (0.94, "PW713"), (1.06, "PW711")):
        study = with_shape(base, xi)
        assert study.fits[Family.GPD].tail.law.shape == pytest.approx(xi, abs=0.05)
        own = [row.code for row in (*study.claim.refused, *study.claim.weakened)]
        heavy_codes = {code for code in own if code in ("PW711", "PW713")}
        assert heavy_codes == ({said} if said else set()), xi


def test_an_interval_without_an_end_is_refused(heavy: PwcetAnswer) -> None:
    """At 99.99 % the times allow shapes of 2 and more: nothing bounds the level."""
    sure = Settings(confidence=1 - 1e-9, probabilities=(1e-9,))
    answer = answer_of(heavy.studies[0].sample.times[:1000], sure)
    (point,) = answer.studies[0].curve
    assert point.pwcet == np.inf
    assert not point.has_ends
    assert "PW712" in codes(answer)
    assert answer.studies[0].claim.guarantee is None


def test_heavy_tails_have_answers_in_order(heavy: PwcetAnswer) -> None:
    """In whole studies, with rounding and both laws, and in an order other than descending."""
    probabilities = (1e-12, 1e-3, 1e-9, 1e-6, 1e-15)
    (study,) = answer_of(
        heavy.studies[0].sample.times, Settings(probabilities=probabilities)
    ).studies
    rows = sorted(study.curve, key=lambda row: -row.exceedance)
    for name in ("low", "estimate", "pwcet"):
        values = [getattr(row, name) for row in rows]
        assert values == sorted(values), name


@pytest.fixture(scope="module")
def light() -> PwcetAnswer:
    """Its GPD has a shape below 0, so that the exponential law lies above."""
    return answer_of(np.round(1000 + np.random.default_rng(7).gamma(9, 100, 3000)))


def test_the_laws_tested_and_printed_are_named(light: PwcetAnswer) -> None:
    (study,) = light.studies
    assert study.fits[Family.GPD].tail.law.shape < 0
    for k, point in enumerate(study.curve):
        largest = max(
            study.settings.families, key=lambda one, k=k: study.levels(study.fits[one])[k]
        )
        assert point.estimate_law is largest
    assert study.curve[-1].estimate_law is Family.EXPONENTIAL
    report = build_pwcet_report(light, force=False)
    (row,) = report.conditions
    assert row.tested_law == "gpd"
    assert [one.estimate_law for one in row.curve] == [
        one.estimate_law.value for one in study.curve
    ]
    text = render_pwcet_text(report)
    assert "Anderson-Darling, gpd" in text
    assert "tested by the gate: gpd" in text
    plain = study_sample(study.sample, replace(study.settings, shape=Shape.ZERO))
    assert "tested by the gate: exponential" in plain.notes


def test_a_law_that_its_own_test_rejects_is_told() -> None:
    """Uniform times end: the exponential law lies above, and is not theirs."""
    times = np.random.default_rng(8).uniform(1000, 2000, 2000)
    study = study_sample(make_sample("x", times, 0), Settings(probabilities=(1e-9,)))
    assert study.curve[0].pwcet_law is Family.EXPONENTIAL
    assert any("its own test: rejected" in note for note in study.notes)


def test_the_answer_is_the_upper_end(light: PwcetAnswer) -> None:
    report = build_pwcet_report(light, force=False)
    data = json.loads(json_text(report))
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    (row,) = data["conditions"]
    (study,) = light.studies
    for point, own in zip(row["curve"], study.curve, strict=True):
        assert point["pwcet"] == own.pwcet > point["estimate"] == own.estimate > point["low"]
    text = render_pwcet_text(report)
    lines = text.splitlines()
    top = next(k for k, line in enumerate(lines) if line.startswith("pWCET"))
    assert "upper ends of 95 % intervals" in lines[top]
    for line, own in zip(lines[top + 2 :], study.curve, strict=False):
        assert line.split()[:2] == [f"{own.exceedance:g}", f"{own.pwcet:,.0f}"]
    page = render_pwcet_html(report, (), MADE)
    assert f"pWCET, {report.unit}" in page
    assert "estimated curve" in page
    for own in study.curve:
        assert f'<td class="n">{own.exceedance:g}</td><td class="n">{own.pwcet:,.0f}</td>' in page


def test_a_pwcet_above_the_bound_is_pointed_out(light: PwcetAnswer) -> None:
    (study,) = light.studies
    between = int(study.curve[0].pwcet + study.curve[1].pwcet) // 2
    answer = with_stated_bounds(light, {"x": between})
    (one,) = findings(answer)
    assert one.code == "PW714"
    assert "at 1e-09, 1e-12 is above" in one.message
    report = build_pwcet_report(answer, force=False)
    assert "[PW714]" in render_pwcet_text(report)
    assert "[PW714]" in render_pwcet_html(report, (), MADE)
    data = json.loads(json_text(report))
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert [row["code"] for row in data["conditions"][0]["diagnostics"]] == ["PW714"]
    above = int(study.curve[-1].pwcet)
    assert codes(with_stated_bounds(light, {"x": above})) == []
    assert codes(with_stated_bounds(light, {"x": above - 1})) == ["PW714"]


def test_a_bound_below_what_was_observed_is_pointed_out(light: PwcetAnswer) -> None:
    mark = int(light.studies[0].sample.high_water_mark)
    assert codes(with_stated_bounds(light, {"x": mark - 1})) == ["PW715", "PW714"]
    assert "PW715" not in codes(with_stated_bounds(light, {"x": mark}))


def test_bounds_of_refused_curves_are_compared_with_times_alone(mixed: PwcetAnswer) -> None:
    assert codes(with_stated_bounds(mixed, {"x": 3000})) == ["PW711", "PW712"]
    (study,) = mixed.studies
    assert [row.code for row in condition_findings(study, None, TimeUnit.CYCLES)] == [
        "PW711",
        "PW712",
    ]


def test_wide_numbers_stand_apart(mixed: PwcetAnswer) -> None:
    text = render_pwcet_text(build_pwcet_report(mixed, force=True))
    (law,) = [line for line in text.splitlines() if line.startswith("  gpd  ")]
    assert re.search(r" [\d,]+ {2,}[\d,]+ {2,}1\.017e18$", law)
    for line in aligned(
        [["a", "1,000,000,000,000,000", "2"], ["b", "1", "9,999,999,999,999"]], range(1, 3)
    ):
        assert len(re.split(r"\s{2,}", line)) == 3


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "no end"),
        (12.5, "12.5"),
        (999_999_999_999_999.0, "999,999,999,999,999"),
        (1e15, "1.000e15"),
        (1.0001e15, "1.001e15"),
        (9.9999e17, "1.000e18"),
    ],
)
def test_times_are_never_printed_too_small(value: float | None, said: str) -> None:
    assert format_time(value) == said
    if value is not None:
        assert float(said.replace(",", "")) >= value


@pytest.mark.parametrize("bound", [None, 10**6])
def test_the_title_of_a_refused_curve_is_whole(
    bound: int | None, request: pytest.FixtureRequest
) -> None:
    """However long the label is, the picture says that the curve is refused."""
    (study,) = request.getfixturevalue("light").studies
    sample = replace(study.sample, label="measurements of a long name " * 3)
    figure = draw_exceedance(replace(study, sample=sample), "cycles", bound, shown=False)
    figure.draw_without_rendering()
    title = figure.axes[0].title
    drawn = title.get_window_extent()
    assert title.get_text().endswith("(curve REFUSED: the hypotheses do not hold)")
    assert drawn.x0 >= 0
    right = figure.axes[-1].title.get_window_extent().x0 if bound else figure.bbox.x1
    assert drawn.x1 <= right
    assert drawn.y1 <= figure.bbox.y1


@pytest.mark.parametrize("kind", ["light", "heavy", "mixed"])
def test_the_picture_draws_what_the_table_prints(kind: str, request: pytest.FixtureRequest) -> None:
    answer: PwcetAnswer = request.getfixturevalue(kind)
    (study,) = answer.studies
    figure = draw_exceedance(study, "cycles", None, shown=True)
    (plot,) = figure.axes
    (band,) = plot.collections
    corners = {(float(x), float(y)) for x, y in band.get_paths()[0].vertices}
    left, right = plot.get_xlim()
    for point in study.curve:
        assert (point.low, point.exceedance) in corners
        if np.isfinite(point.pwcet):
            assert (point.pwcet, point.exceedance) in corners
            assert left < point.pwcet < right
        else:
            assert max(x for x, y in corners if y == point.exceedance) > 10 * right
    dots = next(one for one in plot.lines if one.get_marker() == "o")
    drawn = list(zip(dots.get_xdata(), dots.get_ydata(), strict=True))
    finite = [row for row in study.curve if np.isfinite(row.pwcet)]
    assert drawn == [(row.pwcet, row.exceedance) for row in finite]
