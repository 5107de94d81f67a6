"""Holds the memory of a run: an array of bytes, and a second array with the state of each byte.

Global buffers, module variables, kernel parameters, the shared memory of the running block and the
local memory of its threads are in one arena with unallocated gaps between them, so a generic
address is an arena index plus ``BASE``. Memory: two bytes per byte of data, and for each byte of
shared memory the data of :mod:`ptxwcet.emulator.races`.
"""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.pending import PendingCopies
from ptxwcet.emulator.races import EpochRaces, Races

BASE = 0x7000_0000_0000
GAP = 256
LOCAL_GAP = 64
ALLOCATED, INITIALISED = 1, 3
NOWHERE = -(1 << 40)
"""The index of an address outside the memory of its space."""


class Arena:
    """The bytes and their state.

    A state has bits: 1 allocated, 2 initialised, and the bits of :mod:`ptxwcet.emulator.pending`.
    """

    def __init__(self) -> None:
        self._chunks: list[tuple[int, int, bytes | None]] = []
        self._end = GAP
        self.shared = 0
        self.shared_end = 0
        self.local = 0
        self.local_size = 0  # bytes per thread, including LOCAL_GAP unallocated bytes
        self.local_end = 0
        self.constant: list[tuple[int, int]] = []  # first and last index + 1 of each variable
        self.parameters: list[tuple[int, int]] = []  # of the kernel
        self.allocations: list[tuple[int, int, str]] = []  # first and last index + 1, name
        self.races: Races = EpochRaces(0, 1)

    def reserve(self, size: int, data: bytes | None, name: str = "") -> int:
        """Returns the arena index of ``size`` new bytes, uninitialised if ``data`` is None."""
        start = self._end
        self._chunks.append((start, size, data))
        if name:
            self.allocations.append((start, start + size, name))
        self._end = (start + size + GAP + 255) // 256 * 256
        return start

    def build(self) -> None:
        """Lays out the reserved memory. Cost: linear in the bytes."""
        self.bytes = np.zeros(self._end, dtype=np.uint8)
        self.state = np.zeros(self._end, dtype=np.uint8)
        for start, size, data in self._chunks:
            self.state[start : start + size] = ALLOCATED if data is None else INITIALISED
            if data is not None:
                self.bytes[start : start + size] = np.frombuffer(data, dtype=np.uint8)
        self.views = {n: self.bytes.view(f"u{n}") for n in (1, 2, 4, 8)}
        self.states = {n: self.state.view(f"u{n}") for n in (1, 2, 4, 8)}
        if self.local_size:
            stride = np.arange(self.local_end - self.local) % self.local_size
            self.state[self.local : self.local_end][stride >= self.local_size - LOCAL_GAP] = 0
        self.pending = PendingCopies(self.states)

    def start_block(self) -> None:
        """Marks shared and local memory as uninitialised and without accesses."""
        self.pending.clear()
        for start, end in ((self.shared, self.shared_end), (self.local, self.local_end)):
            self.bytes[start:end] = 0
            self.state[start:end] &= ALLOCATED
        self.forget_accesses()

    def forget_accesses(self) -> None:
        """Forgets earlier accesses, which cannot race after a barrier of the block."""
        self.races.forget()

    def read(self, start: int, size: int) -> bytes:
        """Returns a copy of ``size`` bytes."""
        return self.bytes[start : start + size].tobytes()

    def index(self, address: Array, space: str, lanes: Array) -> Array:
        """Returns arena indices (int64) of addresses of a space, for the given lanes.

        ``NOWHERE`` for an address outside its thread's local memory, or a global one in the windows
        of shared and local memory.
        """
        index: Array = address.astype(np.int64)
        if space == "shared":
            index += self.shared
            return index
        if space == "const" and self.constant:
            index += self.constant[0][0]
            return index
        if space == "local":
            return self._private(index, lanes)
        index -= BASE
        if space == "global":
            other = (index >= self.shared) & (index < self.local_end)
            return np.where(other, NOWHERE, index) if other.any() else index
        if self.local_size:
            private = (index >= self.local) & (index < self.local_end)
            if private.any():
                return np.where(private, self._private(index - self.local, lanes), index)
        return index

    def _private(self, offset: Array, lanes: Array) -> Array:
        inside = (offset >= 0) & (offset < self.local_size)
        return np.where(inside, offset + (self.local + lanes * self.local_size), NOWHERE)

    def nearest(self, index: int) -> str:
        """Describes an index outside every allocation by the nearest named allocation."""
        if not self.allocations:
            return "nothing is allocated"

        def distance(allocation: tuple[int, int, str]) -> int:
            start, end, _ = allocation
            return start - index if index < start else index - end

        closest = min(self.allocations, key=distance)
        start, end, name = closest
        if index < start:
            return f"{start - index:,} bytes before the start of {name}"
        if index >= end:
            return f"{index - end:,} bytes after the end of {name} ({end - start:,} bytes)"
        return f"it begins in {name} and passes its end ({end - start:,} bytes)"
