"""``ptxwcet validate``: the table, exit codes, witnesses of contradicted bounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from places import SAMPLES
from programs import run_program
from sass_listings import SASS, raw, stand_in

from ptxwcet.bounds.methods import METHODS
from ptxwcet.bounds.outcome import BlockBound, Outcome
from ptxwcet.simulator.resolution import resolve_workload
from ptxwcet.validate import block
from ptxwcet.validate.block import Effort, Side, validate_block
from ptxwcet.validate.cases import Case
from ptxwcet.validate.selftest import CORPUS

pytestmark = pytest.mark.fast

SGEMM = ("--block", "32x8", "--param", "M=256", "--param", "N=256", "--param", "K=64")


def rows(out: str) -> dict[str, list[str]]:
    """Cells of the first row of each method, thousands separators removed."""
    found: dict[str, list[str]] = {}
    for line in out.replace(",", "").splitlines():
        cells = line.split()
        if len(cells) > 5 and cells[3] in (">=", "<=", "="):
            found.setdefault(cells[0], cells)
    return found


def test_sgemm() -> None:
    file = str(SAMPLES / "sgemm_naive.ptx")
    code, out, err = run_program("validate", file, *SGEMM, "--runs", "3", "--timeout", "1")
    assert (code, err) == (0, "")
    table = rows(out)
    assert set(table) == {"safe", "gub", "lower", "scheduled"}
    assert int(table["safe"][2]) >= int(table["safe"][4])
    assert int(table["lower"][2]) <= int(table["lower"][4]) <= int(table["safe"][4])
    assert table["scheduled"][2] == table["scheduled"][4]
    ratio = int(table["safe"][2]) / int(table["safe"][4])
    assert table["safe"][5] == f"{ratio:.4f}"


def test_undecided_paths_are_resolved() -> None:
    file = str(SAMPLES / "triangular.ptx")
    code, out, _ = run_program(
        *("validate", file, "-k", "triangular_solve", "--block", "64", "--param", "n=60"),
        *("--runs", "4", "--timeout", "1"),
    )
    assert code == 0
    assert set(rows(out)) == {"safe"}
    assert "lower: no answer" in out
    assert "4 random resolutions of undecided paths" in out


def test_refused_kernel_and_bad_options() -> None:
    file = str(SAMPLES / "sgemm_naive.ptx")
    code, _, err = run_program("validate", file, "--block", "32x32")
    assert code == 1
    assert "error[PW203]" in err
    code, _, err = run_program("validate", file, *SGEMM, "--jitter", "101")
    assert code == 2
    assert "error[PW531]" in err
    assert run_program("validate", file, *SGEMM, "--runs", "-1")[0] == 2
    assert run_program("validate", file, *SGEMM, "--timeout", "0")[0] == 2


def test_a_wrong_bound_fails_with_a_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    """SAFE below what was seen: reported with a schedule; GUB likewise is only remarked."""
    right = block.validate_block

    def halved(
        name: str,
        analysis: block.BlockAnalysis,
        outcomes: dict[str, Outcome],
        effort: Effort,
        resolve: object,
    ) -> block.BlockValidation:
        smaller = {
            method: replace(one, claim=replace(one.claim, cycles=one.cycles // 2))
            if isinstance(one, BlockBound)
            else one
            for method, one in outcomes.items()
            if method in names
        }
        return right(name, analysis, smaller, effort, resolve_workload)

    monkeypatch.setattr("ptxwcet.validate.command.validate_block", halved)
    file = str(SAMPLES / "vector_add.ptx")
    options = (
        file,
        "--block",
        "64",
        "--grid",
        "4",
        "--param",
        "n=256",
        "--runs",
        "2",
        "--timeout",
        "0.5",
    )
    names = ["safe"]
    code, out, err = run_program("validate", *options)
    assert code == 1
    assert "EXCEEDED" in out
    assert "error[PW535]" in err
    assert "issues" in err
    names = ["gub"]
    code, out, err = run_program("validate", *options)
    assert (code, err) == (0, "")
    assert "EXCEEDED (an estimate)" in out


def outcomes_of(case: Case) -> dict[str, Outcome]:
    analysis = case.analyse()
    return {method.name: method.evaluate(analysis) for method in METHODS}


@pytest.mark.parametrize("known", CORPUS, ids=lambda known: known.case.name)
def test_known_blocks(known: object) -> None:
    case = next(k for k in CORPUS if k is known)
    result = validate_block(
        "known", case.case.analyse(), MappingProxyType(outcomes_of(case.case)),
        Effort(8, 50, 0.2), resolve_workload,
    )  # fmt: skip
    assert result.holds
    assert result.witness is None
    by_method = {row.method: row for row in result.rows if row.side is not Side.EXACT}
    assert by_method["lower"].cycles <= by_method["lower"].observed.cycles
    assert by_method["lower"].observed.cycles <= by_method["safe"].observed.cycles <= case.worst


def test_gub_is_seen_to_fail() -> None:
    """The adversary finds the schedule that exceeds the published bound."""
    case = next(k.case for k in CORPUS if k.case.name == "GUB fails: identical warps")
    result = validate_block(
        "gub", case.analyse(), outcomes_of(case), Effort(5, 0, 1.0), resolve_workload
    )
    gub = next(row for row in result.rows if row.method == "gub")
    assert (gub.cycles, gub.observed.cycles, gub.holds) == (10, 11, False)
    assert result.holds


def test_it_is_suggested_where_it_can_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code is not executed here: what users say of its loops cannot be tried so."""
    stand_in(tmp_path, monkeypatch).write_text(f"print({raw('sgemm_naive_86')!r})")
    block = ("--block", "32x32", "--machine", "rtx-4070", "--loop-bound")
    for file, loop, is_suggested in (
        (SAMPLES / "sgemm_naive.ptx", "$L__BB0_2", True),
        (SASS / "sgemm_naive_86.cubin", ".L_x_1", False),
    ):
        code, text, _ = run_program("bound", str(file), *block, f"{loop}=32")
        assert code == 0
        assert "user: --loop-bound" in text
        assert ("ptxwcet validate" in text) == is_suggested
