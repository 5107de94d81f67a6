"""Checks the text of a machine file: keys, types, ranges, totality; all problems at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ptxwcet.claims import AssumptionState
from ptxwcet.ir.instruction_set import find_opcode
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.permitted import matching
from ptxwcet.machine.assumptions import ALONE, ASSUMPTIONS, CLAIMS, HASHED_SETS
from ptxwcet.machine.model import Evidence, Reader, TimingMeaning
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.source import SourceFile, Span
from ptxwcet.support.toml_places import MOST_PROBLEMS, locate_key, locate_table, nearest
from ptxwcet.warp.program import Scoreboard

SCHEMA = 1
"""The schema number of the machine files that this version reads."""

MOST_CYCLES = 10**6
"""The upper limit of every initiation, latency and of the memory latency: above any device."""

Table = dict[str, Any]

_SCALARS: Mapping[str, type] = {
    "schema": int,
    "name": str,
    "description": str,
    "extends": str,
    "scoreboard": str,
    "timings": str,
    "issues_return": bool,
    "taken_branch_bubble_cycles": int,
    "schedulers_per_sm": int,
    "clock_mhz": int,
    "memory_latency_cycles": int,
    "compute_capability": str,
}
_OPTIONAL_SCALARS = ("extends", "compute_capability")
_TABLES = ("limits", "units", "sources", "ops", "satisfies")
_OPTIONAL_TABLES = (
    "occupancy",
    "dispatch",
    "expansion",
    "memory",
    "carve_out",
    "l1_cache",
    "l2_cache",
    "makespan",
)
_LETTERS = ("L", "C")
LIMITS = (
    "threads_per_block",
    "shared_bytes_per_block",
    "threads_per_sm",
    "blocks_per_sm",
    "registers_per_sm",
    "shared_bytes_per_sm",
)
"""The keys of the ``limits`` table."""
_OCCUPANCY: Mapping[str, tuple[int, int]] = {
    "sms": (1, 1024),
    "registers_per_thread": (1, 1024),
    "registers_per_block": (1, 1 << 30),
    "registers_per_warp_unit": (1, 1 << 16),
    "register_partitions": (1, 64),
    "shared_bytes_unit": (1, 1 << 20),
    "shared_bytes_reserved_per_block": (0, 1 << 20),
}
_DISPATCH: Mapping[str, tuple[int, int]] = {
    "delay_cycles": (0, MOST_CYCLES),
    "gap_cycles": (0, MOST_CYCLES),
    "launch_overhead_cycles": (0, 1000 * MOST_CYCLES),
}
_EXPANSION: Mapping[str, tuple[int, int]] = {
    "target": (75, 90),
    **{
        f"{kind}_{part}_cycles": (1, MOST_CYCLES)
        for kind in ("ordinary", "special", "double")
        for part in ("issue", "row")
    },
}
_TARGETS = (75, 80, 86, 90)
"""The architectures for which instruction counts are available."""
_MEMORY: Mapping[str, tuple[int, int]] = {
    "line_cycles": (0, MOST_CYCLES),
    "pass_cycles": (0, MOST_CYCLES),
    "word_cycles": (0, MOST_CYCLES),
    "serial_cycles": (0, MOST_CYCLES),
    "path_request_cycles": (0, MOST_CYCLES),
    "path_line_cycles": (0, MOST_CYCLES),
    "path_stored_line_cycles": (0, MOST_CYCLES),
    "path_pass_cycles": (0, MOST_CYCLES),
    "server_cycles_per_1024_sectors": (0, 1024 * MOST_CYCLES),
    "server_worst_cycles_per_1024_sectors": (0, 1024 * MOST_CYCLES),
    "partial_sector_fetches": (0, 1),
}
_SECTOR = 32
_CARVE_OUT: Mapping[str, tuple[int, int]] = {
    "carve_out_bytes": (1, 1 << 40),
    "unit_bytes": (_SECTOR, 1 << 16),
    "cache_cycles_per_1024_sectors": (0, 1024 * MOST_CYCLES),
}
_L1: Mapping[str, tuple[int, int]] = {"kept_bytes": (128, 1 << 30)}
_L2: Mapping[str, tuple[int, int]] = {
    "bytes": (128, 1 << 40),
    "kept_bytes": (128, 1 << 40),
    "cache_cycles_per_1024_sectors": (0, 1024 * MOST_CYCLES),
    "sets": (1, 1 << 30),
    "ways": (1, 1 << 20),
}
FIGURES = {
    "occupancy": _OCCUPANCY,
    "dispatch": _DISPATCH,
    "expansion": _EXPANSION,
    "memory": _MEMORY,
    "carve_out": _CARVE_OUT,
    "l1_cache": _L1,
    "l2_cache": _L2,
}
"""The optional tables of figures, with their keys."""
OPTIONAL_FIGURES = frozenset(
    {
        "path_stored_line_cycles",
        "server_worst_cycles_per_1024_sectors",
        "partial_sector_fetches",
        *("sets", "ways"),
    }
)
"""The optional figures of a table: without one, the worst of the stated figures is charged."""
_RANGES: Mapping[str, tuple[int, int]] = {
    "taken_branch_bubble_cycles": (0, MOST_CYCLES),
    "schedulers_per_sm": (1, 64),
    "clock_mhz": (1, 100_000),
    "memory_latency_cycles": (1, MOST_CYCLES),
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "scoreboard": tuple(kind.value for kind in Scoreboard),
    "timings": tuple(kind.value for kind in TimingMeaning),
}
_TIMING_KEYS = ("unit", "initiation_cycles", "latency_cycles", "evidence", "source")
_SWITCHES = ("upper", "stalls")
_OPTIONAL_KEYS = (*_SWITCHES, "readers", "rates", "forms")
_RATES = ("f16", "tf32", "f8", "int8", "shared_bytes", "register_factor")
"""The rates of warpgroup products: operations per cycle and SM by kind of factor, bytes from shared
memory, and the additional cycles of a factor in registers."""
_READERS = tuple(reader.value for reader in Reader)
_LATENCY_KEYS = ("memory_latency", "plus", "at_least")
_ASSUMPTION_KEYS = ("state", "source")
_FIGURE_KEYS = ("value", "evidence", "source")


def locate(file: SourceFile, table: str, key: str) -> Span | None:
    """Returns the span of ``key`` of ``table`` in a TOML text; None if it is absent."""
    whole = f"{table}.{key}" if table else key
    return locate_table(file, whole) or locate_key(file, table, key)


class Checker:
    """The check of one file: ``check_text`` of its own keys, ``check_whole`` of all keys."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.problems: list[Diagnostic] = []

    def report(self, code: str, message: str, place: tuple[str, str], help: str = "") -> None:
        """Adds a problem at ``place``, a pair of table name ("" for the top level) and key."""
        if len(self.problems) >= MOST_PROBLEMS:
            return
        self.problems.append(
            Diagnostic(code, message, locate(self.file, *place), help=help or None)
        )

    def check_text(self, data: Table) -> None:
        """Checks keys and types that the file itself writes."""
        for key, value in data.items():
            if key in _TABLES + _OPTIONAL_TABLES:
                if not isinstance(value, dict):
                    self.report("PW306", f"{key} must be a table", ("", key))
            elif key not in _SCALARS:
                listed = ", ".join((*_SCALARS, *_TABLES, *_OPTIONAL_TABLES))
                near = nearest(key, (*_SCALARS, *_TABLES, *_OPTIONAL_TABLES))
                self.report("PW305", f"unknown key {key}", ("", key), f"{near}known keys: {listed}")
            elif not _has_type(value, _SCALARS[key]):
                wanted = _SCALARS[key].__name__
                self.report("PW306", f"{key} must be of type {wanted}", ("", key))
            elif key in _CHOICES and value not in _CHOICES[key]:
                allowed = " or ".join(_CHOICES[key])
                self.report("PW306", f"{key} must be {allowed}, not {value!r}", ("", key))
            elif key in _RANGES:
                self._integer(value, _RANGES[key], key, ("", key))
            elif key == "compute_capability" and not re.fullmatch(r"[1-9][0-9]?\.[0-9]", value):
                message = f"compute_capability must be like '8.9', not {value!r}"
                self.report("PW306", message, ("", key))
        self._schema(data.get("schema"))
        for name, value in _entries(data, "ops"):
            self._op(name, value)
        for name, value in _entries(data, "units"):
            self._integer(value, (1, 64), f"the count of unit {name}", ("units", name))
        for name, value in _entries(data, "limits"):
            if name not in LIMITS:
                listed = f"{nearest(name, LIMITS)}known: {', '.join(LIMITS)}"
                self.report("PW305", f"unknown limit {name}", ("limits", name), listed)
            else:
                self._integer(value, (1, 1 << 30), name, ("limits", name))
        for name, value in _entries(data, "satisfies"):
            self._assumption(name, value)
        for table in FIGURES:
            for name, value in _entries(data, table):
                self._figure(table, name, value)
        for name, value in _entries(data, "makespan"):
            if value not in _LETTERS:
                allowed = " or ".join(_LETTERS)
                self.report("PW306", f"makespan: unit {name} is {allowed}", ("makespan", name))
        for name, value in _entries(data, "sources"):
            if not isinstance(value, str) or not value.strip():
                self.report("PW306", f"source {name} must be a text", ("sources", name))

    def check_whole(self, data: Table) -> None:
        """Checks the file merged with its base: is it complete, and do references hold?"""
        for key in (*_SCALARS, *_TABLES):
            if key not in _OPTIONAL_SCALARS and key not in data:
                self.report("PW306", f"{key} is missing", ("", key))
        for name in LIMITS:
            if name not in data.get("limits", {}):
                self.report("PW306", f"limit {name} is missing", ("", "limits"))
        ops, units = data.get("ops", {}), data.get("units", {})
        missing = [op.value for op in OpClass if op.value not in ops]
        if missing:
            self.report(
                "PW308",
                f"no row for op class {', '.join(missing)}",
                ("", "ops"),
                'give a timing, or { refuse = "reason" }',
            )
        for name, timing in ops.items():
            unit = timing.get("unit") if isinstance(timing, dict) else None
            if isinstance(unit, str) and unit not in units:
                listed = ", ".join(units) or "none"
                self.report(
                    "PW309",
                    f"op class {name} uses unit {unit}, which is not declared",
                    ("ops", name),
                    f"declared units: {listed}",
                )
            self._source(name, timing, data.get("sources", {}), ("ops", name))
            exact = data.get("timings") == TimingMeaning.EXACT.value
            if exact and isinstance(timing, dict) and "readers" in timing:
                message = f"op class {name}: readers are for a file of upper timings"
                help = 'a result is charged for its slowest reader: say timings = "upper"'
                self.report("PW306", message, ("ops", name), help)
        for table, known_figures in FIGURES.items():
            for name in known_figures if table in data else ():
                if name not in data[table] and name not in OPTIONAL_FIGURES:
                    self.report("PW306", f"{table} figure {name} is missing", ("", table))
            for name, figure in data.get(table, {}).items():
                self._source(name, figure, data.get("sources", {}), (table, name))
        self._rates(data)
        for name, _ in _entries(data, "makespan"):
            if name not in units:
                listed = ", ".join(units) or "none"
                message = f"makespan: unit {name} is not declared"
                place = ("makespan", name)
                self.report("PW309", message, place, f"declared units: {listed}")
        for name, stated in data.get("satisfies", {}).items():
            self._source(name, stated, data.get("sources", {}), ("satisfies", name))
        absent = [key for key in ASSUMPTIONS if key not in data.get("satisfies", {})]
        if absent:
            self.report("PW312", f"no state for assumption {', '.join(absent)}", ("", "satisfies"))
        self._alone(data)
        self._cache(data)

    def _cache(self, data: Table) -> None:
        """Checks that claims of a cache have the cache and its memory, and do not exceed them."""
        for key, (table, _) in CLAIMS.items():
            if key in data.get("satisfies", {}) and not {table, "memory"} <= data.keys():
                others = "" if table == "memory" else f" [{table}] and"
                message = f"assumption {key} is about the tables{others} [memory]"
                self.report("PW312", message, ("satisfies", key), "give both, or leave it out")
        figures: dict[str, int] = {
            name: entry["value"]
            for name, entry in _entries(data, "l2_cache")
            if isinstance(entry, dict) and _has_type(entry.get("value"), int)
        }
        there, claims = figures.get("bytes"), data.get("satisfies", {})
        if there is not None and figures.get("kept_bytes", 0) > there:
            kept = figures["kept_bytes"]
            message = f"l2_cache figure kept_bytes is {kept}: the cache has {there}"
            self.report("PW310", message, ("l2_cache", "kept_bytes"))
        if HASHED_SETS in claims and figures and not {"sets", "ways"} <= figures.keys():
            message = f"assumption {HASHED_SETS} is about sets and ways of [l2_cache]"
            self.report("PW312", message, ("satisfies", HASHED_SETS), "give both, or leave it out")
        sets = figures.get("sets", 1)
        if sets & (sets - 1):
            message = f"l2_cache figure sets is {sets}: it must be a power of two"
            self.report("PW310", message, ("l2_cache", "sets"))
        lines = sets * figures.get("ways", 1)
        if there is not None and 128 * lines > there:
            message = (
                f"l2_cache has {lines} lines of 128 bytes in sets: the cache has {there} bytes"
            )
            self.report("PW310", message, ("l2_cache", "ways"))
        key = "cache_cycles_per_1024_sectors"
        both = [dict(_entries(data, table)).get(key) for table in ("l2_cache", "carve_out")]
        stated = {entry["value"] for entry in both if isinstance(entry, dict) and "value" in entry}
        if len(stated) > 1:
            message = f"{key} of [l2_cache] and of [carve_out] differ: it is one cache"
            self.report("PW310", message, ("l2_cache", key))

    def _rates(self, data: Table) -> None:
        """Checks that a memory's worst cycles per 1024 sectors are at least those for streams."""
        names = "server_cycles_per_1024_sectors", "server_worst_cycles_per_1024_sectors"
        rows = dict(_entries(data, "memory"))
        figures = [rows[name] for name in names if isinstance(rows.get(name), dict)]
        values = [figure["value"] for figure in figures if _has_type(figure.get("value"), int)]
        if len(values) == 2 and values[1] < values[0]:
            self.report(
                "PW310",
                f"memory figure {names[1]} is {values[1]}: the worst rate is at least that of "
                f"streams, {values[0]}",
                ("memory", names[1]),
            )

    def _alone(self, data: Table) -> None:
        """Checks that an SM with several blocks does not claim that a block is alone."""
        stated = dict(_entries(data, "satisfies")).get(ALONE)
        state = stated.get("state") if isinstance(stated, dict) else None
        held = dict(_entries(data, "limits")).get("blocks_per_sm")
        if state == AssumptionState.BY_DEFINITION.value and held != 1:
            self.report(
                "PW312",
                f"assumption {ALONE} is not true by definition: an SM holds {held} blocks",
                ("satisfies", ALONE),
                "its state is assumed, or blocks_per_sm is 1",
            )

    # --- entries ----------------------------------------------------------------------------------

    def _schema(self, schema: object) -> None:
        if schema is None:
            self.report("PW304", "the file has no schema number", ("", "schema"))
        elif schema != SCHEMA:
            self.report(
                "PW304",
                f"schema {schema} is not supported: this version reads schema {SCHEMA}",
                ("", "schema"),
            )

    def _op(self, name: str, timing: object) -> None:
        place = ("ops", name)
        if name not in _OP_NAMES:
            self.report(
                "PW307",
                f"unknown op class {name}",
                place,
                f"{nearest(name, _OP_NAMES)}known: {', '.join(_OP_NAMES)}",
            )
            return
        if not isinstance(timing, dict):
            self.report("PW306", f"op class {name} must be a table", place)
            return
        if "refuse" in timing:
            if set(timing) != {"refuse"} or not _is_text(timing["refuse"]):
                message = f"op class {name}: refuse takes a reason and nothing else"
                self.report("PW306", message, place)
            return
        for key in timing:
            allowed = _TIMING_KEYS + _OPTIONAL_KEYS
            if key not in allowed:
                listed = f"{nearest(key, allowed)}known: {', '.join(allowed)}"
                self.report("PW305", f"op class {name}: unknown key {key}", place, listed)
        for key in _TIMING_KEYS:
            if key not in timing:
                self.report("PW306", f"op class {name}: {key} is missing", place)
        for key in _SWITCHES:
            if not _has_type(timing.get(key, False), bool):
                self.report("PW306", f"op class {name}: {key} must be true or false", place)
        if timing.get("stalls") and name != OpClass.FENCE.value:
            self.report("PW306", f"op class {name}: stalls is for fence alone", place)
        for key in ("unit", "source"):
            if key in timing and not _is_text(timing[key]):
                self.report("PW306", f"op class {name}: {key} must be a text", place)
        if "initiation_cycles" in timing:
            subject = f"op class {name}: initiation_cycles"
            self._integer(timing["initiation_cycles"], (1, MOST_CYCLES), subject, place)
        if "latency_cycles" in timing:
            self._latency(name, timing["latency_cycles"])
        if "readers" in timing:
            self._readers(name, timing["readers"], timing.get("latency_cycles"))
        if "rates" in timing or name in _RATES_OF:
            self._rates_of(name, timing.get("rates"))
        if "forms" in timing:
            self._forms(name, timing)
        if "evidence" in timing:
            self._evidence(timing["evidence"], f"op class {name}", place)

    def _forms(self, name: str, timing: Table) -> None:
        """Checks figures of instructions of the class that take less or more than its row."""
        place, subject, forms = ("ops", name), f"op class {name}: forms", timing["forms"]
        if not isinstance(forms, dict) or not forms:
            self.report("PW306", f"{subject} must be a table of [initiation, latency]", place)
            return
        if "rates" in timing:
            self.report("PW306", f"{subject} do not go with rates", place)
            return
        for form, figures in forms.items():
            opcode, count = find_opcode(form.split("."))
            words = form.split(".")[count:]
            if (
                opcode is None
                or not opcode.is_judged(words)
                or not matching(opcode.forms, words)[0]
            ):
                self.report("PW305", f"{subject}: PTX has no instruction {form}", place)
            elif opcode.op_class(words).value != name:
                message = f"{subject}: {form} is of op class {opcode.op_class(words).value}"
                self.report("PW305", message, place)
            elif (
                not isinstance(figures, list)
                or len(figures) != 2
                or not all(_has_type(figure, int) for figure in figures)
            ):
                self.report("PW306", f"{subject}: {form} must be [initiation, latency]", place)
            else:
                self._integer(figures[0], (1, MOST_CYCLES), f"{subject}: {form}: initiation", place)
                self._integer(figures[1], (0, MOST_CYCLES), f"{subject}: {form}: latency", place)

    def _readers(self, name: str, readers: object, latency: object) -> None:
        """Checks latencies to some readers; all others wait for ``latency``, the maximum."""
        place, subject = ("ops", name), f"op class {name}: readers"
        if not isinstance(readers, dict) or not readers:
            self.report("PW306", f"{subject} must be a table of latencies", place)
            return
        if name == OpClass.BARRIER.value or not _has_type(latency, int):
            message = f"{subject} need a latency_cycles that is a number, and no barrier"
            self.report("PW306", message, place)
            return
        assert isinstance(latency, int)
        for key, cycles in readers.items():
            if key not in _READERS:
                listed = f"{nearest(key, _READERS)}known: {', '.join(_READERS)}"
                self.report("PW305", f"{subject}: unknown reader {key}", place, listed)
            else:
                self._integer(cycles, (0, latency), f"{subject}: {key}", place)

    def _rates_of(self, name: str, rates: object) -> None:
        """Checks the rates of warpgroup products and bulk copies, and the period of a wait's
        queries; an analysis refuses kinds without a figure.
        """
        place, subject = ("ops", name), f"op class {name}: rates"
        allowed, needed = _RATES_OF.get(name, ((), ""))
        least = 2 if name == OpClass.MMA_ASYNC.value else 1
        if not allowed:
            self.report("PW306", f"{subject} are for {', '.join(_RATES_OF)} alone", place)
        elif not isinstance(rates, dict) or len(rates) < least or (needed and needed not in rates):
            wanted = (
                "shared_bytes and a kind of factor" if least > 1 else needed or "a kind of wait"
            )
            message = f"{subject} must be a table with {wanted}"
            self.report("PW306", message, place, f"known: {', '.join(allowed)}")
        else:
            for key, rate in rates.items():
                if key not in allowed:
                    listed = f"{nearest(key, allowed)}known: {', '.join(allowed)}"
                    self.report("PW305", f"{subject}: unknown key {key}", place, listed)
                else:
                    self._integer(rate, (1, 1 << 20), f"{subject}: {key}", place)

    def _latency(self, name: str, value: object) -> None:
        place, subject = ("ops", name), f"op class {name}: latency_cycles"
        if not isinstance(value, dict):
            self._integer(value, (0, MOST_CYCLES), subject, place)
            return
        for key in value:
            if key not in _LATENCY_KEYS:
                self.report("PW305", f"{subject}: unknown key {key}", place)
        if value.get("memory_latency") is not True:
            self.report("PW306", f"{subject}: a table needs memory_latency = true", place)
        for key in ("plus", "at_least"):
            if key in value:
                self._integer(value[key], (0, MOST_CYCLES), f"{subject}: {key}", place)

    def _assumption(self, name: str, stated: object) -> None:
        place = ("satisfies", name)
        if name not in ASSUMPTIONS and name not in CLAIMS:
            listed = ", ".join((*ASSUMPTIONS, *CLAIMS))
            self.report(
                "PW312",
                f"unknown assumption {name}",
                place,
                f"{nearest(name, (*ASSUMPTIONS, *CLAIMS))}known: {listed}",
            )
            return
        if not isinstance(stated, dict) or sorted(stated) != sorted(_ASSUMPTION_KEYS):
            self.report("PW306", f"assumption {name} needs state and source, only", place)
            return
        states = [state.value for state in AssumptionState]
        if stated["state"] not in states:
            self.report(
                "PW306", f"assumption {name}: state must be one of {', '.join(states)}", place
            )
        if not _is_text(stated["source"]):
            self.report("PW306", f"assumption {name}: source must be a text", place)

    def _figure(self, table: str, name: str, figure: object) -> None:
        place, subject = (table, name), f"{table} figure {name}"
        if name not in FIGURES[table]:
            listed = ", ".join(FIGURES[table])
            near = nearest(name, FIGURES[table])
            self.report("PW305", f"unknown {subject}", place, f"{near}known: {listed}")
            return
        if not isinstance(figure, dict) or sorted(figure) != sorted(_FIGURE_KEYS):
            self.report("PW306", f"{subject} needs {', '.join(_FIGURE_KEYS)}, only", place)
            return
        value = figure["value"]
        self._integer(value, FIGURES[table][name], subject, place)
        if name == "unit_bytes" and _has_type(value, int) and value % _SECTOR:
            message = f"{subject} is {value}: it must be a multiple of {_SECTOR}, a sector"
            self.report("PW310", message, place)
        if name == "target" and _has_type(value, int) and value not in _TARGETS:
            targets = ", ".join(map(str, _TARGETS))
            message = f"{subject} is {value}: counts are known for {targets}"
            self.report("PW310", message, place, "the nearest one that is no newer")
        self._evidence(figure["evidence"], subject, place)
        if not _is_text(figure["source"]):
            self.report("PW306", f"{subject}: source must be a text", place)

    def _evidence(self, value: object, subject: str, place: tuple[str, str]) -> None:
        evidences = [kind.value for kind in Evidence]
        if value not in evidences:
            allowed = ", ".join(evidences)
            self.report("PW306", f"{subject}: evidence must be one of {allowed}", place)

    def _source(
        self, name: str, entry: object, sources: Mapping[str, object], place: tuple[str, str]
    ) -> None:
        source = entry.get("source") if isinstance(entry, dict) else None
        if isinstance(source, str) and source.partition(":")[0] not in sources:
            key = source.partition(":")[0]
            message = f"{name}: source {key} is not in the table of sources"
            listed = f'write [sources] {key} = "where it is from"; there are: {", ".join(sources)}'
            self.report("PW311", message, place, listed)

    def _integer(
        self, value: object, limits: tuple[int, int], subject: str, place: tuple[str, str]
    ) -> None:
        if not _has_type(value, int):
            self.report("PW306", f"{subject} must be an integer", place)
            return
        assert isinstance(value, int)
        low, high = limits
        if not low <= value <= high:
            message = f"{subject} is {value}: it must lie between {low} and {high}"
            self.report("PW310", message, place)


_OP_NAMES = tuple(op.value for op in OpClass)
_RATES_OF = {
    OpClass.MMA_ASYNC.value: (_RATES, "shared_bytes"),
    OpClass.ASYNC_BULK.value: (("bytes", "tensor_bytes", "out_bytes"), "bytes"),
    OpClass.MBARRIER_WAIT.value: (("try_wait", "test_wait", "whole_try_wait"), ""),
}
"""The op classes that have rates, with their keys and the mandatory one."""


def _entries(data: Table, table: str) -> Iterable[tuple[str, Any]]:
    value = data.get(table, {})
    return value.items() if isinstance(value, dict) else ()


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _has_type(value: object, wanted: type) -> bool:
    """Returns whether the type is exactly this: TOML's true is not an integer."""
    return type(value) is wanted
