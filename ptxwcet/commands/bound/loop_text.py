"""The texts of loop bounds: in reports, on pages and in pictures of graphs.

Every view that prints a loop bound uses these functions; its row is ``report.LoopRow``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxwcet.flow.facts.placing import loop_control
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import BoundOrigin, PlacedFacts
from ptxwcet.flow.walk.path import PathLoop
from ptxwcet.ir.kernel import place

PER_ENTRY = "body executions an entry"
"""The unit of loop bounds: the head of their column."""


def iterations_text(iterations: int) -> str:
    """Returns the number of a bound."""
    return f"{iterations:,}"


def loop_place(flow: ControlFlow, loop: Loop) -> str:
    """Returns the line by which options name a loop, else the marked line of its first block."""
    control = loop_control(flow, loop)
    if control is not None:
        return control.place
    start = flow.cfg.blocks[loop.header].start
    mark = "" if flow.kernel.instructions[start].location is None else " (label only)"
    return f"{place(flow.kernel, start)}{mark}"


def bound_text(entry: PathLoop) -> str:
    """Returns a bound and how it was obtained, in a few words."""
    return f"at most {iterations_text(entry.iterations.base)} ({entry.obtained})"


def reason_text(entry: PathLoop, facts: PlacedFacts) -> str:
    """Returns why a bound holds, or its source."""
    reason = " ".join(entry.reason.split())
    return (
        facts.loop_sources.get(entry.loop, reason) if entry.origin is BoundOrigin.USER else reason
    )


def total_texts(loop: int, facts: PlacedFacts) -> Iterator[str]:
    """Yields the stated totals of body executions of a loop in a run of a warp."""
    for total in facts.totals:
        if total.loop == loop:
            yield f"{iterations_text(total.most)} in a run of a warp ({total.source})"
