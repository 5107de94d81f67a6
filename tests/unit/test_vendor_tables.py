"""Two tables of the vendor's compiler: of op classes of PTX, and of machine code. They agree.

A cell of ``machine/vendor.toml`` is the distance to the slowest reader of the result of an op
class; ``sass/latencies.py`` has the distances of each reader. Readers of fp64 and of matrices count
in neither: the first table is of readers of the same kind.
"""

from __future__ import annotations

import pytest

from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import load_machine, machine_names
from ptxwcet.machine.model import OpTiming, Reader
from ptxwcet.machine.results import vendor_cycles, vendor_results
from ptxwcet.sass.latencies import least_cycles

pytestmark = pytest.mark.fast

ARCHITECTURES = ("7.5", "8.0", "8.6", "8.7", "8.9", "9.0")
READERS = ("alu", "fma", "factor", "high", "half", "variable", "address")
WIDE = ("fma", "wide_low", "wide_high", "pair")
PRODUCERS = {
    **dict.fromkeys(("int_add", "int_minmax", "int_dot", "fp32_minmax"), ("alu",)),
    **dict.fromkeys(("shift", "bitfield", "sign"), ("alu",)),
    **dict.fromkeys(("int_mul", "int_mad"), WIDE),
    **dict.fromkeys(("fp32_add", "fp32_mul", "fp32_fma"), ("fma",)),
    **dict.fromkeys(("fp64_add", "fp64_mul", "fp64_fma"), ("fp64",)),
    "fp16_arith": ("half",),
    "mma": ("matrix", "small_matrix"),
}
GUARDS = {**dict.fromkeys(("move", "logic", "vote"), "alu"), "compare": "fp64"}
WITH_HALF_MMA = ("8.0", "8.7", "9.0")
# Where they differ: cycles of op classes, and of machine code.
DIFFERENCES = {
    ("7.5", "int_mul"): (10, 8),  # readers of wide products of which nothing is known there
    ("7.5", "int_mad"): (10, 8),
    ("7.5", "compare"): (15, 14),
    **{(column, "mma"): (24, 17) for column in ARCHITECTURES[1:]},  # larger shapes
}


def of_machine_code(column: str, op_class: OpClass) -> int:
    """The distance to the slowest reader that the table of machine code has."""
    architecture, name = int(column.replace(".", "")), op_class.value
    if name in GUARDS:
        return least_cycles(architecture, "P0", GUARDS[name], "guard") or 0
    producers = PRODUCERS[name]
    if name == "fp16_arith" and column in WITH_HALF_MMA:
        producers = (*producers, "half_mma")
    found = (least_cycles(architecture, "R0", one, to) for one in producers for to in READERS)
    return max(one or 0 for one in found)


@pytest.mark.parametrize("column", ARCHITECTURES)
def test_both_tables_say_the_same(column: str) -> None:
    rows = vendor_cycles()[column]
    assert rows, column
    found = {
        (column, one.value): (cycles, of_machine_code(column, one))
        for one, cycles in rows.items()
        if cycles != of_machine_code(column, one)
    }
    assert found == {key: pair for key, pair in DIFFERENCES.items() if key[0] == column}


def test_every_row_is_compared() -> None:
    classes = {one.value for column in ARCHITECTURES for one in vendor_cycles()[column]}
    assert classes == PRODUCERS.keys() | GUARDS.keys()


# Who reads as which reader of a machine file, in the words of the table of machine code.
AS_READER = {
    Reader.OPERAND: ("alu", "fma", "factor", "high"),
    Reader.FLOAT: ("fma",),
    Reader.HALF: ("half",),
    Reader.MEMORY: ("variable", "address"),
    Reader.GUARD: ("guard",),
}
SILICON = [name for name in machine_names() if load_machine(name).compute_capability]


@pytest.mark.parametrize("name", SILICON)
def test_no_reader_of_a_machine_file_is_charged_less_than_that_of_machine_code(name: str) -> None:
    """A row that has latencies by readers states what the table of machine code does, or more."""
    machine = load_machine(name)
    assert machine.compute_capability is not None
    architecture = max(75, int(machine.compute_capability.replace(".", "")))  # 7.0 as 7.5
    compared = 0
    for op_class, row in machine.timings.items():
        producers = PRODUCERS.get(op_class.value, ("alu",) if op_class.value == "logic" else ())
        for reader, latency in row.readers if isinstance(row, OpTiming) else ():
            for producer in set(producers) - {"pair"}:  # CS2R, which is a move
                for kind in AS_READER[reader]:
                    least = least_cycles(architecture, "R0", producer, kind) or 0
                    charged = row.initiation_cycles + latency  # type: ignore[union-attr]
                    assert charged >= least, (op_class, reader, producer, kind)
                    compared += 1
    assert compared > 10


@pytest.mark.parametrize("name", SILICON)
def test_predicates_are_charged_as_in_the_table_of_machine_code(name: str) -> None:
    machine = load_machine(name)
    assert machine.compute_capability is not None
    architecture = max(75, int(machine.compute_capability.replace(".", "")))
    row = machine.timings[OpClass.COMPARE]
    assert isinstance(row, OpTiming)
    own = dict(row.readers)
    for reader, kinds in ((Reader.GUARD, ("guard",)), (Reader.OPERAND, ("alu", "fma"))):
        charged = row.initiation_cycles + own.get(reader, row.latency_cycles)
        for kind in kinds:
            assert charged >= (least_cycles(architecture, "P0", "alu", kind) or 0), reader


@pytest.mark.parametrize("name", SILICON)
def test_forms_are_counted_for_the_nearest_architecture(name: str) -> None:
    machine = load_machine(name)
    assert machine.compute_capability is not None
    assert machine.expansion is not None
    own = int(machine.compute_capability.replace(".", ""))
    assert machine.expansion.target.value == max((75, *(n for n in (75, 80, 86, 90) if n <= own)))


def test_both_tables_of_the_vendor_have_the_same_columns_and_no_other_classes() -> None:
    """What has a fixed number of cycles has a throughput, but products of matrices and moves."""
    assert vendor_cycles().keys() == vendor_results().keys()
    kinds = {"special", "wide", "redux"}
    known = {one.value for one in OpClass}
    for column in ARCHITECTURES:
        assert vendor_results()[column].keys() - kinds <= known
        fixed = {one.value for one in vendor_cycles()[column]}
        assert fixed - vendor_results()[column].keys() <= {"mma", "move", "bitfield"}
