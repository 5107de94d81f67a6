"""How many initiation cycles of a block each instruction accounts for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ptxwcet.warp.program import (
    Barrier,
    BlockChoice,
    BlockRepeat,
    BlockWorkload,
    Choice,
    Node,
    PartialBarrier,
    Repeat,
    Tally,
    TimedInstruction,
    Unordered,
)


def initiations_by_instruction(workload: BlockWorkload) -> dict[int, int]:
    """Total initiation cycles of all warps, by index of the kernel's instruction."""
    return served_by_instruction(workload, lambda one: one.initiation_cycles)


def served_by_instruction(
    workload: BlockWorkload, weight: Callable[[TimedInstruction], int]
) -> dict[int, int]:
    """The sum of a weight over all warps, by index of the kernel's instruction.

    Loops count with their bounds and undecided alternatives all at once: an upper bound for
    each instruction. Cost: linear in the program trees.
    """
    shares: Counter[int] = Counter()
    for warp_class in workload.classes:
        _add(warp_class.program.body, len(warp_class.warps), weight, shares)
    return dict(shares)


def _add(
    body: Sequence[Node],
    times: int,
    weight: Callable[[TimedInstruction], int],
    shares: Counter[int],
) -> None:
    for node in body:
        match node:
            case TimedInstruction(origin=origin):
                shares[origin] += times * weight(node)
            case Barrier(instruction=instruction) | PartialBarrier(instruction=instruction):
                shares[instruction.origin] += times * weight(instruction)
            case Repeat(count=count, body=inner) | BlockRepeat(count=count, body=inner):
                _add(inner, times * count, weight, shares)
            case Unordered(first, second):
                _add(first, times, weight, shares)
                _add(second, times, weight, shares)
            case Choice(alternatives) | BlockChoice(alternatives=alternatives):
                for side in alternatives:
                    _add(side, times, weight, shares)
            case Tally():
                pass
