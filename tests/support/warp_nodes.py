"""Nodes of warp programs: written briefly, and drawn by Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from ptxwcet.warp.program import Choice, Node, Repeat, TimedInstruction, Unordered

Body = tuple[Node, ...]


def timed(unit: str, init: int, lat: int, writes: str = "", reads: str = "") -> TimedInstruction:
    """An instruction; its registers are the words of ``writes`` and ``reads``."""
    return TimedInstruction(unit, init, lat, tuple(reads.split()), tuple(writes.split()))


def instructions(
    units: Sequence[str],
    registers: Sequence[str],
    *,
    most_names: int = 2,
    unique_names: bool = True,
    most_initiation: int = 4,
    latencies: Sequence[int],
    bubbles: Sequence[int],
    **more: Any,
) -> st.SearchStrategy[TimedInstruction]:
    names = st.lists(st.sampled_from(registers), max_size=most_names, unique=unique_names)
    return st.builds(
        TimedInstruction,
        unit=st.sampled_from(units),
        initiation_cycles=st.integers(1, most_initiation),
        latency_cycles=st.sampled_from(latencies),
        reads=names.map(tuple),
        writes=names.map(tuple),
        conditional=st.booleans(),
        bubble_cycles=st.sampled_from(bubbles),
        **more,
    )


def served(
    plain: st.SearchStrategy[TimedInstruction], memory_cycles: int
) -> st.SearchStrategy[TimedInstruction]:
    """Some go on to servers behind their units, of a memory of at most these cycles for 1024
    sectors.
    """

    def send(one: TimedInstruction, path: int, sectors: int) -> TimedInstruction:
        latency = one.latency_cycles + path + -(-memory_cycles * sectors // 1024)
        return replace(one, latency_cycles=latency, path_cycles=path, sectors=sectors)

    return st.builds(send, plain, st.sampled_from((0, 0, 1, 5)), st.sampled_from((0, 0, 1, 4, 32)))


def bodies(leaves: st.SearchStrategy[Node], most: int = 5) -> st.SearchStrategy[Body]:
    return st.lists(leaves, max_size=most).map(tuple)


def repeats(inner: st.SearchStrategy[Node], most_count: int) -> st.SearchStrategy[Repeat]:
    """Repeats whose least count is drawn too."""
    counts = st.tuples(st.integers(0, most_count), st.integers(0, most_count)).map(sorted)
    return st.builds(lambda pair, body: Repeat(pair[1], body, pair[0]), counts, bodies(inner, 4))


def exact_nodes(leaves: st.SearchStrategy[Node], most_count: int) -> st.SearchStrategy[Node]:
    """Instructions and repeats that leave nothing open."""
    return st.recursive(
        leaves,
        lambda inner: st.builds(Repeat, st.integers(0, most_count), bodies(inner)),
        max_leaves=12,
    )


def any_nodes(
    leaves: st.SearchStrategy[Node], most_count: int, max_leaves: int = 10
) -> st.SearchStrategy[Node]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            repeats(inner, most_count),
            st.builds(Unordered, bodies(inner, 3), bodies(inner, 3)),
            st.builds(Choice, st.lists(bodies(inner, 3), min_size=1, max_size=3).map(tuple)),
        ),
        max_leaves=max_leaves,
    )


def drawn_path(body: Body, draw: st.DrawFn) -> Body:
    """Draws one instruction sequence that a body allows."""
    out: list[Node] = []
    for node in body:
        match node:
            case Repeat():
                for _ in range(draw(st.integers(node.least, node.count))):
                    out += drawn_path(node.body, draw)
            case Unordered(first, second):
                for side in (first, second) if draw(st.booleans()) else (second, first):
                    out += drawn_path(side, draw)
            case Choice(alternatives):
                out += drawn_path(draw(st.sampled_from(alternatives)), draw)
            case _:
                out.append(node)
    return tuple(out)


def direct_steps(body: Body) -> int:
    """How many nodes a direct interpretation executes: both orders, all alternatives."""
    steps = 0
    for node in body:
        match node:
            case Repeat():
                steps += node.count * direct_steps(node.body)
            case Unordered(first, second):
                steps += 2 * (direct_steps(first) + direct_steps(second))
            case Choice(alternatives):
                steps += sum(direct_steps(side) for side in alternatives)
            case _:
                steps += 1
    return steps
