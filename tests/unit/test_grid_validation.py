"""``ptxwcet validate`` on launches: the whole executed grid against the bound of the launch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import Refusal
from ptxwcet.cli.main import main
from ptxwcet.commands.run.study import emulated, execute_recorded
from ptxwcet.emulator.launch import Execution
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.opening import read_module
from ptxwcet.opened.request import Request
from ptxwcet.validate import grid_study as grid_validation
from ptxwcet.validate import inputs as input_validation
from ptxwcet.validate.grid_study import plan, validate_grid
from ptxwcet.validate.inputs import analysed_launch, validate_input

pytestmark = pytest.mark.fast

SAMPLES = Path(__file__).parents[2] / "samples"
SAXPY = str(SAMPLES / "saxpy.ptx"), str(SAMPLES / "launches/saxpy.toml")  # four blocks


def analysed(
    machine: str = "orin-ecrts2025", gpu: GridWishes | None = None
) -> tuple[KernelAnalysis, Execution]:
    """The analysis of a launch, and its execution."""
    request = Request(SAXPY[0], launch_file=SAXPY[1], machine=machine, gpu=gpu or GridWishes())
    module = read_module(request)
    launch, analysis = analysed_launch(request, module, load_machine(machine), "a test")
    return analysis, execute_recorded(module, launch)


def bound_of(analysis: KernelAnalysis) -> LaunchBound:
    assert isinstance(analysis.launch_bound, LaunchBound)
    return analysis.launch_bound


def with_cycles(analysis: KernelAnalysis, cycles: int) -> KernelAnalysis:
    """The analysis with another bound of its launch."""
    launched = bound_of(analysis)
    return replace(
        analysis, launch_bound=replace(launched, claim=replace(launched.claim, cycles=cycles))
    )


def test_runs_of_the_grid_are_within_the_bound() -> None:
    analysis, execution = analysed(gpu=GridWishes(resident_blocks=2))
    found = validate_grid(analysis, execution, 0)
    assert (found.sms, found.residents, found.possible) == (1, (2,), 1)
    assert found.runs == len(list(plan(0)))
    assert 0 < found.longest_cycles <= found.bound_cycles == bound_of(analysis).claim.cycles
    assert (found.diagnostics, found.skipped) == ((), "")


@pytest.mark.parametrize("machine", ["titan-v", "h100"])
def test_grids_are_run_on_machines_whose_sms_share_a_memory(machine: str) -> None:
    analysis, execution = analysed(machine)
    found = validate_grid(analysis, execution, 0)
    assert found.skipped == ""
    assert found.runs == len(list(plan(0))) * len(found.residents)
    assert found.bound_cycles * 0.55 < found.longest_cycles <= found.bound_cycles
    cached = replace(bound_of(analysis).block, arrays=(("x", 4096),))
    analysis = replace(analysis, launch_bound=replace(bound_of(analysis), block=cached))
    assert "cache" in validate_grid(analysis, execution, 0).skipped


def test_every_possible_residency_is_run() -> None:
    analysis, execution = analysed()
    launched = bound_of(analysis)
    wide = replace(launched, residency=replace(launched.residency, least=1, most=16))
    found = validate_grid(replace(analysis, launch_bound=wide), execution, 0)
    assert found.residents == (1, 2, 3, 4)  # more than four blocks there are not
    assert found.runs == 4 * len(list(plan(0)))
    # one block at a time takes longest, and is found
    alone = replace(launched, residency=replace(launched.residency, least=1, most=1))
    slowest = validate_grid(replace(analysis, launch_bound=alone), execution, 0)
    assert found.longest_cycles == slowest.longest_cycles
    assert "1 resident block an SM" in found.by


def test_of_many_residencies_the_ends_are_run() -> None:
    assert grid_validation._spread(tuple(range(1, 17)), 4) == (1, 6, 11, 16)
    assert grid_validation._spread((3, 4), 4) == (3, 4)
    assert grid_validation._spread(tuple(range(1, 17)), 2) == (1, 16)


def test_of_a_large_grid_the_ends_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_validation, "_FOR_ENDS_ALONE", 100)
    analysis, execution = analysed()
    residency = replace(bound_of(analysis).residency, least=1, most=16)
    wide = replace(analysis, launch_bound=replace(bound_of(analysis), residency=residency))
    found = validate_grid(wide, execution, 0)
    assert (found.residents, found.possible) == ((1, 4), 4)


@pytest.mark.parametrize("overhead", [0, 5_000])
def test_a_run_above_the_bound_is_a_contradiction(overhead: int) -> None:
    analysis, execution = analysed(gpu=GridWishes(resident_blocks=2))
    longest = validate_grid(analysis, execution, 0).longest_cycles
    exact = with_cycles(analysis, longest + overhead)
    exact = replace(exact, launch_bound=replace(bound_of(exact), overhead_cycles=overhead))
    assert validate_grid(exact, execution, 0).diagnostics == ()
    below = replace(exact, launch_bound=bound_of(with_cycles(exact, longest + overhead - 1)))
    (problem,) = validate_grid(below, execution, 0).diagnostics
    assert problem.code == "PW535"
    assert f"{longest} cycles executed" in problem.message
    assert "2 resident blocks an SM" in problem.message
    assert f"its bound is {longest - 1}" in problem.message


def test_launches_without_a_bound_say_so() -> None:
    analysis, execution = analysed("ampere-realistic")
    assert isinstance(analysis.launch_bound, Refusal)
    found = validate_grid(analysis, execution, 0)
    assert found.skipped.startswith("the launch has no bound: ")
    assert found.runs == 0


def test_effort_is_limited() -> None:
    analysis, execution = analysed()
    found = validate_grid(analysis, execution, 0, most_instructions=10)
    assert (found.runs, found.residents) == (0, ())
    assert found.skipped == "more than 10 warp-instructions"


def test_an_input_whose_paths_are_contradicted_has_no_grid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sample, file = str(SAMPLES / "loops.ptx"), str(SAMPLES / "launches/loop_break.toml")
    request = Request(sample, launch_file=file, loop_bounds=("$L__BB15_2=1",))  # it runs longer
    module = read_module(request)
    launch, analysis = analysed_launch(request, module, load_machine(), "a test")
    assert isinstance(analysis.launch_bound, LaunchBound)
    monkeypatch.setattr(input_validation, "validate_grid", lambda *_: pytest.fail("it was run"))
    found = validate_input(analysis, module, emulated(launch), 0)
    assert [one.code for one in found.diagnostics] == ["PW538"]
    assert found.grid is None


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["validate", *arguments, "--runs", "0", "--timeout", "0.5"])
    out, err = capsys.readouterr()
    assert isinstance(stop.value.code, int)
    return stop.value.code, out, err


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given = (SAXPY[0], "--launch", SAXPY[1], "--inputs", "2")
    code, out, _ = run(capsys, *given, "--resident-blocks", "3")
    assert code == 0
    assert "grids      2 whole grids, 10 runs on 1 SM with 3 resident blocks" in out
    code, out, _ = run(capsys, *given, "--format", "json")
    data: dict[str, Any] = json.loads(out)["grids"]
    assert (data["grids"], data["runs"], data["resident_blocks"]) == (2, 10, [4])
    assert 0 < data["longest_over_bound"] <= 1
    assert data["not_run"] == []
    code, out, _ = run(capsys, *given, "--machine", "ampere-realistic", "--format", "json")
    data = json.loads(out)["grids"]
    assert (code, data["grids"], data["bound_cycles"]) == (0, 0, None)
    assert "does not say how blocks of a launch start" in data["not_run"][0]
    monkeypatch.setattr(grid_validation, "bound_without_overhead", lambda _: 1)
    code, _, err = run(capsys, *given)
    assert code == 1
    assert "PW535" in err
    assert "the launch of kernel saxpy" in err
