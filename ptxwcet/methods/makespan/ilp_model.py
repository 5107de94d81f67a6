"""Builds the integer program of [M], Fig. 3: the longest work-conserving schedule, slot by slot.

Variables that equations 10 and 17 fix at zero (an L-instruction on a core and the reverse) are left
out, so ``x[w][i][t]`` is LS or CC by the letter; ``idle_ok[w][i][t]`` is TL or TC: warp w
does not wait at instruction i in slot t. Slots are numbered from 1, as in the paper.
"""

from __future__ import annotations

import itertools
from enum import Enum

from ptxwcet.methods.makespan.closed_form import waiting_makespan
from ptxwcet.methods.makespan.schedule import Schedule, Slot
from ptxwcet.methods.makespan.strings import shape_of
from ptxwcet.support.ilp import IntegerProgram, Solution
from ptxwcet.support.records import dataclass


class Constraints(Enum):
    """The formulation of work conservation ([M], 5.4), and in TIGHT also of the order.

    TIGHT is SHORT with the order of instructions stated slot by slot, and all warps numbered in the
    order of their ends (which any schedule's warps can be, being identical): the same makespan,
    with fewer fractional solutions and schedules to search.
    """

    SHORT = "short"  # one constraint per warp, instruction and slot (equations 32, 35)
    LONG = "long"  # one constraint per warp and slot (equations 31, 34)
    TIGHT = "tight"  # as short; order by slots, ends in order (ours)


@dataclass(slots=True)
class MakespanProgram:
    """The program of one problem; ``x[w][i][t - 1]`` are its variables."""

    string: str
    warps: int
    horizon: int
    program: IntegerProgram
    x: list[list[list[int]]]

    def solve(self, seconds: float | None = None) -> Solution:
        """Maximises the slot in which the last warp executes its last instruction (13)."""
        last = self.x[-1][-1]
        objective = {variable: t for t, variable in enumerate(last, 1)}
        return self.program.maximise(objective, seconds=seconds)

    def schedule(self, solution: Solution) -> Schedule:
        """Returns the schedule of a solution that has values."""
        assert solution.objective is not None
        slots = []
        for t in range(solution.objective):
            served: dict[str, list[int]] = {"L": [], "C": []}
            for warp, instructions in enumerate(self.x):
                for letter, variables in zip(self.string, instructions, strict=True):
                    if solution.values[variables[t]]:
                        served[letter].append(warp)
            slots.append(Slot(tuple(served["L"]), tuple(served["C"])))
        return Schedule(tuple(slots))


def build_program(
    string: str, warps: int, load_store: int, cores: int, constraints: Constraints
) -> MakespanProgram:
    """Returns the integer program over a sufficient number of slots for every schedule.

    For L = C = 1 these are the W I of equations 3 to 7, the horizon of the paper.

    Cost: W I T variables of each of two kinds, and as many constraints.
    """
    horizon = waiting_makespan(shape_of((string,)), warps, load_store, cores)
    program = IntegerProgram()
    x = [
        [[program.add_variable(upper=1) for _ in range(horizon)] for _ in string]
        for _ in range(warps)
    ]
    made = MakespanProgram(string, warps, horizon, program, x)
    _add_execution(made)
    if constraints is Constraints.TIGHT:
        _add_order_by_slots(made, load_store if string[-1] == "L" else cores)
    else:
        _add_order(made)
    for letter, capacity in (("L", load_store), ("C", cores)):
        instructions = [i for i, other in enumerate(string) if other == letter]
        _add_kind(made, instructions, capacity, constraints)
    return made


def _add_execution(made: MakespanProgram) -> None:
    """Adds: each warp executes each instruction once (17), one per slot at most (16)."""
    for instructions in made.x:
        for variables in instructions:
            made.program.add_constraint(dict.fromkeys(variables, 1), lower=1, upper=1)
        for t in range(made.horizon):
            made.program.add_constraint({variables[t]: 1 for variables in instructions}, upper=1)


def _add_order(made: MakespanProgram) -> None:
    """Adds: instructions are in order (18); the last warp ends last (12)."""
    slots = range(1, made.horizon + 1)
    for instructions in made.x:
        for before, after in itertools.pairwise(instructions):
            terms = {variable: -t for t, variable in zip(slots, before, strict=True)}
            terms |= {variable: t for t, variable in zip(slots, after, strict=True)}
            made.program.add_constraint(terms, lower=1)
    for instructions in made.x[:-1]:
        terms = {variable: -t for t, variable in zip(slots, instructions[-1], strict=True)}
        terms |= {variable: t for t, variable in zip(slots, made.x[-1][-1], strict=True)}
        made.program.add_constraint(terms, lower=0)


def _add_order_by_slots(made: MakespanProgram, last_capacity: int) -> None:
    """Adds order of instructions and of the warps' ends, one constraint per pair and slot.

    An instruction is executed up to slot t only if the one before it was up to slot t - 1. A kind
    that serves one warp per slot ends two warps in different slots.
    """
    pairs = [pair for instructions in made.x for pair in itertools.pairwise(instructions)]
    apart = [(before, after, 1) for before, after in pairs]
    ends = itertools.pairwise(instructions[-1] for instructions in made.x)
    apart += [(before, after, 1 if last_capacity == 1 else 0) for before, after in ends]
    for before, after, distance in apart:
        for t in range(made.horizon):
            terms = dict.fromkeys(before[: t + 1 - distance], 1)
            terms |= dict.fromkeys(after[: t + 1], -1)
            made.program.add_constraint(terms, lower=0)


def _add_kind(
    made: MakespanProgram, instructions: list[int], capacity: int, constraints: Constraints
) -> None:
    """Adds capacity (14, 15) and work conservation (27 to 39) of one kind of unit."""
    program = made.program
    if not instructions:
        return
    full = [program.add_variable(upper=1) for _ in range(made.horizon)]  # E, G
    for t in range(made.horizon):
        served = {of_warp[i][t]: 1 for of_warp in made.x for i in instructions}
        program.add_constraint(served, upper=capacity)
        program.add_constraint({**served, full[t]: -1}, upper=capacity - 1)  # 38
        program.add_constraint({**served, full[t]: -capacity}, lower=0)  # 39
    for of_warp in made.x:
        for t in range(made.horizon):
            idle_ok = [_add_idle(made, of_warp, i, t) for i in instructions]
            if constraints is not Constraints.LONG:
                for variable in idle_ok:
                    program.add_constraint({variable: 1, full[t]: 1}, lower=1)
            else:
                count = len(idle_ok)
                terms = {**dict.fromkeys(idle_ok, 1), full[t]: count}
                program.add_constraint(terms, lower=count)


def _add_idle(made: MakespanProgram, own: list[list[int]], i: int, t: int) -> int:
    """Returns a variable: 1 only if i was executed up to t, or its predecessor not yet (27)."""
    variable = made.program.add_variable(upper=1)
    reasons = dict.fromkeys(own[i][: t + 1], 1)
    if i > 0:
        reasons |= dict.fromkeys(own[i - 1][t:], 1)
    made.program.add_constraint({**reasons, variable: -1}, lower=0)
    made.program.add_constraint({**reasons, variable: -2 if i > 0 else -1}, upper=0)
    return variable
