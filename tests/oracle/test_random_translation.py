"""Random PTX against the machine code that ptxas makes of it: kept programs, and the campaign.

Kept are programs of ``benchmarks/translation_programs.py`` with indexed branches, with exchanges
between lanes and with floating point; ``benchmarks/translation_campaign.py`` makes thousands.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sass_execution
import translation_campaign
import translation_programs
from numpy.typing import NDArray
from parsing import parse_text
from places import DATA, ROOT
from sass_execution import Program, run_machine_code
from test_machine_code import needs_tools

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.ir.kernel import Module
from ptxwcet.sass import lowering
from ptxwcet.sass.lowering import read_program
from ptxwcet.support.source import SourceFile

SASS = DATA / "sass"
LISTINGS = ("random_80", "random_90")


def launch_of(kind: str, seed: int) -> EmulatedLaunch:
    if kind == "floats":
        return translation_programs.floats_launch(seed)
    return translation_programs.lanes_launch(seed, kind)


@cache
def left_by_ptx() -> dict[str, tuple[EmulatedLaunch, tuple[NDArray[Any] | None, ...]]]:
    """What the kept programs leave, by the name of the kernel."""
    module, found = parse_text((SASS / "random.ptx").read_text(encoding="utf-8")), {}
    for (kind, seed), kernel in zip(translation_programs.KEPT, module.kernels, strict=True):
        assert kernel.name == f"k{seed}"
        launch = launch_of(kind, seed)
        run = execute(kernel, module, launch, options=EmulatorOptions())
        assert not run.findings
        found[kernel.name] = launch, run.buffers
    return found


@cache
def listed(name: str) -> tuple[Module, dict[str, bytes]]:
    text = (SASS / f"{name}.sass").read_text(encoding="utf-8")
    rows = (SASS / f"{name}.tables").read_text(encoding="utf-8").splitlines()
    tables = {kernel: bytes.fromhex(content) for kernel, content in map(str.split, rows)}
    return read_program(SourceFile("k.cubin", text)), tables


def outcomes(listing: str) -> dict[str, str]:
    module, tables = listed(listing)
    return {
        kernel.name: translation_campaign.outcome(
            kernel, module, tables.get(kernel.name, b""), *left_by_ptx()[kernel.name]
        )
        for kernel in module.kernels
        if kernel.is_entry
    }


@pytest.mark.parametrize("listing", LISTINGS)
def test_kept_programs_leave_the_memory_of_their_ptx(listing: str) -> None:
    assert outcomes(listing) == dict.fromkeys(left_by_ptx(), "equal")


def test_an_indexed_branch_that_leads_elsewhere_is_seen() -> None:
    module, tables = listed("random_80")
    (kernel,) = (one for one in module.kernels if one.name == "k65")
    launch, expected = left_by_ptx()["k65"]
    words = np.frombuffer(tables["k65"], np.uint32)
    assert len(words) >= 2
    turned = words[::-1].tobytes()
    assert turned != tables["k65"]
    assert translation_campaign.outcome(kernel, module, turned, launch, expected) != "equal"
    with pytest.raises(AssertionError, match="leads elsewhere"):
        run_machine_code(Program(kernel, module, bytes(len(turned))), launch)


@pytest.mark.parametrize(
    ("name", "kernel"), [("do_ffma", "k12"), ("do_f2i", "k81"), ("do_match", "k95")]
)
def test_what_is_computed_otherwise_is_seen(
    name: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(sass_execution._Block, name)

    def wrong(self: Any, instruction: Any, words: Any, operands: Any, lanes: Any, _: Any) -> None:
        right(self, instruction, words, operands, lanes, _)
        target = next(one for one in operands if one is not operands[0] or name != "do_match")
        self.write(target, self.read(target) ^ np.uint64(2), lanes)

    monkeypatch.setattr(sass_execution._Block, name, wrong)
    assert outcomes("random_80")[kernel] == "different"


def test_a_program_follows_from_its_kind_and_seed() -> None:
    for kind in translation_programs.KINDS:
        if kind != "integers":  # whose forms ptxas chooses
            one, other = (translation_programs.made(kind, range(7, 9)) for _ in "12")
            assert one.text == other.text
            assert [str(each) for each in one.launches.values()] == [
                str(each) for each in other.launches.values()
            ]
            parse_text(one.text)


def test_the_modules_of_a_plan_are_each_there_once() -> None:
    rows = translation_campaign.tasks("whole", translation_programs.KINDS, 1)
    programs = [(kind, seed) for kind, seeds in rows for seed in seeds]
    assert len(set(programs)) == len(programs) >= 20_000


@needs_tools
@pytest.mark.thorough
@pytest.mark.parametrize("kind", translation_programs.KINDS)
def test_programs_of_each_kind(kind: str) -> None:
    seeds = range(50_001, 50_021)
    for _, _, made, code in translation_campaign.modules([(kind, seeds)]):
        tally = translation_campaign.tried(kind, seeds, made, code, 10)
        assert tally.different == tally.departed == []
        assert min(tally.equal.values()) > 0.6 * tally.ended > 6


@needs_tools
@pytest.mark.thorough
def test_a_mistake_in_a_row_is_seen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sass_execution, "meaning_of", sass_execution.meaning_of)
    monkeypatch.setattr(sass_execution, "MOST_STEPS", sass_execution.MOST_STEPS)
    monkeypatch.setattr(lowering, "hazards_of", lowering.hazards_of)
    arguments = ["campaign", "--break", "3", "--kinds", "integers", "--out", str(tmp_path / "o")]
    monkeypatch.setattr("sys.argv", arguments)
    assert translation_campaign.main() == 0
    assert "different" in capsys.readouterr().out


# --- the page -------------------------------------------------------------------------------------


def test_the_page_says_what_the_summaries_say() -> None:
    folder = ROOT / "docs" / "experiments"
    page = (folder / "machine-code-translation.md").read_text(encoding="utf-8")
    whole = json.loads((folder / "machine-code-translation.json").read_text(encoding="utf-8"))
    assert f"{whole['programs']:,} programs; {whole['ended']:,} ended" in page
    assert f"**{len(whole['different'])} differed**" in page
    assert whole["departed"] == []
    for kind, row in whole["kinds"].items():
        numbers = " | ".join(f"{row[key]:,}" for key in ("programs", "ended", "equal", "refused"))
        assert f"| {kind} | {numbers} |" in page
    corpora = json.loads((folder / "machine-code-corpora.json").read_text(encoding="utf-8"))
    for corpus, rows in corpora.items():
        equal = [row["equal"] for build, row in rows.items() if build != "kernels"]
        (line,) = (one for one in page.splitlines() if one.startswith(f"| {corpus} |"))
        cells = line.split(" | ")
        assert [int(cell.strip(" |")) for cell in cells[1:]] == [rows["kernels"], *equal]
        for build, row in rows.items():
            if build != "kernels":
                assert not [why for why in row["others"] if why.startswith("different")]
