"""``ptxwcet check``: verdicts, exit codes, the same bytes however many work, and who dies alone."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from places import SAMPLES
from programs import run_program

from ptxwcet.commands.bound import answers
from ptxwcet.commands.check import study
from ptxwcet.commands.check.study import run_each
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.opened.request import Request

FORKS = pytest.mark.skipif(
    multiprocessing.get_start_method() != "fork", reason="the processes have not what is patched"
)
PLAN = """
[[check]]
files = "{samples}/loops.ptx"
kernels = ["loop_up", "loop_down", "loop_unrolled"]
block = 64
params = {{ n = 1000 }}
budget = "{budget}"
{more}
"""


def written(tmp_path: Path, budget: str = "1 ms", more: str = "") -> str:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.format(samples=SAMPLES, budget=budget, more=more))
    return str(path)


def checked(path: str, *options: str) -> tuple[int, dict[str, Any]]:
    ended = run_program("check", path, "--format", "json", *options)
    data = json.loads(ended.out)
    jsonschema.Draft202012Validator(schema_of("check")).validate(data)
    return ended.code, data


def outcomes(data: dict[str, Any]) -> dict[str, str]:
    return {row["answer"]["readable"]: row["outcome"] for row in data["checks"]}


def test_the_sample_passes() -> None:
    ended = run_program("check", SAMPLES / "ptxwcet.toml", "--workers", "2")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("7 checks: 7 passed\n")
    assert "8,556,928    9.201 ms  within 10 ms          safe-bound" in ended.out


def test_the_same_bytes_for_any_number_of_workers(tmp_path: Path) -> None:
    path = written(tmp_path, "230231 cycles", "machines = ['orin-ecrts2025', 'ampere-realistic']")
    for form in ("text", "json"):
        shown = [run_program("check", path, "--format", form, "--workers", n) for n in (1, 3)]
        assert shown[0] == shown[1]


def test_over_the_budget(tmp_path: Path) -> None:
    code, data = checked(written(tmp_path, "230231 cycles"))  # exactly loop_up's bound
    assert code == 1
    assert outcomes(data) == {"loop_up": "passed", "loop_down": "failed", "loop_unrolled": "passed"}
    (failed,) = (row for row in data["checks"] if row["outcome"] == "failed")
    assert failed["answer"]["budget"]["verdict"] == "over"
    (problem,) = failed["failed"]
    assert problem["code"] == "PW520"
    assert problem["file"] == str(SAMPLES / "loops.ptx")
    entry = (SAMPLES / "loops.ptx").read_text().splitlines()[problem["line"] - 1]
    assert entry.startswith(".visible .entry loop_down(")


def test_a_refusal_costs_its_row_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.ptx").write_text("a letter\n")
    more = '[[check]]\nfiles = "letter.ptx"\nblock = 64\n'
    code, data = checked(written(tmp_path, more=more))
    assert (code, data["passed"], data["refused"]) == (1, 3, 1)
    text = run_program("check", tmp_path / "plan.toml")
    assert text.code == 1
    assert f"{tmp_path}/letter.ptx:1:1: error[PW1" in text.out
    assert "4 checks: 3 passed, 1 refused" in text.out


@pytest.mark.parametrize(
    ("require", "code", "outcome"),
    [("", 1, "failed"), ('require = "estimate"', 0, "passed")],
)
def test_an_estimate_is_no_proof(require: str, code: int, outcome: str, tmp_path: Path) -> None:
    path = written(tmp_path, more=f'machines = "ampere-realistic"\n{require}')
    found, data = checked(path)
    assert (found, set(outcomes(data).values())) == (code, {outcome})
    assert {row["answer"]["budget"]["verdict"] for row in data["checks"]} == {"estimated-within"}


@FORKS
@pytest.mark.parametrize(("dies", "problem"), [(True, "PW902"), (False, "PW901")])
def test_an_analysis_that_crashes_costs_its_row_alone(
    dies: bool, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound_file = answers.bound_file

    def crashing(request: Request, *more: Any) -> Any:
        if request.kernels == ("loop_down",):
            _ = os._exit(9) if dies else 1 // 0
        return bound_file(request, *more)

    monkeypatch.setattr(answers, "bound_file", crashing)
    path = written(tmp_path)
    code, data = checked(path, "--workers", "2")
    assert code == 1
    assert outcomes(data) == {
        "loop_up": "passed",
        "loop_down": "refused",
        "loop_unrolled": "passed",
    }
    (row,) = data["checks"][1]["answer"]["diagnostics"]
    assert (row["code"], "kernel loop_down" in row["message"]) == (problem, True)
    assert checked(path, "--workers", "1") == (code, data)


@pytest.mark.parametrize("processes", [1, 3])
def test_jobs_that_end_their_process(processes: int) -> None:
    seen: list[tuple[int, int]] = []
    end = "__import__('os')._exit(9)"
    jobs = ["0", end, "2", "3", end, end, "6"]
    found = run_each(eval, jobs, processes, lambda *numbers: seen.append(numbers))
    assert found == [0, None, 2, 3, None, None, 6]
    assert seen == sorted(seen)
    assert seen[-1] == (7, 7)


def test_progress_is_told_while_a_job_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "_SECONDS", 0.05)
    seen: list[tuple[int, int]] = []
    run_each(time.sleep, [0.4], 1, lambda *numbers: seen.append(numbers))
    assert seen[:2] == [(0, 1), (0, 1)]
    assert seen[-1] == (1, 1)


def test_quiet_says_what_failed_only(tmp_path: Path) -> None:
    ended = run_program("check", written(tmp_path, "230231"), "-q")
    assert ended.out.startswith(
        "failed loop_down [block 64, n=1000] on orin-ecrts2025-memory: kernel"
    )
    assert len(ended.out.splitlines()) == 1
    assert run_program("check", written(tmp_path), "-q").out == ""


def test_no_output_replaces_what_is_read(tmp_path: Path) -> None:
    kernel = tmp_path / "k.ptx"
    kernel.write_bytes((SAMPLES / "vector_add.ptx").read_bytes())
    path = written(tmp_path, more="[[check]]\nfiles = 'k*.ptx'\n")
    assert run_program("check", path, "-o", kernel).code == 2
    assert kernel.read_bytes() == (SAMPLES / "vector_add.ptx").read_bytes()


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


SLOW = """
import os, pathlib, sys, time
from ptxwcet.cli.main import main
from ptxwcet.commands.check import report as check_model

def work(request):
    pathlib.Path(f"worker-{os.getpid()}").touch()
    while True:
        time.sleep(1)

check_model.answer_kernel = work
main(sys.argv[1:])
"""


@FORKS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_command(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", SLOW, "check", written(tmp_path), "--workers", "2"]
    (tmp_path / "out").write_text("older")
    with subprocess.Popen(
        [*command, "-o", "out"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        while len(found := [int(one.name[7:]) for one in tmp_path.glob("worker-*")]) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        _, said = process.communicate()  # their standard error is closed, too: they are gone
    while any(map(alive, found)):
        time.sleep(0.05)
    if number is not signal.SIGKILL:
        assert process.returncode == 128 + number
        assert "--cache" in said
    assert "Traceback" not in said
    assert (tmp_path / "out").read_text() == "older"
    assert not list(tmp_path.glob(".ptxwcet-*"))


@FORKS
def test_a_reader_that_left(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SLOW, "check", written(tmp_path), "--workers", "2"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while len(found := [int(one.name[7:]) for one in tmp_path.glob("worker-*")]) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
        assert process.wait() == 1
    while any(map(alive, found)):
        time.sleep(0.05)
