"""Compiles kernels to nodes: basic blocks split after their barriers, each a list of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import (
    Context,
    Frame,
    Place,
    Read,
    Step,
    Unsupported,
    reader,
    writer,
)
from ptxwcet.emulator.semantics import SEMANTICS
from ptxwcet.emulator.stack import EXIT
from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.graph.dominance import DominatorTree
from ptxwcet.flow.graph.inlining import ASSERTION
from ptxwcet.ir.kernel import Guard, Instruction
from ptxwcet.ir.op_classes import AT_BARRIERS, ControlEffect, OpClass
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

_ENDINGS = (ControlEffect.RETURN, ControlEffect.EXIT)
_FAMILIES = ("bar", "bar.cta", "barrier", "barrier.cta")


@dataclass(frozen=True, slots=True)
class Reduction:
    """The reduction of ``bar.red`` over a predicate of all threads: ``popc``, ``and`` or ``or``."""

    kind: str
    predicate: Read
    write: Callable[[Frame, Array], None]


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier of the block: name and count of threads (None: all of the block)."""

    name: Read
    threads: Read | None
    waits: bool
    instruction: Instruction
    guard: Guard | None = None
    reduction: Reduction | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The node of each index (``brx.idx``), or of each address of a function (calls)."""

    index: Read
    targets: Mapping[int, int]
    has_addresses: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """Steps, then a transfer: to ``taken`` (or into ``table``) under ``guard``, else to ``other``.

    ``is_end``: it is the last piece of its basic block. ``length`` counts its instructions.
    """

    block: int
    is_end: bool
    steps: tuple[Step, ...]
    length: int
    taken: int | None
    other: int
    meet: int
    guard: Guard | None
    table: Table | None
    barrier: Barrier | None
    last: Instruction


def compile_nodes(context: Context, cfg: ControlFlowGraph, tree: DominatorTree) -> tuple[Node, ...]:
    """Compiles the nodes of a kernel; node 0 is its entry.

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
        return control in AT_BARRIERS

    def compile(self) -> tuple[Node, ...]:
        return tuple(self._node(number) for number in range(len(self._pieces)))

    def _node(self, number: int) -> Node:
        block, start, end = self._pieces[number]
        cfg = self._cfg
        instructions = self._context.kernel.instructions[start:end]
        steps = [
            step
            for place, instruction in enumerate(instructions)
            if (step := self._step(instruction, start, place)) is not None
        ]
        is_end = end == cfg.blocks[block].end
        last = instructions[-1]
        taken = cfg.taken[block] if is_end else None
        fall = cfg.fallthrough[block]
        meet = self._tree.immediate[block]
        other = EXIT if fall is None else self._first[fall]
        is_table = last.control is ControlEffect.INDIRECT_BRANCH
        return Node(
            block=block,
            is_end=is_end,
            steps=tuple(steps),
            length=len(instructions),
            taken=None if taken is None else self._first[taken],
            other=other if is_end else number + 1,
            meet=EXIT if meet is None else self._first[meet],
            guard=last.guard if taken is not None or is_table else None,
            table=self._table(last) if is_table else None,
            barrier=self._barrier(last) if self._is_barrier(end - 1) else None,
            last=last,
        )

    def _table(self, instruction: Instruction) -> Table:
        is_call = instruction.op_class is OpClass.CALL
        index = reader(self._context, instruction.operands[0], "u64" if is_call else "u32")
        starts = {block.start: block.id for block in self._cfg.blocks}
        labels = self._context.kernel.labels
        targets = [self._first[starts[labels[label]]] for label in instruction.targets]
        keys: Iterable[int] = range(len(targets))
        if is_call:  # a label is the call's choice, a colon and the function
            names = (label.rpartition(":")[2] for label in instruction.targets)
            keys = (self._context.symbols[name] for name in names)
        return Table(index, dict(zip(keys, targets, strict=True)), is_call)

    def _step(self, instruction: Instruction, start: int, place: int) -> Step | None:
        control = instruction.control
        if control in (ControlEffect.BRANCH, ControlEffect.INDIRECT_BRANCH, *_ENDINGS):
            return None
        if control in AT_BARRIERS:
            return None
        name = instruction.opcode.name if instruction.opcode else ""
        step: Step
        if control is ControlEffect.TRAP and instruction.callee == ASSERTION:
            step = _fault(instruction, "assertion failed")
        elif control is ControlEffect.TRAP or name == "brkpt":
            step = _fault(instruction, f"{instruction.mnemonic} executed")
        elif control is ControlEffect.CALL:
            self._refuse(instruction, ": recursive, indirect, or of a function without a body")
            return None
        elif name not in SEMANTICS:
            self._refuse(instruction, "")
            return None
        else:
            try:
                step = SEMANTICS[name](replace(self._context, place=place), instruction)
            except Unsupported as reason:
                self._refuse(instruction, f": {reason}")
                return None
        if self._context.is_observed:
            step = _numbered(step, start + place)
        return step if instruction.guard is None else guarded(step, instruction.guard)

    def _barrier(self, instruction: Instruction) -> Barrier | None:
        name = instruction.opcode.name if instruction.opcode else ""
        family, _, kind = name.rpartition(".")
        if family not in _FAMILIES:
            self._refuse(instruction, "")
            return None
        context, operands = self._context, list(instruction.operands)
        try:
            reduction = None
            if kind == "red":
                words = instruction.modifiers
                operation = next(word for word in words if word in ("popc", "and", "or"))
                predicate = reader(context, operands.pop(), "pred")
                reduction = Reduction(operation, predicate, writer(context, operands.pop(0)))
            reads = [reader(context, operand, "u32") for operand in operands]
        except Unsupported as reason:
            self._refuse(instruction, f": {reason}")
            return None
        threads = reads[1] if len(reads) > 1 else None
        guard, waits = instruction.guard, kind != "arrive"
        return Barrier(reads[0], threads, waits, instruction, guard, reduction)

    def _refuse(self, instruction: Instruction, reason: str) -> None:
        message = f"{instruction.mnemonic} is not executed{reason}"
        self.problems.append(Diagnostic("PW410", message, instruction.span))


def _fault(instruction: Instruction, message: str) -> Step:
    """Builds a step that ends the run with a finding."""

    def step(frame: Frame) -> None:
        lane = int(np.flatnonzero(frame.active())[0])
        frame.report("PW439", message, instruction, Place(lane))

    return step


def _numbered(step: Step, index: int) -> Step:
    """Builds a step that first records the index of its instruction."""

    def run(frame: Frame) -> None:
        assert frame.observation is not None
        frame.observation.instruction = index
        step(frame)

    return run


def guarded(step: Step, guard: Guard) -> Step:
    """Builds a step for the lanes whose guard holds."""

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
