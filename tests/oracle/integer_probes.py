"""Integer instructions with all types and up to three modifiers, and those that ptxas takes.

``python tests/oracle/integer_probes.py`` asks ptxas again and writes ``integer_probes.txt``: the
legal ones. What is not listed there, ptxas refuses.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PTXAS = shutil.which("ptxas")
LEGAL = Path(__file__).with_suffix(".txt")
HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
TYPES = ["u8", "u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64", "u16x2", "s16x2",
         "pred"]  # fmt: skip
WORDS = ["", "sat", "cc", "lo", "hi", "relu", "clamp", "wrap", "shiftamt", "f4e", "and", "unheard"]
PAIRS = [("sat", "cc"), ("clamp", "wrap"), ("f4e", "rc16"), ("and", "or")]
HALVES = ("lo", "hi", "wide")
SOURCES = {
    **dict.fromkeys(["add", "sub", "addc", "subc", "mul", "div", "rem", "min", "max", "mul24"], 2),
    **dict.fromkeys(["mad", "madc", "mad24", "sad", "dp4a", "dp2a", "prmt", "fns", "shf"], 3),
    **dict.fromkeys(["bfe", "lop3"], 3),
    **dict.fromkeys(["cnot", "not", "neg", "abs", "bfind", "popc", "clz", "brev"], 1),
    **dict.fromkeys(["and", "or", "xor", "shl", "shr", "szext", "bmsk"], 2),
    "bfi": 4,
}
LEADING = {
    **dict.fromkeys(["mul", "mad", "madc", "mul24", "mad24", "dp2a"], HALVES),
    "shf": ("l", "r", "clamp"),
}
AMOUNTS = {"shl": 1, "shr": 1, "shf": 2, "bfe": 1, "bfi": 2}
"""The first source that is a 32-bit number for every type."""


def probes() -> Iterator[str]:
    """All probed instructions, each once or more."""
    for opcode in SOURCES:
        types: list[tuple[str, ...]] = [(name,) for name in TYPES]
        if opcode in ("dp2a", "dp4a"):
            types += itertools.product(("u32", "s32", "b32", "u16"), repeat=2)
        for names, word in itertools.product(types, WORDS):
            for lead in ("", *LEADING.get(opcode, ())):
                yield statement(opcode, [lead, word], names)
            if word in ("sat", "cc", "lo", "relu", "clamp", "f4e") and len(names) == 1:
                yield statement(opcode, [], (*names, word))
        for name, pair in itertools.product(("u32", "s32", "b32"), PAIRS):
            for lead in ("", *LEADING.get(opcode, ())):
                yield statement(opcode, [lead, *pair], (name,))
    for opcode, name in itertools.product(("add", "sub"), ("u32", "s64", "u16x2")):
        yield statement(opcode, [], (name, name))
    for word in ("b4e", "rc8", "ecl", "ecr", "rc16"):
        yield statement("prmt", [word], ("b32",))
    for word in ("and.", "or.", ""):
        yield f"lop3.{word}b32 %r0|%p1, %r1, %r2, %r3, 18, %p2;"


def statement(opcode: str, words: list[str], types: tuple[str, ...]) -> str:
    mnemonic = ".".join(word for word in (opcode, *words, *types) if word)
    name = register(next(t for t in reversed(types) if t in TYPES))
    sources = [name] * SOURCES[opcode]
    if opcode in AMOUNTS:
        sources[AMOUNTS[opcode] :] = ["%r"] * (SOURCES[opcode] - AMOUNTS[opcode])
    result = "%r" if opcode in ("popc", "clz", "bfind") else name
    if "wide" in words and opcode in ("mul", "mad"):
        result = {"%h": "%r", "%r": "%d"}.get(name, name)
        sources[2:] = [result] * len(sources[2:])
    operands = [f"{source}{place}" for place, source in enumerate([result, *sources])]
    return f"{mnemonic} {', '.join(operands + ['18'] * (opcode == 'lop3'))};"


def register(name: str) -> str:
    if name == "pred":
        return "%p"
    return {"8": "%h", "16": "%h", "64": "%d"}.get(name[1:], "%r")


def kernel(instruction: str) -> str:
    declared = ".reg .pred %p<5>; .reg .b16 %h<5>; .reg .b32 %r<5>; .reg .b64 %d<5>;"
    return f"{HEADER}.visible .entry one()\n{{\n{declared}\n{instruction}\nret;\n}}\n"


def verdicts(instructions: list[str]) -> list[bool]:
    """Whether ptxas takes each of the instructions."""
    assert PTXAS is not None
    command = [PTXAS, "-arch=sm_100a", "-o", "/dev/null"]

    def verdict(instruction: str) -> bool:
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(kernel(instruction))
            file.flush()
            return not subprocess.run([*command, file.name], capture_output=True).returncode

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(verdict, instructions))


if __name__ == "__main__":
    asked = list(dict.fromkeys(probes()))
    answers = zip(asked, verdicts(asked), strict=True)
    LEGAL.write_text("".join(f"{text}\n" for text, legal in answers if legal), encoding="utf-8")
