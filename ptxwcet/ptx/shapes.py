"""Statement shapes: Lark parses each distinct shape once, all other statements reuse the result.

A statement's *raw shape* is its text with every name replaced by a mark::

    ld.global.f32 %f1, [%rd4+16];      ->  ld.global.f32 @, [@+16]      names %f1, %rd4
    ld.global.f32 %f2, [%rd4+20];      ->  ld.global.f32 @, [@+20]

and its *shape* has marks in place of the literals too, one mark a kind of literal, so that these
two share a shape. A mark stands for one token and nothing else (a sign stays in the shape),
therefore two statements of one shape have the same syntax tree up to the texts of names and
literals. A shape is kept only where its tree has the literals that the pattern has seen. Statements
with constant expressions share nothing: their values are folded into the form.
"""

from __future__ import annotations

import re
from dataclasses import field, replace

from lark import UnexpectedInput

from ptxwcet.ir.kernel import InstructionForm
from ptxwcet.ir.operands import Immediate
from ptxwcet.ir.targets import NEWEST, Target
from ptxwcet.ptx.grammar import Node, parse_rule
from ptxwcet.ptx.literals import LITERAL, LiteralError, immediate
from ptxwcet.ptx.lowering import LoweredForm, Statement, lower
from ptxwcet.ptx.operand_builder import LoweringError
from ptxwcet.ptx.scopes import CONSTANT, REGISTER, SINK
from ptxwcet.support.records import dataclass

NAME = re.compile(r"(?<![\w.$])([%$A-Za-z_][\w$]*+)", re.ASCII)
"""A name in the text of operands; must agree with the grammar's NAME and SINK."""

_OTHER_KINDS = re.compile(f"[^{SINK}{CONSTANT}]")
"""Kinds whose names are the grammar's NAME; ``_`` and WARP_SZ are terminals of their own."""

_LITERAL_MARKS = {"INT": "\2", "FLOAT": "\3", "HEXFLOAT": "\4", "HEXDOUBLE": "\5"}


@dataclass(frozen=True, slots=True)
class ShapedForm:
    """A form and the literals of one raw shape; ``accepted``: types of names found to fit it."""

    lowered: LoweredForm
    literals: tuple[Immediate, ...]
    accepted: set[tuple[str, ...]]


_Plain = tuple[InstructionForm, tuple[Immediate, ...], set[tuple[str, ...]]]


@dataclass(slots=True)
class ShapeCache:
    """Forms by shape; lives as long as one file is parsed.

    ``plain`` maps the raw shapes whose names are all scalar registers straight to what an
    instruction needs and the types of the names that fit it, ``branches`` those of ``bra``; the
    parser's inner loop reads them directly.
    """

    target: Target = NEWEST
    plain: dict[str, _Plain] = field(default_factory=dict)
    branches: dict[str, InstructionForm] = field(default_factory=dict)
    _raw: dict[tuple[str, str], ShapedForm | None] = field(default_factory=dict)
    _shapes: dict[tuple[str, str], LoweredForm] = field(default_factory=dict)
    _mnemonics: dict[str, bool] = field(default_factory=dict)
    _operands: dict[tuple[str, bool, str], tuple[Node, ...]] = field(default_factory=dict)

    def find(self, parts: StatementText, kinds: str) -> ShapedForm | None:
        """The form of a statement; None if it has none (the slow path tells why).

        Cost: a look-up for a known raw shape, a few microseconds for a known shape, one run of Lark
        over the operands for a new one.
        """
        key = (parts.raw, kinds)
        try:
            return self._raw[key]
        except KeyError:
            pass
        form = self._make(parts, kinds)
        self._raw[key] = form
        if form is None:
            return None
        if form.lowered.target_slot >= 0:
            self.branches[parts.raw] = form.lowered.form
        elif form.lowered.is_plain and kinds == REGISTER * len(kinds):
            self.plain[parts.raw] = (form.lowered.form, form.literals, form.accepted)
        return form

    def _make(self, parts: StatementText, kinds: str) -> ShapedForm | None:
        literals: list[tuple[str, str]] = []
        shape = LITERAL.sub(lambda match: _mark(match, literals), parts.raw_operands)
        key = (f"{parts.guard}{parts.mnemonic} {shape}", kinds)
        try:
            lowered = self._shapes.get(key)
            values = tuple([immediate(kind, text) for kind, text in literals])
            if lowered is not None:
                return _shaped(lowered, values)
            lowered = self._lower(parts, shape, kinds, values)
        except (UnexpectedInput, LoweringError, LiteralError):
            return None
        if lowered.shareable:
            self._shapes[key] = lowered
            return _shaped(lowered, values)
        return _shaped(lowered, lowered.literals)

    def _lower(
        self, parts: StatementText, shape: str, kinds: str, values: tuple[Immediate, ...]
    ) -> LoweredForm:
        is_call = self._mnemonics.get(parts.mnemonic)
        if is_call is None:
            is_call = parts.mnemonic.partition(".")[0] == "call"
            parse_rule(parts.mnemonic, "call" if is_call else "mnemonic")
            self._mnemonics[parts.mnemonic] = is_call
        guard = None if not parts.guard else parts.guard[1:]
        key = (shape, is_call, _OTHER_KINDS.sub(REGISTER, kinds))
        cached_operands = self._operands.get(key)
        if cached_operands is not None:
            return lower(
                Statement(guard, parts.mnemonic, cached_operands, is_call), kinds, self.target
            )
        tree = parse_rule(parts.operands, "call_operands" if is_call else "operands")
        operands = tuple(tree.children)
        statement = Statement(guard, parts.mnemonic, operands, is_call)
        lowered = lower(statement, kinds, self.target)
        if not lowered.shareable or lowered.literals != values:
            return replace(lowered, shareable=False)
        self._operands[key] = operands
        return lowered


def _shaped(lowered: LoweredForm, literals: tuple[Immediate, ...]) -> ShapedForm:
    """All raw shapes of a shape share what fits, unless the values of literals decide it."""
    whole = all(isinstance(one.value, int) for one in literals)
    shared = lowered.shared if whole else None
    return ShapedForm(lowered, literals, set() if shared is None else shared)


@dataclass(frozen=True, slots=True)
class StatementText:
    """An instruction split by the statement regex. ``guard`` is ``""``, ``@`` or ``@!``."""

    guard: str
    mnemonic: str
    operands: str
    raw_operands: str
    raw: str


def _mark(match: re.Match[str], literals: list[tuple[str, str]]) -> str:
    kind = match.lastgroup
    assert kind is not None
    literals.append((kind, match.group()))
    return _LITERAL_MARKS[kind]
