"""Enumerates paths implicitly (IPET) on the graph of ipoints: worst counts of transitions.

Variables are the counts of the observed transitions. A warp begins once and ends once, and leaves
each ipoint as often as it arrives; loops and sides of branches bound the counts (``constraints``),
and so does the largest observed count of each in one warp ([B] VI-C). A solution may have
disconnected cycles: they are cut off until none is left.

The module also has the calculation by the tree ([B] II-C), which uses only loop bounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ptxwcet.claims import Refusal
from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.methods.hybrid.ipg import Ipg
from ptxwcet.methods.hybrid.observations import LoopCounts, WarpKinds
from ptxwcet.support.graph import reachable, topological_order
from ptxwcet.support.ilp import IntegerProgram, SolverError, SolverStatus
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class CountConstraint:
    """A named constraint on warps: ``sum of coefficient * count of transition <= most``."""

    name: str
    terms: Mapping[int, int]
    most: int


def loop_constraints(
    loops: Iterable[LoopCounts], cfg: ControlFlowGraph
) -> Iterator[CountConstraint]:
    """Yields for each loop: iterations are at most the most of an entry, times entries."""
    for counts in loops:
        loop, bound = counts.loop, counts.most_iterations
        terms = dict.fromkeys(loop.iterations, 1)
        for number in loop.entries:
            terms[number] = terms.get(number, 0) - bound
        name = f"iterations of loop {cfg.name(loop.header)}"
        yield CountConstraint(name, terms, bound if loop.begins_inside else 0)


def side_constraints(ipg: Ipg, cfg: ControlFlowGraph) -> Iterator[CountConstraint]:
    """Yields constraints: a block is executed at most as often as its predecessors together.

    The lanes that go from one execution of a predecessor to the block stay together until they
    execute it, now or after other sides. So a cycle of only divergent transitions, which no loop
    bound concerns, is taken no more often than its branches are executed. There is one constraint
    for each target of a divergent transition whose predecessors all have ipoints.
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
        # The first execution of the start is in no count: as a predecessor it allows one more, and
        # as the target it has no predecessor.
        starts = before.count(ipg.placement.start)
        yield CountConstraint(f"executions of {cfg.name(block)}", terms, starts)


def holding(
    constraints: Iterable[CountConstraint], kinds: WarpKinds
) -> tuple[tuple[CountConstraint, ...], tuple[CountConstraint, ...]]:
    """Returns the constraints that all observed warps satisfy, and the others."""
    kept: list[CountConstraint] = []
    broken: list[CountConstraint] = []
    for constraint in constraints:
        holds = kinds.most(constraint.terms) <= constraint.most
        (kept if holds else broken).append(constraint)
    return tuple(kept), tuple(broken)


SECONDS = 60.0
"""The time limit of each solve; afterwards the best proved upper bound is taken."""
MOST_CUTS = 200


@dataclass(frozen=True, slots=True)
class WorstCounts:
    """The warp-specific WCET and the counts of transitions that lead to it.

    ``cycles`` is no less than the time of any assignment that satisfies the constraints. It is the
    time of ``counts`` if ``is_proved_optimum``: no path within the constraints takes longer by the
    worst times *observed*, which is no statement on unobserved times. Otherwise the search ended
    early and counts are those of its best path, or are connected in parts only.
    """

    cycles: int
    counts: Mapping[int, int]
    is_proved_optimum: bool


def enumerate_paths(
    ipg: Ipg,
    worst: Mapping[int, int],
    constraints: Iterable[CountConstraint],
    most: Mapping[int, int] | None = None,
) -> WorstCounts | Refusal:
    """Returns the largest sum of ``worst`` times of a warp's transitions (IPET).

    ``worst`` holds the observed transitions; ``most`` limits the count of each in a warp, None:
    only the constraints do. Refused if they allow any time. Cost: exponential at worst; seconds for
    hundreds of transitions.
    """
    program = IntegerProgram()
    variables = {
        number: program.add_variable(upper=None if most is None else most[number])
        for number in worst
    }
    _conserve_flow(program, ipg, variables)
    for constraint in constraints:
        terms = {variables[n]: c for n, c in constraint.terms.items() if n in variables and c}
        if terms:
            program.add_constraint(terms, upper=constraint.most)
    objective = {variables[number]: cycles for number, cycles in worst.items()}
    answer: WorstCounts | Refusal = Refusal("no worst path was found")
    for _ in range(MOST_CUTS):
        try:
            solution = program.maximise(objective, seconds=SECONDS)
        except SolverError as error:  # an earlier bound holds with fewer cuts, too
            return answer if isinstance(answer, WorstCounts) else Refusal(f"no worst path: {error}")
        if solution.status is SolverStatus.UNBOUNDED:
            return Refusal("no bound on a cycle of transitions is known")
        if solution.bound is None or not solution.values:
            status = solution.status.value
            return (
                answer if isinstance(answer, WorstCounts) else Refusal(f"no worst path: {status}")
            )
        counts = {n: solution.values[v] for n, v in variables.items() if solution.values[v]}
        loose = _loose_ipoints(ipg, counts)
        is_proved = solution.status is SolverStatus.OPTIMAL and not loose
        answer = WorstCounts(solution.bound, counts, is_proved)
        if not loose or most is None:
            break
        _cut(program, ipg, variables, most, loose)
    return answer


def _conserve_flow(program: IntegerProgram, ipg: Ipg, variables: Mapping[int, int]) -> None:
    for point in range(len(ipg.placement.ipoints)):
        terms: dict[int, int] = {}
        for number, variable in variables.items():
            transition = ipg.transitions[number]
            if transition.source != transition.target:
                if transition.target == point:
                    terms[variable] = 1
                elif transition.source == point:
                    terms[variable] = -1
        come = (point == ipg.placement.end) - (point == ipg.placement.start)
        if terms or come:
            program.add_constraint(terms, lower=come, upper=come)


def _loose_ipoints(ipg: Ipg, counts: Mapping[int, int]) -> frozenset[int]:
    """Returns the ipoints in the counts that cannot be reached from the start."""
    leads: dict[int, list[int]] = defaultdict(list)
    for number in counts:
        leads[ipg.transitions[number].source].append(ipg.transitions[number].target)
    return frozenset(leads) - reachable(leads, [ipg.placement.start])


def _cut(
    program: IntegerProgram,
    ipg: Ipg,
    variables: Mapping[int, int],
    most: Mapping[int, int],
    loose: frozenset[int],
) -> None:
    """Requires for transitions among ``loose`` a transition into them: holds for every path."""
    ends = [(number, ipg.transitions[number]) for number in variables]
    coming = [n for n, t in ends if t.target in loose and t.source not in loose]
    for number, transition in ends:
        if transition.source in loose and transition.target in loose:
            terms = {variables[other]: -most[number] for other in coming}
            program.add_constraint({**terms, variables[number]: 1}, upper=0)


_SINK = -1
_NO_LOOP = Refusal("transitions make a cycle that is no loop: there is no tree")
Edges: TypeAlias = list[tuple[int, int, int]]
"""Source, target, and duration."""


def tree_wcet(ipg: Ipg, worst: Mapping[int, int], loops: Sequence[LoopCounts]) -> int | Refusal:
    """Returns the warp-specific WCET by the tree ([B] II-C); ``worst``: observed transitions.

    Leaves are transitions, inner vertices sequences, alternatives and loops; a sequence takes the
    sum of its parts, an alternative the maximum, a loop its bound times the body. The tree itself
    is not built: loops are processed from the inside out, each as time spent at its first ipoint,
    and sequences and alternatives without a loop take the longest of their paths.

    Refused if a warp diverged between two sides (such transitions make cycles that no loop bounds),
    if a loop is entered at several ipoints or continues at another one than its entry (its header
    is not an ipoint), or if a transition iterates two loops. Cost: linear in the transitions for
    each loop.
    """
    if any(not ipg.transitions[number].is_ordinary for number in worst):
        return Refusal("a diverged warp passes from side to side: such a graph has no tree")
    heads: list[tuple[int, LoopCounts]] = []
    iterating: set[int] = set()
    for counts in loops:
        own = {number for number in counts.loop.iterations if number in worst}
        if not own:
            continue
        head = _head(ipg, counts, worst)
        if head is None or own & iterating:
            return Refusal("a loop without a single first ipoint has no tree")
        iterating |= own
        heads.append((head, counts))
    steps = {n: (ipg.transitions[n].source, ipg.transitions[n].target, worst[n]) for n in worst}
    forward = [step for number, step in steps.items() if number not in iterating]
    spent: dict[int, int] = {}
    for head, counts in sorted(heads, key=lambda e: (len(e[1].loop.ipoints), -e[1].loop.id)):
        loop = counts.loop
        edges = [step for step in forward if step[0] in loop.ipoints and step[1] in loop.ipoints]
        again = [steps[number] for number in loop.iterations if number in worst]
        body = _longest(head, _SINK, edges + [(edge[0], _SINK, edge[2]) for edge in again], spent)
        if body is None:
            return _NO_LOOP
        spent[head] = spent.get(head, 0) + counts.most_iterations * body
    whole = _longest(ipg.placement.start, ipg.placement.end, forward, spent)
    return _NO_LOOP if whole is None else whole


def _head(ipg: Ipg, counts: LoopCounts, observed: Collection[int]) -> int | None:
    """Returns the ipoint of a loop's entry and iteration; None if these are several."""
    numbers = {*counts.loop.entries, *counts.loop.iterations}
    targets = {ipg.transitions[number].target for number in numbers if number in observed}
    return targets.pop() if len(targets) == 1 else None


def _longest(source: int, sink: int, edges: Edges, spent: Mapping[int, int]) -> int | None:
    """Returns the longest path from ``source`` to ``sink``; ``spent`` is added at each vertex.

    None if there is a cycle or no path.
    """
    order = topological_order(source, ((start, target) for start, target, _ in edges))
    leaving: dict[int, list[tuple[int, int]]] = {}
    for start, target, cycles in edges:
        leaving.setdefault(start, []).append((target, cycles))
    longest = {sink: 0}
    for vertex in reversed(order or ()):
        ways = [cycles + longest[t] for t, cycles in leaving.get(vertex, ()) if t in longest]
        if ways and vertex != sink:
            longest[vertex] = spent.get(vertex, 0) + max(ways)
    return longest.get(source)
