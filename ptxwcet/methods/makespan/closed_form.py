"""Computes the worst-case makespan in closed form for L = C = 1, with a schedule that reaches it.

    T(W) = I + (W - 1) (I - M)     for W = 1 and every W >= 3

I is the length of the string, M the largest number of disjoint pairs of neighbours that differ.
For W = 2 the right side is an upper bound only (LCL: T(2) = 4). docs/methods/makespan.md has both
proofs; :func:`build_schedule` is the second one, slot by slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxwcet.methods.makespan.schedule import Schedule, Slot
from ptxwcet.methods.makespan.strings import StringShape


def pessimistic_makespan(shape: StringShape, warps: int, load_store: int, cores: int) -> int:
    """Returns ``ceil(W/L) I_L + ceil(W/C) I_C`` ([M], equations 3 to 7).

    A bound where :func:`is_pessimistic_proved` holds. Cost: constant.
    """
    return -(-warps // load_store) * shape.loads + -(-warps // cores) * shape.cores


def is_pessimistic_proved(shape: StringShape, warps: int, load_store: int, cores: int) -> bool:
    """Returns whether it is proved that no schedule exceeds :func:`pessimistic_makespan`.

    It is where units of each kind serve one warp per slot or all of them. In between it is refuted:
    LL with W = 4, L = 2 takes 5 slots, not 4 (warps 1 and 2, 1 and 3, 2 and 3, then 4 alone).
    """
    return waiting_makespan(shape, warps, load_store, cores) <= pessimistic_makespan(
        shape, warps, load_store, cores
    )


def waiting_makespan(shape: StringShape, warps: int, load_store: int, cores: int) -> int:
    """Returns ``I + floor((W - 1) I_L / L) + floor((W - 1) I_C / C)``, a bound of all schedules.

    In each slot the warp that ends last executes, or waits for a kind of unit that serves as many
    other warps as it can; the others have (W - 1) I_L and (W - 1) I_C instructions for them. A kind
    that can serve all warps makes none wait. For L = C = 1 this is equations 3 to 7 again, W I.
    """
    waits = sum(
        (warps - 1) * letters // capacity
        for letters, capacity in ((shape.loads, load_store), (shape.cores, cores))
        if capacity < warps
    )
    return shape.length + waits


def upper_makespan(shape: StringShape, warps: int) -> int:
    """Returns ``I + (W - 1)(I - M)``, a bound of all schedules of L = C = 1, for every W."""
    return shape.length + (warps - 1) * (shape.length - shape.pairs)


def is_exact_for(warps: int) -> bool:
    """Returns whether some schedule reaches :func:`upper_makespan`, for every string."""
    return warps != 2


def build_schedule(string: str, warps: int) -> Schedule:
    """Returns a work-conserving schedule of L = C = 1 that takes :func:`upper_makespan` slots.

    The string is cut between equal neighbours into alternating segments. All warps but one, the
    straggler, move from segment to segment as waves; the straggler stays far back, makes one step
    when the others change from one letter to the other, and ends last. Raises: ValueError for two
    warps. Cost: linear in the instructions of all warps.
    """
    if not is_exact_for(warps):
        raise ValueError("two warps need not reach the closed form")
    run = _Run(string, warps)
    return Schedule(tuple(run.slots()))


class _Run:
    def __init__(self, string: str, warps: int) -> None:
        self._string = string
        self._group = range(warps - 1)
        self._straggler = warps - 1
        self._behind = 0  # the straggler's position
        self._segments = segment_bounds(string)
        self._ends = {end - 1 for _, end in self._segments}

    def slots(self) -> Iterator[Slot]:
        if self._group:
            for start, end in self._segments:
                yield from self._catch_up(start)
                yield from self._wave(start, end)
        while self._behind < len(self._string):
            yield self._step()

    def _catch_up(self, start: int) -> Iterator[Slot]:
        """Advances the straggler from a segment's last letter to the next, an equal letter."""
        while self._behind < start and self._behind in self._ends:
            yield self._step()

    def _step(self) -> Slot:
        self._behind += 1
        return self._slot(self._behind - 1, self._straggler, None)

    def _wave(self, start: int, end: int) -> Iterator[Slot]:
        """Moves the group from ``start`` to ``end``, one warp at a time at the second letter."""
        before: int | None = None  # the warp at the second letter
        for position in range(start, end, 2):
            for warp in self._group:
                yield self._slot(position, warp, before)
                before = warp if position + 1 < end else None
        if before is not None:  # even length: the straggler changes the letter with the last one
            self._behind += 1
            yield self._slot(start, self._straggler, before)

    def _slot(self, position: int, warp: int, other: int | None) -> Slot:
        """Returns a slot: ``warp`` at the letter of ``position``, ``other`` at the other kind."""
        rest = () if other is None else (other,)
        return Slot((warp,), rest) if self._string[position] == "L" else Slot(rest, (warp,))


def segment_bounds(string: str) -> Sequence[tuple[int, int]]:
    """Returns first and one past the last letter of each alternating segment."""
    cuts = [i for i in range(1, len(string)) if string[i] == string[i - 1]]
    return list(zip([0, *cuts], [*cuts, len(string)], strict=True)) if string else []
