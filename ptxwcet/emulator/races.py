"""Races on shared memory: accesses of different warps to a byte with nothing that orders them.

Two accesses race if one of them writes, not both are atomic, and no barrier lies between. Each
byte remembers who wrote it last and who read it last. A barrier of the whole block forgets
everything. Kernels with barriers of some warps, or barriers in memory, are followed with vector
clocks: an access carries the clock of its warp, and a warp knows up to which time it is behind each
other one. There, of several readers of a byte only the last is remembered, so that some races are
not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import numpy as np

from ptxwcet.emulator.launch import Array

_SEVERAL = 0x7F
_ATOMIC = 0x80  # flag beside the warp's number + 1
_ONES = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}


class Kind(Enum):
    """What an access does."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"


class Races:
    """Who accessed which byte of shared memory since the last barrier of the block."""

    def __init__(self, size: int, warps: int) -> None:
        size = (size + 7) // 8 * 8
        self._writer = np.zeros(size, dtype=np.uint8)
        self._reader = np.zeros(size, dtype=np.uint8)
        self._writers = {n: self._writer.view(f"u{n}") for n in _ONES}
        self._readers = {n: self._reader.view(f"u{n}") for n in _ONES}
        self._clock = np.ones(warps, dtype=np.int32)
        self._known = np.zeros((warps, warps), dtype=np.int32)
        self._written = np.zeros(0, dtype=np.int32)
        self._read = np.zeros(0, dtype=np.int32)
        self._is_precise = False

    def follow_clocks(self) -> None:
        """From now on accesses are ordered by vector clocks: eight more bytes a byte."""
        self._is_precise = True
        self._written = np.zeros(self._writer.size, dtype=np.int32)
        self._read = np.zeros(self._writer.size, dtype=np.int32)

    def forget(self) -> None:
        """After a barrier of the whole block: earlier accesses race with nothing."""
        self._writer.fill(0)
        self._reader.fill(0)

    def released(self, warps: Iterable[int]) -> Array:
        """What is known to who waits for these warps, which have arrived somewhere."""
        rows = list(warps)
        known: Array = self._known[rows].max(axis=0)
        known[rows] = np.maximum(known[rows], self._clock[rows])
        self._clock[rows] += 1
        return known

    def acquire(self, warps: Iterable[int], known: Array) -> None:
        """These warps go on behind what was released."""
        rows = list(warps)
        self._known[rows] = np.maximum(self._known[rows], known)

    def access(self, warp: Array, cell: Array, size: int, kind: Kind) -> Array:
        """Flags of the accesses that race with an earlier one, or within this step.

        ``cell`` are offsets in shared memory, multiples of ``size``.
        """
        if not self._is_precise:
            fast = self._simple(warp, cell // size, size, kind)
            if fast is not None:
                return fast
        bad = np.zeros(cell.shape, dtype=bool)
        for byte in range(size):
            bad |= self._byte(warp, cell + byte, kind)
        return bad

    def _simple(self, warp: Array, place: Array, size: int, kind: Kind) -> Array | None:
        """The common case, all bytes of an element at once; None if it is not that simple."""
        if kind is Kind.ATOMIC:
            return None
        writers, readers = self._writers[size], self._readers[size]
        ones = writers.dtype.type(_ONES[size])
        own = (warp + 1).astype(writers.dtype) * ones
        written, read = writers[place], readers[place]
        if ((written != 0) & (written != own)).any():
            return None
        if kind is Kind.WRITE:
            if ((read != 0) & (read != own)).any():
                return None
            writers[place] = own
            return np.asarray(writers[place] != own)
        several = ones * writers.dtype.type(_SEVERAL)
        if ((read & writers.dtype.type(0xFF)) * ones != read).any():
            return None
        mark = np.where((read == 0) | (read == own), own, several)
        readers[place] = mark
        mixed = readers[place] != mark
        if mixed.any():
            readers[place[mixed]] = several
        return np.zeros(place.shape, dtype=bool)

    def _byte(self, warp: Array, cell: Array, kind: Kind) -> Array:
        own = (warp + 1).astype(np.uint8)
        written, read = self._writer[cell], self._reader[cell]
        by, atomic = written & ~np.uint8(_ATOMIC), written & np.uint8(_ATOMIC) != 0
        foreign = (by != 0) & (by != own)
        if self._is_precise:
            behind = self._known[warp, np.maximum(by.astype(np.int64) - 1, 0) % len(self._clock)]
            foreign &= (by == _SEVERAL) | (self._written[cell] > behind)
        bad: Array = foreign & ~atomic if kind is Kind.ATOMIC else foreign
        if kind is not Kind.READ:
            bad |= self._read_elsewhere(warp, own, cell, read)
        if kind is Kind.READ:
            self._note_read(warp, own, cell, read)
        elif kind is Kind.WRITE:
            self._writer[cell] = own
            bad |= self._writer[cell] != own
        else:
            mark = np.where((by == 0) | (by == own), own, np.uint8(_SEVERAL)) | np.uint8(_ATOMIC)
            self._writer[cell] = mark
            mixed = cell[self._writer[cell] != mark]
            self._writer[mixed] = _SEVERAL | _ATOMIC
        if self._is_precise and kind is not Kind.READ:
            self._written[cell] = self._clock[warp]
        return bad

    def _read_elsewhere(self, warp: Array, own: Array, cell: Array, read: Array) -> Array:
        """Whether another warp has read the byte and is not known to be before."""
        elsewhere: Array = (read != 0) & (read != own)
        if self._is_precise:
            reader = np.maximum(read.astype(np.int64) - 1, 0) % len(self._clock)
            elsewhere &= self._read[cell] > self._known[warp, reader]
        return elsewhere

    def _note_read(self, warp: Array, own: Array, cell: Array, read: Array) -> None:
        if self._is_precise:
            self._reader[cell] = own
            self._read[cell] = self._clock[warp]
            return
        mark = np.where((read == 0) | (read == own), own, np.uint8(_SEVERAL))
        self._reader[cell] = mark
        mixed = cell[self._reader[cell] != mark]
        self._reader[mixed] = _SEVERAL
