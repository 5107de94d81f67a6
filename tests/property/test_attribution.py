"""Attribution of a warp's cycles: sums are exact, loops cost what their unrolled bodies cost."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from thoroughness import drawn
from warp_nodes import Body, any_nodes, bodies, exact_nodes, instructions

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.explanation import explain_safe
from ptxwcet.bounds.safe import bound_safe, section_upper_bound, worst_way
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import FunctionalUnit
from ptxwcet.timing.attribution import CycleParts, WarpAttribution, attribute_warp
from ptxwcet.timing.demand import heaviest_cycles, most_cycles
from ptxwcet.timing.phases import profile_warp
from ptxwcet.warp.program import (
    Barrier,
    BlockChoice,
    BlockWorkload,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
    unroll,
)

UNITS = ("A", "B", "C")
scoreboards = st.sampled_from(list(Scoreboard))
INSTRUCTIONS = instructions(
    UNITS,
    "abcd",
    most_initiation=6,
    latencies=range(13),
    bubbles=(0, 0, 0, 1, 3),
    origin=st.integers(0, 9),
)


def total(found: WarpAttribution) -> int:
    return sum(parts.total for parts in found.parts.values())


def direct(body: Body, scoreboard: Scoreboard) -> WarpAttribution:
    """Cycle by cycle from the definition: what is the warp waiting for in this cycle?"""
    made: dict[str, tuple[int, int, int]] = {}  # register -> ready, origin, dispatch
    free: dict[str, int] = {}
    charged: dict[tuple[int, str], int] = {}
    steps: dict[tuple[int, str], int] = {}
    t = 0
    last = (0, -1, 0)

    def charge(origin: int, kind: str) -> None:
        charged[origin, kind] = charged.get((origin, kind), 0) + 1

    def wait(cause: tuple[int, int, int]) -> None:
        nonlocal t
        ready, origin, dispatch = cause
        while t < ready:
            charge(origin, "unit" if t < dispatch else "result")
            t += 1

    for node in unroll(body):
        assert isinstance(node, TimedInstruction)
        names = node.reads + (node.writes if scoreboard is Scoreboard.RAW_WAW else ())
        causes = [made[name] for name in names if name in made]
        if causes:
            wait(max(causes, key=lambda cause: cause[0]))
        dispatch = max(t, free.get(node.unit, 0))
        free[node.unit] = dispatch + node.initiation_cycles
        done = free[node.unit] + node.latency_cycles
        for name in node.writes:
            if not node.conditional or done > made.get(name, (0, 0, 0))[0]:
                made[name] = (done, node.origin, dispatch)
        if done > last[0]:
            last = (done, node.origin, dispatch)
        steps[node.origin, node.unit] = steps.get((node.origin, node.unit), 0) + 1
        for _ in range(1 + node.bubble_cycles):
            charge(node.origin, "issue")
            t += 1
        issued = node.origin
    wait(last)
    if t > last[0]:
        charged[issued, "issue"] -= t - last[0]
    # an unknown opcode is one step on each unit: it was executed as often as on any one of them
    executions: dict[int, int] = {}
    for (origin, _unit), times in steps.items():
        executions[origin] = max(executions.get(origin, 0), times)
    parts = {
        origin: CycleParts(*[charged.get((origin, kind), 0) for kind in CycleParts._fields])
        for origin in executions
    }
    return WarpAttribution(last[0], parts, executions)


@given(body=bodies(exact_nodes(INSTRUCTIONS, 40)), scoreboard=scoreboards)
@settings(max_examples=drawn(400), deadline=None)
def test_loops_cost_what_their_unrolled_bodies_cost(body: Body, scoreboard: Scoreboard) -> None:
    assume(most_cycles(body, lambda _: 1) < 3_000)
    found = attribute_warp(body, scoreboard)
    expected = direct(body, scoreboard)
    assert found.cycles == expected.cycles == profile_warp(body, scoreboard).isolated_cycles
    assert found.parts == expected.parts
    assert found.executions == expected.executions


@given(body=bodies(any_nodes(INSTRUCTIONS, 10**9)), scoreboard=scoreboards, through=st.booleans())
@settings(max_examples=drawn(400), deadline=None)
def test_parts_add_up_to_the_length(body: Body, scoreboard: Scoreboard, through: bool) -> None:
    profile = profile_warp(body, scoreboard)
    found = attribute_warp(body, scoreboard, through_bubble=through)
    length = profile.isolated_cycles
    assert found.cycles == (max(length, profile.issue_end_cycles) if through else length)
    assert total(found) == found.cycles
    assert all(min(parts) >= 0 for parts in found.parts.values())


@given(
    sides=st.tuples(bodies(any_nodes(INSTRUCTIONS, 10**9)), bodies(any_nodes(INSTRUCTIONS, 10**9))),
    weight=st.sampled_from(("all", "init", "A")),
)
@settings(max_examples=drawn(200), deadline=None)
def test_interference_adds_up(sides: tuple[Body, Body], weight: str) -> None:
    def cycles(instruction: TimedInstruction) -> int:
        if weight == "A":
            return instruction.initiation_cycles if instruction.unit == "A" else 0
        return 1 if weight == "all" else instruction.initiation_cycles

    for body in (*sides, (BlockChoice(0, sides),)):
        assert sum(heaviest_cycles(body, cycles).values()) == most_cycles(body, cycles)


def pieces(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[list[Body]]:
    return st.lists(bodies(nodes, 3), min_size=3, max_size=3)


@given(
    classes=st.lists(pieces(any_nodes(INSTRUCTIONS, 10**6)), min_size=1, max_size=3),
    times=st.integers(1, 10**9),
    together=st.booleans(),
    machine=st.sampled_from(((1, 1), (2, 2), (2, 1), (2, 3))),
)
@settings(max_examples=drawn(200), deadline=None)
def test_blocks_add_up(
    classes: list[list[Body]], times: int, together: bool, machine: tuple[int, int]
) -> None:
    """Several kinds of warps, a loop with a barrier, which the block may leave out altogether."""
    barrier = Barrier(TimedInstruction("A", 1, 3, bubble_cycles=2, origin=20))
    schedulers, servers = machine

    def program(first: Body, inner: Body, last: Body) -> WarpProgram:
        loop = Repeat(times, (*inner, barrier))
        return WarpProgram((*first, BlockChoice(0, ((), (loop,))) if together else loop, *last))

    workload = BlockWorkload(
        tuple(
            WarpClass(program(*body), tuple(range(3 * index, 3 * index + 1 + 2 * (index < 2))))
            for index, body in enumerate(classes)
        ),
        Scoreboard.RAW_WAW,
    )
    model = replace(
        load_machine(),
        schedulers_per_sm=schedulers,
        units=tuple(FunctionalUnit(unit, servers) for unit in UNITS),
        timings=MappingProxyType({}),
    )
    analysis = analyse_block(workload, model)
    found = explain_safe(analysis)
    assert found.cycles == bound_safe(analysis).cycles
    assert sum(paid.total for paid in found.paid.values()) == found.cycles
    way = worst_way(analysis, analysis.steps)
    for one, (section, cycles) in zip(found.sections, way, strict=True):
        assert one.cycles == cycles == section_upper_bound(analysis, section)
        assert sum(paid.total for paid in one.paid.values()) == one.cycles
