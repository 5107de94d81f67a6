"""The theorems of docs/methods/grid.md against a machine that knows nothing of the product."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from grid_attack import (
    CONTROLS,
    FAMILIES,
    OPEN,
    TINY,
    Family,
    Tally,
    attack,
    bubble_of,
    busiest_in_waves,
    clocks_of,
    demands_of,
    evenly,
    kind_of,
    longest_by_chance,
    order_of,
    pieces_of,
    random_classes,
    random_grid,
    search_all,
    theorem,
    without_exits,
)
from grid_machine import GREEDY, LATE, Block, Grid, Op, Run, Warp, demand, run_grid
from grid_machine_fast import (
    EXTRA,
    HEAVY,
    LIGHT,
    SCRIPT,
    YOUNGEST,
    Clock,
    image,
    nominal,
    run_fast,
)

from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.grid import (
    GridOptions,
    GridShape,
    GridWorkload,
    TracedProgram,
    TracedVisit,
)
from ptxwcet.simulator.grid_engine import simulate_grid
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.validate.cases import Case
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

# --- the two machines -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_both_machines_run_every_block_alike(family: Family) -> None:
    """The compiled one follows the choices of the plain one, with the same shortened timings."""
    for seed in range(15):
        grid = random_grid(family, seed)
        rng = random.Random(seed)
        order = list(order_of(grid))
        rng.shuffle(order)
        demands = demands_of(grid)
        clocks = clocks_of(demands, random_classes(grid, demands, seed))
        made = image(grid, tuple(order), clocks)
        actual = made.ops[made.kind_of][:, :, :, 1:3].copy()
        for cell in np.ndindex(*actual.shape[:3]):
            actual[cell] = [rng.randint(min(1, int(most)), int(most)) for most in actual[cell]]
        choices: list[int] = []

        def choose(_: str, options: int) -> int:
            choices.append(rng.randrange(options))  # noqa: B023
            return choices[-1]  # noqa: B023

        plain = run_grid(
            grid,
            tuple(order),
            choose,
            lambda b, w, k: tuple(map(int, actual[b, w, k])),  # noqa: B023
        )
        out = np.zeros((len(order), 4), np.int64)
        script = np.array([*choices, 0], np.int64)
        cycles, count, _ = run_fast(
            *(made.shape, made.kind_of, made.lengths, made.ops, made.demand),
            *(actual, SCRIPT, script, np.zeros_like(script), out, np.zeros((1, 1), np.int64)),
        )
        assert (cycles, count) == (plain.cycles, len(choices))
        assert [tuple(row) for row in out.tolist()] == list(plain.blocks)


# --- random grids, all schedules ------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_no_run_of_a_random_grid_exceeds_the_bound(family: Family) -> None:
    tally = attack(family, range(10_000, 10_150))
    assert tally.witnesses == []
    assert tally.cases == 150
    assert tally.equal > 0  # some runs reach it


def test_no_schedule_of_a_tiny_grid_exceeds_the_bound() -> None:
    tally = Tally()
    for seed in range(400):
        grid = random_grid(TINY, seed)
        found = search_all(grid, seed, 2_000)
        if found is not None:
            tally.add(grid, *found)
    assert tally.witnesses == []
    assert tally.cases > 350
    assert tally.equal > tally.cases / 5
    for name in ("tail", "breadth"):
        checked, failed = tally.controls[name]
        assert failed > checked / 50


def test_what_is_false_fails() -> None:
    """Controls: the attack finds what is wrong. Two of them need cases of their own, below."""
    tally = attack(FAMILIES[2], range(20_000, 20_400))
    assert set(tally.controls) <= {*CONTROLS, *OPEN}
    for name, least in (("tail", 0.1), ("breadth", 0.05), ("slack", 0.5)):
        checked, failed = tally.controls[name]
        assert failed > least * checked, name
    carried = next(family for family in FAMILIES if family.carried)
    tally = attack(carried, range(800, 900), 20)
    assert tally.witnesses == []
    for name in ("carry", "extras", "once", "busiest"):
        assert tally.controls[name][1] > 0, name
    assert attack(FAMILIES[1], range(30_000, 30_300)).controls["evenly"][1] > 0


# --- worked examples of the page ------------------------------------------------------------------


def last_first(grid: Grid, order: tuple[int, ...]) -> Run:
    """Blocks go to the first SM; of eligible warps, the one in the last slot issues."""

    def timing(block: int, warp: int, place: int) -> tuple[int, int]:
        op = grid.kinds[order[block]][warp][place]
        return op.init, op.lat

    return run_grid(grid, order, lambda what, m: m - 1 if what == "issue" else 0, timing)


def barriers(latency: int) -> Grid:
    one = Op(0)
    bar = Op(0, is_barrier=True)
    load = Op(0, 1, latency)
    first: Block = ((one, bar, bar, load), (bar, one, bar))
    second: Block = ((one,) * latency, (load, *[Op(0, reads=(0,))] * latency))
    return Grid((first, second), (1, 1), slots=2, cores=2)


@pytest.mark.parametrize(
    ("latency", "end", "sharper", "in_waves"),
    [(10, 34, 26, 38), (40, 124, 86, 128), (200, 604, 406, 608)],
)
def test_barriers_couple_sub_cores(latency: int, end: int, sharper: int, in_waves: int) -> None:
    grid = barriers(latency)
    demands = tuple(demand(block, 2) for block in grid.kinds)
    assert last_first(grid, (0, 1)).cycles == end
    assert busiest_in_waves(grid, demands) == sharper
    assert sum(one.work for one in demands) + max(one.slack for one in demands) == in_waves
    assert end <= theorem(grid, demands) == in_waves - 2  # one after another is less here


def free_of_barriers(latency: int) -> Grid:
    one = Op(0)
    load, use = Op(0, 1, latency), Op(0, reads=(0,))
    waiting: Block = ((), (load, use))
    short: Block = ((load,), ())
    busy: Block = ((load, *[use] * latency), (one,) * latency)
    return Grid((waiting, short, busy), (1, 2, 1), slots=2, cores=2)


@pytest.mark.parametrize(
    ("latency", "end", "sharper"), [(3, 15, 14), (5, 23, 20), (40, 163, 125), (200, 803, 605)]
)
def test_slots_couple_sub_cores_without_barriers(latency: int, end: int, sharper: int) -> None:
    """The busiest sub-core, then waves: false without barriers too."""
    grid = free_of_barriers(latency)
    demands = tuple(demand(block, 2) for block in grid.kinds)
    run = last_first(grid, (0, 1, 2, 1))
    assert run.cycles == end
    assert [row[2:] for row in run.blocks] == [
        (0, 2 * latency + 2),
        (0, latency + 1),
        (latency + 1, 3 * latency + 2),
        (2 * latency + 2, 4 * latency + 3),
    ]
    assert busiest_in_waves(grid, demands) == sharper
    assert end <= theorem(grid, demands)


@pytest.mark.parametrize(("latency", "readers", "claimed"), [(2, 3, 20), (7, 8, 50), (40, 41, 248)])
def test_blocks_that_are_all_alike_exceed_the_sharper_claim(
    latency: int, readers: int, claimed: int
) -> None:
    """Four blocks of two equal warps, one on each sub-core, in two slots: 21, 56 and 287."""
    warp = (Op(0, 1, latency), *[Op(0, reads=(0,))] * readers)
    grid = Grid(((warp, warp),), (4,), slots=2, cores=2)
    demands = demands_of(grid)
    assert busiest_in_waves(grid, demands) == claimed
    longest = max(longest_by_chance(grid, seed, 300)[2] for seed in range(40))
    assert claimed < longest <= theorem(grid, demands)


def above(grid: Grid, clocks: tuple[Clock, ...]) -> int:
    """By how much a run exceeds the clock; warps of the block that started last go first."""
    made = image(grid, order_of(grid), clocks)
    cells = (made.shape, made.kind_of, made.lengths, made.ops, made.demand)
    script = np.zeros(1_000, np.int64)
    out, none = np.zeros((grid.blocks, 4), np.int64), np.zeros((1, 1), np.int64)
    found = run_fast(*cells, nominal(made), YOUNGEST, script, np.zeros_like(script), out, none)
    return int(found[2])


@pytest.mark.parametrize("has_bubbles", [False, True])
def test_heavy_sections_wait_for_what_others_leave_behind(has_bubbles: bool) -> None:
    """What keeps the second block's second section from issuing is the first one's, a light one.

    Its uses delay the first block on q1 at 60, and again on q0 at 150, where it has gone meanwhile.
    """
    bar, one = Op(0, is_barrier=True), Op(0)
    load, then = Op(0, 1, 60), Op(0, 1, 60, reads=(0,))
    first: Block = ((bar, one), (load, then, replace(bar, reads=(1,))))

    def warp(late: int) -> Warp:
        if has_bubbles:
            return (replace(bar, bubble=late), *[one] * 30)
        return (replace(load, lat=late), bar, *[replace(one, reads=(0,))] * 30)

    grid = Grid((first, (warp(150), warp(60))), (1, 1), slots=2, cores=2)
    demands, classes = demands_of(grid), ((LIGHT, LIGHT), (LIGHT, HEAVY))
    assert above(grid, clocks_of(demands, classes, carry=False)) > 20
    assert above(grid, clocks_of(demands, classes)) <= 0


def test_what_is_left_behind_is_latency_and_not_slack() -> None:
    """The slack of the section that leaves a result behind does not bound how long it takes.

    In the second section of the second block three initiations of 42 and a load of 122 wait for
    loads of the first section, and so come one after another. Alone they would overlap, so that the
    section has no slack; here each delays the first block, and none of it is left for the load.
    """
    bar, one = Op(3, is_barrier=True), Op(3)
    a: Block = (
        (Op(0), Op(1, reads=(0,)), Op(2, reads=(1,)), replace(bar, reads=(2,)), bar, one),
        (bar, Op(3, 1, 57), Op(3, 1, 8, reads=(1,)), replace(bar, reads=(2,))),
    )
    loads = [Op(3, 1, late) for late in (42, 84, 126)]
    chain = (Op(0, 42), Op(1, 42, reads=(0,)), Op(2, 42, reads=(1,)))
    b: Block = (
        (*loads, bar, *chain, Op(3, 1, 122, reads=(2,)), bar, *[Op(3, reads=(7,))] * 50),
        (loads[2], bar, *(Op(unit, 20) for unit in range(3)), Op(3, 1, 57, reads=(0,)), bar)
        + (Op(3, reads=(5,)),) * 50,
    )
    grid = Grid((a, b), (1, 1), slots=2, cores=2)
    demands, classes = demands_of(grid), ((LIGHT,) * 3, (LIGHT, EXTRA, HEAVY))
    last = demands[1].parts[2]
    assert (demands[1].parts[1].slack, last.carried) == (0, (0, 122))
    assert above(grid, clocks_of(demands, classes, carry=False)) > 30
    assert above(grid, clocks_of(demands, classes)) <= 0


@pytest.mark.parametrize("late", [0, 1])
def test_exits_that_count_late(late: int) -> None:
    """A1: `w0: BAR A(1,0); A(1,0)`, `w1: A(1,5)`."""
    block: Block = ((Op(0, is_barrier=True), Op(0)), (Op(0, 1, 5),))
    grid = Grid((block,), (1,), late=late)
    found = search_all(grid)
    assert found is not None
    demands, _, longest, _, _ = found
    assert longest == 8 + late
    assert theorem(grid, demands) == 9
    assert without_exits(grid, demands) in (None, 8)


def test_places_that_are_given_away_in_turn() -> None:
    """A short block's place waits for the long one before it: 24, and 19 by the mean of slots."""
    grid = Grid((((Op(0, 1, 10),),), ((Op(0),),)), (2, 2), slots=2, turns=LATE)
    demands = demands_of(grid)
    run = last_first(grid, (0, 1, 0, 1))
    assert [row[2:] for row in run.blocks] == [(0, 12), (0, 1), (12, 24), (12, 13)]
    assert evenly(grid, demands) == 19 < run.cycles == theorem(grid, demands)
    assert last_first(replace(grid, turns=GREEDY), (0, 1, 0, 1)).cycles < 19


def test_dispatch_that_is_not_breadth_first() -> None:
    """A2: both blocks on one of two SMs, after a delay of 1."""
    block: Block = ((Op(0), Op(0)),)
    grid = Grid((block,), (2,), sms=2, slots=2, delay=1)
    found = search_all(grid)
    assert found is not None
    assert found[2] == 5 == theorem(grid, found[0])
    assert theorem(replace(grid, breadth=True), found[0]) == 3


# --- the product's own machine, and its own slack -------------------------------------------------


def as_workload(block: Block) -> BlockWorkload:
    """A class a warp; results go to registers named by place."""
    classes = []
    for number, warp in enumerate(block):
        body: list[Node] = []
        for place, op in enumerate(warp):
            names = tuple(f"r{read}" for read in op.reads)
            one = TimedInstruction(
                "ABCD"[op.unit], op.init, op.lat, names, (f"r{place}",), bubble_cycles=op.bubble
            )
            body.append(Barrier(one) if op.is_barrier else one)
        classes.append(WarpClass(WarpProgram(tuple(body)), (number,)))
    return BlockWorkload(tuple(classes), Scoreboard.RAW)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_the_product_computes_what_the_definitions_say(family: Family) -> None:
    for seed in range(40):
        grid = random_grid(family, seed)
        for block in grid.kinds:
            analysis = Case("", as_workload(block), schedulers=grid.cores).analyse()
            kind = block_kind(analysis, 3)
            said = demand(block, grid.cores)
            assert kind.count == 3
            assert (kind.work_cycles, kind.busiest_cycles) == (said.work, said.busiest)
            if len(block) > 1:
                assert kind.slack_cycles == said.slack
                assert pieces_of(kind) == pieces_of(kind_of(3, said), bubble_of(block))
            else:  # barriers are ordinary instructions there, if that is less
                assert kind.slack_cycles <= said.slack
            # a block that has the SM to itself: its own bound is no less than what it is made of
            if grid.cores == 1 and not any(op.bubble for warp in block for op in warp):
                assert bound_safe(analysis).cycles <= said.slack + said.work


def test_the_simulator_goes_on_in_the_cycle_of_an_exit() -> None:
    """The machine of docs/guide/run.md satisfies A1: 8 cycles, not 9."""
    block: Block = ((Op(0, is_barrier=True), Op(0)), (Op(0, 1, 5),))
    simulator = Simulator(as_workload(block), SmConfiguration())
    assert {simulator.run(policy).cycles for policy in Policy} == {7, 8}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_no_run_of_the_grid_simulator_exceeds_the_bound(family: Family) -> None:
    """LRR, GTO, youngest first and by chance, with jitter; blocks go to the SMs in turn."""
    for seed in range(12):
        grid = replace(random_grid(family, 500 + seed), servers=1, late=0, breadth=True)
        programs: list[TracedProgram] = []
        rows = []
        for block, count in zip(grid.kinds, grid.counts, strict=True):
            first = len(programs)
            for one in as_workload(block).classes:
                steps = tuple(
                    node
                    for node in one.program.body
                    if isinstance(node, TimedInstruction | Barrier)
                )
                programs.append((TracedVisit(0, steps),))
            rows += [range(first, len(programs))] * count
        random.Random(seed).shuffle(rows)
        workload = GridWorkload(
            tuple(programs), np.array([list(row) for row in rows]), 1, Scoreboard.RAW
        )
        servers = dict.fromkeys("ABCD", 1 if grid.shared else grid.cores)
        shape = GridShape(grid.sms, grid.slots, SmConfiguration(grid.cores, servers), grid.gap)
        claimed = theorem(grid, demands_of(grid))
        for policy in (Policy.LRR, Policy.GTO, Policy.YOUNGEST, Policy.RANDOM):
            for jitter in (0, 50):
                run = simulate_grid(
                    workload, shape, GridOptions(policy, seed, Jitter(jitter, seed))
                )
                assert run.cycles <= claimed
