"""``ptxwcet FILE --policy P``: the known schedule beside or instead of SAFE."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from places import SAMPLES
from programs import run_program

from ptxwcet.bounds.methods import METHODS
from ptxwcet.cli.main import commands

pytestmark = pytest.mark.fast

SIZES = ("--param", "M=1024", "--param", "N=1024", "--param", "K=1024")
SGEMM = ["bound", str(SAMPLES / "sgemm_naive.ptx"), "--block", "32x32", *SIZES]
OWN = [method.name for method in METHODS]


def report(*options: str) -> dict[str, Any]:
    result = CliRunner().invoke(commands, [*SGEMM, "--format", "json", *options])
    assert result.exit_code == 0, result.output
    (kernel,) = json.loads(result.stdout)["kernels"]
    return dict(kernel)


def test_scheduled_stands_beside_safe() -> None:
    without, kernel = report(), report("--policy", "gto")
    assert kernel["bound_cycles"] == without["bound_cycles"] == 133_702
    assert [row["method"] for row in kernel["bounds"]] == [*OWN, "scheduled"]
    assert kernel["bounds"][-1]["cycles"] == 124_463
    assert kernel["assumptions"] == without["assumptions"]


def test_scheduled_is_reported_on_request_with_its_assumptions() -> None:
    kernel = report("--policy", "lrr", "--method", "scheduled")
    assert kernel["bound_cycles"] == 124_805
    assert kernel["bounds"][0]["method"] == "scheduled"
    assert "exact-latencies" in [row["key"] for row in kernel["assumptions"]]
    assert kernel["sections"] == report()["sections"]


def failing(*arguments: str, exit_code: int = 1) -> str:
    ended = run_program(*arguments)
    assert ended.code == exit_code
    return ended.err


def test_budget_counts_for_the_reported_method() -> None:
    budget = ("--budget", "130000", "--policy", "lrr")
    assert "PW520" in failing(*SGEMM, *budget)
    assert report(*budget, "--method", "scheduled")["bound_cycles"] < 130_000


@pytest.mark.parametrize(
    ("options", "code", "exit_code"),
    [(("--policy", "fifo"), "PW530", 2), (("--method", "scheduled"), "PW536", 1)],
)
def test_policy_has_to_be_known(options: tuple[str, ...], code: str, exit_code: int) -> None:
    assert code in failing(*SGEMM, *options, exit_code=exit_code)


def test_no_schedule_is_known_on_several_paths() -> None:
    file = str(SAMPLES / "mandelbrot.ptx")
    facts = ("--block", "32x8", "--param", "most=100", "--loop-bound", "$L__BB0_2=100")
    found = failing(file, *facts, "--policy", "gto", "--method", "scheduled")
    assert "PW536" in found
    assert "single known path" in found
    result = CliRunner().invoke(commands, ["bound", file, *facts, "--policy", "gto"])
    assert result.exit_code == 0
    assert "scheduled  not given" in result.stdout
