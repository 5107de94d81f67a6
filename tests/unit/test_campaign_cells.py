"""What a unit does to its process costs that unit alone: the next ones are as ever."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bad_units
import pytest
from loopback import PATIENCE, await_that, is_alive

from ptxwcet.sweeps import cell
from ptxwcet.sweeps.cell import Ending, Limits, Result, Unit, close_cells, run_units

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and limits of Linux")
DIED, DONE, RAISED = Ending.DIED, Ending.DONE, Ending.RAISED


@pytest.fixture(autouse=True)
def _no_cells_remain() -> Iterator[None]:
    yield
    close_cells()


def run(*payloads: tuple[str, object], limits: Limits | None = None) -> list[Result]:
    units = [Unit(number, payload, {}) for number, payload in enumerate(payloads)]
    results = list(run_units(bad_units.WORK, units, limits or Limits()))
    assert [result.number for result in results] == list(range(len(units)))
    return results


@pytest.mark.parametrize(
    ("payload", "ending", "why"),
    [
        (("exit", 7), DIED, "it ended with exit code 7"),
        (("exit", 0), DIED, "it ended with exit code 0"),
        (("abort", None), DIED, "it was killed by signal 6, SIGABRT"),
        (("segfault", None), DIED, "it was killed by signal 11, SIGSEGV"),
        (("signal", signal.SIGKILL), DIED, "it was killed by signal 9, SIGKILL"),
        (("signal", signal.SIGRTMIN + 5), DIED, "it was killed by signal 39"),
        (("recurse in C", None), DIED, "it was killed by signal 11, SIGSEGV"),
        (("recurse", 0), RAISED, "RecursionError: maximum recursion depth exceeded"),
        (("raise", ValueError("so it is")), RAISED, "ValueError: so it is"),
        (("raise", KeyError("name")), RAISED, "KeyError: 'name'"),
        (("raise", SystemExit(4)), RAISED, "SystemExit: 4"),
        (("raise", EOFError("end")), RAISED, "EOFError: end"),
        (("thread that stays", None), RAISED, "SystemExit: 5"),
        (("not to pickle", None), RAISED, "_not_to_pickle.<locals>.<lambda>"),
        (("unreadable", None), RAISED, "its result cannot be read: ValueError: invalid literal"),
        (("unknown", None), RAISED, "KeyError: 'unknown'"),
        (("close", (3, 256)), DIED, "it ended with exit code"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_row_of_its_own(payload: tuple[str, object], ending: Ending, why: str) -> None:
    before, bad, after = run(("echo", 1), payload, ("echo", 2))
    assert (before.ending, before.value, after.ending, after.value) == (DONE, 1, DONE, 2)
    assert (bad.ending, bad.value) == (ending, None)
    assert why in bad.why


def test_nothing_of_it_on_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    run(("not to pickle", None), ("raise", ValueError()), ("exit", 1), ("recurse", 0))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("how", [("allocate", 2_000), ("allocate in bits", None)])
def test_more_memory_than_a_unit_may(how: tuple[str, object]) -> None:
    limits = Limits(memory_mib=300)
    bad, after = run(how, ("allocate", 50), limits=limits)
    assert (bad.ending, bad.why) == (Ending.MEMORY, "more than 300 MiB")
    assert (after.ending, after.value) == (DONE, 50 << 20)


def test_limits_are_those_of_the_unit() -> None:
    first, second = Limits(memory_mib=300), Limits(memory_mib=400)
    assert [run(("limit", None), limits=one)[0].value[0] >> 20 for one in (first, second)] == [
        300,
        400,
    ]


@pytest.mark.parametrize("how", ["never end", "never end with the lock", "ignore signals"])
def test_longer_than_a_unit_may(how: str) -> None:
    limits = Limits(seconds=0.5)
    bad, after = run((how, None), ("echo", 1), limits=limits)
    assert (bad.ending, bad.why, bad.seconds) == (Ending.SECONDS, "not done after 0.5 s", 0.5)
    assert after.value == 1


def test_the_time_of_starting_is_not_a_units() -> None:
    """A limit far below what a process takes to start: the units are quick."""
    results = run(*(("echo", number) for number in range(5)), limits=Limits(seconds=0.1))
    assert [result.ending for result in results].count(DONE) >= 4  # a slow machine


def test_what_is_printed_is_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    printed, after = run(("print", 3), ("echo", 1))
    assert (printed.value, after.value) == ("printed", 1)
    told = capfd.readouterr()
    assert told.out == ""
    assert (told.err.count("o"), told.err.count("e")) == (3 * (1024 + (1 << 20)), 3 * 1024)


def test_streams() -> None:
    """Standard input is empty; closing the streams of 0 and 1 leaves the pipes of results."""
    read, closed, descriptors, after = run(
        ("read", None), ("close streams", None), ("close", (0, 3)), ("echo", 1)
    )
    assert read.value == "b''"
    assert (closed.value, descriptors.value, after.value) == ("closed", "closed", 1)


def test_the_working_directory_and_the_environment(tmp_path: Path) -> None:
    before, _, after = run(("state", None), ("move", str(tmp_path)), ("state", None))
    assert after.value == before.value


def test_it_stays_without_its_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell, "_END_SECONDS", 0.2)
    bad, after = run(("close all and stay", None), ("echo", 1))
    assert (bad.ending, bad.why, after.value) == (DIED, "it closed its connection", 1)


def test_large_results() -> None:
    large, after = run(("return", 100 << 20), ("echo", 1))
    assert (len(large.value), after.value) == (100 << 20, 1)


def test_what_a_unit_starts_ends_with_its_cell() -> None:
    forked, started, after = run(("fork", None), ("start", None), ("echo", 1))
    assert after.value == 1
    children = [forked.value, started.value]
    assert all(map(is_alive, children))
    close_cells()
    await_that(lambda: not any(map(is_alive, children)))


def test_a_child_holds_the_pipes_of_the_dead(tmp_path: Path) -> None:
    note = tmp_path / "child"
    bad, after = run(("fork and die", str(note)), ("echo", 1))
    assert (bad.ending, bad.why, after.value) == (DIED, "it ended with exit code 3", 1)
    await_that(lambda: not is_alive(int(note.read_text(encoding="ascii"))))


def test_cells_are_kept_and_replaced() -> None:
    first, second, _, third = run(
        ("state", None), ("state", None), ("raise", ValueError()), ("state", None)
    )
    assert first.value["pid"] == second.value["pid"] != third.value["pid"]


def test_nothing_is_imported_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "signal", "pickle", "random"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    assert run(("echo", 1))[0].value == 1


_PARENT = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from ptxwcet.sweeps.cell import run_units
from ptxwcet.sweeps.cell import Limits, Unit
units = [Unit(0, ("state", None), {}), Unit(1, (sys.argv[2], None), {})]
for result in run_units("bad_units:work", units, Limits()):
    print(json.dumps(result.value), flush=True)
"""


@contextlib.contextmanager
def parent_of(unit: str, **more: Any) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process whose second unit does not end, and the process of its cell."""
    command = [sys.executable, "-c", _PARENT, json.dumps(sys.path), unit]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more) as parent:
        try:
            assert parent.stdout is not None
            yield parent, json.loads(parent.stdout.readline())["pid"]
        finally:
            parent.kill()


@pytest.mark.parametrize("unit", ["never end", "never end with the lock"])
def test_a_cell_ends_with_its_parent(unit: str) -> None:
    with parent_of(unit) as (parent, child):
        await_that(lambda: "S" in Path(f"/proc/{child}/stat").read_text().rpartition(")")[2])
        parent.kill()
        parent.wait()
        await_that(lambda: not is_alive(child))


def test_ctrl_c_is_for_the_parent() -> None:
    """The terminal sends it to all of a group: cells are not in it, and print no traceback."""
    with parent_of("never end", start_new_session=True, stderr=subprocess.PIPE) as (parent, child):
        assert os.getpgid(child) != os.getpgid(parent.pid)
        os.killpg(parent.pid, signal.SIGINT)
        await_that(lambda: not is_alive(child))
        _, said = parent.communicate(timeout=PATIENCE)
        assert "in main" not in said


def test_no_standard_error() -> None:
    command = [sys.executable, "-c", _PARENT, json.dumps(sys.path), "state"]
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    ended = subprocess.run(closed, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
    first, second = map(json.loads, ended.stdout.splitlines())
    assert first == second
