"""Refusals claim only what is proved, and what they suggest leads further."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from answers import only_answer, only_refusal
from click.testing import CliRunner
from effort import counted
from places import ROOT
from remedies import leads_nowhere, outcome

import ptxwcet
from ptxwcet.cli.main import commands
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

FAULTS, UNSOUND = ROOT / "tests/data/faults", ROOT / "tests/data/unsound"
SAMPLES, SUITE = ROOT / "samples", ROOT / "benchmarks/kernels/suite"
PLAIN = ROOT / "benchmarks/kernels/plain"
SLOW = ("triangular", "outer_loop_open")
STEPS = ("a=0", "b=100")


def fault(name: str, *parameters: str, block: str = "32", **others: object) -> Request:
    request = Request(str(FAULTS / f"{name}.ptx"), block=block, parameters=parameters)
    return replace(request, **others)  # type: ignore[arg-type]


def refused(request: Request) -> Diagnostic:
    diagnostic = outcome(request)
    assert diagnostic is not None
    return diagnostic


def test_a_loop_with_two_latches_that_ends_is_not_called_endless(tmp_path: Path) -> None:
    request = fault("ne_two", block="1")
    diagnostic = refused(request)
    assert (diagnostic.code, diagnostic.span and diagnostic.span.line) == ("PW203", 43)
    assert leads_nowhere(request, tmp_path) == ""


def test_a_loop_that_never_ends_for_some_values_is_called_endless_for_those_alone(
    tmp_path: Path,
) -> None:
    some = fault("c03b_step_range", *STEPS, "c=0..4")
    diagnostic = refused(some)
    assert diagnostic.code == "PW203"
    assert "it never ends for c in 0..0" in diagnostic.message
    assert leads_nowhere(some, tmp_path) == ""
    assert refused(fault("c03b_step_range", *STEPS, "c=0")).code == "PW205"
    assert outcome(fault("c03b_step_range", *STEPS, "c=1..4")) is None


@pytest.mark.parametrize(("name", "block"), [("ne_simple_b", "32"), ("ne_two", "1")])
def test_loops_with_two_latches_take_the_bound_that_is_stated(name: str, block: str) -> None:
    few, many = (
        only_answer(fault(name, block=block, loop_bounds=(f"L={rounds}",))).worst.bound.cycles
        for rounds in (2, 20)
    )
    assert 0 < few < many


def test_the_loop_that_is_open_is_named_and_not_a_loop_within_it() -> None:
    request = fault("outer_loop_open")
    assert (refused(request).help or "").endswith("--loop-bound '$L__BB0_1=ITERATIONS'")
    assert outcome(replace(request, loop_bounds=("$L__BB0_1=20",))) is None


def test_a_barrier_outside_of_branches_is_not_asked_to_be_moved(tmp_path: Path) -> None:
    request = fault("b_place_bar", facts_file=str(FAULTS / "b_place_bar.facts.toml"))
    assert outcome(request) is None
    diagnostic = refused(replace(request, block="40"))
    assert diagnostic.code != "PW222"
    assert "out of the branch" not in (diagnostic.help or "")
    assert "take a block of whole warps" in (diagnostic.help or "")
    assert outcome(replace(request, block="64")) is None


def requests(*folders: Path) -> list[ParameterSet]:
    """Returns each PTX file of the folders as a case of a test; ``SLOW`` ones are thorough."""
    return [
        pytest.param(
            path,
            id=f"{folder.name}/{path.stem}",
            marks=[pytest.mark.thorough] if path.stem in SLOW else [],
        )
        for folder in folders
        for path in sorted(folder.glob("*.ptx"))
    ]


def useless(path: Path, folder: Path) -> list[str]:
    """Returns the kernels of a file whose first remedy leads nowhere, with what it was."""
    try:
        rows = bound_file(Request(str(path), block="32")).refused
    except PtxwcetError:
        return []  # the file is refused as a whole, before any kernel is analysed
    nowhere = []
    for row in rows:
        request = Request(str(path), (row.kernel.name,), "32")
        why = leads_nowhere(request, folder)
        nowhere += [f"{row.kernel.name}: {why}"] if why else []
    return nowhere


@pytest.mark.parametrize("path", requests(SAMPLES, FAULTS))
def test_the_first_remedy_leads_further(path: Path, tmp_path: Path) -> None:
    assert useless(path, tmp_path) == []


@pytest.mark.thorough
@pytest.mark.parametrize("path", requests(UNSOUND, SUITE, PLAIN))
def test_the_first_remedy_leads_further_in_more_code(path: Path, tmp_path: Path) -> None:
    assert useless(path, tmp_path) == []


def test_text_json_sarif_and_python_carry_the_same_remedy(tmp_path: Path) -> None:
    request = fault("ne_two", block="1")
    remedy = refused(request).help
    assert remedy
    plan = tmp_path / "check.toml"
    (tmp_path / "k.ptx").write_bytes(Path(request.path).read_bytes())
    plan.write_text('[[check]]\nfiles = "k.ptx"\nblock = 1\n', encoding="utf-8")
    text = CliRunner().invoke(commands, ["bound", request.path, "--block", "1"]).output
    assert f"help: {remedy}" in text
    for arguments in (
        ["bound", request.path, "--block", "1", "--format", "json"],
        ["check", str(plan), "--format", "sarif"],
    ):
        assert json.dumps(remedy)[1:-1] in CliRunner().invoke(commands, arguments).output
    with pytest.raises(PtxwcetError) as error:
        ptxwcet.bound(request.path, block=1)
    as_argument = remedy.replace("--loop-bound 'L=ITERATIONS'", 'loop_bounds={"L": ITERATIONS}')
    assert [diagnostic.help for diagnostic in error.value.diagnostics] == [as_argument]


def test_a_refusal_takes_few_steps_more_than_the_analysis_that_succeeds() -> None:
    open_loop = fault("ne_two", block="1")
    bounded = replace(open_loop, loop_bounds=("L=20",))
    only_answer(bounded), only_refusal(open_loop)
    _, refusing = counted(lambda: only_refusal(open_loop))
    _, bounding = counted(lambda: only_answer(bounded))
    assert refusing <= 2 * bounding
