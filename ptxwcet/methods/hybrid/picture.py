"""Draws the graph of ipoints with its observed times, in the DOT language of Graphviz.

Vertices are ipoints, loops are nested boxes. An edge shows its count on the worst path and its best
and worst time; the redder and thicker, the larger its share of Z_warp. Dotted: never observed;
dashed: made only by a diverged warp.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxwcet.flow.graph.loops import LoopId
from ptxwcet.flow.paths.dot import BARRIER_FILL, CLUSTER_FILLS, quote
from ptxwcet.methods.hybrid.observations import TransitionTimes
from ptxwcet.methods.hybrid.study import HybridAnswer

_HEADER = """\
  graph [fontname="Helvetica", fontsize=12, labelloc=t, nodesep=0.4, ranksep=0.5];
  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=10];
  edge [fontname="Helvetica", fontsize=9];
"""
_UNSEEN = 'style=dotted, color="#909090"'


def draw_ipg(answer: HybridAnswer) -> str:
    """Returns the graph as DOT text; it depends only on the analysis. Cost: linear in transitions.

    Unobserved transitions of diverged warps are left out: most cannot happen together.
    """
    estimate = answer.estimate
    title = (
        f"{answer.kernel.readable}: Z_warp {estimate.warp_wcet:,}\n"
        "times taken on the worst path x best..worst time"
    )
    lines = [f"digraph {quote(answer.kernel.name)} {{", _HEADER + f"  label={quote(title)};"]
    innermost: dict[int, LoopId] = {}
    for loop in estimate.ipg.loops:  # outer before inner
        innermost.update(dict.fromkeys(loop.ipoints, loop.id))
    points = range(len(estimate.ipg.placement.ipoints))
    lines += [_vertex(answer, point) for point in points if point not in innermost]
    shown = {loop.id for loop in estimate.ipg.loops}
    for loop in estimate.ipg.loops:
        parent = answer.forest.loops[loop.id].parent
        if parent is None or parent not in shown:
            lines += _cluster(answer, loop.id, innermost, shown)
    lines += _edges(answer)
    return "\n".join([*lines, "}\n"])


def _vertex(answer: HybridAnswer, point: int) -> str:
    ipoint = answer.estimate.ipg.placement.ipoints[point]
    block = answer.estimate.ipg.placement.blocks[point]
    text = ipoint.label + (f"\nPTX line {ipoint.line}" if ipoint.line else "")
    fill = f', fillcolor="{BARRIER_FILL}"' if block in answer.estimate.waiting else ""
    if fill:
        text += "\nbarrier"
    return f"  i{point} [label={quote(text)}{fill}];"


def _cluster(
    answer: HybridAnswer, loop: LoopId, innermost: dict[int, LoopId], shown: set[LoopId]
) -> Iterator[str]:
    natural = answer.forest.loops[loop]
    (seen,) = (counts for counts in answer.estimate.observations.loops if counts.loop.id == loop)
    title = f"{answer.cfg.name(natural.header)}: at most {seen.most_iterations} iterations an entry"
    fill = CLUSTER_FILLS[(natural.depth - 1) % len(CLUSTER_FILLS)]
    yield f"  subgraph cluster_{loop} {{"
    yield f'  label={quote(title)}; labeljust=l; style="rounded,filled"; fillcolor="{fill}";'
    for point in sorted(seen.loop.ipoints):
        if innermost[point] == loop:
            yield _vertex(answer, point)
    for child in natural.children:
        if child in shown:
            yield from _cluster(answer, child, innermost, shown)
    yield "  }"


def _edges(answer: HybridAnswer) -> Iterator[str]:
    estimate = answer.estimate
    seen = {times.number: times for times in estimate.observations.transitions}
    for number, transition in enumerate(estimate.ipg.transitions):
        times = seen.get(number)
        if times is None and not transition.is_ordinary:
            continue
        attributes = _UNSEEN if times is None else _seen(answer, times)
        if not transition.is_ordinary:
            attributes += ", style=dashed"
        yield f"  i{transition.source} -> i{transition.target} [{attributes}];"


def _seen(answer: HybridAnswer, seen: TransitionTimes) -> str:
    estimate = answer.estimate
    taken = estimate.path.counts.get(seen.number, 0)
    share = taken * seen.worst / estimate.warp_wcet if estimate.warp_wcet else 0.0
    times = f"{seen.best:,}" if seen.best == seen.worst else f"{seen.best:,}..{seen.worst:,}"
    label = f" {taken:,} x {times} " if taken else f" {times} "
    red = round(64 + 130 * min(1.0, 2 * share))
    color = f"#{red:02x}{64 - round(32 * share):02x}{64 - round(32 * share):02x}"
    width = 1 + 4 * share
    return f'label={quote(label)}, color="{color}", penwidth={width:.1f}'
