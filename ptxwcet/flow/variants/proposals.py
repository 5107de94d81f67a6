"""Certificates tried without a reason to hold here: what often makes a number smaller.

Nothing is executed or computed here but ranges at the entry: the checker says what is true. Tried
are, for each register that an iteration passes on: that it falls, that it loses bits that are set,
that it shrinks by a factor, that it doubles up to a limit, that it is the divisor of Euclid's
algorithm, or what Newton's step makes a root of; that differences which tests compare are halved;
and that two of them are as Stein's algorithm for common divisors leaves them. Some claim more of an
entry than is known: what leads to the loop may say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations, product

from ptxwcet.flow.certificates.certificate import (
    Bound,
    Certificate,
    Part,
    Reading,
    Remainders,
    Step,
    Sum,
    most_remainders,
)
from ptxwcet.flow.certificates.passage import steady_steps
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.variants.claims import bound_of, integer_registers, settled, sum_of, with_bound
from ptxwcet.flow.variants.entry import Entry
from ptxwcet.flow.variants.measures import Measure
from ptxwcet.flow.variants.regions import Region
from ptxwcet.support.records import dataclass

_MOST_REGISTERS = 6
_MOST_LIMITS = 4
_MOST_DIFFERENCES = 6
_DIVISORS = (2,)
_BELOW_ROOT = -2
"""The least that a number r is above n / r where n is below (r + 1)**2."""


def proposals(
    body: Region, entry: Entry, singles: Iterable[Measure], divisors: tuple[int, ...]
) -> Iterator[Certificate]:
    """Certificates worth a try, some dozens; ``divisors`` are those of divisions in the body."""
    tested = {name for measure in singles for name in measure.names}
    carried = integer_registers(body, body.carried)
    ordered = sorted(carried, key=lambda name: (name not in tested, name))
    certificates: list[Certificate] = []
    known = settled(body, entry)
    for name in ordered[:_MOST_REGISTERS]:
        register = _Register(body, entry, name, known)
        certificates += register.falling()
        certificates += register.losing_bits()
        certificates += register.shrinking(divisors)
        if name in tested:
            certificates += register.doubling(singles)
    differences = [one for one in singles if len(one.terms) == 2][:_MOST_DIFFERENCES]
    for measure in differences:
        certificates += _approaching(body, entry, measure)
        certificates += _halving(body, entry, measure)
    constants = _constants(body, entry, ordered)
    for measure in differences if constants else ():
        certificates += _halving(body, entry, measure, also=constants)
    opcodes = {one.partition(".")[0] for one in _mnemonics(body)}
    for name, other in permutations(ordered[:_MOST_REGISTERS], 2):
        if body.types[name] == body.types[other]:
            one, two = (_Register(body, entry, each, known) for each in (name, other))
            if "rem" in opcodes:
                yield from _dividing(one, other)
            if opcodes & {"brev", "clz"}:
                certificates += _made_odd(one, two)
    for name in ordered[:_MOST_REGISTERS]:
        certificates += _Register(body, entry, name, ()).nearing_a_root()
    for certificate in certificates:
        bounded = with_bound(certificate)
        if bounded is not None:
            yield bounded


def hopes(body: Region, entry: Entry, singles: Iterable[Measure]) -> Iterator[Certificate]:
    """Certificates that need more than is known at an entry: that the loop is entered with a test
    that holds, as it holds after each iteration.

    A difference that a test compares is 1 or more then, and so is a register that a test compares
    with 0 as a signed number. A few of each; smaller bounds first.
    """
    certificates: list[Certificate] = []
    for measure in [one for one in singles if len(one.terms) == 2][:_MOST_DIFFERENCES]:
        start = entry.interval(measure)
        if start is not None and start.low < 1:
            certificates += _halving(body, entry, measure, least=1)
    tested = dict.fromkeys(
        one.names[0] for one in singles if len(one.terms) == 1 and one.names[0] in body.carried
    )
    for name in integer_registers(body, tested)[:_MOST_REGISTERS]:
        certificates += _Register(body, entry, name, ()).losing_bits_above_zero()
    bounded = [one for one in map(with_bound, certificates) if one is not None]
    yield from sorted(bounded, key=lambda one: one.back_edges)


@dataclass(frozen=True, slots=True)
class _Register:
    """A register that an iteration passes on."""

    body: Region
    entry: Entry
    name: str
    settled: tuple[Bound, ...]

    def measure(self, *, signed: bool) -> Measure:
        """The register alone, as a measure."""
        bits = self.body.stepping(signed=True).width(self.name)
        return Measure(((self.name, 1),), 0, IntegerType(bits, signed=signed))

    def interval(self, *, signed: bool) -> Interval:
        """Its values at the entry."""
        measure = self.measure(signed=signed)
        return self.entry.interval(measure) or measure.kind.interval

    def falling(self) -> Iterator[Certificate]:
        """Certificates for: it is smaller than before, as a test says, whatever it has become."""
        for signed in (True, False):
            own, start = sum_of(self.measure(signed=signed)), self.interval(signed=signed)
            if start.low >= 0 and start.high < self.measure(signed=signed).kind.high:
                yield Certificate((), own, start.high, 0, (Step(1, -1, 1),), 0)

    def losing_bits(self) -> Iterator[Certificate]:
        """Certificates for: each iteration clears some of the bits that are set, and sets none."""
        bits = self.interval(signed=False).high.bit_length()
        ones = Sum((Part(self.name, 1, Reading.ONES),))
        for low in (1, 0):
            yield Certificate((), ones, bits, low, (Step(1, -1, 1),), 0)

    def losing_bits_above_zero(self) -> Iterator[Certificate]:
        """Those of :meth:`losing_bits` for a signed number above 0, whose sign bit is not set."""
        start = self.interval(signed=True)
        if start.low < 1 <= start.high:
            own = bound_of(self.measure(signed=True), Interval(1, start.high))
            ones = Sum((Part(self.name, 1, Reading.ONES),))
            yield Certificate((own,), ones, start.high.bit_length(), 1, (Step(1, -1, 1),), 0)

    def shrinking(self, divisors: tuple[int, ...]) -> Iterator[Certificate]:
        """Certificates for: the magnitude becomes a fraction of what it was."""
        signed = self.interval(signed=True)
        if signed.low < 0:
            reading, high = Reading.MAGNITUDE, max(-signed.low, signed.high)
        else:
            reading, high = Reading.UNSIGNED, signed.high
        measure = Sum((Part(self.name, 1, reading),))
        powers = [1 << by.bit_length() - 1 for by in divisors]
        for low in (1, 0):
            for by in dict.fromkeys((*divisors, *powers, *_DIVISORS)):
                invariant = (Bound(measure, 0, high),)
                yield Certificate(invariant, measure, high, low, (Step(1, 0, by),), 0)

    def doubling(self, singles: Iterable[Measure]) -> Iterator[Certificate]:
        """Certificates for: it at least doubles until it is above what it is compared with."""
        for signed in (True, False):
            own, first = self.measure(signed=signed), self.interval(signed=signed)
            if first.low < 0:
                continue
            for limit in self._limits(singles, signed=signed):
                for end in dict.fromkeys((limit - 1, limit, 2 * limit)):
                    high = max(end, first.high)
                    if high <= own.kind.high and end >= first.low:
                        invariant = (*self.settled, bound_of(own, Interval(first.low, high)))
                        negative = Measure(((self.name, -1),), 0, own.kind)
                        for constant in (-1, 0) if first.low == 0 else (0,):
                            step = (Step(2, constant, 1),)
                            yield Certificate(
                                invariant, sum_of(negative), -first.low, -end, step, 0
                            )

    def nearing_a_root(self) -> Iterator[Certificate]:
        """Certificates for: it is above the root of a number, and the quotient as far below."""
        bits, divisions = self.body.stepping(signed=True).width(self.name), _mnemonics(self.body)
        kinds = [signed for signed in (True, False) if f"div.{'us'[signed]}{bits}" in divisions]
        kept = self.body.live[self.body.start] - self.body.written
        for other, signed in product(integer_registers(self.body, kept) if kinds else (), kinds):
            number = _Register(self.body, self.entry, other, ())
            whole, root = number.interval(signed=signed), self.interval(signed=signed)
            if (
                self.body.types[other] != self.body.types[self.name]
                or min(whole.low, root.high) < 1
            ):
                continue
            reading = Reading.SIGNED if signed else Reading.UNSIGNED
            parts = Part(self.name, 1, reading), Part(other, -1, reading, self.name)
            invariant = (
                bound_of(number.measure(signed=signed), Interval(1, whole.high)),
                bound_of(self.measure(signed=signed), Interval(1, root.high)),
                Bound(Sum(parts), _BELOW_ROOT, root.high),
            )
            steps = (Step(1, 0, 2), Step(1, -1, 1))
            yield Certificate(invariant, Sum(parts), root.high, _BELOW_ROOT, steps, 0)

    def _limits(self, singles: Iterable[Measure], *, signed: bool) -> list[int]:
        """The largest numbers that it is compared with."""
        limits: dict[int, None] = {}
        for measure in singles:
            terms = dict(measure.terms)
            c = terms.pop(self.name, 0)
            if c != -1 or measure.kind.signed != signed:
                continue
            rest = Measure(tuple(terms.items()), measure.constant, measure.kind)
            interval = self.entry.interval(rest) if terms else None
            limits[interval.high if interval is not None else measure.constant] = None
        return [one for one in limits if 0 < one < 1 << 40][:_MOST_LIMITS]


def _constants(body: Region, entry: Entry, names: Iterable[str]) -> tuple[Bound, ...]:
    """What an iteration may pass on as it was: registers whose value at the entry is one number.

    Compilers keep a truth in a register that each iteration that goes back leaves as it is.
    """
    singles = [_Register(body, entry, name, ()).measure(signed=False) for name in names]
    known = [(one, entry.interval(one)) for one in singles]
    return tuple(bound_of(one, it) for one, it in known if it is not None and it.is_number)


def _halving(
    body: Region,
    entry: Entry,
    measure: Measure,
    least: int | None = None,
    also: tuple[Bound, ...] = (),
) -> Iterator[Certificate]:
    """The difference of two registers is halved, each staying between where both began.

    It is ``least`` or more at the entry, if that is given: to be proved there. With what is said
    ``also`` it falls.
    """
    start = entry.interval(measure)
    ends: list[int] = []
    for part in measure.parts():
        interval = entry.interval(part)
        if interval is None:
            return
        ends += (interval.low, interval.high)
    if start is None or start.high < 1 or sum(c for _, c in measure.terms) != 0:
        return
    within = Interval(min(ends), max(ends))
    registers = tuple(bound_of(part, within) for part in measure.parts())
    halved = ((Step(1, 0, 2),), (Step(1, -1, 1), Step(1, 1, 2)))
    others = tuple(one for one in also if one.sum.parts[0].register not in measure.names)
    if also and not others:
        return
    for low in (1, 0) if least is None else (least,):
        first = start.low if least is None else least
        whole = bound_of(measure, Interval(min(first, low), start.high))
        for steps in ((Step(1, -1, 1),),) if others else halved:
            invariant = (*registers, *others, *settled(body, entry), whole)
            yield Certificate(invariant, sum_of(measure), start.high, low, steps, 0)


def _approaching(body: Region, entry: Entry, measure: Measure) -> Iterator[Certificate]:
    """Registers come nearer by a constant that divides their distance, wherever they wrap around.

    An iteration that goes back finds them apart: before it adds to them, or after.
    """
    start, loop = entry.wrapping(measure), body.graph.forest.loop_at(BlockId(body.start))
    if start is None or measure.kind.signed or loop is None:
        return
    steps = steady_steps(body.graph, loop)
    moved = [c * steps[name] for name, c in measure.terms if name in steps]
    if len(moved) == sum(name in body.written for name in measure.names):
        fall = -sum(moved) % (1 << measure.kind.bits)
        parts = tuple(Part(name, c, Reading.WRAPPING) for name, c in measure.terms)
        apart = Sum(parts, measure.constant)
        for low in (fall, 0) if fall else ():
            whole = Bound(apart, low, start.high, fall)
            yield Certificate((whole,), apart, start.high, low, (Step(1, -fall, 1),), 0)


def _mnemonics(body: Region) -> set[str]:
    """The instructions of an iteration, without their operands."""
    kernel = body.graph.kernel
    return {kernel.instructions[index].mnemonic for index in body.graph.indices(body.blocks)}


def _made_odd(kept: _Register, other: _Register) -> Iterator[Certificate]:
    """Stein's algorithm: the zeros at the end of one are left out, and the smaller one taken away.

    Both are odd then, so that their difference is even: it loses a bit in the next iteration.
    """
    pair = kept, other
    bits = [one.interval(signed=False).high.bit_length() for one in pair]
    measure = Sum(
        (*(Part(one.name, 1, Reading.LENGTH) for one in pair), Part(other.name, 1, Reading.ODD))
    )
    own = other.measure(signed=False)
    is_odd = Bound(Sum((Part(kept.name, 1, Reading.ODD),)), 1, 1)
    invariant = (*kept.settled, is_odd, bound_of(own, Interval(1, own.kind.high)))
    yield Certificate(invariant, measure, sum(bits) + 1, 2, (Step(1, -1, 1),), 0)


def _dividing(divisor: _Register, dividend: str) -> Iterator[Certificate]:
    """Euclid's algorithm on two registers."""
    for signed in (False, True):
        start, kind = divisor.interval(signed=signed), divisor.measure(signed=signed).kind
        low = 0 if start.holds(0) else 1
        whole = kind.interval if low == 0 else start  # what 0 leaves may be any number
        high = max(-whole.low, whole.high)
        reading = Reading.MAGNITUDE if signed else Reading.UNSIGNED
        measure = Sum((Part(divisor.name, 1, reading),))
        pair = Remainders(dividend, divisor.name, signed)
        most = most_remainders(high) + (low == 0)
        invariant = (Bound(measure, 0, high),)
        yield Certificate(invariant, measure, high, low, (), most, pair)
