"""A witness: a violation on a small case with the schedule that shows it, as text for people."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.simulator.run import SimulatedRun
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.validate.cases import Case, Plan, shortened
from ptxwcet.validate.checks import Bounds, Check, Violation, check_case
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    PartialBarrier,
    Repeat,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

_MOST_EVENTS = 60


@dataclass(frozen=True)
class Witness:
    """A violation of a case; ``issues`` are the warps in their order of issue.

    ``run`` has the dispatches, if the schedule is a policy's; ``decisions`` are the adversary's
    (:meth:`Simulator.run_script`), if the schedule is its own.
    """

    case: Case
    violation: Violation
    issues: tuple[int, ...]
    run: SimulatedRun | None = None
    decisions: tuple[int, ...] = ()

    def diagnostic(self) -> Diagnostic:
        """Returns PW535 with the witness as notes."""
        return Diagnostic(
            "PW535",
            f"a bound is contradicted: {self.violation}",
            notes=tuple(self.lines()),
            help="please report this with the input",
        )

    def lines(self) -> Iterator[str]:
        """Yields the witness line by line: machine, programs, schedule."""
        case = self.case
        yield f"case: {case.name}"
        sub_cores = f", {case.schedulers} sub-cores" if case.schedulers > 1 else ""
        servers = "".join(f", {count} of unit {unit}" for unit, count in case.servers)
        if case.memory_cycles:
            servers += f", {case.memory_cycles} cycles for 1024 sectors of the memory"
        yield (
            f"{case.workload.warp_count} warps, scoreboard {case.workload.scoreboard.value}"
            f"{sub_cores}{servers}; notation unit(init, lat)"
        )
        for warp_class in case.workload.classes:
            yield f"warp {_listed(warp_class.warps)}: {describe(warp_class.program.body)}"
        if self.issues:
            yield f"warps in issue order: {_listed(self.issues)}"
        if self.decisions:
            yield f"which of the eligible warps issues, at each choice: {_listed(self.decisions)}"
        if self.run is not None:
            for event in self.run.events[:_MOST_EVENTS]:
                yield (
                    f"cycle {event.issue_cycle}: warp {event.warp} issues to {event.unit}, "
                    f"dispatch {event.dispatch_cycle}, end {event.end_cycle}"
                )


def _listed(numbers: tuple[int, ...]) -> str:
    more = ", ..." if len(numbers) > _MOST_EVENTS else ""
    return ", ".join(map(str, numbers[:_MOST_EVENTS])) + more


def describe(body: tuple[Node, ...]) -> str:
    """Returns a program in the notation of the docs: ``B(3,0)->r1 ; 5 x [A(2,0) reads r2]``."""
    return " ; ".join(_describe(node) for node in body)


def _describe(node: Node) -> str:
    match node:
        case TimedInstruction():
            return _describe_instruction(node)
        case Barrier(instruction, name):
            return f"barrier {name} {_describe_instruction(instruction)}"
        case PartialBarrier(instruction, name, warps, waits):
            kind = "barrier" if waits else "arrival at barrier"
            return f"{kind} {name} of {warps} warps {_describe_instruction(instruction)}"
        case Repeat(count=count, body=body):
            return f"{count} x [{describe(body)}]"
        case _:
            return "[undecided]"


def _describe_instruction(timed: TimedInstruction) -> str:
    text = f"{timed.unit}({timed.initiation_cycles},{timed.latency_cycles})"
    if timed.writes:
        text += "->" + ",".join(timed.writes)
    if timed.reads:
        text += " reads " + ",".join(timed.reads)
    if timed.conditional:
        text += " conditional"
    if timed.path_cycles:
        text += f" path {timed.path_cycles}"
    if timed.sectors:
        text += f" sectors {timed.sectors}"
    if timed.bubble_cycles:
        text += f" bubble {timed.bubble_cycles}"
    return text


def find_witness(
    case: Case,
    violation: Violation,
    plan: Plan,
    bounds: Bounds | None = None,
    *,
    seconds: float = 10.0,
) -> Witness:
    """Returns a small witness of a violation that ``plan`` shows on ``case``.

    Only the part of the plan that shows it is repeated while shrinking. Cost: at most about
    ``seconds``, and one run of the plan.
    """
    narrow = _narrowed(plan, violation)

    def persists(candidate: Case) -> bool:
        # A block without instructions shows nothing, even if a broken bound fails on it.
        return (
            candidate.instructions > 0 and _same(candidate, violation, narrow, bounds) is not None
        )

    small = shrink(case, persists, seconds=seconds) if persists(case) else case
    kept = _same(small, violation, narrow, bounds) or violation
    if kept.run is None:
        shown = check_case(small, narrow, bounds)
        decisions = () if shown.searched is None else tuple(shown.searched.decisions.tolist())
        return Witness(small, kept, shown.schedule, None, decisions)
    if kept.check is Check.SAFE_SHORTENED:
        faster = replace(small, workload=shortened(small.workload, kept.run.jitter))
        schedule = search_worst(faster.workload, faster.configuration).schedule
        return Witness(faster, kept, schedule)
    simulator = Simulator(small.workload, small.configuration)
    run = simulator.run(
        kept.run.policy, seed=kept.run.seed, jitter=kept.run.jitter, record=_MOST_EVENTS
    )
    return Witness(small, kept, tuple(event.warp for event in run.events), run)


def _same(case: Case, violation: Violation, plan: Plan, bounds: Bounds | None) -> Violation | None:
    """Returns the violation of the same check and run on another case."""
    for other in check_case(case, plan, bounds).violations:
        if other.check is violation.check and other.run == violation.run:
            return other
    return None


def _narrowed(plan: Plan, violation: Violation) -> Plan:
    """Returns the part of a plan that shows the violation."""
    kept = replace(
        plan,
        runs=tuple(run for run in plan.runs if run == violation.run),
        jittered=tuple(run for run in plan.jittered if run == violation.run),
        referenced=tuple(run for run in plan.referenced if run == violation.run),
    )
    searched = (Check.SAFE_WORST, Check.SAFE_SHORTENED)
    if violation.check.name.startswith("WORST") or violation.check in searched:
        return kept
    kept = replace(kept, most_states=0)
    return kept if violation.check is Check.SAFE_SEARCHED else replace(kept, schedules=0)


# Greedy: of all simplifications of the case (fewer warps, instructions, iterations, registers,
# sub-cores, smaller times) the first that keeps the violation is taken, until none does or the time
# is up. Large steps are tried before small ones, so a kernel's workload shrinks in few tries.


MOST_TRIES = 400
"""The most tries of shrinking a text."""

Body = tuple[Node, ...]
_Value = TypeVar("_Value")


def shrink(case: Case, persists: Callable[[Case], bool], *, seconds: float = 10.0) -> Case:
    """Returns the simplest case of a search for which ``persists`` still holds.

    A candidate that is refused or deadlocks does not count. Deterministic unless the time runs out.
    Cost: one call of ``persists`` a candidate.
    """
    end = time.monotonic() + seconds

    def still(candidate: Case) -> bool:
        try:
            return time.monotonic() < end and persists(candidate)
        except (PtxwcetError, ValueError):  # ValueError: a latency below the time of its servers
            return False

    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for step in (
            _fewer_warps,
            _smaller_programs,
            _fewer_barriers,
            _fewer_cores,
            _plainer_units,
        ):
            smaller = descend(case, step, still)
            progress = progress or smaller is not case
            case = smaller
    return replace(case, name=f"shrunk from {case.name}")


def descend(
    large: _Value, step: Callable[[_Value], Iterator[_Value]], still: Callable[[_Value], bool]
) -> _Value:
    """Takes simplifications of one kind for as long as one keeps the violation."""
    smaller: _Value | None = large
    while smaller is not None:
        large, smaller = smaller, next(filter(still, step(smaller)), None)
    return large


def _fewer_cores(case: Case) -> Iterator[Case]:
    if case.schedulers > 1:
        yield replace(case, schedulers=1)
        yield replace(case, schedulers=case.schedulers - 1)


def _plainer_units(case: Case) -> Iterator[Case]:
    """Yields cases with one server per sub-core of one more unit; with a faster memory."""
    for memory in _smaller(case.memory_cycles, 0):
        yield replace(case, memory_cycles=memory)
    for index in range(len(case.servers)):
        yield replace(case, servers=(*case.servers[:index], *case.servers[index + 1 :]))


def _fewer_warps(case: Case) -> Iterator[Case]:
    """Yields cases without a class of warps; with half of its warps; without one warp."""
    classes = case.workload.classes
    if len(classes) > 1:
        for index in range(len(classes)):
            yield _with_classes(case, (*classes[:index], *classes[index + 1 :]))
    for halve in (True, False):
        for index, warp_class in enumerate(classes):
            count = len(warp_class.warps) // 2 if halve else len(warp_class.warps) - 1
            if count:
                fewer = replace(warp_class, warps=warp_class.warps[:count])
                yield _with_classes(case, (*classes[:index], fewer, *classes[index + 1 :]))


def _with_classes(case: Case, classes: tuple[WarpClass, ...]) -> Case:
    """Returns the case with these classes; warps are numbered from 0 again, in their old order."""
    order = sorted(warp for c in classes for warp in c.warps)
    number = {warp: index for index, warp in enumerate(order)}
    renumbered = tuple(
        WarpClass(c.program, tuple(number[warp] for warp in c.warps)) for c in classes
    )
    return replace(case, workload=BlockWorkload(renumbered, case.workload.scoreboard))


def _smaller_programs(case: Case) -> Iterator[Case]:
    classes = case.workload.classes
    for index, own in enumerate(classes):
        for body in _simpler(own.program.body):
            changed = replace(own, program=WarpProgram(body))
            smaller = (*classes[:index], changed, *classes[index + 1 :])
            yield replace(case, workload=BlockWorkload(smaller, case.workload.scoreboard))


def _fewer_barriers(case: Case) -> Iterator[Case]:
    """Yields cases without barrier k of each program: classes must agree on their barriers."""
    classes = case.workload.classes
    for k in range(max(_barriers(c.program.body) for c in classes)):
        dropped = tuple(
            replace(c, program=WarpProgram(_without_barrier(c.program.body, [k]))) for c in classes
        )
        yield replace(case, workload=BlockWorkload(dropped, case.workload.scoreboard))


def _barriers(body: Body) -> int:
    return sum(
        _barriers(node.body) if isinstance(node, Repeat) else isinstance(node, Barrier)
        for node in body
    )


def _without_barrier(body: Body, left: list[int]) -> Body:
    """Returns the body without the barrier that ``left[0]`` others precede."""
    out: list[Node] = []
    for node in body:
        if isinstance(node, Barrier):
            left[0] -= 1
            if left[0] == -1:
                continue
        elif isinstance(node, Repeat):
            node = Repeat(node.count, _without_barrier(node.body, left))
        out.append(node)
    return tuple(out)


def _simpler(body: Body) -> Iterator[Body]:
    """Yields bodies with a run of nodes dropped, longest first; then with one node simpler."""
    size = len(body) // 2 if len(body) > 1 else len(body)
    while size:
        for begin in range(0, len(body), size):
            yield body[:begin] + body[begin + size :]
        size //= 2
    for index, node in enumerate(body):
        for nodes in _simpler_node(node):
            yield (*body[:index], *nodes, *body[index + 1 :])


def _simpler_node(node: Node) -> Iterator[Body]:
    match node:
        case Repeat(count=count, body=body):
            yield body
            for fewer in dict.fromkeys((2, count // 2, count - 1)):
                if 0 < fewer < count:
                    yield (Repeat(fewer, body),)
            for inner in _simpler(body):
                yield (Repeat(count, inner),)
        case Barrier(instruction=instruction):
            for simpler in _simpler_instruction(instruction):
                yield (replace(node, instruction=simpler),)
        case TimedInstruction():
            for simpler in _simpler_instruction(node):
                yield (simpler,)
        case _:
            return


def _simpler_instruction(instruction: TimedInstruction) -> Iterator[TimedInstruction]:
    for initiation in _smaller(instruction.initiation_cycles, 1):
        yield replace(instruction, initiation_cycles=initiation)
    for latency in _smaller(instruction.latency_cycles, 0):
        yield replace(instruction, latency_cycles=latency)
    for path in _smaller(instruction.path_cycles, 0):
        yield replace(instruction, path_cycles=path)
    for sectors in _smaller(instruction.sectors, 0):
        yield replace(instruction, sectors=sectors)
    for bubble in _smaller(instruction.bubble_cycles, 0):
        yield replace(instruction, bubble_cycles=bubble)
    for name in instruction.reads:
        yield replace(instruction, reads=tuple(r for r in instruction.reads if r != name))
    for name in instruction.writes:
        yield replace(instruction, writes=tuple(w for w in instruction.writes if w != name))
    if instruction.conditional:
        yield replace(instruction, conditional=False)


def _smaller(value: int, least: int) -> Iterator[int]:
    yield from dict.fromkeys(
        n for n in (least, (value + least) // 2, value - 1) if least <= n < value
    )


# --- texts ----------------------------------------------------------------------------------------


def shrink_text(text: str, remains: Callable[[str], bool]) -> str:
    """Deletes instructions, many at once and then individually, while ``remains`` holds.

    Labels and declarations stay. Cost: at most :data:`MOST_TRIES` calls of ``remains``.
    """
    lines = text.splitlines()
    tries = 0
    size = max(len(lines) // 4, 1)
    while True:
        start = len(lines) - size
        removed = False
        while start > -size and tries < MOST_TRIES:
            chosen = {
                place
                for place in range(max(start, 0), min(start + size, len(lines)))
                if _is_deletable(lines[place])
            }
            start -= size
            if not chosen:
                continue
            kept = [line for place, line in enumerate(lines) if place not in chosen]
            tries += 1
            if remains("\n".join(kept) + "\n"):
                lines = kept
                removed = True
        if tries >= MOST_TRIES or (size == 1 and not removed):
            return "\n".join(lines) + "\n"
        if not removed or size > 1:
            size = max(size // 2, 1)


def _is_deletable(line: str) -> bool:
    """Returns whether a line is an instruction."""
    line = line.strip()
    return line.endswith(";") and not line.startswith((".", "//")) and "ld.param" not in line
