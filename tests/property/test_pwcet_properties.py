"""pWCET: what must hold of any times, against naive implementations."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.methods.pwcet.dependence import (
    by_blocks,
    by_intervals,
    by_runs,
    by_sliding_blocks,
    cluster_maxima,
    extremogram,
)
from ptxwcet.methods.pwcet.distributions import Family, Law
from ptxwcet.methods.pwcet.estimation import Estimator, fit_law
from ptxwcet.methods.pwcet.extraction import (
    block_maxima,
    maxima_of,
    mean_excess,
    peaks_of,
    resolution_of,
    spread_ties,
)
from ptxwcet.methods.pwcet.hypotheses import Gate, GateState, TestOutcome, Verdict, judge_gates
from ptxwcet.methods.pwcet.tail import Extremes, Sample, Tail
from ptxwcet.trace.measurements import ClockPairs, times_of_pairs

FAMILIES = st.sampled_from(list(Family))
SHAPES = st.floats(-0.9, 1.5)
SEEDS = st.integers(0, 10_000)


def a_law(family: Family, shape: float) -> Law:
    return Law(family, 50.0, 7.0, shape if family.has_shape else 0.0)


def a_tail(law: Law, theta: float = 1.0) -> Tail:
    if law.family.is_of_maxima:
        return Tail(law, Extremes(np.ones(2), block_size=25, runs_per_maximum=25 * theta))
    return Tail(law, Extremes(np.ones(2), threshold=50.0, rate=0.08))


@given(FAMILIES, SHAPES, st.floats(1e-13, 0.999))
def test_quantile_inverts_survival(family: Family, shape: float, p: float) -> None:
    law = a_law(family, shape)
    value = law.quantile(p)
    if np.isfinite(value) and value < law.upper_end * (1 - 1e-12):
        # near an end, a digit of the value is many of the probability
        slope = abs(float(law.quantile(p * (1 - 1e-6)) - value))
        if slope > 1e-9 * abs(float(value)):
            np.testing.assert_allclose(law.survival(value), p, rtol=1e-5)


@given(FAMILIES, SHAPES, st.floats(1e-13, 0.01), st.floats(0.2, 1.0))
def test_exceedance_of_a_level_is_its_probability(
    family: Family, shape: float, p: float, theta: float
) -> None:
    tail = a_tail(a_law(family, shape), theta)
    level = tail.level(p)
    again = float(tail.exceedance(level))
    nearby = float(tail.exceedance(level * (1 - 1e-13)))
    assert np.isclose(again, p, rtol=1e-6) or abs(nearby - again) > 1e-7 * p
    assert tail.level(p / 10) >= level


@given(SHAPES, st.floats(1e-12, 0.01), st.integers(1, 400))
def test_one_run_and_the_maximum_of_a_block(shape: float, p: float, size: int) -> None:
    """P(max of b runs <= x) is the b-th power of P(one run <= x), also for tiny probabilities."""
    law = a_law(Family.GEV, shape)
    tail = Tail(law, Extremes(np.ones(2), block_size=size, runs_per_maximum=float(size)))
    whole = float(tail.survival_of(p))
    assert np.isclose(whole, -np.expm1(size * np.log1p(-p)))
    assert p <= whole * (1 + 1e-12) <= size * p * (1 + 1e-9)


@given(st.floats(0.05, 1.0), st.floats(1e-12, 1e-3))
def test_clustered_extremes_give_higher_levels(theta: float, p: float) -> None:
    law = a_law(Family.GUMBEL, 0.0)
    assert a_tail(law, theta).level(p) >= a_tail(law, 1.0).level(p) - 1e-9


@given(st.lists(st.integers(1, 60), min_size=3, max_size=80), st.integers(1, 12))
def test_block_maxima(times: list[int], size: int) -> None:
    expected = [max(times[k : k + size]) for k in range(0, len(times) - size + 1, size)]
    assert block_maxima(np.asarray(times, float), size).tolist() == expected


@given(st.lists(st.integers(1, 30), min_size=4, max_size=60), st.integers(1, 29))
def test_peaks_and_clusters(times: list[int], threshold: int) -> None:
    series = np.asarray(times, float)
    above = [x for x in times if x > threshold]
    peaks = peaks_of(series, threshold, 1.0)
    assert peaks.values.tolist() == above
    assert peaks.rate == len(above) / len(times)
    if above:
        assert cluster_maxima(series, threshold, 1.0).tolist() == above
        assert cluster_maxima(series, threshold, 1e-9).tolist() == [max(above)]
        some = peaks_of(series, threshold, 0.5)
        assert some.rate == peaks.rate
        assert len(some.values) <= len(above)
        assert max(some.values) == max(above)


@settings(deadline=None)
@given(SEEDS, st.integers(2, 20))
def test_extremal_index_estimators_naively(seed: int, length: int) -> None:
    random = np.random.default_rng(seed)
    times = random.random(200)
    places = np.flatnonzero(times > 0.85)
    gaps = np.diff(places)
    if len(gaps) < 3 or gaps.max() <= 2:
        return
    blocks = [set(range(k, k + length)) for k in range(0, 200 - length + 1, length)]
    inside = [p for p in places.tolist() if p < len(blocks) * length]
    held = sum(any(p in block for p in inside) for block in blocks)
    if held < len(blocks) and inside:
        expected = np.log(1 - held / len(blocks)) / (
            length * np.log(1 - len(inside) / (len(blocks) * length))
        )
        assert np.isclose(by_blocks(places, 200, length), min(1, expected))
    alone = 0
    for k, place in enumerate(places):
        followers = places[k + 1 :]
        alone += not any(place < other <= place + length for other in followers)
    assert np.isclose(by_runs(gaps, length), alone / len(places))
    t = gaps.astype(float)
    expected = 2 * sum(x - 1 for x in t) ** 2 / (len(t) * sum((x - 1) * (x - 2) for x in t))
    assert np.isclose(by_intervals(gaps[None, :])[0], min(1.0, expected))
    ranks = [sum(times <= max(times[k : k + length])) / 201 for k in range(200 - length + 1)]
    mean = np.mean([-length * np.log(rank) for rank in ranks])
    expected = min(1.0, max(1e-6, 1 / mean - 1 / length))
    assert np.isclose(by_sliding_blocks(times, length), expected)


@settings(max_examples=drawn(20), deadline=None)
@given(SEEDS)
def test_extremogram_naively(seed: int) -> None:
    random = np.random.default_rng(seed)
    times = random.random(150)
    found = extremogram(times, 0.8, 6, 0.05, random)
    long = [k for k in range(150) if times[k] > 0.8]
    for lag in range(1, 7):
        pairs = sum(1 for k in long if k + lag in set(long))
        assert np.isclose(found.values[lag - 1], pairs / len(long))
    assert 0 < found.p <= 1


@given(st.lists(st.integers(1, 500), min_size=2, max_size=40), st.sampled_from([1, 4, 0.5, 0.01]))
def test_resolution_divides_all_distances(counts: list[int], unit: float) -> None:
    times = np.asarray(counts, float) * unit
    step = resolution_of(times)
    if len(set(counts)) == 1:
        assert step == 0
        return
    expected = np.gcd.reduce(np.asarray(counts) - min(counts)) * unit
    assert np.isclose(step, expected)


@given(SEEDS)
def test_spread_times_stay_in_their_cell(seed: int) -> None:
    random = np.random.default_rng(seed)
    times = random.integers(1, 9, 50).astype(float)
    spread = spread_ties(times, 1.0, random)
    assert (np.ceil(spread) == times).all()
    assert len(set(spread.tolist())) == 50


@given(SEEDS, st.floats(-50, 50), st.floats(0, 20))
def test_rounded_levels_are_on_the_grid_and_not_below(seed: int, value: float, grid: float) -> None:
    step = float(int(grid))
    times = 100 + max(step, 1) * np.random.default_rng(seed).integers(0, 5, 20)
    sample = Sample("x", times, times, step)
    found = sample.rounded(100 + value)
    assert found >= times.max()
    assert found >= 100 + value - 1e-6
    if step:
        assert np.isclose((found - times.min()) % step, 0) or np.isclose(
            (found - times.min()) % step, step
        )
        assert found <= max(times.max(), 100 + value + step)
    assert sample.rounded(float("inf")) == float("inf")
    assert sample.rounded(float("-inf")) == times.max()


@settings(max_examples=drawn(25), deadline=None)
@given(FAMILIES, SEEDS, st.floats(0.01, 1e4), st.floats(-1e4, 1e4))
def test_fits_move_and_stretch_with_the_data(
    family: Family, seed: int, scale: float, shift: float
) -> None:
    random = np.random.default_rng(seed)
    values = random.gamma(2.0, 1.0, 60)
    moved = shift if family.is_of_maxima else 0.0
    for estimator in Estimator:
        one = fit_law(family, values, estimator)
        other = fit_law(family, values * scale + moved, estimator)
        assert np.isclose(other.scale, one.scale * scale, rtol=1e-3)
        assert np.isclose(other.shape, one.shape, atol=2e-3)
        near = np.isclose(other.location, one.location * scale + moved, atol=2e-3 * scale)
        assert near or not family.is_of_maxima


@settings(max_examples=drawn(25), deadline=None)
@given(SEEDS, st.floats(0.02, 0.98))
def test_mean_excess_naively(seed: int, place: float) -> None:
    times = np.random.default_rng(seed).gamma(3.0, 2.0, 100)
    found = mean_excess(times)
    k = int(place * (len(found.means) - 1))
    above = times[times > found.thresholds[k]]
    excess = above - found.thresholds[k]
    assert np.isclose(found.means[k], excess.mean())
    assert np.isclose(found.errors[k], excess.std() / np.sqrt(len(excess)), atol=1e-9)


ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 255), st.integers(0, 255)), max_size=40)


@settings(deadline=None)
@given(ROWS)
def test_equation_1_naively(rows: list[tuple[int, int, int]]) -> None:
    run, start, end = (np.asarray([row[k] for row in rows], int) for k in range(3))
    pairs = ClockPairs(run, start.astype(np.uint64), end.astype(np.uint64), 8)
    times, discarded = times_of_pairs(pairs)
    expected, lost = [], 0
    for number in sorted({row[0] for row in rows}):
        used = [(a, b) for r, a, b in rows if r == number and not (a in (127, 255) and b == 0)]
        if not used:
            continue
        length = max(b for _, b in used) - min(a for a, _ in used)
        if any(b < a for a, b in used) or length >= 128:
            lost += 1
        else:
            expected.append(float(length))
    assert times.tolist() == expected
    assert discarded == lost


@given(st.lists(st.tuples(st.sampled_from(list(Gate)), st.floats(1e-6, 1.0)), max_size=9))
def test_gates_fail_by_their_share_of_the_level(rows: list[tuple[Gate, float]]) -> None:
    tests = [
        TestOutcome(f"t{k}", gate, "", 0.0, p, Verdict.KEPT, "") for k, (gate, p) in enumerate(rows)
    ]
    refusing = sum(gate.refuses for gate, _ in rows)
    for found in judge_gates(tests, 0.05):
        own = [p for gate, p in rows if gate is found.gate]
        count = refusing if found.gate.refuses else len(own)
        if not own or 0.05 / count < min(own) <= 0.05:
            assert found.state is GateState.DOUBTFUL
        else:
            failed = min(own) <= 0.05 / count
            assert found.state is (GateState.FAILED if failed else GateState.PASSED)


@given(SEEDS, st.floats(0.3, 1.0))
def test_runs_of_a_maximum_are_the_size_times_theta(seed: int, theta: float) -> None:
    times = np.random.default_rng(seed).random(100)
    assert maxima_of(times, 10, theta).runs_per_maximum == 10 * theta
