"""Constants and straight-line code, against ptxas (a short form of benchmarks/ptxas_folding.py).

The one-place breaks that it is to see are in ``benchmarks/folding_breaks.toml``, and
``benchmarks/folding_breaks.py`` makes them: among others the sign of ``~``, ``%``, ``-`` and of
casts, shifts of negatives and by more than 63, comparisons without a sign, ``U``, octal and binary
digits, precedence of ``|``, ``^``, ``?:``, ``-`` and shifts, bits of floats, and signs of offsets,
indices and of what the printer and ``instrument`` write.
"""

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
