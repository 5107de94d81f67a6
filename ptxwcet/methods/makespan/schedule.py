"""Defines schedules slot by slot, and a checker of the machine that uses none of the methods."""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    """The warps (numbers from 0) that load/store units and cores serve in one time slot."""

    load_store: tuple[int, ...]
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The slots of a run; its makespan is their number."""

    slots: tuple[Slot, ...]

    @property
    def makespan(self) -> int:
        """The number of slots until the last warp has ended."""
        return len(self.slots)


class ScheduleError(Exception):
    """The error of a schedule that the machine does not allow; the message has slot and reason."""


def check_schedule(schedule: Schedule, string: str, warps: int, load_store: int, cores: int) -> int:
    """Plays a schedule on the machine of [M], section 2, and returns its makespan.

    Checked in every slot: at most ``load_store`` L- and ``cores`` C-instructions; each served warp
    waits for exactly that kind of unit (so it executes one instruction, in order); a kind of unit
    with room left leaves no warp waiting for it. All warps have ended after the last slot, and not
    before. Raises: ScheduleError. Cost: linear in the instructions of all warps.
    """
    position = [0] * warps
    waiting = {"L": set[int](), "C": set[int]()}
    if string:
        waiting[string[0]].update(range(warps))
    for number, slot in enumerate(schedule.slots, 1):
        if not waiting["L"] and not waiting["C"]:
            raise ScheduleError(f"slot {number} comes after all warps have ended")
        _check_served(number, "L", slot.load_store, waiting["L"], load_store)
        _check_served(number, "C", slot.cores, waiting["C"], cores)
        for warp in (*slot.load_store, *slot.cores):
            waiting[string[position[warp]]].remove(warp)
            position[warp] += 1
            if position[warp] < len(string):
                waiting[string[position[warp]]].add(warp)
    unfinished = len(waiting["L"]) + len(waiting["C"])
    if unfinished:
        raise ScheduleError(f"{unfinished} warps have not ended after the last slot")
    return len(schedule.slots)


def _check_served(
    number: int, kind: str, served: Sequence[int], waiting: set[int], capacity: int
) -> None:
    if len(served) > capacity:
        raise ScheduleError(f"slot {number} serves {len(served)} warps on {kind}, not {capacity}")
    if len(set(served)) < len(served):
        raise ScheduleError(f"slot {number} serves a warp twice on {kind}")
    for warp in served:
        if warp not in waiting:
            raise ScheduleError(f"slot {number} serves warp {warp} on {kind}: it does not wait")
    if len(served) < capacity and len(served) < len(waiting):
        raise ScheduleError(f"slot {number} leaves {kind} idle though a warp waits for it")
