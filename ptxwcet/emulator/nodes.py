"""Compiled kernels: basic blocks cut after their barriers, each a list of steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet.emulator.registers import Context, Frame, Read, Step, Unsupported, reader
from ptxwcet.emulator.semantics import SEMANTICS
from ptxwcet.emulator.stack import EXIT
from ptxwcet.flow.cfg import ControlFlowGraph
from ptxwcet.flow.dominance import DominatorTree
from ptxwcet.ir.kernel import Guard, Instruction
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_ENDINGS = (ControlEffect.RETURN, ControlEffect.EXIT, ControlEffect.TRAP)


@dataclass(frozen=True, slots=True)
class Barrier:
    """``bar.sync`` or ``bar.arrive``: name and count of threads (None: the whole block)."""

    name: Read
    threads: Read | None
    waits: bool
    instruction: Instruction


@dataclass(frozen=True, slots=True)
class Node:
    """Steps, then a transfer: to ``taken`` under ``guard``, else to ``other``."""

    block: int
    is_start: bool
    steps: tuple[Step, ...]
    length: int
    taken: int | None
    other: int
    meet: int
    guard: Guard | None
    barrier: Barrier | None
    last: Instruction


def compile_nodes(context: Context, cfg: ControlFlowGraph, tree: DominatorTree) -> tuple[Node, ...]:
    """The nodes of a kernel; node 0 is its entry.

    Raises PtxwcetError with one PW410 for each instruction that is not supported.
    """
    compiler = _Compiler(context, cfg, tree)
    nodes = compiler.compile()
    if compiler.problems:
        raise PtxwcetError(compiler.problems)
    return nodes


class _Compiler:
    def __init__(self, context: Context, cfg: ControlFlowGraph, tree: DominatorTree) -> None:
        self._context, self._cfg, self._tree = context, cfg, tree
        self.problems: list[Diagnostic] = []
        self._pieces: list[tuple[int, int, int]] = []
        self._first: dict[int, int] = {cfg.exit: EXIT}
        reachable = set(cfg.reverse_postorder)
        for block in cfg.blocks:
            if block.id not in reachable or block.id == cfg.exit:
                continue
            self._first[block.id] = len(self._pieces)
            start = block.start
            for index in range(block.start, block.end):
                if self._is_barrier(index) or index == block.end - 1:
                    self._pieces.append((block.id, start, index + 1))
                    start = index + 1

    def _is_barrier(self, index: int) -> bool:
        control = self._context.kernel.instructions[index].control
        return control in (ControlEffect.BARRIER, ControlEffect.ARRIVE)

    def compile(self) -> tuple[Node, ...]:
        return tuple(self._node(number) for number in range(len(self._pieces)))

    def _node(self, number: int) -> Node:
        block, start, end = self._pieces[number]
        cfg = self._cfg
        instructions = self._context.kernel.instructions[start:end]
        steps = [step for i in instructions if (step := self._step(i)) is not None]
        is_last = end == cfg.blocks[block].end
        taken = cfg.taken[block] if is_last else None
        fall = cfg.fallthrough[block]
        meet = self._tree.immediate[block]
        other = EXIT if fall is None else self._first[fall]
        return Node(
            block=block,
            is_start=start == cfg.blocks[block].start,
            steps=tuple(steps),
            length=len(instructions),
            taken=None if taken is None else self._first[taken],
            other=other if is_last else number + 1,
            meet=EXIT if meet is None else self._first[meet],
            guard=instructions[-1].guard if taken is not None else None,
            barrier=self._barrier(instructions[-1]) if self._is_barrier(end - 1) else None,
            last=instructions[-1],
        )

    def _step(self, instruction: Instruction) -> Step | None:
        control = instruction.control
        if control is ControlEffect.BRANCH or control in _ENDINGS:
            if control is ControlEffect.TRAP:
                self._refuse(instruction, "")
            return None
        if control in (ControlEffect.BARRIER, ControlEffect.ARRIVE):
            return None
        name = instruction.opcode.name if instruction.opcode else ""
        if name not in SEMANTICS:
            self._refuse(instruction, "")
            return None
        try:
            step = SEMANTICS[name](self._context, instruction)
        except Unsupported as reason:
            self._refuse(instruction, f": {reason}")
            return None
        return step if instruction.guard is None else guarded(step, instruction.guard)

    def _barrier(self, instruction: Instruction) -> Barrier | None:
        name = instruction.opcode.name if instruction.opcode else ""
        family = name.rpartition(".")[0]
        kind = name.rpartition(".")[2]
        if family.startswith("barrier.cluster") or kind == "red" or instruction.guard:
            self._refuse(instruction, "")
            return None
        reads = [reader(self._context, operand, "u32") for operand in instruction.operands]
        threads = reads[1] if len(reads) > 1 else None
        return Barrier(reads[0], threads, kind == "sync", instruction)

    def _refuse(self, instruction: Instruction, reason: str) -> None:
        message = f"{instruction.mnemonic} is not executed{reason}"
        self.problems.append(Diagnostic("PW410", message, instruction.span))


def guarded(step: Step, guard: Guard) -> Step:
    """The step for the lanes whose guard holds."""

    def run(frame: Frame) -> None:
        outer = frame.mask
        predicate = frame.registers[guard.register]
        mask = ~predicate if guard.negated else predicate
        if outer is not None:
            mask = mask & outer
        if not mask.any():
            return
        frame.mask = None if outer is None and bool(np.all(mask)) else mask
        step(frame)
        frame.mask = outer

    return run
