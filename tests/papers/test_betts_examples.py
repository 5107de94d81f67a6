"""Worked examples of Betts and Donaldson (ECRTS 2013): Fig. 1, Fig. 4, Fig. 6, section VI-D."""

from __future__ import annotations

import pytest
from flow_graphs import loops_in
from hybrid_graphs import graph, interleaved, ipg_of, place, trace_of

from ptxwcet.bounds.occupancy import WaveSchedule
from ptxwcet.flow.graph.divergence import add_branch_divergent_edges
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.methods.hybrid.concurrency import (
    WaveParameters,
    dynamic_estimate,
    hybrid_estimate,
    observe_concurrency,
)
from ptxwcet.methods.hybrid.ipet import WorstCounts, enumerate_paths, loop_constraints, tree_wcet
from ptxwcet.methods.hybrid.ipg import Ipg, build_ipg
from ptxwcet.methods.hybrid.observations import Observations, observe
from ptxwcet.methods.hybrid.slicing import slice_trace
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

# i1 at block 0, i2 at the loop header 1 (its body 2, 3 without ipoints), i3 at 4, i4 is the end
CFG = graph([[1, 4], [2, 5], [3], [1], [5], [6]])
I1, I2, I3, I4 = 0, 1, 4, 6
POINTS = [I1, I2, I3]


@pytest.fixture(scope="module")
def ipg() -> Ipg:
    return ipg_of(CFG, POINTS)


def pairs(ipg: Ipg) -> dict[int, tuple[int, int]]:
    blocks = ipg.placement.blocks
    return {n: (blocks[t.source], blocks[t.target]) for n, t in enumerate(ipg.transitions)}


def worst_times(ipg: Ipg, seen: Observations) -> dict[tuple[int, int], int]:
    return {pairs(ipg)[row.number]: row.worst for row in seen.transitions}


def both_ways(ipg: Ipg, seen: Observations) -> tuple[object, object]:
    worst = {row.number: row.worst for row in seen.transitions}
    constraints = list(loop_constraints(seen.loops, CFG))
    most = {row.number: row.most_count for row in seen.transitions}
    counted = enumerate_paths(ipg, worst, constraints, most)
    bounded = enumerate_paths(ipg, worst, constraints)
    assert isinstance(counted, WorstCounts)
    assert isinstance(bounded, WorstCounts)
    assert counted.is_proved_optimum
    assert counted.cycles == bounded.cycles
    return counted.cycles, tree_wcet(ipg, worst, seen.loops)


def test_fig1_the_graph(ipg: Ipg) -> None:
    """The edges of the text; those of a diverged warp are apart from them."""
    ordinary = {pairs(ipg)[n] for n, t in enumerate(ipg.transitions) if t.is_ordinary}
    assert ordinary == {(I1, I2), (I2, I2), (I2, I4), (I1, I3), (I3, I4)}
    (loop,) = ipg.loops
    assert [pairs(ipg)[n] for n in loop.iterations] == [(I2, I2)]
    assert (I1, I2) in [pairs(ipg)[n] for n in loop.entries]


def test_fig1_gives_31(ipg: Ipg) -> None:
    one = {0: [(I1, 0), (I2, 10), (I2, 17), (I2, 22), (I4, 29)]}
    two = {0: [(I1, 0), (I3, 3), (I4, 8)]}
    trace = trace_of(ipg.placement, [interleaved(one), interleaved(two)])
    seen = observe(ipg, slice_trace(trace, "", ipg))
    times = {(I1, I2): 10, (I2, I2): 7, (I2, I4): 7, (I1, I3): 3, (I3, I4): 5}
    assert worst_times(ipg, seen) == times
    assert [row.most_iterations for row in seen.loops] == [2]
    assert both_ways(ipg, seen) == (31, 31)


TEST_1 = interleaved(
    {
        1: [(I1, 1), (I2, 11), (I4, 26)],
        2: [(I1, 5), (I3, 15), (I4, 29)],
        3: [(I1, 8), (I2, 17), (I4, 35)],
    }
)
TEST_2 = interleaved(
    {
        1: [(I1, 1), (I3, 12), (I4, 25)],
        2: [(I1, 3), (I2, 15), (I4, 30)],
        3: [(I1, 5), (I3, 18), (I4, 31)],
    }
)


def test_fig4_the_running_example(ipg: Ipg) -> None:
    """Traces made to agree with the text: see model figures and section V."""
    traces = slice_trace(trace_of(ipg.placement, [TEST_1, TEST_2]), "", ipg)
    seen = observe(ipg, traces)
    assert worst_times(ipg, seen) == {(I1, I2): 12, (I1, I3): 13, (I2, I4): 18, (I3, I4): 14}
    source = {pairs(ipg)[row.number]: row.worst_warp for row in seen.transitions}
    in_test = {e: (int(traces.run[w]) + 1, int(traces.warp[w])) for e, w in source.items()}
    assert in_test == {(I1, I2): (2, 2), (I1, I3): (2, 3), (I2, I4): (1, 3), (I3, I4): (1, 2)}
    assert both_ways(ipg, seen) == (30, 30)
    concurrency = observe_concurrency(traces)
    assert concurrency.high_water_mark == 34
    assert concurrency.worst_jitter == 7
    assert concurrency.waves == WaveParameters(waves=1, warps_per_wave=3, start_gap=4)
    assert dynamic_estimate(30, concurrency) == 37
    assert hybrid_estimate(30, concurrency.waves) == 38


FIG_2 = {6: (7, 12), 7: (8, 10), 8: (9,), 9: (15,), 10: (11,), 11: (14,), 12: (10, 13)}
FIG_2 |= {13: (14,), 14: (15,), 15: (16,)}


@pytest.mark.parametrize(
    "path",
    [
        (6, 12, 10, 11, 13, 14, 15),  # told in the text
        (6, 7, 10, 11, 14, 12, 10, 11, 13, 14, 15),  # b14 twice, side b7 first
        (6, 12, 13, 14, 7, 8, 10, 11, 14, 15),  # b14 twice, side b12 first: not b8 before b10
        (6, 12, 13, 10, 11, 14, 7, 10, 11, 14, 8, 9, 15),
    ],
)
def test_fig2_warps_are_followed(path: tuple[int, ...]) -> None:
    """Warps that diverge in Fig. 2, with its published edges and with ours."""
    cfg = graph([[target - 6 for target in FIG_2[block]] for block in range(6, 16)])
    forest = loops_in(cfg)
    postdominators = compute_postdominators(cfg)
    published = add_branch_divergent_edges(cfg, forest, postdominators).edges
    deferred = {edge: (edge[0],) for edge in published}
    events = [(block - 6, 0, 0, time) for time, block in enumerate((*path, 16))]
    for edges in (None, deferred):
        ipg = build_ipg(cfg, forest, postdominators, place(cfg), edges)
        trace = trace_of(ipg.placement, [events])
        if 8 in path and path[path.index(8) + 1] == 10:  # b8 leads to b9
            with pytest.raises(PtxwcetError, match="from block 2 to block 4"):
                slice_trace(trace, "", ipg)
        else:
            assert slice_trace(trace, "", ipg).warps == 1


def test_fig6_waves() -> None:
    """s1 s2 s3 t2 ... s4 s5: set-1 is {1, 2, 3}, set-2 {4, 5}; gaps 3, 8 and 5."""
    cfg = graph([[1]])
    ipg = ipg_of(cfg)
    start, end = 0, 1
    events = interleaved(
        {
            1: [(start, 0), (end, 25)],
            2: [(start, 3), (end, 20)],
            3: [(start, 11), (end, 27)],
            4: [(start, 40), (end, 50)],
            5: [(start, 45), (end, 60)],
        }
    )
    traces = slice_trace(trace_of(ipg.placement, [events]), "", ipg)
    assert observe_concurrency(traces).waves == WaveParameters(2, 3, 8)


def test_matrix_transpose_waves_from_the_launch() -> None:
    """Section VI-D and Table II contradict each other: 10 waves by the text, 13 by the table.

    The text: 8 blocks of 256 threads, 8 warps each, on each of 14 multiprocessors: 64 warps a wave,
    10 waves of 1024 blocks. The table: of its Z_hybrid, 26 waves and a gap of 1681 only a phi of 48
    is the rest; that is 6 blocks on a multiprocessor, and 13 waves. The GPU holds 48 warps.
    """
    table = 2_661_646
    found = {phi: hybrid_estimate(23_364, WaveParameters(26, phi, 1681)) for phi in range(1, 200)}
    assert [phi for phi, cycles in found.items() if cycles == table] == [48]
    assert 26 * 1681 == 43_706
    by_text, by_table = (-(-1024 // (14 * blocks)) for blocks in (8, 48 // 8))
    assert (by_text, by_table) == (10, 13)
    assert hybrid_estimate(23_364, WaveParameters(by_text, 64, 1681)) == 1_292_670
    assert hybrid_estimate(23_364, WaveParameters(by_table, 48, 1681)) == 1_330_823
    # the text's waves with the table's warps: less than either, and than the table's own blocks
    assert hybrid_estimate(23_364, WaveParameters(by_text, 48, 1681)) == 1_023_710


@pytest.mark.parametrize(
    ("warp", "table", "waves", "gap"),
    [
        (23_364, 2_661_646, 26, 1681),  # waves and gap as the text has them
        (6_734, 1_314_576, 17, 1502),
        (6_406, 898_864, 16, 1059),
        (6_276, 371_462, 14, 431),
    ],
)
def test_all_transposes_of_table_2_have_48_warps_a_wave(
    warp: int, table: int, waves: int, gap: int
) -> None:
    """Whole waves and gaps that give Table II: one pair each with 48 warps, none with 64."""
    found = {
        phi: [
            (omega, (table // omega - warp) // (phi - 1))
            for omega in range(2, 200)
            if table % omega == 0 and table // omega > warp
            if (table // omega - warp) % (phi - 1) == 0
        ]
        for phi in (48, 64)
    }
    assert found == {48: [(waves, gap)], 64: []}
    assert hybrid_estimate(warp, WaveParameters(waves, 48, gap)) == table


def test_matrix_transpose_waves_of_this_project() -> None:
    """One definition: waves and their warps both follow from the blocks that are resident."""
    text = WaveSchedule(1024, sms=14, resident_blocks=8, warps_per_block=8)
    table = WaveSchedule(1024, sms=14, resident_blocks=6, warps_per_block=8)
    assert (text.waves, text.warps_per_wave) == (10, 64)
    assert (table.waves, table.warps_per_wave) == (13, 48)


@pytest.mark.parametrize(
    ("warp", "table"),
    [(2_801_330, 2_801_337), (4_190_040, 4_190_047), (10_292_800, 10_292_807), (652, 659)],
)
def test_single_waves_of_table_2(warp: int, table: int) -> None:
    """EigenValues and VectorAdd: one wave, a gap of 1; both equations give the same."""
    assert hybrid_estimate(warp, WaveParameters(1, 8, 1)) == table
