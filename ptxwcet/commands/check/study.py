"""Plans of checks: a ``ptxwcet.toml`` with kernels, launches, machines and budgets of a project.

TOML, a table ``[[check]]`` for each launch (docs/plans.md); paths are relative to
the plan. Reading a plan opens its PTX files, but bounds nothing: it makes a job of each kernel on
each machine. Problems are PW570 (unreadable), PW571 (unknown key), PW572 (malformed), PW573 (no
such file), PW574 (a kernel checked twice), PW208 (no such kernel) and PW301 (no such machine), each
with its place; they are reported together, files, kernels and machines of tables whose keys are
right. A PTX file that cannot be read is no problem of the plan: its jobs are refused, the others
are not.
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
    """A kernel, its launch and machine, and what its bound has to pass: plain data.

    ``request`` names one kernel; none where only its launch file says which, or the file cannot be
    read. ``number`` is that of its table, from 1; ``line`` where the table begins, if it is known.
    ``options`` say for what and with which options its CUDA source is compiled.
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

    ``kept`` is a folder of kept answers, where what is compiled is found again.

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
        """The kernels of each file that are meant; None for a file that does not say its own."""
        names = texts(table.get("kernels", []))
        missing = dict.fromkeys(names)
        by_file: dict[Request, list[str | None]] = {}
        in_files: list[str] = []
        source = os.path.join(self._problems.folder, table["source"]) if "source" in table else None
        for file in files:
            self._foreign[file] = {}
            try:
                module = recent_module(file)
            except Exception:  # whoever bounds it will say why
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


# --- The answers to many requests: those that a folder keeps, the others analysed, in processes ---
# An answer is kept under the key of the bytes that were analysed, or not at all: the files are read
# once more, compared with the key's digests, and supplied to the analysis from memory. Where one
# has changed meanwhile, or is asked for and not in the key, the answer is that of the files as they
# are, and is not kept. Nor is what says more of the computer than of the input: see
# KeptAnswer.is_lasting.
#
# A process that dies costs its job alone. What is done with a job is a function of the job, so that
# the results do not depend on how many processes there are, or on who was first. The processes end,
# also in the middle of a job, when the one that started them ends or is interrupted: they watch a
# pipe that nobody else holds open. They are forked: what is loaded is there at once, which the
# units of a sweep (:mod:`ptxwcet.sweeps.cell`), limited in memory and time, go without.


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
    """Returns the answer to each request for one kernel; None where its process died of it.

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
    """Returns the answer that is kept; None where there is none, or not one of this form."""
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
