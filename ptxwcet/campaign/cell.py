"""A process of its own for units of work, so that what happens to one costs that one alone.

A unit may crash the interpreter, take too much memory or not end. It is run in a child process (a
cell), whose parent sees that it died and starts another. Cells are kept for further units; one in
which nothing happens, or whose parent is gone, ends by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from queue import Empty, LifoQueue

from ptxwcet.campaign.work import Ending, Limits, Result, Unit

IDLE_SECONDS = 120.0
"""After so long without a unit a cell ends."""
MOST_UNITS = 2_000
"""Units after which a cell is replaced: what libraries never give back is given back."""

_START = """\
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from ptxwcet.campaign.cell_main import main
main(int(sys.argv[1]))
"""

_Ready = LifoQueue[tuple["Cell", float]]
_idle: dict[tuple[str, Limits], _Ready] = {}


class CellDied(Exception):
    """The child process ended in the middle of a unit: how."""


class Cell:
    """A child process that calls one function, ``module:function``, with one unit after another."""

    def __init__(self, work: str, limits: Limits) -> None:
        self.work, self.limits = work, limits
        self.units = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(os.getpid()), json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._send = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._receive = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()
        with contextlib.suppress(OSError):  # it died at once: the first unit will say so
            self._send.send((work, limits))

    def run(self, unit: Unit) -> Result:
        """What comes of a unit. Raises CellDied; the cell is of no use then."""
        self.units += 1
        try:
            self._send.send((unit.number, unit.payload, dict(unit.shared)))
            if not self._receive.poll(self.limits.seconds):
                self.close(at_once=True)
                seconds = self.limits.seconds or 0.0
                why = f"not done after {seconds:g} s"
                return Result(unit.number, Ending.SECONDS, None, why, seconds)
            ending, value, seconds = self._receive.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            raise CellDied(self._how_it_ended()) from None
        if ending is Ending.DONE:
            return Result(unit.number, ending, value, "", seconds)
        why = value if ending is Ending.RAISED else _too_much(self.limits)
        return Result(unit.number, ending, None, why, seconds)

    @property
    def pid(self) -> int:
        """The number of the child process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the child process runs."""
        return self._process.poll() is None

    def close(self, *, at_once: bool = False) -> None:
        """Ends the child process, which is idle unless it is to end ``at_once``."""
        self._send.close()
        if at_once:
            self._process.kill()
            self._process.wait()
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            self._process.kill()
            self._process.wait()
        self._receive.close()

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        self.close(at_once=True)
        if code >= 0:
            return f"it ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"it was killed by signal {-code}, {signal.Signals(-code).name}"
        return f"it was killed by signal {-code}"


def _too_much(limits: Limits) -> str:
    most = limits.memory_mib
    return "there is no more" if most is None else f"more than {most:,} MiB"


def run_units(work: str, units: list[Unit], limits: Limits) -> Iterator[Result]:
    """What comes of each unit, in cells that this process keeps; any number of threads may call it.

    A unit is tried once more in a new cell if its cell dies: what kills two is the unit.
    """
    for unit in units:
        try:
            result = _run(work, unit, limits, is_new=False)
        except CellDied:
            try:
                result = _run(work, unit, limits, is_new=True)
            except CellDied as death:
                result = Result(unit.number, Ending.DIED, None, str(death))
        yield result


def close_cells() -> None:
    """Ends the cells of this process that are idle."""
    for ready in _idle.values():
        with contextlib.suppress(Empty):
            while True:
                ready.get_nowait()[0].close()


def _run(work: str, unit: Unit, limits: Limits, *, is_new: bool) -> Result:
    ready: _Ready = _idle.setdefault((work, limits), LifoQueue())
    cell = Cell(work, limits) if is_new else _cell(ready, work, limits)
    result = cell.run(unit)
    is_kept = result.ending is Ending.DONE and cell.units < MOST_UNITS
    if is_kept:
        ready.put((cell, time.monotonic()))
    elif cell.is_alive:
        cell.close()
    return result


def _cell(ready: _Ready, work: str, limits: Limits) -> Cell:
    """An idle cell that is young enough not to be about to end, else a new one."""
    while True:
        try:
            cell, since = ready.get_nowait()
        except Empty:
            return Cell(work, limits)
        if cell.is_alive and time.monotonic() - since < IDLE_SECONDS / 2:
            return cell
        cell.close(at_once=True)
