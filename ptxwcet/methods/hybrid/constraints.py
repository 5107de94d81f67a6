"""What bounds the counts of transitions in one warp, beyond flow conservation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.methods.hybrid.ipg import Ipg
from ptxwcet.methods.hybrid.observations import LoopCounts, WarpKinds


@dataclass(frozen=True, slots=True)
class CountConstraint:
    """``sum of coefficient * count of transition <= most`` in every warp; ``name`` for people."""

    name: str
    terms: Mapping[int, int]
    most: int


def loop_constraints(
    loops: Iterable[LoopCounts], cfg: ControlFlowGraph
) -> Iterator[CountConstraint]:
    """Iterations are at most the most iterations of an entry, times the entries."""
    for row in loops:
        loop, bound = row.loop, row.most_iterations
        terms = dict.fromkeys(loop.iterations, 1)
        for number in loop.entries:
            terms[number] = terms.get(number, 0) - bound
        name = f"iterations of loop {cfg.name(loop.header)}"
        yield CountConstraint(name, terms, bound if loop.begins_inside else 0)


def side_constraints(ipg: Ipg, cfg: ControlFlowGraph) -> Iterator[CountConstraint]:
    """A block is executed at most as often as its predecessors in the control-flow graph together.

    The lanes that go from one execution of a predecessor to the block stay together until they
    execute it, now or after other sides. So a cycle of divergent transitions alone, which no loop
    bound concerns, is taken no more often than its branches are executed. One constraint for each
    target of a divergent transition whose predecessors all have ipoints.
    """
    point_at = {block: point for point, block in enumerate(ipg.placement.blocks)}
    into: dict[int, list[int]] = {}
    for number, transition in enumerate(ipg.transitions):
        into.setdefault(transition.target, []).append(number)
    for target in sorted({t.target for t in ipg.transitions if not t.is_ordinary}):
        block = ipg.placement.blocks[target]
        before = [point_at.get(p) for p in cfg.predecessors[block]]
        if block == cfg.exit or None in before:
            continue
        terms = dict.fromkeys(into[target], 1)
        for point in before:
            assert point is not None
            for number in into.get(point, ()):
                terms[number] = terms.get(number, 0) - 1
        # the first execution of the start is in no count: of a predecessor it allows one more, of
        # the target it has no predecessor
        starts = before.count(ipg.placement.start)
        yield CountConstraint(f"executions of {cfg.name(block)}", terms, starts)


def holding(
    constraints: Iterable[CountConstraint], kinds: WarpKinds
) -> tuple[tuple[CountConstraint, ...], tuple[CountConstraint, ...]]:
    """The constraints that every observed warp satisfies, and those that some warp breaks."""
    kept: list[CountConstraint] = []
    broken: list[CountConstraint] = []
    for constraint in constraints:
        holds = kinds.most(constraint.terms) <= constraint.most
        (kept if holds else broken).append(constraint)
    return tuple(kept), tuple(broken)
