"""Confirms certificates: each claim about all states is a question to the solver.

For an entry: from what is known there, every thread that enters the loop satisfies the invariant,
with a measure of at most ``high``. For an iteration: from the invariant, every thread that goes
back to the header satisfies it again, its measure is ``low`` or more, and smaller by each step. By
induction both hold at each arrival, so that the number of back edges follows from the steps alone
(:func:`~ptxwcet.flow.certificates.certificate.most_back_edges`). What the solver does not confirm
is not true, as far as anyone may say.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from ptxwcet.flow.certificates.certificate import (
    Bound,
    Certificate,
    Part,
    Reading,
    Remainders,
    Step,
    Sum,
    most_back_edges,
    most_remainders,
)
from ptxwcet.flow.certificates.linear import is_impossible
from ptxwcet.flow.certificates.passage import NotFollowed, Passage
from ptxwcet.flow.certificates.solving import Question, State, all_of, arithmetic_width
from ptxwcet.flow.effort import Effort
from ptxwcet.ir.terms import Op, Term, const, term
from ptxwcet.support.records import dataclass
from ptxwcet.support.smt import Answer

EFFORT = 12_000
"""Effort of one question: some tenths of a second."""
SOON = 1_000
"""Effort of a question before it is looked at as a linear one."""
TOGETHER = 8_000
"""Effort of the question about all claims together."""

_MOST_WIDTH = 256
"""Bits of the widest sums: those of registers of 64 bits with factors of that size."""

_MOST_STATES = 8
_SMALL = (Reading.ONES, Reading.LENGTH, Reading.ODD)
"""What is no more than the bits of a register."""

Contents = Callable[[str], Term]
"""What registers hold at some place, by name."""


class Verdict(Enum):
    """What became of a certificate."""

    CONFIRMED = "confirmed"
    WRONG = "wrong"
    """Some state contradicts it, as far as the iteration is known."""
    NOT_SETTLED = "not settled"
    """The solver gave up, or the loop is not followed."""


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """What is known when the loop is entered: bounds, and the way that led there, if it is."""

    bounds: tuple[Bound, ...]
    way: Passage | None = None


def check(
    certificate: Certificate, iteration: Passage, entry: EntryFacts, effort: Effort
) -> Verdict:
    """Whether an entry of a loop goes back at most as often as a certificate says.

    Raises TooMuchEffort. Cost: two questions to the solver, within their effort.
    """
    iterations = check_iteration(certificate, iteration, effort)
    if iterations is not Verdict.CONFIRMED:
        return iterations
    return check_entry(certificate, iteration, entry, effort)


def check_iteration(
    certificate: Certificate,
    iteration: Passage,
    effort: Effort,
    states: list[State] | None = None,
) -> Verdict:
    """Whether what a certificate says of iterations is true, and its bound follows from that.

    ``states`` contradicted other certificates of the same iteration: they are tried first, and the
    one that the solver finds is added.
    """
    states = [] if states is None else states
    if back_edges_of(certificate) != certificate.back_edges:
        return Verdict.WRONG
    try:
        doubts = _doubts_of_iteration(certificate, iteration)
    except NotFollowed:
        return Verdict.NOT_SETTLED
    for state in states:
        effort.spend(1)
        if doubts.are_confirmed_by(state):
            return Verdict.WRONG
    answer, counterexample = _answer(certificate.invariant, iteration.before, doubts, effort)
    if counterexample is not None:
        states.insert(0, counterexample)
        del states[_MOST_STATES:]
    return VERDICTS[answer]


def check_entry(
    certificate: Certificate, iteration: Passage, entry: EntryFacts, effort: Effort
) -> Verdict:
    """Whether what a certificate says of an entry is true."""
    state = iteration.before if entry.way is None else entry.way.after
    try:
        doubts = _doubts_of_entry(certificate, entry, state)
    except NotFollowed:
        return Verdict.NOT_SETTLED
    answer, _ = _answer(entry.bounds, state, doubts, effort)
    return VERDICTS[answer]


@dataclass(frozen=True, slots=True)
class _Doubts:
    """What has to be impossible: that all of ``given`` are true, and not all of ``claims``."""

    given: list[Term]
    claims: list[Term]

    def are_confirmed_by(self, state: State) -> bool:
        """Whether it is possible in a state."""
        return all(map(state.makes_true, self.given)) and not all(
            map(state.makes_true, self.claims)
        )


def _answer(
    narrowed: tuple[Bound, ...], contents: Contents, doubts: _Doubts, effort: Effort
) -> tuple[Answer, State | None]:
    """What the solver says of doubts, and a state in which they are right.

    It is asked about all claims together, and about each alone if it does not find that: what is
    easy takes one question, and what is not is easier in parts, or linear. A part that is not
    settled may rest on those before it: more is known then, and more to be looked at.
    """
    claims = all_of(doubts.claims)
    answer, state = asked(narrowed, contents, [*doubts.given, ~claims], TOGETHER, effort)
    if answer is not Answer.UNKNOWN:
        return answer, state
    given = list(doubts.given)
    for claim in dict.fromkeys(doubts.claims):
        truths = [*doubts.given, ~claim]
        answer, state = asked(narrowed, contents, truths, SOON, effort)
        if answer is Answer.UNKNOWN and is_impossible(truths, effort):
            answer = Answer.IMPOSSIBLE
        if answer is Answer.UNKNOWN and len(given) > len(doubts.given):
            answer, state = asked(narrowed, contents, [*given, ~claim], SOON, effort)
        if answer is Answer.UNKNOWN:
            answer, state = asked(narrowed, contents, truths, EFFORT, effort)
        if answer is not Answer.IMPOSSIBLE:
            break
        given.append(claim)
    return answer, state


def asked(
    narrowed: tuple[Bound, ...], contents: Contents, truths: list[Term], most: int, effort: Effort
) -> tuple[Answer, State | None]:
    """Whether all may be true together, and in which state. Raises TooMuchEffort."""
    question = Question()
    try:
        _narrow(question, narrowed, contents)
        for one in truths:
            question.require(one)
        answer = question.answer(most, effort)
        return answer, question.state() if answer is Answer.POSSIBLE else None
    finally:
        question.close()


VERDICTS = {
    Answer.IMPOSSIBLE: Verdict.CONFIRMED,
    Answer.POSSIBLE: Verdict.WRONG,
    Answer.UNKNOWN: Verdict.NOT_SETTLED,
}


def back_edges_of(certificate: Certificate) -> int | None:
    """How many back edges follow from what a certificate says; None for no end of them."""
    pair = certificate.remainders
    if pair is None:
        return most_back_edges(certificate)
    if certificate.steps or certificate.measure != magnitude_of(pair):
        return None
    # what division by 0 leaves may be any number
    return most_remainders(certificate.high) + (certificate.low < 1)


def magnitude_of(pair: Remainders) -> Sum:
    """The measure of Euclid's algorithm."""
    reading = Reading.MAGNITUDE if pair.signed else Reading.UNSIGNED
    return Sum((Part(pair.divisor, 1, reading),))


def _doubts_of_entry(certificate: Certificate, entry: EntryFacts, contents: Contents) -> _Doubts:
    """The doubt that there is a state at an entry which the certificate does not cover.

    Raises NotFollowed.
    """
    given = [] if entry.way is None else [entry.way.arrives]
    given += [_within(bound, contents) for bound in entry.bounds]
    claims = [_within(bound, contents) for bound in certificate.invariant]
    claims.append(_at_most(certificate.measure, certificate.high, contents))
    if certificate.remainders is not None:
        claims.append(_at_least(certificate.measure, certificate.low, contents))
    return _Doubts(given, claims)


def _doubts_of_iteration(certificate: Certificate, iteration: Passage) -> _Doubts:
    """The doubt that an iteration goes back and breaks what is certified. Raises NotFollowed."""
    before, after = iteration.before, iteration.after
    given = [iteration.arrives, *(_within(bound, before) for bound in certificate.invariant)]
    claims = [_within(bound, after) for bound in certificate.invariant]
    measure, pair = certificate.measure, certificate.remainders
    if pair is None:
        claims.append(_at_least(measure, certificate.low, after))
        claims += [_smaller(measure, step, before, after) for step in certificate.steps]
    else:
        claims += _remainder_claims(pair, before, after)
        claims += [_at_least(measure, 1, after), _at_most(measure, certificate.high, after)]
    return _Doubts(given, claims)


def _narrow(question: Question, bounds: tuple[Bound, ...], contents: Contents) -> None:
    """Gives few bits to registers that are required to be in a small range."""
    for bound in bounds:
        match bound.sum:
            case Sum((Part(name, 1, Reading.SIGNED | Reading.UNSIGNED, None),), 0):
                question.narrow(contents(name), bound.low, bound.high)


def _remainder_claims(pair: Remainders, before: Contents, after: Contents) -> list[Term]:
    dividend, divisor = before(pair.dividend), before(pair.divisor)
    if dividend.width != divisor.width:
        raise NotFollowed
    rest = term(Op.SREM if pair.signed else Op.UREM, divisor.width, (dividend, divisor))
    return [
        after(pair.dividend).equals(divisor),
        divisor.equals(0) | after(pair.divisor).equals(rest),
    ]


def _within(bound: Bound, contents: Contents) -> Term:
    """One bit: whether a contents satisfies a bound."""
    width = _width(bound.sum, contents, 1, max(abs(bound.low), abs(bound.high), bound.divisor))
    found = _value(bound.sum, contents, width)
    above = ~found.less_than(bound.low, signed=True)
    truths = [above, ~const(bound.high, width).less_than(found, signed=True)]
    if bound.divisor > 1:
        rest = found.remainder(const(bound.divisor, width), signed=True)
        truths.append(rest.equals(0))
    return all_of(truths)


def _at_most(measure: Sum, high: int, contents: Contents) -> Term:
    counted = _counted_bits(measure, contents)
    if counted is not None and 0 <= high < counted.width:
        return counted.shifted_right(high, signed=False).equals(0)  # suffices
    width = _width(measure, contents, 1, abs(high))
    return ~const(high, width).less_than(_value(measure, contents, width), signed=True)


def _at_least(measure: Sum, low: int, contents: Contents) -> Term:
    counted = _counted_bits(measure, contents)
    if counted is not None and low == 1:
        return ~counted.equals(0)
    width = _width(measure, contents, 1, abs(low))
    return ~_value(measure, contents, width).less_than(low, signed=True)


def _smaller(measure: Sum, step: Step, before: Contents, after: Contents) -> Term:
    """One bit: whether the measure has become smaller by a step."""
    counted, left = _counted_bits(measure, before), _counted_bits(measure, after)
    if counted is not None and left is not None and step == Step(1, -1, 1):
        return (left & ~counted).equals(0) & ~left.equals(counted)  # suffices
    width = _width(measure, before, max(step.factor, step.divisor), abs(step.constant))
    now, then = _value(measure, after, width), _value(measure, before, width)
    most = _times(then, step.factor) + step.constant
    return ~most.less_than(_times(now, step.divisor), signed=True)


def _counted_bits(measure: Sum, contents: Contents) -> Term | None:
    """The register whose bits a measure counts, if it does nothing else.

    Counts are compared through the bits then, which says no more: solvers do not count well.
    """
    match measure:
        case Sum((Part(name, 1, Reading.ONES, None),), 0):
            return contents(name)
    return None


def _width(measure: Sum, contents: Contents, factor: int, constant: int) -> int:
    """Bits in which a multiple of a sum and a constant is added up without a wrap.

    Raises NotFollowed if they are too many.
    """
    most = abs(measure.constant) if not measure.wraps else 1 << _wrapping_bits(measure, contents)
    for name, c, reading, divisor in measure.parts if not measure.wraps else ():
        bits = contents(name).width
        if divisor is not None and contents(divisor).width != bits:
            raise NotFollowed
        most += abs(c) * (bits if reading in _SMALL else 1 << bits)
    width = arithmetic_width((factor * most + constant).bit_length() + 2)
    if width > _MOST_WIDTH:
        raise NotFollowed
    return width


def _wrapping_bits(measure: Sum, contents: Contents) -> int:
    """The bits of all registers of a sum that wraps around.

    Raises NotFollowed if they differ, or something else is added.
    """
    widths = {contents(one.register).width for one in measure.parts}
    plain = (one.reading is Reading.WRAPPING and one.divisor is None for one in measure.parts)
    if len(widths) > 1 or not all(plain):
        raise NotFollowed
    return widths.pop()


def _value(measure: Sum, contents: Contents, width: int) -> Term:
    """A sum in so many bits."""
    if measure.wraps and (own := _wrapping_bits(measure, contents)) < width:
        return _value(measure, contents, own).extended(width, signed=False)
    found: Term | None = None
    for name, c, reading, divisor in measure.parts:
        bits = contents(name)
        if divisor is not None:
            operator = Op.SDIV if reading is Reading.SIGNED else Op.UDIV
            bits = term(operator, bits.width, (bits, contents(divisor)))
        part = _times(_read(bits, reading, width), c)
        found = part if found is None else found + part
    rest = const(measure.constant, width)
    if found is None:
        return rest
    return found + rest if measure.constant else found


def _times(number: Term, factor: int) -> Term:
    if factor == -1:
        return -number
    return number if factor == 1 else number * factor


def _read(bits: Term, reading: Reading, width: int) -> Term:
    """The number that bits are."""
    match reading:
        case Reading.SIGNED:
            return bits.extended(width, signed=True)
        case Reading.MAGNITUDE:
            bits = bits.less_than(0, signed=True).choose(-bits, bits)
        case Reading.ONES:
            return term(Op.POPC, bits.width, (bits,)).resized(width, signed=False)
        case Reading.LENGTH:
            zeros = term(Op.CLZ, bits.width, (bits,)).resized(width, signed=False)
            return const(bits.width, width) - zeros
        case Reading.LOWEST:
            bits = bits & -bits
        case Reading.ODD:
            bits = bits.part(0, 1)
    return bits.extended(width, signed=False)
