"""Blocks and launches of warpgroups at random, with the product's bounds of them.

The machine that they run on is ``warpgroup_machine.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from types import MappingProxyType

from warpgroup_machine import CORES, Block, Kind, Op, Rules, Warp, by_chance, run

from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.grid import Dispatch, bound_grid
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import FunctionalUnit
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
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


def analysed(block: Block) -> BlockAnalysis:
    classes = []
    for warp in dict.fromkeys(block):
        nodes = [timed(place, op) for place, op in enumerate(warp)]
        body = tuple(
            Barrier(node) if op.kind is Kind.BARRIER else node
            for node, op in zip(nodes, warp, strict=True)
        )
        classes.append((body, [n for n, one in enumerate(block) if one == warp]))
    return analysed_classes(classes)


def analysed_classes(classes: Iterable[tuple[tuple[Node, ...], Iterable[int]]]) -> BlockAnalysis:
    """Of programs, and the warps that execute each."""
    machine = replace(
        load_machine(),
        schedulers_per_sm=CORES,
        units=tuple(FunctionalUnit(unit, CORES) for unit in UNITS),
        timings=MappingProxyType({}),
    )
    found = tuple(WarpClass(WarpProgram(body), tuple(warps)) for body, warps in classes)
    return analyse_block(BlockWorkload(found, Scoreboard.RAW), machine)


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
    # products have their unit alone
    unit = random.choice(UNITS[:-1] if product_too else UNITS)
    return Op(unit, init, lat, reads, bubble=bubble)


def random_warp(random: Random, sections: int, products: bool) -> Warp:
    ops: list[Op] = []
    for section in range(sections):
        for _ in range(random.randint(0, 4)):
            ops.append(random_op(random, len(ops), products))
        if section + 1 < sections:
            ops.append(replace(MEET, reads=tuple(range(len(ops)))[-1:]))
    return tuple(ops)


def random_launch(random: Random, most: int = 5) -> tuple[tuple[Block, ...], int]:
    """Blocks of one or two kinds in their order, and the slots of the SM."""
    kinds = [random_block(random, 2) for _ in range(random.randint(1, 2))]
    blocks = tuple(random.choice(kinds) for _ in range(random.randint(2, most)))
    return blocks, random.randint(1, 3)


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
