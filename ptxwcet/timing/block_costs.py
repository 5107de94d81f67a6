"""What basic blocks take alone, for pictures of the graph."""

from __future__ import annotations

from ptxwcet.flow.graph.cfg import BlockId, build_cfg
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.model import Machine
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.phases import profile_warp
from ptxwcet.warp.program import Node


def block_costs(kernel: Kernel, machine: Machine) -> dict[BlockId, int]:
    """Cycles of each basic block alone: one warp on a clean machine, no branch taken.

    Blocks with an instruction that the machine refuses are left out. Cost: linear in the kernel.
    """
    cfg = build_cfg(kernel)
    costs: dict[BlockId, int] = {}
    for block in cfg.blocks[:-1]:
        nodes: list[Node] = []
        timed = InstructionCosts(machine)
        for index in range(block.start, block.end):
            nodes += timed.nodes(index, kernel.instructions[index])
        if not timed.has_refusals:
            costs[block.id] = profile_warp(nodes, machine.scoreboard).isolated_cycles
    return costs
