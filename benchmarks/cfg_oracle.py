"""All executions of a small kernel's warps, found by running it: a second opinion of paths.

A SIMT interpreter of its own (blocks, post-dominators and lanes from their definitions; it shares
nothing with ``ptxwcet.flow``) runs a warp on a stack of (block, lanes, meeting). What data decides
is a *choice*, and every choice is taken:

* a value loaded by each lane apart is open in each lane: all subsets of the lanes take the branch,
  up to a permutation of lanes whose registers are equal;
* a vote, or one address loaded by all lanes, is open once a warp;
* a parameter without a value, a word of constant data, the result of ``bar.red`` are open once a
  block: they span the *worlds*, and all warps of a block live in the same one;
* lanes that part execute the two sides in either order. A side of which a barrier is the next step
  runs last: nobody waits there while lanes of the same warp are elsewhere.

Times follow the model's rules 1-3 and 7 for each instruction sequence. Registers whose names begin
with k or p decide control (:mod:`cfg_kernels` writes them so); the others hold data.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cfg_kernels import DataLoop

from ptxwcet.ir.kernel import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    SpecialRegister,
    SymbolRef,
)
from ptxwcet.machine.model import Machine
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.warp.program import Barrier, Scoreboard

Lanes = int  # a bit a lane
Token = tuple[str, int]  # an open value: ("lane", 0) in each lane apart, ("warp", n) in all of them
Value = int | Token
Row = tuple[Value, ...]  # a register's value in each lane
World = Mapping[str, int]  # what is open once a block, decided
Step = tuple[tuple[int, ...], tuple[int, ...], int, int, int, bool, int, bool]

EACH_LANE: Token = ("lane", 0)
_OUTSIDE = -1
_COMPARISONS = {
    "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__,
    "ge": int.__ge__, "eq": int.__eq__, "ne": int.__ne__,
}  # fmt: skip
_ARITHMETIC = {
    "add": int.__add__, "sub": int.__sub__, "and": int.__and__, "or": int.__or__,
    "xor": int.__xor__, "shr": int.__rshift__, "shl": int.__lshift__,
}  # fmt: skip


class TooMany(Exception):
    """The kernel has more executions than asked for."""


class Unresolved(Exception):
    """A world does not say what ``key`` is."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@dataclass(frozen=True, slots=True)
class SectionRun:
    """A stretch of one execution between barriers: L, and inits and issues of each unit."""

    cycles: int
    initiations: tuple[int, ...]
    issues: tuple[int, ...]

    @property
    def units(self) -> int:
        """Units used, a bit each."""
        return sum(1 << unit for unit, count in enumerate(self.issues) if count)

    def interference(self, units: int) -> int:
        """What it takes from a warp that uses ``units``: inits there, an issue slot elsewhere."""
        return sum(
            init if units >> unit & 1 else count
            for unit, (init, count) in enumerate(zip(self.initiations, self.issues, strict=True))
        )


@dataclass(frozen=True, slots=True)
class WarpRun:
    """One execution of one warp: its sections on a clean machine each, and L of the whole."""

    sections: tuple[SectionRun, ...]
    cycles: int


@dataclass(slots=True)
class _Clock:
    """The timing state of a warp: the model's rules, one instruction after the other."""

    ready: list[int]
    free: list[int]
    inits: list[int]
    issues: list[int]
    t: int = 0
    end: int = 0

    @staticmethod
    def fresh(registers: int, units: int) -> _Clock:
        return _Clock([0] * registers, [0] * units, [0] * units, [0] * units)

    def copy(self) -> _Clock:
        return _Clock(self.ready[:], self.free[:], self.inits[:], self.issues[:], self.t, self.end)

    def run(self, steps: Sequence[Step]) -> None:
        ready, free, t = self.ready, self.free, self.t
        for waits, writes, unit, initiation, latency, conditional, advance, _ in steps:
            for register in waits:
                if ready[register] > t:
                    t = ready[register]
            dispatched = free[unit] if free[unit] > t else t
            free[unit] = dispatched + initiation
            done = dispatched + initiation + latency
            if done > self.end:
                self.end = done
            for register in writes:
                if not conditional or done > ready[register]:
                    ready[register] = done
            self.inits[unit] += initiation
            self.issues[unit] += 1
            t += advance
        self.t = t

    def section(self) -> SectionRun:
        cycles = max(self.end, self.t)
        return SectionRun(cycles, tuple(self.inits), tuple(self.issues))


@dataclass(slots=True)
class _Warp:
    """One execution so far. ``frames``: (next block, lanes, meeting), the last one executes."""

    frames: tuple[tuple[int, Lanes, int], ...]
    registers: dict[str, Row]
    clock: _Clock
    whole: _Clock
    sections: tuple[SectionRun, ...] = ()
    fresh: int = 0
    reductions: int = 0

    def copy(self, frames: tuple[tuple[int, Lanes, int], ...]) -> _Warp:
        return _Warp(
            frames,
            dict(self.registers),
            self.clock.copy(),
            self.whole.copy(),
            self.sections,
            self.fresh,
            self.reductions,
        )

    @property
    def alive(self) -> Lanes:
        lanes = 0
        for _, mask, _ in self.frames:
            lanes |= mask
        return lanes


@dataclass(frozen=True, slots=True)
class _Block:
    """Instructions up to a branch or label: what decides control, and what takes time."""

    control: tuple[Instruction, ...]
    steps: tuple[tuple[Step, ...], tuple[Step, ...]]  # by whether the branch counts as taken
    waits: bool  # for the rest of the block
    guard: str | None
    negated: bool
    leaves: bool  # the last instruction ends threads
    target: int  # of the branch, or the block that follows
    following: int
    meeting: int


class Executions:
    """The executions of a kernel's warps; ``data_loops`` bound loops that data would end.

    ``data_loops`` maps the guard of such a loop's exit to what bounds it.
    """

    def __init__(
        self, kernel: Kernel, machine: Machine, data_loops: Mapping[str, DataLoop]
    ) -> None:
        self._kernel = kernel
        self._machine = machine
        self._data_loops = data_loops
        self._registers: dict[str, int] = {}
        self._units = [unit.name for unit in machine.units]
        self._costs = InstructionCosts(machine)
        self._blocks = self._build()
        self._costs.raise_refusals()

    # --- the kernel as blocks -------------------------------------------------------------------

    def _build(self) -> tuple[_Block, ...]:
        code = self._kernel.instructions
        targets = [self._kernel.labels[one.targets[0]] if one.targets else None for one in code]
        ends = [i for i, one in enumerate(code) if _word(one) in ("bra", "ret")]
        starts = sorted({0, *[t for t in targets if t is not None], *[i + 1 for i in ends]})
        starts = [start for start in starts if start < len(code)]
        number = {start: block for block, start in enumerate(starts)}
        number[len(code)] = len(starts)
        shapes: list[tuple[int, int, int, int]] = []
        for start, end in itertools.pairwise([*starts, len(code)]):
            last = code[end - 1]
            target = targets[end - 1]
            if _word(last) == "ret":
                away = len(starts)
            else:
                away = number[end] if target is None else number[target]
            falls = target is None and _word(last) != "ret"
            guarded = last.guard is not None and (target is not None or _word(last) == "ret")
            following = number[end] if guarded or falls else away
            shapes.append((start, end, away, following))
        meetings = _meetings([(away, following) for _, _, away, following in shapes])
        return tuple(
            self._block(code[start:end], start, (away, following, meetings[block]))
            for block, (start, end, away, following) in enumerate(shapes)
        )

    def _block(self, code: Sequence[Instruction], start: int, ways: tuple[int, int, int]) -> _Block:
        last = code[-1]
        branches = _word(last) in ("bra", "ret")
        guard = last.guard if branches else None
        return _Block(
            tuple(one for one in code if any(name[1] in "kp" for name in one.writes)),
            (self._steps(code, start, taken=False), self._steps(code, start, taken=True)),
            any(_word(one) in ("bar", "barrier") for one in code),
            guard.register if guard is not None else None,
            guard is not None and guard.negated,
            _word(last) == "ret",
            *ways,
        )

    def _steps(self, code: Sequence[Instruction], start: int, *, taken: bool) -> tuple[Step, ...]:
        out: list[Step] = []
        for index, instruction in enumerate(code, start):
            last = index == start + len(code) - 1
            for node in self._costs.nodes(index, instruction, taken=taken and last):
                timed = node.instruction if isinstance(node, Barrier) else node
                waits = tuple(self._number(name) for name in timed.reads)
                writes = tuple(self._number(name) for name in timed.writes)
                if self._machine.scoreboard is Scoreboard.RAW_WAW:
                    waits += writes
                out.append(
                    (
                        waits,
                        writes,
                        self._units.index(timed.unit),
                        timed.initiation_cycles,
                        timed.latency_cycles,
                        timed.conditional,
                        1 + timed.bubble_cycles,
                        isinstance(node, Barrier),
                    )
                )
        return tuple(out)

    def _number(self, name: str) -> int:
        return self._registers.setdefault(name, len(self._registers))

    # --- running --------------------------------------------------------------------------------

    def of_warp(self, warp: int, lanes: int, world: World, most: int) -> list[WarpRun]:
        """Every execution of a warp's first ``lanes`` lanes. Raises TooMany, Unresolved."""
        registers, units = len(self._registers), len(self._units)
        start = _Warp(
            ((0, (1 << lanes) - 1, _OUTSIDE),),
            {},
            _Clock.fresh(registers, units),
            _Clock.fresh(registers, units),
        )
        lane = _Lanes(warp, lanes, world, self._data_loops)
        pending, done = [start], []
        while pending:
            state = pending.pop()
            following = self._run(state, lane)
            pending += following
            if not following and not state.frames:
                done.append(WarpRun((*state.sections, state.clock.section()), state.whole.end))
            if len(done) + len(pending) > most:
                raise TooMany
        return done

    def _run(self, warp: _Warp, lane: _Lanes) -> list[_Warp]:
        """Executes until a choice, whose outcomes are returned, or the end (or a deadlock)."""
        while warp.frames:
            number, mask, meeting = warp.frames[-1]
            if number == meeting or number == len(self._blocks) or not mask:
                self._pop(warp, number)
                continue
            block = self._blocks[number]
            if block.waits and mask != warp.alive:
                return []
            for instruction in block.control:
                lane.execute(instruction, mask, warp)
            ways = list(lane.outcomes(block, mask, warp)) if block.guard else [mask]
            if len(ways) == 1 and ways[0] in (0, mask):
                self._go(warp, block, ways[0])
                continue
            return [each for going in ways for each in self._branches(warp, block, going, lane)]
        return []

    def _pop(self, warp: _Warp, number: int) -> None:
        frame = warp.frames[-1]
        rest = warp.frames[:-1]
        if number == len(self._blocks):  # its lanes have ended
            rest = tuple((b, mask & ~frame[1], meeting) for b, mask, meeting in rest)
        warp.frames = rest

    def _branches(self, warp: _Warp, block: _Block, going: Lanes, lane: _Lanes) -> Iterator[_Warp]:
        _, mask, _ = warp.frames[-1]
        apart = going not in (0, mask) and not block.leaves
        orders = 2 if apart and block.meeting not in (block.target, block.following) else 1
        for swapped in range(orders):
            each = warp.copy(warp.frames)
            if block.guard is not None:
                lane.decide(block, going, mask, each)
            self._go(each, block, going, swapped=bool(swapped))
            yield each

    def _go(self, warp: _Warp, block: _Block, going: Lanes, *, swapped: bool = False) -> None:
        """The lanes ``going`` take the branch at the end of a block, the others do not.

        A warp whose lanes part takes it unless its target is where they meet.
        """
        *below, (_, mask, meeting) = warp.frames
        apart = going not in (0, mask)
        taken = bool(going) and not (apart and block.target == block.meeting)
        self._tick(warp, block.steps[taken])
        if not apart:
            warp.frames = (*below, (block.target if going else block.following, mask, meeting))
            return
        if block.leaves:
            kept = [(b, lanes & ~going, m) for b, lanes, m in below]
            warp.frames = (*kept, (block.following, mask & ~going, meeting))
            return
        sides = [
            (block.following, mask & ~going, block.meeting),
            (block.target, going, block.meeting),
        ]
        if swapped:
            sides.reverse()
        sides = [side for side in sides if side[0] != block.meeting]
        warp.frames = (*below, (block.meeting, mask, meeting), *sides)

    def _tick(self, warp: _Warp, steps: Sequence[Step]) -> None:
        warp.whole.run(steps)
        first = 0
        for index, step in enumerate(steps):
            if step[-1]:
                warp.clock.run(steps[first : index + 1])
                warp.sections += (warp.clock.section(),)
                warp.clock = _Clock.fresh(len(self._registers), len(self._units))
                first = index + 1
        warp.clock.run(steps[first:])


def _word(instruction: Instruction) -> str:
    return instruction.mnemonic.partition(".")[0]


def _meetings(ways: Sequence[tuple[int, int]]) -> list[int]:
    """Immediate post-dominators, from the definition: the nearest of those that are on all ways."""
    everything = (1 << len(ways) + 1) - 1
    after = [everything] * len(ways) + [1 << len(ways)]
    changed = True
    while changed:
        changed = False
        for block in reversed(range(len(ways))):
            one, other = ways[block]
            now = after[one] & after[other] | 1 << block
            changed |= now != after[block]
            after[block] = now
    out = []
    for block in range(len(ways)):
        strict = after[block] & ~(1 << block)
        out.append(next(b for b in range(len(ways) + 1) if strict >> b & 1 and after[b] == strict))
    return out


class _Lanes:
    """The lanes of one warp: what instructions that decide control make of its registers."""

    def __init__(
        self, warp: int, count: int, world: World, data_loops: Mapping[str, DataLoop]
    ) -> None:
        self._warp = warp
        self._lanes = range(count)
        self._world = world
        self._data_loops = data_loops

    def execute(self, instruction: Instruction, mask: Lanes, warp: _Warp) -> None:
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

    def _values(self, instruction: Instruction, warp: _Warp) -> Row:
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
        self, operation: str, words: Sequence[str], sources: Sequence[Operand], warp: _Warp
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

    def _row(self, operand: Operand, warp: _Warp) -> Row:
        count = len(self._lanes)
        match operand:
            case Register(name):
                return warp.registers.get(name, (0,) * count)
            case Immediate(value):
                return (int(value),) * count
            case SpecialRegister("%tid.x"):
                return tuple(32 * self._warp + lane for lane in self._lanes)
        raise AssertionError(operand)

    def outcomes(self, block: _Block, mask: Lanes, warp: _Warp) -> Iterator[Lanes]:
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

    def _forced(self, block: _Block, lane: int, warp: _Warp, value: Value) -> Value:
        """The guard's value, that which leaves the loop if it has made its last pass."""
        loop = self._data_loops.get(block.guard or "")
        if loop is None or warp.registers[loop.counter][lane] != loop.most:
            return value
        return int(loop.leaves_when_taken != block.negated)

    def _likeness(self, lane: int, warp: _Warp) -> object:
        values = tuple([row[lane] for name, row in warp.registers.items() if name != "%kt"])
        places = tuple(mask >> lane & 1 for _, mask, _ in warp.frames)
        return values, places

    def decide(self, block: _Block, going: Lanes, mask: Lanes, warp: _Warp) -> None:
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
