"""Pieces of operand templates: reading syntax nodes, and functions that make operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lark import Token, Tree

from ptxwcet.ir.forms import Template
from ptxwcet.ir.operands import (
    Address,
    Element,
    Immediate,
    Operand,
    Register,
    SpecialRegister,
    SymbolRef,
)
from ptxwcet.ptx.literals import LiteralError, signed

Node = Tree[Token] | Token

_LITERALS = frozenset({"INT", "FLOAT", "HEXFLOAT", "HEXDOUBLE"})


class LoweringError(Exception):
    """An instruction with a syntax but no meaning; ``token`` is the operand at fault, if any."""

    def __init__(
        self, code: str, message: str, token: Token | None = None, help_text: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.token = token
        self.help_text = help_text


def literal_of(node: Node) -> tuple[Token | None, bool]:
    """The literal that a node is, and whether it is minus that literal; None for anything else."""
    negative = is_tree(node, "unary_minus")
    if negative:
        assert isinstance(node, Tree)
        node = node.children[0]
    is_literal = isinstance(node, Token) and node.type in _LITERALS
    return (node if isinstance(node, Token) and is_literal else None), negative


def fixed_immediate(value: int | float) -> Immediate:
    """A folded constant expression; its text is the value, which ptxas reads alike.

    Integers get a sign: an operand of 64 bits or fewer does not tell it.
    """
    if isinstance(value, int):
        value = signed(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise LiteralError("constant expression overflows")
    return Immediate(value, repr(value))


def is_tree(node: Node, *rules: str) -> bool:
    """Whether a node is a tree of one of these rules."""
    return isinstance(node, Tree) and node.data in rules


def tokens(node: Node) -> list[Token]:
    """All tokens below a node in textual order. No recursion: nesting is the input's choice."""
    found: list[Token] = []
    stack: list[Node] = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Token):
            found.append(top)
        else:
            stack.extend(reversed(top.children))
    return found


def first_token(node: Node) -> Token:
    """The first token below a node."""
    return tokens(node)[0]


def plain_name(node: Node) -> Token:
    """The name that a label operand consists of. Raises LoweringError."""
    if not is_tree(node, "plain"):
        raise LoweringError("PW106", "a label is expected here", first_token(node))
    return first_token(node)


# --- making operands ------------------------------------------------------------------------


def group(make: Callable[[tuple[Operand, ...]], Operand], parts: Sequence[Template]) -> Template:
    """The template of a vector, bracket or argument list from those of its elements."""
    return lambda names, values: make(tuple([part(names, values) for part in parts]))


def address(base: Operand, offset: int) -> Address:
    """``[base + offset]``."""
    assert isinstance(base, Register | SpecialRegister | SymbolRef)
    return Address(base, offset)


def absolute(value: Operand) -> Address:
    """``[immediate]``."""
    assert isinstance(value, Immediate)
    return Address(value)


def integer(value: Operand) -> int:
    """The value of an integer immediate as a distance: 64 bits with a sign."""
    assert isinstance(value, Immediate)
    return signed(int(value.value))


def element(array: Operand, index: Operand) -> Element:
    """``array[index]``."""
    assert isinstance(array, SymbolRef)
    assert isinstance(index, Address)
    return Element(array, index)
