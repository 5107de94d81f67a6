"""Machine code executed, made of its terms: what a cubin leaves in memory, lanes at once.

What integer opcodes compute are the terms under test, interpreted here over lanes. All else is for
execution alone: transfers of control, memory, what lanes tell each other, floating point. Lanes go
on from the lowest address first; at BSYNC, WARPSYNC and barriers they wait for one another.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.ir.kernel import Instruction, Kernel, Module
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
)
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import Op, Term

Words = NDArray[np.uint64]
Lanes = NDArray[np.bool_]
_GLOBAL = 0x7_1234_0000
_SHARED_BYTES = 0x1_0000
OPEN = np.random.default_rng(1)  # bits that terms leave open: others each time
MOST_STEPS = 200_000
_LOW = np.uint64(0xFFFFFFFF)


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


class _Compiled:
    """The results of a meaning as a list of steps; ``left_open`` is told of bits that are open."""

    def __init__(self, results: Sequence[Term], left_open: Callable[[], None]) -> None:
        self.left_open = left_open
        places: dict[Term, int] = {}
        self.steps: list[Term] = []
        pending = list(reversed(results))
        while pending:
            node = pending[-1]
            missing = [one for one in node.args if one not in places]
            if node in places or not missing:
                pending.pop()
                if node not in places:
                    places[node] = len(self.steps)
                    self.steps.append(node)
            else:
                pending += missing
        self.arguments = [[places[one] for one in node.args] for node in self.steps]
        self.results = [places[one] for one in results]

    def run(self, sources: Sequence[Words], lanes: int) -> list[Words]:
        values: list[Words] = []
        for node, arguments in zip(self.steps, self.arguments, strict=True):
            if node.op is Op.CONST:
                value = np.full(lanes, _word(node.value))
            elif node.op is Op.SOURCE:
                value = sources[node.value]
            elif node.op is Op.ANY:
                self.left_open()
                value = _cut(OPEN.integers(1 << 63, size=lanes, dtype=np.uint64), node.width)
            else:
                given = [values[place] for place in arguments]
                width = node.args[1 if node.op is Op.ITE else 0].width
                value = _cut(_OPERATORS[node.op](width, node.value, *given), node.width)
            values.append(value)
        return [values[place] for place in self.results]


# --- floating point, for execution alone ----------------------------------------------------------


def _float(value: Words) -> NDArray[np.float32]:
    return value.astype(np.uint32).view(np.float32)


def _bits(value: Any) -> Words:
    return np.asarray(value, np.float32).view(np.uint32).astype(np.uint64)


def _fused(a: Any, b: Any, c: Any) -> NDArray[np.float32]:
    """A product and a sum, rounded once: the sum is rounded to odd in double precision first."""
    product, addend = np.float64(a) * np.float64(b), np.float64(c)
    total = np.asarray(product + addend)
    back = total - product
    rest = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    away = (rest > 0) == (total > 0)
    step = np.where((rest != 0) & even & np.isfinite(total), np.where(away, 1, -1), 0)
    return (total.view(np.int64) + step).view(np.float64).astype(np.float32)


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "RCP": lambda x: 1 / x,
    "RSQ": lambda x: 1 / np.sqrt(x),
    "SQRT": np.sqrt,
    "EX2": np.exp2,
    "LG2": np.log2,
    "SIN": np.sin,
    "COS": np.cos,
    "TANH": np.tanh,
}
_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: (a < b) | (a > b),
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "NEU": lambda a, b: ~(a == b),
    "EQU": lambda a, b: ~((a < b) | (a > b)),
    "LTU": lambda a, b: ~(a >= b),
    "LEU": lambda a, b: ~(a > b),
    "GTU": lambda a, b: ~(a <= b),
    "GEU": lambda a, b: ~(a < b),
    "NUM": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "NAN": lambda a, b: np.isnan(a) | np.isnan(b),
}
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
    ("NOP", "YIELD", "DEPBAR", "LDGDEPBAR", "MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL", "PMTRIG")
)


Watch = Callable[[Instruction, Callable[[Operand], Words], list[Words]], None]


class Beside(Protocol):
    """What is told of all that a block does, before and behind each instruction of these lanes."""

    def before(self, block: Any, address: int, active: Lanes) -> None: ...
    def behind(self, block: Any, address: int, active: Lanes) -> None: ...


# --- the run --------------------------------------------------------------------------------------


class Program:
    """The instructions of a kernel and its functions, by their addresses.

    ``watch`` is told of each instruction with terms: how to read its operands, and its results.
    ``beside`` is told of all instructions. ``keeps_apart``: lanes of a warp that have parted go on
    together only from where the code makes them wait for each other; ``order`` chooses which of
    them go on, else it is those at the lowest address.
    """

    def __init__(self, kernel: Kernel, module: Module) -> None:
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
        self.compiled: dict[int, tuple[_Compiled, tuple[Operand, ...]] | None] = {}
        for one in items[first : rest[0] if rest else len(items)]:
            assert one.code is not None
            addresses = [encoded.address for encoded in one.code.encoded]
            self.entries[one.name] = addresses[0]
            addresses.append(addresses[-1] + 16)
            labels = {name: addresses[index] for name, index in one.labels.items()}
            for address, instruction in zip(addresses, one.instructions, strict=False):
                self.at[address] = instruction
                self.labels[address] = labels
                found = meaning_of(instruction, one.registers)
                terms = (
                    None
                    if found is None
                    else (_Compiled(found.results, self.left_open), found.sources)
                )
                self.compiled[address] = terms

    def left_open(self) -> None:
        """Bits were used that the terms leave open: other ones each time."""
        self.has_open_bits = True


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


def _laid_out(
    kernel: Kernel, launch: EmulatedLaunch
) -> tuple[NDArray[np.uint8], bytearray, list[int]]:
    """Global memory, constant bank 0, and where the arrays lie."""
    bank, places, whole = bytearray(0x1000), list[int](), b""
    struct.pack_into("<6I", bank, 0, *launch.block, *launch.grid)
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
            content = struct.pack("<f", argument)
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
        self.shared = np.zeros(_SHARED_BYTES, np.uint8)
        self.local = np.zeros((count, 4096), np.uint8)
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
        self.votes: Lanes = np.zeros(count, bool)
        self.joined: frozenset[str] = frozenset()
        self.reduced = {"BR": 0, "BP": 0}
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
            self.reduce()
            released = self.alive
        self.waits &= ~released
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
            case Element(SymbolRef(bank), Address(base, offset)):
                return self.constant(bank, self.read(base) + _word(offset), 4)
        raise UncoveredError(f"operand {operand}")

    def truth(self, operand: Operand) -> Lanes:
        found: Lanes = self.read(operand) != 0
        return found

    def float(self, operand: Operand) -> NDArray[np.float32]:
        match operand:
            case Immediate(value, text) if not text.lstrip("-").startswith("0x"):
                return _float(self.zero) + np.float32(0.0 if text.endswith("RZ") else value)
            case Decorated(inner, before, "" | "|"):
                found = self.float(inner)
                found = np.abs(found) if "|" in before else found
                return -found if "-" in before else found
        return _float(self.read(operand))

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
        data = self.banks[bank]
        numbers = [int.from_bytes(data[int(p) : int(p) + size], "little") for p in place & _LOW]
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
        instruction = self.program.at[address]
        guard, lanes = instruction.guard, active
        self.address[active] = address + 16
        if guard is not None and not guard.register.startswith("%"):
            lanes = active & (self.truth(Register(guard.register)) != guard.negated)
        terms = self.program.compiled[address]
        if terms is not None:
            compiled, sources = terms
            results = compiled.run([self.read(one) for one in sources], self.lanes)
            if instruction.mnemonic in ("IADD3", "UIADD3"):
                results[1:] = self.carries(instruction, results)[1:]
            if self.program.watch is not None:
                self.program.watch(instruction, self.read, results)
            for name, value in zip(instruction.writes, results, strict=True):
                self.write(Register(name), value, lanes)
            return
        words = instruction.mnemonic.split(".")[1:]
        assert instruction.opcode is not None
        name = instruction.opcode.name  # a NOP where no lane ever executes it
        is_copied = name in ("CALL", "RET") and instruction.control is ControlEffect.BRANCH
        rule = self.do_bra if is_copied else getattr(self, f"do_{name.lower()}", None)
        if name in _SKIPPED:
            return
        if rule is None:
            raise UncoveredError(instruction.mnemonic)
        operands = [
            one
            for one in instruction.operands
            if not (isinstance(one, Decorated) and one.before == "desc")
        ]
        rule(instruction, frozenset(words), operands, lanes, active)

    def carries(self, instruction: Instruction, results: list[Words]) -> list[Words]:
        """What a sum of three numbers carries, with which results: as two, if it is as much."""
        total = self.zero
        for one in instruction.operands[-3:]:
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

    def do_exit(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.alive = self.alive & ~lanes

    def do_bssy(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.write(operands[0], self.together(lanes), lanes)

    def do_bsync(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.wait(lanes, self.read(operands[0]) | self.bit)

    def do_break(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        for one in operands[:-1]:
            lanes = lanes & self.truth(one)
        old = self.read(operands[-1])
        self.write(operands[-1], old & ~self.together(lanes), np.ones(self.lanes, bool))

    def do_bmov(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.write(operands[0], self.read(operands[1]), lanes)

    def do_warpsync(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        if "COLLECTIVE" in words:
            raise UncoveredError("WARPSYNC.COLLECTIVE")
        mask = self.together(self.alive) if "ALL" in words else self.read(operands[-1])
        self.wait(lanes, mask | self.bit)

    def do_bar(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        if len(operands) != 1 + ("RED" in words) or "ARV" in words:
            raise UncoveredError(instruction.mnemonic)
        self.joined = words & {"OR", "AND", "POPC"}
        if "RED" in words:
            self.votes = np.where(lanes, self.truth(operands[1]), self.votes)
        self.wait(lanes, self.zero)

    def reduce(self) -> None:
        """What a barrier that all have come to leaves for B2R: how many are true, and whether any
        is, or all are.
        """
        if not self.joined:
            return  # it only waits
        truths = self.votes & self.alive
        is_true = truths.any() if "OR" in self.joined else (truths == self.alive).all()
        self.reduced = {"BR": int(truths.sum()), "BP": int(is_true)}

    def do_b2r(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        match operands:
            case (target,):
                self.write(target, self.zero + np.uint64(self.reduced["BR"]), lanes)
            case (_, target):
                self.write(target, self.zero + np.uint64(self.reduced["BP"]), lanes)

    # --- memory

    def space(self, name: str, place: Words, lanes: Lanes) -> tuple[NDArray[np.uint8], Any]:
        if name in ("LDS", "STS", "ATOMS"):
            return self.shared, place & _LOW
        if name in ("LDL", "STL"):
            index = np.arange(self.lanes, dtype=np.uint64) * np.uint64(4096)
            return self.local.reshape(-1), index + (place & np.uint64(4095))
        offset = place - np.uint64(_GLOBAL)
        assert not lanes.any() or int(offset[lanes].max()) < len(self.memory), "outside of memory"
        return self.memory, offset

    def loaded(self, data: NDArray[np.uint8], place: Words, size: int, lanes: Lanes) -> Words:
        found = self.zero.copy()
        for lane in np.flatnonzero(lanes):
            at = int(place[lane])
            assert at + size <= len(data), "outside of memory"
            assert at % size == 0, "not aligned"
            found[lane] = int.from_bytes(data[at : at + size].tobytes(), "little")
        return found

    def do_load(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        target = next(one for one in operands if isinstance(one, (Register, Vector, Sink)))
        bracket = next(one for one in operands if isinstance(one, Bracket))
        name = instruction.mnemonic.split(".")[0]
        data, place = self.space(name, self.place(bracket), lanes)
        size, is_signed = _size(words)
        elements = target.elements if isinstance(target, Vector) else (target,)
        for number, one in enumerate(elements):
            at = place + np.uint64(4 * number)
            value = self.loaded(data, at, min(size, 4), lanes)
            if is_signed:
                value = _signed(value, 8 * size).view(np.uint64) & _LOW
            self.write(one, value, lanes)

    do_ldg = do_lds = do_ldl = do_load

    def do_store(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        bracket, content = operands[0], operands[1]
        name = instruction.mnemonic.split(".")[0]
        data, place = self.space(name, self.place(bracket), lanes)
        size, _signed_one = _size(words)
        elements = (
            content.elements if isinstance(content, Vector) else (content,) * max(1, size // 4)
        )
        for number, one in enumerate(elements):
            value = self.read(one)
            for lane in np.flatnonzero(lanes):
                at = int(place[lane]) + 4 * number
                few = min(size, 4)
                assert at + few <= len(data), "outside of memory"
                assert at % few == 0, "not aligned"
                data[at : at + few] = np.frombuffer(
                    int(value[lane]).to_bytes(8, "little")[:few], np.uint8
                )

    do_stg = do_sts = do_stl = do_store

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
        data, place = self.space(name, self.place(operands[at]), lanes)
        if words & {"F32", "F64", "64", "U64", "S64", "F16x2", "BF16x2", "CAST", "SPIN"}:
            raise UncoveredError(instruction.mnemonic)
        targets = [one for one in operands[:at] if isinstance(one, (Register, Sink))]
        given = [self.read(one) for one in operands[at + 1 :]]
        old = self.zero.copy()
        for lane in np.flatnonzero(lanes):
            a = int(place[lane])
            before = int.from_bytes(data[a : a + 4].tobytes(), "little")
            numbers = [int(one[lane]) for one in given]
            after = _changed(words, before, numbers)
            data[a : a + 4] = np.frombuffer((after & 0xFFFFFFFF).to_bytes(4, "little"), np.uint8)
            old[lane] = before
        if targets:
            self.write(targets[-1], old, lanes)

    do_atoms = do_atomg = do_red = do_redg = do_atomic

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

    def do_redux(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        value, found = self.read(operands[-1]), self.zero.copy()
        reduced = {"SUM": np.add, "OR": np.bitwise_or, "XOR": np.bitwise_xor, "AND": np.bitwise_and}
        change = next((reduced[one] for one in reduced if one in words), None)
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

    def do_fadd(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.write(operands[0], _bits(self.float(operands[1]) + self.float(operands[2])), lanes)

    def do_fmul(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.write(operands[0], _bits(self.float(operands[1]) * self.float(operands[2])), lanes)

    def do_ffma(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        self.write(operands[0], _bits(_fused(*map(self.float, operands[1:4]))), lanes)

    def do_fmnmx(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        a, b = self.float(operands[1]), self.float(operands[2])
        found = np.where(self.truth(operands[3]), np.fmin(a, b), np.fmax(a, b))
        self.write(operands[0], _bits(found), lanes)

    def do_fsel(self, _i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        a, b = self.float(operands[1]), self.float(operands[2])
        self.write(operands[0], _bits(np.where(self.truth(operands[3]), a, b)), lanes)

    def do_fsetp(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        a, b = self.float(operands[2]), self.float(operands[3])
        order, join = (one for one in instruction.mnemonic.split(".")[1:] if one != "FTZ")
        other, found = self.truth(operands[4]), _ORDERS[order](a, b)
        joined = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}[join]
        self.write(operands[0], _truth(joined(found, other)), lanes)
        self.write(operands[1], _truth(joined(~found, other)), lanes)

    def do_mufu(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        function = _FUNCTIONS.get(instruction.mnemonic.split(".")[1])
        if function is None:
            raise UncoveredError(instruction.mnemonic)
        self.write(operands[0], _bits(function(self.float(operands[1]))), lanes)

    def do_i2f(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        if words - {"F32", "S32", "U32", "U16", "U64", "RP", "RZ", "RN"}:
            raise UncoveredError(instruction.mnemonic)
        value, kinds = self.read(operands[1]), words & {"U16", "U32", "U64"}
        value = value & np.uint64(0xFFFF) if "U16" in words else value
        numbers = [int(one) for one in (value if kinds else _signed(value, 32))]
        found = np.array([_nearest(one, words) for one in numbers], np.float32)
        self.write(operands[0], _bits(found), lanes)

    do_i2fp = do_i2f

    def do_f2i(self, instruction: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        if words - {"FTZ", "U32", "S32", "U64", "TRUNC", "FLOOR", "CEIL", "NTZ"}:
            raise UncoveredError(instruction.mnemonic)
        value = self.float(operands[1]).astype(np.float64)
        rounding = {"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil}
        how = next((one for one in rounding if one in words), "")
        whole = np.nan_to_num(rounding.get(how, np.rint)(value), nan=0.0, posinf=2.0**70)
        bits = 64 if "U64" in words else 32
        low, high = (0, (1 << bits) - 1) if words & {"U32", "U64"} else (-(1 << 31), (1 << 31) - 1)
        kept = [min(max(int(one), low), high) % (1 << bits) for one in whole]
        self.write(operands[0], np.array(kept, np.uint64), lanes)


def _nearest(number: int, words: frozenset[str]) -> np.float32:
    """A number in single precision, rounded once."""
    found = np.float32(float(number))
    near = [np.nextafter(found, np.float32(side)) for side in (-np.inf, np.inf)]
    near.insert(1, found)
    if "RZ" in words:
        return next(one for one in reversed(near) if abs(Fraction(float(one))) <= abs(number))
    if "RP" in words:
        return next(one for one in near if Fraction(float(one)) >= number)
    return min(near, key=lambda one: (abs(Fraction(float(one)) - number), one.view(np.uint32) & 1))


def _size(words: frozenset[str]) -> tuple[int, bool]:
    """Bytes of an access, and whether it extends a sign."""
    for word, size in (("8", 1), ("16", 2)):
        for sign in "US":
            if sign + word in words:
                return size, sign == "S"
    return (8 if "64" in words else 16 if "128" in words else 4), False


def _changed(words: frozenset[str], old: int, numbers: list[int]) -> int:
    """What an atomic leaves."""
    if "POPC" in words:
        return old + 1
    if "CAS" in words:
        return numbers[1] if old == numbers[0] else old
    name = next(one for one in (*_ATOMICS, "INC", "DEC") if one in words)
    if name in ("INC", "DEC"):
        most = numbers[0]
        if name == "INC":
            return 0 if old >= most else old + 1
        return most if old == 0 or old > most else old - 1
    if name in ("MIN", "MAX") and "S32" in words:
        pair = [one - (1 << 32) if one >> 31 else one for one in (old, numbers[0])]
        return _ATOMICS[name](*pair)
    return _ATOMICS[name](old, numbers[0])
