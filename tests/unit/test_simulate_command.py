"""``ptxwcet simulate``: the report, its sums, timelines, pictures and bad input."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from places import SAMPLES
from programs import run_program

from ptxwcet.cli.main import commands
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.simulator.policies import Policy

pytestmark = pytest.mark.fast

SIZES = ("--param", "M=1024", "--param", "N=1024", "--param", "K=1024")
SGEMM = [str(SAMPLES / "sgemm_naive.ptx"), "--block", "32x32", *SIZES]
REDUCE = [str(SAMPLES / "block_reduce.ptx"), "--block", "64", "--param", "n=200"]
TREE = [*REDUCE, "-k", "block_reduce_tree", "--policy", "gto"]
SCHEMA = schema_of("simulation")


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(commands, ["simulate", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def report(*arguments: str) -> dict[str, Any]:
    document = json.loads(invoke(*arguments, "--format", "json"))
    jsonschema.validate(document, SCHEMA)
    return dict(document)


def test_cycles_go_somewhere() -> None:
    (kernel,) = report(*SGEMM, "--policy", "lrr")["kernels"]
    assert kernel["cycles"] == 124_805
    assert kernel["guarantee"] == "observed"
    assert kernel["stepped"] < kernel["instructions"] == 110_976
    assert len(kernel["warps"]) == 32
    for warp in kernel["warps"]:
        assert sum(warp["cycles"].values()) == kernel["cycles"]
    assert sum(kernel["all_warps"].values()) == 32 * kernel["cycles"]
    assert [s["begins"] for s in kernel["sections"]] == [
        "start",
        "sgemm_naive.cu:16",
        "sgemm_naive.cu:19",
    ]
    for cause in ("issued", "dependency", "unit_busy", "issue_slot", "barrier", "branch"):
        total = sum(section["cycles"][cause] for section in kernel["sections"])
        assert total == kernel["all_warps"][cause]


def test_text_for_people() -> None:
    text = invoke(*SGEMM, "--policy", "gto")
    assert "RUN        124,463 cycles under gto (133.831 us)   observed" in text
    assert "and 24 more" in text
    assert "from sgemm_naive.cu:19, 1,024 x" in text


def test_without_a_policy_there_is_a_run_of_each() -> None:
    saxpy = (str(SAMPLES / "saxpy.ptx"), "--block", "256", "--param", "n=1000", "--grid", "4")
    rows = report(*saxpy)["kernels"]
    assert [row["policy"] for row in rows] == [one.value for one in Policy]
    for row in rows:
        (alone,) = report(*saxpy, "--policy", row["policy"])["kernels"]
        assert row == alone
    text = invoke(*saxpy)
    for row in rows:
        assert f"RUN        {row['cycles']:,} cycles under {row['policy']}" in text
    assert text.count("kernel     saxpy") == 1
    assert "where the cycles went" not in text
    two = invoke(*REDUCE)  # kernel by kernel
    assert two.count("RUN  ") == two.count("kernel  ") * len(Policy) > len(Policy)


def test_same_seed_same_run() -> None:
    options = ("--policy", "random", "--jitter", "40", "--seed", "7")
    assert invoke(*REDUCE, *options) == invoke(*REDUCE, *options)
    other = ("--policy", "random", "--jitter", "40", "--seed", "8")
    assert invoke(*REDUCE, *options) != invoke(*REDUCE, *other)


def test_open_decisions_are_taken_and_said() -> None:
    file = str(SAMPLES / "mandelbrot.ptx")
    facts = ["--block", "32x8", "--param", "most=100", "--loop-bound", "$L__BB0_2=100"]
    longest = report(file, *facts, "--policy", "gto")["kernels"][0]
    assert longest["is_resolved"]
    assert "one possible path was run" in invoke(file, *facts, "--policy", "gto")
    some = report(file, *facts, "--policy", "gto", "--path-seed", "3")["kernels"][0]
    assert some["cycles"] < longest["cycles"]


def test_timeline_has_the_structure_of_trace_events(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    invoke(*TREE, "--timeline", str(path))
    trace = json.loads(path.read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = [event for event in trace["traceEvents"] if event["ph"] == "M"]
    assert len(slices) + len(names) == len(trace["traceEvents"])
    assert len(slices) == 2 * trace["otherData"]["instructions"]
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in slices:
        assert {"name", "cat", "ts", "dur", "pid", "tid", "args"} <= event.keys()
        assert event["dur"] > 0
        assert event["args"]["source"].startswith("block_reduce.cu:")
        tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in names if e["name"] == "thread_name"}
    assert named.keys() == tracks.keys()
    assert [named[0, 0], named[0, 1]] == ["warp 0", "warp 1"]
    for track in tracks.values():  # slices of a track follow one another
        for (begin, length), (following, _) in pairwise(track):
            assert begin + length <= following
    ends = [event["args"]["end"] for event in slices]
    assert max(ends) == trace["otherData"]["cycles"]


def test_units_initiate_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    invoke(*TREE, "--timeline", str(path), "--events", "50")
    trace = json.loads(path.read_text())
    units = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == 1000]
    assert len(units) == 50
    for event in units:
        assert event["ts"] == event["args"]["dispatch"]
        assert event["ts"] + event["dur"] == event["args"]["initiation_end"]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_gantt_is_drawn_alike_each_time(tmp_path: Path, suffix: str) -> None:
    one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    for path in (one, two):
        invoke(*TREE, "--picture", str(path), "--events", "60")
    assert one.read_bytes() == two.read_bytes()
    if suffix == ".svg":
        assert "warp 1" in one.read_text()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--policy", "fifo"), 2, "PW530"),
        (("--policy", "lrr", "--jitter", "101"), 2, "PW531"),
        (("--policy", "lrr", "--jitter", "-1"), 2, "PW531"),
        (("--policy", "random", "--max-instructions", "100"), 1, "PW533"),
        (("--policy", "lrr", "--block", "0"), 2, "--block is given 2 times"),
        (("--policy", "lrr", "--picture", "x.pdf"), 2, ".png or .svg"),
        (("--policy", "lrr", "--timeline", "no/such/folder.json"), 2, "no folder 'no/such'"),
        (("--policy", "lrr", "--picture", "no/such/folder.svg"), 2, "no folder 'no/such'"),
        (("--picture", "x.svg"), 2, "choose the scheduler with --policy"),
    ],
)
def test_bad_input_gives_one_clear_line(options: tuple[str, ...], code: int, message: str) -> None:
    found, _, text = run_program("simulate", *SGEMM, *options)
    assert found == code
    assert message in text
    assert "Traceback" not in text
    assert text.count("error") <= 1 + (code == 2)


def test_one_timeline_shows_one_kernel(tmp_path: Path) -> None:
    path = str(tmp_path / "out.json")
    code, _, text = run_program("simulate", *REDUCE, "--policy", "lrr", "--timeline", path)
    assert code == 2
    assert "choose with -k" in text
