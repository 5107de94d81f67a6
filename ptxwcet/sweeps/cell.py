"""A child process for units of work, so that the failure of a unit costs only that unit.

A unit may crash the interpreter, take too much memory or not end. It is run in a child process (a
cell), whose parent detects its death and starts another. Cells are kept for further units; a cell
that is idle for long, or whose parent has ended, ends by itself.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from multiprocessing.connection import Connection
from queue import Empty, LifoQueue
from threading import Lock, Thread
from typing import Any

from ptxwcet.support.records import dataclass

IDLE_SECONDS = 120.0
"""After so long without a unit a cell ends."""
MOST_UNITS = 2_000
"""Units after which a cell is replaced, so that leaks of libraries are freed."""

_START = """\
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from ptxwcet.sweeps.cell import main
main(int(sys.argv[1]))
"""

_LOOK_SECONDS = 1.0
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a unit, MiB of memory and seconds; None: no limit.

    Memory is the process's data (RLIMIT_DATA), which Linux enforces and other systems may
    not.
    """

    memory_mib: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit: the arguments of its work.

    ``shared`` are contents by name, equal names for equal contents: a batch carries each once.
    """

    number: int
    payload: Any
    shared: Mapping[str, bytes]


class Ending(Enum):
    """How a unit ended."""

    DONE = "done"
    RAISED = "raised"  # an exception
    DIED = "died"  # its process did
    MEMORY = "memory"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a unit: ``value`` of its work if it was done, else the reason ``why``.

    ``seconds`` is the time of the work.
    """

    number: int
    ending: Ending
    value: Any = None
    why: str = ""
    seconds: float = 0.0


class CellDied(Exception):
    """The child process ended in the middle of a unit: how."""


class CellsClosed(Exception):
    """The cells of this process were closed while a unit was in one: it has no result."""


class _Busy:
    """The cells that are at work, and how often they were all closed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._cells: set[Cell] = set()
        self.closed = 0

    @contextlib.contextmanager
    def holding(self, cell: Cell, closed: int) -> Iterator[None]:
        """Counts a cell as busy. Raises CellsClosed if all were closed since ``closed``."""
        with self._lock:
            self._cells.add(cell)
        try:
            self.require(closed)
            yield
        finally:
            with self._lock:
                self._cells.discard(cell)

    def require(self, closed: int) -> None:
        """Raises CellsClosed."""
        if self.closed != closed:
            raise CellsClosed

    def close(self) -> None:
        """Ends all of them at once."""
        with self._lock:
            self.closed += 1
            for cell in self._cells:
                cell.kill()


_busy = _Busy()
_Ready = LifoQueue[tuple["Cell", float]]
_idle: dict[tuple[str, Limits], _Ready] = {}


class Cell:
    """A child process that calls one function, ``module:function``, with one unit after another.

    The text after a ``#`` of ``work`` distinguishes cells of one function.
    """

    def __init__(self, work: str, limits: Limits) -> None:
        self.work, self.limits = work, limits
        self.units = 0
        self._is_ready = False
        self._process = subprocess.Popen(
            # -P: no import from the working directory
            [sys.executable, "-P", "-c", _START, str(os.getpid()), json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # processes of a unit end with the cell; Ctrl-C is for the parent
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._send = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._receive = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()
        with contextlib.suppress(OSError):  # it died at once: the first unit reports it
            self._send.send((work, limits))

    def run(self, unit: Unit) -> Result:
        """Returns the result of a unit. Raises CellDied; the cell is unusable then.

        The time limit begins when the child process has started and imported the function.
        """
        self.units += 1
        limit = self.limits.seconds
        try:
            if not self._is_ready:
                self._await(None)
                self._is_ready = bool(self._receive.recv())
            self._send.send((unit.number, unit.payload, dict(unit.shared)))
            if not self._await(limit):
                why = f"not done after {limit:g} s"
                return Result(unit.number, Ending.SECONDS, None, why, limit or 0.0)
            ending, value, seconds = self._receive.recv()
        except (EOFError, OSError):
            raise CellDied(self._how_it_ended()) from None
        except Exception as error:  # any error of reading the result is this unit's
            why = f"its result cannot be read: {type(error).__name__}: {error}"
            return Result(unit.number, Ending.RAISED, None, why)
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
        """True if the child process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the child process and its processes; a waiting :meth:`run` detects it."""
        with contextlib.suppress(OSError):  # they have ended
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the child process, and its processes, at once: it has no state of value."""
        self.kill()
        self._process.kill()
        self._process.wait()
        self._send.close()
        self._receive.close()

    def _await(self, seconds: float | None) -> bool:
        """Waits for a message of the child process; returns whether it arrives in time.

        Raises EOFError if the child is dead: one of its processes may hold its end of the pipe.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = _LOOK_SECONDS if end is None else end - time.monotonic()
            if self._receive.poll(max(min(left, _LOOK_SECONDS), 0.0)):
                return True
            if end is not None and time.monotonic() >= end:
                return False
            if not self.is_alive and not self._receive.poll(0):
                raise EOFError

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        finally:
            self.close()
        if code >= 0:
            return f"it ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"it was killed by signal {-code}, {signal.Signals(-code).name}"
        return f"it was killed by signal {-code}"


def _too_much(limits: Limits) -> str:
    most = limits.memory_mib
    return "there is no more" if most is None else f"more than {most:,} MiB"


def run_units(work: str, units: list[Unit], limits: Limits) -> Iterator[Result]:
    """Yields the result of each unit, in cells that this process keeps; any thread may call it.

    A unit is tried once more in a new cell if its cell dies: if that dies too, the unit is the
    cause. Raises CellsClosed.
    """
    closed = _busy.closed
    for unit in units:
        try:
            result = _run(work, unit, limits, closed, is_new=False)
        except CellDied:
            try:
                result = _run(work, unit, limits, closed, is_new=True)
            except CellDied as death:
                result = Result(unit.number, Ending.DIED, None, str(death))
        yield result


def close_cells() -> None:
    """Ends the cells of this process; the units that run in them have no result."""
    _busy.close()
    for ready in list(_idle.values()):
        with contextlib.suppress(Empty):
            while True:
                ready.get_nowait()[0].close()


def _run(work: str, unit: Unit, limits: Limits, closed: int, *, is_new: bool) -> Result:
    """Returns the result of a unit in an idle or a new cell. Raises CellDied, CellsClosed."""
    ready: _Ready = _idle.setdefault((work, limits), LifoQueue())
    cell = Cell(work, limits) if is_new else _cell(ready, work, limits)
    is_kept = False
    try:
        with _busy.holding(cell, closed):
            result = cell.run(unit)
            is_kept = result.ending is Ending.DONE and cell.units < MOST_UNITS
    except CellDied:
        _busy.require(closed)
        raise
    finally:
        if not is_kept:
            cell.close()
    if is_kept:
        ready.put((cell, time.monotonic()))
    return result


def _cell(ready: _Ready, work: str, limits: Limits) -> Cell:
    """Returns an idle cell that is young enough not to be about to end, else a new one."""
    while True:
        try:
            cell, since = ready.get_nowait()
        except Empty:
            return Cell(work, limits)
        if cell.is_alive and time.monotonic() - since < IDLE_SECONDS / 2:
            return cell
        cell.close()


# --- the child process ----------------------------------------------------------------------------


def main(parent: int) -> None:
    """Runs the child process: serves the parent, whose process number is given.

    It reads units, writes results, and ends on request. Its standard output carries only results;
    other output goes to standard error.
    """
    requests = Connection(os.dup(0), writable=False)
    results = Connection(os.dup(1), readable=False)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no standard error
        os.dup2(nothing, 1)
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        work, limits = requests.recv()
        _set_limits(limits)
        with contextlib.suppress(Exception):  # each unit reports it
            _function(work)
        results.send(True)  # the time limit begins now
        folder, environment = os.open(".", os.O_RDONLY), dict(os.environ)
        while requests.poll(IDLE_SECONDS):
            _, payload, shared = requests.recv()
            with _ended_with_parent(requests):
                answer = _answer(work, payload, shared)
            os.fchdir(folder)  # the state that a new process would have
            if os.environ != environment:
                os.environ.clear()
                os.environ.update(environment)
            results.send_bytes(answer)
    except (EOFError, OSError):  # the parent has finished, or ended
        pass


def _answer(work: str, payload: Any, shared: Mapping[str, bytes]) -> bytes:
    """Returns the ending of a unit, its result and its seconds, in the parent's format."""
    begin = time.perf_counter()

    def told(ending: Ending, value: object) -> bytes:
        return pickle.dumps((ending, value, time.perf_counter() - begin))

    try:
        return told(Ending.DONE, _function(work)(payload, shared))
    except MemoryError:
        return told(Ending.MEMORY, None)
    except (Exception, SystemExit) as error:
        if isinstance(error, ImportError) and "failed to map segment" in str(error):
            return told(Ending.MEMORY, None)  # a module imported late finds no memory
        return told(Ending.RAISED, f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _ended_with_parent(requests: Connection) -> Iterator[None]:
    """Lets the system end this process meanwhile when the parent ends, where it can.

    The thread that watches the parent cannot run while a library holds the interpreter's lock. The
    parent sends nothing during a unit: a signal (SIGIO, which ends a process) is its end.
    """
    try:
        from fcntl import F_GETFL, F_SETFL, F_SETOWN, fcntl

        before = fcntl(requests, F_GETFL)
        fcntl(requests, F_SETOWN, os.getpid())
        fcntl(requests, F_SETFL, before | os.O_ASYNC)
    except (ImportError, AttributeError, OSError):
        yield
        return
    try:
        yield
    finally:
        fcntl(requests, F_SETFL, before)


def _function(work: str) -> Callable[[Any, Mapping[str, bytes]], Any]:
    module, _, name = work.partition("#")[0].partition(":")
    function: Callable[[Any, Mapping[str, bytes]], Any]
    function = getattr(importlib.import_module(module), name)
    return function


def _set_limits(limits: Limits) -> None:
    """Limits the memory of this process, where the system can."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        # a unit that aborts must not leave a core file of a gigabyte
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if limits.memory_mib is not None:
            most = limits.memory_mib << 20
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _end_with(parent: int) -> None:
    """Ends this process when its parent is gone, also in the middle of a unit."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
