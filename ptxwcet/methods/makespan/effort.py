"""What the methods share: how much effort to make, what is small enough, the check of schedules."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ptxwcet.methods.makespan.ilp_model import Constraints
from ptxwcet.methods.makespan.problem import MakespanProblem
from ptxwcet.methods.makespan.schedule import Schedule, check_schedule
from ptxwcet.methods.makespan.strings import unrolled

MOST_LETTERS = 10_000
"""Longest string that a method writes out letter for letter."""
MOST_INSTRUCTIONS = 50_000
"""Instructions of all warps up to which schedules are built."""
MOST_VARIABLES = 200_000
"""Largest integer program that is given to the solver."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How to answer: seconds in all (None: no limit), x of the extrapolation, kind of constraints.

    ``report(text, done)`` is called now and then; ``done`` is the part that is done, 0 to 1.
    """

    seconds: float | None = None
    most_extrapolated: int = 8
    constraints: Constraints = Constraints.SHORT
    report: Callable[[str, float], None] = lambda _text, _done: None
    start: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least a little; None without a limit."""
        if self.seconds is None:
            return None
        return max(0.01, self.seconds - (time.monotonic() - self.start))

    @property
    def is_over(self) -> bool:
        """Whether the time limit has passed."""
        return self.seconds is not None and time.monotonic() - self.start >= self.seconds


def is_small(problem: MakespanProblem) -> bool:
    """Whether a schedule is built, with every instruction of every warp in it."""
    length = problem.shape.length
    return length <= MOST_LETTERS and length * problem.warps <= MOST_INSTRUCTIONS


def require_schedule(problem: MakespanProblem, schedule: Schedule, slots: int) -> None:
    """The checker of the machine has the last word on a witness. Raises: ScheduleError."""
    string = unrolled(problem.tree, MOST_LETTERS)
    found = check_schedule(schedule, string, problem.warps, problem.load_store, problem.cores)
    assert found == slots, f"the schedule has {found} slots, not {slots}"


def rounded(number: int) -> str:
    """A number for people, long ones as a power of ten."""
    return f"{number:,}" if number < 10**12 else f"about 10^{len(str(number)) - 1}"
