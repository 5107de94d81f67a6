"""Kernels of tests/data/joins, whose warps meet at named barriers: bounded, executed, simulated."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from programs import run_program

import ptxwcet
from ptxwcet.commands.run.study import prepare_executed
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.demand import issue_count
from ptxwcet.validate.inputs import validate_input

FILE = Path(__file__).parents[1] / "data" / "joins" / "joins.ptx"
MACHINE = load_machine("orin-ecrts2025")
NUMBERS = {"two_stages": (40,), "halves": (7,), "four_stages": (3, 5)}


@cache
def module() -> Module:
    return parse_module(read_source(str(FILE)))


def launched(kernel: str, *numbers: int, grid: int = 2) -> tuple[Launch, EmulatedLaunch]:
    (found,) = [one for one in module().kernels if one.name == kernel]
    random = np.random.default_rng(1)
    data = random.uniform(-1, 1, 128 * 64).astype("f4"), np.zeros(128 * 8, "f4")
    names = [one.name for one in found.parameters][2:]
    facts = Launch((128, 1, 1), (grid, 1, 1), dict(zip(names, numbers, strict=True)))
    return facts, EmulatedLaunch((128, 1, 1), (grid, 1, 1), (*data, *numbers))


@pytest.mark.parametrize(("kernel", "numbers"), NUMBERS.items(), ids=list(NUMBERS))
def test_executions_stay_within_the_bound(kernel: str, numbers: tuple[int, ...]) -> None:
    (found,) = [one for one in module().kernels if one.name == kernel]
    facts, launch = launched(kernel, *numbers)
    analysis = analyse_kernel(found, facts, MACHINE)
    assert any(one.joined for one in analysis.worst.analysis.sections)
    result = validate_input(analysis, module(), launch, 1)
    assert not result.diagnostics, [str(one) for one in result.diagnostics]
    assert result.rows
    assert all(row.longest_cycles <= row.safe_cycles for row in result.rows)


@pytest.mark.parametrize(("kernel", "numbers"), NUMBERS.items(), ids=list(NUMBERS))
def test_warps_execute_what_was_analysed(kernel: str, numbers: tuple[int, ...]) -> None:
    """As many instructions of each warp as the emulator saw."""
    (found,) = [one for one in module().kernels if one.name == kernel]
    facts, launch = launched(kernel, *numbers, grid=1)
    analysis = analyse_kernel(found, facts, MACHINE)
    execution = execute(found, module(), launch, options=EmulatorOptions(record_paths=True))
    (piece,) = prepare_executed(execution, facts, MACHINE).pieces
    executed, walked = (
        {warp: issue_count(one.program.body) for one in workload.classes for warp in one.warps}
        for workload in (piece.workload, analysis.worst.analysis.workload)
    )
    assert executed == walked


@pytest.mark.parametrize("machine", ["orin-ecrts2025", "h100"])
def test_no_simulated_run_exceeds_the_bound(machine: str) -> None:
    for kernel, numbers in NUMBERS.items():
        params = {f"{kernel}_param_{n + 2}": number for n, number in enumerate(numbers)}
        given = {"kernel": kernel, "block": 128, "params": params, "machine": machine}
        bound = ptxwcet.bound(str(FILE), **given)
        for policy in ("gto", "lrr", "youngest", "random"):
            run = ptxwcet.simulate(str(FILE), policy=policy, **given)
            assert bound.cycles / 2 < run.cycles <= bound.cycles


def said(kernel: str, **given: object) -> str:
    with pytest.raises(PtxwcetError) as refused:
        ptxwcet.bound(str(FILE), kernel=kernel, machine="orin-ecrts2025", **given)
    first = refused.value.diagnostics[0]
    assert first.span is not None
    return f"{first.code} {first.message}"


def test_what_is_not_static_is_refused_where_it_is() -> None:
    assert "arrives twice" in said("runs_ahead", block=64, params={"runs_ahead_param_2": 4})
    assert said("told_by_data", block=128).startswith("PW222")
    assert said("told_by_parameter", block=64).startswith("PW223")


def test_no_run_of_a_launch_exceeds_its_bound(tmp_path: Path) -> None:
    """Some warps wait for all of the block where others only arrive."""
    launch = tmp_path / "l.toml"
    launch.write_text(
        'kernel = "two_stages"\ngrid = 5\nblock = 128\n[arguments]\n'
        'in = { shape = 512, dtype = "float32", init = "zeros" }\n'
        'out = { shape = 640, dtype = "float32", init = "zeros" }\ntiles = 4\n'
    )
    said = ["--launch", str(launch), "--inputs", "1", "--machine", "h100", "--sms", "2"]
    code, out, _ = run_program("validate", str(FILE), *said)
    assert code == 0
    (row,) = [line for line in out.splitlines() if line.startswith("grids")]
    assert "10 runs on 2 SMs with 2, 3 resident blocks" in row
    share = float(row.split("the longest ")[1].split()[0])
    assert 0.5 < share <= 1
