"""The memory of a run: one array of bytes, with the state of each byte beside it.

Global buffers, module variables, kernel parameters, the shared memory of the running block and the
local memory of its threads lie in one arena with unallocated gaps between them, so a generic
address is an arena index plus ``BASE``. Memory: two bytes a byte of data, and two more a byte
of shared memory for the race check.
"""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.pending import AsyncCopies, MemoryBarriers
from ptxwcet.emulator.races import Races

BASE = 0x7000_0000_0000
GAP = 256
LOCAL_GAP = 64
ALLOCATED, INITIALISED = 1, 3


class Arena:
    """Bytes and their state: 0 unallocated, 1 allocated, 3 allocated and initialised."""

    def __init__(self) -> None:
        self._chunks: list[tuple[int, int, bytes | None]] = []
        self._end = GAP
        self.shared = 0
        self.shared_end = 0
        self.local = 0
        self.local_size = 0  # bytes a thread, LOCAL_GAP unallocated ones included
        self.local_end = 0
        self.warps = 0
        self.constant: list[tuple[int, int]] = []  # first and last index + 1 of each variable

    def reserve(self, size: int, data: bytes | None) -> int:
        """The arena index of ``size`` new bytes, uninitialised if ``data`` is None."""
        start = self._end
        self._chunks.append((start, size, data))
        self._end = (start + size + GAP + 255) // 256 * 256
        return start

    def build(self) -> None:
        """Lays out what was reserved. Cost: linear in the bytes."""
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
        self.races = Races(self.shared_end - self.shared, self.warps)
        self.copies = AsyncCopies(self.shared_end - self.shared, self.warps)
        self.barriers = MemoryBarriers()

    def start_block(self) -> None:
        """Shared and local memory become uninitialised; nobody has accessed them."""
        for start, end in ((self.shared, self.shared_end), (self.local, self.local_end)):
            self.bytes[start:end] = 0
            self.state[start:end] = np.minimum(self.state[start:end], ALLOCATED)
        self.races.forget()
        self.copies.forget()
        self.barriers.forget()

    def read(self, start: int, size: int) -> bytes:
        """A copy of ``size`` bytes."""
        return self.bytes[start : start + size].tobytes()

    def index(self, address: Array, space: str, lanes: Array) -> Array:
        """Arena indices (int64) of addresses of a space, for the lanes given."""
        index: Array = address.astype(np.int64)
        if space == "shared":
            index += self.shared
            return index
        if space == "local":
            local: Array = index + (self.local + lanes * self.local_size)
            return local
        index -= BASE
        if space in ("generic", "param") and self.local_size:
            offset = index - self.local
            private = (offset >= 0) & (offset < self.local_size)
            if private.any():
                index = np.where(private, index + lanes * self.local_size, index)
        return index
