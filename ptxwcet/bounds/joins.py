"""Bounds sections whose warps synchronise at partial barriers (docs/methods/barriers.md).

A *stretch* of a warp extends from one wait to the next. The stretches of all classes of warps are
run once without times, each loop until the state repeats: this determines which arrivals complete
which phase, or why that is unknown. Two bounds result. Along the event graph, a section ends by the
heaviest path of slack through its stretches plus all initiations of all its warps. As serialised
phases, it ends by the sum over all phases of the largest slack and of the initiations on the
busiest sub-core of the stretches that the phase opens; warps without common barriers may be charged
as they are, next to the groups of others. The smallest bound counts.

Example: two producers wait for "empty" and arrive at "full", two consumers vice versa, n
times: the graph has n times the slack of both, in sequence, and so have the 2 n groups.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import NamedTuple

from ptxwcet.ir.mbarriers import MOST_COUNT
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import (
    REGISTERS,
    Barrier,
    BlockChoice,
    Node,
    PartialBarrier,
    Repeat,
    WarpProgram,
)
from ptxwcet.warp.segments import (
    NotStaticError,
    Section,
    SectionNode,
    SectionRepeat,
    as_joins,
    cut_at_waits,
    has_named_join,
)
from ptxwcet.warp.structure import bodies, entered, joining

# The most stretches that are run before the differences of times are left out, and then before the
# section is refused: a second or so.
_MOST_STRETCHES = 50_000
# The most iterations of a loop that counts at mbarriers and waits for none.
_MOST_COUNTED = 4096
_LONG_AGO = -(1 << 60)
_NOT_INITIALISED = "it is not initialised when the barrier of the block before this opens"
_INITIALISE = (
    "let one thread initialise each mbarrier once, before a barrier of the block (bar.sync 0, "
    "__syncthreads()) behind which all uses of it come"
)


@dataclass(frozen=True, slots=True)
class JoinedSection:
    """The proved bounds of a section: slack along the graph, all its work, its serialised groups.

    ``slack_cycles`` is the slack of all groups where the differences of times do not repeat.
    ``serial_cycles`` is None where sub-cores share units, and so is ``apart_cycles``: the groups of
    warps that synchronise, next to the others. It holds for a block in isolation. ``polling`` is
    the share of all cycles of the block in which warps waiting for mbarriers may issue, in addition
    to the work, which contains a part of that; None without mbarriers.
    """

    slack_cycles: int
    work_cycles: int
    serial_cycles: int | None
    apart_cycles: int | None
    polling: Fraction | None = None

    @property
    def cycles(self) -> int:
        """The bound of the section, less the time of polls, which last as long as the block."""
        bounds = self.slack_cycles + self.work_cycles, self.serial_cycles, self.apart_cycles
        return min(cycles for cycles in bounds if cycles is not None)


@dataclass(frozen=True, slots=True)
class JoiningWarps:
    """The warps of one class in a section: their program, the work of each, and their number in
    total and on each kind of sub-core.
    """

    body: tuple[Node, ...]
    work: int
    count: int
    on_cores: tuple[int, ...]


Measured = Callable[[tuple[Node, ...]], tuple[int, int]]
"""The slack and work of a warp's program in a stretch."""


class State(NamedTuple):
    """An mbarrier between two sections: the arrivals that a phase expects, its parity, and whether
    it is certain that the phase before is over.
    """

    expects: int
    parity: int
    is_sure: bool = True


Standing = dict[str, State]
"""The initialised mbarriers."""


def joined_section(
    classes: Sequence[JoiningWarps],
    measured: Measured,
    *,
    private_units: bool,
    standing: Standing,
    repeats: bool = False,
) -> JoinedSection | None:
    """Returns the bounds of a section; None where its warps do not synchronise after all. Raises
    NotStaticError, PW501 for barriers in undecided code, PW503 where nothing repeats within the
    limit. Cost: if it repeats, independent of trip counts.

    ``standing`` becomes the state of the mbarriers after the section; if it ``repeats``, that must
    be their state before it.
    """
    rows = [cut_at_waits(c.body) for c in classes]
    counting = [
        [b for b in entered(each.body) if isinstance(b, PartialBarrier) and b.mbarrier]
        for each in classes
    ]
    if any(counting):
        return _counting_section(classes, counting, rows, measured, standing, repeats=repeats)
    work = sum(c.count * c.work for c in classes)
    figures: dict[int, tuple[int, int]] = {}

    def of_stretch(stretch: Section) -> tuple[int, int]:
        if id(stretch) not in figures:
            figures[id(stretch)] = measured(stretch.body)
        return figures[id(stretch)]

    run = _Run(classes, rows, of_stretch)
    slack = run.most if run.is_over() else None
    if slack is None:  # A path through the graph has at most one stretch of each group.
        run = _Run(classes, rows, of_stretch, is_timed=False)
        if not run.is_over():
            raise PtxwcetError(_too_complex())
        slack = run.slack
    serial, apart = (run.serial, run.apart) if private_units else (None, None)
    return JoinedSection(slack, work, serial, apart)


def with_barriers_joined(programs: Sequence[WarpProgram], warps: int) -> list[WarpProgram] | None:
    """Returns the programs in which all barriers of the block after the first one that follows the
    last initialisation of an mbarrier are joins of all its warps: phases may cross them.

    None where nothing is initialised, where that happens in a loop with barriers of the block or
    after one, and where products join warps, too. Cost: linear in the trees.
    """
    kept = 0
    for program in programs:
        barriers = 0
        for node in program.body:
            inits = any(map(_initialises, entered((node,))))
            barriers += isinstance(node, Barrier)
            kept = barriers + 1 if inits else kept
    if not kept or any(joining(program.body) for program in programs):
        return None
    converted = []
    for program in programs:
        at = _behind(program.body, kept)
        if at is None:
            return None
        body = (*program.body[:at], *as_joins(program.body[at:], warps))
        converted.append(replace(program, body=body))
    return converted


def _initialises(node: Node) -> bool:
    return (
        isinstance(node, PartialBarrier) and node.mbarrier is not None and node.mbarrier.expects > 0
    )


def _behind(body: tuple[Node, ...], barriers: int) -> int | None:
    """Returns the index after this many barriers of the block, if they are in no loop or branch and
    all initialisations of mbarriers are before it.
    """
    for place, node in enumerate(body):
        inner = [n for each in bodies(node) for n in entered(each)]
        if any(isinstance(n, Barrier | BlockChoice) or _initialises(n) for n in inner):
            return None
        barriers -= isinstance(node, Barrier)
        if not barriers:
            rest = body[place + 1 :]
            return None if any(map(_initialises, entered(rest))) else place + 1
    return None


def _arrivals(body: Sequence[Node]) -> Iterator[PartialBarrier]:
    """Yields the arrivals of a stretch in order; of loops two iterations, which suffice if nothing
    in them counts at an mbarrier.
    """
    for node in body:
        if isinstance(node, PartialBarrier):
            yield node
        times = min(node.count, 2) if isinstance(node, Repeat) else 1
        if isinstance(node, Repeat) and node.count > 2 and any(map(_counts, entered(node.body))):
            if node.count > _MOST_COUNTED:
                raise PtxwcetError(_too_complex())
            times = node.count
        for inner in bodies(node) * times:
            yield from _arrivals(inner)


def _counts(node: Node) -> bool:
    return isinstance(node, PartialBarrier) and node.mbarrier is not None


@dataclass
class _Frame:
    """A sequence of stretches in execution, ``left`` times from this one on."""

    nodes: tuple[SectionNode, ...]
    left: int
    entered: int
    index: int = 0


class _Cursor:
    """The position of a class of warps in its stretches."""

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
        """Advances to the next stretch; returns whether a loop begins another iteration."""
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


Known = set[Hashable]
"""The knowledge of a warp: the name of an object whose phase before the present one is over; for an
mbarrier also the phase before that (``_before``), and the end of a wait there (``_seen``).
"""


def _before(name: str) -> Hashable:
    return "before", name


def _seen(number: int, name: str, parity: int) -> Hashable:
    return "seen", number, name, parity


@dataclass
class _Arrived:
    """A class that has arrived at a phase: the latest time of its arrival, and its knowledge."""

    number: int
    done: int
    knows: Known
    waits: bool


@dataclass
class _Warps:
    """A class of warps: P of its stretch, and the objects whose past phases it knows to be over."""

    count: int
    cursor: _Cursor
    knows: Known
    component: int
    start: int = 0
    is_blocked: bool = False
    is_over: bool = False


@dataclass
class _Object:
    """The current phase of a barrier."""

    last: PartialBarrier | None = None
    got: int = 0
    arrived: list[_Arrived] = field(default_factory=list)


@dataclass
class _Counter:
    """The current phase of an mbarrier, and the knowledge of warps that waited for the phase
    before, which was over at ``over`` at the latest.

    ``unsealed`` are classes that have added bytes and not arrived since; ``must_know`` are waits
    for the phase before: this phase must not be over before they are. ``waiting`` has the waits for
    this phase, by class, with the time of their arrival.
    """

    expects: int
    parity: int
    pending: int
    released: Known
    component: int
    over: int = _LONG_AGO
    owed: int = 0
    added: int = 0
    done: int = _LONG_AGO
    gathered: Known = field(default_factory=set)
    unsealed: set[int] = field(default_factory=set)
    must_know: Known = field(default_factory=set)
    waiting: dict[int, tuple[PartialBarrier, int]] = field(default_factory=dict)
    last: PartialBarrier | None = None


class _Sums(NamedTuple):
    """The sum of the slack and the work of groups."""

    slack: int = 0
    work: int = 0

    def plus(self, other: _Sums, times: int = 1) -> _Sums:
        return _Sums(self.slack + times * other.slack, self.work + times * other.work)


@dataclass(frozen=True, slots=True)
class _Saved:
    """The state that moves when periods are skipped: loops, P of each component, sums of groups."""

    loops: tuple[tuple[tuple[int, int], ...], ...]
    bases: dict[int, int]
    groups: dict[int, _Sums]


class _Run:
    """The run of the classes to their ends, one at a time until it waits."""

    def __init__(
        self,
        classes: Sequence[JoiningWarps],
        rows: Sequence[tuple[SectionNode, ...]],
        measured: Callable[[Section], tuple[int, int]],
        *,
        is_timed: bool = True,
        standing: Standing | None = None,
        longest_round: int = 0,
    ) -> None:
        self._classes, self._measured, self._is_timed = classes, measured, is_timed
        self._longest_round = longest_round
        named = [set(_names(row)) for row in rows]
        names = sorted(frozenset[str]().union(*named))
        components = _components(named)
        begun = {name: standing[name] for name in names if name in standing} if standing else {}
        knowledge: Known = {*names, *map(_before, names)}
        knowledge -= {name for name, at in begun.items() if not at.is_sure}
        self._counters: dict[str, _Counter] = {}
        for name, (expects, parity, is_sure) in begun.items():
            component = next(c for c, own in zip(components, named, strict=True) if name in own)
            counter = _Counter(expects, parity, expects, knowledge | {name}, component)
            # It is over when everything before the section is over.
            counter.over = _LONG_AGO if is_sure else 0
            self._counters[name] = counter
        self._objects = {name: _Object() for name in names if name not in self._counters}
        self._warps = [
            _Warps(group.count, _Cursor(row), set(knowledge), component)
            for group, row, component in zip(classes, rows, components, strict=True)
        ]
        self._seen: dict[object, _Saved] = {}
        self._known: dict[tuple[tuple[int, int], ...], _Sums] = {}
        self._stretches = 0
        self._most = [0] * len(classes)
        self._begin = self._group(range(len(classes)))
        self._begins = {c: self._group(self._members(c)) for c in components}
        self._groups = dict.fromkeys(components, _Sums())  # the groups that phases open

    def _members(self, component: int) -> list[int]:
        return [n for n, warps in enumerate(self._warps) if warps.component == component]

    @property
    def standing(self) -> Standing:
        """The current state of the mbarriers, for warps that share their knowledge."""
        knows = Known().union(*(warps.knows for warps in self._warps))
        return {
            name: State(at.expects, at.parity, name in knows) for name, at in self._counters.items()
        }

    @property
    def most(self) -> int:
        """The largest P + lambda."""
        return max(self._most)

    @property
    def slack(self) -> int:
        """The slack of all groups together."""
        return self._begin.slack + sum(group.slack for group in self._groups.values())

    @property
    def serial(self) -> int:
        """The slack and the work of all groups together."""
        return sum(self._begin) + sum(map(sum, self._groups.values()))

    @property
    def apart(self) -> int:
        """The largest sum over the groups of warps that synchronise, and over the others, each as
        they are or serialised.
        """
        own, least = [], []
        for component, opened in self._groups.items():
            own.append(sum(self._begins[component].plus(opened)))
            members = (self._classes[n] for n in self._members(component))
            work = sum(c.count * c.work for c in members)
            least.append(min(own[-1], work))
        return max(total + sum(least) - less for total, less in zip(own, least, strict=True))

    def is_over(self) -> bool:
        """Runs all classes; returns False where the limit ends it. Raises NotStaticError."""
        while self._stretches < _MOST_STRETCHES:
            running = [n for n, at_ in enumerate(self._warps) if not at_.is_over]
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
        for at_ in self._objects.values():
            if at_.got:
                assert at_.last is not None
                raise NotStaticError(
                    at_.last, f"{at_.got} warps arrive for the last time, and nobody completes that"
                )
        for at in self._counters.values():
            if at.last is not None and at.gathered:  # Something has been counted in it.
                raise NotStaticError(
                    at.last,
                    f"{at.pending} arrivals of {at.expects} and {at.owed} bytes of the last phase "
                    "do not come",
                )
        self._require_over()
        return True

    def _require_over(self) -> None:
        """Raises NotStaticError if warps may arrive at the block's barrier that ends the section
        before a phase of its object is over: they would be counted there, too.
        """
        for group, warps in zip(self._classes, self._warps, strict=True):
            end = group.body[-1] if group.body else None
            if isinstance(end, Barrier) and end.name in self._objects.keys() - warps.knows:
                last = self._objects[end.name].last
                assert last is not None, "some phase is over of which these warps do not know"
                raise NotStaticError(
                    last, "a warp may be at this barrier with all of the block before that is over"
                )

    def _step(self, number: int) -> bool:
        """Runs a stretch; returns whether it ends a phase after which a loop iterates again."""
        self._stretches += 1
        warps = self._warps[number]
        stretch = warps.cursor.stretch
        slack = self._measured(stretch)[0] if self._is_timed else 0
        done = warps.start + slack
        repeats = False
        for join in _arrivals(stretch.body):
            if join.mbarrier is None:
                repeats |= self._arrive(number, join, done)
            elif join.waits:
                repeats |= self._wait(number, join, done)
            else:
                repeats |= self._count(number, join, done)
        self._most[number] = max(self._most[number], done)
        if stretch.barrier is None:
            warps.is_over = True
        return repeats

    def _arrive(self, number: int, join: PartialBarrier, done: int) -> bool:
        warps, at = self._warps[number], self._objects[join.name]
        if join.name not in warps.knows:
            raise NotStaticError(join, "a warp may arrive before the phase before is over")
        if at.last is not None and at.got and at.last.warps != join.warps:
            raise NotStaticError(join, f"others count {at.last.warps} warps there")
        if any(a.number == number for a in at.arrived):
            raise NotStaticError(join, "a warp arrives twice in one phase")
        at.last, at.got = join, at.got + warps.count
        if at.got > join.warps:
            raise NotStaticError(join, f"{at.got} warps may arrive: which of them is not known")
        at.arrived.append(_Arrived(number, done, set(warps.knows), join.waits))
        warps.is_blocked |= join.waits
        return at.got == join.warps and self._open(join.name)

    def _open(self, name: str) -> bool:
        """Ends a phase: all waiting warps continue, with the knowledge of all that arrived."""
        arrived = self._objects[name].arrived
        self._objects[name] = _Object(self._objects[name].last)
        knowledge: Known = Known().union(*(a.knows for a in arrived)) | {name}
        for knows in self._all_known():
            knows.discard(name)
        start = max(a.done for a in arrived)
        waiting = [a.number for a in arrived if a.waits]
        repeats = False
        for number in waiting:
            warps = self._warps[number]
            warps.knows, warps.start, warps.is_blocked = set(knowledge), start, False
            repeats |= warps.cursor.advance(self._stretches)
        if waiting:
            component = self._warps[waiting[0]].component
            self._groups[component] = self._groups[component].plus(self._group(waiting))
        return repeats

    def _all_known(self) -> Iterator[Known]:
        """Yields all knowledge that warps have, or will get from a phase."""
        for warps in self._warps:
            yield warps.knows
        for at in self._objects.values():
            for arrival in at.arrived:
                yield arrival.knows
        for counter in self._counters.values():
            yield counter.released
            yield counter.gathered

    # --- mbarriers --------------------------------------------------------------------------------

    def _count(self, number: int, join: PartialBarrier, done: int) -> bool:
        """Applies the effect of a class on the counts of an mbarrier."""
        warps, use, at = self._warps[number], join.mbarrier, self._counters.get(join.name)
        assert use is not None
        if at is None or use.expects:
            raise NotStaticError(join, _NOT_INITIALISED, _INITIALISE)
        if join.name not in warps.knows:
            raise NotStaticError(join, "a warp may count before the phase before is over")
        at.last = join
        if use.ends:
            return self._end(join, at, warps)
        at.gathered |= warps.knows
        at.done = max(at.done, done + use.after_cycles)
        self._most[number] = max(self._most[number], done + use.after_cycles)
        at.owed += warps.count * (use.owes - use.brings)
        at.added += warps.count * (use.owes + use.brings)
        if at.added > MOST_COUNT:
            raise NotStaticError(join, f"a phase may owe {MOST_COUNT} bytes, half of {at.added}")
        if use.owes:
            at.unsealed.add(number)
        if use.arrivals:
            at.unsealed.discard(number)
            at.pending -= warps.count * use.arrivals
        if at.pending < 0:
            more = at.expects - at.pending
            raise NotStaticError(join, f"{more} may arrive in a phase of {at.expects} arrivals")
        return at.pending == 0 and at.owed == 0 and self._complete(join, at)

    def _end(self, join: PartialBarrier, at: _Counter, warps: _Warps) -> bool:
        """Invalidates an mbarrier: all operations on it must be known to be over."""
        if warps.count > 1:
            raise NotStaticError(join, "several warps invalidate it")
        if at.waiting or at.gathered or not at.must_know <= warps.knows:
            raise NotStaticError(join, "it is invalidated while warps may still count or ask there")
        del self._counters[join.name]
        return False

    def _complete(self, join: PartialBarrier, at: _Counter) -> bool:
        """Ends a phase of an mbarrier."""
        if not at.must_know <= at.gathered:
            raise NotStaticError(join, "a phase may be over before all have seen the one before")
        if at.unsealed:
            raise NotStaticError(join, "bytes are added by a warp that does not arrive after that")
        for knows in self._all_known():
            if join.name in knows:
                knows.discard(join.name)
            else:
                knows.discard(_before(join.name))
        at.released = at.gathered | {join.name, _before(join.name)}
        at.over, at.done, at.parity, at.pending, at.added = (
            at.done,
            _LONG_AGO,
            1 - at.parity,
            at.expects,
            0,
        )
        at.gathered, at.must_know = set(), set()
        waiting, at.waiting = at.waiting, {}
        repeats = False
        for number, (wait, since) in waiting.items():
            repeats |= self._go_on(number, wait, since)
        return repeats

    def _wait(self, number: int, join: PartialBarrier, done: int) -> bool:
        """Lets a class wait for the current phase of an mbarrier, or for the one before."""
        warps, use, at = self._warps[number], join.mbarrier, self._counters.get(join.name)
        assert use is not None
        if at is None:
            raise NotStaticError(join, _NOT_INITIALISED, _INITIALISE)
        at.last = at.last or join
        is_present = use.parity == at.parity
        if (join.name if is_present else _before(join.name)) not in warps.knows:
            raise NotStaticError(join, "a warp may ask for a phase while one of two before is open")
        for knows in self._all_known():
            knows.discard(_seen(number, join.name, use.parity))
        if not is_present:
            return self._go_on(number, join, done)
        warps.is_blocked = True
        at.waiting[number] = join, done
        return False

    def _go_on(self, number: int, join: PartialBarrier, since: int) -> bool:
        """Lets a class continue after a phase; returns whether a loop begins another iteration."""
        warps, use, at = self._warps[number], join.mbarrier, self._counters[join.name]
        assert use is not None
        token = _seen(number, join.name, use.parity)
        # Registers may be available before all have been given up.
        warps.knows |= {token} if join.name == REGISTERS else at.released | {token}
        at.must_know.add(token)
        warps.start, warps.is_blocked = max(since, at.over + use.round_cycles), False
        return warps.cursor.advance(self._stretches)

    # --- groups -----------------------------------------------------------------------------------

    def _group(self, numbers: Sequence[int]) -> _Sums:
        """Returns the largest slack of the stretches that a phase opens, and the work of its
        busiest sub-core.
        """
        stretches = [(number, self._warps[number].cursor.stretch) for number in numbers]
        key = tuple((number, id(stretch)) for number, stretch in stretches)
        if key not in self._known:
            figures = [(self._classes[n].on_cores, *self._measured(s)) for n, s in stretches]
            works = [[warps * work for warps in cores] for cores, _, work in figures]
            busiest = max(map(sum, zip(*works, strict=True)), default=0)
            self._known[key] = _Sums(max((slack for _, slack, _ in figures), default=0), busiest)
        return self._known[key]

    # --- loops ------------------------------------------------------------------------------------

    def _skip(self) -> None:
        """Skips as many periods as possible, if all that decides the future was so before.

        Earlier saved states are kept: from there to here is a period of the enclosing loops.
        """
        bases: dict[int, int] = {}
        for warps in self._warps:
            if not warps.is_over:
                least = bases.get(warps.component, warps.start)
                bases[warps.component] = min(least, warps.start)
        for counter in self._counters.values():  # No start can depend on less.
            base = bases.get(counter.component, 0)
            counter.over = max(counter.over, base - self._longest_round)
            counter.done = max(counter.done, base - self._longest_round)
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
        moved = {c: periods * (base - before.bases[c]) for c, base in bases.items()}
        for warps, now, then in zip(self._warps, loops, before.loops, strict=True):
            warps.start += moved.get(warps.component, 0)
            for frame, (_, left), (_, earlier) in zip(warps.cursor.frames, now, then, strict=True):
                frame.left -= periods * (earlier - left)
        for at in self._objects.values():
            for arrival in at.arrived:
                arrival.done += moved.get(self._warps[arrival.number].component, 0)
        for counter in self._counters.values():
            further = moved.get(counter.component, 0)
            counter.over, counter.done = counter.over + further, counter.done + further
            counter.waiting = {n: (j, at + further) for n, (j, at) in counter.waiting.items()}
        for number, warps in enumerate(self._warps):
            self._most[number] += 0 if warps.is_over else moved.get(warps.component, 0)

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
                        a.number,
                        a.done - bases.get(self._warps[a.number].component, 0),
                        frozenset(a.knows),
                        a.waits,
                    )
                    for a in at.arrived
                ),
            )
            for at in self._objects.values()
        )
        counted = tuple(
            (
                *(at.parity, at.pending, at.owed, at.added),
                at.over - bases.get(at.component, 0),
                at.done - bases.get(at.component, 0),
                *(frozenset(at.released), frozenset(at.gathered)),
                *(frozenset(at.unsealed), frozenset(at.must_know)),
                tuple(
                    (n, id(join), since - bases.get(at.component, 0))
                    for n, (join, since) in sorted(at.waiting.items())
                ),
            )
            for at in self._counters.values()
        )
        return positions, arrived, counted


def _counting_section(
    classes: Sequence[JoiningWarps],
    counting: Sequence[Sequence[PartialBarrier]],
    rows: Sequence[tuple[SectionNode, ...]],
    measured: Measured,
    standing: Standing,
    *,
    repeats: bool,
) -> JoinedSection | None:
    """Returns the bound of a section in which warps count at mbarriers, or wait for them: J1 only;
    None for a section that initialises them.
    """
    figures: dict[int, tuple[int, int]] = {}

    def of_stretch(stretch: Section) -> tuple[int, int]:
        if id(stretch) not in figures:
            figures[id(stretch)] = measured(stretch.body)
        return figures[id(stretch)]

    begun = _initialised(classes, counting, standing)
    if begun:
        if repeats:
            raise NotStaticError(
                begun[0], "it is initialised in a loop with barriers of the block", _INITIALISE
            )
        others = [b for each in counting for b in each if b not in begun]
        if others or any(has_named_join(c.body) for c in classes):
            early = next((b for b in others if b.name in {each.name for each in begun}), None)
            if early is not None:
                reason = "no barrier of the block stands between its initialisation and this use"
                raise NotStaticError(early, reason, _INITIALISE)
            reason = (
                "warps count elsewhere before a barrier of the block follows its initialisation"
            )
            raise NotStaticError(begun[0], reason, _INITIALISE)
        for barrier in begun:
            assert barrier.mbarrier is not None
            standing[barrier.name] = State(barrier.mbarrier.expects, 0)
        return None
    _hand_over(classes, counting, standing)
    waits = [[b.mbarrier for b in each if b.waits and b.mbarrier] for each in counting]
    longest = max((m.round_cycles for each in waits for m in each), default=0)
    run = _Run(classes, rows, of_stretch, standing=standing, longest_round=longest)
    if not run.is_over():
        raise PtxwcetError(_too_complex())
    after = run.standing
    ends = {b.name: b for each in counting for b in each if b.mbarrier and b.mbarrier.ends}
    if repeats and ends:
        used = next(iter(ends.values()))
        raise NotStaticError(used, "it is invalidated in a loop with barriers of the block")
    for name in ends:
        del standing[name]
    if repeats:
        for name, state in after.items():
            before, used = standing[name], next(b for each in counting for b in each)
            if state.parity != before.parity:
                raise NotStaticError(used, "a section that is repeated leaves it in another phase")
            if before.is_sure and not state.is_sure:
                raise NotStaticError(
                    used, "a section that is repeated leaves it in a phase that may not be over"
                )
    else:
        standing |= after
    polling, failing = Fraction(0), 0
    for warps, each_wait in zip(classes, waits, strict=True):
        if asked := [m for m in each_wait if m.again_cycles]:
            cycles = max(each.poll_cycles for each in asked)
            polling += warps.count * Fraction(cycles, min(each.again_cycles for each in asked))
            failing += warps.count * cycles * (_waits_in(warps.body) + 1)
    if polling >= 1:
        used = next(b for each in counting for b in each if b.waits)
        raise NotStaticError(used, "warps that ask whether it is over could issue in each cycle")
    work = sum(c.count * c.work for c in classes) + failing
    return JoinedSection(run.most, work, None, None, polling)


def _hand_over(
    classes: Sequence[JoiningWarps],
    counting: Sequence[Sequence[PartialBarrier]],
    standing: Standing,
) -> None:
    """Records the registers that warps of a section give up: in one section, before others take
    them, or in the same section. Raises NotStaticError.
    """
    handed = [[join for join in own if join.name == REGISTERS] for own in counting]
    giving = sum(
        c.count * sum(not join.waits for join in own)
        for c, own in zip(classes, handed, strict=True)
    )
    some = next((join for own in handed for join in own), None)
    if some is not None and not giving and REGISTERS not in standing:
        raise NotStaticError(some, "registers are taken, and no warp has given any up")
    if twice := next((own[-1] for own in handed if sum(not join.waits for join in own) > 1), None):
        raise NotStaticError(twice, "a warp gives up registers twice")
    if giving and REGISTERS in standing:
        assert some is not None
        raise NotStaticError(some, "registers are given up in two places with a barrier between")
    if giving:
        standing[REGISTERS] = State(giving, 0)


def _initialised(
    classes: Sequence[JoiningWarps],
    counting: Sequence[Sequence[PartialBarrier]],
    standing: Standing,
) -> list[PartialBarrier]:
    """Returns the initialisations of mbarriers in a section. Raises NotStaticError."""
    initialised: dict[str, PartialBarrier] = {}
    for group, own in zip(classes, counting, strict=True):
        for join in own:
            if join.mbarrier is None or not join.mbarrier.expects:
                continue
            alike = [each for each in _arrivals(group.body) if each.name == join.name]
            inside = sum(each.mbarrier is not None and each.mbarrier.expects > 0 for each in alike)
            if join.name in initialised or group.count > 1:
                raise NotStaticError(join, "several warps initialise it", _INITIALISE)
            if join.name in standing or inside > 1:
                reason = "it is initialised twice, and not invalidated (mbarrier.inval) between"
                raise NotStaticError(join, reason, _INITIALISE)
            initialised[join.name] = join
    return list(initialised.values())


def _waits_in(body: Sequence[Node]) -> int:
    """Returns the number of waits for mbarriers in a body. Cost: linear in the tree."""
    waits = 0
    for node in body:
        times = node.count if isinstance(node, Repeat) else 1
        asked = node.mbarrier if isinstance(node, PartialBarrier) and node.waits else None
        waits += asked is not None and asked.again_cycles > 0
        waits += times * sum(map(_waits_in, bodies(node)))
    return waits


def _periods(
    before: tuple[tuple[tuple[int, int], ...], ...], now: tuple[tuple[tuple[int, int], ...], ...]
) -> int:
    """Returns the number of further periods that all loops open throughout have iterations for; 0
    where a newly entered loop is at another iteration.
    """
    least = None
    for then, loops in zip(before, now, strict=True):
        for (begun, left), (begun_now, left_now) in zip(then, loops, strict=True):
            if begun != begun_now:
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
    """Returns the component of each class: of classes that share objects, also indirectly."""
    component = list(range(len(named)))
    for n, names in enumerate(named):
        for other in range(n):
            if component[n] != component[other] and not names.isdisjoint(named[other]):
                old, new = component[n], component[other]
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
