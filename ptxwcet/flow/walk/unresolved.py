"""What a walk has not resolved: branches and their sides, loops that lanes may leave early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import reduce

import numpy as np

from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import Cause, Condition, Mask, Value
from ptxwcet.flow.walk.path import (
    Departure,
    Path,
    chosen_by_parts,
    close_symbol,
    visited_blocks,
)
from ptxwcet.flow.walk.reachability import Reach, Reachability
from ptxwcet.support.records import dataclass

# A loop is followed iteration by iteration if a value with so few possibilities decides its end.
_FEW_VALUES = 256


@dataclass(frozen=True, slots=True)
class Way:
    """A way on from a branch: the block that it leads to, and the lanes that may go there.

    ``nodes`` are executed before it, after what is recorded so far. ``taken``: it is that of lanes
    in which the branch's condition holds.
    """

    target: int
    mask: Mask
    nodes: Path = ()
    taken: bool = True


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch, or the exits of a loop, of which it is not known who goes on which of its ways.

    ``agreement`` says who takes it alike, ``if_race_free``: if the kernel has no data races.
    ``by_parts``: each part of a warp that has diverged for good takes it as a whole. ``reach`` is
    that of each way. ``site``, if it is not the block, stands for the branch where the whole block
    takes it alike. ``lane_by_lane``: it is followed as if each lane went its own way, though a warp
    takes it as a whole. A way that leaves the loop around is one of the loop's ways out, or else
    refused as ``stray``.
    """

    block: int
    ways: tuple[Way, ...]
    causes: frozenset[Cause]
    agreement: Agreement = Agreement.NONE
    condition: Condition | None = None
    if_race_free: bool = False
    by_parts: bool = False
    reach: Reach = Reach.ON_SIDE
    site: int | None = None
    lane_by_lane: bool = False
    stray: Exception | None = None

    @property
    def is_by_warp(self) -> bool:
        """Whether all lanes of the warp, or of a part of it, are followed on one way at a time."""
        return bool(self.agreement) and not self.lane_by_lane

    @property
    def everyone(self) -> Mask:
        """The lanes that come to the branch."""
        return reduce(np.logical_or, [way.mask for way in self.ways])

    def before(self, way: Way) -> Path:
        """Returns what the warp, or any part of it, executes before a way."""
        return (chosen_by_parts(self.block),) if self.by_parts else way.nodes

    def split(self, target: int) -> tuple[Way, Way]:
        """Returns the way of a two-way branch that leads to a block, and the other one."""
        first, second = self.ways
        return (first, second) if first.target == target else (second, first)


@dataclass(frozen=True, slots=True)
class Assumed:
    """A fixed symbol and what stands for it on a side of a branch: ``old = new + first``."""

    old: Symbol
    new: Symbol
    first: int


@dataclass(frozen=True, slots=True)
class Side:
    """A way that was walked: its path, the lanes that arrive at its end, and the state there."""

    way: Way
    path: Path
    arrived: Mask
    registers: dict[str, Value]
    alive: Mask
    reachability: Reachability

    @property
    def arrives(self) -> bool:
        """Whether lanes arrive at its end."""
        return bool(np.count_nonzero(self.arrived))

    @property
    def is_whole(self) -> bool:
        """Whether all lanes that start arrive at its end."""
        return not np.count_nonzero(self.way.mask & ~self.arrived)

    @property
    def is_certain(self) -> bool:
        """Whether a warp that takes the side arrives at its end."""
        return self.reachability.reach is not Reach.PERHAPS and self.arrives

    @property
    def may_have_ended(self) -> bool:
        """Whether no lane is left of those that took it."""
        return not np.count_nonzero(self.way.mask & self.alive)


# For each way out the passes in which it is taken, and where.
_Pass = tuple[str, int, int]
_WaysOut = dict[Path, dict[tuple[_Pass, Departure], None]]
_Noted = tuple[_WaysOut, dict[tuple[int, Path], None]]


@dataclass(frozen=True, slots=True)
class Exit:
    """A way out of a loop: what of the last pass is executed, and where it leaves for where."""

    path: Path
    block: int
    taken: bool
    target: int


class OpenLoop:
    """A loop that is being walked; ``note`` collects the ways out that lanes may take early.

    ``depth`` and ``chosen`` count the sides of branches around it: of some lanes, of all. ``left``
    has the lanes that may have left by the block where they meet the others; ``agreement`` says who
    leaves together. Of a loop that runs as often as is claimed all ``exits`` are recorded in one
    iteration; ``by_parts``: there each part of a warp that has diverged for good leaves for itself.
    """

    def __init__(self, loop: Loop, depth: int, chosen: int) -> None:
        self.loop = loop
        self.depth = depth
        self.chosen = chosen
        self.agreement = Agreement.BLOCK
        self.exits: list[Exit] | None = None
        self.by_parts = False
        self.if_race_free = False
        self.left: dict[int, Mask] = {}
        self.late: dict[tuple[int, Path], None] = {}
        self.behind: dict[int, set[int]] = {}  # blocks that those execute before they wait there
        self.sources: set[int] = set()
        self.ways_out: _WaysOut = {}
        self._pass: _Pass = ("", 0, 0)
        self.end: Path | None = None  # what lanes execute that leave it for the kernel's end
        self.entered = (
            Reachability(reach=Reach.PERHAPS),
            0,
        )  # who comes to it, after how many endings
        self.begun = self.lanes = 0  # steps before this entry, and the most lanes of a warp in it
        self.assumed: list[Assumed] = []  # what holds of lanes that stay, not of those that left
        self.shrinks = False  # what decides a way out has fewer values in each iteration
        self._values = 0
        self.undecided: tuple[int, frozenset[Cause]] | None = None
        self.remaining: int | None = None  # iterations that the user's bound leaves

    @property
    def agree(self) -> bool:
        """Whether all warps of the block leave together."""
        return self.agreement is Agreement.BLOCK

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
        way, departure = way_out
        self.ways_out.setdefault(way, {})[self._pass, departure] = None

    def taken_in(self, ways: Collection[Path]) -> tuple[tuple[Departure, ...], ...]:
        """Returns what tells ways out from one another: where they leave, and in which passes if
        several leave at the same place. A way that was not noted is decided and has nothing.
        """
        noted = [self.ways_out.get(way, {}) for way in ways]
        places = Counter(p for ways in self.ways_out.values() for p in {place for _, place in ways})
        return tuple(
            tuple(
                dict.fromkeys(
                    (number, *place) if places[place] > 1 else place for number, place in passings
                )
            )
            for passings in noted
        )

    def note_assumed(self, assumed: Assumed | None) -> None:
        """Notes whether the values that stay in the loop are soon used up."""
        if assumed is None:
            self.shrinks = False
            return
        self.assumed.append(assumed)
        values = assumed.new.last + 1
        self.shrinks = values <= _FEW_VALUES or 2 * values <= self._values + 1 or not self._values
        self._values = values

    @property
    def few_left(self) -> int:
        """The values that stay in the loop, if they are so few that it is followed; else 0."""
        return self._values if self.shrinks and self._values <= _FEW_VALUES else 0

    def noted(self) -> _Noted:
        """Returns what has been noted so far."""
        return {way: dict(passes) for way, passes in self.ways_out.items()}, dict(self.late)

    def keep_only(self, noted: _Noted) -> None:
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
