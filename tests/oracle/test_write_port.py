"""The write-port hazard of the paper's simulator: what the charges of the hazard machine cover.

A unit that has the hazard is a queue that does not dispatch an instruction which would finish in
the same cycle as an earlier one; whatever waits behind it waits too. Latencies here are those of
the simulator's configuration, from dispatch to the end, initiation included.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import OpTiming

pytestmark = pytest.mark.fast

NOMINAL = load_machine("orin-ecrts2025")
CHARGED = load_machine("orin-ecrts2025-hazard")
PIPELINE = 4
"""Cycles from issue to write-back besides the configured latency, part of the latencies there."""

WORST: dict[int, list[tuple[int, OpClass]]] = {
    2: [(0, OpClass.SHUFFLE), (18, OpClass.INT_ADD), (20, OpClass.LOGIC)],
    3: [
        (0, OpClass.FP64_DIV),
        (290, OpClass.FP32_DIV),
        (292, OpClass.FP32_DIV),
        (308, OpClass.INT_DIV),
    ],
}
"""By the longest wait: queues in which longer operations end in one cycle after the other."""

INT_KINDS = [OpClass.INT_ADD, OpClass.INT_MUL24, OpClass.COMPARE, OpClass.LOGIC]
SFU_KINDS = [OpClass.INT_DIV, OpClass.FP32_DIV, OpClass.FP32_SFU, OpClass.FP64_SFU]

Arrival = tuple[int, OpClass]


def nominal(kind: OpClass) -> OpTiming:
    row = NOMINAL.timings[kind]
    assert isinstance(row, OpTiming)
    return row


def configured_cycles(kind: OpClass) -> int:
    return nominal(kind).initiation_cycles + nominal(kind).latency_cycles - PIPELINE


def ends_with_port(arrivals: Sequence[Arrival]) -> tuple[list[int], int]:
    """When each instruction of the queue ends, and the longest wait for the port."""
    free = longest = 0
    taken: set[int] = set()
    ends = []
    for arrival, kind in arrivals:
        start = dispatch = max(arrival, free)
        while dispatch + configured_cycles(kind) in taken:
            dispatch += 1
        longest = max(longest, dispatch - start)
        ends.append(dispatch + configured_cycles(kind))
        taken.add(ends[-1])
        free = dispatch + nominal(kind).initiation_cycles
    return ends, longest


def ends_charged(arrivals: Sequence[Arrival]) -> list[int]:
    """The same queue without the hazard, with the timings of the hazard machine."""
    free = 0
    ends = []
    for arrival, kind in arrivals:
        row = CHARGED.timings[kind]
        assert isinstance(row, OpTiming)
        dispatch = max(arrival, free)
        free = dispatch + row.initiation_cycles
        ends.append(free + row.latency_cycles - PIPELINE)
    return ends


def random_arrivals(kinds: Sequence[OpClass], seed: int) -> list[Arrival]:
    rng = random.Random(seed)
    time = 0
    rows = []
    for _ in range(rng.randint(2, 40)):
        time += rng.choice((0, 0, 1, 1, 2, 3, 17, 40))
        rows.append((time, rng.choice(kinds)))
    return rows


def exceeding(kinds: Sequence[OpClass], seeds: int = 3000) -> int:
    """How many of so many random queues end later, somewhere, than they are charged."""
    found = 0
    for seed in range(seeds):
        arrivals = random_arrivals(kinds, seed)
        ends, _ = ends_with_port(arrivals)
        found += any(a > b for a, b in zip(ends, ends_charged(arrivals), strict=True))
    return found


@pytest.mark.parametrize("kinds", [INT_KINDS, SFU_KINDS], ids=["INT", "SFU"])
def test_one_more_cycle_covers_mixes_of_two_latencies(kinds: list[OpClass]) -> None:
    assert exceeding(kinds) == 0
    waits = [ends_with_port(random_arrivals(kinds, seed))[1] for seed in range(3000)]
    assert max(waits) == 1  # the hazard is met, and costs what is charged


def test_div_s32_beside_div_full_f32() -> None:
    """The case that was not charged: nominal timings are exceeded, charged ones are not."""
    arrivals = [(0, OpClass.FP32_DIV), (18, OpClass.INT_DIV)]
    ends, wait = ends_with_port(arrivals)
    assert (ends, wait) == ([39, 40], 1)
    assert ends_charged(arrivals)[1] >= 40
    row = nominal(OpClass.INT_DIV)
    assert 18 + row.initiation_cycles + row.latency_cycles - PIPELINE == 39


@pytest.mark.parametrize(
    ("kinds", "longest"),
    [
        ([*INT_KINDS, OpClass.SHUFFLE], 2),
        ([*SFU_KINDS, OpClass.FP64_DIV], 3),
    ],
    ids=["shuffles on INT", "f64 divisions on SFU"],
)
def test_a_third_latency_in_flight_is_not_covered(kinds: list[OpClass], longest: int) -> None:
    """What docs/machine-files.md says is not charged, with the largest wait that it names."""
    queue = WORST[longest]
    ends, wait = ends_with_port(queue)
    assert wait == longest
    assert ends[-1] > ends_charged(queue)[-1]
    others = (random_arrivals(kinds, seed) for seed in range(6000))
    assert max(ends_with_port(arrivals)[1] for arrivals in others) <= longest
