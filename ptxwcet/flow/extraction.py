"""Path extraction: the paths of all warps of a block, for every block index that the launch allows.

Warps start in one group and are split where their paths part; block indices start as whole ranges
and are split where a decision is not the same for all of them. What cannot be decided is refused
with a diagnostic that names the branch, what it depends on and the option that settles it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from ptxwcet.flow.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.facts import WARP_SIZE, Dim3, Launch, PlacedFacts
from ptxwcet.flow.lanes import BlockIndex, LaneState, Span
from ptxwcet.flow.loops import LoopForest
from ptxwcet.flow.paths import BlockPaths, Path, PathChoice, WarpPath, at_value, close_symbol
from ptxwcet.flow.regions import SplitRequest, Symbol
from ptxwcet.flow.slicing import control_slice
from ptxwcet.flow.uniformity import BranchAgreements
from ptxwcet.flow.values import Cause, CauseKind
from ptxwcet.flow.walk import FlowGraph, Refused, SplitWarps, Undecided, Walk
from ptxwcet.ir.kernel import Kernel, SpecialRegister
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

# Ranges of block indices analysed apart: a kernel that tests its index against a size needs two or
# three an axis; more means that every block is different, and the user should name the grid.
_MOST_PIECES = 64
_MOST_SYMBOLIC_PIECES = 2048
_MOST_EXCLUSIVE = 6  # pairs of exclusive outcomes: 64 walks
_CONTRADICTED = "PW217"
_UNLIMITED: Dim3 = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Block indices from ``first`` to ``last`` and values of parameters of which ranges are known.

    ``splittable``: parts of the indices may be analysed apart.
    """

    first: Dim3
    last: Dim3
    spans: tuple[tuple[str, Span], ...] = ()
    splittable: bool = True

    def unsplittable(self) -> _Piece:
        """The same, to be analysed as a whole."""
        spans = tuple((name, replace(span, splittable=False)) for name, span in self.spans)
        return replace(self, spans=spans, splittable=False)


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


def extract_paths(
    kernel: Kernel,
    cfg: ControlFlowGraph,
    forest: LoopForest,
    postdominators: tuple[BlockId | None, ...],
    launch: Launch,
    facts: PlacedFacts,
) -> tuple[BlockPaths, ...]:
    """The paths of all warps, one entry for each range of block indices that behaves alike.

    Without a grid, all indices that any grid can have are covered. Raises PtxwcetError (PW2xx),
    above all OpenDecision. Cost: independent of trip counts; linear in the path tree for each group
    of warps and range of indices, times two for each pair of exclusive outcomes.
    """
    _require_used(kernel, facts)
    agreements = BranchAgreements(kernel, cfg, postdominators, launch)
    graph = FlowGraph(kernel, cfg, forest, postdominators, control_slice(kernel), agreements)
    found = _explore(graph, launch, facts, _MOST_PIECES)
    if found is None:  # too many kinds of blocks: what index and parameters decide is left open
        whole = _all_values(kernel, launch, graph).unsplittable()
        found = [(whole, _paths_of_piece(graph, launch, facts, whole))]
    return tuple(_merge_equal([BlockPaths(one.first, one.last, paths) for one, paths in found]))


def extract_symbolic(
    kernel: Kernel,
    cfg: ControlFlowGraph,
    forest: LoopForest,
    postdominators: tuple[BlockId | None, ...],
    launch: Launch,
    facts: PlacedFacts,
    parameter: str,
) -> tuple[SymbolicPaths, ...] | None:
    """The paths as functions of a parameter of which ``launch`` has a range.

    What is executed for a value of the parameter are the blocks of all entries that contain it:
    they may overlap. None if the paths are of too many kinds. Raises and costs as extract_paths.
    """
    _require_used(kernel, facts)
    agreements = BranchAgreements(kernel, cfg, postdominators, launch)
    graph = FlowGraph(kernel, cfg, forest, postdominators, control_slice(kernel), agreements)
    found = _explore(graph, launch, facts, _MOST_SYMBOLIC_PIECES, symbolic=parameter)
    if found is None:
        return None
    out = []
    for piece, paths in found:
        span = dict(piece.spans)[parameter]
        block = BlockPaths(piece.first, piece.last, paths)
        out.append(SymbolicPaths(span.first, span.step, span.count, block))
    return tuple(out)


_Found = list[tuple[_Piece, tuple[WarpPath, ...]]]


def _explore(
    graph: FlowGraph, launch: Launch, facts: PlacedFacts, most: int, symbolic: str | None = None
) -> _Found | None:
    """The paths of parts of the block indices and parameters; None for more than ``most`` parts."""
    open_pieces = [_all_values(graph.kernel, launch, graph)]
    done: _Found = []
    while open_pieces:
        piece = open_pieces.pop()
        if len(done) + len(open_pieces) >= most:
            return None
        try:
            done.append((piece, _paths_of_piece(graph, launch, facts, piece, symbolic)))
        except SplitRequest as split:
            open_pieces += _split(piece, split)
    return done


def _all_values(kernel: Kernel, launch: Launch, graph: FlowGraph) -> _Piece:
    limits = launch.grid if launch.grid is not None else _UNLIMITED
    used = {
        operand.name
        for instruction in kernel.instructions
        if any(name in graph.control_registers for name in instruction.writes)
        for operand in instruction.operands
        if isinstance(operand, SpecialRegister)
    }
    last = [limits[i] - 1 if f"%ctaid.{axis}" in used else 0 for i, axis in enumerate("xyz")]
    spans = tuple(
        (name, Span(low, 1, high - low + 1)) for name, (low, high) in launch.ranges.items()
    )
    return _Piece((0, 0, 0), (last[0], last[1], last[2]), spans)


def _split(piece: _Piece, split: SplitRequest) -> list[_Piece]:
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


def _split_span(piece: _Piece, split: SplitRequest) -> list[_Piece]:
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


def _paths_of_piece(
    graph: FlowGraph,
    launch: Launch,
    facts: PlacedFacts,
    piece: _Piece,
    symbolic: str | None = None,
) -> tuple[WarpPath, ...]:
    groups = [tuple(range(launch.warps))]
    if launch.threads % WARP_SIZE and launch.warps > 1:
        groups = [tuple(range(launch.warps - 1)), (launch.warps - 1,)]
    found: dict[Path, list[int]] = {}
    while groups:
        group = groups.pop(0)
        try:
            nodes = _path_of_group(graph, launch, facts, piece, (group, symbolic))
        except SplitWarps as split:
            groups = [*split.groups, *groups]
        except Undecided as undecided:
            raise _open_decision(graph, undecided) from None
        except Refused as refused:
            raise PtxwcetError(_refused(graph, refused, facts)) from None
        else:
            found.setdefault(nodes, []).extend(group)
    paths = [WarpPath(nodes, tuple(sorted(warps))) for nodes, warps in found.items()]
    return tuple(sorted(paths, key=lambda path: path.warps[0]))


def _path_of_group(
    graph: FlowGraph,
    launch: Launch,
    facts: PlacedFacts,
    piece: _Piece,
    what: tuple[tuple[int, ...], str | None],
) -> Path:
    """The path of warps that go one way. Of two exclusive outcomes a run has at most one.

    So each run is among those of one of the walks that exclude one outcome of every pair. A walk
    that is contradicted has no runs; if all are, so are the facts.
    """
    group, symbolic = what
    paths: dict[Path, None] = {}
    contradiction: Refused | None = None
    for excluded in product(*facts.exclusive):
        index = _block_index(piece)
        state = LaneState(graph.kernel, launch, index, group, dict(piece.spans))
        never = facts.never | frozenset(excluded)
        try:
            nodes = Walk(graph, state, replace(facts, never=never)).run(symbolic)
        except Refused as refused:
            if refused.code != _CONTRADICTED:
                raise
            contradiction = refused
            continue
        for symbol in index.symbols:
            nodes = nodes if symbol is None else close_symbol(nodes, symbol)
        paths[nodes] = None
    if not paths:
        assert contradiction is not None
        raise contradiction
    found = tuple(paths)
    return found[0] if len(found) == 1 else (PathChoice(found),)


def _block_index(piece: _Piece) -> BlockIndex:
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


def _merge_equal(pieces: list[BlockPaths]) -> list[BlockPaths]:
    """One representative of ranges whose warps execute the same, in the order of block indices."""
    kept: dict[tuple[WarpPath, ...], BlockPaths] = {}
    for piece in sorted(pieces, key=lambda piece: piece.first[::-1]):
        kept.setdefault(piece.warps, piece)
    return list(kept.values())


# --- diagnostics ----------------------------------------------------------------------------------


class OpenDecision(PtxwcetError):
    """PW203 or PW202: the branch at ``instruction`` (an index) is not decided, for ``causes``.

    ``loop`` is the loop that it leaves, None for a branch that leaves none.
    """

    def __init__(
        self, diagnostic: Diagnostic, instruction: int, loop: int | None, causes: frozenset[Cause]
    ) -> None:
        super().__init__(diagnostic)
        self.instruction = instruction
        self.loop = loop
        self.causes = causes


def _require_used(kernel: Kernel, facts: PlacedFacts) -> None:
    """Refuses more pairs of exclusive outcomes than are combined: none is ignored."""
    if len(facts.exclusive) > _MOST_EXCLUSIVE:
        raise PtxwcetError(
            Diagnostic(
                "PW247",
                f"kernel {kernel.name}: {len(facts.exclusive)} pairs of exclusive outcomes; at "
                f"most {_MOST_EXCLUSIVE} are combined",
                kernel.span,
                help="leave out those that matter least",
            )
        )


def _place(graph: FlowGraph, index: int) -> tuple[str, ...]:
    kernel, cfg = graph.kernel, graph.cfg
    block = graph.block_of(index)
    notes = [f"in kernel {kernel.name}, block {cfg.name(block)}"]
    location = kernel.instructions[index].location if index < len(kernel.instructions) else None
    if location is not None:
        notes.append(f"source line: {location.file}:{location.line}")
    return tuple(notes)


def _refused(graph: FlowGraph, refused: Refused, facts: PlacedFacts) -> Diagnostic:
    span = graph.kernel.instructions[refused.instruction].span
    reason, block = refused.reason, graph.block_of(refused.instruction)
    loop = graph.forest.loop_at(block)
    if refused.code == _CONTRADICTED and loop is not None:
        reason = reason.replace("--loop-bound", facts.loop_sources.get(loop.id, "--loop-bound"), 1)
    if refused.code == _CONTRADICTED:
        names = [facts.branch_sources.get((block, taken), "") for taken in (True, False)]
        reason = reason.replace("a fact", " and ".join(filter(None, names)) or "a fact", 1)
    return Diagnostic(
        refused.code, reason, span, _place(graph, refused.instruction), refused.remedy
    )


def _open_decision(graph: FlowGraph, undecided: Undecided) -> OpenDecision:
    index = undecided.instruction
    block = graph.block_of(index)
    loop = graph.forest.innermost(block)
    leaves = loop is not None and any(source == block for source, _ in loop.exits)
    instruction = graph.kernel.instructions[index]
    guard = instruction.guard
    what = (
        f"{instruction.mnemonic} on {guard.register}" if guard is not None else instruction.mnemonic
    )
    if leaves and loop is not None:
        message = f"the number of iterations of this loop is not known: {what} is not decided"
        code = "PW203"
    else:
        message, code = f"this branch is not decided: {what}", "PW202"
    notes = (*_place(graph, index), *_cause_notes(graph, undecided.causes))
    label = graph.cfg.name(loop.header) if loop is not None and leaves else ""
    remedy = _remedy(undecided.causes, label)
    diagnostic = Diagnostic(code, message, instruction.span, notes, remedy)
    asked = loop.id if loop is not None and leaves else None
    return OpenDecision(diagnostic, index, asked, undecided.causes)


def _cause_notes(graph: FlowGraph, causes: frozenset[Cause]) -> list[str]:
    notes = []
    for cause in sorted(causes, key=lambda c: (c.kind.value, c.instruction, c.name)):
        text = _CAUSE_TEXTS[cause.kind].format(name=cause.name)
        if cause.instruction >= 0:
            span = graph.kernel.instructions[cause.instruction].span
            text += f" (line {span.line}: {span.text.strip()})"
        notes.append(text)
    shown = notes[:6]
    if len(notes) > len(shown):
        shown.append(f"and on {len(notes) - len(shown)} more")
    return shown


_CAUSE_TEXTS = {
    CauseKind.PARAMETER: "it depends on parameter {name}, which has no value",
    CauseKind.LAUNCH: "it depends on {name}, which the launch facts do not fix",
    CauseKind.MEMORY: "it depends on data: {name} reads memory",
    CauseKind.FLOAT: "it depends on floating-point data: {name}",
    CauseKind.NOT_AFFINE: "it depends on {name}, which changes irregularly",
    CauseKind.UNDEFINED: "it depends on {name}, which is read before it is written",
    CauseKind.LOOP: "it depends on what the loop at {name} computes",
    CauseKind.OPERATION: "it depends on the result of {name}, which is not analysed",
}


def _remedy(causes: frozenset[Cause], loop_label: str) -> str:
    options = []
    parameters = sorted({c.name for c in causes if c.kind is CauseKind.PARAMETER})
    options += [f"--param {name}=VALUE" for name in parameters]
    if any(c.kind is CauseKind.LAUNCH and "ctaid" in c.name for c in causes):
        options.append("--grid SIZE")
    others = {c.kind for c in causes} - {CauseKind.PARAMETER, CauseKind.LAUNCH}
    if loop_label:
        bound = f"--loop-bound '{loop_label}=ITERATIONS'"
        if options and not others:
            return f"give {' and '.join(options)}, or a bound: {bound}"
        return f"give a bound on the iterations of the loop: {bound}"
    if options and not others:
        return f"give {' and '.join(options)}"
    return (
        "its lanes would meet again only after the loop around: move a return or break out of the "
        "branch, or make it a predicated instruction or a select"
    )
