"""Races on shared memory: who has accessed which byte, and which accesses are ordered.

Two accesses of different warps to one byte race if one of them writes, neither is ordered before
the other, and not both are strong (atomic operations, accesses that are ``.volatile`` or ordered).
:class:`EpochRaces` knows barriers of the whole block only and keeps a byte for each kind of access;
:class:`ClockRaces` orders any warps by vector clocks and keeps a number for each warp and byte.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.pending import ONES
from ptxwcet.ir.kernel import Instruction, Kernel
from ptxwcet.ir.op_classes import ControlEffect, OpClass, Space

WRITE, READ, STRONG, STRONG_READ = 0, 1, 2, 3
"""Kinds of accesses; ``STRONG`` writes too."""

_CONFLICTS = {
    WRITE: (WRITE, READ, STRONG, STRONG_READ),
    READ: (WRITE, STRONG),
    STRONG: (WRITE, READ),
    STRONG_READ: (WRITE,),
}
_SEVERAL = 255


class Races(Protocol):
    """The history of a block's accesses. Cells are byte offsets in shared memory."""

    def access(self, kind: int, warp: Array, cell: Array, size: int) -> Array | None:
        """Notes an access of ``size`` aligned bytes a lane; flags of those that race, or None."""

    def complete(self, warp: Array, cells: Array) -> None:
        """Notes bytes that an asynchronous copy of a warp has written by now."""

    def forget(self) -> None:
        """A barrier of the whole block: all accesses so far are ordered before all later ones."""

    def order(self, warps: Sequence[int]) -> None:
        """A barrier of some warps: their accesses so far are before the later ones of them all."""

    def release(self, key: Hashable, warps: Sequence[int]) -> None:
        """The accesses of warps so far are before what acquires ``key`` after this."""

    def acquire(self, key: Hashable, warps: Sequence[int]) -> None:
        """What was released to ``key`` is before the later accesses of the warps."""

    def drop(self, key: Hashable) -> None:
        """Forgets what was released to ``key``."""


class EpochRaces:
    """Accesses since the last barrier of the block: for each byte and kind of access nobody (0), a
    warp (its number plus one) or several. Knows no other order."""

    def __init__(self, size: int, warps: int) -> None:
        self._alone = warps == 1
        tags = [np.zeros(-(-size // 8) * 8, dtype=np.uint8) for _ in _CONFLICTS]
        self._tags = [{n: tag.view(f"u{n}") for n in (1, 2, 4, 8)} for tag in tags]
        self._used = [False] * len(_CONFLICTS)

    def access(self, kind: int, warp: Array, cell: Array, size: int) -> Array | None:
        """See :class:`Races`."""
        if self._alone:
            return None
        tag, place = warp + 1, cell // size
        mine = tag.astype(f"u{size}") * np.array(ONES[size], dtype=f"u{size}")
        bad: Array | None = None
        for other in _CONFLICTS[kind]:
            if self._used[other]:
                before = self._tags[other][size][place]
                wrong = _foreign(before, mine, tag, size)
                if wrong is not None:
                    bad = wrong if bad is None else bad | wrong
        self._used[kind] = True
        if kind != WRITE:
            self._join(kind, mine, place, size)
            return bad
        writer = self._tags[WRITE][size]
        writer[place] = mine
        lost = writer[place] != mine
        if lost.any():
            bad = lost if bad is None else bad | lost
        return bad

    def _join(self, kind: int, mine: Array, place: Array, size: int) -> None:
        tags = self._tags[kind][size]
        before = tags[place]
        several = mine.dtype.type(_SEVERAL * ONES[size])
        if size > 1 and not (before == (before & _SEVERAL) * mine.dtype.type(ONES[size])).all():
            cells = (place[:, None] * size + np.arange(size)).ravel()
            self._join(kind, np.repeat(mine.astype(np.uint8), size), cells, 1)
            return
        joined = np.where((before == 0) | (before == mine), mine, several)
        tags[place] = joined
        mixed = tags[place] != joined  # warps that share a cell in this very access
        if mixed.any():
            tags[place[mixed]] = several

    def complete(self, warp: Array, cells: Array) -> None:
        """See :class:`Races`."""
        self._used[WRITE] = True
        self._tags[WRITE][1][cells] = warp + 1

    def forget(self) -> None:
        """See :class:`Races`."""
        for kind, tags in enumerate(self._tags):
            if self._used[kind]:
                tags[1].fill(0)
        self._used = [False] * len(_CONFLICTS)

    def order(self, warps: Sequence[int]) -> None:
        """Knows no order of some warps: kernels that have it use :class:`ClockRaces`."""

    def release(self, key: Hashable, warps: Sequence[int]) -> None:
        """See :meth:`order`."""

    def acquire(self, key: Hashable, warps: Sequence[int]) -> None:
        """See :meth:`order`."""

    def drop(self, key: Hashable) -> None:
        """See :meth:`order`."""


def _foreign(found: Array, mine: Array, tag: Array, size: int) -> Array | None:
    """Flags of the accesses of which a byte is another warp's, None if there is none."""
    wrong = (found != 0) & (found != mine)
    if not wrong.any():
        return None
    if size > 1:  # some bytes nobody's, others this warp's: not foreign
        rows = np.flatnonzero(wrong)
        single = np.ascontiguousarray(found[rows]).view(np.uint8).reshape(-1, size)
        own = tag[rows, None]
        wrong[rows] = ((single != 0) & (single != own)).any(axis=1)
    return wrong if wrong.any() else None


class ClockRaces:
    """Vector clocks of the warps, and the times of the last accesses to each byte: of the last
    write, and of the last access of each other kind of each warp. An access is ordered before those
    of a warp if that warp's clock of the access's warp has reached its time."""

    def __init__(self, size: int, warps: int) -> None:
        self._all = range(warps)
        self._clock = np.eye(warps, dtype=np.int32)
        self._writer = np.zeros(size, dtype=np.int32)
        self._written = np.zeros(size, dtype=np.int32)
        self._times = {
            kind: np.zeros((warps, size), dtype=np.int32) for kind in _CONFLICTS if kind != WRITE
        }
        self._used = [False] * len(_CONFLICTS)
        self._keys: dict[Hashable, Array] = {}

    def access(self, kind: int, warp: Array, cell: Array, size: int) -> Array | None:
        """See :class:`Races`."""
        cells = cell[:, None] + np.arange(size)
        own = warp[:, None]
        bad = np.zeros(len(cell), dtype=bool)
        for other in _CONFLICTS[kind]:
            if not self._used[other]:
                continue
            if other == WRITE:
                writer_clock = self._clock[own, self._writer[cells]]
                bad |= (self._written[cells] > writer_clock).any(axis=1)
            else:
                times = self._times[other][:, cells]
                bad |= (times > self._clock[warp].T[:, :, None]).any(axis=(0, 2))
        self._used[kind] = True
        if kind == WRITE:
            self._write(own, cells)
            bad |= (self._writer[cells] != own).any(axis=1)
        else:
            self._times[kind][own, cells] = self._clock[own, own]
        return bad if bad.any() else None

    def _write(self, warp: Array, cells: Array) -> None:
        self._writer[cells] = warp
        self._written[cells] = self._clock[warp, warp]

    def complete(self, warp: Array, cells: Array) -> None:
        """See :class:`Races`."""
        self._used[WRITE] = True
        self._write(warp, cells)

    def forget(self) -> None:
        """See :class:`Races`."""
        self.order(self._all)

    def order(self, warps: Sequence[int]) -> None:
        """See :class:`Races`."""
        rows = np.array(warps)
        self._clock[rows] = self._clock[rows].max(axis=0)
        self._clock[rows, rows] += 1

    def release(self, key: Hashable, warps: Sequence[int]) -> None:
        """See :class:`Races`."""
        rows = np.array(warps)
        known = self._clock[rows].max(axis=0)
        before = self._keys.get(key)
        self._keys[key] = known if before is None else np.maximum(before, known)
        self._clock[rows, rows] += 1

    def acquire(self, key: Hashable, warps: Sequence[int]) -> None:
        """See :class:`Races`."""
        if key in self._keys:
            rows = np.array(warps, dtype=np.intp)  # none, if all that arrived have gone on
            self._clock[rows] = np.maximum(self._clock[rows], self._keys[key])

    def drop(self, key: Hashable) -> None:
        """See :class:`Races`."""
        self._keys.pop(key, None)


_ORDERS = frozenset({"acquire", "release", "acq_rel"})
_STRONG = frozenset({"volatile", "relaxed", "mmio"})


def orders_through_memory(kernel: Kernel, instruction: Instruction) -> bool:
    """Whether it takes or hands over an order at an address that may be shared memory.

    Accesses that say so do; strong ones and atomic operations do in a kernel with fences, wherever
    these stand: an order too many, rather than a race that is none.
    """
    name = instruction.opcode.name if instruction.opcode else ""
    if name not in ("ld", "st", "atom", "red"):
        return False
    if instruction.space not in (Space.SHARED, Space.GENERIC):
        return False
    words = frozenset(instruction.modifiers)
    if words & _ORDERS:
        return True
    return (name in ("atom", "red") or bool(words & _STRONG)) and _has_fence(kernel)


@lru_cache(maxsize=8)
def _has_fence(kernel: Kernel) -> bool:
    return any(one.op_class is OpClass.FENCE for one in kernel.instructions)


def orders_some_warps(kernel: Kernel) -> bool:
    """Whether an instruction of the kernel orders some warps of a block, but not all."""
    return any(_orders_some(kernel, instruction) for instruction in kernel.instructions)


def _orders_some(kernel: Kernel, instruction: Instruction) -> bool:
    name = instruction.opcode.name if instruction.opcode else ""
    if instruction.control is ControlEffect.ARRIVE or name == "mbarrier.init":
        return True
    if instruction.control is ControlEffect.BARRIER:
        return len(instruction.operands) > 1 + name.endswith(".red") * 2
    return orders_through_memory(kernel, instruction)
