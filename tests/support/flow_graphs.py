"""Control flow graphs by their successors, and their loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptxwcet.flow.graph.cfg import BasicBlock, BlockId, ControlFlowGraph, Transfer, assemble_cfg
from ptxwcet.flow.graph.dominance import compute_dominators
from ptxwcet.flow.graph.loops import LoopForest, find_loops


def graph_with(successors: Sequence[Iterable[int]]) -> ControlFlowGraph:
    """A graph whose blocks have the given successors; the exit has the next number."""
    blocks = [BasicBlock(BlockId(i), i, i + 1) for i in range(len(successors))]
    return assemble_cfg(blocks, [Transfer(tuple(map(BlockId, one))) for one in successors])


def loops_in(cfg: ControlFlowGraph) -> LoopForest:
    return find_loops(cfg, compute_dominators(cfg))
