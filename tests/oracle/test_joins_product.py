"""The product's bounds of blocks with joins: against the definitions, against runs of its
simulators, with loops against without.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from join_attack import FAMILIES, TINY, Family, random_case
from join_machine import Block, Machine, NoGraphError, Op, event_graph, say

from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.lower import bound_lower
from ptxwcet.bounds.memory_servers import memory_demand
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.simulator.grid import GridOptions, GridShape
from ptxwcet.simulator.grid_engine import simulate_grid
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.validate.cases import Case
from ptxwcet.validate.checks import Bounds
from ptxwcet.validate.grids import GridCase, bound_case, grid_workload
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Choice,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
    unroll,
)

BLOCKS = [family for family in FAMILIES if family.blocks == (1, 1)]


def as_workload(block: Block) -> BlockWorkload:
    """A register for each result, a class for each warp."""

    def node(place: int, op: Op) -> Node:
        timed = TimedInstruction(
            f"U{op.unit}",
            op.init,
            op.lat,
            tuple(f"r{read}" for read in op.reads),
            (f"r{place}",),
            bubble_cycles=op.bubble,
            origin=place,
        )
        if op.join is None:
            return timed
        return PartialBarrier(timed, str(op.join.name), op.join.count, op.join.waits)

    return BlockWorkload(
        tuple(
            WarpClass(WarpProgram(tuple(node(n, op) for n, op in enumerate(warp))), (number,))
            for number, warp in enumerate(block)
        ),
        Scoreboard.RAW,
    )


def as_case(block: Block, machine: Machine) -> Case:
    units = sorted({op.unit for warp in block for op in warp})
    each = machine.servers * (1 if machine.shared else machine.cores)
    named = () if each == machine.cores else tuple((f"U{unit}", each) for unit in units)
    return Case("", as_workload(block), schedulers=machine.cores, servers=named)


def cases(family: Family, seeds: range) -> Iterator[tuple[int, Block, Case]]:
    for seed in seeds:
        drawn = random_case(family, seed)
        yield seed, drawn.blocks[0], as_case(drawn.blocks[0], drawn.machine)


@pytest.mark.parametrize("family", [*BLOCKS, TINY], ids=lambda one: one.name)
def test_the_product_says_what_the_definitions_say(family: Family) -> None:
    known = 0
    for seed, block, case in cases(family, range(60)):
        try:
            graph = event_graph(block)
        except NoGraphError:
            with pytest.raises(PtxwcetError) as refused:
                case.analyse()
            assert refused.value.diagnostics[0].code == "PW504"
            continue
        known += 1
        machine = replace(random_case(family, seed).machine, shared=False, servers=1)
        said = say(block, graph, machine)
        analysis = case.analyse()
        (section,) = analysis.sections
        if section.joined is None:
            assert all(op.join is None for warp in block for op in warp)
            continue
        assert section.joined.slack_cycles == said.slack
        assert section.joined.work_cycles == said.work
        private = analysis.has_private_units
        assert section.joined.serial_cycles == (said.serial if private else None)
        kind = block_kind(analysis, 2)
        assert (kind.slack_cycles, kind.work_cycles) == (said.slack, said.work)
        assert kind.serial_cycles == (said.serial if private else None)
        assert section.joined.apart_cycles == (said.apart if private else None)
        groups = (said.serial, said.apart) if private else ()
        assert bound_safe(analysis).cycles == min((said.slack + said.work, *groups))
    assert known > 10


def served(case: Case, rng: random.Random) -> Case:
    """Some instructions go on to the path of the SM and to the memory of the GPU."""

    def sent(node: Node) -> Node:
        if not isinstance(node, TimedInstruction) or rng.random() < 0.5:
            return node
        path, sectors = rng.choice((0, 1, 5)), rng.choice((0, 1, 32))
        latency = node.latency_cycles + path + -(-300 * sectors // 1024)
        return replace(node, latency_cycles=latency, path_cycles=path, sectors=sectors)

    classes = tuple(
        replace(one, program=WarpProgram(tuple(map(sent, one.program.body))))
        for one in case.workload.classes
    )
    return replace(case, workload=replace(case.workload, classes=classes), memory_cycles=300)


@pytest.mark.parametrize("family", BLOCKS, ids=lambda one: one.name)
def test_no_run_of_the_simulators_exceeds_the_bounds(family: Family) -> None:
    for seed, _, plain_case in cases(family, range(300, 325)):
        case = served(plain_case, random.Random(seed)) if seed % 2 else plain_case
        try:
            analysis = case.analyse()
        except PtxwcetError:
            continue
        bound, lower = bound_safe(analysis), bound_lower(analysis)
        simulator = Simulator(case.workload, case.configuration)
        for policy in Policy:
            for jitter in (Jitter(0, 0), Jitter(100, seed)):
                run = simulator.run(policy, seed=seed, jitter=jitter)
                plain = reference_run(
                    case.workload, case.configuration, policy, seed=seed, jitter=jitter
                )
                assert run.cycles == plain.cycles <= bound.cycles
                if isinstance(lower, BlockBound) and not jitter.percent:
                    assert lower.cycles <= run.cycles


def test_no_schedule_of_tiny_blocks_exceeds_the_bound() -> None:
    reached = 0
    for _, _, case in cases(TINY, range(600, 660)):
        try:
            bound = bound_safe(case.analyse()).cycles
        except PtxwcetError:
            continue
        worst = search_worst(case.workload, case.configuration).cycles
        assert worst <= bound
        reached += worst == bound
    assert reached > 3


LAUNCHES = [family for family in FAMILIES if family.blocks != (1, 1)]


@pytest.mark.parametrize("family", LAUNCHES, ids=lambda one: one.name)
def test_no_simulated_launch_exceeds_its_bound(family: Family) -> None:
    known, tightest = 0, 0.0
    for seed in range(40):
        drawn = random_case(family, seed)
        blocks = [*dict.fromkeys(drawn.blocks)]
        if len({len(block) for block in blocks}) > 1:
            continue
        kinds = tuple(as_case(block, drawn.machine) for block in blocks)
        of = tuple(blocks.index(block) for block in drawn.blocks)
        grid = GridCase("", kinds, of, drawn.machine.sms, drawn.machine.slots, 0)
        try:
            bound = bound_case(grid, Bounds())
        except PtxwcetError:
            continue
        known += 1
        workload = grid_workload(grid)
        shape = GridShape(grid.sms, grid.resident_blocks, kinds[0].configuration)
        for policy in Policy:
            for jitter in (Jitter(0, 0), Jitter(100, seed)):
                run = simulate_grid(workload, shape, GridOptions(policy, seed, jitter))
                assert run.cycles <= bound
                tightest = max(tightest, run.cycles / bound)
    assert known > 8
    assert tightest > 0.7


def test_what_passes_the_path_is_work_of_groups_too() -> None:
    """A launch whose blocks are bounded group after group waits for all of it."""
    known = 0
    for seed, _, plain in cases(BLOCKS[0], range(500, 540)):
        case = served(plain, random.Random(seed))
        try:
            analysis = case.analyse()
        except PtxwcetError:
            continue
        (section,), demand = analysis.sections, memory_demand(analysis)
        kind = block_kind(analysis, 1)
        if section.joined is None or section.joined.serial_cycles is None:
            continue
        assert kind.serial_cycles == section.joined.serial_cycles + demand.path_cycles
        known += demand.path_cycles > 0
    assert known > 3


# --- loops ----------------------------------------------------------------------------------------


def ring(rng: random.Random, *, nested: bool) -> tuple[BlockWorkload, BlockWorkload]:
    """Producers and consumers of some stages, in loops and without."""
    stages, rounds = rng.randint(1, 3), rng.randint(1, 9)
    producers, consumers = rng.randint(1, 2), rng.randint(1, 3)
    warps = producers + consumers

    def some() -> tuple[Node, ...]:
        return tuple(
            TimedInstruction(
                rng.choice("AB"), rng.randint(1, 4), rng.randint(0, 30), ("x",), (rng.choice("xy"),)
            )
            for _ in range(rng.randint(0, 3))
        )

    def join(name: int, *, waits: bool) -> Node:
        return PartialBarrier(TimedInstruction("A", 1, 2), str(name), warps, waits)

    def rows(*, makes: bool) -> tuple[Node, ...]:
        body: list[Node] = [*some()]
        for stage in range(stages):
            first, second = 2 * stage + makes, 2 * stage + (not makes)
            body += [join(first, waits=True), *some(), join(second, waits=False), *some()]
        return tuple(body)

    def warp(*, makes: bool) -> tuple[Node, ...]:
        inner = Repeat(rounds, rows(makes=makes))
        loop: tuple[Node, ...] = (inner, *some())
        if nested:
            loop = (*some(), Repeat(rng_rounds, loop), *some())
        begin = (
            tuple(join(2 * stage + 1, waits=False) for stage in range(stages)) if not makes else ()
        )
        end = tuple(join(2 * stage + 1, waits=True) for stage in range(stages)) if makes else ()
        return (*some(), *begin, *loop, *end, *some())

    rng_rounds = rng.randint(1, 5)
    programs = [warp(makes=True), warp(makes=False)]
    numbers = [tuple(range(producers)), tuple(range(producers, warps))]

    def workload(bodies: list[tuple[Node, ...]]) -> BlockWorkload:
        classes = zip(bodies, numbers, strict=True)
        return BlockWorkload(
            tuple(WarpClass(WarpProgram(body), own) for body, own in classes), Scoreboard.RAW
        )

    return workload(programs), workload([tuple(unroll(body)) for body in programs])


@pytest.mark.parametrize("nested", [False, True])
def test_loops_are_what_they_are_without_loops(nested: bool) -> None:
    for seed in range(40):
        looped, flat = ring(random.Random(seed), nested=nested)
        cores = 1 + seed % 3
        one, other = (Case("", work, schedulers=cores).analyse() for work in (looped, flat))
        ((a,), (b,)) = one.sections, other.sections
        assert a.joined is not None
        assert b.joined is not None
        assert a.joined.slack_cycles == b.joined.slack_cycles
        assert a.joined.serial_cycles == b.joined.serial_cycles
        assert a.joined.apart_cycles == b.joined.apart_cycles
        assert bound_safe(one).cycles == bound_safe(other).cycles
        run = Simulator(looped, SmConfiguration(cores)).run(Policy.RANDOM, seed=seed)
        assert run.cycles <= bound_safe(one).cycles


def test_trip_counts_cost_nothing() -> None:
    def block(count: int) -> BlockWorkload:
        load = TimedInstruction("A", 1, 100, (), ("x",))
        use = TimedInstruction("A", 1, 5, ("x",), ())

        def join(name: str, *, waits: bool) -> Node:
            return PartialBarrier(TimedInstruction("A", 1, 0), name, 2, waits)

        one = (Repeat(count, (join("e", waits=True), load, use, join("f", waits=False))),)
        two = (Repeat(count, (join("e", waits=False), join("f", waits=True), use)),)
        classes = (WarpClass(WarpProgram(one), (0,)), WarpClass(WarpProgram(two), (1,)))
        return BlockWorkload(classes, Scoreboard.RAW)

    few, many = (bound_safe(Case("", block(n)).analyse()).cycles for n in (1000, 10**12))
    assert few / 1000 == pytest.approx(many / 10**12, rel=0.01)


def test_times_that_do_not_repeat_in_time_leave_the_slack_of_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The faster of two rows of warps is three stages ahead after 20 rounds only."""

    def join(name: str, *, waits: bool) -> Node:
        return PartialBarrier(TimedInstruction("A", 1, 0), name, 2, waits)

    def warp(latency: int, *, makes: bool) -> tuple[Node, ...]:
        body: list[Node] = []
        for stage in "123":
            body += [join(f"e{stage}" if makes else f"f{stage}", waits=True)]
            body += [TimedInstruction("A", 1, latency, (), ("x",))]
            body += [TimedInstruction("A", 1, 0, ("x",), ())]
            body += [join(f"f{stage}" if makes else f"e{stage}", waits=False)]
        first = () if makes else tuple(join(f"e{stage}", waits=False) for stage in "123")
        last = tuple(join(f"e{stage}", waits=True) for stage in "123") if makes else ()
        return (*first, Repeat(10**6, tuple(body)), *last)

    rows = warp(100, makes=True), warp(101, makes=False)
    classes = tuple(WarpClass(WarpProgram(row), (n,)) for n, row in enumerate(rows))
    case = Case("", BlockWorkload(classes, Scoreboard.RAW), schedulers=2)
    (whole,) = case.analyse().sections
    monkeypatch.setattr("ptxwcet.bounds.joins._MOST_STRETCHES", 60)
    (few,) = case.analyse().sections
    assert whole.joined is not None
    assert few.joined is not None
    assert whole.joined.slack_cycles < few.joined.slack_cycles
    assert whole.joined.serial_cycles == few.joined.serial_cycles
    monkeypatch.setattr("ptxwcet.bounds.joins._MOST_STRETCHES", 5)
    with pytest.raises(PtxwcetError, match="do not repeat"):
        case.analyse()


# --- refusals -------------------------------------------------------------------------------------


def refusal(*bodies: tuple[Node, ...]) -> str:
    classes = tuple(WarpClass(WarpProgram(body), (n,)) for n, body in enumerate(bodies))
    with pytest.raises(PtxwcetError) as refused:
        Case("", BlockWorkload(classes, Scoreboard.RAW)).analyse()
    (diagnostic,) = refused.value.diagnostics
    return f"{diagnostic.code}: {diagnostic.message}"


def arrive(name: str = "1", warps: int = 2) -> Node:
    return PartialBarrier(TimedInstruction("A", 1, 0), name, warps, waits=False)


def wait(name: str = "1", warps: int = 2) -> Node:
    return PartialBarrier(TimedInstruction("A", 1, 0), name, warps)


BLOCK = Barrier(TimedInstruction("A", 1, 0))
BLOCK_1 = Barrier(TimedInstruction("A", 1, 0), "1")  # the number that others count partially


@pytest.mark.parametrize(
    ("bodies", "said"),
    [
        (((wait(), wait()), (arrive(), arrive())), "arrive before the phase before is over"),
        (((arrive(), arrive()), (wait(), wait())), "arrives twice"),
        (((wait("1"), arrive("2")), (wait("2"), arrive("1"))), "no other warp"),
        (((wait(),), (arrive(warps=3),), (arrive(),)), "others count"),
        (((wait(),), ()), "no other warp"),
        (((arrive(),), ()), "nobody completes"),
        (((arrive(), BLOCK), (BLOCK, wait())), "nobody completes"),
        (((wait(), BLOCK_1), (wait(), BLOCK_1), (BLOCK_1,)), "before that is over"),
        (((BLOCK_1,), (wait(), BLOCK_1), (wait(), BLOCK_1)), "before that is over"),
        (((wait(),), (wait(),), (BLOCK_1,)), "before that is over"),
        (((Choice(((wait(),), ())),), (wait(),)), "PW501"),
        (((Repeat(3, (wait(),), 1),), (Repeat(3, (wait(),)),)), "PW501"),
    ],
)
def test_what_is_not_static_is_refused(bodies: tuple[tuple[Node, ...], ...], said: str) -> None:
    assert said in refusal(*bodies)


def test_a_number_may_be_of_all_and_of_some_if_all_know_the_phase_to_be_over() -> None:
    """Whoever waits at number 1 with the whole block has heard by way of 2 that 1 is over."""
    first, other = (wait("1"), wait("2", 3), BLOCK_1), (wait("2", 3), BLOCK_1)
    classes = tuple(WarpClass(WarpProgram(r), (n,)) for n, r in enumerate((first, first, other)))
    one, _ = Case("", BlockWorkload(classes, Scoreboard.RAW)).analyse().sections
    assert one.joined is not None


def test_loops_are_entered_as_often_as_they_are() -> None:
    """What arrives in a loop that never runs completes no phase; in one that runs once, it does."""

    def block(count: int) -> Case:
        rows = (Repeat(count, (arrive(),)), BLOCK), (wait(), BLOCK)
        classes = tuple(WarpClass(WarpProgram(row), (n,)) for n, row in enumerate(rows))
        return Case("", BlockWorkload(classes, Scoreboard.RAW))

    assert bound_safe(block(1).analyse()).cycles == 4
    for count, said in ((0, "no other warp"), (2, "arrives twice")):
        with pytest.raises(PtxwcetError, match=said):
            block(count).analyse()
    never = (Repeat(0, (wait(), arrive())), BLOCK)
    assert refusal(never, (wait(), BLOCK)).startswith("PW504")


def test_warps_that_do_the_same_must_arrive_together() -> None:
    """Two of four equal warps: which two is not known."""
    program = WarpProgram((wait(),))
    workload = BlockWorkload((WarpClass(program, (0, 1, 2, 3)),), Scoreboard.RAW)
    with pytest.raises(PtxwcetError, match="which of them is not known"):
        Case("", workload).analyse()
