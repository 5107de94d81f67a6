"""Warpgroups whose warps go different ways between their products (docs/methods/warpgroups.md).

A program is a tree with alternatives, some of them tallied, loops and products; the four warps of
a warpgroup execute one tree, each on a way of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from warpgroup_attack import analysed_classes, product, random_op
from warpgroup_machine import CORES, Block, Kind, Op, Warp

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.timing.demand import issue_count
from ptxwcet.warp.program import Choice, Node, Repeat, Tally, TimedInstruction


@dataclass(frozen=True)
class Step:
    """An operation that reads what the last of some steps before it wrote, by their numbers."""

    number: int
    op: Op


@dataclass(frozen=True)
class Either:
    """One of two sides; a warp takes the first one ``most`` times in all, if that is a number."""

    sides: tuple[Tree, Tree]
    number: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Loop:
    """The same over and over."""

    times: int
    body: Tree


Tree = tuple[Step | Either | Loop, ...]


def program(tree: Tree) -> tuple[Node, ...]:
    """What the product is told."""
    nodes: list[Node] = []
    for one in tree:
        match one:
            case Step(number, op):
                reads, joins = tuple(f"r{read}" for read in op.reads), op.kind is Kind.PRODUCT
                nodes.append(
                    TimedInstruction(
                        *(op.unit, op.init, op.lat, reads, (f"r{number}",)),
                        bubble_cycles=op.bubble,
                        joins=joins,
                    )
                )
            case Either((first, second), number, most):
                mark = () if most is None else (Tally(str(number), most),)
                nodes.append(Choice(((*mark, *program(first)), program(second))))
            case Loop(times, body):
                nodes.append(Repeat(times, program(body)))
    return tuple(nodes)


def way(tree: Tree, random: Random, bias: float) -> Warp:
    """A way through a tree that keeps its limits."""
    ops: list[Op] = []
    written: dict[int, int] = {}
    taken = Counter[int]()

    def go(part: Tree) -> None:
        for one in part:
            match one:
                case Step(number, op):
                    reads = tuple(written[read] for read in op.reads if read in written)
                    written[number] = len(ops)
                    ops.append(replace(op, reads=reads))
                case Either(sides, number, most):
                    first = most is None or taken[number] < most
                    first = first and random.random() < bias
                    taken[number] += first
                    go(sides[0 if first else 1])
                case Loop(times, body):
                    for _ in range(times):
                        go(body)

    go(tree)
    return tuple(ops)


def random_tree(random: Random) -> Tree:
    """A few products, mostly in a loop, with alternatives between them."""
    number = 0

    def step(*, joins: bool) -> Step:
        nonlocal number
        number += 1
        op = random_op(random, number, joins)
        while joins != (op.kind is Kind.PRODUCT):
            op = product(random.choice((1, 2, 5)), 0, *op.reads) if joins else random_op(
                random, number, False
            )  # fmt: skip
        if op.kind is not Kind.PRODUCT and op.unit == "T":
            op = replace(op, unit=random.choice("AB"))
        slow = random.random() < 0.3 and not joins
        return Step(number, replace(op, lat=random.choice((9, 20, 40))) if slow else op)

    def part(most: int) -> Tree:
        return tuple(step(joins=False) for _ in range(random.randint(0, most)))

    def either() -> Either:
        nonlocal number
        number += 1
        most = random.choice((None, 1, 1, 2))
        sides = (*part(2), step(joins=False)), part(1)
        return Either(sides, number, most)

    def rounds() -> Tree:
        out: list[Step | Either | Loop] = []
        for _ in range(random.randint(1, 2)):
            out += part(1)
            out.append(either())
            out += part(1)
            out.append(step(joins=True))
        return tuple(out)

    ends = part(1)
    return (*ends, Loop(random.randint(1, 5), rounds()), *rounds()[: random.randint(0, 4)])


def analysis_of(trees: Sequence[Tree]) -> BlockAnalysis:
    """The product's view of a block with a warpgroup, or four warps, of each tree."""
    return analysed_classes(
        [(program(tree), range(CORES * n, CORES * n + CORES)) for n, tree in enumerate(trees)]
    )


def some_block(trees: Sequence[Tree], random: Random) -> Block:
    """A block whose warps go their ways."""
    bias = random.choice((0.2, 0.5, 0.8))
    rows = [way(tree, random, bias) for tree in trees for _ in range(CORES)]
    return tuple(row or (Op("A"),) for row in rows)


def steps_of(trees: Sequence[Tree]) -> int:
    """How much there is to run."""
    return sum(issue_count(program(tree)) for tree in trees)
