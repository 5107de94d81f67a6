"""Bounds of blocks and launches with products of warpgroups, against a machine that runs them.

The machine is ``warpgroup_machine.py``, written from docs/methods/warpgroups.md alone. What the
page says of the bounds is dropped piece by piece, and each piece is missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType

import pytest
from thoroughness import drawn
from warpgroup_machine import CORES, Block, Kind, Op, Rules, Warp, all_runs, by_chance, run

from ptxwcet.bounds import analysis as analysis_module
from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection, analyse_block
from ptxwcet.bounds.grid import Dispatch, bound_grid
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.gub import bound_gub
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.claims import Refusal
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import FunctionalUnit
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

UNITS = "ABT"
MEET = Op("A", kind=Kind.BARRIER)


def product(init: int = 1, lat: int = 0, *reads: int) -> Op:
    return Op("T", init, lat, reads, Kind.PRODUCT)


def timed(place: int, op: Op) -> TimedInstruction:
    return TimedInstruction(
        op.unit,
        op.init,
        op.lat,
        tuple(f"r{read}" for read in op.reads),
        (f"r{place}",),
        bubble_cycles=op.bubble,
        joins=op.kind is Kind.PRODUCT,
    )


def analysed(block: Block, shared: frozenset[str] = frozenset()) -> BlockAnalysis:
    classes = []
    for warp in dict.fromkeys(block):
        nodes = [timed(place, op) for place, op in enumerate(warp)]
        body = tuple(
            Barrier(node) if op.kind is Kind.BARRIER else node
            for node, op in zip(nodes, warp, strict=True)
        )
        numbers = tuple(n for n, one in enumerate(block) if one == warp)
        classes.append(WarpClass(WarpProgram(body), numbers))
    machine = replace(
        load_machine(),
        schedulers_per_sm=CORES,
        units=tuple(FunctionalUnit(unit, 1 if unit in shared else CORES) for unit in UNITS),
        timings=MappingProxyType({}),
    )
    return analyse_block(BlockWorkload(tuple(classes), Scoreboard.RAW), machine)


def safe(block: Block) -> int:
    return bound_safe(analysed(block)).cycles


def launch(blocks: tuple[Block, ...], slots: int) -> int:
    kinds = [block_kind(analysed(one), blocks.count(one)) for one in dict.fromkeys(blocks)]
    return bound_grid(kinds, Dispatch(1, slots)).cycles


# --- random blocks --------------------------------------------------------------------------------


def random_op(random: Random, place: int, product_too: bool) -> Op:
    reads = tuple(read for read in range(place) if random.random() < 0.35)
    lat, init = random.choice((0, 0, 1, 4, 9)), random.choice((1, 1, 1, 2, 5))
    bubble = random.choice((0, 0, 0, 2))
    if product_too and random.random() < 0.45:
        return replace(product(random.choice((1, 2, 4, 8)), lat, *reads), bubble=bubble)
    return Op(random.choice(UNITS), init, lat, reads, bubble=bubble)


def random_warp(random: Random, sections: int, products: bool) -> Warp:
    ops: list[Op] = []
    for section in range(sections):
        for _ in range(random.randint(0, 4)):
            ops.append(random_op(random, len(ops), products))
        if section + 1 < sections:
            ops.append(replace(MEET, reads=tuple(range(len(ops)))[-1:]))
    return tuple(ops)


def random_block(random: Random, most_groups: int = 3) -> Block:
    sections = random.choice((1, 1, 2, 3))
    warps: list[Warp] = []
    alike = random_warp(random, sections, products=True)
    for _ in range(random.randint(1, most_groups)):
        kind = random.random()
        if kind < 0.5:
            warps += [alike] * CORES
        elif kind < 0.8:
            warps += [random_warp(random, sections, products=True)] * CORES
        else:
            warps += [random_warp(random, sections, products=False) for _ in range(CORES)]
    if random.random() < 0.2:
        warps += [random_warp(random, sections, products=False)] * random.randint(1, 3)
    return tuple(warp or (Op("A"),) for warp in warps)


def worst_of(
    blocks: tuple[Block, ...], rules: Rules, random: Random, runs: int, *, jitter: bool = True
) -> int:
    return max(
        run(blocks, rules, by_chance(random, jitter=jitter, bias=random.choice((0, 0.5, 0.95))))
        for _ in range(runs)
    )


@pytest.mark.parametrize("whole", [False, True])
def test_no_block_takes_longer(whole: bool) -> None:
    reached = 0
    for seed in range(drawn(150)):
        random = Random(seed)
        block = random_block(random)
        bound = safe(block)
        worst = worst_of((block,), Rules(whole=whole), random, 6)
        assert worst <= bound, (seed, block)
        reached += worst == bound
    assert reached


def test_no_launch_takes_longer() -> None:
    for seed in range(drawn(90)):
        random = Random(seed)
        kinds = [random_block(random, 2) for _ in range(random.randint(1, 2))]
        blocks = tuple(random.choice(kinds) for _ in range(random.randint(2, 5)))
        slots = random.randint(1, 3)
        worst = worst_of(blocks, Rules(whole=random.random() < 0.3, slots=slots), random, 4)
        assert worst <= launch(blocks, slots), (seed, blocks)


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
    own = (Op("A"), product(1, 0, 0), Op("A"), product(1, 0, 2), Op("B", 1, 30, (3,)))
    first, second = (Op("A", 9),), (Op("B", 1, 9), Op("A", 9, 0, (0,)))
    block = (*[own] * CORES, first, second, (Op("B"),), (Op("B"),))
    assert safe(block[:CORES]) == 4 + 31
    end = run((block,), Rules(), lambda why, count: count - 1 if why == "issue" else 0)
    with pytest.MonkeyPatch.context() as patch:
        assert per_sub_core(patch, block) < end
    assert 35 + 9 + 9 - 1 <= end <= safe(block)


def test_methods_that_know_no_products_refuse() -> None:
    outcome = bound_gub(analysed(((product(),),) * CORES))
    assert isinstance(outcome, Refusal)
    assert "meet at barriers only" in outcome.reason


# --- what the page says, dropped piece by piece -----------------------------------------------------


@dataclass(frozen=True)
class Dropped:
    """A false statement: ``claim`` is exceeded by blocks under ``rules``."""

    claim: Callable[[pytest.MonkeyPatch, Block], int]
    rules: Rules = Rules()
    blocks: Callable[[Random], Block] = lambda random: random_block(random)


def per_sub_core(patch: pytest.MonkeyPatch, block: Block) -> int:
    """Warps are delayed by those of their own sub-core alone, as where nobody joins."""
    patch.setattr(BlockAnalysis, "competing", lambda one, _: one.sub_cores)
    patch.setattr(BlockSection, "unhindered", lambda *_: 1)
    return safe(block)


def without_slots(patch: pytest.MonkeyPatch, block: Block) -> int:
    """A product of another warpgroup costs its initiation, and its issue nothing."""
    delay = analysis_module._delay

    def less(one: TimedInstruction, units: frozenset[str]) -> int:
        return delay(one, units) - (one.joins and one.unit in units)

    patch.setattr(analysis_module, "_delay", less)
    return safe(block)


def without_initiations(patch: pytest.MonkeyPatch, block: Block) -> int:
    """A product of another warpgroup costs four issues, and its initiation nothing."""
    delay = analysis_module._delay
    patch.setattr(analysis_module, "_delay", lambda i, units: 1 if i.joins else delay(i, units))
    return safe(block)


def just_safe(_: pytest.MonkeyPatch, block: Block) -> int:
    return safe(block)


def unlike(random: Random) -> Block:
    """The warps of a warpgroup have different programs, with as many products."""
    return tuple(
        (*[random_op(random, n, False) for n in range(random.randint(0, 3))], product(2, 4))
        for _ in range(CORES)
    )


def chained(random: Random) -> Block:
    """Two warpgroups of products, of which each waits for the one before."""
    rows: list[Warp] = []
    for _ in range(2):
        count = random.randint(1, 3)
        rows += [tuple(product(4, 0, *range(n)[-1:]) for n in range(count))] * CORES
    return tuple(rows)


def apart(random: Random) -> Block:
    return tuple([(Op("A", 5), product(2, 4), Op("A", 5))] * CORES)


DROPPED = {
    "sub-cores are apart": Dropped(per_sub_core),
    "issues cost nothing": Dropped(without_slots, blocks=chained),
    "initiations cost nothing": Dropped(without_initiations),
    "any programs": Dropped(just_safe, blocks=unlike),
    "shared units": Dropped(just_safe, Rules(shared=frozenset("A")), apart),
}


@pytest.mark.parametrize("name", DROPPED)
def test_each_piece_is_needed(name: str) -> None:
    dropped = DROPPED[name]
    for seed in range(400):
        random = Random(seed)
        block = dropped.blocks(random)
        with pytest.MonkeyPatch.context() as patch:
            claim = dropped.claim(patch, block)
        if worst_of((block,), dropped.rules, random, 5, jitter=False) > claim:
            return
    pytest.fail("no run exceeds it")


def test_classes_of_sections_do_not_hold_of_launches_with_products() -> None:
    """Theorem M charges a sub-core at a time; a product leads from one to another."""
    for seed in range(400):
        random = Random(seed)
        kinds = [random_block(random, 1) for _ in range(2)]
        blocks = tuple(random.choice(kinds) for _ in range(4))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BlockAnalysis, "joins", False)
            claim = launch(blocks, 2)
        if worst_of(blocks, Rules(slots=2), random, 5, jitter=False) > claim:
            return
    pytest.fail("no run exceeds it")
