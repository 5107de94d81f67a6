"""Control instructions that do not branch: calls are refused, barriers must be reached by all."""

from __future__ import annotations

from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.flow.values.operands import read_operand
from ptxwcet.flow.values.value import CauseKind, Known, Mask
from ptxwcet.flow.walk.guards import guard_lanes
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.steps import Step
from ptxwcet.flow.walk.stops import Refused, Undecided
from ptxwcet.ir.kernel import Immediate
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.support.demangling import readable_names


def check_control(walk: WalkState, step: Step, mask: Mask) -> None:
    """Checks a barrier or call that lanes ``mask`` reach. Raises Refused or Undecided."""
    control = step.instruction.control
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
        shown = " -> ".join(names[one] for one in cycle)
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
    if walk.standing.apart:
        block, causes = walk.standing.apart[-1]
        index = walk.graph.last(block)
        if any(cause.kind in (CauseKind.PARAMETER, CauseKind.LAUNCH) for cause in causes):
            raise Undecided(index, causes)
        branch = walk.graph.kernel.instructions[index]
        raise Refused(
            "PW222",
            step.index,
            "a block-wide barrier may be reached by only some of the running threads of a "
            f"warp: {branch.mnemonic} in line {branch.span.shown_line} is not decided",
            "move the barrier out of the branch",
        )
    if not bool((lanes == walk.state.alive).all()):
        raise Refused(
            "PW222",
            step.index,
            "a block-wide barrier is reached by only some of the running threads of a warp",
            "move the barrier out of the divergent code",
        )
    words = instruction.mnemonic.split(".")
    if "cluster" in words:
        raise Refused(
            "PW223",
            step.index,
            f"{instruction.mnemonic} is of the barrier of the whole cluster: it waits for warps "
            "of other blocks too, or lets them wait",
            "a block is bounded by itself: only barriers of the block are supported",
        )
    if "arrive" in words:
        raise Refused(
            "PW223",
            step.index,
            f"{instruction.mnemonic} does not wait for all warps of the block",
            "only barriers that all warps of the block wait at are supported",
        )
    _check_participants(walk, step, words)


def _check_participants(walk: WalkState, step: Step, words: list[str]) -> None:
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
    value = read_operand(walk.state, operands[count_at], 32, step.index)
    whole = walk.state.launch.warps * WARP_SIZE
    if not isinstance(value, Known) or not value.is_uniform_constant or value.base != whole:
        raise Refused(
            "PW223",
            step.index,
            "the barrier waits for a part of the block only",
            f"only barriers of the whole block ({whole} threads) are supported",
        )
