"""Loops that ask an mbarrier again and again whether a phase is over, and do nothing else.

From a wait that has said no, the way is followed with this one answer: if it comes back to the wait
past instructions that compute and branch alone, and has changed no register that is read before it
is written from there on, then nothing has happened but that time has passed. So a warp is at the
wait until the answer is yes, and goes on as if it had asked once (docs/methods/mbarriers.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.ir.kernel import Immediate, Kernel, Operand, Register
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import evaluate

_MOST = 16
"""Instructions of a round; compilers write two to four."""

Round = tuple[tuple[int, bool], ...]
"""The instructions of a round behind the wait, and whether each is a branch that is taken."""


def failing_round(kernel: Kernel, cfg: ControlFlowGraph, wait: int) -> Round | None:
    """What a warp executes from a wait that says no until it is there again; None if that is not
    all that happens. Cost: a round, and a walk over the kernel for each register in it.
    """
    asking = kernel.instructions[wait]
    if asking.guard is not None or len(asking.writes) != 1:
        return None
    known = {asking.writes[0]: 0}
    changed = set[str]()
    steps: list[tuple[int, bool]] = []
    block = next(one.id for one in cfg.blocks if one.start <= wait < one.end)
    index: int = wait + 1
    while True:
        if index == cfg.blocks[block].end:
            following = cfg.fallthrough[block]
            if following is None:
                return None
            block, index = following, cfg.blocks[following].start
            continue
        if index == wait:
            unread = not any(_is_read(kernel, cfg, wait, name) for name in changed)
            return tuple(steps) if unread else None
        if len(steps) == _MOST:
            return None
        instruction = kernel.instructions[index]
        guard = instruction.guard
        if instruction.control is ControlEffect.BRANCH:
            goes = guard is None or known.get(guard.register)
            if goes is None:
                return None
            is_taken = guard is None or bool(goes) != guard.negated
            steps.append((index, is_taken))
            if is_taken:
                target = cfg.taken[block]
                if target is None:
                    target = cfg.fallthrough[block]
                if target is None:
                    return None
                block, index = target, cfg.blocks[target].start
            else:
                index += 1
            continue
        meaning = meaning_of(instruction, kernel.registers)
        if guard is not None or meaning is None or instruction.control is not ControlEffect.NONE:
            return None
        sources = {n: number for n, one in enumerate(meaning.sources)
                   if (number := _number(one, known)) is not None}  # fmt: skip
        for name, result in zip(instruction.writes, meaning.results, strict=True):
            changed.add(name)
            known.pop(name, None)
            with suppress(KeyError):  # a source of which nothing is known
                known[name] = evaluate(result, sources)
        steps.append((index, False))
        index += 1


def _number(operand: Operand, known: Mapping[str, int]) -> int | None:
    if isinstance(operand, Register):
        return known.get(operand.name)
    value = operand.value if isinstance(operand, Immediate) else None
    return value if isinstance(value, int) and value >= 0 else None


def _is_read(kernel: Kernel, cfg: ControlFlowGraph, start: int, name: str) -> bool:
    """Whether some way from an instruction on reads a register before it writes it."""
    block = next(one.id for one in cfg.blocks if one.start <= start < one.end)
    pending, seen = [(block, start)], set[int]()
    while pending:
        block, first = pending.pop()
        for index in range(first, cfg.blocks[block].end):
            instruction = kernel.instructions[index]
            if name in instruction.reads:
                return True
            if name in instruction.writes and instruction.guard is None:
                break
        else:
            for following in cfg.successors[block]:
                if following not in seen:
                    seen.add(following)
                    pending.append((following, cfg.blocks[following].start))
    return False
