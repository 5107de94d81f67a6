"""Which instructions a block's time goes to: initiation cycles by instruction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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
    """Total initiation cycles of all warps, by index of the kernel's instruction.

    Loops count with their bounds and undecided alternatives all at once: an upper bound for
    each instruction. Cost: linear in the program trees.
    """
    shares: Counter[int] = Counter()
    for warp_class in workload.classes:
        _add(warp_class.program.body, len(warp_class.warps), shares)
    return dict(shares)


def _add(body: Sequence[Node], times: int, shares: Counter[int]) -> None:
    for node in body:
        match node:
            case TimedInstruction(origin=origin, initiation_cycles=cycles):
                shares[origin] += times * cycles
            case Barrier(instruction=instruction) | PartialBarrier(instruction=instruction):
                shares[instruction.origin] += times * instruction.initiation_cycles
            case Repeat(count=count, body=inner) | BlockRepeat(count=count, body=inner):
                _add(inner, times * count, shares)
            case Unordered(first, second):
                _add(first, times, shares)
                _add(second, times, shares)
            case Choice(alternatives) | BlockChoice(alternatives=alternatives):
                for side in alternatives:
                    _add(side, times, shares)
            case Tally():
                pass
