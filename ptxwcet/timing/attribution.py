"""Which instruction each cycle of a warp's isolated run is charged to.

Between one issue and the next a warp spends its cycles on

* *issue*: the cycle in which an instruction is issued, and the bubble behind it;
* *waiting for a result*: the instruction that is next reads (or overwrites) a register that is not
  ready; charged to the instruction that makes the latest of them ready, from its dispatch on;
* *waiting for a unit*: the part of such a wait in which that instruction stands in the queue of its
  unit, before its dispatch.

After the last issue the warp waits for what ends last. The parts add up to L.

Example ([J] Fig. 2, i3 reads i0's result): i0, i1 and i2 issue in cycles 0 to 2, in [3, 8) i3 waits
for the result of i0, it issues in 8, and in [9, 14) its own latency runs out: i0 costs 1 + 5
cycles, i1 and i2 one each, i3 1 + 5.

This is a second run beside :mod:`ptxwcet.timing.engine` with the same closed forms, which also
remembers who wrote each register. Where the state is a pointwise maximum of alternatives, each
component remembers where it came from, and the cycles so far are those of the alternative that is
latest: sums stay exact. Loops: a period whose waits repeat counts as often as it is executed; the
log of a run is a linked list, so that alternatives share what they have in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.compilation import (
    BothOrders,
    Compiled,
    Credit,
    Loop,
    OneOf,
    Straight,
    compile_body,
)
from ptxwcet.timing.demand import NO_PRICES, Prices
from ptxwcet.timing.wait_log import Again, CycleParts, Issued, Log, Waited, fold_log
from ptxwcet.warp.program import Node, Scoreboard

# Real kernels need a few times their static size, below 10^5; the limit is about three seconds of
# work, a fraction of the engine's: no bound waits longer for its explanation than for itself.
_MOST_STEPS = 2_000_000


@dataclass(frozen=True, slots=True)
class WarpAttribution:
    """The cycles of an isolated run by origin (index of the kernel's instruction, -1 synthetic).

    ``parts`` add up to ``cycles``. ``executions`` is how often each instruction is issued on the
    path that takes so long: of undecided alternatives the latest one, both sides of a divergent
    branch, the largest number of iterations unless none takes longer.
    """

    cycles: int
    parts: Mapping[int, CycleParts]
    executions: Mapping[int, int]


def attribute_warp(
    body: Sequence[Node],
    scoreboard: Scoreboard,
    *,
    through_bubble: bool = False,
    prices: Prices = NO_PRICES,
) -> WarpAttribution:
    """Attributes L of a body run alone on a clean machine.

    ``through_bubble``: the run ends no sooner than the bubble behind its last issue. With
    ``prices`` it is the way that is longest less what its tallies cost; that cost is in no part.
    Raises PW404 if a loop's waits do not settle into a pattern. Cost: a few executions of each loop
    body a loop entry, whatever the trip counts.
    """
    program = compile_body(body, scoreboard, prices)
    registers = program.register_count
    state = _State(
        [0] * registers, [-1] * registers, [0] * registers, [0] * max(1, len(program.units))
    )
    _Run().run(program.body, state)
    end = max(state.completion, state.t) if through_bubble else state.completion
    if end > state.t:
        state.wait(state.last_maker, state.last_started, end)
    parts, executions = fold_log(state.log)
    if end < state.t:  # the bubble behind the last issue outlasts the run
        own = parts[state.issued]
        parts[state.issued] = own._replace(issue=own.issue - (state.t - end))
    return WarpAttribution(sum(one.total for one in parts.values()), parts, executions)


@dataclass(slots=True)
class _State:
    """The engine's state (absolute cycles), and for each time who made it.

    Register r is made ready by ``maker[r]``, dispatched at ``started[r]``; the run's end so far by
    ``last_maker``. The waits and issues of ``log`` take ``t`` cycles in sum.
    """

    ready: list[int]
    maker: list[int]
    started: list[int]
    free: list[int]
    t: int = 0
    completion: int = 0
    last_maker: int = -1
    last_started: int = 0
    issued: int = -1
    log: Log = None
    credit: int = 0

    def copy(self) -> _State:
        """A state to explore an alternative from; the log so far is shared."""
        return replace(
            self,
            ready=self.ready[:],
            maker=self.maker[:],
            started=self.started[:],
            free=self.free[:],
        )

    def join(self, other: _State) -> None:
        """Becomes the pointwise maximum of both; each component keeps its story."""
        if self.credit != other.credit:
            credit = min(self.credit, other.credit)
            other = other.copy()
            self.move(credit)
            other.move(credit)
        for register, ready in enumerate(other.ready):
            if ready > self.ready[register]:
                self.ready[register] = ready
                self.maker[register] = other.maker[register]
                self.started[register] = other.started[register]
        self.free = [max(a, b) for a, b in zip(self.free, other.free, strict=True)]
        if other.t > self.t:
            self.t, self.log, self.issued = other.t, other.log, other.issued
        if other.completion > self.completion:
            self.completion = other.completion
            self.last_maker, self.last_started = other.last_maker, other.last_started

    def move(self, credit: int) -> None:
        """Writes all times with another credit; what was spent stays."""
        by, self.credit = credit - self.credit, credit
        self.ready = [time + by for time in self.ready]
        self.started = [time + by for time in self.started]
        self.free = [time + by for time in self.free]
        self.t, self.completion = self.t + by, self.completion + by
        self.last_started += by

    def wait(self, maker: int, started: int, until: int) -> None:
        """Spends the cycles up to ``until`` waiting for ``maker``, dispatched at ``started``."""
        queued = max(started - self.t, 0)
        self.log = Waited(self.log, maker, until - self.t - queued, queued)
        self.t = until


class _Run:
    """Runs compiled bodies on a state, as the engine does."""

    def __init__(self) -> None:
        self._steps = 0

    def run(self, body: Sequence[Compiled], state: _State) -> None:
        for node in body:
            match node:
                case Straight():
                    self._straight(node, state)
                case Loop():
                    self._loop(node, state)
                case BothOrders(first, second):
                    self._one_of(((*first, *second), (*second, *first)), state)
                case OneOf(alternatives):
                    self._one_of(alternatives, state)
                case Credit(cycles):
                    state.credit += cycles

    def _straight(self, piece: Straight, state: _State) -> None:
        self._steps += len(piece.steps)
        if self._steps > _MOST_STEPS:
            raise PtxwcetError(_too_complex())
        ready, free = state.ready, state.free
        for step, origin in zip(piece.steps, piece.origins, strict=True):
            waits, writes, unit, initiation, total, conditional, advance = step
            latest, cause = state.t, -1
            for register in waits:
                if ready[register] > latest:
                    latest, cause = ready[register], register
            if cause >= 0:
                state.wait(state.maker[cause], state.started[cause], latest)
            dispatch = max(free[unit], state.t)
            free[unit] = dispatch + initiation
            done = dispatch + total
            if done > state.completion:
                state.completion = done
                state.last_maker, state.last_started = origin, dispatch
            for register in writes:
                if not conditional or done > ready[register]:
                    ready[register] = done
                    state.maker[register], state.started[register] = origin, dispatch
            state.t += advance
        state.issued = piece.origins[-1]
        state.log = Issued(state.log, piece)

    def _one_of(self, alternatives: Sequence[Sequence[Compiled]], state: _State) -> None:
        if not alternatives:
            return
        others = [state.copy() for _ in alternatives[1:]]
        self.run(alternatives[0], state)
        for side, other in zip(alternatives[1:], others, strict=True):
            self.run(side, other)
            state.join(other)

    def _loop(self, loop: Loop, state: _State) -> None:
        if loop.credited and loop.least < loop.count:
            self._iterate(loop, state, loop.least)
            self._iterate(loop, state.copy(), loop.count - loop.least, joined=state)
            return
        skipped = state.copy() if loop.least == 0 else None
        self._iterate(loop, state, loop.count)
        if skipped is not None:
            state.join(skipped)

    def _iterate(self, loop: Loop, state: _State, count: int, joined: _State | None = None) -> None:
        """All iterations; once waits and their causes repeat, whole periods are skipped.

        ``joined`` becomes the maximum of the states after each of them (timing.engine).
        """
        seen: dict[tuple[object, ...], tuple[int, int, int, Log]] = {}
        remaining = ends = count
        while remaining:
            self.run(loop.body, state)
            remaining -= 1
            if joined is not None and remaining < ends:
                joined.join(state)
            key = _relative(state, loop)
            earlier = seen.get(key)
            seen[key] = (remaining, state.t, state.credit, state.log)
            if earlier is None or ends < count:
                continue
            before, t, credit, log = earlier
            period = before - remaining
            periods = remaining // period - (1 if joined is None else 2)
            if periods <= 0:
                continue
            growth = state.t - t
            self._skip_free_units(loop, state, period, periods, growth)
            _shift(loop, state, periods * growth)
            state.credit += periods * (state.credit - credit)
            if state.log is not log:
                state.log = Again(state.log, log, periods)
            remaining -= periods * period
            seen.clear()
            ends = ends if joined is None else period

    def _skip_free_units(
        self, loop: Loop, state: _State, period: int, periods: int, growth: int
    ) -> None:
        """Units whose queue delays no issue of the loop: ``f' = max(f + H, c)`` a period."""
        if not loop.free_units:
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


def _relative(state: _State, loop: Loop) -> tuple[object, ...]:
    """What later waits of the loop depend on, relative to t: times and who is waited for."""
    t = state.t
    key: list[object] = [max(state.free[unit] - t, 0) for unit in loop.coupled_units]
    for register in loop.carried_registers:
        ahead = state.ready[register] - t
        if ahead > 0:
            key += (ahead, state.maker[register], max(state.started[register] - t, 0))
        else:
            key.append(0)
    return tuple(key)


def _shift(loop: Loop, state: _State, cycles: int) -> None:
    """The state ``cycles`` later in everything that repeats with the loop's issues."""
    state.t += cycles
    for register in loop.carried_registers:
        state.ready[register] += cycles
        state.started[register] += cycles
    for unit in loop.coupled_units:
        state.free[unit] += cycles


def _too_complex() -> Diagnostic:
    return Diagnostic(
        "PW404",
        "what the warp waits for did not settle into a repeating pattern within the work limit",
        notes=(f"{_MOST_STEPS} instructions were executed one by one",),
        help="lower loop bounds, or bound the kernel in parts",
    )
