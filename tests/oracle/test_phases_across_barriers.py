"""Phases of mbarriers that cross barriers of the block, and mbarriers that are invalidated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from mbarrier_attack import launch, random_block, ring
from mbarrier_machine import (
    Block,
    Count,
    Give,
    Machine,
    Meet,
    Op,
    Take,
    Wait,
    run_blocks,
)
from test_mbarriers import as_case, begun
from test_tensor_copies import with_engine

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.bounds.grid import Dispatch, bound_grid
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.flow.launch import Launch, TensorBox
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import Machine as MachineFile
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.validate.cases import Case
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Mbarrier,
    Node,
    PartialBarrier,
    Repeat,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

TRITON = Path(__file__).parents[2] / "benchmarks" / "triton_kernels" / "matmul_of_boxes_90.ptx"
PLAIN = TimedInstruction("U0", 1, 0)


def some_order(block: Block, rng: random.Random) -> list[int] | None:
    """The warps of all operations in an order in which they can be done; None if there is none."""
    places, parities = [0] * len(block.warps), [0] * len(block.expects)
    pending, owed = list(block.expects), [0] * len(block.expects)
    gives = sum(isinstance(op.does, Give) for ops in block.warps for op in ops)
    order = []

    def is_ready(warp: int) -> bool:
        if places[warp] == len(block.warps[warp]):
            return False
        does = block.warps[warp][places[warp]].does
        if isinstance(does, Take):
            return gives == 0
        return not isinstance(does, Wait) or parities[does.name] != does.parity

    while ready := [warp for warp in range(len(places)) if is_ready(warp)]:
        warp = rng.choice(ready)
        does = block.warps[warp][places[warp]].does
        gives -= isinstance(does, Give)
        if isinstance(does, Count):
            pending[does.name] -= does.arrivals
            owed[does.name] += does.owes - does.brings
            if pending[does.name] == 0 == owed[does.name]:
                pending[does.name] = block.expects[does.name]
                parities[does.name] ^= 1
        places[warp] += 1
        order.append(warp)
    return order if len(order) == sum(map(len, block.warps)) else None


def with_barriers(block: Block, rng: random.Random) -> Case | None:
    """Barriers of the block where some order of its operations has one."""
    order = some_order(block, rng)
    if order is None:
        return None
    case, classes = as_case(block), []
    cuts = sorted(rng.sample(range(1, len(order)), min(len(order) - 1, rng.randint(1, 3))))
    for number, one in enumerate(case.workload.classes):
        body = list(one.program.body)
        begin = len(body) - len(block.warps[number])
        for cut in reversed(cuts):
            body.insert(begin + order[:cut].count(number), Barrier(PLAIN))
        classes.append(WarpClass(WarpProgram(tuple(body)), one.warps))
    return replace(case, workload=BlockWorkload(tuple(classes), case.workload.scoreboard))


def crossed(seeds: range) -> Iterator[tuple[int, Case, int]]:
    """Cases of which a phase crosses a barrier, with their bounds."""
    for seed in seeds:
        rng = random.Random(f"across {seed}")
        case = with_barriers(ring(seed) if seed % 2 else random_block(seed), rng)
        try:
            analysis = case.analyse() if case is not None else None
        except PtxwcetError:
            continue
        if case is not None and analysis is not None and len(analysis.sections) == 2:
            yield seed, case, bound_safe(analysis).cycles


@pytest.mark.every(4)
@pytest.mark.parametrize("part", range(8))
def test_no_run_exceeds_the_bound_where_phases_cross_barriers(part: int) -> None:
    cases, tightest = 0, 0.0
    for seed, case, bound in crossed(range(40 * part, 40 * part + 40)):
        cases += 1
        for policy in (Policy.LRR, Policy.GTO, Policy.YOUNGEST):
            for jitter in (Jitter(0, 0), Jitter(80, seed)):
                found = reference_run(
                    case.workload, case.configuration, policy, seed=seed, jitter=jitter
                )
                assert found.cycles <= bound, seed
                tightest = max(tightest, found.cycles / bound)
    assert cases > 8
    assert tightest > 0.6


def met(block: Block, rng: random.Random) -> Block | None:
    """The same for the machine of the page, whose warps really poll."""
    order = some_order(block, rng)
    if order is None:
        return None
    cuts = sorted(rng.sample(range(1, len(order)), min(len(order) - 1, rng.randint(1, 3))))
    warps = []
    for number, ops in enumerate(block.warps):
        before = [order[:cut].count(number) for cut in cuts]
        row: list[Op] = []
        places: list[int] = []
        for place, op in enumerate(ops):
            row += [Op(0, 1, 0, (), Meet())] * before.count(place)
            places.append(len(row))
            row.append(replace(op, reads=tuple(places[read] for read in op.reads)))
        row += [Op(0, 1, 0, (), Meet())] * before.count(len(ops))
        warps.append(tuple(row))
    return replace(block, warps=tuple(warps))


@pytest.mark.every(4)
@pytest.mark.parametrize("part", range(8))
def test_no_run_of_the_machine_of_the_page_does_either(part: int) -> None:
    """Neither of a block, nor of a launch of three."""
    cases = 0
    for seed in range(25 * part, 25 * part + 25):
        rng = random.Random(f"met {seed}")
        block = met(ring(seed) if seed % 3 else random_block(seed), rng)
        try:
            analysis = as_case(block).analyse() if block is not None else None
            kind = None if analysis is None else block_kind(analysis, 1)
        except PtxwcetError:
            continue
        if block is None or analysis is None or kind is None or len(analysis.sections) != 2:
            continue
        cases += 1
        bound, machine = bound_safe(as_case(block, cores=1).analyse()).cycles, launch(seed).machine
        whole = begun(block)
        for choose in (lambda _: 0, lambda n: n - 1, rng.randrange):
            assert run_blocks((whole,), Machine(), choose).cycles <= bound, seed
        try:
            bound = bound_grid([kind] * 3, Dispatch(machine.sms, machine.slots)).cycles
        except PtxwcetError:
            continue  # polls of three could take every cycle
        for choose in (lambda _: 0, lambda n: n - 1, rng.randrange):
            assert run_blocks((whole,) * 3, machine, choose).cycles <= bound, seed
    assert cases > 3


# --- mbarriers that are invalidated ---------------------------------------------------------------


def count_at(name: str, does: Mbarrier) -> PartialBarrier:
    return PartialBarrier(PLAIN, name, 0, False, does)


def ending(block: Block) -> list[Node]:
    return [count_at(f"m{n}", Mbarrier(ends=True)) for n, _ in enumerate(block.expects)]


def followed(case: Case, *behind: list[Node]) -> Case:
    """The case with more at the ends of its warps: of the first one, and of each of the others."""
    classes = [
        WarpClass(
            WarpProgram((*one.program.body, *behind[min(number, len(behind) - 1)])), one.warps
        )
        for number, one in enumerate(case.workload.classes)
    ]
    return replace(case, workload=BlockWorkload(tuple(classes), case.workload.scoreboard))


def bound_of(case: Case) -> int:
    return bound_safe(case.analyse()).cycles


def refusal(case: Case) -> str:
    with pytest.raises(PtxwcetError) as refused:
        case.analyse()
    return refused.value.diagnostics[0].message


def ping_pong(rounds: int) -> Block:
    """Two warps that wait for each other in turn: each phase is waited for."""
    warps: list[list[Op]] = [[], []]
    for n in range(2 * rounds):
        tells = warps[n % 2]
        tells.append(Op(0, 1, 3, (), Count(n % 2, 1)))
        asks = warps[1 - n % 2]
        asks += [Op(0, 1, 2, (), Wait(n % 2, n // 2 % 2)), Op(0, 1, 0, (len(asks),))]
    return Block(tuple(map(tuple, warps)), (1, 1), 50)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_mbarriers_may_begin_anew_where_they_were_invalidated(rounds: int) -> None:
    """What follows costs what it did the first time, whatever parities that had left."""
    block = ping_pong(rounds)
    once, bar = as_case(block), Barrier(PLAIN)
    first, second = (list(one.program.body) for one in once.workload.classes)
    ends = ending(block)
    twice = followed(once, [bar, *ends, bar, *first], [bar, bar, *second])
    bound = bound_of(twice)
    assert bound >= 2 * bound_of(once) - len(first)
    for policy in (Policy.LRR, Policy.YOUNGEST):
        run = reference_run(twice.workload, twice.configuration, policy)
        assert run.cycles <= bound
    again = followed(once, [bar, *first[: len(ends)], bar], [bar, bar])
    assert "is initialised twice" in refusal(again)


def test_phases_that_nobody_waited_for_may_not_be_over_where_they_would_end() -> None:
    """Of a ring: the last arrivals of the consumers, behind a barrier of the block, too."""
    block, bar = ring(1), Barrier(PLAIN)
    behind = followed(as_case(block), [bar, *ending(block)], [bar])
    assert "a warp may count before" in refusal(behind)


def test_an_mbarrier_ends_where_nothing_is_left_to_be_done_there() -> None:
    """By one warp, that knows all waits to be over, and with no count of a phase begun."""
    bar, end = Barrier(PLAIN), count_at("m0", Mbarrier(ends=True))
    one = Op(0, 1, 2, (), Count(0, 1))
    asks = Op(0, 1, 2, (), Wait(0, 0)), Op(0, 1, 0, (0,))
    case = as_case(Block(((one,), asks), (1,), 50))
    assert bound_of(followed(case, [bar, end], [bar])) > bound_of(case)
    assert bound_of(followed(case, [], [end])) > bound_of(case)
    many = "while warps may still count or ask"
    assert "a warp may count before" in refusal(followed(case, [end], []))
    asks_then = replace(asks[1], reads=(1,))
    both = as_case(Block((asks, (one, asks[0], asks_then)), (1,), 50))
    assert many in refusal(followed(both, [], [end]))  # the other one may still ask
    assert bound_of(followed(both, [bar], [bar, end])) > bound_of(both)
    assert "is not initialised" in refusal(followed(case, [bar, end, end], [bar]))
    assert "is not initialised" in refusal(followed(case, [bar, end, bar], [bar, bar, end]))
    late = count_at("m0", Mbarrier(arrivals=1))
    assert "is not initialised" in refusal(followed(case, [bar, end, late], [bar]))
    begun = count_at("m0", Mbarrier(owes=16))
    assert many in refusal(followed(case, [bar, begun, end], [bar]))
    first, second = case.workload.classes
    two = replace(case.workload, classes=(first, replace(second, warps=(1, 2))))
    assert "several warps" in refusal(followed(replace(case, workload=two), [bar], [bar, end]))
    looped = Repeat(3, (bar, end))
    assert "loop" in refusal(followed(case, [looped], [Repeat(3, (bar,))]))


# --- a product of Triton's that copies boxes ------------------------------------------------------


@cache
def triton_product(k: int) -> BlockAnalysis:
    """Its host makes the maps of all three tensors; h100 has no vote, and no engine."""
    (own,) = parse_module(read_source(str(TRITON))).kernels
    maps = [one.name for one in own.parameters if one.size_bytes == 128]
    boxes = {
        f"{name}+0": TensorBox(box, 2)
        for name, box in zip(maps, ((64, 32), (64, 64), (64, 32)), strict=True)
    }
    (number,) = [one.name for one in own.parameters if one.name.endswith("_15")]
    launch = Launch((128, 1, 1), None, {number: k}, boxes=boxes)
    return analyse_kernel(own, launch, like_h100()).worst.analysis


@cache
def like_h100() -> MachineFile:
    found = with_engine("h100")
    return replace(
        found, timings={**found.timings, OpClass.VOTE: found.timings[OpClass.LOAD_SHARED]}
    )


def test_the_bound_of_a_product_of_triton_with_tensor_descriptors() -> None:
    """What docs/experiments/triton.md says of it; each tile costs as much as any other."""
    bounds = [bound_safe(triton_product(k)).cycles for k in (512, 640, 768, 64 * 1002)]
    assert bounds[0] == 47_264
    assert bounds[2] - bounds[1] == pytest.approx(bounds[1] - bounds[0], abs=1)
    assert bounds[3] - bounds[0] == pytest.approx((bounds[1] - bounds[0]) / 2 * 994, rel=0.001)
    keys = {one.key for one in triton_product(512).assumptions}
    assert {"elected-lane-is-lowest", "mbarriers-count", "stated-tensor-maps"} <= keys


@pytest.mark.parametrize("k", [64, 192])
def test_no_run_of_it_exceeds_the_bound(k: int) -> None:
    analysis = triton_product(k)
    bound, on = bound_safe(analysis).cycles, SmConfiguration.of(like_h100())
    for policy in (Policy.LRR, Policy.YOUNGEST):
        run = reference_run(analysis.workload, on, policy)
        assert bound / 4 < run.cycles <= bound
