"""False statements about products of warpgroups, each of which some runs must exceed.

What docs/methods/warpgroups.md says of bounds, dropped piece by piece, with cases that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from random import Random
from unittest.mock import patch

from warpgroup_attack import launch, product, random_block, random_op, safe, worst_of
from warpgroup_machine import CORES, Block, Op, Rules, Warp
from warpgroup_ways import analysis_of, random_tree, some_block

from ptxwcet.bounds import analysis as analysis_module
from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.timing import demand as demand_module
from ptxwcet.warp.program import TimedInstruction


@dataclass(frozen=True)
class Case:
    """What is run, in so many slots, and the bound of it."""

    blocks: tuple[Block, ...]
    bound: Callable[[], int]
    slots: int = 1


def of_block(block: Block) -> Case:
    """A block alone."""
    return Case((block,), lambda: safe(block))


def any_block(random: Random) -> Case:
    return of_block(random_block(random))


# --- what is dropped ------------------------------------------------------------------------------


@contextmanager
def charged(
    each: Callable[[TimedInstruction, frozenset[str]], int | None],
) -> Iterator[None]:
    """Charges a product of another warpgroup otherwise, where something is said of it."""
    delay = analysis_module._delay

    def otherwise(one: TimedInstruction, units: frozenset[str]) -> int:
        found = each(one, units) if one.joins else None
        return delay(one, units) if found is None else found

    with patch.object(analysis_module, "_delay", otherwise):
        yield


def at_once() -> AbstractContextManager[None]:
    """Charges four quarters one initiation, as if they came to all four units in one cycle."""
    return charged(
        lambda one, units: 1 - (-one.initiation_cycles // CORES) if one.unit in units else None
    )


def without_initiations() -> AbstractContextManager[None]:
    """Charges four issues and no initiation."""
    return charged(lambda *_: 1)


@contextmanager
def per_sub_core() -> Iterator[None]:
    """Warps are delayed by those of their own sub-core alone, as where nobody joins."""
    with (
        at_once(),
        patch.object(BlockAnalysis, "competing", lambda one, _: one.sub_cores),
        patch.object(BlockSection, "unhindered", lambda *_: 1),
    ):
        yield


@contextmanager
def in_classes() -> Iterator[None]:
    """Launches have the classes of Theorem M."""
    with at_once(), patch.object(BlockAnalysis, "joins", new=False):
        yield


def one_total() -> AbstractContextManager[object]:
    """The four warps of a warpgroup share what one may do in all."""
    return patch.object(demand_module, "WARPGROUP", 1)


# --- cases that need it ---------------------------------------------------------------------------


def quarters(random: Random) -> Case:
    """Short products one behind the other, beside a long one, of which a third warp holds one
    quarter up.
    """
    lat, count = random.randint(15, 35), random.randint(3, 5)
    own: list[Op] = [product(1, lat)]
    own += [product(1, lat, n) for n in range(count - 1)]
    other = (Op("A"), product(random.randint(30, 50), 0, 0))
    late, few = Op("A", random.randint(40, 80)), (Op("B"),)
    return of_block((*[tuple(own)] * CORES, *[other] * CORES, few, (late,), few, few))


def unlike(random: Random) -> Case:
    """The warps of a warpgroup have different programs, with as many products."""
    return of_block(
        tuple(
            (*[random_op(random, n, False) for n in range(random.randint(0, 3))], product(2, 4))
            for _ in range(CORES)
        )
    )


def sharing(random: Random) -> Case:
    own = Op("A", random.randint(3, 8))
    return of_block(((own, product(2, 4), own),) * CORES)


def beside(random: Random) -> Case:
    """A warp issues something else to the unit of its products."""
    init = random.randint(4, 6)
    warp: Warp = (Op("A", 5), product(init, 1, 0), product(2 * init, 1, 0), Op("T", 5))
    return of_block((warp,) * CORES)


def launched(random: Random) -> Case:
    kinds = [random_block(random, 1) for _ in range(2)]
    blocks = tuple(random.choice(kinds) for _ in range(4))
    return Case(blocks, lambda: launch(blocks, 2), 2)


def ways(random: Random) -> Case:
    trees = [random_tree(random)]
    return Case((some_block(trees, random),), lambda: bound_safe(analysis_of(trees)).cycles)


HOLDS, AHEAD = Rules(holds=True), Rules(early=True)


@dataclass(frozen=True)
class Control:
    """A false statement: bounds of cases that are drawn, with something dropped."""

    dropped: Callable[[], AbstractContextManager[object]] = nullcontext
    rules: Rules = AHEAD
    draw: Callable[[Random], Case] = any_block
    jitter: bool = False


CONTROLS = {
    "sub-cores are apart": Control(per_sub_core, HOLDS),
    "initiations cost nothing": Control(without_initiations, draw=quarters),
    "quarters come at once": Control(at_once, Rules(early=True, whole=True), quarters),
    "warps have any programs": Control(rules=HOLDS, draw=unlike),
    "sub-cores share units": Control(rules=Rules(holds=True, shared=frozenset("A")), draw=sharing),
    "others come to the unit of products": Control(rules=Rules(), draw=beside, jitter=True),
    "a total is of four warps": Control(one_total, draw=ways),
    "launches have classes": Control(in_classes, HOLDS, launched),
}


def exceeds(name: str, seed: int, runs: int) -> tuple[bool, bool]:
    """Whether some run of a case exceeds the statement, and the bound as it is: what is refused has
    none.
    """
    control, random = CONTROLS[name], Random(f"{name} {seed}")
    case = control.draw(random)
    with control.dropped():
        false = case.bound()
    rules = replace(control.rules, slots=case.slots)
    worst = worst_of(case.blocks, rules, random, runs, jitter=control.jitter)
    return worst > false, control.dropped is not nullcontext and worst > case.bound()
