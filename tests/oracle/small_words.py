"""Programs of PTX on words of a few bits, executed from all states with all data.

A program is written with the types of PTX, and its words are then made narrow: of 32 bits 4 are
left, of 64 bits 8. The analysis takes widths from types and registers, so that it can be asked
about such a kernel as it is; and all that a narrow kernel can do can be tried: :func:`most_passes`
follows the set of all states from pass to pass of a loop, with every number that a load may give.
The interpreter is written from the PTX ISA and shares nothing with the analysis.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from ptxwcet.flow.values import integers
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.ir import operation
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.operation import NumberKind, NumberType
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile

Row = tuple[str, ...]
"""Opcode with modifiers, target, sources; ``("label", name)``, ``("bra", guard, name)``."""
Numbers = NDArray[np.int64]
States = dict[str, Numbers]

REGISTERS = {"%h": 16, "%r": 32, "%d": 64}
_HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .b16 %h<9>; .reg .b32 %r<12>; .reg .b64 %d<9>; .reg .b64 %a; .reg .pred %p<9>;
ld.param.u64 %a, [data];
"""
_MOST_STATES = 200_000


class TooManyStates(Exception):
    """More states than are tried."""


@dataclass(frozen=True)
class Program:
    """A program whose words of 32 bits have ``bits`` bits."""

    rows: tuple[Row, ...]
    bits: int = 4

    def ptx(self) -> str:
        """The kernel in PTX, with words of full width."""
        return _HEAD + "\n".join(_line(row) for row in self.rows) + "\nret;\n}\n"

    def kernel(self) -> Kernel:
        """The kernel on narrow words."""
        (kernel,) = parse_module(SourceFile("k.ptx", self.ptx())).kernels
        return narrowed(kernel, self.bits)

    def width(self, word: str) -> int:
        """The bits of a register or of a type."""
        if word.startswith("%"):
            return 1 if word[1] == "p" else REGISTERS[word[:2]] * self.bits // 32
        return 1 if word == "pred" else max(int(word[1:]) * self.bits // 32, 1)


@contextmanager
def narrow_types() -> Iterator[None]:
    """The analysis knows the names of all types of up to 16 bits."""
    found = {f"{kind}{n}": IntegerType(n, kind == "s") for kind in "usb" for n in range(1, 17)}
    named = {
        f"{kind.value}{n}": NumberType(kind, n)
        for kind in (NumberKind.UNSIGNED, NumberKind.SIGNED, NumberKind.BITS)
        for n in range(1, 17)
    }
    operation._decoded.cache_clear()
    with patch.dict(integers._TYPES, found), patch.dict(operation._TYPES, named):
        yield
    operation._decoded.cache_clear()


def narrowed(kernel: Kernel, bits: int) -> Kernel:
    """A kernel with ``bits`` bits for each 32, to be analysed within :func:`narrow_types`.

    Loads of whole registers keep their type.
    """

    def word(one: str) -> str:
        if one[:1] in "usb" and one[1:] in ("8", "16", "32", "64"):
            return f"{one[0]}{max(int(one[1:]) * bits // 32, 1)}"
        return one

    instructions = []
    for instruction in kernel.instructions:
        form = instruction.form
        opcode = form.opcode
        assert opcode is not None
        loads = opcode.name == "ld"
        if not (loads and form.modifiers[-1][1:] in ("32", "64")):
            words = tuple(word(one) for one in form.modifiers)
            mnemonic = ".".join([opcode.name, *words])
            form = replace(form, modifiers=words, mnemonic=mnemonic)
        instructions.append(instruction._replace(form=form))
    registers = {name: word(kind) for name, kind in kernel.registers.items()}
    return replace(kernel, instructions=tuple(instructions), registers=registers)


def _line(row: Row) -> str:
    if row[0] == "label":
        return f"{row[1]}:"
    if row[0] == "bra":
        guard = f"@{row[1]} " if row[1] else ""
        return f"{guard}bra {row[2]};"
    guard = ""
    if row[0].startswith("@"):
        guard, row = f"{row[0]} ", row[1:]
    if row[0].startswith("ld"):
        return f"{guard}{row[0]} {row[1]}, [%a];"
    return f"{guard}{row[0]} {', '.join(row[1:])};"


def most_passes(program: Program, label: str, most: int) -> int | None:
    """How often a run passes a label in one entry of its loop, at most; None for over ``most``.

    The program has one loop, whose header is at the label; jumps elsewhere go forward. Raises
    TooManyStates. Cost: the states that a pass may begin in, times what its loads may give.
    """
    rows = program.rows
    place = rows.index(("label", label)) + 1
    alive = _live(rows)[place]
    states: States = {name: np.zeros(1, np.int64) for name in _names(rows)}
    states = _distinct(program, list(_executed(program, 0, states, place)), alive)
    for passes in range(most + 1):
        if not _count(states):
            return passes
        states = _distinct(program, list(_executed(program, place, states, place)), alive)
    return None


def most_passes_of_entries(program: Program, label: str, most: int, flag: str) -> int | None:
    """:func:`most_passes` of a loop that is entered again and again, as loops in others are.

    The register ``flag`` is 1 where a run comes to the label from outside of the loop, and 0 where
    it comes from an iteration; the loop reads it.
    """
    rows = program.rows
    place = rows.index(("label", label)) + 1
    alive = _live(rows)[place]
    states: States = {name: np.zeros(1, np.int64) for name in _names(rows)}
    found = _distinct(program, list(_executed(program, 0, states, place)), alive)
    count = 0
    while _count(found) > count:
        count = _count(found)
        found = _distinct(program, [found, *_executed(program, place, found, place)], alive)
    states = found
    for passes in range(most + 1):
        is_counted = states[flag] == int(passes == 0) if _count(states) else np.zeros(0, bool)
        if not is_counted.any():
            return passes
        states = {name: numbers[is_counted] for name, numbers in states.items()}
        states = _distinct(program, list(_executed(program, place, states, place)), alive)
    return None


def _count(states: States) -> int:
    return len(next(iter(states.values())))


def _names(rows: tuple[Row, ...]) -> list[str]:
    found = {word.lstrip("@!") for row in rows for word in row if word.lstrip("@!")[:1] == "%"}
    return sorted(found)


def _distinct(program: Program, parts: list[States], alive: frozenset[str]) -> States:
    """All states once; what is not read again is forgotten."""
    if not parts:
        return {"": np.zeros(0, np.int64)}
    together = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    code, place = np.zeros(_count(together), np.int64), 0
    for name in sorted(alive & together.keys()):
        code += together[name] << place
        place += program.width(name)
    if place > 62:
        raise TooManyStates
    _, first = np.unique(code, return_index=True)
    zero = np.zeros(len(first), np.int64)
    return {name: together[name][first] if name in alive else zero for name in together}


def _live(rows: tuple[Row, ...]) -> list[frozenset[str]]:
    """What is read before it is written, from each row."""
    labels = {row[1]: place for place, row in enumerate(rows) if row[0] == "label"}
    live: list[frozenset[str]] = [frozenset()] * (len(rows) + 1)
    for _ in range(4):
        for place in reversed(range(len(rows))):
            row, now = rows[place], live[place + 1]
            if row[0] == "bra":
                target = live[labels[row[2]]]
                guard = {row[1].lstrip("!")} if row[1] else set()
                live[place] = (now | target | guard) if row[1] else target
            elif row[0] == "label":
                live[place] = now
            else:
                guarded = row[0].startswith("@")
                _, target_name, *sources = row[guarded:]
                now = now | {row[0].lstrip("@!")} if guarded else now - {target_name}
                live[place] = now | {word.lstrip("!") for word in sources if "%" in word}
    return live


def _executed(program: Program, start: int, states: States, end: int) -> Iterator[States]:
    """The states that come from row ``start`` to row ``end`` on any way, which goes forward."""
    rows = program.rows
    labels = {row[1]: place for place, row in enumerate(rows) if row[0] == "label"}
    pending = [(start, states)]
    while pending:
        place, states = pending.pop()
        while place < len(rows) and _count(states):
            row = rows[place]
            place += 1
            if row[0] == "bra":
                target = labels[row[2]] + 1
                taken = np.ones(_count(states), bool)
                if row[1]:
                    taken = (states[row[1].lstrip("!")] != 0) ^ row[1].startswith("!")
                part = {name: numbers[taken] for name, numbers in states.items()}
                states = {name: numbers[~taken] for name, numbers in states.items()}
                if target == end:
                    yield part
                else:
                    pending.append((target, part))
            elif row[0] == "label":
                if place == end:
                    yield states
                    break
            else:
                states = _step(program, row, states)


def _step(program: Program, row: Row, states: States) -> States:
    guard = None
    if row[0].startswith("@"):
        guard = (states[row[0].lstrip("@!")] != 0) ^ row[0].startswith("@!")
        row = row[1:]
    opcode, target, *sources = row
    words = opcode.split(".")
    if words[0] == "ld":
        values = 1 << min(program.width(words[-1]), program.width(target))
        size = _count(states)
        if size * values > _MOST_STATES:
            raise TooManyStates
        drawn = np.tile(np.arange(values, dtype=np.int64), size)
        old = {name: np.repeat(numbers, values) for name, numbers in states.items()}
        if words[-1][0] == "s":
            drawn = _signed(drawn, program.width(words[-1])) % (1 << program.width(target))
        if guard is not None:
            drawn = np.where(np.repeat(guard, values), drawn, old[target])
        return {**old, target: drawn}
    result = _result(program, words, sources, states) % (1 << program.width(target))
    if guard is not None:
        result = np.where(guard, result, states[target])
    return {**states, target: result}


def _signed(numbers: Numbers, bits: int) -> Numbers:
    half = 1 << (bits - 1)
    return (numbers + half) % (1 << bits) - half


def _read(program: Program, name: str, kind: str, states: States) -> Numbers:
    """An operand as a number of a type."""
    bits = program.width(kind)
    if name.startswith("!"):
        return 1 - _read(program, name[1:], kind, states)
    raw = states[name] if name.startswith("%") else np.full(_count(states), int(name), np.int64)
    raw = raw % (1 << bits)
    return _signed(raw, bits) if kind[0] == "s" else raw


def _result(program: Program, words: list[str], sources: list[str], states: States) -> Numbers:
    name, kind = words[0], words[-1]
    bits = program.width(kind)
    if name == "cvt":  # cvt.TO.FROM: read as FROM; the target register takes TO, extended
        number = _read(program, sources[0], words[2], states) % (1 << program.width(words[1]))
        return _signed(number, program.width(words[1])) if words[1][0] == "s" else number
    if name == "selp":
        taken = states[sources[2]] != 0
        one, two = (_read(program, source, kind, states) for source in sources[:2])
        return np.where(taken, one, two)
    if name == "setp":
        numbers = [_read(program, source, kind, states) for source in sources[:2]]
        found = _compared(words[1], *numbers)
        if len(sources) == 3:
            other = _read(program, sources[2], "pred", states) != 0
            found = found & other if "and" in words else found | other
        return found.astype(np.int64)
    a, *more = [_read(program, source, kind, states) for source in sources]
    high = "hi" in words
    match name:
        case "mov":
            return a
        case "neg":
            return -a
        case "not":
            return 1 - a if kind == "pred" else ~a
        case "abs":
            return abs(a)
        case "popc":
            return sum(((a % (1 << bits)) >> n & 1 for n in range(bits)), np.zeros_like(a))
        case "clz":
            return sum((((a % (1 << bits)) >> n) == 0 for n in range(bits)), np.zeros_like(a))
        case "brev":
            return sum(((a >> n & 1) << (bits - 1 - n) for n in range(bits)), np.zeros_like(a))
        case "bfind":  # of the highest bit: its place, or how far it is from the top; of 0 all bits
            place = sum(((a >> n) != 0 for n in range(1, bits)), np.zeros_like(a))
            place = bits - 1 - place if "shiftamt" in words else place
            return np.where(a == 0, -1, place)
        case "mad":
            wide = "wide" in words
            c = more[1] if not wide else _read(program, sources[2], _double(kind), states)
            return ((a * more[0]) >> bits if high else a * more[0]) + c
    b = more[0]
    match name:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return (a * b) >> bits if high else a * b
        case "and":
            return a & b
        case "or":
            return a | b
        case "xor":
            return a ^ b
        case "min":
            return np.minimum(a, b)
        case "max":
            return np.maximum(a, b)
        case "shl" | "shr":
            amount = _read(program, sources[1], "u32", states)
            if name == "shl":
                return np.where(amount >= bits, 0, a << np.minimum(amount, bits))
            return a >> np.minimum(amount, bits)
        case "div" | "rem":  # by zero: all bits, and the dividend, as the hardware does
            quotient = abs(a) // np.maximum(abs(b), 1) * np.where((a < 0) == (b < 0), 1, -1)
            quotient = np.where(b == 0, -1, quotient)
            return quotient if name == "div" else np.where(b == 0, a, a - b * quotient)
    raise AssertionError(words)


def _double(kind: str) -> str:
    return f"{kind[0]}{2 * int(kind[1:])}"


def _compared(operator: str, a: Numbers, b: Numbers) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = {
        "lt": a < b,
        "lo": a < b,
        "le": a <= b,
        "ls": a <= b,
        "gt": a > b,
        "hi": a > b,
        "ge": a >= b,
        "hs": a >= b,
        "eq": a == b,
        "ne": a != b,
    }[operator]
    return found
