"""Bounds of programs whose constants the parser once read otherwise than ptxas does."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptxwcet

FAULTS = Path(__file__).parents[1] / "data" / "faults"
ROUNDS = {
    "minus_paren": {"down": 1_010, "count": 100},
    "constexpr_unsigned": {"less": 1_000, "quot": 3, "rest": 615, "compl": 1_000},
}


@pytest.mark.parametrize(
    ("file", "kernel"), [(file, kernel) for file, found in ROUNDS.items() for kernel in found]
)
def test_rounds(file: str, kernel: str) -> None:
    result = ptxwcet.bound(FAULTS / f"{file}.ptx", kernel=kernel, block=32)
    assert list(result.loops.values()) == [ROUNDS[file][kernel]]


def test_passes_of_matrices_of_16_rows() -> None:
    """Two passes for 16 consecutive rows, one for each row at a stride of 128 bytes."""
    result = ptxwcet.bound(FAULTS / "ldm16.ptx", block=32)
    assert result.cycles == 85  # that of the same rows as .m8n8
