"""Hybrid analysis against a warp that diverges at random: nothing executed is outside of it."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from flow_graphs import loops_in
from hybrid_graphs import Event, executed_trace, graph, graphs, ipg_of, place, trace_of, walk
from hypothesis import example, given, settings
from hypothesis import strategies as st
from refusals import refusal_of
from thoroughness import drawn

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.divergence import add_branch_divergent_edges
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.methods.hybrid.concurrency import observe_concurrency
from ptxwcet.methods.hybrid.ipet import (
    WorstCounts,
    enumerate_paths,
    holding,
    loop_constraints,
    side_constraints,
)
from ptxwcet.methods.hybrid.ipg import Ipg, build_ipg
from ptxwcet.methods.hybrid.observations import Observations, observe
from ptxwcet.methods.hybrid.slicing import slice_trace

SEEDS = st.integers(0, 2**32)
POINTS = st.one_of(st.none(), st.sets(st.integers(0, 7)))


def published(cfg: ControlFlowGraph) -> Ipg:
    """With the edges of Fig. 3 alone."""
    forest = loops_in(cfg)
    postdominators = compute_postdominators(cfg)
    edges = add_branch_divergent_edges(cfg, forest, postdominators).edges
    deferred = {edge: (edge[0],) for edge in edges}
    return build_ipg(cfg, forest, postdominators, place(cfg), deferred)


@pytest.mark.parametrize(
    ("successors", "path"),
    [
        # a loop with a break that skips the code for "not found"
        ([[1, 2], [0, 3], [3]], [0, 1, 0, 2, 2, 3]),
        # one target of both exits
        ([[1, 2], [0, 3], [3, 1]], [0, 1, 0, 2, 2, 3]),
        # a switch of three cases that fall through
        ([[1, 2, 3], [2], [3]], [0, 2, 1, 2, 3]),
    ],
)
def test_refuted_fig3_and_completed(successors: list[list[int]], path: list[int]) -> None:
    """Executions that the published edges do not follow; ours do."""
    rng = random.Random(1)
    executed = {tuple(walk(successors, 3, rng) or ()) for _ in range(3000)}
    assert tuple(path) in executed
    cfg = graph(successors)
    events = [(block, 0, 0, time) for time, block in enumerate(path)]
    trace = trace_of(place(cfg), [events])
    assert refusal_of(slice_trace, trace, "", published(cfg)).code == "PW608"
    assert slice_trace(trace, "", ipg_of(cfg)).warps == 1


def by_hand(
    ipg: Ipg, runs: list[list[Event]]
) -> tuple[dict[tuple[int, int], list[int]], dict[tuple[int, int], int], int]:
    """Times of transitions by pair of blocks, their most in a warp, and the longest warp."""
    times: dict[tuple[int, int], list[int]] = {}
    most: dict[tuple[int, int], int] = {}
    longest = 0
    for run in runs:
        for warp in {event[2] for event in run}:
            own = [(block, time) for block, _, w, time in run if w == warp]
            counts: Counter[tuple[int, int]] = Counter()
            for (a, t), (b, u) in pairwise(own):
                times.setdefault((a, b), []).append(u - t)
                counts[a, b] += 1
            for pair, count in counts.items():
                most[pair] = max(most.get(pair, 0), count)
            longest = max(longest, own[-1][1] - own[0][1])
    return times, most, longest


# lanes come into the loop of blocks 1 and 4 unseen, and reach its only ipoint after another side
@example([[2], [0, 2, 4], [0, 3, 5], [1], [0, 1], [6]], {2, 4}, 0)
@given(graphs(7, 3), POINTS, SEEDS)
@settings(max_examples=drawn(250), deadline=None)
def test_everything_executed_is_analysed(
    successors: list[list[int]], points: set[int] | None, seed: int
) -> None:
    """No execution is refused; observations are those by hand; every constraint holds of every
    warp; the estimates are no less than what was seen."""
    cfg = graph(successors)
    chosen = None if points is None else [p for p in points if p < len(successors)]
    placement, runs = executed_trace(successors, chosen, random.Random(seed))
    if not runs:
        return
    ipg = ipg_of(cfg, chosen)
    traces = slice_trace(trace_of(placement, runs), "", ipg)
    seen = observe(ipg, traces)
    times, most, longest = by_hand(ipg, runs)
    blocks = placement.blocks
    found = {}
    for row in seen.transitions:
        transition = ipg.transitions[row.number]
        pair = (int(blocks[transition.source]), int(blocks[transition.target]))
        found[pair] = row
        values = times[pair]
        assert (row.count, row.best, row.worst) == (len(values), min(values), max(values))
        assert row.total == sum(values)
        assert dict(zip(row.values.tolist(), row.counts.tolist(), strict=True)) == Counter(values)
        assert row.most_count == most[pair]
    assert found.keys() == times.keys()
    assert seen.longest_warp == longest
    estimate_holds(ipg, cfg, seen)
    concurrency = observe_concurrency(traces)
    assert concurrency.high_water_mark <= concurrency.worst_jitter + longest


@pytest.mark.parametrize(
    ("successors", "points"),
    [
        ([[2], [0, 2, 4], [0, 3, 5], [1], [0, 1], [6]], [2, 4]),
        ([[3, 5], [0, 5], [1, 3], [2, 3, 4], [0, 1, 5]], [1, 2]),
        ([[2], [0, 4], [1, 3, 4], [1, 2]], [1, 3]),
        ([[4], [3, 5, 6], [1, 3, 6], [3, 6], [0, 5], [2, 4, 6]], [1, 3]),
    ],
)
def test_no_warp_breaks_the_bound_of_a_loop_that_is_entered_unseen(
    successors: list[list[int]], points: list[int]
) -> None:
    cfg = graph(successors)
    ipg = ipg_of(cfg, points)
    for seed in range(60):
        placement, runs = executed_trace(successors, points, random.Random(seed))
        if runs:
            seen = observe(ipg, slice_trace(trace_of(placement, runs), "", ipg))
            assert not holding(loop_constraints(seen.loops, cfg), seen.kinds)[1]


def estimate_holds(ipg: Ipg, cfg: ControlFlowGraph, seen: Observations) -> None:
    constraints = [*loop_constraints(seen.loops, cfg), *side_constraints(ipg, cfg)]
    kept, broken = holding(constraints, seen.kinds)
    assert not broken
    worst = {row.number: row.worst for row in seen.transitions}
    limits = {row.number: row.most_count for row in seen.transitions}
    result = enumerate_paths(ipg, worst, kept, limits)
    assert isinstance(result, WorstCounts)
    assert result.cycles >= seen.longest_warp
    total = sum(worst[number] * count for number, count in result.counts.items())
    assert total == result.cycles or not result.is_proved_optimum


@given(graphs(5, 2), SEEDS)
@settings(max_examples=drawn(120), deadline=None)
def test_path_enumeration_against_all_walks(successors: list[list[int]], seed: int) -> None:
    """The answer is that of trying every walk that satisfies the limits."""
    cfg = graph(successors)
    rng = random.Random(seed)
    placement, runs = executed_trace(successors, None, rng, warps=2, runs=1)
    if not runs or len(runs[0]) > 24:
        return
    ipg = ipg_of(cfg)
    seen = observe(ipg, slice_trace(trace_of(placement, runs), "", ipg))
    constraints = [*loop_constraints(seen.loops, cfg), *side_constraints(ipg, cfg)]
    worst = {row.number: row.worst for row in seen.transitions}
    limits = {row.number: min(row.most_count, 3) for row in seen.transitions}
    result = enumerate_paths(ipg, worst, constraints, limits)
    best = -1
    states = 0
    start, end = placement.start, placement.end
    seen_states = {(start, ())}
    pending: list[tuple[int, tuple[tuple[int, int], ...]]] = [(start, ())]
    while pending:
        point, taken = pending.pop()
        states += 1
        if states > 40_000:
            return
        counts = dict(taken)
        if point == end and all(
            sum(c * counts.get(n, 0) for n, c in row.terms.items()) <= row.most
            for row in constraints
        ):
            best = max(best, sum(worst[n] * c for n, c in counts.items()))
        for number in worst:
            transition = ipg.transitions[number]
            if transition.source == point and counts.get(number, 0) < limits[number]:
                more = tuple(sorted({**counts, number: counts.get(number, 0) + 1}.items()))
                if (transition.target, more) not in seen_states:
                    seen_states.add((transition.target, more))
                    pending.append((transition.target, more))
    if best < 0:
        return  # the cut limits allow no path
    assert isinstance(result, WorstCounts)
    assert result.is_proved_optimum
    assert result.cycles == best


def test_a_cycle_that_hangs_nowhere_is_cut_off() -> None:
    """Blocks 3 and 4 pass lanes to and fro, behind a branch that the worst path avoids."""
    successors = [[1, 2], [5], [3, 4], [5], [5]]
    cfg = graph(successors)
    ipg = ipg_of(cfg)
    numbers = ipg.numbers()
    point = {int(b): p for p, b in enumerate(ipg.placement.blocks)}
    pairs = [(0, 1), (1, 5), (0, 2), (2, 3), (3, 4), (4, 3), (4, 5), (2, 4), (3, 5)]
    times = dict.fromkeys((numbers[point[a], point[b]] for a, b in pairs), 1)
    heavy = numbers[point[0], point[1]]
    times[heavy] = 1000
    limits = dict.fromkeys(times, 7)
    result = enumerate_paths(ipg, times, [], limits)
    assert isinstance(result, WorstCounts)
    assert result.is_proved_optimum
    assert result.cycles == 1001
    assert BlockId(3) not in {
        ipg.placement.blocks[ipg.transitions[n].target] for n in result.counts
    }
