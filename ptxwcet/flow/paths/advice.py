"""The cheapest fact that settles a refusal: what its help names.

What is open is found by :mod:`ptxwcet.flow.paths.questions`, as for ``ptxwcet facts``, within
fewer steps than an analysis may take. The size of the grid is cheapest, then values or ranges of
parameters, then ranges of arrays, then what is said of branches, then bounds of loops.
"""

from __future__ import annotations

from dataclasses import replace

from ptxwcet.flow.flow_graph import Kept
from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.flow.paths.diagnostics import (
    OpenDecision,
    bound_option,
    is_for_want_of_knowledge,
    value_option,
)
from ptxwcet.flow.paths.questions import (
    Questions,
    find_questions,
    only_parameters,
    reads_grid_size,
    scalars,
)
from ptxwcet.flow.values.arrays import arrays_read
from ptxwcet.flow.values.value import CauseKind
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.diagnostics import PtxwcetError

_GRID = "--grid SIZE"


def advised(
    error: PtxwcetError, flow: ControlFlow, launch: Launch, facts: PlacedFacts, of_graph: Kept
) -> PtxwcetError:
    """The refusal with help that names the cheapest fact that settles it, as far as that is found.
    ``of_graph`` is what has been found out of the kernel alone.

    ``error`` as it is if no fact is known to help more than its help says. Cost: nothing if the
    causes of an open decision leave no choice, else a fifth of the steps that an analysis may
    take.
    """
    if len(error.diagnostics) != 1 or not is_for_want_of_knowledge(error.diagnostics):
        return error
    if isinstance(error, OpenDecision) and _is_said_by_causes(error, flow.kernel, launch):
        return error
    questions = find_questions(flow, launch, facts, is_quick=True, of_graph=of_graph)
    label = ""
    if isinstance(error, OpenDecision) and error.loop is not None:
        label = flow.label(error.loop)
    advice = (
        with_grid(questions, launch)
        or _without_grid(error, questions, launch, label)
        or _of_branches(questions, flow.cfg)
    )
    if not advice:
        return error
    return PtxwcetError(replace(error.diagnostics[0], help=advice))


def _is_said_by_causes(error: OpenDecision, kernel: Kernel, launch: Launch) -> bool:
    """Whether nothing is to be tried: either values of parameters are all that is missing, or
    neither parameters nor the grid have a part in it.
    """
    names = scalars(kernel, error.causes)
    on_grid = any(cause.kind is CauseKind.LAUNCH for cause in error.causes)
    on_grid |= launch.grid is None and reads_grid_size(kernel)
    loads = {one.instruction for one in error.causes if one.kind is CauseKind.MEMORY}
    others = names or on_grid or arrays_read(kernel, loads - {-1}) or error.loop is None
    return only_parameters(error.causes, names) or not others


def with_grid(questions: Questions, launch: Launch) -> str:
    """What to give if the size of the grid is cheapest; empty if something else is."""
    grid = questions.with_grid
    if grid is None or grid.refusals:
        return ""
    if grid.loops or grid.agreements:
        return f"give {_GRID} first: ptxwcet facts tells what is open then"
    return f"give {_options([_GRID, *_values(grid, launch)])}: with that nothing is open"


def _without_grid(error: PtxwcetError, questions: Questions, launch: Launch, label: str) -> str:
    """What to give of parameters and bounds; empty if the causes tell as much."""
    if questions.refusals or questions.agreements:
        return ""
    values = _values(questions, launch)
    bound = f", or a bound: {bound_option(label)}" if label else ""
    if values and not questions.loops:
        return f"give {_options(values)}{bound}"
    if not isinstance(error, OpenDecision) or not label:
        return ""
    branch = error.instruction
    ranges = [
        f'{launch.name_of(name)} = "{kind} LEAST..MOST"'
        for row in questions.loops
        if row.loop == error.loop
        for name, kind in row.arrays
    ]
    own = [one.name for one in questions.parameters if branch in one.branches]
    own += [name for row in questions.loops if row.loop == error.loop for name in row.parameters]
    options = [value_option(name, launch) for name in own]
    if ranges:
        options.append(f"[arrays] {', '.join(ranges)} (the integers in it) in a facts file")
    if options:
        return f"give {_options(options)}{bound}"
    return f"give a bound on the iterations of the loop: {bound_option(label)}"


def _of_branches(questions: Questions, cfg: ControlFlowGraph) -> str:
    """What to say of branches if that settles a refusal; empty if something else does."""
    if questions.refusals or not questions.agreements:
        return ""
    said = [
        f'[[branch]] at = "{cfg.name(one.block)}" uniform = "{one.scope}"'
        for one in questions.agreements
    ]
    scope = questions.agreements[0].scope
    loops = ", and bounds of loops (ptxwcet facts asks for all)" if questions.loops else ""
    return f"if all threads of a {scope} go the same way there, say so: {_options(said)}{loops}"


def _values(questions: Questions, launch: Launch) -> list[str]:
    return [value_option(one.name, launch) for one in questions.parameters]


def _options(options: list[str]) -> str:
    return " and ".join(options)
