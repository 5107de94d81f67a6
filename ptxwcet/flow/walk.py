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
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np

from ptxwcet.flow.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.facts import WARP_SIZE, BoundOrigin, PlacedFacts
from ptxwcet.flow.lanes import LaneState
from ptxwcet.flow.loops import Loop, LoopForest
from ptxwcet.flow.paths import (
    AffineCount,
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    PathLate,
    PathLoop,
    PathNode,
    PathPart,
    PathRepeat,
    PathScatter,
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
from ptxwcet.flow.uniformity import Agreement, BranchAgreements
from ptxwcet.flow.values import (
    Cause,
    CauseKind,
    Condition,
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
# Iterations after which a loop that data may leave is asked for: its counters have gone round.
_MOST_ITERATIONS = 1 << 32
_PERIODS = (1, 2, 3, 4, 8)
# Block visits of one walk: seconds, and above what any kernel of samples and corpus needs (8,000).
_MOST_VISITS = 60_000
_MOST_HAVOC_ROUNDS = 12
# A loop is followed iteration by iteration if a value with so few possibilities decides its end.
_FEW_VALUES = 256
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


class _FallsApart(Exception):
    """Parts of a warp go through the rest of ``loop`` (an id) one after the other."""

    def __init__(self, loop: int, block: int, causes: frozenset[Cause]) -> None:
        super().__init__(f"at block {block}")
        self.loop = loop
        self.block = block
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
    agreements: BranchAgreements

    def is_final(self, block: BlockId) -> bool:
        """Whether nothing but the end of the thread follows. Cost: constant."""
        bounds = self.cfg.blocks[block]
        if block == self.cfg.exit:
            return True
        last = self.kernel.instructions[bounds.end - 1]
        ends = last.control in _ENDINGS and last.guard is None
        return bounds.end == bounds.start + 1 and ends

    def distance_to_exit(self, block: int) -> int:
        """Number of post-dominators of a block."""
        count = 0
        above = self.postdominators[block]
        while above is not None:
            count, above = count + 1, self.postdominators[above]
        return count

    def meeting_inside(self, loop: Loop, block: int) -> int | None:
        """Where all ways from a block that stay in the loop meet first: at the latest its header.

        None if no way from it stays in. Cost: linear in the loop for each asked block.
        """
        inside: dict[int, list[int]] = {
            source: [
                -1 if target == loop.header else target
                for target in self.cfg.successors[source]
                if target in loop.body
            ]
            for source in loop.body
        }
        reachable = _reachable(inside, block, None)
        if -1 not in reachable:
            return None
        candidates = [
            other
            for other in reachable
            if other != block and -1 not in _reachable(inside, block, other)
        ]
        for one in candidates:
            before = _reachable(inside, block, one)
            if one != -1 and before.isdisjoint(set(candidates) - {one}):
                return one
        return loop.header

    def block_of(self, index: int) -> BlockId:
        """The block that holds instruction ``index``. Cost: logarithmic."""
        return BlockId(bisect_right(self.cfg.blocks, index, key=lambda block: block.start) - 1)


def _reachable(successors: dict[int, list[int]], start: int, without: int | None) -> set[int]:
    """What ``start`` leads to, by at least one edge, if ``without`` is left out."""
    seen: set[int] = set()
    pending = list(successors.get(start, ()))
    while pending:
        block = pending.pop()
        if block != without and block not in seen:
            seen.add(block)
            pending += successors.get(block, ())
    return seen


@dataclass(frozen=True, slots=True)
class _Open:
    """A branch that is not decided: where it leads with which lanes, why, and who agrees on it."""

    block: int
    taken: tuple[int, Mask]
    fallthrough: tuple[int, Mask]
    causes: frozenset[Cause]
    agreement: Agreement
    condition: Condition | None = None
    if_race_free: bool = False
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class _Way:
    """One of the two ways behind a branch that all lanes of the warp, or of a part of it, take."""

    sides: _Open
    taken: bool

    @property
    def visit(self) -> PathNode:
        """How the block of the branch is visited."""
        block = self.sides.block
        if self.sides.is_part:
            return PathPart(block, (), (), jumps=True)
        return Visit(block, self.taken)


@dataclass(frozen=True, slots=True)
class _Narrowed:
    """A fixed symbol and what stands for it on a side of a branch: ``old = new + first``."""

    old: Symbol
    new: Symbol
    first: int


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
    has_gone: bool
    limits: tuple[tuple[Symbol, int | None, dict[Symbol, int]], ...]


class Walk:
    """One walk over the kernel for a group of warps; ``run`` gives the path."""

    def __init__(self, graph: FlowGraph, state: LaneState, facts: PlacedFacts) -> None:
        self._graph = graph
        self._cfg = graph.cfg
        self._state = state
        self._facts = facts
        self._bounds = facts.loop_bounds
        self._steps: dict[int, tuple[_Step, ...]] = {}
        self._out: list[PathNode] = []
        self._symbols: list[Symbol] = [s for s in state.index.symbols if s is not None]
        self._exits: _ExitRecorder | None = None
        self._visits = 0
        self._is_exact = True  # the masks are those of the run; else a warp may have fewer lanes
        self._has_gone = False  # lanes may have ended for good: the masks are no more exact
        # open branches around whose other lanes may wait elsewhere, and why they are open
        self._apart: list[tuple[int, frozenset[Cause]]] = []
        self._open: list[_OpenLoop] = []
        # what was recorded before the sides of branches around: those that all lanes of the warp
        # have chosen, and those of some lanes
        self._chosen: list[list[PathNode]] = []
        self._sides_around: list[list[PathNode]] = []
        self._parameters: list[Symbol] = [*state.parameter_symbols]  # and narrowed ones
        self._apart_in: list[Loop] = []  # loops around in which the warp falls apart
        self._meetings: set[int | None] = set()  # where the parts meet
        self._proofs = 0  # proofs of closed forms around
        self._open_branches: set[int] = set()

    def run(self, symbolic: str | None = None) -> Path:
        """The path from entry to exit. Raises SplitWarps, SplitRequest, Undecided, Refused.

        Counts may depend on the parameter ``symbolic``, not on others.
        """
        block, mask = self._region(self._cfg.entry, self._state.alive.copy(), None, None)
        assert block == self._cfg.exit or not mask.any()
        path = tuple(self._out)
        for symbol in self._parameters:
            if symbol.name != symbolic:
                path = close_symbol(path, symbol)
        return path

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
                if self._is_exact and not self._has_gone and not unsure.any():
                    return self._leave(block, step, sure, mask)
            else:
                self._control(step, mask)
        last = self._cfg.blocks[block].end - 1
        if last >= 0 and self._ends_in_switch(last):
            return self._switch(block, mask)
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
            return  # at the end of its block: see _switch
        self._barrier(step, mask)

    # --- indexed branches -------------------------------------------------------------------------

    def _ends_in_switch(self, index: int) -> bool:
        instructions = self._graph.kernel.instructions
        return instructions[index].control is ControlEffect.INDIRECT_BRANCH

    def _switch(self, block: int, mask: Mask) -> tuple[int, Mask]:
        """``brx.idx``: each lane goes on where the table leads for its index."""
        meeting = self._graph.postdominators[block]
        ways = self._table_lanes(block, mask)
        self._out.append(Visit(block, taken=True))
        if len(ways) == 1:
            ((target, lanes),) = ways.items()
            return target, lanes
        if meeting is None or (self._open and meeting not in self._open[-1].loop.body):
            raise self._switch_refusal(block, "its cases meet again only behind the loop around")
        before, apart = self._snapshot(), self._apart
        cause = frozenset({Cause(CauseKind.OPERATION, "brx.idx", self._last(block))})
        agreement, if_race_free = self._agreement(block)
        known = not any(np.array_equal(lanes, mask) for lanes in ways.values())
        if known or not agreement:
            self._is_exact = False
        if known or agreement is not Agreement.BLOCK:
            self._apart = [*apart, (block, cause)]
        sides: list[_Side] = []
        for target, lanes in ways.items():
            self._go_back(before)
            self._is_exact &= not known and bool(agreement)
            path, arrived = self._side(target, lanes, meeting, chosen=bool(agreement))
            sides.append(self._walked(path, lanes, arrived))
        self._apart = apart
        self._meet_all(sides, cause)
        arrived = np.logical_or.reduce([side.arrived for side in sides])
        complete = all(not bool((side.mask & ~side.arrived).any()) for side in sides)
        self._is_exact = before.is_exact and complete
        paths = tuple(side.path for side in sides)
        if known or not agreement:
            self._out.append(PathLate(len(paths), paths))
        else:
            site = block if agreement is Agreement.BLOCK else None
            self._out.append(PathChoice(paths, site, if_race_free))
        return meeting, arrived

    def _meet_all(self, sides: list[_Side], causes: frozenset[Cause]) -> None:
        """Registers and lanes behind several sides, walked from the same state."""
        first = sides[0]
        for side in sides[1:]:
            self._meet_registers(first, side, causes)
            first = _Side(
                (),
                first.mask | side.mask,
                first.arrived | side.arrived,
                self._state.registers,
                first.alive & (~side.mask | side.alive) | side.mask & side.alive,
                is_exact=first.is_exact and side.is_exact,
                has_gone=first.has_gone or side.has_gone,
            )
        self._state.registers, self._state.alive = first.registers, first.alive
        self._has_gone = first.has_gone

    def _table_lanes(self, block: int, mask: Mask) -> dict[int, Mask]:
        """The lanes that go to each target; all of them to each where the index is not known."""
        index = self._last(block)
        instruction = self._graph.kernel.instructions[index]
        if instruction.guard is not None:
            raise self._switch_refusal(block, "it has a guard")
        labels = self._graph.kernel.labels
        targets = [self._graph.block_of(labels[name]) for name in instruction.targets]
        self._state.active = mask
        value = read_operand(self._state, instruction.operands[0], 32, index)
        if not isinstance(value, Known) or value.terms or not self._is_exact or self._has_gone:
            return dict.fromkeys(dict.fromkeys(targets), mask)
        numbers = np.broadcast_to(np.asarray(value.base), mask.shape) & 0xFFFFFFFF
        if bool((numbers[mask] >= len(targets)).any()):
            raise self._switch_refusal(block, "its index is outside of the table")
        ways: dict[int, Mask] = {}
        for number in np.unique(numbers[mask]).tolist():
            lanes = mask & (numbers == number)
            ways[targets[number]] = ways.get(targets[number], np.zeros_like(mask)) | lanes
        for lanes in ways.values():
            self._require_agreement(lanes)
        return ways

    def _switch_refusal(self, block: int, reason: str) -> Refused:
        return Refused(
            "PW221",
            self._last(block),
            f"an indexed branch (brx.idx) on the path is not followed: {reason}",
            "compile the switch statement to comparisons",
        )

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
        sure, unsure = self._possible(block, sure, unsure, mask)
        going, staying = sure | unsure, mask & ~sure
        if not going.any():
            assert fallthrough is not None
            self._out.append(Visit(block, taken=False))
            return fallthrough, mask
        jumps = self._jumps(block)
        is_decided = not unsure.any() and self._is_exact and not self._has_gone
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
        agreement, if_race_free = Agreement.NONE, False
        if unsure.any():
            self._note_open(block, causes)
            agreement, if_race_free = self._agreement(block)
            if agreement:
                going = staying = mask
        condition = self._condition(guard, mask) if unsure.any() else None
        sides = _Open(
            block,
            (taken, going),
            (fallthrough, staying),
            causes,
            agreement,
            condition,
            if_race_free,
        )
        return self._open_branch(sides)

    def _agreement(self, block: int) -> tuple[Agreement, bool]:
        """Who takes a branch alike, and whether that needs a kernel without data races."""
        stated = self._facts.uniform.get(block)
        if stated == "block":
            return Agreement.BLOCK, False
        found = self._graph.agreements[block]
        if stated == "warp":
            found = max(found, Agreement.WARP)
        if found is Agreement.BLOCK or not self._cfg.barriers:
            return found, False
        without_races = self._graph.agreements.without_races(block)
        return max(found, without_races), without_races > found

    def _condition(self, guard: Guard | None, mask: Mask) -> Condition | None:
        """What it says of a symbol that a guard holds."""
        value = None if guard is None else self._state.registers.get(guard.register)
        if guard is None or not isinstance(value, Unknown) or value.condition is None:
            return None
        if not value.condition.holds_in(mask):
            return None
        return value.condition.negated() if guard.negated else value.condition

    def _narrow(self, sides: _Open, *, taken: bool) -> _Narrowed | None:
        """Makes use of what is known on one side of a branch, in all registers."""
        condition = sides.condition
        interval = None
        if condition is not None:
            interval = condition.when if taken else condition.otherwise
        if condition is None or interval is None:
            return None
        old, (first, last) = condition.symbol, interval
        new = replace(old, name=f"{old.name}'", count=last - first + 1, slopes={})
        if not new.is_own:
            self._parameters.append(new)
        narrowed = _Narrowed(old, new, first)
        self._replace(old, first, new)
        return narrowed

    def _widen(self, narrowed: _Narrowed | None) -> None:
        """Undoes :meth:`_narrow` in registers, where sides of a branch meet."""
        if narrowed is not None:
            self._replace(narrowed.new, -narrowed.first, narrowed.old)

    def _replace(self, symbol: Symbol, offset: int, by: Symbol) -> None:
        """Puts ``by + offset`` in the place of a symbol."""
        for name, value in self._state.registers.items():
            if isinstance(value, Known) and symbol in value.terms:
                width = self._width(name)
                self._state.registers[name] = substitute(value, symbol, offset, {by: 1}, width)

    def _possible(self, block: int, sure: Mask, unsure: Mask, mask: Mask) -> tuple[Mask, Mask]:
        """The lanes that take a branch, and that may, less the outcomes that facts exclude."""
        never = self._facts.never
        for taken in (True, False):
            if (block, taken) not in never:
                continue
            contrary = sure if taken else mask & ~(sure | unsure)
            if contrary.any() and self._is_exact and not self._has_gone:
                raise Refused(
                    "PW217",
                    self._last(block),
                    f"a fact says that this branch is never {'taken' if taken else 'passed'}, but "
                    "some lanes do so",
                    "correct the fact or the launch facts: both cannot be true",
                )
            sure = np.zeros_like(mask) if taken else mask
            unsure = np.zeros_like(mask)
        return sure, unsure

    def _open_branch(self, sides: _Open) -> tuple[int, Mask]:
        """Goes on behind a branch whose lanes may go either way."""
        block, (taken, _), (fallthrough, _) = sides.block, sides.taken, sides.fallthrough
        postdominator = self._graph.postdominators[block]
        meeting: int | None = postdominator
        ends = postdominator in (taken, fallthrough) and self._graph.is_final(postdominator)
        inside: Loop | None = None
        # what lanes execute behind a loop that they have left early is walked while it is open
        within = bool(self._open) and block in self._open[-1].loop.body
        body = self._apart_in[-1].body if self._apart_in else frozenset()
        parts = block in body and within and not ends and postdominator not in body
        if parts and not sides.agreement:
            sides = replace(sides, agreement=Agreement.WARP, is_part=True)
        if within and (sides.causes or sides.is_part):
            loop = self._open[-1].loop
            leaves = (taken in loop.body) != (fallthrough in loop.body)
            if leaves and self._may_meet(postdominator):
                return self._may_leave(sides, postdominator)
            if ends:
                self._open[-1].undecided = (self._last(block), sides.causes)
                self._open[-1].end = self._ending(postdominator)
                return self._may_end(sides, postdominator)
            if leaves:
                raise Undecided(self._last(block), sides.causes)
            if meeting not in loop.body and meeting not in (taken, fallthrough):
                if not sides.agreement:
                    raise self._falls_apart(sides, postdominator)
                found = self._graph.meeting_inside(loop, block)
                if found is not None:
                    inside, meeting = loop, found
                elif not all(meeting in opened.loop.body for opened in self._open[:-1]):
                    raise Undecided(self._last(block), sides.causes)
        if ends:
            return self._may_end(sides, postdominator)
        if meeting is None:
            raise self._no_meeting(block)
        if sides.agreement:
            return self._choose(sides, meeting, inside)
        return self._fork(sides)

    def _falls_apart(self, sides: _Open, meeting: int | None) -> Exception:
        """Lanes that part here meet again only behind the outermost loop that they may leave."""
        around = [opened.loop for opened in self._open]
        left = next(
            (loop for loop in around if meeting is not None and meeting not in loop.body), None
        )
        if left is None or len(self._sides_around) != self._open[around.index(left)].depth:
            return Undecided(self._last(sides.block), sides.causes)
        return _FallsApart(left.id, sides.block, sides.causes)

    def _last(self, block: int) -> int:
        """Index of the last instruction of a block."""
        return self._cfg.blocks[block].end - 1

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

    def _fork(self, sides: _Open) -> tuple[int, Mask]:
        """Both sides of a branch of which each lane may go one way, or of which lanes may be gone.

        Each side starts from the state at the branch. Where they meet, a register is known in a
        lane that may have come either way only if both sides agree on it.
        """
        block = sides.block
        join = self._graph.postdominators[block]
        if join is None:
            raise self._no_meeting(block)
        before = self._snapshot()
        self._is_exact = False
        try:
            one, two = self._sides(sides, join, (True, False))
        except (Refused, Undecided) as refused:
            if not self._is_barriers(refused, block):
                raise
            # a barrier is fine on the side that goes on if the lanes of the other one have exited
            self._restore(before)
            self._is_exact = False
            two, one = self._sides(sides, join, (False, True))
        state = self._state
        causes = sides.causes or frozenset({Cause(CauseKind.LOOP, self._cfg.name(BlockId(block)))})
        self._meet_registers(one, two, causes)
        elsewhere = before.alive & ~(one.mask | two.mask)
        state.alive = elsewhere | one.mask & one.alive | two.mask & two.alive
        arrive = all(not bool((side.mask & ~side.arrived).any()) for side in (one, two))
        self._is_exact = before.is_exact and arrive
        self._has_gone = one.has_gone or two.has_gone
        straight = sides.taken[0] == join
        self._out.append(PathFork(block, one.path, two.path, straight, self._jumps(block)))
        return join, one.arrived | two.arrived

    def _meet_registers(self, one: _Side, two: _Side, causes: frozenset[Cause]) -> None:
        """Registers behind two sides: known where a lane's sides agree."""
        unknown = Unknown(causes)
        self._state.registers = {
            name: meet(
                one.registers.get(name, unknown),
                two.registers.get(name, unknown),
                (one.mask, two.mask),
                causes,
            )
            for name in one.registers.keys() | two.registers.keys()
        }

    def _sides(self, sides: _Open, join: int, order: tuple[bool, bool]) -> list[_Side]:
        """Walks both sides of a branch up to their meeting, each from the state as it is now.

        ``order`` says which side comes first: True for the one that the branch leads to.
        """
        state = self._state
        registers, alive, has_gone = dict(state.registers), state.alive.copy(), self._has_gone
        done: list[_Side] = []
        for taken in order:
            block, mask = sides.taken if taken else sides.fallthrough
            _, other = sides.fallthrough if taken else sides.taken
            state.registers = dict(registers)
            state.alive = alive.copy()
            self._has_gone = has_gone
            before = self._apart
            if done:
                state.alive &= ~(other & ~mask & ~done[0].alive)
            if not done or done[0].arrived.any():
                self._apart = [*before, (sides.block, sides.causes)]
            narrowed = self._narrow(sides, taken=taken)
            try:
                path, arrived = self._side(block, mask, join)
            finally:
                self._apart = before
            self._widen(narrowed)
            done.append(self._walked(path, mask, arrived))
        return done

    def _walked(self, path: Path, mask: Mask, arrived: Mask) -> _Side:
        """The side that was walked last, with the state at its end."""
        state = self._state
        return _Side(
            path, mask, arrived, state.registers, state.alive, self._is_exact, self._has_gone
        )

    def _may_end(self, sides: _Open, meeting: int | None) -> tuple[int, Mask]:
        """Lanes may go straight to the end of the kernel; the others go on.

        Those that go do nothing more but end, so the warp goes on as if they had ended here.
        """
        block, jumps = sides.block, self._jumps(sides.block)
        ends_when_taken = sides.taken[0] == meeting
        on, mask = sides.fallthrough if ends_when_taken else sides.taken
        leave = Visit(block, taken=jumps and ends_when_taken)
        last = self._ending(meeting)
        self._out.append(PathEnd(leave, last, Visit(block, taken=jumps and not ends_when_taken)))
        if not sides.agreement:
            self._has_gone = True
            if meeting != self._cfg.exit and (block, sides.causes) not in self._apart:
                # they wait there for the others: a barrier is not for them
                self._apart = [*self._apart, (block, sides.causes)]
        if not self._proofs:
            self._narrow(sides, taken=not ends_when_taken)
        return on, mask

    def _ending(self, block: int | None) -> tuple[Visit, ...]:
        """A visit of the last block before the end, if it has one."""
        return () if block in (None, self._cfg.exit) else (Visit(block, taken=False),)

    def _choose(self, sides: _Open, meeting: int, inside: Loop | None) -> tuple[int, Mask]:
        """Both sides of a branch that all lanes of a warp take alike: one of them is executed."""
        block = sides.block
        before = self._snapshot()
        apart = self._apart
        if sides.agreement is not Agreement.BLOCK:
            self._apart = [*apart, (block, sides.causes)]
        found: list[_Side] = []
        try:
            for (target, mask), taken in ((sides.taken, True), (sides.fallthrough, False)):
                self._go_back(before)
                narrowed = self._narrow(sides, taken=taken)
                way = _Way(sides, taken=taken and self._jumps(block))
                path, arrived = self._side(target, mask, meeting, way=way, inside=inside)
                self._widen(narrowed)
                found.append(self._walked(path, mask, arrived))
        except (Refused, Undecided) as refused:
            if sides.agreement is Agreement.BLOCK or not self._is_barriers(refused, block):
                raise
            self._restore(before)  # fine if the warps of the other side have ended
            self._apart = apart
            return self._fork(sides)
        finally:
            self._apart = apart
        self._meet(sides, found)
        jumps = self._jumps(block)
        one, two = found
        if sides.is_part:
            self._meetings.add(self._graph.postdominators[block])
            self._out.append(PathPart(block, one.path, two.path, jumps))
            return meeting, one.arrived | two.arrived
        alternatives = (Visit(block, taken=jumps), *one.path), (Visit(block, False), *two.path)
        site = block if sides.agreement is Agreement.BLOCK else None
        self._out.append(PathChoice(alternatives, site, sides.if_race_free))
        return meeting, one.arrived | two.arrived

    def _is_barriers(self, refused: Refused | Undecided, block: int) -> bool:
        """Whether a barrier that some warps or lanes may not reach was refused for this branch."""
        if isinstance(refused, Undecided):
            return refused.instruction == self._last(block)
        return refused.code == "PW222"

    def _meet(self, sides: _Open, found: list[_Side]) -> None:
        """The state after one of two sides, all lanes of a warp having taken the same."""
        one, two = found
        state = self._state
        arriving = [side for side in found if side.arrived.any()]
        if len(arriving) == 1:
            (only,) = arriving
            state.registers, state.alive = only.registers, only.alive
            self._is_exact, self._has_gone = only.is_exact, only.has_gone
            return
        self._meet_registers(one, two, sides.causes)
        state.alive = one.alive | two.alive
        same = np.array_equal(one.alive, two.alive) and np.array_equal(one.arrived, two.arrived)
        self._is_exact = one.is_exact and two.is_exact and same
        self._has_gone = one.has_gone or two.has_gone

    def _may_leave(self, sides: _Open, meeting: int) -> tuple[int, Mask]:
        """A branch out of the loop that lanes may take: noted, and the others go on inside.

        What those that leave execute before they meet the others belongs to the way out; lanes
        that leave alone may execute it while the others go on.
        """
        opened = self._open[-1]
        block, jumps = sides.block, self._jumps(sides.block)
        leaves_when_taken = sides.taken[0] not in opened.loop.body
        way, on = (
            (sides.taken, sides.fallthrough)
            if leaves_when_taken
            else (sides.fallthrough, sides.taken)
        )
        undecided = (self._last(block), sides.causes)
        behind: Path = ()
        if way[0] != meeting:
            before = self._snapshot()
            self._is_exact &= bool(sides.agreement)
            self._narrow(sides, taken=leaves_when_taken)
            behind, _ = self._side(*way, meeting)
            self._go_back(before)
            if self._has_barrier(behind):
                raise Undecided(*undecided)
        leaving = Visit(block, taken=jumps and leaves_when_taken)
        staying = Visit(block, taken=jumps and not leaves_when_taken)
        last = PathPart(block, (), (), jumps=True) if sides.is_part else leaving
        way_out = (*self._chosen_prefix(), *self._out, last, *behind)
        if sides.agreement is not Agreement.BLOCK:
            opened.agree = False
            if (block, sides.causes) not in self._apart:
                self._apart = [*self._apart, (block, sides.causes)]
        opened.if_race_free |= sides.if_race_free
        opened.sources.add(block)
        opened.note(way_out, meeting, way[1], undecided)
        if sides.is_part:
            self._meetings.add(meeting)
            self._out.append(PathPart(block, (), (), jumps=True))
            return on
        self._is_exact &= bool(sides.agreement)
        if not self._proofs:
            opened.look(self._narrow(sides, taken=not leaves_when_taken))
        if sides.agreement:
            self._out.append(staying)
        elif behind:
            opened.late[meeting, behind] = None
            first, second = (behind, ()) if leaves_when_taken else ((), behind)
            self._out.append(PathFork(block, first, second, straight=False, jumps=jumps))
        else:  # lanes that branch straight to the meeting only wait there
            self._out.append(staying)
        return on

    def _may_meet(self, meeting: int | None) -> TypeGuard[int]:
        """Whether lanes may leave the loop here for ``meeting`` and stay in the loops around it."""
        if meeting is None or len(self._sides_around) != self._open[-1].depth:
            return False
        return all(meeting in opened.loop.body for opened in self._open[:-1])

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

    def _side(
        self,
        block: int,
        mask: Mask,
        join: int,
        *,
        chosen: bool = False,
        way: _Way | None = None,
        inside: Loop | None = None,
    ) -> tuple[Path, Mask]:
        """Walks a side of a branch up to ``join``; ``chosen`` if all lanes of the warp take it.

        So they do on a ``way`` behind a branch; ``inside`` is a loop around it, and leaving that
        one on the side is one of its ways out.
        """
        chosen |= way is not None
        outer, outer_exits = self._out, self._exits
        self._out, self._exits = [], None
        around = self._chosen if chosen else self._sides_around
        around.append(outer if way is None else [*outer, way.visit])
        if len(self._chosen) + len(self._sides_around) > _MOST_SIDES:
            raise self._too_long(block)
        try:
            reached, arrived = self._region(block, mask, join, inside)
            if inside is not None and way is not None and reached not in (join, None):
                arrived = self._leave_chosen(way.sides, reached, mask, arrived)
            return tuple(self._out), arrived
        finally:
            self._out, self._exits = outer, outer_exits
            around.pop()

    def _leave_chosen(self, sides: _Open, reached: int, mask: Mask, arrived: Mask) -> Mask:
        """Notes that a side that all lanes have taken leaves the loop; nobody is left in it."""
        if not arrived.any():
            return arrived
        opened = self._open[-1]
        undecided = (self._last(sides.block), sides.causes)
        last = self._out[-1]
        meeting = self._graph.postdominators[last.block] if isinstance(last, Visit) else None
        if not np.array_equal(arrived, mask) or not self._may_meet(meeting):
            raise Undecided(*undecided)
        behind: Path = ()
        if reached != meeting:
            behind, _ = self._side(reached, mask, meeting)
            if self._has_barrier(behind):
                raise Undecided(*undecided)
        opened.agree &= sides.agreement is Agreement.BLOCK
        opened.if_race_free |= sides.if_race_free
        opened.note((*self._chosen_prefix(), *self._out, *behind), meeting, mask, undecided)
        return np.zeros_like(mask)

    def _chosen_prefix(self) -> Path:
        """What the warp has executed in this iteration before the sides that it has chosen."""
        opened = self._open[-1]
        return tuple(node for out in self._chosen[opened.chosen :] for node in out)

    def _has_barrier(self, nodes: Path) -> bool:
        return any(
            step.instruction.control is ControlEffect.BARRIER
            for block in set(visited_blocks(nodes))
            for step in self._block_steps(block)
        )

    # --- loops ------------------------------------------------------------------------------------

    def _loop(self, loop: Loop, mask: Mask, stop: int | None) -> tuple[int, Mask]:
        """One entry of a loop, from its header to wherever its lanes go next."""
        before, apart = self._snapshot(), self._apart
        around = len(self._open)
        try:
            block, arrived = self._enter(loop, mask, stop)
        except _FallsApart as reason:
            if reason.loop != loop.id:
                raise
            self._restore(before)
            self._apart = [*apart, (reason.block, reason.causes)]
            assert len(self._open) == around
            block, arrived = self._scatter(loop, mask)
        self._apart = apart
        self._is_exact = before.is_exact and np.array_equal(before.alive, self._state.alive)
        return block, arrived

    def _scatter(self, loop: Loop, mask: Mask) -> tuple[int, Mask]:
        """A loop in which the lanes of a warp part for good: each part goes on to the meeting."""
        outer, self._out = self._out, []
        meetings, self._meetings = self._meetings, set()
        self._apart_in.append(loop)
        self._is_exact = False
        try:
            block, arrived = self._enter(loop, mask, None)
            final = min(
                (place for place in self._meetings if place is not None),
                key=self._graph.distance_to_exit,
            )
            if arrived.any() and block != final:
                path, arrived = self._side(block, arrived, final)
                self._out += path
            parts = PathScatter(_most_lanes(mask), tuple(self._out))
        finally:
            self._out, self._meetings = outer, meetings
            self._apart_in.pop()
        self._out.append(parts)
        self._forget(loop)
        arrived = mask & self._state.alive
        if final == self._cfg.exit:
            self._state.alive &= ~arrived
            arrived = np.zeros_like(arrived)
        return final, arrived

    def _enter(self, loop: Loop, mask: Mask, stop: int | None) -> tuple[int, Mask]:
        """Walks a loop and what follows it up to where lanes meet that leave it in several ways."""
        bound = self._bounds.get(loop.id)
        outer_exits, self._exits = self._exits, None
        before, apart = self._snapshot(), self._apart
        opened = _OpenLoop(loop, len(self._sides_around), len(self._chosen))
        self._open.append(opened)
        try:
            block, arrived = self._analysed_loop(loop, mask, stop, bound)
        except (Undecided, Refused) as refused:
            if bound is None or not self._is_settled_by_bound(refused, loop):
                raise
            self._restore(before)
            self._apart, self._is_exact = apart, False
            block, arrived = self._bounded_loop(loop, mask, bound)
        finally:
            self._exits = outer_exits
            del self._open[-1]
        if opened.left:
            block, arrived = self._after_leaving(opened, block, arrived)
        return block, arrived

    def _after_leaving(self, opened: _OpenLoop, block: int, arrived: Mask) -> tuple[int, Mask]:
        """Goes on where lanes that may have left meet those that ended the loop.

        With several such places each is behind the one before: all post-dominate the loop.
        """
        self._forget(opened.loop)
        order = sorted(opened.left, key=self._graph.distance_to_exit, reverse=True)
        for meeting in order:
            if arrived.any() and block != meeting:
                chosen = opened.agree
                path, arrived = self._side(block, arrived, meeting, chosen=chosen)
                site = opened.loop.header if chosen else None
                self._out.append(PathChoice((path, ()), site, opened.if_race_free))
            late = tuple(behind for place, behind in opened.late if place == meeting)
            if late:
                self._out.append(PathLate(WARP_SIZE, late))
            block, arrived = meeting, arrived | opened.left[meeting] & self._state.alive
        if block == self._cfg.exit:
            self._state.alive &= ~arrived
            arrived = np.zeros_like(arrived)
        return block, arrived

    def _is_settled_by_bound(self, refused: Undecided | Refused, loop: Loop) -> bool:
        """Whether a loop was refused because its iterations are not known."""
        if isinstance(refused, Refused):
            return refused.code in ("PW204", "PW205")
        block = self._graph.block_of(refused.instruction)
        return block in {source for source, _ in loop.exits}

    def _analysed_loop(
        self, loop: Loop, mask: Mask, stop: int | None, claimed: int | None
    ) -> tuple[int, Mask]:
        outer, self._out = self._out, []
        iterations = _Iterations()
        opened = self._open[-1]
        rotated = _is_rotated(loop, set())
        limit = None if claimed is None else claimed - rotated
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
                if limit is not None and opened.undecided and iterations.total.base >= limit:
                    if limit < 0:
                        raise self._runs_once(loop)
                    iterations.last = () if opened.end is None else (*nodes, *opened.end)
                    iterations.is_stopped = True  # by the user's word, lanes leave on noted ways
                    arrived = np.zeros_like(mask)
                    break
                iterations.add(nodes, AffineCount(1), 1)
                plain += 1
                if plain > _MOST_PLAIN_ITERATIONS:
                    raise self._not_summarisable(loop)
                history = history[-max(_PERIODS) :]
                opened.remaining = None if limit is None else limit - iterations.total.base
                if np.array_equal(alive, self._state.alive) and opened.remaining != 0:
                    summary = self._summarise(loop, mask, stop, history, plain)
                    if summary is not None:
                        iterations.add(summary.nodes, summary.count, summary.period)
                        reason = reason or summary.reason
                        history, plain = [], 0
                        if iterations.total.base > _MOST_ITERATIONS and opened.undecided:
                            raise Undecided(*opened.undecided)  # counters go round, for ever
        finally:
            self._out = outer
        if iterations.is_stopped:
            assert claimed is not None
            path = iterations.path(opened)
            bodies = AffineCount(claimed)
            self._out.append(PathLoop(loop.id, path, bodies, BoundOrigin.USER, "--loop-bound"))
            return block, arrived
        bodies = iterations.bodies(loop.id, rotated=_is_rotated(loop, opened.sources))
        if claimed is not None and not bodies.slopes and bodies.base > claimed:
            raise self._contradiction(loop, claimed, bodies.base)
        path, reason = iterations.path(opened), reason or "enumerated"
        if opened.undecided:
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
        noted = opened.noted()
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
                self._symbols.remove(counter)
            if nodes is None:
                break
            broken = self._broken(start, counter)
            if not broken:
                summary = self._accept(loop, counter, nodes, period, start)
                if summary is None:
                    break
                opened.close(counter)
                return summary
            havoc |= broken
            self._restore(before)
            opened.forget_but(noted)
        self._restore(before)
        opened.forget_but(noted)
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
        opened = self._open[-1]
        if opened.remaining is not None and opened.undecided:
            rounds = -(-opened.remaining // period)
            if counter.count is None or (counter.count > rounds and not counter.slopes):
                counter.count, counter.slopes = rounds, {}
        if counter.count is None:
            if opened.shrinks:
                return None
            if opened.undecided is not None:
                raise Undecided(*opened.undecided)
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
            raise self._runs_once(loop)
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

    def _runs_once(self, loop: Loop) -> Refused:
        return Refused(
            "PW217",
            self._cfg.blocks[loop.header].start,
            "--loop-bound says 0 iterations, but this loop tests at its end: once entered, its "
            "body runs at least once",
            "give a bound of at least 1",
        )

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
            self._has_gone,
            limits,
        )

    def _restore(self, snapshot: _Snapshot) -> None:
        """Undoes everything since the snapshot."""
        self._go_back(snapshot)
        for symbol, count, slopes in snapshot.limits:
            symbol.count, symbol.slopes = count, slopes

    def _go_back(self, snapshot: _Snapshot) -> None:
        """Goes on from there another way; what was required of symbols stays required."""
        self._state.registers = dict(snapshot.registers)
        self._state.alive = snapshot.alive.copy()
        del self._out[snapshot.nodes :]
        self._is_exact, self._has_gone = snapshot.is_exact, snapshot.has_gone


@dataclass(frozen=True, slots=True)
class _Side:
    """A walked side of an open branch: path, lanes that may start and arrive, state at its end."""

    path: Path
    mask: Mask
    arrived: Mask
    registers: dict[str, Value]
    alive: Mask
    is_exact: bool
    has_gone: bool


class _OpenLoop:
    """A loop that is being walked; ``note`` collects the ways out that lanes may take early.

    ``depth`` and ``chosen`` count the sides of branches around it: of some lanes, of all. ``left``
    has the lanes that may have left by the block where they meet the others; ``agree``: all warps
    of the block leave together.
    """

    def __init__(self, loop: Loop, depth: int, chosen: int) -> None:
        self.loop = loop
        self.depth = depth
        self.chosen = chosen
        self.agree = True
        self.if_race_free = False
        self.left: dict[int, Mask] = {}
        self.late: dict[tuple[int, Path], None] = {}
        self.sources: set[int] = set()
        self.ways_out: dict[Path, None] = {}
        self.causes: frozenset[Cause] = frozenset()
        self.end: Path | None = None  # what lanes execute that leave it for the kernel's end
        self.shrinks = False  # what decides a way out has fewer values in each iteration
        self._values = 0
        self.undecided: tuple[int, frozenset[Cause]] | None = None
        self.remaining: int | None = None  # iterations that the user's bound leaves

    def note(
        self, way_out: Path, meeting: int, left: Mask, undecided: tuple[int, frozenset[Cause]]
    ) -> None:
        """Lanes ``left`` may leave and wait at ``meeting`` for the others."""
        self.left[meeting] = self.left[meeting] | left if meeting in self.left else left.copy()
        self.undecided = undecided
        self.causes |= undecided[1]
        self.ways_out[way_out] = None

    def look(self, narrowed: _Narrowed | None) -> None:
        """Notes whether the values that stay in the loop are soon used up."""
        if narrowed is None:
            self.shrinks = False
            return
        values = narrowed.new.last + 1
        self.shrinks = values <= _FEW_VALUES or 2 * values <= self._values + 1 or not self._values
        self._values = values

    def noted(self) -> _Noted:
        """What has been noted so far."""
        return dict(self.ways_out), dict(self.late)

    def forget_but(self, noted: _Noted) -> None:
        """Forgets what was noted since :meth:`noted`."""
        self.ways_out, self.late = dict(noted[0]), dict(noted[1])

    def close(self, counter: Symbol) -> None:
        """Removes the number of an iteration from what was noted in it."""
        self.ways_out = {close_symbol(way, counter): None for way in self.ways_out}
        self.late = {(place, close_symbol(way, counter)): None for place, way in self.late}


_Noted = tuple[dict[Path, None], dict[tuple[int, Path], None]]


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
        self.total = AffineCount(0)
        self.last: Path = ()
        self.is_stopped = False

    def add(self, nodes: Path, count: AffineCount, period: int) -> None:
        self.total = self.total.plus(count.times(period))
        if self._runs and self._runs[-1][0] == nodes and not grows(nodes):
            count = self._runs.pop()[1].plus(count)
        self._runs.append((nodes, count))

    def bodies(self, loop: int, *, rotated: bool) -> AffineCount:
        """Executions of the loop body: a loop that tests at its end runs it once more.

        Lanes that stay longer than others go on in a nested entry of the same loop.
        """
        nested = next((node for node in loop_entries(self.last) if node.loop == loop), None)
        total = self.total.plus(AffineCount(1 if rotated or nested is not None else 0))
        return total if nested is None else total.plus(nested.iterations)

    def path(self, opened: _OpenLoop) -> Path:
        """The iterations and the last one; where ways out were noted, any of them may end it."""
        nodes: list[PathNode] = []
        ways_out = tuple(opened.ways_out)
        for body, count in self._runs:
            if ways_out:
                nodes.append(PathRepeat(count, AffineCount(0), body))
            elif count == AffineCount(1):
                nodes += body
            else:
                nodes.append(PathRepeat(count, count, body))
        if not ways_out:
            return (*nodes, *self.last)
        is_last = not self.is_stopped or bool(self.last)
        ends = (self.last, *ways_out) if is_last else ways_out
        site = opened.loop.header if opened.agree else None
        return (*nodes, PathChoice(ends, site, opened.if_race_free))


def _most_lanes(mask: Mask) -> int:
    """The largest number of lanes that a warp has in a mask."""
    return int(mask.reshape(-1, WARP_SIZE).sum(axis=1).max())


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
