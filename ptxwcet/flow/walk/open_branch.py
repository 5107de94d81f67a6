"""What a walk has not decided: open branches and their sides, loops that lanes may leave early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np

from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import Cause, Condition, Mask, Value
from ptxwcet.flow.walk.path import (
    Departure,
    Path,
    PathNode,
    PathPart,
    Visit,
    close_symbol,
    visited_blocks,
)
from ptxwcet.flow.walk.standing import Reach, Standing
from ptxwcet.support.records import dataclass

# A loop is followed iteration by iteration if a value with so few possibilities decides its end.
_FEW_VALUES = 256


@dataclass(frozen=True, slots=True)
class OpenBranch:
    """A branch that is not decided: where it leads with which lanes, why, and who agrees on it."""

    block: int
    taken: tuple[int, Mask]
    fallthrough: tuple[int, Mask]
    causes: frozenset[Cause]
    agreement: Agreement = Agreement.NONE
    condition: Condition | None = None
    if_race_free: bool = False
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """One of the two ways behind a branch that all lanes of the warp, or of a part of it, take."""

    sides: OpenBranch
    taken: bool

    @property
    def visit(self) -> PathNode:
        """How the block of the branch is visited."""
        block = self.sides.block
        if self.sides.is_part:
            return PathPart(block, (), (), jumps=True)
        return Visit(block, self.taken)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A fixed symbol and what stands for it on a side of a branch: ``old = new + first``."""

    old: Symbol
    new: Symbol
    first: int


@dataclass(frozen=True, slots=True)
class Side:
    """A walked side of an open branch: path, lanes that may start and arrive, state at its end."""

    path: Path
    mask: Mask
    arrived: Mask
    registers: dict[str, Value]
    alive: Mask
    standing: Standing

    @property
    def is_certain(self) -> bool:
        """Whether a warp that takes the side arrives at its end."""
        return self.standing.reach is not Reach.PERHAPS and bool(np.count_nonzero(self.arrived))

    @property
    def may_have_ended(self) -> bool:
        """Whether no lane is left of those that took it."""
        return not np.count_nonzero(self.mask & self.alive)


# For each way out the passes in which it is taken, and where.
_Pass = tuple[str, int, int]
_WaysOut = dict[Path, dict[tuple[_Pass, Departure], None]]
_Noted = tuple[_WaysOut, dict[tuple[int, Path], None]]


class OpenLoop:
    """A loop that is being walked; ``note`` collects the ways out that lanes may take early.

    ``depth`` and ``chosen`` count the sides of branches around it: of some lanes, of all. ``left``
    has the lanes that may have left by the block where they meet the others; ``agree``: all warps
    of the block leave together.
    """

    def __init__(self, loop: Loop, depth: int, chosen: int) -> None:
        self.loop = loop
        self.depth = depth
        self.chosen = chosen
        self.agree = True
        self.if_race_free = False
        self.left: dict[int, Mask] = {}
        self.late: dict[tuple[int, Path], None] = {}
        self.behind: dict[int, set[int]] = {}  # blocks that those execute before they wait there
        self.sources: set[int] = set()
        self.ways_out: _WaysOut = {}
        self._pass: _Pass = ("", 0, 0)
        self.causes: frozenset[Cause] = frozenset()
        self.end: Path | None = None  # what lanes execute that leave it for the kernel's end
        self.entered = Standing(reach=Reach.PERHAPS), 0  # who comes to it, after how many endings
        self.begun = self.lanes = 0  # steps before this entry, and the most lanes of a warp in it
        self.narrowed: list[Narrowed] = []  # what holds of lanes that stay, not of those that left
        self.shrinks = False  # what decides a way out has fewer values in each iteration
        self._values = 0
        self.undecided: tuple[int, frozenset[Cause]] | None = None
        self.remaining: int | None = None  # iterations that the user's bound leaves

    def begin(self, before: str, period: int = 0, number: int = 0) -> None:
        """Begins the pass after ``before`` others, or one of those that a proof begun in it makes:
        the one with this ``number`` in each ``period``.
        """
        self._pass = (before, period, number)

    def begin_again(self, period: int, number: int) -> None:
        """Begins a pass of a proof."""
        self.begin(self._pass[0], period, number)

    def note(
        self,
        way_out: tuple[Path, Departure],
        behind: Path,
        place: tuple[int, Mask],
        undecided: tuple[int, frozenset[Cause]],
    ) -> None:
        """Notes that lanes may execute ``behind`` and then wait at a ``place`` for the others.

        ``way_out`` is all that they execute in the pass, and where they leave it.
        """
        meeting, left = place
        self.behind.setdefault(meeting, set()).update(visited_blocks(behind))
        self.left[meeting] = self.left[meeting] | left if meeting in self.left else left.copy()
        self.undecided = undecided
        self.causes |= undecided[1]
        way, departure = way_out
        self.ways_out.setdefault(way, {})[self._pass, departure] = None

    def taken_in(self, ways: Collection[Path]) -> tuple[tuple[Departure, ...], ...]:
        """What tells ways out from one another: where they leave, and in which passes if several
        leave at the same place. A way that was not noted is decided and has nothing.
        """
        noted = [self.ways_out.get(way, {}) for way in ways]
        places = Counter(place for one in self.ways_out.values() for place in {p for _, p in one})
        return tuple(
            tuple(
                dict.fromkeys(
                    (number, *place) if places[place] > 1 else place for number, place in passings
                )
            )
            for passings in noted
        )

    def look(self, narrowed: Narrowed | None) -> None:
        """Notes whether the values that stay in the loop are soon used up."""
        if narrowed is None:
            self.shrinks = False
            return
        self.narrowed.append(narrowed)
        values = narrowed.new.last + 1
        self.shrinks = values <= _FEW_VALUES or 2 * values <= self._values + 1 or not self._values
        self._values = values

    @property
    def few_left(self) -> int:
        """The values that stay in the loop, if they are so few that it is followed; else 0."""
        return self._values if self.shrinks and self._values <= _FEW_VALUES else 0

    def noted(self) -> _Noted:
        """What has been noted so far."""
        return {way: dict(passes) for way, passes in self.ways_out.items()}, dict(self.late)

    def forget_but(self, noted: _Noted) -> None:
        """Forgets what was noted since :meth:`noted`."""
        self.ways_out = {way: dict(passes) for way, passes in noted[0].items()}
        self.late = dict(noted[1])

    def close(self, counter: Symbol) -> None:
        """Removes the number of an iteration from what was noted in it."""
        closed: _WaysOut = {}
        for way, passes in self.ways_out.items():
            closed.setdefault(close_symbol(way, counter), {}).update(passes)
        self.ways_out = closed
        self.late = {(place, close_symbol(way, counter)): None for place, way in self.late}
