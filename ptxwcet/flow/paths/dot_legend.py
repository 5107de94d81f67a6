"""What lines and colours mean in pictures of control-flow graphs: styles and their legend."""

from __future__ import annotations

from collections.abc import Collection
from html import escape
from typing import NamedTuple

from ptxwcet.flow.graph.divergent_sets import EdgeStanding
from ptxwcet.flow.paths.branch_kinds import BranchClass

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
