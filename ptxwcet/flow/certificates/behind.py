"""Certificates of what a loop leaves in registers, and their check.

``for (...) if (x[i] > 0) n++;`` counts at most once an iteration: behind the loop ``n`` is what it
was plus at most the number of iterations. A certificate says so of one register: an iteration that
goes back adds a number of a range to it, or leaves one of another range in it; so does the part of
an iteration that leaves the loop. From these and the number of back edges its range behind the loop
follows by arithmetic alone (:meth:`Result.behind`), if nothing wraps around on the way.
"""

from __future__ import annotations

from typing import NamedTuple

from ptxwcet.flow.certificates.checker import TOGETHER, VERDICTS, Verdict, asked
from ptxwcet.flow.certificates.passage import NotFollowed, Passage
from ptxwcet.flow.effort import Effort
from ptxwcet.ir.terms import Term, const


class Span(NamedTuple):
    """The integers from ``low`` to ``high``, which is not below it."""

    low: int
    high: int

    def hull(self, other: Span) -> Span:
        """The least span around both."""
        return Span(min(self.low, other.low), max(self.high, other.high))

    def plus(self, other: Span) -> Span:
        """The least span around all sums of a number of each."""
        return Span(self.low + other.low, self.high + other.high)

    def covers(self, other: Span) -> bool:
        """Whether another lies in it."""
        return self.low <= other.low and other.high <= self.high


class Change(NamedTuple):
    """What ways through a loop do to a register: add a number in ``step``, or set it to ``value``.

    A field is None where no way does it.
    """

    step: Span | None
    value: Span | None


class Result(NamedTuple):
    """What iterations that go on do to a register of ``bits`` bits, and the one that leaves.

    The last one may leave another register, ``name``, with that number: ``source`` is the one that
    is passed from iteration to iteration. Numbers are signed; steps are added modulo 2^bits.
    ``fixed``: registers that the loop does not write, with what they hold when it is entered.
    """

    name: str
    source: str
    bits: int
    going: Change
    leaving: Change
    fixed: tuple[tuple[str, int], ...] = ()

    @property
    def is_relative(self) -> bool:
        """Whether it is never set, only added to."""
        return self.going.value is None and self.leaving.value is None

    def behind(self, before: Span, most: int) -> Span | None:
        """The register behind the loop, from before it, if it goes back at most ``most`` times.

        None if it may wrap around. By induction each arrival at the header after k back edges finds
        the source in ``inside``: at first, where it was set, and k steps from there at most.
        """
        inside = before if self.going.value is None else before.hull(self.going.value)
        if self.going.step is not None:
            low, high = min(self.going.step.low, 0), max(self.going.step.high, 0)
            inside = inside.plus(Span(low * most, high * most))
        ends = [] if self.leaving.value is None else [self.leaving.value]
        if self.leaving.step is not None:
            ends.append(inside.plus(self.leaving.step))
        if not ends:
            return None
        after = ends[0].hull(ends[-1])
        half = 1 << (self.bits - 1)
        kind = Span(-half, half - 1)
        return after if kind.covers(inside) and kind.covers(after) else None


def check_result(result: Result, iteration: Passage, departure: Passage, effort: Effort) -> Verdict:
    """Whether a loop does to a register what is said, whatever an iteration begins from, but for
    the registers that are fixed.

    ``departure`` are the ways from the header out of the loop. Raises TooMuchEffort. Cost: two
    questions to the solver, within their effort.
    """
    for passage, name, change in (
        (iteration, result.source, result.going),
        (departure, result.name, result.leaving),
    ):
        try:
            before, after = passage.before(result.source), passage.after(name)
            fixed = [_holds(passage.before(name), value) for name, value in result.fixed]
        except NotFollowed:
            return Verdict.NOT_SETTLED
        if not before.width == after.width == result.bits:
            return Verdict.NOT_SETTLED
        doubts = [*fixed, passage.arrives, ~_is_done(change, before, after)]
        verdict = VERDICTS[asked((), passage.before, doubts, TOGETHER, effort)[0]]
        if verdict is not Verdict.CONFIRMED:
            return verdict
    return Verdict.CONFIRMED


def _holds(contents: Term, value: int) -> Term:
    """One bit: whether a register holds a number."""
    return contents.equals(const(value, contents.width))


def _is_done(change: Change, before: Term, after: Term) -> Term:
    """One bit: whether a register has been changed as is said."""
    done = const(0, 1)
    if change.step is not None:
        done = done | _is_in(after - before, change.step)
    if change.value is not None:
        done = done | _is_in(after, change.value)
    return done


def _is_in(bits: Term, span: Span) -> Term:
    """One bit: whether bits are those of an integer of a span, modulo their width."""
    if span.high - span.low >= (1 << bits.width) - 1:
        return const(1, 1)
    return ~const(span.high - span.low, bits.width).less_than(bits - span.low, signed=False)
