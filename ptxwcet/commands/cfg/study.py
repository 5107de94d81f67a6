"""The control flow of a kernel under a launch: classes of branches, bounds of loops.

>>> from ptxwcet.opened.request import Request
>>> from ptxwcet.commands.cfg.study import describe_flow
>>> [len(one.forest.loops) for one in describe_flow(Request("samples/saxpy.ptx", block="256"))]
[1]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ptxwcet.commands.bound.loop_text import bound_text, reason_text, total_texts
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow, OnFlow
from ptxwcet.flow.graph.divergence import DivergentSet
from ptxwcet.flow.graph.loops import LoopForest
from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.flow.paths.branch_kinds import BranchKind, classify_branches
from ptxwcet.flow.paths.call_variables import followed
from ptxwcet.flow.paths.diagnostics import OpenDecision
from ptxwcet.flow.paths.dot import Drawing, LoopNote, Notes, draw_cfg
from ptxwcet.flow.paths.extraction import extract_on, flow_graph
from ptxwcet.flow.values.condition_text import ConditionReader
from ptxwcet.flow.walk.path import BlockPaths, largest_bounds
from ptxwcet.ir.kernel import Kernel, Module, place
from ptxwcet.machine.architectures import require_architecture
from ptxwcet.machine.model import Machine
from ptxwcet.opened.opening import Opened, RefusedKernel, open_request
from ptxwcet.opened.request import Request
from ptxwcet.pipeline import build_flow
from ptxwcet.support.demangling import names_meant
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.launch_costs import block_costs


@dataclass(frozen=True, slots=True)
class DescribedKernel(OnFlow):
    """A kernel with calls inlined, its graph, and notes on its branches and loops.

    ``refusals`` are the reasons why there are no paths; then the bounds of loops are unknown.
    """

    flow: ControlFlow
    notes: Notes
    names: Mapping[str, str]
    refusals: tuple[Diagnostic, ...] = ()


def kernels_to_draw(module: Module, names: Sequence[str]) -> tuple[Kernel, ...]:
    """The named kernels or functions, or all kernels of the file. Raises PtxwcetError (PW232)."""
    if not names:
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
    by_name = {kernel.name: kernel for kernel in everything}
    meant: dict[str, None] = {}
    for name in names:
        matches = names_meant(name, by_name)
        if not matches:
            contents = ", ".join(one.readable for one in everything) or "nothing"
            message = f"no kernel '{name}' in {module.source.name}"
            raise PtxwcetError(Diagnostic("PW232", message, help=f"it contains {contents}"))
        meant |= dict.fromkeys(matches)
    return tuple(by_name[name] for name in meant)


def describe_flow(request: Request) -> tuple[DescribedKernel | RefusedKernel, ...]:
    """Returns the requested kernels, for the launch of the request, in file order.

    A kernel that the launch or a fact does not fit is refused, the others are described. Raises
    PtxwcetError for input that concerns no single kernel. Cost: a path extraction each.
    """
    opened = open_request(request)
    return opened.each(
        lambda kernel: describe_kernel(kernel, opened, opened.launch_of_paths(kernel))
    )


def describe_kernel(kernel: Kernel, opened: Opened, launch: Launch) -> DescribedKernel:
    """Describes a requested kernel. Raises PtxwcetError for a launch that does not fit."""
    whole = opened.whole(kernel)
    flow = build_flow(whole, launch)
    placed = place_facts(flow, opened.facts_of(kernel))
    graph = flow_graph(followed(flow), launch)
    pieces: tuple[BlockPaths, ...] | None = None
    refusals: tuple[Diagnostic, ...] = ()
    asked: int | None = None
    try:
        pieces = extract_on(graph, launch, placed)
    except PtxwcetError as error:
        refusals = error.diagnostics
        asked = error.loop if isinstance(error, OpenDecision) else None
    branches: dict[int, BranchKind] = {
        branch.block: branch for branch in classify_branches(graph, placed, pieces)
    }
    loops: dict[int, LoopNote] = {}
    if pieces is None:
        loops = {
            loop.id: LoopNote("not bounded: it asks for a bound" if loop.id == asked else "open")
            for loop in flow.forest.loops
        }
    else:
        loops = loop_notes(flow.forest, pieces, placed)
    notes = Notes(branches, loops)
    return DescribedKernel(flow, notes, opened.names_of(kernel), refusals)


def draw_kernel(kernel: Kernel, notes: Notes, shown: DivergentSet, machine: Machine) -> Drawing:
    """Returns the graph of a kernel, with the costs of its blocks on a machine; see ``draw_cfg``.

    Raises PtxwcetError (PW329) for code that the machine cannot execute.
    """
    require_architecture(kernel, machine)
    costs = block_costs(kernel, machine) if kernel.code is None else None
    return draw_cfg(kernel, shown, costs, notes)


def loop_notes(
    forest: LoopForest, pieces: Iterable[BlockPaths], facts: PlacedFacts
) -> dict[int, LoopNote]:
    """Returns the largest bound of each loop over all warps, its origin and its reason."""
    most = largest_bounds(warp.nodes for piece in pieces for warp in piece.warps)
    notes: dict[int, LoopNote] = {loop.id: LoopNote("never entered") for loop in forest.loops}
    for loop, entry in most.items():
        bound = ", ".join((bound_text(entry), *total_texts(loop, facts)))
        notes[loop] = LoopNote(bound, reason_text(entry, facts))
    return notes


def branch_rows(described: DescribedKernel) -> list[tuple[str, str, str, str, str]]:
    """Returns block, place, class, direction and condition of each branch, for people."""
    reader = ConditionReader(described.kernel, described.names)
    rows = []
    for block, branch in described.notes.branches.items():
        last = described.cfg.blocks[block].end - 1
        instruction = described.kernel.instructions[last]
        condition = ""
        if instruction.guard is not None:
            condition = reader.condition(instruction.guard, holds=True)[0]
        name, where = described.cfg.name(BlockId(branch.block)), place(described.kernel, last)
        rows.append((name, where, branch.kind.value, branch.how, condition))
    return rows
