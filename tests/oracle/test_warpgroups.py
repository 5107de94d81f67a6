"""Bounds of blocks and launches with products of warpgroups, against a machine that runs them.

The machine is ``warpgroup_machine.py``, written from docs/methods/warpgroups.md alone. What the
page says of the bounds is dropped piece by piece, and each piece is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from thoroughness import drawn
from warpgroup_attack import (
    analysed,
    launch,
    product,
    random_block,
    random_launch,
    random_op,
    safe,
    worst_of,
)
from warpgroup_controls import CONTROLS, at_once, exceeds, per_sub_core
from warpgroup_machine import CORES, Block, Kind, Op, Rules, Warp, all_runs, run
from warpgroup_ways import Either, Loop, Step, analysis_of, random_tree, some_block, steps_of

from ptxwcet.bounds.grid import Dispatch, bound_grid
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.gub import bound_gub
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.claims import Refusal
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing import demand as demand_module


@pytest.mark.parametrize("whole", [False, True])
def test_no_block_takes_longer(whole: bool) -> None:
    reached = 0
    for seed in range(drawn(100)):
        random = Random(seed)
        block = random_block(random)
        bound = safe(block)
        rules = Rules(holds=seed % 4 == 3, early=seed % 4 < 2, whole=whole)
        worst = worst_of((block,), rules, random, 6)
        assert worst <= bound, (seed, block)
        reached += worst == bound
    assert reached


def test_no_launch_takes_longer() -> None:
    for seed in range(drawn(60)):
        random = Random(seed)
        blocks, slots = random_launch(random)
        rules = Rules(early=random.random() < 0.5, whole=random.random() < 0.3, slots=slots)
        worst = worst_of(blocks, rules, random, 4)
        assert worst <= launch(blocks, slots), (seed, blocks)


def test_the_simulator_of_blocks_stays_below() -> None:
    """It runs products, too (``test_engine_against_reference.py``)."""
    for seed in range(drawn(60)):
        block = random_block(Random(seed))
        simulator = Simulator(analysed(block).workload, SmConfiguration(CORES))
        bound = safe(block)
        for policy in Policy:
            jitter = Jitter(seed % 3 * 40, seed)
            assert simulator.cycles(policy, seed=seed, jitter=jitter) <= bound, (seed, block)


def test_grids_and_the_exhaustive_search_refuse_products() -> None:
    workload = analysed(((product(),),) * CORES).workload
    assert Simulator(workload, SmConfiguration(CORES)).cycles(Policy.LRR) == 1
    with pytest.raises(PtxwcetError) as caught:
        search_worst(workload, SmConfiguration(CORES))
    assert caught.value.diagnostics[0].code == "PW548"


def test_every_schedule_of_tiny_blocks() -> None:
    complete = 0
    for seed in range(drawn(24)):
        random = Random(1_000 + seed)
        warp = tuple(random_op(random, place, True) for place in range(random.randint(1, 2)))
        other = tuple(random_op(random, place, True) for place in range(random.randint(1, 2)))
        block = (*[replace_bubbles(warp)] * CORES, *[replace_bubbles(other)] * CORES)
        try:
            worst = max(all_runs((block,), Rules(), 150))
        except OverflowError:
            continue
        complete += 1
        assert worst <= safe(block), (seed, block)
    assert complete


def replace_bubbles(warp: Warp) -> Warp:
    return tuple(replace(op, bubble=0) for op in warp)


# --- by hand --------------------------------------------------------------------------------------


def test_a_warpgroup_alone_takes_what_a_warp_takes() -> None:
    """Its warps wait for each other, but do not delay each other."""
    warp = (product(8, 66), product(8, 66), Op("A", 1, 4, (0, 1)))
    assert safe((warp,) * CORES) == 8 + 8 + 66 + 5
    assert run(((warp,) * CORES,), Rules(), lambda *_: 0) == 87


def test_two_sub_cores_hold_a_warpgroup_up_one_after_the_other() -> None:
    """On the first another warp takes the unit for 9 cycles, on the second one does after that."""
    own = (Op("A"), product(1, 0, 0), Op("A", reads=(1,)), product(1, 0, 2), Op("B", 1, 30, (3,)))
    first, second = (Op("A", 9),), (Op("B", 1, 9), Op("A", 9, 0, (0,)))
    block = (*[own] * CORES, first, second, (Op("B"),), (Op("B"),))
    assert safe(block[:CORES]) == 4 + 31
    end = run((block,), Rules(), lambda why, count: count - 1 if why == "issue" else 0)
    with per_sub_core():
        assert safe(block) < end
    assert 35 + 9 + 9 - 1 <= end <= safe(block)


def test_methods_that_know_no_products_refuse() -> None:
    outcome = bound_gub(analysed(((product(),),) * CORES))
    assert isinstance(outcome, Refusal)
    assert "meet at barriers only" in outcome.reason


# --- what the page says, dropped piece by piece --------------------------------------------------


@pytest.mark.parametrize("name", CONTROLS)
def test_each_piece_is_needed(name: str) -> None:
    for seed in range(400):
        exceeded, faulty = exceeds(name, seed, 8)
        assert not faulty, seed
        if exceeded:
            return
    pytest.fail("no run exceeds it")


def test_a_warp_that_runs_ahead_of_its_warpgroup_takes_longer() -> None:
    """What it issues then comes to the tensor unit before the product that stands first: refused
    (``test_warpgroup_costs.py``).
    """
    warp = (Op("A", 5), product(4, 1, 0), product(8, 1, 0), Op("T", 5))
    block = (warp,) * CORES
    assert safe(block) == 22
    assert worst_of((block,), Rules(), Random(1), 40) > 22
    assert worst_of((block,), Rules(holds=True), Random(1), 40) == 22


def test_quarters_of_one_product_hold_another_warpgroup_up_twice() -> None:
    """One comes early to its sub-core, another one late, since a third warp was in its way."""
    own = (product(1, 25), product(1, 25, 0), product(1, 25, 1), product(1, 0, 2))
    other, slow = (Op("A"), product(40, 0, 0)), (Op("A", 60),)
    block = (*[own] * CORES, *[other] * CORES, (Op("B"),), slow, (Op("B"),), (Op("B"),))
    rules = Rules(early=True, whole=True)
    worst = max(worst_of((block,), rules, Random(seed), 25, jitter=False) for seed in range(4))
    with at_once():
        assert safe(block) < worst
    assert worst <= safe(block)


# --- warps of a warpgroup on ways of their own ----------------------------------------------------


def exceeded_by_ways(seeds: range) -> int:
    """How many of the cases some run exceeds the bound of, of the block or of a launch."""
    exceeded = 0
    for seed in seeds:
        random = Random(f"ways {seed}")
        trees = [random_tree(random) for _ in range(random.choice((1, 1, 2)))]
        if steps_of(trees) > 120:
            continue
        analysis, slots, count = analysis_of(trees), random.randint(1, 2), random.randint(1, 3)
        bound = bound_safe(analysis).cycles
        launched = bound_grid([block_kind(analysis, count)], Dispatch(1, slots)).cycles
        over = False
        for number in range(8):
            rules = Rules(
                holds=number == 0, early=random.random() < 0.5, whole=random.random() < 0.5
            )
            alone = some_block(trees, random)
            over |= worst_of((alone,), rules, random, 1, jitter=number > 4) > bound
            rules = replace(rules, holds=False, slots=slots)
            blocks = tuple(some_block(trees, random) for _ in range(count))
            over |= number < 3 and worst_of(blocks, rules, random, 1, jitter=False) > launched
        exceeded += over
    return exceeded


def test_warps_of_a_warpgroup_may_go_ways_of_their_own() -> None:
    assert exceeded_by_ways(range(drawn(40))) == 0


def test_each_warp_of_a_warpgroup_has_what_a_total_leaves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What one of them may do once four may do, one after the other: each holds up the others."""
    slow, then = Step(1, Op("A", 1, 90, (3,))), Step(2, Op("B", 1, 0, (1, 3)))
    tree = (Loop(4, (Either(((slow,), ()), 9, 1), then, Step(3, product(1, 0, 2, 3)))),)
    warps = []
    for turn in range(4):
        ops: list[Op] = []
        for n in range(4):
            last = (len(ops) - 1,) if ops else ()
            if n == turn:
                ops.append(Op("A", 1, 90, last))
                last = (*last, len(ops) - 1)
            ops.append(Op("B", reads=last))
            ops.append(product(1, 0, *last, len(ops) - 1))
        warps.append(tuple(ops))
    end = run((tuple(warps),), Rules(), lambda *_: 0)
    kind = block_kind(analysis_of([tree]), 1)
    assert 4 * 91 < end <= bound_safe(analysis_of([tree])).cycles
    assert end <= bound_grid([kind], Dispatch(1, 1)).cycles
    monkeypatch.setattr(demand_module, "WARPGROUP", 1)  # as this was
    kind = block_kind(analysis_of([tree]), 1)
    assert bound_safe(analysis_of([tree])).cycles < end
    assert bound_grid([kind], Dispatch(1, 1)).cycles < end
    assert exceeded_by_ways(range(40)) > 0


# --- number by number -----------------------------------------------------------------------------


def length_and_slack(ops: Sequence[tuple[int, Op]]) -> tuple[int, int]:
    """L of what a warp executes in a section, alone, and its slack."""
    ready: dict[int, int] = {}
    free: dict[str, int] = {}
    t = end = own = most = 0
    for place, op in ops:
        issue = max([t, *(ready.get(read, 0) for read in op.reads)])
        most = max(most, issue - own)
        begin = max(issue, free.get(op.unit, 0))
        free[op.unit] = begin + op.init
        ready[place] = begin + op.init + op.lat
        end = max(end, ready[place])
        own += op.init
        t = issue + 1 + op.bubble
        if op.kind is Kind.BARRIER:
            end = max(end, t)
    return end, max(most, end - own)


def numbers(block: Block) -> tuple[int, int, int]:
    """The bound, lambda and Y of a block, as the page defines them."""
    rows = []
    for warp in block:
        cuts = [n + 1 for n, op in enumerate(warp) if op.kind is Kind.BARRIER]
        parts = pairwise([0, *cuts, len(warp)])
        rows.append([list(enumerate(warp))[first:last] for first, last in parts])
    bound = slack = 0
    for section in zip(*rows, strict=True):
        joins = [any(op.kind is Kind.PRODUCT for _, op in ops) for ops in section]
        units = [{op.unit for _, op in ops} for ops in section]
        found = []
        for w, ops in enumerate(section):
            total = length_and_slack(ops)[0]
            for v, others in enumerate(section):
                together = v // CORES == w // CORES if joins[w] else v == w
                if together or not (any(joins) or v % CORES == w % CORES):
                    continue
                for _, op in others:
                    is_product = op.kind is Kind.PRODUCT
                    total += op.init + is_product if op.unit in units[w] else 1
            found.append(total)
        bound += max(found)
        slack += max(length_and_slack(ops)[1] for ops in section)
    work = sum(op.init + (op.kind is Kind.PRODUCT) for warp in block for op in warp)
    return bound, slack, work


def test_the_product_says_what_the_page_says() -> None:
    waits = (Op("A", 1, 9), product(8, 0, 0), Op("B", 8, 0, (0,)))  # its second issue has most
    assert numbers((waits,) * CORES)[1] == 9
    for seed in range(-1, drawn(150)):
        block = random_block(Random(f"numbers {seed}")) if seed >= 0 else (waits,) * CORES
        kind = block_kind(analysed(block), 1)
        assert (safe(block), kind.slack_cycles, kind.work_cycles) == numbers(block), seed
        joins = any(op.kind is Kind.PRODUCT for warp in block for op in warp)
        assert (kind.busiest_cycles is None) == joins
