"""``ptxwcet cfg``: shows the control-flow graph of kernels as DOT text, picture or tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.graphviz import GRAPH_FILE, GRAPH_PICTURES, write_graph
from ptxwcet.cli.output import echo, finish
from ptxwcet.commands.cfg.study import (
    DescribedKernel,
    describe_flow,
    draw_kernel,
    kernels_to_draw,
)
from ptxwcet.commands.cfg.text import render_flow_text, render_machine_code
from ptxwcet.flow.graph.divergence import DivergentSet
from ptxwcet.flow.paths.dot import NO_NOTES, Drawing
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.front_ends import is_no_ptx
from ptxwcet.opened.opening import RefusedKernel, read_module, refuse
from ptxwcet.support.diagnostics import render_all
from ptxwcet.support.printable import printable_picture

_OF_THE_FILE = ("file", "kernel", "link", "arch", "nvcc_options", "machine_code")


@click.command("cfg", cls=Command, example="ptxwcet cfg kernel.ptx -k saxpy -o saxpy.svg")
@options.launch_options
@options.option(
    "output",
    "Write to a .dot file, or to a .svg, .png or .pdf with Graphviz.  [default: DOT on stdout]",
    type=GRAPH_FILE,
)
@options.option(
    "divergent",
    "Branch-divergent edges: all that a warp can take and no others, those of Betts and "
    "Donaldson, or none.",
    type=click.Choice([one.value for one in DivergentSet]),
    default=DivergentSet.COMPLETE.value,
)
@options.of("machine")
@options.format_option(
    "dot",
    "text",
    help_text="On standard output: the graph, or tables of branches, loops and divergent edges "
    "(needs the launch).",
)
def cfg(
    output: Path | None,
    divergent: str,
    machine: str,
    form: str,
    **given: Any,
) -> int:
    """Draw the control-flow graph of the kernels, or device functions, in FILE.

    Loops are nested boxes, barriers are highlighted, T and F mark the taken edge and the
    fall-through of a branch. Edges that only a diverged warp takes are dashed if they are in the
    published set and dotted if they are missing there; a legend explains all lines. With a launch
    (--block or --launch), each branch has its class (uniform over the block, over the warp,
    divergent, unknown; decided or not) and each loop its bound and why. Exit code: 0 drawn; 1 a
    kernel refused, the others are drawn; 2 usage.

    Machine code (a .cubin, or with --machine-code) is shown as well, with addresses and lines of
    CUDA; it needs nvdisasm (pip install 'ptxwcet[sass]').
    """
    is_code = given["machine_code"] or is_no_ptx(given["file"])
    if form == "text":
        options.refuse_idle("is of the graph: --format text has no times", "machine")
    elif is_code:
        options.refuse_idle("has no times of machine code", "machine")
    shown = DivergentSet(divergent)
    launched = any(value for key, value in given.items() if key not in _OF_THE_FILE)
    request = options.request_from(**given)
    flows = describe_flow(request) if launched else ()
    described = [row for row in flows if isinstance(row, DescribedKernel)]
    diagnostics = [
        one for row in flows if isinstance(row, RefusedKernel) for one in row.diagnostics
    ]
    if form == "text" and (output is not None or not (launched or is_code)):
        raise click.UsageError("--format text needs the launch (--block 256), and no -o")
    kernels = tuple(one.kernel for one in described)
    if not launched:
        kernels = kernels_to_draw(read_module(request, for_graph=True), request.kernels)
    if form == "text":
        texts: list[str] = []
        for shown_one in described if launched else kernels:
            try:
                texts.append(_text(shown_one, shown))
            except Exception as error:
                kernel = shown_one if isinstance(shown_one, Kernel) else shown_one.kernel
                diagnostics += refuse(kernel, error).diagnostics
        echo("\n".join(texts), nl=False)
        return finish(diagnostics, is_partial=bool(texts))
    if output is not None and output.suffix in GRAPH_PICTURES and len(kernels) > 1:
        names = ", ".join(kernel.readable for kernel in kernels)
        raise click.UsageError(f"a picture shows one kernel: choose with -k among {names}")
    timings = load_machine(machine)
    drawings: list[Drawing] = []
    by_name = {one.kernel.name: one for one in described}
    for kernel in kernels:
        try:
            launched_kernel = by_name.get(kernel.name)
            notes = NO_NOTES if launched_kernel is None else launched_kernel.notes
            drawings.append(draw_kernel(kernel, notes, shown, timings))
        except Exception as error:
            diagnostics += refuse(kernel, error).diagnostics
    for drawing in drawings:
        if drawing.warnings:
            echo(render_all(drawing.warnings), err=True)
    text = "".join(drawing.text for drawing in drawings)
    if output is None:
        echo(printable_picture(text), nl=False)
    elif drawings:
        write_graph(text, output, "try --divergent none, or write the text with -o FILE.dot")
    return finish(diagnostics, is_partial=bool(drawings))


def _text(shown_one: Kernel | DescribedKernel, shown: DivergentSet) -> str:
    if isinstance(shown_one, Kernel):
        return render_machine_code(shown_one)
    return render_flow_text(shown_one, shown)
