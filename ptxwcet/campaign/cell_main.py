"""The child process of :mod:`ptxwcet.campaign.cell`: reads units, writes results, ends when told.

Its standard output carries results alone; whatever is printed goes to standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

from ptxwcet.campaign.cell import IDLE_SECONDS
from ptxwcet.campaign.work import Ending, Limits

_LOOK_SECONDS = 1.0


def main(parent: int) -> None:
    """Serves the parent, whose process number is given."""
    requests = Connection(os.dup(0), writable=False)
    results = Connection(os.dup(1), readable=False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        work, limits = requests.recv()
        _set_limits(limits)
        function: Callable[[Any, Mapping[str, bytes]], Any] | None = None
        while requests.poll(IDLE_SECONDS):
            _, payload, shared = requests.recv()
            begin = time.perf_counter()
            try:
                if function is None:
                    function = _function(work)
                ending, value = Ending.DONE, function(payload, shared)
            except MemoryError:
                ending, value = Ending.MEMORY, None
            except Exception as error:
                ending, value = Ending.RAISED, f"{type(error).__name__}: {error}"
            results.send((ending, value, time.perf_counter() - begin))
    except (EOFError, OSError):  # the parent is done, or gone
        pass


def _function(work: str) -> Callable[[Any, Mapping[str, bytes]], Any]:
    module, _, name = work.partition(":")
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
