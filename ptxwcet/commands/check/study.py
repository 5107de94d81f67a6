"""Plans of checks: a ``ptxwcet.toml`` with kernels, launches, machines and budgets of a project.

The file is TOML with a table ``[[check]]`` for each launch (docs/plans.md); paths are relative to
the plan. Reading a plan opens its PTX files, but bounds nothing: it makes a job of each kernel on
each machine. Problems are PW570 (unreadable), PW571 (unknown key), PW572 (malformed), PW573 (no
such file), PW574 (a kernel checked twice), PW208 (no such kernel) and PW301 (no such machine), each
with its place; they are reported together; files, kernels and machines only of tables with valid
keys. An unreadable PTX file is not a problem of the plan: only its jobs are refused.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from ptxwcet.claims import Guarantee
from ptxwcet.commands.bound.answers import KeptAnswer, answer_kernel, kept_entry
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.opened.budgets import Budget, Checks, NotABudget, parse_budget
from ptxwcet.opened.inputs import ChangedFile, Inputs, KeyedRequest, machine_digests, read_unchanged
from ptxwcet.opened.launch_tables import (
    LINK,
    MACHINE_CODE,
    MAKING,
    PATHS,
    keys_of,
    launch_request,
    value_problem,
)
from ptxwcet.opened.launching import foreign_names, what_others_have
from ptxwcet.opened.opening import file_digest, loops_named, recent_module
from ptxwcet.opened.plan_reading import PlanProblems, open_plan, texts
from ptxwcet.opened.request import Request
from ptxwcet.report.reading import NotAReport
from ptxwcet.support.answer_store import AnswerStore
from ptxwcet.support.demangling import names_meant
from ptxwcet.support.input_files import noted_inputs, supplied_inputs
from ptxwcet.support.options import NAMES
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile
from ptxwcet.support.toml_places import locate_table

PLAN = "ptxwcet.toml"
"""The plan that is read unless another is named."""

_TABLE = "check"
_DEFAULTS = ("machines", *keys_of(_TABLE, at_top=True))
_TOP = (*_DEFAULTS, _TABLE)
_LISTS = ("files", "kernels", "machines")
_KNOWN = (*_LISTS, *keys_of(_TABLE))
_MOST_JOBS = 100_000
_EXAMPLE = (
    'for example [[check]] with files = "kernels/*.ptx", block = "256", grid = "64", '
    'params = { n = 16384 }, budget = "2 ms"'
)


@dataclass(frozen=True, slots=True)
class CheckJob:
    """A kernel, its launch, its machine and the checks of its bound: plain data.

    ``request`` names one kernel, or none if only its launch file names it or the file is
    unreadable. ``number`` is the number of its table, from 1; ``line`` is where the table begins,
    if known. ``options`` are the targets and options that compile its CUDA source.
    """

    request: Request
    checks: Checks
    number: int
    line: int | None
    options: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs of a plan, in its order; files of a pattern by name, kernels as in their file."""

    path: str
    sha256: str
    jobs: tuple[CheckJob, ...]


def read_plan(path: str, kept: Path | None = None) -> Plan:
    """Returns the jobs of a plan. Raises PtxwcetError with all problems found.

    ``kept`` is a cache folder, in which compiled files are found again.

    Cost: linear in the plan and in the PTX files, which are parsed.
    """
    file, data = open_plan(path)
    jobs = _Reader(file, kept).jobs(data)
    return Plan(path, file_digest(path), jobs)


class _Reader:
    """Reads one plan and collects its problems."""

    def __init__(self, file: SourceFile, kept: Path | None) -> None:
        self._file = file
        self._problems = PlanProblems(file, _TABLE, _EXAMPLE, kept)
        self._foreign: dict[Request, dict[str, frozenset[tuple[str, str]]]] = {}

    def jobs(self, data: Mapping[str, Any]) -> tuple[CheckJob, ...]:
        """Returns the jobs of all tables of the plan. Raises PtxwcetError with every problem."""
        problems = self._problems
        problems.check_keys(data, None, _TOP, _value_problem)
        tables = problems.tables(data, "launch")
        defaults = {key: data[key] for key in _DEFAULTS if key in data}
        is_right, right = problems.count == 0, []
        for number, table in enumerate(tables):
            before = problems.count
            problems.check_keys(table, number, _KNOWN, _value_problem)
            if not table.get("files"):
                problems.report(
                    "PW572", "files is missing: PTX or CUDA source to check", "files", number
                )
            if problems.count == before:
                right.append((number, table))
        if not is_right or problems.is_full:
            problems.stop()
        seen: dict[tuple[Request, str], CheckJob] = {}
        for number, table in right:
            for job in self._jobs_of(number, defaults | table):
                self._add(job, seen)
        problems.stop()
        return tuple(seen.values())

    def _add(self, job: CheckJob, seen: dict[tuple[Request, str], CheckJob]) -> None:
        earlier = seen.setdefault((job.request, job.options), job)
        if earlier is not job:
            what = " of ".join((*job.request.kernels, job.request.path))
            message = f"{what} is checked twice, with one launch on one machine"
            remedy = f"leave it out here or in check {earlier.number}"
            self._problems.report("PW574", message, "files", job.number - 1, remedy)
        if len(seen) > _MOST_JOBS:
            self._problems.report(
                "PW572", f"more than {_MOST_JOBS:,} kernels", "files", job.number - 1
            )
            self._problems.stop()

    # --- tables -----------------------------------------------------------------------------------

    def _jobs_of(self, number: int, table: Mapping[str, Any]) -> Iterator[CheckJob]:
        files = self._files_of(number, table)
        is_code, paths = table.get(MACHINE_CODE, False), (file.path for file in files)
        self._problems.require_use_of_making(paths, number, is_code=is_code)
        names = self._kernels_of(number, table, files)
        self._require_beside(number, table)
        budget = _budget_of(table.get("budget"))
        required = Guarantee(table.get("require", Guarantee.SAFE_BOUND.value))
        checks = Checks(budget, required)
        header = locate_table(self._file, _TABLE, number)
        line = None if header is None else header.line
        for name in texts(table.get("machines", DEFAULT_MACHINE)):
            machine = self._problems.machine(name, number)
            for file in files if machine is not None else ():
                for kernel in names[file]:
                    own = {
                        key: {
                            name: value
                            for name, value in table.get(key, {}).items()
                            if (kernel, name) not in foreign
                        }
                        for key, foreign in self._foreign[file].items()
                    }
                    request = launch_request(
                        file,
                        {**table, **own},
                        self._problems.folder,
                        kernel=kernel,
                        machine=machine,
                    )
                    making = [table.get(key, "") for key in MAKING if file.text is not None]
                    making += ["machine code"] * file.is_code
                    options = " ".join(filter(None, making))
                    yield CheckJob(request, checks, number + 1, line, options)

    def _files_of(self, number: int, table: Mapping[str, Any]) -> list[Request]:
        """Returns the files, each once; PW573 for a name or pattern without any."""
        paths: dict[str, None] = {}
        for pattern in texts(table["files"]):
            paths.update(dict.fromkeys(self._problems.files_of(pattern, number)))
        making = table.get("arch"), table.get("nvcc_options", ""), table.get(MACHINE_CODE, False)
        named, is_linked = texts(table.get("kernels", [])), LINK in table
        return [
            self._problems.made(path, making, number, named, is_linked=is_linked) for path in paths
        ]

    def _require_beside(self, number: int, row: Mapping[str, Any]) -> None:
        for key in (*PATHS, LINK):
            for name in texts(row.get(key, ())):
                self._problems.require_file(name, key, number)

    def _kernels_of(
        self, number: int, table: Mapping[str, Any], files: list[Request]
    ) -> dict[Request, list[str | None]]:
        """Returns the selected kernels of each file; None for a file whose kernels are unknown."""
        names = texts(table.get("kernels", []))
        missing = dict.fromkeys(names)
        by_file: dict[Request, list[str | None]] = {}
        in_files: list[str] = []
        source = os.path.join(self._problems.folder, table["source"]) if "source" in table else None
        for file in files:
            self._foreign[file] = {}
            try:
                module = recent_module(file)
            except Exception:  # its bound will report the reason
                by_file[file] = [*names] or [None]
                missing = {}
                continue
            bodies = [kernel.name for kernel in module.kernels if kernel.has_body]
            in_files += bodies
            if not names and ("launch" in table or not bodies):
                by_file[file] = [None]
                continue
            meant = {
                name: names_meant(name, bodies) if names else (name,) for name in names or bodies
            }
            by_file[file] = [kernel for name in names or bodies for kernel in meant[name]]
            missing = {name: None for name in missing if not meant[name]}
            chosen = [kernel for kernel in module.kernels if kernel.name in by_file[file]]
            launch = replace(file, source=source)
            self._foreign[file] = {
                "params": foreign_names(launch, chosen, table.get("params", ())),
                "loop_bounds": what_others_have(
                    loops_named(module, chosen, table.get("loop_bounds", ()))
                ),
            }
        for name in missing:
            self._problems.report_kernel(name, in_files, number)
        return by_file


def _value_problem(key: str, value: object) -> str | None:
    if key in _LISTS:
        is_good = bool(value) and NAMES.is_argument(value)
        return None if is_good else f"{key} is {NAMES.listed}"
    if key != "budget":
        return value_problem(key, value)
    try:
        _budget_of(value)
    except NotABudget as error:
        return str(error)
    return None


def _budget_of(value: object) -> Budget | None:
    """Returns the budget of a value of TOML. Raises NotABudget."""
    if value is None:
        return None
    if type(value) is int or isinstance(value, str):
        return parse_budget(str(value))
    raise NotABudget(f'budget is a number of cycles, or a text as "2 ms", not {value!r}')


# --- The answers to many requests: cached ones from a folder, the others analysed in processes ----
# An answer is cached under the key of the bytes that were analysed, or not at all: the files are
# read once more, compared with the key's digests, and supplied to the analysis from memory. If a
# file has changed meanwhile, or is read but not in the key, the answer is computed from the files
# as they are, and is not cached. Answers that depend on the computer are not cached either: see
# KeptAnswer.is_lasting.
#
# A process that dies costs only its job. The work on a job is a function of the job, so the results
# do not depend on the number of processes or their order. The processes end, also in the middle of
# a job, when the process that started them ends or is interrupted: they watch a pipe whose other
# end only this process holds open. They are forked, so loaded modules are there at once; the tasks
# of a sweep (:mod:`ptxwcet.sweeps.cell`), with limits of memory and time, are not.


_SECONDS = 1.0  # between two reports of progress, if no job ends
_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class KeyedAnswer:
    """An answer, its seconds, and whether it was computed from the bytes of the request's key."""

    kept: KeptAnswer
    seconds: float
    is_of_key: bool


def cached_answers(
    requests: Sequence[Request],
    folder: Path,
    workers: int,
    progress: Callable[[int, int], None],
) -> list[KeptAnswer | None]:
    """Returns the answer to each request for one kernel; None if its process died.

    ``progress`` receives the number of answers, and of requests. Raises PtxwcetError (PW825) for an
    unusable folder. Cost: the bounds without a cached answer; all PTX is parsed.
    """
    with AnswerStore(folder) as store:
        inputs = Inputs()
        keyed = [inputs.keyed(request) for request in requests]
        answers = [_found(store, one.key) for one in keyed]
        missing = [number for number, answer in enumerate(answers) if answer is None]
        ready = len(answers) - len(missing)

        def take(place: int, answer: KeyedAnswer) -> None:
            request = keyed[missing[place]]
            answers[missing[place]] = answer.kept
            if answer.is_of_key and answer.kept.is_lasting:
                store.add([kept_entry(request.key, request.request, answer.kept, answer.seconds)])

        run_each(
            answer_keyed,
            [keyed[number] for number in missing],
            workers,
            lambda done, _: progress(ready + done, len(answers)),
            take,
        )
    return answers


def answer_keyed(keyed: KeyedRequest) -> KeyedAnswer:
    """Answers a request, from the files of its key if they are unchanged."""
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
    """Returns the cached answer; None without an answer of this form."""
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
    """Returns the result of ``work`` for each job, in their order; None if its process died.

    ``work`` is a function of a module; jobs and results can be pickled. ``progress`` receives from
    time to time the number of jobs that are done, and of all; ``take`` receives each result, with
    the number of its job, at once. Exceptions of ``work`` and of these are raised. Cost: a process
    per worker, and one more for each job that was running when a process died.
    """
    results: dict[int, _Result | None] = {}

    def run(numbers: Sequence[int]) -> list[int]:
        """Adds the results of these jobs; returns the jobs that ran when a process died."""
        count = min(workers, len(numbers))
        watched, held = multiprocessing.Pipe(duplex=False)
        pool = ProcessPoolExecutor(count, initializer=_end_with, initargs=(watched, held))
        with watched, held, pool:
            waiting = list(reversed(numbers))
            running: dict[Future[_Result], int] = {}
            try:
                while waiting or running:
                    # never more than there are workers, so the running jobs are known if a process
                    # dies
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
                held.close()  # no process waits for running jobs
                pool.shutdown(cancel_futures=True)
                raise
        return []

    while left := [number for number in range(len(jobs)) if number not in results]:
        for number in run(left):  # run alone, each job shows whether it kills its process
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
