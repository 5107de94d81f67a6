"""Liveness of compiled programs from summaries is that of its definition, iterated to its end."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ptxwcet.timing.compilation import (
    BothOrders,
    Compiled,
    Loop,
    OneOf,
    Step,
    Straight,
    _live_before,
    _loop,
    _straight,
)

REGISTERS = range(5)


def random_step(draw: random.Random) -> Step:
    waits = tuple(draw.sample(REGISTERS, draw.randint(0, 2)))
    writes = tuple(draw.sample(REGISTERS, draw.randint(0, 1)))
    return waits, writes, draw.randint(0, 2), 1, 3, draw.random() < 0.3, 1


def random_body(draw: random.Random, depth: int) -> tuple[Compiled, ...]:
    out: list[Compiled] = []
    for _ in range(draw.randint(depth == 3, 3)):
        kind = draw.choice(("steps", "loop", "orders", "choice")) if depth else "steps"
        if kind == "steps":
            steps = [random_step(draw) for _ in range(draw.randint(1, 3))]
            out.append(_straight(steps, [0] * len(steps)))
        elif kind == "loop":
            count = draw.randint(1, 4)
            out.append(_loop(count, draw.randint(0, count), random_body(draw, depth - 1)))
        elif kind == "orders":
            sides = random_body(draw, depth - 1), random_body(draw, depth - 1)
            out.append(BothOrders(*sides, 0, draw.random() < 0.5))
        else:
            sides = tuple(random_body(draw, depth - 1) for _ in range(draw.randint(1, 3)))
            out.append(OneOf(sides))
    return tuple(out)


def defined(body: Sequence[Compiled], live: frozenset[int]) -> frozenset[int]:
    """Registers live before a body: step by step backwards, and round a loop until none is new."""
    for node in reversed(body):
        match node:
            case Straight(steps=steps):
                for waits, writes, _, _, _, conditional, _ in reversed(steps):
                    live = (live if conditional else live - {*writes}) | {*waits}
            case Loop(count=count, least=least, body=inside):
                before = defined(inside, live)
                while count > 1 and (wider := before | defined(inside, live | before)) != before:
                    before = wider
                live = before if least else before | live
            case BothOrders(first, second):
                live = defined((*first, *second), live) | defined((*second, *first), live)
            case OneOf(alternatives):
                live = frozenset().union(*(defined(side, live) for side in alternatives))
    return live


def test_summaries_say_what_the_definition_says() -> None:
    draw = random.Random(7)
    for _ in range(400):
        body = random_body(draw, 3)
        live = frozenset(draw.sample(REGISTERS, draw.randint(0, 5)))
        assert _live_before(body, live) == defined(body, live)
        for node in body:
            if isinstance(node, Loop):
                again = defined(node.body, frozenset())
                again |= defined(node.body, again)
                assert node.carried_registers == tuple(sorted(again))
