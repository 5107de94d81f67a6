"""The pictures of the page as SVG: phases, a run's beginning, and the growth of the bound.

Colours are the page's own (``var(--c0)``), so that a picture is dark where the page is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

from ptxwcet.bounds import methods
from ptxwcet.commands.page.report import WarpPhases
from ptxwcet.commands.page.study import SCHEDULERS, Curve
from ptxwcet.commands.simulate.picture import assign_lanes, execution_spans
from ptxwcet.commands.simulate.study import KernelSimulation
from ptxwcet.ir.kernel import Kernel
from ptxwcet.report.page.parts import themed
from ptxwcet.report.page.pictures import picture_bytes
from ptxwcet.simulator.run import IssueEvent
from ptxwcet.support.records import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS = (*(method.name for method in methods.METHODS), *SCHEDULERS)
"""The lines of a curve, in the order of their colours."""

_WIDTH = 1000
_LANE = 9
_LEFT = 62


def phases_svg(warp: WarpPhases) -> str:
    """Returns the phases of a warp as a strip: high where it executes, low where it idles."""
    end = max((phase.start + phase.duration for phase in warp.phases), default=1)
    scale = (_WIDTH - 2) / max(end, 1)
    parts = [
        _rect(
            1 + scale * phase.start,
            2 if phase.is_busy else 14,
            scale * phase.duration,
            24 if phase.is_busy else 12,
            "busy" if phase.is_busy else "idle",
            f"{'execution' if phase.is_busy else 'idle'} [{phase.start:,}, "
            f"{phase.start + phase.duration:,}): {phase.duration:,} cycles",
        )
        for phase in warp.phases
    ]
    return _svg(_WIDTH, 46, [*parts, *_ticks(end, scale, 1, 26, 44)])


def gantt_svg(simulated: KernelSimulation) -> str:
    """Returns the recorded issues of a run: lanes of a warp, one below the other, over cycles.

    Cost: linear in the issues.
    """
    events = simulated.run.events
    gantt = _Gantt(
        simulated.prepared.kernel,
        sorted({event.unit for event in events}),
        (_WIDTH - _LEFT - 2) / max((event.end_cycle for event in events), default=1),
    )
    parts: list[str] = []
    top = 4.0
    for warp in sorted({event.warp for event in events}):
        lanes = assign_lanes([event for event in events if event.warp == warp])
        height = _LANE * (1 + max(lane for _, lane in lanes))
        parts.append(_rect(_LEFT, top, _WIDTH - _LEFT, height + 6, "warp"))
        parts.append(_text(_LEFT - 6, top + 8, f"warp {warp}", "end"))
        for begin, stop in execution_spans([event for event, _ in lanes]):
            left, right = gantt.x(begin), gantt.x(stop)
            parts.append(_rect(left, top, right - left, 3, "busy"))
        for event, lane in lanes:
            parts += gantt.issue(event, top + 4 + lane * _LANE)
        top += height + 9
    end = max((event.end_cycle for event in events), default=1)
    parts += _ticks(end, gantt.scale, _LEFT, 0, top + 14)
    return _svg(_WIDTH, top + 36, [*parts, *gantt.key(top + 22)])


@dataclass(frozen=True, slots=True)
class _Gantt:
    """How issues are drawn: the units by their colours, and how wide a cycle is."""

    kernel: Kernel
    units: list[str]
    scale: float

    def x(self, cycle: int) -> float:
        return _LEFT + self.scale * cycle

    def issue(self, event: IssueEvent, y: float) -> Iterator[str]:
        issued, begin = self.x(event.issue_cycle), self.x(event.dispatch_cycle)
        freed, ready = self.x(event.initiation_end_cycle), self.x(event.end_cycle)
        where, name = "", event.unit
        if event.origin >= 0:
            instruction = self.kernel.instructions[event.origin]
            where = f' data-line="{escape(instruction.span.shown_line)}"'
            name = f"{instruction.mnemonic}, {event.unit}"
        title = (
            f"warp {event.warp}, {name}: issued {event.issue_cycle:,}, initiates "
            f"[{event.dispatch_cycle:,}, {event.initiation_end_cycle:,}), "
            f"result {event.end_cycle:,}"
        )
        yield f'<g style="--c:var(--c{self.units.index(event.unit) % 6})"{where}>'
        if begin > issued:
            place = f'x1="{issued:.1f}" x2="{begin:.1f}" y1="{y + 3.5:.1f}" y2="{y + 3.5:.1f}"'
            yield f'<line class="queue" {place}/>'
        yield _rect(freed, y, ready - freed, _LANE - 2, "late", title)
        yield _rect(begin, y, max(freed - begin, 0.8), _LANE - 2, "unit", title)
        yield "</g>"

    def key(self, y: float) -> Iterator[str]:
        x = float(_LEFT)
        for number, unit in enumerate(self.units):
            yield f'<g style="--c:var(--c{number % 6})">{_rect(x, y, 10, 10, "unit")}</g>'
            yield _text(x + 14, y + 9, unit)
            x += 34 + 6.5 * len(unit)


def curve_svg(curve: Curve, axis: str, prefix: str) -> str:
    """Returns a chart of cycles over the axis, with a line for each method and each scheduler."""
    # imported here: only pictures need matplotlib
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.size": 9}):
        figure = Figure(figsize=(5.4, 3.6), layout="constrained")
        plot = figure.subplots()
        for number, name in enumerate(METHODS):
            _line(plot, curve, name, f"#12345{number % 6}")
        plot.set(xlabel=axis, ylabel="cycles", ylim=(0, None), ymargin=0.08)
        plot.yaxis.set_major_formatter("{x:,.0f}")
        plot.grid(color="#cccccc", lw=0.6)
        plot.legend(fontsize=8)
        drawn = picture_bytes(figure, "svg", transparent=True)
    return themed(drawn.decode(), prefix)


def _line(plot: Axes, curve: Curve, name: str, colour: str) -> None:
    points = [(point.at, point.cycles[name]) for point in curve.points if name in point.cycles]
    if points:
        style = "--" if name in ("gub", "lower") else ":" if name in SCHEDULERS else "-"
        places, cycles = zip(*points, strict=True)
        mark = "." if name != "safe" else "o"
        plot.plot(places, cycles, style, marker=mark, ms=5, lw=1.8, color=colour, label=name)


def _svg(width: float, height: float, parts: Iterable[str]) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return f'<svg {size} role="img">{"".join(parts)}</svg>'


def _rect(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
    said = f"<title>{escape(title)}</title>" if title else ""
    return f'<rect class="{kind}" {size}>{said}</rect>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _ticks(end: int, scale: float, left: float, top: float, bottom: float) -> list[str]:
    """Returns lines at round cycles, with their numbers unless the right edge would cut them."""
    steps = (factor * 10**power for power in range(20) for factor in (1, 2, 5))
    most = int(end * scale) // (20 + 7 * len(f"{end:,}"))
    step = next((step for step in steps if end <= most * step), end)
    parts = []
    for cycle in range(0, end + 1, step):
        x = left + scale * cycle
        place = f'x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom - 10:.1f}"'
        parts.append(f'<line class="axis" {place}/>')
        if x < _WIDTH - 30:
            parts.append(_text(x + 2, bottom, f"{cycle:,}"))
    return parts
