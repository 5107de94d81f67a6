"""Reads a table ``[[sweep]]``: its keys, templates and conditions, and their places.

A key has a value, a list or a range. A range is TOML ``{ from = 1024, to = 4096, step = 1024 }``:
both ends are included, and ``step`` is 1 by default. It is stored as Python's ``range``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from keyword import iskeyword
from typing import Any

from ptxwcet.bounds.methods import SAFE_NAME, SCHEDULED, names_to_report
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.opened.launch_tables import (
    KEYS,
    LINK,
    MACHINE_CODE,
    MAKING,
    SIZES,
    TABLES,
    keys_of,
    value_problem,
)
from ptxwcet.opened.plan_reading import PlanProblems, texts
from ptxwcet.simulator.policies import Policy
from ptxwcet.support.options import TEXT, Kind, is_text, whole, words
from ptxwcet.support.source import Span
from ptxwcet.support.toml_places import locate_key, locate_table, nearest
from ptxwcet.sweeps.expressions import (
    FUNCTIONS,
    LEAST,
    MOST,
    Condition,
    ExpressionError,
    Template,
    Value,
    parse_condition,
    parse_template,
)
from ptxwcet.sweeps.sweep_tables import NOTHING, Choice, SweepTable

LIMITS = {"memory_mib": whole(1, 1 << 24), "seconds": whole(1, 1_000_000)}
"""The keys of ``[limits]``."""

RESULT_COLUMNS = (
    *("unit", "key", "file", "file_sha256", "kernel", "readable", "machine", "machine_sha256"),
    *("memory_latency", "block", "grid", "method", "policy", "outcome", "of", "cycles", "seconds"),
    *("guarantee", "block_cycles", "launch_cycles", "assumptions", "code", "message", "version"),
    "sources_sha256",
)
"""The columns that all results have, in their order (tables.py): no axis has the name of one."""

DEFAULTS = ("machines", *keys_of("sweep", at_top=True))
"""The keys that are valid at the top, as defaults of the tables."""
TOP_KEYS = (*DEFAULTS, "limits", "sweep")
TABLE_KEYS = ("files", "kernels", "machines", *keys_of("sweep"), "where", "axes")

NUMBER_KEYS = keys_of("sweep", whole().rank)
"""Keys that hold whole numbers."""
_RANGED = (*SIZES, *NUMBER_KEYS)
_POLICIES = tuple(policy.value for policy in Policy)
_MOST_PARAMETER = (1 << 64) - 1
_LONGEST_AXIS_TEXT = 1_000
_MOST_LISTED = 10_000
_MOST_OF_RANGE = 1_000_000
_RANGE_KEYS = ("from", "to", "step")
_AXIS_NAME = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)

TABLE = "sweep"
"""The name of the tables of a plan."""
_MOST_AXES = 32
_CHOICES = [key for key in keys_of("sweep") if key not in (*DEFAULTS, *TABLES, LINK, "launch")]

POLICY_ALONE = "a policy says nothing here: no method is 'scheduled'"
"""The message about a policy that no method needs."""
_METHOD_ALONE = "the method scheduled needs to know the scheduling policy"
BOTH_KEYS = 'for example method = ["safe", "scheduled"], policy = ["gto", "lrr"]'
"""How method and policy go together."""


def has_scheduled(methods: object) -> bool:
    """Returns whether the value of a key is the method scheduled, or a list with it."""
    return methods == SCHEDULED or (isinstance(methods, list) and SCHEDULED in methods)


class Places:
    """The places of the keys of one table in the text, and of mistakes in its texts."""

    def __init__(self, problems: PlanProblems, number: int) -> None:
        self._problems = problems
        self._number = number

    def report(
        self,
        code: str,
        message: str,
        path: str,
        remedy: str | None = None,
        span: Span | None = None,
    ) -> None:
        """Adds a problem of a key, ``block``, or of an entry of a table, ``params.n``."""
        span = span or self.span(path)
        self._problems.report(code, message, path, self._number, remedy, span)

    def report_mistake(self, error: ExpressionError, path: str, text: str) -> None:
        """Adds PW811, at its place in the text if the plan contains it literally."""
        place = self._span_of_text(path, text)
        if place is not None:
            place = Span(place.source, place.start + error.start, place.start + error.end)
        within = "" if place is not None else f" (in {text[:200]!r}, character {error.start + 1})"
        message = f"{path}: {error.message}{within}"
        self.report("PW811", message, path, error.remedy, place)

    def span(self, path: str) -> Span | None:
        """Returns the entry of a key; None if only its table is known, or not even that."""
        file, number = self._problems.file, self._number
        table, dot, name = path.partition(".")
        if dot:
            part = self._part(table)
            if part is not None:
                within = f"{TABLE}.{table}"
                return locate_key(file, within, name, part) or locate_table(file, within, part)
            return locate_key(file, TABLE, path, number) or locate_key(file, TABLE, table, number)
        return locate_key(file, TABLE, path, number) or (
            locate_key(file, "", path) if path in DEFAULTS else None
        )

    def _part(self, table: str) -> int | None:
        """Returns the number of the header ``[sweep.axes]`` of this table; None without one."""
        file = self._problems.file
        begin = locate_table(file, TABLE, self._number)
        end = locate_table(file, TABLE, self._number + 1)
        part = 0
        while begin is not None:
            header = locate_table(file, f"{TABLE}.{table}", part)
            if header is None or (end is not None and header.start > end.start):
                return None
            if header.start > begin.start:
                return part
            part += 1
        return None

    def _span_of_text(self, path: str, text: str) -> Span | None:
        """Returns a text of a key, without its quotes; None if it is not written as it is."""
        entry = self.span(path)
        if entry is None:
            return None
        file = self._problems.file
        end = locate_table(file, TABLE, self._number + 1)
        for quote in "\"'":
            start = file.text.find(f"{quote}{text}{quote}", entry.start)
            if start >= 0 and (end is None or start < end.start):
                return Span(file, start + 1, start + 1 + len(text))
        return None


class TableReader:
    """Reads one table: its keys, templates and conditions. Nothing is opened."""

    def __init__(
        self, problems: PlanProblems, number: int, table: Mapping[str, Any], top: Mapping[str, Any]
    ) -> None:
        self._problems = problems
        self._places = Places(problems, number)
        self._number = number
        self._own = table
        self._table = {**top, **table}
        self._axes: dict[str, Sequence[int | str]] = {}
        self._used: set[str] = set()
        self._is_good = True

    def table(self) -> SweepTable | None:
        """Returns the table, None if it has mistakes, which are reported."""
        problems = self._problems
        problems.check_keys(self._own, self._number, TABLE_KEYS, lambda key, value: None)
        if "files" not in self._own:
            self._report("PW572", "files is missing: PTX or CUDA source to analyse", "files")
        self._read_axes(self._own.get("axes", {}))
        files = self._choice("files")
        launches, kernels = self._choice("launch"), self._choice("kernels")
        choices = {key: self._choice(key) for key in _CHOICES if key in self._own}
        making = {key: self._choice(key) for key in (*MAKING, MACHINE_CODE)}
        parameters, loop_bounds = self._named("params"), self._named("loop_bounds")
        latencies = self._choice("memory_latency")
        machines = self._choice("machines", [DEFAULT_MACHINE])
        schedules, link = self._schedules(), self._own.get(LINK, ())
        problem = value_problem(LINK, link) if LINK in self._own else None
        if problem is not None:
            self._report("PW572", problem, LINK)
        where = self._conditions()
        for name in self._axes if self._is_good else ():
            if name not in self._used:
                message = f"axis {name} is in no template: it would repeat every unit"
                remedy = f"write {{{name}}} where its value belongs, or leave it out"
                self._report("PW572", message, f"axes.{name}", remedy)
        if not self._is_good:
            return None
        return SweepTable(
            *(self._number + 1, self._axes, where, files, making, launches, kernels, choices),
            *(parameters, loop_bounds, latencies, machines, schedules, tuple(texts(link))),
        )

    def _report(self, code: str, message: str, path: str, remedy: str | None = None) -> None:
        self._is_good = False
        self._places.report(code, message, path, remedy)

    def _read(
        self, path: str, read: Callable[..., Sequence[Any]], *arguments: object
    ) -> Sequence[Any]:
        """Returns the result of ``read``; empty if it raises, which is reported."""
        try:
            return read(*arguments)
        except AxisError as error:
            self._report(error.code, error.message, path)
            return ()

    def _read_axes(self, axes: object) -> None:
        if not isinstance(axes, Mapping):
            self._report("PW572", "axes is a table of names and their values", "axes")
            return
        if len(axes) > _MOST_AXES:
            self._report("PW572", f"more than {_MOST_AXES} axes", "axes")
            return
        for name, value in axes.items():
            values = self._read(f"axes.{name}", read_axis, name, value)
            if values:
                self._axes[name] = values
            else:
                self._axes[name] = (0,)  # so that uses of the name are not reported as well

    def _choice(self, key: str, default: Sequence[Value] = ()) -> Choice:
        """Returns the values of a key that is not a table."""
        if key not in self._table:
            return Choice(default, False)
        if key not in self._own:
            try:
                values = read_values(key, self._table[key])
            except AxisError:  # reported at the top
                self._is_good = False
                return NOTHING
        else:
            values = self._read(key, read_values, key, self._table[key])
        return self._compiled(key, values, key in NUMBER_KEYS)

    def _named(self, key: str) -> dict[str, Choice]:
        """Returns the values of a table of parameters or loops."""
        table = self._own.get(key, {})
        if not isinstance(table, Mapping):
            self._report("PW572", f"{key} is a table of names and their values", key)
            return {}
        choices = {}
        for name, value in table.items():
            path = f"{key}.{name}"
            values = self._read(path, read_named_values, key, name, value)
            choices[name] = self._compiled(path, values, False)
        return choices

    def _compiled(self, path: str, values: Sequence[Value], is_number: bool) -> Choice:
        """Values with templates in the place of texts that have braces."""
        if isinstance(values, range) or not any(
            isinstance(value, str) and ("{" in value or "}" in value or is_number)
            for value in values
        ):
            return Choice(values, False)
        elements: list[Value | Template] = []
        for value in values:
            if not isinstance(value, str):
                elements.append(value)
                continue
            try:
                template = parse_template(value)
            except ExpressionError as error:
                self._mistake(error, path, value)
                continue
            if is_number and not template.is_one_expression:
                self._report("PW572", number_expected(path), path)
            self._require_axes(template.names, path, value)
            self._used |= template.names.keys()
            elements.append(template)
        return Choice(elements, True)

    def _mistake(self, error: ExpressionError, path: str, text: str) -> None:
        self._is_good = False
        self._places.report_mistake(error, path, text)

    def _require_axes(self, names: Mapping[str, tuple[int, int]], path: str, text: str) -> None:
        """Reports PW811 for names that are not axes."""
        for name, place in names.items():
            if name in self._axes:
                continue
            known = ", ".join(self._axes) or "none"
            remedy = f"{nearest(name, self._axes)}the axes are: {known}"
            params = self._own.get("params")
            if isinstance(params, Mapping) and name in params:
                remedy = f'{name} is a parameter: make it an axis, and write {name} = "{{{name}}}"'
            self._mistake(ExpressionError(f"no axis {name!r}", *place, remedy), path, text)

    def _conditions(self) -> tuple[Condition, ...]:
        if "where" not in self._own:
            return ()
        conditions = []
        for text in self._read("where", read_values, "where", self._own["where"]):
            try:
                condition = parse_condition(text)
            except ExpressionError as error:
                self._mistake(error, "where", text)
                continue
            self._require_axes(condition.names, "where", text)
            conditions.append(condition)
        return tuple(conditions)

    def _schedules(self) -> tuple[tuple[str, str | None], ...]:
        """Returns each method, the method scheduled with each policy."""
        methods = self._choice("method", [SAFE_NAME]).elements
        policies = self._choice("policy").elements
        is_scheduled = has_scheduled(list(methods))
        if methods and is_scheduled and "policy" not in self._table:
            self._report("PW572", _METHOD_ALONE, "method", BOTH_KEYS)
        if methods and "policy" in self._own and not is_scheduled:
            self._report("PW572", POLICY_ALONE, "policy", BOTH_KEYS)
        return tuple(
            (str(method), policy)
            for method in methods
            for policy in (map(str, policies) if method == SCHEDULED else (None,))
        )


# --- The values of keys ---------------------------------------------------------------------------


class AxisError(Exception):
    """Values that cannot be an axis: the code of the problem, and the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def _listed(value: object, key: str) -> Sequence[object]:
    """Returns the values that a value of TOML lists: a list, a range, or a single value.

    ``what`` is its name in messages. The values of a list are not checked. Raises AxisError: PW810
    for an empty list or range, PW571 and PW572 for a range with mistakes, PW572 for too many
    values.
    """
    if isinstance(value, Mapping):
        return _range(value, key)
    if not isinstance(value, list):
        return (value,)
    if not value:
        raise AxisError("PW810", f"{key} has no values: the list is empty")
    if len(value) > _MOST_LISTED:
        raise AxisError("PW572", f"{key} has more than {_MOST_LISTED:,} values")
    return tuple(value)


def _range(table: Mapping[str, object], subject: str) -> range:
    """Returns the integers of a table with from, to and perhaps step. Raises AxisError."""
    unknown = [key for key in table if key not in _RANGE_KEYS]
    if unknown:
        message = f"{subject}: a range has from, to and step, not {unknown[0]!r}"
        raise AxisError("PW571", message)
    ends: list[int] = []
    for key in _RANGE_KEYS:
        number = table.get(key, 1 if key == "step" else None)
        if type(number) is not int or not LEAST <= number <= MOST:
            message = f"{subject}: {key} of a range is a whole number of 64 bits"
            raise AxisError("PW572", message if key in table else f"{message}, and is missing")
        ends.append(number)
    first, last, step = ends
    if step < 1:
        raise AxisError(
            "PW810", f"{subject} has no values: its step is {step}, and has to be 1 or more"
        )
    if last < first:
        raise AxisError("PW810", f"{subject} has no values: it is from {first} to {last}")
    if (last - first) // step >= _MOST_OF_RANGE:
        raise AxisError("PW572", f"{subject} has more than {_MOST_OF_RANGE:,} values")
    return range(first, last + 1, step)


def read_values(key: str, value: object) -> Sequence[Value]:
    """Returns the values of a key of a table or the top. Raises AxisError: PW571, PW572, PW810."""
    kind = _kind(key)
    if isinstance(value, Mapping) and key not in _RANGED:
        raise AxisError("PW572", f"{key} is {kind.listed}")

    def is_good(one: object) -> bool:
        return kind.is_value(one) or (key in NUMBER_KEYS and is_text(one))

    return _fitting(_listed(value, key), is_good, f"{key} is {kind.listed}")


def _fitting(values: Sequence[Any], is_good: Callable[[Any], bool], expected: str) -> Sequence[Any]:
    """Returns the values. Raises AxisError (PW572) if one is invalid, or an end of a range."""
    ends = (values[0], values[-1]) if isinstance(values, range) else values
    if not all(map(is_good, ends)):
        raise AxisError("PW572", expected)
    return values


def _kind(key: str) -> Kind:
    """Returns the kind of the values of a key that is no table."""
    if key not in ("method", "policy"):
        return KEYS[key].kind if key in KEYS else TEXT
    known = names_to_report() if key == "method" else _POLICIES
    listed = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}, or a list of them"
    return replace(words(*known), listed=listed)


def is_number(key: str, value: object) -> bool:
    """Returns whether a value is a number that a key of NUMBER_KEYS may have."""
    return KEYS[key].kind.is_value(value)


def number_expected(key: str) -> str:
    """Returns the text of the required value of a key of NUMBER_KEYS."""
    return f"{key} is {KEYS[key].kind.held}"


def read_named_values(table: str, name: str, value: object) -> Sequence[Value]:
    """Returns the values of a parameter or of a loop. Raises AxisError: PW571, PW572, PW810."""
    subject = f"{name!r} of {table}"
    if not name or "=" in name:
        raise AxisError("PW572", f"{subject} is no name")

    def is_good(one: object) -> bool:
        is_whole = type(one) is int and LEAST <= one <= _MOST_PARAMETER
        return is_whole or (type(one) is float and math.isfinite(one)) or is_text(one)

    expected = f"{subject} is a number or a text, a list or a range of numbers"
    return _fitting(_listed(value, subject), is_good, expected)


def read_axis(name: str, value: object) -> Sequence[int | str]:
    """Returns the values of an axis. Raises AxisError: PW571, PW572, PW810."""
    if _AXIS_NAME.fullmatch(name) is None or iskeyword(name):
        message = f"{name!r} cannot name an axis: take letters, digits and _, up to 64"
        raise AxisError("PW572", message)
    if name in FUNCTIONS:
        raise AxisError("PW572", f"{name!r} cannot name an axis: it is a function")
    if name in RESULT_COLUMNS:
        raise AxisError("PW572", f"{name!r} cannot name an axis: it is a column of all results")

    def is_good(one: object) -> bool:
        is_whole = type(one) is int and LEAST <= one <= MOST
        return is_whole or (isinstance(one, str) and 0 < len(one) <= _LONGEST_AXIS_TEXT)

    what = f"whole numbers of 64 bits or texts of up to {_LONGEST_AXIS_TEXT:,} characters"
    expected = f"axis {name} has values that are not {what}"
    return _fitting(_listed(value, f"axis {name}"), is_good, expected)


def read_limit(key: str, value: Any) -> int:
    """Returns the value of a key of ``[limits]``. Raises AxisError (PW572)."""
    if not LIMITS[key].is_value(value):
        raise AxisError("PW572", f"{key} is {LIMITS[key].held}")
    return int(value)
