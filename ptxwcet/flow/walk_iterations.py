"""The iterations of one entry of a loop, as they are found, and the path that they make."""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.flow.facts import BoundOrigin
from ptxwcet.flow.loops import Loop
from ptxwcet.flow.paths import (
    AffineCount,
    Path,
    PathChoice,
    PathNode,
    PathRepeat,
    Together,
    grows,
    loop_entries,
)
from ptxwcet.flow.values import Mask
from ptxwcet.flow.walk_open import OpenLoop


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a loop by the lanes ``mask``, on the way to the block ``stop``."""

    loop: Loop
    mask: Mask
    stop: int | None


@dataclass(frozen=True, slots=True)
class Claim:
    """At most ``most`` executions of a loop's body an entry: the user says so, or a variant."""

    most: int
    origin: BoundOrigin = BoundOrigin.USER
    reason: str = "--loop-bound"


@dataclass(frozen=True, slots=True)
class Summary:
    """``count`` times ``period`` iterations, each time along ``nodes``, and why."""

    nodes: Path
    count: AffineCount
    period: int
    reason: str


class Iterations:
    """Iterations of one loop entry, run-length encoded; ``last`` is the final, partial one."""

    def __init__(self) -> None:
        self._runs: list[tuple[Path, AffineCount]] = []
        self.total = AffineCount(0)
        self.last: Path = ()
        self.is_stopped = False

    def add(self, nodes: Path, count: AffineCount, period: int) -> None:
        """Adds ``count`` times ``period`` iterations, each time along ``nodes``."""
        self.total = self.total.plus(count.times(period))
        if self._runs and self._runs[-1][0] == nodes and not grows(nodes):
            count = self._runs.pop()[1].plus(count)
        self._runs.append((nodes, count))

    def bodies(self, loop: int, *, rotated: bool) -> AffineCount:
        """Executions of the loop body: a loop that tests at its end runs it once more.

        Lanes that stay longer than others go on in a nested entry of the same loop.
        """
        nested = next((node for node in loop_entries(self.last) if node.loop == loop), None)
        total = self.total.plus(AffineCount(1 if rotated or nested is not None else 0))
        return total if nested is None else total.plus(nested.iterations)

    def path(self, opened: OpenLoop) -> Path:
        """The iterations and the last one; where ways out were noted, any of them may end it."""
        nodes: list[PathNode] = []
        ways_out = tuple(opened.ways_out)
        site = opened.loop.header if opened.agree else None
        together = Together(opened.loop.header, if_race_free=opened.if_race_free)
        for body, count in self._runs:
            if ways_out:
                why = together if opened.agree else None
                nodes.append(PathRepeat(count, AffineCount(0), body, why))
            elif count == AffineCount(1):
                nodes += body
            else:
                nodes.append(PathRepeat(count, count, body))
        if not ways_out:
            return (*nodes, *self.last)
        is_last = not self.is_stopped or bool(self.last)
        ends = (self.last, *ways_out) if is_last else ways_out
        return (*nodes, PathChoice(ends, site, opened.if_race_free))


def is_rotated(loop: Loop, apart_from: set[int]) -> bool:
    """Whether the loop is left only from blocks that also jump back: its test is at the end."""
    return all(source in loop.latches for source, _ in loop.exits if source not in apart_from)
