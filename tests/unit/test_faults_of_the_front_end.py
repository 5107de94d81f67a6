"""Bounds of programs whose constants the parser once read otherwise than ptxas does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import ptxwcet
from ptxwcet.cli.main import commands

pytestmark = pytest.mark.fast

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


@pytest.mark.parametrize(("before", "behind"), [("\ufeff", ""), ("", "// \u00e9\n")])
def test_text_that_ptxas_refuses_is_answered_with_a_warning(
    before: str, behind: str, tmp_path: Path
) -> None:
    text = (FAULTS / "minus_paren.ptx").read_text()
    path = tmp_path / "k.ptx"
    path.write_text(before + text + behind, encoding="utf-8")
    command = ["bound", str(path), "-k", "count", "--block", "32"]
    loud, quiet = (
        CliRunner().invoke(commands, command),
        CliRunner().invoke(commands, [*command, "-q"]),
    )
    assert loud.exit_code == quiet.exit_code == 0
    assert loud.stderr.count("PW116") == 1
    assert quiet.stderr == ""
