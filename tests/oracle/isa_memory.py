"""The data of a run: arguments and memory whose content is made up as it is read, from a seed.

Values are biased to those at which arithmetic goes wrong: 0, 1, -1, small numbers, powers of two
and their neighbours. What is read again is what was read or written before, so that a run is one
that some input has; with ``restless`` what other blocks may write changes between two reads. In a
window the integers of a size lie in a range; a run that reads another one there, which it has
written itself, is none of those that were spoken of.
"""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass

from isa_types import ones

PROFILES = ("mixed", "small", "tiny", "large", "edges", "random", "one", "nonzero", "falling")
"""How values are drawn; a run draws with one of them. ``numbers`` are floating-point ones."""

_FORMATS = {16: "e", 32: "f", 64: "d"}
_NUMBERS = (
    *(0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, -1.0, -0.5, -2.5, 0.1, 1 / 3, 5.499, 100.0),
    *(1e-7, -1e-7, 1e-40, -1e-45, 65504.0, -65504.0, 2.0**31, -(2.0**31), 2.0**63, 3e38, 1e300),
    *(math.inf, -math.inf, math.nan),
)


def _bits(number: float, bits: int) -> int:
    """The bits of a floating-point number, of infinity if it is too large for them."""
    try:
        packed = struct.pack("<" + _FORMATS[bits], number)
    except OverflowError:
        packed = struct.pack("<" + _FORMATS[bits], math.copysign(math.inf, number))
    return int.from_bytes(packed, "little")


class Values:
    """A stream of values of one profile."""

    def __init__(self, seed: int, profile: str) -> None:
        self._random = random.Random(seed)
        self._profile = profile
        self._constant = self._draw("mixed", 64)
        self._falling = self._random.choice((3, 8, 40))

    def draw(self, bits: int) -> int:
        """A value of so many bits."""
        return self._draw(self._profile, bits) & ones(bits)

    def _draw(self, profile: str, bits: int) -> int:
        chooser = self._random
        if profile == "mixed":
            profile = chooser.choice(("small", "tiny", "large", "edges", "edges", "random"))
        if profile == "small":
            return chooser.randrange(48)
        if profile == "tiny":
            return chooser.choice((0, 0, 1, 1, 2, 3, -1, 7, 8, 15, 16))
        if profile == "large":
            return (
                -1 - chooser.randrange(48)
                if chooser.random() < 0.5
                else ones(bits - 1) - (chooser.randrange(8))
            )
        if profile == "edges":
            return (1 << chooser.randrange(bits)) + chooser.choice((-1, 0, 0, 1))
        if profile == "one":
            return self._constant if chooser.random() < 0.9 else chooser.randrange(16)
        if profile == "numbers" and bits in _FORMATS:
            return _bits(chooser.choice(_NUMBERS), bits)
        if profile == "nonzero":
            return chooser.randrange(1, 1 << bits)
        if profile == "falling":
            self._falling -= 1
            return max(self._falling, 0)
        return chooser.getrandbits(bits)


@dataclass(frozen=True)
class Window:
    """Places from ``first`` to ``last`` where integers of ``size`` bytes lie in a range."""

    first: int
    last: int
    size: int
    low: int
    high: int
    is_signed: bool

    def has(self, address: int, size: int) -> bool:
        return self.first <= address <= self.last and size == self.size

    def admits(self, value: int) -> bool:
        bits = 8 * self.size
        negative = self.is_signed and value >> (bits - 1)
        return self.low <= value - (negative << bits) <= self.high


class Memory:
    """Bytes by address; those that nothing wrote are made up when they are read."""

    def __init__(self, values: Values, *, restless: bool = False) -> None:
        self._values = values
        self._bytes: dict[int, int] = {}
        self.is_restless = restless
        self.windows: list[Window] = []
        self.is_outside = False

    def read(self, address: int, size: int) -> int:
        known = self._bytes
        if not any(address + i in known for i in range(size)):
            fresh = self._fresh(address, size)
            for i in range(size):
                known[address + i] = (fresh >> (8 * i)) & 255
            return fresh
        found = 0
        for i in range(size):
            if address + i not in known:
                known[address + i] = self._values.draw(8)
            found |= known[address + i] << (8 * i)
        for window in self.windows:
            self.is_outside |= window.has(address, size) and not window.admits(found)
        return found

    def _fresh(self, address: int, size: int) -> int:
        fresh = self._values.draw(8 * size)
        for window in self.windows:
            if window.has(address, size) and not window.admits(fresh):
                near = fresh % 3  # the ends as often as what lies between
                inside = window.low + fresh % (window.high - window.low + 1)
                fresh = (window.low, window.high, inside)[near] & ones(8 * size)
        return fresh

    def write(self, address: int, size: int, value: int) -> None:
        for i in range(size):
            self._bytes[address + i] = (value >> (8 * i)) & 255

    def change(self, address: int, size: int) -> None:
        """Another block writes there."""
        self.write(address, size, self._fresh(address, size))
