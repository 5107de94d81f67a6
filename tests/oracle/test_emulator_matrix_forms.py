"""Matrix instructions that are no PTX are refused: the emulator's verdict against that of ptxas.

Rows are what ptxas 13.0.88 (V13.0, -arch=sm_100a) assembles out of a grid of all combinations, each
statement with its line in one kernel, so that the errors tell which it refuses. Where ptxas is
there, the rows are compared with it again.
"""

import shutil
from itertools import product

import pytest
from matrix_statements import (
    grid,
    matrix_move,
    mma,
    refusals,
    refused_by_emulator,
    refused_by_ptxas,
    wmma,
    wmma_move,
)

from ptxwcet.emulator.matrix_forms import PERMITTED

needs_ptxas = pytest.mark.skipif(not shutil.which("ptxas"), reason="ptxas is not installed")
LAYOUTS = "row.col row.row col.row col.col"
WORDS = " .satfinite .rn .rz .rm .rp .xor.popc .and.popc .kind::f8f6f4 .relu .ftz"


def pairs(sums, factors):
    return " ".join(f"{d}.{a}.{b}.{d}" for d, a, b in product(sums, factors, factors))


HALVES = "f16.f16.f16.f16 f32.f16.f16.f32 f32.bf16.bf16.f32"
EIGHTS = pairs(["f16", "f32"], ["e4m3", "e5m2"])
BYTES, NIBBLES = pairs(["s32"], ["s8", "u8"]), pairs(["s32"], ["s4", "u4"])
DOUBLE = "f64.f64.f64.f64"
MMA_GRID = grid(
    mma,
    "m8n8k4 m8n8k8 m8n8k16 m8n8k32 m8n8k64 m8n8k128 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 "
    "m16n8k128 m16n8k256 m16n16k16",
    LAYOUTS,
    f"{HALVES} f16.f16.f16.f32 f32.f16.f16.f16 bf16.bf16.bf16.bf16 f32.tf32.tf32.f32 {DOUBLE} "
    "f32.f16.bf16.f32 s32.f16.f16.s32 f32.s8.s8.f32 s32.s8.s4.s32 s32.b1.b1.s32 f32.f32.f32.f32 "
    f"{EIGHTS} {BYTES} {NIBBLES} f16.e4m3.e4m3.f32 f32.e5m2.e5m2.f16",
    WORDS,
)
MMA = [
    ("m16n8k8 m16n8k16", "row.col", HALVES, ""),
    ("m16n8k4 m16n8k8 m16n8k16", "row.col", "f32.tf32.tf32.f32", ""),
    ("m16n8k16 m16n8k32", "row.col", EIGHTS, " .kind::f8f6f4"),
    ("m8n8k4 m16n8k4 m16n8k8 m16n8k16", "row.col", DOUBLE, " .rn .rz .rm .rp"),
    ("m8n8k16 m16n8k16 m16n8k32", "row.col", BYTES, " .satfinite"),
    ("m8n8k32 m16n8k32 m16n8k64", "row.col", NIBBLES, " .satfinite .xor.popc .and.popc"),
    ("m8n8k128 m16n8k128 m16n8k256", "row.col", "s32.b1.b1.s32", ".xor.popc .and.popc"),
]
MMA_NOT_EXECUTED = [
    ("m16n8k16", "row.col", "f32.tf32.tf32.f32", ""),
    ("m16n8k16", "row.col", EIGHTS, ".kind::f8f6f4"),
    ("m8n8k32 m16n8k32 m16n8k64", "row.col", NIBBLES, ".xor.popc .and.popc"),
]
"""Assembled although the ISA does not describe them."""

TILES = "m16n16k16 m8n32k16 m32n8k16"
SMALL = "s32.s4.s4.s32 s32.u4.u4.s32 s32.b1.b1.s32"
ROUNDED = " .rn .rz .rm .rp"
WMMA_GRID = grid(
    wmma,
    f"{TILES} m16n16k8 m8n8k4",
    LAYOUTS,
    "f16.f16 f16.f32 f32.f16 f32.f32 f16.s32 s32.f16 f64.f64 bf16.bf16 f32.bf16 "
    f"{DOUBLE} f32.bf16.bf16.f32 bf16.bf16.bf16.bf16 f32.tf32.tf32.f32 f32.f16.f16.f32 "
    f"f16.f16.f16.f16 f32.bf16.f16.f32 f16.bf16.bf16.f16 {BYTES} f32.e4m3.e4m3.f32 {SMALL}",
    " .satfinite .rn .rz .rm .rp .relu",
)
WMMA = [
    (TILES, LAYOUTS, "f16.f16 f16.f32 f32.f16 f32.f32 f32.bf16.bf16.f32", ""),
    ("m16n16k8", LAYOUTS, "f32.tf32.tf32.f32", ""),
    ("m16n16k16 m16n16k8 m8n8k4", LAYOUTS, DOUBLE, ROUNDED),
    (TILES, LAYOUTS, "s32.s8.s8.s32 s32.u8.u8.s32", " .satfinite"),
    (f"{TILES} m16n16k8 m8n8k4", LAYOUTS, SMALL, " .satfinite"),
]
WMMA_NOT_EXECUTED = [
    ("m16n16k16 m16n16k8", LAYOUTS, DOUBLE, ROUNDED),
    (f"{TILES} m16n16k8 m8n8k4", LAYOUTS, SMALL, " .satfinite"),
]

PLACES = " .global .shared .shared::cta"
MOVE_GRID = grid(
    wmma_move,
    "a b c d",
    "row col",
    f"{TILES} m16n16k8 m8n8k4",
    f"{PLACES} .local .shared::cluster .const",
    "f16 bf16 tf32 f32 f64 s8 u8 s32 e4m3",
)
MOVE = [
    ("a b", "row col", TILES, PLACES, "f16 bf16 s8 u8"),
    ("a b", "row col", "m16n16k8", PLACES, "tf32 f64"),
    ("a b", "row col", "m16n16k16 m8n8k4", PLACES, "f64"),
    ("a", "row col", "m8n32k16", PLACES, "f64"),
    ("b", "row col", "m32n8k16", PLACES, "f64"),
    ("c d", "row col", f"{TILES} m16n16k8", PLACES, "f16 f32 f64 s32"),
    ("c d", "row col", "m8n8k4", PLACES, "f64"),
]
MOVE_NOT_EXECUTED = [
    ("a b c d", "row col", f"{TILES} m16n16k8", PLACES, "f64"),
    ("c d", "row col", "m16n16k8", PLACES, "f16 s32"),
]

EIGHT_GRID = grid(
    matrix_move,
    "ldmatrix stmatrix movmatrix",
    "m8n8 m16n16 m16n8 m8n16",
    " .x1 .x2 .x4",
    " .trans",
    f"{PLACES} .global .shared::cluster .volatile .relaxed .rn .satfinite",
    "b16 b8 b32",
    "scalar 1 2 3 4",
)
SHARED = " .shared .shared::cta"
EIGHT = [
    ("ldmatrix stmatrix", "m8n8", ".x1", " .trans", SHARED, "b16", "1"),
    ("ldmatrix stmatrix", "m8n8", ".x2", " .trans", SHARED, "b16", "2"),
    ("ldmatrix stmatrix", "m8n8", ".x4", " .trans", SHARED, "b16", "4"),
    ("ldmatrix", "m16n16", ".x1", ".trans", SHARED, "b8", "2"),
    ("ldmatrix", "m16n16", ".x2", ".trans", SHARED, "b8", "4"),
    ("stmatrix", "m16n8", ".x1", ".trans", SHARED, "b8", "1"),
    ("stmatrix", "m16n8", ".x2", ".trans", SHARED, "b8", "2"),
    ("stmatrix", "m16n8", ".x4", ".trans", SHARED, "b8", "4"),
    ("movmatrix", "m8n8", "", ".trans", "", "b16", "scalar"),
]
EIGHT_NOT_EXECUTED = [row for row in EIGHT if row[1] == "m16n8"]

GRIDS = {
    "ldmatrix, stmatrix and movmatrix": (EIGHT_GRID, EIGHT, EIGHT_NOT_EXECUTED),
    "mma": (MMA_GRID, MMA, MMA_NOT_EXECUTED),
    "wmma.mma": (WMMA_GRID, WMMA, WMMA_NOT_EXECUTED),
    "wmma.load and wmma.store": (MOVE_GRID, MOVE, MOVE_NOT_EXECUTED),
}


def chosen(rows):
    """The combinations of words that rows stand for."""
    return {words for row in rows for words in product(*(column.split(" ") for column in row))}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", GRIDS)
def test_combinations_of_modifiers(name):
    statements, legal, not_executed = GRIDS[name]
    refused = refused_by_emulator(statements.values())
    taken = {words for place, words in enumerate(statements) if place not in refused}
    assert taken == chosen(legal) - chosen(not_executed)


@needs_ptxas
@pytest.mark.parametrize("name", GRIDS)
def test_combinations_are_what_ptxas_says(name, tmp_path):
    statements, legal, _ = GRIDS[name]
    refused = refused_by_ptxas(statements.values(), tmp_path)
    taken = {words for place, words in enumerate(statements) if place not in refused}
    assert taken == chosen(legal)


def test_the_grids_have_every_form():
    """Nothing is executed that no grid compares."""
    opcodes = {
        "ldmatrix, stmatrix and movmatrix": ("ldmatrix", "stmatrix", "movmatrix"),
        "wmma.load and wmma.store": ("wmma.load", "wmma.store"),
    }
    for name, (_, legal, not_executed) in GRIDS.items():
        forms = sum(len(PERMITTED[opcode]) for opcode in opcodes.get(name, (name,)))
        assert len(chosen(legal) - chosen(not_executed)) == forms


F32 = "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};"
TILE = f"{{{', '.join(f'%f{i}' for i in range(8))}}}"
HALF_TILE = f"{{{', '.join(f'%r{i}' for i in range(8))}}}"
WHOLE = f"{TILE}, {HALF_TILE}, {HALF_TILE}, {TILE};"
F64 = "{%d0, %d1}, {%d2}, {%d3}, {%d0, %d1};"
BITS = "{%r0, %r1}, {%r2}, {%r3}, {%r0, %r1};"
SINGLE = {
    f"mma.m16n8k16.sync.aligned.row.col.f32.f16.f16.f32 {F32}": True,
    f"mma.aligned.sync.row.col.m16n8k16.f32.f16.f16.f32 {F32}": True,
    f"mma.sync.m16n8k16.row.col.f32.f16.f16.f32 {F32}": False,
    f"mma.aligned.m16n8k16.row.col.f32.f16.f16.f32 {F32}": False,
    f"mma.sync.aligned.m16n8k16.col.f32.f16.f16.f32 {F32}": False,
    f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.relu {F32}": False,
    f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f32 {F32}": False,
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
    "{%f0, %f1, %f2, _}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, 0f00000000};": True,
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 %v, %v, {%r4, %r5}, %v;": True,
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
    "{%f0, %f1}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};": False,
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
    "{%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r4, %r5}, {%f0, %f1, %f2, %f3};": False,
    f"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rz {F64}": True,
    f"mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64 {F64}": True,
    f"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rn.rz {F64}": False,
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d0, %d1}, %d2, %d3, {%d0, %d1};": False,
    f"mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.popc.xor {BITS}": False,
    "ldmatrix.sync.aligned.trans.x2.m8n8.shared.b16 {%r0, %r1}, [%r9];": True,
    "ldmatrix.aligned.m8n8.x1.shared.b16 {%r0}, [%r9];": False,
    "movmatrix.sync.m8n8.trans.b16 %r0, %r1;": False,
    "movmatrix.sync.aligned.m8n8.trans.x1.b16 %r0, %r1;": False,
    f"wmma.mma.sync.aligned.m16n16k16.row.col.f32.f32 {WHOLE}": True,
    f"wmma.mma.sync.row.col.m16n16k16.f32.f32 {WHOLE}": False,
    f"wmma.load.a.sync.aligned.m16n16k16.row.global.f16 {HALF_TILE}, [%a1];": True,
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r0, %r1, %r2, %r3}, [%a1];": False,
    "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%a1], {%f0, %f1, %f2, %f3};": False,
}
"""Order of modifiers, numbers of registers, and what is left out: does ptxas take it?"""


def test_single_statements():
    refused = refused_by_emulator(SINGLE)
    assert {text: place not in refused for place, text in enumerate(SINGLE)} == SINGLE


@needs_ptxas
def test_single_statements_are_what_ptxas_says(tmp_path):
    found = {text: not refused_by_ptxas([text], tmp_path) for text in SINGLE}
    assert found == SINGLE


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            f"mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 {F32}",
            ": modifier .satfinite",
        ),
        (
            f"mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {F32}",
            ": modifiers .row, .row together",
        ),
        (
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1}, [%r9];",
            "a vector of 4 is expected here, 2 given",
        ),
    ],
)
def test_the_refusal_says_why(statement, reason):
    (message,) = refusals([statement])
    assert statement.split()[0] in message
    assert message.endswith(reason)
