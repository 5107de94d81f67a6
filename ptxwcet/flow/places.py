"""Places that facts name, and the blocks that stand there."""

from __future__ import annotations

from ptxwcet.flow.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.stated import Place
from ptxwcet.ir.kernel import Kernel


def is_at(kernel: Kernel, cfg: ControlFlowGraph, block: BlockId, place: Place) -> bool:
    """Whether a block has the label of a place, or an instruction of its source line."""
    first, end = cfg.blocks[block].start, cfg.blocks[block].end
    if place.label:
        labels = [label for label, index in kernel.labels.items() if index == first]
        names = {cfg.name(block), *labels, *(label.partition("@")[0] for label in labels)}
        return place.label in names
    locations = (kernel.instructions[index].location for index in range(first, end))
    return any(one is not None and one.line == place.line for one in locations)
