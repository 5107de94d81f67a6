"""The isolated run of one warp, instruction by instruction, from the model's rules 1-3 and 7."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ptxwcet.warp.program import Barrier, PartialBarrier, Scoreboard, TimedInstruction


class IssueRecord(NamedTuple):
    """When an instruction of an isolated run issues and dispatches, and its results are ready."""

    issue: int
    dispatch: int
    ready: int


def trace_issue(
    instructions: Iterable[TimedInstruction | Barrier | PartialBarrier], scoreboard: Scoreboard
) -> list[IssueRecord]:
    """The isolated run of an explicit instruction sequence, instruction by instruction.

    Written apart from the profile engine, from the model's rules 1-3 and 7. Cost: linear.
    """
    ready: dict[str, int] = {}
    free: dict[str, int] = {}
    records: list[IssueRecord] = []
    earliest = 0
    for node in instructions:
        instruction = node if isinstance(node, TimedInstruction) else node.instruction
        waits = instruction.reads
        if scoreboard is Scoreboard.RAW_WAW:
            waits += instruction.writes
        issue = max([earliest, *[ready.get(name, 0) for name in waits]])
        dispatch = max(issue, free.get(instruction.unit, 0))
        free[instruction.unit] = dispatch + instruction.initiation_cycles
        done = free[instruction.unit] + instruction.latency_cycles
        for name in instruction.writes:
            ready[name] = max(done, ready.get(name, 0)) if instruction.conditional else done
        records.append(IssueRecord(issue, dispatch, done))
        earliest = issue + 1 + instruction.bubble_cycles
    return records
