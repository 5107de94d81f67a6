"""The statistics of pWCET against scipy, statsmodels, pyextremes, brute force and known truths."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from pwcet_validation import PARTS, max_autoregressive
from scipy import stats

from ptxwcet.methods.pwcet.dependence import (
    autoregressive_orders,
    bridge_square_survival,
    extremal_index,
    extremogram,
    rescaled_range,
    rescaled_range_survival,
    serial_dependence,
)
from ptxwcet.methods.pwcet.distributions import Family, Floats, Law, sample
from ptxwcet.methods.pwcet.estimation import (
    Estimator,
    fit_law,
    fit_rows,
    l_moments,
    log_likelihood,
    parameter_errors,
)
from ptxwcet.methods.pwcet.intervals import (
    Interval,
    best_laws,
    fitted_parameters,
    level_intervals,
    profile_intervals,
)
from ptxwcet.methods.pwcet.tail import Extremes, Tail, assess_fit, edf_statistics, likelihood_ratio

LAWS = [(family, xi) for family in (Family.GEV, Family.GPD) for xi in (-0.3, 0.0, 0.25)]
PLAIN = [(Family.GUMBEL, 0.0), (Family.EXPONENTIAL, 0.0)]


def scipy_law(law: Law):
    match law.family:
        case Family.GEV:
            return stats.genextreme(-law.shape, law.location, law.scale)
        case Family.GUMBEL:
            return stats.gumbel_r(law.location, law.scale)
        case Family.GPD:
            return stats.genpareto(law.shape, law.location, law.scale)
        case Family.EXPONENTIAL:
            return stats.expon(law.location, law.scale)


def known_tail(law: Law, values: Floats) -> Tail:
    if law.family.is_of_maxima:
        return Tail(law, Extremes(values, block_size=25, runs_per_maximum=25.0))
    return Tail(law, Extremes(values, threshold=law.location, rate=0.05))


@pytest.mark.parametrize(("family", "xi"), LAWS + PLAIN)
def test_laws_are_scipys(family: Family, xi: float) -> None:
    law = Law(family, 100.0, 20.0, xi)
    theirs = scipy_law(law)
    x = np.linspace(60.0, 160.0, 101)
    np.testing.assert_allclose(law.cdf(x), theirs.cdf(x), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(law.survival(x), theirs.sf(x), rtol=1e-9, atol=1e-15)
    # scipy's own quantiles lose digits at and below 1e-9
    p = np.asarray([0.5, 1e-3, 1e-6])
    np.testing.assert_allclose(law.quantile(p), theirs.isf(p), rtol=1e-8)
    inside = x[(theirs.cdf(x) > 0) & (theirs.sf(x) > 0)]
    logpdf = float(theirs.logpdf(inside).sum())
    assert log_likelihood(law, inside) == pytest.approx(logpdf, rel=1e-12)


@pytest.mark.parametrize(("family", "xi"), LAWS)
def test_likelihood_is_at_least_scipys(family: Family, xi: float) -> None:
    random = np.random.default_rng(11)
    for _ in range(5):
        law = Law(family, 100.0 if family.is_of_maxima else 0.0, 20.0, xi)
        values = sample(law, (200,), random)
        own = fit_law(family, values, Estimator.MLE)
        if family is Family.GEV:
            c, place, scale = stats.genextreme.fit(values, -xi, loc=100, scale=20)
            theirs = Law(family, place, scale, -c)
        else:
            c, _, scale = stats.genpareto.fit(values, 0.1, floc=0)
            theirs = Law(family, 0.0, scale, c)
        assert log_likelihood(own, values) >= log_likelihood(theirs, values) - 1e-4
        assert own.shape == pytest.approx(theirs.shape, abs=0.01)


def test_fits_are_those_of_pyextremes() -> None:
    import pandas as pd
    from pyextremes import EVA

    random = np.random.default_rng(4)
    times = pd.Series(
        random.gumbel(1000, 30, 3000), index=pd.date_range("2000", periods=3000, freq="D")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = EVA(times)
        model.get_extremes("BM", block_size="25D")
        model.fit_model("MLE", distribution="genextreme")
        theirs = model.distribution.mle_parameters
        maxima = model.extremes.to_numpy()
        own = fit_law(Family.GEV, maxima, Estimator.MLE)
        assert own.shape == pytest.approx(-theirs["c"], abs=2e-3)
        assert own.location == pytest.approx(theirs["loc"], abs=0.05)
        assert own.scale == pytest.approx(theirs["scale"], abs=0.05)
        model.get_extremes("POT", threshold=1070.0, r="1h")
        model.fit_model("MLE", distribution="genpareto")
        theirs = model.distribution.mle_parameters
        own = fit_law(Family.GPD, model.extremes.to_numpy(), Estimator.MLE, 1070.0)
    assert own.shape == pytest.approx(theirs["c"], abs=2e-3)
    assert own.scale == pytest.approx(theirs["scale"], abs=0.05)


def test_l_moments_by_their_definition() -> None:
    random = np.random.default_rng(1)
    x = random.gamma(2.0, 1.0, 9)
    pairs = [abs(a - b) for k, a in enumerate(x) for b in x[k + 1 :]]
    second = np.mean(pairs) / 2
    triples = []
    for i in range(9):
        for j in range(i + 1, 9):
            for k in range(j + 1, 9):
                low, middle, high = sorted((x[i], x[j], x[k]))
                triples.append(high - 2 * middle + low)
    found = l_moments(x[None, :])
    assert found[1][0] == pytest.approx(second)
    assert found[2][0] == pytest.approx(np.mean(triples) / 3 / second)


@pytest.mark.parametrize(("family", "xi"), LAWS + PLAIN)
@pytest.mark.parametrize("estimator", list(Estimator))
def test_parameters_are_recovered(family: Family, xi: float, estimator: Estimator) -> None:
    random = np.random.default_rng(5)
    law = Law(family, 100.0 if family.is_of_maxima else 0.0, 20.0, xi)
    fits = fit_rows(family, sample(law, (60, 2000), random), estimator)
    error = fits.mean(axis=0) - (law.location, law.scale, law.shape)
    spread = fits.std(axis=0) / np.sqrt(60)
    assert (np.abs(error) <= 4 * spread + (0.3, 0.2, 0.01)).all()


@pytest.mark.parametrize(("family", "xi"), LAWS + PLAIN)
def test_standard_errors_are_those_seen(family: Family, xi: float) -> None:
    random = np.random.default_rng(6)
    law = Law(family, 100.0 if family.is_of_maxima else 0.0, 20.0, xi)
    rows = sample(law, (200, 800), random)
    fits = fit_rows(family, rows, Estimator.MLE)
    said = parameter_errors(fit_law(family, rows[0], Estimator.MLE), rows[0])
    assert said[0] == pytest.approx(fits[:, 1].std(), rel=0.25)
    assert said[1] == pytest.approx(fits[:, 2].std(), rel=0.25)
    covariance = np.cov(fits[:, 1], fits[:, 2])[0, 1]
    assert said[2] == pytest.approx(covariance, abs=0.25 * fits[:, 1].std() * fits[:, 2].std())


def best_with_level(tail: Tail, target: float, p: float) -> float:
    """Brute force over location and shape (the scale follows), Nelder and Mead from many starts."""
    from scipy.optimize import brentq, minimize

    fitted, values = tail.law, tail.extremes.values
    family, survival = fitted.family, tail.survival_of(p)

    def unit(shape: float) -> float:
        return float(Law(family, 0.0, 1.0, shape).quantile(survival))

    def lost(free: np.ndarray) -> float:
        location = float(free[0]) if family.is_of_maxima else fitted.location
        shape = float(free[1]) if family.has_shape else 0.0
        if not -0.95 < shape < 3 or target <= location:
            return 1e9
        found = Law(family, location, (target - location) / unit(shape), shape)
        value = -log_likelihood(found, values)
        return value if np.isfinite(value) else 1e9

    close = {"xatol": 1e-8, "fatol": 1e-9, "maxiter": 4000, "maxfev": 4000}
    best = np.inf
    for place in (-0.3, 0.0, 0.3):
        for stretch in (0.7, 1.0, 1.5):
            location, scale = fitted.location + place * fitted.scale, stretch * fitted.scale
            level = (target - location) / scale
            shape = 0.0
            if family.has_shape and unit(-0.94) < level < unit(2.9):
                shape = float(brentq(lambda x, to=level: unit(x) / to - 1, -0.94, 2.9))
            best = min(
                best, minimize(lost, (location, shape), method="Nelder-Mead", options=close).fun
            )
    return -best


@pytest.mark.parametrize(("family", "xi"), LAWS + PLAIN)
def test_profile_is_the_best_likelihood_with_that_level(family: Family, xi: float) -> None:
    random = np.random.default_rng(7)
    law = Law(family, 100.0, 20.0, xi)
    values = sample(law, (120,), random)
    tail = known_tail(fit_law(family, values, Estimator.MLE, 100.0), values)
    for factor in (1.05, 1.2):
        target = 100.0 + factor * (float(tail.level(1e-6)) - 100.0)
        near = fitted_parameters(tail, 1)
        found = best_laws(tail, np.asarray([target]), np.asarray([1e-6]), near)[0][0]
        assert found == pytest.approx(best_with_level(tail, target, 1e-6), abs=2e-3)


@pytest.mark.every(2)
@pytest.mark.parametrize("family", [Family.GEV, Family.GPD])
@pytest.mark.parametrize("xi", [-0.3, 0.0, 0.6, 0.95])
def test_the_ends_of_intervals_are_where_the_likelihood_has_dropped(
    family: Family, xi: float
) -> None:
    """Half of chi2's 95 % point, 1.9207, by brute force, at both ends."""
    random = np.random.default_rng(31)
    values = sample(Law(family, 100.0, 20.0, xi), (120,), random)
    tail = known_tail(fit_law(family, values, Estimator.MLE, 100.0), values)
    best = log_likelihood(tail.law, values)
    exceedances = (1e-3, 1e-7, 1e-12)
    for p, ends in zip(exceedances, profile_intervals(tail, exceedances, 0.95), strict=True):
        assert ends[0] < float(tail.level(p)) < ends[1]
        for end in ends:
            dropped = best - best_with_level(tail, end, p)
            assert dropped == pytest.approx(1.9207, abs=0.01), (p, end)


@pytest.mark.every(3)
@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("xi", [-0.2, 0.3, 0.6, 0.8, 0.95])
def test_neither_end_falls_as_the_probability_does(family: Family, xi: float) -> None:
    """And asked for alone, or in another order, the intervals are the same."""
    random = np.random.default_rng(32)
    law = Law(family, 100.0, 20.0, xi if family.has_shape else 0.0)
    values = sample(law, (120,), random)
    tail = known_tail(fit_law(family, values, Estimator.MLE, 100.0), values)
    exceedances = [10.0**-k for k in range(2, 16)]
    found = profile_intervals(tail, exceedances, 0.95)
    for before, after in pairwise(found):
        assert before[0] <= after[0]
        assert before[1] <= after[1]
    backwards = profile_intervals(tail, exceedances[::-1], 0.95)[::-1]
    np.testing.assert_allclose(backwards, found, rtol=1e-3)
    alone = profile_intervals(tail, [1e-12], 0.95)[0]
    assert alone == pytest.approx(found[exceedances.index(1e-12)], rel=1e-3)


@pytest.mark.every(2)
@pytest.mark.parametrize("xi", [0.3, 0.6, 0.8, 0.95])
def test_intervals_of_heavy_tails_hold_the_truth(xi: float) -> None:
    """60 studies: 95 % less 4 deviations of a binomial share; and not all misses on one side."""
    random = np.random.default_rng(33)
    law = Law(Family.GPD, 100.0, 20.0, xi)
    exceedances = (1e-3, 1e-6, 1e-12)
    # closed form: x = u + s ((p / rate)^-xi - 1) / xi
    truth = np.asarray([100 + 20 * ((p / 0.05) ** -xi - 1) / xi for p in exceedances])
    held, below = np.zeros(3), np.zeros(3)
    for _ in range(60):
        values = sample(law, (150,), random)
        tail = known_tail(fit_law(Family.GPD, values, Estimator.MLE, 100.0), values)
        low, high = np.asarray(profile_intervals(tail, exceedances, 0.95)).T
        held += (low <= truth) & (truth <= high)
        below += truth < low
    assert (held / 60 >= 0.84).all()
    assert (below / 60 <= 0.12).all()


@pytest.mark.every(2)
@pytest.mark.parametrize(("family", "xi"), [(Family.GEV, -0.2), (Family.GPD, 0.1)])
def test_intervals_hold_the_truth_as_often_as_they_say(family: Family, xi: float) -> None:
    """80 studies: 95 % +- 4 deviations of a binomial share."""
    random = np.random.default_rng(8)
    law = Law(family, 100.0, 20.0, xi)
    truth = float(known_tail(law, np.ones(1)).level(1e-9))
    held = 0
    for _ in range(80):
        values = sample(law, (150,), random)
        tail = known_tail(fit_law(family, values, Estimator.MLE, 100.0), values)
        low, high = profile_intervals(tail, [1e-9], 0.95)[0]
        held += low <= truth <= high
    assert 0.85 <= held / 80 <= 1.0


def test_narrow_intervals_hold_it_less_often() -> None:
    random = np.random.default_rng(9)
    law = Law(Family.EXPONENTIAL, 100.0, 20.0, 0.0)
    truth = float(known_tail(law, np.ones(1)).level(1e-9))
    held = 0
    for _ in range(400):
        values = sample(law, (100,), random)
        tail = known_tail(fit_law(Family.EXPONENTIAL, values, Estimator.MLE, 100.0), values)
        low, high = profile_intervals(tail, [1e-9], 0.5)[0]
        held += low <= truth <= high
    assert held / 400 == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("estimator", list(Estimator))
def test_bootstrap_intervals_are_near_profiles(estimator: Estimator) -> None:
    random = np.random.default_rng(10)
    values = sample(Law(Family.GPD, 100.0, 20.0, -0.1), (800,), random)
    law = fit_law(Family.GPD, values, estimator, 100.0)
    tail = known_tail(law, values)
    (boot,) = level_intervals(tail, [1e-6], 0.95, Interval.BOOTSTRAP, estimator, random)
    best = known_tail(fit_law(Family.GPD, values, Estimator.MLE, 100.0), values)
    profile = profile_intervals(best, [1e-6], 0.95)[0]
    assert boot[0] == pytest.approx(profile[0], rel=0.12)
    assert boot[1] == pytest.approx(profile[1], rel=0.25)


def test_edf_statistics_are_scipys() -> None:
    random = np.random.default_rng(2)
    u = random.random(57)
    ks, anderson, cramer = edf_statistics(u[None, :])[0]
    assert ks == pytest.approx(np.sqrt(57) * stats.kstest(u, "uniform").statistic)
    assert cramer == pytest.approx(stats.cramervonmises(u, "uniform").statistic)
    # the definition: an integral of the squared distance, weighted by 1 / (u (1 - u))
    grid = (np.arange(2_000_000) + 0.5) / 2_000_000
    share = np.searchsorted(np.sort(u), grid, side="right") / 57
    integral = 57 * np.mean((share - grid) ** 2 / (grid * (1 - grid)))
    assert anderson == pytest.approx(integral, rel=1e-3)


@pytest.mark.parametrize(("family", "xi"), [(Family.GEV, 0.1), (Family.EXPONENTIAL, 0.0)])
def test_goodness_of_fit_rejects_at_its_level(family: Family, xi: float) -> None:
    random = np.random.default_rng(12)
    rejected = np.zeros(3)
    for _ in range(100):
        values = sample(Law(family, 0.0, 1.0, xi), (80,), random)
        good = assess_fit(fit_law(family, values, Estimator.MLE), values, Estimator.MLE, random, 99)
        p = (good.p_kolmogorov_smirnov, good.p_anderson_darling, good.p_cramer_von_mises)
        rejected += np.asarray(p) <= 0.05
    assert (rejected / 100 <= 0.13).all()
    assert (rejected / 100 >= 0.005).all()


def test_goodness_of_fit_sees_another_law() -> None:
    random = np.random.default_rng(13)
    values = random.uniform(0, 1, 300)
    law = fit_law(Family.EXPONENTIAL, values, Estimator.MLE)
    assert assess_fit(law, values, Estimator.MLE, random).p_anderson_darling < 0.01


def test_likelihood_ratio_rejects_at_its_level_and_sees_a_shape() -> None:
    random = np.random.default_rng(14)
    rates = []
    for xi in (0.0, 0.25):
        rejected = 0
        for _ in range(200):
            values = sample(Law(Family.GPD, 0.0, 1.0, xi), (300,), random)
            full = fit_law(Family.GPD, values, Estimator.MLE)
            plain = fit_law(Family.EXPONENTIAL, values, Estimator.MLE)
            rejected += likelihood_ratio(full, plain, values)[1] <= 0.05
        rates.append(rejected / 200)
    assert rates[0] == pytest.approx(0.05, abs=0.05)
    assert rates[1] > 0.9


@pytest.mark.parametrize("theta", [1.0, 0.6, 0.3])
def test_extremal_index_of_max_autoregressive_series(theta: float) -> None:
    random = np.random.default_rng(15)
    found = [extremal_index(max_autoregressive(8000, theta, random), random) for _ in range(8)]
    for name in ("intervals", "blocks", "runs", "sliding"):
        mean = float(np.mean([getattr(one, name) for one in found]))
        assert mean == pytest.approx(theta, abs=0.09), name
    rejected = sum(one.p <= 0.05 for one in found)
    assert rejected <= 2 if theta == 1.0 else rejected == 8


def test_ljung_box_is_statsmodels() -> None:
    from statsmodels.stats.diagnostic import acorr_ljungbox

    times = np.random.default_rng(16).normal(size=500).cumsum()
    found = serial_dependence(times, 12, 0.05)
    table = acorr_ljungbox(times, lags=12)
    np.testing.assert_allclose(found.ljung_box, table["lb_stat"], rtol=1e-9)
    np.testing.assert_allclose(found.ljung_box_p, table["lb_pvalue"], atol=1e-12)
    centred = times - times.mean()
    first = (centred[1:] @ centred[:-1]) / (centred @ centred)
    assert found.autocorrelation[0] == pytest.approx(first)
    assert found.limit == pytest.approx(1.959964 / np.sqrt(500))


def test_order_of_an_autoregressive_series_is_found() -> None:
    random = np.random.default_rng(17)
    noise = random.normal(size=5000)
    times = np.zeros(5000)
    for k in range(3, 5000):
        times[k] = 0.4 * times[k - 1] - 0.3 * times[k - 3] + noise[k]
    aic, bic = autoregressive_orders(times)
    assert bic == 3
    # of forty independent series AIC takes an order above 0 in about a quarter, and few of them far
    orders = [autoregressive_orders(random.normal(size=500))[0] for _ in range(40)]
    assert aic >= 3
    assert sum(order > 0 for order in orders) < 22
    assert sum(order > 5 for order in orders) < 8
    assert autoregressive_orders(noise)[1] == 0


def test_limit_laws_of_bridges_by_simulation() -> None:
    random = np.random.default_rng(18)
    steps = random.normal(size=(4000, 1000))
    walk = np.cumsum(steps, axis=1)
    bridge = (walk - walk[:, -1:] * np.arange(1, 1001) / 1000) / np.sqrt(1000)
    ranges = bridge.max(axis=1) - bridge.min(axis=1)
    squares = (bridge**2).mean(axis=1)
    for v in (1.0, 1.2, 1.6):
        # the range of a walk lags behind that of a bridge by about 0.03 at this length
        assert rescaled_range_survival(v + 0.03) == pytest.approx((ranges > v).mean(), abs=0.03)
    for w in (0.1, 0.3, 0.6):
        assert bridge_square_survival(w) == pytest.approx((squares > w).mean(), abs=0.02)
    # tables: Lo 1991 (90 % and 95 % points), Kwiatkowski et al. 1992
    assert rescaled_range_survival(1.620) == pytest.approx(0.10, abs=0.001)
    assert rescaled_range_survival(1.747) == pytest.approx(0.05, abs=0.001)
    for point, p in ((0.347, 0.1), (0.463, 0.05), (0.574, 0.025), (0.739, 0.01)):
        assert bridge_square_survival(point) == pytest.approx(p, abs=0.0012)


@pytest.mark.parametrize("xi", [-0.4, -0.1, 0.2, 0.4])
def test_l_moments_of_a_whole_law_give_its_shape(xi: float) -> None:
    """Quantiles at 200,000 even probabilities: Hosking's approximation is within 9e-4."""
    law = Law(Family.GEV, 100.0, 20.0, xi)
    values = law.quantile((np.arange(200_000) + 0.5) / 200_000)
    assert fit_law(Family.GEV, values, Estimator.PWM).shape == pytest.approx(xi, abs=2e-3)


def test_one_pair_of_neighbours_is_no_surprise() -> None:
    """Twenty long times of 200: by chance one pair of neighbours or more in about 85 %."""
    times = np.zeros(200)
    times[5::10] = 1.0
    times[5], times[16] = 0.0, 1.0
    found = extremogram(times, 0.5, 1, 0.05, np.random.default_rng(1))
    assert found.pairs == 1
    expected = 1 - np.exp(-20 * 19 / 200)
    assert found.p == pytest.approx(expected, abs=0.06)


def test_lags_of_the_rescaled_range_are_andrews() -> None:
    """(3 n / 2)^(1/3) (2 rho / (1 - rho^2))^(2/3), rounded down (Lo 1991, Equation 3.12)."""
    noise = np.random.default_rng(21).normal(size=4000)
    times = np.zeros(4000)
    for k in range(1, 4000):
        times[k] = 0.5 * times[k - 1] + noise[k]
    centred = times - times.mean()
    rho = (centred[1:] @ centred[:-1]) / (centred @ centred)
    lags = int(np.cbrt(6000) * np.cbrt(2 * rho / (1 - rho**2)) ** 2)
    assert lags > 15
    statistic, found = rescaled_range(times)
    assert found == lags
    variance = centred @ centred / 4000
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * (centred[lag:] @ centred[:-lag]) / 4000
    sums = np.cumsum(centred)
    assert statistic == pytest.approx((sums.max() - sums.min()) / np.sqrt(4000 * variance))


def test_rescaled_range_without_dependence_is_the_classical_one() -> None:
    times = np.random.default_rng(19).normal(size=400)
    statistic, lags = rescaled_range(times)
    sums = np.cumsum(times - times.mean())
    if lags == 0:
        expected = (sums.max() - sums.min()) / times.std() / 20
        assert statistic == pytest.approx(expected)
    else:
        assert statistic == pytest.approx((sums.max() - sums.min()) / times.std() / 20, rel=0.2)


def test_each_part_of_the_campaign_runs() -> None:
    random = np.random.default_rng(20)
    for name in ("agreement", "recovery", "fit_tests", "indices", "coverage"):
        assert PARTS[name][0](2, random)
