"""Bounds that the walk finds for loops that it cannot count: variants of what their exits test."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from itertools import product
from typing import Any

from ptxwcet.flow.certificates.behind import Result, Span
from ptxwcet.flow.certificates.certificate import Bound
from ptxwcet.flow.certificates.checker import Verdict
from ptxwcet.flow.certificates.proof import Proof, divisors_in, is_left_so, verdict_of
from ptxwcet.flow.effort import TooMuchEffort
from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.values import ranges
from ptxwcet.flow.values.integers import Exact, IntegerType, as_exact, interval_in
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.regions import Symbol, Wavers
from ptxwcet.flow.values.value import Known, Mask, Unknown, Value, combine
from ptxwcet.flow.variants.claims import bound_of, integer_registers, never_entered
from ptxwcet.flow.variants.entry import Entry, entry_along
from ptxwcet.flow.variants.measures import Measure, gaps, measures, sums
from ptxwcet.flow.variants.proposals import hopes, proposals
from ptxwcet.flow.variants.regions import Region, body_of, ways_to
from ptxwcet.flow.variants.results import results_of
from ptxwcet.flow.variants.search import MOST_BACK_EDGES, find_variants
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.support.records import dataclass

# Dominators of a loop that are looked at for what leads to it; fewer if that is too much.
_STEPS_BEFORE = (10, 5, 3, 1)
_LOOPS_AROUND = 2
"""Loops around from before which a way may come, if nothing else says how a loop is entered."""
# States in which one loop is looked at; twice as many if what was found in others lately is not
# proven for these.
_MOST_SEARCHES = 24
_FAILED = 4  # one that has failed counts as many
_LATELY = 2
"""Certificates of other states that are tried in the states that come after these."""
# Blocks that searches pass in the time of an instruction.
_VISITED_IN_A_STEP = 16
# Values of registers and sums asked for at an entry that take as long as an instruction.
_ASKED_IN_A_STEP = 2


@dataclass(frozen=True, slots=True)
class Proven:
    """An entry goes back to the header at most ``back_edges`` times; a proof that was confirmed."""

    back_edges: int
    reason: str
    proof: Proof


def variant_of(walk: WalkState, loop: Loop, mask: Mask) -> Proven | None:
    """:func:`_variant_of`; what searches visit counts as steps of the walk: of a large kernel, ways
    to a loop are long.
    """
    effort = _search(walk, loop).graph.work.searching
    before = effort.visited
    found = _variant_of(walk, loop, mask)
    steps = (effort.visited - before) // _VISITED_IN_A_STEP
    with walk.recorded.entry(loop):  # of too many, the refusal names the loop
        walk.spend(steps, walk.cfg.blocks[loop.header].start)
    return found


def _variant_of(walk: WalkState, loop: Loop, mask: Mask) -> Proven | None:
    """How often the lanes of ``mask``, entering a loop now, may go back to its header, if known.

    Registers at the header may say it alone; if not, what leads to the loop is looked at, at first
    without what else is known there. What a search finds counts only once the checker has confirmed
    it. Cost: see :func:`~ptxwcet.flow.variants.search.find_variants` and
    :func:`~ptxwcet.flow.certificates.checker.check`, once for each state of the registers that are
    looked at.
    """
    search = _search(walk, loop)
    names = search.body.live[loop.header]
    asked = 2 * len(names) + len(search.asked)
    walk.spend(asked // _ASKED_IN_A_STEP, walk.cfg.blocks[loop.header].start)
    walk.state.active = mask
    entry_values = _Known(walk, mask, names)
    state = entry_values.summary(names, search)
    at_entry = partial(search.bounds, entry_values)
    proven = _remembered(walk, search, entry_values, (loop.id, 0, state), at_entry)
    goes_on = any(opened.loop.id == loop.id for opened in walk.recorded.loops)
    if goes_on or not search.ways:
        return proven  # lanes that go on in a loop do not come from before it
    if proven is None:
        proven = _along(walk, search, entry_values, state)
    hope = partial(search.hoped, entry_values, proven)
    hoped = _remembered(walk, search, entry_values, (loop.id, 3, state), hope)
    return hoped or proven


def _along(
    walk: WalkState, search: _Search, known: _Known, state: tuple[object, ...]
) -> Proven | None:
    """The bound for what leads to a loop, at first without what else is known there."""
    loop, live, mask = search.loop, known.names, known.mask
    near = partial(search.along, known, search.ways, thorough=False)
    found = _remembered(walk, search, known, (loop.id, 1, state), near)
    for outer in range(_LOOPS_AROUND + 1):
        ways = search.ways if outer == 0 else _far_ways(walk, search, outer)
        if found is None and ways:
            names = live.union(*(way.relevant - way.written | way.once for way in ways))
            everything = _Known(walk, mask, names)
            key = (loop.id, -outer or 2, everything.summary(names, search))
            along = partial(search.along, everything, ways)
            found = _remembered(walk, search, everything, key, along)
    return found


def _far_ways(walk: WalkState, search: _Search, outer: int) -> tuple[Region, ...]:
    """What leads to a loop from before loops around it, found once."""
    found = walk.graph.work.of_graph[_Regions].far
    key = (search.loop.id, outer)
    if key not in found:
        live = search.body.live[search.loop.header]
        found[key] = ways_to(walk.graph, search.loop, live, _STEPS_BEFORE, outer)
    return found[key]


def bound_results(
    walk: WalkState,
    loop: Loop,
    mask: Mask,
    before: Mapping[str, Value],
    most: int,
    outside: Collection[int],
) -> None:
    """Bounds registers that are unknown behind a loop, by what its iterations may do to them.

    ``before`` are the registers when lanes ``mask`` entered it, ``most`` is how often they may have
    gone back; what blocks ``outside`` of it may have written since stays as it is. What the search
    says of an iteration counts once the checker has confirmed it. Cost: linear in the registers
    that the loop writes; one iteration on cases, and two questions to the solver a register, once.
    """
    later = walk.graph.writes(outside)
    for name, result in _results(walk, loop, mask, before).items():
        now = walk.state.registers.get(name)
        if name in later or not isinstance(now, Unknown):
            continue
        after, walk.state.registers = walk.state.registers, dict(before)
        walk.state.active = mask
        entry_values = _Known(walk, mask, frozenset((result.source,)))
        at_entry = entry_values.alone(result.source, IntegerType(result.bits, signed=True))
        start = walk.state.register(result.source)
        walk.state.registers = after
        if at_entry is None or not isinstance(start, Known):
            continue
        behind = result.behind(Span(at_entry.low, at_entry.high), most)
        if behind is None or behind.high - behind.low > MOST_BACK_EDGES:
            continue  # says no more than the type
        if not is_left_so(walk.graph, loop, result, walk.graph.work.proving):
            continue
        value = ranges.bounded(Interval(*behind), result.bits, now.causes)
        if result.is_relative:  # each lane by what it had
            change = Interval(behind.low - at_entry.low, behind.high - at_entry.high)
            added = ranges.bounded(change, result.bits, now.causes)
            value = combine(start, added, 1, result.bits)
        walk.state.write(name, value, mask)


def _results(
    walk: WalkState, loop: Loop, mask: Mask, before: Mapping[str, Value]
) -> Mapping[str, Result]:
    """What a loop does to the registers that decide branches, found once: whatever else there is,
    and for registers of which this does not say it, with the numbers that others hold all along.
    """
    searched = walk.graph.work.of_launch[_Results]
    results = searched.results
    wanted = walk.graph.control_registers.intersection(walk.graph.writes(loop.body))
    if loop.id not in searched.bodies:
        searched.bodies[loop.id] = body_of(walk.graph, loop, wanted)
    body = searched.bodies[loop.id]
    if (loop.id, ()) not in results:
        results[loop.id, ()] = results_of(body, wanted, walk.graph.work.searching)
    found = results[loop.id, ()]
    now = walk.state.registers.get
    said = {name for name, one in found.items() if _is_narrow(one.going.step)}
    left = frozenset(name for name in wanted - said if isinstance(now(name), Unknown))
    fixed = _fixed(walk, body, mask, before) if left else ()
    if not fixed:
        return found
    if (loop.id, fixed) not in results:
        results[loop.id, fixed] = results_of(body, wanted, walk.graph.work.searching, fixed)
    more = results[loop.id, fixed]
    return {**found, **{name: more[name] for name in sorted(left & more.keys())}}


def _is_narrow(step: Span | None) -> bool:
    return step is None or step.high - step.low <= MOST_BACK_EDGES


def _fixed(
    walk: WalkState, body: Region, mask: Mask, before: Mapping[str, Value]
) -> tuple[tuple[str, int], ...]:
    """Registers that a loop reads and does not write, of which all lanes hold the same number."""
    after, walk.state.registers = walk.state.registers, dict(before)
    walk.state.active = mask
    names = body.relevant - body.written
    known = _Known(walk, mask, names)
    found = []
    for name in integer_registers(body, names):
        values = known.alone(name, IntegerType(walk.graph.width(name), signed=True))
        if values is not None and values.is_number:
            found.append((name, values.low))
    walk.state.registers = after
    return tuple(found)


@dataclass(slots=True)
class _Results:
    """Those of the loops that were asked for, with the registers that stay as they were; and one
    iteration of each of these loops.
    """

    results: dict[tuple[int, tuple[tuple[str, int], ...]], Mapping[str, Result]] = field(
        default_factory=dict
    )
    bodies: dict[int, Region] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked at for one loop: its body, what leads to it from longer ways to shorter ones,
    and the measures that are tried: alone, and if none helps the sums.
    """

    graph: FlowGraph
    loop: Loop
    body: Region
    ways: tuple[Region, ...]
    singles: tuple[Measure, ...]
    sums: tuple[Measure, ...]
    gaps: tuple[Measure, ...]

    @property
    def asked(self) -> tuple[Measure, ...]:
        """All sums whose values at the entry matter to the search."""
        return *self.singles, *self.sums, *self.gaps

    def bounds(self, known: _Known) -> Proven | None:
        """The smallest bound that is proven from what is known at an entry."""
        return self._proven(known, Entry(known), None)

    def along(
        self, known: _Known, ways: tuple[Region, ...], *, thorough: bool = True
    ) -> Proven | None:
        """The bound for what leads to the loop along the longest way that is not too much.

        ``thorough``: the way is looked at once more if that finds none.
        """
        for way in ways:
            entry = entry_along(known, way, self.graph.work.searching)
            if entry is None:
                continue
            found = self._proven(known, entry, BlockId(way.start))
            return found or (self._again(known, way, entry) if thorough else None)
        return None

    def _again(self, known: _Known, way: Region, entry: Entry) -> Proven | None:
        """The bound for what leads to the loop if the way is looked at thoroughly, where that may
        help, and unknown bits are read as numbers without sign after all.
        """
        effort = self.graph.work.searching
        if not (way.inner or entry.has_wrapped or entry.forgot):
            return None
        for last, signed in product((1, 2) if way.inner else (1,), (True, False)):
            other = entry_along(known, way, effort, signed=signed, last=last)
            found = other and self._proven(known, other, BlockId(way.start))
            if found:
                return found
        return None

    def hoped(self, entry_values: _Known, proven: Proven | None) -> Proven | None:
        """A smaller bound than what was found, that follows if the loop is entered with its test.

        What an iteration does is asked first: little is asked of loops for which this is not so.
        """
        facts = entry_values.facts(self)
        for certificate in hopes(self.body, Entry(entry_values), self.singles):
            best = MOST_BACK_EDGES if proven is None else proven.back_edges - 1
            if certificate.back_edges <= best:
                for way in self.ways:
                    proof = Proof(certificate, facts, BlockId(way.start))
                    if self._is_confirmed(proof):
                        return Proven(certificate.back_edges, certificate.text, proof)
        return None

    def _proven(self, entry_values: _Known, entry: Entry, way: BlockId | None) -> Proven | None:
        """The smallest bound of measures alone, or else of sums, that the checker confirms."""
        facts = entry_values.facts(self)
        if way is not None and not entry.cases:
            proof = Proof(never_entered(), facts, way)
            if self._is_confirmed(proof):
                return Proven(0, "nothing that leads there enters the loop", proof)
        for tried in (self.singles, self.sums):
            for variant in find_variants(self.body, entry, tried, self.graph.work.searching):
                for certificate in variant.certificates:
                    proof = Proof(certificate, facts, way)
                    if self._is_confirmed(proof):
                        return Proven(certificate.back_edges, variant.reason, proof)
        divisors = divisors_in(self.graph, self.loop)
        with suppress(TooMuchEffort):
            for certificate in proposals(self.body, entry, self.singles, divisors):
                proof = Proof(certificate, facts, way)
                if certificate.back_edges <= MOST_BACK_EDGES and self._is_confirmed(proof):
                    return Proven(certificate.back_edges, certificate.text, proof)
        return None

    def again(self, entry_values: _Known, earlier: Collection[Proven]) -> Proven | None:
        """A bound that was proven in other states, if the same certificate proves it in this."""
        facts = entry_values.facts(self)
        for one in earlier:
            proof = replace(one.proof, facts=facts)
            if self._is_confirmed(proof):
                return replace(one, proof=proof)
        return None

    def _is_confirmed(self, proof: Proof) -> bool:
        try:
            verdict = verdict_of(self.graph, self.loop, proof, self.graph.work.proving)
        except TooMuchEffort:
            return False
        return verdict is Verdict.CONFIRMED


@dataclass(slots=True)
class _Searched:
    """What is looked at for ``loops``; what searches found in each state, after how many ``tries``,
    and the last of it by its certificate.
    """

    loops: dict[int, _Search] = field(default_factory=dict)
    proven: dict[tuple[int, int, object], Proven | None] = field(default_factory=dict)
    tries: dict[tuple[int, int], int] = field(default_factory=dict)
    lately: dict[tuple[int, int], list[Proven]] = field(default_factory=dict)


def _remembered(
    walk: WalkState,
    search: _Search,
    known: _Known,
    key: tuple[int, int, object],
    find: Callable[[], Proven | None],
) -> Proven | None:
    """The result for a state, found once; if a loop was entered in too many states, what was found
    in others lately, where it is proven for this one too.
    """
    searched = walk.graph.work.of_kernel[_Searched]
    if key not in searched.proven:
        asked, tried = key[:2], searched.tries.get(key[:2], 0)
        lately = searched.lately.setdefault(asked, [])
        found = search.again(known, lately) if tried >= _MOST_SEARCHES else None
        if found is None and tried < _MOST_SEARCHES * (2 if lately else 1):
            found = find()
            searched.tries[asked] = tried + (1 if found is not None else _FAILED)
        if found is not None:
            others = [one for one in lately if one.proof.certificate != found.proof.certificate]
            lately[:] = [found, *others][:_LATELY]
        searched.proven[key] = found
    return searched.proven[key]


def _search(walk: WalkState, loop: Loop) -> _Search:
    """What is looked at for a loop, found once; for the rounds before a stop, that of the whole."""
    loop = walk.graph.forest.loops[loop.id]
    searches = walk.graph.work.of_kernel[_Searched].loops
    if loop.id not in searches:
        regions = walk.graph.work.of_graph[_Regions].loops
        if loop.id not in regions:
            body = body_of(walk.graph, loop)
            singles = measures(body)
            ways = ways_to(walk.graph, loop, body.live[loop.header], _STEPS_BEFORE)
            regions[loop.id] = body, ways, singles, sums(singles), gaps(body)
        searches[loop.id] = _Search(walk.graph, loop, *regions[loop.id])
    return searches[loop.id]


@dataclass(slots=True)
class _Regions:
    """What is looked at for loops, whatever is launched; ``far``: from before loops around."""

    loops: dict[
        int,
        tuple[
            Region,
            tuple[Region, ...],
            tuple[Measure, ...],
            tuple[Measure, ...],
            tuple[Measure, ...],
        ],
    ] = field(default_factory=dict)
    far: dict[tuple[int, int], tuple[Region, ...]] = field(default_factory=dict)


def _distance(walk: WalkState, name: str, other: str) -> Measure:
    """By how much a register is larger than another one, read as signed numbers."""
    return Measure(((name, 1), (other, -1)), 0, IntegerType(walk.graph.width(name), signed=True))


@dataclass(frozen=True, slots=True)
class _Known:
    """What the walk knows of registers of the lanes that enter a loop, one by one.

    Nothing is known of other registers than ``names``. ``said`` are the facts for the loops that
    were asked for: the walk stands still meanwhile.
    """

    walk: WalkState
    mask: Mask
    names: frozenset[str]
    said: dict[int, tuple[Bound, ...]] = field(default_factory=dict, compare=False)

    def interval(self, measure: Measure) -> Interval | None:
        """The values of a sum of registers, read as numbers of a type; of each alone if need be."""
        together = self._exact(measure)
        if together is not None:
            return together
        whole = Interval(measure.constant, measure.constant)
        for name, c in measure.terms:
            part = self._exact(Measure(((name, 1),), 0, measure.kind))
            whole = whole.plus((part or measure.kind.interval).times(c))
        return whole

    def alone(self, name: str, kind: IntegerType) -> Interval | None:
        """The values of one register."""
        return self._exact(Measure(((name, 1),), 0, kind))

    def facts(self, search: _Search) -> tuple[Bound, ...]:
        """What is known of registers and of measures, as a certificate says it."""
        if search.loop.id in self.said:
            return self.said[search.loop.id]
        bounds: dict[Bound, None] = {}
        singles = [
            Measure(((name, 1),), 0, IntegerType(self.walk.graph.width(name), signed=signed))
            for name in integer_registers(search.body, self.names)
            for signed in (True, False)
        ]
        for measure in (*singles, *search.asked):
            interval = self._exact(measure)
            if interval is not None:
                bounds[bound_of(measure, interval)] = None
        for name, other, distance in self.distances():
            measure = _distance(self.walk, name, other)
            bounds[bound_of(measure, Interval(distance, distance))] = None
        self.said[search.loop.id] = tuple(bounds)
        return self.said[search.loop.id]

    def distances(self) -> Iterator[tuple[str, str, int]]:
        """Pairs of registers and by how much the first, read as a signed number, is larger.

        Those whose values are the same but for a number, each with the first such register. Cost:
        linear in the registers and their symbols.
        """
        first: dict[object, str] = {}
        for name in sorted(self.names):
            value, width = self.walk.state.register(name), self.walk.graph.width(name)
            if not isinstance(value, Known) or not value.terms or width == 1:
                continue
            if not all(isinstance(c, int) for c in value.terms.values()):
                continue
            other = first.setdefault((width, frozenset(value.terms.items())), name)
            interval = self._exact(_distance(self.walk, name, other)) if other != name else None
            if interval is not None and interval.is_number:
                yield name, other, interval.low

    def summary(self, names: frozenset[str], search: _Search) -> tuple[object, ...]:
        """What is known of registers and of measures."""
        found: list[object] = []
        for name in sorted(names):
            width = self.walk.graph.width(name)
            if width > 1:
                kinds = (IntegerType(width, signed=True), IntegerType(width, signed=False))
                found.append(tuple(self._exact(Measure(((name, 1),), 0, kind)) for kind in kinds))
        found.append(tuple(self._exact(one) for one in search.asked))
        return *found, tuple(self.distances())

    def _exact(self, measure: Measure) -> Interval | None:
        """The values of a sum of registers that are all known; None if one is not, or may wrap."""
        base: Any = measure.constant
        terms: dict[Symbol, Any] = {}
        for name, c in measure.terms:
            value = self.walk.state.register(name)
            if name not in self.names or not isinstance(value, Known):
                return None
            if any(s.in_loops and (s.count is None or s.slopes) for s in value.terms):
                return None
            try:
                exact = as_exact(value, measure.kind, self.mask)
            except Wavers:
                return None
            base = base + c * _as_python(exact.base)
            for symbol, slope in exact.terms.items():
                terms[symbol] = terms.get(symbol, 0) + c * _as_python(slope)
        return interval_in(Exact(base, terms), self.mask)


def _as_python(number: Any) -> Any:
    """A number, or one for each lane, as Python ints: they do not wrap around."""
    return number if isinstance(number, int) else number.astype(object)
