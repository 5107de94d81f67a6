"""Common parts of the plans of checks and of sweeps.

A plan is TOML with an array of tables; paths in it are relative to it. Problems are collected, each
with its place in the text, and raised together: PW570 (unreadable), PW571 (unknown key), PW572
(malformed), PW573 (no such file), PW208 (no such kernel), PW301 (no such machine), PW120 and PW121
(CUDA source that is not compiled, a binary without its PTX).
"""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ptxwcet.machine.loader import load_machine, machine_names
from ptxwcet.opened.front_ends import is_no_ptx
from ptxwcet.opened.launch_tables import MAKING
from ptxwcet.opened.request import Request, needs_tool
from ptxwcet.support.demangling import readable_names
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, UsageError
from ptxwcet.support.input_files import MOST_TOML_BYTES, read_text
from ptxwcet.support.source import SourceFile, Span
from ptxwcet.support.toml_places import (
    MOST_PROBLEMS,
    NotToml,
    locate_key,
    locate_table,
    nearest,
    parse_toml,
)

MOST_TABLES = 10_000
"""Most tables of a plan."""


def open_plan(path: str) -> tuple[SourceFile, dict[str, Any]]:
    """Returns the text of a plan, and its tables. Raises PtxwcetError (PW570)."""
    try:
        file = SourceFile(path, read_text(path, MOST_TOML_BYTES))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PtxwcetError(Diagnostic("PW570", f"cannot read plan '{path}': {reason}")) from None
    try:
        return file, parse_toml(file)
    except NotToml as problem:
        message = f"not TOML: {problem.message}"
        raise PtxwcetError(Diagnostic("PW570", message, problem.span)) from None


def texts(value: Any) -> list[str]:
    """Returns the texts of a value: a single text, or a list."""
    return [value] if isinstance(value, str) else list(value)


class PlanProblems:
    """Collects the problems of one plan, and reads the values that all kinds of plans have.

    ``table`` is the name of the tables of the plan: a table ``[[check]]`` is a check. Tables are
    numbered from 0. ``example`` is the help for malformed values. ``kept`` is a cache folder, in
    which compiled files are found again.
    """

    def __init__(
        self, file: SourceFile, table: str, example: str, kept: Path | None = None
    ) -> None:
        self.file = file
        self.folder = os.path.dirname(file.name)
        self._table = table
        self._example = example
        self._kept = kept
        self._problems: list[Diagnostic] = []
        self._machines: dict[str, str | None] = {}
        self._made: dict[tuple[object, ...], str | None] = {}

    @property
    def is_full(self) -> bool:
        """True if no more problems are collected: there are enough for anyone to read."""
        return len(self._problems) >= MOST_PROBLEMS

    @property
    def count(self) -> int:
        """How many problems there are so far."""
        return len(self._problems)

    def report(
        self,
        code: str,
        message: str,
        key: str,
        number: int | None,
        remedy: str | None = None,
        span: Span | None = None,
    ) -> None:
        """Adds a problem of a key of a table, or of the top if ``number`` is None.

        ``span`` is its place, if it is more exact than the key's.
        """
        if self.is_full:
            return
        file = self.file
        if number is None:
            span = span or locate_key(file, "", key) or locate_table(file, key)
        else:
            span = span or locate_key(file, self._table, key, number)
            span = span or locate_table(file, self._table, number)
            message = f"{self._table} {number + 1}: {message}"
        if span is None:
            message = f"{file.name}: {message}"
        if code == "PW572" and remedy is None:
            remedy = self._example
        self._problems.append(Diagnostic(code, message, span, help=remedy))

    def stop(self) -> None:
        """Raises UsageError with all problems, if there are any."""
        if self._problems:
            raise UsageError(self._problems)

    def check_keys(
        self,
        row: Mapping[str, Any],
        number: int | None,
        known: Sequence[str],
        problem_of: Callable[[str, object], str | None],
    ) -> None:
        """Reports unknown keys (PW571) and invalid values (PW572)."""
        for key, value in row.items():
            if key not in known:
                remedy = f"{nearest(key, known)}known: {', '.join(known)}"
                self.report("PW571", f"unknown key {key!r}", key, number, remedy)
                continue
            problem = problem_of(key, value)
            if problem is not None:
                self.report("PW572", problem, key, number)

    def tables(self, data: Mapping[str, Any], what: str) -> list[dict[str, Any]]:
        """Returns the tables of the plan; reports PW572 without any: there is one per ``what``."""
        tables = data.get(self._table)
        if (
            not isinstance(tables, list)
            or not all(isinstance(row, dict) for row in tables)
            or not tables
        ):
            message = f"a plan has a table [[{self._table}]] for each {what}"
            self.report("PW572", message, self._table, None)
            return []
        if len(tables) > MOST_TABLES:
            self.report("PW572", f"more than {MOST_TABLES:,} {self._table}s", self._table, None)
            return []
        return tables

    def files_of(self, pattern: str, number: int) -> list[str]:
        """Returns the files of a name or pattern, by name; reports PW573 without any."""
        folder = self.folder
        named = os.path.join(folder, pattern)
        is_pattern = glob.has_magic(pattern) and not os.path.exists(named)
        paths = [named]
        if is_pattern and "\0" not in pattern:
            matches = sorted(glob.glob(pattern, root_dir=folder or None, recursive=True))
            paths = [os.path.join(folder, match) for match in matches]
        paths = [_normal(path) for path in paths if os.path.isfile(path)]
        if not paths:
            what = f"no file matches {pattern!r}" if is_pattern else f"no file {pattern!r}"
            where = folder or "the working directory"
            self.report("PW573", what, "files", number, f"paths are relative to {where}")
        return paths

    def made(
        self,
        path: str,
        making: tuple[str | None, str, bool],
        number: int,
        kernels: Sequence[str] = (),
        *,
        is_linked: bool = False,
    ) -> Request:
        """Returns a file as a request names it, compiled by a tool unless it is PTX.

        ``making`` are the values of MAKING, and whether machine code is made. Errors are reported.
        Cost: a run of the tool, once for equal requests.
        """
        asked = (path, *making, is_linked, *kernels)
        if asked not in self._made:
            self._made[asked] = None
            try:
                if is_made(path, is_code=making[2]):
                    self._made[asked] = made_text(
                        path, making, kernels, is_linked=is_linked, kept=self._kept
                    )
            except PtxwcetError as error:
                place = locate_key(self.file, self._table, "files", number)
                place = place or locate_table(self.file, self._table, number)
                whose = f"{self._table} {number + 1}: "
                self._problems += [
                    replace(diagnostic, message=whose + diagnostic.message, span=place)
                    for diagnostic in error.diagnostics
                ]
        is_code = making[2] and not is_no_ptx(path)
        return Request(path, text=self._made[asked], is_code=is_code)

    def require_use_of_making(self, paths: Iterable[str], number: int, *, is_code: bool) -> None:
        """Reports PW572 for options of compilation in a table whose files are all PTX."""
        files = list(paths)
        if not files or any(map(needs_tool, files)):
            return
        assembles = any(is_made(path, is_code=is_code) for path in files)
        for key in MAKING[1:] if assembles else MAKING:
            if locate_key(self.file, self._table, key, number) is not None:
                message = f"{key} is for CUDA source and binaries: PTX is compiled already"
                self.report("PW572", message, key, number, f"leave {key} out")

    def require_file(self, name: str, key: str, number: int) -> None:
        """Reports PW573 for a missing file of the plan's folder."""
        if not os.path.isfile(os.path.join(self.folder, name)):
            self.report("PW573", f"no file {name!r}", key, number)

    def report_kernel(self, name: str, known: Sequence[str], number: int) -> None:
        """Reports PW208 for a kernel that no file has; they have the ``known`` ones."""
        readable = list(readable_names(known).values())
        listed = ", ".join(readable[:20]) or "none"
        remedy = f"{nearest(name, (*readable, *known))}the kernels are: {listed}"
        message = f"no file of this {self._table} has a kernel {name!r}"
        self.report("PW208", message, "kernels", number, remedy)

    def machine(self, name: str, number: int) -> str | None:
        """Returns the machine as a request names it; None for an invalid one, which is reported.

        Each is loaded once.
        """
        if name not in self._machines:
            machines = machine_names()
            path = name if name in machines else os.path.join(self.folder, name)
            try:
                load_machine(path)
                self._machines[name] = path
            except PtxwcetError as error:
                self._machines[name] = None
                if error.diagnostics[0].code != "PW301":
                    self._problems += error.diagnostics
                    return None
                remedy = f"{nearest(name, machines)}known machines: {', '.join(machines)}"
                message = f"no machine {name!r}: it is neither a known name nor a file"
                place = locate_key(self.file, self._table, "machines", number)
                where = None if place is None else number
                self.report("PW301", message, "machines", where, remedy)
        return self._machines[name]


def is_made(path: str, *, is_code: bool) -> bool:
    """Returns whether a tool makes PTX, or machine code, of a file before anything is read."""
    return needs_tool(path) or (is_code and not is_no_ptx(path))


def made_text(
    path: str,
    making: tuple[str | None, str, bool],
    kernels: Sequence[str],
    *,
    is_linked: bool,
    kept: Path | None = None,
) -> str:
    """Returns a tool's output for a file, as a table states: see ``made``.

    Raises PtxwcetError (PW120, PW121, PW123, PW124). Cost: a run of the tool, unless ``kept`` is a
    folder that has it.
    """
    # imported here: plans of PTX need neither compiler nor cuobjdump
    from ptxwcet.opened.machine_code import machine_code
    from ptxwcet.opened.nvcc import Compilation, not_compiled, ptx_text

    arch, options, is_code = making
    try:
        parted = tuple(shlex.split(options))
    except ValueError as error:
        raise not_compiled(f"nvcc_options: {error}", "quotes come in pairs") from None
    make = machine_code if is_code else ptx_text
    return make(path, Compilation(arch, parted, is_linked, kept), kernels)


def _normal(path: str) -> str:
    """Returns the path of a file without ``..`` and the like, if it leads to the same folder.

    ``link/..`` is the parent of the link's target.
    """
    short = os.path.normpath(path)
    folders = (os.path.dirname(one) or os.curdir for one in (path, short))
    try:
        return short if os.path.samefile(*folders) else path
    except OSError:
        return path
