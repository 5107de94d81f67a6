"""Sections whose warps meet at barriers of a part of the block (docs/methods/joins.md).

A *stretch* of a warp goes from one wait to the next one. The stretches of all classes of warps are
run once without times, each loop until what follows repeats: this tells which arrivals complete
which phase, or why that is not known. Two bounds come of it. Along the event graph, a section ends
by the heaviest way of slack through its stretches and all initiations of all its warps. Group after
group, it ends by the sum over all phases of the largest slack and of the initiations on the
busiest sub-core of the stretches that the phase opens; warps that have nothing to do with one
another may stand beside each other's groups as they are. The smallest one counts.

Example: two producers wait for "empty" and arrive at "full", two consumers the other way round, n
times: the graph has n times the slack of both, one after the other, as have the 2 n groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import NamedTuple

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import Barrier, Node, PartialBarrier, Repeat
from ptxwcet.warp.segments import (
    NotStaticError,
    Section,
    SectionNode,
    SectionRepeat,
    cut_at_waits,
)
from ptxwcet.warp.structure import bodies

# Stretches that are run before the differences of times are left out, and then before the section
# is refused: a second or so.
_MOST_STRETCHES = 50_000


@dataclass(frozen=True, slots=True)
class JoinedSection:
    """What is proved of a section: its slack along the graph, all its work, its groups in a row.

    ``slack_cycles`` is that of all groups where the differences of times do not repeat.
    ``serial_cycles`` is None where sub-cores share units, and so is ``apart_cycles``: the groups of
    warps that meet somehow, beside the others. It is of a block alone.
    """

    slack_cycles: int
    work_cycles: int
    serial_cycles: int | None
    apart_cycles: int | None

    @property
    def cycles(self) -> int:
        """The bound of the section."""
        bounds = self.slack_cycles + self.work_cycles, self.serial_cycles, self.apart_cycles
        return min(cycles for cycles in bounds if cycles is not None)


@dataclass(frozen=True, slots=True)
class JoiningWarps:
    """The warps of one class in a section: what they execute, the work of each, how many they are
    in all and on each kind of sub-core.
    """

    body: tuple[Node, ...]
    work: int
    count: int
    on_cores: tuple[int, ...]


Measured = Callable[[tuple[Node, ...]], tuple[int, int]]
"""Slack and work of what one warp executes in a stretch."""


def joined_section(
    classes: Sequence[JoiningWarps], measured: Measured, *, private_units: bool
) -> JoinedSection:
    """The bounds of a section. Raises NotStaticError, PW501 for barriers in what is not decided,
    PW503 where nothing repeats within the limit. Cost: where it does, independent of trip counts.
    """
    rows = [cut_at_waits(one.body) for one in classes]
    work = sum(one.count * one.work for one in classes)
    known: dict[int, tuple[int, int]] = {}

    def of_stretch(stretch: Section) -> tuple[int, int]:
        if id(stretch) not in known:
            known[id(stretch)] = measured(stretch.body)
        return known[id(stretch)]

    run = _Run(classes, rows, of_stretch)
    slack = run.most if run.is_over() else None
    if slack is None:  # a way through the graph has at most one stretch of each group
        run = _Run(classes, rows, of_stretch, is_timed=False)
        if not run.is_over():
            raise PtxwcetError(_too_complex())
        slack = run.slack
    serial, apart = (run.serial, run.apart) if private_units else (None, None)
    return JoinedSection(slack, work, serial, apart)


def _arrivals(body: Sequence[Node]) -> Iterator[PartialBarrier]:
    """The arrivals of a stretch in order; of loops two iterations, which tell as much as more."""
    for node in body:
        if isinstance(node, PartialBarrier):
            yield node
        times = min(node.count, 2) if isinstance(node, Repeat) else 1
        for inner in bodies(node) * times:
            yield from _arrivals(inner)


@dataclass
class _Frame:
    """A row of stretches that is being executed, ``left`` times from this one on."""

    nodes: tuple[SectionNode, ...]
    left: int
    entered: int
    index: int = 0


class _Cursor:
    """Where the warps of a class stand in their stretches."""

    def __init__(self, nodes: tuple[SectionNode, ...]) -> None:
        self.frames = [_Frame(nodes, 1, 0, -1)]
        self.advance(0)

    @property
    def stretch(self) -> Section:
        frame = self.frames[-1]
        node = frame.nodes[frame.index]
        assert isinstance(node, Section)
        return node

    def advance(self, now: int) -> bool:
        """Goes on to the next stretch; whether a loop begins another iteration."""
        repeats = False
        self.frames[-1].index += 1
        while True:
            frame = self.frames[-1]
            if frame.index == len(frame.nodes):
                frame.left -= 1
                if frame.left:
                    frame.index, repeats = 0, True
                else:
                    self.frames.pop()
                    self.frames[-1].index += 1
                continue
            node = frame.nodes[frame.index]
            if isinstance(node, Section):
                return repeats
            assert isinstance(node, SectionRepeat), "what is not decided was refused"
            self.frames.append(_Frame(node.sections, node.count, now))


@dataclass
class _Arrived:
    """A class that has arrived at a phase: when it had done so at most, what it knew."""

    number: int
    done: int
    knows: set[str]
    waits: bool


@dataclass
class _Warps:
    """A class of warps: P of its stretch, and the objects of which it knows the phases so far to
    be over.
    """

    count: int
    cursor: _Cursor
    knows: set[str]
    component: int
    start: int = 0
    is_blocked: bool = False
    is_over: bool = False


@dataclass
class _Object:
    """The phase of a barrier that is counted."""

    last: PartialBarrier | None = None
    got: int = 0
    arrived: list[_Arrived] = field(default_factory=list)


class _Sums(NamedTuple):
    """The slack and the work of groups, added up."""

    slack: int = 0
    work: int = 0

    def plus(self, other: _Sums, times: int = 1) -> _Sums:
        return _Sums(self.slack + times * other.slack, self.work + times * other.work)


@dataclass(frozen=True, slots=True)
class _Saved:
    """What is moved when periods are skipped: loops, P of each component, the sum of groups."""

    loops: tuple[tuple[tuple[int, int], ...], ...]
    bases: dict[int, int]
    groups: dict[int, _Sums]


class _Run:
    """The classes run to their ends, one at a time until it waits."""

    def __init__(
        self,
        classes: Sequence[JoiningWarps],
        rows: Sequence[tuple[SectionNode, ...]],
        measured: Callable[[Section], tuple[int, int]],
        *,
        is_timed: bool = True,
    ) -> None:
        self._classes, self._measured, self._is_timed = classes, measured, is_timed
        named = [set(_names(row)) for row in rows]
        names = sorted(frozenset[str]().union(*named))
        self._objects = {name: _Object() for name in names}
        components = _components(named)
        self._warps = [
            _Warps(one.count, _Cursor(row), set(names), component)
            for one, row, component in zip(classes, rows, components, strict=True)
        ]
        self._seen: dict[object, _Saved] = {}
        self._known: dict[tuple[tuple[int, int], ...], _Sums] = {}
        self._stretches = 0
        self._most = [0] * len(classes)
        self._begin = self._group(range(len(classes)))
        self._begins = {one: self._group(self._members(one)) for one in components}
        self._groups = dict.fromkeys(components, _Sums())  # those that phases open

    def _members(self, component: int) -> list[int]:
        return [n for n, one in enumerate(self._warps) if one.component == component]

    @property
    def most(self) -> int:
        """The largest P + lambda."""
        return max(self._most)

    @property
    def slack(self) -> int:
        """The slack of all groups together."""
        return self._begin.slack + sum(one.slack for one in self._groups.values())

    @property
    def serial(self) -> int:
        """The slack and the work of all groups together."""
        return sum(self._begin) + sum(map(sum, self._groups.values()))

    @property
    def apart(self) -> int:
        """The largest sum over the groups of warps that meet somehow, and over the others, each as
        they are or group after group.
        """
        own, least = [], []
        for component, opened in self._groups.items():
            own.append(sum(self._begins[component].plus(opened)))
            members = (self._classes[n] for n in self._members(component))
            work = sum(one.count * one.work for one in members)
            least.append(min(own[-1], work))
        return max(one + sum(least) - less for one, less in zip(own, least, strict=True))

    def is_over(self) -> bool:
        """Runs; False where the limit ends it. Raises NotStaticError."""
        while self._stretches < _MOST_STRETCHES:
            running = [n for n, one in enumerate(self._warps) if not one.is_over]
            if not running:
                break
            number = next((n for n in running if not self._warps[n].is_blocked), None)
            if number is None:
                raise NotStaticError(
                    _last(self._warps[running[0]].cursor.stretch),
                    "warps wait there that no other warp can be relied on to release",
                )
            if self._step(number):
                self._skip()
        else:
            return False
        for one in self._objects.values():
            if one.got:
                assert one.last is not None
                raise NotStaticError(
                    one.last, f"{one.got} warps arrive for the last time, and nobody completes that"
                )
        self._require_over()
        return True

    def _require_over(self) -> None:
        """Raises NotStaticError if warps may come to a barrier of the whole block, which ends the
        section, before a phase of its object is over: they would be counted there, too.
        """
        for one, warps in zip(self._classes, self._warps, strict=True):
            end = one.body[-1] if one.body else None
            if isinstance(end, Barrier) and end.name in self._objects.keys() - warps.knows:
                last = self._objects[end.name].last
                assert last is not None, "some phase is over of which these warps do not know"
                raise NotStaticError(
                    last, "a warp may be at this barrier with all of the block before that is over"
                )

    def _step(self, number: int) -> bool:
        """Runs a stretch; whether a loop begins another iteration behind a phase that it ends."""
        self._stretches += 1
        warps = self._warps[number]
        stretch = warps.cursor.stretch
        slack = self._measured(stretch)[0] if self._is_timed else 0
        done = warps.start + slack
        repeats = False
        for join in _arrivals(stretch.body):
            repeats |= self._arrive(number, join, done)
        if stretch.barrier is None:
            warps.is_over = True
            self._most[number] = done
        return repeats

    def _arrive(self, number: int, join: PartialBarrier, done: int) -> bool:
        warps, at = self._warps[number], self._objects[join.name]
        if join.name not in warps.knows:
            raise NotStaticError(join, "a warp may arrive before the phase before is over")
        if at.last is not None and at.got and at.last.warps != join.warps:
            raise NotStaticError(join, f"others count {at.last.warps} warps there")
        if any(one.number == number for one in at.arrived):
            raise NotStaticError(join, "a warp arrives twice in one phase")
        at.last, at.got = join, at.got + warps.count
        if at.got > join.warps:
            raise NotStaticError(join, f"{at.got} warps may arrive: which of them is not known")
        at.arrived.append(_Arrived(number, done, set(warps.knows), join.waits))
        warps.is_blocked |= join.waits
        return at.got == join.warps and self._open(join.name)

    def _open(self, name: str) -> bool:
        """A phase is over: whoever waits goes on, and knows what those knew who arrived."""
        arrived = self._objects[name].arrived
        self._objects[name] = _Object(self._objects[name].last)
        known = set[str]().union(*(one.knows for one in arrived)) | {name}
        for warps in self._warps:
            warps.knows.discard(name)
        for other in self._objects.values():
            for one in other.arrived:
                one.knows.discard(name)
        start = max(one.done for one in arrived)
        waiting = [one.number for one in arrived if one.waits]
        repeats = False
        for number in waiting:
            warps = self._warps[number]
            warps.knows, warps.start, warps.is_blocked = set(known), start, False
            repeats |= warps.cursor.advance(self._stretches)
        if waiting:
            component = self._warps[waiting[0]].component
            self._groups[component] = self._groups[component].plus(self._group(waiting))
        return repeats

    def _group(self, numbers: Sequence[int]) -> _Sums:
        """The largest slack of the stretches that a phase opens, and their work on the sub-core
        on which it is most.
        """
        stretches = [(number, self._warps[number].cursor.stretch) for number in numbers]
        key = tuple((number, id(stretch)) for number, stretch in stretches)
        if key not in self._known:
            found = [(self._classes[n].on_cores, *self._measured(one)) for n, one in stretches]
            works = [[warps * work for warps in cores] for cores, _, work in found]
            busiest = max(map(sum, zip(*works, strict=True)), default=0)
            self._known[key] = _Sums(max((slack for _, slack, _ in found), default=0), busiest)
        return self._known[key]

    # --- loops ------------------------------------------------------------------------------------

    def _skip(self) -> None:
        """Skips as many periods as there are, if all that decides what follows was so before.

        What was saved before stays: from there to here is a period of the loops around.
        """
        bases: dict[int, int] = {}
        for warps in self._warps:
            if not warps.is_over:
                least = bases.get(warps.component, warps.start)
                bases[warps.component] = min(least, warps.start)
        key = self._state(bases)
        loops = tuple(
            tuple((frame.entered, frame.left) for frame in warps.cursor.frames)
            for warps in self._warps
        )
        before = self._seen.get(key)
        periods = 0 if before is None else _periods(before.loops, loops)
        if before is None or not periods:
            self._seen[key] = _Saved(loops, bases, dict(self._groups))
            return
        for component, sums in self._groups.items():
            period = sums.plus(before.groups[component], -1)
            self._groups[component] = sums.plus(period, periods)
        moved = {one: periods * (base - before.bases[one]) for one, base in bases.items()}
        for warps, now, then in zip(self._warps, loops, before.loops, strict=True):
            warps.start += moved.get(warps.component, 0)
            for frame, (_, left), (_, earlier) in zip(warps.cursor.frames, now, then, strict=True):
                frame.left -= periods * (earlier - left)
        for at in self._objects.values():
            for one in at.arrived:
                one.done += moved.get(self._warps[one.number].component, 0)

    def _state(self, bases: dict[int, int]) -> object:
        positions = tuple(
            (
                tuple((id(frame.nodes), frame.index) for frame in warps.cursor.frames),
                warps.is_blocked,
                warps.is_over,
                0 if warps.is_over else warps.start - bases[warps.component],
                frozenset(warps.knows),
            )
            for warps in self._warps
        )
        arrived = tuple(
            (
                at.got,
                at.last.warps if at.last and at.got else 0,
                tuple(
                    (
                        one.number,
                        one.done - bases.get(self._warps[one.number].component, 0),
                        frozenset(one.knows),
                        one.waits,
                    )
                    for one in at.arrived
                ),
            )
            for at in self._objects.values()
        )
        return positions, arrived


def _periods(
    before: tuple[tuple[tuple[int, int], ...], ...], now: tuple[tuple[tuple[int, int], ...], ...]
) -> int:
    """How many more periods each loop has iterations for that was open throughout; 0 where one that
    was entered anew stands at another iteration.
    """
    least = None
    for then, loops in zip(before, now, strict=True):
        for (entered, left), (entered_now, left_now) in zip(then, loops, strict=True):
            if entered != entered_now:
                if left != left_now:
                    return 0
            elif left > left_now:
                fit = (left_now - 1) // (left - left_now)
                least = fit if least is None else min(least, fit)
    return least or 0


def _names(nodes: Sequence[SectionNode]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Section):
            yield from (join.name for join in _arrivals(node.body))
        elif isinstance(node, SectionRepeat):
            yield from _names(node.sections)


def _components(named: Sequence[set[str]]) -> list[int]:
    """For each class the number of those that meet at some object, directly or by way of others."""
    component = list(range(len(named)))
    for one, names in enumerate(named):
        for other in range(one):
            if component[one] != component[other] and not names.isdisjoint(named[other]):
                old, new = component[one], component[other]
                component = [new if each == old else each for each in component]
    return component


def _last(stretch: Section) -> PartialBarrier:
    barrier = stretch.barrier
    assert isinstance(barrier, PartialBarrier)
    return barrier


def _too_complex() -> Diagnostic:
    return Diagnostic(
        "PW503",
        "the warps meet at barriers of a part of the block in patterns that do not repeat",
        notes=(
            f"more than {_MOST_STRETCHES} stretches between two waits would have to be looked at",
        ),
    )
