"""``--executed``: what a launch's inputs execute, through bounds and simulator."""

import json

import pytest
from answers import only_answer
from places import SAMPLES
from programs import run_program

from ptxwcet.claims import Guarantee
from ptxwcet.commands.bound.executed import bound_executed
from ptxwcet.flow.walk.path import visited_blocks
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast


def request(name, **more):
    launch = str(SAMPLES / "launches" / f"{name}.toml")
    return Request(str(SAMPLES / f"{name}.ptx"), launch_file=launch, **more)


# Kernels without data-dependent or divergent paths: what is executed is all that can be.
@pytest.mark.parametrize(
    "name",
    [
        "sgemm_naive",
        "sgemm_double_buffered",
        "sgemm_cp_async",
        "transpose_naive",
        "transpose_tiled",
    ],
)
def test_the_only_path_has_the_bounds_of_the_analysis(name):
    (executed,) = bound_executed(request(name)).answered
    known = only_answer(request(name))
    assert executed.worst.bound.cycles == known.worst.bound.cycles
    assert executed.worst.bound.claim.guarantee is Guarantee.ESTIMATE
    keys = [assumption.key for assumption in executed.worst.bound.claim.assumptions]
    assert "executed-paths" in keys


def test_data_dependent_paths_have_estimates():
    known = only_answer(request("mandelbrot"))
    (executed,) = bound_executed(request("mandelbrot")).answered
    assert len(executed.pieces) > 1
    assert known.worst.bound.claim.guarantee is Guarantee.SAFE_BOUND
    assert 0 < executed.worst.bound.cycles <= known.worst.bound.cycles
    assert set(visited_blocks(executed.worst.paths.warps[0].nodes))


def test_command_says_estimate_and_fails_where_a_safe_bound_is_required():
    file = SAMPLES / "mandelbrot.ptx"
    launch = SAMPLES / "launches" / "mandelbrot.toml"
    code, out, _ = run_program(file, "--launch", launch, "--executed", "--format", "json")
    assert code == 0
    (kernel,) = json.loads(out)["kernels"]
    assert kernel["guarantee"] == "estimate"
    assert "executed-paths" in [row["key"] for row in kernel["assumptions"]]
    code, _, errors = run_program(file, "--launch", launch, "--executed", "--require", "safe-bound")
    assert (code, "PW521" in errors) == (1, True)


def test_simulate_and_schedule_executed_paths():
    file, launch = SAMPLES / "mandelbrot.ptx", SAMPLES / "launches" / "mandelbrot.toml"
    options = (file, "--launch", launch, "--executed", "--policy", "gto")
    code, out, _ = run_program("simulate", *options)
    assert code == 0
    cycles = int(out.split("RUN")[1].split()[0].replace(",", ""))
    _, out, _ = run_program(*options)
    scheduled = next(line for line in out.splitlines() if line.startswith("scheduled"))
    assert int(scheduled.split()[1].replace(",", "")) == cycles


def test_options_that_would_be_ignored_are_refused():
    file, launch = SAMPLES / "saxpy.ptx", SAMPLES / "launches" / "saxpy.toml"
    for options, expected in (
        (("--block", "64"), "PW427"),
        (("--launch", launch, "--loop-bound", "L=3"), "PW427"),
        (("--launch", launch, "--block", "32"), "PW426"),
    ):
        code, _, errors = run_program(file, "--executed", *options)
        assert (code, expected in errors) == (2 if expected == "PW427" else 1, True), errors


WRONG = """.version 9.0
.target sm_90
.address_size 64
{function}
.entry wrong(.param .u64 out)
{{
  .reg .b64 %p; .reg .b32 %r;
  ld.param.u64 %p, [out];
  {body}
  ret;
}}
"""


@pytest.mark.parametrize(
    ("function", "body", "expected"),
    [
        ("", "ld.global.u32 %r, [%p+400];", "PW430"),
        (".extern .func nothing;", "call nothing;", "PW410"),
        ("", "suq.width.b32 %r, [%p];", "PW410"),
    ],
)
def test_a_run_with_findings_or_calls_is_refused(tmp_path, function, body, expected):
    file, launch = tmp_path / "wrong.ptx", tmp_path / "wrong.toml"
    file.write_text(WRONG.format(function=function, body=body))
    array = '{ shape = 32, dtype = "int32", init = "zeros" }'
    launch.write_text(f"grid = 1\nblock = 32\n[arguments]\nout = {array}\n")
    code, _, errors = run_program(file, "--launch", launch, "--executed")
    assert (code, expected in errors) == (1, True), errors
