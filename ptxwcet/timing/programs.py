"""From paths to the waist: a kernel's extracted paths as warp programs on a machine.

Before: blocks visited, loops counted, no machine. After: timed instructions, barriers, repeats.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.flow.cfg import ControlFlowGraph
from ptxwcet.flow.paths import (
    Path,
    PathChoice,
    PathGrowing,
    PathLoop,
    PathRepeat,
    PathUnordered,
    Visit,
    WarpPath,
)
from ptxwcet.ir.kernel import Kernel
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.warp.program import (
    BlockWorkload,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    Unordered,
    WarpClass,
    WarpProgram,
)


def build_workload(
    paths: Sequence[WarpPath],
    kernel: Kernel,
    cfg: ControlFlowGraph,
    costs: InstructionCosts,
    scoreboard: Scoreboard,
) -> BlockWorkload:
    """The workload of a block whose warps execute ``paths``. Cost: linear in the path trees.

    Raises PtxwcetError with all instructions on the paths that the machine refuses.
    """
    builder = _Builder(kernel, cfg, costs)
    classes = tuple(
        WarpClass(WarpProgram(builder.body(path.nodes, 1)), path.warps) for path in paths
    )
    costs.raise_refusals()
    return BlockWorkload(classes, scoreboard)


class _Builder:
    def __init__(self, kernel: Kernel, cfg: ControlFlowGraph, costs: InstructionCosts) -> None:
        self._kernel = kernel
        self._cfg = cfg
        self._costs = costs
        self._visits: dict[Visit, tuple[Node, ...]] = {}

    def body(self, nodes: Path, around: int) -> tuple[Node, ...]:
        """The nodes as timed nodes; ``around`` is the count of the repeat that they stand in."""
        out: list[Node] = []
        for node in nodes:
            match node:
                case Visit():
                    out += self._visit(node)
                case PathRepeat(count, least, body):
                    assert not count.slopes, "an open count left path extraction"
                    inner = self.body(body, count.base)
                    out.append(Repeat(count.base, inner, least.base))
                case PathGrowing(first, step, body):
                    ends = (first, first + step * (around - 1))
                    out.append(Repeat(max(ends), self.body(body, max(ends)), min(ends)))
                case PathLoop(body=body):
                    out += self.body(body, around)
                case PathUnordered(one, two):
                    out.append(Unordered(self.body(one, 1), self.body(two, 1)))
                case PathChoice(alternatives):
                    out.append(Choice(tuple(self.body(side, 1) for side in alternatives)))
        return tuple(out)

    def _visit(self, visit: Visit) -> tuple[Node, ...]:
        found = self._visits.get(visit)
        if found is None:
            block = self._cfg.blocks[visit.block]
            nodes: list[Node] = []
            for index in range(block.start, block.end):
                taken = visit.taken and index == block.end - 1
                instruction = self._kernel.instructions[index]
                nodes += self._costs.nodes(index, instruction, taken=taken)
            found = self._visits[visit] = tuple(nodes)
        return found
