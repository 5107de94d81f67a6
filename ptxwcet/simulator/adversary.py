"""Searches for a long work-conserving schedule: an adversary.

A schedule is a list of decisions (:meth:`Simulator.run_script`), so every list is a legal schedule
and any change of one is. The search starts from the policies, from schedules that starve one warp
as long as another is eligible (the shape of the bound's worst case), and from random ones; then it
climbs by changing single decisions and runs of them, and restarts from another good one after many
changes without a longer schedule. Its result is a lower estimate of the worst case: only the
exhaustive search determines the worst case.
"""

from __future__ import annotations

import numpy as np

from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.parts import Integers
from ptxwcet.simulator.policies import Policy
from ptxwcet.support.records import dataclass

# Starving each warp in turn is tried for this many warps, spread over the block.
_MOST_STARVED = 8
# The changes without a longer schedule before the search starts from another one.
_PATIENCE = 40


@dataclass(frozen=True, slots=True)
class LongSchedule:
    """The longest schedule of a search: :meth:`Simulator.run_script` repeats it from ``decisions``.

    ``origin`` names its start schedule; ``runs`` is the number of schedules tried.
    """

    cycles: int
    decisions: Integers
    origin: str
    runs: int


def search_long_schedule(
    simulator: Simulator, warps: int, *, runs: int = 200, seed: int = 0
) -> LongSchedule:
    """Searches with at most ``runs`` simulated schedules of a block of ``warps`` warps.

    Deterministic for a seed. Cost: ``runs`` simulations without skipped repetitions.
    """
    random = np.random.default_rng(seed)
    starts = _starts(simulator, warps, runs, random)
    tried = len(starts)
    best = max(starts, key=lambda schedule: schedule.cycles)
    current, failures, next_start = best, 0, 0
    ordered = sorted(starts, key=lambda schedule: -schedule.cycles)
    while tried < runs and len(best.decisions):
        changed = simulator.run_script(_change(current.decisions, warps, random))
        tried += 1
        failures += 1
        if changed.cycles >= current.cycles:
            if changed.cycles > current.cycles:
                failures = 0
            current = LongSchedule(changed.cycles, changed.decisions, current.origin, tried)
            best = max(best, current, key=lambda schedule: schedule.cycles)
        if failures > _PATIENCE:
            next_start = (next_start + 1) % len(ordered)
            current, failures = ordered[next_start], 0
    return LongSchedule(best.cycles, best.decisions, best.origin, tried)


def _starts(
    simulator: Simulator, warps: int, runs: int, random: np.random.Generator
) -> list[LongSchedule]:
    """Returns start schedules, at least one and at most ``runs``."""
    schedules: list[LongSchedule] = []
    starved = range(0, warps, max(1, warps // _MOST_STARVED))
    for warp in starved:
        if len(schedules) >= max(1, runs):
            return schedules
        script = np.full(simulator.instructions, -warp - 1, np.int64)
        run = simulator.run_script(script)
        schedules.append(LongSchedule(run.cycles, run.decisions, f"starving warp {warp}", 1))
    for policy in Policy:
        if len(schedules) >= max(1, runs):
            return schedules
        run = simulator.decide(policy, seed=int(random.integers(2**31)))
        schedules.append(LongSchedule(run.cycles, run.decisions, policy.value, 1))
    return schedules


def _change(decisions: Integers, warps: int, random: np.random.Generator) -> Integers:
    """Returns the decisions with one decision, or a run of them, changed."""
    changed = decisions.copy()
    first = int(random.integers(len(changed)))
    match int(random.integers(4)):
        case 0:  # one decision
            changed[first] = random.integers(warps)
        case 1:  # a run of random decisions
            last = min(len(changed), first + 1 + int(random.geometric(0.1)))
            changed[first:last] = random.integers(warps, size=last - first)
        case 2:  # a run in which one warp is starved
            last = min(len(changed), first + 1 + int(random.integers(len(changed))))
            changed[first:last] = -1 - int(random.integers(warps))
        case _:  # one decision dropped: the rest moves up
            changed[first:-1] = changed[first + 1 :]
    return changed
