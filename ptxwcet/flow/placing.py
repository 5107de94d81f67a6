"""Stated facts at the blocks and loops of a kernel's graph.

A place is the label of a block or a line of the CUDA source; it must be exactly one loop or branch.
What fits nothing is an error, and so are two sources that contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxwcet.flow.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.facts import Outcome, PlacedFacts
from ptxwcet.flow.loops import LoopForest
from ptxwcet.flow.marked_loops import marked_bounds
from ptxwcet.flow.places import is_at
from ptxwcet.flow.placing_totals import PlacingTotals
from ptxwcet.flow.stated import (
    BranchFact,
    ExclusiveFact,
    FactSource,
    LoopFact,
    Place,
    StatedFacts,
    conflict,
)
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


def place_facts(
    kernel: Kernel,
    cfg: ControlFlowGraph,
    forest: LoopForest,
    facts: StatedFacts,
) -> PlacedFacts:
    """All facts about one kernel, each at its block or loop.

    Raises PtxwcetError: PW219 (not exactly one loop), PW246 (not exactly one branch), PW249 (a
    comment that bounds nothing), PW250 (no such call), PW215 (two sources contradict each other).
    Cost: linear in the kernel for each fact.
    """
    placing = _Placing(kernel, cfg, forest)
    marked = marked_bounds(kernel, cfg, forest, facts.marks)
    for loop, row in marked.items():
        placing.bound(loop, row.most, row.source)
    totals = PlacingTotals(kernel, cfg, forest)
    for bound in facts.loops:
        loop = placing.loop(bound)
        placing.bound(loop, bound.most, bound.source)
        totals.loop(forest.loops[loop], bound)
    totals.calls(facts.calls)
    for branch in facts.branches:
        placing.branch(branch)
    pairs = tuple(placing.pair(fact) for fact in facts.exclusive)
    excluded = {outcome: source.name for outcome, source in placing.never.items()}
    for pair, fact in zip(pairs, facts.exclusive, strict=True):
        excluded |= {outcome: fact.source.name for outcome in pair if outcome not in excluded}
    return PlacedFacts(
        loop_bounds={loop: most for loop, (most, _) in placing.bounds.items()},
        never=frozenset(placing.never),
        uniform=placing.uniform,
        exclusive=pairs,
        loop_sources={loop: source.name for loop, (_, source) in placing.bounds.items()},
        marked=frozenset(
            loop
            for loop, row in marked.items()
            if not row.is_total and placing.bounds[loop][1] is row.source
        ),
        branch_sources=excluded,
        totals=totals.rows,
    )


class _Placing:
    """Facts placed so far, with who states them."""

    def __init__(self, kernel: Kernel, cfg: ControlFlowGraph, forest: LoopForest) -> None:
        self._kernel = kernel
        self._cfg = cfg
        self._forest = forest
        self.bounds: dict[int, tuple[int, FactSource]] = {}
        self.never: dict[Outcome, FactSource] = {}
        self.uniform: dict[int, str] = {}

    def bound(self, loop: int, most: int, source: FactSource) -> None:
        """Adds a loop bound. Raises PtxwcetError (PW215)."""
        known, by = self.bounds.setdefault(loop, (most, source))
        if known != most:
            what = f"the bound of the loop at {self._cfg.name(self._forest.loops[loop].header)}"
            raise PtxwcetError(conflict(what, (str(known), by), (str(most), source)))

    def loop(self, fact: LoopFact) -> int:
        """The loop of a fact. Raises PtxwcetError (PW219)."""
        loops = self._forest.loops
        found = [loop.id for loop in loops if self._is_at(loop.header, fact.place)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(self._cfg.name(loop.header) for loop in loops) or "none"
        problem = "no loop starts" if not found else f"{len(found)} loops start"
        raise PtxwcetError(
            Diagnostic(
                "PW219",
                f"{fact.source.name}: {problem} at {fact.place} in kernel {self._kernel.name}",
                fact.source.span or self._kernel.span,
                notes=(f"its loops: {names}",),
                help="name the label of the loop's first block",
            )
        )

    def branch(self, fact: BranchFact) -> None:
        """Adds what is said of one branch. Raises PtxwcetError (PW246, PW215)."""
        block = self._branch(fact.place, fact.source)
        if fact.never is not None:
            opposite = self.never.get((block, not fact.never))
            if opposite is not None:
                words = [f"never {'taken' if one else 'fallthrough'}" for one in (True, False)]
                ours, theirs = words[not fact.never], words[fact.never]
                what = f"the branch at {fact.place}"
                raise PtxwcetError(conflict(what, (theirs, opposite), (ours, fact.source)))
            self.never[block, fact.never] = fact.source
        if fact.uniform is not None and self.uniform.get(block) != "block":
            self.uniform[block] = fact.uniform  # a block's threads include a warp's

    def pair(self, fact: ExclusiveFact) -> tuple[Outcome, Outcome]:
        """The outcomes of an exclusive fact. Raises PtxwcetError (PW246)."""
        (one, first), (two, second) = fact.outcomes
        outcomes = (
            (self._branch(one, fact.source), first),
            (self._branch(two, fact.source), second),
        )
        if outcomes[0] == outcomes[1]:
            message = f"{fact.source.name}: an outcome that excludes itself"
            remedy = "use [[branch]] with never"
            raise PtxwcetError(Diagnostic("PW246", message, fact.source.span, help=remedy))
        return outcomes

    def _branch(self, place: Place, source: FactSource) -> int:
        branches = list(self._branches())
        found = [block for block in branches if self._is_at(block, place)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(self._cfg.name(block) for block in branches) or "none"
        problem = "no block ends" if not found else f"{len(found)} blocks end"
        raise PtxwcetError(
            Diagnostic(
                "PW246",
                f"{source.name}: {problem} with a conditional branch at {place} in kernel "
                f"{self._kernel.name}",
                source.span or self._kernel.span,
                notes=(f"blocks that do: {names}",),
                help="name the label of the block that ends with the branch",
            )
        )

    def _branches(self) -> Iterator[BlockId]:
        """The blocks that go on in one of two ways."""
        cfg = self._cfg
        for block in cfg.blocks:
            taken, following = cfg.taken[block.id], cfg.fallthrough[block.id]
            if taken is not None and following is not None and taken != following:
                yield block.id

    def _is_at(self, block: BlockId, place: Place) -> bool:
        return is_at(self._kernel, self._cfg, block, place)
