"""Writes a new GPU's machine file, from another machine's file (docs/tutorials/machine.md).

Nothing of the other machine is taken for proved or measured: each figure of it is ``assumed`` and
copied from it, by its source, and each assumption is doubtful, which makes every bound an estimate.

PW320 is a name that no machine can have, PW324 (a warning) a result without an entry in the other
machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.checks import FIGURES, LIMITS, SCHEMA
from ptxwcet.machine.loader import load_machine, load_tables, machine_names
from ptxwcet.machine.model import Evidence, Machine, OpTiming, RefusedOp, TimingMeaning
from ptxwcet.machine.results import MeasuredOp, Results
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, Severity
from ptxwcet.support.input_files import SuppliedInputs, supplied_inputs
from ptxwcet.support.records import dataclass

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NOTHING = Results("", {}, {})


@dataclass(frozen=True, slots=True)
class NewMachine:
    """The text of a machine file, and the numbers of measured and copied rows and figures."""

    text: str
    measured: int
    copied: int
    warnings: tuple[Diagnostic, ...]


def new_machine(name: str, base: str, results: Results | None = None) -> NewMachine:
    """Returns a machine file for ``name`` from machine ``base`` (name or path) and from results.

    Raises PtxwcetError: PW320, and as :func:`load_machine` does.
    """
    if not _NAME.fullmatch(name) or name in machine_names():
        why = "is one that comes with the tool" if name in machine_names() else "cannot be one"
        help = "letters, digits, '.', '_' and '-', at most 64, the first a letter or a digit"
        raise PtxwcetError(Diagnostic("PW320", f"name of a machine: {name!r} {why}", help=help))
    return _Writer(name, base, results or _NOTHING).write()


def timed_like_a_load(machine: Machine, op_class: OpClass) -> tuple[Machine, str] | None:
    """Returns a machine that times an op class as its loads of global memory, and the lines to add.

    For a shipped machine the lines are a whole file, which has been read.
    """
    load = machine.timings[OpClass.LOAD_GLOBAL]
    if not isinstance(load, OpTiming):
        return None
    measured = "with the figures of ld.global, in whose place belong those that you measure"
    rows = f"""[sources]
own = "our own measurement"
[ops]
{op_class.value} = {{ unit = "{load.unit}", initiation_cycles = {load.initiation_cycles}, \
latency_cycles = {load.latency_cycles}, evidence = "assumed", source = "own: as ld.global" }}"""
    if machine.name not in machine_names():
        timed = replace(machine, timings={**machine.timings, op_class: load})
        return timed, f"write into the machine file, {measured}\n{rows}"
    text = f'schema = 1\nextends = "{machine.name}"\nname = "mine"\n{rows}'
    with supplied_inputs(SuppliedInputs({"mine.toml": text.encode()}, "")):
        try:
            timed = load_machine("mine.toml", machine.memory_latency_cycles)
        except PtxwcetError:  # a row of that class has other keys
            return None
    return timed, f"write mine.toml, {measured}, and give --machine mine.toml\n{text}"


class _Writer:
    """The writer of one file."""

    def __init__(self, name: str, base: str, results: Results) -> None:
        self._name, self._results = name, results
        self._tables = load_tables(base)
        self._base: Machine = load_machine(base)
        self._from = _quoted(self._base.name)
        self._measured = self._copied = 0

    def write(self) -> NewMachine:
        warnings = tuple(self._without_place())
        lines = [*self._head(), *self._sources(), *self._ops()]
        for table in FIGURES:
            lines += self._figures(table)
        lines += ["", "[satisfies]", *map(self._assumption, self._base.satisfies), ""]
        return NewMachine("\n".join(lines), self._measured, self._copied, warnings)

    def _without_place(self) -> Iterator[Diagnostic]:
        """Yields warnings of measured results that have no entry in the file."""
        base, results = self._base, self._results
        refused = [op for op in results.ops if isinstance(base.timings[op], RefusedOp)]
        for name in (op.value for op in refused):
            yield _warning(f"{name} is measured, but {base.name} has no unit for it: left refused")
        if results.memory and base.memory is None:
            names = ", ".join(results.memory)
            yield _warning(f"{base.name} has no table [memory]: {names} left out")

    def _head(self) -> Iterator[str]:
        base, tables = self._base, self._tables
        yield f"# Written by ptxwcet machine new from {self._from}. What its source calls copied is"
        yield f"# a figure of that machine and not known of {self._name}: measure it or find it"
        yield "# published (docs/tutorials/machine.md). Every bound is an estimate until somebody"
        yield "# argues for the assumptions below."
        yield ""
        yield f"schema = {SCHEMA}"
        yield f"name = {_quoted(self._name)}"
        yield f"description = {_quoted(f'{self._name}, from {base.name}')}"
        yield f"timings = {_quoted(TimingMeaning.UPPER.value)} # rounded up"
        latency = self._memory_latency()
        for key in _SCALARS:
            value = latency if key == "memory_latency_cycles" else tables[key]
            is_measured = key == "memory_latency_cycles" and self._has_memory_latency()
            mark = "measured" if is_measured else f"copied from {self._from}"
            yield f"{key} = {json.dumps(value)} # {mark}"
        yield from self._plain("limits", {key: tables["limits"][key] for key in LIMITS})
        yield from self._plain("units", tables["units"])
        if tables.get("makespan"):
            yield from self._plain("makespan", tables["makespan"])

    def _plain(self, table: str, values: Mapping[str, Any]) -> Iterator[str]:
        yield ""
        yield f"[{table}] # copied from {self._from}"
        yield from (f"{_key(key)} = {json.dumps(value)}" for key, value in values.items())

    def _sources(self) -> Iterator[str]:
        yield ""
        yield "[sources]"
        yield f"copied = {_quoted(f'copied from {self._base.name}, not measured here')}"
        yield 'measured = "measured on this machine, which does not prove a maximum"'

    def _ops(self) -> Iterator[str]:
        yield ""
        yield "[ops]"
        for op, timing in self._base.timings.items():
            measured = self._results.ops.get(op)
            if isinstance(timing, RefusedOp):
                reason = f"copied from {self._base.name}: {timing.reason}"
                yield f"{op.value} = {{ refuse = {_quoted(reason)} }}"
            elif measured is not None:
                yield self._measured_op(op, timing, measured)
            else:
                latency = _latency(self._tables["ops"][op.value]["latency_cycles"])
                origin = self._copy(timing.evidence, timing.source)
                yield self._row(op, timing, timing.initiation_cycles, latency, origin)

    def _measured_op(self, op: OpClass, timing: OpTiming, measured: MeasuredOp) -> str:
        """Returns the line of a measured op class, which is charged no less than in the base."""
        initiation = max(measured.initiation_cycles, timing.initiation_cycles)
        both = measured.initiation_cycles + measured.latency_cycles
        both = max(both, timing.initiation_cycles + timing.latency_cycles)
        latency = str(both - initiation)
        if op is OpClass.LOAD_GLOBAL and self._has_memory_latency():
            latency = _latency(self._tables["ops"][op.value]["latency_cycles"])
        how = f"microbenchmarks {op.value}_latency and {op.value}_interval"
        figures = f"{measured.initiation_cycles} and {measured.latency_cycles} by {how}"
        source = self._measurement(
            f"{figures}, {self._results.name}; no less than {self._base.name}"
        )
        return self._row(op, timing, initiation, latency, source)

    def _row(self, op: OpClass, base: OpTiming, initiation: int, latency: str, origin: str) -> str:
        if base.rates:
            rates = ", ".join(f"{kind} = {rate}" for kind, rate in base.rates)
            origin = f"rates = {{ {rates} }}, {origin}"
        if base.forms:
            forms = ", ".join(f"{_quoted(name)} = {[*pair]}" for name, pair in base.forms)
            origin = f"forms = {{ {forms} }}, {origin}"
        if base.stalls:
            origin = f"stalls = true, {origin}"
        return (
            f"{op.value} = {{ unit = {_quoted(base.unit)}, initiation_cycles = {initiation}, "
            f"latency_cycles = {latency}, {origin} }}"
        )

    def _has_memory_latency(self) -> bool:
        """Returns whether the measured latency of global loads is the file's memory latency."""
        entry = self._tables["ops"][OpClass.LOAD_GLOBAL.value]
        is_measured = OpClass.LOAD_GLOBAL in self._results.ops
        return is_measured and isinstance(entry.get("latency_cycles"), dict)

    def _memory_latency(self) -> int:
        if self._has_memory_latency():
            entry = self._tables["ops"][OpClass.LOAD_GLOBAL.value]["latency_cycles"]
            measured = self._results.ops[OpClass.LOAD_GLOBAL].latency_cycles - entry.get("plus", 0)
            return max(int(measured), int(self._tables["memory_latency_cycles"]))
        return int(self._tables["memory_latency_cycles"])

    def _figures(self, table: str) -> Iterator[str]:
        rules = getattr(self._base, table)
        if rules is None:
            return
        yield ""
        yield f"[{table}]"
        for key in FIGURES[table]:
            figure = getattr(rules, key)
            if figure is None or (key in _WORST and _WORST[key] in self._results.memory):
                continue  # the worst of another machine does not apply here
            if table == "memory" and key in self._results.memory:
                value = self._results.memory[key]
                origin = self._measurement(f"microbenchmark {key}, {self._results.name}")
            else:
                value, origin = figure.value, self._copy(figure.evidence, figure.source)
            yield f"{key} = {{ value = {value}, {origin} }}"

    def _copy(self, evidence: Evidence, source: str) -> str:
        self._copied += 1
        return _origin(Evidence.ASSUMED, f"copied: there {evidence.value}, {source}")

    def _measurement(self, how: str) -> str:
        self._measured += 1
        return _origin(Evidence.MEASURED, f"measured: {how}")

    def _assumption(self, assumption: Assumption) -> str:
        source = f"copied: there {assumption.state.value}, {assumption.source}"
        state = AssumptionState.DOUBTFUL.value
        return f"{assumption.key} = {{ state = {_quoted(state)}, source = {_quoted(source)} }}"


_WORST = {"server_worst_cycles_per_1024_sectors": "server_cycles_per_1024_sectors"}
"""The figures that are the worst cases of others."""
_SCALARS = (
    "scoreboard",
    "issues_return",
    "taken_branch_bubble_cycles",
    "schedulers_per_sm",
    "clock_mhz",
    "memory_latency_cycles",
)


def _latency(value: Any) -> str:
    """Returns a latency as TOML: a number, or the memory latency and an addition."""
    if not isinstance(value, dict):
        return str(value)
    return "{ " + ", ".join(f"{key} = {json.dumps(part)}" for key, part in value.items()) + " }"


def _origin(evidence: Evidence, source: str) -> str:
    return f"evidence = {_quoted(evidence.value)}, source = {_quoted(source)}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    """Returns a TOML string, on one line."""
    whole = text.encode("utf-8", "replace").decode("utf-8")  # names of files need not be text
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")


def _warning(message: str) -> Diagnostic:
    help = "take another machine as MODEL, or write the row into the file"
    return Diagnostic("PW324", message, help=help, severity=Severity.WARNING)
