"""Instructions in which the lanes of a warp look at one another, from the ISA manual.

A lane that executes one with ``sync`` waits until all members that have not ended execute the same
instruction with the same mask. Three things follow for what it gets:

* It is undefined if its own mask does not name it: here any number, another one for each lane.
* A member that does not execute it here, but has not ended either, may give to it from elsewhere:
  here any number for each such member, the same for all lanes with this mask.
* What ``shfl`` reads from a lane that takes no part is undefined: here any number for each reader.

Nothing else is made up. That below ``sm_70`` every result is undefined where the members have
parted is not followed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from isa_types import Type, number, ones

Words = tuple[str, ...]
Row = dict[int, list[int]]  # lane -> its sources


@dataclass(frozen=True)
class Around:
    """A warp around the lanes that execute an instruction.

    ``lanes``: those that have not ended, as a mask. ``draw`` gives any number of so many bits.
    """

    lanes: int
    draw: Callable[[int], int]


@dataclass(frozen=True)
class Exchange:
    """Lanes that execute an instruction together with one mask.

    ``rows`` are the sources of the members among them, ``missing`` the members that have not ended
    and may give anything, ``others`` the lanes that their own mask does not name.
    """

    rows: Row
    missing: tuple[int, ...]
    others: tuple[int, ...]

    @property
    def lanes(self) -> int:
        """All members, as a mask."""
        return sum(1 << lane for lane in (*self.rows, *self.missing))


def exchanges(words: Words, rows: Row, place: int, around: Around) -> list[Exchange]:
    """The lanes of an instruction by the masks that they name at a place of their sources.

    Without ``sync`` the lanes that execute it exchange with one another alone.
    """
    if "sync" not in words:
        return [Exchange(rows, (), ())]
    by_mask: dict[int, list[int]] = {}
    for lane, sources in rows.items():
        by_mask.setdefault(sources[place], []).append(lane)
    found = []
    for mask, lanes in by_mask.items():
        members = {lane: rows[lane] for lane in lanes if mask >> lane & 1}
        waited_for = mask & around.lanes
        missing = tuple(one for one in range(32) if waited_for >> one & 1 and one not in members)
        others = tuple(lane for lane in lanes if lane not in members)
        found.append(Exchange(members, missing, others))
    return found


def shuffle(words: Words, rows: Row, of: Type, around: Around) -> dict[int, tuple[int, int]]:
    """``shfl[.sync]``: value and predicate for each active lane. Sources: a, b, c, members."""
    found = {}
    for exchange in exchanges(words, rows, 3, around):
        for lane in exchange.others:
            found[lane] = (around.draw(of.bits), around.draw(32) & 1)
        for lane, (a, b, c, *_) in exchange.rows.items():
            source, inside = _source(words, lane, b & 31, c)
            if not inside:
                value = a
            elif source in exchange.rows:
                value = exchange.rows[source][0]
            else:
                value = around.draw(of.bits)
            found[lane] = (value, int(inside))
    return found


def _source(words: Words, lane: int, distance: int, c: int) -> tuple[int, bool]:
    """The lane that ``shfl`` reads, and whether it is in range."""
    limit, mask = c & 31, (c >> 8) & 31
    most = (lane & mask) | (limit & ~mask & 31)
    if "up" in words:
        return lane - distance, lane - distance >= most
    if "down" in words:
        return lane + distance, lane + distance <= most
    if "bfly" in words:
        return lane ^ distance, (lane ^ distance) <= most
    source = (lane & mask) | (distance & ~mask & 31)
    return source, source <= most


def vote(words: Words, rows: Row, of: Type, around: Around) -> dict[int, int]:
    """``vote[.sync]``: one answer to all members."""
    found = {}
    for exchange in exchanges(words, rows, 1, around):
        values = {one: int(bool(row[0])) for one, row in exchange.rows.items()}
        values |= {one: around.draw(32) & 1 for one in exchange.missing}
        if "ballot" in words:
            answer = sum(value << one for one, value in values.items())
        elif "all" in words:
            answer = int(all(values.values()))
        elif "any" in words:
            answer = int(any(values.values()))
        else:
            answer = int(len(set(values.values())) <= 1)
        found |= dict.fromkeys(exchange.rows, answer)
        bits = 32 if "ballot" in words else 1
        found |= {lane: around.draw(32) & ones(bits) for lane in exchange.others}
    return found


def match(words: Words, rows: Row, of: Type, around: Around) -> dict[int, tuple[int, int]]:
    """``match.any`` and ``match.all``: the mask, and whether all values are equal."""
    found = {}
    for exchange in exchanges(words, rows, 1, around):
        known = {one: row[0] for one, row in exchange.rows.items()}
        values = dict(known)
        for one in exchange.missing:  # what somebody here has, at times
            drawn = around.draw(of.bits)
            values[one] = list(known.values())[drawn % len(known)] if drawn & 1 and known else drawn
        equal = len(set(values.values())) <= 1
        for lane, value in known.items():
            if "any" in words:
                same = sum(1 << one for one, other in values.items() if other == value)
                found[lane] = (same, 1)
            else:
                found[lane] = (exchange.lanes if equal else 0, int(equal))
        found |= {lane: (around.draw(32), around.draw(32) & 1) for lane in exchange.others}
    return found


_REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def redux(words: Words, rows: Row, of: Type, around: Around) -> dict[int, int]:
    """``redux.sync``: one value for all members."""
    combine = next(_REDUCTIONS[word] for word in words if word in _REDUCTIONS)
    found = {}
    for exchange in exchanges(words, rows, 1, around):
        values = [row[0] for row in exchange.rows.values()]
        values += [number(around.draw(of.bits), of) for _ in exchange.missing]
        if exchange.rows:
            found |= dict.fromkeys(exchange.rows, reduce(combine, values))
        found |= {lane: around.draw(of.bits) for lane in exchange.others}
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
