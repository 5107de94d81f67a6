"""Instructions in which the lanes of a warp look at one another, from the ISA manual."""

from __future__ import annotations

from collections.abc import Callable

from isa_types import Type, number, ones

Words = tuple[str, ...]
Row = dict[int, list[int]]  # lane -> its sources


def shuffle(words: Words, rows: Row) -> dict[int, tuple[int, int]]:
    """``shfl[.sync]``: value and predicate for each active lane. Sources: a, b, c.

    A value read from a lane that does not take part is undefined: here it is the lane's own.
    """
    found = {}
    for lane, (a, b, c, *_) in rows.items():
        distance, limit, mask = b & 31, c & 31, (c >> 8) & 31
        most = (lane & mask) | (limit & ~mask & 31)
        least = lane & mask
        if "up" in words:
            source, inside = lane - distance, lane - distance >= most
        elif "down" in words:
            source, inside = lane + distance, lane + distance <= most
        elif "bfly" in words:
            source, inside = lane ^ distance, (lane ^ distance) <= most
        else:
            source = least | (distance & ~mask & 31)
            inside = source <= most
        if not inside:
            source = lane
        value = rows[source][0] if source in rows else a
        found[lane] = (value, int(inside))
    return found


def vote(words: Words, rows: Row) -> dict[int, int]:
    """``vote[.sync]``: over the active lanes that the member mask names."""
    found = {}
    for lane, sources in rows.items():
        members = sources[1] if len(sources) > 1 else ones(32)
        values = {one: row[0] for one, row in rows.items() if (members >> one) & 1}
        if "ballot" in words:
            found[lane] = sum(1 << one for one, value in values.items() if value)
        elif "all" in words:
            found[lane] = int(all(values.values()))
        elif "any" in words:
            found[lane] = int(any(values.values()))
        else:
            found[lane] = int(len({bool(value) for value in values.values()}) <= 1)
    return found


def match(words: Words, rows: Row) -> dict[int, tuple[int, int]]:
    """``match.any`` and ``match.all``: the mask, and whether all values are equal."""
    found = {}
    for lane, (value, members, *_) in rows.items():
        values = {one: row[0] for one, row in rows.items() if (members >> one) & 1}
        if "any" in words:
            same = sum(1 << one for one, other in values.items() if other == value)
            found[lane] = (same, 1)
        else:
            equal = len(set(values.values())) <= 1
            found[lane] = (sum(1 << one for one in values) if equal else 0, int(equal))
    return found


_REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def redux(words: Words, rows: Row) -> dict[int, int]:
    """``redux.sync``: one value for all the lanes that the member mask names."""
    combine = next(_REDUCTIONS[word] for word in words if word in _REDUCTIONS)
    found = {}
    for lane, (_, members, *_) in rows.items():
        values = [row[0] for one, row in rows.items() if (members >> one) & 1]
        total = values[0] if values else rows[lane][0]  # a lane that is no member: undefined
        for value in values[1:]:
            total = combine(total, value)
        found[lane] = total
    return found


def atomic(words: Words, of: Type, old: int, sources: list[int]) -> int | None:
    """What an atomic operation leaves in memory; None for one that is not followed here."""
    a = number(old, of)
    b = sources[0] if sources else 0
    if of.kind not in ("s", "u", "b") or of.parts > 1:
        return sources[0] if "exch" in words else None
    if "cas" in words:
        return sources[1] if old & ones(of.bits) == b & ones(of.bits) else old
    if "exch" in words:
        return b
    if "inc" in words:
        return 0 if a >= b else a + 1
    if "dec" in words:
        return b if a == 0 or a > b else a - 1
    name = next((word for word in words if word in _REDUCTIONS), None)
    return None if name is None else _REDUCTIONS[name](a, b)
