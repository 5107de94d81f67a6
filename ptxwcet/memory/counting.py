"""How many transactions an access of a warp takes, from where its lanes access memory.

Sectors have 32 bytes and lines 128; shared memory has 32 banks of 4 bytes, of which each gives one
word a pass to all lanes that want it, and accesses of 8 (16) bytes go by halves (quarters) of the
warp. What of an address is not known is taken at its worst: every shared part that its alignment
and that of the access leave, every place of a cut (:mod:`ptxwcet.memory.pattern`). Lanes that a
branch or a guard leaves out only lower the counts, but for those that do not exist, which are left
out here (``docs/methods/transactions.md``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.memory.pattern import KNOWN, PHASES, Lanes, Pattern, rows

SECTOR, LINE = 32, 128
_BANKS, _WORD = 32, 4

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Count:
    """Transactions of a warp, ``most`` of any warp; ``exact``: each warp needs as many as ``each``
    says if all of its lanes take part.
    """

    most: int
    exact: bool
    each: tuple[int, ...]


def blocks_of(pattern: Pattern, there: Mask, size: int, access: int) -> Count:
    """Distinct blocks of ``size`` bytes (sectors, lines) that accesses of ``access`` bytes touch.

    ``there`` are the threads that exist. Accesses are aligned to their size, as PTX requires.
    """
    lanes, mask, alike = _whole(pattern, there)
    counts = np.stack(
        [_distinct((lanes + rest) // size, mask, access, size) for rest in _rests(pattern, access)]
    )
    worst = counts.max(axis=0)
    exact = bool((counts == worst).all())
    extra = 0
    if pattern.cuts:
        splits = pattern.phase is None or pattern.phase % size
        if not pattern.pure:
            most = mask.sum(axis=1) * max(1, access // size)
            worst = np.minimum(worst << pattern.cuts, most)
            exact = False
        elif splits:
            extra, exact = 1, False
    each = tuple(int(one) + extra for one in worst) * alike
    return Count(max(each), exact, each)


def passes_of(pattern: Pattern, there: Mask, access: int, *, alone: bool = False) -> Count:
    """Passes over the banks of shared memory; ``alone``: each lane's word is a pass of its own, as
    that of an atomic operation is.
    """
    lanes, mask, alike = _whole(pattern, there)
    group = WARP_SIZE if access <= _WORD else WARP_SIZE * _WORD // access
    rests = _rests(pattern, access, _WORD)
    counts = np.stack(
        [_passes((lanes + rest) // _WORD, mask, group, access, alone) for rest in rests]
    )
    worst = counts.max(axis=0)
    exact = bool((counts == worst).all()) and not pattern.cuts
    if pattern.cuts:
        worst = np.minimum(worst << pattern.cuts, mask.sum(axis=1))
    each = tuple(int(one) for one in worst) * alike
    return Count(max(each), exact, each)


def serial_of(pattern: Pattern, there: Mask, access: int) -> Count:
    """The most lanes of a warp that access one word of four bytes; an atomic operation serves them
    one after the other.
    """
    if pattern.cuts:
        return all_lanes(there)
    lanes, mask, alike = _whole(pattern, there)
    counts = np.stack(
        [_together((lanes + rest) // _WORD, mask) for rest in _rests(pattern, access, _WORD)]
    )
    worst = counts.max(axis=0)
    each = tuple(int(one) for one in worst) * alike
    return Count(max(each), bool((counts == worst).all()), each)


def _together(words: Lanes, mask: Mask) -> NDArray[np.int64]:
    same = (words[:, :, None] == words[:, None, :]) & mask[:, :, None] & mask[:, None, :]
    found: NDArray[np.int64] = same.sum(axis=2).max(axis=1)
    return found


def lines_of(pattern: Pattern, there: Mask, access: int) -> Count:
    """The lines that accesses of ``access`` bytes touch. Those of 8 (16) bytes are counted for each
    half (quarter) of a warp apart: no more than 128 bytes go to the lanes at a time.
    """
    group = WARP_SIZE if access <= _WORD else max(1, WARP_SIZE * _WORD // access)
    lane = np.arange(len(there)) % WARP_SIZE
    total = Count(0, True, (0,) * (len(there) // WARP_SIZE))
    for begin in range(0, WARP_SIZE, group):
        part = there & (begin <= lane) & (lane < begin + group)
        touched = blocks_of(pattern, part, LINE, access)
        own = [bool(row.any()) for row in rows(part)]
        each = tuple(
            before + (more if is_there else 0)
            for before, more, is_there in zip(total.each, touched.each, own, strict=True)
        )
        total = Count(max(each), total.exact and touched.exact, each)
    return total


def words_of(pattern: Pattern, there: Mask, access: int) -> Count:
    """Distinct addresses of an access to constants, which are read one after the other."""
    return blocks_of(pattern, there, access, access)


def all_lanes(there: Mask, times: int = 1) -> Count:
    """One transaction (or ``times`` as many) a lane."""
    each = tuple(int(one) * times for one in rows(there).sum(axis=1))
    return Count(max(each), False, each)


def signature(pattern: Pattern, size: int) -> tuple[object, ...]:
    """What counts depend on: patterns of one signature need as many transactions.

    ``size`` are the bytes by which a whole warp may be moved without a change: those of a line, or
    of a word of shared memory.
    """
    lanes = b"" if isinstance(pattern.offsets, int) else _moved(rows(pattern.offsets), size)
    first = pattern.offsets % size if isinstance(pattern.offsets, int) else 0
    align = pattern.align if pattern.align == KNOWN else min(pattern.align, 7)
    shape = b"" if isinstance(lanes, bytes) else lanes.tobytes()
    return align, pattern.cuts, pattern.phase, pattern.pure, first, shape


def _moved(lanes: Lanes, size: int) -> Lanes:
    """The lanes of each warp, moved by a multiple of ``size`` so that the first is below it."""
    apart: Lanes = lanes - lanes[:, :1] // size * size
    return apart


def _whole(pattern: Pattern, there: Mask) -> tuple[Lanes, Mask, int]:
    """The offsets lane by lane, each warp moved by a multiple of :data:`PHASES`; the lanes that
    there are; how many warps are alike. Those of one warp stand for all if all are alike.
    """
    mask: Mask = rows(there)
    if isinstance(pattern.offsets, int):
        flat = np.full(there.shape, pattern.offsets % PHASES, dtype=np.int64)
        lanes: Lanes = rows(flat)
    else:
        lanes = _moved(rows(pattern.offsets), PHASES)
    if bool((lanes == lanes[0]).all()) and bool((mask == mask[0]).all()):
        return lanes[:1], mask[:1], len(lanes)
    return lanes, mask, 1


def _rests(pattern: Pattern, access: int, size: int = LINE) -> range:
    """What the shared part may be modulo a block: a multiple of its alignment and the access's."""
    if pattern.align == KNOWN:
        return range(1)
    step, begin = 1 << min(pattern.align, 7), 0
    over = np.ravel(pattern.offsets % access)
    if bool((over == over[0]).all()):  # the whole address is a multiple of the access
        begin, step = -int(over[0]) % access, max(step, access)
    return range(begin, max(size, begin + 1), step)


def _distinct(blocks: Lanes, mask: Mask, access: int, size: int) -> NDArray[np.int64]:
    """Distinct numbers a row among the masked ones; of accesses wider than a block all of it."""
    if access > size:
        blocks = np.concatenate([blocks + more for more in range(access // size)], axis=1)
        mask = np.concatenate([mask] * (access // size), axis=1)
    first = np.argmax(mask, axis=1)
    filled = np.where(mask, blocks, blocks[np.arange(len(blocks)), first][:, None])
    ordered = np.sort(filled, axis=1)
    found: NDArray[np.int64] = 1 + (np.diff(ordered, axis=1) != 0).sum(axis=1)
    return found


def _passes(words: Lanes, mask: Mask, group: int, access: int, alone: bool) -> NDArray[np.int64]:
    """The passes of each warp: of each group of lanes the most words that one bank has to give."""
    warps = len(words)
    wide = max(1, access // _WORD)
    total = np.zeros(warps, dtype=np.int64)
    for begin in range(0, WARP_SIZE, group):
        part, there = words[:, begin : begin + group], mask[:, begin : begin + group]
        wanted = np.concatenate([part + more for more in range(wide)], axis=1)
        is_wanted = np.concatenate([there] * wide, axis=1)
        if not alone:
            is_wanted = is_wanted & _is_first(wanted, is_wanted)
        counts = np.zeros((warps, _BANKS), dtype=np.int64)
        rows_of = np.broadcast_to(np.arange(warps)[:, None], wanted.shape)
        np.add.at(counts, (rows_of[is_wanted], (wanted % _BANKS)[is_wanted]), 1)
        total += counts.max(axis=1)
    return total


def _is_first(words: Lanes, mask: Mask) -> Mask:
    """Whether no earlier lane wants the same word."""
    same = (words[:, :, None] == words[:, None, :]) & mask[:, None, :]
    before = np.tril(np.ones(same.shape[1:], dtype=np.bool_), -1)
    first: Mask = ~(same & before).any(axis=2)
    return first
