"""Path extraction: the paths of all warps of a block, for every block index that the launch allows.

Warps start in one group and are split where their paths part; block indices start as whole ranges
and are split where a decision is not the same for all of them. What cannot be decided is refused
with a diagnostic that names the branch, what it depends on and the option that settles it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.flow.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.facts import WARP_SIZE, Dim3, Launch
from ptxwcet.flow.lanes import BlockIndex, LaneState
from ptxwcet.flow.loops import LoopForest
from ptxwcet.flow.paths import BlockPaths, Path, WarpPath, close_symbol
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
_UNLIMITED: Dim3 = (2**31 - 1, 65535, 65535)

Piece = tuple[Dim3, Dim3]  # first and last block index, inclusive


def extract_paths(
    kernel: Kernel,
    cfg: ControlFlowGraph,
    forest: LoopForest,
    postdominators: tuple[BlockId | None, ...],
    launch: Launch,
    bounds: Mapping[int, int],
) -> tuple[BlockPaths, ...]:
    """The paths of all warps, one entry for each range of block indices that behaves alike.

    ``bounds`` are the user's loop bounds by loop id. Without a grid, all indices that any grid can
    have are covered. Raises PtxwcetError (PW2xx). Cost: independent of trip counts; linear in the
    path tree for each group of warps and range of indices.
    """
    agreements = BranchAgreements(kernel, cfg, postdominators, launch)
    graph = FlowGraph(kernel, cfg, forest, postdominators, control_slice(kernel), agreements)
    open_pieces = [_all_indices(kernel, launch, graph)]
    done: list[BlockPaths] = []
    while open_pieces:
        piece = open_pieces.pop()
        if len(done) + len(open_pieces) >= _MOST_PIECES:
            raise PtxwcetError(_too_many_pieces(kernel, launch))
        try:
            done.append(BlockPaths(*piece, _paths_of_piece(graph, launch, dict(bounds), piece)))
        except SplitRequest as split:
            open_pieces += _split(piece, split)
    return tuple(_merge_equal(done))


def _all_indices(kernel: Kernel, launch: Launch, graph: FlowGraph) -> Piece:
    limits = launch.grid if launch.grid is not None else _UNLIMITED
    used = {
        operand.name
        for instruction in kernel.instructions
        if any(name in graph.control_registers for name in instruction.writes)
        for operand in instruction.operands
        if isinstance(operand, SpecialRegister)
    }
    last = [limits[i] - 1 if f"%ctaid.{axis}" in used else 0 for i, axis in enumerate("xyz")]
    return (0, 0, 0), (last[0], last[1], last[2])


def _split(piece: Piece, split: SplitRequest) -> list[Piece]:
    axis = "xyz".index(split.symbol.name[-1])
    first, last = piece
    cut = first[axis] + split.at

    def replaced(index: Dim3, value: int) -> Dim3:
        numbers = [*index]
        numbers[axis] = value
        return numbers[0], numbers[1], numbers[2]

    return [(first, replaced(last, cut - 1)), (replaced(first, cut), last)]


def _paths_of_piece(
    graph: FlowGraph, launch: Launch, bounds: dict[int, int], piece: Piece
) -> tuple[WarpPath, ...]:
    groups = [tuple(range(launch.warps))]
    if launch.threads % WARP_SIZE and launch.warps > 1:
        groups = [tuple(range(launch.warps - 1)), (launch.warps - 1,)]
    found: dict[Path, list[int]] = {}
    while groups:
        group = groups.pop(0)
        index = _block_index(piece)
        state = LaneState(graph.kernel, launch, index, group)
        try:
            nodes = Walk(graph, state, bounds).run()
            for symbol in index.symbols:
                nodes = nodes if symbol is None else close_symbol(nodes, symbol)
        except SplitWarps as split:
            groups = [*split.groups, *groups]
        except Undecided as undecided:
            raise PtxwcetError(_undecided(graph, undecided, bounds)) from None
        except Refused as refused:
            raise PtxwcetError(_refused(graph, refused)) from None
        else:
            found.setdefault(nodes, []).extend(group)
    paths = [WarpPath(nodes, tuple(sorted(warps))) for nodes, warps in found.items()]
    return tuple(sorted(paths, key=lambda path: path.warps[0]))


def _block_index(piece: Piece) -> BlockIndex:
    first, last = piece
    symbols = [
        Symbol(f"ctaid.{axis}", position - 3, last[position] - first[position] + 1, splittable=True)
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


def _place(graph: FlowGraph, index: int) -> tuple[str, ...]:
    kernel, cfg = graph.kernel, graph.cfg
    block = graph.block_of(index)
    notes = [f"in kernel {kernel.name}, block {cfg.name(block)}"]
    location = kernel.instructions[index].location if index < len(kernel.instructions) else None
    if location is not None:
        notes.append(f"source line: {location.file}:{location.line}")
    return tuple(notes)


def _refused(graph: FlowGraph, refused: Refused) -> Diagnostic:
    span = graph.kernel.instructions[refused.instruction].span
    return Diagnostic(
        refused.code, refused.reason, span, _place(graph, refused.instruction), refused.remedy
    )


def _undecided(graph: FlowGraph, undecided: Undecided, bounds: dict[int, int]) -> Diagnostic:
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
    label = graph.cfg.name(loop.header) if loop is not None else ""
    return Diagnostic(
        code, message, instruction.span, notes, _remedy(undecided.causes, label if leaves else "")
    )


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


def _too_many_pieces(kernel: Kernel, launch: Launch) -> Diagnostic:
    return Diagnostic(
        "PW207",
        f"the blocks of kernel {kernel.name} take more than {_MOST_PIECES} different paths, "
        "depending on %ctaid",
        kernel.span,
        help="give --grid SIZE" if launch.grid is None else "give a smaller --grid",
    )
