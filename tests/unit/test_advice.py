"""The help of a refusal names the cheapest fact that settles it, by the name that people know."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from answers import only_refusal
from click.testing import CliRunner
from places import ROOT

from ptxwcet.cli.main import commands
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.facts.study import facts_template
from ptxwcet.opened.opening import file_digest
from ptxwcet.opened.request import Request

SAMPLES, FLOW = ROOT / "samples", ROOT / "tests/data/flow"
SUITE, CORPUS = ROOT / "benchmarks/kernels/suite", ROOT / "tests/corpus/ptx"
ONLY_GRID = "give --grid SIZE: with that nothing is open"


def help_of(request: Request) -> str:
    row = only_refusal(request)
    return row.diagnostics[0].help or ""


@pytest.mark.parametrize(
    ("file", "kernel", "parameters"),
    [
        (SAMPLES / "saxpy.ptx", "saxpy", ("n=1000",)),
        (SAMPLES / "histogram.ptx", "histogram", ("n=1000",)),
        (SUITE / "reductions.ptx", "reduce_grid", ("n=5000",)),
        (SUITE / "imaging.ptx", "equalise", ("pixels=5000",)),
        (SUITE / "numerics.ptx", "philox", ("count=5000",)),
    ],
)
def test_kernels_that_only_lack_the_grid_are_told_so(
    file: Path, kernel: str, parameters: tuple[str, ...]
) -> None:
    request = Request(str(file), (kernel,), "64", None, parameters)
    assert help_of(request) == ONLY_GRID
    assert bound_file(replace(request, grid="7")).answered


@pytest.mark.parametrize(
    ("file", "kernel", "facts"),
    [
        (SAMPLES / "saxpy.ptx", "saxpy", "--grid SIZE and --param n=VALUE"),
        (SUITE / "reductions.ptx", "reduce_grid", "--grid SIZE and --param n=VALUE"),
        (SUITE / "graphs.ptx", "label_edges", "--grid SIZE and --param edges=VALUE"),
        (SAMPLES / "mandelbrot.ptx", "mandelbrot", "--param most=VALUE"),
        (SAMPLES / "sgemm_naive.ptx", "sgemm_naive", "--param K=VALUE"),
        (SAMPLES / "loops.ptx", "loop_step", "--param n=VALUE and --param step=VALUE"),
        (SUITE / "dense.ptx", "power_iteration", "--param most=VALUE"),
        (CORPUS / "clang/basics_86.ptx", "saxpy", "--grid SIZE and --param saxpy_param_0=VALUE"),
        (CORPUS / "clang/ampere_80.ptx", "copies", "--param copies_param_2=VALUE"),
    ],
)
def test_what_the_help_names_settles_it(file: Path, kernel: str, facts: str) -> None:
    request = Request(str(file), (kernel,), "64")
    said = help_of(request)
    assert said.startswith(f"give {facts}")
    names = re.findall(r"--param (\S+)=VALUE", said)
    grid = "7" if "--grid" in said else None
    given = tuple(f"{name}=20" for name in names)
    assert bound_file(replace(request, grid=grid, parameters=given)).answered


def test_a_loop_on_data_is_bounded_by_the_user_alone() -> None:
    request = Request(str(FLOW / "open.ptx"), ("chase",), "64")
    said = help_of(request)
    assert said == "give a bound on the iterations of the loop: --loop-bound '$L__BB2_1=ITERATIONS'"


def test_names_are_those_of_ptx_without_a_source(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "saxpy.ptx", tmp_path / "k.ptx")
    request = Request(str(tmp_path / "k.ptx"), block="64")
    assert "--param saxpy_param_0=VALUE" in help_of(request)
    row = only_refusal(Request(str(SAMPLES / "saxpy.ptx"), block="64"))
    assert "it depends on parameter n, which has no value" in row.diagnostics[0].notes


def test_parameters_that_would_not_settle_a_loop_are_not_named(tmp_path: Path) -> None:
    """It runs as often as a loaded number and ``n`` say: no value of ``n`` is enough."""
    path = tmp_path / "k.ptx"
    path.write_text(
        """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
.reg .b32 %r<6>; .reg .b64 %d<2>; .reg .pred %p<3>;
ld.param.u64 %d1, [p]; ld.param.u32 %r2, [n]; mov.u32 %r1, 0;
ld.global.u32 %r3, [%d1]; add.u32 %r3, %r3, %r2;
L: add.u32 %r1, %r1, 2; setp.lt.u32 %p1, %r1, %r3; @%p1 bra L;
ret;
}
"""
    )
    request = Request(str(path), block="32")
    assert help_of(request) == (
        'give --param n=VALUE and [arrays] p = "s32 LEAST..MOST" (the integers in it) in a facts '
        "file, or a bound: --loop-bound 'L=ITERATIONS'"
    )
    both = "a value of n ([parameters]) and the range of the integers in an array ([arrays]: p = "
    assert f"this may settle it: {both}" in facts_template(request).text
    facts = tmp_path / "facts.toml"
    facts.write_text(f'ptx = "sha256:{file_digest(str(path))}"\n[arrays]\np = "s32 0..99"\n')
    given = replace(request, facts_file=str(facts))
    assert not bound_file(given).answered
    assert bound_file(replace(given, parameters=("n=5",))).answered
    mandelbrot = facts_template(Request(str(SAMPLES / "mandelbrot.ptx"), block="64")).text
    assert "this may settle it: a value of most ([parameters])" in mandelbrot


def test_a_template_says_what_the_grid_is_worth() -> None:
    text = facts_template(Request(str(SAMPLES / "saxpy.ptx"), block="64")).text
    assert "# Kernel saxpy: give --grid SIZE and --param n=VALUE: with that nothing is open" in text
    assert "# Kernel" not in facts_template(Request(str(SAMPLES / "loops.ptx"), block="64")).text


@pytest.mark.parametrize("command", ["bound", "simulate", "annotate phases"])
def test_all_commands_say_so(command: str) -> None:
    options = [*command.split(), str(SAMPLES / "saxpy.ptx"), "--block", "64", "--param", "n=1000"]
    options += ["--policy", "gto"] if command == "simulate" else []
    result = CliRunner().invoke(commands, options, standalone_mode=False)
    said = [one.help for one in getattr(result.exception, "diagnostics", ())]
    assert ONLY_GRID in said or ONLY_GRID in result.output


# --- loops that wait ------------------------------------------------------------------------------

FAULTS = ROOT / "tests/data/faults"


def test_registers_that_a_loop_has_written_are_not_called_unwritten() -> None:
    (refused,) = only_refusal(Request(str(FAULTS / "spin_wait_note.ptx"), block="64")).diagnostics
    assert not [note for note in refused.notes if "before it is written" in note]
    assert refused.notes[0] == "in kernel wait_flag, the loop at LOOP"
