"""Axes of a sweep: lists and ranges of values, and their product, of which nothing is held.

A range is TOML ``{ from = 1024, to = 4096, step = 1024 }``: both ends are included, ``step`` is 1
if it is left out. It is kept as Python's ``range``, and a product as its axes: the combination of a
number is found by division (mixed radix), so that memory does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, TypeVar

from ptxwcet.sweeps.expressions import LEAST, MOST

MOST_LISTED = 10_000
"""Most values of a list."""
MOST_OF_RANGE = 1_000_000
"""Most values of a range."""

_RANGE_KEYS = ("from", "to", "step")


class AxisError(Exception):
    """Values that cannot be an axis: the code of the problem, and what is wrong."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def listed(value: object, what: str) -> Sequence[object]:
    """The values that a value of TOML lists: a list, a range, or one value that stands alone.

    ``what`` is how messages call it. The values of a list are not looked at. Raises AxisError:
    PW810 for an empty list or range, PW571 and PW572 for a range with mistakes, PW572 for too many
    values.
    """
    if isinstance(value, Mapping):
        return _range(value, what)
    if not isinstance(value, list):
        return (value,)
    if not value:
        raise AxisError("PW810", f"{what} has no values: the list is empty")
    if len(value) > MOST_LISTED:
        raise AxisError("PW572", f"{what} has more than {MOST_LISTED:,} values")
    return tuple(value)


def _range(table: Mapping[str, object], what: str) -> range:
    """The integers of a table with from, to and perhaps step. Raises AxisError."""
    unknown = [key for key in table if key not in _RANGE_KEYS]
    if unknown:
        message = f"{what}: a range has from, to and step, not {unknown[0]!r}"
        raise AxisError("PW571", message)
    ends: list[int] = []
    for key in _RANGE_KEYS:
        number = table.get(key, 1 if key == "step" else None)
        if type(number) is not int or not LEAST <= number <= MOST:
            message = f"{what}: {key} of a range is a whole number of 64 bits"
            raise AxisError("PW572", message if key in table else f"{message}, and is missing")
        ends.append(number)
    first, last, step = ends
    if step < 1:
        raise AxisError(
            "PW810", f"{what} has no values: its step is {step}, and has to be 1 or more"
        )
    if last < first:
        raise AxisError("PW810", f"{what} has no values: it is from {first} to {last}")
    if (last - first) // step >= MOST_OF_RANGE:
        raise AxisError("PW572", f"{what} has more than {MOST_OF_RANGE:,} values")
    return range(first, last + 1, step)


_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Product(Generic[_Value]):
    """All combinations of a value of each axis, in order; the last axis varies fastest.

    Of no axes there is one combination, the empty one.
    """

    axes: tuple[Sequence[_Value], ...]

    def size(self) -> int:
        """How many there are. It may be more than ``len`` could say."""
        return prod(map(len, self.axes))

    def at(self, number: int) -> tuple[_Value, ...]:
        """The combination of a number, from 0. Raises IndexError. Cost: linear in the axes."""
        if not 0 <= number < self.size():
            raise IndexError(number)
        values: list[_Value] = []
        for axis in reversed(self.axes):
            number, digit = divmod(number, len(axis))
            values.append(axis[digit])
        return tuple(reversed(values))

    def __iter__(self) -> Iterator[tuple[_Value, ...]]:
        """All combinations: as ``itertools.product``, which holds a copy of each axis."""
        if not all(self.axes):
            return
        last = len(self.axes) - 1
        walks = [iter(axis) for axis in self.axes]
        values = [next(walk) for walk in walks]
        while True:
            yield tuple(values)
            place = last
            while place >= 0:
                following = next(walks[place], _END)
                if not isinstance(following, _End):
                    values[place] = following
                    break
                walks[place] = iter(self.axes[place])
                values[place] = next(walks[place])
                place -= 1
            if place < 0:
                return


class _End:
    """What comes after the last value of an axis."""


_END = _End()
