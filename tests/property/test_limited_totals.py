"""Limited totals against all ways through small programs, and a run without closed forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from issue_trace import trace_issue
from thoroughness import drawn
from warp_nodes import bodies, direct_steps, instructions, repeats

from ptxwcet.bounds.analysis import WarpSection
from ptxwcet.timing.demand import find_limits
from ptxwcet.timing.phases import profile_warp
from ptxwcet.warp.program import (
    Choice,
    Node,
    Repeat,
    Scoreboard,
    Tally,
    TimedInstruction,
    Unordered,
)

MOST_WAYS = 3000
Way = tuple[tuple[TimedInstruction, ...], Counter[str]]
INSTRUCTIONS = instructions(
    "AB", "abc", most_initiation=6, latencies=range(13), bubbles=(0, 0, 0, 2)
)


def limited_nodes(limits: dict[str, int], most_count: int) -> st.SearchStrategy[Node]:
    tallies = st.sampled_from([Tally(key, most) for key, most in limits.items()])
    leaves = st.one_of(INSTRUCTIONS, INSTRUCTIONS, tallies)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            repeats(inner, most_count),
            repeats(inner, most_count),
            st.builds(Unordered, bodies(inner, 3), bodies(inner, 3)),
            st.builds(Choice, st.lists(bodies(inner, 3), min_size=1, max_size=3).map(tuple)),
        ),
        max_leaves=8,
    )


@st.composite
def programs(draw: st.DrawFn, most_count: int = 3) -> tuple[Node, ...]:
    keys = draw(st.sampled_from((("a",), ("a",), ("a", "b"))))
    limits = {key: draw(st.integers(0, 6)) for key in keys}
    return draw(bodies(limited_nodes(limits, most_count), most=4))


def ways(body: tuple[Node, ...]) -> Iterator[Way]:
    """Every way through a body: what it executes, and how often it passes tallies."""
    if not body:
        yield (), Counter()
        return
    for one, passed in ways_of(body[0]):
        for rest, others in ways(body[1:]):
            yield (*one, *rest), passed + others


def ways_of(node: Node) -> Iterator[Way]:
    match node:
        case TimedInstruction():
            yield (node,), Counter()
        case Tally(key):
            yield (), Counter({key: 1})
        case Repeat(count=count, body=inner, least=least):
            for times in range(least, count + 1):
                yield from ways(inner * times)
        case Unordered(first, second):
            yield from ways(first + second)
            yield from ways(second + first)
        case Choice(alternatives):
            for side in alternatives:
                yield from ways(side)
        case _:
            raise AssertionError(node)


def allowed(body: tuple[Node, ...]) -> list[tuple[TimedInstruction, ...]]:
    """What the ways that keep all limits execute; assumes that they are few."""
    limits = find_limits(body)
    found = list(islice(ways(body), MOST_WAYS + 1))
    assume(len(found) <= MOST_WAYS)
    return [
        way for way, passed in found if all(passed[key] <= most for key, most in limits.items())
    ]


@settings(max_examples=drawn(200), deadline=None)
@given(programs(), st.sampled_from(Scoreboard))
def test_no_way_within_the_limits_takes_longer(
    body: tuple[Node, ...], scoreboard: Scoreboard
) -> None:
    section = WarpSection(body, None, scoreboard)
    units = frozenset("A")
    for way in allowed(body):
        records = trace_issue(way, scoreboard)
        assert section.length_cycles >= max((one.ready for one in records), default=0)
        weights = [one.initiation_cycles if one.unit in units else 1 for one in way]
        assert section.interference(units) >= sum(weights)
        on_unit = [one.initiation_cycles for one in way if one.unit in units]
        assert section.demand_on(units) >= sum(on_unit)


class Priced:
    """The joined state by the definition, with tallies that cost cycles: every iteration is run.

    ``zero`` is the time of registers and units that were not used.
    """

    def __init__(self, scoreboard: Scoreboard, prices: dict[str, int]) -> None:
        self.waw = scoreboard is Scoreboard.RAW_WAW
        self.prices = prices
        self.ready: dict[str, int] = {}
        self.free: dict[str, int] = {}
        self.t = self.completion = self.zero = 0

    def copy(self) -> Priced:
        other = Priced(Scoreboard.RAW, self.prices)
        other.waw, other.zero = self.waw, self.zero
        other.ready, other.free = dict(self.ready), dict(self.free)
        other.t, other.completion = self.t, self.completion
        return other

    def execute(self, i: TimedInstruction) -> None:
        waits = i.reads + (i.writes if self.waw else ())
        issue = max([self.t, *[self.ready.get(name, self.zero) for name in waits]])
        dispatch = max(issue, self.free.get(i.unit, self.zero))
        self.free[i.unit] = dispatch + i.initiation_cycles
        done = self.free[i.unit] + i.latency_cycles
        for name in i.writes:
            before = self.ready.get(name, self.zero)
            self.ready[name] = max(done, before) if i.conditional else done
        self.completion = max(self.completion, done)
        self.t = issue + 1 + i.bubble_cycles

    def run(self, body: tuple[Node, ...]) -> Priced:
        state = self
        for node in body:
            state = state.step(node)
        return state

    def step(self, node: Node) -> Priced:
        match node:
            case Tally(key):
                price = self.prices[key]
                self.ready = {name: time - price for name, time in self.ready.items()}
                self.free = {name: time - price for name, time in self.free.items()}
                self.t -= price
                self.completion -= price
                self.zero -= price
                return self
            case Repeat():
                state = self
                for _ in range(node.least):
                    state = state.run(node.body)
                best = state.copy()
                for _ in range(node.count - node.least):
                    state = state.run(node.body)
                    best.joined(state)
                return best
            case Unordered(first, second):
                other = self.copy().run(second).run(first)
                return self.run(first).run(second).joined(other)
            case Choice(alternatives):
                results = [self.copy().run(side) for side in alternatives]
                for other in results[1:]:
                    results[0].joined(other)
                return results[0]
            case TimedInstruction():
                self.execute(node)
                return self
            case _:
                raise AssertionError(node)

    def joined(self, other: Priced) -> Priced:
        for mine, theirs in ((self.ready, other.ready), (self.free, other.free)):
            for key in mine.keys() | theirs.keys():
                mine[key] = max(mine.get(key, self.zero), theirs.get(key, other.zero))
        self.t = max(self.t, other.t)
        self.completion = max(self.completion, other.completion)
        self.zero = max(self.zero, other.zero)
        return self


@settings(max_examples=drawn(200), deadline=None)
@given(
    programs(most_count=40),
    st.sampled_from(Scoreboard),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_priced_length_is_the_direct_one(
    body: tuple[Node, ...], scoreboard: Scoreboard, one: int, two: int
) -> None:
    assume(direct_steps(body) <= 4000)
    prices = {"a": one, "b": two}
    expected = Priced(scoreboard, prices).run(body)
    profile = profile_warp(body, scoreboard, prices)
    assert profile.isolated_cycles == expected.completion
    assert profile.issue_end_cycles == expected.t
