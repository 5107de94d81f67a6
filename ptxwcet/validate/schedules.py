"""All schedules of a tiny block, one by one: the plainest way to its worst case."""

from __future__ import annotations

from ptxwcet.simulator.engine import Simulator


def longest_of_all(simulator: Simulator, *, most: int) -> int | None:
    """The longest of all work-conserving schedules; None if ``most`` runs do not suffice.

    Depth first through the scripts of decisions that the engine follows: a decision is an index
    among the eligible warps, so the one after the last wraps to 0. Cost: about two runs a schedule.
    """
    run = simulator.run_script(())
    longest, runs = run.cycles, 1
    decisions = run.decisions.tolist()
    while decisions:
        if runs == most:
            return None
        position = len(decisions) - 1
        tried = [*decisions[:position], decisions[position] + 1]
        run = simulator.run_script(tried)
        runs += 1
        if run.decisions[position] == 0:  # wrapped: this choice is exhausted
            decisions = decisions[:position]
            continue
        longest = max(longest, run.cycles)
        decisions = run.decisions.tolist()
    return longest
