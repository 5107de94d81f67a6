"""Barriers that the warps of a block choose together: bounds against every way of the block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal_of
from thoroughness import drawn

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.machine.loader import load_machine
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.warp.program import (
    Barrier,
    BlockChoice,
    BlockRepeat,
    BlockWorkload,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

MACHINE = load_machine("orin-ecrts2025")
UNITS = ("INT", "SP", "MEM")
BARRIER = Barrier(TimedInstruction("INT", 1, 4))

Body = tuple[Node, ...]


@st.composite
def instructions(draw: st.DrawFn) -> Body:
    out = []
    for _ in range(draw(st.integers(0, 3))):
        unit = draw(st.sampled_from(UNITS))
        reads = tuple(draw(st.sets(st.sampled_from("abc"), max_size=1)))
        timing = draw(st.integers(1, 4)), draw(st.integers(0, 30))
        out.append(TimedInstruction(unit, *timing, reads, (draw(st.sampled_from("abc")),)))
    return tuple(out)


@st.composite
def bodies(draw: st.DrawFn, site: int = 0, depth: int = 0) -> Body:
    """Instructions, barriers and choices; ``site`` numbers the choices so that classes agree."""
    out: list[Node] = []
    for place in range(draw(st.integers(1, 3))):
        out += draw(instructions())
        kind = draw(st.integers(0, 3))
        if kind == 0:
            out.append(BARRIER)
        elif kind == 1 and depth < 2:
            sides = [draw(bodies(10 * site + 3 * place + n + 1, depth + 1)) for n in range(2)]
            out.append(BlockChoice(10 * site + 3 * place, tuple(sides)))
    return tuple(out)


def ways(body: Body) -> Iterator[tuple[dict[int, int], Body]]:
    """Every way through a body, with the alternative taken at each site."""
    if not body:
        yield {}, ()
        return
    first, rest = body[0], body[1:]
    heads: list[tuple[dict[int, int], Body]] = [({}, (first,))]
    if isinstance(first, BlockChoice):
        heads = [
            ({first.site: number, **taken}, way)
            for number, side in enumerate(first.alternatives)
            for taken, way in ways(side)
        ]
    for (taken, head), (later, tail) in product(heads, list(ways(rest))):
        yield {**taken, **later}, (*head, *tail)


def bound(*classes: Body) -> int:
    groups = [WarpClass(WarpProgram(body), (2 * i, 2 * i + 1)) for i, body in enumerate(classes)]
    workload = BlockWorkload(tuple(groups), Scoreboard.RAW_WAW)
    return bound_safe(analyse_block(workload, MACHINE)).cycles


@settings(max_examples=drawn(150), deadline=None)
@given(body=bodies(), other=instructions())
def test_no_way_of_the_block_takes_longer(body: Body, other: Body) -> None:
    """Two classes of warps that choose alike: the second one begins with more instructions."""
    second = (*other, *body)
    whole = bound(body, second)
    each = [bound(one, (*other, *one)) for _, one in ways(body)]
    assert whole >= max(each)
    if not any(isinstance(node, BlockChoice) for node in body):
        assert whole == each[0]


@st.composite
def agreeing(draw: st.DrawFn, depth: int = 0) -> Body:
    """Instructions, barriers, exact loops, and choices and loops of few sites that warps share."""
    out: list[Node] = []
    for _ in range(draw(st.integers(1, 3))):
        out += draw(instructions())
        kind = draw(st.sampled_from(("barrier", "choice", "together", "loop", "straight")))
        if kind == "barrier":
            out.append(BARRIER)
        elif depth < 2 and kind != "straight":
            inner = (*draw(agreeing(depth + 1)), BARRIER)
            if kind == "choice":
                out.append(BlockChoice(1, (inner, draw(agreeing(depth + 1)))))
            elif kind == "together":
                site = draw(st.sampled_from(("L", "M")))
                out.append(BlockRepeat(site, draw(st.integers(1, 3)), inner))
            else:
                out.append(Repeat(draw(st.integers(1, 3)), inner))
    return tuple(out)


class Run:
    """One run of the block: what is decided when a warp comes to a site for the n-th time."""

    def __init__(self, decisions: dict[tuple[object, int], int]) -> None:
        self._decisions = decisions
        self._visits: Counter[object] = Counter()

    def decide(self, site: object, choices: int) -> int:
        self._visits[site] += 1
        return self._decisions.get((site, self._visits[site]), 0) % choices

    def way(self, body: Body) -> Iterator[Node]:
        for node in body:
            match node:
                case BlockChoice(site, alternatives):
                    yield from self.way(alternatives[self.decide(site, len(alternatives))])
                case BlockRepeat(site, count, inner):
                    for _ in range(1 + self.decide((site, count), count)):
                        yield from self.way(inner)
                case Repeat(count=count, body=inner):
                    for _ in range(count):
                        yield from self.way(inner)
                case _:
                    yield node


SITES = st.sampled_from([1, *((site, count) for site in "LM" for count in (1, 2, 3))])
DECISIONS = st.dictionaries(st.tuples(SITES, st.integers(1, 4)), st.integers(0, 2), max_size=12)


@settings(max_examples=drawn(350), deadline=None)
@given(one=agreeing(), other=agreeing(), alike=st.booleans(), decisions=DECISIONS)
def test_no_run_of_warps_that_agree_takes_longer(
    one: Body, other: Body, alike: bool, decisions: dict[tuple[object, int], int]
) -> None:
    """Two classes of warps of any programs: refused, or no run takes longer.

    Also runs in which the warps of one class end while those of the other meet more barriers.
    """
    second = (*other[:1], *one) if alike else other
    classes = tuple(tuple(Run(decisions).way(body)) for body in (one, second))
    try:
        whole = bound(one, second)
    except PtxwcetError:
        return
    assert whole >= bound(*classes)


def test_loops_that_warps_run_equally_often_are_one_loop() -> None:
    inner = (TimedInstruction("INT", 1, 2), BARRIER)
    loop = BlockRepeat("L", 3, inner)
    assert bound((loop,), (loop,)) == bound((Repeat(3, inner),), (Repeat(3, inner),))
    others = (BlockRepeat("L", 2, inner),), (BlockRepeat("M", 3, inner),), (Repeat(3, inner),)
    for other in (*others, (Repeat(1, inner), loop)):
        assert refusal_of(bound, (loop,), other).code == "PW502"


def test_a_loop_that_may_end_sooner_is_not_aligned_with_single_barriers() -> None:
    """If it ends after one iteration, both long parts are in one section of the run."""
    long = tuple(TimedInstruction(unit, 8, 0) for unit in UNITS)
    loop, straight = (BlockRepeat("L", 3, (BARRIER,)), *long), (BARRIER, *long, BARRIER, BARRIER)
    assert refusal_of(bound, loop, straight).code == "PW502"


def test_the_longer_way_is_the_bound() -> None:
    slow, fast = TimedInstruction("INT", 4, 300, (), ("a",)), TimedInstruction("INT", 1, 2)
    sides = (slow, BARRIER, fast, BARRIER), (fast, BARRIER)
    body = (fast, BlockChoice(7, sides), BARRIER)
    assert bound(body) == bound((fast, *sides[0], BARRIER))


def test_iterations_with_barriers_that_are_chosen() -> None:
    fast, slow = TimedInstruction("INT", 1, 2), TimedInstruction("MEM", 2, 90)
    inner = BlockChoice(3, ((fast, BARRIER), (slow, BARRIER)))
    assert bound((Repeat(1000, (inner,)),)) == bound((Repeat(1000, (slow, BARRIER)),))


def test_warps_that_come_to_a_choice_in_different_ways_are_refused() -> None:
    choice = BlockChoice(1, ((BARRIER,), ()))
    for other in ((BARRIER, choice), (BlockChoice(2, ((BARRIER,), ())),), (BARRIER,)):
        assert refusal_of(bound, (choice,), other).code == "PW502"


def test_a_loop_whose_iterations_may_meet_no_barrier_is_refused() -> None:
    body = (Repeat(5, (BlockChoice(1, ((BARRIER,), ())),)),)
    assert refusal_of(bound, body).code == "PW501"
