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

The run is that of :mod:`ptxwcet.timing.engine`, observed: its state also remembers who wrote each
register. Where it is a pointwise maximum of alternatives, each component remembers where it came
from, and the cycles so far are those of the alternative that is latest: sums stay exact. Loops: a
period whose waits repeat counts as often as it is executed; the log of a run is a linked list, so
that alternatives share what they have in common, and nothing in it is unrolled.

With limited totals (timing.demand) a bound is the time of a way through the program and a price for
every passing that the limits still allow: ``price * (limit - passings of the way)``. That rest goes
to what the passings would execute, the smallest part of the program around a tally, as it does when
it is repeated. Prices one above the best ones find a way with few passings, so that the rest is
seldom negative.
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

# Real kernels need a few times their static size, below 10^5; the limit is about three seconds of
# work, a fraction of the engine's: no bound waits longer for its explanation than for itself.
_MOST_STEPS = 2_000_000
_STEADY = 64  # repetitions of a part, to see what it costs behind itself


class CycleParts(NamedTuple):
    """Cycles of a warp's isolated run that one instruction is charged."""

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
    registers = len(program.registers)
    ready, free = [0] * registers, [0] * max(1, len(program.units))
    state = _Story(ready, free, gap=None, maker=[-1] * registers, started=[0] * registers)
    _Observed().run(program.body, state)
    end = max(state.completion, state.t) if through_bubble else state.completion
    if end > state.t:
        state.wait(state.last_maker, state.last_started, end)
    parts, executions = _fold_log(state.log)
    if end < state.t:  # the bubble behind the last issue outlasts the run
        own = parts[state.issued]
        parts[state.issued] = own._replace(issue=own.issue - (state.t - end))
    return WarpAttribution(sum(one.total for one in parts.values()), parts, executions)


# --- the run, observed ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Story(WarpState):
    """The engine's state, and for each time who made it.

    Register r is made ready by ``maker[r]``, dispatched at ``started[r]``; the run's end so far by
    ``last_maker``. The waits and issues of ``log`` take ``t`` cycles in sum.
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
        """Times and who is waited for, relative to t."""
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
    """All instructions of a straight piece were issued once."""

    before: _Log
    piece: Straight


class _Waited(NamedTuple):
    """Cycles spent on the result of ``origin``, and on the queue that it stood in."""

    before: _Log
    origin: int
    result: int
    unit: int


class _Again(NamedTuple):
    """Everything after ``since`` happened ``times`` times more."""

    before: _Log
    since: _Log
    times: int


_Log = _Issued | _Waited | _Again | None


def _fold_log(log: _Log) -> tuple[dict[int, CycleParts], dict[int, int]]:
    """Cycles and executions by origin. Cost: linear in the log."""
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
    """Cycles of issue and executions by origin.

    An unknown opcode is one step on each unit: an instruction is executed as often as on any one.
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
    """Prices at which a way has no passing that is not worth more than the best price."""
    return {key: price + 1 for key, price in prices.items() if price}


def limited_parts(body: Sequence[Node], prices: Prices) -> list[Body]:
    """The parts of a body around tallies that cost something, smallest first; then all of it."""
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
    """An amount in proportion to weights >= 0, which are not all 0; the parts add up to it."""
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
    """Attributes a length that is bounded with prices, each cycle of it. Raises PW404.

    Executions are those of the way that was found, and of the passings that pay for the rest.
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
