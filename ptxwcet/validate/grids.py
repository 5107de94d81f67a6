"""Random grids: blocks of random cases on several SMs, run whole, against the bound of a grid.

A grid is a function of (seed, index), as a case is. Its kinds of blocks execute the programs of one
case, dealt to the warps anew for each kind.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace

import numpy as np

from ptxwcet.bounds.grid import Dispatch, GridBound
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
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.validate.cases import Case, Run, deal
from ptxwcet.validate.checks import Bounds
from ptxwcet.validate.generator import WITHOUT_MEMORY, Draws, mixed_case
from ptxwcet.validate.witness import descend, describe
from ptxwcet.warp.program import BlockWorkload, Node, Repeat, Step, TimedInstruction

_MOST_KINDS, _MOST_BLOCKS, _MOST_SMS, _MOST_RESIDENT, _MOST_GAP = 3, 12, 4, 4, 5
_MOST_TRIES = 1_000
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


@dataclass(frozen=True)
class GridViolation:
    """A run of a grid that takes longer than the bound."""

    grid: GridCase
    run: Run
    cycles: int
    bound: int

    def __str__(self) -> str:
        grid = self.grid
        return (
            f"{grid.name}: {self.cycles} cycles, the bound is {self.bound} ({self.run}; "
            f"{len(grid.blocks)} blocks, {grid.sms} SMs, "
            f"{grid.resident_blocks} resident blocks, gap {grid.gap_cycles})"
        )

    def lines(self) -> Iterator[str]:
        """The grid line by line: its blocks, what the warps of each kind execute."""
        yield f"kind of each block: {', '.join(map(str, self.grid.blocks))}"
        for number, case in enumerate(self.grid.kinds):
            scoreboard = case.workload.scoreboard.value
            yield f"kind {number}: {case.schedulers} sub-cores, scoreboard {scoreboard}"
            for warp_class in case.workload.classes:
                warps = ", ".join(map(str, warp_class.warps))
                yield f"  warp {warps}: {describe(warp_class.program.body)}"


@dataclass
class GridTally:
    """Counts over grids; ``violations`` are runs above the bound.

    ``reached`` runs took just as long as it; ``tails`` are grids whose bound has a term for what is
    left when the last block starts, of which ``tails_needed`` were longer than the bound without.
    """

    grids: int = 0
    runs: int = 0
    reached: int = 0
    tails: int = 0
    tails_needed: int = 0
    violations: list[GridViolation] = field(default_factory=list)

    def merge(self, other: GridTally) -> None:
        """Adds the counts of other grids."""
        self.grids += other.grids
        self.runs += other.runs
        self.reached += other.reached
        self.tails += other.tails
        self.tails_needed += other.tails_needed
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
        said = _bound(grid, bounds or Bounds())
        workload = grid_workload(grid)
        tally.grids += 1
        longest = 0
        for run in _runs(index):
            cycles = _length(grid, workload, run)
            longest = max(longest, cycles)
            tally.runs += 1
            tally.reached += cycles == said.cycles
            if cycles > said.cycles:
                tally.violations.append(GridViolation(grid, run, cycles, said.cycles))
        tally.tails += said.tail_cycles > 0
        tally.tails_needed += said.tail_cycles > 0 and longest > said.cycles - said.tail_cycles
    return tally


def shrunk(violation: GridViolation, bounds: Bounds | None = None) -> GridViolation:
    """The violation on a grid of fewer blocks, SMs and resident blocks, and of smaller kinds.

    Greedy, and a function of its arguments. Cost: at most :data:`_MOST_TRIES` runs.
    """
    tries = itertools.count()

    def again(grid: GridCase) -> GridViolation | None:
        try:
            bound = bound_case(grid, bounds or Bounds())
            cycles = _length(grid, grid_workload(grid), violation.run)
        except (PtxwcetError, ValueError):
            return None
        return GridViolation(grid, violation.run, cycles, bound) if cycles > bound else None

    def still(grid: GridCase) -> bool:
        return next(tries) < _MOST_TRIES and again(grid) is not None

    return again(descend(violation.grid, _smaller, still)) or violation


def _smaller(grid: GridCase) -> Iterator[GridCase]:
    """Grids with one thing less."""
    blocks = grid.blocks
    for place in range(len(blocks)):
        if len(blocks) > 1:
            yield replace(grid, blocks=blocks[:place] + blocks[place + 1 :])
    used = sorted(set(blocks))
    if len(used) < len(grid.kinds):
        kinds = tuple(grid.kinds[kind] for kind in used)
        yield replace(grid, kinds=kinds, blocks=tuple(used.index(kind) for kind in blocks))
    if grid.sms > 1:
        yield replace(grid, sms=grid.sms - 1)
    if grid.resident_blocks > 1:
        yield replace(grid, resident_blocks=grid.resident_blocks - 1)
    if grid.gap_cycles:
        yield replace(grid, gap_cycles=0)
    for number, case in enumerate(grid.kinds):
        for workload in _fewer_instructions(case.workload):
            other = replace(case, workload=workload)
            yield replace(grid, kinds=(*grid.kinds[:number], other, *grid.kinds[number + 1 :]))


def _fewer_instructions(workload: BlockWorkload) -> Iterator[BlockWorkload]:
    """The workload with one instruction or loop of one warp less; barriers stay."""
    dealt = _by_warp(workload)
    for warp, body in enumerate(dealt):
        for place, node in enumerate(body):
            if isinstance(node, TimedInstruction | Repeat):
                fewer = [*dealt]
                fewer[warp] = body[:place] + body[place + 1 :]
                yield deal(fewer, workload.scoreboard)


def bound_case(grid: GridCase, bounds: Bounds) -> int:
    """The bound of a grid, from what its kinds of blocks ask."""
    return _bound(grid, bounds).cycles


def _bound(grid: GridCase, bounds: Bounds) -> GridBound:
    counts = Counter(grid.blocks)
    kinds = [block_kind(case.analyse(), counts[n]) for n, case in enumerate(grid.kinds)]
    shape = grid.sms, grid.resident_blocks
    return bounds.grid(kinds, Dispatch(*shape, 0, grid.gap_cycles, breadth_first=True))


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


def grid_workload(grid: GridCase) -> GridWorkload:
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
            assert isinstance(node, Step), "cases have one path"
            nodes.append(TracedVisit(0, (node,)))
    return tuple(nodes)
