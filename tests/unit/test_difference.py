"""``ptxwcet compare``: what changed, what is worse, and files that are no results."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from places import ROOT, SAMPLES
from programs import run_program
from refusals import refusal_of

from ptxwcet.commands.check.report import CheckReport, run_plan
from ptxwcet.commands.check.study import read_plan
from ptxwcet.commands.compare.report import read_results
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.report.reading import read_as
from ptxwcet.support.diagnostics import PtxwcetError

LAUNCH = ("--block", "256", "--grid", "8", "--param", "n=1000", "--registers", "16")


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    """The report of a kernel with a loop and a launch."""
    ended = run_program(SAMPLES / "saxpy.ptx", *LAUNCH, "--format", "json")
    assert ended.code == 0
    data = json.loads(ended.out)
    assert isinstance(data, dict)
    return data


def written(path: Path, data: object) -> Path:
    rows = data if isinstance(data, list) else [data]
    unsealed = [{key: one for key, one in row.items() if key != "digest"} for row in rows]
    path.write_text(json.dumps(unsealed if isinstance(data, list) else unsealed[0]))
    return path


def compared(
    folder: Path, old: object, new: object, *options: str
) -> tuple[int, dict[str, Any], str]:
    paths = written(folder / "old.json", old), written(folder / "new.json", new)
    ended = run_program("compare", *paths, "--format", "json", *options)
    data = json.loads(ended.out)
    jsonschema.Draft202012Validator(schema_of("diff")).validate(data)
    return ended.code, data, ended.err


def changed(result: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The result with other values of its kernel."""
    other = copy.deepcopy(result)
    other["kernels"][0] |= values
    return other


def test_a_result_is_itself(result: dict[str, Any], tmp_path: Path) -> None:
    code, data, _ = compared(tmp_path, result, result)
    assert (code, [row["status"] for row in data["kernels"]]) == (0, ["same"])
    assert compared(tmp_path, [result, result], [result, result])[0] == 0


@pytest.mark.parametrize(
    ("grown", "threshold", "code"),
    [
        (1000, "0%", 0),
        (1001, "0", 1),
        (1020, "2%", 0),
        (1021, "2 %", 1),
        (1021, "2.1%", 0),
        (9, "0%", 0),
    ],
)
@pytest.mark.parametrize("whose", ["block", "launch"])
def test_growth(
    whose: str, grown: int, threshold: str, code: int, result: dict[str, Any], tmp_path: Path
) -> None:
    def with_bound(cycles: int) -> dict[str, Any]:
        if whose == "block":
            return changed(result, bound_cycles=cycles, launch=None)
        return changed(result, launch=result["kernels"][0]["launch"] | {"cycles": cycles})

    found, data, error = compared(
        tmp_path, with_bound(1000), with_bound(grown), "--threshold", threshold
    )
    assert found == code
    assert ("PW523" in error) == bool(code)
    (row,) = data["kernels"]
    if grown != 1000:
        (bound,) = row["bounds"]
        assert bound == {
            "what": whose,
            "old": 1000,
            "new": grown,
            "growth_percent": round(grown / 10 - 100, 2),
        }


def test_a_launch_that_improves_is_not_worse_whatever_its_blocks_take(
    result: dict[str, Any], tmp_path: Path
) -> None:
    """Where both results have a launch it decides; the block's bound is shown, as it was."""
    launch = result["kernels"][0]["launch"]
    block, cycles = result["kernels"][0]["bound_cycles"], launch["cycles"]
    better = changed(result, bound_cycles=2 * block, launch=launch | {"cycles": cycles - 1})
    code, data, _ = compared(tmp_path, result, better)
    assert (code, data["worse"]) == (0, 0)
    assert [one["what"] for one in data["kernels"][0]["bounds"]] == ["block", "launch"]
    worse = changed(result, bound_cycles=block // 2, launch=launch | {"cycles": cycles + 1})
    assert compared(tmp_path, result, worse)[0] == 1
    without = changed(better, launch=None)
    assert (
        "the bound of the block grew"
        in compared(tmp_path, changed(result, launch=None), without)[2]
    )


def test_loops_assumptions_lines_and_launches(result: dict[str, Any], tmp_path: Path) -> None:
    kernel = result["kernels"][0]
    loop = kernel["loops"][0]
    other = changed(
        result,
        loops=[loop | {"iterations": loop["iterations"] + 7, "origin": "user"}],
        assumptions=kernel["assumptions"][1:],
        costliest_lines=[{"place": "new.cu:1", "cycles": 5, "share_percent": 1.0}],
        parameters=[["saxpy_param_0", 2000]],
        parameter_names=[["saxpy_param_0", "n"]],
    )
    code, data, _ = compared(tmp_path, result, other)
    assert code == 0
    (row,) = data["kernels"]
    block = loop["block"]
    assert [(one["what"], one["old"], one["new"]) for one in row["loops"]] == [
        (block, loop["iterations"], loop["iterations"] + 7),
        (f"{block} origin", loop["origin"], "user"),
    ]
    gone = kernel["assumptions"][0]
    assert (f"{gone['key']} (of the block)", gone["state"], None) in [
        (one["what"], one["old"], one["new"]) for one in row["assumptions"]
    ]
    assert row["lines"][0]["what"] == "new.cu:1"
    assert len(row["lines"]) == 1 + len(kernel["costliest_lines"])
    assert row["about"][0]["new"] == "block 256x1x1, grid 8x1x1, n=2000"
    text = run_program("compare", tmp_path / "old.json", tmp_path / "new.json").out
    assert f"  loop {block}: {loop['iterations']} -> {loop['iterations'] + 7} (" in text
    assert text.endswith("1 kernel: 1 changed\n")


def test_bounds_that_are_lost_or_weaker(result: dict[str, Any], tmp_path: Path) -> None:
    kernel = result["kernels"][0]
    problem = {"code": "PW203", "severity": "error", "message": "no", "file": None, "line": None}
    problem |= {"column": None, "notes": [], "help": None}
    names = {"kernel": kernel["kernel"], "readable": kernel["readable"]}
    refused = result | {"kernels": [names | {"diagnostics": [problem], "status": "refused"}]}
    for other, why in (
        (refused, "it had a bound and is refused [PW203] now"),
        (changed(result, guarantee="estimate"), "was a safe-bound and is only an estimate now"),
        (changed(result, launch=None, launch_not_bounded="why"), "of the launch is lost: why"),
    ):
        code, data, error = compared(tmp_path, result, other)
        assert (code, data["worse"]) == (1, 1)
        assert why in error
        assert compared(tmp_path, other, result)[0] == 0  # the other way round it is better


def test_new_kernels_and_gone_ones(result: dict[str, Any], tmp_path: Path) -> None:
    other = changed(result, kernel="other", readable="other")
    code, data, _ = compared(tmp_path, result, [other, result | {"file": "moved.ptx"}])
    rows = [(row["kernel"], row["status"]) for row in data["kernels"]]
    assert (code, rows) == (0, [("other", "new"), ("saxpy", "changed")])
    code, data, _ = compared(tmp_path, [result, other], result)
    assert [(row["kernel"], row["status"]) for row in data["kernels"]] == [
        ("saxpy", "same"),
        ("other", "gone"),
    ]


def test_a_report_is_read_back_as_it_was() -> None:
    report = run_plan(read_plan(str(SAMPLES / "ptxwcet.toml")), 2)
    assert read_as(CheckReport, json.loads(json.dumps(asdict(report)))) == report


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ('{"a": NaN}', "NaN is no number"),
        ("{}", "schema is missing"),
        ("3", "the top: no object"),
        ('{"checks": 1}', "schema is missing"),
        ('{"runs": []}', "schema is missing"),
    ],
)
def test_files_that_are_no_results(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    found = refusal_of(read_results, str(path))
    assert found.code == "PW580"
    assert message in found.message
    assert run_program("compare", path, path).code == 2


@pytest.mark.parametrize("value", [None, True, "x", -0.5, [], {}, 10**400, ["x"], [{}]])
def test_values_of_other_types(value: object, result: dict[str, Any], tmp_path: Path) -> None:
    rng = random.Random(repr(value))
    path = tmp_path / "old.json"
    for key in rng.sample(sorted(result["kernels"][0]), 12):
        written(path, changed(result, **{key: value}))
        with contextlib.suppress(PtxwcetError):  # some values are what a key may have
            read_results(str(path))
    written(path, changed(result, warp_count=value))
    message = refusal_of(read_results, str(path)).message
    assert "kernels[0].warp_count is not a whole number" in message


def test_a_result_that_was_changed_is_refused(result: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(dict(reversed(result.items()))))  # in another order and layout
    read_results(str(path))
    assert len(result["digest"]) == 64
    path.write_text(json.dumps({**result, "version": "9"}))
    found = refusal_of(read_results, str(path))
    assert (found.code, "not what was written" in found.message) == ("PW580", True)


@pytest.mark.parametrize("text", ["-1%", "x", "nan", "2%%", "1e3", ""])
def test_thresholds_that_are_none(text: str, result: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path / "old.json", result)
    assert run_program("compare", path, path, f"--threshold={text}").code == 2


# --- docs/guide/ci.md -----------------------------------------------------------------------------


def test_the_documented_workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "guide" / "ci.md").read_text(encoding="utf-8")
    plan = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert plan is not None
    (tmp_path / "kernels").symlink_to(SAMPLES)
    (tmp_path / "ptxwcet.toml").write_text(plan[1])
    monkeypatch.chdir(tmp_path)
    assert run_program("check", "--format", "json", "-o", "baseline.json").code == 0
    workflow = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert workflow is not None
    lines = re.findall(r"run: ptxwcet (.*)", workflow[1])
    assert len(lines) == 4
    for line in lines:
        assert run_program(*shlex.split(line)).code == 0, line
    assert json.loads(Path("ptxwcet.sarif").read_text())["runs"][0]["results"] == []
