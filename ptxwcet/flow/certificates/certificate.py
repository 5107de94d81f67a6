"""Certificates: why a loop goes back to its header a limited number of times, in data.

A certificate says that some sums of a loop's registers are in ranges whenever a thread comes to the
header, from an entry or from an iteration (the *invariant*), and that one sum, the *measure*, is
at most ``high`` at an entry, is at least ``low`` after each iteration that goes back, and gets
smaller by each of its *steps*. All sums are true integers: registers are read as numbers, added in
as many bits as that takes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ptxwcet.support.records import dataclass

MOST_STEPS = 4_096


class Reading(Enum):
    """How the bits of a register are read as a number."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"
    MAGNITUDE = "magnitude"
    """Signed, without its sign."""
    ONES = "ones"
    """How many bits are set."""
    LENGTH = "length"
    """The place of the highest bit that is set, from 1; 0 if none is."""
    LOWEST = "lowest"
    """The lowest bit that is set, as a number; 0 if none is."""
    ODD = "odd"
    """1 if it is odd, else 0."""
    WRAPPING = "wrapping"
    """As bits: the sum, of which all parts are read so, is one modulo 2^width, without sign."""


class Part(NamedTuple):
    """A multiple of a register, or of its quotient by another one, read in some way."""

    register: str
    coefficient: int = 1
    reading: Reading = Reading.SIGNED
    divisor: str | None = None


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of multiples of registers and a constant."""

    parts: tuple[Part, ...]
    constant: int = 0

    @property
    def text(self) -> str:
        """As people write it."""
        words: list[str] = []
        for name, c, reading, divisor in self.parts:
            factor = "" if abs(c) == 1 else f"{abs(c)} "
            plain = reading in (Reading.SIGNED, Reading.UNSIGNED, Reading.WRAPPING)
            word = factor + (name if plain else f"{reading.value}({name})")
            word += f" / {divisor}" if divisor else ""
            sign = "-" if c < 0 else "+"
            words.append(f"{sign} {word}" if words else f"-{word}" if c < 0 else word)
        if self.constant or not words:
            sign = "-" if self.constant < 0 else "+"
            words.append(f"{sign} {abs(self.constant)}" if words else str(self.constant))
        text = " ".join(words)
        return f"({text} as it wraps around)" if self.wraps else text

    @property
    def wraps(self) -> bool:
        """Whether it is a sum of bits, modulo the width of its registers."""
        return any(one.reading is Reading.WRAPPING for one in self.parts)


@dataclass(frozen=True, slots=True)
class Bound:
    """A sum is at least ``low`` and at most ``high``, and a multiple of ``divisor``."""

    sum: Sum
    low: int
    high: int
    divisor: int = 1

    @property
    def text(self) -> str:
        """As people write it."""
        multiple = f", a multiple of {self.divisor}" if self.divisor > 1 else ""
        return f"{self.low} <= {self.sum.text} <= {self.high}{multiple}"


@dataclass(frozen=True, slots=True)
class Step:
    """After an iteration that goes back, ``divisor * measure <= factor * before + constant``."""

    factor: int
    constant: int
    divisor: int

    def after(self, before: int) -> int:
        """The largest measure that may follow."""
        return (self.factor * before + self.constant) // self.divisor

    def text(self, name: str) -> str:
        """The largest measure that may follow, as people write it."""
        plain = name if name.replace("%", "").replace("_", "").isalnum() else f"({name})"
        word = plain if self.factor == 1 else f"{self.factor} {plain}"
        if self.constant:
            word += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        if self.divisor == 1:
            return word
        return f"({word}) / {self.divisor}" if self.constant else f"{word} / {self.divisor}"

    @property
    def is_even(self) -> bool:
        """Whether the measure falls by the same number each time, or below one number at once."""
        return self.factor == 0 or self.fall > 0

    @property
    def fall(self) -> int:
        """How much the measure falls, if that does not depend on its value; else 0."""
        return -self.constant if self.factor == self.divisor == 1 else 0


@dataclass(frozen=True, slots=True)
class Remainders:
    """Euclid's algorithm: an iteration that goes back leaves ``(a, b)`` as ``(b, a % b)``.

    The remainder is never 0 then.
    """

    dividend: str
    divisor: str
    signed: bool


@dataclass(frozen=True, slots=True)
class Certificate:
    """Why an entry of a loop goes back at most ``back_edges`` times; see the module's docstring.

    With ``remainders`` the measure is the divisor's magnitude, and there are no steps.
    """

    invariant: tuple[Bound, ...]
    measure: Sum
    high: int
    low: int
    steps: tuple[Step, ...]
    back_edges: int
    remainders: Remainders | None = None

    @property
    def text(self) -> str:
        """Why the loop ends, as people write it."""
        name = self.measure.text
        if self.remainders is not None:
            return f"Euclid's algorithm on {name}, at first {self.high} or less"
        steps = [
            f"falls by {step.fall} or more"
            if step.fall
            else f"is at most {step.text(name)} after each iteration"
            for step in self.steps
        ]
        return f"{name} is {self.high} or less at first, {', '.join(steps)}, never below {self.low}"


def most_back_edges(certificate: Certificate) -> int | None:
    """How often the measure can get smaller before it is below ``low``; None if for ever.

    ``factor`` and ``divisor`` of a step are not negative, so that a smaller measure is followed by
    no larger one. Cost: a step of computation for each, at most ``MOST_STEPS``.
    """
    steps, low = certificate.steps, certificate.low
    if any(one.factor < 0 or one.divisor < 1 for one in steps):
        return None
    measure, done = certificate.high, 0
    fall = max((one.fall for one in steps), default=0)
    while done < MOST_STEPS and steps:
        following = min(one.after(measure) for one in steps)
        if following < low:
            return done
        if fall > 0 and following == measure - fall and all(one.is_even for one in steps):
            break
        if following >= measure:
            return None
        measure, done = following, done + 1
    if fall <= 0:
        return None
    return done + max(measure - low, 0) // fall


def most_remainders(high: int) -> int:
    """How often Euclid's algorithm leaves a remainder, from a divisor of at most ``high``.

    The largest T with F(T + 2) <= high in Fibonacci's numbers (Lame): with T remainders the last
    divisor is 1 or more, and each one at least the sum of the next two.
    """
    steps, one, two = 0, 1, 2
    while two <= high:
        steps, one, two = steps + 1, two, one + two
    return steps
