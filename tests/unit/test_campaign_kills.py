"""A sweep whose worker, client, scheduler or cell is killed has the tables of an undisturbed one.

Each run is held in its middle before the blow: a cell that is stopped (SIGSTOP) ends no unit.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import bad_units
import pytest
from loopback import (
    PATIENCE,
    Loopback,
    answers_in,
    await_that,
    cells_of,
    environment,
    is_alive,
    loopback,
    send,
)
from places import SAMPLES

from ptxwcet.sweeps.cell import Limits, Unit
from ptxwcet.sweeps.engine import connected_cluster, run_campaign

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals, /proc")
UNITS = 16
PLAN = f"""
machines = ["titan-v", "orin-ecrts2025-16sm"]
[[sweep]]
files = "{SAMPLES}/saxpy.ptx"
block = [32, 64, 128, 2048]
grid = "{{m}}"
params = {{ n = "{{32 * m}}" }}
registers = 12
axes = {{ m = [100, 200] }}
"""
TABLES = ("results.parquet", "results.csv")
Ended = tuple[int, str, str]


class Client:
    """``ptxwcet sweep`` as a process of its own."""

    def __init__(self, plan: Path, folder: Path, *options: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "ptxwcet", "sweep", str(plan), "-o", str(folder), "-q"]
        self.process = subprocess.Popen(
            [*command, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            start_new_session=True,
        )

    def ended(self) -> Ended:
        out, err = self.process.communicate(timeout=PATIENCE)
        assert "Traceback" not in err
        return self.process.returncode, out, err

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "sweep.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture(scope="module")
def undisturbed(plan: Path) -> Path:
    """The folder of a run of one worker in the client's own process."""
    folder = plan.parent / "undisturbed"
    code, out, err = Client(plan, folder, "--workers", "1").ended()
    assert (code, err) == (0, "")
    assert out.startswith(f"{UNITS} units: 12 bounded, 4 refused, 0 failed; {UNITS} analysed now")
    return folder


@pytest.fixture(scope="module")
def cluster(plan: Path) -> Iterator[Loopback]:
    """A scheduler and two workers; whoever kills one of them starts another."""
    with loopback(plan.parent / "cluster") as started:
        yield started


@contextlib.contextmanager
def held(
    plan: Path, folder: Path, parents: Callable[[Client], list[int]], *options: str
) -> Iterator[tuple[Client, list[int]]]:
    """A client that has some answers and cannot get all: the cells of ``parents`` are stopped."""
    client = Client(plan, folder, *options)
    cells: list[int] = []
    try:
        await_that(lambda: answers_in(folder) > 0, "an answer")
        await_that(lambda: all(cells_of(parent) for parent in parents(client)), "cells")
        cells = [cell for parent in parents(client) for cell in cells_of(parent)]
        send(signal.SIGSTOP, cells)
        assert client.process.poll() is None
        yield client, cells
    finally:
        client.kill()
        send(signal.SIGCONT, cells)


def require_same(folder: Path, undisturbed: Path) -> None:
    for name in TABLES:
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes()


def require_resumed(plan: Path, folder: Path, undisturbed: Path, *options: str) -> None:
    """The run goes on where it was."""
    kept = answers_in(folder)
    assert 0 < kept < UNITS
    code, out, err = Client(plan, folder, "--resume", *options).ended()
    assert (code, err) == (0, "")
    assert f"; {UNITS - kept} analysed now" in out
    require_same(folder, undisturbed)


def test_two_workers_in_one_process(plan: Path, undisturbed: Path, tmp_path: Path) -> None:
    code, _, err = Client(plan, tmp_path / "out", "--workers", "2").ended()
    assert (code, err) == (0, "")
    require_same(tmp_path / "out", undisturbed)


def test_two_workers_elsewhere(
    plan: Path, undisturbed: Path, cluster: Loopback, tmp_path: Path
) -> None:
    client = Client(plan, tmp_path / "out", "--workers", cluster.address)
    assert client.ended()[::2] == (0, "")
    require_same(tmp_path / "out", undisturbed)


def test_a_worker_is_killed(
    plan: Path, undisturbed: Path, cluster: Loopback, tmp_path: Path
) -> None:
    victim = cluster.workers.pop()
    options = ("--workers", cluster.address)
    with held(plan, tmp_path / "out", lambda _: [victim.pid], *options) as (client, cells):
        victim.kill()
        victim.wait()
        code, out, err = client.ended()
        send(signal.SIGCONT, cells)
        await_that(lambda: not any(map(is_alive, cells)), "cells end with their worker")
    assert (code, err) == (0, "")
    assert f"; {UNITS} analysed now" in out
    require_same(tmp_path / "out", undisturbed)
    cluster.add_worker()


def test_a_client_is_killed(
    plan: Path, undisturbed: Path, cluster: Loopback, tmp_path: Path
) -> None:
    folder, options = tmp_path / "out", ("--workers", cluster.address)

    def workers(_: object) -> list[int]:
        return [worker.pid for worker in cluster.workers]

    with held(plan, folder, workers, *options) as (client, cells):
        client.kill()
        send(signal.SIGCONT, cells)
        require_resumed(plan, folder, undisturbed, *options)


def test_a_scheduler_is_killed(plan: Path, undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with loopback(tmp_path / "first") as cluster:

        def workers(_: object) -> list[int]:
            return [worker.pid for worker in cluster.workers]

        with held(plan, folder, workers, "--workers", cluster.address) as (client, _):
            cluster.scheduler.kill()
            code, out, err = client.ended()
    assert (code, out) == (1, "")
    assert err.startswith(f"error[PW822]: the scheduler at {cluster.address} is gone\n")
    assert "--resume" in err
    with loopback(tmp_path / "second") as other:
        require_resumed(plan, folder, undisturbed, "--workers", other.address)


def test_a_cell_is_killed(plan: Path, undisturbed: Path, cluster: Loopback, tmp_path: Path) -> None:
    """Its unit is tried once more."""
    parent = cluster.workers[0].pid
    options = ("--workers", cluster.address)
    with held(plan, tmp_path / "out", lambda _: [parent], *options) as (client, cells):
        send(signal.SIGKILL, cells)
        code, out, err = client.ended()
    assert (code, err) == (0, "")
    assert "0 failed" in out
    require_same(tmp_path / "out", undisturbed)


def test_ctrl_c(plan: Path, undisturbed: Path, tmp_path: Path) -> None:
    """The run ends with its processes, and says nothing; another goes on."""
    folder = tmp_path / "out"
    with held(plan, folder, lambda one: [one.process.pid], "--workers", "2") as (client, cells):
        client.process.send_signal(signal.SIGINT)
        code, out, err = client.ended()
        assert (code, out, err[:18]) == (130, "", "\nptxwcet: stopped;")
        assert not any(map(is_alive, cells))
    require_resumed(plan, folder, undisturbed, "--workers", "2")


def test_ctrl_c_of_a_run_elsewhere(
    plan: Path, undisturbed: Path, cluster: Loopback, tmp_path: Path
) -> None:
    folder, options = tmp_path / "out", ("--workers", cluster.address)

    def workers(_: object) -> list[int]:
        return [worker.pid for worker in cluster.workers]

    with held(plan, folder, workers, *options) as (client, cells):
        client.process.send_signal(signal.SIGINT)
        code, out, err = client.ended()
        assert (code, out, err[:18]) == (130, "", "\nptxwcet: stopped;")
        send(signal.SIGCONT, cells)
        require_resumed(plan, folder, undisturbed, *options)


@pytest.mark.thorough
def test_results_are_lost_with_their_workers(tmp_path: Path) -> None:
    """They were done, but not fetched yet: the units are done again, and each has one result."""
    units = [Unit(number, ("echo", number), {}) for number in range(40)]
    with loopback(tmp_path / "cluster") as cluster, connected_cluster(cluster.address) as started:
        results = run_campaign(bad_units.WORK, iter(units), started, Limits())
        seen = [next(result for result in results if result is not None)]
        states = started.client.futures
        await_that(lambda: all(state.status == "finished" for state in list(states.values())))
        for victim in cluster.workers:
            victim.kill()
            victim.wait()
        await_that(lambda: started.threads() == 0, "the scheduler knows")
        cluster.add_worker(wait=False)
        seen += [result for result in results if result is not None]
    assert sorted((result.number, result.value) for result in seen) == [
        (unit.number, unit.number) for unit in units
    ]
