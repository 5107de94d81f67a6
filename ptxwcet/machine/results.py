"""Reads the results of microbenchmarks, and derives figures (docs/tutorials/machine.md).

Problems are PW321: a table that is not of results, or figures that contradict each other.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NoReturn

from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.checks import MOST_CYCLES, locate
from ptxwcet.machine.loader import load_machine, read_machine_file
from ptxwcet.machine.microbenchmarks import SHORT, Microbenchmark, microbenchmarks
from ptxwcet.machine.model import Machine, RefusedOp, TimingMeaning
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, Severity
from ptxwcet.support.input_files import MOST_TEXT_BYTES, read_text
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile
from ptxwcet.trace.measurements import TextTable, open_table, shortened

COLUMNS = ("microbenchmark", "short_cycles", "long_cycles")
"""The columns of a table of results."""

_MOST_CYCLES_OF_A_SECTION = 10**12


@dataclass(frozen=True, slots=True)
class MeasuredOp:
    """The cycles of an op class, each rounded up."""

    initiation_cycles: int
    latency_cycles: int


@dataclass(frozen=True, slots=True)
class Results:
    """The figures of a table of results, and the table's name."""

    name: str
    ops: Mapping[OpClass, MeasuredOp]
    memory: Mapping[str, int]


def results_template() -> str:
    """Returns a table of results with a line for each microbenchmark and no measurements."""
    return "\n".join((",".join(COLUMNS), *(f"{name},," for name in microbenchmarks()), ""))


def read_results(path: str) -> Results:
    """Returns the figures of a file; the largest result of a microbenchmark counts.

    Raises PtxwcetError: PW321, PW702 (a line with other columns), PW705 (no table). Cost: linear.
    """
    try:
        text = read_text(path, MOST_TEXT_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PtxwcetError(Diagnostic("PW321", f"cannot read results {path}: {reason}")) from None
    measured = _statement_cycles(open_table(SourceFile(path, text)))
    ops: dict[OpClass, MeasuredOp] = {}
    for benchmark in microbenchmarks().values():
        if benchmark.op is not None and benchmark.is_chain:
            figures = _op_figures(benchmark, measured, path)
            if figures is not None:
                ops[benchmark.op] = figures
    return Results(Path(path).name, ops, _memory_figures(measured, path))


def _statement_cycles(table: TextTable) -> dict[str, list[Fraction]]:
    """Returns the measured cycles of a statement, for each microbenchmark, each time."""
    if sorted(table.names) != sorted(COLUMNS):
        message = f"columns {', '.join(table.names) or 'without names'}"
        table.refuse("PW321", table.first - 1 if table.names else table.first, message, _REMEDY)
    name_at, short_at, long_at = (table.names.index(column) for column in COLUMNS)
    measured: dict[str, list[Fraction]] = {}
    shorter: dict[str, tuple[int, int, int]] = {}
    for number, fields in table.rows():
        name = fields[name_at].strip()
        if name not in microbenchmarks():
            help = f"known: {', '.join(microbenchmarks())}"
            message = f"unknown microbenchmark {shortened(name)}"
            table.refuse("PW321", number, message, help, name_at)
        if not fields[short_at].strip() and not fields[long_at].strip():
            continue  # not measured
        short, long = (_cycles(table, number, fields, at) for at in (short_at, long_at))
        if long > short:
            measured.setdefault(name, []).append(Fraction(long - short, SHORT))
        else:  # memory may answer late, and the largest result counts
            shorter.setdefault(name, (number, long, short))
    for name, (number, long, short) in shorter.items():
        if name not in measured:
            message = f"the long section took {long} cycles and the short one {short}"
            table.refuse("PW321", number, message, "measure again, on an idle GPU", long_at)
    return measured


_REMEDY = f"the columns are {', '.join(COLUMNS)} (ptxwcet machine microbenchmarks)"


def _cycles(table: TextTable, number: int, fields: list[str], column: int) -> int:
    text = fields[column].strip()
    if not re.fullmatch(r"[0-9]{1,13}", text) or int(text) > _MOST_CYCLES_OF_A_SECTION:
        message = f"{shortened(text) or 'nothing'} is no number of cycles"
        help = "a difference of two clocks: a whole number, not negative"
        table.refuse("PW321", number, message, help, column)
    return int(text)


def _op_figures(
    chain: Microbenchmark, measured: Mapping[str, list[Fraction]], path: str
) -> MeasuredOp | None:
    """Returns initiation and latency of the op class of a chain; None without a measurement."""
    assert chain.op is not None
    name = chain.op.value
    interval_name = f"{name}_interval"
    if chain.name not in measured and interval_name not in measured:
        return None
    for needed, other in ((chain.name, interval_name), (interval_name, chain.name)):
        if needed not in measured:
            message = f"{path}: {other} is measured and {needed} is not"
            _refuse(message, "both are needed: a chain does not tell initiation from latency")
    both = max(measured[chain.name])
    if chain.extra is not None and f"{chain.extra.value}_latency" in measured:
        both -= min(measured[f"{chain.extra.value}_latency"])
    initiation, both_cycles = math.ceil(max(measured[interval_name])), math.ceil(both)
    if both_cycles < initiation - 1:  # one cycle may be due to rounding
        message = (
            f"{path}: {name} takes {both_cycles} cycles where one waits for the other, and "
            f"{initiation} where none waits"
        )
        _refuse(message, "were lines exchanged? otherwise measure again, on an idle GPU")
    _require_possible(path, name, max(initiation, both_cycles))
    return MeasuredOp(initiation, max(0, both_cycles - initiation))


def _memory_figures(measured: Mapping[str, list[Fraction]], path: str) -> dict[str, int]:
    """Returns the least figures that charge an access with its measured cycles."""
    figures: dict[str, int] = {}
    for kernel in microbenchmarks().values():
        if kernel.figure and kernel.name in measured:
            beside = sum(count * figures.get(key, 0) for key, count in kernel.beside.items())
            figures[kernel.figure] = max(
                0, math.ceil((max(measured[kernel.name]) - beside) / kernel.per)
            )
            _require_possible(path, kernel.figure, figures[kernel.figure])
    return figures


def _require_possible(path: str, name: str, cycles: int) -> None:
    if cycles > MOST_CYCLES:
        message = f"{path}: {name} takes {cycles} cycles, more than a machine file may say"
        _refuse(message, f"at most {MOST_CYCLES}: measure again")


def _refuse(message: str, help: str) -> NoReturn:
    raise PtxwcetError(Diagnostic("PW321", message, help=help))


# --- Comparison of machine files with the vendor compiler's timings (``vendor.toml``) -------------
# PW328 is an op class that is charged less: an error in a file with upper timings.


_TABLE = Path(__file__).with_name("vendor.toml")


@cache
def _vendor_table(name: str) -> Mapping[str, Mapping[str, int]]:
    """Returns the rows of a vendor table by compute capability; zeros are omitted."""
    whole = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    return {
        column: {key: row[at] for key, row in whole[name].items() if row[at]}
        for at, column in enumerate(whole["columns"])
    }


def vendor_cycles() -> Mapping[str, Mapping[OpClass, int]]:
    """Returns capability -> op class -> cycles from issue to the issue of the slowest consumer.

    Op classes without a fixed number of cycles are omitted.
    """
    table = _vendor_table("cycles")
    return {column: {OpClass(name): n for name, n in row.items()} for column, row in table.items()}


def vendor_results() -> Mapping[str, Mapping[str, int]]:
    """Returns capability -> op class, or kind of instruction -> most results per cycle and SM."""
    return _vendor_table("results")


def results_charged(machine: Machine, unit: str, initiation_cycles: int) -> Fraction:
    """Returns the number of lanes that an SM serves per cycle with instructions of a unit."""
    each = Fraction(machine.unit(unit).count, initiation_cycles)
    return machine.warp_size * min(each, Fraction(machine.schedulers_per_sm))


def _faults(machine: Machine, capability: str) -> Iterator[tuple[str, str, str]]:
    """Yields op classes that are charged less than the vendor states, message and help."""
    least, most = vendor_cycles()[capability], vendor_results()[capability]
    rules = machine.expansion
    for op_class, own in machine.timings.items():
        if isinstance(own, RefusedOp):
            continue
        cycles = own.initiation_cycles + own.latency_cycles
        if cycles < least.get(op_class, 0):
            text = f"{cycles} cycles, and the vendor's compiler leaves {least[op_class]} before the"
            help = "charge as much, and name the readers that wait for less (readers)"
            yield op_class.value, f"{text} slowest reader", help
        name, issue = op_class.value, min([own.initiation_cycles, *(n for _, (n, _) in own.forms)])
        if op_class in (OpClass.MOVE, OpClass.BITFIELD):  # conversions and counts of bits
            name = "special"
            issue = own.initiation_cycles if rules is None else rules.special_issue_cycles.value
        halves = 2 if op_class is OpClass.FP16_ARITH else 1
        charged = halves * results_charged(machine, own.unit, issue)
        if charged > most.get(name, charged):
            text = f"for {float(charged):g} results a cycle and SM, and the vendor's guide has"
            yield op_class.value, f"{text} {most[name]}", "charge a longer initiation"


def charged_less(name_or_path: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """Returns the basis of comparison of a machine's timings, and a PW328 for each lower charge.

    Raises PtxwcetError (PW3xx) for a file that is not a machine file.
    """
    machine = load_machine(name_or_path)
    capability = machine.compute_capability
    if capability is None:
        return "no compute_capability: not compared with the vendor's compiler", ()
    if capability not in vendor_cycles():
        return f"compute capability {capability} is not in the vendor's table: not compared", ()
    file, _ = read_machine_file(name_or_path)
    is_upper = machine.timing_meaning is TimingMeaning.UPPER
    problems = tuple(
        Diagnostic(
            *("PW328", f"op class {name} is charged {charge}", locate(file, "ops", name)),
            help=help,
            severity=Severity.ERROR if is_upper else Severity.NOTE,
        )
        for name, charge, help in _faults(machine, capability)
    )
    less = len(problems) or "none"
    compared = f"{less} charged less than the vendor's compiler leaves"
    return f"{compared} (compute capability {capability})", problems
