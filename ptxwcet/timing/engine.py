"""Computes the isolated run of one warp, with loops in closed form.

The state is absolute: the first cycle ``t`` at which the next instruction may issue, the ready time
of every register, the free time of every unit. An instruction (model, rules 1-3) issues at ``s =
max(t, ready times of the registers that it waits for)``, is dispatched at ``d = max(s, free of its
unit)``, frees the unit at ``d + init`` and makes its destinations ready at ``d + init + lat``.

A loop is run until the state relative to ``t`` repeats in its carried registers and coupled units
(clipped at 0); from there on every period takes the same time, so whole periods are skipped and
the last one is run again. Free-running units follow ``f' = max(f + H, c)`` per period, which has a
closed form of its own. Why this is exact: docs/methods/phases.md.

Credits (docs/methods/limited-totals.md): times count as ``credit`` cycles earlier than their value.
At joins of alternatives the smaller credit is kept and the times of the other are shifted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from typing import Any, Generic, Self, TypeVar

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.compilation import (
    BothOrders,
    Compiled,
    Credit,
    Loop,
    OneOf,
    Straight,
    effort_of,
)

# The most instructions simulated for one profile, closed forms apart. Kernels of real programs need
# a few times their static size (below 10^5); the limit is about five seconds of work.
_MOST_STEPS = 8_000_000
# The most iterations for which a loop whose issues already repeat may wait until its idle phases
# repeat too; after that E is given up, but not L. Loops of real kernels need at most three.
_MOST_PHASE_ITERATIONS = 2_000


@dataclass(frozen=True, slots=True)
class Idle:
    """An interval ``[start, end)`` without an initiation in progress."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class IdleRepeat:
    """The repetition of idle intervals, ``count`` times more, ``period_cycles`` apart."""

    count: int
    period_cycles: int
    items: tuple[Idle | IdleRepeat, ...]


@dataclass(slots=True)
class WarpState:
    """The state of the machine after one warp alone; all times are absolute cycles.

    ``gap`` is the number of idle cycles so far, None once the path is not single or E was given up.
    """

    ready: list[int]
    free: list[int]
    t: int = 0
    completion: int = 0
    gap: int | None = 0
    idles: list[Idle | IdleRepeat] = field(default_factory=list)
    credit: int = 0

    def copy(self) -> Self:
        """Returns a state to explore an alternative from; alternatives do not track phases."""
        return replace(self, ready=self.ready[:], free=self.free[:], gap=None, idles=[])

    def mark(self) -> Any:
        """Returns the length of the history that repeats with a loop."""
        return len(self.idles)

    def join(self, other: Self, changed: Collection[int]) -> None:
        """Becomes the pointwise maximum of both states, which differ in registers ``changed``.

        The other registers keep the times of the state with less credit, unchanged.
        """
        if self.credit != other.credit:
            credit = min(self.credit, other.credit)
            other = other.copy()
            for state in (self, other):
                state.put_off(credit - state.credit, changed)
        self.take_latest(other, changed)

    def take_latest(self, other: Self, changed: Collection[int]) -> None:
        """Becomes the pointwise maximum of both states, whose credit is the same."""
        ready, others = self.ready, other.ready
        for register in changed:
            if others[register] > ready[register]:
                ready[register] = others[register]
        self.free = [a if a > b else b for a, b in zip(self.free, other.free, strict=True)]
        self.t = max(self.t, other.t)
        self.completion = max(self.completion, other.completion)
        self.gap = None

    def put_off(self, cycles: int, changed: Collection[int]) -> None:
        """Shifts all times later by ``cycles``, with as much more credit; of the registers only
        those in ``changed``.
        """
        self.credit += cycles
        for register in changed:
            self.ready[register] += cycles
        self.free = [time + cycles for time in self.free]
        self.t, self.completion = self.t + cycles, self.completion + cycles

    def drain(self) -> None:
        """Waits until no instruction is in progress."""
        self.t = max(self.t, self.completion)

    def forget(self, cycles: int, credit: int) -> None:
        """Shifts a clean state earlier by ``cycles``, with ``credit`` less credit."""
        self.t -= cycles
        self.credit -= credit
        self.completion = min(self.completion, self.t)
        self.ready = [min(time, self.t) for time in self.ready]
        self.free = [min(time, self.t) for time in self.free]

    def relative(self, loop: Loop) -> tuple[object, ...]:
        """Returns the part of the state that can delay a later issue of the loop, relative to t."""
        t, ready, free = self.t, self.ready, self.free
        key = [ready[register] - t for register in loop.carried_registers]
        key += [free[unit] - t for unit in loop.coupled_units]
        return tuple([value if value > 0 else 0 for value in key])

    def shift(self, loop: Loop, cycles: int) -> None:
        """Delays everything that repeats with the loop's issues."""
        self.t += cycles
        for register in loop.carried_registers:
            self.ready[register] += cycles
        for unit in loop.coupled_units:
            self.free[unit] += cycles


State = TypeVar("State", bound=WarpState)


class Engine(Generic[State]):
    """Runs compiled bodies on a state. ``steps`` counts the instructions executed individually.

    Observers of the run override the handling of a straight piece and of a skipped period.
    """

    most_steps = _MOST_STEPS
    what = "the warp's timing"
    """The subject of the computation, for its refusal."""

    def __init__(self) -> None:
        self.steps = 0
        self._changed: dict[int, tuple[Compiled, tuple[int, ...]]] = {}

    def run(self, body: Sequence[Compiled], state: State) -> None:
        """Executes a body. Raises PW404 when its closed form needs too long to settle."""
        for node in body:
            match node:
                case Straight():
                    self._straight(node, state)
                case Loop():
                    self._loop(node, state)
                case BothOrders(drains=True):
                    self._one_after_the_other(node, state)
                case BothOrders(first, second):
                    self._one_of(node, ((*first, *second), (*second, *first)), state)
                case OneOf(alternatives):
                    self._one_of(node, alternatives, state)
                case Credit(cycles):
                    state.credit += cycles

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.most_steps:
            raise PtxwcetError(_too_complex(self.what, self.most_steps))

    def _straight(self, piece: Straight, state: State) -> None:
        self._count(len(piece.steps))
        ready, free, t, completion = state.ready, state.free, state.t, state.completion
        busy = max(free)
        gap = 0
        for waits, writes, unit, initiation, total, conditional, advance in piece.steps:
            for register in waits:
                if ready[register] > t:
                    t = ready[register]
            dispatch = free[unit]
            if dispatch < t:
                dispatch = t
                if t > busy:
                    gap += t - busy
                    state.idles.append(Idle(busy, t))
            end = dispatch + initiation
            free[unit] = end
            if end > busy:
                busy = end
            done = dispatch + total
            if done > completion:
                completion = done
            for register in writes:
                if not conditional or done > ready[register]:
                    ready[register] = done
            t += advance
        state.t, state.completion = t, completion
        if state.gap is None:
            state.idles.clear()
        else:
            state.gap += gap

    def _changed_in(self, node: Compiled) -> tuple[int, ...]:
        """Returns the registers whose ready times a node may change. Cost: linear, once."""
        kept = self._changed.get(id(node))
        if kept is None:
            registers: set[int] = set()
            match node:
                case Straight(steps):
                    registers.update(*(step[1] for step in steps))
                # the carried registers are delayed with periods
                case Loop(body=body, carried_registers=carried):
                    registers.update(carried, *map(self._changed_in, body))
                case BothOrders(first, second):
                    registers.update(*map(self._changed_in, (*first, *second)))
                case OneOf(alternatives):
                    registers.update(*(self._changed_in(n) for side in alternatives for n in side))
                case Credit():
                    pass
            kept = self._changed[id(node)] = node, tuple(registers)
        return kept[1]

    def _one_of(
        self, node: Compiled, alternatives: Sequence[Sequence[Compiled]], state: State
    ) -> None:
        if not alternatives:
            return
        others = [state.copy() for _ in alternatives[1:]]
        state.gap = None
        self.run(alternatives[0], state)
        for side, other in zip(alternatives[1:], others, strict=True):
            self.run(side, other)
            state.join(other, self._changed_in(node))

    def _one_after_the_other(self, node: BothOrders, state: State) -> None:
        """Runs two sides in either order, each from a clean machine until it is clean again.

        All times of a run from a later state are no earlier, and a clean machine is later than the
        state before it became clean; so no order ends later. For observers of issues the shorter
        side is run once more after the longer one, as if it had not been run before. Where it has
        earned more credit than it took cycles, the longer one begins later by the difference: then
        its issues are no earlier, less their credit, than in either order.
        """
        short, long = sorted((node.first, node.second), key=effort_of)
        state.gap = None
        state.drain()
        start, credit = state.t, state.credit
        self.run(short, state)
        state.drain()
        earned = state.credit - credit
        spent = max(state.t - start, earned)
        state.t = start + spent
        self.run(long, state)
        state.drain()
        other = state.copy()
        other.forget(spent, earned)
        self.run(short, other)
        state.join(other, self._changed_in(node))

    # --- loops ------------------------------------------------------------------------------------

    def _loop(self, loop: Loop, state: State) -> None:
        if loop.least == loop.count:
            self._iterate(loop, state, loop.count)
            return
        state.gap = None
        if loop.credited:
            self._iterate(loop, state, loop.least)
            self._iterate(loop, state.copy(), loop.count - loop.least, joined=state)
            return
        skipped = state.copy() if loop.least == 0 else None
        self._iterate(loop, state, loop.count)
        if skipped is not None:
            state.join(skipped, self._changed_in(loop))

    def _iterate(self, loop: Loop, state: State, count: int, joined: State | None = None) -> None:
        """Runs all iterations; ``joined`` becomes the maximum of the states after each of them.

        ``joined`` is for loops with an iteration that may cost more than it takes. The time of each
        state, less the credit, is convex in the number of periods: a skipped state is no larger
        than one of the ends, both of which are executed.
        """
        seen: dict[tuple[object, ...], Snapshot] = {}
        remaining = count
        skips_at_all, looked_at = True, count
        waiting = 0
        while remaining:
            self.run(loop.body, state)
            remaining -= 1
            if joined is not None and remaining < looked_at:
                joined.join(state, self._changed_in(loop))
            key = state.relative(loop)
            if loop.drains:
                key += (max(state.completion - state.t, 0),)
            before = seen.get(key)
            seen[key] = Snapshot.of(state, loop, remaining)
            if before is None or not skips_at_all:
                continue
            period = before.remaining - remaining
            # One period is executed, and one more for the other registers where each state is
            # examined.
            periods = remaining // period - (1 if joined is None else 2)
            if periods <= 0:
                continue
            skipped = self._skip(loop, state, before, period, periods)
            remaining -= skipped * period
            waiting = 0 if skipped else waiting + 1
            if waiting > _MOST_PHASE_ITERATIONS:
                state.gap = None
                state.idles.clear()
            if skipped:
                seen.clear()
            if joined is not None:
                skips_at_all, looked_at = False, period

    def _skip(self, loop: Loop, state: State, before: Snapshot, period: int, periods: int) -> int:
        """Skips up to ``periods`` periods; returns the number, 0 if idle phases differ."""
        growth = state.t - before.t
        state.credit += periods * (state.credit - before.credit)
        if state.gap is None:
            self._skip_free_units(loop, state, period, periods, growth)
        elif _phase_key(state, loop) == before.phase_key:
            assert before.gap is not None
            state.gap += periods * (state.gap - before.gap)
            items = tuple(state.idles[before.mark :])
            if items:
                state.idles.append(IdleRepeat(periods, growth, items))
            for unit in loop.free_units:
                state.free[unit] += periods * growth
        else:
            periods = _covered_periods(loop, state, period, growth, periods)
            self._skip_free_units(loop, state, period, periods, growth)
        state.shift(loop, periods * growth)
        if loop.drains:
            state.completion += periods * growth
        return periods

    def _skip_free_units(
        self, loop: Loop, state: State, period: int, periods: int, growth: int
    ) -> None:
        """Advances each free-running unit: ``f' = max(f + H, c)`` a period, c later by the growth.

        c is the free time of the unit after one period that starts with the unit free.
        """
        if not loop.free_units or not periods:
            return
        probe = state.copy()
        for unit in loop.free_units:
            probe.free[unit] = min(probe.free[unit], state.t)
        for _ in range(period):
            self.run(loop.body, probe)
        for unit in loop.free_units:
            demand = period * loop.demand[unit]
            state.free[unit] = max(
                state.free[unit] + periods * demand,
                probe.free[unit] + (periods - 1) * max(growth, demand),
            )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The part of a state that is kept after an iteration of a loop."""

    remaining: int
    t: int
    gap: int | None
    mark: Any  # position in the state's history
    phase_key: tuple[int, ...]
    credit: int

    @staticmethod
    def of(state: WarpState, loop: Loop, remaining: int) -> Snapshot:
        """Takes the snapshot of a state with the given number of remaining iterations."""
        phases = _phase_key(state, loop)
        return Snapshot(remaining, state.t, state.gap, state.mark(), phases, state.credit)


def _phase_key(state: WarpState, loop: Loop) -> tuple[int, ...]:
    """Returns the further state that later idle phases depend on: all queues, and the last end."""
    t, free = state.t, state.free
    return (max(free) - t, *[max(free[unit] - t, 0) for unit in loop.free_units])


def _covered_periods(loop: Loop, state: WarpState, period: int, growth: int, periods: int) -> int:
    """Returns the number of ``periods`` in which some unit is busy throughout."""
    best = 0
    for unit, free in enumerate(state.free):
        ahead = free - state.t
        demand = loop.demand.get(unit)
        if demand is None:
            best = max(best, ahead // growth)
        elif unit in loop.free_units and ahead >= growth:
            lag = growth - period * demand
            best = max(best, periods if lag <= 0 else (ahead - growth) // lag + 1)
    return min(best, periods)


def _too_complex(what: str, steps: int) -> Diagnostic:
    return Diagnostic(
        "PW404",
        f"{what} did not settle into a repeating pattern within the work limit",
        notes=(f"{steps} instructions were executed one by one",),
        help="lower loop bounds, or bound the kernel in parts",
    )
