"""Facts files: what people know about loops, branches and parameters of the kernels of a PTX file.

TOML; ``docs/facts-file.md`` describes it. A file is for one PTX text, whose hash it names: labels
move when a kernel is compiled anew. Reading checks form and types; where a fact belongs is checked
when it is placed (:mod:`ptxwcet.flow.facts.placing`). Problems are PW240 (unreadable), PW241 (not
TOML), PW242 (unknown key), PW243 (malformed), PW244 (hash), PW245 (a question left open), PW208 (no
such kernel), each with its place in the file; all of a file are reported at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from ptxwcet.flow.facts.stated import (
    BranchFact,
    CallFact,
    ExclusiveFact,
    FactSource,
    LoopFact,
    ParameterFact,
    Place,
    StatedFacts,
    UnreadFact,
    line_place,
)
from ptxwcet.support.demangling import names_meant, readable_names
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, internal_error
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

OPEN = "?"
"""What a template writes where an answer is missing."""

_KEYS = {
    "": ("ptx", "loop", "branch", "exclusive", "call", "parameters", "arrays"),
    "loop": ("kernel", "at", "line", "bound", "total"),
    "branch": ("kernel", "at", "line", "never", "uniform"),
    "exclusive": ("kernel", "branches"),
    "call": ("kernel", "function", "at", "line", "total"),
}
_MOST = 10**18 - 1  # as for --loop-bound
_LONGEST_LINE_NUMBER = 10**9
_Fact = TypeVar("_Fact")
_OUTCOMES = {"taken": True, "fallthrough": False}


def read_flow_facts(path: str, digest: str, kernels: Sequence[str]) -> StatedFacts:
    """The facts in the file at ``path`` about a PTX text with SHA-256 ``digest`` (hexadecimal).

    ``kernels`` are the names of its kernels. Raises PtxwcetError with all problems found. Cost:
    linear in the file, for each fact.
    """
    try:
        file = SourceFile(path, read_text(path, MOST_TOML_BYTES))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        message = f"cannot read facts file '{path}': {reason}"
        raise PtxwcetError(Diagnostic("PW240", message)) from None
    try:
        data = parse_toml(file)
    except NotToml as problem:
        message = f"not TOML: {problem.message}"
        raise PtxwcetError(Diagnostic("PW241", message, problem.span)) from None
    reader = _Reader(file, digest, tuple(kernels))
    facts = reader.read(data)
    if reader.problems:
        raise PtxwcetError(reader.problems)
    return facts


class _Reader:
    """Reads one file and collects its problems."""

    def __init__(self, file: SourceFile, digest: str, kernels: tuple[str, ...]) -> None:
        self.file = file
        self.digest = digest
        self.kernels = kernels
        self.problems: list[Diagnostic] = []
        self.unread: list[UnreadFact] = []

    def read(self, data: Mapping[str, Any]) -> StatedFacts:
        entry = _Entry(self, "", 0, data)
        self._check_hash(entry)
        return StatedFacts(
            self._facts(data, "loop", _Entry.loop),
            self._facts(data, "branch", _Entry.branch),
            self._facts(data, "exclusive", _Entry.exclusive),
            tuple(self._of_parameters(entry, "parameters", _Entry.parameter)),
            calls=self._facts(data, "call", _Entry.call),
            arrays=tuple(self._of_parameters(entry, "arrays", _Entry.array)),
            unread=tuple(self.unread),
        )

    def _facts(
        self, data: Mapping[str, Any], table: str, read: Callable[[_Entry], list[_Fact]]
    ) -> tuple[_Fact, ...]:
        """The facts of all tables of a kind; an internal error costs the kernel of its table."""
        found: list[_Fact] = []
        for row in self._rows(data, table):
            try:
                found += read(row)
            except Exception as error:
                self._add_unread(error, row.data.get("kernel"))
        return tuple(found)

    def _add_unread(self, error: Exception, kernel: object) -> None:
        """A fact of ``kernel`` cannot be read; of all kernels, if it is none of the file."""
        meant = names_meant(kernel, self.kernels) if isinstance(kernel, str) else ()
        name = meant[0] if len(meant) == 1 else None
        failure = internal_error(error, None if name is None else f"kernel {kernel}")
        self.unread.append(UnreadFact(failure, name))

    def _check_hash(self, entry: _Entry) -> None:
        wanted = f"sha256:{self.digest}"
        given = entry.data.get("ptx")
        remedy = f'check the facts against the PTX, then write ptx = "{wanted}"'
        if given is None:
            entry.report("PW244", "the hash of the PTX text is missing", "ptx", remedy)
        elif given != wanted:
            message = f"these facts are for another PTX text: ptx is {given!r}"
            entry.report("PW244", message, "ptx", remedy)

    def _rows(self, data: Mapping[str, Any], table: str) -> list[_Entry]:
        rows = data.get(table, [])
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            return [_Entry(self, table, number, row) for number, row in enumerate(rows)]
        entry = _Entry(self, "", 0, {})
        entry.report("PW243", f"{table} is no array of tables", table, f"write [[{table}]]")
        return []

    def _of_parameters(self, top: _Entry, kind: str, read: _Read) -> list[ParameterFact]:
        """The facts of ``[kind]`` about parameters of all kernels, and ``[kind.kernel]`` of one."""
        table = top.data.get(kind, {})
        if not isinstance(table, dict):
            top.report("PW243", f"{kind} is no table", kind, f"write [{kind}]")
            return []
        entry = _Entry(self, kind, 0, table)
        facts: list[ParameterFact] = []
        for name, value in table.items():
            if not isinstance(value, dict):
                facts += read(entry, name, value, None)
                continue
            try:
                facts += self._of_kernel(kind, name, value, read)
            except Exception as error:
                self._add_unread(error, name)
        return facts

    def _of_kernel(
        self, kind: str, kernel: str, table: Mapping[str, Any], read: _Read
    ) -> list[ParameterFact]:
        entry = _Entry(self, f"{kind}.{kernel}", 0, table)
        name = entry.kernel_called(kernel)
        return [fact for key, one in table.items() for fact in read(entry, key, one, name)]


class _Entry:
    """One table of the file: its values, and where they stand."""

    def __init__(self, reader: _Reader, table: str, number: int, data: Mapping[str, Any]) -> None:
        self.reader = reader
        self.table = table
        self.number = number
        self.data = data
        for key in data:
            known = _KEYS.get(table, ())
            if known and key not in known:
                listed = f"{nearest(key, known)}known: {', '.join(known)}"
                self.report("PW242", f"unknown key {key!r}", key, listed)

    def span(self, key: str) -> Span | None:
        """Where ``key`` is written, or the table if it is not."""
        file, table = self.reader.file, self.table
        name, number = (table, self.number) if table else (key, 0)
        found = locate_key(file, table, key, self.number)
        return found or locate_table(file, name, number) or locate_key(file, "", name)

    def report(self, code: str, message: str, key: str, remedy: str | None = None) -> None:
        """Adds a problem of the value of ``key``."""
        if len(self.reader.problems) >= MOST_PROBLEMS:
            return
        span = self.span(key)
        if span is None:
            message = f"{self.reader.file.name}: {message}"
        self.reader.problems.append(Diagnostic(code, message, span, help=remedy))

    def kernel_called(self, name: object) -> str | None:
        """The PTX name of the kernel that people call ``name``; PW208 if there is not one."""
        meant = names_meant(name, self.reader.kernels) if isinstance(name, str) else ()
        if len(meant) != 1:
            readable = readable_names(self.reader.kernels)
            shown = ", ".join(readable[one] for one in meant or self.reader.kernels) or "none"
            problem = "several kernels" if meant else "no kernel"
            self.report(
                "PW208", f"the PTX has {problem} {name!r}", "kernel", f"its kernels: {shown}"
            )
            return name if isinstance(name, str) else None
        return meant[0]

    def source(self, key: str) -> FactSource:
        """This place as who states a fact."""
        span = self.span(key)
        name = Path(self.reader.file.name).name
        return FactSource(name if span is None else f"{name}:{span.line}", span)

    # --- kinds of facts ---------------------------------------------------------------------------

    def loop(self) -> list[LoopFact]:
        """A ``[[loop]]``."""
        before = len(self.reader.problems)
        kernel, place = self._kernel(), self._place()
        question = f"does the loop at {place} run"
        bound, total = self._count("bound", question), self._count("total", question)
        if len(self.reader.problems) > before or place is None:
            return []
        if bound is None and total is None:
            remedy = "bound = N: most body executions for each entry"
            self.report("PW243", f"the loop at {place} has neither bound nor total", "at", remedy)
            return []
        source = self.source("bound" if bound is not None else "total")
        return [LoopFact(place, source, bound, total, kernel, self.source("total"))]

    def branch(self) -> list[BranchFact]:
        """A ``[[branch]]``."""
        before = len(self.reader.problems)
        kernel, place = self._kernel(), self._place()
        never = self._word("never", tuple(_OUTCOMES), place)
        uniform = self._word("uniform", ("warp", "block"), place)
        if len(self.reader.problems) > before or place is None:
            return []
        if never is None and uniform is None:
            remedy = 'for example never = "taken" or uniform = "block"'
            self.report("PW243", f"nothing is said of the branch at {place}", "at", remedy)
            return []
        source = self.source("never" if never is not None else "uniform")
        outcome = None if never is None else _OUTCOMES[never]
        return [BranchFact(place, source, outcome, uniform, kernel)]

    def exclusive(self) -> list[ExclusiveFact]:
        """An ``[[exclusive]]``."""
        kernel, pairs = self._kernel(), self.data.get("branches")
        outcomes: list[tuple[Place, bool]] = []
        for pair in pairs if isinstance(pairs, list) else ():
            match pair:
                case [str() as text, ("taken" | "fallthrough") as word] if text:
                    outcomes.append((line_place(text) or Place(text), _OUTCOMES[word]))
                case [int() as line, ("taken" | "fallthrough") as word] if _is_line(line):
                    outcomes.append((Place(line=line), _OUTCOMES[word]))
        if isinstance(pairs, list) and len(pairs) == len(outcomes) == 2:
            both = outcomes[0], outcomes[1]
            return [ExclusiveFact(both, self.source("branches"), kernel)]
        remedy = 'for example branches = [["$L__BB0_2", "taken"], ["$L__BB0_5", "fallthrough"]]'
        message = "branches must be two pairs of a block and how its branch goes"
        self.report("PW243", message, "branches", remedy)
        return []

    def call(self) -> list[CallFact]:
        """A ``[[call]]``."""
        before = len(self.reader.problems)
        kernel, function = self._kernel(), self.data.get("function")
        somewhere = "at" in self.data or "line" in self.data
        place = self._place() if somewhere else None
        if not isinstance(function, str) or not function:
            remedy = 'function = "NAME", as in the PTX'
            self.report("PW243", "the function that is called is missing", "function", remedy)
            return []
        total = self._count("total", f"is {function} called")
        if len(self.reader.problems) > before:
            return []
        if total is None:
            remedy = "total = N: most calls in a run of a warp"
            self.report("PW243", f"nothing is said of calls of {function}", "function", remedy)
            return []
        return [CallFact(function, total, self.source("total"), place, kernel)]

    def parameter(self, name: str, value: object, kernel: str | None) -> list[ParameterFact]:
        """An entry of ``[parameters]``."""
        if isinstance(value, str) and OPEN in value:
            self.report(
                "PW245",
                f"open question: the value of parameter {name}",
                name,
                f'write a number or a range, for example {name} = 1024 or {name} = "1..4096"',
            )
        elif isinstance(value, bool) or not isinstance(value, (int, float, str)):
            remedy = f'for example {name} = 1024 or {name} = "1..4096"'
            self.report("PW243", f"{name} must be a number or a range", name, remedy)
        else:
            return [ParameterFact(name, value, self.source(name), kernel)]
        return []

    def array(self, name: str, value: object, kernel: str | None) -> list[ParameterFact]:
        """An entry of ``[arrays]``."""
        remedy = f'a type and a range, for example {name} = "s32 0..4096"'
        if isinstance(value, str) and OPEN in value:
            message = f"open question: the range of the integers in array {name}"
            self.report("PW245", message, name, f"write {remedy}")
        elif not isinstance(value, str):
            self.report("PW243", f"{name} must be a type and a range", name, remedy)
        else:
            return [ParameterFact(name, value, self.source(name), kernel)]
        return []

    # --- values -----------------------------------------------------------------------------------

    def _kernel(self) -> str | None:
        name, known = self.data.get("kernel"), self.reader.kernels
        if name is None and len(known) == 1:
            return known[0]
        if name is None:
            message = f"kernel is missing, and the PTX has {len(known)} of them"
            shown = ", ".join(readable_names(known).values()) or "none"
            self.report("PW243", message, "kernel", f"its kernels: {shown}")
            return None
        return self.kernel_called(name)

    def _place(self) -> Place | None:
        label, line = self.data.get("at"), self.data.get("line")
        if isinstance(label, str) and label and line is None:
            return Place(label)
        if label is None and _is_line(line):
            return Place(line=line)
        if label is None and isinstance(line, str) and (place := line_place(line)) is not None:
            return place
        key = "at" if label is not None else "line"
        remedy = 'at = "LABEL" (of the PTX), or line = N or "FILE:N" (of the CUDA source)'
        self.report("PW243", "say in one way where this is: a label or a line", key, remedy)
        return None

    def _count(self, key: str, question: str) -> int | None:
        value = self.data.get(key)
        if isinstance(value, str) and OPEN in value:
            kernel = self.data.get("kernel")
            where = f" in kernel {kernel}" if kernel else ""
            message = f"open question: how often {question}{where}?"
            remedy = f"write a number, for example {key} = 64"
            if key == "bound":
                remedy = "write the most body executions for each entry, for example bound = 64"
            self.report("PW245", message, key, remedy)
        elif _is_count(value, 0):
            return value
        elif value is not None:
            remedy = f"for example {key} = 64"
            self.report("PW243", f"{key} must be a number of 0 or more", key, remedy)
        return None

    def _word(self, key: str, known: tuple[str, ...], place: Place | None) -> str | None:
        value = self.data.get(key)
        if value is None or (isinstance(value, str) and value in known):
            return value
        shown = " or ".join(f'"{word}"' for word in known)
        if value == OPEN:
            message = f"open question: what is {key} at the branch at {place}?"
            self.report("PW245", message, key, f"write {shown}")
            return None
        self.report("PW243", f"{key} must be {shown}, not {value!r}", key)
        return None


def _is_line(value: object) -> TypeGuard[int]:
    return _is_count(value, 1) and value < _LONGEST_LINE_NUMBER


def _is_count(value: object, least: int) -> TypeGuard[int]:
    return type(value) is int and least <= value <= _MOST


_Read = Callable[[_Entry, str, object, str | None], list[ParameterFact]]
