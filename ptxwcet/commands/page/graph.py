"""The control-flow graph for the page: blocks, edges, and their positions in each loop.

A loop has a layout of its own and is a vertex of its region, so that the page can fold it without a
new layout. Edges that leave a loop meet at its lower end; edges that enter it lead to its header;
back edges run next to the layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ptxwcet.commands.bound.explanation import source_range
from ptxwcet.commands.cfg.study import DescribedKernel
from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph, Edge
from ptxwcet.flow.graph.divergence import StandingEdges
from ptxwcet.flow.graph.loops import Loop, LoopForest
from ptxwcet.ir.op_classes import AT_BARRIERS
from ptxwcet.support.records import dataclass

Arc = tuple[int, int]

_GAP = 22
_BEND = 12


@dataclass(frozen=True, slots=True)
class Layout:
    """Layer and middle of each vertex, and where arcs pass through layers between their ends.

    The leftmost vertex begins at 0, ``width`` is where the rightmost one ends.
    """

    layers: Sequence[int]
    middles: Sequence[int]
    bends: Mapping[Arc, tuple[int, ...]]
    width: int


@dataclass(slots=True)
class _Box:
    """The size of a vertex for grandalf, and the position that grandalf assigns."""

    w: float
    h: float = 1.0
    xy: tuple[float, float] = (0.0, 0.0)


def lay_out(widths: Sequence[int], arcs: Sequence[Arc]) -> Layout:
    """Returns the layout of vertices of these widths, by number, along acyclic arcs.

    Layers, the order in them and the positions along them are grandalf's (Sugiyama's method). The
    page decides the height of a layer, because loops are folded and unfolded there.

    Cost: near linear for graphs of programs; three seconds for 800 vertices in a thousand layers.
    """
    # imported here: only the page needs this extra
    from grandalf.graphs import Edge, Graph, Vertex
    from grandalf.layouts import SugiyamaLayout

    vertices = [Vertex(number) for number in range(len(widths))]
    for vertex, width in zip(vertices, widths, strict=True):
        vertex.view = _Box(width)
    edges = {(a, b): Edge(vertices[a], vertices[b]) for a, b in arcs}
    layers, middles = [0] * len(widths), [0.0] * len(widths)
    bends: dict[Arc, tuple[float, ...]] = {}
    right = 0.0
    for part in Graph(vertices, list(edges.values())).C:
        drawn = SugiyamaLayout(part)
        drawn.xspace, drawn.dw = _GAP, _BEND
        drawn.init_all([vertex for vertex in part.sV if not vertex.e_in()], inverted_edges=[])
        drawn.draw()
        left = min(one.view.xy[0] - one.view.w / 2 for one in chain.from_iterable(drawn.layers))
        for layer, members in enumerate(drawn.layers):
            for vertex in members:
                if vertex in part.sV:
                    layers[vertex.data] = layer
                    middles[vertex.data] = vertex.view.xy[0] - left + right
        for edge, through in drawn.ctrls.items():
            inner = sorted(through)[1:-1]
            places = tuple(through[layer].view.xy[0] - left + right for layer in inner)
            bends[edge.v[0].data, edge.v[1].data] = places
        right += _GAP + max(
            one.view.xy[0] + one.view.w / 2 - left for one in chain.from_iterable(drawn.layers)
        )
    return Layout(
        layers,
        [round(middle) for middle in middles],
        {arc: tuple(map(round, places)) for arc, places in bends.items()},
        round(right) - _GAP,
    )


_BLOCK_WIDTH = 206
_EXIT_WIDTH = 64
_PORT_WIDTH = 12
_MARGIN = 14
_PLACE = 15
"""Characters of a place that fit into a box; its end is shown, which is most specific."""
_LANE = 10
"""The width for each back edge, next to the layers of a loop."""
_UNFOLDED_BLOCKS = 60
"""The largest number of blocks of a graph whose loops are unfolded at first."""
_MOST_DIVERGENT = 300
"""More edges that only diverged warps take would hide the graph."""


@dataclass(frozen=True, slots=True)
class BlockBox:
    """A basic block: ``lines`` are the text in its box, and the first line is its name.

    It has the instructions from ``start`` to before ``end``. ``heat`` is between 0 and 1,
    ``executions`` is the count of a warp that determines the bound.
    """

    id: int
    start: int
    end: int
    lines: tuple[str, ...]
    heat: float
    executions: int
    kind: str


@dataclass(frozen=True, slots=True)
class LoopBox:
    """A loop: its name, its bound, and why that holds."""

    id: int
    name: str
    bound: str
    reason: str
    depth: int


@dataclass(frozen=True, slots=True)
class Wire:
    """A part of edge number ``edge`` in one region, from item ``start`` to item ``end``.

    ``start`` is None for an edge from above to the header. ``bends`` are its positions in the
    layers between. ``is_back``: it runs upwards, next to the layers.
    """

    edge: int
    start: int | None
    end: int
    bends: tuple[int, ...]
    is_back: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A ``block``, a ``loop``, or the ``port`` where edges leave; its layer and its middle."""

    what: str
    id: int
    layer: int
    middle: int
    width: int


@dataclass(frozen=True, slots=True)
class Region:
    """A loop, or the whole graph (``loop`` None): the items directly in it."""

    loop: int | None
    items: tuple[Item, ...]
    wires: tuple[Wire, ...]
    width: int


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """An edge: ``label`` is T or F at a branch, ``is_worst``: the worst block may take it."""

    start: int
    end: int
    label: str
    is_worst: bool


@dataclass(frozen=True, slots=True)
class DivergentRow:
    """A transfer that only a diverged warp makes, and its relation to the published set."""

    start: int
    end: int
    standing: str


@dataclass(frozen=True, slots=True)
class GraphData:
    """The graph of a kernel as the page draws it; ``is_folded``: with folded loops at first."""

    blocks: tuple[BlockBox, ...]
    loops: tuple[LoopBox, ...]
    edges: tuple[EdgeRow, ...]
    regions: tuple[Region, ...]
    divergent: tuple[DivergentRow, ...]
    hidden_divergent: int
    is_folded: bool


@dataclass(frozen=True, slots=True)
class PathFacts:
    """Facts about the paths: cycles paid and executions by block, edges of the worst block."""

    paid: Mapping[int, int]
    executions: Mapping[int, int]
    edges: frozenset[Edge]


def build_graph(
    flow: DescribedKernel, divergent: StandingEdges | None, facts: PathFacts
) -> GraphData:
    """Returns the graph of a kernel. Cost: its layouts."""
    cfg, forest = flow.cfg, flow.forest
    edges = tuple(cfg.edges())
    standing = () if divergent is None else tuple(divergent.edges.items())
    return GraphData(
        tuple(_boxes(flow, facts)),
        tuple(_loop_box(flow, loop) for loop in forest.loops),
        tuple(EdgeRow(u, v, _label(cfg, u, v), (u, v) in facts.edges) for u, v in edges),
        tuple(_Regions(cfg, forest, edges).all()),
        tuple(DivergentRow(u, v, one.value) for (u, v), one in standing[:_MOST_DIVERGENT]),
        max(0, len(standing) - _MOST_DIVERGENT),
        len(cfg.blocks) > _UNFOLDED_BLOCKS,
    )


def _boxes(flow: DescribedKernel, facts: PathFacts) -> Iterator[BlockBox]:
    cfg, kernel = flow.cfg, flow.kernel
    most = max(facts.paid.values(), default=0)
    total = sum(facts.paid.values())
    for block in cfg.blocks:
        if block.id not in cfg.reverse_postorder and block.id != cfg.exit:
            continue
        if block.id == cfg.exit:
            yield BlockBox(block.id, block.start, block.end, ("exit",), 0.0, 0, "exit")
            continue
        count = block.end - block.start
        lines = [cfg.name(block.id), f"{count} instruction{'s' * (count != 1)}"]
        if count:
            where = source_range(kernel, range(block.start, block.end))
            lines[1] += f", {where if len(where) <= _PLACE else '…' + where[-_PLACE + 1 :]}"
        executions, paid = facts.executions.get(block.id, 0), facts.paid.get(block.id, 0)
        if total:
            lines.append(f"{executions:,} x, {100 * paid / total:.1f} % of the bound")
        waits = [
            " ".join(instruction.span.text.rstrip(";").split())
            for instruction in kernel.instructions[block.start : block.end]
            if instruction.form.control in AT_BARRIERS
        ]
        lines += waits[:2]
        branch = flow.notes.branches.get(block.id)
        if branch is not None:
            lines.append(f"branch: {branch.kind.value}")
        heat = round((paid / most) ** 0.5, 3) if most else 0.0
        kind = "barrier" if waits else "plain"
        yield BlockBox(block.id, block.start, block.end, tuple(lines), heat, executions, kind)


def _loop_box(flow: DescribedKernel, loop: Loop) -> LoopBox:
    note = flow.notes.loops.get(loop.id)
    bound, reason = ("", "") if note is None else (note.bound, note.reason)
    return LoopBox(
        loop.id,
        flow.cfg.name(loop.header),
        bound.partition(" (")[0],
        ": ".join(filter(None, (bound, reason))),
        loop.depth,
    )


def _label(cfg: ControlFlowGraph, start: BlockId, end: BlockId) -> str:
    taken, other = cfg.taken[start], cfg.fallthrough[start]
    if taken is None or other is None or taken == other:
        return ""
    return "T" if end == taken else "F"


class _Regions:
    """Lays out loops from the innermost on, then the whole graph."""

    def __init__(self, cfg: ControlFlowGraph, forest: LoopForest, edges: tuple[Edge, ...]) -> None:
        self._cfg, self._forest, self._edges = cfg, forest, edges
        self._widths: dict[int, int] = {}
        self._rank = {block: rank for rank, block in enumerate(cfg.reverse_postorder)}
        self._members: dict[int | None, list[tuple[str, int]]] = {None: []}
        for loop in forest.loops:
            self._members[loop.id] = []
        for block in cfg.reverse_postorder:
            self._members[forest.loop_of[block]].append(("block", block))
        for loop in forest.loops:
            self._members[loop.parent].append(("loop", loop.id))
        self._parts: dict[int | None, list[tuple[int, tuple[str, int] | None, tuple[str, int]]]]
        self._parts = {region: [] for region in self._members}
        for number, edge in enumerate(edges):
            self._cut(number, *edge)

    def all(self) -> Iterator[Region]:
        """Yields all regions, inner ones first."""
        for loop in reversed(self._forest.loops):
            yield self._region(loop.id)
        yield self._region(None)

    def _chain(self, block: BlockId) -> list[int | None]:
        """Returns the regions around a block, innermost first."""
        return [*(loop.id for loop in self._forest.around(block)), None]

    def _cut(self, number: int, start: BlockId, end: BlockId) -> None:
        """Adds an edge in parts: up to the region that has both ends, and down to its end."""
        outer, inner = self._chain(start), self._chain(end)
        shared = next(region for region in outer if region in inner)
        item: tuple[str, int] = ("block", start)
        for region in outer[: outer.index(shared)]:
            assert region is not None
            self._parts[region].append((number, item, ("port", region)))
            item = ("loop", region)
        target: tuple[str, int] = ("block", end)
        for region in inner[: inner.index(shared)]:
            assert region is not None
            self._parts[region].append((number, None, target))
            target = ("loop", region)
        self._parts[shared].append((number, item, target))

    def _region(self, region: int | None) -> Region:
        members = list(self._members[region])
        parts = self._parts[region]
        if any(end[0] == "port" for _, _, end in parts):
            assert region is not None
            members.append(("port", region))
        index = {member: number for number, member in enumerate(members)}
        widths = [self._width(*member) for member in members]
        arcs, backs = [], 0
        for _, start, end in parts:
            if start is not None and self._is_forward(start, end):
                arcs.append((index[start], index[end]))
        layout = lay_out(widths, list(dict.fromkeys(arcs)))
        wires = []
        for number, start, end in parts:
            if start is None:
                wires.append(Wire(number, None, index[end], ()))
                continue
            is_back = not self._is_forward(start, end)
            backs += is_back
            through = layout.bends.get((index[start], index[end]), ())
            bends = () if is_back else tuple(place + _MARGIN for place in through)
            wires.append(Wire(number, index[start], index[end], bends, is_back))
        width = layout.width + 2 * _MARGIN + _LANE * backs
        if region is not None:
            self._widths[region] = width
        return Region(
            region,
            tuple(
                Item(what, number, layout.layers[k], layout.middles[k] + _MARGIN, widths[k])
                for k, (what, number) in enumerate(members)
            ),
            tuple(wires),
            width,
        )

    def _width(self, what: str, number: int) -> int:
        if what == "loop":
            return self._widths[number]
        if what == "port":
            return _PORT_WIDTH
        return _EXIT_WIDTH if number == self._cfg.exit else _BLOCK_WIDTH

    def _is_forward(self, start: tuple[str, int], end: tuple[str, int]) -> bool:
        return end[0] == "port" or self._order(start) < self._order(end)

    def _order(self, member: tuple[str, int]) -> int:
        """Returns the rank of a member's first block in a depth-first order of the graph."""
        what, number = member
        block = self._forest.loops[number].header if what == "loop" else BlockId(number)
        return self._rank[block]
