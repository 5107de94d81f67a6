"""A Dask scheduler and workers as processes on the loopback, and what goes on in them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from places import ROOT

PATIENCE = 1_200.0
"""Seconds after which a state that does not come is a failure, on the slowest machine too."""


def await_that(holds: Callable[[], bool], what: str = "") -> None:
    """Waits for a state."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"it does not come: {what or holds}"
        time.sleep(0.02)


def is_alive(process: int) -> bool:
    """Whether a process is there and no zombie."""
    return _state(process)[0] not in "ZX"


def _state(process: int) -> tuple[str, int]:
    """The state of a process and its parent, as /proc says; X if it is gone."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="latin-1")
    except OSError:
        return "X", 0
    state, parent = text.rpartition(")")[2].split()[:2]
    return state, int(parent)


def cells_of(parent: int) -> list[int]:
    """The child processes of a process in which units are analysed."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _state(int(entry.name))[1] == parent:
            with contextlib.suppress(OSError):
                if b"sweeps.cell import main" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return [process for process in found if is_alive(process)]


def send(number: signal.Signals, processes: list[int]) -> None:
    """Sends a signal to those that are still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def answers_in(folder: Path) -> int:
    """How many answers a run has kept so far."""
    with contextlib.suppress(sqlite3.Error):
        store = sqlite3.connect(f"file:{folder / 'answers.sqlite'}?mode=ro", uri=True)
        with contextlib.closing(store):
            return int(store.execute("SELECT count(*) FROM answers").fetchone()[0])
    return 0


def environment(**more: str) -> dict[str, str]:
    """This process's, with the checkout and what tests need to import."""
    given = [str(ROOT), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, given)), **more}


class Loopback:
    """A scheduler and its workers, which write what they say into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._all: list[subprocess.Popen[bytes]] = []
        told = folder / "scheduler.json"
        told.unlink(missing_ok=True)
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", str(told))
        self.address = ""

        def has_begun() -> bool:
            with contextlib.suppress(OSError, ValueError, KeyError):
                self.address = json.loads(told.read_text())["address"]
            return bool(self.address)

        await_that(has_begun, "a scheduler")
        self.workers: list[subprocess.Popen[bytes]] = []

    def add_worker(
        self, env: Mapping[str, str] | None = None, *, wait: bool = True
    ) -> subprocess.Popen[bytes]:
        """Starts a worker of one thread."""
        where = ["--local-directory", str(self._folder), "--nthreads", "1", "--no-nanny"]
        worker = self._start("worker", self.address, *where, env=env)
        self.workers.append(worker)
        if wait:
            self.await_worker(worker)
        return worker

    def await_worker(self, worker: subprocess.Popen[bytes]) -> None:
        """Waits for the scheduler to know a worker."""
        await_that(lambda: b"Registered to" in self.said(worker), "a worker")

    def said(self, process: subprocess.Popen[bytes]) -> bytes:
        """What a process has said so far."""
        return (self._folder / f"{self._all.index(process)}.log").read_bytes()

    def close(self) -> None:
        """Ends them all."""
        for process in self._all:
            process.kill()
            process.wait()

    def _start(
        self, what: str, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments]
        with (self._folder / f"{len(self._all)}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--no-dashboard"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment() if env is None else env,
                start_new_session=True,
                cwd=self._folder,  # -m imports from there first
            )
        self._all.append(process)
        return process


@contextlib.contextmanager
def loopback(folder: Path, workers: int = 2) -> Iterator[Loopback]:
    """A scheduler with workers; none of their processes remains."""
    cluster = Loopback(folder)
    try:
        for _ in range(workers):
            cluster.add_worker(wait=False)
        for worker in cluster.workers:
            cluster.await_worker(worker)
        yield cluster
    finally:
        cells = [cell for worker in cluster.workers for cell in cells_of(worker.pid)]
        cluster.close()
        send(signal.SIGCONT, cells)
        await_that(lambda: not any(map(is_alive, cells)), "cells end with their workers")
