"""Trees and path enumeration on random structured programs, against a recursion on the program."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hybrid_graphs import graph, ipg_of
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.claims import Refusal
from ptxwcet.methods.hybrid.ipet import WorstCounts, enumerate_paths, loop_constraints, tree_wcet
from ptxwcet.methods.hybrid.ipg import Ipg
from ptxwcet.methods.hybrid.observations import LoopCounts


@dataclass(frozen=True)
class Basic:
    time: int


@dataclass(frozen=True)
class Serial:
    parts: tuple[Program, ...]


@dataclass(frozen=True)
class Choice:
    time: int
    sides: tuple[Program, ...]


@dataclass(frozen=True)
class While:
    """Tests at the top: the test runs once more than the body."""

    test: int
    bound: int
    body: Program


@dataclass(frozen=True)
class Repeat:
    """Tests at the end: ``bound`` is how often it goes back."""

    bound: int
    body: Program


Program = Basic | Serial | Choice | While | Repeat
TIMES = st.integers(0, 50)


def programs() -> st.SearchStrategy[Program]:
    return st.recursive(
        st.builds(Basic, TIMES),
        lambda inner: st.one_of(
            st.builds(Serial, st.lists(inner, min_size=1, max_size=3).map(tuple)),
            st.builds(Choice, TIMES, st.lists(inner, min_size=1, max_size=3).map(tuple)),
            st.builds(While, TIMES, st.integers(0, 5), inner),
            st.builds(Repeat, st.integers(0, 5), inner),
        ),
        max_leaves=10,
    )


def wcet(program: Program) -> int:
    match program:
        case Basic(time):
            return time
        case Serial(parts):
            return sum(map(wcet, parts))
        case Choice(time, sides):
            return time + max(map(wcet, sides))
        case While(test, bound, body):
            return (bound + 1) * test + bound * wcet(body)
        case Repeat(bound, body):
            return (bound + 1) * wcet(body)


class Layout:
    """Blocks of a program: their successors and times, and bounds by header."""

    def __init__(self, program: Program) -> None:
        self.successors: list[list[int]] = []
        self.times: list[int] = []
        self.bounds: dict[int, int] = {}
        first, ends = self.lay(program)
        assert first == 0
        for block in ends:
            self.successors[block].append(len(self.successors))

    def block(self, time: int) -> int:
        self.successors.append([])
        self.times.append(time)
        return len(self.times) - 1

    def lay(self, program: Program) -> tuple[int, list[int]]:
        """The first block, and those whose next one is to be filled in."""
        match program:
            case Basic(time):
                block = self.block(time)
                return block, [block]
            case Serial(parts):
                first, ends = self.lay(parts[0])
                for part in parts[1:]:
                    following, later = self.lay(part)
                    for block in ends:
                        self.successors[block].append(following)
                    ends = later
                return first, ends
            case Choice(time, sides):
                block = self.block(time)
                ends = []
                for side in sides:
                    following, later = self.lay(side)
                    self.successors[block].append(following)
                    ends += later
                return block, ends
            case While(test, bound, body):
                block = self.block(test)
                following, ends = self.lay(body)
                self.successors[block].append(following)
                for end in ends:
                    self.successors[end].append(block)
                self.bounds[block] = bound
                return block, [block]
            case Repeat(bound, body):
                # a block of its own before and after, so that no two loops share a header
                first = self.block(0)
                following, ends = self.lay(body)
                self.successors[first].append(following)
                last = self.block(0)
                for end in ends:
                    self.successors[end].append(last)
                self.successors[last].append(first)
                self.bounds[first] = bound
                return first, [last]


def analysed(layout: Layout, points: list[int] | None) -> tuple[Ipg, list[LoopCounts]]:
    ipg = ipg_of(graph(layout.successors), points)
    rows = [LoopCounts(loop, layout.bounds[loop.header], 1) for loop in ipg.loops]
    return ipg, rows


def ordinary_times(ipg: Ipg, layout: Layout) -> dict[int, int]:
    """With ipoints at all blocks a transition takes the time of its source."""
    return {
        number: layout.times[ipg.placement.blocks[transition.source]]
        for number, transition in enumerate(ipg.transitions)
        if transition.is_ordinary
    }


@given(programs())
@settings(max_examples=drawn(150), deadline=None)
def test_tree_and_path_enumeration_give_the_wcet_of_the_program(program: Program) -> None:
    layout = Layout(program)
    ipg, loops = analysed(layout, None)
    times = ordinary_times(ipg, layout)
    expected = wcet(program)
    assert tree_wcet(ipg, times, loops) == expected
    constraints = list(loop_constraints(loops, graph(layout.successors)))
    found = enumerate_paths(ipg, times, constraints)
    assert isinstance(found, WorstCounts)
    assert found.cycles == expected
    assert sum(times[n] * c for n, c in found.counts.items()) == expected


@given(programs(), st.randoms(use_true_random=False))
@settings(max_examples=drawn(150), deadline=None)
def test_coarser_instrumentation(program: Program, rng: random.Random) -> None:
    """Any times, any ipoints: both ways agree wherever there is a tree."""
    layout = Layout(program)
    points = [b for b in range(len(layout.times)) if rng.random() < 0.6]
    ipg, loops = analysed(layout, points)
    times = {n: rng.randrange(60) for n, t in enumerate(ipg.transitions) if t.is_ordinary}
    by_tree = tree_wcet(ipg, times, loops)
    constraints = list(loop_constraints(loops, graph(layout.successors)))
    found = enumerate_paths(ipg, times, constraints)
    if isinstance(by_tree, Refusal):
        return
    assert isinstance(found, WorstCounts)
    assert by_tree == found.cycles


def test_graphs_without_a_tree() -> None:
    """Sides of a diverged warp; a loop whose header is no ipoint and whose body has two."""
    cfg = [[1, 2], [3], [3]]
    ipg = ipg_of(graph(cfg))
    refused = tree_wcet(ipg, dict.fromkeys(range(len(ipg.transitions)), 1), [])
    assert isinstance(refused, Refusal)
    assert "diverged" in refused.reason
    two = graph([[1], [2, 3, 4], [1], [1]])
    coarse = ipg_of(two, [2, 3])
    times = {n: 1 for n, t in enumerate(coarse.transitions) if t.is_ordinary}
    loops = [LoopCounts(coarse.loops[0], 3, 1)]
    refused = tree_wcet(coarse, times, loops)
    assert isinstance(refused, Refusal)
    found = enumerate_paths(
        coarse, times, loop_constraints([LoopCounts(coarse.loops[0], 3, 1)], two)
    )
    assert isinstance(found, WorstCounts)
    assert found.cycles == 5  # entry, three times around, end
