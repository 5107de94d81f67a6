"""Sums over the paths of a program against the enumeration of its paths."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.timing.demand import issue_count, most_cycles, unit_demand, used_units
from ptxwcet.warp.program import Barrier, Choice, Node, Repeat, TimedInstruction, Unordered

LEAVES: st.SearchStrategy[Node] = st.one_of(
    st.builds(TimedInstruction, st.sampled_from("ABC"), st.integers(1, 9), st.just(0)),
    st.builds(Barrier, st.builds(TimedInstruction, st.just("I"), st.integers(1, 3), st.just(1))),
)


def wider(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    side = st.lists(inner, max_size=2).map(tuple)
    counts = st.tuples(st.integers(0, 2), st.integers(0, 2)).map(sorted)
    return st.one_of(
        st.builds(Unordered, side, side),
        st.builds(Choice, st.lists(side, min_size=1, max_size=2).map(tuple)),
        st.builds(lambda body, pair: Repeat(pair[1], body, pair[0]), side, counts),
    )


BODIES = st.lists(st.recursive(LEAVES, wider, max_leaves=5), max_size=3).map(tuple)

Sequence = tuple[TimedInstruction, ...]


def sequences(body: tuple[Node, ...]) -> Iterator[Sequence]:
    """Every instruction sequence that a body allows."""
    for parts in product(*[list(of_node(node)) for node in body]):
        yield tuple(instruction for part in parts for instruction in part)


def of_node(node: Node) -> Iterator[Sequence]:
    match node:
        case TimedInstruction():
            yield (node,)
        case Barrier(instruction=instruction):
            yield (instruction,)
        case Repeat(body=inner):
            for count in range(node.least, node.count + 1):
                yield from sequences(inner * count)
        case Unordered(first, second):
            yield from sequences((*first, *second))
        case Choice(alternatives):
            for side in alternatives:
                yield from sequences(side)


@settings(max_examples=drawn(150), deadline=None)
@given(BODIES, st.sets(st.sampled_from("ABCI")))
def test_sums_are_the_largest_over_all_paths(body: tuple[Node, ...], units: set[str]) -> None:
    paths = list(sequences(body))
    assert issue_count(body) == max(len(path) for path in paths)
    assert used_units(body) == {i.unit for path in paths for i in path}
    demand = unit_demand(body)
    for unit in demand:
        on_unit = [sum(i.initiation_cycles for i in p if i.unit == unit) for p in paths]
        assert demand[unit] == max(on_unit)
    charged = [sum(i.initiation_cycles if i.unit in units else 1 for i in p) for p in paths]
    assert most_cycles(body, lambda i: i.initiation_cycles if i.unit in units else 1) == max(
        charged
    )
