"""Cutting at barriers and aligning sections, against doing both on unrolled programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal_of
from thoroughness import drawn

from ptxwcet.warp.alignment import align_sections
from ptxwcet.warp.program import (
    Barrier,
    BlockRepeat,
    Choice,
    Node,
    Repeat,
    TimedInstruction,
    Unordered,
    WarpProgram,
    unroll,
)
from ptxwcet.warp.segments import Section, SectionNode, SectionRepeat, cut_at_barriers

BARRIER = Barrier(TimedInstruction("INT", 1, 4))


def instruction(number: int) -> TimedInstruction:
    return TimedInstruction("INT", 1, 1, origin=number)


LEAVES: st.SearchStrategy[Node] = st.one_of(st.integers(0, 30).map(instruction), st.just(BARRIER))


def programs() -> st.SearchStrategy[WarpProgram]:
    nodes: st.SearchStrategy[Node] = st.recursive(
        LEAVES,
        lambda inner: st.builds(Repeat, st.integers(0, 7), st.lists(inner, max_size=5).map(tuple)),
        max_leaves=10,
    )
    return st.lists(nodes, max_size=6).map(lambda body: WarpProgram(tuple(body)))


def flat(sections: tuple[SectionNode, ...]) -> Iterator[Section]:
    for node in sections:
        if isinstance(node, Section):
            yield node
        else:
            for _ in range(node.count):
                yield from flat(node.sections)


def sliced(program: WarpProgram) -> list[list[int]]:
    """Origins of the instructions of each section of the unrolled program; -2 for a barrier."""
    out: list[list[int]] = [[]]
    for node in unroll(program.body):
        if isinstance(node, Barrier):
            out[-1].append(-2)
            out.append([])
        else:
            out[-1].append(node.origin)
    return out


def origins(section: Section) -> list[int]:
    return [-2 if isinstance(n, Barrier) else n.origin for n in unroll(section.body)]


@settings(max_examples=drawn(200), deadline=None)
@given(programs())
def test_cut_is_the_cut_of_the_unrolled_program(program: WarpProgram) -> None:
    assert [origins(s) for s in flat(cut_at_barriers(program))] == sliced(program)


@settings(max_examples=drawn(300), deadline=None)
@given(st.lists(programs(), min_size=1, max_size=3))
def test_alignment_is_the_zip_of_the_unrolled_sections(programs: list[WarpProgram]) -> None:
    expected = Counter(
        zip_longest(*[[tuple(s) for s in sliced(p)] for p in programs], fillvalue=None)
    )
    found: Counter[tuple[tuple[int, ...] | None, ...]] = Counter()
    for aligned in align_sections([cut_at_barriers(p) for p in programs]):
        key = tuple(None if s is None else tuple(origins(s)) for s in aligned.sections)
        found[key] += aligned.multiplicity
    assert found == expected


def loop(count: int, *names: int) -> Repeat:
    return Repeat(count, tuple(node for n in names for node in (instruction(n), BARRIER)))


def test_huge_loops_align_in_closed_form() -> None:
    n = 10**15
    one = WarpProgram((loop(6 * n, 1, 2),))
    two = WarpProgram((loop(4 * n, 3), loop(n, 4, 5), loop(2 * n, 6, 7, 8)))
    aligned = align_sections([cut_at_barriers(one), cut_at_barriers(two)])
    assert sum(a.multiplicity for a in aligned) == 12 * n + 1
    assert len(aligned) < 60
    assert aligned[-1].sections == (Section((), None), Section((), None))


def test_shifted_loops_align_in_closed_form() -> None:
    n = 10**15
    one = WarpProgram((instruction(0), BARRIER, loop(n, 1, 2)))
    two = WarpProgram((loop(n, 3, 4), instruction(5), BARRIER))
    aligned = align_sections([cut_at_barriers(one), cut_at_barriers(two)])
    assert sum(a.multiplicity for a in aligned) == 2 * n + 2
    assert len(aligned) < 20


def test_nested_huge_loops_of_one_class() -> None:
    inner = Repeat(10**9, (instruction(1), BARRIER))
    program = WarpProgram((Repeat(10**9, (instruction(0), inner)),))
    aligned = align_sections([cut_at_barriers(program)])
    assert sum(a.multiplicity for a in aligned) == 10**18 + 1


def test_an_exited_class_has_no_further_sections() -> None:
    short = WarpProgram((instruction(0),))
    long = WarpProgram((loop(3, 1),))
    aligned = align_sections([cut_at_barriers(short), cut_at_barriers(long)])
    assert aligned[0].sections[0] == Section((instruction(0),), None)
    assert all(a.sections[0] is None for a in aligned[1:])


@pytest.mark.parametrize(
    "body",
    [
        (Unordered((BARRIER,), ()),),
        (Choice(((BARRIER,), ())),),
        (Repeat(4, (Choice(((), (BARRIER,))),)),),
        (Repeat(4, (BARRIER,), least=0),),
    ],
)
def test_barriers_that_may_be_missed_are_refused(body: tuple[Node, ...]) -> None:
    assert refusal_of(cut_at_barriers, WarpProgram(body)).code == "PW501"


def test_a_loop_that_warps_run_equally_often_is_cut_at_its_largest_count() -> None:
    sections = cut_at_barriers(WarpProgram((BlockRepeat("L", 5, (BARRIER,)),)))
    assert sections[1] == SectionRepeat(4, (Section((BARRIER,), BARRIER),), "L")


def test_a_loop_that_warps_may_run_differently_often_is_refused() -> None:
    assert (
        refusal_of(cut_at_barriers, WarpProgram((Repeat(5, (BARRIER,), least=1),))).code == "PW501"
    )


def test_different_barrier_names_are_refused() -> None:
    other = Barrier(TimedInstruction("INT", 1, 4), name="1")
    assert (
        refusal_of(
            align_sections,
            [cut_at_barriers(WarpProgram((BARRIER,))), cut_at_barriers(WarpProgram((other,)))],
        ).code
        == "PW502"
    )
