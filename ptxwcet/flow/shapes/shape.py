"""Shapes of registers over the lanes of a warp, and who agrees on what is the same in all of them.

A value with a shape is ``u + stride * l`` in lane ``l``, where ``u`` is the same in all lanes of a
warp (``Agreement.WARP``) or in all threads of the block (``Agreement.BLOCK``) and a multiple of
``2**align``. Stride 0 is a uniform value; a value without such a form varies.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from ptxwcet.support.records import dataclass


class Agreement(IntEnum):
    """Who has the same value, or goes the same way."""

    NONE = 0
    WARP = 1
    BLOCK = 2


MOST_ALIGNED = 64  # zero is a multiple of every power of two that matters


@dataclass(frozen=True, slots=True)
class Shape:
    """``u + stride * lane``; see the module docstring. ``constant`` is ``u`` where it is known.

    Numbers are modulo 2 to the power of the register's width, to which :func:`reduced` takes them.
    """

    agreement: Agreement
    stride: int = 0
    align: int = 0
    constant: int | None = None

    @property
    def uniform(self) -> Agreement:
        """Who agrees on the whole value."""
        return self.agreement if self.stride == 0 else Agreement.NONE

    @property
    def number(self) -> int | None:
        """The value where all lanes have one and it is known; ``constant`` alone is just ``u``."""
        return self.constant if self.stride == 0 else None


VARYING = Shape(Agreement.NONE)


def constant(value: int) -> Shape:
    """The shape of a number."""
    return Shape(Agreement.BLOCK, 0, trailing_zeros(value), value)


def uniform(agreement: Agreement, align: int = 0) -> Shape:
    """The shape of a value that all who agree have."""
    return Shape(agreement, 0, align) if agreement else VARYING


def all_uniform(shapes: Sequence[Shape]) -> Shape:
    """The shape of a function of some values: uniform if all of them are."""
    return uniform(min((shape.uniform for shape in shapes), default=Agreement.BLOCK))


def agreement_of(shapes: Sequence[Shape]) -> Agreement:
    """Who agrees on the ``u`` of all."""
    return min(shape.agreement for shape in shapes)


def reduced(shape: Shape, width: int) -> Shape:
    """The canonical form of a shape of words of ``width`` bits: equal shapes are then ``==``.

    The stride is above ``-2**(width - 1)`` and at most its opposite; a ``u`` that is 0 is known.
    """
    if not shape.agreement:
        return VARYING
    size = 1 << width
    stride = shape.stride % size
    if stride > size // 2:
        stride -= size
    if shape.constant is None and shape.align < width:
        return Shape(shape.agreement, stride, shape.align)
    value = 0 if shape.constant is None else shape.constant % size
    return Shape(Agreement.BLOCK, stride, trailing_zeros(value), value)


def combined(a: Shape, b: Shape, width: int) -> Shape:
    """``a + b``."""
    known = None if a.constant is None or b.constant is None else a.constant + b.constant
    stride, align = a.stride + b.stride, min(a.align, b.align)
    return reduced(Shape(agreement_of([a, b]), stride, align, known), width)


def difference(a: Shape, b: Shape, width: int) -> Shape:
    """``a - b``."""
    return combined(a, scaled(b, -1, width), width)


def scaled(shape: Shape, factor: int, width: int) -> Shape:
    """``factor`` times a value."""
    if factor % (1 << width) == 0:
        return constant(0)
    known = None if shape.constant is None else shape.constant * factor
    align = shape.align + trailing_zeros(factor)
    return reduced(Shape(shape.agreement, shape.stride * factor, align, known), width)


def join(a: Shape, b: Shape) -> Shape:
    """A shape that both have."""
    if a.stride != b.stride or not (a.agreement and b.agreement):
        return VARYING
    same = a.constant if a.constant == b.constant else None
    return Shape(min(a.agreement, b.agreement), a.stride, min(a.align, b.align), same)


def limited(shape: Shape, limit: Agreement) -> Shape:
    """A shape on which at most ``limit`` agree."""
    if limit is Agreement.NONE:
        return VARYING
    if shape.agreement <= limit:
        return shape
    return Shape(limit, shape.stride, shape.align, None)


def trailing_zeros(value: int) -> int:
    """The largest ``n`` with ``2**n`` dividing a number."""
    return (value & -value).bit_length() - 1 if value else MOST_ALIGNED
