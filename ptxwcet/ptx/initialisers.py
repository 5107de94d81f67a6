"""One value of an initialiser, read as an operand of that text would be."""

from __future__ import annotations

from functools import lru_cache

from lark import UnexpectedInput

from ptxwcet.ir.operands import Immediate
from ptxwcet.ptx.grammar import parse_rule
from ptxwcet.ptx.literals import LITERAL, LiteralError, evaluate, immediate, negated
from ptxwcet.ptx.templates import fixed_immediate, literal_of, tokens


@lru_cache(maxsize=4096)
def constant(text: str) -> Immediate:
    """The value of a constant expression. Raises LiteralError where it has none, names included.

    Cost: a microsecond for a literal, one run of Lark otherwise.
    """
    found = LITERAL.fullmatch(text.strip())
    if found is not None and found.lastgroup is not None:
        return immediate(found.lastgroup, found.group())
    try:
        (node,) = parse_rule(text, "operands").children
    except (UnexpectedInput, ValueError):
        raise LiteralError(f"{text.strip()[:40]} is no number") from None
    if any(token.type in ("NAME", "SINK") for token in tokens(node)):
        raise LiteralError(f"{text.strip()[:40]} is an address, which a GPU decides")
    token, negative = literal_of(node)
    if token is None:
        return fixed_immediate(evaluate(node))
    value = immediate(token.type, token)
    return negated(value) if negative else value
