"""Builds the operands of one instruction: their templates, and the roles of their registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial

from lark import Token, Tree

from ptxwcet.ir.kernel import Template
from ptxwcet.ir.op_classes import ControlEffect, OpClass
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.operands import (
    Address,
    Arguments,
    Bracket,
    Element,
    Immediate,
    Minus,
    Negated,
    Operand,
    Pair,
    Register,
    Selected,
    Sink,
    SpecialRegister,
    SymbolRef,
    Vector,
    WholeVector,
)
from ptxwcet.ptx import scopes
from ptxwcet.ptx.grammar import Node, first_token, is_tree, tokens
from ptxwcet.ptx.literals import (
    evaluate,
    fixed_immediate,
    immediate,
    literal_of,
    negated,
    signed,
)
from ptxwcet.support.records import dataclass

_SAME_MEMBER = {"r": "x", "g": "y", "b": "z", "a": "w"}
_VECTOR_KINDS = frozenset("248")
_SYMBOLS = frozenset({scopes.VARIABLE, scopes.FUNCTION})


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


@dataclass(slots=True)
class OperandBuilder:
    """The traversal of operands in textual order, which numbers slots and collects roles."""

    kinds: Sequence[str]
    opcode: Opcode | None
    first_slot: int
    absolute_addresses_refused: bool
    pairs: bool
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    literals: list[Immediate] = field(default_factory=list)
    members: list[tuple[int, str]] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    shareable: bool = True
    target_slot: int = -1
    table_slot: int = -1
    callee_slot: int = -1
    _used: int = 0
    _inside: bool = False  # in an address or a vector, where ptxas checks less

    def operands(self, nodes: Sequence[Node], destinations: int) -> tuple[Template, ...]:
        """Returns templates of the operands; the first ``destinations`` are written."""
        control = ControlEffect.NONE if self.opcode is None else self.opcode.control
        if control is ControlEffect.BRANCH:
            return (self._target(nodes[0]),)
        templates = []
        for index, node in enumerate(nodes):
            if control is ControlEffect.INDIRECT_BRANCH and index == 1:
                templates.append(self._table(node))
            elif index < destinations:
                templates.append(self._destination(node))
            else:
                templates.append(self._source(node))
            if self.opcode is None and not self.writes:  # vectors and pairs name several results
                self.writes.extend(self.reads)
        return tuple(templates)

    def call(self, nodes: Sequence[Node]) -> tuple[Template, ...]:
        """Returns templates of results, callee, arguments and prototype of a call."""
        templates: list[Template] = []
        seen_callee = False
        for node in nodes:
            if is_tree(node, "arguments"):
                assert isinstance(node, Tree)
                read = self._source if seen_callee else self._result
                templates.append(partial(_of_group, Arguments, [*map(read, node.children)]))
            elif is_tree(node, "callee"):
                seen_callee = True
                templates.append(self._callee(node))
            else:
                templates.append(self._prototype(node))
        return tuple(templates)

    # --- names ---

    def _next(self) -> tuple[int, str]:
        slot = self._used
        self._used += 1
        return slot + self.first_slot, self.kinds[slot]

    def _slot_of(self, token: Token, kinds: str, error: tuple[str, str], remedy: str = "") -> int:
        """Returns the slot of a name of one of some kinds. Raises LoweringError: code, message."""
        slot, kind = self._next()
        if kind not in kinds:
            raise LoweringError(*error, token, remedy or None)
        return slot

    def _target(self, node: Node) -> Template:
        token = _plain_name(node)
        kinds = scopes.UNKNOWN + scopes.REGISTER + scopes.VARIABLE
        slot = self._slot_of(token, kinds, ("PW106", f"'{token}' is not a label"))
        self.target_slot = slot
        return partial(_symbol_at, slot)

    def _table(self, node: Node) -> Template:
        token = _plain_name(node)
        message = f"'{token}' is no branch table declared before this instruction"
        remedy = f"declare it above: {token}: .branchtargets L0, L1;"
        slot = self._slot_of(token, scopes.TABLE, ("PW106", message), remedy)
        self.table_slot = slot
        return partial(_symbol_at, slot)

    def _callee(self, node: Node) -> Template:
        token = first_token(node)
        message = f"call of '{token}', which is no function declared above"
        remedy = f"declare it first, e.g. '.extern .func {token};'"
        is_named = self.kinds[self._used] == scopes.FUNCTION
        kinds = scopes.FUNCTION + scopes.REGISTER
        slot = self._slot_of(token, kinds, ("PW104", message), remedy)
        if is_named:
            self.callee_slot = slot
            return partial(_symbol_at, slot)
        self.reads.append(slot)
        return partial(_register_at, slot)

    def _prototype(self, node: Node) -> Template:
        token = first_token(node)
        message = f"'{token}' is no .callprototype or .calltargets declared above"
        slot = self._slot_of(token, scopes.PROTOTYPE + scopes.TABLE, ("PW104", message))
        return partial(_symbol_at, slot)

    def _destination(self, node: Node) -> Template:
        if _is_sink(node) and self.opcode is not None and not self.opcode.discards:
            raise LoweringError("PW108", f"{self.opcode.name} needs a result", first_token(node))
        accumulates = self.opcode is not None and self.opcode.accumulates
        return self._operand(node, reads=accumulates, writes=True)

    def _result(self, node: Node) -> Template:
        return self._operand(node, reads=False, writes=True)

    def _source(self, node: Node) -> Template:
        return self._operand(node, reads=True, writes=False)

    def _operand(self, node: Node, reads: bool, writes: bool) -> Template:
        if isinstance(node, Token):
            return self._token(node, writes)
        children = node.children
        match str(node.data):
            case "plain" | "member":
                return self._name(children, reads, writes)
            case "vector":
                read = partial(self._operand, reads=reads, writes=writes)
                return partial(_of_group, Vector, self._within(read, children))
            case "pair":
                if all(map(_is_sink, children)):
                    raise LoweringError("PW108", "'_|_' throws everything away")
                first, second = (self._operand(c, reads, writes) for c in children)
                if writes and not self.pairs and _is_sink(children[1]):
                    return first  # ptxas takes `a|_` for `a` if it has one result
                return partial(_of_parts, Pair, (first, second))
            case "bracket":
                return self._bracket(children)
            case "element":
                return self._element(children)
        if writes:
            raise LoweringError("PW108", "a result cannot be written to this operand")
        match str(node.data):
            case "negated":
                inner = self._source(children[-1])
                return partial(_of_parts, Negated, (inner,))
            case "minus":
                return self._minus(node)
            case "base_offset":
                return self._symbol_offset(children)
            case _:
                return self._constant(node)

    def _token(self, token: Token, writes: bool) -> Template:
        if token.type == "SINK":
            self._next()
            is_packed = self._inside and self.opcode is not None and self.opcode.name == "mov"
            if not writes and not is_packed:
                raise LoweringError("PW108", "'_' may only stand for a result", token)
            return partial(_fixed, Sink())
        if writes:
            raise LoweringError("PW108", f"a result cannot be written to '{token}'", token)
        return self._constant(token)

    def _name(self, children: Sequence[Node], reads: bool, writes: bool) -> Template:
        token = first_token(children[0])
        member = str(children[1])[1:] if len(children) > 1 else ""
        slot, kind = self._next()
        if kind == scopes.REGISTER:
            return self._register(slot, token, member, reads, writes)
        if kind in _VECTOR_KINDS:
            return self._vector_register(slot, int(kind), member, (reads, writes))
        if kind in (scopes.TABLE, scopes.PROTOTYPE):
            raise LoweringError("PW108", f"'{token}' is no operand", token)
        if kind == scopes.UNKNOWN:
            raise LoweringError(
                "PW104",
                f"'{token}' is not declared here",
                token,
                "declare it before its use, in this block or in one around it",
            )
        if writes and not (self.opcode is not None and self.opcode.name == "call"):
            raise LoweringError("PW108", f"a result cannot be written to '{token}'", token)
        if kind == scopes.SPECIAL:
            return self._special(slot, token, member)
        if member:
            raise LoweringError("PW108", f"'{token}' has no members", token)
        if kind == scopes.FUNCTION:
            self.functions.append(slot)
        return partial(_symbol_at, slot)

    def _register(
        self, slot: int, token: Token, selector: str, reads: bool, writes: bool
    ) -> Template:
        if reads:
            self.reads.append(slot)
        if writes:
            self.writes.append(slot)
        if not selector:
            return partial(_register_at, slot)
        if selector[0] not in "bh" or len(selector) < 2:
            raise LoweringError("PW108", f"'{token}' is no vector register", token)
        opcode = self.opcode
        if opcode is not None and opcode.rule is not OpClass.VIDEO and not self._inside:
            raise LoweringError("PW108", f"{opcode.name} takes no byte selector", token)
        return partial(_selected, slot, selector)

    def _vector_register(
        self, slot: int, width: int, member: str, roles: tuple[bool, bool]
    ) -> Template:
        """Returns a vector register; members have slots of their own, after all written names."""
        wanted = [_SAME_MEMBER.get(member, member)] if member else scopes.MEMBERS[:width]
        places = []
        for name in wanted:
            places.append(self.first_slot + len(self.kinds) + len(self.members))
            self.members.append((slot, name))
        if roles[0]:
            self.reads.extend(places)
        if roles[1]:
            self.writes.extend(places)
        if member:
            return partial(_register_at, places[0])
        first, last = places[0], places[-1] + 1
        return partial(_whole_vector, slot, first, last)

    def _special(self, slot: int, token: Token, member: str) -> Template:
        if self.opcode is not None and not self.opcode.special_sources and not self._inside:
            raise LoweringError(
                "PW108",
                f"{self.opcode.name} cannot read the special register '{token}'",
                token,
                "copy it to a register with mov first",
            )
        suffix = f".{member}" if member else ""
        return partial(_special_register, slot, suffix)

    def _within(self, read: Callable[[Node], Template], nodes: Sequence[Node]) -> list[Template]:
        """Returns templates of the nodes in braces or brackets."""
        self._inside = True
        parts = [read(node) for node in nodes]
        self._inside = False
        return parts

    # --- memory ---

    def _bracket(self, items: Sequence[Node]) -> Template:
        parts = self._within(self._bracket_item, items[:1])
        parts += self._within(self._further_item, items[1:])
        return parts[0] if len(parts) == 1 else partial(_of_group, Bracket, parts)

    def _bracket_item(self, node: Node) -> Template:
        if self.absolute_addresses_refused and not is_tree(node, "plain", "base_offset"):
            message = "only local memory has immediate addresses"
            raise LoweringError("PW108", message, first_token(node))
        return self._base(node)

    def _further_item(self, node: Node) -> Template:
        is_register = is_tree(node, "plain") and self.kinds[self._used] in _VECTOR_KINDS
        is_vector = is_register or is_tree(node, "vector")
        return self._source(node) if is_vector else self._bracket_item(node)

    def _base(self, node: Node) -> Template:
        if not is_tree(node, "plain", "base_offset"):
            value = self._offset(node)
            return partial(_of_parts, _address, (value,))
        assert isinstance(node, Tree)
        if self.kinds[self._used] == scopes.FUNCTION:
            token = first_token(node.children[0])
            raise LoweringError("PW108", f"'{token}' is a function: it is no address", token)
        if self.kinds[self._used] in _VECTOR_KINDS:
            token = first_token(node.children[0])
            raise LoweringError("PW108", f"'{token}' is a vector: it is no address", token)
        base = self._name(node.children[:1], reads=True, writes=False)
        if len(node.children) == 1:
            return partial(_of_parts, _address, (base,))
        offset = self._offset(node.children[1])
        return partial(_of_parts, _address, (base, offset))

    def _element(self, children: Sequence[Node]) -> Template:
        token = first_token(children[0])
        if self.kinds[self._used] not in (scopes.VARIABLE, scopes.UNKNOWN):
            raise LoweringError("PW108", f"'{token}' is no array: it takes no index", token)
        array = self._name(children[:1], reads=True, writes=False)
        index = self._base(children[1])
        return partial(_of_parts, _element, (array, index))

    def _symbol_offset(self, children: Sequence[Node]) -> Template:
        token = first_token(children[0])
        slot, kind = self._next()
        if kind not in _SYMBOLS:
            raise LoweringError("PW108", f"'{token}' is no variable: it takes no offset", token)
        offset = self._offset(children[1])
        return partial(_of_parts, _symbol_and_offset, (partial(_symbol_at, slot), offset))

    # --- constants ---

    def _minus(self, node: Tree[Token]) -> Template:
        if self.opcode is not None and self.opcode.name != "vmad":
            raise LoweringError(
                "PW108",
                f"{self.opcode.name} takes no negated register",
                first_token(node),
                "negate it with neg first",
            )
        inner = self._source(node.children[0])
        return partial(_of_parts, Minus, (inner,))

    def _offset(self, node: Node) -> Template:
        if isinstance(evaluate(node), float):
            raise LoweringError("PW108", "an address offset is an integer", first_token(node))
        return self._constant(node)

    def _constant(self, node: Node) -> Template:
        literal, negative = literal_of(node)
        if literal is not None:
            index = len(self.literals)
            self.literals.append(immediate(literal.type, literal))
            if negative:
                return partial(_negated_literal, index)
            return partial(_literal_at, index)
        self.shareable = False
        for token in tokens(node):
            if token.type == "WARP_SZ":
                self._next()
        fixed = fixed_immediate(evaluate(node))
        return partial(_fixed, fixed)


def _is_sink(node: Node) -> bool:
    return isinstance(node, Token) and node.type == "SINK"


def _plain_name(node: Node) -> Token:
    """Returns the name of a label operand. Raises LoweringError."""
    if not is_tree(node, "plain"):
        raise LoweringError("PW106", "a label is expected here", first_token(node))
    return first_token(node)


# --- templates: functions of a module, so that a kernel can be pickled ----------------------------

_Names = tuple[str, ...]
_Literals = tuple[Immediate, ...]


def _symbol_at(slot: int, names: _Names, _: _Literals) -> SymbolRef:
    return SymbolRef(names[slot])


def _register_at(slot: int, names: _Names, _: _Literals) -> Register:
    return Register(names[slot])


def _selected(slot: int, selector: str, names: _Names, _: _Literals) -> Selected:
    return Selected(Register(names[slot]), selector)


def _whole_vector(slot: int, first: int, last: int, names: _Names, _: _Literals) -> WholeVector:
    return WholeVector(names[slot], names[first:last])


def _special_register(slot: int, suffix: str, names: _Names, _: _Literals) -> SpecialRegister:
    return SpecialRegister(names[slot] + suffix)


def _literal_at(index: int, _: _Names, values: _Literals) -> Immediate:
    return values[index]


def _negated_literal(index: int, _: _Names, values: _Literals) -> Immediate:
    return negated(values[index])


def _fixed(operand: Operand, _: _Names, __: _Literals) -> Operand:
    return operand


def _of_parts(
    make: Callable[..., Operand], parts: Sequence[Template], names: _Names, values: _Literals
) -> Operand:
    return make(*[part(names, values) for part in parts])


def _of_group(
    make: Callable[..., Operand], parts: Sequence[Template], names: _Names, values: _Literals
) -> Operand:
    return make(tuple([part(names, values) for part in parts]))


def _address(base: Operand, offset: Operand | None = None) -> Address:
    """Returns ``[base + offset]``, or ``[immediate]``."""
    assert isinstance(base, Register | SpecialRegister | SymbolRef | Immediate)
    return Address(base, 0 if offset is None else _integer(offset))


def _symbol_and_offset(symbol: Operand, offset: Operand) -> SymbolRef:
    assert isinstance(symbol, SymbolRef)
    return SymbolRef(symbol.name, _integer(offset))


def _integer(value: Operand) -> int:
    """Returns an integer immediate as a distance: 64 bits with a sign."""
    assert isinstance(value, Immediate)
    return signed(int(value.value))


def _element(array: Operand, index: Operand) -> Element:
    """Returns ``array[index]``."""
    assert isinstance(array, SymbolRef)
    assert isinstance(index, Address)
    return Element(array, index)
