"""Kernels as tables for :mod:`fast_machine`, and runs of their warps.

What the machine does not follow is refused by name (:class:`NotFollowed`): memory other than global
memory and parameters, numbers that come from floating point, calls, special registers that change.
Floating point whose results go nowhere but into floating point and stores is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from fast_machine import CHOOSES, COLUMNS, FALLS, JUMPS, LEAVES, Code, run
from isa_graph import ABORTS, ENDINGS, Graph

from ptxwcet.flow.launch import ArrayRange
from ptxwcet.ir.kernel import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    SymbolRef,
    Vector,
    WholeVector,
)

Ints = npt.NDArray[np.int64]
Dim3 = tuple[int, int, int]


class NotFollowed(Exception):
    """The machine does not execute this; its text is the word that says what."""


@dataclass(frozen=True)
class Kind:
    """An integer type: bits of a register or an operand, and whether they have a sign."""

    bits: int
    signed: bool = False


BIT, WORD, LONG = Kind(1), Kind(32), Kind(64)
_RELATIONS = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}
_WITHOUT_SIGN = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_JOINED = {"and": 1, "or": 2, "xor": 3}
_PLAIN = {
    code.name.lower(): code
    for code in (
        *(Code.MIN, Code.MAX, Code.AND, Code.OR, Code.XOR, Code.DIV, Code.REM, Code.SHL, Code.SHR),
        *(Code.NOT, Code.CNOT, Code.NEG, Code.ABS, Code.BREV, Code.MOV, Code.BFI, Code.PRMT),
        *(Code.SAD, Code.LOP3, Code.BFE, Code.SELP),
    )
}
_PLAIN["cvta"] = Code.MOV
"""Instructions of one type, in which they read and write."""
_WITH_WORD = {"popc": Code.POPC, "clz": Code.CLZ, "bfind": Code.BFIND}
_MODES = {"bmsk": Code.BMSK, "szext": Code.SZEXT}
_FREE = {"membar", "fence", "nanosleep", "prefetch", "prefetchu", "st", "red", "pmevent"}
_FLOATS = {"f16", "f32", "f64", "bf16", "f16x2", "bf16x2", "tf32"}
_FLOATING = {"div", "add", "sub", "mul", "fma", "mad", "sqrt", "rsqrt", "rcp", "ex2", "lg2"}
_FLOATING |= {"sin", "cos", "min", "max", "abs", "neg", "mov", "cvt", "copysign", "tanh"}
_VOTES = {"all": 0, "any": 1, "uni": 2, "ballot": 3}
_SHUFFLES = {"up": 0, "down": 1, "bfly": 2, "idx": 3}
_REDUCTIONS = {"add": 0, "min": 1, "max": 2, "and": 3, "or": 4, "xor": 5}
_OF_BARRIERS = {"popc": 0, "and": 1, "or": 2}


def _kind(word: str) -> Kind | None:
    if word == "pred":
        return BIT
    if word[:1] in "sub" and word[1:].isdigit():
        return Kind(int(word[1:]), word[0] == "s")
    return None


class FastProgram:
    """A kernel decoded for the machine. Raises NotFollowed.

    ``operations`` has a row of :data:`fast_machine.COLUMNS` each; ``lengths`` is how many
    instructions of the kernel each block has, ``starts`` the first of each, ``barriers`` how many
    barriers that all threads of the block wait at. ``exchanges``: warps see one another at some
    barrier, or not all may come to it.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        graph = Graph(kernel)
        self.starts = graph.leaders
        self.names = list(kernel.registers)
        self.places = {name: i for i, name in enumerate(self.names)}
        self.widths = [_width(kernel.registers[name]) for name in self.names]
        self.constants: dict[int, int] = {}
        self.special: dict[str, int] = {}
        self.parameters: dict[tuple[str, int, int], int] = {}
        self.rows: list[list[int]] = []
        self.exchanges = False
        self.carry = self._place(BIT)
        self.floats = _floats(kernel)
        self.lengths = [graph.last[start] - start + 1 for start in self.starts]
        number = {start: i for i, start in enumerate([*self.starts, graph.end])}
        blocks, targets = [], []
        for start in self.starts:
            last, begin = graph.last[start], len(self.rows)
            for i in range(start, last + 1):
                self.now = i
                self._instruction(kernel.instructions[i], i in graph.closes)
            one = kernel.instructions[last]
            guard, wanted, ends, index, first = -1, 1, FALLS, -1, len(targets)
            if last in graph.closes:
                word = one.mnemonic.split(".")[0]
                ends = {"bra": JUMPS, "brx": CHOOSES}.get(word, LEAVES)
                assert ends != LEAVES or word in ENDINGS
                if one.guard is not None:
                    guard, wanted = self.places[one.guard.register], int(not one.guard.negated)
                if ends != LEAVES:
                    targets += [number[target] for target in graph.targets[last]]
                if ends == CHOOSES:
                    index = self._read(one.operands[0])
            many = len(targets) - first
            next_one, meeting = number[last + 1], number[graph.meeting[start]]
            row = (begin, len(self.rows), ends, guard, wanted, first, many, index)
            blocks.append((*row, next_one, meeting))
        self.operations = np.array(self.rows, np.int64).reshape(-1, len(COLUMNS))
        self.barriers = [
            sum(row[0] == Code.BARRIER for row in self.rows[begin:end]) for begin, end, *_ in blocks
        ]
        self.blocks = np.array(blocks, np.int64).reshape(-1, 10)
        self.targets = np.array([*targets, 0], np.int64)

    # --- places -----------------------------------------------------------------------------------

    def _place(self, kind: Kind = LONG) -> int:
        """A register of our own."""
        self.widths.append(kind.bits)
        return len(self.widths) - 1

    def _constant(self, value: int) -> int:
        value &= (1 << 64) - 1
        if value not in self.constants:
            self.constants[value] = self._place()
        return self.constants[value]

    def _read(self, operand: Operand) -> int:
        """The register that holds an operand."""
        match operand:
            case Register(name):
                if name in self.floats:
                    raise NotFollowed("floating point")
                return self.places[name]
            case Immediate(value=int(value)):
                return self._constant(value)
            case SpecialRegister(name) if name in _SPECIAL:
                if name not in self.special:
                    self.special[name] = self._place()
                return self.special[name]
            case Negated(inner):
                place = self._place(BIT)
                self._emit(Code.COMPARE, place, self._read(inner), self._constant(0), kind=BIT)
                return place
            case SpecialRegister(name):
                raise NotFollowed(name)
            case _:
                raise NotFollowed(f"operand {type(operand).__name__}")

    def _written(self, operand: Operand) -> int:
        match operand:
            case Register(name):
                return self.places[name]
            case Sink():
                return self._place()
            case _:
                raise NotFollowed(f"destination {type(operand).__name__}")

    def _emit(
        self,
        code: Code,
        to: int,
        *sources: int,
        kind: Kind = LONG,
        result: Kind | None = None,
        extra: int = 0,
        also: int = -1,
    ) -> None:
        result = result or kind
        a, b, c, d = (*sources, -1, -1, -1, -1)[:4]
        width = self.widths[to] if to >= 0 else 64
        what = (code, -1, 1, to, a, b, c, d, kind.bits, kind.signed)
        self.rows.append([*what, result.bits, result.signed, width, extra, self.now, also])

    # --- instructions -----------------------------------------------------------------------------

    def _instruction(self, one: Instruction, closes: bool) -> None:
        words = tuple(one.mnemonic.split("."))
        if words[0] in _FREE or words[:2] == ("bar", "warp") or closes:
            if words[0] in ABORTS:
                raise NotFollowed("trap or call")
            return
        if _FLOATS & set(words):
            if words[0] in _FLOATING:
                return
            raise NotFollowed("floating point")
        first = len(self.rows)
        self._body(words, one)
        if one.guard is None:
            return
        place = self.places[one.guard.register]
        if len(self.rows) > first + 1:  # what it writes may be its guard
            place = self._place(BIT)
            self._emit(Code.MOV, place, self.places[one.guard.register], kind=BIT)
            self.rows.insert(first, self.rows.pop())
            first += 1
        for row in self.rows[first:]:
            row[1:3] = place, int(not one.guard.negated)

    def _body(self, words: tuple[str, ...], one: Instruction) -> None:
        name = words[0]
        kinds = [kind for word in words[1:] if (kind := _kind(word)) is not None]
        if any("x" in word and word[:1] in "us" and word[-2:] == "x2" for word in words):
            self._halves(words, one)
        elif name in ("ld", "ldu", "atom"):
            self._load(words, one, kinds[-1])
        elif name in ("shfl", "vote", "match", "redux", "activemask"):
            self._exchange(words, one, kinds[-1])
        elif name in ("bar", "barrier"):
            self._barrier(words, one)
        elif name in ("setp", "set"):
            self._comparison(words, one, kinds)
        elif name in ("add", "sub", "addc", "subc"):
            self._sum(words, self._written(one.operands[0]), self._sources(one), kinds[0])
        elif name in ("mul", "mad", "madc", "mul24", "mad24"):
            self._product(words, one, kinds[0])
        elif name == "mov" and self._moves_parts(one, kinds[0]):
            pass
        elif name == "cvt":
            self._conversion(words, one, kinds)
        else:
            self._function(words, one, kinds)

    def _sources(self, one: Instruction) -> list[int]:
        return [self._read(operand) for operand in one.operands[1:]]

    def _function(self, words: tuple[str, ...], one: Instruction, kinds: list[Kind]) -> None:
        name, to = words[0], self._written(one.operands[0])
        if name == "dp4a":
            signs = int(kinds[0].signed) + 2 * int(kinds[1].signed)
            result = Kind(32, signs > 0)
            self._emit(Code.DP4A, to, *self._sources(one), kind=WORD, result=result, extra=signs)
        elif name in _WITH_WORD:
            code, extra = _WITH_WORD[name], int("shiftamt" in words)
            self._emit(code, to, *self._sources(one), kind=kinds[0], result=WORD, extra=extra)
        elif name in _MODES:
            extra = int("wrap" in words)
            self._emit(_MODES[name], to, *self._sources(one), kind=kinds[0], extra=extra)
        elif name == "shf":
            code = Code.SHF_L if "l" in words else Code.SHF_R
            self._emit(code, to, *self._sources(one), kind=WORD, extra=int("wrap" in words))
        elif name == "slct" and kinds[1:] == [Kind(32, True)]:
            self._emit(Code.SLCT, to, *self._sources(one), kind=kinds[0])
        elif name in _PLAIN and not (name == "prmt" and len(words) > 2) and "relu" not in words:
            kind = kinds[0] if kinds else LONG
            self._emit(_PLAIN[name], to, *self._sources(one), kind=kind)
        else:
            raise NotFollowed(name)

    def _halves(self, words: tuple[str, ...], one: Instruction) -> None:
        codes = {"add": Code.ADD_X2, "min": Code.MIN_X2, "max": Code.MAX_X2}
        if words[0] not in codes or len(words) != 2:
            raise NotFollowed(".".join(words))
        to, extra = self._written(one.operands[0]), int(words[1][0] == "s")
        self._emit(codes[words[0]], to, *self._sources(one), kind=WORD, extra=extra)

    def _sum(self, words: tuple[str, ...], to: int, sources: list[int], kind: Kind) -> None:
        """Sums and differences, with the carry flag where they read or write it."""
        adds = words[0].startswith(("add", "mad"))
        if "sat" in words:
            self._emit(Code.ADD_SAT if adds else Code.SUB_SAT, to, *sources, kind=kind)
            return
        if words[0].endswith("c"):
            sources = [*sources, self.carry if adds else self._opposite(self.carry)]
        out = self._place(BIT)
        if "cc" in words:
            code = Code.CARRY_OF_SUM if adds else Code.CARRY_OF_DIFFERENCE
            self._emit(code, out, *sources, kind=Kind(kind.bits), result=BIT)
        self._emit(Code.ADD if adds else Code.SUB, to, *sources, kind=kind)
        if "cc" in words:
            self._emit(Code.MOV, self.carry, out if adds else self._opposite(out), kind=BIT)

    def _opposite(self, flag: int) -> int:
        """Of a difference the carry flag denies what is borrowed."""
        found = self._place(BIT)
        self._emit(Code.NOT, found, flag, kind=BIT)
        return found

    def _product(self, words: tuple[str, ...], one: Instruction, kind: Kind) -> None:
        to, (a, b, *added) = self._written(one.operands[0]), self._sources(one)
        result = Kind(2 * kind.bits, kind.signed) if "wide" in words else kind
        product = self._place(result) if added else to
        if words[0].endswith("24"):
            extra = int("hi" in words)
            self._emit(Code.MUL24, product, a, b, kind=kind, extra=extra)
        else:
            code = Code.MUL_HI if "hi" in words else Code.MUL
            self._emit(code, product, a, b, kind=kind, result=result)
        if added:
            self._sum(words, to, [product, *added], result)

    def _comparison(self, words: tuple[str, ...], one: Instruction, kinds: list[Kind]) -> None:
        name = next(word for word in words[1:] if word in _RELATIONS or word in _WITHOUT_SIGN)
        kind = Kind(kinds[-1].bits, kinds[-1].signed and name not in _WITHOUT_SIGN)
        relation = _RELATIONS[_WITHOUT_SIGN.get(name, name)]
        joined = next((_JOINED[word] for word in words[1:] if word in _JOINED), 0)
        extra = relation + 8 * joined
        sources = self._sources(one)
        target = one.operands[0]
        if words[0] == "set":
            holds = self._place(BIT)
            self._emit(Code.COMPARE, holds, *sources, kind=kind, result=BIT, extra=extra)
            ones, zero = self._constant(-1), self._constant(0)
            self._emit(Code.SELP, self._written(target), ones, zero, holds, kind=kinds[0])
            return
        targets = (target.first, target.second) if isinstance(target, Pair) else (target,)
        found = []
        for i in range(len(targets)):
            place = self._place(BIT)
            self._emit(Code.COMPARE, place, *sources, kind=kind, result=BIT, extra=extra + 32 * i)
            found.append(place)
        for one_target, place in zip(targets, found, strict=True):
            self._emit(Code.MOV, self._written(one_target), place, kind=BIT)

    def _conversion(self, words: tuple[str, ...], one: Instruction, kinds: list[Kind]) -> None:
        if len(kinds) != 2 or "pack" in words:
            raise NotFollowed(".".join(words))
        result, kind = kinds
        code = Code.SAT if "sat" in words else Code.MOV
        extra = result.bits + 128 * int(result.signed)
        to = self._written(one.operands[0])
        self._emit(code, to, *self._sources(one), kind=kind, result=result, extra=extra)

    def _moves_parts(self, one: Instruction, kind: Kind) -> bool:
        """A move that packs or unpacks two halves; False for one that does not."""
        to, source = (_parts(operand) for operand in one.operands)
        if len(to) == len(source) == 1:
            return False
        half = Kind(kind.bits // 2)
        if len(source) == 2:
            places = [self._read(part) for part in source]
            self._emit(Code.PACK, self._written(one.operands[0]), *places, kind=half, result=kind)
        elif len(to) == 2:
            whole = self._place()
            self._emit(Code.MOV, whole, self._read(one.operands[1]), kind=Kind(kind.bits))
            for i, part in enumerate(to):
                extra = i * half.bits
                self._emit(Code.PART, self._written(part), whole, result=half, extra=extra)
        else:
            raise NotFollowed("vector of four")
        return True

    # --- memory and other lanes -------------------------------------------------------------------

    def _load(self, words: tuple[str, ...], one: Instruction, kind: Kind) -> None:
        targets = _parts(one.operands[0])
        address = one.operands[1]
        if not isinstance(address, Address):
            raise NotFollowed(f"address {type(address).__name__}")
        size = kind.bits // 8
        base = address.base
        if words[1].startswith("param") and isinstance(base, SymbolRef):
            for i, target in enumerate(targets):
                key = base.name, address.offset + base.offset + i * size, size
                if key not in self.parameters:
                    self.parameters[key] = self._place()
                self._emit(Code.MOV, self._written(target), self.parameters[key], kind=kind)
            return
        if "global" not in words or not isinstance(base, Register):
            raise NotFollowed("memory that is not global")
        same = int("nc" in words or words[0] == "ldu") << 32
        place, offset = self._place(), self._constant(address.offset)
        at = Kind(_width(self.kernel.registers[base.name]))
        self._emit(Code.MOV, place, self._read(base), kind=at)
        self._emit(Code.ADD, place, place, offset)
        for i, target in enumerate(targets):
            extra = i * size + same
            self._emit(Code.LOAD, self._written(target), place, kind=kind, extra=extra)

    def _exchange(self, words: tuple[str, ...], one: Instruction, kind: Kind) -> None:
        to, *sources = one.operands
        first = to.first if isinstance(to, Pair) else to
        also = -1
        if isinstance(to, Pair) and isinstance(to.second, Register):
            also = self.places[to.second.name]
        place = self._written(first)
        if words[0] == "activemask":
            self._emit(Code.ACTIVE, place, result=WORD)
            return
        read = [self._read(source) for source in sources]
        members = read[-1] if "sync" in words else -1
        if words[0] == "shfl":
            row, code, extra = (*read[:3], members), Code.SHUFFLE, _find(words, _SHUFFLES)
            result = kind
        elif words[0] == "vote":
            row, code, extra = (read[0], -1, -1, members), Code.VOTE, _find(words, _VOTES)
            kind, result = BIT, kind
        elif words[0] == "match":
            row, code = (read[0], -1, -1, members), Code.MATCH
            extra, result = int("all" in words), WORD
        else:
            row, code, extra = (read[0], -1, -1, members), Code.REDUX, _find(words, _REDUCTIONS)
            result = kind
        self._emit(code, place, *row, kind=kind, result=result, extra=extra, also=also)

    def _barrier(self, words: tuple[str, ...], one: Instruction) -> None:
        if "arrive" in words:
            raise NotFollowed("bar.arrive")
        if "red" not in words:
            (number,) = one.operands or (None,)
            is_plain = isinstance(number, Immediate) and number.value == 0 and one.guard is None
            self.exchanges |= not is_plain
            self._emit(Code.BARRIER, -1)
            return
        self.exchanges = True
        given = self._read(one.operands[-1])
        extra = _OF_BARRIERS[words[words.index("red") + 1]]
        result = WORD if extra == 0 else BIT
        self._emit(Code.REDUCE, self._written(one.operands[0]), given, result=result, extra=extra)


def _find(words: tuple[str, ...], among: Mapping[str, int]) -> int:
    return next(among[word] for word in words[1:] if word in among)


def _parts(operand: Operand) -> tuple[Operand, ...]:
    if isinstance(operand, Vector):
        return operand.elements
    if isinstance(operand, WholeVector):
        return tuple(Register(name) for name in operand.members)
    return (operand,)


def _width(declared: str) -> int:
    kind = _kind(declared.removeprefix("."))
    return int(declared.removeprefix(".")[1:]) if kind is None else kind.bits


def _floats(kernel: Kernel) -> frozenset[str]:
    """The registers that hold results of floating point."""
    return frozenset(
        name
        for one in kernel.instructions
        if _FLOATS & set(one.mnemonic.split(".")) and one.mnemonic.split(".")[0] != "st"
        for name in one.writes
    )


_AXES = ("tid", "ntid", "ctaid", "nctaid")
_SPECIAL = {f"%{name}.{axis}" for name in _AXES for axis in "xyz"}
_SPECIAL |= {"%laneid", "%warpid", "%lanemask_eq", "%lanemask_lt", "%lanemask_le"}
_SPECIAL |= {"%lanemask_gt", "%lanemask_ge"}


@dataclass(frozen=True)
class Place:
    """A block of a launch, and the parameters as raw bits."""

    block: Dim3
    index: Dim3
    grid: Dim3
    parameters: Mapping[str, int]
    arrays: Mapping[str, ArrayRange] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    def special(self, name: str, thread: int) -> int:
        """What a special register holds in a thread."""
        lane = thread % 32
        if name.startswith("%lanemask_"):
            below = (1 << lane) - 1
            masks = {"eq": 1 << lane, "lt": below, "le": 2 * below + 1}
            masks |= {"gt": 0xFFFFFFFF ^ masks["le"], "ge": 0xFFFFFFFF ^ below}
            return masks[name[-2:]]
        if name in ("%laneid", "%warpid"):
            return lane if name == "%laneid" else thread // 32
        row, axis = name[1:].split(".")
        x, y, _ = self.block
        three = {
            "tid": (thread % x, thread // x % y, thread // (x * y)),
            "ntid": self.block,
            "ctaid": self.index,
            "nctaid": self.grid,
        }
        return three[row]["xyz".index(axis)]

    def windows(self) -> Ints:
        """The ranges that the integers of arrays lie in, as :func:`fast_machine.drawn` wants."""
        rows = []
        for name, row in self.arrays.items():
            base, half = self.parameters[name], 1 << 35
            sign = row.type[0] == "s"
            rows.append((base - half, base + half - 1, int(row.type[1:]), row.low, row.high, sign))
        return np.array(rows, np.int64).reshape(-1, 6)


@dataclass(frozen=True)
class Data:
    """How each instruction chooses what it loads, and a seed (:func:`fast_machine.drawn`)."""

    seed: int
    modes: Ints
    values: Ints
    is_same: bool = False
    backwards: bool = False


@dataclass(frozen=True)
class FastRun:
    """How a warp's run ended, how many blocks it executed, how often each; its registers."""

    ending: int
    blocks: int
    counts: Ints
    registers: Ints


def run_warp(program: FastProgram, place: Place, data: Data, warp: int, most: int) -> FastRun:
    """Executes one warp for up to ``most`` blocks. Cost: some 10 to 100 ns an instruction, lane."""
    threads = range(32 * warp, min(32 * warp + 32, place.threads))
    registers = np.zeros((len(program.widths), 32), np.int64)
    for value, at in program.constants.items():
        registers[at] = _as_signed(value)
    for name, at in program.special.items():
        registers[at, : len(threads)] = [place.special(name, thread) for thread in threads]
    for (name, offset, size), at in program.parameters.items():
        raw = place.parameters[name] >> (8 * offset) & ((1 << (8 * size)) - 1)
        registers[at] = _as_signed(raw)
    counts = np.zeros(len(program.starts) + 1, np.int64)
    settings = np.array([data.seed, most, data.is_same, data.backwards], np.int64)
    ending, blocks = run(
        program.operations,
        program.blocks,
        program.targets,
        registers,
        (1 << len(threads)) - 1,
        settings,
        data.modes,
        data.values,
        place.windows(),
        counts,
    )
    return FastRun(ending, blocks, counts, registers)


def _as_signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
