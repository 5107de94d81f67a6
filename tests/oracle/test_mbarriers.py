"""J1 with mbarriers (docs/methods/joins.md): attacked, and the product held against it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mbarrier_attack import (
    CONDITIONS,
    CONTROLS,
    attack,
    blocks,
    broken,
    judged,
    random_block,
    ring,
    search_all,
    with_products,
)
from mbarrier_machine import (
    ENGINE,
    Block,
    Count,
    Give,
    NotStaticError,
    Op,
    Take,
    Wait,
    claim,
    graph_of,
    run,
)

from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.joins import JoinedSection
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.validate.cases import Case
from ptxwcet.warp.program import (
    REGISTERS,
    Barrier,
    BlockWorkload,
    Mbarrier,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)


def test_no_run_exceeds_a_bound_or_a_clock_or_has_other_phases() -> None:
    tally = attack(blocks(0, 90), runs=8)
    assert tally.witnesses == []
    assert tally.cases > 40
    assert tally.tightest > 0.7


def test_no_schedule_of_a_tiny_block_does() -> None:
    tally = search_all(range(60), most=300)
    assert tally.witnesses == []
    assert tally.cases > 5


@pytest.mark.parametrize("control", [one for one in CONTROLS if one not in ("polls", "registers")])
def test_each_part_of_the_claim_is_needed(control: str) -> None:
    tally = attack(blocks(0, 40), runs=6, without=control)
    assert tally.exceeded + tally.clocks > 0


def test_no_run_with_products_of_warpgroups_exceeds_them() -> None:
    cases = [(seed, with_products(seed)) for seed in range(40)]
    tally = attack(cases, runs=6, cores=4)
    assert tally.witnesses == []
    assert tally.cases > 35
    left_out = attack(cases, runs=6, cores=4, without="work")
    assert left_out.exceeded > 0


@pytest.mark.parametrize("condition", CONDITIONS)
def test_each_condition_is_needed(condition: str) -> None:
    """Runs of blocks that lack it alone have other phases than their graph, or wait for ever."""
    cases = [(seed, broken(condition, seed)) for seed in range(30)]
    whole = attack(cases)
    assert whole.cases == 0
    left_out = attack(cases, without=condition)
    assert left_out.cases == 30
    assert left_out.parted > 30


def test_registers_are_waited_for() -> None:
    cases = [(seed, broken("registers", seed)) for seed in range(30)]
    whole, left_out = attack(cases), attack(cases, without="registers")
    assert (whole.cases, whole.witnesses) == (30, [])
    assert left_out.exceeded > 10


def some(*ops: Op) -> tuple[Op, ...]:
    return ops


def test_polls_take_cycles() -> None:
    """Three warps ask while a fourth computes on their sub-core: each poll delays it."""
    chain = tuple(Op(0, 1, 0, () if not n else (n - 1,)) for n in range(200))
    works = (*chain, Op(0, 1, 0, (), Count(0, 1)))
    asks = some(Op(1, 1, 1, (), Wait(0, 0)), Op(0, 1, 0, (0,)))
    block = Block((works, asks, asks, asks), (1,), 12)
    graph = graph_of(block)
    said, left_out = claim(block, graph), claim(block, graph, without="polls")
    longest = run(block, 1, lambda n: n - 1, said)
    assert left_out.bound < longest.cycles <= said.bound
    assert longest.exceeded <= 0
    with pytest.raises(NotStaticError, match="every cycle"):
        claim(replace(block, again=6), graph)


# --- the product ----------------------------------------------------------------------------------


def as_case(block: Block, *, repeated: bool = False) -> Case:
    """A class for each warp; all mbarriers are initialised before a barrier of the block."""

    def node(place: int, op: Op) -> Node:
        timed = TimedInstruction(
            f"U{op.unit}",
            op.init,
            op.lat,
            tuple(f"r{read}" for read in op.reads),
            (f"r{place}",),
            origin=place,
        )
        match op.does:
            case Count() as does:
                behind = tuple(f"r{one}" for one in does.behind)
                numbers = does.arrivals, does.owes, does.brings, does.after
                counted = Mbarrier(0, *numbers, behind=behind)
                return PartialBarrier(timed, f"m{does.name}", 0, False, counted)
            case Wait() as does:
                spent = does.branch_init + does.branch_lat + does.bubble
                again = 2 * (op.init + op.lat) + spent
                asks = Mbarrier(
                    parity=does.parity,
                    round_cycles=again,
                    poll_cycles=op.init + does.branch_init,
                    again_cycles=block.again,
                )
                return PartialBarrier(timed, f"m{does.name}", 0, True, asks)
            case Give():
                return PartialBarrier(timed, REGISTERS, 0, False, Mbarrier(arrivals=1))
            case Take():
                asks = Mbarrier(round_cycles=op.init + op.lat)
                return PartialBarrier(timed, REGISTERS, 0, True, asks)
            case _:
                return timed

    plain = TimedInstruction("U0", 1, 0)
    begun = tuple(
        PartialBarrier(plain, f"m{n}", 0, False, Mbarrier(expects=count))
        for n, count in enumerate(block.expects)
    )
    classes = []
    for number, ops in enumerate(block.warps):
        body = tuple(node(n, op) for n, op in enumerate(ops))
        if repeated:
            body = (Repeat(7, body),)
        before = (*(begun if number == 0 else ()), Barrier(plain))
        classes.append(WarpClass(WarpProgram((*before, *body)), (number,)))
    workload = BlockWorkload(tuple(classes), Scoreboard.RAW)
    units = {f"U{op.unit}" for ops in block.warps for op in ops} | {"U0"}
    servers = tuple((one, 1 if one == f"U{ENGINE}" else 2) for one in sorted(units))
    return Case("", workload, schedulers=2, servers=servers)


def joined(case: Case) -> JoinedSection | None:
    first, second = case.analyse().sections
    assert first.joined is None
    return second.joined


def joined_or_refused(case: Case) -> JoinedSection | str | None:
    try:
        return joined(case)
    except PtxwcetError as refused:
        return refused.diagnostics[0].code


def test_the_product_says_what_the_definitions_say() -> None:
    known = 0
    for seed in range(240):
        block = ring(seed) if seed % 4 == 0 else random_block(seed, tiny=seed % 4 == 1)
        found = judged(block)
        section = joined_or_refused(as_case(block))
        if section == "PW504":
            continue
        assert found is not None, seed
        if section is None:
            assert all(op.does is None for ops in block.warps for op in ops)
            continue
        known += 1
        assert isinstance(section, JoinedSection)
        assert section.cycles == found[1].bound, seed
    assert known > 60


def test_the_product_waits_for_registers() -> None:
    for seed in range(20):
        block = broken("registers", seed)
        found, section = judged(block), joined(as_case(block))
        assert found is not None
        assert section is not None
        assert section.cycles == found[1].bound


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_product_refuses_what_lacks_a_condition(condition: str) -> None:
    for seed in range(5):
        assert joined_or_refused(as_case(broken(condition, seed))) == "PW504"


def test_whatever_is_static_is_accepted_in_rings() -> None:
    for seed in range(0, 200, 5):
        assert joined(as_case(ring(seed))) is not None


def test_no_run_of_the_simulator_exceeds_the_bound() -> None:
    runs = 0
    for seed in range(60):
        block = ring(seed) if seed % 2 else random_block(seed)
        case = as_case(block)
        try:
            bound = bound_safe(case.analyse()).cycles
        except PtxwcetError:
            continue
        for policy in (Policy.LRR, Policy.GTO, Policy.YOUNGEST):
            for jitter in (Jitter(0, 0), Jitter(80, seed)):
                found = reference_run(
                    case.workload, case.configuration, policy, seed=seed, jitter=jitter
                )
                runs += 1
                assert found.cycles <= bound, seed
    assert runs > 100


def test_a_warp_waits_for_its_own_copy() -> None:
    """Alone in its block it is no faster for that: its length alone says nothing of the copy."""
    ops = (
        Op(0, 1, 0, (), Count(0, 1, 64)),
        Op(ENGINE, 9, 0, (), Count(0, brings=64, after=200)),
        Op(0, 1, 2, (), Wait(0, 0)),
        Op(0, 1, 0, (2,)),
    )
    case = as_case(Block((ops,), (1,), 50))
    bound = bound_safe(case.analyse()).cycles
    run_of_it = reference_run(case.workload, case.configuration, Policy.LRR)
    assert 200 < run_of_it.cycles <= bound
    with pytest.raises(PtxwcetError, match="no bound of a launch"):
        block_kind(case.analyse(), 1)


def test_loops_say_what_their_iterations_say() -> None:
    """A body that leaves all mbarriers as they were is repeated: as if it were written out."""
    compared = 0
    for seed in range(400):
        block = ring(seed)
        stages = len(block.expects) // 2
        tiles = sum(isinstance(op.does, Wait) for op in block.warps[0])
        if tiles % (2 * stages):
            continue
        whole = tuple(
            tuple(
                replace(op, reads=tuple(read + times * len(ops) for read in op.reads))
                for times in range(7)
                for op in ops
            )
            for ops in block.warps
        )
        written = joined(as_case(replace(block, warps=whole)))
        assert joined(as_case(block, repeated=True)) == written, seed
        compared += 1
        if compared == 8:
            return
    raise AssertionError("too few rings")
