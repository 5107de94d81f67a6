"""What the search for variants has found, as certificates: several ways to say it, best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations, pairwise

from ptxwcet.flow.certificates.certificate import (
    Bound,
    Certificate,
    Part,
    Reading,
    Step,
    Sum,
    most_back_edges,
)
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.variants.entry import Entry
from ptxwcet.flow.variants.measures import Measure
from ptxwcet.flow.variants.regions import Region
from ptxwcet.support.records import dataclass

_MOST_FACTOR = 1 << 20
_MOST_SETTLED = 8


def sum_of(measure: Measure) -> Sum:
    """A measure as a sum of a certificate."""
    reading = Reading.SIGNED if measure.kind.signed else Reading.UNSIGNED
    return Sum(tuple(Part(name, c, reading) for name, c in measure.terms), measure.constant)


def bound_of(measure: Measure, interval: Interval, divisor: int = 1) -> Bound:
    """What a certificate says of a measure."""
    return Bound(sum_of(measure), interval.low, interval.high, divisor)


def with_bound(one: Certificate) -> Certificate | None:
    """A certificate with the bound that follows from it; None if none does."""
    most = most_back_edges(one)
    return None if most is None else replace(one, back_edges=most)


def never_entered() -> Certificate:
    """The certificate that what leads to a loop does not lead into it: at an entry 0 is 1."""
    nothing = Sum(())
    return Certificate((Bound(nothing, 1, 1),), nothing, 0, 0, (Step(0, -1, 1),), 0)


def integer_registers(body: Region, names: Iterable[str]) -> list[str]:
    """Those of some registers that hold an integer of several bits."""
    kinds = {name: body.types[name] for name in names if name in body.types}
    how = body.stepping(signed=True)
    return sorted(
        name
        for name, kind in kinds.items()
        if kind[0] in "usb" and "x" not in kind and 1 < how.width(name) <= 64
    )


def settled(body: Region, entry: Entry) -> tuple[Bound, ...]:
    """What is known of registers that an iteration reads and does not write.

    Differences of two are said where they are one number.
    """
    bounds: list[Bound] = []
    how = body.stepping(signed=True)
    names = integer_registers(body, body.live[body.start] - body.written)[:_MOST_SETTLED]
    for name in names:
        for signed in (True, False):
            kind = IntegerType(how.width(name), signed=signed)
            measure = Measure(((name, 1),), 0, kind)
            interval = entry.interval(measure)
            if interval is not None and interval != kind.interval:
                bounds.append(bound_of(measure, interval))
    for left, right in combinations(names, 2):
        if how.width(left) == how.width(right):
            kind = IntegerType(how.width(left), signed=True)
            measure = Measure(((left, 1), (right, -1)), 0, kind)
            interval = entry.interval(measure)
            if interval is not None and interval.is_number:
                bounds.append(bound_of(measure, interval))
    return tuple(dict.fromkeys(bounds))


@dataclass(frozen=True, slots=True)
class Claimed:
    """A measure that begins in ``start``, the ranges of its registers, and sums that are 0."""

    body: Region
    entry: Entry
    measure: Measure
    within: Mapping[str, Interval]
    start: Interval
    divisor: int
    gaps: tuple[Measure, ...]

    @property
    def invariant(self) -> tuple[Bound, ...]:
        """The ranges of registers, of those that stay as they are, and the sums."""
        kind = self.measure.kind
        found = [
            bound_of(Measure(((name, 1),), 0, kind), values)
            for name, values in self.within.items()
            if values != kind.interval
        ]
        found += [bound_of(one, Interval(0, 0)) for one in self.gaps]
        return (*found, *settled(self.body, self.entry))

    def never(self) -> tuple[Certificate, ...]:
        """The certificate that no iteration goes back."""
        none = Step(0, 0, 1)
        bounded = (*self.invariant, bound_of(self.measure, self.start, self.divisor))
        one = Certificate(bounded, sum_of(self.measure), self.start.high, 1, (none,), 0)
        return (one,)

    def falling(self, low: int, fall: int, highs: list[int]) -> tuple[Certificate, ...]:
        """Certificates that the measure falls, each time to at most the next of ``highs``."""
        whole = Interval(min(low, self.start.low), max(self.start.high, highs[1], low))
        own = bound_of(self.measure, whole, self.divisor)
        invariant = (*self.invariant, own)
        certificates = list(self._growing(low))
        falls = (Step(1, -fall, 1),) if fall > 0 else ()
        moved = replace(self.measure, constant=0)
        for measure in dict.fromkeys((self.measure, moved)):  # its multiples hang on the constant
            by = measure.constant - self.measure.constant
            ends = [high + by for high in highs]
            cap = (Step(0, ends[1], 1),) if ends[1] < ends[0] - fall else ()
            for shrinks in (*self._shrinking(ends), ()):
                steps = (*cap, *falls, *shrinks)
                certificates.append(
                    Certificate(invariant, sum_of(measure), ends[0], low + by, steps, 0)
                )
        bounded = [with_bound(one) for one in certificates]
        finite = [one for one in bounded if one is not None]
        return tuple(dict.fromkeys(sorted(finite, key=lambda one: one.back_edges)))

    def _shrinking(self, highs: list[int]) -> Iterable[tuple[Step, ...]]:
        """Steps by a factor that go from each number to the next."""
        pairs = list(pairwise(highs[1:])) or list(pairwise(highs))
        first, second = pairs[0]
        if first <= 0 or second < 0:
            return
        by = round(first / max(second, 1))
        factors = [(1, by), (1, by - 1), (1, by + 1), (1, 1 << max(by.bit_length() - 1, 0))]
        for factor, divisor in dict.fromkeys((*factors, (1, 2), (2, 3), (3, 4))):
            if 1 < divisor < _MOST_FACTOR:
                rest = max(divisor * after - factor * before for before, after in pairs)
                for constant in dict.fromkeys((min(rest, 0), 0, min(max(rest, 1), divisor))):
                    yield (Step(factor, constant, divisor),)

    def _growing(self, low: int) -> Iterable[Certificate]:
        """Certificates that a register that is subtracted doubles, so that the measure runs out."""
        most = (
            self.measure.constant
            - low
            + sum(
                max(c * self.within[name].low, c * self.within[name].high)
                for name, c in self.measure.terms
                if c > 0
            )
        )
        for name, c in self.measure.terms:
            kind, within = self.measure.kind, self.within[name]
            if c >= 0 or within.low < 0 or name not in self.body.carried:
                continue
            own = Measure(((name, 1),), 0, kind)
            first = self.entry.interval(own) or within
            end = min(within.high, most // -c)
            grown = sum_of(Measure(((name, -1),), 0, kind))
            whole = Interval(max(first.low, 0), max(end, first.high, first.low, 0))
            invariant = (*self.invariant, bound_of(own, whole))
            for constant in (-2, -1, 0):
                steps = (Step(2, constant, 1),)
                yield Certificate(invariant, grown, -whole.low, -end, steps, 0)

    @property
    def _register(self) -> str:
        return self.measure.terms[0][0]

    def doubling_lowest(self, end: int, most: int) -> tuple[Certificate, ...]:
        """Certificates that a register's lowest bit at least doubles; it is at most ``end``."""
        lowest = Sum((Part(self._register, -1, Reading.LOWEST),))
        own = bound_of(self.measure, Interval(1, end))
        steps = (Step(2, 0, 1),)
        found = Certificate((*self.invariant, own), lowest, -1, -(1 << most), steps, most)
        return (found,)
