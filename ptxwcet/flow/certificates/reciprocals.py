"""Divisions that compilers write as products: ``x * m >> k`` with a constant ``m`` is ``x / d``.

Let ``d = ceil(2**k / m)`` and ``e = m * d - 2**k``. For ``x = a * d + b`` with ``0 <= b < d``,
``x * m = a * 2**k + a * e + b * m``, so that ``floor(x * m / 2**k)`` is ``a`` plus
``floor((a * e + b * m) / 2**k)``.

* For ``0 <= x <= most`` that is ``a`` if ``a * e + b * m < 2**k``, which is
  ``(a + 1) * e < (d - b) * m``. With ``b = d - 1``, ``a + 1`` is at most ``(most + 1) // d``; with
  others ``most // d + 1``.
* For ``-least <= x < 0`` it is ``a - 1`` where ``b`` is 0, and ``a`` if ``-a * e <= b * m``: one
  less than the quotient rounded towards zero. With ``b = 1``, ``-a`` is at most
  ``(least + 1) // d``; with others ``least // d + 1``.

(Granlund and Montgomery, PLDI 1994.) Solvers do not find that by themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from ptxwcet.ir.terms import Op, Term, const


class _Product(NamedTuple):
    """A number times a constant, in bits that hold it."""

    number: Term
    factor: int
    signed: bool


def simplified(node: Term) -> Term:
    """A quotient in the place of a product that computes it; the same term if it is none.

    Cost: constant.
    """
    match node:
        case Term(op=Op.EXTRACT, args=(inner,), value=low):
            product = _product(inner)
            if product is not None and low > 0:
                return _quotient(product, low, node.width) or node
        case Term(op=Op.LSHR | Op.ASHR, args=(inner, Term(op=Op.CONST, value=by))):
            if inner.op is Op.EXTRACT:
                product, below = _product(inner.args[0]), inner.value
                is_top = inner.value + inner.width == inner.args[0].width
            else:
                product, below, is_top = _product(inner), 0, True
            if product is not None and is_top and 0 < by < node.width:
                return _shifted(product, node, below + by) or node
    return node


def _shifted(product: _Product, one: Term, by: int) -> Term | None:
    """The highest bits of a product, shifted on: its sign, or a quotient."""
    if product.signed and one.op is Op.LSHR:
        if one.args[1].value != one.width - 1:
            return None
        return product.number.less_than(0, signed=True).extended(one.width, signed=False)
    if product.signed != (one.op is Op.ASHR):
        return None
    return _quotient(product, by, one.width)


def _product(node: Term) -> _Product | None:
    """A term as a positive constant times an extended number, if that cannot overflow."""
    if node.op is not Op.MUL:
        return None
    for wide, factor in (node.args, node.args[::-1]):
        if factor.op is not Op.CONST or wide.op not in (Op.ZEXT, Op.SEXT) or factor.value < 2:
            continue
        (number,) = wide.args
        signed = wide.op is Op.SEXT
        if signed and factor.value >> (node.width - 1):
            continue  # a negative factor
        if (factor.value << (number.width - signed)) < 1 << (node.width - signed):
            return _Product(number, factor.value, signed)
    return None


def _quotient(product: _Product, by: int, width: int) -> Term | None:
    """``floor(product / 2**by)`` in so many bits, if that is a quotient of the number."""
    number, factor = product.number, product.factor
    if factor >= 1 << by:
        return None
    divisor = -(-(1 << by) // factor)
    rest = factor * divisor - (1 << by)
    end = 1 << (number.width - product.signed)
    if rest == 0 or divisor >> (number.width - 1):
        return None
    if end // divisor * rest >= factor or ((end - 1) // divisor + 1) * rest >= 2 * factor:
        return None
    if product.signed and (
        (end + 1) // divisor * rest > factor or (end // divisor + 1) * rest > 2 * factor
    ):
        return None
    quotient = number.divided_by(const(divisor, number.width), signed=product.signed)
    if product.signed:
        below = number.less_than(0, signed=True).extended(number.width, signed=False)
        quotient = quotient - below
    return quotient.resized(width, signed=product.signed)
