"""What an iteration of a loop asks of each unit, and the chain of results that it waits for.

Three figures of one warp and one iteration, as in OSACA's two columns (throughput and loop-carried
dependency), and none a bound of a launch:

* *ports*: the cycles that its instructions take the issue port (one, and the bubble behind a taken
  branch), initiate at each unit, and are served behind it. With many warps the busiest decides.
* *chain*: the longest circle of results through the iterations: from an instruction to one that
  waits for its register, and so on to the first one, some iterations later; the sum of initiations
  and latencies on it, an iteration. It is what no unit and no order of issues could make faster.
* *alone*: what an iteration takes one warp that runs alone, in the long run. It issues in order,
  so that it waits for results on no chain, too, and it is no less than ports and chain.

An iteration maps the first cycle of an issue, the cycles in which registers are ready and those in
which units are free to the same ones after it, by maxima and additions of constants alone. So in
the long run an iteration takes the largest mean weight of a circle in the graph of that map (the
eigenvalue of its matrix in the algebra of max and plus; Karp's formula). Circles of results alone
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
"""Of an iteration, loops inside unrolled, for which chains are looked for."""
_MOST_CARRIED = 400
"""Registers that an iteration leaves to the next one."""
_NONE = -(1 << 60)  # no path leads there


@dataclass(frozen=True, slots=True)
class Circle:
    """``cycles`` in ``iterations`` iterations, on a circle through the instructions ``origins``."""

    cycles: int = 0
    iterations: int = 1
    origins: tuple[int, ...] = ()

    @property
    def each(self) -> Fraction:
        """Cycles an iteration."""
        return Fraction(self.cycles, self.iterations)


@dataclass(frozen=True, slots=True)
class PortUse:
    """What an iteration asks of a port: ``total``, and ``by_instruction`` all its executions.

    Of iterations that differ each is the most of any.
    """

    by_instruction: Mapping[int, int]
    total: int


@dataclass(frozen=True, slots=True)
class Pressure:
    """What one iteration asks for: ``issue`` cycles, those at ``units`` by name and at the memory
    ``path``, ``sectors`` that the memory serves.

    ``chain`` and ``alone`` are None where iterations differ or are too long.
    """

    issue: PortUse
    units: Mapping[str, PortUse]
    path: PortUse
    sectors: PortUse
    chain: Circle | None
    alone: Circle | None


def pressure_of(body: Sequence[Node], scoreboard: Scoreboard) -> Pressure:
    """The figures of one iteration. Barriers count as ordinary instructions.

    Cost: a pass for each carried register and unit, and the cube of their number.
    """

    def most(weight: Callable[[TimedInstruction], int]) -> PortUse:
        shares = {origin: share for origin, share in _shares(body, weight).items() if share}
        return PortUse(shares, most_cycles(body, weight))

    def at(unit: str) -> PortUse:
        return most(lambda one: one.initiation_cycles if one.unit == unit else 0)

    steps = _steps(body)
    return Pressure(
        most(lambda one: 1 + one.bubble_cycles),
        {unit: at(unit) for unit in sorted(used_units(body))},
        most(lambda one: one.path_cycles),
        most(lambda one: one.sectors),
        None if steps is None else _heaviest_circle(_Map(steps, scoreboard, alone=False)),
        None if steps is None else _heaviest_circle(_Map(steps, scoreboard, alone=True)),
    )


def _shares(body: Sequence[Node], weight: Callable[[TimedInstruction], int]) -> Counter[int]:
    """The most that the executions of each instruction may weigh on a way through a body."""
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
    """The instructions of an iteration one by one, if it is always the same and short enough."""
    nodes = tuple(body)
    if not is_single_path(nodes) or issue_count(nodes) > _MOST_INSTRUCTIONS:
        return None
    found = (issued(node) for node in unroll(nodes))
    return tuple(own for own in found if own is not None)


_Trail = tuple["_Trail", int] | None
"""The instructions on a path, the last one first."""


class _Map:
    """An iteration as a map of times: of registers that it leaves, and ``alone`` of units and t."""

    def __init__(
        self, steps: Sequence[TimedInstruction], scoreboard: Scoreboard, *, alone: bool
    ) -> None:
        self._steps, self._alone = steps, alone
        self._waits_for_writes = scoreboard is Scoreboard.RAW_WAW
        written = {name for step in steps for name in step.writes}
        carried = dict.fromkeys(name for name in self._awaited_first() if name in written)
        units = dict.fromkeys(step.unit for step in steps) if alone else {}
        issue = [("issue", "")] if alone else []
        self.places = [*issue, *(("unit", one) for one in units), *(("ready", r) for r in carried)]

    def _waits(self, step: TimedInstruction) -> tuple[str, ...]:
        return (*step.reads, *step.writes) if self._waits_for_writes else step.reads

    def _awaited_first(self) -> Iterator[str]:
        """Registers whose time before the iteration may count in it."""
        known: set[str] = set()
        for step in self._steps:
            kept = step.writes if step.conditional else ()
            yield from (name for name in (*self._waits(step), *kept) if name not in known)
            known.update(() if step.conditional else step.writes)

    def from_place(self, place: tuple[str, str]) -> dict[tuple[str, str], tuple[int, _Trail]]:
        """The longest paths from a place before the iteration to each after it."""
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
    """The circle of the largest mean weight. Karp (1978); cost: the cube of the places."""
    places = links.places
    if len(places) > _MOST_CARRIED:
        return None
    reached = [links.from_place(place) for place in places]
    # edges that lead to each place: from where, how long, through what
    into = [
        [(k, *found[place]) for k, found in enumerate(reached) if _is_there(found, place)]
        for place in places
    ]
    longest = [[0] * len(places)]
    before: list[list[int]] = []
    for _ in places:
        row = longest[-1]
        best = [max(((row[k] + t, k) for k, t, _ in edges), default=(_NONE, -1)) for edges in into]
        longest.append([time if time >= 0 else _NONE for time, _ in best])
        before.append([k for _, k in best])
    ends = [v for v in range(len(places)) if longest[-1][v] >= 0]
    if not ends:
        return Circle()

    def mean(v: int) -> Fraction:
        rows = [(n, row[v]) for n, row in enumerate(longest[:-1]) if row[v] >= 0]
        return min(Fraction(longest[-1][v] - time, len(places) - n) for n, time in rows)

    end = max(ends, key=mean)
    walk = [end]
    for row in reversed(before):
        walk.append(row[walk[-1]])
    circles = (_circle(nodes, into) for nodes in _circles_of(walk))
    return max(circles, key=lambda one: one.each)


def _is_there(found: Mapping[tuple[str, str], tuple[int, _Trail]], place: tuple[str, str]) -> bool:
    return place in found and found[place][0] >= 0


def _circles_of(walk: Sequence[int]) -> Iterator[list[int]]:
    """The circles that a walk consists of, each place of one once."""
    path: list[int] = []
    for node in walk:
        if node in path:
            yield path[path.index(node) :]
            del path[path.index(node) :]
        path.append(node)


def _circle(nodes: Sequence[int], into: Sequence[Sequence[tuple[int, int, _Trail]]]) -> Circle:
    """The circle through places that follow each other backwards."""
    cycles, origins = 0, dict[int, None]()
    for node, source in zip(nodes, (*nodes[1:], nodes[0]), strict=True):
        time, trail = next((t, trail) for k, t, trail in into[node] if k == source)
        cycles += time
        while trail is not None:
            trail, origin = trail
            origins[origin] = None
    return Circle(cycles, len(nodes), tuple(reversed(origins)))
