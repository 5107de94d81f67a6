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

from cfg_clock import Clock, SectionRun, Step, WarpRun
from cfg_conditions import DataLoop
from cfg_lanes import Lanes, LaneValues, Row, World

from ptxwcet.ir.kernel import Instruction, Kernel
from ptxwcet.machine.model import Machine
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.warp.program import Barrier, Scoreboard

_OUTSIDE = -1


class TooMany(Exception):
    """The kernel has more executions than asked for."""


@dataclass(slots=True)
class _Warp:
    """One execution so far. ``frames``: (next block, lanes, meeting), the last one executes."""

    frames: tuple[tuple[int, Lanes, int], ...]
    registers: dict[str, Row]
    clock: Clock
    whole: Clock
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
            Clock.fresh(registers, units),
            Clock.fresh(registers, units),
        )
        lane = LaneValues(warp, lanes, world, self._data_loops)
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

    def _run(self, warp: _Warp, lane: LaneValues) -> list[_Warp]:
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

    def _branches(
        self, warp: _Warp, block: _Block, going: Lanes, lane: LaneValues
    ) -> Iterator[_Warp]:
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
                warp.clock = Clock.fresh(len(self._registers), len(self._units))
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
