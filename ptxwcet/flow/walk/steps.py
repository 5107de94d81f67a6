"""The instructions of each block that the walk must look at, compiled once a graph."""

from __future__ import annotations

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.values.arrays import array_transfer
from ptxwcet.flow.values.float_transfer import float_operation
from ptxwcet.flow.values.lane_state import LaneState
from ptxwcet.flow.values.operands import Transfer
from ptxwcet.flow.values.reductions import (
    election_transfer,
    is_election,
    is_reduction,
    reduction_transfer,
)
from ptxwcet.flow.values.transfer import compile_transfer
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Value
from ptxwcet.flow.walk.path import Path, visited_blocks
from ptxwcet.ir.kernel import Guard, Instruction, hands_registers_over
from ptxwcet.ir.op_classes import AT_BARRIERS, COUNTING, ControlEffect, OpClass
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction that the walk must look at.

    ``transfer`` gives what it ``writes``, None if no such register decides anything. It
    ``is_checked``: it is a control instruction, which may write registers too, as ``bar.red`` does.
    ``is_slow``: what it writes is computed lane by lane where lanes differ. ``elects``: that is
    only known if no lane is or may be elsewhere.
    """

    index: int
    instruction: Instruction
    guard: Guard | None
    transfer: Transfer | None
    is_checked: bool
    is_slow: bool
    elects: bool
    writes: tuple[str, ...] = ()


_CHECKED = COUNTING | {OpClass.BARRIER}


def _said_yes(_: LaneState) -> tuple[Value, ...]:
    return (Known(1),)


class _Compiled(dict[int, tuple[Step, ...]]):
    """The steps of blocks, once they are asked for."""


class _Transfers(dict[int, Transfer]):
    """What instructions do to values, of those that were asked for, whatever is launched."""


class Steps:
    """The steps of the blocks of a kernel."""

    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._of = graph.work.of_launch[_Compiled]

    def of(self, block: int) -> tuple[Step, ...]:
        """Returns the steps of a block, its branch excepted. Cost: linear in the block, once."""
        steps = self._of.get(block)
        if steps is None:
            bounds = self._graph.cfg.blocks[block]
            instructions = self._graph.kernel.instructions
            steps = tuple(
                step
                for index in range(bounds.start, bounds.end)
                if (step := self._compile(index, instructions[index])) is not None
            )
            self._of[block] = steps
        return steps

    def have_barrier(self, nodes: Path) -> bool:
        """Returns whether a path visits a block with a barrier. Cost: linear in the path, if there
        are.
        """
        return bool(self._graph.cfg.barriers) and any(
            step.instruction.control in AT_BARRIERS
            for block in set(visited_blocks(nodes))
            for step in self.of(block)
        )

    def _compile(self, index: int, instruction: Instruction) -> Step | None:
        control = instruction.control
        if control in (ControlEffect.BRANCH, ControlEffect.INDIRECT_BRANCH):
            return None  # at the end of its block: see walk_branches, walk_switches
        is_checked = control is not ControlEffect.NONE or instruction.op_class in _CHECKED
        if instruction.op_class is OpClass.CONTROL_OTHER and hands_registers_over(
            self._graph.kernel
        ):
            is_checked |= instruction.mnemonic.startswith("setmaxnreg.")
        transfer = None
        if any(name in self._graph.control_registers for name in instruction.writes):
            transfer = self._transfer(index, instruction)
        if transfer is None and not is_checked:
            return None
        is_slow = float_operation(instruction) is not None
        elects = is_election(instruction)
        writes, guard = instruction.writes, instruction.guard
        return Step(index, instruction, guard, transfer, is_checked, is_slow, elects, writes)

    def _transfer(self, index: int, instruction: Instruction) -> Transfer:
        if instruction.op_class is OpClass.MBARRIER_WAIT:
            # here and below: few kernels count at mbarriers
            from ptxwcet.flow.graph.polling import failing_round

            kernel, cfg = self._graph.kernel, self._graph.cfg
            if failing_round(kernel, cfg, index) is not None:
                return _said_yes  # what it executes before is not of its path
        if is_reduction(instruction) and self._are_whole(instruction.mnemonic):
            cause = Cause(CauseKind.OPERATION, instruction.mnemonic, index)
            return reduction_transfer(instruction, cause)
        if is_election(instruction):
            cause = Cause(CauseKind.OPERATION, instruction.mnemonic, index)
            return election_transfer(instruction, cause)
        array = self._graph.loaded.get(index)
        if array is not None:
            return array_transfer(instruction, index, array, self._graph.kernel.registers)
        compiled = self._graph.work.of_graph[_Transfers]
        if index not in compiled:
            compiled[index] = compile_transfer(instruction, index, self._graph.kernel.registers)
        return compiled[index]

    def _are_whole(self, mnemonic: str) -> bool:
        """Returns whether whole warps execute all instructions of this mnemonic: lanes that have
        parted may wait for one another at different ones. Cost: linear in the kernel.
        """
        return not any(
            instruction.guard is not None or self._graph.agreements.part_at(index)
            for index, instruction in enumerate(self._graph.kernel.instructions)
            if instruction.mnemonic == mnemonic
        )
