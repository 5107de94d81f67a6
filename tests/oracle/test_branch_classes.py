"""Classes of branches and bounds of loops, as ``ptxwcet cfg`` shows them, against executions.

The lanes of each step of an execution are recorded: no warp parts at a branch that is called
uniform, and where the launch decides a branch and lanes are said to part, they do.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from executions import distinct_steps
from parsing import parse_file
from places import ROOT, SAMPLES

from ptxwcet.commands.cfg.command import cfg as command
from ptxwcet.commands.cfg.study import DescribedKernel, describe_flow
from ptxwcet.commands.run.study import emulated, read_launch
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatorOptions
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.paths.branch_kinds import BranchClass
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

TOTALS = str(ROOT / "tests" / "data" / "flow" / "totals.ptx")
UNIFORM = (BranchClass.BLOCK, BranchClass.WARP)
LAUNCHES = {
    "bitonic_sort": "bitonic_sort",
    "block_reduce_shuffle": "block_reduce",
    "block_reduce_tree": "block_reduce",
    "convolution": "convolution",
    "loop_break": "loops",
    "mandelbrot": "mandelbrot",
    "scan": "scan",
    "triangular_solve": "triangular",
}


def described(file: str, **options: object) -> DescribedKernel:
    (found,) = describe_flow(Request(file, **options))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("name", LAUNCHES)
def test_warps_part_where_the_class_says(name: str) -> None:
    require_classes(
        str(SAMPLES / f"{LAUNCHES[name]}.ptx"), str(SAMPLES / "launches" / f"{name}.toml")
    )


def test_lanes_that_leave_a_loop_one_after_the_other_under_an_open_branch_part(
    tmp_path: Path,
) -> None:
    kernel, launch = tmp_path / "k.ptx", tmp_path / "launch.toml"
    kernel.write_text(LEAVING)
    launch.write_text(
        'block = 64\ngrid = 1\n[arguments]\nd = { shape = 128, dtype = "int32", init = "ones" }\n'
    )
    found = require_classes(str(kernel), str(launch))
    assert classes(found)["L"] == ("divergent", "decided: lanes part")


LEAVING = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 d)
{
.reg .b32 %r<6>; .reg .b64 %d<4>; .reg .pred %p<4>;
ld.param.u64 %d1, [d]; cvta.to.global.u64 %d1, %d1;
mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2;
ld.global.u32 %r2, [%d3]; setp.eq.u32 %p1, %r2, 0; @%p1 bra OUT;
and.b32 %r4, %r1, 3; setp.lt.s32 %p2, %r4, 1; @%p2 bra OUT;
mov.u32 %r3, 0;
L: st.global.u32 [%d3+256], %r3; add.s32 %r3, %r3, 1; setp.lt.s32 %p3, %r3, %r4;
@%p3 bra L;
OUT: ret;
}
"""


def require_classes(file: str, launch_file: str) -> DescribedKernel:
    request = Request(file, launch_file=launch_file)
    module = parse_file(file)
    launch = read_launch(launch_file, module, request)
    found = described(file, launch_file=launch_file)
    whole = inline_calls(launch.kernel, module)
    run = execute(whole, module, emulated(launch), options=EmulatorOptions(record_paths=True))
    parted = {
        step.block
        for row in run.paths
        for step in distinct_steps(row.body)
        if step.taken and step.taken != step.mask
    }
    kinds = found.notes.branches
    assert kinds
    for block, one in kinds.items():
        if one.kind in UNIFORM:
            assert block not in parted, (block, one)
        if one.kind is BranchClass.DIVERGENT and one.is_decided:
            assert block in parted, (block, one)
    return found


def classes(found: DescribedKernel) -> dict[str, tuple[str, str]]:
    return {
        found.cfg.name(found.cfg.blocks[block].id): (one.kind.value, one.how)
        for block, one in found.notes.branches.items()
    }


def test_the_four_classes() -> None:
    shuffle = described(
        str(SAMPLES / "block_reduce.ptx"),
        kernels=("block_reduce_shuffle",),
        block="256",
        parameters=("n=1000",),
    )
    found = classes(shuffle)
    assert found["$L__BB1_3"] == ("divergent", "decided: lanes part")
    assert found["$L__BB1_5"] == ("uniform over the warp", "decided: taken at times")
    assert found["entry"] == ("uniform over the warp", "decided: never taken")
    own = described(
        TOTALS,
        kernels=("own_rows",),
        block="64",
        parameters=("n=100",),
        loop_bounds=("$L__BB3_5=50",),
    )
    found = classes(own)
    assert found["$L__BB3_5"] == ("unknown", "not decided")
    assert found["$L__BB3_6"] == ("uniform over the block", "decided: taken at times")
    calls = described(TOTALS, kernels=("calls",), block="64", parameters=("n=9",))
    kind, how = classes(calls)["$L__BB5_2"]
    assert kind == "uniform over the block"
    assert how == "not decided (if the kernel has no data races)"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


LEVELS = (TOTALS, "-k", "levels", "--block", "64", "--param", "n=10")


def test_tables() -> None:
    text = run(*LEVELS, "--loop-bound", "$L__BB4_6=50", "--format", "text").output
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "kernel levels" in lines
    branch = "uniform over the block not decided (if the kernel has no data races) %r41 < loaded"
    assert any(line.startswith("$L__BB4_6 ") and branch in line for line in lines)
    bound = "at most 50 (user) --loop-bound $L__BB4_6=50"
    assert any(line.startswith("$L__BB4_6 ") and line.endswith(bound) for line in lines)
    assert any("at most 10 (analysis) setp.lt.s32" in line for line in lines)


def test_a_refused_kernel_shows_what_is_asked() -> None:
    text = run(*LEVELS, "--format", "text").output
    assert "REFUSED    [PW203]" in text
    assert "not bounded: it asks for a bound" in text
    assert "not analysed" in text


def test_the_picture_has_classes_and_bounds() -> None:
    text = run(*LEVELS, "--loop-bound", "$L__BB4_6=50").output
    assert r"loop $L__BB4_6: at most 50 (user)\l--loop-bound $L__BB4_6=50\l" in text
    assert "branch: uniform over the block" in text
    assert "legend [label=" in text
    plain = run(TOTALS, "-k", "levels").output
    assert "branch: " not in plain
    assert "branch:" not in plain


def test_tables_need_a_launch() -> None:
    result = run(TOTALS, "--format", "text")
    assert result.exit_code == 2
    assert "--block 256" in result.output
