"""Which transitions enter and iterate a loop: diverged warps, headers without an ipoint."""

from __future__ import annotations

import pytest
from hybrid_graphs import graph, ipg_of, trace_of

from ptxwcet.claims import Refusal
from ptxwcet.methods.hybrid.ipet import tree_wcet
from ptxwcet.methods.hybrid.observations import LoopCounts, measure_coverage, observe
from ptxwcet.methods.hybrid.slicing import slice_trace

pytestmark = pytest.mark.fast


def counted(
    successors: list[list[int]], path: list[int], points: list[int] | None = None
) -> list[tuple[int, int, int]]:
    """Header, most iterations, most entries of each loop for one warp that takes ``path``."""
    ipg = ipg_of(graph(successors), points)
    trace = trace_of(ipg.placement, [[(block, 0, 0, time) for time, block in enumerate(path)]])
    rows = observe(ipg, slice_trace(trace, "", ipg)).loops
    return [(int(row.loop.header), row.most_iterations, row.most_entries) for row in rows]


def test_lanes_that_leave_first_do_not_end_the_loop() -> None:
    """1 splits into 2 (stays) and 3 (leaves); 3 runs first, then the others go on in 2."""
    successors = [[1], [2, 3], [1, 4], [4]]
    assert counted(successors, [0, 1, 3, 2, 1, 3, 2, 1, 2, 4]) == [(1, 2, 1)]


def test_a_back_edge_that_is_put_off_is_an_iteration() -> None:
    """2 splits into 1 (goes back) and 3 (leaves); 3 runs first, then the others begin anew."""
    successors = [[1], [2, 4], [1, 3], [4]]
    assert counted(successors, [0, 1, 2, 3, 1, 2, 3, 1, 4]) == [(1, 2, 1)]


def test_sides_that_both_enter_a_loop_enter_it_twice() -> None:
    """The branch lies before the loop: each side begins it."""
    successors = [[1, 2], [3], [3], [4, 5], [3], [6]]
    assert counted(successors, [0, 1, 2, 3, 4, 3, 4, 3, 5, 6]) == [(3, 2, 1)]
    inside = [[1, 3], [1, 2], [5], [4], [1, 5]]  # 4 -> 1 enters, and so does 0 -> 1
    assert counted(inside, [0, 1, 1, 1, 2, 3, 4, 1, 1, 2, 5]) == [(1, 2, 2)]


def test_the_kernel_begins_in_a_loop() -> None:
    assert counted([[0, 1], [2]], [0, 0, 0, 1, 2]) == [(0, 2, 1)]


def test_inner_loops_count_from_each_entry() -> None:
    successors = [[1], [2], [2, 3], [1, 4]]
    path = [0, 1, 2, 2, 3, 1, 2, 2, 2, 2, 3, 4]
    assert counted(successors, path) == [(1, 1, 1), (2, 3, 2)]


@pytest.mark.parametrize("first", [[3, 5], [5, 3]])
def test_a_transition_that_may_iterate_is_counted(first: list[int]) -> None:
    """From 2 to 4 by 5, or by 3 and the header 1, which is no ipoint; in either order found."""
    successors = [[1], [2, 4], first, [1], [1, 6], [4], [7]]
    assert counted(successors, [0, 2, 4, 6, 7], [2, 4, 6]) == [(1, 1, 1)]


def test_leaving_and_coming_back_is_an_entry() -> None:
    """Ipoints in the inner loop only: 4 to 3 goes by the outer header, or by the inner one."""
    successors = [[1], [2], [3, 5], [4], [2], [1, 6]]
    assert counted(successors, [0, 3, 4, 3, 4, 6], [3, 4]) == [(1, 1, 1), (2, 1, 1)]
    once = [[1], [2], [3], [4], [3, 5], [1, 6]]  # 5 is the only way back to 3's loop from outside
    assert counted(once, [0, 3, 4, 3, 4, 5, 3, 4, 5, 6], [3, 4, 5]) == [(1, 1, 1), (3, 1, 2)]


def test_a_transition_that_iterates_two_loops_has_no_tree() -> None:
    successors = [[1], [2], [3, 5], [2], [1, 5], [4, 6]]
    ipg = ipg_of(graph(successors), [3])
    loops = [LoopCounts(loop, 2, 1) for loop in ipg.loops]
    times = {n: 1 for n, t in enumerate(ipg.transitions) if t.is_ordinary}
    again = next(n for n, t in enumerate(ipg.transitions) if t.source == t.target == 1)
    assert sum(again in loop.iterations for loop in ipg.loops) == 2
    assert isinstance(tree_wcet(ipg, times, loops), Refusal)


def test_coverage_names_what_was_not_seen() -> None:
    """1 -> 3 is never taken, 3 is never reached; loop 2 goes round once, loop 4 never."""
    successors = [[1], [2, 3], [2, 4], [4], [4, 5]]
    ipg = ipg_of(graph(successors))
    path = [0, 1, 2, 2, 4, 5]
    trace = trace_of(ipg.placement, [[(block, 0, 0, time) for time, block in enumerate(path)]])
    coverage = measure_coverage(ipg, observe(ipg, slice_trace(trace, "", ipg)))
    unseen = [ipg.transitions[number] for number in coverage.unseen]
    assert [(t.source, t.target) for t in unseen] == [(1, 3), (4, 4)]
    assert (coverage.seen, coverage.transitions) == (5, 8)
    assert coverage.unreached == (3,)
    assert [ipg.loops[n].header for n in coverage.never_iterated] == [4]
    assert coverage.divergent_seen == 0 < coverage.divergent
