"""Counts the transactions of an access by a warp, from the addresses of its lanes.

Sectors have 32 bytes and lines 128; shared memory has 32 banks of 4 bytes, each of which delivers
one word per pass to all lanes that request it, and accesses of 8 (16) bytes are split into halves
(quarters) of the warp. Unknown parts of an address are taken at their worst: every shared part that
its alignment and the access's alignment permit, every place of a cut
(:mod:`ptxwcet.flow.shapes.pattern`). Lanes that a branch or a guard disables only reduce the
counts; non-existing lanes are left out here (``docs/methods/transactions.md``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.flow.shapes.pattern import KNOWN, PHASES, Lanes, Pattern, rows
from ptxwcet.support.records import dataclass

SECTOR, LINE = 32, 128
_BANKS, _WORD = 32, 4

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Count:
    """Transactions of a warp, ``most`` of any warp; ``exact``: each warp needs its number in
    ``each`` if all of its lanes take part.
    """

    most: int
    exact: bool
    each: tuple[int, ...]

    def split(self, cuts: int, lanes: Sequence[int]) -> Count:
        """Returns the count if each of the ``cuts`` parts the lanes in two groups of equal counts.

        ``lanes`` limits the count of each warp.
        """
        each = tuple(min(one << cuts, most) for one, most in zip(self.each, lanes, strict=True))
        return Count(max(each), False, each)


def blocks_of(pattern: Pattern, there: Mask, size: int, access: int) -> Count:
    """Counts distinct blocks of ``size`` bytes touched by accesses of ``access`` bytes.

    ``there`` are the existing threads. Accesses are aligned to their size, as PTX requires.
    """
    return _blocks(pattern, _warps(pattern, there), size, access)


def _blocks(pattern: Pattern, warps: Sequence[_Warp], size: int, access: int) -> Count:
    wide = max(1, access // size)
    distinct = _each_place(
        pattern, warps, access, size, lambda places: _distinct(places, size, wide)
    )
    if not pattern.cuts:
        return distinct
    lanes = tuple(wide * _existing(warp) for warp in warps)
    if not pattern.pure:
        return distinct.split(pattern.cuts, lanes)
    if pattern.phase is None or pattern.phase % size:
        each = tuple(min(one + 1, most) for one, most in zip(distinct.each, lanes, strict=True))
        return Count(max(each), False, each)
    return distinct


def passes_of(pattern: Pattern, there: Mask, access: int, *, alone: bool = False) -> Count:
    """Counts passes over the banks of shared memory; ``alone``: each lane's word is a pass of its
    own, as in an atomic operation.
    """
    warps = _warps(pattern, there)
    group = WARP_SIZE if access <= _WORD else WARP_SIZE * _WORD // access
    wide = max(1, access // _WORD)

    def passes(places: Places) -> int:
        parts = (places[begin : begin + group] for begin in range(0, WARP_SIZE, group))
        return sum(_passes(part, wide, alone=alone) for part in parts)

    count = _each_place(pattern, warps, access, _WORD, passes)
    return count.split(pattern.cuts, tuple(map(_existing, warps))) if pattern.cuts else count


def serial_of(pattern: Pattern, there: Mask, access: int) -> Count:
    """Counts the most lanes on one four-byte word of a warp, which atomics serve in turn."""
    if pattern.cuts:
        return all_lanes(there)
    return _each_place(pattern, _warps(pattern, there), access, _WORD, _together)


def lines_of(pattern: Pattern, there: Mask, access: int) -> Count:
    """Counts lines that accesses of ``access`` bytes touch, separately for each half (quarter) of a
    warp if they have 8 (16) bytes: at most 128 bytes are delivered at a time.
    """
    group = WARP_SIZE if access <= _WORD else max(1, WARP_SIZE * _WORD // access)
    warps = _warps(pattern, there)
    parts = [
        _blocks(pattern, [warp[begin : begin + group] for warp in warps], LINE, access)
        for begin in range(0, WARP_SIZE, group)
    ]
    each = tuple(map(sum, zip(*(part.each for part in parts), strict=True)))
    return Count(max(each), all(part.exact for part in parts), each)


def partial_of(pattern: Pattern, there: Mask, access: int) -> Count:
    """Sectors in which stores of ``access`` bytes by all lanes that exist leave a byte as it was.

    Unlike the others this count is no less if a lane is left out.
    """
    if pattern.cuts:
        return blocks_of(pattern, there, SECTOR, access)
    return _each_place(
        pattern, _warps(pattern, there), access, SECTOR, lambda places: _in_part(places, access)
    )


def all_lanes(there: Mask, times: int = 1) -> Count:
    """Returns the count of ``times`` transactions for each lane that exists."""
    each = tuple(int(one) * times for one in rows(there).sum(axis=1))
    return Count(max(each), False, each)


def signature(pattern: Pattern, size: int) -> tuple[object, ...]:
    """Returns a key of the counts: patterns with equal keys need the same transactions.

    ``size`` are the bytes by which a whole warp may be moved without a change: the size of a line,
    or of a word of shared memory.
    """
    lanes = b"" if isinstance(pattern.offsets, int) else _moved(rows(pattern.offsets), size)
    first = pattern.offsets % size if isinstance(pattern.offsets, int) else 0
    align = pattern.align if pattern.align == KNOWN else min(pattern.align, 7)
    shape = b"" if isinstance(lanes, bytes) else lanes.tobytes()
    return align, pattern.cuts, pattern.phase, pattern.pure, pattern.width, first, shape


def _moved(lanes: Lanes, size: int) -> Lanes:
    """Returns the lanes of each warp, less the multiple of ``size`` at or below its first lane."""
    apart: Lanes = lanes - lanes[:, :1] // size * size
    return apart


Places = Sequence[int | None]
"""Where the lanes of a warp are, or of a part of it; None of one that does not exist."""
_Warp = tuple[int | None, ...]


def _warps(pattern: Pattern, there: Mask) -> list[_Warp]:
    """Returns the offsets of each warp, less a multiple of a line; None for non-existing lanes."""
    mask = rows(there)
    if isinstance(pattern.offsets, int):
        number = pattern.offsets % PHASES
        lanes = [[number] * WARP_SIZE] * len(mask)
    else:
        lanes = _moved(rows(pattern.offsets), PHASES).tolist()
    if mask.all():
        return [tuple(row) for row in lanes]
    return [
        tuple(lane if is_there else None for lane, is_there in zip(row, exist, strict=True))
        for row, exist in zip(lanes, mask.tolist(), strict=True)
    ]


def _existing(warp: Places) -> int:
    return sum(lane is not None for lane in warp)


def _each_place(
    pattern: Pattern,
    warps: Sequence[_Warp],
    access: int,
    size: int,
    count: Callable[[Places], int],
) -> Count:
    """Returns the largest ``count`` of each warp, for any shared part modulo ``size`` bytes.

    Addresses wrap where the words of the pattern do.
    """
    rests, last = _rests(pattern, access, size), (1 << (pattern.width or KNOWN)) - 1
    counts_of: dict[_Warp, list[int]] = {}
    for warp in warps:
        if warp not in counts_of:
            counts_of[warp] = [
                count([None if lane is None else lane + rest & last for lane in warp])
                for rest in rests
            ]
    each = tuple(max(counts_of[warp]) for warp in warps)
    return Count(max(each), all(len(set(counts)) == 1 for counts in counts_of.values()), each)


def _rests(pattern: Pattern, access: int, size: int) -> Sequence[int]:
    """Returns the possible shared parts modulo a block of ``size`` bytes: multiples of its
    alignment and the access's.
    """
    if pattern.align == KNOWN:
        return (0,)
    step, begin = 1 << min(pattern.align, 7), 0
    over = np.ravel(pattern.offsets % access)
    if bool((over == over[0]).all()):  # the whole address is a multiple of the access
        begin, step = -int(over[0]) % access, max(step, access)
    return sorted({rest % size for rest in range(begin, max(LINE, begin + 1), step)})


def _distinct(places: Places, size: int, wide: int) -> int:
    """Returns the number of distinct blocks that lanes touch, ``wide`` consecutive ones each."""
    blocks = {place // size for place in places if place is not None}
    return len(blocks if wide == 1 else {block + more for block in blocks for more in range(wide)})


def _passes(places: Places, wide: int, *, alone: bool) -> int:
    """Returns the most words that one bank delivers, to lanes that request ``wide`` words each."""
    words = [place // _WORD for place in places if place is not None]
    wanted = [word + more for word in words for more in range(wide)]
    banks = Counter(word % _BANKS for word in (wanted if alone else set(wanted)))
    return max(banks.values(), default=0)


def _in_part(places: Places, access: int) -> int:
    """Returns the number of sectors that lanes of ``access`` bytes touch and do not fill."""
    filled: dict[int, set[int]] = {}
    for place in {place for place in places if place is not None}:
        for byte in range(place, place + access):
            filled.setdefault(byte // SECTOR, set()).add(byte)
    return sum(len(each) < SECTOR for each in filled.values())


def _together(places: Places) -> int:
    words = Counter(place // _WORD for place in places if place is not None)
    return max(words.values(), default=0)
