"""A negated constant in the assembly of a CUDA file, from nvcc to the bound."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ptxwcet

pytestmark = pytest.mark.fast

CUDA = Path(__file__).parents[1] / "data" / "faults" / "inline_minus.cu"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
def test_the_loop_falls_to_zero() -> None:
    """``add.s32 x, x, -(1)`` falls from 100 to 0: 100 rounds; without its sign it is one."""
    result = ptxwcet.bound(CUDA, block=32, arch="sm_86")
    assert list(result.loops.values()) == [100]
