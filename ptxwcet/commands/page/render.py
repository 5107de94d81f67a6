"""The page as one HTML file from its template. All external text is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from itertools import count
from typing import Any

from ptxwcet.commands.bound import loop_text
from ptxwcet.commands.bound.report import LoopRow, merged_assumptions
from ptxwcet.commands.bound.text import roofline_terms
from ptxwcet.commands.page.charts import METHODS, curve_svg, gantt_svg, phases_svg
from ptxwcet.commands.page.report import PARTS, KernelPage, Page, plain_name
from ptxwcet.report.access_rows import grouped_accesses
from ptxwcet.report.head import launch_text
from ptxwcet.report.page.parts import fill, page_file
from ptxwcet.report.source_lines import number_ranges

_PACKAGE = "ptxwcet.commands.page"
_SECTIONS = (
    ("made", "made of"),
    ("rests", "rests on"),
    ("roofline", "roofline"),
    ("code", "code and graph"),
    ("memory", "memory"),
    ("loops", "loops"),
    ("phases", "warps in time"),
    ("curves", "how it grows"),
)


def render_page(page: Page) -> str:
    """Returns the page. Cost: linear in its content, and a second for its pictures."""
    # imported here: only the page needs this extra
    from markupsafe import Markup

    numbers = count()
    script = page_file("page.js", _PACKAGE)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return fill(
        "page.html",
        package=_PACKAGE,
        page=page,
        title=plain_name(page),
        style=Markup(page_file("style.css") + page_file("kernel.css", _PACKAGE)),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        python=platform.python_version(),
        parts=_SECTIONS,
        section_parts=PARTS,
        methods=METHODS,
        assumptions=merged_assumptions,
        launch_text=launch_text,
        roofline_terms=roofline_terms,
        grouped=grouped_accesses,
        ranges=number_ranges,
        loop_rows=_loop_rows,
        loop_text=loop_text,
        certificate_text=lambda row: json.dumps(asdict(row)),
        graph_data=_graph_data,
        phases_svg=lambda warp: Markup(phases_svg(warp)),
        gantt_svg=lambda run: Markup(gantt_svg(run)),
        curve_svg=lambda curve, axis: Markup(curve_svg(curve, axis, f"p{next(numbers)}-")),
    )


def _graph_data(one: KernelPage) -> dict[str, Any]:
    """Returns the graph as the script reads it."""
    assert not isinstance(one.graph, str)
    return {**asdict(one.graph), "id": one.anchor, "has_path": bool(one.bars)}


def _loop_rows(kernel: KernelPage) -> Sequence[LoopRow]:
    """Returns the loops of a kernel; without a bound, only the known fields are filled in."""
    if kernel.bounded is not None:
        return kernel.bounded.loops
    loops = () if isinstance(kernel.graph, str) else kernel.graph.loops
    return [LoopRow(loop.name, "", 0, "", loop.reason) for loop in loops]
