"""What loops are said to leave in registers, on words of four bits: what is confirmed is true.

Random statements about random loops, those that the search makes, and these changed in one place:
each that the checker confirms is compared with an iteration from every state, over all data.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_programs import draw_program
from small_words import Program, States, TooManyStates, _count, _executed, _names, narrow_types
from test_certificates_small_words import REGISTERS, graph_of
from thoroughness import drawn

from ptxwcet.flow.certificates.behind import Change, Result, Span, check_result
from ptxwcet.flow.certificates.checker import Verdict
from ptxwcet.flow.certificates.passage import NotFollowed, departure_of, iteration_of
from ptxwcet.flow.certificates.proof import is_left_so
from ptxwcet.flow.effort import Effort
from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.variants.regions import body_of
from ptxwcet.flow.variants.results import results_of

BITS = 4
NONE = Change(None, None)


def iterations(program: Program) -> tuple[list[States], list[States]]:
    """All that one iteration may do from any state: where it goes back, and where it leaves.

    ``old %r`` is what %r was before. Registers that are not carried are 0 at first, which is one of
    the numbers that they may have.
    """
    rows = tuple(("bra", row[1], "BACK") if row[2:] == ("L",) else row for row in program.rows)
    ends = (("bra", "", "END"), ("label", "BACK"), ("label", "END"))
    apart = Program((*rows, *ends), program.bits)
    start, out = rows.index(("label", "L")) + 1, rows.index(("label", "OUT")) + 1
    numbers = [axis.ravel() for axis in np.meshgrid(*[np.arange(1 << BITS)] * len(REGISTERS))]
    states = {name: np.zeros_like(numbers[0]) for name in _names(rows)}
    for name, values in zip(REGISTERS, numbers, strict=True):
        states[name], states[f"old {name}"] = values, values
    going = list(_executed(apart, start, states, len(apart.rows) - 1))
    return going, list(_executed(apart, start, states, out))


def is_done(change: Change, name: str, source: str, parts: list[States]) -> bool:
    """Whether all states are changed so."""
    for part in parts:
        before, after = part[f"old {source}"], part[name]
        done = np.zeros(_count(part), bool)
        if change.step is not None:
            low, high = change.step
            done |= (after - before - low) % (1 << BITS) <= high - low
        if change.value is not None:
            low, high = change.value
            done |= (after - low) % (1 << BITS) <= high - low
        if not done.all():
            return False
    return True


def found_by_search(graph: FlowGraph) -> list[Result]:
    (loop,) = graph.forest.loops
    body = body_of(graph, loop, frozenset(REGISTERS))
    return list(results_of(body, frozenset(REGISTERS) & body.written, Effort(1_000_000)).values())


def random_result(rng: Random) -> Result:
    def span() -> Span:
        low = rng.randrange(-4, 4)
        return Span(low, min(low + rng.choice((0, 1, 1, 2, 5)), 7))

    def change() -> Change:
        return rng.choice((Change(span(), None), Change(None, span()), Change(span(), span())))

    name, source = rng.choice(REGISTERS), rng.choice(REGISTERS)
    return Result(rng.choice((name, source)), source, BITS, change(), change())


def changed(one: Result) -> Iterator[Result]:
    """A statement with one of its ends moved by one, or a part left out."""
    for field in ("going", "leaving"):
        change: Change = getattr(one, field)
        for part in ("step", "value"):
            span: Span | None = getattr(change, part)
            if span is None:
                continue
            others: list[Span | None] = [None]
            if span.low < span.high:
                others += [Span(span.low + 1, span.high), Span(span.low, span.high - 1)]
            for other in others:
                yield one._replace(**{field: change._replace(**{part: other})})
    for source in REGISTERS:
        yield one._replace(source=source)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_confirmed_is_true(seed: int) -> None:
    rng, confirmed, refused, changed_and_confirmed = Random(seed), 0, 0, 0
    while confirmed < 20:
        program = draw_program(rng, BITS)
        with narrow_types():
            graph = graph_of(program)
            (loop,) = graph.forest.loops
            try:
                iteration, departure = iteration_of(graph, loop), departure_of(graph, loop)
                going, leaving = iterations(program)
            except (NotFollowed, TooManyStates):
                continue
            found = found_by_search(graph)
            tried = [(one, True) for one in found]
            tried += [(one, False) for known in found for one in changed(known)]
            tried += [(random_result(rng), False) for _ in range(4)]
            for one, is_found in tried:
                verdict = check_result(one, iteration, departure, Effort(1_000_000))
                is_true = is_done(one.going, one.source, one.source, going)
                is_true &= is_done(one.leaving, one.name, one.source, leaving)
                if verdict is Verdict.CONFIRMED:
                    assert is_true, f"{one}\n{program.ptx()}"
                    confirmed, changed_and_confirmed = (
                        confirmed + is_found,
                        (changed_and_confirmed + (not is_found)),
                    )
                refused += verdict is Verdict.WRONG
    assert refused > 20
    assert changed_and_confirmed > 0


def test_what_is_confirmed_is_true_where_registers_are_fixed() -> None:
    """Of states in which a register that the loop does not write holds a number."""
    rng, confirmed, wider = Random(100), 0, 0
    while confirmed < 40:
        program = draw_program(rng, BITS)
        with narrow_types():
            graph = graph_of(program)
            (loop,) = graph.forest.loops
            body = body_of(graph, loop, frozenset(REGISTERS))
            stay = sorted(frozenset(REGISTERS) - graph.writes(loop.body).keys())
            if not stay:
                continue
            fixed = ((rng.choice(stay), rng.randrange(-8, 8)),)
            try:
                iteration, departure = iteration_of(graph, loop), departure_of(graph, loop)
                going, leaving = iterations(program)
            except (NotFollowed, TooManyStates):
                continue
            wanted = frozenset(REGISTERS) & body.written
            found = results_of(body, wanted, Effort(1_000_000), fixed).values()
            tried = [*found, *(other for one in found for other in changed(one))]
            going, leaving = (_with(parts, *fixed[0]) for parts in (going, leaving))
            for one in tried:
                assert one.fixed == fixed
                if check_result(one, iteration, departure, Effort(1_000_000)) is Verdict.CONFIRMED:
                    assert is_done(one.going, one.source, one.source, going), program.ptx()
                    assert is_done(one.leaving, one.name, one.source, leaving), program.ptx()
                    confirmed += 1
                    at_large = one._replace(fixed=())
                    verdict = check_result(at_large, iteration, departure, Effort(1_000_000))
                    wider += verdict is Verdict.WRONG
    assert wider > 0  # some are true of this number alone


def test_a_register_that_the_loop_writes_is_not_fixed() -> None:
    rng, tried = Random(7), 0
    while tried < 5:
        program = draw_program(rng, BITS)
        with narrow_types():
            graph = graph_of(program)
            (loop,) = graph.forest.loops
            written = sorted(frozenset(REGISTERS) & graph.writes(loop.body).keys())
            for one in found_by_search(graph):
                if written and is_left_so(graph, loop, one, Effort(1_000_000)):
                    tried += 1
                    false = one._replace(fixed=((written[0], 1),))
                    assert not is_left_so(graph, loop, false, Effort(1_000_000))


def _with(parts: list[States], name: str, value: int) -> list[States]:
    """The states in which a register held a number before."""
    kept = [part[f"old {name}"] % (1 << BITS) == value % (1 << BITS) for part in parts]
    return [
        {key: np.broadcast_to(column, where.shape)[where] for key, column in part.items()}
        for part, where in zip(parts, kept, strict=True)
        if where.any()
    ]


def span(low: int, high: int) -> st.SearchStrategy[Span]:
    ends = st.tuples(st.integers(low, high), st.integers(low, high))
    return ends.map(lambda pair: Span(min(pair), max(pair)))


changes = st.builds(
    lambda step, value, both: Change(step if both != 1 else None, value if both else None),
    span(-3, 3),
    span(-8, 7),
    st.integers(0, 2),
)


@settings(max_examples=drawn(400), deadline=None)
@given(changes, changes, span(-8, 7), st.integers(0, 4))
def test_what_follows_holds_in_every_run(
    going: Change, leaving: Change, before: Span, most: int
) -> None:
    """All runs of up to ``most`` back edges, in words of four bits."""
    behind = Result("%r1", "%r1", BITS, going, leaving).behind(before, most)
    if behind is None:
        return

    def after(values: set[int], change: Change) -> set[int]:
        found = set[int]()
        if change.step is not None:
            steps = range(change.step.low, change.step.high + 1)
            found |= {(one + step + 8) % 16 - 8 for one in values for step in steps}
        if change.value is not None:
            found |= set(range(change.value.low, change.value.high + 1))
        return found

    values, ends = set(range(before.low, before.high + 1)), set[int]()
    for _ in range(most + 1):
        ends |= after(values, leaving)
        values = after(values, going)
    assert all(behind.low <= one <= behind.high for one in ends)
