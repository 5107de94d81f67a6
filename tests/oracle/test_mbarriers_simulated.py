"""Blocks with mbarriers on the compiled simulator: against the plain one, within their bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import pytest
from mbarrier_attack import random_block, ring, with_products
from mbarrier_machine import Block
from test_mbarriers import as_case

from ptxwcet.bounds.memory_servers import memory_alone, memory_demand
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.claims import Refusal
from ptxwcet.machine.loader import load_machine
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator, claim_schedule
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.simulator.run import SimulatedRun
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
from ptxwcet.warp.structure import entered


def served(case: Case) -> Case:
    """What is at mbarriers passes the path of the SM; copies go on to the memory."""

    def sent(node: Node) -> Node:
        if isinstance(node, Repeat):
            return Repeat(node.count, tuple(map(sent, node.body)))
        if not isinstance(node, PartialBarrier) or node.mbarrier is None:
            return node
        sectors = 4 if node.mbarrier.brings else 0
        latency = node.instruction.latency_cycles + 3 + -(-300 * sectors // 1024)
        timed = replace(node.instruction, latency_cycles=latency, path_cycles=3, sectors=sectors)
        return replace(node, instruction=timed)

    classes = tuple(
        replace(one, program=WarpProgram(tuple(map(sent, one.program.body))))
        for one in case.workload.classes
    )
    return replace(case, workload=replace(case.workload, classes=classes), memory_cycles=300)


def not_served(case: Case) -> Case:
    """The same with times of its own at the servers, and nobody to wait for there."""

    def sent(node: Node) -> Node:
        if not isinstance(node, PartialBarrier):
            return node
        return replace(node, instruction=replace(node.instruction, path_cycles=0, sectors=0))

    classes = tuple(
        replace(one, program=WarpProgram(tuple(map(sent, one.program.body))))
        for one in case.workload.classes
    )
    return replace(case, workload=replace(case.workload, classes=classes))


def test_who_waits_for_the_servers_does_so_beside_polls() -> None:
    for seed in range(20):
        case = served(as_case(ring(seed)))
        one, other = case.analyse(), not_served(case).analyse()
        share, demand = one.polling, memory_demand(one)
        assert share
        assert demand.path_cycles
        waiting = demand.path_cycles + memory_alone(one.machine).busy(demand.sectors)
        assert bound_safe(one).cycles == bound_safe(other).cycles + ceil(waiting / (1 - share))


def found(run: Callable[[], SimulatedRun]) -> SimulatedRun | None:
    """The run; None for a deadlock."""
    try:
        return run()
    except PtxwcetError as refused:
        if refused.diagnostics[0].code != "PW532":
            raise
        return None


def simulated(case: Case) -> Simulator | None:
    """None for what no compiled machine knows: small copies, and registers that are handed over."""
    counts = [
        step
        for one in case.workload.classes
        for step in entered(one.program.body)
        if isinstance(step, PartialBarrier) and step.mbarrier is not None
    ]
    if any(step.name == REGISTERS or (step.mbarrier and step.mbarrier.behind) for step in counts):
        with pytest.raises(PtxwcetError) as refused:
            Simulator(case.workload, case.configuration)
        assert refused.value.diagnostics[0].code == "PW548"
        return None
    return Simulator(case.workload, case.configuration)


@pytest.mark.parametrize("draw", [random_block, ring, with_products])
def test_both_simulators_run_the_same(draw: Callable[[int], Block]) -> None:
    """Cycles, all events and all that warps waited for; with loops, and what repeats skipped."""
    runs = 0
    for seed in range(16):
        case = as_case(draw(seed), repeated=seed % 3 == 0)
        case = served(case) if seed % 2 else case
        workload, shape = case.workload, case.configuration
        simulator, jitter = simulated(case), Jitter(80 * (seed % 4 == 3), seed)
        if simulator is None:
            continue
        for policy in [*Policy][seed % 3 :: 3]:
            plain = found(lambda: reference_run(workload, shape, policy, seed=seed, jitter=jitter))  # noqa: B023
            run = found(lambda: simulator.run(policy, seed=seed, jitter=jitter, record=99_999))  # noqa: B023
            skipped = found(lambda: simulator.run(policy, seed=seed, jitter=jitter))  # noqa: B023
            assert run == plain, (seed, policy)
            if plain is None or skipped is None:
                assert plain is skipped
                continue
            assert replace(skipped, stepped=plain.stepped, events=plain.events) == plain
            runs += 1
    assert runs > 5


def test_no_run_exceeds_the_bound() -> None:
    runs = 0
    for seed in range(80):
        case = as_case(ring(seed) if seed % 2 else random_block(seed))
        case = served(case) if seed % 4 < 2 else case
        try:
            bound = bound_safe(case.analyse()).cycles
        except PtxwcetError:
            continue
        simulator = simulated(case)
        if simulator is None:
            continue
        for policy in Policy:
            for jitter in (Jitter(0, 0), Jitter(80, seed)):
                runs += 1
                assert simulator.cycles(policy, seed=seed, jitter=jitter) <= bound, seed
    assert runs > 300


def made(count: int) -> BlockWorkload:
    """Warp 0 has copies made, which warp 1 waits for: two in each iteration."""

    def timed(latency: int) -> TimedInstruction:
        return TimedInstruction("A", 1, latency, (), ("x",))

    def at(name: str, what: Mbarrier, *, waits: bool = False) -> Node:
        return PartialBarrier(timed(5), name, 0, waits, what)

    def made_in(parity: int) -> tuple[Node, ...]:
        copy = Mbarrier(brings=64, after_cycles=300)
        empty = at("empty", Mbarrier(parity=1 - parity), waits=True)
        return empty, at("full", Mbarrier(arrivals=1, owes=64)), at("full", copy), timed(7)

    def used_in(parity: int) -> tuple[Node, ...]:
        full = at("full", Mbarrier(parity=parity), waits=True)
        return full, timed(40), at("empty", Mbarrier(arrivals=1))

    begun = at("empty", Mbarrier(expects=1)), at("full", Mbarrier(expects=1)), Barrier(timed(0))
    rows = (
        (*begun, Repeat(count, (*made_in(0), *made_in(1)))),
        (begun[2], Repeat(count, (*used_in(0), *used_in(1)))),
    )
    classes = tuple(WarpClass(WarpProgram(row), (n,)) for n, row in enumerate(rows))
    return BlockWorkload(classes, Scoreboard.RAW)


def test_what_repeats_is_skipped() -> None:
    few, more, many = (
        Simulator(made(n), SmConfiguration()).run(Policy.LRR) for n in (40, 41, 10**9)
    )
    assert few.cycles == reference_run(made(40), SmConfiguration(), Policy.LRR).cycles
    assert many.stepped < 1000
    assert many.cycles - few.cycles == (10**9 - 40) * (more.cycles - few.cycles)


def test_no_schedule_is_claimed_to_be_the_only_one() -> None:
    """How often warps ask in vain is not in a run."""
    claim = claim_schedule(made(3), load_machine("orin-ecrts2025"), Policy.LRR)
    assert isinstance(claim, Refusal)
    assert "mbarriers" in claim.reason
    with pytest.raises(PtxwcetError, match="mbarriers are not in the exhaustive search"):
        search_worst(made(3), SmConfiguration())


def test_who_waits_for_ever_is_named() -> None:
    asks = PartialBarrier(TimedInstruction("A", 1, 0), "m", 0, True, Mbarrier())
    alone = BlockWorkload((WarpClass(WarpProgram((asks,)), (0,)),), Scoreboard.RAW)
    with pytest.raises(PtxwcetError, match="deadlock") as refused:
        Simulator(alone, SmConfiguration()).run(Policy.LRR)
    assert refused.value.diagnostics[0].notes == ("at mbarrier m: warps 0",)


def told(*rows: tuple[Node, ...], expects: int = 1) -> int:
    """When a warp is told that the first phase is over, beside warps with these programs."""
    plain = TimedInstruction("P", 1, 0)
    begun = PartialBarrier(plain, "m", 0, False, Mbarrier(expects=expects))
    asks = PartialBarrier(TimedInstruction("Q", 1, 0), "m", 0, True, Mbarrier())
    programs = ((Barrier(plain), asks, plain), *((begun, Barrier(plain), *row) for row in rows))
    classes = tuple(WarpClass(WarpProgram(row), (n,)) for n, row in enumerate(programs))
    workload, shape = BlockWorkload(classes, Scoreboard.RAW), SmConfiguration(len(classes))
    run = Simulator(workload, shape).run(Policy.LRR, record=99)
    assert run == reference_run(workload, shape, Policy.LRR)
    return next(one.issue_cycle for one in run.events[::-1] if one.warp == 0)


def counted(latency: int, what: Mbarrier) -> Node:
    return PartialBarrier(TimedInstruction("C", 1, latency), "m", 0, False, what)


def test_a_warp_counts_in_its_order_and_a_copy_when_it_has_ended() -> None:
    owes, arrives = Mbarrier(owes=16), Mbarrier(arrivals=1)
    copy = Mbarrier(brings=16, after_cycles=10)
    late = told((counted(100, owes), counted(0, arrives), counted(0, copy)))
    assert 100 < late < 110
    early = told((counted(100, owes), counted(0, copy)), (counted(20, owes), counted(0, arrives)))
    assert 20 < early < 30
