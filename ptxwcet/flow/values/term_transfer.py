"""Transfer functions of instructions whose results are terms over what they read.

A result is what :mod:`ptxwcet.flow.values.term_lanes` knows of it in each lane; if that is nothing,
a number in the interval of :mod:`ptxwcet.flow.values.term_intervals`, in each lane another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.flow.values import integers, ranges, term_intervals
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.operands import LaneState, Transfer, read_operand
from ptxwcet.flow.values.term_intervals import Numbers, numbers_of
from ptxwcet.flow.values.term_lanes import canonical, in_lanes
from ptxwcet.flow.values.value import Cause, Known, Mask, Unknown, Value
from ptxwcet.ir.operands import Operand
from ptxwcet.ir.semantics import Meaning
from ptxwcet.ir.terms import Op, Term, fold

_WIDEST = 64
_ANYTHING = Unknown(frozenset())


@dataclass(frozen=True, slots=True)
class _Step:
    """A distinct term, its arguments by their places in the list of all, what it reads if any."""

    term: Term
    arguments: tuple[int, ...]
    operand: Operand | None
    constant: Known | None


def term_transfer(meaning: Meaning, cause: Cause) -> Transfer:
    """The transfer function of an instruction; values come in the order of its writes.

    ``cause`` names the instruction, for what is known of its operands and not of its result. Cost:
    of a call, linear in the distinct terms and the lanes.
    """
    steps, places = _listed(meaning)

    def transfer(state: LaneState) -> tuple[Value, ...]:
        values: list[Value] = []
        for step in steps:
            if step.constant is not None:
                values.append(step.constant)
            elif step.operand is not None:
                width = step.term.width
                values.append(read_operand(state, step.operand, width, cause.instruction))
            elif step.term.op is Op.ANY:
                values.append(_ANYTHING)
            else:
                arguments = [values[place] for place in step.arguments]
                values.append(in_lanes(step.term, arguments, state.active))
        if all(isinstance(values[place], Known) for place in places):
            return tuple(values[place] for place in places)
        reading = _Reading(steps, values, state.active, cause)
        return tuple(reading.result(place) for place in places)

    return transfer


def _listed(meaning: Meaning) -> tuple[tuple[_Step, ...], tuple[int, ...]]:
    """The distinct terms of all results, arguments first, and where the results are among them."""
    places: dict[Term, int] = {}
    steps: list[_Step] = []

    def add(term: Term, arguments: list[int]) -> int:
        if term not in places:
            operand = meaning.sources[term.value] if term.op is Op.SOURCE else None
            constant = Known(canonical(term.value, term.width)) if term.op is Op.CONST else None
            places[term] = len(steps)
            steps.append(_Step(term, tuple(arguments), operand, constant))
        return places[term]

    results = tuple(fold(root, add) for root in meaning.results)
    return tuple(steps), results


class _Reading:
    """What is known of results that are not known in each lane."""

    def __init__(
        self, steps: tuple[_Step, ...], values: list[Value], active: Mask, cause: Cause
    ) -> None:
        self._steps = steps
        self._active = active
        self._values = {step.term: value for step, value in zip(steps, values, strict=True)}
        read = [
            value for step, value in zip(steps, values, strict=True) if step.operand is not None
        ]
        self._causes = frozenset[Cause]().union(
            *(value.causes for value in read if isinstance(value, Unknown))
        )
        ranged = frozenset[Cause]().union(
            *(integers.causes_of(value.terms) for value in read if isinstance(value, Known))
        )
        self._open = self._causes or ranged or frozenset({cause})
        self._causes = self._causes or frozenset({cause})
        self._origins = self._causes | ranged
        # outcomes of numbers that are known in part are left open, as the lanes have them: loops
        # would be followed through numbers that have wrapped around; nor is the region to shrink
        self._decides = any(isinstance(value, Unknown) for value in read) and all(
            symbol.fixed for value in read if isinstance(value, Known) for symbol in value.terms
        )
        self._numbers: dict[Term, Numbers] = {}

    def result(self, place: int) -> Value:
        """The value of a result."""
        term = self._steps[place].term
        value = self._values[term]
        if isinstance(value, Known):
            return value
        if term.width > 1 or self._decides:
            best = _narrowest(term.width, numbers_of(term, self._known))
            if best is not None and term.width == 1:
                return Known(canonical(best.low, 1))
            if best is not None:
                return ranges.bounded(best, term.width, self._origins)
        if value.causes:
            return value
        return Unknown(self._open if term.width == 1 else self._causes)

    def _known(self, term: Term) -> Numbers | None:
        """The numbers of a term of which the lanes say something; of a source at least its type."""
        if term not in self._numbers:
            value, width = self._values[term], term.width
            if isinstance(value, Known) and value.valid is None and width <= _WIDEST:
                unsigned, signed = (
                    ranges.interval_of(value, IntegerType(width, signed), self._active)
                    for signed in (False, True)
                )
                self._numbers[term] = Numbers(unsigned, signed)
            elif term.op is Op.SOURCE:
                self._numbers[term] = term_intervals.whole(width)
            else:
                return None
        return self._numbers[term]


def _narrowest(width: int, found: Numbers) -> Interval | None:
    """The reading that has fewer numbers; None if both have all."""
    sizes = [(one.high - one.low, one) for one in found]
    size, best = min(sizes, key=lambda pair: pair[0])
    if width == 1:
        return best if found.unsigned.is_number else None
    return best if size < (1 << width) - 1 else None
