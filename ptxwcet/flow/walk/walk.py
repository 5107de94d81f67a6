"""The walk: executes a kernel's control flow on abstract lanes and records the path.

One walk follows a group of warps that take the same path; where warps disagree it asks to be
restarted on smaller groups (:class:`SplitWarps`), where block indices disagree on smaller index
ranges (:class:`~ptxwcet.flow.values.regions.SplitRequest`). A branch that lanes of one warp decide
differently is divergent: both sides are executed with partial masks up to its immediate
post-dominator ([B] III-B). What a decision depends on and is not known ends the walk
(:class:`Undecided`).

Loops are summarised, not unrolled. Loops that double or halve their counter end after at most 64
plain iterations.

The state of a walk and the ways back are in :mod:`~ptxwcet.flow.walk.state`, what ends a walk in
:mod:`~ptxwcet.flow.walk.stops`. :mod:`~ptxwcet.flow.walk.branches` decides which way a branch goes,
:mod:`~ptxwcet.flow.walk.alternatives` walks the ways on from those that are unresolved, from
indexed ones (:mod:`~ptxwcet.flow.walk.switches`) and from loops that are left for several places
(:mod:`~ptxwcet.flow.walk.bounded`); at :mod:`~ptxwcet.flow.walk.exits` lanes leave others behind.
:mod:`~ptxwcet.flow.walk.loops` enters a loop, whose iterations :mod:`~ptxwcet.flow.walk.analysed`
finds with :mod:`~ptxwcet.flow.walk.closed_forms`, or the user bounds
(:mod:`~ptxwcet.flow.walk.bounded`).
"""

from __future__ import annotations

import numpy as np

from ptxwcet.flow.flow_graph import ENDINGS, FlowGraph
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.values.operands import read_operand
from ptxwcet.flow.values.value import CauseKind, Known, Mask
from ptxwcet.flow.walk.branches import walk_branch
from ptxwcet.flow.walk.guards import evaluate, guard_lanes, outcomes
from ptxwcet.flow.walk.loops import walk_loop
from ptxwcet.flow.walk.path import Path, PathParts, Visit, close_symbol, early_ends
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.steps import Step
from ptxwcet.flow.walk.stops import Refused, SplitWarps, Undecided, aborted, not_counted
from ptxwcet.flow.walk.switches import walk_switch
from ptxwcet.ir.kernel import Immediate
from ptxwcet.ir.op_classes import COUNTING, ControlEffect, OpClass
from ptxwcet.support.demangling import readable_names

_COUNTED = COUNTING | {OpClass.CONTROL_OTHER}  # of which registers are handed over


def check_control(walk: WalkState, step: Step, mask: Mask) -> None:
    """Checks a barrier or call that lanes ``mask`` reach. Raises Refused or Undecided."""
    control = step.instruction.control
    if step.instruction.op_class in _COUNTED:
        # here: few kernels count at mbarriers
        from ptxwcet.flow.walk.counting import count

        count(walk, step, mask)
        return
    if control is ControlEffect.CALL:
        if guard_lanes(walk, step.index, step.guard, mask).any():
            raise _call_refusal(walk, step)
        return
    _check_barrier(walk, step, mask)


def _call_refusal(walk: WalkState, step: Step) -> Refused:
    callee = step.instruction.callee
    cycle = walk.graph.kernel.recursions.get(step.index)
    if cycle is not None:
        names = readable_names(cycle)
        shown = " -> ".join(names[function] for function in cycle)
        return Refused(
            "PW220",
            step.index,
            f"functions call each other in a circle: {shown}",
            "write the recursion as a loop",
        )
    call = f"call of {readable_names((callee,))[callee]}" if callee else "indirect call"
    return Refused(
        "PW220",
        step.index,
        f"{call} on the path: the time of a called function is not bounded",
        "give the PTX that has its body (--link), let the compiler inline it (__forceinline__), "
        "remove the call, or say what keeps it from being reached (--param, [[branch]] of a facts "
        "file)",
    )


def _check_barrier(walk: WalkState, step: Step, mask: Mask) -> None:
    instruction = step.instruction
    lanes = guard_lanes(walk, step.index, step.guard, mask)
    if walk.reachability.apart:
        block, causes = walk.reachability.apart[-1]
        index = walk.graph.last(block)
        if any(cause.kind in (CauseKind.PARAMETER, CauseKind.LAUNCH) for cause in causes):
            raise Undecided(index, causes)
        branch = walk.graph.kernel.instructions[index]
        raise Refused(
            "PW222",
            step.index,
            f"{_apart(step, 'may be reached')}: {branch.mnemonic} in "
            f"{branch.span.shown_place} is not decided",
            _TOGETHER
            if walk.graph.is_on_side(walk.graph.block_of(step.index), block)
            else "give the facts that decide it",
        )
    if not bool((lanes == walk.state.alive).all()):
        raise Refused(
            "PW222",
            step.index,
            _apart(step, "is reached"),
            _TOGETHER,
        )
    words = [*instruction.mnemonic.split("."), *instruction.modifiers]  # of machine code, too
    if "cluster" in words:
        raise Refused(
            "PW223",
            step.index,
            f"{instruction.mnemonic} is of the barrier of the whole cluster: it waits for warps "
            "of other blocks too, or lets them wait",
            "a block is bounded by itself: only barriers of the block are supported",
        )
    _check_participants(walk, step, words)


_TOGETHER = (
    "let all threads of a warp execute the same barrier instruction: move it out of the divergent "
    "code"
)


def _apart(step: Step, reached: str) -> str:
    """Returns why a barrier that only some threads of a warp reach is refused, as it is written."""
    instruction = step.instruction
    words = instruction.mnemonic.split(".")
    by_thread = words[0] == "barrier" and "aligned" not in words
    why = "have to come together for a bound" if by_thread else "must execute it together"
    text = " ".join(instruction.span.text.rstrip(";").split())
    return f"'{text}' {reached} by only some of the running threads of a warp, which {why}"


def _check_participants(walk: WalkState, step: Step, words: list[str]) -> None:
    """Checks that how many take part in the barrier, and which one it is, is one number for all
    lanes.
    """
    operands = step.instruction.operands[1:-1] if "red" in words else step.instruction.operands
    for operand, what in zip(operands, ("number", "number of threads"), strict=False):
        if isinstance(operand, Immediate):
            continue
        value = read_operand(walk.state, operand, 32, step.index)
        if not isinstance(value, Known) or not value.is_uniform_constant:
            raise Refused(
                "PW223",
                step.index,
                f"the barrier's {what} is not a constant",
                "use __syncthreads() or a barrier with constant numbers",
            )


__all__ = ["FlowGraph", "Refused", "SplitWarps", "Undecided", "Walk"]


class Walk(WalkState):
    """One walk over the kernel for a group of warps; ``run`` gives the path."""

    def run(self, symbolic: str | None = None) -> Path:
        """Walks from entry to exit. Raises SplitWarps, SplitRequest, Undecided, Refused.

        Counts may depend on the parameter ``symbolic``, not on others.
        """
        block, mask = self.region(self.cfg.entry, self.state.alive.copy(), None, None)
        assert block == self.cfg.exit or not mask.any()
        path: Path = tuple(self.recorded.nodes)
        early = early_ends(path)
        if early:  # or late, if it is not where the others end
            path += (PathParts(sum(early.values()), tuple(early)),)
        for symbol in self.parameters:
            if symbol.name != symbolic:
                path = close_symbol(path, symbol)
        return path

    def region(
        self, block: int, mask: Mask, stop: int | None, loop: Loop | None
    ) -> tuple[int, Mask]:
        """Walks blocks and whole loops, as :meth:`WalkState.region` says."""
        first = True
        while block != stop and block != self.cfg.exit and np.count_nonzero(mask):
            if loop is not None and not first and block == loop.header:
                break
            if loop is not None and block not in loop.body:
                break
            entered = self._entered(BlockId(block), stop)
            if entered is not None and not (first and loop is not None and block == loop.header):
                block, mask = walk_loop(self, entered, mask, stop)
            else:
                block, mask = self._block(block, mask)
            first = False
        return block, self.arrive(block, mask)

    def _entered(self, block: BlockId, stop: int | None) -> Loop | None:
        """Returns the loop that begins at a block, if one does, or the part of it that lanes repeat
        up to ``stop`` which have gone back to its header while others wait there: None if no way
        from there goes back before.
        """
        loop = self.graph.forest.loop_at(block)
        if loop is None:
            return None
        around = [opened.loop for opened in self.recorded.loops if opened.loop.id == loop.id]
        if not around or stop not in around[-1].body:
            return loop
        part = self.graph.rounds_before(around[-1], stop)
        return part if part.latches else None

    def _block(self, block: int, mask: Mask) -> tuple[int, Mask]:
        state = self.state
        if self.recorded.counted:
            raise not_counted(self.recorded.counted[0].index)
        self.count_visit(block)
        if WalkState.observer is not None:
            WalkState.observer(self, block, mask)
        for step in self.steps.of(block):
            state.active = mask
            if step.instruction.control is ControlEffect.TRAP:
                if (block, True) not in self.cfg.aborts:
                    raise aborted(step.index)
                continue
            if step.instruction.control in ENDINGS:
                sure, unsure, _ = outcomes(self, step.guard, mask)
                if self.reachability.mask_is_exact and not unsure.any():
                    return self._leave(block, step, sure, mask)
                continue
            if step.is_checked:
                check_control(self, step, mask)
            if step.transfer is not None:
                evaluate(self, step, mask)
        if self.graph.switches(block):
            return walk_switch(self, block, mask)
        taken, fallthrough = (
            self.cfg.taken[block],
            self.cfg.fallthrough[block],
        )
        if taken is None:
            assert fallthrough is not None
            self.recorded.add(Visit(block, taken=False))
            return fallthrough, mask
        return walk_branch(self, block, mask, taken, fallthrough)

    def _leave(self, block: int, step: Step, left: Mask, mask: Mask) -> tuple[int, Mask]:
        self.recorded.add(Visit(block, taken=False))
        self.state.alive &= ~left
        rest = mask & ~left
        if not rest.any():
            return self.cfg.exit, rest
        following = self.cfg.fallthrough[block]
        assert following is not None, "an unguarded exit ends all lanes"
        return following, rest
