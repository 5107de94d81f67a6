"""The bound of a grid: its forms by hand, its parts, huge grids, what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import pytest
from effort import counted
from parsing import parse_file, parse_kernel
from places import ROOT

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.grid import (
    BlockKind,
    Dispatch,
    GridForm,
    Stretch,
    bound_grid,
    bounds_by_residency,
    chosen_stretch,
    sums_of,
)
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.launch_bound import grid_refusal
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.warp.program import (
    Barrier,
    BlockChoice,
    BlockWorkload,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

pytestmark = pytest.mark.fast


def alike(blocks: int, slack: int = 300, work: int = 200) -> list[BlockKind]:
    return [BlockKind(blocks, slack, work)]


def test_one_sm_by_hand() -> None:
    """W = 20,000; 99 blocks before the last, of which it waits for 49; then its own slack."""
    bound = bound_grid(alike(100), Dispatch(1, 2))
    assert bound.form is GridForm.ONE_SM
    assert bound.cycles == 20_000 + 49 * 300 + 300


def test_fewest_by_hand() -> None:
    """Some SM was given 24 blocks before the last start, 12 in a slot; then two residents."""
    bound = bound_grid(alike(100), Dispatch(4, 2))
    assert bound.cycles == 24 * 200 + 12 * 300 + (300 + 2 * 200) == 9_100
    assert bound.form is GridForm.FEWEST


def test_delays_and_gaps_by_hand() -> None:
    """Each block of a slot waits, the last one too; the launcher is closed 99 times."""
    bound = bound_grid(alike(100), Dispatch(4, 2, delay_cycles=5, gap_cycles=3))
    assert bound.cycles == 9_100 + 13 * 5 + 99 * 3
    assert bound.launcher_cycles == 297


def test_no_more_blocks_than_slots() -> None:
    """Nothing delays a start; residents: two in any greedy order, one breadth first."""
    assert bound_grid(alike(4), Dispatch(4, 2)).cycles == 300 + 2 * 200
    assert bound_grid(alike(4), Dispatch(4, 2, breadth_first=True)).cycles == 300 + 200
    assert bound_grid(alike(1), Dispatch(4, 2)).cycles == 500


def test_split_by_hand() -> None:
    """S = 3, R = 2, B = 8, lambda 0, Y 10 each; n blocks came to the SM of the last before.

    At most n + 1 end there, or the others had floor((7 - n) / 2) and two residents are left:
    min(30, 40) for n = 2, min(40, 40) for n = 3, min(50, 20) for n = 4. ``fewest`` says the same.
    """
    assert bound_grid([BlockKind(8, 0, 10)], Dispatch(3, 2)).cycles == 40


def test_the_largest_blocks_count_where_blocks_differ() -> None:
    kinds = [BlockKind(3, 0, 10), BlockKind(1, 100, 1_000)]
    bound = bound_grid(kinds, Dispatch(1, 1))
    assert bound.cycles == bound_grid(kinds, Dispatch(1, 4)).cycles == 1_030 + 100


def test_long_blocks_keep_the_places_of_short_ones() -> None:
    """Two slots, of which one may have all long blocks, and the others wait for them."""
    kinds = [BlockKind(2, 10, 1), BlockKind(2, 0, 1)]
    assert bound_grid(kinds, Dispatch(1, 2)).cycles == 4 + 10 + 10  # reached: test_grid_attack.py


def test_kinds_may_be_split_and_ordered_in_any_way() -> None:
    one = [BlockKind(6, 5, 7), BlockKind(5, 9, 2, 1)]
    other = [BlockKind(2, 9, 2, 1), BlockKind(6, 5, 7), BlockKind(0, 999, 9), BlockKind(3, 9, 2, 1)]
    for sms, slots in product((1, 2, 3), (1, 2, 5)):
        dispatch = Dispatch(sms, slots, 1)
        assert bound_grid(one, dispatch) == bound_grid(other, dispatch)


def test_busiest_sub_core_where_that_is_less() -> None:
    """Four sub-cores: 100 work altogether, 25 on the busiest; slack is short."""
    summed = bound_grid([BlockKind(8, 10, 100)], Dispatch(1, 4))
    alone = bound_grid([BlockKind(8, 10, 100, 25)], Dispatch(1, 4))
    assert summed.cycles == 800 + 20
    assert alone.cycles == 8 * 35


def section(slack: int, busiest: int, carried: int = 0, cores: int = 4) -> Stretch:
    """A section that all sub-cores have the same work in."""
    others = ((busiest, cores - 1),)
    return Stretch(1, slack, cores * busiest, busiest, others, carried)


def block_of(count: int, *sections: Stretch) -> list[BlockKind]:
    return [BlockKind(count, *sums_of(sections)[:3], sections)]


def test_side_by_side_by_hand() -> None:
    """Without barriers: 7 before the last, one in its slot gave way, 3 others count again."""
    kinds = block_of(8, section(100, 100))
    assert bound_grid(kinds, Dispatch(1, 4)).cycles == (8 + 1 * 3) * 100 + (1 + 1) * 100
    # two SMs: 3 before the last start leave a slot free; then four residents, each counted once
    assert bound_grid(kinds, Dispatch(2, 4)).cycles == 100 + 4 * 100
    # three SMs with a slot each: 2 before the last start, then one resident
    assert bound_grid(kinds, Dispatch(3, 1)).cycles == 2 * 200 + 200


def test_extras_are_those_of_other_sub_cores() -> None:
    """Beside the busiest sub-core, 100, one that has 7: three times 7, no more than there is."""
    part = Stretch(1, 100, 107, 100, ((7, 1),))
    assert bound_grid(block_of(8, part), Dispatch(1, 4)).cycles == 8 * 100 + 3 * 7 + 2 * 100
    parts = (Stretch(1, 50, 5, 5), Stretch(1, 50, 5, 5), part)  # 2 changes, 2 beside, 3 such
    assert bound_grid(block_of(3, *parts), Dispatch(1, 3)).cycles == 3 * (110 + 7) + 200


def test_classes_differ_from_section_to_section() -> None:
    """The first section is light, 10 and 100 of slack, the second heavy, 100 and none.

    5 changes of sub-core before the end of the last block, less one; 3 blocks beside.
    """
    first, second = section(100, 10), section(0, 100)
    bound = bound_grid(block_of(8, first, second), Dispatch(1, 4))
    assert bound.cycles == 8 * (10 + 100) + (2 + 2 - 1) * 3 * 10 + (1 + 1) * 100
    # what light ones leave behind is slack of heavy ones
    bound = bound_grid(block_of(8, first, section(0, 100, 5)), Dispatch(1, 4))
    assert bound.cycles == 8 * (10 + 100 + 5) + (2 + 2 - 1) * 3 * 10 + (1 + 1) * 100
    assert bound.slack_cycles == 8 * 5 + 2 * 100
    # where all are heavy nothing is light
    bound = bound_grid(block_of(8, section(1, 100, 99), section(0, 100, 99)), Dispatch(1, 4))
    assert bound.cycles == 8 * 201


def test_classes_on_several_sms() -> None:
    """Some SM was given 24 blocks before the last start, 12 in a slot: 23 changes of sub-core.

    Then come two residents, with one more.
    """
    bound = bound_grid(block_of(100, section(100, 10), section(0, 100)), Dispatch(4, 2))
    assert bound.form is GridForm.FEWEST
    assert bound.cycles == 24 * 110 + 23 * 10 + 12 * 100 + (100 + 2 * 110 + 10)
    # a section that is run ten times over: as many changes, and extras for each
    often = replace(section(100, 10), times=10)
    bound = bound_grid(block_of(100, often), Dispatch(4, 2))
    assert bound.cycles == 24 * 100 + 119 * 10 + 12 * 1000 + (1000 + 2 * 100 + 9 * 10)
    often = replace(section(100, 10, cores=2), times=100)  # 400 other sub-cores, of which 297 count
    assert bound_grid(block_of(4, often), Dispatch(1, 4)).cycles == 4_000 + 99 * 3 * 10 + 10_000


def test_extras_are_slack_in_the_mean() -> None:
    """50 blocks with 90 of work and little slack, 10 with much slack and little work.

    On two SMs 15 are in chains, with three extras of 9 a section at most, those of the last one
    section left out.
    """
    first, second = Stretch(1, 40, 117, 90, ((9, 3),)), Stretch(1, 900, 2, 2)
    kinds = block_of(50, first) + block_of(10, second)
    waits = [900 + 3 * 9] * 10 + [40 + 3 * 9] * 5
    bound = bound_grid(kinds, Dispatch(2, 4))
    tail = 4 * 90 + 900
    cycles = sum(waits) - 3 * 9 + 50 * 90 + 10 * 2 + tail
    assert (bound.form, bound.cycles) == (GridForm.MEAN, cycles // 2)
    assert bound.slack_cycles == (10 * 900 + 5 * 40 + 900) // 2
    # on four SMs with a slot each nothing runs beside: one after the other
    bound = bound_grid(kinds, Dispatch(4, 1))
    cycles = 50 * (40 + 90) + 10 * 902 + 3 * 902
    assert (bound.form, bound.cycles) == (GridForm.MEAN, cycles // 4)


def test_blocks_of_which_only_sums_are_known() -> None:
    """All work on all sub-cores, or slack of each block; where sub-cores share units the former."""
    kinds = [BlockKind(8, 1_000, 400, 100)]
    assert bound_grid(kinds, Dispatch(1, 4)).cycles == 8 * 400 + 2 * 1_000
    assert bound_grid([BlockKind(8, 10, 400, 100)], Dispatch(1, 4)).cycles == 8 * 110
    kinds = [BlockKind(1, 0, 400), *block_of(8, section(10, 100))]
    assert bound_grid(kinds, Dispatch(1, 4)).cycles == 9 * 400 + 2 * 10 + 10


def test_one_of_several_ways() -> None:
    """The most of each figure, and the other sub-cores of all ways."""
    ways = [(section(7, 3), Stretch(2, 1, 6, 4, ((2, 1),))), (section(8, 1, 6),), ()]
    others = ((3, 3), (2, 2), (1, 3))
    assert chosen_stretch(5, ways) == Stretch(5, 9, 24, 11, others, 6, 3)


def test_more_blocks_never_take_less() -> None:
    parts = (section(20, 5, 1), section(11, 4, 2))
    for sms, slots, known in product((1, 2, 3, 5), (1, 2, 4), ((), parts)):
        dispatch = Dispatch(sms, slots, 2, 1)
        before = 0
        for blocks in range(1, 60):
            bound = bound_grid([BlockKind(blocks, 31, 36, 9, known)], dispatch)
            assert bound.cycles >= before
            assert min(bound.work_cycles, bound.slack_cycles, bound.tail_cycles) >= 0
            before = bound.cycles


def test_bounds_by_residency() -> None:
    kinds = alike(1_000)
    for sms in (1, 4):
        bounds = bounds_by_residency(kinds, Dispatch(sms, 32), 5)
        each = [bound_grid(kinds, Dispatch(sms, slots)) for slots in range(5, 33)]
        assert list(bounds) == each
    # with much work and little slack, many residents are worse: all four may be on one SM
    bounds = bounds_by_residency([BlockKind(4, 1, 1_000)], Dispatch(4, 16))
    assert [bound.cycles for bound in bounds] == [1_001, 2_001, 3_001, 4_001]
    assert len(bounds_by_residency([BlockKind(4, 1, 1_000)], Dispatch(4, 16), 9)) == 1


def test_huge_grids_cost_what_small_ones_do() -> None:
    kinds = [BlockKind(10**9, 100 + n, 200 + n, 50 + n) for n in range(40)]
    few = [BlockKind(10**5, 100 + n, 200 + n, 50 + n) for n in range(40)]
    _, least = counted(lambda: bound_grid(few, Dispatch(16, 8, 3, 2)))
    bound, calls = counted(lambda: bound_grid(kinds, Dispatch(16, 8, 3, 2)))
    assert calls < 2 * least
    assert bound.cycles > 40 * 10**9


def test_no_blocks_no_slots() -> None:
    with pytest.raises(ValueError, match="has a block"):
        bound_grid([], Dispatch(1, 1))
    for bad in ((0, 1), (1, 0), (1, 1, -1), (1, 1, 0, -1)):
        with pytest.raises(ValueError, match=r"SM|delays"):
            Dispatch(*bad)


# --- a block's demand -----------------------------------------------------------------------------

LOAD = TimedInstruction("M", 1, 100, (), ("x",))
USE = TimedInstruction("A", 1, 0, ("x",))
BUSY = TimedInstruction("B", 40, 0)
BARRIER = Barrier(TimedInstruction("A", 1, 0))
MACHINE = load_machine("orin-ecrts2025")


def kind(*classes: tuple[tuple[Node, ...], int], machine: Machine = MACHINE) -> BlockKind:
    out, first = [], 0
    for body, warps in classes:
        out.append(WarpClass(WarpProgram(body), tuple(range(first, first + warps))))
        first += warps
    return block_kind(analyse_block(BlockWorkload(tuple(out), Scoreboard.RAW), machine), 7)


def test_slack_and_work_of_sections() -> None:
    body: tuple[Node, ...] = (LOAD, BARRIER, LOAD, USE)
    found = kind((body, 3))
    assert (found.count, found.slack_cycles, found.work_cycles) == (7, 99 + 100, 3 * 4)


def test_slack_belongs_to_one_way() -> None:
    """On one side long and little charged, on the other short and much: 100, and 80 of work."""
    body = (Choice(((LOAD, USE), (BUSY, BUSY))),)
    found = kind((body, 2))
    assert (found.slack_cycles, found.work_cycles) == (100, 160)


def test_what_the_block_chooses_together_is_the_largest_of_each() -> None:
    sides: tuple[tuple[Node, ...], ...] = ((LOAD, BARRIER, USE), (BUSY, BARRIER, BUSY, BARRIER))
    found = kind(((BlockChoice(1, sides),), 2))
    # what is left behind the last barrier is a choice of each warp: its USE counts with the rest
    assert found.work_cycles == 2 * (40 + 1 + 40 + 1) + 2 * 1
    assert found.slack_cycles >= 99


def test_loops_are_not_unrolled() -> None:
    body: tuple[Node, ...] = (Repeat(10**9, (LOAD, BARRIER)),)
    found = kind((body, 2))
    assert (found.slack_cycles, found.work_cycles) == (99 * 10**9, 4 * 10**9)


def test_sections_of_a_block() -> None:
    """Six warps on four sub-cores: two of them have two warps."""
    one_core, four = MACHINE, replace(MACHINE, schedulers_per_sm=4)
    (one,) = kind(((LOAD, USE), 6), machine=four).stretches
    assert (one.work_cycles, one.busiest_cycles, one.others) == (12, 4, ((4, 1), (2, 1), (2, 1)))
    (one,) = kind(((LOAD, USE), 6), machine=one_core).stretches
    assert (one.work_cycles, one.busiest_cycles, one.others) == (12, 12, ())
    first, again, last = kind(((Repeat(10, (LOAD, BARRIER)), USE), 2)).stretches
    assert [part.times for part in (first, again, last)] == [1, 9, 1]
    # the last waits for a load of the others, they for none
    assert [part.carried_cycles for part in (first, again, last)] == [0, 0, 100]
    # of two that leave the same register the other one counts
    late = TimedInstruction("M", 1, 300, (), ("x",))
    first, second = kind(((LOAD, BARRIER, late, USE), 2)).stretches
    assert (first.carried_cycles, second.carried_cycles) == (0, 100)
    choice, last = kind(((BlockChoice(1, ((BARRIER, BARRIER), (USE, BARRIER))),), 2)).stretches
    assert (choice.sections, last.sections) == (2, 1)
    # one warp waits for no other
    (one,) = kind(((LOAD, BARRIER, USE), 1)).stretches
    assert (one.slack_cycles, one.work_cycles, one.busiest_cycles) == (99, 3, 3)


def test_an_early_exit_costs_a_cycle() -> None:
    stays: tuple[Node, ...] = (BARRIER, USE)
    exits: tuple[Node, ...] = (LOAD,)
    assert kind((stays, 1), (exits, 1)).slack_cycles == 100 + 1
    assert kind((stays, 1), (stays, 1)).slack_cycles == 0


# --- what is refused ------------------------------------------------------------------------------

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{directives}
{{
    .reg .b32 %r<4>;
    {body}
    ret;
}}
"""


@pytest.mark.parametrize(
    ("directives", "body", "named"),
    [
        ("", "", None),
        (".maxntid 32", "mov.u32 %r1, %ctaid.x;", None),
        (".reqnctapercluster 2, 1, 1", "", ".reqnctapercluster"),
        ("", "mov.u32 %r1, %cluster_ctaid.x;", "%cluster_ctaid"),
        ("", "barrier.cluster.arrive;", "barrier.cluster.arrive"),
        ("", "mapa.shared::cluster.u32 %r1, %r2, %r3;", "mapa"),
        ("", "mov.b32 %r1, %envreg2;", "%envreg2"),
        ("", "griddepcontrol.wait;", None),
    ],
)
def test_grids_that_are_refused_by_name(directives: str, body: str, named: str | None) -> None:
    text = PTX.format(directives=directives, body=body)
    refusal = grid_refusal(parse_kernel(text))
    if named is None:
        assert refusal is None
    else:
        assert refusal is not None
        assert named in refusal.reason


def test_samples_are_not_refused() -> None:
    for path in sorted((ROOT / "samples").glob("*.ptx")):
        module = parse_file(path)
        assert [grid_refusal(one) for one in module.kernels if grid_refusal(one)] == []


@pytest.mark.parametrize("slots", range(1, 8))
def test_polls_of_the_blocks_that_poll_most(slots: int) -> None:
    """As if every block of an SM polled as much as those do on average that poll most together."""
    shares = [Fraction(1, 9)] * 2 + [Fraction(1, 16)] * 3 + [Fraction(0)] * 2
    kinds = [replace(alike(shares.count(each))[0], polling=each) for each in sorted(set(shares))]
    most = max(sum(chosen, Fraction(0)) for chosen in combinations(shares, slots))
    average = replace(alike(7)[0], polling=most / slots)
    dispatch = Dispatch(1, slots)
    assert bound_grid(kinds, dispatch).cycles == bound_grid([average], dispatch).cycles
