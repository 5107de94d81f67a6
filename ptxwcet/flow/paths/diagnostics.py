"""What is said when no path is found: which branch, on what it depends, what settles it."""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.loops import LoopId
from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.flow.values.value import Cause, CauseKind
from ptxwcet.flow.walk.stops import Refused, Undecided
from ptxwcet.ir.kernel import Address, Kernel, Space, SymbolRef
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

# The codes of facts that contradict the analysis, and of launches that are always aborted.
CONTRADICTED = frozenset(("PW217", "PW225"))
# The code of walks that are given up.
UNSETTLED = "PW206"


class OpenDecision(PtxwcetError):
    """PW203 or PW202: the branch at ``instruction`` (an index) is not decided, for ``causes``.

    ``loop`` is the loop that it leaves, None for a branch that leaves none.
    """

    def __init__(
        self, diagnostic: Diagnostic, instruction: int, loop: int | None, causes: frozenset[Cause]
    ) -> None:
        super().__init__(diagnostic)
        self.instruction = instruction
        self.loop = loop
        self.causes = causes


class UnsettledPath(PtxwcetError):
    """PW206: the walk was given up inside of ``loops``, the outermost first."""

    def __init__(self, diagnostic: Diagnostic, loops: tuple[LoopId, ...]) -> None:
        super().__init__(diagnostic)
        self.loops = loops


class ContradictedFacts(PtxwcetError):
    """PW217: no run has what is stated and what the analysis proves."""


_FOR_WANT_OF_KNOWLEDGE = frozenset(
    ("PW202", "PW203", "PW204", "PW205", "PW206", "PW218", "PW222", "PW223", "PW224")
)


def is_for_want_of_knowledge(problems: Sequence[Diagnostic]) -> bool:
    """Whether paths were not found because too little is known, or too much is to be walked."""
    return all(problem.code in _FOR_WANT_OF_KNOWLEDGE for problem in problems)


def refused_path(graph: FlowGraph, refused: Refused, facts: PlacedFacts) -> PtxwcetError:
    """The error of a refusal."""
    diagnostic = refusal(graph, refused, facts)
    if refused.code in CONTRADICTED:
        return ContradictedFacts(diagnostic)
    if refused.code != UNSETTLED:
        return PtxwcetError(diagnostic)
    loops: list[LoopId] = []
    loop = graph.forest.innermost(graph.block_of(refused.instruction))
    while loop is not None:
        loops.append(loop.id)
        loop = None if loop.parent is None else graph.forest.loops[loop.parent]
    return UnsettledPath(diagnostic, tuple(reversed(loops)))


def refusal(graph: FlowGraph, refused: Refused, facts: PlacedFacts) -> Diagnostic:
    """The diagnostic of a refusal, which names the sources of the facts that it contradicts."""
    span = graph.kernel.instructions[refused.instruction].span
    reason, block = refused.reason, graph.block_of(refused.instruction)
    loop = graph.forest.loop_at(block)
    if refused.code in CONTRADICTED and loop is not None:
        reason = reason.replace("--loop-bound", facts.loop_sources.get(loop.id, "--loop-bound"), 1)
    if refused.code == "PW217":
        names = [facts.branch_sources.get((block, taken), "") for taken in (True, False)]
        reason = reason.replace("a fact", " and ".join(filter(None, names)) or "a fact", 1)
    return Diagnostic(
        refused.code, reason, span, _place(graph, refused.instruction), refused.remedy
    )


def open_decision(graph: FlowGraph, undecided: Undecided, launch: Launch) -> OpenDecision:
    """The diagnostic of a decision that is open: PW203 if it ends a loop, else PW202.

    Its help is what the causes suggest; :mod:`ptxwcet.flow.paths.advice` knows better.
    """
    index = undecided.instruction
    block = graph.block_of(index)
    loop = graph.forest.innermost(block)
    leaves = loop is not None and any(source == block for source, _ in loop.exits)
    instruction = graph.kernel.instructions[index]
    guard = instruction.guard
    decision = (
        f"{instruction.mnemonic} on {guard.register}" if guard is not None else instruction.mnemonic
    )
    if leaves and loop is not None:
        message = f"the number of iterations of this loop is not known: {decision} is not decided"
        code = "PW203"
    else:
        message, code = f"this branch is not decided: {decision}", "PW202"
    notes = (*_place(graph, index), *_cause_notes(graph, undecided.causes, launch))
    label = graph.cfg.name(loop.header) if loop is not None and leaves else ""
    remedy = _remedy(graph.kernel, undecided.causes, label, launch)
    diagnostic = Diagnostic(code, message, instruction.span, notes, remedy)
    asked = loop.id if loop is not None and leaves else None
    return OpenDecision(diagnostic, index, asked, undecided.causes)


def _place(graph: FlowGraph, index: int) -> tuple[str, ...]:
    kernel, cfg = graph.kernel, graph.cfg
    block = graph.block_of(index)
    notes = [f"in kernel {kernel.readable}, block {cfg.name(block)}"]
    location = kernel.instructions[index].location if index < len(kernel.instructions) else None
    if location is not None and location.line:
        notes.append(f"source line: {location.place}")
    return tuple(notes)


def _cause_notes(graph: FlowGraph, causes: frozenset[Cause], launch: Launch) -> list[str]:
    notes = []
    for cause in sorted(causes, key=lambda c: (c.kind.value, c.instruction, c.name)):
        is_parameter = cause.kind is CauseKind.PARAMETER
        name = launch.name_of(cause.name) if is_parameter else cause.name
        text = _CAUSE_TEXTS[cause.kind].format(name=name)
        if cause.instruction >= 0:
            span = graph.kernel.instructions[cause.instruction].span
            text += f" (line {span.line}: {' '.join(span.text.split())})"
        notes.append(text)
    shown = notes[:6]
    if len(notes) > len(shown):
        shown.append(f"and on {len(notes) - len(shown)} more")
    return shown


_CAUSE_TEXTS = {
    CauseKind.PARAMETER: "it depends on parameter {name}, which has no value",
    CauseKind.LAUNCH: "it depends on {name}, which the launch facts do not fix",
    CauseKind.MEMORY: "it depends on data: {name} reads memory",
    CauseKind.FLOAT: "it depends on floating-point data: {name}",
    CauseKind.NOT_AFFINE: "it depends on {name}, which changes irregularly",
    CauseKind.UNDEFINED: "it depends on {name}, which is read before it is written",
    CauseKind.LOOP: "it depends on what the loop at {name} computes",
    CauseKind.OPERATION: "it depends on the result of {name}, which is not analysed",
}


def launch_file_names(kernel: Kernel, causes: frozenset[Cause], launch: Launch) -> tuple[str, ...]:
    """What a launch file says and a decision depends on: aggregates and constants, in words."""
    aggregates = {one.name for one in kernel.parameters if one.is_array}
    parameters = {c.name for c in causes if c.kind is CauseKind.PARAMETER} & aggregates
    constants = {name for cause in causes if (name := _constant(kernel, cause))}
    return (
        *(f"the aggregate {launch.name_of(name)}" for name in sorted(parameters)),
        *(f"the constant {name}" for name in sorted(constants)),
    )


def _constant(kernel: Kernel, cause: Cause) -> str:
    """The variable of constant memory that a cause reads; empty for any other cause."""
    if cause.kind is not CauseKind.MEMORY or cause.instruction < 0:
        return ""
    instruction = kernel.instructions[cause.instruction]
    if instruction.space is not Space.CONST:
        return ""
    for operand in instruction.operands:
        if isinstance(operand, Address) and isinstance(operand.base, SymbolRef):
            return operand.base.name
    return ""


def value_option(parameter: str, launch: Launch) -> str:
    """The option that gives a parameter its value."""
    return f"--param {launch.name_of(parameter)}=VALUE"


def bound_option(label: str) -> str:
    """The option that bounds the loop at a label."""
    return f"--loop-bound '{label}=ITERATIONS'"


def _remedy(kernel: Kernel, causes: frozenset[Cause], loop_label: str, launch: Launch) -> str:
    aggregates = {one.name for one in kernel.parameters if one.is_array}
    parameters = {c.name for c in causes if c.kind is CauseKind.PARAMETER} - aggregates
    on_grid = any(c.kind is CauseKind.LAUNCH and "ctaid" in c.name for c in causes)
    options = ["--grid SIZE"] if on_grid else []
    options += [value_option(name, launch) for name in sorted(parameters)]
    in_file = launch_file_names(kernel, causes, launch)
    if in_file:
        options.append(f"a launch file with {' and '.join(in_file)} (--launch FILE)")
    causes = frozenset(cause for cause in causes if not _constant(kernel, cause))
    other_kinds = {c.kind for c in causes} - {CauseKind.PARAMETER, CauseKind.LAUNCH}
    if loop_label:
        bound = bound_option(loop_label)
        if options and not other_kinds:
            return f"give {' and '.join(options)}, or a bound: {bound}"
        return f"give a bound on the iterations of the loop: {bound}"
    if options and not other_kinds:
        return f"give {' and '.join(options)}"
    return (
        "its lanes would meet again only after the loop around: move a return or break out of the "
        "branch, or make it a predicated instruction or a select"
    )
