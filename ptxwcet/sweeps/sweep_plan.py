"""Plans of sweeps: products of files, kernels, launches, machines and schedules, as units.

The file is TOML with a table ``[[sweep]]`` for each product (docs/plans.md); paths are relative to
the plan. Reading a plan opens and parses its PTX files, once each, for the names of their kernels,
and bounds nothing. Problems are as in plans of checks (PW570 to PW573, PW208, PW301), PW810 (no
values) and PW811 (a mistake in an expression), each with its place; all of a plan are reported at
once. An unreadable PTX file is not a problem of the plan: its units are refused.

The order of units is that of a product whose last factor varies fastest: the axes as they are
written, files, launch files, kernels, block, grid, the other keys of a launch, parameters and loop
bounds as they are written, memory latencies, machines, methods with their policies. Tables follow
one another. Two units may have the same request (``cdiv`` of different axes can be equal): they are
two units, and the cache analyses them once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from math import prod
from pathlib import Path
from typing import Any

from ptxwcet.opened.launch_tables import LINK, PATHS
from ptxwcet.opened.opening import file_digest
from ptxwcet.opened.plan_reading import PlanProblems, open_plan
from ptxwcet.opened.request import Request
from ptxwcet.support.records import dataclass
from ptxwcet.support.toml_places import locate_key, nearest
from ptxwcet.sweeps.cell import Limits
from ptxwcet.sweeps.expressions import LEAST, MOST, NoValueError, Values
from ptxwcet.sweeps.sweep_reading import (
    BOTH_KEYS,
    DEFAULTS,
    LIMITS,
    NUMBER_KEYS,
    POLICY_ALONE,
    TABLE,
    TOP_KEYS,
    AxisError,
    Places,
    TableReader,
    has_scheduled,
    is_number,
    number_expected,
    read_limit,
    read_values,
)
from ptxwcet.sweeps.sweep_tables import Choice, Sources, SweepTable, for_values

MOST_UNITS = 10_000_000
"""Most units of a plan, and most combinations of axes before ``where`` leaves any out."""
_NARROWER = "split the plan, or narrow its axes"
_MOST_SUGGESTED = 1_000
_LOOKED_UP = (*PATHS, "files", "machines")
_LISTED = ("param.", "set.", "loop.")
_MOST_COLUMNS = 1_000
_EXAMPLE = (
    'for example [[sweep]] with files = "build/sgemm_{tm}.ptx", block = "{tm}", grid = [64, 128], '
    "axes = { tm = [16, 32] }"
)


@dataclass(frozen=True, slots=True)
class PlannedUnit:
    """A unit of a plan: a kernel of a file with a launch on a machine.

    ``index`` is its number in the plan, from 0, without gaps; ``table`` is its table's, from 1.
    ``request`` names one kernel; none if the file is unreadable, has no kernel, or has several
    among which only the launch file could choose, and does not. ``values`` has one for each column
    of the plan, None if the table has no such axis or parameter.
    """

    index: int
    table: int
    request: Request
    values: tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A plan without mistakes. Its units are made on demand, in the plan's order.

    ``columns`` are the named axes of all tables, then ``param.NAME`` for each parameter, then
    ``set.KEY`` and ``loop.NAME`` for other keys with several values, or with different values in
    tables, as they are first written.
    """

    path: str
    sha256: str
    limits: Limits
    columns: tuple[str, ...]
    _tables: tuple[SweepTable, ...] = field(repr=False)
    _sources: Sources = field(repr=False)
    _count: int

    def count(self) -> int:
        """Returns the number of units. Cost: constant, they were counted when the plan was read."""
        return self._count

    def integer_columns(self) -> frozenset[str]:
        """Returns the columns with only integers of 64 bits. Cost: linear in the units."""
        texts: set[str] = set()
        for unit in self.units():
            for name, value in zip(self.columns, unit.values, strict=True):
                if value is not None and not (type(value) is int and LEAST <= value <= MOST):
                    texts.add(name)
        return frozenset(self.columns) - texts

    def units(self) -> Iterator[PlannedUnit]:
        """Yields all units, one after the other; each call begins anew, and opens no file.

        Cost: about 10 microseconds a unit; memory does not depend on how many there are.
        """
        index = 0
        for table in self._tables:
            for request, named in table.requests(self._sources):
                values = tuple([named.get(column) for column in self.columns])
                yield PlannedUnit(index, table.number, request, values)
                index += 1


def read_sweep_plan(path: str, kept: Path | None = None) -> SweepPlan:
    """Returns the plan at ``path``. Raises PtxwcetError with all problems found.

    ``kept`` is a cache folder, in which compiled files are found again.

    Cost: linear in the plan, in the PTX files, which are parsed, and in the combinations of axes,
    each of which takes some 10 microseconds.
    """
    file, data = open_plan(path)
    return _Reader(PlanProblems(file, TABLE, _EXAMPLE, kept)).plan(path, data)


class _Reader:
    """Reads one plan."""

    def __init__(self, problems: PlanProblems) -> None:
        self._problems = problems
        self._sources = Sources(problems.folder)
        self._top: Mapping[str, Any] = {}

    def plan(self, path: str, data: Mapping[str, Any]) -> SweepPlan:
        """Returns the plan of these tables. Raises PtxwcetError with every problem."""
        problems = self._problems
        self._top = {key: data[key] for key in DEFAULTS if key in data}
        problems.check_keys(data, None, TOP_KEYS, lambda key, value: None)
        limits = self._limits(data.get("limits", {}))
        tables = problems.tables(data, "product of files, launches and machines")
        for key, value in self._top.items():
            try:
                read_values(key, value)
            except AxisError as error:
                problems.report(error.code, error.message, key, None)
        compiled = [
            TableReader(problems, number, table, self._top).table()
            for number, table in enumerate(tables)
        ]
        self._require_method_for_policies(tables)
        problems.stop()
        good = tuple(table for table in compiled if table is not None)
        columns = _columns(good)
        if len(columns) > _MOST_COLUMNS:
            message = f"more than {_MOST_COLUMNS:,} names of axes and parameters"
            problems.report("PW572", message, TABLE, None)
        combinations = sum(prod(map(len, table.axes.values())) for table in good)
        if combinations > MOST_UNITS:
            message = f"more than {MOST_UNITS:,} combinations of axes"
            problems.report("PW572", message, TABLE, None, _NARROWER)
        problems.stop()
        count = 0
        for table in good:
            count += _Checker(problems, self._sources, table).count()
            if count > MOST_UNITS:
                message = f"more than {MOST_UNITS:,} units"
                problems.report("PW572", message, "files", table.number - 1, _NARROWER)
                break
        problems.stop()
        return SweepPlan(path, file_digest(path), limits, columns, good, self._sources, count)

    def _limits(self, value: object) -> Limits:
        if not isinstance(value, Mapping):
            message = "limits is a table with memory_mib and seconds"
            self._problems.report("PW572", message, "limits", None)
            return Limits()
        read = {}
        for key, limit in value.items():
            span = locate_key(self._problems.file, "limits", key)
            if key not in LIMITS:
                remedy = f"{nearest(key, LIMITS)}known: {', '.join(LIMITS)}"
                message = f"unknown key {key!r}"
                self._problems.report("PW571", message, "limits", None, remedy, span)
                continue
            try:
                read[key] = read_limit(key, limit)
            except AxisError as error:
                self._problems.report(error.code, error.message, "limits", None, None, span)
        return Limits(**read)

    def _require_method_for_policies(self, tables: list[dict[str, Any]]) -> None:
        """Reports PW572 for a policy at the top that no table uses."""
        methods = [table.get("method", self._top.get("method")) for table in tables]
        if "policy" in self._top and methods and not any(map(has_scheduled, methods)):
            self._problems.report("PW572", POLICY_ALONE, "policy", None, BOTH_KEYS)


class _Checker:
    """Checks the combinations of axes of a table, and reports their problems."""

    def __init__(self, problems: PlanProblems, sources: Sources, table: SweepTable) -> None:
        self._problems, self._sources, self._table = problems, sources, table
        self._number = table.number - 1
        self._places = Places(problems, self._number)
        self._required: set[tuple[str, str]] = set()
        self._missing: dict[str, bool] = {}  # names of kernels that no file has so far
        self._suggested: dict[str, None] = {}
        self._paths: set[str] = set()

    def count(self) -> int:
        """Returns how many units the table has, if nothing is reported. Files are opened."""
        table, factor = self._table, self._table.fixed_factor()
        for name in table.link:
            self._problems.require_file(name, LINK, self._number)
        left = {
            path: choice
            for path, choice in table.all_choices()
            if choice.has_templates or path in _LOOKED_UP
        }
        names = {path: choice.names for path, choice in left.items()}
        names[""] = names["files"] | names["launch"] | table.kernels.names
        names[""] |= frozenset(name for one in table.making.values() for name in one.names)
        seen: dict[str, Values] = {}  # the last checked values: equal ones need no check
        is_good, units, subjects, combinations = True, 0, 0, 0
        try:
            for values in table.combinations():
                combinations += 1
                new = [path for path in names if self._is_new(seen, path, values, names[path])]
                for path in new:
                    if path in left and not self._is_value(path, left[path], values):
                        del left[path], names[path]
                        is_good = False
                if self._problems.is_full:
                    return 0
                if not is_good:
                    continue
                if "" in new:
                    subjects = self._count_subjects(values)
                units += subjects * factor
                if units > MOST_UNITS:
                    break
        except NoValueError as error:
            self._places.report("PW811", str(error), "where")
            return 0
        if is_good:
            self._problems.require_use_of_making(self._paths, self._number, is_code=table.is_code)
        if not combinations:
            sizes = (len(table.axes[name]) for name in table.condition_names)
            message = f"where leaves out all of {prod(sizes):,} combinations"
            self._places.report("PW572", message, "where", "loosen a condition: no unit is left")
        for name in self._missing if is_good else ():
            if self._missing[name]:
                self._problems.report_kernel(name, list(self._suggested), self._number)
        return units if is_good else 0

    @staticmethod
    def _is_new(seen: dict[str, Values], path: str, values: Values, names: frozenset[str]) -> bool:
        mine = {name: values[name] for name in names}
        if seen.get(path) == mine:
            return False
        seen[path] = mine
        return True

    def _is_value(self, path: str, choice: Choice, values: Values) -> bool:
        """Returns whether a key has a value for a combination; problems are reported.

        Names of missing files are reported, too, but are values.
        """
        try:
            rendered = choice.values(values)
        except NoValueError as error:
            message = f"{path}: {error}{for_values(values, choice.names)}"
            self._places.report("PW811", message, path)
            return False
        if path in NUMBER_KEYS and not all(is_number(path, each) for each in rendered):
            message = number_expected(path) + for_values(values, choice.names)
            self._places.report("PW572", message, path)
            return False
        for value in rendered if path in _LOOKED_UP else ():
            self._look_up(path, str(value))
        return True

    def _look_up(self, key: str, name: str) -> None:
        """Resolves a name, and reports it if it is unknown; each name once."""
        sources = self._sources
        if key == "files" and name not in sources.files:
            sources.files[name] = self._problems.files_of(name, self._number)
        elif key == "machines" and name not in sources.machines:
            sources.machines[name] = self._problems.machine(name, self._number) or ""
        elif key in PATHS and (key, name) not in self._required:
            self._required.add((key, name))
            self._problems.require_file(name, key, self._number)

    def _count_subjects(self, values: Values) -> int:
        """Counts the files with kernels; notes names of kernels that no file has."""
        table, sources = self._table, self._sources
        names = table.kernels.texts(values)
        codes, is_linked = table.codes(values, sources), bool(table.link)
        self._paths |= {code[0] for code in codes}
        for code in codes:
            if code not in sources.made:
                path, making = code[0], code[1:]
                made = self._problems.made(path, making, self._number, names, is_linked=is_linked)
                sources.made[code] = made
            sources.look_up_loops(code, table.loop_bounds)
        for name in names:
            if self._missing.get(name, True):
                self._missing[name] = not any(sources.has_kernel(code, name) for code in codes)
        if len(self._suggested) < _MOST_SUGGESTED and any(self._missing.values()):
            kernels = (sources.kernels_of(code) or () for code in codes)
            self._suggested |= dict.fromkeys(name for names in kernels for name in names)
        return sum(1 for _ in table.subjects(values, sources))


def _columns(tables: Sequence[SweepTable]) -> tuple[str, ...]:
    axes = dict.fromkeys(name for table in tables for name in table.axes)
    named: dict[str, list[Choice]] = {}
    for table in tables:
        for name, choice in table.named_choices():
            named.setdefault(name, []).append(choice)
    shown = [
        name
        for name, choices in named.items()
        if name.startswith("param.") or not _are_alike(choices, len(tables))
    ]
    kinds = (one for kind in _LISTED for one in shown if one.startswith(kind))
    return tuple(dict.fromkeys((*axes, *kinds)))


def _are_alike(choices: Sequence[Choice], tables: int) -> bool:
    """Returns whether a key has the same value in all units, apart from the axes."""
    first = choices[0].elements
    return (
        len(choices) == tables
        and len(first) == 1
        and all(list(choice.elements) == list(first) for choice in choices)
    )
