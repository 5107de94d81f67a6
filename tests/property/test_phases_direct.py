"""The closed-form profile against a direct interpretation that executes every iteration."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from issue_trace import trace_issue
from thoroughness import drawn
from warp_nodes import any_nodes, bodies, direct_steps, drawn_path, exact_nodes, instructions

from ptxwcet.timing.phases import Phase, PhaseRepeat, profile_warp
from ptxwcet.warp.program import (
    Barrier,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    Unordered,
    is_single_path,
    unroll,
)

INSTRUCTIONS = instructions(
    "ABC", "abcd", most_initiation=6, latencies=range(13), bubbles=(0, 0, 0, 1, 3)
)


class Direct:
    """Dictionaries, no indices, no closed forms: the joined state by the definition."""

    def __init__(self, scoreboard: Scoreboard) -> None:
        self.waw = scoreboard is Scoreboard.RAW_WAW
        self.ready: dict[str, int] = {}
        self.free: dict[str, int] = {}
        self.t = 0
        self.completion = 0
        self.busy: set[int] = set()

    def copy(self) -> Direct:
        other = Direct(Scoreboard.RAW)
        other.waw = self.waw
        other.ready, other.free = dict(self.ready), dict(self.free)
        other.t, other.completion, other.busy = self.t, self.completion, set(self.busy)
        return other

    def join(self, other: Direct) -> Direct:
        for mine, theirs in ((self.ready, other.ready), (self.free, other.free)):
            for key, value in theirs.items():
                mine[key] = max(mine.get(key, 0), value)
        self.t = max(self.t, other.t)
        self.completion = max(self.completion, other.completion)
        return self

    def run(self, body: tuple[Node, ...]) -> Direct:
        state = self
        for node in body:
            match node:
                case TimedInstruction():
                    state.execute(node)
                case Barrier(instruction=instruction):
                    state.execute(instruction)
                case Repeat():
                    before = state.copy() if node.least == 0 and node.count else None
                    for _ in range(node.count):
                        state = state.run(node.body)
                    if before is not None:
                        state = state.join(before)
                case Unordered(first, second):
                    other = state.copy().run(second).run(first)
                    state = state.run(first).run(second).join(other)
                case Choice(alternatives):
                    results = [state.copy().run(side) for side in alternatives]
                    state = results[0]
                    for result in results[1:]:
                        state = state.join(result)
        return state

    def execute(self, i: TimedInstruction) -> None:
        waits = i.reads + (i.writes if self.waw else ())
        issue = max([self.t, *[self.ready.get(r, 0) for r in waits]])
        dispatch = max(issue, self.free.get(i.unit, 0))
        end = dispatch + i.initiation_cycles
        self.busy |= set(range(dispatch, end))
        self.free[i.unit] = end
        done = end + i.latency_cycles
        self.completion = max(self.completion, done)
        for r in i.writes:
            self.ready[r] = max(done, self.ready.get(r, 0)) if i.conditional else done
        self.t = issue + 1 + i.bubble_cycles


def expand(phases: tuple[Phase | PhaseRepeat, ...], offset: int = 0) -> list[Phase]:
    out: list[Phase] = []
    for item in phases:
        if isinstance(item, Phase):
            out.append(replace(item, start=item.start + offset))
        else:
            for k in range(item.count):
                out += expand(item.phases, offset + k * item.period_cycles)
    return out


def phases_of(busy: set[int], completion: int) -> list[tuple[str, int, int]]:
    out: list[tuple[str, int, int]] = []
    for cycle in range(completion):
        kind = "exec" if cycle in busy else "idle"
        if out and out[-1][0] == kind:
            out[-1] = (kind, out[-1][1], out[-1][2] + 1)
        else:
            out.append((kind, cycle, 1))
    return out


def merged(phases: list[Phase]) -> list[tuple[str, int, int]]:
    for before, after in pairwise(phases):
        assert before.start + before.duration == after.start
        assert before.kind is not after.kind
    return [(p.kind.value, p.start, p.duration) for p in phases]


@settings(max_examples=drawn(100), deadline=None)
@given(bodies(exact_nodes(INSTRUCTIONS, 40)), st.sampled_from(Scoreboard))
def test_profile_is_the_direct_run(body: tuple[Node, ...], scoreboard: Scoreboard) -> None:
    assume(direct_steps(body) <= 3000)
    profile = profile_warp(body, scoreboard)
    direct = Direct(scoreboard).run(body)
    assert profile.isolated_cycles == direct.completion
    assert profile.issue_end_cycles == direct.t
    assert profile.execution_cycles == len(direct.busy)
    assert profile.phases is not None
    assert merged(expand(profile.phases)) == phases_of(direct.busy, direct.completion)


@settings(max_examples=drawn(80), deadline=None)
@given(bodies(any_nodes(INSTRUCTIONS, 25)), st.sampled_from(Scoreboard))
def test_joined_profile_is_the_direct_join(body: tuple[Node, ...], scoreboard: Scoreboard) -> None:
    assume(direct_steps(body) <= 5000)
    profile = profile_warp(body, scoreboard)
    direct = Direct(scoreboard).run(body)
    assert profile.isolated_cycles == direct.completion
    assert profile.issue_end_cycles == direct.t
    assert (profile.execution_cycles is None) == (not is_single_path(body))


@st.composite
def resolved(draw: st.DrawFn) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    body = draw(bodies(any_nodes(INSTRUCTIONS, 5)))
    return body, drawn_path(body, draw)


@settings(max_examples=drawn(100), deadline=None)
@given(resolved(), st.sampled_from(Scoreboard))
def test_no_allowed_path_takes_longer(
    case: tuple[tuple[Node, ...], tuple[Node, ...]], scoreboard: Scoreboard
) -> None:
    body, path = case
    records = trace_issue(unroll(path), scoreboard)
    longest = max((r.ready for r in records), default=0)
    assert profile_warp(body, scoreboard).isolated_cycles >= longest


def k(
    unit: str, init: int, lat: int, reads: str = "", writes: str = "", *, guarded: bool = False
) -> TimedInstruction:
    return TimedInstruction(
        unit, init, lat, tuple(reads.split()), tuple(writes.split()), conditional=guarded
    )


SLOW = (k("A", 1, 0, "", "r"), k("A", 6, 0))

# Each case breaks a closed form that forgets one thing; the name says which.
HARD: dict[str, tuple[Node, ...]] = {
    "queue of a coupled unit": (
        Repeat(50, (k("A", 1, 0, "", "r"), k("A", 6, 0), k("B", 1, 0, "r"))),
    ),
    "queue of a free-running unit": (
        Repeat(50, (k("A", 7, 3, "", "r"), k("B", 2, 1, "s", "s"))),
        k("C", 1, 0, "r"),
        k("A", 1, 0),
    ),
    "a skipped loop leaves a long latency": (
        k("A", 1, 90, "", "r"),
        Repeat(3, (k("B", 1, 0, "", "r"),), least=0),
        k("B", 1, 0, "r"),
    ),
    "an inner loop that may be skipped keeps a life": (
        Repeat(
            40,
            (
                k("B", 1, 11),
                k("A", 5, 0),
                Repeat(1, (k("A", 1, 0, "", "r"),), least=0),
                Repeat(1, (k("A", 8, 1, "r", "r"), k("A", 3, 11, "", "r", guarded=True)), least=0),
            ),
        ),
    ),
    "a conditional write keeps a life": (
        Repeat(
            40,
            (
                k("A", 2, 1, "r", "r", guarded=True),
                k("B", 4, 0, "", "r", guarded=True),
                Repeat(3, (k("A", 7, 4, "r"), k("B", 4, 1), k("A", 5, 0)), least=1),
                k("A", 1, 11),
            ),
        ),
    ),
    "one order couples a unit": (
        Repeat(
            40,
            (
                Unordered((k("B", 9, 1, "r", "s"), k("B", 1, 0)), (k("A", 6, 1, "s"),)),
                k("A", 3, 0, "r", "s"),
                k("A", 4, 0),
            ),
        ),
    ),
    "the other order couples a unit": (
        Repeat(
            40,
            (
                k("B", 7, 0, "", "r"),
                k("B", 5, 0, "", "s"),
                Unordered(
                    (k("A", 9, 11, "r", "r", guarded=True), k("A", 6, 11)),
                    (k("A", 7, 4, "s"), k("A", 1, 11, "", "r", guarded=True)),
                ),
            ),
        ),
    ),
    "an inner iteration couples a unit": (
        Repeat(
            40,
            (
                Repeat(
                    2,
                    (k("A", 4, 0, "r"), k("A", 2, 11), k("A", 5, 1, "", "r", guarded=True)),
                    least=0,
                ),
                k("B", 5, 1, "", "r"),
                k("B", 6, 11),
            ),
        ),
    ),
    "an alternative couples a unit": (
        Repeat(50, (k("C", 1, 0, "", "r"), Choice((SLOW, ())), k("B", 1, 0, "r"))),
    ),
    "a drained queue lets phases change": (
        Repeat(9, (k("A", 50, 0),)),
        Repeat(300, (k("B", 1, 3, "b", "b"), k("A", 3, 0))),
    ),
    "an untouched unit covers idle phases for a while": (
        Repeat(9, (k("A", 50, 0),)),
        Repeat(300, (k("B", 1, 3, "b", "b"),)),
    ),
    "two rates that cross late": (
        k("A", 60, 0, "", "a"),
        Repeat(200, (k("A", 1, 5, "a", "a"), k("B", 3, 4, "b", "b"), k("C", 1, 0, "b"))),
    ),
}


UNDECIDED = Choice(((), ()))  # changes nothing but that phases are no longer tracked


@pytest.mark.parametrize("scoreboard", Scoreboard)
@pytest.mark.parametrize("before", [(), (UNDECIDED,)], ids=["tracked", "untracked"])
@pytest.mark.parametrize("name", HARD)
def test_hard_loops(name: str, before: tuple[Node, ...], scoreboard: Scoreboard) -> None:
    body = (*before, *HARD[name])
    for after in ((), (k("A", 1, 1, "r b"),), (k("C", 1, 1, "a r"), k("B", 2, 2))):
        profile = profile_warp((*body, *after), scoreboard)
        direct = Direct(scoreboard).run((*body, *after))
        assert profile.isolated_cycles == direct.completion
        assert profile.issue_end_cycles == direct.t
        if is_single_path(body):
            assert profile.execution_cycles == len(direct.busy)
            assert profile.phases is not None
            assert merged(expand(profile.phases)) == phases_of(direct.busy, direct.completion)


@settings(max_examples=drawn(30), deadline=None)
@given(bodies(exact_nodes(INSTRUCTIONS, 6), most=4), st.sampled_from(Scoreboard))
def test_trip_count_costs_nothing(body: tuple[Node, ...], scoreboard: Scoreboard) -> None:
    small = profile_warp((Repeat(5040, body),), scoreboard)
    large = profile_warp((Repeat(5040 * 10**15, body),), scoreboard)
    assert large.simulated_steps == small.simulated_steps
