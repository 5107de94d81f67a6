"""Patterns: what a register holds in the lanes of warps, up to a number that each warp shares.

In thread ``t`` of a block a value with a pattern is ``u + offsets[t]`` modulo ``2**width``, where
``u`` is a multiple of ``2**align`` and the same in all lanes of a warp that execute an instruction
together, whatever it is the next time; ``agreement`` says whether the warps of the block share it,
too. ``align`` of :data:`KNOWN` says that ``u`` is 0. A register has a few patterns of which one is
true of each warp, or none.

A number that is read in more bits than it has (an index of 32 bits in an address of 64) goes round
at one place: lanes behind it are off by a multiple of ``2**16``. That is a *cut*; where it is not
excluded it is counted: each may part the lanes in two. ``phase`` is where it lies, if that is
known: lanes from an address that is ``phase`` modulo 128 on have gone round, those below have not.
``pure``: there is one cut at most, and the lanes are in the order of their offsets, whose
differences are true integers. ``span`` are the least and the largest number that a lane may hold,
read with sign, where that is known: what stays in between does not go round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from enum import IntEnum
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.flow.values.value import Number, wrap
from ptxwcet.support.records import dataclass

KNOWN = 64
"""The alignment of a shared part that is 0."""
PHASES = 128
"""Cuts matter modulo the bytes of the largest transaction."""
MOST_PATTERNS = 40
_MOST_CONSTANTS = 3

Lanes = NDArray[np.int64]


class Agreement(IntEnum):
    """Who has the same value, or goes the same way."""

    NONE = 0
    WARP = 1
    BLOCK = 2


@dataclass(frozen=True, eq=False)
class Pattern:
    """``u + offsets``; see the module docstring. ``offsets`` is one number or one a thread.

    ``width``: this is the canonical form for words of so many bits (:func:`normal`); 0 if that has
    not been seen to.
    """

    offsets: Number
    align: int = KNOWN
    cuts: int = 0
    phase: int | None = 0
    pure: bool = True
    span: tuple[int, int] | None = None
    agreement: Agreement = Agreement.WARP
    width: int = field(default=0, init=False)

    @property
    def is_known(self) -> bool:
        """Whether the number of each thread is known."""
        return self.align == KNOWN and not self.cuts

    @property
    def interval(self) -> tuple[int, int] | None:
        """Least and largest number of any lane, read with sign; None if they are not known."""
        if not self.is_known:
            return self.span
        if isinstance(self.offsets, int):
            return self.offsets, self.offsets
        return int(self.offsets.min()), int(self.offsets.max())

    @property
    def constant(self) -> int | None:
        """The number that all threads of the block hold; None if that is not known."""
        return self.offsets if self.is_known and isinstance(self.offsets, int) else None

    @property
    def is_uniform(self) -> bool:
        """Whether the lanes of each warp hold one number."""
        if self.cuts:
            return False
        return isinstance(self.offsets, int) or not steps(self.offsets).any()

    @property
    def uniform(self) -> Agreement:
        """Who holds one number."""
        if not self.is_uniform:
            return Agreement.NONE
        return self.agreement if isinstance(self.offsets, int) else Agreement.WARP

    @property
    def key(self) -> tuple[object, ...]:
        """A key for comparison: equal for patterns that say the same."""
        offsets = self.offsets
        lanes = offsets if isinstance(offsets, int) else offsets.tobytes()
        return lanes, self.align, self.cuts, self.phase, self.pure, self.span, self.agreement

    def same(self, other: Pattern) -> bool:
        """Whether both say the same."""
        return self is other or (
            self.align == other.align and self.span == other.span and self.key == other.key
        )

    def differences(self, width: int) -> bytes:
        """How the lanes of warps differ from the first one of theirs in words of ``width`` bits, to
        be compared.
        """
        if isinstance(self.offsets, int):
            return b""
        if width not in self._differences:
            apart = wrap(steps(self.offsets), width)
            assert not isinstance(apart, int)
            alike = bool((apart == apart[0]).all())
            shown = (apart[:1] if alike else apart).tobytes()
            self._differences[width] = shown if apart.any() else b""
        return self._differences[width]

    @cached_property
    def _differences(self) -> dict[int, bytes]:
        return {}


Patterns = tuple[Pattern, ...]
"""One of these is true of each warp."""
Value = Patterns | None
"""What is known of a register; None: nothing."""
Join = Callable[[Value, Value, int], Value]
"""Gives what is known of a register of so many bits that holds one or the other value."""


@lru_cache(maxsize=4096)
def constant(value: int) -> Pattern:
    """Returns the pattern of a number that all threads hold."""
    return Pattern(value, agreement=Agreement.BLOCK)


@lru_cache(maxsize=4096)
def known_number(value: int, width: int) -> Pattern:
    """The canonical pattern of a number of ``width`` bits in all threads; equal ones are one."""
    return normal(constant(value), width)


def uniform(align: int = 0, span: tuple[int, int] | None = None) -> Pattern:
    """The pattern of some number that all lanes of a warp share."""
    return Pattern(0, align, span=span)


@cache
def alike(agreement: Agreement) -> Value:
    """Returns the value of a register in which all who agree hold one number."""
    return (Pattern(0, 0, agreement=agreement),) if agreement else None


def agreement_on(*values: Value) -> Agreement:
    """Returns who holds one number in each of some registers."""
    found = Agreement.BLOCK
    for value in values:
        if value is None:
            return Agreement.NONE
        if len(value) > 1:  # each warp may hold another one
            found = min(found, Agreement.WARP)
        found = min([found, *(pattern.uniform for pattern in value)])
    return found


def number_of(value: Value) -> int | None:
    """Returns the number that all threads hold in a register; None if that is not known."""
    return value[0].constant if value is not None and len(value) == 1 else None


def limited(value: Value, limit: Agreement, width: int) -> Value:
    """Returns a value on whose unknown part at most ``limit`` agree."""
    if value is None or limit is Agreement.NONE:
        return None
    if all(pattern.agreement <= limit or pattern.is_known for pattern in value):
        return value
    narrower = (replace(pattern, agreement=min(pattern.agreement, limit)) for pattern in value)
    return tuple(normal(pattern, width) for pattern in narrower)


def rows(lanes: NDArray[Any]) -> NDArray[Any]:
    """The lanes as a matrix with a row for each warp."""
    return lanes.reshape(-1, WARP_SIZE)


def per_warp(row: Lanes) -> Lanes:
    """The number of each warp, repeated for each of its lanes."""
    return np.repeat(row, WARP_SIZE)


def steps(offsets: Lanes) -> Lanes:
    """How each lane differs from the first one of its warp."""
    lanes = rows(offsets)
    difference: Lanes = lanes - lanes[:, :1]
    return difference


def trailing_zeros(number: Number) -> int:
    """The largest ``n`` of which ``2**n`` divides all these numbers; KNOWN if all are 0."""
    bits = number if isinstance(number, int) else int(np.bitwise_or.reduce(number, axis=None))
    return (bits & -bits).bit_length() - 1 if bits else KNOWN


def normal(pattern: Pattern, width: int) -> Pattern:
    """The canonical form of a pattern of words of ``width`` bits."""
    if pattern.width == width:
        return pattern
    found = _normal(pattern, width)
    object.__setattr__(found, "width", width)
    return found


def _normal(pattern: Pattern, width: int) -> Pattern:
    offsets, align = wrap(pattern.offsets, width), pattern.align
    align = KNOWN if align >= width else align
    agreement = pattern.agreement
    if not isinstance(offsets, int) and len(offsets) > WARP_SIZE:
        agreement = Agreement.WARP  # what lanes have in common is another number for each warp
    if align < KNOWN:
        if isinstance(offsets, int):
            offsets = wrap(offsets % (1 << align), width)
        else:
            above = rows(offsets)[:, 0] >> align << align
            if above.any():
                offsets = wrap(offsets - per_warp(above), width)
    if not isinstance(offsets, int) and offsets[0] == offsets[-1]:
        offsets = int(offsets[0]) if bool((offsets == offsets[0]).all()) else offsets
    is_of_one_warp = isinstance(offsets, int) or len(offsets) == WARP_SIZE
    if align == KNOWN and not pattern.cuts and is_of_one_warp:
        agreement = Agreement.BLOCK
    span = None if align == KNOWN and not pattern.cuts else _fitting(pattern.span, width)
    if not pattern.cuts:
        return Pattern(offsets, align, span=span, agreement=agreement)
    pure = pattern.pure and width >= KNOWN
    return replace(pattern, offsets=offsets, align=align, pure=pure, span=span, agreement=agreement)


def _fitting(span: tuple[int, int] | None, width: int) -> tuple[int, int] | None:
    """The span if it is part of the signed numbers of ``width`` bits, else None."""
    whole = -(1 << width - 1), (1 << width - 1) - 1
    is_part = span is not None and span != whole and whole[0] <= span[0] and span[1] <= whole[1]
    return span if is_part else None


def join(left: Pattern, right: Pattern, width: int) -> Pattern | None:
    """A pattern that is true of a warp wherever one of the two is; None if there is none.

    The span is that of ``left`` if the other lies in it, else unknown: numbers that a loop
    changes would not come to an end.
    """
    if left.differences(width) != right.differences(width):
        return None
    apart = wrap(left.offsets - right.offsets, width)
    align = min(left.align, right.align, trailing_zeros(apart))
    cuts = max(left.cuts, right.cuts)
    phases = {each.phase for each in (left, right) if each.cuts}
    phase = phases.pop() if len(phases) == 1 else None if phases else 0
    pure, agreement = left.pure and right.pure, min(left.agreement, right.agreement)
    span = _outer(left, right)
    return normal(Pattern(left.offsets, align, cuts, phase, pure, span, agreement), width)


def _outer(left: Pattern, right: Pattern) -> tuple[int, int] | None:
    outer, inner = left.interval, right.interval
    if outer is None or inner is None:
        return None
    return outer if outer[0] <= inner[0] and inner[1] <= outer[1] else None


def hull(patterns: Patterns, width: int) -> Patterns:
    """The patterns, with all uniform ones joined to one."""
    alike = [pattern for pattern in patterns if pattern.is_uniform]
    if len(alike) < 2:
        return patterns
    both: Pattern | None = alike[0]
    for pattern in alike[1:]:
        assert both is not None
        both = join(both, pattern, width)
    assert both is not None, "what is uniform differs by a number a warp"
    return (both, *(pattern for pattern in patterns if not pattern.is_uniform))


def one_pattern(old: Value, new: Value, width: int) -> Value:
    """Returns the one pattern that is true of what one or the other value is true of."""
    if old is None or new is None:
        return None
    pattern: Pattern | None = None
    for other in (*old, *new):
        pattern = other if pattern is None else join(pattern, other, width)
        if pattern is None:
            return None
    assert pattern is not None
    return old if old and pattern.same(old[0]) else (pattern,)


def joined(old: Value, new: Value, width: int) -> Value:
    """What is known of a register that holds one or the other.

    Some numbers are kept apart that all threads hold: a few, and more if each is at least twice the
    one before, as those of a counter that is doubled or halved.
    """
    if old is None or new is None:
        return None
    if not old and len(new) == 1:
        return new
    others = set(new).difference(old)
    if not others:
        return old
    keys = {pattern.key for pattern in old}
    fresh = {
        pattern.key: pattern for pattern in new if pattern in others and pattern.key not in keys
    }
    if not fresh:
        return old
    numbers = [pattern.constant for pattern in (*old, *fresh.values())]
    constants = [number for number in numbers if number is not None]
    if len(constants) == len(numbers) and _are_few(constants, width):  # so are some of them
        return (*old, *fresh.values()) if len(constants) <= MOST_PATTERNS else None
    union = list(old)
    for pattern in fresh.values():
        union = _with(union, pattern, width)
        if len(union) > MOST_PATTERNS:
            return None
    return old if len(union) == len(old) and all(map(Pattern.same, union, old)) else tuple(union)


def _with(patterns: list[Pattern], new: Pattern, width: int) -> list[Pattern]:
    if any(map(new.same, patterns)):
        return patterns
    if new.constant is not None:
        numbers = [one.constant for one in patterns if one.constant is not None]
        if numbers and not _are_few([*numbers, new.constant], width):
            merged = hull((*(one for one in patterns if one.constant is not None), new), width)
            rest = [one for one in patterns if one.constant is None]
            for pattern in merged:
                rest = _with(rest, pattern, width)
            return rest
        if numbers or not patterns:
            return [*patterns, new]
    for place, pattern in enumerate(patterns):
        if pattern.constant is not None and new.constant is not None:
            continue
        both = join(pattern, new, width)
        if both is None:
            continue
        rest = [*patterns[:place], *patterns[place + 1 :]]
        return patterns if both.same(pattern) else _with(rest, both, width)
    return [*patterns, new]


def _are_few(numbers: Iterable[int], width: int) -> bool:
    ordered = sorted({number % (1 << width) for number in numbers})
    return len(ordered) <= _MOST_CONSTANTS or _doubles([number for number in ordered if number])


def _doubles(numbers: Sequence[int]) -> bool:
    return all(2 * one <= two for one, two in pairwise(numbers))
