"""Tracks asynchronous copies in flight: from their start until a wait that covers them.

The data are copied at the start, and the bytes are marked in the state of the memory: target bytes
(``INCOMING``) must be neither read nor written, source bytes (``OUTGOING``) not written, before the
wait. Groups are numbered for each thread and family; the number of the open group is the count of
committed groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.support.records import dataclass

INCOMING, OUTGOING = 4, 8
_THREADS = 1024
ONES = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}
"""A number with a 1 in each byte, by its size in bytes."""
BarrierPhase = tuple[int, int]
"""An mbarrier object by its arena index, and the parity of its phase."""


@dataclass(frozen=True, slots=True)
class Copy:
    """The copies of one instruction, one row per thread.

    ``family`` is ``thread`` (cp.async) or ``bulk``; ``source`` and ``target`` are arena indices in
    units of ``unit`` bytes, 0 for bytes that are not read. ``phase`` waits for it if no group does.
    """

    family: str
    lanes: Array
    groups: Array
    unit: int
    source: Array
    target: Array
    phase: BarrierPhase | None = None

    def rows(self, flags: Array) -> Copy:
        """Returns the copies of the threads that have a flag."""
        return replace(
            self,
            lanes=self.lanes[flags],
            groups=self.groups[flags],
            source=self.source[flags],
            target=self.target[flags],
        )


class PendingCopies:
    """The copies in flight; the marks are in ``states``, the memory's state by width."""

    def __init__(self, states: Mapping[int, Array]) -> None:
        self._states = states
        self.copies: list[Copy] = []
        self._open: dict[str, Array] = {}
        self.clear()

    def clear(self) -> None:
        """Forgets all copies in flight and all groups."""
        for copy in self.copies:
            self._mark(copy, False)
        self.copies = []
        self._open = {name: np.zeros(_THREADS, dtype=np.int64) for name in ("thread", "bulk")}

    def open_groups(self, family: str, lanes: Array) -> Array:
        """Returns the numbers of the groups that the threads would commit next."""
        return self._open[family][lanes]

    def add(self, copy: Copy) -> None:
        """Starts copies: their bytes are marked until they end."""
        self.copies.append(copy)
        self._mark(copy, True)

    def commit(self, family: str, lanes: Array) -> None:
        """Commits the copies of the threads since their last commit as a group."""
        self._open[family][lanes] += 1

    def wait(self, family: str, lanes: Array, allowed: int) -> list[Copy]:
        """Ends each thread's groups except the last ``allowed``; returns the ended copies."""
        limit = np.full(_THREADS, -1, dtype=np.int64)
        limit[lanes] = self._open[family][lanes] - allowed
        return self._end(
            lambda copy: (copy.groups < limit[copy.lanes]) & _is(copy, family)  # commit order
        )

    def release_sources(self, lanes: Array, allowed: int) -> None:
        """Executes ``wait_group.read`` of bulk copies: their sources may be written again."""
        limit = np.full(_THREADS, -1, dtype=np.int64)
        limit[lanes] = self._open["bulk"][lanes] - allowed
        read = self._end(lambda copy: (copy.groups < limit[copy.lanes]) & _is(copy, "bulk"))
        for copy in read:
            self.add(replace(copy, source=np.zeros_like(copy.source)))

    def hand_over(self, lanes: Array, phase: BarrierPhase) -> None:
        """Executes ``cp.async.mbarrier.arrive``: a phase now waits for the threads' copies."""
        chosen = np.zeros(_THREADS, dtype=bool)
        chosen[lanes] = True
        moved = self._end(lambda copy: chosen[copy.lanes] & _is(copy, "thread"))
        for copy in moved:
            self.add(replace(copy, phase=phase))

    def finish(self, phase: BarrierPhase) -> list[Copy]:
        """Ends the copies of a phase that was waited for, and returns them."""
        return self._end(lambda copy: np.full(len(copy.lanes), copy.phase == phase))

    def _end(self, ended: Callable[[Copy], Array]) -> list[Copy]:
        done, rest = [], []
        for copy in self.copies:
            flags = ended(copy)
            if not flags.any():
                rest.append(copy)
            elif flags.all():
                done.append(copy)
            else:
                done.append(copy.rows(flags))
                rest.append(copy.rows(~flags))
        for copy in done:
            self._mark(copy, False)
        self.copies = rest
        if done:
            for copy in rest:  # bytes that several copies touch stay marked
                self._mark(copy, True)
        return done

    def _mark(self, copy: Copy, on: bool) -> None:
        states = self._states[copy.unit]
        for places, mark in ((copy.target, INCOMING), (copy.source, OUTGOING)):
            bits = states.dtype.type(mark * ONES[copy.unit])
            states[places] = states[places] | bits if on else states[places] & ~bits


def _is(copy: Copy, family: str) -> bool:
    return copy.family == family and copy.phase is None
