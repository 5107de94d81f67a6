"""Two tables of the vendor's compiler: of op classes of PTX, and of machine code. They agree.

A cell of ``machine/vendor.toml`` is the distance to the slowest reader of the result of an op
class; ``sass/latencies.py`` has the distances of each reader. Readers of fp64 and of matrices count
in neither: the first table is of readers of the same kind.
"""

from __future__ import annotations

import pytest

from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.results import vendor_cycles
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
