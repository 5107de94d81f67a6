"""Are the statistics of ``ptxwcet pwcet`` right? ``python benchmarks/pwcet_validation.py``

Samples of known laws and processes: parameters recovered, coverage of intervals, rejection rates of
each test, extremal indices, agreement with scipy and pyextremes. Each part writes its figures into
``docs/experiments/pwcet-validation.json`` as it ends; docs/experiments/pwcet-voronoi.md sums up.
``tests/oracle/test_pwcet_statistics.py`` repeats small parts with fixed seeds.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ptxwcet.methods.pwcet.dependence import extremal_index, extremogram, serial_dependence
from ptxwcet.methods.pwcet.distributions import Family, Floats, Law, sample
from ptxwcet.methods.pwcet.estimation import Estimator, fit_law, fit_rows
from ptxwcet.methods.pwcet.hypotheses import extreme_outcomes, series_outcomes
from ptxwcet.methods.pwcet.intervals import profile_intervals
from ptxwcet.methods.pwcet.sample_study import make_sample, study_sample
from ptxwcet.methods.pwcet.settings import Settings
from ptxwcet.methods.pwcet.tail import Extremes, Tail, assess_fit, likelihood_ratio

OUT = Path(__file__).resolve().parents[1] / "docs" / "experiments"
LAWS = [(family, xi) for family in (Family.GEV, Family.GPD) for xi in (-0.2, 0.0, 0.2)]
LAWS += [(Family.GUMBEL, 0.0), (Family.EXPONENTIAL, 0.0)]
HEAVY = [(family, xi) for family in (Family.GEV, Family.GPD) for xi in (0.3, 0.6, 0.8, 0.95)]
EXCEEDANCES = (1e-3, 1e-6, 1e-9, 1e-12)
SCALE, PLACE = 20.0, 100.0

Process = Callable[[int, np.random.Generator], Floats]
Rows = list[dict[str, Any]]
RESTRICTED = {Family.GEV: Family.GUMBEL, Family.GPD: Family.EXPONENTIAL}


def max_autoregressive(n: int, theta: float, random: np.random.Generator) -> Floats:
    """``X_i = max((1 - theta) X_(i-1), theta Z_i)``, Z unit Frechet, on Gumbel margins.

    Its extremal index is theta (Davis and Resnick 1989); the logarithm leaves it as it is.
    """
    z = -1 / np.log(random.random(n))
    x = np.empty(n)
    x[0] = z[0]
    for i in range(1, n):
        x[i] = max((1 - theta) * x[i - 1], theta * z[i])
    return np.asarray(np.log(x), np.float64)


def tail_of(law: Law, values: Floats) -> Tail:
    """A tail with block size 25, or with 5 % of the runs above the threshold."""
    if law.family.is_of_maxima:
        return Tail(law, Extremes(values, block_size=25, runs_per_maximum=25.0))
    return Tail(law, Extremes(values, threshold=PLACE, rate=0.05))


def recovery(samples: int, random: np.random.Generator) -> Rows:
    """Mean and standard deviation of estimates, in units of the scale."""
    rows = []
    for family, xi in LAWS:
        for size in (100, 400, 1600):
            law = Law(family, PLACE if family.is_of_maxima else 0.0, SCALE, xi)
            data = sample(law, (samples, size), random)
            for estimator in Estimator:
                fits = fit_rows(family, data, estimator)
                error = fits - np.asarray([law.location, law.scale, law.shape])
                error[:, :2] /= SCALE
                mean, spread = np.nanmean(error, axis=0), np.nanstd(error, axis=0)
                rows.append(
                    {
                        "law": family.value,
                        "xi": xi,
                        "size": size,
                        "estimator": estimator.value,
                        "failed": int(np.isnan(fits).any(axis=1).sum()),
                        "bias": [round(float(one), 4) for one in mean],
                        "deviation": [round(float(one), 4) for one in spread],
                    }
                )
    return rows


def coverage(samples: int, random: np.random.Generator) -> Rows:
    """How often 95 % profile intervals hold the true level, and on which side they miss it."""
    rows = []
    for family, xi in LAWS + HEAVY:
        law = Law(family, PLACE, SCALE, xi)
        truth = tail_of(law, np.ones(1)).level(np.asarray(EXCEEDANCES))
        below, above, falls = np.zeros(4), np.zeros(4), 0
        ratios = []
        for _ in range(samples):
            values = sample(law, (200,), random)
            fitted = tail_of(fit_law(family, values, Estimator.MLE, PLACE), values)
            low, high = np.asarray(profile_intervals(fitted, EXCEEDANCES, 0.95)).T
            below, above = below + (truth < low), above + (truth > high)
            falls += bool((np.diff(low) < 0).any() or (np.diff(high) < 0).any())
            ratios.append(high / truth)
        for k, exceedance in enumerate(EXCEEDANCES):
            rows.append(
                {
                    "law": family.value,
                    "xi": xi,
                    "size": 200,
                    "exceedance": exceedance,
                    "studies": samples,
                    "held": round(float(samples - below[k] - above[k]) / samples, 4),
                    "truth below": round(float(below[k]) / samples, 4),
                    "truth above": round(float(above[k]) / samples, 4),
                    "ends that fall": falls,
                    "median upper end over truth": float(f"{np.median(ratios, axis=0)[k]:.3g}"),
                }
            )
        print(rows[-1], flush=True)
    return rows


def rejection(samples: int, random: np.random.Generator) -> Rows:
    """How often each test rejects at 5 %, on independent and on other series of 1,000 times."""
    processes: dict[str, Process] = {
        "independent, normal": lambda n, r: r.normal(1000, 10, n),
        "independent, gamma, whole": lambda n, r: np.round(r.gamma(2, 20, n)) + 1000,
        "drift of one deviation": lambda n, r: r.normal(1000, 10, n) + 10 * np.arange(n) / n,
        "AR(1), 0.3": lambda n, r: _autoregressive(n, 0.3, r),
        "max-autoregressive, theta 0.5": lambda n, r: max_autoregressive(n, 0.5, r) * 10 + 1000,
        "long memory, d = 0.4": _long_memory,
    }
    rows = []
    for name, process in processes.items():
        count = samples if name.startswith("independent") else max(50, samples // 5)
        rejected: Counter[str] = Counter()
        for _ in range(count):
            times = process(1000, random)
            serial = serial_dependence(times, 20, 0.05)
            index = extremal_index(times + 1e-6 * random.random(1000), random)
            pairs = extremogram(times, index.threshold, 20, 0.05, random)
            for row in (
                *series_outcomes(times, serial, 0.05),
                *extreme_outcomes(index, pairs, 0.05),
            ):
                rejected[row.name] += row.is_rejected
            rejected["AR order > 0, AIC"] += serial.order_aic > 0
            rejected["AR order > 0, BIC"] += serial.order_bic > 0
        del rejected["AR order"]
        rates = {key: round(value / count, 4) for key, value in rejected.items()}
        rows.append({"series": name, "samples": count, "rates": rates})
    return rows


def _autoregressive(n: int, coefficient: float, random: np.random.Generator) -> Floats:
    from scipy.signal import lfilter

    return np.asarray(lfilter([1], [1, -coefficient], random.normal(0, 10, n)) + 1000, np.float64)


def _long_memory(n: int, random: np.random.Generator) -> Floats:
    """Fractionally integrated noise of order 0.4, by its moving average of 4,000 terms."""
    k = np.arange(1, 4000)
    weights = np.concatenate([[1.0], np.cumprod((k - 1 + 0.4) / k)])
    noise = random.normal(0, 10, n + len(weights))
    return np.convolve(noise, weights, "valid")[:n] + 1000


def fit_tests(samples: int, random: np.random.Generator) -> Rows:
    """How often goodness of fit rejects at 5 % the law that holds, and likelihood ratio shape 0."""
    rows = []
    for family, xi in LAWS:
        rejected = np.zeros(3)
        ratio = 0
        for _ in range(samples):
            values = sample(Law(family, 0.0, 1.0, xi), (150,), random)
            law = fit_law(family, values, Estimator.MLE)
            good = assess_fit(law, values, Estimator.MLE, random, 199)
            p = (good.p_kolmogorov_smirnov, good.p_anderson_darling, good.p_cramer_von_mises)
            rejected += np.asarray(p) <= 0.05
            if family in RESTRICTED:
                plain = fit_law(RESTRICTED[family], values, Estimator.MLE)
                ratio += likelihood_ratio(law, plain, values)[1] <= 0.05
        rates = [round(float(one) / samples, 4) for one in rejected]
        row: dict[str, Any] = {"law": family.value, "xi": xi, "samples": samples}
        row.update(zip(("KS", "AD", "CvM"), rates, strict=True))
        row["shape 0 rejected"] = round(ratio / samples, 4) if family in RESTRICTED else None
        rows.append(row)
    return rows


def indices(samples: int, random: np.random.Generator) -> Rows:
    """Mean and standard deviation of each estimator of theta on max-autoregressive series."""
    rows = []
    for theta in (1.0, 0.8, 0.5, 0.3):
        for n in (2000, 10_000):
            found = [
                extremal_index(max_autoregressive(n, theta, random), random) for _ in range(samples)
            ]
            row: dict[str, Any] = {"theta": theta, "n": n, "samples": samples}
            for name in ("intervals", "blocks", "runs", "sliding"):
                values = [getattr(one, name) for one in found]
                row[name] = [round(float(np.mean(values)), 3), round(float(np.std(values)), 3)]
            row["independence rejected"] = round(float(np.mean([o.p <= 0.05 for o in found])), 3)
            rows.append(row)
    return rows


def agreement(samples: int, random: np.random.Generator) -> Rows:
    """Log likelihoods and shapes against those of scipy's fits to the same data."""
    from scipy import stats

    rows = []
    for family, xi in LAWS[:6]:
        gains, shapes = [], []
        for _ in range(samples):
            values = sample(Law(family, 0.0, SCALE, xi), (300,), random)
            own = fit_law(family, values, Estimator.MLE)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if family is Family.GEV:
                    c, place, scale = stats.genextreme.fit(values, 0.0, loc=0, scale=SCALE)
                    theirs = float(stats.genextreme.logpdf(values, c, place, scale).sum())
                    mine = stats.genextreme.logpdf(values, -own.shape, own.location, own.scale)
                    c = -c
                else:
                    c, place, scale = stats.genpareto.fit(values, 0.1, floc=0)
                    theirs = float(stats.genpareto.logpdf(values, c, place, scale).sum())
                    mine = stats.genpareto.logpdf(values, own.shape, 0.0, own.scale)
            gains.append(float(mine.sum()) - theirs)
            shapes.append(own.shape - float(c))
        rows.append(
            {
                "law": family.value,
                "xi": xi,
                "samples": samples,
                "least gain over scipy": round(min(gains), 8),
                "median difference of xi": float(f"{np.median(np.abs(shapes)):.1e}"),
                "largest difference of xi": float(f"{np.max(np.abs(shapes)):.1e}"),
            }
        )
    return rows


def studies(samples: int, random: np.random.Generator) -> Rows:
    """Whole studies of 2,000 times: claims, and how often the interval holds the true level."""
    cases: dict[str, tuple[Process, Callable[[float], float], int]] = {
        "exponential tail": (
            lambda n, r: 1000 + 100 * r.exponential(size=n),
            lambda p: 1000 - 100 * np.log(p),
            samples,
        ),
        "max-autoregressive, theta 0.5, Gumbel margin": (
            lambda n, r: 1000 + 100 * max_autoregressive(n, 0.5, r),
            lambda p: 1000 - 100 * np.log(-np.log1p(-p)),
            samples // 6,
        ),
        "gamma of shape 9, whole numbers": (
            lambda n, r: np.ceil(r.gamma(9, 100, n)),
            lambda p: float(np.ceil(_gamma(p))),
            samples // 6,
        ),
    }
    rows = []
    for name, (process, level, count) in cases.items():
        rows.append(_whole(name, process, level, count, random))
        print(rows[-1], flush=True)
    return rows


def _gamma(p: float) -> float:
    from scipy.stats import gamma

    return float(gamma.isf(p, 9, scale=100))


def _whole(
    name: str,
    process: Process,
    level: Callable[[float], float],
    count: int,
    random: np.random.Generator,
) -> dict[str, Any]:
    settings = Settings(probabilities=(1e-6, 1e-9))
    claims: Counter[str] = Counter()
    free, larger, above = Counter[float](), Counter[float](), Counter[float]()
    for number in range(count):
        study = study_sample(make_sample("x", process(2000, random), number), settings)
        guarantee = study.claim.guarantee
        claims[guarantee.value if guarantee else "refused"] += 1
        ends = profile_intervals(study.fits[Family.GPD].tail, settings.probabilities, 0.95)
        for point, (low, high) in zip(study.curve, ends, strict=True):
            truth = level(point.exceedance)
            free[point.exceedance] += low <= truth <= high
            larger[point.exceedance] += point.low <= truth <= point.pwcet
            above[point.exceedance] += truth <= point.pwcet
    return {
        "series": name,
        "studies": count,
        "claims": {key: round(value / count, 4) for key, value in sorted(claims.items())},
        "interval of the GPD holds": {f"{p:g}": round(n / count, 4) for p, n in free.items()},
        "interval of the curve holds": {f"{p:g}": round(n / count, 4) for p, n in larger.items()},
        "its upper end is above": {f"{p:g}": round(n / count, 4) for p, n in above.items()},
    }


def heavy_studies(samples: int, random: np.random.Generator) -> Rows:
    """Whole studies of 2,000 times with tails heavier than exponential: what is claimed, and how
    often the estimated curve and the pWCET (the interval's upper end) are above the truth."""
    cases: dict[str, tuple[Process, Callable[[float], float]]] = {
        f"Pareto tail, xi = {xi:g}": (
            lambda n, r, xi=xi: 1000 + 100 * ((1 - r.random(n)) ** -xi - 1) / xi,
            lambda p, xi=xi: 1000 + 100 * (p**-xi - 1) / xi,
        )
        for xi in (0.15, 0.3, 0.6, 0.8, 1.2)
    }
    cases["log-normal, sigma 1"] = (
        lambda n, r: 1000 + 100 * r.lognormal(0.0, 1.0, n),
        lambda p: 1000 + 100 * float(np.exp(_normal(p))),
    )
    cases["99.5 % N(1000, 10), 0.5 % N(1200, 15)"] = (_mixture, _mixture_level)
    return [_heavy(name, *case, samples, random) for name, case in cases.items()]


def _mixture(n: int, random: np.random.Generator) -> Floats:
    usual = random.random(n) < 0.995
    return np.where(usual, random.normal(1000, 10, n), random.normal(1200, 15, n))


def _mixture_level(p: float) -> float:
    from scipy.optimize import brentq
    from scipy.stats import norm

    def away(x: float) -> float:
        share = 0.995 * norm.sf(x, 1000, 10) + 0.005 * norm.sf(x, 1200, 15)
        return float(np.log(share) - np.log(p))

    return float(brentq(away, 1000, 1400))


def _normal(p: float) -> float:
    from scipy.stats import norm

    return float(norm.isf(p))


def _heavy(
    name: str,
    process: Process,
    level: Callable[[float], float],
    count: int,
    random: np.random.Generator,
) -> dict[str, Any]:
    settings = Settings(probabilities=(1e-6, 1e-9, 1e-12))
    claims: Counter[str] = Counter()
    estimate, pwcet = Counter[float](), Counter[float]()
    for number in range(count):
        study = study_sample(make_sample("x", process(2000, random), number), settings)
        guarantee = study.claim.guarantee
        claims[guarantee.value if guarantee else "refused"] += 1
        for point in study.curve if guarantee else ():
            estimate[point.exceedance] += level(point.exceedance) <= point.estimate
            pwcet[point.exceedance] += level(point.exceedance) <= point.pwcet
    row = {
        "series": name,
        "studies": count,
        "probabilistic": claims["probabilistic"],
        "estimates": claims["estimate"],
        "refused": claims["refused"],
        "of those not refused, estimated curve above the truth": dict(estimate) or None,
        "pWCET above the truth": dict(pwcet) or None,
    }
    print(row, flush=True)
    return row


PARTS: dict[str, tuple[Callable[[int, np.random.Generator], Rows], int]] = {
    "agreement": (agreement, 100),
    "recovery": (recovery, 500),
    "fit_tests": (fit_tests, 300),
    "indices": (indices, 100),
    "rejection": (rejection, 600),
    "coverage": (coverage, 200),
    "studies": (studies, 500),
    "heavy_studies": (heavy_studies, 12),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT / "pwcet-validation.json")
    given = parser.parse_args()
    found = json.loads(given.out.read_text()) if given.out.exists() else {}
    for name in given.parts or PARTS:
        make, samples = PARTS[name]
        begin = time.process_time()
        rows = make(samples, np.random.default_rng([given.seed, list(PARTS).index(name)]))
        found[name] = {"rows": rows, "seconds": round(time.process_time() - begin, 1)}
        found = {key: found[key] for key in PARTS if key in found}
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(name, found[name]["seconds"], "s", flush=True)


if __name__ == "__main__":
    main()
