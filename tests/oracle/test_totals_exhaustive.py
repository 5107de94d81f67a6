"""SAFE with limited totals against all schedules of tiny blocks; resolutions; explanations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, product

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_bounds_exhaustive import Search, machine_with
from thoroughness import drawn

from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.explanation import explain_safe
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.simulator.resolution import resolve_workload
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.demand import find_limits
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    Tally,
    TimedInstruction,
    Unordered,
    WarpClass,
    WarpProgram,
    unroll,
)

REGISTERS = ("a", "b")
MOST_WAYS = 2000
Way = tuple[TimedInstruction | Barrier, ...]
SYNC = Barrier(TimedInstruction("A", 1, 0))


@st.composite
def instructions(draw: st.DrawFn) -> TimedInstruction:
    names = st.lists(st.sampled_from(REGISTERS), max_size=1).map(tuple)
    unit, origin = draw(st.sampled_from("AB")), draw(st.integers(0, 3))
    cycles = draw(st.integers(1, 4)), draw(st.integers(0, 6))
    return TimedInstruction(unit, *cycles, draw(names), draw(names), origin=origin)


@st.composite
def nests(draw: st.DrawFn, *, barriers: bool = False) -> tuple[Node, ...]:
    """Rounds of a loop whose iterations are limited in all, and perhaps a limited side."""
    tally = Tally("n", draw(st.integers(0, 3)))
    one = st.lists(instructions(), min_size=1, max_size=2).map(tuple)
    least = draw(st.integers(0, 1)) if tally.most > 1 else 0
    inner: Node = Repeat(draw(st.integers(max(1, least), 2)), (tally, *draw(one)), least)
    if draw(st.booleans()):
        inner = Choice(((tally, *draw(one)), ()))
    body = (*draw(st.lists(instructions(), max_size=1)), inner)
    rounds = Repeat(draw(st.integers(1, 2)), (*body, SYNC) if barriers else body)
    return (rounds, *draw(st.lists(instructions(), max_size=1)))


def ways(body: tuple[Node, ...]) -> Iterator[tuple[Way, Counter[str]]]:
    """Every way through a body, and how often it passes tallies."""
    if not body:
        yield (), Counter()
        return
    node, rest = body[0], body[1:]
    starts: Iterator[tuple[Way, Counter[str]]]
    match node:
        case TimedInstruction() | Barrier():
            starts = iter([((node,), Counter())])
        case Tally(key):
            starts = iter([((), Counter({key: 1}))])
        case Repeat(count=count, body=inner, least=least):
            starts = (way for times in range(least, count + 1) for way in ways(inner * times))
        case Unordered(first, second):
            starts = (way for both in (first + second, second + first) for way in ways(both))
        case Choice(alternatives):
            starts = (way for side in alternatives for way in ways(side))
        case _:
            raise AssertionError(node)
    for one, passed in starts:
        for other, others in ways(rest):
            yield (*one, *other), passed + others


def allowed(body: tuple[Node, ...]) -> set[Way]:
    """The ways that keep all limits; assumes that they are few, and that there are some."""
    limits = find_limits(body)
    found = list(islice(ways(body), MOST_WAYS + 1))
    assume(len(found) <= MOST_WAYS)
    kept = {w for w, passed in found if all(passed[key] <= most for key, most in limits.items())}
    assume(kept)
    return kept


def analysis_of(bodies: tuple[tuple[Node, ...], ...], scoreboard: Scoreboard) -> BlockAnalysis:
    classes = tuple(WarpClass(WarpProgram(body), (n,)) for n, body in enumerate(bodies))
    return analyse_block(BlockWorkload(classes, scoreboard), machine_with({"A", "B"}, 1))


@settings(max_examples=drawn(120), deadline=None)
@given(
    st.booleans().flatmap(lambda has: st.tuples(nests(barriers=has), nests(barriers=has))),
    st.sampled_from(Scoreboard),
)
def test_no_schedule_of_allowed_ways_exceeds_safe(
    bodies: tuple[tuple[Node, ...], tuple[Node, ...]], scoreboard: Scoreboard
) -> None:
    sides = [sorted(allowed(body), key=len)[-4:] for body in bodies]
    assume(all(len(way) <= 9 for side in sides for way in side))
    assume(len({sum(isinstance(n, Barrier) for n in way) for side in sides for way in side}) == 1)
    bound = bound_safe(analysis_of(bodies, scoreboard)).cycles
    for pair in product(*sides):
        assert Search(pair, scoreboard, worst=True).run() <= bound


def programs() -> st.SearchStrategy[tuple[Node, ...]]:
    tallies = st.sampled_from([Tally("n", 3), Tally("m", 2)])

    def around(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        bodies = st.lists(inner, max_size=3).map(tuple)
        counts = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted)
        return st.one_of(
            st.builds(lambda pair, body: Repeat(pair[1], body, pair[0]), counts, bodies),
            st.builds(Unordered, bodies, bodies),
            st.builds(Choice, st.lists(bodies, min_size=1, max_size=3).map(tuple)),
        )

    nodes = st.recursive(st.one_of(instructions(), tallies), around, max_leaves=8)
    return st.lists(nodes, min_size=1, max_size=3).map(tuple)


@settings(max_examples=drawn(200), deadline=None)
@given(programs(), st.one_of(st.none(), st.integers(0, 99)))
def test_a_resolution_keeps_the_limits(body: tuple[Node, ...], seed: int | None) -> None:
    kept = allowed(body)
    workload = BlockWorkload((WarpClass(WarpProgram(body), (0,)),), Scoreboard.RAW)
    if len(find_limits(body)) > 1:  # one limit is always kept if it can be, several perhaps not
        with suppress(PtxwcetError):
            resolved = resolve_workload(workload, seed)
            assert tuple(unroll(resolved.classes[0].program.body)) in kept
        return
    resolved = resolve_workload(workload, seed)
    assert tuple(unroll(resolved.classes[0].program.body)) in kept


def test_resolutions_find_uneven_distributions() -> None:
    a, b = TimedInstruction("A", 1, 0), TimedInstruction("B", 1, 0)
    body = (Repeat(3, (a, Repeat(2, (Tally("n", 3), b), 0))),)
    workload = BlockWorkload((WarpClass(WarpProgram(body), (0,)),), Scoreboard.RAW)

    def units(seed: int | None) -> str:
        nodes = unroll(resolve_workload(workload, seed).classes[0].program.body)
        return "".join(node.unit for node in nodes if isinstance(node, TimedInstruction))

    assert units(None) == "ABBABA"
    found = {units(seed) for seed in range(300)}
    assert {"ABBABA", "AAA", "ABABA", "ABAA", "ABBAA", "ABABAB"} <= found
    assert max(text.count("B") for text in found) == 3


@settings(max_examples=drawn(150), deadline=None)
@given(st.tuples(programs(), programs()), st.sampled_from(Scoreboard))
def test_the_explanation_adds_up(
    bodies: tuple[tuple[Node, ...], tuple[Node, ...]], scoreboard: Scoreboard
) -> None:
    for body in bodies:
        allowed(body)
    analysis = analysis_of(bodies, scoreboard)
    explained = explain_safe(analysis)
    assert explained.cycles == bound_safe(analysis).cycles
    assert sum(paid.total for paid in explained.paid.values()) == explained.cycles
