"""The slack of a warp by its definition, on every way through small programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import combinations, islice, product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from issue_trace import trace_issue
from thoroughness import drawn
from warp_nodes import bodies, repeats

from ptxwcet.timing import compilation
from ptxwcet.timing.phases import profile_warp
from ptxwcet.timing.slack import warp_slack
from ptxwcet.warp.program import (
    OTHERS_BETWEEN,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    Unordered,
    unroll,
)

sys.path.insert(0, str(Path(__file__).parent))
from test_limited_totals import INSTRUCTIONS, allowed, programs

Way = tuple[TimedInstruction, ...]


def slack_of(way: Way, scoreboard: Scoreboard, *, through_bubble: bool) -> int:
    records = trace_issue(way, scoreboard)
    charged, most, end = 0, 0, 0
    for record, each in zip(records, way, strict=True):
        most = max(most, record.issue - charged)
        charged += each.initiation_cycles
        end = max(end, record.ready)
    if way and through_bubble:
        end = max(end, records[-1].issue + 1 + way[-1].bubble_cycles)
    return max(most, end - charged)


@settings(max_examples=drawn(100), deadline=None)
@given(programs(), st.sampled_from(Scoreboard), st.booleans())
def test_no_way_within_the_limits_has_more(
    body: tuple[Node, ...], scoreboard: Scoreboard, through_bubble: bool
) -> None:
    found = warp_slack(body, scoreboard, through_bubble=through_bubble)
    for way in allowed(body):
        assert slack_of(way, scoreboard, through_bubble=through_bubble) <= found


@settings(max_examples=drawn(100), deadline=None)
@given(
    bodies(
        st.recursive(
            INSTRUCTIONS,
            lambda inner: st.builds(Repeat, st.integers(0, 40), bodies(inner, 4)),
            max_leaves=6,
        ),
        4,
    ),
    st.sampled_from(Scoreboard),
)
def test_a_single_path_has_just_that(body: tuple[Node, ...], scoreboard: Scoreboard) -> None:
    way = tuple(each for each in unroll(body) if isinstance(each, TimedInstruction))
    found = warp_slack(body, scoreboard, through_bubble=False)
    assert found == slack_of(way, scoreboard, through_bubble=False)


@settings(max_examples=drawn(60), deadline=None)
@given(
    bodies(st.one_of(INSTRUCTIONS, repeats(INSTRUCTIONS, 40)), 3),
    bodies(INSTRUCTIONS, 3),
    st.sampled_from(Scoreboard),
)
def test_long_loops_of_unknown_counts(
    body: tuple[Node, ...], side: tuple[Node, ...], scoreboard: Scoreboard
) -> None:
    """Loops whose periods are skipped, up to 40 times, and a side that may be left out."""
    body = (Repeat(30, (*body[:1], Choice((side, ()))), 0), *body[1:2])
    loops = sum(isinstance(node, Repeat) for node in body)
    found = warp_slack(body, scoreboard, through_bubble=True)
    for way in sampled(body, 12 if loops > 1 else 40):
        assert slack_of(way, scoreboard, through_bubble=True) <= found


def sampled(body: tuple[Node, ...], most: int) -> list[Way]:
    """Some ways: counts that are all least, all most or in between, one side throughout."""

    def way(nodes: tuple[Node, ...], share: int, side: int) -> Way:
        out: list[TimedInstruction] = []
        for node in nodes:
            match node:
                case TimedInstruction():
                    out.append(node)
                case Repeat(count=count, body=inner, least=least):
                    for n in range(least + (count - least) * share // most):
                        out += way(inner, share, side if side < 2 else n % 2)
                case Choice(alternatives):
                    out += way(alternatives[side % 2], share, side)
                case _:
                    raise AssertionError(node)
        return tuple(out)

    return [way(body, share, side) for share in range(most + 1) for side in range(3)]


def test_the_largest_length_less_the_largest_charge_is_too_little() -> None:
    """One side takes long and is charged little, the other is short and charged much."""
    load = TimedInstruction("M", 1, 100, (), ("x",))
    use = TimedInstruction("A", 1, 0, ("x",))
    busy = TimedInstruction("B", 40, 0)
    body = (Choice(((load, use), (busy, busy))),)
    assert warp_slack(body, Scoreboard.RAW, through_bubble=False) == 100
    assert warp_slack((load, use), Scoreboard.RAW, through_bubble=False) == 100
    assert warp_slack((busy, busy), Scoreboard.RAW, through_bubble=False) == 0


def test_an_issue_may_have_more_than_the_end() -> None:
    """A load, then initiations that overlap each other: the slack is that of the first of them."""
    load = TimedInstruction("M", 1, 9, (), ("x",))
    body = (load, *(TimedInstruction(unit, 8, 0, ("x",)) for unit in "ABCD"))
    length, own = 10 + 3 + 8, 1 + 4 * 8
    assert length < own
    assert warp_slack(body, Scoreboard.RAW, through_bubble=False) == 9


def a_step(unit: str, initiation: int, latency: int, *names: str) -> TimedInstruction:
    """An instruction that reads what begins with ``<`` and writes the other names."""
    reads = tuple(name[1:] for name in names if name.startswith("<"))
    writes = tuple(name for name in names if not name.startswith("<"))
    return TimedInstruction(unit, initiation, latency, reads, writes)


ENDS_FIRST = (
    Unordered((a_step("A", 1, 1), a_step("A", 1, 1, "a")), ()),
    Unordered(
        (a_step("A", 1, 0, "<a"),),
        (TimedInstruction("A", 1, 0, (), ("b", "a"), bubble_cycles=2),),
    ),
)
"""The side that is run first ends last where it comes behind the other."""
EARNS_MORE = (
    Unordered(
        (a_step("B", 8, 0), a_step("C", 8, 0)),
        (a_step("A", 1, 9, "x"), a_step("A", 1, 0, "<x"), a_step("A", 1, 0)),
    ),
)
"""The side that is run first has initiations of 16 cycles in 9: the other waits for more, less what
was charged, where it comes first."""


@settings(max_examples=drawn(150), deadline=None)
@given(programs(most_count=40), st.sampled_from(Scoreboard), st.booleans())
@example(ENDS_FIRST, Scoreboard.RAW_WAW, False)
@example(EARNS_MORE, Scoreboard.RAW, False)
def test_sides_charged_one_after_the_other_take_no_less(
    body: tuple[Node, ...], scoreboard: Scoreboard, through_bubble: bool
) -> None:
    """As of sides that are nested too deep for all their orders, with loops around and in them."""
    exact = profile_warp(body, scoreboard)
    slack = warp_slack(body, scoreboard, through_bubble=through_bubble)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "_MOST_ORDERED", 0)
        drained = profile_warp(body, scoreboard)
        assert drained.isolated_cycles >= exact.isolated_cycles
        assert drained.issue_end_cycles >= exact.issue_end_cycles
        assert warp_slack(body, scoreboard, through_bubble=through_bubble) >= slack
        unrolled = profile_warp(tuple(_unrolled(body)), scoreboard)
    assert drained.isolated_cycles == unrolled.isolated_cycles


def _unrolled(body: Iterable[Node]) -> Iterator[Node]:
    """The body without closed forms of loops that are executed a fixed number of times."""
    for node in body:
        match node:
            case Repeat(count, inner, least) if count == least:
                yield from _unrolled(inner * count)
            case Repeat(count, inner, least):
                yield Repeat(count, tuple(_unrolled(inner)), least)
            case Unordered(first, second, others):
                yield Unordered(tuple(_unrolled(first)), tuple(_unrolled(second)), others)
            case Choice(alternatives):
                yield Choice(tuple(tuple(_unrolled(side)) for side in alternatives))
            case _:
                yield node


LATER = (
    Unordered(
        (
            *(OTHERS_BETWEEN, a_step("M", 1, 100, "x"), a_step("A", 1, 0, "<x"), OTHERS_BETWEEN),
            *(a_step(unit, 8, 0) for unit in "BCD"),
        ),
        (OTHERS_BETWEEN, a_step("M", 1, 20, "y"), *(a_step(unit, 8, 0, "<y") for unit in "BCD")),
    ),
    OTHERS_BETWEEN,
)
"""What earns more than it takes is the rest of a side: the other side may come before it."""


@st.composite
def groups(draw: st.DrawFn, depth: int = 2) -> tuple[Node, ...]:
    """Sides of branches whose groups of lanes may go on between one another."""
    out: list[Node] = [*draw(bodies(INSTRUCTIONS, 2))]
    for _ in range(draw(st.integers(1, 2))):
        sides = [
            draw(groups(depth - 1)) if depth and draw(st.booleans()) else draw(marked())
            for _ in range(2)
        ]
        first, second = ((OTHERS_BETWEEN, *side) for side in sides)
        out += (Unordered(first, second), OTHERS_BETWEEN, *draw(bodies(INSTRUCTIONS, 1)))
    return tuple(out)


@st.composite
def marked(draw: st.DrawFn) -> tuple[Node, ...]:
    """Pieces of a side, in a loop or not."""
    leaves = st.one_of(INSTRUCTIONS, INSTRUCTIONS, st.just(OTHERS_BETWEEN))
    body = draw(bodies(leaves, 4))
    return (Repeat(draw(st.integers(2, 4)), (OTHERS_BETWEEN, *body)),) * draw(
        st.integers(0, 1)
    ) or body


Pieces = tuple[Way, ...]
MOST_ORDERS = 200


def interleaved(body: tuple[Node, ...]) -> Iterator[Pieces]:
    """The orders in which groups issue the pieces between marks; the last one is open."""
    found: list[Pieces] = [((),)]
    for node in body:
        match node:
            case TimedInstruction():
                more: list[Pieces] = [((node,),)]
            case Repeat(count, inner):
                more = [*interleaved(inner * count)]
            case Unordered(has_others=True):
                more = [((), ())]
            case Unordered(first, second):
                pairs = product(interleaved(first), interleaved(second))
                orders = (merged for pair in pairs for merged in shuffled(*pair))
                more = [((), *merged, ()) for merged in islice(orders, MOST_ORDERS)]
            case _:
                raise AssertionError(node)
        pairs = islice(product(found, more), MOST_ORDERS)
        found = [(*a[:-1], (*a[-1], *b[0]), *b[1:]) for a, b in pairs]
    yield from found


def shuffled(each: Pieces, other: Pieces) -> Iterator[Pieces]:
    """The pieces of two sides in all orders that keep those of both."""
    each, other = (tuple(filter(None, side)) for side in (each, other))
    for places in combinations(range(len(each) + len(other)), len(each)):
        a, b = iter(each), iter(other)
        yield tuple(next(a if n in places else b) for n in range(len(each) + len(other)))


@settings(max_examples=drawn(150), deadline=None)
@given(groups(), st.sampled_from(Scoreboard), st.booleans(), st.sampled_from((0, 8, 250_000)))
@example(LATER, Scoreboard.RAW, False, 250_000)
def test_groups_that_go_on_between_others_have_no_more(
    body: tuple[Node, ...], scoreboard: Scoreboard, through_bubble: bool, most_ordered: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "_MOST_ORDERED", most_ordered)
        found = warp_slack(body, scoreboard, through_bubble=through_bubble)
        length = profile_warp(body, scoreboard).isolated_cycles
    for pieces in interleaved(body):
        way = tuple(each for piece in pieces for each in piece)
        assert slack_of(way, scoreboard, through_bubble=through_bubble) <= found
        assert max((each.ready for each in trace_issue(way, scoreboard)), default=0) <= length
