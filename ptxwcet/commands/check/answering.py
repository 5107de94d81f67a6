"""The answers to many requests: those that a folder keeps, the others analysed, in processes.

An answer is kept under the key of the bytes that were analysed, or not at all: the files are read
once more, compared with the key's digests, and supplied to the analysis from memory. Where one has
changed meanwhile, or is asked for and not in the key, the answer is that of the files as they are,
and is not kept. Nor is what says more of the computer than of the input: see KeptAnswer.is_lasting.

A process that dies costs its job alone. What is done with a job is a function of the job, so that
the results do not depend on how many processes there are, or on who was first. The processes end,
also in the middle of a job, when the one that started them ends or is interrupted: they watch a
pipe that nobody else holds open. They are forked: what is loaded is there at once, which the units
of a sweep (:mod:`ptxwcet.sweeps.cell`), limited in memory and time, go without.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import TypeVar

from ptxwcet.commands.bound.answers import KeptAnswer, answer_kernel, kept_entry
from ptxwcet.opened.inputs import (
    ChangedFile,
    Inputs,
    KeyedRequest,
    machine_digests,
    read_unchanged,
)
from ptxwcet.opened.request import Request
from ptxwcet.report.reading import NotAReport
from ptxwcet.support.answer_store import AnswerStore
from ptxwcet.support.input_files import noted_inputs, supplied_inputs
from ptxwcet.support.records import dataclass

_SECONDS = 1.0  # between two words of progress, if no job ends
_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class KeyedAnswer:
    """An answer, the seconds that it took, and whether it is that of the request's key."""

    kept: KeptAnswer
    seconds: float
    is_of_key: bool


def cached_answers(
    requests: Sequence[Request],
    folder: Path,
    workers: int,
    progress: Callable[[int, int], None],
) -> list[KeptAnswer | None]:
    """The answer to each request for one kernel; None where its process died of it.

    ``progress`` is told how many there are, of how many. Raises PtxwcetError (PW825) for a folder
    that cannot be used. Cost: that of the bounds that are not kept; all PTX is parsed.
    """
    with AnswerStore(folder) as store:
        inputs = Inputs()
        keyed = [inputs.keyed(request) for request in requests]
        answers = [_found(store, one.key) for one in keyed]
        missing = [number for number, answer in enumerate(answers) if answer is None]
        ready = len(answers) - len(missing)

        def take(place: int, answer: KeyedAnswer) -> None:
            one = keyed[missing[place]]
            answers[missing[place]] = answer.kept
            if answer.is_of_key and answer.kept.is_lasting:
                store.add([kept_entry(one.key, one.request, answer.kept, answer.seconds)])

        run_each(
            answer_keyed,
            [keyed[number] for number in missing],
            workers,
            lambda done, _: progress(ready + done, len(answers)),
            take,
        )
    return answers


def answer_keyed(keyed: KeyedRequest) -> KeyedAnswer:
    """What comes of a request, of the files of its key if they still are as they were."""
    start = time.perf_counter()
    try:
        with supplied_inputs(read_unchanged(keyed)), noted_inputs() as asked:
            kept = answer_kernel(keyed.request)
        is_of_key = asked <= {path for path, _ in keyed.files}
        is_of_key &= machine_digests(keyed.request.machine) == keyed.machine_digests
    except (ChangedFile, MemoryError):
        is_of_key = False
    if not is_of_key:
        kept = answer_kernel(keyed.request)
    return KeyedAnswer(kept, time.perf_counter() - start, is_of_key)


def _found(store: AnswerStore, key: str) -> KeptAnswer | None:
    """The answer that is kept; None where there is none, or not one of this form."""
    data = store.answer(key)
    if data is None:
        return None
    try:
        return KeptAnswer.from_json(data)
    except NotAReport:
        return None


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

    def run(numbers: Sequence[int]) -> list[int]:
        """Adds the results of these jobs; those that were under way when a process died."""
        count = min(workers, len(numbers))
        watched, held = multiprocessing.Pipe(duplex=False)
        pool = ProcessPoolExecutor(count, initializer=_end_with, initargs=(watched, held))
        with watched, held, pool:
            waiting = list(reversed(numbers))
            running: dict[Future[_Result], int] = {}
            try:
                while waiting or running:
                    # never more than there are workers: what is running is known if one dies
                    while waiting and len(running) < count:
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

    while left := [number for number in range(len(jobs)) if number not in results]:
        for number in run(left):  # one of them killed its process: which, shows alone
            if run([number]):
                results[number] = None
                progress(len(results), len(jobs))
    return [results[number] for number in range(len(jobs))]


def _end_with(watched: Connection, held: Connection) -> None:
    """Ends this process when the last end of the pipe but its own, ``held``, is closed."""
    held.close()

    def watch() -> None:
        with contextlib.suppress(EOFError, OSError):
            watched.recv_bytes()
        os._exit(1)

    Thread(target=watch, daemon=True).start()
