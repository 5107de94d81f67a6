"""The child process of :mod:`ptxwcet.sweeps.cell`: reads units, writes results, ends when told.

Its standard output carries results alone; whatever is printed goes to standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

from ptxwcet.sweeps.cell import IDLE_SECONDS, Ending, Limits

_LOOK_SECONDS = 1.0


def main(parent: int) -> None:
    """Serves the parent, whose process number is given."""
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
        with contextlib.suppress(Exception):  # each unit will say so
            _function(work)
        results.send(True)  # its seconds begin now
        folder, environment = os.open(".", os.O_RDONLY), dict(os.environ)
        while requests.poll(IDLE_SECONDS):
            _, payload, shared = requests.recv()
            with _ended_with_parent(requests):
                answer = _answer(work, payload, shared)
            os.fchdir(folder)  # as the next unit would find it in a new process
            if os.environ != environment:
                os.environ.clear()
                os.environ.update(environment)
            results.send_bytes(answer)
    except (EOFError, OSError):  # the parent is done, or gone
        pass


def _answer(work: str, payload: Any, shared: Mapping[str, bytes]) -> bytes:
    """How a unit ended, what came of it, the seconds that it took: as the parent reads them."""
    begin = time.perf_counter()

    def told(ending: Ending, value: object) -> bytes:
        return pickle.dumps((ending, value, time.perf_counter() - begin))

    try:
        return told(Ending.DONE, _function(work)(payload, shared))
    except MemoryError:
        return told(Ending.MEMORY, None)
    except (Exception, SystemExit) as error:
        return told(Ending.RAISED, f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _ended_with_parent(requests: Connection) -> Iterator[None]:
    """Meanwhile the system ends this process when the parent is gone, where it can.

    The thread that looks for the parent has no turn while a library holds the interpreter's lock.
    The parent says nothing during a unit: a signal (SIGIO, which ends a process) is its end.
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

        # a unit that aborts leaves no file of a gigabyte behind
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
