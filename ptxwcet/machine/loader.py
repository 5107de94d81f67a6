"""Finds, reads, extends, checks and resolves machine files.

Problems are PW301 (no such machine), PW302 (unreadable), PW303 (TOML syntax), PW304 (schema), PW305
(unknown key), PW306 (missing or malformed value), PW307/PW308 (unknown, missing op class), PW309
(undeclared unit), PW310 (out of range), PW311 (unknown source), PW312 (assumptions), PW313
(extends), PW314 (memory latency).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.assumptions import ASSUMPTIONS, CLAIMS
from ptxwcet.machine.checks import (
    FIGURES,
    LIMITS,
    Checker,
    Table,
    locate,
)
from ptxwcet.machine.model import (
    CarveOutRules,
    DispatchRules,
    Evidence,
    ExpansionRules,
    Figure,
    FunctionalUnit,
    L1Rules,
    L2Rules,
    Machine,
    MemoryRules,
    OccupancyRules,
    OpTiming,
    Reader,
    RefusedOp,
    ResidencyLimits,
    TimingMeaning,
)
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_TOML_BYTES, is_input, read_text, supplied_inputs
from ptxwcet.support.options import CYCLES, OPTIONS, is_whole
from ptxwcet.support.plugins import MACHINES, plugins
from ptxwcet.support.source import SourceFile
from ptxwcet.support.toml_places import NotToml, nearest, parse_toml
from ptxwcet.warp.program import Scoreboard

DEFAULT_MACHINE: str = OPTIONS["machine"].default
"""The machine file used when none is named; every report prints it.

It is the machine of the ECRTS 2025 paper, with no doubtful assumption, with transactions: only
a coalesced access free of bank conflicts costs as much as there.
"""

_MODELS = Path(__file__).parent / "models"


def machine_names() -> tuple[str, ...]:
    """Returns the names of the shipped machine files, sorted, and of other packages' files.

    The latter are entry points of the group ``ptxwcet.machines`` (docs/machine-files.md).
    """
    own = shipped_machines()
    return (*own, *(plugin.name for plugin in plugins(MACHINES) if plugin.name not in own))


def shipped_machines() -> tuple[str, ...]:
    """Returns the names of the machine files that are shipped with the tool, sorted."""
    return tuple(sorted(path.stem for path in _MODELS.glob("*.toml")))


def load_machine(name_or_path: str = DEFAULT_MACHINE, memory_latency: int | None = None) -> Machine:
    """Returns the machine of that name or path, with global memory of ``memory_latency`` cycles.

    None takes the file's own memory latency. Raises PtxwcetError with all PW3xx problems.
    """
    whole = load_tables(name_or_path, memory_latency)
    latency = whole["memory_latency_cycles"] if memory_latency is None else memory_latency
    return _build(whole, latency)


def load_tables(name_or_path: str, memory_latency: int | None = None) -> Table:
    """Returns the checked tables of that machine's file over its bases. Raises PtxwcetError."""
    file, data = read_machine_file(name_or_path)
    checker = Checker(file)
    checker.check_text(data)
    whole = _extended(file, data, checker)
    if not checker.problems:
        checker.check_whole(whole)
    if memory_latency is not None and not is_whole(memory_latency, CYCLES.least, CYCLES.most):
        message = f"memory latency {memory_latency}: it must lie between 1 and {CYCLES.most} cycles"
        checker.problems.append(Diagnostic("PW314", message))
    if checker.problems:
        raise PtxwcetError(checker.problems)
    return whole


def read_machine_file(name_or_path: str) -> tuple[SourceFile, Table]:
    """Returns the tables of that machine's own file. Raises PtxwcetError (PW301 to PW303)."""
    path = find_machine_file(name_or_path)
    is_known = name_or_path in machine_names()
    try:
        # A machine of a package is read from there, independent of the supplied inputs.
        with supplied_inputs(None) if is_known else contextlib.nullcontext():
            text = read_text(path, MOST_TOML_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PtxwcetError(
            Diagnostic("PW302", f"cannot read machine file {name_or_path}: {reason}")
        ) from None
    file = SourceFile(name_or_path if path.suffix in name_or_path else path.name, text)
    try:
        return file, parse_toml(file)
    except NotToml as problem:
        message = f"not TOML: {problem.message}"
        raise PtxwcetError(Diagnostic("PW303", message, problem.span)) from None


def find_machine_file(name_or_path: str) -> Path:
    """Returns the path of the machine of that name or path. Raises PtxwcetError (PW301)."""
    if name_or_path in machine_names():
        return _known_file(name_or_path)
    path = Path(name_or_path)
    try:
        if is_input(path):
            return path
    except (OSError, ValueError):
        pass
    listed = ", ".join(machine_names())
    raise PtxwcetError(
        Diagnostic(
            "PW301",
            f"no machine {name_or_path!r}: it is neither a known name nor a file",
            help=f"{nearest(name_or_path, machine_names())}known machines: {listed}",
        )
    )


def machine_files(name_or_path: str) -> tuple[Path, ...]:
    """Returns the file of a machine that has been loaded before, and the files that it extends."""
    _, data = read_machine_file(name_or_path)
    extended = machine_files(data["extends"]) if "extends" in data else ()
    return (find_machine_file(name_or_path), *extended)


def _known_file(name: str) -> Path:
    """Returns the file of a machine that is shipped with the tool or another package."""
    own = _MODELS / f"{name}.toml"
    if own.is_file():
        return own
    (plugin,) = (plugin for plugin in plugins(MACHINES) if plugin.name == name)
    try:
        return Path(plugin.load())
    except Exception as error:
        message = f"machine {name!r} of package {plugin.package} cannot be loaded: {error}"
        raise PtxwcetError(Diagnostic("PW302", message)) from None


def _extended(
    file: SourceFile, data: Table, checker: Checker, before: tuple[str, ...] = ()
) -> Table:
    """Returns a file's values over its bases' values; ``before``: the files that extend it."""
    base_name = data.get("extends")
    if not isinstance(base_name, str):
        return data
    span = locate(file, "", "extends")
    if base_name not in machine_names():
        listed = ", ".join(machine_names())
        message = f"extends {base_name!r}, which is not one of the machines that come with the tool"
        checker.problems.append(Diagnostic("PW313", message, span, help=f"known: {listed}"))
        return data
    if base_name in before:
        message = f"extends {base_name}, which extends this file again"
        checker.problems.append(Diagnostic("PW313", message, span))
        return data
    base_file, base = read_machine_file(base_name)
    base = _extended(base_file, base, checker, (*before, base_name))
    merged = dict(base)
    for key, value in data.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = {**base[key], **value} if both else value
    return merged


def _build(data: Table, memory_latency: int) -> Machine:
    sources = data["sources"]
    timings = {op: _timing(data["ops"][op.value], sources, memory_latency) for op in OpClass}
    satisfies = tuple(
        Assumption(
            key,
            text,
            AssumptionState(data["satisfies"][key]["state"]),
            _source_text(data["satisfies"][key]["source"], sources),
        )
        for key, text in (*ASSUMPTIONS.items(), *((key, claim[1]) for key, claim in CLAIMS.items()))
        if key in data["satisfies"]
    )
    figures = {
        table: {
            key: _figure(data[table][key], sources) for key in keys if key in data.get(table, ())
        }
        for table, keys in FIGURES.items()
    }
    return Machine(
        name=data["name"],
        description=data["description"],
        schema=data["schema"],
        units=tuple(FunctionalUnit(name, count) for name, count in data["units"].items()),
        timings=MappingProxyType(timings),
        timing_meaning=TimingMeaning(data["timings"]),
        scoreboard=Scoreboard(data["scoreboard"]),
        issues_return=data["issues_return"],
        taken_branch_bubble_cycles=data["taken_branch_bubble_cycles"],
        schedulers_per_sm=data["schedulers_per_sm"],
        clock_mhz=data["clock_mhz"],
        memory_latency_cycles=memory_latency,
        limits=ResidencyLimits(**{key: data["limits"][key] for key in LIMITS}),
        satisfies=satisfies,
        occupancy=OccupancyRules(**figures["occupancy"]) if "occupancy" in data else None,
        dispatch=DispatchRules(**figures["dispatch"]) if "dispatch" in data else None,
        expansion=ExpansionRules(**figures["expansion"]) if "expansion" in data else None,
        memory=MemoryRules(**figures["memory"]) if "memory" in data else None,
        carve_out=CarveOutRules(**figures["carve_out"]) if "carve_out" in data else None,
        l1_cache=L1Rules(**figures["l1_cache"]) if "l1_cache" in data else None,
        l2_cache=L2Rules(**figures["l2_cache"]) if "l2_cache" in data else None,
        makespan_letters=MappingProxyType(dict(data.get("makespan", {}))),
        compute_capability=data.get("compute_capability"),
    )


def _figure(data: dict[str, Any], sources: dict[str, str]) -> Figure:
    return Figure(data["value"], Evidence(data["evidence"]), _source_text(data["source"], sources))


def _timing(
    timing: dict[str, Any], sources: dict[str, str], memory_latency: int
) -> OpTiming | RefusedOp:
    if "refuse" in timing:
        return RefusedOp(timing["refuse"])
    latency = timing["latency_cycles"]
    if isinstance(latency, dict):
        latency = max(memory_latency + latency.get("plus", 0), latency.get("at_least", 0))
    return OpTiming(
        timing["unit"],
        timing["initiation_cycles"],
        latency,
        Evidence(timing["evidence"]),
        _source_text(timing["source"], sources),
        timing.get("upper", False),
        tuple((Reader(reader), cycles) for reader, cycles in timing.get("readers", {}).items()),
        timing.get("stalls", False),
        tuple(timing.get("rates", {}).items()),
        tuple((form, (pair[0], pair[1])) for form, pair in timing.get("forms", {}).items()),
    )


def _source_text(source: str, sources: dict[str, str]) -> str:
    key, colon, detail = source.partition(":")
    return f"{sources[key]}; {detail.strip()}" if colon else sources[key]
