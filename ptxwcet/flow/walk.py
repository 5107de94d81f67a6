"""The walk: executes a kernel's control flow on abstract lanes and records the path.

One walk follows a group of warps that take the same path; where warps disagree it asks to be
restarted on smaller groups (:class:`SplitWarps`), where block indices disagree on smaller index
ranges (:class:`~ptxwcet.flow.regions.SplitRequest`). A branch that lanes of one warp decide
differently is divergent: both sides are executed with partial masks up to its immediate
post-dominator ([B] III-B). What a decision depends on and is not known ends the walk
(:class:`Undecided`).

Loops are summarised, not unrolled: from the register changes of ``p`` iterations the walk guesses
that every further ``p`` iterations change them alike, executes ``p`` iterations once more with the
iteration number as a symbol, and so *proves* the guess by induction for the largest number of
iterations over which no decision changes (:mod:`ptxwcet.flow.regions`). Registers that break the
guess become unknown. Loops that double or halve their counter end after at most 64 plain
iterations.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from ptxwcet.flow.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.facts import WARP_SIZE, BoundOrigin, PlacedFacts
from ptxwcet.flow.lanes import LaneState
from ptxwcet.flow.loops import Loop, LoopForest
from ptxwcet.flow.paths import (
    AffineCount,
    Path,
    PathChoice,
    PathFork,
    PathLoop,
    PathNode,
    PathRepeat,
    PathUnordered,
    Visit,
    close_symbol,
    grows,
    is_exact,
    loop_entries,
    visited_blocks,
)
from ptxwcet.flow.regions import Symbol
from ptxwcet.flow.transfer import Transfer, compile_transfer, read_operand, register_width
from ptxwcet.flow.values import (
    Cause,
    CauseKind,
    Known,
    Mask,
    Number,
    Unknown,
    Value,
    add,
    clean_terms,
    meet,
    multiply,
    same,
    substitute,
)
from ptxwcet.ir.kernel import Guard, Immediate, Instruction, Kernel
from ptxwcet.ir.op_classes import ControlEffect, OpClass

# Plain iterations of one loop entry before it is refused as not summarisable: halving and doubling
# loops need at most 64, table-driven ones in the corpus at most 1024.
_MOST_PLAIN_ITERATIONS = 4096
# Loops whose inner counts vary with the iteration are enumerated exactly up to this many
# iterations.
_ENUMERATED_ITERATIONS = 64
_PERIODS = (1, 2, 3, 4, 8)
# Block visits of one walk: seconds, and above what any kernel of samples and corpus needs (8,000).
_MOST_VISITS = 60_000
_MOST_HAVOC_ROUNDS = 12
# Branches with open or divergent outcomes inside of each other: a level takes a few Python frames.
_MOST_SIDES = 100
_ENDINGS = (ControlEffect.RETURN, ControlEffect.EXIT, ControlEffect.TRAP)


class SplitWarps(Exception):
    """The warps of the group take different paths: walk these groups apart."""

    def __init__(self, groups: tuple[tuple[int, ...], ...]) -> None:
        super().__init__(f"{len(groups)} groups")
        self.groups = groups


class Undecided(Exception):
    """The outcome at ``instruction`` (an index) is not known; ``causes`` says why."""

    def __init__(self, instruction: int, causes: frozenset[Cause]) -> None:
        super().__init__(f"instruction {instruction} is undecided")
        self.instruction = instruction
        self.causes = causes


class Refused(Exception):
    """The path cannot be extracted at ``instruction`` (an index): code, reason and remedy."""

    def __init__(self, code: str, instruction: int, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.code = code
        self.instruction = instruction
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class FlowGraph:
    """A kernel's control flow and what the walk needs to know about it."""

    kernel: Kernel
    cfg: ControlFlowGraph
    forest: LoopForest
    postdominators: tuple[BlockId | None, ...]
    control_registers: frozenset[str]

    def block_of(self, index: int) -> BlockId:
        """The block that holds instruction ``index``. Cost: logarithmic."""
        return BlockId(bisect_right(self.cfg.blocks, index, key=lambda block: block.start) - 1)


@dataclass(frozen=True, slots=True)
class _Step:
    """An instruction that the walk must look at."""

    index: int
    instruction: Instruction
    guard: Guard | None
    transfer: Transfer | None


@dataclass(frozen=True, slots=True)
class _Snapshot:
    registers: dict[str, Value]
    alive: Mask
    nodes: int
    is_exact: bool
    limits: tuple[tuple[Symbol, int | None, dict[Symbol, int]], ...]


class Walk:
    """One walk over the kernel for a group of warps; ``run`` gives the path."""

    def __init__(self, graph: FlowGraph, state: LaneState, facts: PlacedFacts) -> None:
        self._graph = graph
        self._cfg = graph.cfg
        self._state = state
        self._bounds = facts.loop_bounds
        self._steps: dict[int, tuple[_Step, ...]] = {}
        self._out: list[PathNode] = []
        self._symbols: list[Symbol] = [s for s in state.index.symbols if s is not None]
        self._exits: _ExitRecorder | None = None
        self._visits = 0
        self._is_exact = True  # the masks are those of the run; else a warp may have fewer lanes
        # open branches around whose other lanes may wait elsewhere, and why they are open
        self._apart: list[tuple[int, frozenset[Cause]]] = []
        self._open: list[_OpenLoop] = []
        self._depth = 0  # sides of branches around
        self._proofs = 0  # proofs of closed forms around
        self._open_branches: set[int] = set()

    def run(self) -> Path:
        """The path from entry to exit. Raises SplitWarps, SplitRequest, Undecided, Refused."""
        block, mask = self._region(self._cfg.entry, self._state.alive.copy(), None, None)
        assert block == self._cfg.exit or not mask.any()
        return tuple(self._out)

    # --- blocks ----------------------------------------------------------------------------------

    def _region(
        self, block: int, mask: Mask, stop: int | None, loop: Loop | None
    ) -> tuple[int, Mask]:
        """Walks until ``stop``, the exit, the header of ``loop``, or a block outside ``loop``.

        Returns where it stands and the lanes that arrived there.
        """
        first = True
        while block != stop and block != self._cfg.exit and mask.any():
            if loop is not None and not first and block == loop.header:
                break
            if loop is not None and block not in loop.body:
                break
            entered = self._graph.forest.loop_at(BlockId(block))
            if entered is not None and not (first and loop is not None and block == loop.header):
                block, mask = self._loop(entered, mask, stop)
            else:
                block, mask = self._block(block, mask)
            first = False
        if block == self._cfg.exit and mask.any():
            self._state.alive &= ~mask
            mask = np.zeros_like(mask)
        return block, mask

    def _block(self, block: int, mask: Mask) -> tuple[int, Mask]:
        state = self._state
        self._visits += 1
        if self._visits > _MOST_VISITS:
            raise self._too_long(block)
        for step in self._block_steps(block):
            state.active = mask
            if step.transfer is not None:
                self._evaluate(step, mask)
            elif step.instruction.control in _ENDINGS:
                sure, unsure, _ = self._outcomes(step.guard, mask)
                if self._is_exact and not unsure.any():
                    return self._leave(block, step, sure, mask)
            else:
                self._control(step, mask)
        taken, fallthrough = (
            self._cfg.taken_successor(BlockId(block)),
            self._cfg.fallthrough_successor(BlockId(block)),
        )
        if taken is None:
            assert fallthrough is not None
            self._out.append(Visit(block, taken=False))
            return fallthrough, mask
        return self._branch(block, mask, taken, fallthrough)

    def _too_long(self, block: int) -> Refused:
        return Refused(
            "PW206",
            self._cfg.blocks[block].start,
            f"the path was not settled in {_MOST_VISITS} block visits and {_MOST_SIDES} branches "
            "inside of each other",
            "bound the irregular loops of the kernel with --loop-bound",
        )

    def _block_steps(self, block: int) -> tuple[_Step, ...]:
        steps = self._steps.get(block)
        if steps is None:
            bounds = self._cfg.blocks[block]
            instructions = self._graph.kernel.instructions
            steps = tuple(
                step
                for index in range(bounds.start, bounds.end)
                if (step := self._compile(index, instructions[index])) is not None
            )
            self._steps[block] = steps
        return steps

    def _compile(self, index: int, instruction: Instruction) -> _Step | None:
        control = instruction.control
        if control is ControlEffect.BRANCH:
            return None  # at the end of its block: see _branch
        if control is not ControlEffect.NONE or instruction.op_class is OpClass.BARRIER:
            return _Step(index, instruction, instruction.guard, None)
        if not any(name in self._graph.control_registers for name in instruction.writes):
            return None
        return _Step(
            index,
            instruction,
            instruction.guard,
            compile_transfer(instruction, index, self._graph.kernel.registers),
        )

    def _evaluate(self, step: _Step, mask: Mask) -> None:
        state = self._state
        lanes: Mask = mask
        unknown_guard: Unknown | None = None
        if step.guard is not None:
            guard = state.register(step.guard.register)
            if isinstance(guard, Unknown):
                unknown_guard = guard
            else:
                lanes = self._lanes_where(guard.base, step.guard.negated, mask)
                if not lanes.any():
                    return
                state.active = lanes
        assert step.transfer is not None
        values = step.transfer(state)
        for name, value in zip(step.instruction.writes, values, strict=True):
            if name in self._graph.control_registers:
                state.write(name, value if unknown_guard is None else unknown_guard, lanes)
        state.active = mask

    def _lanes_where(self, outcome: Number, negated: bool, mask: Mask) -> Mask:
        if isinstance(outcome, int):
            return mask if bool(outcome) != negated else np.zeros_like(mask)
        chosen: Mask = (outcome != 0) != negated
        return mask & chosen

    def _guard_lanes(self, index: int, guard: Guard | None, mask: Mask) -> Mask:
        """The lanes in which a control instruction is executed; the same in all warps of the
        group.
        """
        if guard is None:
            return mask
        self._state.active = mask
        value = self._state.register(guard.register)
        if isinstance(value, Unknown):
            raise Undecided(index, value.causes)
        lanes = self._lanes_where(value.base, guard.negated, mask)
        self._require_agreement(lanes)
        return lanes

    def _require_agreement(self, lanes: Mask) -> None:
        rows = lanes.reshape(-1, WARP_SIZE)
        if bool((rows == rows[0]).all()):
            return
        groups: dict[bytes, list[int]] = {}
        for warp, row in zip(self._state.warps, rows, strict=True):
            groups.setdefault(row.tobytes(), []).append(warp)
        raise SplitWarps(tuple(tuple(group) for group in groups.values()))

    # --- control instructions ---------------------------------------------------------------------

    def _control(self, step: _Step, mask: Mask) -> None:
        """Checks a barrier or call."""
        control = step.instruction.control
        if control is ControlEffect.CALL:
            if self._guard_lanes(step.index, step.guard, mask).any():
                raise self._call_refusal(step)
            return
        if control is ControlEffect.INDIRECT_BRANCH:
            raise Refused(
                "PW221",
                step.index,
                "an indexed branch (brx.idx) on the path is not followed",
                "compile the switch statement to comparisons, or pass a facts-free kernel",
            )
        self._barrier(step, mask)

    def _call_refusal(self, step: _Step) -> Refused:
        callee = step.instruction.callee
        what = f"call of {callee}" if callee else "indirect call"
        return Refused(
            "PW220",
            step.index,
            f"{what} on the path: the time of a called function is not bounded",
            "let the compiler inline it (__forceinline__), or remove the call",
        )

    def _barrier(self, step: _Step, mask: Mask) -> None:
        instruction = step.instruction
        lanes = self._guard_lanes(step.index, step.guard, mask)
        if self._apart:
            block, causes = self._apart[-1]
            index = self._cfg.blocks[block].end - 1
            if any(cause.kind in (CauseKind.PARAMETER, CauseKind.LAUNCH) for cause in causes):
                raise Undecided(index, causes)
            branch = self._graph.kernel.instructions[index]
            raise Refused(
                "PW222",
                step.index,
                "a block-wide barrier may be reached by only some of the running threads of a "
                f"warp: {branch.mnemonic} in line {branch.span.line} is not decided",
                "move the barrier out of the branch",
            )
        if not bool((lanes == self._state.alive).all()):
            raise Refused(
                "PW222",
                step.index,
                "a block-wide barrier is reached by only some of the running threads of a warp",
                "move the barrier out of the divergent code",
            )
        words = instruction.mnemonic.split(".")
        if "arrive" in words or "cluster" in words:
            raise Refused(
                "PW223",
                step.index,
                f"{instruction.mnemonic} does not wait for all warps of the block",
                "only barriers that all warps of the block wait at are supported",
            )
        self._check_participants(step, words)

    def _check_participants(self, step: _Step, words: list[str]) -> None:
        operands = step.instruction.operands
        first = 1 if "red" in words else 0
        count_at = first + 1
        if not isinstance(operands[first], Immediate):
            raise Refused(
                "PW223",
                step.index,
                "the barrier's number is not a literal",
                "use __syncthreads() or a barrier with a constant number",
            )
        has_count = len(operands) > count_at + (1 if "red" in words else 0)
        if not has_count:
            return
        value = read_operand(self._state, operands[count_at], 32, step.index)
        whole = self._state.launch.warps * WARP_SIZE
        if not isinstance(value, Known) or not value.is_uniform_constant or value.base != whole:
            raise Refused(
                "PW223",
                step.index,
                "the barrier waits for a part of the block only",
                f"only barriers of the whole block ({whole} threads) are supported",
            )

    def _leave(self, block: int, step: _Step, left: Mask, mask: Mask) -> tuple[int, Mask]:
        self._out.append(Visit(block, taken=False))
        self._state.alive &= ~left
        rest = mask & ~left
        if not rest.any():
            return self._cfg.exit, rest
        following = self._cfg.fallthrough_successor(BlockId(block))
        assert following is not None, "an unguarded exit ends all lanes"
        return following, rest

    # --- branches ---------------------------------------------------------------------------------

    def _branch(
        self, block: int, mask: Mask, taken: int, fallthrough: int | None
    ) -> tuple[int, Mask]:
        index = self._cfg.blocks[block].end - 1
        guard = self._graph.kernel.instructions[index].guard
        recorder = self._exits
        if recorder is not None and block in recorder.blocks:
            return recorder.leave_or_stay(block, taken, fallthrough, self._out), mask
        sure, unsure, causes = self._outcomes(guard, mask)
        going, staying = sure | unsure, mask & ~sure
        if not going.any():
            assert fallthrough is not None
            self._out.append(Visit(block, taken=False))
            return fallthrough, mask
        jumps = self._jumps(block)
        is_decided = not unsure.any() and self._is_exact
        if fallthrough is None or not staying.any() or (taken == fallthrough and is_decided):
            self._out.append(Visit(block, taken=jumps))
            return taken, mask
        if taken == fallthrough:  # only the bubble of a taken branch is open
            self._note_open(block, causes)
            self._out.append(PathFork(block, (), (), straight=False, jumps=jumps))
            return taken, mask
        if is_decided:
            # Lanes that branch straight to the join only wait there: the warp falls through.
            straight = taken == self._graph.postdominators[block]
            self._out.append(Visit(block, taken=jumps and not straight))
            return self._diverge(block, (taken, going), (fallthrough, staying))
        if unsure.any():
            self._note_open(block, causes)
        if unsure.any() and self._open:
            body = self._open[-1].loop.body
            at_own_level = self._depth == self._open[-1].depth
            if (taken in body) != (fallthrough in body) and at_own_level:
                leaves = taken not in body
                targets = (taken, fallthrough) if leaves else (fallthrough, taken)
                masks = (going, staying) if leaves else (staying, going)
                return self._may_leave(block, targets, masks, causes)
            meeting = self._graph.postdominators[block]
            if meeting not in body and meeting not in (taken, fallthrough):
                raise Undecided(index, causes)
        return self._fork(block, (taken, going), (fallthrough, staying), causes)

    def _note_open(self, block: int, causes: frozenset[Cause]) -> None:
        """A branch is open for good only if it was so in an iteration executed plainly.

        In the proof of a closed form more is unknown: there a new open branch ends the proof.
        """
        if self._proofs and block not in self._open_branches:
            raise Undecided(self._cfg.blocks[block].end - 1, causes)
        self._open_branches.add(block)

    def _jumps(self, block: int) -> bool:
        last = self._graph.kernel.instructions[self._cfg.blocks[block].end - 1]
        return last.control is ControlEffect.BRANCH

    # --- branches that are not decided ------------------------------------------------------------

    def _outcomes(self, guard: Guard | None, mask: Mask) -> tuple[Mask, Mask, frozenset[Cause]]:
        """The lanes in which the guard holds, those in which it may hold, and why it is open."""
        nowhere = np.zeros_like(mask)
        if guard is None:
            return mask, nowhere, frozenset()
        value = self._state.registers.get(guard.register)
        if value is None:
            return nowhere, mask, frozenset({Cause(CauseKind.UNDEFINED, guard.register)})
        if isinstance(value, Unknown):
            return nowhere, mask, value.causes
        unsure: Mask = nowhere if value.valid is None else mask & ~value.valid
        sure = self._lanes_where(value.base, guard.negated, mask & ~unsure)
        self._require_agreement(sure)
        self._require_agreement(unsure)
        return sure, unsure, value.otherwise

    def _fork(
        self,
        block: int,
        first: tuple[int, Mask],
        second: tuple[int, Mask],
        causes: frozenset[Cause],
    ) -> tuple[int, Mask]:
        """Both sides of a branch of which each lane may go one way, or of which lanes may be gone.

        Each side starts from the state at the branch. Where they meet, a register is known in a
        lane that may have come either way only if both sides agree on it.
        """
        join = self._graph.postdominators[block]
        if join is None:
            raise self._no_meeting(block)
        before = self._snapshot()
        self._is_exact = False
        try:
            sides = self._sides(block, causes, (first, second), join)
        except (Refused, Undecided) as refused:
            here = self._cfg.blocks[block].end - 1
            if getattr(refused, "code", "PW222") != "PW222" or (
                isinstance(refused, Undecided) and refused.instruction != here
            ):
                raise
            # a barrier is fine on the side that goes on if the lanes of the other one have exited
            self._restore(before)
            self._is_exact = False
            sides = self._sides(block, causes, (second, first), join)[::-1]
        one, two = sides
        state = self._state
        cause = Unknown(
            causes or frozenset({Cause(CauseKind.LOOP, self._cfg.name(BlockId(block)))})
        )
        state.registers = {
            name: meet(
                one.registers.get(name, cause),
                two.registers.get(name, cause),
                (one.mask, two.mask),
                cause.causes,
            )
            for name in one.registers.keys() | two.registers.keys()
        }
        elsewhere = before.alive & ~(one.mask | two.mask)
        state.alive = elsewhere | one.mask & one.alive | two.mask & two.alive
        arrive = all(not bool((side.mask & ~side.arrived).any()) for side in sides)
        self._is_exact = before.is_exact and arrive
        straight = first[0] == join
        self._out.append(PathFork(block, one.path, two.path, straight, self._jumps(block)))
        return join, one.arrived | two.arrived

    def _sides(
        self,
        branch: int,
        causes: frozenset[Cause],
        sides: tuple[tuple[int, Mask], tuple[int, Mask]],
        join: int,
    ) -> list[_Side]:
        """Walks both sides of a branch up to their meeting, each from the state as it is now."""
        state = self._state
        registers, alive = dict(state.registers), state.alive.copy()
        done: list[_Side] = []
        for position, (block, mask) in enumerate(sides):
            state.registers = dict(registers)
            state.alive = alive.copy()
            before = self._apart
            if done:
                other = sides[1 - position][1]
                state.alive &= ~(other & ~mask & ~done[0].alive)
            if not done or done[0].arrived.any():
                self._apart = [*before, (branch, causes)]
            try:
                path, arrived = self._side(block, mask, join)
            finally:
                self._apart = before
            done.append(_Side(path, mask, arrived, state.registers, state.alive))
        return done

    def _may_leave(
        self,
        block: int,
        targets: tuple[int, int],
        masks: tuple[Mask, Mask],
        causes: frozenset[Cause],
    ) -> tuple[int, Mask]:
        """A branch out of the loop that lanes may take: noted, and the others go on inside.

        ``targets`` and ``masks`` are those of the way out and of the way on.
        """
        opened = self._open[-1]
        index = self._cfg.blocks[block].end - 1
        outside, inside = targets
        if opened.is_bounded or self._graph.postdominators[block] != outside:
            raise Undecided(index, causes)
        jumps = self._jumps(block)
        leaves_when_taken = self._cfg.taken_successor(BlockId(block)) == outside
        way_out = (*self._out, Visit(block, taken=jumps and leaves_when_taken))
        if opened.exit is None:
            self._apart = [*self._apart, (block, causes)]
        opened.sources.add(block)
        opened.note(way_out, outside, masks[0], (index, causes))
        self._is_exact = False
        self._out.append(Visit(block, taken=not leaves_when_taken))
        return inside, masks[1]

    def _diverge(
        self, block: int, first: tuple[int, Mask], second: tuple[int, Mask]
    ) -> tuple[int, Mask]:
        index = self._cfg.blocks[block].end - 1
        join = self._graph.postdominators[block]
        if join is None:
            raise self._no_meeting(block)
        one, arrived_one = self._side(*first, join)
        two, arrived_two = self._side(*second, join)
        if one and two:
            if self._has_barrier(one) or self._has_barrier(two):
                raise Refused(
                    "PW222",
                    index,
                    "the sides of a divergent branch execute one after the other, and one of them "
                    "waits at a barrier",
                    "move the barrier out of the divergent code",
                )
            self._out.append(PathUnordered(one, two))
        else:
            self._out.extend(one + two)
        return join, arrived_one | arrived_two

    def _no_meeting(self, block: int) -> Refused:
        return Refused(
            "PW224",
            self._cfg.blocks[block].end - 1,
            "a divergent branch has no point where its sides meet again",
            "every path from the branch must be able to end",
        )

    def _side(self, block: int, mask: Mask, join: int) -> tuple[Path, Mask]:
        outer, outer_exits = self._out, self._exits
        self._out, self._exits = [], None
        self._depth += 1
        if self._depth > _MOST_SIDES:
            raise self._too_long(block)
        try:
            _, arrived = self._region(block, mask, join, None)
            return tuple(self._out), arrived
        finally:
            self._out, self._exits = outer, outer_exits
            self._depth -= 1

    def _has_barrier(self, nodes: Path) -> bool:
        return any(
            step.instruction.control is ControlEffect.BARRIER
            for block in set(visited_blocks(nodes))
            for step in self._block_steps(block)
        )

    # --- loops ------------------------------------------------------------------------------------

    def _loop(self, loop: Loop, mask: Mask, stop: int | None) -> tuple[int, Mask]:
        """One entry of a loop, from its header to wherever its lanes go next."""
        bound = self._bounds.get(loop.id)
        outer_exits, self._exits = self._exits, None
        before, apart = self._snapshot(), self._apart
        opened = _OpenLoop(loop, bound is not None, self._depth, mask)
        self._open.append(opened)
        try:
            block, arrived = self._analysed_loop(loop, mask, stop, bound)
        except Undecided as undecided:
            if bound is None or not self._is_exit_of(undecided.instruction, loop):
                raise
            self._restore(before)
            self._apart, self._is_exact = apart, False
            block, arrived = self._bounded_loop(loop, mask, bound)
        finally:
            self._exits = outer_exits
            del self._open[-1]
        if opened.exit is not None:
            block, arrived = self._after_leaving(opened, block, arrived)
        self._apart = apart
        self._is_exact = before.is_exact and np.array_equal(before.alive, self._state.alive)
        return block, arrived

    def _after_leaving(self, opened: _OpenLoop, block: int, arrived: Mask) -> tuple[int, Mask]:
        """Goes on where lanes that may have left meet those that ended the loop."""
        meeting = opened.exit
        assert meeting is not None
        if arrived.any() and block != meeting:
            path, arrived = self._side(block, arrived, meeting)
            self._out.append(PathChoice((path, ())))
        self._forget(opened.loop)
        left = opened.left & self._state.alive
        if meeting == self._cfg.exit:
            self._state.alive &= ~left
            left = np.zeros_like(left)
        return meeting, arrived | left

    def _is_exit_of(self, index: int, loop: Loop) -> bool:
        block = self._graph.block_of(index)
        return block in {source for source, _ in loop.exits}

    def _analysed_loop(
        self, loop: Loop, mask: Mask, stop: int | None, claimed: int | None
    ) -> tuple[int, Mask]:
        outer, self._out = self._out, []
        iterations = _Iterations()
        history: list[dict[str, Value]] = []
        plain = 0
        reason = ""
        try:
            while True:
                history.append(dict(self._state.registers))
                alive = self._state.alive.copy()
                self._out = []
                block, arrived = self._region(loop.header, mask, stop, loop)
                nodes = tuple(self._out)
                if block != loop.header or not np.array_equal(arrived, mask):
                    iterations.last = nodes
                    if block == loop.header and arrived.any():
                        iterations.add(nodes, AffineCount(1), 1)  # some lanes have exited for good
                        iterations.last = ()
                        mask, history, plain = arrived, [], plain + 1
                        continue
                    break
                iterations.add(nodes, AffineCount(1), 1)
                plain += 1
                if plain > _MOST_PLAIN_ITERATIONS:
                    raise self._not_summarisable(loop)
                history = history[-max(_PERIODS) :]
                if np.array_equal(alive, self._state.alive):
                    summary = self._summarise(loop, mask, stop, history, plain)
                    if summary is not None:
                        iterations.add(summary.nodes, summary.count, summary.period)
                        reason = reason or summary.reason
                        history, plain = [], 0
        finally:
            self._out = outer
        opened = self._open[-1]
        bodies = iterations.bodies(loop.id, rotated=_is_rotated(loop, opened.sources))
        if claimed is not None and not bodies.slopes and bodies.base > claimed:
            raise self._contradiction(loop, claimed, bodies.base)
        path, reason = iterations.path(tuple(opened.ways_out)), reason or "enumerated"
        if opened.exit is not None:
            reason += "; it may end earlier"
        self._out.append(PathLoop(loop.id, path, bodies, BoundOrigin.ANALYSIS, reason))
        return block, arrived

    def _not_summarisable(self, loop: Loop) -> Refused:
        return Refused(
            "PW204",
            self._cfg.blocks[loop.header].start,
            f"no closed form was found for this loop in {_MOST_PLAIN_ITERATIONS} iterations",
            f"give a bound: --loop-bound '{self._cfg.name(loop.header)}=N'",
        )

    def _contradiction(self, loop: Loop, claimed: int, found: int) -> Refused:
        return Refused(
            "PW217",
            self._cfg.blocks[loop.header].start,
            f"--loop-bound says {claimed} iterations, but the loop runs {found}",
            "correct the bound or the launch facts: both cannot be true",
        )

    def _summarise(
        self,
        loop: Loop,
        mask: Mask,
        stop: int | None,
        history: list[dict[str, Value]],
        plain: int,
    ) -> _Summary | None:
        """Tries to prove that further iterations repeat with some period; None if it cannot."""
        if plain > max(_PERIODS) and plain & (plain - 1):
            return None  # back off: only after 16, 32, ... plain iterations
        for period in _PERIODS:
            if period <= len(history):
                summary = self._prove(loop, mask, stop, history[-period], period)
                if summary is not None:
                    return summary
        return None

    def _prove(
        self, loop: Loop, mask: Mask, stop: int | None, earlier: dict[str, Value], period: int
    ) -> _Summary | None:
        before = self._snapshot()
        opened = self._open[-1]
        ways_out = dict(opened.ways_out)
        havoc: set[str] = set()
        for _ in range(_MOST_HAVOC_ROUNDS):
            counter = Symbol(f"k{len(self._symbols)}", len(self._symbols))
            self._symbols.append(counter)
            start = self._guess(earlier, counter, mask, havoc)
            self._proofs += 1
            try:
                nodes = self._iterate(loop, mask, stop, period)
            except (Undecided, Refused):
                nodes = None
            finally:
                self._proofs -= 1
                self._symbols.pop()
            if nodes is None:
                break
            broken = self._broken(start, counter)
            if not broken:
                summary = self._accept(loop, counter, nodes, period, start)
                if summary is None:
                    break
                found = [way for way in opened.ways_out if way not in ways_out]
                closed = (close_symbol(way, counter) for way in found)
                opened.ways_out = {**ways_out, **dict.fromkeys(closed)}
                return summary
            havoc |= broken
            self._restore(before)
            opened.ways_out = dict(ways_out)
        self._restore(before)
        opened.ways_out = ways_out
        return None

    def _guess(
        self, earlier: dict[str, Value], counter: Symbol, mask: Mask, havoc: set[str]
    ) -> dict[str, Value]:
        """Registers as functions of the iteration number: now + counter * (now - earlier)."""
        registers = self._state.registers
        for name, now in list(registers.items()):
            if name in havoc:
                registers[name] = Unknown(frozenset({Cause(CauseKind.NOT_AFFINE, name)}))
                continue
            then = earlier.get(name)
            if then is now or isinstance(now, Unknown):
                continue
            step = self._difference(name, now, then, mask)
            if step is None:
                registers[name] = Unknown(frozenset({Cause(CauseKind.NOT_AFFINE, name)}))
            elif not isinstance(step, int) or step != 0:
                terms = clean_terms({**now.terms, counter: step})
                registers[name] = Known(now.base, terms, now.valid, now.otherwise)
        return dict(registers)

    def _difference(self, name: str, now: Known, then: Value | None, mask: Mask) -> Number | None:
        if not isinstance(then, Known):
            return None
        for value in (now, then):
            if value.valid is not None and bool((mask & ~value.valid).any()):
                return None
        if now.terms or then.terms:
            symbols = now.terms.keys() | then.terms.keys()
            for symbol in symbols:
                change = now.terms.get(symbol, 0) - then.terms.get(symbol, 0)
                if np.any(np.where(mask, change, 0)):
                    return None
        width = self._width(name)
        if width == 1:
            same_lanes = np.all(np.where(mask, now.base - then.base, 0) == 0)
            return 0 if same_lanes else None
        step = add(now.base, multiply(then.base, -1, width), width)
        if isinstance(step, int):
            return step
        lanes = np.where(mask, step, 0)
        distinct = np.unique(lanes[mask])
        return int(distinct[0]) if len(distinct) == 1 and mask.all() else lanes

    def _width(self, name: str) -> int:
        return register_width(self._graph.kernel.registers[name])

    def _iterate(self, loop: Loop, mask: Mask, stop: int | None, period: int) -> Path | None:
        outer, self._out = self._out, []
        alive = self._state.alive.copy()
        try:
            for _ in range(period):
                block, arrived = self._region(loop.header, mask, stop, loop)
                if block != loop.header or not np.array_equal(arrived, mask):
                    return None
            if not np.array_equal(alive, self._state.alive):
                return None
            return tuple(self._out)
        finally:
            self._out = outer

    def _broken(self, start: dict[str, Value], counter: Symbol) -> set[str]:
        """Registers whose value after the iterations is not their guess at ``counter + 1``."""
        broken = set()
        for name, before in start.items():
            if isinstance(before, Unknown):
                continue
            after = self._state.registers[name]
            step = before.terms.get(counter, 0)
            width = self._width(name)
            base = before.base if width == 1 else add(before.base, step, width)
            expected = Known(base, before.terms, before.valid, before.otherwise)
            if not same(after, expected, self._state.alive):
                broken.add(name)
        return broken

    def _accept(
        self, loop: Loop, counter: Symbol, nodes: Path, period: int, start: dict[str, Value]
    ) -> _Summary | None:
        if counter.count is None:
            undecided = self._open[-1].undecided
            if undecided is not None:
                raise Undecided(*undecided)
            raise Refused(
                "PW205",
                self._cfg.blocks[loop.header].start,
                "the loop never ends: nothing that changes in it decides whether it goes on",
                "check the parameters and the launch: with these facts the kernel does not stop",
            )
        if counter.count < 2 and not counter.slopes:
            return None
        closed = close_symbol(nodes, counter, growing=True)
        few = counter.count <= _ENUMERATED_ITERATIONS and not counter.slopes
        if few and is_exact(nodes) and not is_exact(closed):
            return None
        slopes = tuple(counter.slopes.items())
        last = AffineCount(counter.count - 1, slopes)
        for name, value in self._state.registers.items():
            if isinstance(value, Known):
                self._state.registers[name] = substitute(
                    value, counter, last.base, dict(slopes), self._width(name)
                )
        reason = self._reason(loop, start, counter)
        return _Summary(closed, AffineCount(counter.count, slopes), period, reason)

    def _reason(self, loop: Loop, start: dict[str, Value], counter: Symbol) -> str:
        """The exit test and its counters, in one line that a reader can check."""
        kernel = self._graph.kernel
        for source, _ in loop.exits:
            guard = kernel.instructions[self._cfg.blocks[source].end - 1].guard
            for index in range(self._cfg.blocks[source].end - 1, -1, -1):
                instruction = kernel.instructions[index]
                if guard is None or guard.register not in instruction.writes:
                    continue
                steps = []
                for name in instruction.reads:
                    value = start.get(name)
                    if isinstance(value, Known) and isinstance(value.terms.get(counter), int):
                        steps.append(f"{name} {value.terms[counter]:+d} an iteration")
                if steps:
                    return f"{instruction.span.text.rstrip(';')}: {', '.join(steps)}"
                break
        return "counted"

    # --- loops with a bound from the user --------------------------------------------------------

    def _bounded_loop(self, loop: Loop, mask: Mask, bound: int) -> tuple[int, Mask]:
        """A loop whose exits are not decided, run at most ``bound`` times on the user's word."""
        header = self._cfg.blocks[loop.header].start
        rotated = _is_rotated(loop, set())
        if rotated and bound == 0:
            raise Refused(
                "PW217",
                header,
                "--loop-bound says 0 iterations, but this loop tests at its end: once entered, its "
                "body runs at least once",
                "give a bound of at least 1",
            )
        self._forget(loop)
        recorder = _ExitRecorder(loop, self._graph)
        outer, self._out, self._exits = self._out, [], recorder
        try:
            block, arrived = self._region(loop.header, mask, None, loop)
            full = tuple(self._out)
        finally:
            self._out, self._exits = outer, None
        self._forget(loop)
        target = recorder.target
        if block != loop.header or not np.array_equal(arrived, mask) or target is None:
            raise Refused(
                "PW218",
                header,
                "the exits of this loop lead to different places: a bound on its iterations does "
                "not settle what follows",
                "give the parameters that decide the exits, or restructure the loop",
            )
        count = AffineCount(bound - 1 if rotated else bound)
        repeat = PathRepeat(count, AffineCount(0), full)
        ends = tuple(dict.fromkeys(recorder.paths))
        last: Path = ends[0] if len(ends) == 1 else (PathChoice(ends),)
        self._out.append(
            PathLoop(loop.id, (repeat, *last), AffineCount(bound), BoundOrigin.USER, "--loop-bound")
        )
        return target, mask

    def _forget(self, loop: Loop) -> None:
        """Makes everything that the loop may change unknown."""
        cause = Unknown(frozenset({Cause(CauseKind.LOOP, self._cfg.name(loop.header))}))
        for block in loop.body:
            for step in self._block_steps(block):
                if step.transfer is not None:
                    for name in step.instruction.writes:
                        if name in self._graph.control_registers:
                            self._state.registers[name] = cause

    # --- undo -------------------------------------------------------------------------------------

    def _snapshot(self) -> _Snapshot:
        limits = tuple((s, s.count, s.slopes) for s in self._symbols)
        return _Snapshot(
            dict(self._state.registers),
            self._state.alive.copy(),
            len(self._out),
            self._is_exact,
            limits,
        )

    def _restore(self, snapshot: _Snapshot) -> None:
        self._state.registers = dict(snapshot.registers)
        self._state.alive = snapshot.alive.copy()
        del self._out[snapshot.nodes :]
        self._is_exact = snapshot.is_exact
        for symbol, count, slopes in snapshot.limits:
            symbol.count, symbol.slopes = count, slopes


@dataclass(frozen=True, slots=True)
class _Side:
    """A walked side of an open branch: path, lanes that may start and arrive, state at its end."""

    path: Path
    mask: Mask
    arrived: Mask
    registers: dict[str, Value]
    alive: Mask


class _OpenLoop:
    """A loop that is being walked; ``note`` collects the ways out that lanes may take early."""

    def __init__(self, loop: Loop, is_bounded: bool, depth: int, lanes: Mask) -> None:
        self.loop = loop
        self.is_bounded = is_bounded
        self.depth = depth
        self.exit: int | None = None
        self.left: Mask = np.zeros_like(lanes)
        self.sources: set[int] = set()
        self.ways_out: dict[Path, None] = {}
        self.undecided: tuple[int, frozenset[Cause]] | None = None

    def note(
        self, way_out: Path, exit_block: int, left: Mask, undecided: tuple[int, frozenset[Cause]]
    ) -> None:
        """Lanes ``left`` may leave to ``exit_block``. Raises Undecided at a second such block."""
        if self.exit not in (None, exit_block):
            raise Undecided(*undecided)
        self.exit = exit_block
        self.left |= left
        self.undecided = undecided
        self.ways_out[way_out] = None


@dataclass(frozen=True, slots=True)
class _Summary:
    nodes: Path
    count: AffineCount
    period: int
    reason: str


class _Iterations:
    """Iterations of one loop entry, run-length encoded; ``last`` is the final, partial one."""

    def __init__(self) -> None:
        self._runs: list[tuple[Path, AffineCount]] = []
        self._total = AffineCount(0)
        self.last: Path = ()

    def add(self, nodes: Path, count: AffineCount, period: int) -> None:
        self._total = self._total.plus(count.times(period))
        if self._runs and self._runs[-1][0] == nodes and not grows(nodes):
            count = self._runs.pop()[1].plus(count)
        self._runs.append((nodes, count))

    def bodies(self, loop: int, *, rotated: bool) -> AffineCount:
        """Executions of the loop body: a loop that tests at its end runs it once more.

        Lanes that stay longer than others go on in a nested entry of the same loop.
        """
        nested = next((node for node in loop_entries(self.last) if node.loop == loop), None)
        total = self._total.plus(AffineCount(1 if rotated or nested is not None else 0))
        return total if nested is None else total.plus(nested.iterations)

    def path(self, ways_out: tuple[Path, ...]) -> Path:
        """The iterations and the last one; with ``ways_out``, any of which may end it earlier."""
        nodes: list[PathNode] = []
        for body, count in self._runs:
            if ways_out:
                nodes.append(PathRepeat(count, AffineCount(0), body))
            elif count == AffineCount(1):
                nodes += body
            else:
                nodes.append(PathRepeat(count, count, body))
        if ways_out:
            return (*nodes, PathChoice((self.last, *ways_out)))
        return (*nodes, *self.last)


def _is_rotated(loop: Loop, apart_from: set[int]) -> bool:
    """Whether the loop is left only from blocks that also jump back: its test is at the end."""
    return all(source in loop.latches for source, _ in loop.exits if source not in apart_from)


class _ExitRecorder:
    """Records, during one iteration of a user-bounded loop, the paths on which it may be left."""

    def __init__(self, loop: Loop, graph: FlowGraph) -> None:
        self.loop = loop
        self.blocks = frozenset(source for source, _ in loop.exits)
        self.paths: list[Path] = []
        self.target: int | None = None
        self._graph = graph
        self._consistent = True

    def leave_or_stay(
        self, block: int, taken: int, fallthrough: int | None, out: list[PathNode]
    ) -> int:
        """Notes the way out at ``block`` and goes on inside the loop."""
        leaves_when_taken = taken not in self.loop.body
        outside = taken if leaves_when_taken else fallthrough
        inside = fallthrough if leaves_when_taken else taken
        assert outside is not None
        assert inside is not None
        self.paths.append((*out, Visit(block, taken=leaves_when_taken)))
        joins = self._graph.postdominators[block] == outside
        if joins and self._consistent and self.target in (None, outside):
            self.target = outside
        else:
            self.target, self._consistent = None, False
        out.append(Visit(block, taken=not leaves_when_taken))
        return inside
