"""Pictures of control-flow graphs in the DOT language of Graphviz.

Blocks are boxes with their name, size, cost, source lines and barriers; loops are nested clusters;
branch-divergent edges are dashed or dotted; ``T`` and ``F`` mark the taken edge and the
fall-through of a guarded branch, numbers the cases of ``brx``. Of a launch that is known, each
branch has its class (a coloured row) and each loop its bound. A legend explains every kind of line
and colour that occurs. The text depends on the arguments alone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from html import escape
from pathlib import PurePosixPath
from typing import NamedTuple

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.control_flow import (
    ControlFlow,
    endless_diagnostics,
    irreducible_diagnostics,
)
from ptxwcet.flow.graph.divergence import (
    DivergentSet,
    EdgeStanding,
    StandingEdges,
    select_divergent_edges,
)
from ptxwcet.flow.graph.loops import Loop, LoopForest
from ptxwcet.flow.paths.branch_kinds import BranchClass, BranchKind
from ptxwcet.ir.kernel import Instruction, Kernel
from ptxwcet.ir.op_classes import AT_BARRIERS, ControlEffect
from ptxwcet.support.diagnostics import Diagnostic, Severity
from ptxwcet.support.records import dataclass

BACK_EDGE = 'color="#1f5fa8", penwidth=1.6'
"""Attributes of a back edge."""


class DivergentStyle(NamedTuple):
    """How a divergent edge is drawn, and a sample of such a line as text."""

    attributes: str
    sample: str
    color: str


# Samples of lines in text: full, heavy, dashed, dotted.
_ORDINARY_LEGEND = ("&#9472;&#9472;&#9654;", "#404040", "next block (T: branch taken, F: not)")
_BACK_LEGEND = ("&#9473;&#9473;&#9654;", "#1f5fa8", "back edge of a loop")
_DASHES, _DOTS = "&#8211; &#8211; &#9654;", "&#8228;&#8228;&#8228;&#9654;"
DIVERGENT_EDGES = {
    EdgeStanding.PUBLISHED: DivergentStyle("style=dashed", _DASHES, "#c23b22"),
    EdgeStanding.UNPUBLISHED: DivergentStyle("style=dotted, penwidth=2.0", _DOTS, "#c23b22"),
    EdgeStanding.IMPOSSIBLE: DivergentStyle("style=dashed", _DASHES, "#909090"),
    EdgeStanding.UNDECIDED: DivergentStyle("style=dotted", _DOTS, "#c23b22"),
}
"""The line of each kind of divergent edge."""

BRANCH_FILLS = {
    BranchClass.BLOCK: "#d5ecd4",
    BranchClass.WARP: "#f3efc3",
    BranchClass.DIVERGENT: "#f6d3b3",
    BranchClass.UNKNOWN: "#eec4c4",
}
"""The colour of each class of branches."""


def write_legend(
    kinds: Collection[BranchClass], standings: Collection[EdgeStanding], *, has_loops: bool
) -> str:
    """The statement of the legend's node: the lines and the colours of branches that occur."""
    lines = [_ORDINARY_LEGEND]
    lines += [_BACK_LEGEND] if has_loops else []
    lines += [
        (style.sample, style.color, standing.value)
        for standing, style in DIVERGENT_EDGES.items()
        if standing in standings
    ]
    table_rows = [
        f'<TR><TD ALIGN="LEFT"><FONT COLOR="{color}">{sample}</FONT> {escape(text)}</TD></TR>'
        for sample, color, text in lines
    ]
    table_rows += [
        f'<TR><TD BGCOLOR="{fill}">branch: {kind.value}</TD></TR>'
        for kind, fill in BRANCH_FILLS.items()
        if kind in kinds
    ]
    table = f'<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0">{"".join(table_rows)}</TABLE>'
    return f"  legend [label=<{table}>];"


_HEADER = """\
  graph [fontname="Helvetica", fontsize=12, labelloc=t, nodesep=0.4, ranksep=0.4];
  node [shape=plain, fontname="Helvetica", fontsize=10];
  edge [fontname="Helvetica", fontsize=9, color="#404040"];
"""
CLUSTER_FILLS = ("#eef3fa", "#dce7f5", "#cbdbef", "#b9cfea")
"""Of loops, by their depth."""

BARRIER_FILL = "#ffcf70"
"""Of blocks with a barrier."""
_UNREACHABLE = "#999999"
_IRREDUCIBLE = "#c00000"
_MOST_RANGES = 4
_TITLE_COLUMNS = 48


@dataclass(frozen=True, slots=True)
class LoopNote:
    """What is known of a loop: its bound, in a few words, and why."""

    bound: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Notes:
    """What a launch makes of a kernel, by block and by loop."""

    branches: Mapping[int, BranchKind] = field(default_factory=dict)
    loops: Mapping[int, LoopNote] = field(default_factory=dict)


NO_NOTES = Notes()
"""Of a kernel without a launch."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A kernel's graph as DOT text, and warnings about what an analysis would refuse in it."""

    text: str
    warnings: tuple[Diagnostic, ...]


def draw_cfg(
    kernel: Kernel,
    shown: DivergentSet,
    costs: Mapping[BlockId, int] | None = None,
    notes: Notes = NO_NOTES,
) -> Drawing:
    """The control-flow graph of ``kernel`` as a picture; irreducible and endless ones too.

    The published divergent edges are undefined where there are irreducible loops: the warning
    about the loop says so. Raises PtxwcetError (PW231) as ``find_loops``, PW234 for too many edges.
    """
    flow = ControlFlow.of(kernel)
    divergent = select_divergent_edges(flow, shown)
    hidden: tuple[str, ...] = ()
    if shown is DivergentSet.PUBLISHED and not divergent.is_published_defined:
        hidden = ("its published branch-divergent edges are undefined and not shown",)
    problems = [
        replace(problem, notes=problem.notes + hidden) for problem in irreducible_diagnostics(flow)
    ]
    problems += endless_diagnostics(flow)
    warnings = tuple(replace(one, severity=Severity.WARNING) for one in problems)
    return Drawing(_write_dot(flow, divergent, costs, notes), warnings)


def _write_dot(
    flow: ControlFlow,
    divergent: StandingEdges,
    costs: Mapping[BlockId, int] | None,
    notes: Notes,
) -> str:
    """The graph of ``kernel`` as DOT text, one ``digraph``.

    ``costs`` are cycles by block, shown where given, as are ``notes``. Cost: linear in edges,
    instructions and blocks times their nesting depth.
    """
    kernel, cfg, forest = flow.kernel, flow.cfg, flow.forest
    entangled = {block for region in forest.irreducible for block in region.blocks}
    nodes = [
        _node(
            kernel,
            cfg,
            block.id,
            _Known(
                (costs or {}).get(block.id), block.id in entangled, notes.branches.get(block.id)
            ),
        )
        for block in cfg.blocks
    ]
    parts = [f"digraph {quote(kernel.name)} {{", _HEADER + f"  label={quote(kernel.readable)};"]
    kinds = {one.kind for one in notes.branches.values()}
    standings = set(divergent.edges.values())
    parts.append(write_legend(kinds, standings, has_loops=bool(forest.back_edges)))
    parts += [nodes[b] for b, loop in enumerate(forest.loop_of) if loop is None]
    for loop in forest.loops:
        if loop.parent is None:
            parts += _cluster(cfg, forest, loop, nodes, notes)
    parts += _ordinary_edges(kernel, cfg, forest)
    for (p, s), standing in divergent.edges.items():
        style = DIVERGENT_EDGES[standing]
        parts.append(
            f'  b{p} -> b{s} [{style.attributes}, color="{style.color}", constraint=false];'
        )
    return "\n".join([*parts, "}\n"])


def quote(text: str) -> str:
    """A text as DOT has it, with its line ends."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _cluster(
    cfg: ControlFlowGraph, forest: LoopForest, loop: Loop, nodes: list[str], notes: Notes
) -> Iterator[str]:
    """The lines of a loop's cluster, inner loops inside."""
    indent = "  " * loop.depth
    fill = CLUSTER_FILLS[(loop.depth - 1) % len(CLUSTER_FILLS)]
    title = quote(f"loop {cfg.name(loop.header)}, depth {loop.depth}")
    note = notes.loops.get(loop.id)
    if note is not None:
        lines = [
            f"loop {cfg.name(loop.header)}: {note.bound}",
            *textwrap.wrap(note.reason, _TITLE_COLUMNS),
        ]
        title = '"' + "".join(quote(line)[1:-1] + "\\l" for line in lines) + '"'
    yield f"{indent}subgraph cluster_loop{loop.id} {{"
    yield f'{indent}  label={title}; labeljust=l; style="rounded,filled"; fillcolor="{fill}";'
    for block in sorted(loop.body):
        if forest.loop_of[block] == loop.id:
            yield indent + nodes[block]
    for child in loop.children:
        yield from _cluster(cfg, forest, forest.loops[child], nodes, notes)
    yield f"{indent}}}"


@dataclass(frozen=True, slots=True)
class _Known:
    """What is shown of a block besides its instructions."""

    cost: int | None
    entangled: bool
    branch: BranchKind | None


def _node(kernel: Kernel, cfg: ControlFlowGraph, block: BlockId, summary: _Known) -> str:
    """The statement for one block: a table, one row a fact."""
    if block == cfg.exit:
        return f'  b{block} [label="exit", shape=ellipse, style=filled, fillcolor="#e0e0e0"];'
    start, end = cfg.blocks[block].start, cfg.blocks[block].end
    instructions = kernel.instructions[start:end]
    count = len(instructions)
    size = f"{count} instruction" + ("s" if count != 1 else "")
    size = size if summary.cost is None else f"{size}, {summary.cost} cycles"
    lines = [size, *source_lines(kernel, start, end)]
    color = "#000000"
    title = cfg.name(block)
    if block in cfg.unreachable:
        color, title = _UNREACHABLE, f"{title} (unreachable)"
    elif summary.entangled:
        color, title = _IRREDUCIBLE, f"{title} (irreducible)"
    cells = [f"<TR><TD><B>{escape(title)}</B></TD></TR>"]
    cells += [f"<TR><TD>{escape(row)}</TD></TR>" for row in lines]
    cells += [
        f'<TR><TD BGCOLOR="{BARRIER_FILL}"><B>{escape(_barrier_text(instruction))}</B></TD></TR>'
        for instruction in instructions
        if instruction.form.control in AT_BARRIERS
    ]
    if summary.branch is not None:
        fill, branch = BRANCH_FILLS[summary.branch.kind], summary.branch
        cells += [
            f'<TR><TD BGCOLOR="{fill}">{escape(text)}</TD></TR>'
            for text in (f"branch: {branch.kind.value}", branch.how)
        ]
    table = f'<TABLE BORDER="1" CELLBORDER="0" CELLSPACING="0" BGCOLOR="white" COLOR="{color}">'
    return f"  b{block} [label=<{table}{''.join(cells)}</TABLE>>];"


def _barrier_text(instruction: Instruction) -> str:
    """The barrier as written, on one line, without the semicolon."""
    return " ".join(instruction.span.text.rstrip(";").split())


def source_lines(kernel: Kernel, start: int, end: int) -> list[str]:
    """Of instructions: lines of the high-level source, a row a file, and lines of the PTX text.

    Of machine code the lines of PTX are those that it was made of, and the addresses follow.
    """
    instructions = kernel.instructions[start:end]
    by_file: dict[str, set[int]] = {}
    for one in instructions:
        if one.location is not None and one.location.line > 0:
            by_file.setdefault(one.location.file, set()).add(one.location.line)
    rows = [f"{PurePosixPath(name).name} {_ranges(lines)}" for name, lines in by_file.items()]
    if kernel.code is not None and instructions:
        encoded = kernel.code.encoded[start:end]
        lines = {one.ptx_line for one in encoded if one.ptx_line}
        rows += [f"ptx {_ranges(lines)}"] if lines else []
        rows.append(f"at {encoded[0].address:#06x} to {encoded[-1].address:#06x}")
    elif instructions:
        first, last = instructions[0].span.line, instructions[-1].span.line
        of = instructions[0].span.shown_line.removeprefix(str(first))
        rows.append(f"ptx {_ranges({first, last}, gap=last - first)}{of}")
    return rows


def _ranges(lines: Iterable[int], gap: int = 1) -> str:
    """``12-14, 20``: neighbours joined; everything joined if there would be too many."""
    found: list[tuple[int, int]] = []
    for line in sorted(lines):
        if found and line - found[-1][1] <= gap:
            found[-1] = (found[-1][0], line)
        else:
            found.append((line, line))
    if len(found) > _MOST_RANGES:
        found = [(found[0][0], found[-1][1])]
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)


def _ordinary_edges(kernel: Kernel, cfg: ControlFlowGraph, forest: LoopForest) -> Iterator[str]:
    block_at = {block.start: block.id for block in cfg.blocks}
    for source, target in cfg.edges():
        attributes = []
        label = _edge_label(kernel, cfg, source, target, block_at)
        if label:
            attributes.append(f'label=" {label} "')
        if (source, target) in forest.back_edges:
            attributes.append(BACK_EDGE)
        yield f"  b{source} -> b{target}" + (f" [{', '.join(attributes)}];" if attributes else ";")


def _edge_label(
    kernel: Kernel,
    cfg: ControlFlowGraph,
    source: BlockId,
    target: BlockId,
    block_at: Mapping[int, BlockId],
) -> str:
    """``T`` and ``F`` at a guarded branch, the case numbers at ``brx``, else nothing."""
    block = cfg.blocks[source]
    if block.start == block.end:
        return ""
    last = kernel.instructions[block.end - 1]
    taken, fallthrough = cfg.taken[source], cfg.fallthrough[source]
    indirect = last.form.control is ControlEffect.INDIRECT_BRANCH
    marks = []
    if indirect and kernel.code is None:  # of machine code the order of the cases is not known
        cases = [block_at[kernel.labels[label]] for label in last.targets]
        marks += [str(case) for case, one in enumerate(cases) if one == target]
    elif taken == target and fallthrough is not None:
        marks.append("T")
    if fallthrough == target and (indirect or taken is not None):
        marks.append("F")
    return ",".join(marks)
