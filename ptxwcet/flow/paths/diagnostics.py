"""What is said when no path is found: which branch, on what it depends, what settles it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.loops import Loop, LoopId
from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.flow.values.slicing import deciding
from ptxwcet.flow.values.value import Cause, CauseKind
from ptxwcet.flow.walk.stops import Refused, Undecided
from ptxwcet.ir.kernel import Address, Kernel, Register, Space, SymbolRef
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

# The codes of facts that contradict the analysis, and of launches that are always aborted.
CONTRADICTED = frozenset(("PW217", "PW225"))
# The code of walks that are given up.
UNSETTLED = "PW206"
_NO_FORM = "PW204"
# The code of loops that never end.
ENDLESS = "PW205"


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


class NeverEnds(PtxwcetError):
    """PW205: for these blocks and values the loop never ends that the branch ``instruction`` (an
    index) may leave.
    """

    def __init__(self, diagnostic: Diagnostic, instruction: int) -> None:
        super().__init__(diagnostic)
        self.instruction = instruction


class UnsettledPath(PtxwcetError):
    """PW206, PW204: the walk was given up inside of ``loops``, the outermost first; of PW204 it is
    the only one, which has no closed form.
    """

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
    around = graph.forest.loop_at(graph.block_of(refused.instruction))
    if refused.code == ENDLESS and around is not None and around.exits:
        return NeverEnds(diagnostic, graph.last(around.exits[-1][0]))
    if refused.code == _NO_FORM and around is not None:
        return UnsettledPath(diagnostic, (around.id,))
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
    leaves = loop is not None and block in {*loop.latches, *(source for source, _ in loop.exits)}
    instruction = graph.kernel.instructions[index]
    guard = instruction.guard
    decision = (
        f"{instruction.mnemonic} on {guard.register}" if guard is not None else instruction.mnemonic
    )
    if leaves and loop is not None:
        why = undecided.reason or f"{decision} is not decided"
        message = f"the number of iterations of this loop is not known: {why}"
        code = "PW203"
    else:
        message, code = f"this branch is not decided: {decision}", "PW202"
    causes = frozenset(one for one in undecided.causes if not _is_written_first(graph, one))
    waits = _waits(graph, loop, causes) if leaves and loop is not None else ""
    label = graph.cfg.name(loop.header) if loop is not None and leaves else ""
    around = f"in kernel {graph.kernel.readable}, the loop at {label}"
    here, *places = _place(graph, index)
    causes_said = _cause_notes(graph, causes, launch)
    notes = (around if label else here, *places, *causes_said, *filter(None, [waits]))
    remedy = _remedy(graph.kernel, causes, label, launch)
    diagnostic = Diagnostic(code, message, instruction.span, notes, remedy)
    asked = loop.id if loop is not None and leaves else None
    return OpenDecision(diagnostic, index, asked, causes)


def _is_written_first(graph: FlowGraph, cause: Cause) -> bool:
    """Whether a register without a value is written before all of its reads: then what was read is
    what an iteration before left, of which nothing is known.
    """
    if cause.kind is not CauseKind.UNDEFINED:
        return False
    kernel, cfg = graph.kernel, graph.cfg
    pending, seen = [0], {0}
    while pending:
        block = pending.pop()
        for instruction in kernel.instructions[cfg.blocks[block].start : cfg.blocks[block].end]:
            if cause.name in instruction.reads:
                return False
            if cause.name in instruction.writes and instruction.guard is None:
                break
        else:
            new = set(cfg.successors[block]) - seen
            pending += new
            seen |= new
    return True


def _waits(graph: FlowGraph, loop: Loop, causes: frozenset[Cause]) -> str:
    """That a loop reads again and again what others write, or the time, tries until nobody comes in
    between, or converges; empty if it does not, or counts as well.
    """
    if causes and all(cause.kind is CauseKind.FLOAT for cause in causes):
        return f"it ends when numbers of floating point are as they should be: {_FOR_YOU}"
    kernel, blocks = graph.kernel, graph.cfg.blocks
    body = [
        kernel.instructions[index]
        for block in loop.body
        for index in range(blocks[block].start, blocks[block].end)
    ]
    written = {name for instruction in body for name in instruction.writes}
    guards = [one.guard.register for one in body if one.guard is not None]
    inside = {one.start for one in body}
    counts = any(
        one.start in inside and set(one.reads) & set(one.writes)
        for one in (kernel.instructions[index] for index in deciding(kernel, guards))
    )
    decided_by = {
        kernel.instructions[one.instruction].start for one in causes if one.instruction >= 0
    }
    for one in body:
        if not _POLLS.search(one.words) or one.start not in decided_by:
            continue
        is_same = not any(isinstance(o, Address) and _is_in(o.base, written) for o in one.operands)
        where = f"{one.mnemonic} in {one.span.shown_place}"
        if "cas" in one.modifiers:
            until = "no other thread has come in between" if is_same else "a place is free"
            return f"it tries {where} until {until}: {_FOR_YOU}"
        if is_same and not counts:
            who = "threads of the block" if one.space is Space.SHARED else _OTHERS
            return (
                f"it waits until other {who} have done something: {where} reads the same place "
                f"again; {_FOR_YOU}, and no execution of one block alone shows it"
            )
    if not counts and any("clock" in cause.name or "globaltimer" in cause.name for cause in causes):
        return f"it waits until some time has passed: {_FOR_YOU}"
    return ""


_FOR_YOU = "how often it goes round at most is for you to say"
_OTHERS = "threads or blocks, the host or another device"
_POLLS = re.compile(r"volatile|acquire|relaxed|atom|mmio|try_wait|test_wait")


def _is_in(base: object, names: Collection[str]) -> bool:
    return isinstance(base, Register) and base.name in names


def _place(graph: FlowGraph, index: int) -> tuple[str, ...]:
    kernel, cfg = graph.kernel, graph.cfg
    block = graph.block_of(index)
    notes = [f"in kernel {kernel.readable}, block {cfg.name(block)}"]
    location = kernel.instructions[index].location if index < len(kernel.instructions) else None
    if location is not None and location.line and kernel.instructions[index].span.written is None:
        notes.append(f"source line: {location.place}")
    return tuple(notes)


def _cause_notes(graph: FlowGraph, causes: frozenset[Cause], launch: Launch) -> list[str]:
    notes, parameters = [], {one.name for one in graph.kernel.parameters}
    for cause in sorted(causes, key=lambda c: (c.kind.value, c.instruction, c.name)):
        is_parameter = cause.kind is CauseKind.PARAMETER
        name = launch.name_of(cause.name) if is_parameter else cause.name
        text = _CAUSE_TEXTS[cause.kind].format(name=name)
        if is_parameter and cause.name.partition("+")[0] not in parameters:
            text = text.replace("parameter", "the constant", 1)
        if is_parameter and cause.name in launch.ranges:
            least, most = launch.ranges[cause.name]
            text = f"it depends on parameter {name}, of which only {least}..{most} is stated"
        if cause.instruction >= 0:
            span = graph.kernel.instructions[cause.instruction].span
            text += f" ({span.shown_place}: {' '.join(span.text.split())})"
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


_CAPABILITIES = {
    "PW202": "this branch has to be decided, or its sides have to meet in the loop around",
    "PW203": "a bound on this loop alone does not settle what is executed",
    "PW204": "a bound on this loop alone does not settle what is executed",
    UNSETTLED: "the kernel has more ways, or more instructions on them, than are followed",
    "PW218": "the ways out of a loop are followed to several places only for lanes of a warp that "
    "leave it together",
    "PW222": "barriers that only some threads of a warp or block may reach are not bounded",
    "PW223": "only barriers and mbarriers of the block are bounded whose number, place and count "
    "of threads are known",
    "PW224": "sides of a branch that do not meet again are not bounded",
}


def capability(flow: ControlFlow, error: PtxwcetError) -> str:
    """Returns which capability is missing where no fact helps, with what can be moved in the source
    if the graph has it.
    """
    code = error.diagnostics[0].code
    if isinstance(error, OpenDecision) and code == "PW202":
        block = next(b.id for b in flow.cfg.blocks if b.start <= error.instruction < b.end)
        loop, meeting = flow.forest.innermost(block), flow.meeting(block)
        if loop is not None and meeting not in loop.body:
            return _PARTS
    return _CAPABILITIES[code]


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


_PARTS = (
    "its lanes would meet again only after the loop around: move a return or break out of the "
    "branch, or make it a predicated instruction or a select"
)


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
    stated = {CauseKind.PARAMETER, CauseKind.LAUNCH}
    other_kinds = {c.kind for c in causes if c.kind not in stated or "clock" in c.name}
    if loop_label:
        bound = bound_option(loop_label)
        if options and not other_kinds:
            return f"give {' and '.join(options)}, or a bound: {bound}"
        return f"give a bound on the iterations of the loop: {bound}"
    if options and not other_kinds:
        return f"give {' and '.join(options)}"
    return _PARTS
