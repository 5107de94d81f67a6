"""Evaluates literals and constant expressions exactly (PTX ISA, "Constants").

Integer constants are 64 bits wide: signed unless they carry ``U`` or do not fit a signed word, and
an operation is unsigned when an operand is; ``~`` and ``%`` always are. Floats are IEEE double
unless spelled ``0f...``, and do not mix with integers. The rules are those by which ptxas folds
(``tests/oracle/constant_folding.py`` compares). The manual gives results of ``&``, ``|``, ``^``,
``%`` and ``?:`` another sign: a value that depends on it is undefined.
"""

from __future__ import annotations

import math
import operator
import re
import struct
import sys
from collections.abc import Callable, Mapping

from lark import Token, Tree

from ptxwcet.ir.operands import Immediate, Operand
from ptxwcet.ptx.grammar import Node, is_tree

WARP_SIZE = 32

_LONGEST_INTEGER = 66  # "0b" and 64 digits
_MASK = (1 << 64) - 1
_LITERALS = frozenset({"INT", "FLOAT", "HEXFLOAT", "HEXDOUBLE"})


class LiteralError(ValueError):
    """A constant that has no value: it overflows 64 bits, or an expression divides by zero."""


def integer_value(text: str) -> int:
    """Returns the value of a literal of the grammar's INT; LiteralError above 64 bits."""
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
    """Returns the value of a float literal: decimal, ``0f`` + 8 hex digits or ``0d`` + 16.

    Raises LiteralError for a decimal above the largest double or below the smallest normal one.
    Every NaN is the object ``math.nan``, so that equal literals compare equal.
    """
    form = {"0f": ">f", "0d": ">d"}.get(text[:2].lower())
    if form is None:
        decimal = float(text)
        digits = text.lower().partition("e")[0]
        if math.isinf(decimal) or (abs(decimal) < sys.float_info.min and digits.strip("0.")):
            raise LiteralError(f"constant {text[:20]} does not fit a double")
        return decimal
    value = float(struct.unpack(form, bytes.fromhex(text[2:]))[0])
    return math.nan if math.isnan(value) else value


def immediate(kind: str, text: str) -> Immediate:
    """Returns the immediate of a literal of terminal ``kind``: INT, FLOAT, HEXFLOAT, HEXDOUBLE."""
    return Immediate(integer_value(text) if kind == "INT" else float_value(text), text)


def negated(operand: Operand) -> Immediate:
    """Negates a literal; its text gets the sign."""
    assert isinstance(operand, Immediate)
    value, text = operand.value, operand.text
    if isinstance(value, int):
        value, _ = _wrap(-value, _is_unsigned(value, text))
    else:
        value = -value
    return Immediate(value, f"-{text}")


def literal_of(node: Node) -> tuple[Token | None, bool]:
    """Returns the literal of a node, or None, and whether the node is minus that literal."""
    negative = is_tree(node, "unary_minus")
    if negative:
        assert isinstance(node, Tree)
        node = node.children[0]
    is_literal = isinstance(node, Token) and node.type in _LITERALS
    return (node if isinstance(node, Token) and is_literal else None), negative


def fixed_immediate(value: int | float) -> Immediate:
    """Returns a folded constant expression; its text is the value, which ptxas reads alike.

    Integers get a sign: an operand of 64 bits or fewer does not determine it.
    """
    if isinstance(value, int):
        value = signed(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise LiteralError("constant expression overflows")
    return Immediate(value, repr(value))


def evaluate(node: Node) -> int | float:
    """Returns the value of an ``expression`` of the grammar. Cost: linear.

    Raises LiteralError for an undefined value, or one on which the manual and ptxas disagree.
    """
    value, _ = _evaluate(node, _PTXAS)
    if isinstance(value, int) and (value - int(_evaluate(node, _MANUAL)[0])) & _MASK:
        raise LiteralError("the PTX manual and ptxas give this constant expression other values")
    return value


_Value = tuple[int | float, bool]  # the value, and whether it is unsigned

_PTXAS = {"%": True}
"""The operators whose results have a fixed sign for any operands: whether it is unsigned."""

_MANUAL = {"%": False, "&": True, "|": True, "^": True}


def _evaluate(root: Node, signs: Mapping[str, bool]) -> _Value:
    """Evaluates in postorder with an explicit stack, because inputs may nest deeply."""
    stack: list[tuple[Node, bool]] = [(root, False)]
    values: list[_Value] = []
    while stack:
        node, visited = stack.pop()
        if isinstance(node, Token):
            values.append(_leaf(node))
        elif visited:
            _reduce(node, values, signs)
        else:
            stack.append((node, True))
            children = [c for c in node.children if not _is_sign(c)]
            stack.extend((child, False) for child in reversed(children))
    return values.pop()


def _is_sign(child: Node) -> bool:
    return isinstance(child, Token) and child.type in _OPERATOR_TOKENS


_OPERATOR_TOKENS = frozenset({"EQUALITY", "RELATION", "SHIFT", "PRODUCT", "NOT", "CAST"})


def _leaf(token: Token) -> _Value:
    if token.type == "INT":
        value = integer_value(token)
        return value, _is_unsigned(value, token)
    if token.type == "WARP_SZ":
        return WARP_SIZE, False
    return float_value(token), False


def _is_unsigned(value: int, text: str) -> bool:
    return text.endswith("U") or value >> 63 != 0


def _reduce(node: Tree[Token], values: list[_Value], signs: Mapping[str, bool]) -> None:
    rule = str(node.data)
    if rule == "conditional":
        second, first, condition = values.pop(), values.pop(), values.pop()
        values.append(_conditional(condition, first, second, signs))
    elif rule.startswith("binary"):
        right, left = values.pop(), values.pop()
        sign = next((str(c) for c in node.children if _is_sign(c)), _RULE_SIGNS.get(rule, ""))
        values.append(_binary(sign, left, right, signs))
    else:
        values.append(_unary(node, values.pop()))


def _conditional(
    condition: _Value, first: _Value, second: _Value, signs: Mapping[str, bool]
) -> _Value:
    """Evaluates ``?:``: ptxas keeps the sign of the chosen side, the manual converts both."""
    if any(isinstance(value, float) for value, _ in (condition, first, second)):
        raise LiteralError("operator ?: on a float constant")
    value, unsigned = first if condition[0] else second
    assert isinstance(value, int)
    return _wrap(value, unsigned if signs is _PTXAS else first[1] or second[1])


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
}

_COMPARED: dict[str, Callable[[int | float, int | float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_FLOAT: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _binary(sign: str, left: _Value, right: _Value, signs: Mapping[str, bool]) -> _Value:
    a, b = left[0], right[0]
    if sign in "/%" and b == 0:
        raise LiteralError("division by zero in a constant expression")
    if isinstance(a, float) and isinstance(b, float):
        if sign in _COMPARED:
            return int(_COMPARED[sign](a, b)), False
        if sign in _FLOAT:
            return _FLOAT[sign](a, b), False
    if isinstance(a, float) or isinstance(b, float):
        raise LiteralError(f"operator {sign} on a float constant")
    if sign in ("&&", "||"):
        return int(bool(a and b) if sign == "&&" else bool(a or b)), False
    if sign in ("<<", ">>"):
        return _wrap(a << (b & 63) if sign == "<<" else a >> (b & 63), left[1])
    unsigned = left[1] or right[1] or sign == "%"
    a, _ = _wrap(a, unsigned)
    b, _ = _wrap(b, unsigned)
    if sign in _COMPARED:
        return int(_COMPARED[sign](a, b)), False
    if sign == "/":
        value = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # toward zero, as in C
    else:
        value = a % b if sign == "%" else _ARITHMETIC[sign](a, b)
    return _wrap(value, signs.get(sign, unsigned))


def _unary(node: Tree[Token], operand: _Value) -> _Value:
    value, unsigned = operand
    rule = str(node.data)
    if isinstance(value, float):
        if rule in ("unary_minus", "unary_plus"):
            return (-value if rule == "unary_minus" else value), False
        raise LiteralError("integer operator on a float constant")
    if rule == "unary_not":
        return int(not value), False
    if rule == "cast":
        return _wrap(value, str(node.children[0]) == ".u64")
    if rule == "unary_complement":
        return _wrap(~value, unsigned=True)
    return _wrap(-value if rule == "unary_minus" else value, unsigned)


def signed(value: int) -> int:
    """Returns the 64 bits of an integer as a signed number."""
    return _wrap(value, unsigned=False)[0]


def _wrap(value: int, unsigned: bool) -> tuple[int, bool]:
    value &= _MASK
    if not unsigned and value >> 63:
        value -= 1 << 64
    return value, unsigned


# --- literals inside a shape ----------------------------------------------------------------------

_END = r"(?![A-Za-z0-9_$.])"
LITERAL = re.compile(
    rf"""(?<![A-Za-z0-9_$.\x00])(?:
      (?P<HEXFLOAT>0[fF][0-9A-Fa-f]{{8}}{_END})
    | (?P<HEXDOUBLE>0[dD][0-9A-Fa-f]{{16}}{_END})
    | (?P<INT>(?:0[xX][0-9A-Fa-f]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?{_END})
    | (?P<FLOAT>(?:[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?
               |[0-9]+[eE][+-]?[0-9]+){_END})
    )""",
    re.VERBOSE | re.ASCII,
)
"""A literal without a sign; must agree with the grammar's terminals (a test compares)."""
