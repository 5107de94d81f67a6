"""The formats of ``ptxwcet check`` for other tools, each read back by other hands."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import jsonschema
import pytest
from places import DATA, SAMPLES
from programs import run_program

from ptxwcet.commands.bound.report import BoundedKernel
from ptxwcet.commands.check.report import CheckReport, run_plan
from ptxwcet.commands.check.study import read_plan
from ptxwcet.commands.check.text import github_commands, junit_xml, sarif_log

SARIF = json.loads((DATA / "sarif" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
ODD = "we%ird, a:b \n\x1b[1m\ud83d.ptx".encode("utf-8", "surrogatepass").decode("utf-8", "replace")
PLAN = """
[[check]]
files = "kernels.ptx"
kernels = ["loop_up", "loop_step", "loop_threads"]
block = 64
params = { n = 1000 }
budget = "0.2 ms"

[[check]]
files = "we*.ptx"
block = 64
"""


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckReport:
    """Over the budget, refused (%p2 in its message), passed, and a file that is no PTX."""
    (tmp_path / "ptxwcet.toml").write_text(PLAN)
    for suffix in (".ptx", ".cu"):
        text = (SAMPLES / f"loops{suffix}").read_bytes()
        (tmp_path / f"kernels{suffix}").write_bytes(text)
    (tmp_path / ODD).write_text("a letter\n")
    monkeypatch.chdir(tmp_path)
    found = run_plan(read_plan("ptxwcet.toml"), 1)
    assert [row.outcome for row in found.checks] == ["failed", "refused", "passed", "refused"]
    return found


def check_sarif(log: Any) -> None:
    jsonschema.validators.validator_for(SARIF)(SARIF).validate(log)


def test_sarif(report: CheckReport) -> None:
    log = json.loads(json.dumps(sarif_log(report)))
    check_sarif(log)
    (run,) = log["runs"]
    rules = [one["id"] for one in run["tool"]["driver"]["rules"]]
    places = []
    for one in run["results"]:
        assert rules[one["ruleIndex"]] == one["ruleId"]
        physical = one["locations"][0]["physicalLocation"]
        region = physical["region"]
        uri = physical["artifactLocation"]["uri"]
        assert re.fullmatch(r"(?:[\w./~-]|%[0-9A-F]{2})+", uri, re.ASCII), uri
        places.append((one["ruleId"], unquote(uri), region["startLine"], region["startColumn"]))
    assert places == [
        ("PW520", "kernels.ptx", 15, 1),
        ("PW203", "kernels.ptx", 531, 2),
        ("PW109", ODD, 1, 1),
    ]
    plans = [one["relatedLocations"][0]["physicalLocation"] for one in run["results"]]
    assert [one["region"]["startLine"] for one in plans] == [2, 2, 9]
    assert len(fingerprints(log)) == 3


def fingerprints(log: Any) -> set[str]:
    return {json.dumps(one["partialFingerprints"]) for one in log["runs"][0]["results"]}


def test_fingerprints_of_problems_alike_and_of_lines_that_moved(report: CheckReport) -> None:
    row = report.checks[0]
    moved = replace(row.failed[0], line=99, message="the bound of 7 cycles is over the budget")
    one, other = (
        sarif_log(replace(report, checks=(replace(row, failed=(*more, row.failed[0])),)))
        for more in ((), (moved,))
    )
    assert fingerprints(one) < fingerprints(other)
    assert len(fingerprints(other)) == 2
    elsewhere = replace(row, machine="other")
    assert len(fingerprints(sarif_log(replace(report, checks=(row, elsewhere))))) == 2


def test_the_schema_of_sarif_would_notice(report: CheckReport) -> None:
    log = sarif_log(report)
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError, match="fatal"):
        check_sarif(log)


def test_sarif_without_a_place_and_without_problems(report: CheckReport) -> None:
    nowhere = replace(report.checks[0].failed[0], file=None, line=None, column=None)
    row = replace(report.checks[0], failed=(nowhere,), line=None)
    log = sarif_log(replace(report, checks=(row,)))
    check_sarif(log)
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "ptxwcet.toml"}}
    check_sarif(sarif_log(replace(report, checks=())))


def test_junit(report: CheckReport) -> None:
    root = ElementTree.fromstring(junit_xml(report))
    (suite,) = root
    assert {key: suite.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "1",
        "errors": "2",
    }
    kinds = [[(one.tag, one.get("type")) for one in case] for case in suite]
    bound = ("properties", None)
    assert kinds == [
        [bound, ("failure", "PW520")],
        [("error", "PW203")],
        [bound],
        [("error", "PW109")],
    ]
    assert "kernels.ptx:15:1: error[PW520]" in (suite[0][1].text or "")
    told = {one.get("name"): one.get("value") for one in suite[2][0]}
    passed = report.checks[2].answer
    assert isinstance(passed, BoundedKernel)
    assert told == {
        "of": "block",
        "cycles": str(passed.bound_cycles),
        "microseconds": str(passed.microseconds),
        "guarantee": "safe-bound",
    }
    assert suite[1].get("name") == "loop_step [block 64, n=1000] on orin-ecrts2025-memory"
    assert r"\u001b[1m" in (suite[3].get("classname") or "")


def unescaped(text: str) -> str:
    for code, one in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, one)
    return text


def test_github(report: CheckReport) -> None:
    *lines, summary = github_commands(report).splitlines()
    assert summary == "4 checks: 1 passed, 1 failed, 2 refused"
    found = []
    for line in lines:
        command = re.fullmatch(r"::error ((?:\w+=[^,:]*,?)+)::(.*)", line)
        assert command is not None, line
        given = dict(one.split("=", 1) for one in command[1].split(","))
        found.append((*(unescaped(given[key]) for key in ("file", "line", "col")), command[2]))
    assert [one[:3] for one in found] == [
        ("kernels.ptx", "15", "1"),
        ("kernels.ptx", "531", "2"),
        (ODD, "1", "1"),
    ]
    assert "bra on %25p2 is not decided%0Ain kernel loop_step" in found[1][3]


@pytest.mark.parametrize("form", ["sarif", "junit", "github"])
def test_the_command_prints_them(report: CheckReport, form: str) -> None:
    ended = run_program("check", "--format", form, "--workers", "2")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out == run_program("check", "--format", form, "--workers", "1").out
    assert "\x1b" not in ended.out
    if form == "sarif":
        check_sarif(json.loads(ended.out))


def test_places_in_cuda_source_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the PTX names lines of a file that lies beside it, annotations are on these."""
    for name in ("loops.ptx", "loops.cu"):
        (tmp_path / name).write_bytes((SAMPLES / name).read_bytes())
    plan = '[[check]]\nfiles = "loops.ptx"\nkernels = ["loop_up", "loop_step"]\nblock = 64\n'
    (tmp_path / "p.toml").write_text(plan + "params = { n = 1000 }\nbudget = 7\n")
    monkeypatch.chdir(tmp_path)
    found = run_plan(read_plan("p.toml"), 1)
    source = (tmp_path / "loops.cu").read_text().splitlines()
    over, refused, _ = github_commands(found).splitlines()
    places = [re.search(r"file=(.*?),line=(\d+),col=(\d+)", one) for one in (over, refused)]
    assert [one and one[1] for one in places] == ["loops.cu", "loops.cu"]
    assert "loop_up(" in source[int(places[0][2]) - 1]  # type: ignore[index]
    assert re.search(r"\bfor\b", source[int(places[1][2]) - 1])  # type: ignore[index]
    log = sarif_log(found)
    check_sarif(log)
    first = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert first["artifactLocation"]["uri"] == "loops.cu"
    (tmp_path / "loops.cu").unlink()
    assert "file=loops.ptx" in github_commands(found)
