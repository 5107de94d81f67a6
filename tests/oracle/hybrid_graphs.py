"""Small graphs and traces by hand for the tests of hybrid analysis."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from ptxwcet.flow.graph.cfg import BasicBlock, BlockId, ControlFlowGraph, Transfer, assemble_cfg
from ptxwcet.flow.graph.dominance import compute_dominators, compute_postdominators
from ptxwcet.flow.graph.loops import find_loops
from ptxwcet.methods.hybrid.ipg import Ipg, Placement, build_ipg
from ptxwcet.trace.events import END, Ipoint, TimedTrace, TraceOrigin

Event = tuple[int, int, int, int]
"""Block (the exit: the end), multiprocessor, warp, cycle."""


def graph(successors: Sequence[Sequence[int]]) -> ControlFlowGraph:
    """A graph of the given successors; the exit has the next number."""
    blocks = [BasicBlock(BlockId(i), i, i + 1) for i in range(len(successors))]
    return assemble_cfg(blocks, [Transfer(tuple(map(BlockId, one))) for one in successors])


def place(cfg: ControlFlowGraph, points: Sequence[int] | None = None) -> Placement:
    """Ipoints at the given blocks, or at all; entry and exit are always among them."""
    blocks = sorted({0, int(cfg.exit), *(points if points is not None else cfg.reverse_postorder)})
    ipoints = tuple(END if b == cfg.exit else Ipoint(cfg.name(BlockId(b)), b + 1) for b in blocks)
    return Placement(ipoints, tuple(map(BlockId, blocks)), 0, len(blocks) - 1)


def ipg_of(cfg: ControlFlowGraph, points: Sequence[int] | None = None) -> Ipg:
    forest = find_loops(cfg, compute_dominators(cfg))
    return build_ipg(cfg, forest, compute_postdominators(cfg), place(cfg, points))


def trace_of(placement: Placement, runs: Sequence[Sequence[Event]]) -> TimedTrace:
    """A trace of events by block, in the order given."""
    point_at = {block: point for point, block in enumerate(placement.blocks)}
    rows = [event for run in runs for event in run]
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return TimedTrace(
        TraceOrigin("k", "", "by hand"),
        placement.ipoints,
        np.array([point_at[BlockId(block)] for block, *_ in rows], np.int32),
        columns[1].astype(np.int32),
        columns[2],
        columns[3],
        np.cumsum([0, *(len(run) for run in runs[:-1])]),
    )


def interleaved(warps: dict[int, list[tuple[int, int]]], sm: int = 0) -> list[Event]:
    """Events of warps, each a list of (block, cycle), in the order of time."""
    rows = [(block, sm, warp, cycle) for warp, path in warps.items() for block, cycle in path]
    return sorted(rows, key=lambda event: event[3])


# --- a SIMT stack that runs at random -----------------------------------------------------------


def reaches_end(successors: Sequence[Sequence[int]], start: int, without: int) -> bool:
    end = len(successors)
    seen, pending = {start}, [start]
    while pending:
        here = pending.pop()
        if here == end:
            return True
        for target in successors[here]:
            if target not in seen and target != without:
                seen.add(target)
                pending.append(target)
    return False


def meeting(successors: Sequence[Sequence[int]], block: int) -> int:
    """The immediate post-dominator by removing blocks: the cut that all other cuts lie behind."""
    end = len(successors)
    cuts = [c for c in range(end) if c != block and not reaches_end(successors, block, c)]
    nearest = [c for c in cuts if all(o == c or not reaches_end(successors, c, o) for o in cuts)]
    return nearest[0] if nearest else end


def walk(
    successors: Sequence[Sequence[int]],
    lanes: int,
    rng: random.Random,
    split: float = 0.5,
    most: int = 200,
) -> list[int] | None:
    """The blocks that one warp executes, the end last: lanes choose, sides run in any order.

    ``split`` is the chance that lanes choose one by one. None after ``most`` blocks.
    """
    end = len(successors)
    meets = [meeting(successors, block) for block in range(end)]
    stack = [(0, end, lanes)]  # next block, where it ends, how many lanes
    path: list[int] = []
    while stack:
        block, stop, count = stack.pop()
        if block == stop:
            continue
        if len(path) == most:
            return None
        path.append(block)
        targets = successors[block]
        if rng.random() < split:
            chosen = [rng.choice(targets) for _ in range(count)]
        else:
            chosen = [rng.choice(targets)] * count
        sides = sorted(set(chosen))
        if len(sides) == 1:
            stack.append((sides[0], stop, count))
            continue
        rng.shuffle(sides)
        stack.append((meets[block], stop, count))
        stack += [(side, meets[block], chosen.count(side)) for side in sides]
    return [*path, end]


@st.composite
def graphs(draw: st.DrawFn, most_blocks: int = 6, ways: int = 2) -> list[list[int]]:
    """Successors of blocks, each of which the entry reaches and which reaches the end."""
    count = draw(st.integers(1, most_blocks))
    rows = [
        sorted(draw(st.sets(st.integers(0 if count > 1 else 1, count), min_size=1, max_size=ways)))
        for _ in range(count)
    ]
    for block in range(count):  # a way to the end and from the entry
        if not reaches_end(rows, block, -1):
            rows[block] = sorted({*rows[block][:1], block + 1})
    cfg = graph(rows)
    kept = sorted(b for b in cfg.reverse_postorder if b != cfg.exit)
    number = {b: n for n, b in enumerate(kept)} | {cfg.exit: len(kept)}
    return [[number[t] for t in rows[b]] for b in kept]


def executed_trace(
    successors: Sequence[Sequence[int]],
    points: Sequence[int] | None,
    rng: random.Random,
    warps: int = 4,
    runs: int = 2,
    split: float = 0.5,
) -> tuple[Placement, list[list[Event]]]:
    """Runs of warps with random times on two multiprocessors; walks that are too long left out."""
    placement = place(graph(successors), points)
    at = set(placement.blocks)
    rows = []
    for _ in range(runs):
        events: list[Event] = []
        for warp in range(warps):
            path = walk(successors, 3, rng, split)
            time = rng.randrange(10)
            for block in path or ():
                if block in at:
                    events.append((block, warp % 2, warp, time))
                time += rng.randrange(1, 9)
        rows.append(sorted(events, key=lambda event: event[3]))
    return placement, [row for row in rows if row]
