"""Random grids: blocks of random cases on several SMs, run whole, against the bound of a grid.

A grid is a function of (seed, index), as a case is. Its kinds of blocks execute the programs of one
case, dealt to the warps anew for each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ptxwcet.bounds.grid import Dispatch
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.simulator.grid import (
    GridOptions,
    GridShape,
    GridWorkload,
    TracedLoop,
    TracedNode,
    TracedProgram,
    TracedVisit,
)
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.validate.cases import Case, deal
from ptxwcet.validate.checks import Bounds
from ptxwcet.validate.generator import WITHOUT_MEMORY, Draws, mixed_case
from ptxwcet.validate.plans import Run
from ptxwcet.warp.program import Barrier, BlockWorkload, Node, Repeat, TimedInstruction

_MOST_KINDS, _MOST_BLOCKS, _MOST_SMS, _MOST_RESIDENT, _MOST_GAP = 3, 12, 4, 4, 5
_OF_GRIDS = 1 << 40
"""Added to the seed: other draws than those of the case."""


@dataclass(frozen=True)
class GridCase:
    """A grid: the kinds of its blocks, as cases of one machine, and the kind of each block."""

    name: str
    kinds: tuple[Case, ...]
    blocks: tuple[int, ...]
    sms: int
    resident_blocks: int
    gap_cycles: int


@dataclass
class GridTally:
    """Counts over grids; ``violations`` are runs above the bound, in words."""

    grids: int = 0
    runs: int = 0
    violations: list[str] = field(default_factory=list)

    def merge(self, other: GridTally) -> None:
        """Adds the counts of other grids."""
        self.grids += other.grids
        self.runs += other.runs
        self.violations += other.violations


def random_grid(seed: int, index: int) -> GridCase:
    """Grid ``index`` of a mixture of the families that grids are simulated of. Cost: linear."""
    family, case = mixed_case(seed, index, WITHOUT_MEMORY)
    draws = Draws(seed + _OF_GRIDS, index)
    programs = _by_warp(case.workload)
    kinds = [case]
    for _ in range(draws.below(_MOST_KINDS)):
        dealt = [draws.pick(programs) for _ in programs]
        kinds.append(replace(case, workload=deal(dealt, case.workload.scoreboard)))
    return GridCase(
        f"grid of {family.name}, seed {seed}, index {index}",
        tuple(kinds),
        tuple(draws.below(len(kinds)) for _ in range(draws.within((1, _MOST_BLOCKS)))),
        draws.within((1, _MOST_SMS)),
        draws.within((1, _MOST_RESIDENT)),
        draws.within((1, _MOST_GAP)) if draws.chance(25) else 0,
    )


def attack_grids(seed: int, indices: Iterable[int], bounds: Bounds | None = None) -> GridTally:
    """The grids of these indices, each run under several policies. Cost: some ms a grid."""
    tally = GridTally()
    for index in indices:
        grid = random_grid(seed, index)
        bound = bound_case(grid, bounds or Bounds())
        workload = _workload(grid)
        tally.grids += 1
        for run in _runs(index):
            cycles = _length(grid, workload, run)
            tally.runs += 1
            if cycles > bound:
                tally.violations.append(
                    f"{grid.name}: {cycles} cycles, the bound is {bound} ({run}; "
                    f"{len(grid.blocks)} blocks, {grid.sms} SMs, "
                    f"{grid.resident_blocks} resident blocks, gap {grid.gap_cycles})"
                )
    return tally


def bound_case(grid: GridCase, bounds: Bounds) -> int:
    """The bound of a grid, from what its kinds of blocks ask."""
    counts = Counter(grid.blocks)
    kinds = [block_kind(case.analyse(), counts[n]) for n, case in enumerate(grid.kinds)]
    shape = grid.sms, grid.resident_blocks
    return bounds.grid(kinds, Dispatch(*shape, 0, grid.gap_cycles, breadth_first=True)).cycles


def _runs(index: int) -> Iterator[Run]:
    yield from (Run(policy) for policy in (Policy.LRR, Policy.GTO, Policy.YOUNGEST))
    yield Run(Policy.RANDOM, index)
    yield Run(Policy.LRR, 0, Jitter(50, index))
    yield Run(Policy.RANDOM, index, Jitter(100, index))


def _length(grid: GridCase, workload: GridWorkload, run: Run) -> int:
    # here: its compiled code is loaded only when something is simulated
    from ptxwcet.simulator.grid_engine import simulate_grid

    configuration = grid.kinds[0].configuration
    shape = GridShape(grid.sms, grid.resident_blocks, configuration, grid.gap_cycles)
    return simulate_grid(workload, shape, GridOptions(run.policy, run.seed, run.jitter)).cycles


def _by_warp(workload: BlockWorkload) -> list[tuple[Node, ...]]:
    """The program of each warp."""
    found = {warp: row.program.body for row in workload.classes for warp in row.warps}
    return [found[warp] for warp in sorted(found)]


def _workload(grid: GridCase) -> GridWorkload:
    """What each warp of each block executes, as the grid simulator takes it."""
    numbers: dict[tuple[Node, ...], int] = {}
    kinds = [
        [numbers.setdefault(body, len(numbers)) for body in _by_warp(case.workload)]
        for case in grid.kinds
    ]
    chosen = np.array([kinds[kind] for kind in grid.blocks], np.int64)
    programs = tuple(_traced(body) for body in numbers)
    return GridWorkload(programs, chosen, 1, grid.kinds[0].workload.scoreboard)


def _traced(body: Sequence[Node]) -> TracedProgram:
    """A program of one path, each instruction a visit of its own."""
    nodes: list[TracedNode] = []
    for node in body:
        if isinstance(node, Repeat):
            nodes.append(TracedLoop(node.count, _traced(node.body)))
        else:
            assert isinstance(node, TimedInstruction | Barrier), "random cases have one path"
            nodes.append(TracedVisit(0, (node,)))
    return tuple(nodes)
