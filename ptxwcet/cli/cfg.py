"""``ptxwcet cfg``: the control-flow graph of kernels as DOT text or as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from ptxwcet.cli.graphviz import PICTURES, require_graph_suffix, write_graph
from ptxwcet.flow.dot import DivergentSet, draw_cfg
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.pipeline import block_costs
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, render_all


@click.command("cfg")
@click.argument("file", type=click.Path())
@click.option("-k", "--kernel", "name", help="Draw this kernel (or device function) only.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write to a .dot file, or to a .svg or .png one with Graphviz.  [default: DOT on stdout]",
)
@click.option(
    "--divergent/--no-divergent",
    default=True,
    help="Show branch-divergent edges, dashed.  [default: shown]",
)
@click.option(
    "--divergent-set",
    type=click.Choice([DivergentSet.PUBLISHED.value, DivergentSet.COMPLETE.value]),
    default=DivergentSet.PUBLISHED.value,
    show_default=True,
    help="Those of Betts and Donaldson, or all that a warp can take.",
)
@click.option(
    "--machine",
    default=DEFAULT_MACHINE,
    show_default=True,
    help="Machine whose timings give each block's cycles (one warp alone).",
)
def cfg(
    file: str,
    name: str | None,
    output: Path | None,
    divergent: bool,
    divergent_set: str,
    machine: str,
) -> None:
    """Draw the control-flow graph of the kernels in FILE.

    Loops are nested boxes, barriers are highlighted, T and F mark the taken edge and the
    fall-through of a branch; dashed edges are those that only a diverged warp takes.
    """
    if output is not None:
        require_graph_suffix(output, "'-o'")
    kernels = _select(parse_module(read_source(file)), name)
    if output is not None and output.suffix in PICTURES and len(kernels) > 1:
        names = ", ".join(kernel.name for kernel in kernels)
        raise click.UsageError(f"a picture shows one kernel: choose with -k among {names}")
    shown = DivergentSet(divergent_set) if divergent else DivergentSet.NONE
    timings = load_machine(machine)
    drawings = [draw_cfg(kernel, shown, block_costs(kernel, timings)) for kernel in kernels]
    for drawing in drawings:
        if drawing.warnings:
            click.echo(render_all(drawing.warnings), err=True)
    text = "".join(drawing.text for drawing in drawings)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_graph(text, output, "try --no-divergent, or write the text with -o FILE.dot")


def _select(module: Module, name: str | None) -> tuple[Kernel, ...]:
    """The named kernel or function, or all kernels of the file."""
    if name is None:
        if not module.kernels:
            raise PtxwcetError(
                Diagnostic(
                    "PW232",
                    f"{module.source.name} contains no kernel (.entry with a body)",
                    help="name a device function with -k to draw it",
                )
            )
        return module.kernels
    everything = (*module.kernels, *module.functions)
    chosen = tuple(kernel for kernel in everything if kernel.name == name)
    if not chosen:
        names = ", ".join(kernel.name for kernel in everything) or "nothing"
        raise PtxwcetError(
            Diagnostic(
                "PW232", f"no kernel '{name}' in {module.source.name}", help=f"it contains {names}"
            )
        )
    return chosen
