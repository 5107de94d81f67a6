"""Machine code executed, made of its terms: what a cubin leaves in memory, lanes at once.

What integer opcodes compute are the terms under test, interpreted here over lanes. All else is for
execution alone: transfers of control, memory, what lanes tell each other, floating point. Lanes go
on from the lowest address first; at BSYNC, WARPSYNC and barriers they wait for one another.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import sass_floats as floats
from numpy.typing import NDArray

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.ir.kernel import Instruction, InstructionForm, Kernel, Module, Variable
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.operands import (
    Address,
    Bracket,
    Decorated,
    Element,
    Immediate,
    Negated,
    Operand,
    Register,
    Sink,
    SpecialRegister,
    SymbolRef,
    Vector,
    mapped,
)
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import Op, Term

Words = NDArray[np.uint64]
Lanes = NDArray[np.bool_]
_GLOBAL = 0x7_1234_0000
_SHARED_BYTES = 0x4_0000
_LOCAL_BYTES = 0x4000
_SHARED_WINDOW, _LOCAL_WINDOW = 0x7F01, 0x7F02
"""High words of generic addresses of shared and of local memory."""
OPEN = np.random.default_rng(1)  # bits that terms leave open: others each time
MOST_STEPS = 200_000
_LOW = np.uint64(0xFFFFFFFF)
_PARTS = {
    **{f".B{number}": (8 * number, 8) for number in range(4)},
    **{f".H{number}": (16 * number, 16) for number in range(2)},
}
_OFFSET = re.compile(r"(-?0x[0-9a-f]+)")


class UncoveredError(Exception):
    """An instruction that is not executed here."""


# --- terms over lanes -----------------------------------------------------------------------------


def _word(number: int) -> np.uint64:
    return np.uint64(number & 0xFFFFFFFFFFFFFFFF)


def _cut(value: Words, width: int) -> Words:
    return value if width == 64 else value & _word((1 << width) - 1)


def _signed(value: Words, width: int) -> NDArray[np.int64]:
    unused = np.uint64(64 - width)
    return (value << unused).view(np.int64) >> np.int64(64 - width)


def _shift(value: Words, amount: Words, width: int, *, left: bool) -> Words:
    small = np.minimum(amount, np.uint64(63))
    moved = value << small if left else value >> small
    return np.where(amount >= np.uint64(width), np.uint64(0), moved)


def _arithmetic(value: Words, amount: Words, width: int) -> Words:
    small = np.minimum(amount, np.uint64(63)).view(np.int64)
    return (_signed(value, width) >> small).view(np.uint64)


def _by_number(change: Callable[[int], int]) -> Callable[[Words], Words]:
    return lambda value: np.array([change(int(one)) for one in value], np.uint64)


def _truth(value: Any) -> Words:
    return np.asarray(value).astype(np.uint64)


_OPERATORS: dict[Op, Callable[..., Words]] = {
    Op.ADD: lambda w, v, a, b: a + b,
    Op.SUB: lambda w, v, a, b: a - b,
    Op.MUL: lambda w, v, a, b: a * b,
    Op.UDIV: lambda w, v, a, b: np.where(b == 0, _word(-1), a // np.maximum(b, _word(1))),
    Op.UREM: lambda w, v, a, b: np.where(b == 0, a, a % np.maximum(b, _word(1))),
    Op.AND: lambda w, v, a, b: a & b,
    Op.OR: lambda w, v, a, b: a | b,
    Op.XOR: lambda w, v, a, b: a ^ b,
    Op.NOT: lambda w, v, a: ~a,
    Op.SHL: lambda w, v, a, n: _shift(a, n, w, left=True),
    Op.LSHR: lambda w, v, a, n: _shift(a, n, w, left=False),
    Op.ASHR: lambda w, v, a, n: _arithmetic(a, n, w),
    Op.ULT: lambda w, v, a, b: _truth(a < b),
    Op.SLT: lambda w, v, a, b: _truth(_signed(a, w) < _signed(b, w)),
    Op.EQ: lambda w, v, a, b: _truth(a == b),
    Op.ITE: lambda w, v, c, a, b: np.where(c != 0, a, b),
    Op.ZEXT: lambda w, v, a: a,
    Op.SEXT: lambda w, v, a: _signed(a, w).view(np.uint64),
    Op.EXTRACT: lambda w, v, a: a >> np.uint64(v),
    Op.POPC: lambda w, v, a: _by_number(int.bit_count)(a),
    Op.CLZ: lambda w, v, a: _by_number(lambda one: w - one.bit_length())(a),
    Op.BREV: lambda w, v, a: _by_number(lambda one: int(f"{one:0{w}b}"[::-1], 2))(a),
}


_IN_RANGE = frozenset(
    (Op.AND, Op.OR, Op.XOR, Op.LSHR, Op.ULT, Op.SLT, Op.EQ, Op.ITE, Op.ZEXT, Op.POPC, Op.CLZ)
)
"""Operators whose results are as wide as they should be if their operands are."""


@lru_cache(maxsize=4096)
def _constant(value: int, lanes: int) -> Words:
    return np.full(lanes, _word(value))


class _Compiled:
    """The results of a meaning as a list of steps; ``is_open``: it has bits that are left open."""

    def __init__(self, results: Sequence[Term]) -> None:
        places: dict[Term, int] = {}
        steps: list[Term] = []
        pending = list(reversed(results))
        while pending:
            node = pending[-1]
            missing = [one for one in node.args if one not in places]
            if node in places or not missing:
                pending.pop()
                if node not in places:
                    places[node] = len(steps)
                    steps.append(node)
            else:
                pending += missing
        self.steps = [
            (
                node.op,
                _OPERATORS.get(node.op),
                [places[one] for one in node.args],
                node.args[1 if node.op is Op.ITE else 0].width if node.args else node.width,
                node.value,
                None if node.op in _IN_RANGE or node.width == 64 else _word((1 << node.width) - 1),
            )
            for node in steps
        ]
        self.results = [places[one] for one in results]
        self.is_open = any(node.op is Op.ANY for node in steps)

    def run(self, sources: Sequence[Words], lanes: int) -> list[Words]:
        values: list[Words] = []
        for op, rule, arguments, width, number, mask in self.steps:
            if op is Op.SOURCE:
                value = sources[number]
            elif op is Op.CONST:
                value = _constant(number, lanes)
            else:
                if rule is None:
                    value = OPEN.integers(1 << 63, size=lanes, dtype=np.uint64)
                else:
                    value = rule(width, number, *[values[place] for place in arguments])
                if mask is not None:
                    value = value & mask
            values.append(value)
        return [values[place] for place in self.results]


# --- tables ---------------------------------------------------------------------------------------

_ATOMICS: dict[str, Callable[[int, int], int]] = {
    "ADD": lambda old, new: old + new,
    "AND": lambda old, new: old & new,
    "OR": lambda old, new: old | new,
    "XOR": lambda old, new: old ^ new,
    "EXCH": lambda old, new: new,
    "MIN": min,
    "MAX": max,
}
_SKIPPED = frozenset(
    ("nop", "yield", "depbar", "ldgdepbar", "membar", "errbar", "cgaerrbar", "cctl", "pmtrig")
)


Watch = Callable[[Instruction, Callable[[Operand], Words], list[Words]], None]


class Beside(Protocol):
    """What is told of all that a block does, before and behind each instruction of these lanes."""

    def before(self, block: Any, address: int, active: Lanes) -> None: ...
    def behind(self, block: Any, address: int, active: Lanes) -> None: ...


# --- the run --------------------------------------------------------------------------------------


_NUMBERED = re.compile(r"(U?R)\d+")  # P2R puts predicates at the bits of their numbers


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is alike of instructions that differ in the numbers of their registers alone."""

    form: InstructionForm
    terms: tuple[_Compiled, tuple[Operand, ...]] | None
    is_sum: bool
    name: str
    words: frozenset[str]


_KINDS: dict[Any, _Kind] = {}


class _Plan:
    """What is asked of an instruction each time that it is executed."""

    __slots__ = (
        "guard",
        "instruction",
        "is_negated",
        "kind",
        "known_operands",
        "sources",
        "writes",
    )

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        names, back = _renumbered(instruction.names)
        key = meaning_of, id(instruction.form), names, instruction.immediates
        kind = _KINDS.get(key)
        if kind is None:
            kind = _KINDS[key] = _kind(instruction._replace(names=names))
        self.kind = kind
        guard = instruction.guard
        is_real = guard is not None and not guard.register.startswith("%")
        self.guard = Register(guard.register) if guard is not None and is_real else None
        self.is_negated = guard is not None and guard.negated
        self.writes = () if kind.terms is None else instruction.writes
        self.known_operands: list[Operand] | None = None

        def named(leaf: Operand) -> Operand:
            return Register(back[leaf.name]) if isinstance(leaf, Register) else leaf

        sources = () if kind.terms is None else kind.terms[1]
        self.sources = [
            named(one) if isinstance(one, Register) else mapped(one, named) for one in sources
        ]

    @property
    def operands(self) -> list[Operand]:
        """Without descriptors of memory."""
        if self.known_operands is None:
            found = self.instruction.operands
            self.known_operands = [one for one in found if not _is_descriptor(one)]
        return self.known_operands


def _renumbered(names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names with numbers in the order in which they come, and what they stand for."""
    known: dict[str, str] = {}
    for one in names:
        if one not in known:
            found = _NUMBERED.fullmatch(one)
            known[one] = f"{found[1]}{len(known)}" if found is not None else one
    return tuple(known[one] for one in names), {value: key for key, value in known.items()}


def _kind(instruction: Instruction) -> _Kind:
    types = {
        name: "pred" if name[0] == "%" or name.lstrip("U")[0] == "P" else "b32"
        for name in (*instruction.reads, *instruction.writes)
    }
    found, opcode = meaning_of(instruction, types), instruction.opcode
    assert opcode is not None
    name = opcode.name  # a NOP where no lane ever executes it
    if name in ("CALL", "RET") and instruction.control is ControlEffect.BRANCH:
        name = "BRA"  # of a function that was copied
    return _Kind(
        instruction.form,  # kept, so that its identity is its own
        None if found is None else (_compiled(found.results), found.sources),
        instruction.mnemonic in ("IADD3", "UIADD3"),
        name.lower(),
        frozenset(instruction.mnemonic.split(".")[1:]),
    )


@lru_cache(maxsize=20_000)
def _compiled(results: tuple[Term, ...]) -> _Compiled:
    return _Compiled(results)


def _is_descriptor(one: Operand) -> bool:
    return isinstance(one, Decorated) and one.before == "desc"


class Program:
    """The instructions of a kernel and its functions, by their addresses.

    ``watch`` is told of each instruction with terms: how to read its operands, and its results.
    ``beside`` is told of all instructions. ``keeps_apart``: lanes of a warp that have parted go on
    together only from where the code makes them wait for each other; ``order`` chooses which of
    them go on, else it is those at the lowest address. ``tables`` is what the file has of constant
    bank 2, which a listing does not.
    """

    def __init__(self, kernel: Kernel, module: Module, tables: bytes = b"") -> None:
        self.tables = tables
        self.watch: Watch | None = None
        self.beside: Beside | None = None
        self.keeps_apart = False
        self.order: np.random.Generator | None = None
        self.has_open_bits = False
        items = [one for one in module.items if isinstance(one, Kernel)]
        first = items.index(kernel)
        rest = [n for n, one in enumerate(items) if n > first and one.is_entry]
        assert kernel.code is not None
        self.kernel = kernel
        self.at: dict[int, Instruction] = {}
        self.labels: dict[int, dict[str, int]] = {}
        self.entries: dict[str, int] = {}
        self.plans: dict[int, _Plan] = {}
        for one in items[first : rest[0] if rest else len(items)]:
            assert one.code is not None
            addresses = [encoded.address for encoded in one.code.encoded]
            self.entries[one.name] = addresses[0]
            addresses.append(addresses[-1] + 16)
            labels = {name: addresses[index] for name, index in one.labels.items()}
            for address, instruction in zip(addresses, one.instructions, strict=False):
                self.at[address] = instruction
                self.labels[address] = labels
                self.plans[address] = _Plan(instruction)


def run_machine_code(
    program: Program, launch: EmulatedLaunch, constants: bytes = b""
) -> list[NDArray[Any] | None]:
    """The arrays of a launch after it, in the order of its arguments; ``constants``: bank 3.

    Raises UncoveredError for an instruction that is not executed here.
    """
    memory, bank, places = _laid_out(program.kernel, launch)
    with np.errstate(all="ignore"):
        for block in range(math.prod(launch.grid)):
            _Block(program, launch, block, memory, bank, constants).run()
    found: list[NDArray[Any] | None] = []
    for argument, place in zip(launch.arguments, places, strict=True):
        if isinstance(argument, np.ndarray):
            part = memory[place : place + argument.nbytes]
            found.append(part.view(argument.dtype).reshape(argument.shape).copy())
        else:
            found.append(None)
    return found


def constants_of(kernel: Kernel, module: Module, launch: EmulatedLaunch) -> bytes:
    """Constant bank 3: what the launch gives its variables, else what the file does."""
    assert kernel.code is not None
    given = dict(launch.variables)
    variables = {one.name: one for one in module.items if isinstance(one, Variable)}
    found = bytearray(max((end for _, end, _ in kernel.code.constants_at), default=0))
    for first, end, name in kernel.code.constants_at:
        initial = variables[name].initial if name in variables else None
        content = given.get(name, b"" if initial is None else initial(variables[name]))
        found[first:end] = content.ljust(end - first, b"\0")
    return bytes(found)


def _laid_out(
    kernel: Kernel, launch: EmulatedLaunch
) -> tuple[NDArray[np.uint8], bytearray, list[int]]:
    """Global memory, constant bank 0, and where the arrays lie."""
    bank, places, whole = bytearray(0x1000), list[int](), b""
    struct.pack_into("<6I", bank, 0, *launch.block, *launch.grid)
    struct.pack_into("<4I", bank, 0x18, 0, _SHARED_WINDOW, 0, _LOCAL_WINDOW)
    assert kernel.code is not None
    rows = zip(launch.arguments, kernel.parameters, kernel.code.parameters_at, strict=True)
    for argument, parameter, at in rows:
        places.append(len(whole))
        if isinstance(argument, np.ndarray):
            content = (_GLOBAL + len(whole)).to_bytes(8, "little")
            whole += argument.tobytes()
            whole += bytes(256 + -len(whole) % 256)
        elif isinstance(argument, bytes):
            content = argument
        elif isinstance(argument, float):
            content = struct.pack("<d" if parameter.size_bytes == 8 else "<f", argument)
        else:
            size = parameter.size_bytes
            content = (int(argument) % (1 << 8 * size)).to_bytes(size, "little")
        bank[at : at + len(content)] = content
    return np.frombuffer(bytearray(whole + bytes(16)), np.uint8).copy(), bank, places


class _Block:
    """One block under way."""

    def __init__(
        self,
        program: Program,
        launch: EmulatedLaunch,
        block: int,
        memory: NDArray[np.uint8],
        bank: bytearray,
        constants: bytes,
    ) -> None:
        threads = math.prod(launch.block)
        count = self.lanes = -(-threads // 32) * 32
        self.program, self.memory, self.number = program, memory, block
        self.banks = {"c[0x0]": bytes(bank), "c[0x3]": constants}
        if program.tables:
            self.banks["c[0x2]"] = program.tables
        self.shared = np.zeros(_SHARED_BYTES, np.uint8)
        self.local = np.zeros((count, _LOCAL_BYTES), np.uint8)
        self.words: dict[str, Words] = {}
        self.zero = np.zeros(count, np.uint64)
        index = np.arange(count, dtype=np.uint64)
        x, y, z = (np.uint64(one) for one in launch.block)
        gx, gy, _ = launch.grid
        lane = index & np.uint64(31)
        places = (block % gx, block // gx % gy, block // gx // gy)
        self.specials: dict[str, Words] = {
            "%tid.x": index % x,
            "%tid.y": index // x % y,
            "%tid.z": index // x // y % z,
            "%laneid": lane,
            "SR_CgaCtaId": self.zero,
            "SR_SWINHI": self.zero + np.uint64(_SHARED_WINDOW),
            "SR_LWINHI": self.zero + np.uint64(_LOCAL_WINDOW),
        }
        own, below = np.uint64(1) << lane, (np.uint64(1) << lane) - np.uint64(1)
        masks = {"eq": own, "lt": below, "le": below | own, "gt": ~(below | own), "ge": ~below}
        self.specials |= {f"%lanemask_{name}": mask & _LOW for name, mask in masks.items()}
        for axis, size, blocks, place in zip("xyz", launch.block, launch.grid, places, strict=True):
            self.specials[f"%ntid.{axis}"] = self.zero + _word(size)
            self.specials[f"%nctaid.{axis}"] = self.zero + _word(blocks)
            self.specials[f"%ctaid.{axis}"] = self.zero + _word(place)
        self.alive: Lanes = index < np.uint64(threads)
        self.existing = self.alive
        self.address = np.full(count, next(iter(program.at)), np.int64)
        self.waits: Lanes = np.zeros(count, bool)
        self.needed = np.zeros(count, np.uint64)  # lanes of the warp; none: all of the block
        self.votes: Lanes = np.zeros(count, bool)  # of a barrier that combines them
        self.reduction = ""
        self.reduced = {"BR": 0, "BP": 0}  # what a barrier leaves for B2R: how many, and a truth
        self.waits_at = np.full(count, "", dtype="<U8")  # the register of those at a BSYNC
        self.group = np.arange(count) // 32
        self.bit = np.uint64(1) << lane

    def run(self) -> None:
        for _ in range(MOST_STEPS):
            ready = self.alive & ~self.waits
            if not ready.any():
                if not self.alive.any():
                    return
                self.release()
                continue
            order = self.program.order
            address = int(
                self.address[ready].min() if order is None else order.choice(self.address[ready])
            )
            lanes = ready & (self.address == address)
            if self.program.keeps_apart:
                lanes &= self.group == self.group[np.flatnonzero(lanes)[0]]
                self.step(address, lanes)
                self.regroup(lanes)
            else:
                self.step(address, lanes)
        raise AssertionError("it does not end")

    # --- lanes that wait

    def together(self, lanes: Lanes) -> Words:
        """The mask of these lanes of its warp, for each lane."""
        masks = np.where(lanes, self.bit, np.uint64(0)).reshape(-1, 32).sum(axis=1, dtype=np.uint64)
        return np.repeat(masks, 32)

    def release(self) -> None:
        """Lets those go on for whom all have come, of a warp first."""
        released = np.zeros(self.lanes, bool)
        for address in np.unique(self.address[self.alive]):
            here = self.alive & self.waits & (self.address == address)
            missing = self.needed & self.together(self.alive) & ~self.together(here)
            released |= here & (self.needed != 0) & (missing == 0)
        if not released.any():
            at_barrier = self.alive & (self.needed == 0)
            assert (at_barrier == self.alive).all(), "a deadlock"
            votes = int((self.votes & self.alive).sum())
            if self.reduction:
                is_true = votes == int(self.alive.sum()) if self.reduction == "AND" else votes > 0
                self.reduced = {"BR": votes, "BP": int(is_true)}
            released = self.alive
        self.waits &= ~released
        self.waits_at[released] = ""
        self.address[released] += 16
        self.regroup(released & (self.needed != 0))

    def regroup(self, lanes: Lanes) -> None:
        """Makes a group of those of these lanes that are in one warp and at one address."""
        keys = self.address[lanes] * 64 + np.flatnonzero(lanes) // 32
        numbers = np.unique(keys, return_inverse=True)[1]
        self.group[lanes] = self.group.max() + 1 + numbers

    def wait(self, lanes: Lanes, needed: Words) -> None:
        self.waits |= lanes
        self.needed = np.where(lanes, needed, self.needed)
        self.address[lanes] -= 16  # they stay

    # --- operands

    def read(self, operand: Operand) -> Words:
        match operand:
            case Register(name):
                return self.words.get(name, self.zero)
            case SpecialRegister(name) if name in self.specials:
                return self.specials[name]
            case Immediate(value) if isinstance(value, int):
                return self.zero + _word(value & 0xFFFFFFFF)
            case Vector((low, high)):
                return self.read(low) | self.read(high) << np.uint64(32)
            case Negated(inner):
                return np.uint64(1) - self.read(inner)
            case Decorated(inner, "~", ""):
                return ~self.read(inner) & _LOW
            case Decorated(inner, "", after) if after in _PARTS:
                low, width = _PARTS[after]
                return _cut(self.read(inner) >> np.uint64(low), width)
            case Element(SymbolRef(bank), Address(base, offset)):
                return self.constant(bank, self.read(base) + _word(offset), 4)
        raise UncoveredError(f"operand {operand}")

    def truth(self, operand: Operand) -> Lanes:
        found: Lanes = self.read(operand) != 0
        return found

    def float(self, operand: Operand) -> NDArray[np.float32]:
        match operand:
            case Immediate(value, text) if not text.lstrip("-").startswith("0x"):
                return floats.singles(self.zero) + np.float32(_literal(value, text))
            case Decorated(inner, before, "" | "|"):
                found = self.float(inner)
                found = np.abs(found) if "|" in before else found
                return -found if "-" in before else found
        return floats.singles(self.read(operand))

    def double(self, operand: Operand) -> NDArray[np.float64]:
        match operand:
            case Immediate(value, text) if not text.lstrip("-").startswith("0x"):
                return self.zero * 0.0 + np.float64(_literal(value, text))
            case Immediate():  # the high half
                return (self.read(operand) << np.uint64(32)).view(np.float64)
            case Decorated(inner, before, "" | "|"):
                found = self.double(inner)
                found = np.abs(found) if "|" in before else found
                return -found if "-" in before else found
            case Element(SymbolRef(bank), Address(base, offset)):
                place = self.read(base) + _word(offset)
                return self.constant(bank, place, 8).view(np.float64)
        return self.read(operand).view(np.float64)

    def bits_of(self, operand: Operand) -> Words:
        """The word of an operand that may be a number of floating point."""
        match operand:
            case Immediate(_, text) if not text.lstrip("-").startswith("0x"):
                return floats.bits(self.float(operand))
            case Decorated(inner, before, "" | "|"):
                found = self.bits_of(inner)
                sign = np.uint64(1 << 31)
                found = found & ~sign if "|" in before else found
                return found ^ sign if "-" in before else found
        return self.read(operand)

    def write(self, operand: Operand, value: Words, lanes: Lanes) -> None:
        match operand:
            case Register(name):
                self.words[name] = np.where(lanes, value, self.words.get(name, self.zero))
            case Vector(elements):
                for number, one in enumerate(elements):
                    self.write(one, value >> np.uint64(32 * number) & _LOW, lanes)
            case Sink():
                pass
            case _:
                raise UncoveredError(f"target {operand}")

    def place(self, bracket: Operand) -> Words:
        """The address in brackets."""
        assert isinstance(bracket, Bracket)
        total = self.zero
        for part in bracket.elements:
            match part:
                case Decorated(_, "desc", _):
                    continue
                case Decorated(inner, "", after):
                    scale = {".64": 1, ".U32": 1, ".X4": 4, ".X8": 8, ".X16": 16}[after]
                    total = total + self.read(inner) * np.uint64(scale)
                case Immediate(value):
                    total = total + _word(int(value))
                case _:
                    total = total + self.read(part)
        return total

    def constant(self, bank: str, place: Words, size: int) -> Words:
        if bank not in self.banks:
            raise UncoveredError(f"bank {bank}")
        data, places = self.banks[bank], place & _LOW
        if (places == places[0]).all():
            at = int(places[0])
            return self.zero + np.uint64(int.from_bytes(data[at : at + size], "little"))
        numbers = [int.from_bytes(data[int(p) : int(p) + size], "little") for p in places]
        return np.array(numbers, np.uint64)

    # --- steps

    def step(self, address: int, active: Lanes) -> None:
        beside = self.program.beside
        if beside is not None:
            beside.before(self, address, active)
        self.execute(address, active)
        if beside is not None:
            beside.behind(self, address, active)

    def execute(self, address: int, active: Lanes) -> None:
        plan, lanes = self.program.plans[address], active
        kind = plan.kind
        self.address[active] = address + 16
        if plan.guard is not None:
            lanes = active & (self.truth(plan.guard) != plan.is_negated)
        if kind.terms is not None:
            compiled = kind.terms[0]
            self.program.has_open_bits |= compiled.is_open
            results = compiled.run([self.read(one) for one in plan.sources], self.lanes)
            if kind.is_sum:
                results[1:] = self.carries(plan.operands, results)[1:]
            if self.program.watch is not None:
                self.program.watch(plan.instruction, self.read, results)
            for name, value in zip(plan.writes, results, strict=True):
                self.words[name] = np.where(lanes, value, self.words.get(name, self.zero))
            return
        if kind.name in _SKIPPED:
            return
        rule = getattr(self, f"do_{kind.name}", None)
        if rule is None:
            raise UncoveredError(plan.instruction.mnemonic)
        rule(plan.instruction, kind.words, plan.operands, lanes, active)

    def carries(self, operands: list[Operand], results: list[Words]) -> list[Words]:
        """What a sum of three numbers carries, with which results: as two, if it is as much."""
        total = self.zero
        for one in operands[-3:]:
            if isinstance(one, Decorated) and one.before == "-":
                total = total + (~self.read(one.operand) & _LOW) + np.uint64(1)
            else:
                total = total + self.read(one)
        carry = total >> np.uint64(32)
        numbers = [_truth(carry >= np.uint64(most)) for most in (1, 2)]
        return [results[0], *numbers][: len(results)]

    def do_bra(
        self, instruction: Instruction, words: Any, operands: Any, lanes: Lanes, _: Any
    ) -> None:
        labels = self.program.labels[int(self.address[lanes][0]) - 16] if lanes.any() else {}
        guard = instruction.guard
        if guard is not None and guard.register.startswith("%"):
            for part in guard.register[1:].split("&"):
                if part in ("DIV", "CONV"):
                    parted = (self.read(operands[1]) & ~self.together(lanes)) != 0
                    lanes = lanes & (parted == (part == "DIV"))
                elif part in ("ANY", "COLLECTIVE"):
                    raise UncoveredError(instruction.mnemonic)
                else:
                    name = part.lstrip("!")
                    value = np.uint64(1) + self.zero if name.endswith("T") else None
                    held = self.truth(Register(name)) if value is None else value != 0
                    lanes = lanes & (held != part.startswith("!"))
        if lanes.any():
            self.address[lanes] = labels[instruction.targets[0]]

    def do_call(
        self, instruction: Instruction, words: Any, operands: Any, lanes: Lanes, _: Any
    ) -> None:
        if instruction.callee is None:  # it leads to a place of its own function
            self.do_bra(instruction, words, operands, lanes, lanes)
        elif lanes.any():
            self.address[lanes] = self.program.entries[instruction.callee]

    def do_ret(
        self, instruction: Instruction, words: Any, operands: Any, lanes: Lanes, _: Any
    ) -> None:
        back = self.read(operands[0]) & _LOW
        self.address[lanes] = back[lanes].astype(np.int64)

    def do_brx(
        self, instruction: Instruction, words: Any, operands: Any, lanes: Lanes, _: Any
    ) -> None:
        """To where a register says, behind the offset that the text of the instruction has."""
        found = _OFFSET.search(instruction.span.text)
        assert found is not None
        start = self.address + int(found[1], 0)
        places = (start + (self.read(operands[0]) & _LOW).astype(np.int64))[lanes]
        if lanes.any():
            labels = self.program.labels[int(self.address[lanes][0]) - 16]
            known = {labels[one] for one in instruction.targets}
            assert known.issuperset(places.tolist()), "an indexed branch leads elsewhere"
            self.address[lanes] = places

    do_brxu = do_brx  # by a register of the uniform datapath

    def do_exit(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.alive = self.alive & ~lanes

    def do_bssy(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.write(operands[0], self.together(lanes), lanes)

    def do_bsync(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.wait(lanes, self.read(operands[0]) | self.bit)
        self.waits_at = np.where(lanes, operands[0].name, self.waits_at)

    def do_break(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        for one in operands[:-1]:
            lanes = lanes & self.truth(one)
        left = ~self.together(lanes)
        self.write(operands[-1], self.read(operands[-1]) & left, np.ones(self.lanes, bool))
        there = self.waits & (self.waits_at == operands[-1].name)  # these wait no longer for them
        self.needed = np.where(there, self.needed & left | self.bit, self.needed)

    def do_bmov(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.write(operands[0], self.read(operands[1]), lanes)

    def do_warpsync(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        if "COLLECTIVE" in words:
            raise UncoveredError("WARPSYNC.COLLECTIVE")
        mask = self.together(self.alive) if "ALL" in words else self.read(operands[-1])
        self.wait(lanes, mask | self.bit)

    def do_bar(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        if "RED" in words and len(operands) == 2:
            self.votes = np.where(lanes, self.truth(operands[1]), self.votes)
            self.reduction = next(one for one in ("POPC", "AND", "OR") if one in words)
        elif "SYNC" not in words or len(operands) != 1:
            raise UncoveredError(instruction.mnemonic)
        self.wait(lanes, self.zero)

    def do_b2r(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        if words != {"RESULT"}:
            raise UncoveredError(instruction.mnemonic)
        self.write(operands[0], self.zero + np.uint64(self.reduced["BR"]), lanes)
        for one in operands[1:]:
            self.write(one, self.zero + np.uint64(self.reduced["BP"]), lanes)

    # --- memory

    def spaces(
        self, name: str, place: Words, lanes: Lanes
    ) -> Iterator[tuple[NDArray[np.uint8], Words, Lanes]]:
        """Memory, offsets in it, and the lanes whose addresses are of it."""
        if name in ("LDS", "STS", "ATOMS", "LDSM"):
            yield self.shared, place & _LOW, lanes
            return
        own = np.arange(self.lanes, dtype=np.uint64) * np.uint64(_LOCAL_BYTES)
        inside = np.uint64(_LOCAL_BYTES - 1)
        if name in ("LDL", "STL"):
            yield self.local.reshape(-1), own + (place & inside), lanes
            return
        window = place >> np.uint64(32)
        is_generic = name in ("LD", "ST", "ATOM")
        if is_generic:
            of_shared, of_local = window == _SHARED_WINDOW, window == _LOCAL_WINDOW
            yield self.shared, place & _LOW, lanes & of_shared
            yield self.local.reshape(-1), own + (place & inside), lanes & of_local
            lanes = lanes & ~of_shared & ~of_local
        yield self.memory, place - np.uint64(_GLOBAL), lanes

    def loaded(self, data: NDArray[np.uint8], place: Words, size: int, lanes: Lanes) -> Words:
        found = self.zero.copy()
        at = place[lanes]
        if len(at):
            found[lanes] = _numbers(data, at, size)[at // np.uint64(size)]
        return found

    def do_load(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        target = next(one for one in operands if isinstance(one, (Register, Vector, Sink)))
        bracket = next(one for one in operands if isinstance(one, Bracket))
        name = instruction.mnemonic.split(".")[0]
        size, is_signed = _size(words)
        elements = target.elements if isinstance(target, Vector) else (target,)
        values = [self.zero] * len(elements)
        for data, place, some in self.spaces(name, self.place(bracket), lanes):
            for number in range(len(elements)):
                at = place + np.uint64(4 * number)
                found = self.loaded(data, at, min(size, 4), some)
                values[number] = np.where(some, found, values[number])
        for one, value in zip(elements, values, strict=True):
            if is_signed:
                value = _signed(value, 8 * size).view(np.uint64) & _LOW
            self.write(one, value, lanes)

    do_ld = do_ldg = do_lds = do_ldl = do_load

    def do_store(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        bracket, content = operands[0], operands[1]
        name = instruction.mnemonic.split(".")[0]
        size, _signed_one = _size(words)
        elements = (
            content.elements if isinstance(content, Vector) else (content,) * max(1, size // 4)
        )
        few = min(size, 4)
        for data, place, some in self.spaces(name, self.place(bracket), lanes):
            for number, one in enumerate(elements):
                at = place[some] + np.uint64(4 * number)
                if len(at):
                    memory = _numbers(data, at, few)
                    memory[at // np.uint64(few)] = self.read(one)[some].astype(memory.dtype)

    do_st = do_stg = do_sts = do_stl = do_store

    def do_ldsm(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        """Matrices of 8 rows of 16 bytes, each of which a lane names; a lane gets two halves."""
        if not words <= {"16", "M88", "MT88", "2", "4"}:
            raise UncoveredError(instruction.mnemonic)
        target, place = operands[0], self.place(operands[1]) & _LOW
        elements = target.elements if isinstance(target, Vector) else (target,)
        halves = self.shared.view(np.uint16)
        for number, one in enumerate(elements):
            found = self.zero.copy()
            for lane in np.flatnonzero(lanes):
                own, first = int(lane) % 32, int(lane) // 32 * 32 + 8 * number
                for half in (0, 1):
                    row, column = own // 4, own % 4 * 2 + half
                    if "MT88" in words:
                        row, column = column, row
                    at = int(place[first + row]) // 2 + column
                    found[lane] |= np.uint64(int(halves[at]) << 16 * half)
            self.write(one, found, lanes)

    def do_ldgsts(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        to, origin, *rest = operands
        if rest:
            raise UncoveredError(instruction.mnemonic)
        size, _signed_one = _size(words)
        target, source = self.place(to) & _LOW, self.place(origin) - np.uint64(_GLOBAL)
        for lane in np.flatnonzero(lanes):
            a, b = int(target[lane]), int(source[lane])
            self.shared[a : a + size] = self.memory[b : b + size]

    def do_atomic(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        name = instruction.mnemonic.split(".")[0]
        at = next(n for n, one in enumerate(operands) if isinstance(one, Bracket))
        if words & {"F16x2", "BF16x2", "F16", "BF16", "ARRIVE"}:
            raise UncoveredError(instruction.mnemonic)
        size = 8 if words & {"64", "U64", "S64", "F64"} else 4
        targets = [one for one in operands[:at] if isinstance(one, (Register, Vector, Sink))]
        given = [self.read(one) for one in operands[at + 1 :]]
        old = self.zero.copy()
        for data, place, some in self.spaces(name, self.place(operands[at]), lanes):
            memory = _numbers(data, place[some], size)
            for lane in np.flatnonzero(some):
                a = int(place[lane]) // size
                before = int(memory[a])
                after = _changed(words, before, [int(one[lane]) for one in given], 8 * size)
                memory[a] = after & ((1 << 8 * size) - 1)
                is_cast = "CAST" in words  # which tells whether it has stored
                old[lane] = before == int(given[0][lane]) if is_cast else before
        if targets:
            self.write(targets[-1], old, lanes)

    do_atom = do_atoms = do_atomg = do_red = do_redg = do_atomic

    def do_ldc(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        target, element = operands
        size, is_signed = _size(words)
        assert isinstance(element, Element)
        place = self.read(element.index.base) + _word(element.index.offset)
        value = self.constant(element.array.name, place, size)
        if is_signed:
            value = _signed(value, 8 * size).view(np.uint64) & _LOW
        self.write(target, value, lanes)

    do_uldc = do_ldc

    # --- lanes among themselves

    def do_shfl(self, _i: Any, words: Any, operands: Any, lanes: Lanes, active: Lanes) -> None:
        valid, target, value = operands[0], operands[1], self.read(operands[2])
        amount, bounds = self.read(operands[3]), self.read(operands[4])
        result, inside = value.copy(), np.zeros(self.lanes, bool)
        for lane in np.flatnonzero(lanes):
            own, by, c = int(lane) % 32, int(amount[lane]) & 31, int(bounds[lane])
            segment, clamp = c >> 8 & 31, c & 31
            most, least = (own & segment) | (clamp & ~segment), own & segment
            other, ok = {
                "UP": (own - by, own - by >= most),
                "DOWN": (own + by, own + by <= most),
                "BFLY": (own ^ by, own ^ by <= most),
                "IDX": (least | (by & ~segment), (least | (by & ~segment)) <= most),
            }[next(one for one in ("UP", "DOWN", "BFLY", "IDX") if one in words)]
            inside[lane] = ok
            if ok:
                result[lane] = value[int(lane) - own + other]
        self.write(target, result, lanes)
        self.write(valid, _truth(inside), lanes)

    def do_vote(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        *targets, operand = operands
        ballot, all_of = self.together(lanes & self.truth(operand)), self.together(lanes)
        outcome = {
            "ANY": ballot != 0,
            "ALL": ballot == all_of,
            "EQ": (ballot == 0) | (ballot == all_of),
        }
        found = outcome[next(one for one in ("ANY", "ALL", "EQ") if one in words)]
        for one in targets:
            is_mask = isinstance(one, Register) and "P" not in one.name
            self.write(one, ballot if is_mask else _truth(found), lanes)

    do_voteu = do_vote

    def do_match(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        *targets, operand = operands
        value, found = self.read(operand), self.zero.copy()
        for lane in np.flatnonzero(lanes):
            first = int(lane) // 32 * 32
            own = slice(first, first + 32)
            same = lanes[own] & (value[own] == value[lane])
            found[lane] = self.bit[own][same].sum(dtype=np.uint64)
        if "ALL" in words:
            agree = found == self.together(lanes)
            found = np.where(agree, found, np.uint64(0))
            self.write(targets[0], _truth(agree), lanes)
        self.write(targets[-1], found, lanes)

    def do_redux(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        value, found = self.read(operands[-1]), self.zero.copy()
        reduced = {"SUM": np.add, "OR": np.bitwise_or, "XOR": np.bitwise_xor}
        change = next((reduced[one] for one in reduced if one in words), None)
        change = change if words & {"SUM", "OR", "XOR", "MIN", "MAX"} else np.bitwise_and
        for first in range(0, self.lanes, 32):
            own = slice(first, first + 32)
            numbers = value[own][lanes[own]]
            if not len(numbers):
                continue
            if change is not None:
                found[own] = change.reduce(numbers) & _LOW
                continue
            signed = _signed(numbers, 32) if "S32" in words else numbers.view(np.int64)
            one = signed.max() if "MAX" in words else signed.min()
            found[own] = np.uint64(int(one) & 0xFFFFFFFF)
        self.write(operands[0], found, lanes)

    def do_r2ur(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.write(operands[0], self.read(operands[-1]), lanes)

    def do_s2ur(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.write(operands[0], self.read(operands[1]), lanes)

    do_s2r = do_s2ur

    # --- floating point

    def singles(self, operands: Sequence[Operand], words: frozenset[str]) -> list[Any]:
        found = [self.float(one) for one in operands]
        return [floats.flushed(one) for one in found] if "FTZ" in words else found

    def doubles(self, operands: Sequence[Operand]) -> list[Any]:
        return [self.double(one) for one in operands]

    def do_fadd(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        a, b = (one.astype(np.float64) for one in self.singles(operands[1:3], words))
        downwards = (a != 0) | (np.signbit(a) != np.signbit(b))
        self.write(operands[0], floats.to_singles(*floats.total(a, b), words, downwards), lanes)

    def do_fmul(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        a, b = (one.astype(np.float64) for one in self.singles(operands[1:3], words))
        self.write(operands[0], floats.to_singles(a * b, self.zero * 0.0, words), lanes)

    def do_ffma(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        a, b, c = (one.astype(np.float64) for one in self.singles(operands[1:4], words))
        downwards = (c != 0) | (np.signbit(a * b) != np.signbit(c))
        found = floats.to_singles(*floats.total(a * b, c), words, downwards)
        self.write(operands[0], found, lanes)

    def do_fmnmx(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        a, b = self.singles(operands[1:3], words)
        found = floats.extreme(a, b, self.truth(operands[3]), words)
        self.write(operands[0], floats.bits(found), lanes)

    def do_fsel(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        a, b = (self.bits_of(one) for one in operands[1:3])
        self.write(operands[0], np.where(self.truth(operands[3]), a, b), lanes)

    def do_fsetp(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.compared(instruction, operands, self.singles(operands[2:4], words), lanes)

    def do_dsetp(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.compared(instruction, operands, self.doubles(operands[2:4]), lanes)

    def compared(self, instruction: Any, operands: Any, pair: list[Any], lanes: Lanes) -> None:
        order, join = (one for one in instruction.mnemonic.split(".")[1:] if one != "FTZ")
        if order not in floats.ORDERS:
            raise UncoveredError(instruction.mnemonic)
        other, found = self.truth(operands[4]), floats.ORDERS[order](*pair)
        self.write(operands[0], _truth(floats.JOINS[join](found, other)), lanes)
        self.write(operands[1], _truth(floats.JOINS[join](~found, other)), lanes)

    def do_fset(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        named = [one for one in instruction.mnemonic.split(".")[1:] if one not in ("FTZ", "BF")]
        found = floats.ORDERS[named[0]](*self.singles(operands[1:3], words))
        found = floats.JOINS[named[1]](found, self.truth(operands[3]))
        true = np.uint64(0x3F800000) if "BF" in words else _LOW
        self.write(operands[0], np.where(found, true, np.uint64(0)), lanes)

    def do_fchk(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        """Whether a quotient asks for the long way, which is right for all."""
        a, b = (np.abs(self.float(one)) for one in operands[1:3])
        is_plain = (a > 1e-15) & (a < 1e15) & (b > 1e-15) & (b < 1e15)
        self.write(operands[0], _truth(~is_plain), lanes)

    def do_mufu(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        name = instruction.mnemonic.split(".")[1]
        if name in floats.HIGH_HALVES:
            match operands[1]:
                case Immediate(_, text) if not text.lstrip("-").startswith("0x"):
                    high = self.double(operands[1])
                case _:
                    high = (self.bits_of(operands[1]) << np.uint64(32)).view(np.float64)
            found = floats.HIGH_HALVES[name](high).view(np.uint64) >> np.uint64(32)
            self.write(operands[0], found, lanes)
            return
        function = floats.FUNCTIONS.get(name)
        if function is None or words - {name, "FTZ"}:
            raise UncoveredError(instruction.mnemonic)
        number = floats.flushed(self.float(operands[1])).astype(np.float64)
        found = floats.to_singles(function(number), self.zero * 0.0, frozenset(("FTZ",)))
        self.write(operands[0], found, lanes)

    def do_dadd(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        first, last = self.doubles(operands[1:3])
        self.write(operands[0], self.fused(first, self.zero * 0.0 + 1.0, last, words), lanes)

    def do_dmul(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        a, b = self.doubles(operands[1:3])
        zero = np.where(np.signbit(a) != np.signbit(b), -0.0, 0.0)
        self.write(operands[0], self.fused(a, b, zero, words), lanes)

    def do_dfma(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.write(operands[0], self.fused(*self.doubles(operands[1:4]), words), lanes)

    def fused(self, a: Any, b: Any, c: Any, words: frozenset[str]) -> Words:
        return floats.bits_of_doubles(floats.fused_doubles(a, b, c, words))

    def do_i2f(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        known = {"F32", "F64", "S16", "S32", "S64", "S8", "U16", "U32", "U64", "U8"}
        if words - known - {"RP", "RM", "RZ", "RN"}:
            raise UncoveredError(instruction.mnemonic)
        kind = next((one for one in words if one[0] in "US"), "S32")
        width = int(kind[1:])
        value = _cut(self.read(operands[1]), width)
        numbers = [int(one) for one in (_signed(value, width) if kind[0] == "S" else value)]
        if "F64" in words:
            found = np.array([floats.rounded(Fraction(one), words) for one in numbers])
            self.write(operands[0], floats.bits_of_doubles(found), lanes)
            return
        made = [floats.rounded(Fraction(one), words, np.float32) for one in numbers]
        self.write(operands[0], floats.bits(np.array(made, np.float32)), lanes)

    do_i2fp = do_i2f

    def do_f2i(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        kinds = {"S16", "S32", "S64", "S8", "U16", "U32", "U64", "U8"}
        if words - kinds - {"FTZ", "F64", "TRUNC", "FLOOR", "CEIL", "NTZ"}:
            raise UncoveredError(instruction.mnemonic)
        is_wide = "F64" in words
        if is_wide:
            value = self.double(operands[1])
        else:
            value = self.singles(operands[1:2], words)[0].astype(np.float64)
        kept = floats.to_integers(value, words, is_wide=is_wide)
        self.write(operands[0], np.array(kept, np.uint64), lanes)

    def do_f2f(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        kinds = [one for one in instruction.mnemonic.split(".") if one in ("F32", "F64")]
        if words - {"F32", "F64", "FTZ", "RZ", "RM", "RP", "SAT"} or len(set(kinds)) != 2:
            raise UncoveredError(instruction.mnemonic)
        if kinds[0] == "F64":
            number = self.singles(operands[1:2], words)[0].astype(np.float64)
            if "SAT" in words:
                raise UncoveredError(instruction.mnemonic)
            self.write(operands[0], floats.bits_of_doubles(number), lanes)
            return
        number = self.double(operands[1])
        self.write(operands[0], floats.to_singles(number, self.zero * 0.0, words), lanes)

    def do_frnd(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        ways = {"FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc}
        if words - ways.keys() - {"FTZ", "F64"}:
            raise UncoveredError(instruction.mnemonic)
        way = ways.get(next((one for one in ways if one in words), ""), np.rint)
        if "F64" in words:
            found = floats.bits_of_doubles(way(self.double(operands[1])))
        else:
            found = floats.bits(way(self.singles(operands[1:2], words)[0]))
        self.write(operands[0], found, lanes)


def _literal(value: Any, text: str) -> float:
    """A number of floating point as it is written."""
    for name, number in (("INF", math.inf), ("QNAN", math.nan), ("RZ", 0.0)):
        if text.lstrip("+-").endswith(name):
            return -number if text.startswith("-") else number
    return float(value)


def _size(words: frozenset[str]) -> tuple[int, bool]:
    """Bytes of an access, and whether it extends a sign."""
    for word, size in (("8", 1), ("16", 2)):
        for sign in "US":
            if sign + word in words:
                return size, sign == "S"
    return (8 if "64" in words else 16 if "128" in words else 4), False


def _numbers(data: NDArray[np.uint8], at: Words, size: int) -> NDArray[Any]:
    """Memory as numbers of a size, at whose places are the addresses."""
    assert not len(at) or int(at.max()) + size <= len(data), "outside of memory"
    assert not (at % np.uint64(size)).any(), "not aligned"
    return data[: len(data) // size * size].view(f"u{size}")


def _changed(words: frozenset[str], old: int, numbers: list[int], bits: int) -> int:
    """What an atomic leaves."""
    if "POPC" in words:
        return old + 1
    if words & {"CAS", "CAST"}:
        return numbers[1] if old == numbers[0] else old
    name = next(one for one in (*_ATOMICS, "INC", "DEC") if one in words)
    if words & {"F32", "F64"} and name == "ADD":
        kind, number = (np.float32, np.uint32) if bits == 32 else (np.float64, np.uint64)
        one, other = (np.array([each], number).view(kind) for each in (old, numbers[0]))
        found = one + other
        found = floats.flushed(found) if "FTZ" in words else found
        return int(found.view(number)[0])
    if name in ("INC", "DEC"):
        most = numbers[0]
        if name == "INC":
            return 0 if old >= most else old + 1
        return most if old == 0 or old > most else old - 1
    if name in ("MIN", "MAX") and words & {"S32", "S64"}:
        pair = [one - (1 << bits) if one >> bits - 1 else one for one in (old, numbers[0])]
        return _ATOMICS[name](*pair)
    return _ATOMICS[name](old, numbers[0])
