"""Transfer functions: what an instruction does to the values of control-relevant registers.

:func:`compile_transfer` turns an instruction into a function from a :class:`LaneState` (how to read
registers, special registers and parameters in the active lanes) to the values it writes. What has a
term (:mod:`ptxwcet.ir.semantics`) is evaluated by the domains of terms, floating point that PTX
determines by :mod:`ptxwcet.flow.values.float_transfer`; everything else, above all what comes from
memory, is Unknown with its cause. Never a guess.

The result of a term is what :mod:`ptxwcet.flow.values.term_lanes` knows of it in each lane; if that
is nothing, a number in the interval of :mod:`ptxwcet.flow.values.term_intervals`, in each lane
another one.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.flow.values import integers, loads, ranges, term_intervals
from ptxwcet.flow.values.float_transfer import float_transfer
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.lane_state import LaneState
from ptxwcet.flow.values.operands import Transfer, integer_of, read_operand
from ptxwcet.flow.values.operands import register_width as register_width
from ptxwcet.flow.values.reductions import is_election, is_reduction
from ptxwcet.flow.values.term_intervals import Numbers, numbers_of
from ptxwcet.flow.values.term_lanes import canonical, in_lanes
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Mask, Unknown, Value
from ptxwcet.ir.kernel import Instruction, Space
from ptxwcet.ir.operands import Operand
from ptxwcet.ir.operation import operation_of
from ptxwcet.ir.semantics import Meaning, meaning_of
from ptxwcet.ir.terms import Op, Term, fold
from ptxwcet.support.records import dataclass

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


_MEMORY = ("ld", "st")


def compile_transfer(
    instruction: Instruction, index: int, registers: Mapping[str, str]
) -> Transfer:
    """The transfer function of an instruction; values come in the order of ``instruction.writes``.

    ``index`` is the instruction's index, for the causes; ``registers`` the types of the kernel's
    registers: loads and conversions extend to the width of their target. Cost: constant.
    """
    count = len(instruction.writes)
    name = instruction.opcode.name if instruction.opcode is not None else ""
    meaning = meaning_of(instruction, registers)
    if meaning is not None and count:
        cause = Cause(CauseKind.NOT_AFFINE, instruction.mnemonic, index)
        return term_transfer(meaning, cause)
    if name in _MEMORY and count:
        widths = {one: register_width(registers[one]) for one in instruction.writes}
        rule = loads.memory_transfer(instruction, _opaque_cause(instruction, index), widths)
        if rule is not None:
            return rule
    unknown = Unknown(frozenset({_opaque_cause(instruction, index)}))
    types = operation_of(instruction.form).types
    kind = integer_of(types[0]) if types and types[0].is_integer else None
    width = register_width(registers[instruction.writes[0]]) if count else 0
    floating = float_transfer(instruction, index, width)
    if floating is not None:
        return floating
    if name == "ld" and count == 1 and kind is not None and kind.bits < width:
        loaded = kind
        return lambda state: (loads.of_type(loaded, width, unknown.causes),)
    return lambda state: (unknown,) * count


def reads_matter(instruction: Instruction, registers: Mapping[str, str]) -> bool:
    """Whether the written value depends on the registers read, as far as this analysis knows.

    False for most loads and other opaque operations: their operands need not be tracked.
    ``registers`` are the types of the kernel's registers.
    """
    if loads.is_followed(instruction) or is_reduction(instruction) or is_election(instruction):
        return True
    return meaning_of(instruction, registers) is not None


def _opaque_cause(instruction: Instruction, index: int) -> Cause:
    name = instruction.mnemonic
    if instruction.space is not Space.NONE:
        return Cause(CauseKind.MEMORY, name, index)
    if operation_of(instruction.form).has_floats:
        return Cause(CauseKind.FLOAT, name, index)
    return Cause(CauseKind.OPERATION, name, index)
