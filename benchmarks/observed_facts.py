"""Facts that are true of some executions: taken from the paths that the emulator recorded.

Lanes are followed one by one, by the blocks that they execute. What is counted is written here once
more, from ``docs/facts-file.md``, apart from the code that places and uses facts.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ptxwcet.emulator.launch import Execution, PathNode, PathStep
from ptxwcet.flow.facts.stated import (
    BranchFact,
    ExclusiveFact,
    FactSource,
    LoopFact,
    Place,
    StatedFacts,
)
from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.graph.loops import Loop, LoopForest

SOURCE = FactSource("observed")
MOST_STEPS = 100_000
LANES = np.arange(32, dtype=np.uint64)
Counts = npt.NDArray[np.int64]


class TooLong(Exception):
    """The executions have more steps than are followed."""


@dataclass
class Observed:
    """What the warps of some executions of a kernel did.

    ``visits``: most executions of a loop's header by a thread, in an entry and in a run;
    ``bounds``: most body executions of a thread in an entry of a loop; ``totals``: most of a warp
    in a run; ``outcomes`` of branches that some thread had; ``parted``: branches at which threads
    of a warp went both ways; ``runs``: the outcomes of each warp's run.
    """

    cfg: ControlFlowGraph
    forest: LoopForest
    visits: dict[int, tuple[int, int]] = field(default_factory=dict)
    bounds: dict[int, int] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)
    outcomes: set[tuple[int, bool]] = field(default_factory=set)
    parted: set[int] = field(default_factory=set)
    runs: set[frozenset[tuple[int, bool]]] = field(default_factory=set)
    steps: int = 0

    def add(self, execution: Execution) -> None:
        """Takes one more execution into account. Raises TooLong. Cost: linear in its steps."""
        for body in {id(row.body): row.body for row in execution.paths}.values():
            self._add_warp(body)

    def _add_warp(self, body: tuple[PathNode, ...]) -> None:
        before = np.full(32, -1)
        counts = {loop.id: np.zeros(32, np.int64) for loop in self.forest.loops}
        visits = {loop.id: np.zeros(32, np.int64) for loop in self.forest.loops}
        passes = dict.fromkeys(counts, 0)
        seen: set[tuple[int, bool]] = set()
        for step in unfold(body):
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise TooLong
            lanes = (np.uint64(step.mask) >> LANES & np.uint64(1)).astype(bool)
            for loop in self.forest.loops:
                if loop.header == step.block:
                    back = lanes & np.isin(before, list(loop.latches))
                    counts[loop.id] = np.where(back, counts[loop.id] + 1, counts[loop.id])
                    counts[loop.id][lanes & ~back] = 0
                    visits[loop.id][lanes] += 1
                    self._note_visits(loop.id, counts[loop.id][lanes], visits[loop.id][lanes])
                    ends = int(tests_at_its_end(loop))
                    most = int(counts[loop.id][lanes].max()) + ends
                    self.bounds[loop.id] = max(self.bounds.get(loop.id, 0), most)
                    passes[loop.id] += ends or int(back.any())
            before[lanes] = step.block
            if self._has_two_ways(step.block):
                ways = taken_by(step)
                seen |= {(step.block, way) for way in ways}
                if len(ways) > 1:
                    self.parted.add(step.block)
        self.runs.add(frozenset(seen))
        self.outcomes |= seen
        for loop_id, number in passes.items():
            self.totals[loop_id] = max(self.totals.get(loop_id, 0), number)

    def _note_visits(self, loop: int, back: Counts, in_all: Counts) -> None:
        """Threads are at a header: after so many jumps back in this entry, and so often in all."""
        entry, run = self.visits.get(loop, (0, 0))
        self.visits[loop] = max(entry, int(back.max()) + 1), max(run, int(in_all.max()))

    def _has_two_ways(self, block: int) -> bool:
        taken, following = self.cfg.taken[block], self.cfg.fallthrough[block]
        return taken is not None and following is not None and taken != following

    def label(self, loop: Loop) -> str:
        """The label of a loop in the text, also of one in a copy of a function."""
        return self.cfg.name(loop.header).rpartition(":")[2]

    def comments(self) -> dict[str, tuple[int, int]]:
        """What a comment behind a loop's label may say: most passings in an entry, and in a run.

        By label in the text: copies of a function have one comment. Only loops of one jump back.
        """
        found: dict[str, tuple[int, int]] = {}
        for loop in self.forest.loops:
            label = self.label(loop)
            entry, run = self.visits.get(loop.id, (0, 0))
            before = found.get(label, (0, 0))
            if len(loop.latches) == 1:
                found[label] = max(entry, before[0]), run + before[1]
        return found

    # --- as facts ---------------------------------------------------------------------------------

    def loop_facts(self, places: dict[int, Place]) -> Iterator[LoopFact]:
        """The bound of each loop, 0 for those that were never entered, and its total."""
        for loop in self.forest.loops:
            place = places[loop.header]
            yield LoopFact(place, SOURCE, bound=self.bounds.get(loop.id, 0))
            if len(loop.latches) == 1:
                yield LoopFact(place, SOURCE, total=self.totals.get(loop.id, 0))

    def branch_facts(self, places: dict[int, Place]) -> Iterator[BranchFact]:
        """Outcomes that no thread had, and branches that all threads of each warp took alike."""
        for block in self.cfg.blocks[:-1]:
            if not self._has_two_ways(block.id):
                continue
            place = places[block.id]
            for way in (True, False):
                if (block.id, way) not in self.outcomes and (block.id, not way) in self.outcomes:
                    yield BranchFact(place, SOURCE, never=way)
            if not self.outcomes & {(block.id, True), (block.id, False)}:
                yield BranchFact(place, SOURCE, never=True)
            if block.id not in self.parted:
                yield BranchFact(place, SOURCE, uniform="warp")

    def exclusive_facts(self, places: dict[int, Place]) -> Iterator[ExclusiveFact]:
        """Pairs of outcomes of which no warp had both."""
        ways = [
            (block.id, way)
            for block in self.cfg.blocks[:-1]
            if self._has_two_ways(block.id)
            for way in (True, False)
        ]
        for number, one in enumerate(ways):
            for two in ways[number + 1 :]:
                if not any(one in run and two in run for run in self.runs):
                    both = (places[one[0]], one[1]), (places[two[0]], two[1])
                    yield ExclusiveFact(both, SOURCE)

    def facts(
        self, chooser: random.Random, places: dict[int, Place], headers: dict[int, Place]
    ) -> list[StatedFacts]:
        """Some true facts, each alone, in random order; ``headers`` are the places of loops."""
        loops = list(self.loop_facts(headers))
        branches = list(self.branch_facts(places))
        pairs = list(self.exclusive_facts(places))
        found = [StatedFacts(loops=(one,)) for one in chooser.sample(loops, min(4, len(loops)))]
        chosen = chooser.sample(branches, min(3, len(branches)))
        found += [StatedFacts(branches=(one,)) for one in chosen]
        chosen_pairs = chooser.sample(pairs, min(2, len(pairs)))
        found += [StatedFacts(exclusive=(one,)) for one in chosen_pairs]
        chooser.shuffle(found)
        return found


def tests_at_its_end(loop: Loop) -> bool:
    """Whether a loop is left only from blocks that jump back."""
    return {source for source, _ in loop.exits} <= set(loop.latches)


def unfold(body: Iterable[PathNode]) -> Iterator[PathStep]:
    """The steps of a path, one by one."""
    for node in body:
        if isinstance(node, PathStep):
            yield node
        else:
            for _ in range(node.repeats):
                yield from unfold(node.body)


def taken_by(step: PathStep) -> set[bool]:
    """Whether lanes took the branch of a step: all, none, or some."""
    ways = set[bool]()
    if step.taken:
        ways.add(True)
    if step.mask & ~step.taken:
        ways.add(False)
    return ways


def together(facts: Iterable[StatedFacts]) -> StatedFacts:
    """All of some facts."""
    rows = list(facts)
    return StatedFacts(
        tuple(one for row in rows for one in row.loops),
        tuple(one for row in rows for one in row.branches),
        tuple(one for row in rows for one in row.exclusive),
        marks=tuple(one for row in rows for one in row.marks),
        arrays=tuple(one for row in rows for one in row.arrays),
    )


def labels(cfg: ControlFlowGraph) -> dict[int, Place]:
    """Blocks by their names."""
    return {block.id: Place(cfg.name(block.id)) for block in cfg.blocks}
