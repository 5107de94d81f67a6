"""What a warp did and waited for, as a linked list: alternatives share what they have in common.

A repeat says how many times more everything behind an earlier entry happened; nothing is unrolled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ptxwcet.timing.compilation import Straight


class CycleParts(NamedTuple):
    """Cycles of a warp's isolated run that one instruction is charged."""

    issue: int = 0
    result: int = 0
    unit: int = 0

    @property
    def total(self) -> int:
        """The sum of the three parts."""
        return self.issue + self.result + self.unit


class Issued(NamedTuple):
    """All instructions of a straight piece were issued once."""

    before: Log
    piece: Straight


class Waited(NamedTuple):
    """Cycles spent on the result of ``origin``, and on the queue that it stood in."""

    before: Log
    origin: int
    result: int
    unit: int


class Again(NamedTuple):
    """What happened after ``since`` happened again, ``times`` times."""

    before: Log
    since: Log
    times: int


Log = Issued | Waited | Again | None


def fold_log(log: Log) -> tuple[dict[int, CycleParts], dict[int, int]]:
    """Cycles and executions by origin. Cost: linear in the log."""
    pieces: dict[int, tuple[Straight, int]] = {}
    waits: dict[int, tuple[int, int]] = {}
    open_repeats: list[tuple[Log, int]] = []
    weight = 1
    while log is not None:
        while open_repeats and open_repeats[-1][0] is log:
            weight = open_repeats.pop()[1]
        match log:
            case Issued(_, piece):
                pieces[id(piece)] = (piece, pieces.get(id(piece), (piece, 0))[1] + weight)
            case Waited(_, origin, result, unit):
                before = waits.get(origin, (0, 0))
                waits[origin] = (before[0] + weight * result, before[1] + weight * unit)
            case Again(_, since, times):
                open_repeats.append((since, weight))
                weight *= 1 + times
        log = log.before
    issues, executions = _issues(pieces.values())
    parts = {
        origin: CycleParts(issues.get(origin, 0), *waits.get(origin, (0, 0)))
        for origin in issues.keys() | waits.keys()
    }
    return parts, executions


def _issues(pieces: Iterable[tuple[Straight, int]]) -> tuple[dict[int, int], dict[int, int]]:
    """Cycles of issue and executions by origin.

    An unknown opcode is one step on each unit: an instruction is executed as often as on any one.
    """
    cycles: dict[int, int] = {}
    steps: dict[tuple[int, int], int] = {}
    for piece, times in pieces:
        for step, origin in zip(piece.steps, piece.origins, strict=True):
            cycles[origin] = cycles.get(origin, 0) + times * step[6]
            steps[origin, step[2]] = steps.get((origin, step[2]), 0) + times
    executions: dict[int, int] = {}
    for (origin, _unit), times in steps.items():
        executions[origin] = max(executions.get(origin, 0), times)
    return cycles, executions
