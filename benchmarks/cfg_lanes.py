"""What control instructions make of the registers of a warp's lanes (:mod:`cfg_oracle`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from cfg_conditions import DataLoop

from ptxwcet.ir.kernel import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    SpecialRegister,
    SymbolRef,
)

Lanes = int  # a bit a lane
Token = tuple[str, int]  # an open value: ("lane", 0) in each lane apart, ("warp", n) in all of them
Value = int | Token
Row = tuple[Value, ...]  # a register's value in each lane
World = Mapping[str, int]  # what is open once a block, decided

EACH_LANE: Token = ("lane", 0)
_COMPARISONS = {
    "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__,
    "ge": int.__ge__, "eq": int.__eq__, "ne": int.__ne__,
}  # fmt: skip
_ARITHMETIC = {
    "add": int.__add__, "sub": int.__sub__, "and": int.__and__, "or": int.__or__,
    "xor": int.__xor__, "shr": int.__rshift__, "shl": int.__lshift__,
}  # fmt: skip


class Unresolved(Exception):
    """A world does not say what ``key`` is."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Place(Protocol):
    """Where a warp may branch."""

    @property
    def guard(self) -> str | None:
        """The predicate that decides the branch."""

    @property
    def negated(self) -> bool:
        """Whether it is taken where the predicate does not hold."""


class State(Protocol):
    """What lanes have in their registers, and how many open values they have got so far."""

    frames: tuple[tuple[int, Lanes, int], ...]
    registers: dict[str, Row]
    fresh: int
    reductions: int


class LaneValues:
    """The lanes of one warp: what instructions that decide control make of its registers."""

    def __init__(
        self, warp: int, count: int, world: World, data_loops: Mapping[str, DataLoop]
    ) -> None:
        self._warp = warp
        self._lanes = range(count)
        self._world = world
        self._data_loops = data_loops

    def execute(self, instruction: Instruction, mask: Lanes, warp: State) -> None:
        name = instruction.writes[0]
        guard = instruction.guard
        if guard is not None:
            holds = self._row(Register(guard.register), warp)
            assert all(isinstance(holds[i], int) for i in self._lanes if mask >> i & 1)
            mask = sum(
                1 << i for i in self._lanes if mask >> i & 1 and bool(holds[i]) != guard.negated
            )
        values = self._values(instruction, warp)
        old = warp.registers.get(name, (0,) * len(self._lanes))
        warp.registers[name] = tuple(values[i] if mask >> i & 1 else old[i] for i in self._lanes)

    def _values(self, instruction: Instruction, warp: State) -> Row:
        operation, *words = instruction.mnemonic.split(".")
        sources = instruction.operands[1:]
        if operation in ("ld", "vote", "bar", "barrier"):
            return self._open(operation, words, sources, warp)
        rows = [self._row(operand, warp) for operand in sources]
        if operation in ("mov", "not"):
            return rows[0]
        operate = _COMPARISONS[words[0]] if operation == "setp" else _ARITHMETIC[operation]
        join = {"and": 0, "or": 1}.get(operation) if words[0] == "pred" else None
        return tuple(_apply(operate, join, a, b) for a, b in zip(rows[0], rows[1], strict=True))

    def _open(
        self, operation: str, words: Sequence[str], sources: Sequence[Operand], warp: State
    ) -> Row:
        """A value that the kernel gets from outside."""
        count = len(self._lanes)
        if operation in ("bar", "barrier"):
            warp.reductions += 1
            return (self._known(f"red {warp.reductions}"),) * count
        if operation == "vote":
            warp.fresh += 1
            return (("warp", warp.fresh),) * count
        (address,) = sources
        assert isinstance(address, Address)
        if isinstance(address.base, SymbolRef):
            return (self._known(f"param {address.base.name}"),) * count
        if "nc" in words:
            return (self._known(f"word {address.offset}"),) * count
        assert isinstance(address.base, Register)
        if address.base.name == "%a0":  # all lanes load the same word
            warp.fresh += 1
            return (("warp", warp.fresh),) * count
        return (EACH_LANE,) * count

    def _known(self, key: str) -> int:
        if key not in self._world:
            raise Unresolved(key)
        return self._world[key]

    def _row(self, operand: Operand, warp: State) -> Row:
        count = len(self._lanes)
        match operand:
            case Register(name):
                return warp.registers.get(name, (0,) * count)
            case Immediate(value):
                return (int(value),) * count
            case SpecialRegister("%tid.x"):
                return tuple(32 * self._warp + lane for lane in self._lanes)
        raise AssertionError(operand)

    def outcomes(self, block: Place, mask: Lanes, warp: State) -> Iterator[Lanes]:
        """The sets of lanes that may take the branch at the end of a block."""
        assert block.guard is not None
        row = warp.registers.get(block.guard, (0,) * len(self._lanes))
        sure = 0
        alike: dict[object, list[int]] = {}  # lanes that go together, or are interchangeable
        for lane in self._lanes:
            if not mask >> lane & 1:
                continue
            value = self._forced(block, lane, warp, row[lane])
            if isinstance(value, int):
                sure |= (bool(value) != block.negated) << lane
            elif value == EACH_LANE:
                alike.setdefault(self._likeness(lane, warp), []).append(lane)
            else:
                alike.setdefault(value, []).append(lane)
        parts = []
        for key, lanes in alike.items():
            together = isinstance(key, tuple) and key[:1] == ("warp",)
            sizes = (0, len(lanes)) if together else range(len(lanes) + 1)
            parts.append([sum(1 << lane for lane in lanes[:size]) for size in sizes])
        for combination in itertools.product(*parts):
            yield sure | sum(combination)

    def _forced(self, block: Place, lane: int, warp: State, value: Value) -> Value:
        """The guard's value, that which leaves the loop if it has made its last pass."""
        loop = self._data_loops.get(block.guard or "")
        if loop is None or warp.registers[loop.counter][lane] != loop.most:
            return value
        return int(loop.leaves_when_taken != block.negated)

    def _likeness(self, lane: int, warp: State) -> object:
        values = tuple([row[lane] for name, row in warp.registers.items() if name != "%kt"])
        places = tuple(mask >> lane & 1 for _, mask, _ in warp.frames)
        return values, places

    def decide(self, block: Place, going: Lanes, mask: Lanes, warp: State) -> None:
        """Makes the guard's value in each lane what the branch has shown it to be."""
        assert block.guard is not None
        row = warp.registers.get(block.guard, (0,) * len(self._lanes))
        warp.registers[block.guard] = tuple(
            int(bool(going >> lane & 1) != block.negated) if mask >> lane & 1 else row[lane]
            for lane in self._lanes
        )


def _apply(operate: object, join: int | None, a: Value, b: Value) -> Value:
    """An operation on two values of which one may be open."""
    if isinstance(a, int) and isinstance(b, int):
        return int(operate(a, b))  # type: ignore[operator]
    known, opened = (a, b) if isinstance(a, int) else (b, a)
    if join is None:
        return opened  # a comparison of data with anything: nobody knows
    assert isinstance(known, int), "both sides of a predicate operation come from data"
    return opened if known != join else join
