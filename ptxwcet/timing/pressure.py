"""Computes the demand of a loop iteration on each unit, and its chain of results.

There are three figures of one warp and one iteration, as in OSACA's two columns (throughput and
loop-carried dependency), and none of them bounds a launch:

* *ports*: the cycles for which its instructions occupy the issue port (one, and the bubble after a
  taken branch), initiate at each unit, and are served after it. With many warps the busiest port
  decides.
* *chain*: the longest circle of results through the iterations: from an instruction to one that
  waits for its register, and so on to the first one, some iterations later; the sum of initiations
  and latencies on it, per iteration. No unit and no order of issues could make it faster.
* *alone*: the time of an iteration of one warp in isolation, in the long run. It issues in order,
  so that it also waits for results on no chain, and it is no less than ports and chain.

An iteration maps the first cycle of an issue, the cycles in which registers are ready and those in
which units are free to the same ones after it, by maxima and additions of constants only. So in
the long run an iteration takes the largest mean weight of a circle in the graph of that map (the
eigenvalue of its matrix in the algebra of max and plus; Karp's formula). Circles of results only
are some of them, and so are those at one unit, and at the issue port.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from operator import or_

from ptxwcet.support.records import dataclass
from ptxwcet.timing.demand import issue_count, most_cycles, used_units
from ptxwcet.warp.program import (
    BlockChoice,
    BlockRepeat,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    is_single_path,
    unroll,
)
from ptxwcet.warp.structure import bodies, issued

_MOST_INSTRUCTIONS = 4_000
"""The most instructions of an iteration for which chains are computed, with loops unrolled."""
_MOST_CARRIED = 400
"""The most registers that an iteration leaves to the next one."""
_NONE = -(1 << 60)  # no path leads there


@dataclass(frozen=True, slots=True)
class Circle:
    """A circle through the instructions ``origins``: ``cycles`` in ``iterations`` iterations."""

    cycles: int = 0
    iterations: int = 1
    origins: tuple[int, ...] = ()

    @property
    def each(self) -> Fraction:
        """The cycles per iteration."""
        return Fraction(self.cycles, self.iterations)


@dataclass(frozen=True, slots=True)
class PortUse:
    """The demand of an iteration on a port: ``total``, and ``by_instruction`` its parts.

    If iterations differ, each figure is the most of any iteration.
    """

    by_instruction: Mapping[int, int]
    total: int


@dataclass(frozen=True, slots=True)
class Pressure:
    """The demand of one iteration: ``issue`` cycles, those at ``units`` by name and at the memory
    ``path``, and ``sectors`` that the memory serves.

    ``chain`` and ``alone`` are None where iterations differ or are too long.
    """

    issue: PortUse
    units: Mapping[str, PortUse]
    path: PortUse
    sectors: PortUse
    chain: Circle | None
    alone: Circle | None


def pressure_of(body: Sequence[Node], scoreboard: Scoreboard) -> Pressure:
    """Returns the figures of one iteration. Barriers count as ordinary instructions.

    Cost: a pass for each carried register and unit, and the cube of their number.
    """

    def most(weight: Callable[[TimedInstruction], int]) -> PortUse:
        shares = {origin: share for origin, share in _shares(body, weight).items() if share}
        return PortUse(shares, most_cycles(body, weight))

    def at(unit: str) -> PortUse:
        return most(lambda i: i.initiation_cycles if i.unit == unit else 0)

    steps = _steps(body)
    return Pressure(
        most(lambda i: 1 + i.bubble_cycles),
        {unit: at(unit) for unit in sorted(used_units(body))},
        most(lambda i: i.path_cycles),
        most(lambda i: i.sectors),
        None if steps is None else _heaviest_circle(_Map(steps, scoreboard, alone=False)),
        None if steps is None else _heaviest_circle(_Map(steps, scoreboard, alone=True)),
    )


def _shares(body: Sequence[Node], weight: Callable[[TimedInstruction], int]) -> Counter[int]:
    """Returns the most that all executions of each instruction may weigh on a path."""
    shares: Counter[int] = Counter()
    for node in body:
        own = issued(node)
        if own is not None:
            shares[own.origin] += weight(own)
        inside = [_shares(inner, weight) for inner in bodies(node)]
        if isinstance(node, Choice | BlockChoice):
            shares += reduce(or_, inside, Counter())  # the larger of each
        for inner in [] if isinstance(node, Choice | BlockChoice) else inside:
            times = node.count if isinstance(node, Repeat | BlockRepeat) else 1
            shares.update({origin: times * share for origin, share in inner.items()})
    return shares


def _steps(body: Sequence[Node]) -> tuple[TimedInstruction, ...] | None:
    """Returns the instructions of an iteration, if it is always the same and short enough."""
    nodes = tuple(body)
    if not is_single_path(nodes) or issue_count(nodes) > _MOST_INSTRUCTIONS:
        return None
    instructions = (issued(node) for node in unroll(nodes))
    return tuple(own for own in instructions if own is not None)


_Trail = tuple["_Trail", int] | None
"""The instructions on a path, the last one first."""


class _Map:
    """An iteration as a map of times: of registers, and if ``alone`` of units and t."""

    def __init__(
        self, steps: Sequence[TimedInstruction], scoreboard: Scoreboard, *, alone: bool
    ) -> None:
        self._steps, self._alone = steps, alone
        self._waits_for_writes = scoreboard is Scoreboard.RAW_WAW
        written = {name for step in steps for name in step.writes}
        carried = dict.fromkeys(name for name in self._awaited_first() if name in written)
        units = dict.fromkeys(step.unit for step in steps) if alone else {}
        issue = [("issue", "")] if alone else []
        self.places = [*issue, *(("unit", u) for u in units), *(("ready", r) for r in carried)]

    def _waits(self, step: TimedInstruction) -> tuple[str, ...]:
        return (*step.reads, *step.writes) if self._waits_for_writes else step.reads

    def _awaited_first(self) -> Iterator[str]:
        """Yields the registers whose time before the iteration may count in it."""
        written: set[str] = set()
        for step in self._steps:
            kept = step.writes if step.conditional else ()
            yield from (name for name in (*self._waits(step), *kept) if name not in written)
            written.update(() if step.conditional else step.writes)

    def from_place(self, place: tuple[str, str]) -> dict[tuple[str, str], tuple[int, _Trail]]:
        """Returns the longest paths from a place before the iteration to each after it."""
        times: dict[tuple[str, str], tuple[int, _Trail]] = {place: (0, None)}
        nowhere: tuple[int, _Trail] = (_NONE, None)
        for step in self._steps:
            waits = [times.get(("ready", name), nowhere) for name in self._waits(step)]
            first = [times.get(("issue", ""), nowhere)] if self._alone else []
            issue = max((*first, *waits), key=_time, default=nowhere)
            start = max(issue, times.get(("unit", step.unit), nowhere), key=_time)
            done = _later(start, step.initiation_cycles + step.latency_cycles, step.origin)
            if self._alone:
                times["issue", ""] = _later(issue, 1 + step.bubble_cycles, step.origin)
                times["unit", step.unit] = _later(start, step.initiation_cycles, step.origin)
            for name in step.writes:
                before = times.get(("ready", name), nowhere)
                times["ready", name] = max(before, done, key=_time) if step.conditional else done
        return times


def _time(reached: tuple[int, _Trail]) -> int:
    return reached[0]


def _later(reached: tuple[int, _Trail], cycles: int, origin: int) -> tuple[int, _Trail]:
    time, trail = reached
    return (time + cycles, (trail, origin)) if time >= 0 else reached


def _heaviest_circle(links: _Map) -> Circle | None:
    """Returns the circle of the largest mean weight. Karp (1978); cost: the cube of the places."""
    places = links.places
    if len(places) > _MOST_CARRIED:
        return None
    reached = [links.from_place(place) for place in places]
    # the edges to each place: origin, length, instructions
    into = [
        [(k, *times[place]) for k, times in enumerate(reached) if _is_there(times, place)]
        for place in places
    ]
    longest = [[0] * len(places)]
    before: list[list[int]] = []
    for _ in places:
        last = longest[-1]
        best = [max(((last[k] + t, k) for k, t, _ in edges), default=(_NONE, -1)) for edges in into]
        longest.append([time if time >= 0 else _NONE for time, _ in best])
        before.append([k for _, k in best])
    ends = [v for v in range(len(places)) if longest[-1][v] >= 0]
    if not ends:
        return Circle()

    def mean(v: int) -> Fraction:
        rows = [(n, last[v]) for n, last in enumerate(longest[:-1]) if last[v] >= 0]
        return min(Fraction(longest[-1][v] - time, len(places) - n) for n, time in rows)

    end = max(ends, key=mean)
    walk = [end]
    for last in reversed(before):
        walk.append(last[walk[-1]])
    circles = (_circle(nodes, into) for nodes in _circles_of(walk))
    return max(circles, key=lambda circle: circle.each)


def _is_there(found: Mapping[tuple[str, str], tuple[int, _Trail]], place: tuple[str, str]) -> bool:
    return place in found and found[place][0] >= 0


def _circles_of(walk: Sequence[int]) -> Iterator[list[int]]:
    """Yields the circles that a walk consists of, each place of a circle once."""
    path: list[int] = []
    for node in walk:
        if node in path:
            yield path[path.index(node) :]
            del path[path.index(node) :]
        path.append(node)


def _circle(nodes: Sequence[int], into: Sequence[Sequence[tuple[int, int, _Trail]]]) -> Circle:
    """Returns the circle through places that follow each other backwards."""
    cycles, origins = 0, dict[int, None]()
    for node, source in zip(nodes, (*nodes[1:], nodes[0]), strict=True):
        time, trail = next((t, trail) for k, t, trail in into[node] if k == source)
        cycles += time
        while trail is not None:
            trail, origin = trail
            origins[origin] = None
    return Circle(cycles, len(nodes), tuple(reversed(origins)))
