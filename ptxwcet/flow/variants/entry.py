"""What registers hold when a loop is entered, from the walk and from the blocks before it.

The walk knows each register by itself. How they hang together, and what the branches before the
loop say of them, comes from executing the last blocks before it on cases: ``n - (n & 3)`` is a
multiple of 4, and at least 4 if the loop is entered only then.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Protocol

from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval, around
from ptxwcet.flow.variants.body import traverse
from ptxwcet.flow.variants.cases import Case, Content, Raw, exact, is_wrapped, tightened
from ptxwcet.flow.variants.linear_forms import Form, plus, shifted, times
from ptxwcet.flow.variants.measures import Measure
from ptxwcet.flow.variants.regions import Region
from ptxwcet.support.records import dataclass


class Known(Protocol):
    """What is known of registers one by one."""

    def interval(self, measure: Measure) -> Interval | None:
        """The values of a sum of registers, read as numbers of the measure's type."""
        ...


class Related(Known, Protocol):
    """What is known of registers one by one, and of their distances."""

    def distances(self) -> Iterable[tuple[str, str, int]]:
        """Pairs of registers and by how much the first, read as a signed number, is larger."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of a loop: what is ``known``, and the cases in which it is reached, if they are.

    ``forgot``: more is known of some of them if they are told apart.
    """

    known: Known
    cases: tuple[Case, ...] = ()
    forgot: bool = False

    def interval(self, measure: Measure) -> Interval | None:
        """The values of a sum of registers, read as numbers of the measure's type."""
        known = self.known.interval(measure)
        found = self._forms(measure)
        if not found:
            return known
        ends = [case.interval(form) for case, form in found]
        whole = around(end for one in ends for end in (one.low, one.high))
        if known is None:
            return whole
        return known.meet(whole) or known  # of an entry that there is not, what the walk knows

    @property
    def has_wrapped(self) -> bool:
        """Whether a number may have wrapped around where it was read."""
        return any(is_wrapped(name) for case in self.cases for name in case.ranges)

    def divisor(self, measure: Measure) -> int:
        """A number that divides all values of a sum of registers."""
        common = 0
        for case, form in self._forms(measure):
            form = _without_equals(form, case.facts)
            common = gcd(common, form.constant, *dict(form.terms).values())
        return max(common, 1)

    def wrapping(self, measure: Measure) -> Interval | None:
        """The values of a sum of registers modulo their width, without sign, in the cases in which
        the loop is reached; None if there are none, or the sum wraps around in one.
        """
        size = 1 << measure.kind.bits
        found = [case.interval(form) for case, form in self._forms(measure, as_bits=True)]
        ends = [end - one.low // size * size for one in found for end in (one.low, one.high)]
        return around(ends) if ends and max(ends) < size else None

    def _forms(self, measure: Measure, *, as_bits: bool = False) -> list[tuple[Case, Form]]:
        """The sum in each case; none if one is not exact, but ``as_bits`` modulo the width."""
        sums = []
        for case in self.cases:
            total, now = Form(measure.constant), case
            for name, c in measure.terms:
                content = now.registers.get(name)
                if not isinstance(content, (Form, Raw)):
                    return []
                form = content if as_bits and isinstance(content, Form) else None
                if form is None:
                    now, form = exact(now, content, measure.kind, name)
                total = plus(total, form, c)
            sums.append((now, total))
        return sums


def _without_equals(form: Form, facts: tuple[Form, ...]) -> Form:
    """A form in fewer variables, where facts say that sums of them are 0."""
    for fact in facts:
        if times(fact, -1) in facts:
            name, c = next(((name, c) for name, c in fact.terms if abs(c) == 1), ("", 0))
            form = plus(form, fact, -c * dict(form.terms).get(name, 0))
    return form


def entry_along(
    entry_values: Related,
    region: Region,
    effort: Effort,
    *,
    signed: bool = True,
    last: int = 0,
) -> Entry | None:
    """The entry of a loop by a region before it; None if that has too many ways.

    Numbers are read as ``signed`` ones, or as ones without sign, where nothing says how.
    ``last``: see :func:`~ptxwcet.flow.variants.body.traverse`.
    """
    registers = {name: content_of(entry_values, region, name) for name in region.relevant}
    final = region.once.union(*region.settled.values()) & region.relevant
    behind = {name: known_content(entry_values, region, name) for name in final}
    try:
        start = _related(Case(registers, {}, effort=effort), entry_values, region)
        found = traverse(region, start, signed, behind=behind, last=last)
    except TooMuchEffort:
        return None
    return Entry(entry_values, tuple(map(tightened, found.arrived)), found.forgot)


def _related(case: Case, entry_values: Related, region: Region) -> Case:
    """A case at the start of a region, with what is known of distances of registers."""
    for name, other, distance in entry_values.distances():
        content = case.registers.get(other)
        if not isinstance(case.registers.get(name), Raw) or {name, other} & region.written:
            continue
        kind = IntegerType(region.stepping(signed=True).width(other), signed=True)
        if isinstance(content, Raw):
            case, form = exact(case, content, kind, other)
            case = case.with_register(other, form)
        if isinstance(content := case.registers.get(other), Form):
            case = case.with_register(name, shifted(content, distance))
    return case


def content_of(entry_values: Known, region: Region, name: str) -> Content:
    """What a register holds at the start of a region: nothing is known if it is written there."""
    if name in region.written:
        return region.stepping(signed=True).unknown(name, f"{name}@0")
    return known_content(entry_values, region, name)


def known_content(entry_values: Known, region: Region, name: str) -> Content:
    """What is known of a register."""
    kind = region.types.get(name, "pred")  # the carry flag is none of them
    how = region.stepping(signed=True)
    if kind == "pred" or kind.startswith("f"):
        return how.unknown(name, f"{name}@k")
    bits = how.width(name)
    signed, unsigned = (
        entry_values.interval(Measure(((name, 1),), 0, IntegerType(bits, signed=is_signed)))
        for is_signed in (True, False)
    )
    return Raw(name, signed, unsigned)
