"""Plans of checks: a ``ptxwcet.toml`` with kernels, launches, machines and budgets of a project.

TOML, a table ``[[check]]`` for each launch (docs/continuous-integration.md); paths are relative to
the plan. Reading a plan opens its PTX files, but bounds nothing: it makes a job of each kernel on
each machine. Problems are PW570 (unreadable), PW571 (unknown key), PW572 (malformed), PW573 (no
such file), PW574 (a kernel checked twice), PW208 (no such kernel) and PW301 (no such machine), each
with its place; all of a plan are reported at once. A PTX file that cannot be read is no problem of
the plan: its jobs are refused, the others are not.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from ptxwcet.claims import Guarantee
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine, machine_names
from ptxwcet.studies.budgets import BLOCK, KERNEL, Budget, Checks, NotABudget, parse_budget
from ptxwcet.studies.launch_tables import (
    LAUNCH_KEYS,
    NUMBERS,
    PATHS,
    is_text,
    launch_request,
    value_problem,
)
from ptxwcet.studies.opening import file_digest, read_module
from ptxwcet.studies.request import Request
from ptxwcet.support.demangling import names_meant, readable_names
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_TOML_BYTES, read_text
from ptxwcet.support.source import SourceFile
from ptxwcet.support.toml_places import MOST_PROBLEMS, NotToml, locate_key, locate_table, parse_toml

PLAN = "ptxwcet.toml"
"""The plan that is read unless another is named."""

_TABLE = "check"
_TOP = ("machines", "require", _TABLE)
_LISTS = ("files", "kernels", "machines")
_NUMBERS = {**NUMBERS, "sms": 1024}
_KNOWN = (*_LISTS, "budget", "budget_of", "require", "sms", *LAUNCH_KEYS)
_WORDS = {
    "budget_of": (BLOCK, KERNEL),
    "require": (Guarantee.SAFE_BOUND.value, Guarantee.ESTIMATE.value),
}
_MOST_TABLES = 10_000
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
    """

    request: Request
    checks: Checks
    number: int
    line: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs of a plan, in its order; files of a pattern by name, kernels as in their file."""

    path: str
    sha256: str
    jobs: tuple[CheckJob, ...]


def read_plan(path: str) -> Plan:
    """The jobs of a plan. Raises PtxwcetError with all problems found.

    Cost: linear in the plan and in the PTX files, which are parsed.
    """
    try:
        file = SourceFile(path, read_text(path, MOST_TOML_BYTES))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PtxwcetError(Diagnostic("PW570", f"cannot read plan '{path}': {reason}")) from None
    try:
        data = parse_toml(file)
    except NotToml as problem:
        message = f"not TOML: {problem.message}"
        raise PtxwcetError(Diagnostic("PW570", message, problem.span)) from None
    jobs = _Reader(file).jobs(data)
    return Plan(path, file_digest(path), jobs)


def recent_module(request: Request) -> Module:
    """The PTX of a request, parsed anew only if the file changed or was not among the last ones.

    Raises PtxwcetError.
    """
    try:
        digest = file_digest(request.path)
    except OSError:
        return read_module(request)  # which says why it cannot be read
    return _parsed(request.path, digest)


@lru_cache(maxsize=4)
def _parsed(path: str, digest: str) -> Module:
    return read_module(Request(path))


class _Reader:
    """Reads one plan and collects its problems."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._folder = os.path.dirname(file.name)
        self._problems: list[Diagnostic] = []
        self._machines: dict[str, str | None] = {}

    def jobs(self, data: Mapping[str, Any]) -> tuple[CheckJob, ...]:
        """The jobs of all tables of the plan. Raises PtxwcetError with every problem."""
        self._check_keys(data, None, _TOP)
        tables = data.get(_TABLE)
        if (
            not isinstance(tables, list)
            or not all(isinstance(row, dict) for row in tables)
            or not tables
        ):
            self._report("PW572", "a plan has a table [[check]] for each launch", _TABLE, None)
            tables = []
        if len(tables) > _MOST_TABLES:
            self._report("PW572", f"more than {_MOST_TABLES:,} checks", _TABLE, None)
            tables = []
        defaults = {key: data[key] for key in ("machines", "require") if key in data}
        for number, table in enumerate(tables):
            self._check_keys(table, number, _KNOWN)
            if not table.get("files"):
                self._report("PW572", "files is missing: the PTX to check", "files", number)
        self._stop_at_problems()
        seen: dict[Request, CheckJob] = {}
        for number, table in enumerate(tables):
            for job in self._jobs_of(number, defaults | table):
                self._add(job, seen)
        self._stop_at_problems()
        return tuple(seen.values())

    def _add(self, job: CheckJob, seen: dict[Request, CheckJob]) -> None:
        earlier = seen.setdefault(job.request, job)
        if earlier is not job:
            what = " of ".join((*job.request.kernels, job.request.path))
            message = f"{what} is checked twice, with one launch on one machine"
            remedy = f"leave it out here or in check {earlier.number}"
            self._report("PW574", message, "files", job.number - 1, remedy)
        if len(seen) > _MOST_JOBS:
            self._report("PW572", f"more than {_MOST_JOBS:,} kernels", "files", job.number - 1)
            self._stop_at_problems()

    # --- tables -----------------------------------------------------------------------------------

    def _jobs_of(self, number: int, table: Mapping[str, Any]) -> Iterator[CheckJob]:
        paths = self._files_of(number, table)
        names = self._kernels_of(number, table, paths)
        self._require_beside(number, table)
        budget = _budget_of(table.get("budget"))
        required = Guarantee(table.get("require", Guarantee.SAFE_BOUND.value))
        checks = Checks(budget, table.get("budget_of"), required)
        header = locate_table(self._file, _TABLE, number)
        line = None if header is None else header.line
        for name in _texts(table.get("machines", DEFAULT_MACHINE)):
            machine = self._machine(name, number, table)
            for path in paths if machine is not None else ():
                for kernel in names[path]:
                    request = launch_request(
                        path, kernel, table, self._folder, machine or "", None, table.get("sms")
                    )
                    yield CheckJob(request, checks, number + 1, line)

    def _files_of(self, number: int, table: Mapping[str, Any]) -> list[str]:
        """The PTX files, each once; PW573 for a name or pattern without any."""
        files: dict[str, None] = {}
        for pattern in _texts(table["files"]):
            named = os.path.join(self._folder, pattern)
            is_pattern = glob.has_magic(pattern) and not os.path.exists(named)
            paths = [named]
            if is_pattern and "\0" not in pattern:
                root = self._folder or None
                matches = sorted(glob.glob(pattern, root_dir=root, recursive=True))
                paths = [os.path.join(self._folder, one) for one in matches]
            paths = [os.path.normpath(one) for one in paths if os.path.isfile(one)]
            if not paths:
                what = f"no file matches {pattern!r}" if is_pattern else f"no file {pattern!r}"
                where = self._folder or "the working directory"
                self._report("PW573", what, "files", number, f"paths are relative to {where}")
            files.update(dict.fromkeys(paths))
        return list(files)

    def _require_beside(self, number: int, row: Mapping[str, Any]) -> None:
        for key in PATHS:
            if key in row and not os.path.isfile(os.path.join(self._folder, row[key])):
                self._report("PW573", f"no file {row[key]!r}", key, number)

    def _kernels_of(
        self, number: int, table: Mapping[str, Any], paths: list[str]
    ) -> dict[str, list[str | None]]:
        """The kernels of each file that are meant; None for a file that does not say its own."""
        names = _texts(table.get("kernels", []))
        missing = dict.fromkeys(names)
        by_file: dict[str, list[str | None]] = {}
        in_files: list[str] = []
        for path in paths:
            try:
                module = recent_module(Request(path))
            except Exception:  # whoever bounds it will say why
                by_file[path] = [*names] or [None]
                missing = {}
                continue
            bodies = [kernel.name for kernel in module.kernels if kernel.has_body]
            in_files += bodies
            if not names:
                by_file[path] = [None] if "launch" in table or not bodies else [*bodies]
                continue
            meant = {name: names_meant(name, bodies) for name in names}
            by_file[path] = [kernel for name in names for kernel in meant[name]]
            missing = {name: None for name in missing if not meant[name]}
        for name in missing:
            self._report_kernel(name, in_files, number)
        return by_file

    def _report_kernel(self, name: str, known: list[str], number: int) -> None:
        readable = list(readable_names(known).values())
        listed = ", ".join(readable[:20]) or "none"
        remedy = f"{_nearest(name, (*readable, *known))}the kernels are: {listed}"
        self._report(
            "PW208", f"no file of this check has a kernel {name!r}", "kernels", number, remedy
        )

    def _machine(self, name: str, number: int, table: Mapping[str, Any]) -> str | None:
        """The machine as a request names it, None for one that is no machine."""
        if name not in self._machines:
            machines = machine_names()
            path = name if name in machines else os.path.join(self._folder, name)
            try:
                load_machine(path)
                self._machines[name] = path
            except PtxwcetError as error:
                self._machines[name] = None
                if error.diagnostics[0].code != "PW301":
                    self._problems += error.diagnostics
                    return None
                remedy = f"{_nearest(name, machines)}known machines: {', '.join(machines)}"
                message = f"no machine {name!r}: it is neither a known name nor a file"
                place = locate_key(self._file, _TABLE, "machines", number)
                where = None if place is None else number
                self._report("PW301", message, "machines", where, remedy)
        return self._machines[name]

    # --- values -----------------------------------------------------------------------------------

    def _check_keys(
        self, row: Mapping[str, Any], number: int | None, known: tuple[str, ...]
    ) -> None:
        """PW571 for keys that are not known, PW572 for values that are none."""
        for key, value in row.items():
            if key not in known:
                remedy = f"{_nearest(key, known)}known: {', '.join(known)}"
                self._report("PW571", f"unknown key {key!r}", key, number, remedy)
                continue
            problem = _value_problem(key, value)
            if problem is not None:
                self._report("PW572", problem, key, number)

    def _report(
        self, code: str, message: str, key: str, number: int | None, remedy: str | None = None
    ) -> None:
        """Adds a problem of a key of a table, or of the top if ``number`` is None."""
        if len(self._problems) >= MOST_PROBLEMS:
            return
        file = self._file
        if number is None:
            span = locate_key(file, "", key) or locate_table(file, key)
        else:
            span = locate_key(file, _TABLE, key, number) or locate_table(file, _TABLE, number)
            message = f"check {number + 1}: {message}"
        if span is None:
            message = f"{file.name}: {message}"
        if code == "PW572" and remedy is None:
            remedy = _EXAMPLE
        self._problems.append(Diagnostic(code, message, span, help=remedy))

    def _stop_at_problems(self) -> None:
        if self._problems:
            raise PtxwcetError(self._problems)


def _value_problem(key: str, value: object) -> str | None:
    if key in _LISTS:
        texts = value if isinstance(value, list) else [value]
        return None if texts and all(map(is_text, texts)) else f"{key} is a text or a list of texts"
    if key in _WORDS and value not in _WORDS[key]:
        return f"{key} is {' or '.join(map(repr, _WORDS[key]))}, not {value!r}"
    if key == "budget":
        try:
            _budget_of(value)
        except NotABudget as error:
            return str(error)
    return value_problem(key, value, _NUMBERS)


def _budget_of(value: object) -> Budget | None:
    """The budget of a value of TOML. Raises NotABudget."""
    if value is None:
        return None
    if type(value) is int or isinstance(value, str):
        return parse_budget(str(value))
    raise NotABudget(f'budget is a number of cycles, or a text as "2 ms", not {value!r}')


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _nearest(name: str, known: tuple[str, ...]) -> str:
    """``did you mean x? ``, if there is a name much like it."""
    return "".join(f"did you mean {one}? " for one in get_close_matches(name, known, 1))
