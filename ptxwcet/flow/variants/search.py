"""Variants: numbers that fall in every iteration and are bounded from below while a loop goes on.

A measure is a sum of multiples of registers that an iteration passes on, and of others that it
leaves alone: what an exit tests (``hi - lo``), or the sum of two such. Iterations are executed on
cases (:mod:`ptxwcet.flow.variants.body`) from every state in which the measure is in a range and
its registers are where they began or between. If in each case that goes back to the header the
measure is smaller, and the registers are again in their range, so that nothing has wrapped around,
then the number of times that an entry of the loop goes back is bounded (Floyd's argument), for each
thread:

* a measure that falls by at least c has at most (first - least) / c + 1 values;
* what it is at most, from what it was at most, can be computed again and again: halving searches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import product
from math import gcd

from ptxwcet.flow.certificates.certificate import Certificate
from ptxwcet.flow.certificates.passage import steady_steps
from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.flow.values.intervals import Interval, around
from ptxwcet.flow.variants.body import traverse
from ptxwcet.flow.variants.cases import Case, Content, exact, is_wrapped
from ptxwcet.flow.variants.claims import Claimed
from ptxwcet.flow.variants.entry import Entry, content_of
from ptxwcet.flow.variants.linear_forms import Form, plus, shifted, times, variable
from ptxwcet.flow.variants.measures import Measure, gap, relations
from ptxwcet.flow.variants.regions import Region
from ptxwcet.ir.terms import signed as as_signed
from ptxwcet.support.records import dataclass

# More iterations than this are asked for: a bound from the type alone says nothing.
MOST_BACK_EDGES = 1 << 20
_MOST_ROUNDS = 100
_MEASURE = "#m"


@dataclass(frozen=True, slots=True)
class Variant:
    """An entry goes back to the header at most ``back_edges`` times, because of ``reason``.

    ``certificates`` say so in a way that can be checked; one of them is to be confirmed.
    """

    back_edges: int
    reason: str
    certificates: tuple[Certificate, ...]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A measure at an entry, the ranges that its registers stay in, and what divides it.

    ``relations`` are registers that are a sum of others, at the entry and after each iteration.
    Where numbers may wrap around, a case ``splits`` by whether they do.
    """

    body: Region
    entry: Entry
    effort: Effort
    measure: Measure
    within: Mapping[str, Interval]
    divisor: int = 1
    relations: tuple[tuple[str, Measure], ...] = ()
    splits: bool = False

    def claim(self, start: Interval) -> Claimed:
        """What certificates of the measure say of its registers."""
        gaps = [gap(one) for one in self.relations]
        return Claimed(
            self.body,
            self.entry,
            self.measure,
            self.within,
            start,
            self.divisor,
            tuple(one for one in gaps if one is not None),
        )


@dataclass(frozen=True, slots=True)
class _Round:
    """An iteration that goes back, from some state with the measure in a range.

    The measure is in ``after`` then, and smaller by ``fall`` at least. ``cases`` are all ways back;
    in each the registers of the measure are ``ends``: numbers of its type, without a wrap.
    """

    after: Interval
    fall: int
    cases: tuple[Case, ...]
    ends: tuple[Mapping[str, Form], ...]


class _NoWayBack:
    """No iteration from the states goes back: each way contradicts what is known on it."""


_Outcome = _Round | _NoWayBack | None
"""What iterations do; None if registers of the measure may leave their range."""


def find_variants(
    body: Region, entry: Entry, tried: Iterable[Measure], effort: Effort
) -> list[Variant]:
    """The bounds that some measures give within ``effort``, the smallest first.

    Cost: for each measure some hundred iterations on cases, at most.
    """
    found: list[Variant] = []
    for measure in tried:
        with suppress(TooMuchEffort):
            found += _bounds(body, entry, measure, effort)
    small = [one for one in found if one.back_edges <= MOST_BACK_EDGES]
    return sorted(small, key=lambda one: one.back_edges)


def _bounds(body: Region, entry: Entry, measure: Measure, effort: Effort) -> Iterator[Variant]:
    start = entry.interval(measure)
    parts = {part.names[0]: entry.interval(part) for part in measure.parts()}
    if start is None or start.high < 0 or None in parts.values():
        return
    ranges = {name: one for name, one in parts.items() if one is not None}
    anything = dict.fromkeys(ranges, measure.kind.interval)
    holding = tuple(one for one in relations(body) if _holds_at_first(entry, measure, one))
    reach, equal = (_reach(measure, ranges), anything), {holding: 0, (): 0}
    divisors = dict.fromkeys(_divisors(body, measure, max(entry.divisor(measure), 1)))
    for splits in (False, True):
        plain = _Attempt(body, entry, effort, measure, anything)
        if splits and not _wraps(plain, start):
            return
        for within, by, holds in product(reach, divisors, equal):
            attempt = _Attempt(body, entry, effort, measure, within, by, holds, splits)
            variants = [_counted(attempt, start), _special(attempt, start)]
            yield from (one for one in variants if one is not None)
            if variants != [None, None]:
                return
        quarter = Interval(0, measure.kind.high // 2)  # twice as much does not wrap around
        if not splits and all(map(quarter.covers, ranges.values())):
            within = dict.fromkeys(ranges, quarter)
            special = _special(_Attempt(body, entry, effort, measure, within), start)
            if special is not None:
                yield special
                return


def _divisors(body: Region, measure: Measure, at_entry: int) -> Iterator[int]:
    """What may divide a measure in all iterations, the largest first."""
    yield at_entry
    if at_entry > 1:
        loop = next(one for one in body.graph.forest.loops if one.header == body.start)
        steps = steady_steps(body.graph, loop)
        kind = measure.kind
        fall = [c * as_signed(steps.get(name, 0), kind.bits) for name, c in measure.terms]
        yield gcd(at_entry, *fall)
    yield 1


def _wraps(attempt: _Attempt, values: Interval) -> bool:
    """Whether numbers may wrap around where an iteration reads them."""
    start = _start(attempt, values)
    if start is None:
        return False
    arrived, leaving, _ = traverse(attempt.body, start, attempt.measure.kind.signed)
    return any(is_wrapped(name) for case in (*arrived, *leaving) for name in case.ranges)


def _reach(measure: Measure, known: Mapping[str, Interval]) -> dict[str, Interval]:
    """The range of each register: where it begins, and those that it is compared with, or 0."""
    found: dict[str, Interval] = {}
    for group in measure.groups or (measure.names,):
        present = [name for name in group if name in known]  # a sum may cancel what it compares
        ends = [end for name in present for end in (known[name].low, known[name].high)]
        for name in present:
            whole = around(ends if len(group) > 1 else [*ends, 0])
            found[name] = found.get(name, whole).hull(whole)
    return found


def _holds_at_first(entry: Entry, measure: Measure, relation: tuple[str, Measure]) -> bool:
    """Whether a register is at the entry what an iteration sets it to."""
    _, equal = relation
    if equal.kind != measure.kind or not set(equal.names) <= set(measure.names):
        return False
    rest = gap(relation)
    return rest is not None and entry.interval(rest) == Interval(0, 0)


def _counted(attempt: _Attempt, start: Interval) -> Variant | None:
    """The bound of a measure that falls."""
    first = _round(attempt, start)
    if first is None:
        return None
    name, claim = attempt.measure.text, attempt.claim(start)
    if isinstance(first, _NoWayBack):
        why = f"{name} is at most {start.high}: no iteration goes on"
        return Variant(0, why, claim.never())
    why = f"{name} is {start.high} or less at first"
    low, again = _settled(attempt, first)
    fall = again.fall if isinstance(again, _Round) else 0
    highs, done, drop = [start.high, first.after.high], 1, 0
    high = first.after.high
    best = done + (high - low) // fall if fall > 0 else None
    while isinstance(again, _Round) and done <= _MOST_ROUNDS:
        drop, before = high - again.after.high, drop
        if drop <= 0 or (4 * (again.after.high - low) > 3 * (high - low) + 4 and drop < 2 * before):
            break  # neither what is left nor what has gone changes by a factor
        high, done = again.after.high, done + 1
        highs.append(high)
        if fall > 0:
            best = min(best or 0, done + (high - low) // fall)
        # at most ``high`` after so many iterations and never below ``low``: no run has so many
        again = _NoWayBack() if high < low else _round(attempt, Interval(low, high))
    certificates = claim.falling(low, fall, highs)
    if isinstance(again, _NoWayBack) and (best is None or done <= best):
        why = f"{why} and shrinks in each iteration, {done} times at most"
        return Variant(done, why, certificates)
    if best is None:
        return None
    why = f"{why}, falls by {fall} or more an iteration and is {low} or more at the end"
    return Variant(best, why, certificates)


def _settled(attempt: _Attempt, first: _Round) -> tuple[int, _Outcome]:
    """A number that the measure is never below while the loop goes on, and what happens above.

    The outcome is None if no such number is found.
    """
    for low in dict.fromkeys(
        min(guess, first.after.low) for guess in (first.after.low, 2, 1, 0, -1)
    ):
        again = _round(attempt, Interval(low, first.after.high))
        if isinstance(again, _NoWayBack) or (again is not None and again.after.low >= low):
            return low, again
    return first.after.low, None


def _special(attempt: _Attempt, start: Interval) -> Variant | None:
    """The bound of a number that its lowest bit is added to."""
    measure = attempt.measure
    if len(measure.terms) != 1 or measure.constant or measure.terms[0][1] != 1:
        return None
    if attempt.divisor != 1 or start.low < 1:
        return None
    ((register, _),) = measure.terms
    # Where the sum may wrap around it is not the number plus its lowest bit: 0 is what
    # follows the highest bit, and stays as it is.
    done = _round(attempt, Interval(1, attempt.within[register].high))
    grown = plus(variable(_MEASURE), variable(f"lowest({_MEASURE})"))
    if (
        not isinstance(done, _Round)
        or done.after.low < 1
        or any(one[register] != grown for one in done.ends)
    ):
        return None
    end = max(done.after.high, start.high)
    most = done.after.high.bit_length() - 1
    why = f"the lowest bit of {register} at least doubles, below {done.after.high + 1}"
    return Variant(most, why, attempt.claim(start).doubling_lowest(end, most))


def _round(attempt: _Attempt, values: Interval) -> _Outcome:
    """One iteration from all states with the measure in ``values``.

    None if registers of the measure may leave their range: then it says nothing of the next.
    """
    measure = attempt.measure
    kept = frozenset(measure.names) | {_MEASURE, *(name for name, _ in attempt.relations)}
    start = _start(attempt, values)
    if start is None:
        return None
    signed, splits = measure.kind.signed, attempt.splits
    cases = traverse(attempt.body, start, signed, kept, splits=splits).arrived
    afters: list[Interval] = []
    falls: list[int] = []
    back: list[Case] = []
    end_forms: list[Mapping[str, Form]] = []
    for case in cases:
        after, ends = Form(measure.constant), dict[str, Form]()
        for name, c in measure.terms:
            content = case.registers[name]
            case, form = exact(case, content, measure.kind, name)
            if not attempt.within[name].covers(case.interval(form)):
                return None
            ends[name] = form
            after = plus(after, form, c)
        if not all(_holds(case, one, ends) for one in attempt.relations):
            return None
        if any(
            number % attempt.divisor for number in (after.constant, *dict(after.terms).values())
        ):
            return None
        before = case.registers[_MEASURE]
        assert isinstance(before, Form)
        afters.append(case.interval(after))
        falls.append(case.interval(plus(before, after, -1)).low)
        back.append(case)
        end_forms.append(ends)
    if not back:
        return _NoWayBack()
    whole = around(end for one in afters for end in (one.low, one.high))
    return _Round(whole, min(falls), tuple(back), tuple(end_forms))


def _holds(case: Case, relation: tuple[str, Measure], registers: Mapping[str, Form]) -> bool:
    """Whether a register is a sum of others."""
    name, equal = relation
    return case.registers.get(name) == _summed(equal, registers)


def _summed(measure: Measure, registers: Mapping[str, Form]) -> Form:
    total = Form(measure.constant)
    for name, c in measure.terms:
        total = plus(total, registers[name], c)
    return total


def _start(attempt: _Attempt, values: Interval) -> Case | None:
    """All states at the header with the measure in a range, and its registers in theirs."""
    body, measure, within = attempt.body, attempt.measure, attempt.within
    registers: dict[str, Content] = {}
    for name in body.relevant | body.live[body.start]:
        registers[name] = content_of(attempt.entry, body, name)
    pivot = next(
        ((name, c) for name, c in measure.terms if name in body.carried and abs(c) == 1), None
    )
    if pivot is None:
        return None
    by = attempt.divisor
    now = times(variable(_MEASURE), by)
    low, high = -(-values.low // by), values.high // by
    if low > high:
        return None  # no multiple of the divisor is among the values
    ranges: dict[str, Interval] = {_MEASURE: Interval(low, high)}
    rest = Form(measure.constant)
    for name, c in measure.terms:
        if name == pivot[0]:
            continue
        bounds: Interval | None = within[name]
        if name not in body.carried:
            bounds = attempt.entry.interval(Measure(((name, 1),), 0, measure.kind))
        if bounds is None:
            return None
        if bounds.is_number:
            form = Form(bounds.low)
        else:
            form, ranges[name] = variable(name), bounds
        registers[name] = form
        rest = plus(rest, form, c)
    form = times(plus(now, rest, -1), pivot[1])
    registers[pivot[0]] = form
    registers[_MEASURE] = now
    allowed = within[pivot[0]]
    facts = (shifted(form, -allowed.low), shifted(times(form, -1), allowed.high))
    forms = {
        name: content for name in measure.names if isinstance(content := registers[name], Form)
    }
    for name, equal in attempt.relations:
        registers[name] = _summed(equal, forms)
    return Case(registers, ranges, facts, effort=attempt.effort)
