"""Attributes each cycle of a warp's isolated run to an instruction.

Between one issue and the next a warp spends its cycles on

* *issue*: the cycle in which an instruction is issued, and the bubble after it;
* *waiting for a result*: the instruction that is next reads (or overwrites) a register that is not
  ready; charged to the instruction that makes the latest of them ready, from its dispatch on;
* *waiting for a unit*: the part of such a wait in which that instruction waits in the queue of its
  unit, before its dispatch.

After the last issue the warp waits for the latest end of an instruction. The parts add up to L.

Example ([J] Fig. 2, i3 reads i0's result): i0, i1 and i2 issue in cycles 0 to 2, in [3, 8) i3 waits
for the result of i0, it issues in 8, and in [9, 14) its own latency runs out: i0 costs 1 + 5
cycles, i1 and i2 one each, i3 1 + 5.

The run is that of :mod:`ptxwcet.timing.engine`, observed: its state also remembers the writer of
each register. Where it is a pointwise maximum of alternatives, each component remembers its origin,
and the cycles so far are those of the latest alternative: sums stay exact. Loops: a period whose
waits repeat counts once for each execution; the log of a run is a linked list, so that alternatives
share their common start, and nothing in it is unrolled.

With limited totals (timing.demand) a bound is the time of a path through the program and a price
for every passing that the limits still allow: ``price * (limit - passings of the path)``. That rest
is attributed to the instructions that the passings would execute: the smallest part of the program
around a tally, as it runs when it is repeated. Prices one above the best ones find a path with few
passings, so that the rest is seldom negative.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple, Self

from ptxwcet.support.records import dataclass
from ptxwcet.timing.compilation import Loop, Straight, compile_body
from ptxwcet.timing.demand import NO_PRICES, Prices
from ptxwcet.timing.engine import Engine, Snapshot, WarpState
from ptxwcet.warp.program import Node, Repeat, Scoreboard, Tally
from ptxwcet.warp.structure import Body, bodies, issued

# Real kernels need a few times their static size, below 10^5. The limit is about three seconds of
# work, a fraction of the engine's: no bound waits longer for its explanation than for itself.
_MOST_STEPS = 2_000_000
_STEADY = 64  # The repetitions of a part from which its cost after itself is taken.


class CycleParts(NamedTuple):
    """The cycles of a warp's isolated run that are charged to one instruction."""

    issue: int = 0
    result: int = 0
    unit: int = 0

    @property
    def total(self) -> int:
        """The sum of the three parts."""
        return self.issue + self.result + self.unit


@dataclass(frozen=True, slots=True)
class WarpAttribution:
    """The cycles of an isolated run by origin (index of the kernel's instruction, -1 synthetic).

    ``parts`` add up to ``cycles``. ``executions`` counts the issues of each instruction on the path
    that takes this long: the latest one of undecided alternatives, both sides of a divergent
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
    """Attributes L, the length of a body run alone on a clean machine, to its instructions.

    ``through_bubble``: the run ends no sooner than the bubble after its last issue. With ``prices``
    the run is the path that is longest less the price of its tallies; that price is in no part.
    Raises PW404 if a loop's waits do not settle into a pattern. Cost: a few executions of each loop
    body per loop entry, whatever the trip counts.
    """
    program = compile_body(body, scoreboard, prices)
    registers = len(program.registers)
    ready, free = [0] * registers, [0] * max(1, len(program.units))
    state = _Story(ready, free, gap=None, maker=[-1] * registers, started=[0] * registers)
    _Observed().run(program.body, state)
    end = max(state.completion, state.t) if through_bubble else state.completion
    if end > state.t:
        state.wait(state.last_maker, state.last_started, end)
    parts, executions = _fold_log(state.log)
    if end < state.t:  # The bubble after the last issue outlasts the run.
        own = parts[state.issued]
        parts[state.issued] = own._replace(issue=own.issue - (state.t - end))
    return WarpAttribution(sum(part.total for part in parts.values()), parts, executions)


# --- the run, observed ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Story(WarpState):
    """The engine's state, with the instruction that determined each time.

    Register r is made ready by ``maker[r]``, dispatched at ``started[r]``; the latest end so far is
    that of ``last_maker``. The waits and issues of ``log`` add up to ``t`` cycles.
    """

    maker: list[int] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    last_maker: int = -1
    last_started: int = 0
    issued: int = -1
    log: _Log = None

    def copy(self) -> Self:
        made = WarpState.copy(self)
        made.maker, made.started = self.maker[:], self.started[:]
        return made

    def mark(self) -> _Log:
        return self.log

    def take_latest(self, other: Self, changed: Collection[int]) -> None:
        for register in changed:
            if other.ready[register] > self.ready[register]:
                self.maker[register] = other.maker[register]
                self.started[register] = other.started[register]
        if other.t > self.t:
            self.log, self.issued = other.log, other.issued
        if other.completion > self.completion:
            self.last_maker, self.last_started = other.last_maker, other.last_started
        WarpState.take_latest(self, other, changed)

    def put_off(self, cycles: int, changed: Collection[int]) -> None:
        WarpState.put_off(self, cycles, changed)
        for register in changed:
            self.started[register] += cycles
        self.last_started += cycles

    def drain(self) -> None:
        if self.completion > self.t:
            self.wait(self.last_maker, self.last_started, self.completion)

    def relative(self, loop: Loop) -> tuple[object, ...]:
        """Returns the times and the awaited instructions, relative to t."""
        key: list[object] = [max(self.free[unit] - self.t, 0) for unit in loop.coupled_units]
        for register in loop.carried_registers:
            ahead = self.ready[register] - self.t
            if ahead > 0:
                key += (ahead, self.maker[register], max(self.started[register] - self.t, 0))
            else:
                key.append(0)
        return tuple(key)

    def shift(self, loop: Loop, cycles: int) -> None:
        WarpState.shift(self, loop, cycles)
        for register in loop.carried_registers:
            self.started[register] += cycles

    def wait(self, maker: int, started: int, until: int) -> None:
        """Spends the cycles up to ``until`` waiting for ``maker``, dispatched at ``started``."""
        queued = max(started - self.t, 0)
        self.log = _Waited(self.log, maker, until - self.t - queued, queued)
        self.t = until


class _Observed(Engine[_Story]):
    most_steps = _MOST_STEPS
    what = "what the warp waits for"

    def _straight(self, piece: Straight, state: _Story) -> None:
        self._count(len(piece.steps))
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
        state.log = _Issued(state.log, piece)

    def _skip(self, loop: Loop, state: _Story, before: Snapshot, period: int, periods: int) -> int:
        skipped = super()._skip(loop, state, before, period, periods)
        if state.log is not before.mark:
            state.log = _Again(state.log, before.mark, periods)
        return skipped


# --- its log --------------------------------------------------------------------------------------


class _Issued(NamedTuple):
    """The issue of all instructions of a straight piece, once."""

    before: _Log
    piece: Straight


class _Waited(NamedTuple):
    """The cycles spent on the result of ``origin``, and in the queue of its unit."""

    before: _Log
    origin: int
    result: int
    unit: int


class _Again(NamedTuple):
    """The repetition of everything after ``since``, ``times`` times more."""

    before: _Log
    since: _Log
    times: int


_Log = _Issued | _Waited | _Again | None


def _fold_log(log: _Log) -> tuple[dict[int, CycleParts], dict[int, int]]:
    """Returns cycles and executions by origin. Cost: linear in the log."""
    pieces: dict[int, tuple[Straight, int]] = {}
    waits: dict[int, tuple[int, int]] = {}
    open_repeats: list[tuple[_Log, int]] = []
    weight = 1
    while log is not None:
        while open_repeats and open_repeats[-1][0] is log:
            weight = open_repeats.pop()[1]
        match log:
            case _Issued(_, piece):
                pieces[id(piece)] = (piece, pieces.get(id(piece), (piece, 0))[1] + weight)
            case _Waited(_, origin, result, unit):
                before = waits.get(origin, (0, 0))
                waits[origin] = (before[0] + weight * result, before[1] + weight * unit)
            case _Again(_, since, times):
                open_repeats.append((since, weight))
                weight *= 1 + times
        log = log.before
    issues, executions = _issues(pieces.values())
    parts = {
        origin: CycleParts(issues.get(origin, 0), *waits.get(origin, (0, 0)))
        for origin in issues.keys() | waits.keys()
    }
    return parts, executions


def _issues(pieces: Iterable[tuple[Straight, int]]) -> tuple[dict[int, int], dict[int, int]]:
    """Returns cycles of issue, and executions, by origin.

    An unknown opcode is one step on each unit: it counts as executed as often as on a single
    unit.
    """
    cycles: dict[int, int] = {}
    steps: dict[tuple[int, int], int] = {}
    for piece, times in pieces:
        for step, origin in zip(piece.steps, piece.origins, strict=True):
            cycles[origin] = cycles.get(origin, 0) + times * step[6]
            steps[origin, step[2]] = steps.get((origin, step[2]), 0) + times
    executions: dict[int, int] = {}
    for (origin, _unit), times in steps.items():
        executions[origin] = max(executions.get(origin, 0), times)
    return cycles, executions


# --- with limited totals --------------------------------------------------------------------------


def above(prices: Prices) -> Prices:
    """Returns prices one higher than these, at which a longest path passes few tallies."""
    return {key: price + 1 for key, price in prices.items() if price}


def limited_parts(body: Sequence[Node], prices: Prices) -> list[Body]:
    """Returns the parts of a body around tallies with a price, smallest first; then all of it."""
    return [*sorted(_parts(tuple(body), prices), key=_size), tuple(body)]


def _parts(body: Body, prices: Prices) -> Iterator[Body]:
    for node in body:
        if isinstance(node, Tally) and prices.get(node.key):
            yield body
        for inner in bodies(node):
            yield from _parts(inner, prices)


def _size(body: Body) -> int:
    own = sum(isinstance(node, Tally) or issued(node) is not None for node in body)
    return own + sum(_size(inner) for node in body for inner in bodies(node))


def spread(amount: int, weights: Mapping[int, int]) -> dict[int, int]:
    """Divides an amount in proportion to weights >= 0 (not all 0); the parts add up to it."""
    total = sum(weights.values())
    parts = {key: amount * weight // total for key, weight in weights.items()}
    missing = amount - sum(parts.values())
    nearest = sorted(weights, key=lambda key: -(amount * weights[key] % total))
    for key in nearest[:missing]:
        parts[key] += 1
    return parts


def attribute_limited(
    body: Sequence[Node],
    scoreboard: Scoreboard,
    length: tuple[int, Prices],
    *,
    through_bubble: bool,
) -> WarpAttribution:
    """Attributes each cycle of a length that is bounded with prices. Raises PW404.

    Executions are those of the path of the run, and the passings that pay for the rest.
    """
    cycles, prices = length
    attributed = attribute_warp(
        body, scoreboard, through_bubble=through_bubble, prices=above(prices)
    )
    rest = cycles - attributed.cycles
    if not rest:
        return attributed
    runs = (
        attribute_warp((Repeat(_STEADY, part),), scoreboard) for part in limited_parts(body, prices)
    )
    steady = next(run for run in runs if run.cycles)
    weights = {
        (origin, kind): cycles
        for origin, cycle_parts in steady.parts.items()
        for kind, cycles in enumerate(cycle_parts)
    }
    numbers = dict(enumerate(weights))
    shares = spread(rest, {number: weights[key] for number, key in numbers.items()})
    cycle_counts = {origin: list(cycle_parts) for origin, cycle_parts in attributed.parts.items()}
    for number, share in shares.items():
        origin, kind = numbers[number]
        cycle_counts.setdefault(origin, [0, 0, 0])[kind] += share
    executions = dict(attributed.executions)
    passings = -(-max(rest, 0) * _STEADY // steady.cycles)
    for origin, times in steady.executions.items():
        executions[origin] = executions.get(origin, 0) + passings * times // _STEADY
    parts = {origin: CycleParts(*counts) for origin, counts in cycle_counts.items()}
    return WarpAttribution(cycles, parts, executions)
