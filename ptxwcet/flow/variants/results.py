"""What registers are behind a loop, whatever it does: by how much an iteration changes them.

``for (...) if (x[i] > 0) n++;`` counts at most once an iteration: behind the loop ``n`` is what it
was plus at most the number of iterations. A register may also be set to a number of a known range.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval, around
from ptxwcet.flow.variants.body import traverse
from ptxwcet.flow.variants.cases import Case, Content
from ptxwcet.flow.variants.linear_forms import Form, plus, variable
from ptxwcet.flow.variants.regions import Region


@dataclass(frozen=True, slots=True)
class Change:
    """What ways through a loop do to a register: add a number in ``step``, or set it to ``value``.

    A field is None where no way does it.
    """

    step: Interval | None
    value: Interval | None


@dataclass(frozen=True, slots=True)
class Result:
    """What iterations that go on do to a register of ``bits`` bits, and the one that leaves.

    The last one may leave another register with that number: ``source`` is the one that is passed
    from iteration to iteration.
    """

    source: str
    bits: int
    going: Change
    leaving: Change

    @property
    def is_relative(self) -> bool:
        """Whether it is never set, only added to."""
        return self.going.value is None and self.leaving.value is None

    def behind(self, before: Interval, most: int) -> Interval | None:
        """The register behind the loop, from before it, if it goes back at most ``most`` times.

        None if it may wrap around.
        """
        inside = before if self.going.value is None else before.hull(self.going.value)
        if self.going.step is not None:
            inside = inside.plus(self.going.step.hull(Interval(0, 0)).times(most))
        ends = [] if self.leaving.value is None else [self.leaving.value]
        if self.leaving.step is not None:
            ends.append(inside.plus(self.leaving.step))
        after = _hull(ends)
        kind = IntegerType(self.bits, signed=True).interval
        return after if kind.covers(inside) and kind.covers(after) else None


def _hull(intervals: Iterable[Interval]) -> Interval:
    """The least interval around some. Raises ValueError if there are none."""
    return around(end for one in intervals for end in (one.low, one.high))


def results_of(body: Region, wanted: frozenset[str], effort: Effort) -> Mapping[str, Result]:
    """What a loop does to integer registers, as far as it is known; nothing with too much effort.

    A number is read as a signed one. Cost: one iteration on cases.
    """
    try:
        return _results_of(body, wanted, effort)
    except TooMuchEffort:
        return {}


def _results_of(body: Region, wanted: frozenset[str], effort: Effort) -> Mapping[str, Result]:
    how = body.stepping(signed=True)
    names = [name for name in sorted(wanted) if _is_integer(body, name)]
    registers: dict[str, Content] = {
        name: how.unknown(name, f"{name}@0") for name in body.relevant if name in body.written
    }
    ranges: dict[str, Interval] = {}
    for name in names:
        kind = IntegerType(how.width(name), signed=True)
        registers[name], ranges[f"{name}@h"] = variable(f"{name}@h"), kind.interval
    leaving: list[Case] = []
    start = Case(registers, ranges, effort=effort)
    going = traverse(body, start, True, frozenset(names), None, leaving)
    results: dict[str, Result] = {}
    for name in names:
        source = _source(leaving, name)
        if source in names and how.width(source) == how.width(name):
            back, out = _change(going, source, source), _change(leaving, name, source)
            if back is not None and out is not None and leaving:
                results[name] = Result(source, how.width(name), back, out)
    return results


def _source(cases: list[Case], name: str) -> str:
    """The register that cases leave another with: itself, if they do not agree on one."""
    found = {
        variable_[:-2]
        for case in cases
        if isinstance(content := case.registers.get(name), Form)
        for variable_, _ in content.terms
        if variable_.endswith("@h")
    }
    return found.pop() if len(found) == 1 else name


def _is_integer(body: Region, name: str) -> bool:
    kind = body.types[name]
    wide = kind != "pred" and kind[0] != "f" and "x" not in kind
    return wide and body.stepping(signed=True).width(name) in (16, 32, 64)


def _change(cases: list[Case], name: str, source: str) -> Change | None:
    """What cases do to a register, from another; None if in one it may become anything."""
    steps: list[Interval] = []
    values: list[Interval] = []
    start = f"{source}@h"
    for case in cases:
        content = case.registers.get(name)
        if not isinstance(content, Form):
            return None
        coefficient = dict(content.terms).get(start, 0)
        if coefficient not in (0, 1):
            return None
        rest = plus(content, variable(start), -coefficient)
        (steps if coefficient else values).append(case.interval(rest))
    return Change(_hull(steps) if steps else None, _hull(values) if values else None)
