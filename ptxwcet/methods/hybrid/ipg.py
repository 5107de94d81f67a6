"""Builds instrumentation point graphs: the successors of ipoints, and the iterations of loops.

Vertices are ipoints; a *transition* u -> v represents all paths from u to v without another ipoint.
The order of [B] IV-C is kept: transitions and loops are taken from the control-flow graph without
branch-divergent edges, which would make it irreducible; then the transitions of diverged warps are
added. Loops are those of the control-flow graph ([B] II-B): the graph of the ipoints has several
entries into a loop wherever the header is not an ipoint.

A warp that diverged makes a transfer ``b -> s`` of a branch later, from the end ``p`` of another
side. With respect to loops ``p -> s`` counts as ``b -> s``: lanes that leave a loop early and run
first do not begin the loop anew when the others continue in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph, Edge
from ptxwcet.flow.graph.divergence import find_deferred_transfers
from ptxwcet.flow.graph.dominance import DominatorTree
from ptxwcet.flow.graph.loops import Loop, LoopForest, LoopId
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.graph import reachable
from ptxwcet.support.records import dataclass
from ptxwcet.trace.events import END, Ipoint, TimedTrace


@dataclass(frozen=True, slots=True)
class Placement:
    """The blocks of ipoints: ``blocks[i]`` begins with ipoint ``i``, the exit for the end.

    ``start`` and ``end`` are the ipoints of the entry and of the end.
    """

    ipoints: tuple[Ipoint, ...]
    blocks: tuple[BlockId, ...]
    start: int
    end: int


def block_ipoints(kernel: Kernel, cfg: ControlFlowGraph) -> tuple[Ipoint, ...]:
    """Returns one ipoint for each block in order, and the end: all basic blocks instrumented.

    Ipoint ``b`` is at block ``b``, unreachable ones included; the end has the number of the exit.
    """
    return (*(_ipoint(kernel, cfg, block.id) for block in cfg.blocks[:-1]), END)


def _ipoint(kernel: Kernel, cfg: ControlFlowGraph, block: BlockId) -> Ipoint:
    start, end = cfg.blocks[block].start, cfg.blocks[block].end
    line = kernel.instructions[start].span.line if end > start else 0
    return Ipoint(cfg.name(block), line)


def place_ipoints(
    trace: TimedTrace, path: str, kernel: Kernel, cfg: ControlFlowGraph, sha256: str
) -> Placement:
    """Returns the blocks of a trace's ipoints, by name and line.

    Raises PtxwcetError: PW607 if the trace is of another kernel or file, PW612 if it lacks the
    entry or the end, or names a point twice. Cost: linear in blocks and ipoints.
    """
    _check_origin(trace, path, kernel, sha256)
    at = {point: block for block, point in enumerate(block_ipoints(kernel, cfg))}
    blocks = []
    for number, point in enumerate(trace.ipoints):
        if point not in at:
            raise _other(
                path,
                f"ipoint {number} of the trace, {point.label} at line {point.line}, is no basic "
                f"block of kernel {kernel.readable}",
            )
        blocks.append(BlockId(at[point]))
    number_of = dict(zip(blocks, range(len(blocks)), strict=True))
    entry, end = number_of.get(cfg.entry), number_of.get(cfg.exit)
    if entry is None or end is None or len(number_of) < len(blocks):
        why = "names a block twice"
        if entry is None or end is None:
            why = f"has none at the {'end' if entry is not None else 'entry'} of the kernel"
        raise PtxwcetError.of(
            "PW612",
            f"the table of ipoints of '{path}' {why}",
            help="the entry and the end of a kernel must be instrumented, each block at most once",
        )
    return Placement(trace.ipoints, tuple(blocks), entry, end)


def _check_origin(trace: TimedTrace, path: str, kernel: Kernel, sha256: str) -> None:
    origin = trace.origin
    if origin.kernel != kernel.name:
        raise _other(path, f"it is of kernel {origin.readable}, not of {kernel.readable}")
    if origin.sha256 and origin.sha256 != sha256:
        raise _other(
            path,
            f"it was recorded from another PTX file (SHA-256 {origin.sha256[:12]}..., this file "
            f"has {sha256[:12]}...)",
        )


def _other(path: str, why: str) -> PtxwcetError:
    return PtxwcetError.of(
        "PW607",
        f"the trace '{path}' does not belong to this kernel: {why}",
        help="give the PTX file that was traced, or record the trace again",
    )


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition from one ipoint to the next. ``passed``: blocks that may be executed on the
    path, ascending, including the source's.

    ``is_ordinary``: a path exists in the control-flow graph; otherwise only a diverged warp makes
    the transition.
    """

    source: int
    target: int
    is_ordinary: bool
    passed: tuple[BlockId, ...]


@dataclass(frozen=True, slots=True)
class IpgLoop:
    """A loop of the control-flow graph that holds ipoints.

    ``entries`` are the transitions that begin it anew, or may be the first to an ipoint in it after
    an unobserved entry; ``iterations`` those that can lead to its next iteration without beginning
    it anew; both by number. ``begins_inside``: the kernel's entry is in it.
    """

    id: LoopId
    header: BlockId
    ipoints: frozenset[int]
    entries: tuple[int, ...]
    iterations: tuple[int, ...]
    begins_inside: bool


@dataclass(frozen=True, slots=True)
class Ipg:
    """The graph: ``transitions`` by source and target; ``loops`` outer before inner.

    ``hidden_loops`` are the loops without an ipoint: their iterations are not observed, their time
    is in the transitions through them.
    """

    placement: Placement
    transitions: tuple[Transition, ...]
    loops: tuple[IpgLoop, ...]
    hidden_loops: tuple[LoopId, ...]

    def numbers(self) -> Mapping[tuple[int, int], int]:
        """Returns the number of each transition by source and target. Cost: linear."""
        return {(t.source, t.target): n for n, t in enumerate(self.transitions)}


Step = tuple[BlockId, BlockId]
"""The target of a step, and the block whose transfer it is (another one if it was deferred)."""


def build_ipg(
    cfg: ControlFlowGraph,
    forest: LoopForest,
    postdominators: DominatorTree,
    placement: Placement,
    deferred: Mapping[Edge, tuple[BlockId, ...]] | None = None,
) -> Ipg:
    """Returns the graph of a kernel's ipoints, with every transition of a warp that diverges.

    ``deferred`` are branch-divergent edges, each with the branches whose transfer it makes; None:
    all edges of a warp that reconverges at immediate post-dominators (find_deferred_transfers).
    Raises PtxwcetError (PW234) as that function does. Cost: a search of the blocks without ipoints
    after each ipoint, one for each loop around its end.
    """
    if deferred is None:
        deferred = find_deferred_transfers(cfg, postdominators).causes
    ordinary: list[list[Step]] = [
        [(target, BlockId(source)) for target in targets]
        for source, targets in enumerate(cfg.successors)
    ]
    steps = [targets.copy() for targets in ordinary]
    for (end, side), branches in deferred.items():
        steps[end] += [(side, branch) for branch in branches]
    point_at = {block: number for number, block in enumerate(placement.blocks)}
    undiverged = _reached(ordinary, placement, point_at)
    every = _reached(steps, placement, point_at)
    transitions = tuple(
        Transition(source, target, (source, target) in undiverged, passed)
        for (source, target), passed in sorted(every.items())
    )
    loops = []
    for loop in forest.loops:
        inside = frozenset(point_at[block] for block in loop.body if block in point_at)
        if inside:
            loops.append(_ipg_loop(loop, inside, transitions, steps, placement, point_at))
    shown = {loop.id for loop in loops}
    hidden = tuple(loop.id for loop in forest.loops if loop.id not in shown)
    return Ipg(placement, transitions, tuple(loops), hidden)


def _reached(
    steps: list[list[Step]], placement: Placement, point_at: Mapping[BlockId, int]
) -> dict[tuple[int, int], tuple[BlockId, ...]]:
    """Returns every transition, with the blocks that its paths pass."""
    transitions: dict[tuple[int, int], tuple[BlockId, ...]] = {}
    for source, block in enumerate(placement.blocks):
        edges: list[Edge] = []  # backwards
        seen, pending = {block}, [block]
        while pending:
            here = pending.pop()
            for target, _ in steps[here]:
                edges.append((target, here))
                if target not in seen and target not in point_at:
                    seen.add(target)
                    pending.append(target)
        for end in {target for target, _ in edges if target in point_at}:
            ways: dict[BlockId, list[BlockId]] = defaultdict(list)
            for after, before in edges:
                if after == end or after not in point_at:  # paths end at ipoints
                    ways[after].append(before)
            passed = {block, *(reachable(ways, [end]) - {end})}
            transitions[source, point_at[end]] = tuple(BlockId(b) for b in sorted(passed))
    return transitions


def _ipg_loop(
    loop: Loop,
    inside: frozenset[int],
    transitions: tuple[Transition, ...],
    steps: list[list[Step]],
    placement: Placement,
    point_at: Mapping[BlockId, int],
) -> IpgLoop:
    staying: dict[int, dict[int, bool]] = {}
    for source in {t.source for t in transitions if t.target in inside}:
        staying[source] = _staying(placement.blocks[source], loop, steps, point_at)
    entries, iterations = [], []
    # Lanes may have entered the loop in a transition that ends elsewhere, and continue in it later.
    is_entered_unseen = loop.header not in point_at
    for number, transition in enumerate(transitions):
        if transition.target not in inside:
            continue
        goes_on = staying[transition.source].get(transition.target)
        if goes_on:
            iterations.append(number)
        if goes_on is None or (
            transition.source not in inside
            and (is_entered_unseen or _enters(transition, loop, steps))
        ):
            entries.append(number)
    begins_inside = placement.start in inside
    return IpgLoop(loop.id, loop.header, inside, tuple(entries), tuple(iterations), begins_inside)


def _staying(
    block: BlockId, loop: Loop, steps: list[list[Step]], point_at: Mapping[BlockId, int]
) -> dict[int, bool]:
    """Returns the ipoints reached without entering ``loop``; and whether by an iteration."""
    iterates: dict[int, bool] = {}
    seen = {(block, False)}
    pending = [(block, False)]
    while pending:
        here, iterated = pending.pop()
        for target, origin in steps[here]:
            if target in loop.body and origin not in loop.body:
                continue
            state = (target, iterated or (target == loop.header and origin in loop.latches))
            if target in point_at:
                point = point_at[target]
                iterates[point] = iterates.get(point, False) or state[1]
            elif state not in seen:
                seen.add(state)
                pending.append(state)
    return iterates


def _enters(transition: Transition, loop: Loop, steps: list[list[Step]]) -> bool:
    """Returns whether some block passed by a transition can enter the loop from outside."""
    return any(
        target in loop.body and origin not in loop.body
        for block in transition.passed
        for target, origin in steps[block]
    )
