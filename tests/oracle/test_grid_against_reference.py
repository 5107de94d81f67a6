"""The compiled grid simulation against a plain one: every event, every block's place and times."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from grid_reference import ReferenceGrid
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn
from warp_nodes import instructions, served

from ptxwcet.simulator import grid_engine
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.grid import (
    GridOptions,
    GridRun,
    GridShape,
    GridWorkload,
    TracedLoop,
    TracedNode,
    TracedVisit,
)
from ptxwcet.simulator.grid_engine import simulate_grid
from ptxwcet.simulator.policies import NO_JITTER, Jitter, Policy
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Mbarrier,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    Step,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

CONFIGURATIONS = [
    SmConfiguration(),
    SmConfiguration(2),
    SmConfiguration(3, {"A": 1, "B": 3, "C": 6}),
    SmConfiguration(4, {"A": 2, "B": 3}),
    SmConfiguration(1, {"A": 2, "C": 3}),
]
END_POINT = 9
INSTRUCTIONS = instructions(
    "ABC", "abcd", unique_names=False, latencies=(0, 1, 3, 7, 20), bubbles=(0, 0, 1, 2)
)


SERVED = st.one_of(INSTRUCTIONS, served(INSTRUCTIONS, 3_000))
Steps = st.SearchStrategy[TimedInstruction]


def visits(one: Steps) -> st.SearchStrategy[TracedVisit]:
    steps = st.lists(one, max_size=4).map(tuple)
    return st.builds(TracedVisit, st.integers(0, END_POINT - 1), steps)


def bodies(one: Steps) -> st.SearchStrategy[tuple[TracedNode, ...]]:
    def wider(inner: st.SearchStrategy[TracedNode]) -> st.SearchStrategy[TracedNode]:
        body = st.lists(inner, max_size=3).map(tuple)
        return st.builds(TracedLoop, st.integers(0, 3), body)

    return st.lists(st.recursive(visits(one), wider, max_leaves=3), max_size=3).map(tuple)


@st.composite
def grids(draw: st.DrawFn, one: Steps = INSTRUCTIONS) -> GridWorkload:
    """Blocks of warps that meet the same barriers in loops, or end before some of them."""
    warps, blocks = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    barriers = [
        TracedVisit(7 + n % 2, (*draw(visits(one)).steps, Barrier(draw(one), str(n))))
        for n in range(draw(st.integers(0, 2)))
    ]
    programs: list[tuple[TracedNode, ...]] = []
    for _ in range(draw(st.integers(1, 3))):
        program = draw(bodies(one))
        for barrier in barriers[: draw(st.integers(0, 9))]:
            program = (*program, TracedLoop(2, (barrier, *draw(bodies(one)))), *draw(bodies(one)))
        programs.append(program)
    of = [[draw(st.integers(0, len(programs) - 1)) for _ in range(warps)] for _ in range(blocks)]
    scoreboard = draw(st.sampled_from(Scoreboard))
    return GridWorkload(tuple(programs), np.array(of, np.int64), END_POINT, scoreboard)


def compiled(
    workload: GridWorkload, shape: GridShape, policy: Policy, seed: int, jitter: Jitter
) -> GridRun:
    return simulate_grid(workload, shape, GridOptions(policy, seed, jitter))


def compare(
    workload: GridWorkload, shape: GridShape, policy: Policy, seed: int, jitter: Jitter
) -> GridRun:
    """The compiled run; both must be the same in everything."""
    expected = ReferenceGrid(workload, shape, policy, seed, jitter)
    expected.run()
    found = compiled(workload, shape, policy, seed, jitter)
    columns = (found.cycle, found.sm, found.warp, found.point)
    events = list(zip(*(column.tolist() for column in columns), strict=True))
    assert sorted(events) == sorted(expected.events)
    assert [row[:2] for row in events] == sorted(row[:2] for row in events)
    for warp in {row[2] for row in events}:  # in the order of its execution, also at equal cycles
        mine = [(row[0], row[3]) for row in events if row[2] == warp]
        assert mine == [(row[0], row[3]) for row in expected.events if row[2] == warp]
    runs = found.blocks
    rows = np.stack([runs.sm, runs.slot, runs.start, runs.end], axis=1).tolist()
    assert rows == [expected.blocks[b] for b in range(workload.block_count)]
    assert expected.most_resident <= shape.resident_blocks
    return found


def contended(warps: int, scoreboard: Scoreboard) -> GridWorkload:
    """Eleven blocks that crowd all units, meet at barriers and end at different times; some warps
    end before the barriers, but after the others have come there.
    """

    def one(unit: str, initiation: int, latency: int, *names: str) -> TimedInstruction:
        return TimedInstruction(unit, initiation, latency, names[:1], names[1:], bubble_cycles=1)

    head = TracedVisit(0, (one("A", 2, 3, "a", "b"), one("B", 1, 9, "b", "c"), one("A", 3, 1, "a")))
    late = replace(one("B", 1, 0, "d", "c"), conditional=True)  # c stays as late as it was
    body = TracedVisit(1, (one("C", 2, 14, "c", "c"), late, one("A", 1, 6, "c", "d")))
    meet = TracedVisit(2, (one("B", 3, 2, "a", "b"), Barrier(one("A", 1, 4)), one("C", 1, 1, "b")))
    tail = TracedVisit(3, ())
    programs = tuple(
        (head, TracedLoop(times, (body, TracedLoop(2, (head, body)))), meet, body, meet, head, tail)
        for times in (1, 3, 6)
    )
    programs = (*programs, (head, TracedVisit(4, (one("C", 1, 400, "c", "a"),))))
    chosen = [[(3 * block + warp * warp) % 4 for warp in range(warps)] for block in range(11)]
    return GridWorkload(programs, np.array(chosen, np.int64), END_POINT, scoreboard)


@pytest.mark.every(5)
@pytest.mark.parametrize("warps", [1, 2, 3, 5])
@pytest.mark.parametrize("sm", CONFIGURATIONS)
@pytest.mark.parametrize("policy", Policy)
def test_every_policy_on_every_shape(policy: Policy, sm: SmConfiguration, warps: int) -> None:
    workload = contended(warps, Scoreboard.RAW_WAW)
    found = compare(workload, GridShape(2, 3, sm), policy, 7, NO_JITTER)
    issued = found.point != 3  # an end comes before what its SM issues in the same cycle
    rows = zip(found.cycle[issued], found.sm[issued], found.point[issued] != END_POINT, strict=True)
    order = [(int(cycle), int(number), bool(later)) for cycle, number, later in rows]
    assert order == sorted(order)
    workload = contended(warps, Scoreboard.RAW)
    compare(workload, GridShape(1, 4, sm, 11), policy, 8, Jitter(40, 5))


@pytest.mark.parametrize("piece", [1, 7])
@pytest.mark.parametrize(("sms", "resident", "gap"), [(3, 2, 0), (2, 6, 0), (2, 2, 40)])
def test_pauses_for_progress_change_nothing(
    sms: int, resident: int, gap: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid_engine, "_PIECE", piece)
    workload = contended(3, Scoreboard.RAW)
    shape = GridShape(sms, resident, SmConfiguration(2), gap)
    found = compare(workload, shape, Policy.GTO, 0, NO_JITTER)
    seen: list[tuple[int, int, int]] = []
    options = GridOptions(Policy.GTO, progress=lambda *row: seen.append(row))
    simulate_grid(workload, shape, options)
    assert found.instructions // (piece + 4) <= len(seen) <= found.instructions // piece
    assert seen == sorted(seen)
    assert {row[1] for row in seen} == {11}


@settings(max_examples=drawn(80), deadline=None)
@given(
    grids(),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(CONFIGURATIONS),
    st.sampled_from((0, 0, 0, 1, 9)),
    st.sampled_from(Policy),
    st.integers(0, 2**62),
    st.sampled_from((0, 0, 40, 100)),
)
def test_every_event_of_random_grids(
    workload: GridWorkload,
    sms: int,
    resident: int,
    sm: SmConfiguration,
    gap: int,
    policy: Policy,
    seed: int,
    percent: int,
) -> None:
    shape = GridShape(sms, resident, sm, gap)
    compare(workload, shape, policy, seed, Jitter(percent, seed // 3))


@settings(max_examples=drawn(24), deadline=None)
@given(
    grids(SERVED),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(CONFIGURATIONS),
    st.sampled_from((0, 300, 3_000)),
    st.sampled_from((0, 0, 9)),
    st.sampled_from(Policy),
    st.integers(0, 2**62),
    st.sampled_from((0, 0, 40)),
)
def test_every_event_where_all_sms_wait_for_one_memory(
    workload: GridWorkload,
    sms: int,
    resident: int,
    sm: SmConfiguration,
    memory: int,
    gap: int,
    policy: Policy,
    seed: int,
    percent: int,
) -> None:
    shape = GridShape(sms, resident, replace(sm, memory_cycles=memory), gap)
    compare(workload, shape, policy, seed, Jitter(percent, seed // 3))


def test_there_is_room_for_all_that_waits() -> None:
    """Stores that nobody waits for: more than there is room for at first."""
    store = TimedInstruction("A", 1, 40, path_cycles=40)
    program = (TracedLoop(3_000, (line(store),)),)
    workload = GridWorkload((program,), np.zeros((2, 1), np.int64), 1, Scoreboard.RAW)
    shape = GridShape(1, 2, SmConfiguration())
    found = compiled(workload, shape, Policy.LRR, 0, NO_JITTER)
    assert found.cycles == 1 + 40 * 6_000


def as_block(workload: GridWorkload) -> BlockWorkload:
    """The only block of a grid, without its points."""

    def nodes(body: tuple[TracedNode, ...]) -> tuple[Node, ...]:
        out: list[Node] = []
        for node in body:
            if isinstance(node, TracedVisit):
                out += node.steps
            else:
                out.append(Repeat(node.count, nodes(node.body)))
        return tuple(out)

    (row,) = workload.chosen.tolist()
    classes = tuple(
        WarpClass(WarpProgram(nodes(body)), tuple(w for w, p in enumerate(row) if p == number))
        for number, body in enumerate(workload.programs)
    )
    return BlockWorkload(classes, workload.scoreboard)


@settings(max_examples=drawn(40), deadline=None)
@given(
    st.one_of(grids(), grids(SERVED)),
    st.sampled_from(CONFIGURATIONS),
    st.sampled_from(Policy),
    st.integers(0, 2**62),
    st.sampled_from((0, 0, 40)),
)
def test_one_block_on_one_sm_is_the_run_of_a_block(
    workload: GridWorkload, sm: SmConfiguration, policy: Policy, seed: int, percent: int
) -> None:
    single = replace(workload, chosen=workload.chosen[:1])
    sm = replace(sm, memory_cycles=3_000 - seed % 2_000)
    jitter = Jitter(percent, seed)
    found = compiled(single, GridShape(1, 1, sm), policy, seed, jitter)
    alone = Simulator(as_block(single), sm).run(policy, seed=seed, jitter=jitter)
    assert found.cycles == alone.cycles
    assert found.instructions == alone.instructions
    ends = found.point == END_POINT
    found_ends = dict(zip(found.warp[ends].tolist(), found.cycle[ends].tolist(), strict=True))
    assert found_ends == {warp.warp: warp.end_cycle for warp in alone.warps}


def joined_grid(rng: random.Random) -> GridWorkload:
    """Blocks whose warps meet at an mbarrier, with copies or without, and at named barriers, where
    some only arrive; all of them as often.
    """
    warps, times, rounds = rng.randint(1, 4), rng.randint(1, 3), rng.randint(0, 2)
    brings, memory = rng.choice((0, 16)), rng.random() < 0.5

    def one() -> TimedInstruction:
        path, sectors = rng.choice(((0, 0), (3, 0), (2, 4), (0, 9))) if memory else (0, 0)
        latency = rng.choice((0, 1, 3, 7, 20)) + path + 3 * sectors
        return TimedInstruction(
            rng.choice("ABC"), rng.randint(1, 4), latency, (rng.choice("ab"),), (rng.choice("ab"),),
            rng.random() < 0.2, rng.choice((0, 0, 2)), path_cycles=path, sectors=sectors,
        )  # fmt: skip

    def some(*steps: Step) -> TracedVisit:
        return line(*(one() for _ in range(rng.randint(0, 2))), *steps, point=rng.randint(0, 8))

    def at(name: str, what: Mbarrier | None = None, *, waits: bool = True) -> TracedVisit:
        return some(PartialBarrier(one(), name, 0 if what else warps, waits, what))

    def asked(parity: int) -> tuple[TracedVisit, ...]:
        copy = Mbarrier(brings=brings, after_cycles=rng.choice((0, 0, 5, 30)))
        copies = (at("m", copy, waits=False),) if brings else ()
        arrives = at("m", Mbarrier(arrivals=1, owes=brings), waits=False)
        return arrives, *copies, at("m", Mbarrier(parity=parity))

    def program(number: int) -> tuple[TracedNode, ...]:
        begun = at("m", Mbarrier(expects=warps), waits=False), some(Barrier(one()))
        meet = at("n"), at("n2", waits=number > 0), at("n")
        return (*begun, TracedLoop(times, (*asked(0), *asked(1), some())), TracedLoop(rounds, meet))

    programs = tuple(program(number) for number in range(rng.randint(1, 3)))
    of = [[rng.randrange(len(programs)) for _ in range(warps)] for _ in range(rng.randint(1, 7))]
    return GridWorkload(programs, np.array(of, np.int64), END_POINT, rng.choice([*Scoreboard]))


@pytest.mark.parametrize("seed", [*range(10), 25])
def test_blocks_whose_warps_meet_in_parts(seed: int) -> None:
    rng = random.Random(seed)
    workload = joined_grid(rng)
    sm = replace(rng.choice(CONFIGURATIONS), memory_cycles=rng.choice((300, 3_000)))
    policy, jitter = rng.choice([*Policy]), Jitter(rng.choice((0, 50, 100)), seed)
    compare(workload, GridShape(rng.randint(1, 3), rng.randint(1, 3), sm), policy, seed, jitter)
    single = replace(workload, chosen=workload.chosen[:1])
    found = compiled(single, GridShape(1, 1, sm), policy, seed, jitter)
    alone = Simulator(as_block(single), sm).run(policy, seed=seed, jitter=jitter)
    assert found.cycles == alone.cycles


def line(*steps: Step, point: int = 0) -> TracedVisit:
    return TracedVisit(point, steps)


def test_loops_without_visits_take_no_time() -> None:
    empty = TracedLoop(10**15, (TracedLoop(0, (line(TimedInstruction("A", 1, 0)),)),))
    program = (empty, line(TimedInstruction("A", 2, 3)))
    workload = GridWorkload((program,), np.zeros((1, 1), np.int64), 1, Scoreboard.RAW)
    found = compiled(workload, GridShape(1, 1, SmConfiguration()), Policy.LRR, 0, NO_JITTER)
    assert found.cycle.tolist() == [0, 5]


def test_many_idle_sms_and_slots_take_no_memory() -> None:
    program = (line(TimedInstruction("A", 1, 0)),)
    workload = GridWorkload((program,), np.zeros((3, 32), np.int64), 1, Scoreboard.RAW)
    shape = GridShape(1000, 100_000, SmConfiguration(4))
    found = compiled(workload, shape, Policy.GTO, 0, NO_JITTER)
    assert found.blocks.sm.tolist() == [0, 1, 2]
    assert found.cycles == 8


def test_a_deadlock_is_refused() -> None:
    one, other = (
        (line(Barrier(TimedInstruction("A", 1, 0), name)),) for name in ("first", "second")
    )
    workload = GridWorkload((one, other), np.array([[0, 1]]), 1, Scoreboard.RAW)
    with pytest.raises(PtxwcetError, match=r"deadlock") as caught:
        compiled(workload, GridShape(2, 1, SmConfiguration()), Policy.LRR, 0, NO_JITTER)
    (problem,) = caught.value.diagnostics
    assert problem.code == "PW532"
    assert problem.notes == ("block 0 on SM 0 at barrier first, barrier second",)


def test_too_many_events_are_refused_before_anything_runs() -> None:
    body = TracedLoop(10**12, (line(TimedInstruction("A", 1, 0)),))
    workload = GridWorkload(((body,),), np.zeros((4, 2), np.int64), 1, Scoreboard.RAW)
    with pytest.raises(PtxwcetError, match=r"8,000,000,000,008 events") as caught:
        compiled(workload, GridShape(1, 1, SmConfiguration()), Policy.LRR, 0, NO_JITTER)
    assert caught.value.diagnostics[0].code == "PW690"
