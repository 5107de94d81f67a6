"""What is under way in shared memory: asynchronous copies, and who is behind which barrier."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ptxwcet.emulator.launch import Array


class AsyncCopies:
    """Destinations of copies that the issuing warp has not waited for, group by group.

    The data are there at once; a byte counts as under way until its warp has waited for the group.
    """

    def __init__(self, size: int, warps: int) -> None:
        self._under_way = np.zeros(size, dtype=np.uint8)
        self._open: list[list[Array]] = [[] for _ in range(warps)]
        self._groups: list[list[list[Array]]] = [[] for _ in range(warps)]
        self.count = 0

    def forget(self) -> None:
        """At the start of a block nothing is under way."""
        self._under_way.fill(0)
        self._open = [[] for _ in self._open]
        self._groups = [[] for _ in self._groups]
        self.count = 0

    def begin(self, warp: Array, cells: Array) -> None:
        """Copies to the bytes ``cells``, a row a lane, by the warps of the lanes."""
        self._under_way[cells] = 1
        for number in np.unique(warp).tolist():
            self._open[number].append(cells[warp == number])
            self.count += 1

    def commit(self, warps: Iterable[int]) -> None:
        """The copies since the last commit are a group."""
        for warp in warps:
            self._groups[warp].append(self._open[warp])
            self._open[warp] = []

    def wait(self, warps: Iterable[int], left: int, *, also_open: bool) -> None:
        """All but the ``left`` youngest groups are over; with ``also_open`` the open one too."""
        for warp in warps:
            groups = self._groups[warp]
            over = groups[: max(len(groups) - left, 0)]
            del groups[: len(over)]
            if also_open:
                over.append(self._open[warp])
                self._open[warp] = []
            for group in over:
                for cells in group:
                    self._under_way[cells] = 0
                    self.count -= 1

    def touched(self, cell: Array, size: int) -> Array:
        """Flags of the accesses of ``size`` bytes that meet a copy under way."""
        hit = np.zeros(cell.shape, dtype=bool)
        for byte in range(size):
            hit |= self._under_way[cell + byte] != 0
        return hit


class MemoryBarriers:
    """What those know who find a phase of a barrier in memory over."""

    def __init__(self) -> None:
        self._arriving: dict[int, Array] = {}
        self._over: dict[int, Array] = {}

    def forget(self) -> None:
        """At the start of a block nobody has arrived."""
        self._arriving.clear()
        self._over.clear()

    def arrive(self, place: int, released: Array, *, is_over: bool) -> None:
        """An arrival at the object at ``place``, which may end the phase."""
        known = self._arriving.get(place)
        known = released if known is None else np.maximum(known, released)
        self._arriving[place] = known
        if is_over:
            self._over[place] = known

    def known(self, place: int) -> Array | None:
        """What the last phase that is over released."""
        return self._over.get(place)
