"""Detects data races on shared memory from the accesses to each byte, and their order.

Two accesses of different warps to one byte race if one of them writes, neither is ordered before
the other, and not both are strong (atomic operations, accesses that are ``.volatile`` or ordered).
:class:`EpochRaces` models only barriers of the whole block, with a byte for each kind of access;
:class:`ClockRaces` orders any warps by vector clocks, with a number for each warp and byte.
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
"""The kinds of accesses; ``STRONG`` writes too."""

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
        """Records an access of ``size`` aligned bytes per lane; returns flags of races, or None."""

    def complete(self, warp: Array, cells: Array) -> None:
        """Records bytes that an asynchronous copy of a warp has written by now."""

    def forget(self) -> None:
        """Orders all accesses so far before all later ones: a barrier of the whole block."""

    def order(self, warps: Sequence[int]) -> None:
        """Orders accesses of the warps so far before all their later ones: a partial barrier."""

    def release(self, key: Hashable, warps: Sequence[int]) -> None:
        """Orders the warps' accesses so far before all later acquires of ``key``."""

    def acquire(self, key: Hashable, warps: Sequence[int]) -> None:
        """Orders the accesses released to ``key`` before the later accesses of the warps."""

    def drop(self, key: Hashable) -> None:
        """Forgets the accesses released to ``key``."""


class EpochRaces:
    """Accesses since the last barrier of the block: for each byte and kind of access no warp (0), a
    warp (its number plus one) or several. It models no other order.
    """

    def __init__(self, size: int, warps: int) -> None:
        self._alone = warps == 1
        tags = [np.zeros(-(-size // 8) * 8, dtype=np.uint8) for _ in _CONFLICTS]
        self._tags = [{n: tag.view(f"u{n}") for n in (1, 2, 4, 8)} for tag in tags]
        self._used = [False] * len(_CONFLICTS)

    def access(self, kind: int, warp: Array, cell: Array, size: int) -> Array | None:
        """Records an access, as :class:`Races` states."""
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
        mixed = tags[place] != joined  # warps that share a cell in this access
        if mixed.any():
            tags[place[mixed]] = several

    def complete(self, warp: Array, cells: Array) -> None:
        """Records a completed copy, as :class:`Races` states."""
        self._used[WRITE] = True
        self._tags[WRITE][1][cells] = warp + 1

    def forget(self) -> None:
        """Records a block barrier, as :class:`Races` states."""
        for kind, tags in enumerate(self._tags):
            if self._used[kind]:
                tags[1].fill(0)
        self._used = [False] * len(_CONFLICTS)

    def order(self, warps: Sequence[int]) -> None:
        """Ignores orders of some warps: kernels that have them use :class:`ClockRaces`."""

    def release(self, key: Hashable, warps: Sequence[int]) -> None:
        """Ignores the order, as :meth:`order` does."""

    def acquire(self, key: Hashable, warps: Sequence[int]) -> None:
        """Ignores the order, as :meth:`order` does."""

    def drop(self, key: Hashable) -> None:
        """Ignores the order, as :meth:`order` does."""


def _foreign(tags: Array, mine: Array, tag: Array, size: int) -> Array | None:
    """Returns flags of the accesses with a byte of another warp, or None without any."""
    wrong = (tags != 0) & (tags != mine)
    if not wrong.any():
        return None
    if size > 1:  # Bytes without an access, or of this warp, are not foreign.
        rows = np.flatnonzero(wrong)
        single = np.ascontiguousarray(tags[rows]).view(np.uint8).reshape(-1, size)
        own = tag[rows, None]
        wrong[rows] = ((single != 0) & (single != own)).any(axis=1)
    return wrong if wrong.any() else None


class ClockRaces:
    """Vector clocks of the warps, and for each byte the time of the last write and of each warp's
    last access of any other kind. An access is ordered before a warp's accesses if that
    warp's clock of the access's warp has reached its time."""

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
        """Records an access, as :class:`Races` states."""
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
        """Records a completed copy, as :class:`Races` states."""
        self._used[WRITE] = True
        self._write(warp, cells)

    def forget(self) -> None:
        """Records a block barrier, as :class:`Races` states."""
        self.order(self._all)

    def order(self, warps: Sequence[int]) -> None:
        """Records a barrier of some warps, as :class:`Races` states."""
        rows = np.array(warps)
        self._clock[rows] = self._clock[rows].max(axis=0)
        self._clock[rows, rows] += 1

    def release(self, key: Hashable, warps: Sequence[int]) -> None:
        """Records a release, as :class:`Races` states."""
        rows = np.array(warps)
        latest = self._clock[rows].max(axis=0)
        before = self._keys.get(key)
        self._keys[key] = latest if before is None else np.maximum(before, latest)
        self._clock[rows, rows] += 1

    def acquire(self, key: Hashable, warps: Sequence[int]) -> None:
        """Records an acquire, as :class:`Races` states."""
        if key in self._keys:
            rows = np.array(warps, dtype=np.intp)  # empty if all that arrived have continued
            self._clock[rows] = np.maximum(self._clock[rows], self._keys[key])

    def drop(self, key: Hashable) -> None:
        """Drops a key, as :class:`Races` states."""
        self._keys.pop(key, None)


_ORDERS = frozenset({"acquire", "release", "acq_rel"})
_STRONG = frozenset({"volatile", "relaxed", "mmio"})


def orders_through_memory(kernel: Kernel, instruction: Instruction) -> bool:
    """Returns whether it acquires or releases an order at a possible shared address.

    Accesses with such a modifier do; strong ones and atomic operations do in a kernel with fences,
    wherever these are: a superfluous order is preferred to a false race.
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
    return any(instruction.op_class is OpClass.FENCE for instruction in kernel.instructions)


def orders_some_warps(kernel: Kernel) -> bool:
    """Returns whether an instruction of the kernel orders some warps of a block, but not all."""
    return any(_orders_some(kernel, instruction) for instruction in kernel.instructions)


def _orders_some(kernel: Kernel, instruction: Instruction) -> bool:
    name = instruction.opcode.name if instruction.opcode else ""
    if instruction.control is ControlEffect.ARRIVE or name == "mbarrier.init":
        return True
    if instruction.control is ControlEffect.BARRIER:
        return len(instruction.operands) > 1 + name.endswith(".red") * 2
    return orders_through_memory(kernel, instruction)
