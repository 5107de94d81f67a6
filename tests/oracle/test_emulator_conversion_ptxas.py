"""Operations on constants, against what ptxas computes for them when it compiles.

A kernel with the operations on constants and one with the emulator's results as literals are one
program for ptxas, if it folds the operations. What it leaves to the machine proves nothing.
"""

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from single_instruction import HEADER, evaluate

PTXAS = shutil.which("ptxas")
STORAGE = {"f16": "u2", "bf16": "u2", "f32": "u4", "tf32": "u4", "f64": "u8", "s32": "u4",
           "u32": "u4", "s64": "u8", "u64": "u8"}  # fmt: skip
REGISTERS = {"u2": "%h", "u4": "%r", "u8": "%d"}
DECLARED = ".reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p; .reg .b64 %at;"


def single(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def double(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


HALVES = [0, 0x8000, 1, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0xFC00, 0x7E01, 0xFDFF]
SINGLES = [single(x) for x in (0.0, -0.0, 1.0, 0.5, 2.5, -1.5, 1e10, 2.0**-149, 65503.9, 65520.0)]
SINGLES += [0x3F801000, 0x3F803000, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x33000001, 0x477FEFFF]
SPECIAL = [0x7FC12345, 0xFFA00001, 0x7F800000]
DOUBLES = [double(x) for x in (0.0, -0.0, 1.0, 0.5, 2.5, -1.5, 1e300, 2.0**-150, 2.0**31, -7.7)]
DOUBLES += [
    0x3FF0000010000000,
    0x3FF0000010000001,
    0x380FFFFFFFFFFFFF,
    0x40EFFDFFFFFFFFFF,
    0x380FFFFFE0000000,
    0x380FFFFFEFFFFFFF,
    0x380FFFFFF0000000,
    0xB80FFFFFC0000000,
]
SOURCES = {
    "half": HALVES[:-2], "f16": HALVES, "bf16": HALVES, "f32": SINGLES + SPECIAL,
    "f64": DOUBLES, "number": SINGLES,
    "u32": [0, 2**32 - 1, 2**24 + 3, 65520], "s32": [0, 2**32 - 1, 2**24 + 3],
}  # fmt: skip
CONVERSIONS = {
    "half": ["f64.f16"],  # of NaN ptxas folds other digits than GPUs give
    "f16": ["f32.f16"],
    "bf16": ["f64.bf16"],
    "f32": ["rn.f16.f32", "f64.f32", "ftz.f64.f32", "sat.f32.f32"],
    "f64": ["rn.f32.f64", "rn.ftz.f32.f64", "rn.f16.f64", "rzi.s64.f64", "rni.s64.f64",
            "rzi.u64.f64", "rzi.s32.f64", "rpi.f64.f64", "sat.f64.f64"],
    "number": ["rna.tf32.f32", "rzi.s32.f32", "rni.s32.f32", "rni.f32.f32", "ftz.f32.f32"],
    "u32": ["rn.f32.u32"],
    "s32": ["rn.f32.s32"],
}  # fmt: skip
"""By kind of sources, forms that ptxas 13.0 folds."""


def conversions():
    """(statement with names to fill in, source values, storage of sources and of the result)."""
    for kind, forms in CONVERSIONS.items():
        for form in forms:
            *_, to, source = form.split(".")
            text = f"cvt.{form} {{to}}, {{a}};"
            yield text, [(v,) for v in SOURCES[kind]], STORAGE[source], STORAGE[to]


def comparisons():
    nan = {"f32": 0x7FC00000, "f64": 0x7FF8 << 48}
    for name, pattern, kind in (("f32", single, "u4"), ("f64", double, "u8")):
        pool = [pattern(-0.0), 1, pattern(1.0), nan[name]]
        pairs = [(a, b) for a in pool for b in pool]
        for word in ("eq", "ne", "lt", "geu", "num"):
            yield f"set.{word}.u32.{name} {{to}}, {{a}}, {{b}};", pairs, kind, "u4"
    rows = [(v, 7) for v in SINGLES + SPECIAL]
    for ftz in ("", ".ftz"):
        yield f"slct{ftz}.b32.f32 {{to}}, {{b}}, 9, {{a}};", rows, "u4", "u4"
        text = f"set.gtu{ftz}.u32.f32 {{to}}, {{a}}, {{b}};"
        yield text, [(a, b) for a in SINGLES[:8] for b in (0, 1)], "u4", "u4"
    for word in ("finite", "number", "normal", "subnormal"):
        text = f"testp.{word}.f32 %p, {{a}}; selp.u32 {{to}}, 1, 0, %p;"
        yield text, [(v,) for v in SINGLES + SPECIAL], "u4", "u4"


def arithmetic():
    """Among them products that ``.ftz`` makes zeros of, though they round to a normal number."""
    near = [single(1.0) + step for step in (-2, -1, 0, 1)]
    edges = [0x00800000, 0x80800000, 0x00800001, 0x00FFFFFF, 1, single(1.0), single(2.5)]
    pairs = [(a, b) for a in edges for b in [*near, single(0.5), 0x1F7FFFFF]]
    for text in ("mul.ftz", "mul.rn.ftz", "mul.rn", "add.ftz", "add.rn", "sub.ftz", "min.ftz"):
        yield f"{text}.f32 {{to}}, {{a}}, {{b}};", pairs, "u4", "u4"
    for text in ("add.sat", "mul.sat", "mul.ftz.sat"):
        yield f"{text}.f32 {{to}}, {{a}}, {{b}};", [*pairs, (1 << 31, 1 << 31)], "u4", "u4"


def cubin(statements, folder):
    """What ptxas makes of a kernel that stores the result of each statement."""
    lines = [
        f"{HEADER}.visible .entry k(.param .u64 out)",
        "{",
        DECLARED,
        "ld.param.u64 %at, [out];",
    ]
    for place, (text, kind) in enumerate(statements):
        size = np.dtype(kind).itemsize
        lines += [text, f"st.global.b{8 * size} [%at+{8 * place}], {REGISTERS[kind]}0;"]
    path = folder / "k.ptx"
    path.write_text("\n".join([*lines, "ret;", "}", ""]))
    command = [PTXAS, "-arch", "sm_100a", path, "-o", folder / "k.cubin"]
    subprocess.run(command, check=True, capture_output=True)
    return Path(folder / "k.cubin").read_bytes()


def constants(row, kind):
    names = [f"{REGISTERS[kind]}{number}" for number in range(1, len(row) + 1)]
    pairs = zip(names, row, strict=True)
    width = 8 * np.dtype(kind).itemsize
    return " ".join(f"mov.b{width} {name}, {value};" for name, value in pairs), names


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")
@pytest.mark.parametrize("family", [conversions, comparisons, arithmetic])
def test_constants_are_folded_to_the_emulators_results(family, tmp_path):
    agreed = 0
    for text, rows, kind, result in family():
        arrays = [np.array(column, kind) for column in zip(*rows, strict=True)]
        named = text.format(to="%r0", a="%a", b="%b")
        found = evaluate(named, arrays, [result], before=".reg .pred %p;").tolist()
        operations, literals = [], []
        for row, value in zip(rows, found, strict=True):
            before, names = constants(row, kind)
            filled = text.format(to=f"{REGISTERS[result]}0", a=names[0], b=names[-1])
            operations.append((f"{before} {filled}", result))
            width = 8 * np.dtype(result).itemsize
            literals.append((f"mov.b{width} {REGISTERS[result]}0, {value};", result))
        agreed += agreements(operations, literals, tmp_path)
    assert agreed > 100


def agreements(operations, literals, folder):
    """How many operations ptxas folds to the literals; fails if it folds one to another value."""
    one, other = cubin(operations, folder), cubin(literals, folder)
    if one == other:
        return len(operations)
    if len(operations) > 1:
        half = len(operations) // 2
        return sum(
            agreements(operations[part], literals[part], folder)
            for part in (slice(half), slice(half, None))
        )
    text, kind = literals[0]
    prefix, _, value = text.rstrip(";").rpartition(" ")
    inverse = int(value) ^ (1 << 8 * np.dtype(kind).itemsize) - 1
    third = cubin([(f"{prefix} {inverse};", kind)], folder)
    folded = len(one) == len(other) and words(one, other) <= words(third, other)
    assert not folded, f"{operations[0][0]} does not give {value}"
    return 0


def words(one, other):
    """Where two texts of one length differ, in 32-bit words."""
    return {i // 4 for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y}
