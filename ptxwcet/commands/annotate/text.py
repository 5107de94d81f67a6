"""Annotated code as text for people: cycles, share and cause beside each line."""

from __future__ import annotations

from collections.abc import Iterator

from ptxwcet.commands.annotate.report import (
    SOURCE,
    AnnotatedKernel,
    AnnotatedLine,
    AnnotationReport,
    Cause,
    Part,
)
from ptxwcet.commands.bound.launch_text import launch_lines
from ptxwcet.commands.bound.text import bound_line
from ptxwcet.report.head import Refused, as_people_know, head_text, launch_text

_VERBS = {
    Part.ISSUE: "issues",
    Part.RESULT: "waits for",
    Part.UNIT: "queues for",
    Part.OTHER_WARPS: "other warps:",
}
_LONGEST_CAUSE = 34


def render_annotation_text(report: AnnotationReport) -> str:
    """The code of each kernel; one that is refused has a line, its diagnostics are apart."""
    parts = [head_text(report)]
    for row in report.kernels:
        parts.append("")
        if isinstance(row, Refused):
            parts.append(f"kernel     {row.readable}\nREFUSED    {row.diagnostics[0].message}")
        else:
            parts += _kernel(row)
    return "\n".join(parts) + "\n"


def _kernel(kernel: AnnotatedKernel) -> Iterator[str]:
    bound = as_people_know(kernel.bound)
    yield f"kernel     {bound.kernel}"
    yield f"launch     {launch_text(bound)}"
    yield from launch_lines(bound)
    yield bound_line(bound)
    has_launch = any(
        one.launch_cycles is not None for file in kernel.files for one in file.lines
    ) or any(one.launch_cycles is not None for one in kernel.elsewhere)
    columns = _Columns(kernel, has_launch=has_launch)
    yield ""
    yield "each cycle of a block's bound at one line: the slowest warp issues an instruction, waits"
    yield "for its result, queues for its unit, or stands back while other warps execute it; the"
    yield "cause is the largest of these and the opcode with most of it, and what part that is"
    for file in kernel.files:
        yield ""
        yield columns.head(file.name)
        yield from map(columns.line, file.lines)
    if kernel.regions:
        yield ""
        yield "regions: what is charged to their instructions, no bound of the time between places"
        yield columns.head("region")
        yield from map(columns.line, kernel.regions)
    if kernel.elsewhere:
        yield ""
        yield columns.head("elsewhere" if kernel.code == SOURCE else "no line of PTX")
        yield from map(columns.line, kernel.elsewhere)
    yield ""
    yield columns.sum()
    for name in kernel.missing:
        yield f"source {name} is not at hand: lay it beside the PTX, or name it with --source"


class _Columns:
    """The columns of a kernel's listing, as wide as its numbers."""

    def __init__(self, kernel: AnnotatedKernel, *, has_launch: bool) -> None:
        lines = [*(one for file in kernel.files for one in file.lines), *kernel.elsewhere]
        self._lines = lines
        self._has_launch = has_launch
        self._cycles = max(len("cycles"), *(len(_count(one.cycles)) for one in lines), 0)
        self._cycles = max(self._cycles, len(_count(kernel.bound.bound_cycles)))
        self._launch = max(len("launch"), *(len(_count(one.launch_cycles)) for one in lines), 0)
        if kernel.bound.launch is not None:
            self._launch = max(self._launch, len(_count(kernel.bound.launch.cycles)))
        self._cause = max(len("cause"), *(len(cause_text(one)) for one in lines), 0)
        self._number = max(len("line"), *(len(str(one.line or "")) for one in lines), 0)

    def head(self, name: str) -> str:
        """The heads of the columns, over the lines of a file."""
        return self._joined("launch", "cycles", "share", "cause", "line", name)

    def line(self, one: AnnotatedLine) -> str:
        """A line of code."""
        share = "" if not one.cycles else f"{one.share_percent:.1f} %"
        number = "" if one.line is None else str(one.line)
        counts = _count(one.launch_cycles), _count(one.cycles)
        return self._joined(*counts, share, cause_text(one), number, one.text.expandtabs(4))

    def sum(self) -> str:
        """All lines together: the bounds."""
        launch = sum(one.launch_cycles or 0 for one in self._lines)
        cycles = sum(one.cycles or 0 for one in self._lines)
        return self._joined(_count(launch), _count(cycles), "100.0 %", "", "", "all lines")

    def _joined(
        self, launch: str, cycles: str, share: str, cause: str, number: str, text: str
    ) -> str:
        cells = [launch.rjust(self._launch)] if self._has_launch else []
        cells += [
            cycles.rjust(self._cycles),
            share.rjust(7),
            cause.ljust(self._cause),
            number.rjust(self._number),
            text,
        ]
        return "  ".join(cells).rstrip()


def _count(cycles: int | None) -> str:
    return f"{cycles:,}" if cycles else ""


def cause_text(one: AnnotatedLine) -> str:
    """The cause of a line and its part of the line's cycles."""
    cause = one.cause
    if cause is None or not one.cycles:
        return ""
    text = f"{_VERBS[Part(cause.part)]} {cause.opcode}"
    if len(text) > _LONGEST_CAUSE:
        text = text[: _LONGEST_CAUSE - 3] + "..."
    return f"{text} {_percent(cause, one.cycles)}"


def _percent(cause: Cause, cycles: int) -> str:
    return "" if cause.cycles == cycles else f"{100 * cause.cycles / cycles:.0f} %"
