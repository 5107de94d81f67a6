"""One function called on many jobs, in processes: one that dies costs its job alone.

What is done with a job is a function of the job, so that the results do not depend on how many
processes there are, or on who was first. The processes end, also in the middle of a job, when the
one that started them ends or is interrupted: they watch a pipe that nobody else holds open.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from threading import Thread
from typing import TypeVar

_SECONDS = 1.0  # between two words of progress, if no job ends
_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def run_each(
    work: Callable[[_Job], _Result],
    jobs: Sequence[_Job],
    workers: int,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    take: Callable[[int, _Result], None] = lambda _number, _result: None,
) -> list[_Result | None]:
    """What ``work`` makes of each job, in their order; None where its process died of it.

    ``work`` is a function of a module, jobs and results can be pickled. ``progress`` is told now
    and then how many are done, of how many; ``take`` is given each result, with the number of its
    job, as soon as it is there. What ``work`` and these raise is raised. Cost: a process a worker,
    and one more for each job that was under way when a process died.
    """
    results: dict[int, _Result | None] = {}
    left = list(range(len(jobs)))
    while left:
        suspects = _run(work, jobs, left, min(workers, len(left)), results, progress, take)
        for number in suspects:  # one of them killed its process: which, shows alone
            if _run(work, jobs, [number], 1, results, progress, take):
                results[number] = None
                progress(len(results), len(jobs))
        left = [number for number in left if number not in results]
    return [results[number] for number in range(len(jobs))]


def _run(
    work: Callable[[_Job], _Result],
    jobs: Sequence[_Job],
    numbers: Sequence[int],
    workers: int,
    results: dict[int, _Result | None],
    progress: Callable[[int, int], None],
    take: Callable[[int, _Result], None],
) -> list[int]:
    """Adds the results of these jobs; those that were under way when a process died."""
    watched, held = multiprocessing.Pipe(duplex=False)
    with (
        watched,
        held,
        ProcessPoolExecutor(workers, initializer=_end_with, initargs=(watched, held)) as pool,
    ):
        waiting = list(reversed(numbers))
        running: dict[Future[_Result], int] = {}
        try:
            while waiting or running:
                # never more than there are workers: what is running is known if one dies
                while waiting and len(running) < workers:
                    running[pool.submit(work, jobs[waiting[-1]])] = waiting[-1]
                    waiting.pop()
                for done in wait(running, _SECONDS, FIRST_COMPLETED).done:
                    result = done.result()
                    number = running.pop(done)
                    results[number] = result
                    take(number, result)
                progress(len(results), len(jobs))
        except BrokenProcessPool:
            return sorted(running.values()) or waiting[-1:]
        except BaseException:
            held.close()  # nobody waits for what is under way
            pool.shutdown(cancel_futures=True)
            raise
    return []


def _end_with(watched: Connection, held: Connection) -> None:
    """Ends this process when the last end of the pipe but its own, ``held``, is closed."""
    held.close()

    def watch() -> None:
        with contextlib.suppress(EOFError, OSError):
            watched.recv_bytes()
        os._exit(1)

    Thread(target=watch, daemon=True).start()
