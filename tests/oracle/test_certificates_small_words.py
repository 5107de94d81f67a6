"""Certificates of loops on words of four bits: what is confirmed is true of every run.

Random certificates for random loops, most of them wrong: each that the checker confirms is compared
with all runs over all data. The same for certificates that are true, changed in one place.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from parsing import parse_kernel
from small_programs import draw_program
from small_words import Program, Row, TooManyStates, most_passes, narrow_types

from ptxwcet.flow.certificates import checker
from ptxwcet.flow.certificates.certificate import (
    Bound,
    Certificate,
    Part,
    Reading,
    Remainders,
    Step,
    Sum,
    most_back_edges,
)
from ptxwcet.flow.certificates.checker import (
    EntryFacts,
    Verdict,
    back_edges_of,
    check,
    check_iteration,
)
from ptxwcet.flow.certificates.passage import NotFollowed, iteration_of, way_from
from ptxwcet.flow.certificates.solving import State
from ptxwcet.flow.effort import Effort
from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.extraction import flow_graph

REGISTERS = ("%r1", "%r2", "%r3")


def graph_of(program: Program) -> FlowGraph:
    return flow_graph(ControlFlow.of(program.kernel()), Launch((32, 1, 1), (1, 1, 1)))


def verdict(program: Program, certificate: Certificate) -> Verdict:
    """Of a certificate for the only loop, whatever the data before it."""
    with narrow_types():
        graph = graph_of(program)
        (loop,) = graph.forest.loops
        try:
            iteration = iteration_of(graph, loop)
            entry = EntryFacts((), way_from(graph, BlockId(0), loop))
        except NotFollowed:
            return Verdict.NOT_SETTLED
        return check(certificate, iteration, entry, Effort(1_000_000))


def is_true(program: Program, certificate: Certificate) -> bool:
    """Whether no run comes to the header more often than the certificate says, in one entry."""
    return most_passes(program, "L", certificate.back_edges + 1) is not None


def draw(rng: Random) -> Certificate:
    """Some certificate, whose bound follows from what it claims."""
    while True:
        names = rng.sample(REGISTERS, rng.choice((1, 1, 2)))
        readings = list(Reading) if len(names) == 1 else [Reading.SIGNED, Reading.UNSIGNED]
        reading = rng.choice(readings)
        quotients = reading in (Reading.SIGNED, Reading.UNSIGNED) and rng.random() < 0.2
        parts = tuple(
            Part(name, rng.choice((1, 1, -1, 2)), reading, rng.choice((None, *REGISTERS)))
            if quotients
            else Part(name, rng.choice((1, 1, -1, 2)), reading)
            for name in names
        )
        measure = Sum(parts, rng.choice((0, 0, 1, -3)))
        step = rng.choice(
            (Step(1, -1, 1), Step(1, -2, 1), Step(1, 0, 2), Step(2, 0, 1), Step(1, 1, 2))
        )
        invariant = tuple(
            Bound(Sum((Part(name, 1, reading),)), *sorted(rng.sample(range(-8, 16), 2)))
            for name in names
            if rng.random() < 0.5
        )
        high, low = rng.choice((3, 7, 8, 15)), rng.choice((-8, 0, 0, 1, 1, 2))
        found = Certificate(invariant, measure, high, low, (step,), 0)
        most = most_back_edges(found)
        if most is not None:
            return replace(found, back_edges=most)


UNKNOWN: tuple[Row, ...] = (("ld.global.u32", "%r1"), ("ld.global.u32", "%r2"))


def loop(body: tuple[Row, ...], test: Row, starts: tuple[Row, ...] = UNKNOWN) -> Program:
    rows = (*starts, ("label", "L"), *body, test, ("bra", "%p1", "L"), ("label", "OUT"))
    return Program(rows)


def certificate(
    reading: Reading, high: int, low: int, step: Step, *invariant: Bound, name: str = "%r1"
) -> Certificate:
    found = Certificate(invariant, Sum((Part(name, 1, reading),)), high, low, (step,), 0)
    most = most_back_edges(found)
    assert most is not None
    return replace(found, back_edges=most)


NOT_ZERO: Row = ("setp.ne.s32", "%p1", "%r1", "0")
POSITIVE: Row = ("setp.gt.s32", "%p1", "%r1", "0")
DOWN: tuple[Row, ...] = (("add.s32", "%r1", "%r1", "-1"),)
HALF: tuple[Row, ...] = (("shr.u32", "%r1", "%r1", "1"),)
SIGNED_HALF: tuple[Row, ...] = (("shr.s32", "%r1", "%r1", "1"),)
THIRD: tuple[Row, ...] = (("div.s32", "%r1", "%r1", "3"),)
CLEARED: tuple[Row, ...] = (
    ("neg.s32", "%r5", "%r1"),
    ("and.b32", "%r6", "%r1", "%r5"),
    ("sub.s32", "%r1", "%r1", "%r6"),
)
FENWICK: tuple[Row, ...] = (*CLEARED[:2], ("add.s32", "%r1", "%r1", "%r6"))
DOUBLED: tuple[Row, ...] = (("shl.b32", "%r1", "%r1", "1"),)
BY_DATA: tuple[Row, ...] = (
    ("ld.global.u32", "%r4"),
    ("and.b32", "%r4", "%r4", "1"),
    ("sub.s32", "%r1", "%r1", "%r4"),
)
EUCLID: tuple[Row, ...] = (
    ("mov.u32", "%r5", "%r1"),
    ("rem.u32", "%r1", "%r2", "%r1"),
    ("mov.u32", "%r2", "%r5"),
)
ROOT: tuple[Row, ...] = (
    ("mov.u32", "%r4", "%r1"),
    ("div.u32", "%r5", "%r2", "%r4"),
    ("add.s32", "%r5", "%r5", "%r4"),
    ("shr.u32", "%r1", "%r5", "1"),
)
LOWER: Row = ("setp.lt.u32", "%p1", "%r1", "%r4")
TWO_AND_HALF: tuple[Row, ...] = (
    ("ld.global.u32", "%r2"),
    ("max.u32", "%r2", "%r2", "2"),
    ("shr.u32", "%r1", "%r2", "1"),
)
STEIN: tuple[Row, ...] = (
    ("brev.b32", "%r5", "%r1"),
    ("bfind.shiftamt.u32", "%r5", "%r5"),
    ("shr.u32", "%r1", "%r1", "%r5"),
    ("min.u32", "%r4", "%r1", "%r2"),
    ("max.u32", "%r5", "%r1", "%r2"),
    ("sub.s32", "%r1", "%r5", "%r4"),
    ("mov.u32", "%r2", "%r4"),
)
ODD_AND_ANY: tuple[Row, ...] = (
    ("ld.global.u32", "%r2"),
    ("or.b32", "%r2", "%r2", "1"),
    ("ld.global.u32", "%r1"),
    ("max.u32", "%r1", "%r1", "1"),
)
ONE: tuple[Row, ...] = (("mov.u32", "%r1", "1"),)
NOT_NEGATIVE: tuple[Row, ...] = (("ld.global.u32", "%r1"), ("shr.u32", "%r1", "%r1", "1"))
FALL = Step(1, -1, 1)
TO_SEVEN = Bound(Sum((Part("%r1", 1, Reading.SIGNED),)), 1, 3)

KEPT: tuple[Row, ...] = (("mov.u32", "%r1", "%r1"),)
ALWAYS: Row = ("setp.eq.s32", "%p1", "%r2", "%r2")
GUARDED: tuple[Row, ...] = (
    ("ld.global.u32", "%r4"),
    ("setp.eq.u32", "%p2", "%r4", "0"),
    ("@%p2", "add.s32", "%r1", "%r1", "-1"),
)


def euclid() -> Certificate:
    divisor = Sum((Part("%r1", 1, Reading.UNSIGNED),))
    pair = Remainders("%r2", "%r1", signed=False)
    return Certificate((), divisor, 15, 0, (), 6, pair)


def root() -> Certificate:
    above = Sum((Part("%r1", 1, Reading.UNSIGNED), Part("%r2", -1, Reading.UNSIGNED, "%r1")))
    ranges = [
        Bound(Sum((Part(name, 1, Reading.UNSIGNED),)), 1, high)
        for name, high in (("%r2", 15), ("%r1", 7))
    ]
    steps = (Step(1, 0, 2), Step(1, -1, 1))
    found = Certificate((*ranges, Bound(above, -2, 7)), above, 7, -2, steps, 0)
    return replace(found, back_edges=most_back_edges(found) or 0)


def stein() -> Certificate:
    lengths = [Part(name, 1, Reading.LENGTH) for name in ("%r1", "%r2")]
    measure = Sum((*lengths, Part("%r1", 1, Reading.ODD)))
    invariant = (
        Bound(Sum((Part("%r2", 1, Reading.ODD),)), 1, 1),
        Bound(Sum((Part("%r1", 1, Reading.UNSIGNED),)), 1, 15),
    )
    return Certificate(invariant, measure, 9, 2, (FALL,), 7)


TRUE: dict[str, tuple[Program, Certificate]] = {
    "root": (loop(ROOT, LOWER, TWO_AND_HALF), root()),
    "Stein": (loop(STEIN, NOT_ZERO, ODD_AND_ANY), stein()),
    "down": (
        loop(DOWN, POSITIVE, NOT_NEGATIVE),
        certificate(Reading.SIGNED, 7, 1, FALL, Bound(Sum((Part("%r1"),)), 0, 7)),
    ),
    "cleared": (loop(CLEARED, NOT_ZERO), certificate(Reading.ONES, 4, 1, FALL)),
    "half": (loop(HALF, NOT_ZERO), certificate(Reading.UNSIGNED, 15, 1, Step(1, 0, 2))),
    "half's length": (loop(HALF, NOT_ZERO), certificate(Reading.LENGTH, 4, 1, FALL)),
    "third": (loop(THIRD, NOT_ZERO), certificate(Reading.MAGNITUDE, 8, 1, Step(1, 0, 3))),
    "doubled": (
        loop(DOUBLED, ("setp.le.s32", "%p1", "%r1", "3"), ONE),
        Certificate((TO_SEVEN,), Sum((Part("%r1", -1),)), -1, -3, (Step(2, 0, 1),), 1),
    ),
    "lowest bit": (
        loop(FENWICK, ("setp.le.u32", "%p1", "%r1", "7"), ONE),
        Certificate(
            (Bound(Sum((Part("%r1", 1, Reading.UNSIGNED),)), 1, 7),),
            Sum((Part("%r1", -1, Reading.LOWEST),)),
            -1,
            -4,
            (Step(2, 0, 1),),
            2,
        ),
    ),
    "Euclid": (
        loop(EUCLID, NOT_ZERO),
        euclid(),
    ),
}


@pytest.mark.parametrize("name", TRUE)
def test_true_certificates_are_confirmed(name: str) -> None:
    program, one = TRUE[name]
    assert verdict(program, one) is Verdict.CONFIRMED
    assert is_true(program, one)


def changes(one: Certificate) -> list[Certificate]:
    """A certificate with something changed in one place, its bound as it then follows."""
    found = [replace(one, high=one.high + by) for by in (-4, -2, -1)]
    found += [replace(one, low=one.low + by) for by in (1, 2, 4)]
    for step in one.steps:
        for other in (
            replace(step, constant=step.constant - 1),
            replace(step, divisor=step.divisor + 1),
            replace(step, factor=step.factor + 1, divisor=step.divisor),
        ):
            found.append(replace(one, steps=(other,)))
    for reading in Reading:
        parts = tuple(part._replace(reading=reading) for part in one.measure.parts)
        found.append(replace(one, measure=replace(one.measure, parts=parts)))
    found += [replace(one, invariant=())]
    found += [
        replace(one, invariant=(replace(bound, low=bound.low + 1),)) for bound in one.invariant
    ]
    found += [
        replace(one, invariant=(replace(bound, high=bound.high - 1),)) for bound in one.invariant
    ]
    followed = [(back_edges_of(other), other) for other in found]
    return [replace(other, back_edges=most) for most, other in followed if most is not None]


@pytest.mark.parametrize("name", TRUE)
def test_changed_certificates_are_refused_where_they_are_not_true(name: str) -> None:
    program, one = TRUE[name]
    for other in changes(one):
        if verdict(program, other) is Verdict.CONFIRMED:
            assert is_true(program, other), other


@pytest.mark.parametrize("name", TRUE)
def test_a_smaller_bound_than_what_follows_is_refused(name: str) -> None:
    program, one = TRUE[name]
    assert verdict(program, replace(one, back_edges=one.back_edges - 1)) is Verdict.WRONG


@pytest.mark.parametrize(
    ("body", "test", "one"),
    [
        # -1 stays -1
        (SIGNED_HALF, NOT_ZERO, certificate(Reading.MAGNITUDE, 8, 1, Step(1, 0, 2))),
        # all bits stay
        (KEPT, NOT_ZERO, certificate(Reading.ONES, 4, 1, FALL)),
        # 0 stays 0
        (DOUBLED, ("setp.lt.s32", "%p1", "%r1", "3"), certificate(Reading.LOWEST, 15, 0, FALL)),
        # from 0 down to the largest number
        (DOWN, ("setp.ge.u32", "%p1", "%r1", "0"), certificate(Reading.UNSIGNED, 15, 0, FALL)),
        # no algorithm of Euclid: less by 1, another dividend each time, a divisor of 0
        ((*EUCLID[:1], *DOWN, *EUCLID[2:]), NOT_ZERO, euclid()),
        ((EUCLID[1], ("ld.global.u32", "%r2")), NOT_ZERO, euclid()),
        (EUCLID, ALWAYS, euclid()),
        # 3, 2, 3, 2, ... for 8; from 0 on whatever division by 0 gives
        (ROOT, ("setp.ne.u32", "%p1", "%r1", "%r4"), root()),
        (ROOT, ("setp.le.u32", "%p1", "%r1", "%r4"), root()),
        # 0 is the smaller one, and stays
        (STEIN, NOT_ZERO, stein()),
    ],
)
def test_endless_loops_have_no_certificate(
    body: tuple[Row, ...], test: Row, one: Certificate
) -> None:
    program = loop(body, test)
    assert verdict(program, one) is not Verdict.CONFIRMED
    assert not is_true(program, one)


@pytest.mark.parametrize("body", [BY_DATA, GUARDED])
def test_whether_it_falls_is_for_data_to_say(body: tuple[Row, ...]) -> None:
    program = loop(body, POSITIVE, NOT_NEGATIVE)
    one = certificate(Reading.SIGNED, 7, 1, FALL, Bound(Sum((Part("%r1"),)), 0, 7))
    assert verdict(program, one) is Verdict.WRONG
    assert not is_true(program, one)


def test_an_invariant_that_is_not_kept_proves_nothing() -> None:
    """From 0 to -1, down to -8, and on from 7."""
    program = loop(DOWN, ALWAYS, NOT_NEGATIVE)
    one = certificate(Reading.SIGNED, 7, -8, FALL, Bound(Sum((Part("%r1"),)), 0, 7))
    assert verdict(program, one) is Verdict.WRONG
    assert not is_true(program, one)


@pytest.mark.every(2)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_confirmed_is_true(seed: int) -> None:
    rng, confirmed = Random(seed), 0
    for _ in range(12):
        program = draw_program(rng)
        for _ in range(12):
            one = draw(rng)
            if verdict(program, one) is not Verdict.CONFIRMED:
                continue
            confirmed += 1
            try:
                assert is_true(program, one), f"{one}\n{program.ptx()}"
            except TooManyStates:
                continue
    assert confirmed > 3


@pytest.mark.every(2)
@pytest.mark.parametrize("seed", range(2))
def test_neither_states_nor_the_order_of_questions_change_a_verdict(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States of one certificate are tried on the next; claims are asked alone or together."""
    rng, tried, wrong = Random(seed), 0, 0
    with narrow_types():
        while tried < 8:
            graph = graph_of(draw_program(rng))
            (one,) = graph.forest.loops
            try:
                iteration = iteration_of(graph, one)
            except NotFollowed:
                continue
            tried += 1
            states: list[State] = []
            for drawn in [draw(rng) for _ in range(25)]:
                effort = Effort(1_000_000)
                fresh = check_iteration(drawn, iteration, effort)
                assert check_iteration(drawn, iteration, effort, states) is fresh
                monkeypatch.setattr(checker, "TOGETHER", 0)
                assert check_iteration(drawn, iteration, effort) is fresh
                monkeypatch.undo()
            wrong += bool(states)
    assert wrong > 2


# --- a loop before --------------------------------------------------------------------------------


def signed_word(number: int) -> int:
    return (number + 8) % 16 - 8


def most_back_edges_behind(bits: tuple[int, int], fall: int, limit: int, by: int) -> float:
    """Of ``do r -= by while (r != 0)`` behind ``do r -= fall while (r > limit)``, from all r > 0
    with bits of a mask and others that are set; infinite where it does not end.
    """
    found = [0.0]
    for start in range(16):
        r, done = signed_word(start & bits[0] | bits[1]), 0
        if r <= 0:
            continue
        for _ in range(20):
            r = signed_word(r - fall)
            if r <= limit:
                break
        if r <= 0:
            continue  # the second loop is not entered
        while done < 40:
            r, done = signed_word(r - by), done + 1
            if r == 0:
                break
        found.append(done - 1 if r == 0 else float("inf"))
    return max(found)


ENDS = [((6, 0), 2), ((6, 0), 4), ((4, 0), 4)]


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("bits", "fall"), [*ENDS, ((7, 0), 2), ((7, 0), 1), ((7, 0), 3), ((7, 5), 3), ((0, 7), 2)]
)
@pytest.mark.parametrize("limit", [2, 1, 3])
def test_what_two_iterations_of_a_loop_before_say_is_true(
    bits: tuple[int, int], fall: int, limit: int
) -> None:
    """The last one is the first of all, or behind one that has gone back."""
    by = 2
    rows: tuple[Row, ...] = (
        ("ld.global.u32", "%r1"),
        ("and.b32", "%r1", "%r1", str(bits[0])),
        ("or.b32", "%r1", "%r1", str(bits[1])),
        ("setp.le.s32", "%p1", "%r1", "0"),
        ("bra", "%p1", "OUT"),
        ("label", "FIRST"),
        ("add.s32", "%r1", "%r1", str(-fall)),
        ("setp.gt.s32", "%p1", "%r1", str(limit)),
        ("bra", "%p1", "FIRST"),
        ("setp.le.s32", "%p1", "%r1", "0"),
        ("bra", "%p1", "OUT"),
        ("label", "L"),
        ("add.s32", "%r1", "%r1", str(-by)),
        NOT_ZERO,
        ("bra", "%p1", "L"),
        ("label", "OUT"),
    )
    confirmed: dict[bool, list[int]] = {False: [], True: []}
    with narrow_types():
        graph = graph_of(Program(rows))
        _, loop = sorted(graph.forest.loops, key=lambda one: one.header)
        iteration = iteration_of(graph, loop)
        for thorough in (False, True):
            way = EntryFacts((), way_from(graph, BlockId(0), loop, thorough=thorough))
            for high in (2, 4, 6):
                whole = Bound(Sum((Part("%r1"),)), by, high, by)
                tried = Certificate(
                    (whole,), whole.sum, high, by, (Step(1, -by, 1),), high // by - 1
                )
                if check(tried, iteration, way, Effort(1_000_000)) is Verdict.CONFIRMED:
                    confirmed[thorough].append(tried.back_edges)
    most = most_back_edges_behind(bits, fall, limit, by)
    assert all(one >= most for one in (*confirmed[False], *confirmed[True]))
    assert set(confirmed[False]) <= set(confirmed[True])
    if (bits, fall) in ENDS:
        assert most < float("inf")
        assert min(confirmed[True]) <= (limit + 1) // by


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Step(1, 0, 2), Verdict.CONFIRMED),
        (Step(1 << 40, 0, 1 << 41), Verdict.CONFIRMED),
        (Step(1, 0, 1 << 70), Verdict.WRONG),
        (Step(1 << 2, 0, 1 << 80), Verdict.WRONG),
        (Step(1, -(1 << 70), 1), Verdict.WRONG),
        (Step(1, 0, 1 << 300), Verdict.NOT_SETTLED),  # wider than what is computed
    ],
)
def test_no_multiple_of_a_measure_wraps_around(step: Step, expected: Verdict) -> None:
    """On words of 32 bits, whose multiples need more bits than the sums of small words."""
    kernel = parse_kernel(
        ".version 8.3\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a) {\n"
        ".reg .b64 %d1; .reg .b32 %r1; .reg .pred %p1; ld.param.u64 %d1, [a];\n"
        "ld.global.u32 %r1, [%d1];\nL: shr.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;\n"
        "ret;\n}\n"
    )
    graph = flow_graph(ControlFlow.of(kernel), Launch((32, 1, 1), (1, 1, 1)))
    iteration = iteration_of(graph, graph.forest.loops[0])
    claimed = certificate(Reading.UNSIGNED, (1 << 32) - 1, 1, step)
    assert check_iteration(claimed, iteration, Effort(1_000_000)) is expected
