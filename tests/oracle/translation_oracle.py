"""A kernel of machine code as analyses read it, executed beside the code that it was made of.

The code is executed one to one (:mod:`sass_execution`). Beside it goes the translated kernel, whose
registers are kept here: instructions that were added are executed by their terms, loads of
parameters read the constant bank, and what an instruction of the code writes without terms is taken
from the execution. Whatever the translated kernel reads or writes, and each address of its
accesses, is compared with what the registers of the code hold, in all lanes that are there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from sass_execution import Lanes, Words, _Block, _Compiled, _size

from ptxwcet.emulator.launch import ObservedAccess
from ptxwcet.ir.kernel import Guard, Instruction, Kernel
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.operands import (
    Address,
    Bracket,
    Element,
    Immediate,
    Operand,
    Register,
    SymbolRef,
)
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import Op, Term, const, fold, term
from ptxwcet.memory.instructions import accesses_of

_PHYSICAL = re.compile(r"U?(?:R\d+|P\d)")
_BANK = re.compile(r"(c\[0x[0-9a-f]+\])\[(0x[0-9a-f]+)\](:64)?")
_LOW = np.uint64(0xFFFFFFFF)
DIVISIONS = ("div.u32", "rem.u32")
_SPACES = {"G": "global", "S": "shared", "L": "local", "": "generic"}


_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_Terms = tuple[_Compiled, tuple[Operand, ...], tuple[_Compiled, ...]]
"""The terms of an instruction, their sources, and the same with what is left open as 0 and as 1."""


@dataclass(frozen=True)
class _Touch:
    """An access as the code has it."""

    space: str
    place: Words
    size: int


class Uniform:
    """Registers of the uniform datapath, of which a warp has one each, where lanes are apart.

    ``written``: how many were written; ``apart``: where not all lanes of the warp were there that
    had not ended; ``lost``: reads that find there what other lanes wrote; ``unlike``: written of
    which the lanes that were there say different things.
    """

    def __init__(self) -> None:
        self.writes = self.apart = 0
        self.lost: dict[str, str] = {}
        self.unlike: dict[str, str] = {}
        self._last: dict[str, tuple[Words, str]] = {}  # the whole warp's, and who wrote it

    def begin(self) -> None:
        """Of a new block."""
        self._last = {}

    def read(self, block: _Block, instruction: Instruction, active: Lanes) -> None:
        """Whether each lane finds what it would have by itself."""
        for name in instruction.reads:
            if name in self._last:
                value, writer = self._last[name]
                if ((block.words[name] != value) & active).any():
                    self.lost[instruction.span.text] = f"{name} of {writer}"

    def written(self, block: _Block, instruction: Instruction, lanes: Lanes) -> None:
        """What lanes leave for all of the warp."""
        names = [name for name in instruction.writes if name.startswith(("UR", "UP"))]
        for first in range(0, block.lanes, 32) if names else ():
            own = slice(first, first + 32)
            if not lanes[own].any():
                continue
            self.writes += 1
            self.apart += bool((block.alive[own] & ~lanes[own]).any())
            for name in names:
                values = block.words[name][own][lanes[own]]
                if (values != values[0]).any():
                    self.unlike[instruction.span.text] = name
                old = self._last.get(name, (block.words[name], ""))[0].copy()
                old[own] = values[0]
                self._last[name] = old, instruction.span.text


class Translated:
    """The translated kernels of a program, executed beside it.

    ``wrong`` says what differs, the first few; ``checked`` counts what was compared. ``observer``
    is told of the accesses of the code, by the indices of the translated kernel; ``visitor`` of the
    blocks that lanes come to: ``starts`` are the indices where blocks begin; ``parting`` of
    branches under a guard: the lanes that come there, and those that are led away.
    """

    def __init__(self, *kernels: Kernel) -> None:
        self.wrong: list[str] = []
        self.checked = self.addresses = 0
        self.observer: Callable[[ObservedAccess], None] | None = None
        self.visitor: Callable[[_Block, Kernel, int, Lanes], None] | None = None
        self.parting: Callable[[int, Lanes, Lanes], None] | None = None
        self.starts: frozenset[int] = frozenset()
        self.words: dict[str, Words] = {}
        self.uniform = Uniform()
        self._meeting: dict[int, tuple[int, Lanes]] = {}
        self._at: dict[int, tuple[Kernel, list[int]]] = {}
        self._compiled: dict[tuple[str, int], _Terms | None] = {}
        self._block: _Block | None = None
        self._lanes = np.zeros(0, bool)
        self._results: list[Words] | None = None
        for kernel in kernels:
            assert kernel.code is not None
            for index, encoded in enumerate(kernel.code.encoded):
                self._at.setdefault(encoded.address, (kernel, []))[1].append(index)

    # --- the two sides of an instruction

    def before(self, block: _Block, address: int, active: Lanes) -> None:
        """What was added in front of an instruction, and what it reads."""
        if block is not self._block:
            self._block, self.words, self._meeting = block, {}, {}
            self.uniform.begin()
        if address not in self._at:
            return
        kernel, indices = self._at[address]
        real = self._real(kernel, indices)
        if self.visitor is not None:
            self._visited(block, kernel, indices[0], address, active)
        code = block.program.at[address]
        self.uniform.read(block, code, active)
        self._lanes = active  # that execute the code: others may compute here what nobody reads
        if code.guard is not None and not code.guard.register.startswith("%"):
            self._lanes = active & (
                block.truth(Register(code.guard.register)) != code.guard.negated
            )
        for index in indices:
            if index == real:
                break
            self._added(block, kernel, index, active)
        instruction = kernel.instructions[real]
        guard = instruction.guard
        for name in instruction.reads:
            is_guard = guard is not None and name == guard.register
            self._same(block, instruction, name, active if is_guard else self._lanes)
        parts = guard is not None and not guard.register.startswith("%")
        if self.parting is not None and parts and instruction.control is ControlEffect.BRANCH:
            self.parting(real, active, self._lanes)
        found = self._terms(kernel, real)
        self._results = None
        if found is not None:
            compiled, sources, _ = found
            values = [self._read(block, one) for one in sources]
            self._results = compiled.run(values, block.lanes)
        self._access(block, kernel, real, address)

    def behind(self, block: _Block, address: int, active: Lanes) -> None:
        """What an instruction has written, and what was added behind it."""
        if address not in self._at:
            return
        kernel, indices = self._at[address]
        real = self._real(kernel, indices)
        instruction = kernel.instructions[real]
        self.uniform.written(block, block.program.at[address], self._lanes)
        found, guard = self._terms(kernel, real), instruction.guard
        if guard is not None and guard.register.partition("@")[0].startswith("%"):
            self._branched(block, instruction, address, guard, active)
        for number, name in enumerate(instruction.writes):
            if name.startswith(("B", "SB")):
                continue
            there = self._there(block, name)
            assert there is not None, name
            if self._results is not None and found is not None:
                known = self._known(block, found, number)
                self._compare(instruction, name, self._results[number], there, self._lanes, known)
            if self._results is not None and instruction.guard is None:
                self._write(name, self._results[number], active)
            self._write(name, there, self._lanes)
        for index in indices[indices.index(real) + 1 :]:
            self._added(block, kernel, index, active)

    def _branched(
        self, block: _Block, instruction: Instruction, address: int, guard: Guard, active: Lanes
    ) -> None:
        """Where lanes go, against the predicate that is computed of all that decides."""
        held = self.words.get(guard.register)
        if held is not None and instruction.control is ControlEffect.BRANCH:
            gone = (block.address != address + 16).astype(np.uint64)
            expected = ((held != 0) != guard.negated).astype(np.uint64)
            self._compare(instruction, guard.register, expected, gone, active)

    def _visited(
        self, block: _Block, kernel: Kernel, index: int, address: int, active: Lanes
    ) -> None:
        """Lanes that come to a block. One that begins with BSYNC, or NOP and BSYNC, is visited by
        all who meet there, when they go on, though each that comes executes these.
        """
        assert self.visitor is not None
        met = self._meeting.pop(address, None)
        if met is not None:
            start, lanes = met
            if (lanes & active).any():
                self.visitor(block, kernel, start, lanes & active)
            if (lanes & ~active).any():
                self._meeting[address] = start, lanes & ~active
        if index not in self.starts:
            return
        behind = address + 16
        while block.program.at[behind - 16].mnemonic == "NOP":
            behind += 16
        if block.program.at[behind - 16].mnemonic != "BSYNC":
            self.visitor(block, kernel, index, active)
            return
        _, there = self._meeting.get(behind, (index, np.zeros(block.lanes, bool)))
        self._meeting[behind] = index, there | active

    def _real(self, kernel: Kernel, indices: list[int]) -> int:
        assert kernel.code is not None
        (real,) = [one for one in indices if one not in kernel.code.added]
        return real

    def _added(self, block: _Block, kernel: Kernel, index: int, active: Lanes) -> None:
        instruction = kernel.instructions[index]
        assert kernel.code is not None
        found, lanes = self._terms(kernel, index), active
        if instruction.guard is not None:
            held = self._read(block, Register(instruction.guard.register)) != 0
            lanes = active & (held != instruction.guard.negated)
        if found is None:
            results = [self._loaded(block, kernel, instruction)]
        else:
            # a quotient is known when the code has used the registers of both numbers for others
            for name in () if instruction.mnemonic in DIVISIONS else instruction.reads:
                self._same(block, instruction, name, self._lanes)
            values = [self._read(block, one) for one in found[1]]
            results = found[0].run(values, block.lanes)
        for number, name in enumerate(instruction.writes):
            there = self._there(block, name)
            self._write(name, results[number], lanes)
            if there is not None:
                known = _ALL if found is None else self._known(block, found, number)
                self._compare(instruction, name, results[number], there, self._lanes, known)
                self._write(name, there, self._lanes)

    def _known(self, block: _Block, found: _Terms, number: int) -> Words:
        """The bits of a result that its term does not leave open, in each lane."""
        compiled, sources, filled = found
        if not filled:
            return np.full(block.lanes, _ALL)
        values = [self._read(block, one) for one in sources]
        one, *others = (each.run(values, block.lanes)[number] for each in (compiled, *filled))
        others.append(compiled.run(values, block.lanes)[number])
        return ~np.bitwise_or.reduce([one ^ other for other in others])

    def _loaded(self, block: _Block, kernel: Kernel, instruction: Instruction) -> Words:
        """What a load at the beginning finds in constant banks."""
        name, space, kind = instruction.mnemonic.split(".")
        address = instruction.operands[1]
        assert name == "ld"
        assert isinstance(address, Address)
        assert isinstance(address.base, SymbolRef)
        bank, place, size = address.base.name, address.base.offset, int(kind[1:]) // 8
        if space == "param":
            names = [one.name for one in kernel.parameters]
            assert kernel.code is not None
            number = names.index(bank)
            assert place + size <= kernel.parameters[number].size_bytes, "beyond a parameter"
            bank, place = "c[0x0]", kernel.code.parameters_at[number] + place
        else:
            assert space == "const"
            assert kernel.code is not None
            places = {name: first for first, _, name in kernel.code.constants_at}
            if bank in places:
                bank, place = "c[0x3]", places[bank] + place
        assert place % size == 0
        return block.constant(bank, block.zero + np.uint64(place), size)

    # --- registers

    def _terms(self, kernel: Kernel, index: int) -> _Terms | None:
        key = kernel.name, index
        if key not in self._compiled:
            found = meaning_of(kernel.instructions[index], kernel.registers)
            if found is None or kernel.instructions[index].mnemonic.startswith("ld."):
                self._compiled[key] = None
            else:
                compiled = _Compiled(found.results)
                is_open = any(fold(one, _is_open) for one in found.results)
                filled = [
                    _Compiled(tuple(fold(one, _filled(by)) for one in found.results))
                    for by in ((0, -1) if is_open else ())
                ]
                self._compiled[key] = compiled, found.sources, tuple(filled)
        return self._compiled[key]

    def _read(self, block: _Block, operand: Operand) -> Words:
        match operand:
            case Register(name) if name.partition("@")[0] in block.reduced:
                return block.zero + np.uint64(block.reduced[name.partition("@")[0]])
            case Register(name):
                return self.words.get(name, block.zero)
            case _:
                return block.read(operand)

    def _write(self, name: str, value: Words, lanes: Lanes) -> None:
        old = self.words.get(name)
        self.words[name] = np.where(lanes, value, np.uint64(0) if old is None else old)

    def _there(self, block: _Block, name: str) -> Words | None:
        """What the register holds of which this one is a part, or the pair; None of one of ours."""
        plain = name.partition("@")[0]
        if " of " in plain or plain[0] in "[%":  # that of a branch is held to where lanes go
            return None
        if bank := _BANK.fullmatch(plain):
            size = 8 if bank[3] else 4
            return block.constant(bank[1], block.zero + np.uint64(int(bank[2], 0)), size)
        parts = plain.split(":")
        assert all(_PHYSICAL.fullmatch(one) for one in parts), name
        low, *high = (block.words.get(one, block.zero) for one in parts)
        return low | high[0] << np.uint64(32) if high else low

    def _same(self, block: _Block, instruction: Instruction, name: str, active: Lanes) -> None:
        if name.startswith(("%", "B", "SB")):  # who goes a way that nobody knows, who waits
            return
        there = self._there(block, name)
        if there is not None:
            self._compare(instruction, name, self.words.get(name, block.zero), there, active)

    def _compare(
        self,
        instruction: Instruction,
        name: str,
        found: Words,
        there: Words,
        lanes: Lanes,
        known: Words | np.uint64 = _ALL,
    ) -> None:
        self.checked += 1
        differ = ((found ^ there) & known != 0) & lanes
        if differ.any() and len(self.wrong) < 8:
            lane = int(np.flatnonzero(differ)[0])
            self.wrong.append(
                f"{instruction.span.text} ({instruction.mnemonic} {instruction.operands}): {name} "
                f"is {int(found[lane]):#x}, not {int(there[lane]):#x}, in lane {lane}"
            )

    # --- accesses

    def _access(self, block: _Block, kernel: Kernel, index: int, address: int) -> None:
        instruction = kernel.instructions[index]
        touched = list(_touched(block, block.program.at[address]))
        found = accesses_of(instruction)
        if len(found) != len(touched):
            self.wrong.append(f"{instruction.span.text}: {len(found)} accesses, {len(touched)}")
            return
        left = list(touched)
        for access in found:
            match = [one for one in left if one.space == access.space.value]
            if not match:
                self.wrong.append(f"{instruction.span.text}: no access of {access.space.value}")
                return
            touch = match[0]
            left.remove(touch)
            if access.address is not None:
                assert isinstance(access.address, Address)
                own = self._place(block, access.address, 64 if touch.space == "global" else 32)
                self.addresses += 1
                self._compare(instruction, str(access.address), own, touch.place, self._lanes)
            if access.access_bytes != touch.size:
                text = f"{access.access_bytes} bytes, not {touch.size}"
                self.wrong.append(f"{instruction.span.text}: {text}")
            self._observed(block, index, touch)

    def _place(self, block: _Block, address: Address, width: int) -> Words:
        base = address.base
        if isinstance(base, Register):
            start = self.words.get(base.name, block.zero)
        elif isinstance(base, Immediate):
            start = block.zero + np.uint64(int(base.value) & 0xFFFFFFFFFFFFFFFF)
        else:
            start = block.zero + np.uint64(base.offset)  # of a constant bank
        total = start + np.uint64(address.offset & 0xFFFFFFFFFFFFFFFF)
        return total if width == 64 else total & _LOW

    def _observed(self, block: _Block, index: int, touch: _Touch) -> None:
        if self.observer is None:
            return
        for first in range(0, block.lanes, 32):
            lanes = [n for n in range(32) if self._lanes[first + n]]
            if not lanes:
                continue
            existing = sum(1 << n for n in range(32) if block.existing[first + n])
            self.observer(
                ObservedAccess(
                    index,
                    block.number,
                    first // 32,
                    touch.space,
                    touch.size,
                    tuple((n, int(touch.place[first + n])) for n in lanes),
                    sum(1 << n for n in lanes),
                    existing,
                )
            )


def _is_open(one: Term, args: list[bool]) -> bool:
    return one.op is Op.ANY or any(args)


def _filled(by: int) -> Callable[[Term, list[Term]], Term]:
    """With a number in the place of bits that are left open."""

    def put(one: Term, args: list[Term]) -> Term:
        if one.op is Op.ANY:
            return const(by, one.width)
        return term(one.op, one.width, tuple(args), one.value) if args else one

    return put


def _touched(block: _Block, instruction: Instruction) -> Iterator[_Touch]:
    """The accesses of an instruction of the code, in the order of its operands."""
    words = instruction.mnemonic.split(".")
    name, size = words[0], _size(frozenset(words[1:]))[0]
    assert instruction.opcode is not None
    if instruction.opcode.name == "NOP" or name in ("CCTL", "LDSM"):
        return
    if name in ("LDC", "ULDC"):
        (element,) = (one for one in instruction.operands if isinstance(one, Element))
        place = block.read(element.index.base) + np.uint64(element.index.offset)
        yield _Touch("const", place & _LOW, size)
        return
    kind = {"LDGSTS": "", "ATOMS": "S", "ATOMG": "G", "RED": "G", "REDG": "G", "ATOM": ""}
    brackets = [one for one in instruction.operands if isinstance(one, Bracket)]
    if name == "LDGSTS":
        for bracket, space in zip(brackets, ("shared", "global"), strict=True):
            yield _Touch(space, _at(block, bracket, space), size)
    elif name in kind or (name[:2] in ("LD", "ST") and name[2:] in _SPACES and brackets):
        space = _SPACES[kind.get(name, name[2:])]
        if name in kind and not {"64", "U64", "S64", "F64"}.isdisjoint(words):
            size = 8
        yield _Touch(space, _at(block, brackets[0], space), size)


def _at(block: _Block, bracket: Operand, space: str) -> Words:
    place = block.place(bracket)
    return place if space in ("global", "generic") else place & _LOW
