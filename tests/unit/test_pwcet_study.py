"""Studies of known series: what is claimed, corrected, compared, drawn and bounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from places import ROOT
from pwcet_validation import max_autoregressive
from refusals import refusal_of

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import Guarantee
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.run.study import RunRequest, run_file
from ptxwcet.commands.trace.study import TraceOptions, trace_launch
from ptxwcet.methods.pwcet.dependence import independent_gap
from ptxwcet.methods.pwcet.distributions import Floats
from ptxwcet.methods.pwcet.estimation import Estimator
from ptxwcet.methods.pwcet.hypotheses import Gate, GateState, halves_test
from ptxwcet.methods.pwcet.runs import DrawOptions, draw_runs
from ptxwcet.methods.pwcet.sample_study import Study, make_sample, study_sample
from ptxwcet.methods.pwcet.settings import Extraction, Settings, Shape
from ptxwcet.methods.pwcet.study import Order, compare, compare_all, envelope, study_measurements
from ptxwcet.opened.request import Request
from ptxwcet.trace.measurements import Condition, Measurements, TimeUnit

SAXPY = Request(
    str(ROOT / "samples/saxpy.ptx"), launch_file=str(ROOT / "samples/launches/saxpy.toml")
)


def study(times: Floats, label: str = "x", settings: Settings | None = None) -> Study:
    settings = settings or Settings(probabilities=(1e-6,))
    return study_sample(make_sample(label, times, 0), settings)


@pytest.fixture(scope="module")
def light() -> Study:
    return study(1000 + np.random.default_rng(1).exponential(50, 1200), "light")


@pytest.fixture(scope="module")
def longer() -> Study:
    return study(1020 + np.random.default_rng(2).exponential(120, 1200), "longer")


def test_independent_times_have_a_probabilistic_curve(light: Study) -> None:
    assert light.claim.guarantee is Guarantee.PROBABILISTIC
    assert light.theta == 1.0
    truth = 1000 - 50 * np.log(1e-6)
    (point,) = light.curve
    assert point.low < truth < point.pwcet


def test_the_curve_is_the_larger_of_both_laws(light: Study) -> None:
    free, zero = (light.levels(fit)[0] for fit in light.used)
    assert light.curve[0].estimate == pytest.approx(max(free, zero))
    single = [
        study(light.sample.times, settings=Settings(shape=shape, probabilities=(1e-6,)))
        for shape in (Shape.FREE, Shape.ZERO)
    ]
    for row, level in zip(single, (free, zero), strict=True):
        assert row.curve[0].estimate == pytest.approx(level)
        assert row.curve[0].low <= light.curve[0].low
        assert row.curve[0].pwcet <= light.curve[0].pwcet


def test_clusters_are_corrected_for_and_weaken() -> None:
    random = np.random.default_rng(3)
    found = study(1000 + 50 * max_autoregressive(3000, 0.4, random))
    assert found.theta == pytest.approx(0.4, abs=0.15)
    assert found.claim.guarantee in (Guarantee.ESTIMATE, None)
    assert any("extremes come alone" in reason for reason in found.claim.weakened_for)
    for fit in found.fits.values():
        extremes = fit.tail.extremes
        if extremes.block_size:
            assert extremes.runs_per_maximum == extremes.block_size * found.theta
        else:
            above = (found.sample.spread > extremes.threshold).sum()
            assert extremes.rate == pytest.approx(above / 3000)
            assert len(extremes.values) < 0.75 * above


def test_gumbel_on_a_heavy_tail_is_refused() -> None:
    times = 1000 + 100 * np.random.default_rng(4).pareto(2.0, 2000)
    settings = Settings(shape=Shape.ZERO, probabilities=(1e-6,))
    found = study(times, settings=settings)
    assert found.claim.guarantee is None
    assert any("heavy tail" in reason for reason in found.claim.refused_for)
    assert any("HEAVY TAIL" in note for note in found.notes)
    blocks = Settings(Extraction.BLOCKS, Shape.ZERO, probabilities=(1e-6,))
    assert any(
        "gumbel would be unsafe" in r for r in study(times, settings=blocks).claim.refused_for
    )


def test_a_jump_is_refused() -> None:
    random = np.random.default_rng(5)
    times = np.concatenate([random.normal(1000, 5, 600), random.normal(1010, 5, 600)])
    found = study(times)
    states = {row.gate: row.state for row in found.gates}
    assert states[Gate.IDENTICAL] is GateState.FAILED
    assert found.claim.guarantee is None


def test_coarse_times_are_called_coarse() -> None:
    found = study(np.round(np.random.default_rng(6).normal(100, 1, 2000)))
    reasons = found.claim.weakened_for
    assert any("coarse times" in reason for reason in reasons)
    assert any("different times among" in reason for reason in reasons)


@pytest.mark.parametrize("kind", ["bimodal", "period", "ends at a value"])
def test_odd_series_get_an_answer_or_a_refusal(kind: str) -> None:
    random = np.random.default_rng(9)
    times = {
        "bimodal": np.where(random.random(1000) < 0.99, random.normal(100, 1, 1000), 1000.0),
        "period": 10 + np.sin(np.arange(1000) / 7) + 0.01 * random.random(1000),
        "ends at a value": np.minimum(random.normal(100, 5, 1000), 108.0),
    }[kind]
    settings = Settings(Extraction.BLOCKS, Shape.FREE, Estimator.PWM, probabilities=(1e-9,))
    measured = Measurements(TimeUnit.CYCLES, (Condition("x", times),), ("x",))
    if kind == "ends at a value":
        assert refusal_of(study_measurements, measured, settings).code == "PW706"
        return
    (point,) = study_measurements(measured, settings).studies[0].curve
    assert times.max() <= point.low <= point.estimate <= point.pwcet


def test_halves_of_dependent_times_are_thinned() -> None:
    random = np.random.default_rng(7)
    plain = thinned = 0
    for _ in range(60):
        noise = random.normal(size=1000)
        times = np.zeros(1000)
        for k in range(1, 1000):
            times[k] = 0.8 * times[k - 1] + noise[k]
        plain += halves_test(times, 0.05).is_rejected
        gap = independent_gap(times, 0.05)
        assert gap > 3
        thinned += halves_test(times, 0.05, gap).is_rejected
    assert plain > 15
    assert thinned < 12


def test_orders_of_conditions(light: Study, longer: Study) -> None:
    assert compare(light, longer, 0.05).order is Order.DOMINATED
    assert compare(longer, light, 0.05).order is Order.DOMINATES
    assert compare(light, light, 0.05).order is Order.ALIKE
    random = np.random.default_rng(8)
    wide = study(1050 + random.normal(0, 60, 1000), "wide")
    narrow = study(1050 + random.normal(0, 10, 1000), "narrow")
    crossing = compare(wide, narrow, 0.05)
    assert crossing.order is Order.CROSSING
    assert crossing.above > 0.2
    assert crossing.below > 0.2
    assert len(compare_all([light, longer, wide], 0.05)) == 3


def test_the_envelope_is_the_largest_curve_and_the_weakest_claim(
    light: Study, longer: Study
) -> None:
    found = envelope([light, longer])
    assert found.points[0].label == "longer"
    assert found.points[0].pwcet == longer.curve[0].pwcet
    assert found.points[0].estimate == max(row.curve[0].estimate for row in (light, longer))
    assert found.guarantee is Guarantee.weakest(
        one for one in (light.claim.guarantee, longer.claim.guarantee) if one
    )
    random = np.random.default_rng(5)
    jump = np.concatenate([random.normal(900, 1, 600), random.normal(910, 1, 600)])
    assert envelope([light, study(jump)]).guarantee is None


def test_drawn_runs_are_those_of_the_tracer() -> None:
    drawn = draw_runs(SAXPY, DrawOptions(2, 2, "lrr", sms=2, resident_blocks=2))
    traced = trace_launch(SAXPY, TraceOptions("lrr", GridWishes(2, 2), runs=2))
    assert drawn.condition.times.tolist() == [run.cycles for run in traced.runs]
    assert drawn.executed_inputs == 2


def test_the_bound_of_a_drawn_launch() -> None:
    """saxpy: four blocks. On two SMs with one block each two waves; with two each, no bound."""
    safe = bound_file(SAXPY).answered[0].worst.bound.cycles
    one = DrawOptions(40, 1, "random", 60, 25, sms=2, resident_blocks=1)
    drawn = draw_runs(SAXPY, one)
    assert drawn.bound.cycles == 2 * safe + 4 * 25
    assert drawn.bound.guarantee is Guarantee.SAFE_BOUND
    assert drawn.condition.times.max() <= drawn.bound.cycles
    assert len(set(drawn.condition.times.tolist())) > 10
    three = draw_runs(SAXPY, DrawOptions(2, 1, "random", 5, sms=3, resident_blocks=1))
    assert three.bound.cycles == 2 * safe
    none = draw_runs(SAXPY, DrawOptions(2, 1, "random", 5, sms=2, resident_blocks=2))
    assert none.bound.cycles is None
    assert "share an SM" in none.bound.reason


def test_the_same_seed_draws_the_same_runs() -> None:
    options = DrawOptions(5, 1, "random", 50, 40, sms=1, resident_blocks=1, seed=7)
    first, second = (draw_runs(SAXPY, options).condition.times.tolist() for _ in range(2))
    assert first == second


def test_a_launch_without_anything_random_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "samples/launches/saxpy.toml").read_text()
    fixed = "\n".join(
        line.replace('init = "uniform", low = -1, high = 1, seed = 1', 'init = "ones"').replace(
            'init = "uniform", low = -1, high = 1, seed = 2', 'init = "ones"'
        )
        for line in text.splitlines()
    )
    path = tmp_path / "fixed.toml"
    path.write_text(fixed)
    request = Request(SAXPY.path, launch_file=str(path))
    assert (
        refusal_of(draw_runs, request, DrawOptions(3, 3, "lrr", sms=1, resident_blocks=1)).code
        == "PW691"
    )
    drawn = draw_runs(request, DrawOptions(3, 3, "lrr", 20, sms=1, resident_blocks=1))
    assert drawn.executed_inputs == 1


def test_the_voronoi_kernel_colours_each_pixel_by_its_nearest_seed() -> None:
    folder = ROOT / "benchmarks/kernels/voronoi"
    request = RunRequest(str(folder / "voronoi.ptx"), str(folder / "voronoi-1.toml"))
    answer = run_file(request)
    assert answer.is_complete
    assert not answer.diagnostics
    seeds = np.stack([answer.outputs["seed_x"], answer.outputs["seed_y"]])
    pixels = np.stack(np.meshgrid(np.arange(32) + 0.5, np.arange(32) + 0.5)).astype(np.float32)
    away = ((seeds[:, :, None, None] - pixels[:, None]) ** 2).sum(axis=0)
    colours = answer.outputs["colour"].reshape(32, 32)
    chosen = np.take_along_axis(away, colours[None].astype(np.intp), axis=0)[0]
    np.testing.assert_allclose(chosen, away.min(axis=0), rtol=1e-5)
    assert len(set(colours.ravel().tolist())) > 10
