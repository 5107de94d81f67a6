"""Which second path n runs need not have shown: figures, in text, JSON and on the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from programs import run_program
from scipy.stats import binom

from ptxwcet.methods.pwcet.extraction import LEAST_EXTREMES
from ptxwcet.methods.pwcet.sample_study import rare_paths
from ptxwcet.methods.pwcet.text import format_pwcet

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("runs", [40, 1_000, 2_000, 10**6])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_the_shares_are_those_of_the_binomial_law(runs: int, confidence: float) -> None:
    found = rare_paths(runs, confidence)
    assert found.unseen == pytest.approx(1 - (1 - confidence) ** (1 / runs))
    for least, share in ((1, found.unseen), (LEAST_EXTREMES, found.shapeless)):
        assert binom.cdf(least - 1, runs, share) == pytest.approx(1 - confidence, rel=1e-6)
    assert found.unseen < found.shapeless <= 1


def test_too_few_runs_shape_nothing() -> None:
    assert rare_paths(LEAST_EXTREMES - 1, 0.95).shapeless == 1


def test_a_rare_path_is_within_what_is_said(tmp_path: Path) -> None:
    """2,000 runs of which 0.1 % take a longer path: two of them, which shape no tail."""
    chance = np.random.default_rng(4)
    times = 1000 + chance.exponential(np.where(chance.random(2000) < 0.001, 100, 10))
    file, page = tmp_path / "times.csv", tmp_path / "page.html"
    file.write_text("time_ns\n" + "\n".join(f"{time:.3f}" for time in times) + "\n")
    run_program("pwcet", file, "--format", "html", "-o", page, "--force")
    text = run_program("pwcet", file, "--force").out
    shown = run_program("pwcet", file, "--format", "json", "--force").out
    (condition,) = json.loads(shown)["conditions"]
    assert 0.001 < condition["unseen_share"] < 0.0015
    assert 0.02 < condition["shapeless_share"] < 0.03
    for said in (text, page.read_text()):
        flat = " ".join(said.split())
        assert "fewer than 0.15 % of runs take may be in none of these" in flat
        assert "fewer than 2.6 % take in too few to shape the tail (95 %" in flat


@pytest.mark.parametrize("value", [1234.0001, 12.0000001, 0.00123456789, 999.9999999, 5e14 + 0.2])
def test_printed_times_are_not_below(value: float) -> None:
    assert float(format_pwcet(value).replace(",", "")) >= value
