"""A witness: a violation on a small case with the schedule that shows it, as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.simulator.run import SimulatedRun
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.records import dataclass
from ptxwcet.validate.cases import Case, Plan, shortened
from ptxwcet.validate.checks import Bounds, Check, Violation, check_case
from ptxwcet.validate.shrink import shrink
from ptxwcet.warp.program import (
    Barrier,
    Node,
    PartialBarrier,
    Repeat,
    TimedInstruction,
)

_MOST_EVENTS = 60


@dataclass(frozen=True)
class Witness:
    """``violation`` of ``case``; ``issues`` are the warps in the order in which they issue.

    ``run`` has the dispatches, if the schedule is a policy's; ``decisions`` are the adversary's
    (:meth:`Simulator.run_script`), if it is one of its.
    """

    case: Case
    violation: Violation
    issues: tuple[int, ...]
    run: SimulatedRun | None = None
    decisions: tuple[int, ...] = ()

    def diagnostic(self) -> Diagnostic:
        """PW535 with the witness as notes."""
        return Diagnostic(
            "PW535",
            f"a bound is contradicted: {self.violation}",
            notes=tuple(self.lines()),
            help="please report this with the input",
        )

    def lines(self) -> Iterator[str]:
        """The witness line by line: machine, programs, schedule."""
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
    """A program in the notation of the docs: ``B(3,0)->r1 ; 5 x [A(2,0) reads r2]``."""
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
    """A small witness of a violation that ``plan`` shows on ``case``.

    Only the part of the plan that shows it is repeated while shrinking. Cost: at most about
    ``seconds``, and one run of the plan.
    """
    narrow = _narrowed(plan, violation)

    def persists(candidate: Case) -> bool:
        # a block without instructions shows nothing, even if a broken bound fails on it
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
    """The violation of the same check and run on another case."""
    for found in check_case(case, plan, bounds).violations:
        if found.check is violation.check and found.run == violation.run:
            return found
    return None


def _narrowed(plan: Plan, violation: Violation) -> Plan:
    """The part of a plan that shows the violation."""
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
