"""Constants and straight-line code, against ptxas (a short form of benchmarks/ptxas_folding.py)."""

from __future__ import annotations

import pytest
from constant_folding import PTXAS, Folded, corners, expressions, programs

pytestmark = pytest.mark.skipif(
    PTXAS is None, reason="no ptxas on PATH: constants are not compared with its folding"
)


def agrees(found: Folded, least: int) -> None:
    assert found.different == []
    assert found.refused_by_ptxas == []
    assert found.compared >= least


def test_expressions() -> None:
    agrees(expressions(seed=3, count=48), 140)


def test_corners() -> None:
    agrees(corners(), 900)


def test_straight_line_programs() -> None:
    agrees(programs(seed=3, count=4), 20)
