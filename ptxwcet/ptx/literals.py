"""Literals and constant expressions: their exact values (PTX ISA, "Constants").

Integer constants are 64 bits wide: signed unless they carry ``U`` or do not fit a signed word, and
an operation is unsigned when an operand is. Floats are IEEE double unless spelled ``0f...``.
"""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable

from lark import Token, Tree

from ptxwcet.ir.operands import Immediate

WARP_SIZE = 32

_LONGEST_INTEGER = 66  # "0b" and 64 digits
_MASK = (1 << 64) - 1


class LiteralError(ValueError):
    """A constant that has no value: it overflows 64 bits, or an expression divides by zero."""


def integer_value(text: str) -> int:
    """The value of an integer literal spelled as the grammar's INT; LiteralError above 64 bits."""
    digits = text.rstrip("U").lower()
    if len(digits) > _LONGEST_INTEGER and len(digits.lstrip("0xb")) > _LONGEST_INTEGER:
        raise LiteralError(f"constant {text[:20]}... does not fit 64 bits")
    if digits.startswith("0x"):
        value = int(digits[2:], 16)
    elif digits.startswith("0b"):
        value = int(digits[2:], 2)
    elif digits.startswith("0"):
        value = int(digits, 8)
    else:
        value = int(digits)
    if value > _MASK:
        raise LiteralError(f"constant {text} does not fit 64 bits")
    return value


def float_value(text: str) -> float:
    """The value of a float literal: decimal, ``0f`` + 8 hex digits or ``0d`` + 16.

    Raises LiteralError for a decimal above the largest double. Every NaN is
    the object ``math.nan``, so that equal literals compare equal.
    """
    form = {"0f": ">f", "0d": ">d"}.get(text[:2].lower())
    if form is None:
        decimal = float(text)
        if math.isinf(decimal):
            raise LiteralError(f"constant {text[:20]} does not fit a double")
        return decimal
    value = float(struct.unpack(form, bytes.fromhex(text[2:]))[0])
    return math.nan if math.isnan(value) else value


def immediate(kind: str, text: str) -> Immediate:
    """The immediate of a literal of terminal ``kind`` (INT, FLOAT, HEXFLOAT) with its sign."""
    negative = text.startswith("-")
    digits = text[1:].strip() if negative else text
    value = integer_value(digits) if kind == "INT" else float_value(digits)
    return Immediate(-value, f"-{digits}") if negative else Immediate(value, text)


def evaluate(node: Tree[Token] | Token) -> int | float:
    """The value of an ``expression`` of the grammar. Raises LiteralError. Cost: linear."""
    value, _ = _evaluate(node)
    return value


_Value = tuple[int | float, bool]  # the value, and whether it is unsigned


def _evaluate(root: Tree[Token] | Token) -> _Value:
    """Postorder with an explicit stack, because nesting depth is the input's choice."""
    stack: list[tuple[Tree[Token] | Token, bool]] = [(root, False)]
    values: list[_Value] = []
    while stack:
        node, visited = stack.pop()
        if isinstance(node, Token):
            values.append(_leaf(node))
        elif visited:
            _reduce(node, values)
        else:
            stack.append((node, True))
            children = [c for c in node.children if not _is_sign(c)]
            stack.extend((child, False) for child in reversed(children))
    return values.pop()


def _is_sign(child: Tree[Token] | Token) -> bool:
    return isinstance(child, Token) and child.type in _OPERATOR_TOKENS


_OPERATOR_TOKENS = frozenset({"EQUALITY", "RELATION", "SHIFT", "PRODUCT", "NOT", "CAST"})


def _leaf(token: Token) -> _Value:
    if token.type == "INT":
        value = integer_value(token)
        return value, token.endswith("U") or value >> 63 != 0
    if token.type == "WARP_SZ":
        return WARP_SIZE, False
    return float_value(token), False


def _reduce(node: Tree[Token], values: list[_Value]) -> None:
    rule = str(node.data)
    if rule == "conditional":
        condition, chosen, other = values[-3:]
        del values[-3:]
        values.append(chosen if condition[0] else other)
    elif rule.startswith("binary"):
        right, left = values.pop(), values.pop()
        sign = next((str(c) for c in node.children if _is_sign(c)), _RULE_SIGNS.get(rule, ""))
        values.append(_binary(sign, left, right))
    else:
        values.append(_unary(node, values.pop()))


_RULE_SIGNS = {
    "binary_add": "+",
    "binary_sub": "-",
    "binary_and": "&",
    "binary_or": "|",
    "binary_xor": "^",
    "binary_land": "&&",
    "binary_lor": "||",
}

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
}

_TRUTH: dict[str, Callable[[int | float, int | float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}

_FLOAT: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _binary(sign: str, left: _Value, right: _Value) -> _Value:
    a, b = left[0], right[0]
    if sign in _TRUTH:
        return int(_TRUTH[sign](a, b)), False
    if sign in "/%" and b == 0:
        raise LiteralError("division by zero in a constant expression")
    if isinstance(a, float) or isinstance(b, float):
        if sign not in _FLOAT:
            raise LiteralError(f"operator {sign} on a float constant")
        return _FLOAT[sign](float(a), float(b)), False
    unsigned = left[1] if sign in ("<<", ">>") else left[1] or right[1]
    if sign in "/%":
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # toward zero, as in C
        return _wrap(quotient if sign == "/" else a - quotient * b, unsigned)
    return _wrap(_ARITHMETIC[sign](a, b), unsigned)


def _unary(node: Tree[Token], operand: _Value) -> _Value:
    value, unsigned = operand
    rule = str(node.data)
    if rule == "unary_not":
        return int(not value), False
    if isinstance(value, float):
        if rule in ("unary_minus", "unary_plus"):
            return (-value if rule == "unary_minus" else value), False
        raise LiteralError("integer operator on a float constant")
    if rule == "cast":
        unsigned = str(node.children[0]) == ".u64"
        return _wrap(value, unsigned)
    if rule == "unary_complement":
        return _wrap(~value, unsigned)
    return _wrap(-value if rule == "unary_minus" else value, unsigned)


def _wrap(value: int, unsigned: bool) -> _Value:
    value &= _MASK
    if not unsigned and value >> 63:
        value -= 1 << 64
    return value, unsigned


# --- literals inside a shape ----------------------------------------------------------------------

_END = r"(?![A-Za-z0-9_$.])"
LITERAL = re.compile(
    rf"""(?:-[ \t]*+)?+(?<![A-Za-z0-9_$.\x00])(?:
      (?P<HEXFLOAT>0[fF][0-9A-Fa-f]{{8}}{_END}|0[dD][0-9A-Fa-f]{{16}}{_END})
    | (?P<INT>(?:0[xX][0-9A-Fa-f]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?{_END})
    | (?P<FLOAT>(?:[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?
               |[0-9]+[eE][+-]?[0-9]+){_END})
    )""",
    re.VERBOSE | re.ASCII,
)
"""A literal with its sign, if any; must agree with the grammar's terminals (a test compares)."""
