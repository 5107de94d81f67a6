"""Generates random grids, blocks of random cases on several SMs, and compares runs with bounds.

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
"""The addition to the seed: other draws than those of the case."""


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
        """Yields the grid line by line: its blocks, and the programs of the warps of each kind."""
        yield f"kind of each block: {', '.join(map(str, self.grid.blocks))}"
        for number, case in enumerate(self.grid.kinds):
            scoreboard = case.workload.scoreboard.value
            yield f"kind {number}: {case.schedulers} sub-cores, scoreboard {scoreboard}"
            for warp_class in case.workload.classes:
                warps = ", ".join(map(str, warp_class.warps))
                yield f"  warp {warps}: {describe(warp_class.program.body)}"


@dataclass
class GridTally:
    """The counts over grids; ``violations`` are runs above the bound.

    ``reached`` runs took exactly as long as it; ``tails`` are grids whose bound has a term for the
    work at the last start, of which ``tails_needed`` were longer than the bound without it.
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
    """Returns grid ``index`` of a mixture of the families with simulated grids. Cost: linear."""
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
    """Runs the grids of these indices, each under several policies. Cost: some ms per grid."""
    tally = GridTally()
    for index in indices:
        grid = random_grid(seed, index)
        bound = _bound(grid, bounds or Bounds())
        workload = grid_workload(grid)
        tally.grids += 1
        longest = 0
        for run in _runs(index):
            cycles = _length(grid, workload, run)
            longest = max(longest, cycles)
            tally.runs += 1
            tally.reached += cycles == bound.cycles
            if cycles > bound.cycles:
                tally.violations.append(GridViolation(grid, run, cycles, bound.cycles))
        tally.tails += bound.tail_cycles > 0
        tally.tails_needed += bound.tail_cycles > 0 and longest > bound.cycles - bound.tail_cycles
    return tally


def shrunk(violation: GridViolation, bounds: Bounds | None = None) -> GridViolation:
    """Returns the violation with fewer blocks, SMs and residents, and smaller kinds.

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
    """Yields grids with one thing less."""
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
    """Yields the workload with one instruction or loop of one warp less; barriers stay."""
    dealt = _by_warp(workload)
    for warp, body in enumerate(dealt):
        for place, node in enumerate(body):
            if isinstance(node, TimedInstruction | Repeat):
                fewer = [*dealt]
                fewer[warp] = body[:place] + body[place + 1 :]
                yield deal(fewer, workload.scoreboard)


def bound_case(grid: GridCase, bounds: Bounds) -> int:
    """Returns the bound of a grid, from the demand of its kinds of blocks."""
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
    # Imported here: its compiled code is loaded only for a simulation.
    from ptxwcet.simulator.grid_engine import simulate_grid

    configuration = grid.kinds[0].configuration
    shape = GridShape(grid.sms, grid.resident_blocks, configuration, grid.gap_cycles)
    return simulate_grid(workload, shape, GridOptions(run.policy, run.seed, run.jitter)).cycles


def _by_warp(workload: BlockWorkload) -> list[tuple[Node, ...]]:
    """Returns the program of each warp."""
    programs = {warp: c.program.body for c in workload.classes for warp in c.warps}
    return [programs[warp] for warp in sorted(programs)]


def grid_workload(grid: GridCase) -> GridWorkload:
    """Returns the programs of each warp of each block, for the grid simulator."""
    numbers: dict[tuple[Node, ...], int] = {}
    kinds = [
        [numbers.setdefault(body, len(numbers)) for body in _by_warp(case.workload)]
        for case in grid.kinds
    ]
    chosen = np.array([kinds[kind] for kind in grid.blocks], np.int64)
    programs = tuple(_traced(body) for body in numbers)
    return GridWorkload(programs, chosen, 1, grid.kinds[0].workload.scoreboard)


def _traced(body: Sequence[Node]) -> TracedProgram:
    """Returns a program of one path, each instruction a visit of its own."""
    nodes: list[TracedNode] = []
    for node in body:
        if isinstance(node, Repeat):
            nodes.append(TracedLoop(node.count, _traced(node.body)))
        else:
            assert isinstance(node, Step), "cases have one path"
            nodes.append(TracedVisit(0, (node,)))
    return tuple(nodes)
