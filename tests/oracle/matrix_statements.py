"""Statements with matrix instructions in all combinations of their modifiers, and who takes them.

A statement has as many registers, of the right size, as its modifiers would need.
"""

import re
import subprocess
from itertools import product

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

BITS = {
    "b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f16": 16, "bf16": 16,
    "tf32": 32, "f32": 32, "s32": 32, "f64": 64,
}  # fmt: skip
HEAD = """\
.version 9.0
.target {arch}
.address_size 64
.entry k() {{
.reg .b32 %r<400>; .reg .f32 %f<400>; .reg .f64 %d<400>; .reg .b64 %a<4>;
.reg .v4 .b32 %v;
"""


def names(kind, count, first):
    letter = {"f64": "d", "f32": "f"}.get(kind, "r")
    return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"


def sizes(shape):
    return [int(size) for size in re.findall(r"\d+", shape)]


def registers(kind, elements):
    return max(1, elements * BITS[kind] // 32 // (64 if kind == "f64" else 32))


def mma(shape, layouts, types, words):
    """A product; ``types`` are those of D, A, B and C, with points between."""
    m, n, k = sizes(shape)
    places = zip(types.split("."), (m * n, m * k, k * n, m * n), (0, 20, 40, 60), strict=True)
    operands = ", ".join(names(kind, registers(kind, size), at) for kind, size, at in places)
    return f"mma.sync.aligned.{shape}.{layouts}.{types}{words} {operands};"


def fragment_registers(side, shape, kind):
    m, n, k = sizes(shape)
    if side in "ab" and kind == "f16":
        return 8
    return registers(kind, {"a": m * k, "b": k * n}.get(side, m * n))


def wmma(shape, layouts, types, words):
    given = types.split(".")
    kinds = given if len(given) == 4 else [given[0], "f16", "f16", given[1]]
    places = zip(kinds, "dabc", (0, 20, 40, 60), strict=True)
    operands = ", ".join(
        names(kind, fragment_registers(side, shape, kind), at) for kind, side, at in places
    )
    return f"wmma.mma.sync.aligned.{layouts}.{shape}.{types}{words} {operands};"


def wmma_move(side, layout, shape, place, kind):
    vector = names(kind, fragment_registers(side, shape, kind), 1)
    address = "[%a1]" if place in ("", ".global") else "[%r79]"
    name = f".{side}.sync.aligned.{layout}.{shape}{place}.{kind}"
    if side == "d":
        return f"wmma.store{name} {address}, {vector}, 16;"
    return f"wmma.load{name} {vector}, {address}, 16;"


def grid(function, *columns):
    """Every combination of words, with its statement."""
    return {words: function(*words) for words in product(*(c.split(" ") for c in columns))}


def matrix_move(opcode, shape, count, trans, place, kind, registers):
    """``registers``: their number in braces, or one without."""
    vector = "%r1" if registers == "scalar" else names("s32", int(registers), 1)
    name = f"{opcode}.sync.aligned.{shape}{count}{trans}{place}.{kind}"
    if opcode == "movmatrix":
        return f"{name} {vector}, {vector};"
    address = "[%r79]" if "shared" in place else "[%a1]"
    return (
        f"{name} {vector}, {address};" if opcode == "ldmatrix" else f"{name} {address}, {vector};"
    )


def _not_parsed(head, lines):
    """What the parser says of lines, with their places; it names only some of many at a time."""
    result = {}
    while True:
        left = ["" if place in result else line for place, line in enumerate(lines)]
        try:
            parse_module(SourceFile("k.ptx", head + "\n".join(left) + "\nret;\n}\n"))
        except PtxwcetError as error:
            first = head.count("\n") + 1
            result |= {d.span.line - first: d.message for d in error.diagnostics}
        else:
            return result


def _problems(statements):
    """Refusals of the parser and PW410 for statements, each with its place among them."""
    head, whole = HEAD.format(arch="sm_100a"), list(statements)
    result = []
    for start in range(0, len(whole), 200):  # the report of a crash prints a kernel many times
        lines = whole[start : start + 200]
        faults = _not_parsed(head, lines)
        result += [(start + place, message) for place, message in faults.items()]
        lines = ["" if place in faults else line for place, line in enumerate(lines)]
        text = head + "\n".join(lines) + "\nret;\n}\n"
        module = parse_module(SourceFile("k.ptx", text))
        try:
            launch = EmulatedLaunch((32, 1, 1), (1, 1, 1), ())
            execute(module.kernels[0], module, launch, options=EmulatorOptions(max_instructions=1))
        except PtxwcetError as error:
            first = head.count("\n") + 1 - start
            refused = [d for d in error.diagnostics if d.code == "PW410"]
            result += [(d.span.line - first, d.message) for d in refused]
    return result


def refused_by_emulator(statements):
    """The places of the statements that the emulator does not execute."""
    return {place for place, _ in _problems(statements)}


def refusals(statements):
    """Why the emulator does not execute statements."""
    return [message for _, message in _problems(statements)]


def refused_by_ptxas(statements, folder, arch="sm_100a"):
    """The places of the statements for which ptxas reports an error.

    One that cannot be parsed would hide what comes after it: use only words that ptxas knows.
    """
    head = HEAD.format(arch=arch)
    file = folder / "k.ptx"
    file.write_text(head + "\n".join(statements) + "\nret;\n}\n")
    command = ["ptxas", f"-arch={arch}", "-O0", str(file), "-o", str(folder / "k.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r"line (\d+); error", done.stderr + done.stdout)
    return {int(line) - head.count("\n") - 1 for line in found}
