"""Annotated code as text for people: each line with cycles, share and cause."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ptxwcet.commands.annotate.report import (
    SOURCE,
    AnnotatedKernel,
    AnnotatedLine,
    AnnotationReport,
)
from ptxwcet.commands.bound.text import bound_line, launch_lines
from ptxwcet.report.columns import text_table
from ptxwcet.report.head import as_people_know, kernels_text, launch_text


def render_annotation_text(report: AnnotationReport) -> str:
    """Returns the code of each kernel."""
    return kernels_text(report, _kernel, names_refused=True)


def _kernel(kernel: AnnotatedKernel) -> Iterator[str]:
    bound = as_people_know(kernel.bound)
    yield f"kernel     {bound.kernel}"
    yield f"launch     {launch_text(bound)}"
    yield from launch_lines(bound)
    yield bound_line(bound)
    head, *lines = _listing(kernel)
    left, columns = iter(lines), head.removesuffix("code")
    yield ""
    yield "each cycle of a block's bound at one line: the slowest warp issues an instruction, waits"
    yield "for its result, queues for its unit, or stands back while other warps execute it; the"
    yield "cause is the largest of these and the opcode with most of it, and what part that is"
    for file in kernel.files:
        yield ""
        yield f"{columns}{file.name}"
        yield from islice(left, len(file.lines))
    if kernel.regions:
        yield ""
        yield "regions: what is charged to their instructions, no bound of the time between places"
        yield f"{columns}region"
        yield from islice(left, len(kernel.regions))
    if kernel.elsewhere:
        yield ""
        yield f"{columns}{'elsewhere' if kernel.code == SOURCE else 'no line of PTX'}"
        yield from islice(left, len(kernel.elsewhere))
    yield ""
    yield from left
    for name in kernel.missing:
        yield f"source {name} is not at hand: lay it beside the PTX, or name it with --source"


def _listing(kernel: AnnotatedKernel) -> list[str]:
    """Returns the table of all lines: files, regions, cycles elsewhere, and their sum.

    The sum does not count regions, whose cycles are in other lines.
    """
    in_files = [line for file in kernel.files for line in file.lines]
    charged = [*in_files, *kernel.elsewhere]
    cycles, launch = (
        sum(getattr(line, of) or 0 for line in charged) for of in ("cycles", "launch_cycles")
    )
    whole = AnnotatedLine(None, "all lines", cycles, 100.0, launch_cycles=launch)
    return text_table([*in_files, *kernel.regions, *kernel.elsewhere, whole])
