"""Path extraction: the paths of all warps of a block, for every block index that the launch allows.

Warps start in one group and are split where their paths part; block indices start as whole ranges
and are split where a decision is not the same for all of them. What cannot be decided is refused
with a diagnostic that names the branch, what it depends on and the option that settles it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product

from ptxwcet.flow.flow_graph import FlowGraph, Kept, Work, agreements_of
from ptxwcet.flow.graph.control_flow import ControlFlow, parting_diagnostics
from ptxwcet.flow.launch import WARP_SIZE, Dim3, Launch, PlacedFacts
from ptxwcet.flow.paths.diagnostics import (
    CONTRADICTED,
    ContradictedFacts,
    NeverEnds,
    open_decision,
    refused_path,
)
from ptxwcet.flow.values.arrays import loads_of_arrays
from ptxwcet.flow.values.lane_state import BlockIndex, LaneState, Span
from ptxwcet.flow.values.regions import SplitRequest, Symbol
from ptxwcet.flow.values.slicing import control_slice
from ptxwcet.flow.values.value import Cause, CauseKind
from ptxwcet.flow.walk.path import (
    BlockPaths,
    Path,
    PathChoice,
    WarpPath,
    at_value,
    close_symbol,
    visited_blocks,
)
from ptxwcet.flow.walk.walk import Refused, SplitWarps, Undecided, Walk
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.operands import SpecialRegister, leaves
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

# --- Parts of the block indices and of parameters' ranges, which are analysed apart ---------------
# Indices start as whole ranges and are cut where a decision is not the same for all of them.


_MOST_NAMED = 4
_UNLIMITED: Dim3 = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True, slots=True)
class Piece:
    """Block indices from ``first`` to ``last`` and values of parameters of which ranges are known.

    ``splittable``: parts of the indices may be analysed apart.
    """

    first: Dim3
    last: Dim3
    spans: tuple[tuple[str, Span], ...] = ()
    splittable: bool = True

    def unsplittable(self) -> Piece:
        """These block indices, to be analysed as a whole."""
        spans = tuple((name, replace(span, splittable=False)) for name, span in self.spans)
        return replace(self, spans=spans, splittable=False)


def all_values(graph: FlowGraph, launch: Launch) -> Piece:
    """All block indices that the launch allows, as far as control flow depends on them."""
    limits = launch.grid if launch.grid is not None else _UNLIMITED
    used = {
        leaf.name
        for instruction in graph.kernel.instructions
        if any(name in graph.control_registers for name in instruction.writes)
        for operand in instruction.operands
        for leaf in leaves(operand)
        if isinstance(leaf, SpecialRegister)
    }
    last = [limits[i] - 1 if f"%ctaid.{axis}" in used else 0 for i, axis in enumerate("xyz")]
    spans = tuple(
        (name, Span(low, 1, high - low + 1)) for name, (low, high) in launch.ranges.items()
    )
    return Piece((0, 0, 0), (last[0], last[1], last[2]), spans)


def is_in_every_launch(piece: Piece, whole: Piece, launch: Launch) -> bool:
    """Whether every launch that ``whole`` stands for has blocks of a piece.

    If the grid is not known, only block (0, 0, 0) is sure to exist; if a parameter has a range, no
    value of it is sure.
    """
    if piece.spans != whole.spans:
        return False
    return launch.grid is not None or piece.first == (0, 0, 0)


def excluded_values(pieces: Sequence[Piece], whole: Piece, launch: Launch) -> tuple[str, ...]:
    """The values of parameters and the indices of blocks that distinguish some parts, in words."""
    intervals: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for piece in pieces:
        parts = [
            (launch.name_of(name), span)
            for (name, span), (_, full) in zip(piece.spans, whole.spans, strict=True)
            if span != full
        ]
        parts += [
            (f"ctaid.{axis}", Span(first, 1, last - first + 1))
            for axis, first, last, *full in zip(
                "xyz", piece.first, piece.last, whole.first, whole.last, strict=True
            )
            if [first, last] != full
        ]
        (name, span), *others = parts
        key = (name, f" in steps of {span.step}" * (span.step > 1), *map(_with, others))
        intervals.setdefault(key, []).append(
            (span.first, span.first + span.step * (span.count - 1))
        )
    found = []
    for (name, step, *rest), ends in intervals.items():
        for first, last in _joined(ends) if not step else ends:
            found.append(f"{name} in {first}..{last}{step}{''.join(rest)}")
    more = len(found) - _MOST_NAMED
    return (*found[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else []))


def _with(part: tuple[str, Span]) -> str:
    name, span = part
    step = f" in steps of {span.step}" * (span.step > 1)
    return f" with {name} in {span.first}..{span.first + span.step * (span.count - 1)}{step}"


def _joined(ends: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals in ascending order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ends):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined


def parts_asked_for(piece: Piece, split: SplitRequest) -> int:
    """How many parts of a piece a decision asks for: two, or one for each remainder."""
    if not split.modulus:
        return 2
    return min(split.modulus, dict(piece.spans)[split.symbol.name].count)


def split_piece(piece: Piece, split: SplitRequest) -> list[Piece]:
    """The parts of a piece that a decision asks for. Cost: linear in their number."""
    if split.symbol.is_parameter:
        return _split_span(piece, split)
    axis = "xyz".index(split.symbol.name[-1])
    first, last = piece.first, piece.last
    cut = first[axis] + split.at

    def replaced(index: Dim3, value: int) -> Dim3:
        numbers = [*index]
        numbers[axis] = value
        return numbers[0], numbers[1], numbers[2]

    return [
        replace(piece, last=replaced(last, cut - 1)),
        replace(piece, first=replaced(first, cut)),
    ]


def _split_span(piece: Piece, split: SplitRequest) -> list[Piece]:
    """The parts of a parameter's range: below and from a value, or by the remainder."""
    spans = dict(piece.spans)
    span = spans[split.symbol.name]
    if split.modulus:
        parts = [
            replace(
                span,
                first=span.first + span.step * rest,
                step=span.step * split.modulus,
                count=-(-(span.count - rest) // split.modulus),
            )
            for rest in range(min(split.modulus, span.count))
        ]
    else:
        rest_at = span.first + span.step * split.at
        parts = [
            replace(span, count=split.at),
            replace(span, first=rest_at, count=span.count - split.at),
        ]
    return [replace(piece, spans=tuple({**spans, split.symbol.name: one}.items())) for one in parts]


def block_index(piece: Piece) -> BlockIndex:
    """The block index, as a symbol in each axis in which the piece has more than one."""
    first, last = piece.first, piece.last
    symbols = [
        Symbol(
            f"ctaid.{axis}",
            position - 3,
            last[position] - first[position] + 1,
            splittable=piece.splittable,
            fixed=not piece.splittable,
            origin=frozenset({Cause(CauseKind.LAUNCH, f"%ctaid.{axis}")}),
        )
        if last[position] > first[position]
        else None
        for position, axis in enumerate("xyz")
    ]
    return BlockIndex(first, (symbols[0], symbols[1], symbols[2]))


def merge_equal(pieces: list[BlockPaths]) -> list[BlockPaths]:
    """One representative of ranges whose warps execute the same, in the order of block indices."""
    kept: dict[tuple[WarpPath, ...], BlockPaths] = {}
    for piece in sorted(pieces, key=lambda piece: piece.first[::-1]):
        kept.setdefault(piece.warps, piece)
    return list(kept.values())


# --- The paths of a launch ------------------------------------------------------------------------

# Ranges of block indices analysed apart: a kernel that tests its index against a size needs two or
# three an axis; more means that every block is different, and the user should name the grid.
_MOST_PIECES = 64
_MOST_SYMBOLIC_PIECES = 2048
# Block visits of all parts together: some ten seconds.
_MOST_SYMBOLIC_VISITS = 100_000
_SYMBOLIC_SHARE = 6  # steps of a walk for a range, by those for one value
_MOST_EXCLUSIVE = 6  # pairs of exclusive outcomes: 64 walks
_TOO_LONG = "PW206"
_STEPS_OF_A_VISIT = 2  # what bounds do with a block of a path, in steps of a walk


@dataclass(frozen=True, slots=True)
class SymbolicPaths:
    """The paths of all warps for values of a parameter: ``first + step * s``, ``0 <= s < count``.

    Counts of iterations in ``paths`` are affine in the symbol that stands for ``s``.
    """

    first: int
    step: int
    count: int
    paths: BlockPaths

    def at(self, s: int) -> BlockPaths:
        """The paths for one value."""
        if not 0 <= s < self.count:
            raise ValueError(f"{s} is not in 0..{self.count - 1}")
        warps = tuple(replace(warp, nodes=at_value(warp.nodes, s)) for warp in self.paths.warps)
        return replace(self.paths, warps=warps)


def extract_paths(flow: ControlFlow, launch: Launch, facts: PlacedFacts) -> tuple[BlockPaths, ...]:
    """The paths of all warps, one entry for each range of block indices that behaves alike.

    Without a grid, all indices that any grid can have are covered. Raises PtxwcetError (PW2xx),
    above all OpenDecision. Cost: independent of trip counts; linear in the path tree for each group
    of warps and range of indices, times two for each pair of exclusive outcomes.
    """
    return tuple(merge_equal(list(extract_ranges(flow, launch, facts))))


def extract_ranges(flow: ControlFlow, launch: Launch, facts: PlacedFacts) -> tuple[BlockPaths, ...]:
    """As extract_paths, but ranges that behave alike are not joined: they cover all indices.

    In an axis on which no decision depends, a range holds index 0 for all of them.
    """
    return extract_on(flow_graph(flow, launch), launch, facts)


def flow_graph(flow: ControlFlow, launch: Launch, of_graph: Kept | None = None) -> FlowGraph:
    """What walks need to know of a kernel and launch; ``of_graph`` is what others have found out of
    the kernel alone. Cost: linear in the kernel.

    Raises PtxwcetError: PW251 for an array of which something is said and nothing loaded, PW224 for
    machine code at which lanes may part that came together.
    """
    if flow.reconvergence.unsure:
        raise PtxwcetError(parting_diagnostics(flow))
    work = Work(of_graph=Kept() if of_graph is None else of_graph)
    agreements = agreements_of(flow, launch, work.of_graph)
    loaded = loads_of_arrays(flow.kernel, launch)
    trees = (flow.dominators, flow.postdominators, flow.reconvergence)
    parts = (flow.kernel, flow.cfg, flow.forest, *trees)
    return FlowGraph(*parts, _control_slice(flow.kernel, work.of_graph), agreements, loaded, work)


class _Slice(list[frozenset[str]]):
    """The registers that decide control flow, once they are asked for."""


def _control_slice(kernel: Kernel, of_graph: Kept) -> frozenset[str]:
    found = of_graph[_Slice]
    if not found:
        found.append(control_slice(kernel))
    return found[0]


def extract_on(graph: FlowGraph, launch: Launch, facts: PlacedFacts) -> tuple[BlockPaths, ...]:
    """:func:`extract_ranges` on a graph, which notes the branches that were left open.

    If that takes too long the lanes are not told apart anymore: each lane's index may be any of the
    block, and loops that start at it are counted for all of them. If that does not settle the paths
    either, what is said is that it takes too long.
    """
    _require_used(graph.kernel, facts)
    try:
        return _extracted(graph, launch, facts)
    except PtxwcetError as error:
        if error.diagnostics[0].code != _TOO_LONG or not graph.work.tell_apart_no_more():
            raise
        with suppress(PtxwcetError):
            return _extracted(graph, launch, facts)
        raise


def _extracted(graph: FlowGraph, launch: Launch, facts: PlacedFacts) -> tuple[BlockPaths, ...]:
    found = _explore(graph, launch, facts, _MOST_PIECES)
    if found is None:  # too many kinds of blocks: what index and parameters decide is left open
        whole = all_values(graph, launch).unsplittable()
        found = [(whole, _paths_of_piece(graph, launch, facts, whole))]
    relied, excluded = frozenset(graph.work.relied), graph.work.excluded
    return tuple(BlockPaths(one.first, one.last, paths, relied, excluded) for one, paths in found)


def extract_symbolic(
    flow: ControlFlow, launch: Launch, facts: PlacedFacts, parameter: str
) -> tuple[SymbolicPaths, ...] | None:
    """The paths as functions of a parameter of which ``launch`` has a range.

    What is executed for a value of the parameter are the blocks of all entries that contain it:
    they may overlap. None if the paths are of too many kinds. Raises and costs as extract_paths.
    """
    _require_used(flow.kernel, facts)
    graph = flow_graph(flow, launch)
    graph.work.walking.most *= _SYMBOLIC_SHARE
    explored = _explore(graph, launch, facts, _MOST_SYMBOLIC_PIECES, symbolic=parameter)
    if explored is None:
        return None
    out = []
    for piece, paths in explored:
        span = dict(piece.spans)[parameter]
        relied, excluded = frozenset(graph.work.relied), graph.work.excluded
        block = BlockPaths(piece.first, piece.last, paths, relied, excluded)
        out.append(SymbolicPaths(span.first, span.step, span.count, block))
    return tuple(out)


def _require_used(kernel: Kernel, facts: PlacedFacts) -> None:
    """Refuses more pairs of exclusive outcomes than are combined: none is ignored."""
    if len(facts.exclusive) > _MOST_EXCLUSIVE:
        raise PtxwcetError(
            Diagnostic(
                "PW247",
                f"kernel {kernel.readable}: {len(facts.exclusive)} pairs of exclusive outcomes; at "
                f"most {_MOST_EXCLUSIVE} are combined",
                kernel.span,
                help="leave out those that matter least",
            )
        )


_Found = list[tuple[Piece, tuple[WarpPath, ...]]]


def _explore(
    graph: FlowGraph, launch: Launch, facts: PlacedFacts, most: int, symbolic: str | None = None
) -> _Found | None:
    """The paths of parts of the block indices and parameters.

    None for more than ``most`` parts, or if those for a ``symbolic`` parameter take too long.
    """
    whole = all_values(graph, launch)
    open_pieces = [whole]
    done: _Found = []
    contradicted: list[tuple[Piece, ContradictedFacts]] = []
    while open_pieces:
        piece = open_pieces.pop()
        if len(done) + len(open_pieces) >= most:
            return None
        if symbolic is not None and graph.work.visits > _MOST_SYMBOLIC_VISITS:
            return None
        try:
            done.append((piece, _paths_of_piece(graph, launch, facts, piece, symbolic)))
        except SplitRequest as split:
            if parts_asked_for(piece, split) > most:  # of a large modulus, more than memory holds
                return None
            open_pieces += split_piece(piece, split)
        except ContradictedFacts as contradiction:
            if is_in_every_launch(piece, whole, launch):
                raise
            contradicted.append((piece, contradiction))  # the facts say that there is no such block
        except NeverEnds as endless:
            if is_in_every_launch(piece, whole, launch):
                raise
            causes = frozenset(Cause(CauseKind.PARAMETER, name) for name, _ in piece.spans)
            if piece.first != (0, 0, 0) and launch.grid is None:
                causes |= {Cause(CauseKind.LAUNCH, "%ctaid")}
            reason = f"it never ends for {', '.join(excluded_values([piece], whole, launch))}"
            undecided = Undecided(endless.instruction, causes, reason)
            raise open_decision(graph, undecided, launch) from None
    if contradicted and not done:
        raise contradicted[-1][1]
    if contradicted:
        left_out = [piece for piece, _ in contradicted]
        why = contradicted[-1][1].diagnostics[0].message
        names = excluded_values(left_out, whole, launch)
        graph.work.excluded = (f"{', '.join(names)} ({why})",)
    return done


def _paths_of_piece(
    graph: FlowGraph, launch: Launch, facts: PlacedFacts, piece: Piece, symbolic: str | None = None
) -> tuple[WarpPath, ...]:
    """The paths of all warps for a part that no decision splits. Raises SplitRequest otherwise."""
    groups = [tuple(range(launch.warps))]
    if launch.threads % WARP_SIZE and launch.warps > 1:
        groups = [tuple(range(launch.warps - 1)), (launch.warps - 1,)]
    warps_of: dict[Path, list[int]] = {}
    while groups:
        group = groups.pop(0)
        try:
            nodes = _path_of_group(graph, launch, facts, piece, (group, symbolic))
        except SplitWarps as split:
            groups = [*split.groups, *groups]
        except Undecided as undecided:
            raise open_decision(graph, undecided, launch) from None
        except Refused as refused:
            raise refused_path(graph, refused, facts) from None
        else:
            warps_of.setdefault(nodes, []).extend(group)
    paths = [WarpPath(nodes, tuple(sorted(warps))) for nodes, warps in warps_of.items()]
    return tuple(sorted(paths, key=lambda path: path.warps[0]))


def _path_of_group(
    graph: FlowGraph,
    launch: Launch,
    facts: PlacedFacts,
    piece: Piece,
    group_and_symbol: tuple[tuple[int, ...], str | None],
) -> Path:
    """The path of warps that go one way. Of two exclusive outcomes a run has at most one.

    So each run is among those of one of the walks that exclude one outcome of every pair. A walk
    is contradicted if all runs have an outcome that it excludes, then it has none; a side of a
    branch that some runs take is left out inside of the walk (:meth:`WalkState.contradict`). If all
    walks are contradicted, so are the facts.
    """
    group, symbolic = group_and_symbol
    paths: dict[Path, None] = {}
    contradiction: Refused | None = None
    for excluded in product(*facts.exclusive):
        index = block_index(piece)
        spans, told_apart = dict(piece.spans), graph.work.told_apart
        state = LaneState(graph.kernel, launch, index, group, spans, told_apart=told_apart)
        never = facts.never | frozenset(excluded)
        try:
            walk = Walk(graph, state, replace(facts, never=never))
            nodes = walk.run(symbolic)
        except Refused as refused:
            if refused.code not in CONTRADICTED:
                raise
            contradiction = refused
            continue
        walk.spend(_STEPS_OF_A_VISIT * sum(1 for _ in visited_blocks(nodes)), 0)
        for symbol in index.symbols:
            nodes = nodes if symbol is None else close_symbol(nodes, symbol)
        paths[nodes] = None
    if not paths:
        assert contradiction is not None
        raise contradiction
    alternatives = tuple(paths)
    return alternatives[0] if len(alternatives) == 1 else (PathChoice(alternatives),)
