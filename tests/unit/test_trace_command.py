"""``ptxwcet simulate launch``: the file it writes, what it says, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from places import SAMPLES
from programs import run_program

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.trace.command import simulate_launch as trace_command
from ptxwcet.commands.trace.study import TraceOptions, trace_kernel
from ptxwcet.opened.request import Request
from ptxwcet.trace.files import read_trace

pytestmark = pytest.mark.fast

SCAN = str(SAMPLES / "scan.ptx")
LAUNCH = str(SAMPLES / "launches" / "scan_random.toml")


def run(out: Path, *options: str) -> str:
    arguments = [SCAN, "--launch", LAUNCH, "-o", str(out), "--policy", "lrr", *options]
    result = CliRunner().invoke(trace_command, arguments, standalone_mode=False)
    assert result.return_value == 0, result.output
    return result.output


@pytest.mark.parametrize("name", ["trace.csv", "trace.npz"])
def test_the_file_holds_the_trace(name: str, tmp_path: Path) -> None:
    text = run(tmp_path / name, "--runs", "2", "--sms", "2", "--registers", "32")
    found = read_trace(tmp_path / name)
    request = Request(SCAN, launch_file=LAUNCH)
    made = trace_kernel(request, TraceOptions("lrr", GridWishes(2), runs=2))
    assert (found.origin, found.ipoints) == (made.origin, made.ipoints)
    for column in ("ipoint", "sm", "warp", "cycle", "runs"):
        assert np.array_equal(getattr(found, column), getattr(made, column)), column
    assert "orin-ecrts2025-memory, 2 SMs; simulator lrr" in text
    assert "holds 6 blocks, 48 warps, limited by warps and registers" not in text
    assert "limited by warps (blocks 16, warps 6, registers 8, shared memory" in text
    assert f"{len(made):,} events of 2 runs" in text
    assert "a thread uses 32 registers [--registers]" in text


def test_json_says_the_same(tmp_path: Path) -> None:
    found = json.loads(run(tmp_path / "t.npz", "--format", "json", "--resident-blocks", "1"))
    assert found["waves"] == 2
    assert found["resident_blocks"] == 1
    assert found["guarantee"] == "observed"
    assert [row["key"] for row in found["assumptions"]] == ["resident-blocks", "sms"]
    assert found["events"] == len(read_trace(tmp_path / "t.npz"))


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["-o", "trace.txt"], 2, "should end in .csv or .npz"),
        (["-o", "t.csv", "--registers", "ptxas"], 2, "--registers is a number here"),
        (["-o", "t.npz", "--policy", "best"], 2, "PW530"),
        (["-o", "t.npz", "--jitter", "101"], 2, "PW531"),
        (["-o", "t.npz", "--registers", "300"], 1, "PW316"),
        (["-o", "t.npz", "--events", "3"], 1, "PW690"),
        (["-o", "t.npz", "--sms", "0"], 2, "--sms"),
        (["-o", "/nowhere/t.npz"], 2, "no folder '/nowhere'"),
    ],
)
def test_what_is_refused(
    options: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    policy = [] if "--policy" in options else ["--policy", "lrr"]
    ended = run_program("simulate", "launch", SCAN, "--launch", LAUNCH, *policy, *options)
    assert ended.code == code
    assert said in ended.err
    assert not list(tmp_path.iterdir())


SAXPY = str(SAMPLES / "saxpy.ptx")
LOOPS = str(SAMPLES / "loops.ptx")
SAID = ("--block", "64", "--grid", "4", "--param", "n=1000")


def test_without_a_launch_file_the_trace_is_the_same(tmp_path: Path) -> None:
    """Where no data decides anything: block, grid and parameters are all of the launch."""
    launches = ("--launch", SAMPLES / "launches" / "saxpy.toml"), SAID
    written = []
    for number, launch in enumerate(launches):
        out = tmp_path / f"{number}.csv"
        words = ("--policy", "gto", "-o", out, "--registers", "16")
        ended = run_program("simulate", "launch", SAXPY, *launch, *words)
        assert ended.code == 0, ended.err
        assert "known without execution" in ended.out
        written.append(out.read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((SAXPY, *SAID[:2]), 2, "PW427"),  # no grid
        ((LOOPS, *SAID), 2, "give --grid SIZE, and -k for one of loop_up,"),
        ((SAXPY, *SAID[:4]), 1, "give --param n=VALUE"),
        ((LOOPS, *SAID, "-k", "loop_break"), 2, "loop_break execute depends on data"),
        ((SAXPY, *SAID, "--executed"), 2, "--executed executes the inputs of a launch file"),
        ((SAXPY, *SAID, "--max-instructions", "5"), 2, "give --launch"),
        ((SAXPY, *SAID, "--runs", "2"), 1, "PW691"),
    ],
)
def test_what_needs_a_launch_file(
    words: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    out = tmp_path / "t.csv"
    ended = run_program("simulate", "launch", *words, "--policy", "lrr", "-o", out)
    assert said in ended.err
    assert ended.code == code
    assert not out.exists()
