"""Checks operands: each is compared with the word of its specification in a form.

The words are in the rows of :class:`ptxwcet.ir.permitted.Form`, which also decodes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache

from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.operands import (
    Address,
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
    leaves,
)
from ptxwcet.ir.operation import NumberKind, NumberType, number_type
from ptxwcet.ir.permitted import Form, Mark, Specification, specifications
from ptxwcet.ir.words import count_spaces, is_type
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class OperandRefusal:
    """The rejected operand, counted from 0, and the reason."""

    place: int
    message: str


def refusal(
    forms: Iterable[Form],
    instruction: Instruction,
    types: Mapping[str, str],
    spaces: Mapping[str, str],
    functions: Collection[str] = (),
) -> OperandRefusal | None:
    """Returns why the operands fit none of the forms with the instruction's modifiers, or None.

    ``types``: the type of each register by unique name; ``spaces``: the state space of each
    variable; ``functions``: the operands that are names of functions. Cost: linear in forms and
    operands.
    """
    operands = instruction.operands
    checker = _Checker(instruction, types, spaces, functions)
    furthest: OperandRefusal | None = None
    for form in forms:
        objection = checker.refusal(form.operands, operands)
        if objection is None:
            return None
        if furthest is None or objection.place > furthest.place:
            furthest = objection
    return furthest


_SIZES = {"v2": 2, "v4": 4, "v8": 8}
_SHAPE = re.compile(r"m(?P<M>\d+)n(?P<N>\d+)(?:k(?P<K>\d+))?\Z")
_COORDINATE = specifications("s32")[0][0]
_RESOURCE = re.compile(r"\[(?P<kind>[ts])\](?P<index>i?)(?P<number>[fs]?)(?P<count>\d*)\Z")
_SELECTORS = {
    "s": re.compile(r"(?:b[0-3]|h[01])\Z"),
    "h": re.compile(r"h[0-3]{2}\Z"),
    "b": re.compile(r"b[0-7]{4}\Z"),
    "hm": re.compile(r"h(?:0|1|10)\Z"),
    "bm": re.compile(r"b(?=.)3?2?1?0?\Z"),
}
"""Selectors of a byte or a half, two halves or four bytes of eight, and masks of these."""


class _Checker:
    """The comparison of operands with specifications for one instruction."""

    def __init__(
        self,
        instruction: Instruction,
        types: Mapping[str, str],
        spaces: Mapping[str, str],
        functions: Collection[str],
    ) -> None:
        modifiers = instruction.modifiers
        self._types = types
        self._spaces = spaces
        self._functions = functions
        self._modifiers = modifiers
        self._opcode = "" if instruction.form.opcode is None else instruction.form.opcode.name
        self._places = [word.partition("::")[0] for word in modifiers if count_spaces((word,))]
        self._addresses = 0
        self._own = [word for word in modifiers if is_type(word)]
        sizes = [_SIZES[word] for word in modifiers if word in _SIZES]
        self._size = sizes[0] if sizes else 0

    def refusal(self, text: str, operands: Sequence[Operand]) -> OperandRefusal | None:
        """Returns the rejection of the first operand that does not fit, or None."""
        wanted, least = specifications(text)
        if not least <= len(operands) <= len(wanted):
            count = str(least) if least == len(wanted) else f"{least} to {len(wanted)}"
            message = f"this form takes {count} operands, {len(operands)} given"
            return OperandRefusal(min(len(operands), len(wanted)) - 1, message)
        self._addresses = 0
        for place, (operand, specification) in enumerate(zip(operands, wanted, strict=False)):
            message = self._operand(operand, specification)
            if message:
                return OperandRefusal(place, message)
        return None

    def _operand(self, operand: Operand, wanted: Specification) -> str:
        if wanted.type.startswith("[]"):
            return self._place(operand, wanted.type[2:])
        if wanted.type[0] == "[":
            return self._resource(operand, wanted.type)
        if isinstance(operand, Pair):
            return self._pair(operand, wanted)
        if wanted.size:
            return self._elements(operand, wanted, wanted.size, wanted.type)
        if wanted.fragment:
            return self._fragment(operand, wanted)
        if wanted.has(Mark.LOOSE) and not self._size and isinstance(operand, Vector | WholeVector):
            return self._wide_enough(operand, wanted)
        if wanted.has(Mark.VECTOR, Mark.LOOSE) and (
            self._size or isinstance(operand, Vector | WholeVector)
        ):
            return self._vector(operand, wanted)
        return self._value(operand, wanted, wanted.type)

    def _pair(self, operand: Pair, wanted: Specification) -> str:
        if not wanted.second or (wanted.size and isinstance(operand.second, Sink)):
            return "a pair of results is not permitted here"
        first = self._operand(operand.first, wanted)
        return first or self._value(operand.second, wanted, wanted.second)

    def _fragment(self, operand: Operand, wanted: Specification) -> str:
        """Checks a part of a matrix: registers of 32 bits, or of 64 for f64.

        All threads of a warp, or of a warp group (64 rows), hold a part.
        """
        shape = next(match for match in map(_SHAPE.match, self._modifiers) if match is not None)
        rows, columns = (
            int(shape[letter.upper()]) // (2 if letter.islower() else 1)
            for letter in wanted.fragment
        )
        element = self._named(wanted.type)
        bits = rows * columns * int(element.lstrip("bfstu"))
        kind = "b64" if element == "f64" else "b32"
        threads = 128 if shape["M"] == "64" else 32
        size = max(1, bits // threads // _width(kind))
        factors = list(leaves(operand)) if "K" in wanted.fragment.upper() else []
        if len(factors) > 1 and all(isinstance(factor, Immediate) for factor in factors):
            return "literals alone are no factor of a product of matrices"
        for register in leaves(operand) if kind == "b32" else ():
            given = self._types[register.name] if isinstance(register, Register) else ""
            if given and not self._holds_part(given, element):
                return f"a .{given} register does not hold a part of a matrix of .{element}"
        return self._elements(operand, wanted, size, kind)

    def _holds_part(self, given: str, element: str) -> bool:
        """Returns whether ptxas accepts a register of 32 bits as a part of a matrix."""
        is_group = self._opcode.startswith("wgmma.")
        if element == "f32":
            return given in ("b32", "f32") or (
                "f16" in self._own and any(word[:2] == "sp" for word in self._modifiers)
            )
        if element == "f16" or (is_group and element not in ("s32", "s8", "u8")):
            return given in ("b32", "f16x2")
        if element in ("bf16", "tf32"):
            return given == "b32"
        is_byte = self._opcode == "wmma.load" and element in ("s8", "u8")
        if element == "s32" or self._opcode == "wmma.mma" or is_byte:
            return given in ("b32", "u32", "s32")
        return True

    def _elements(self, operand: Operand, wanted: Specification, size: int, kind: str) -> str:
        """Checks for exactly ``size`` values in braces, or a vector register."""
        elements = _elements_of(operand)
        if elements and all(isinstance(element, Sink) for element in elements):
            return "a vector of '_' alone has no type"
        if not elements:
            return f"a vector of {size} is expected here"
        if len(elements) != size and not (
            wanted.has(Mark.AT_LEAST) and size < len(elements) in (2, 4)
        ):
            return f"a vector of {size} is expected here, {len(elements)} given"
        return self._each(elements, wanted, kind)

    def _each(self, elements: Sequence[Operand], wanted: Specification, kind: str) -> str:
        """Checks elements of a vector, where ptxas ignores float literals and selectors."""
        for element in elements:
            value = element.operand if isinstance(element, Selected) else element
            is_float = isinstance(value, Immediate) and isinstance(value.value, float)
            message = (
                ""
                if is_float and not wanted.has(Mark.WRITTEN)
                else self._value(value, wanted, kind)
            )
            if message:
                return message
        return self._compatible(elements)

    def _compatible(self, elements: Sequence[Operand]) -> str:
        """Checks that registers fit in one vector: equal widths and compatible types."""
        types = [self._types.get(leaf.name, "") for leaf in elements if isinstance(leaf, Register)]
        common = types[0] if types else ""
        for given in types[1:]:
            if not _are_compatible(common, given):
                return f"a .{common} and a .{given} register do not stand in one vector"
            common = given if common[0] == "b" else common
        return ""

    def _resource(self, operand: Operand, text: str) -> str:
        """Checks a texture with an optional sampler, or a surface, and required coordinates."""
        wanted = _RESOURCE.match(text)
        assert wanted is not None
        resource, own = ("texture", "texref") if wanted["kind"] == "t" else ("surface", "surfref")
        parts = operand.elements if isinstance(operand, Bracket) else (operand,)
        places = parts[:-1] if wanted["count"] else parts
        if not 1 <= len(places) <= (2 if wanted["kind"] == "t" and wanted["count"] else 1):
            return f"a {resource} in brackets is expected here" + ", with coordinates" * bool(
                wanted["count"]
            )
        for place in places:
            if not isinstance(place, Address) or place.offset or isinstance(place.base, Immediate):
                return f"a {resource} is named by a register or a variable alone"
            name = getattr(place.base, "name", "")
            handle = self._spaces.get(name, "input")
            if handle not in (own, "samplerref", "input"):
                return f"'{name}' is no {resource}"
            kind = self._types.get(name, "b64")
            if kind not in ("b64", "u64", "s64"):
                return f"a {resource} cannot be a .{kind} register"
        return self._coordinates(parts[-1], wanted) if wanted["count"] else ""

    def _coordinates(self, operand: Operand, wanted: re.Match[str]) -> str:
        kind, least = ("f32" if wanted["number"] == "f" else "s32"), int(wanted["count"])
        if isinstance(operand, Address) and not wanted["index"] and not operand.offset:
            base = operand.base
            return self._value(base, _COORDINATE, kind) if isinstance(base, Register) else ""
        elements = _elements_of(operand)
        if len(elements) < least or len(elements) not in (1, 2, 4):
            return f"{least} coordinates are expected here"
        for place, coordinate in enumerate(elements):
            is_index = place == 0 and wanted["index"]
            message = self._value(coordinate, _COORDINATE, "s32" if is_index else kind)
            if message:
                return message
        return self._compatible(elements[1:] if wanted["index"] else elements)

    def _place(self, operand: Operand, coordinates: str) -> str:
        """Checks an address, followed by coordinates if a number of them is required."""
        self._addresses += 1
        if not coordinates:
            return self._address(operand)
        if not isinstance(operand, Bracket) or len(operand.elements) != 2:
            return "an address with coordinates in brackets is expected here"
        base, vector = operand.elements
        if isinstance(base, Address) and base.offset:
            return "an address with coordinates takes no offset"
        if not isinstance(vector, Vector) or len(vector.elements) != int(coordinates):
            return f"{coordinates} coordinates are expected here"
        messages = (self._value(coordinate, _COORDINATE, "s32") for coordinate in vector.elements)
        return next((message for message in messages if message), "")

    def _address(self, operand: Operand) -> str:
        if not isinstance(operand, Address | Element):
            return "an address in brackets is expected here"
        space = self._place_of_address()
        if isinstance(operand, Element):
            return self._variable(operand.array, space) or self._base(operand.index.base, "local")
        return self._base(operand.base, space)

    def _place_of_address(self) -> str:
        """Returns the state space of the instruction's latest address: its words are in this order.

        Addresses after these are of mbarriers; a generic address has the empty string.
        """
        if self._opcode.startswith("mbarrier."):
            return "shared"
        if not self._places:
            return ""
        return [*self._places, "shared"][min(self._addresses - 1, len(self._places))]

    def _base(self, base: Operand, space: str) -> str:
        if isinstance(base, SymbolRef):
            return self._variable(base, space)
        if not isinstance(base, Register) or base.name not in self._types:
            return ""
        kind = self._types[base.name]
        if kind[0] not in "bus" or kind == "b128":
            return f"an address cannot be a .{kind} register"
        is_whole = space in ("", "global") and self._opcode.split(".")[0] in _WHOLE_ADDRESSES
        if is_whole and _width(kind) == 32 and "shared" not in self._places:
            return f"a .{kind} register is no address of 64 bits"
        return ""

    def _variable(self, variable: SymbolRef, space: str) -> str:
        """Checks that a variable is in the space that the instruction accesses."""
        given = self._spaces.get(variable.name, "")
        if not given or self._opcode in ("fence", "tensormap.cp_fenceproxy"):
            return ""
        if given == "input" and self._opcode == "st":
            return f"the parameter '{variable.name}' is only read"
        given = "param" if given == "input" else given
        if given == space or (not space and given in ("global", "shared", "local")):
            return ""
        where = f".{space}" if space else "generic"
        return f"'{variable.name}' is .{given}, the address {where}"

    def _vector(self, operand: Operand, wanted: Specification) -> str:
        return self._elements(operand, wanted, self._size or 1, wanted.type)

    def _wide_enough(self, operand: Vector | WholeVector, wanted: Specification) -> str:
        elements = _elements_of(operand)
        if len(elements) not in (1, 2, 4):
            return "a vector of 1, 2 or 4 is expected here"
        if not wanted.has(Mark.RELAXED):
            return self._each(elements, wanted, wanted.type)
        names = [element.name for element in elements if isinstance(element, Register)]
        given, kind = sum(_width(self._types[name]) for name in names), self._named(wanted.type)
        if len(names) == len(elements) and given < _width(kind):
            return f"the vector has {given} bits, a .{kind} value more"
        return self._compatible(elements)

    def _named(self, name: str) -> str:
        """Returns the type that a specification names."""
        if name == "W":
            return f"{self._own[0][0]}{2 * int(self._own[0][1:])}"
        return self._own[int(name) - 1] if name.isdigit() else name

    def _value(self, operand: Operand, wanted: Specification, name: str) -> str:
        kind = self._named(name)
        match operand:
            case Register(register):
                if wanted.has(Mark.LITERAL):
                    return "a literal is expected here"
                return self._register(self._types[register], kind, wanted.has(Mark.RELAXED))
            case Selected(inner, selector) if wanted.selector:
                if _SELECTORS[wanted.selector].match(selector) is None:
                    return f"there is no selector '.{selector}' here"
                return self._value(inner, wanted, name)
            case Minus(inner) if wanted.has(Mark.SIGNED):
                return self._value(inner, wanted, name)
            case Immediate() if wanted.no_literal:
                return "a register is expected here"
            case Immediate(value, text):
                return _literal(value, text, kind, wanted)
            case Negated(inner):
                if not wanted.has(Mark.NEGATABLE):
                    return "'!' is not permitted here"
                return self._value(inner, wanted, name)
            case SpecialRegister(register):
                if any(type_name[0] == "f" or type_name == "bf16" for type_name in self._own):
                    return f"the special register '{register}' is no value here"
                if self._opcode in ("mov", "cvt") and _width(kind) not in _widths_of(operand):
                    return f"the special register '{register}' is no .{kind} value"
                return ""
            case Sink():
                return ""
            case SymbolRef(symbol):
                if wanted.has(Mark.SYMBOL) and kind[0] in "bus":
                    return self._address_taken(operand, kind)
                if symbol in self._functions and _takes_function(wanted, kind):
                    return ""
                return f"the name '{symbol}' is no value here"
            case Element() if wanted.has(Mark.SYMBOL) and kind[0] in "bus":
                return ""
            case Vector(elements) if kind in ("bf16", "bf16x2") and len(elements) < 3:  # as ptxas
                return self._each(elements, wanted, name)
            case Vector(elements) if wanted.has(Mark.PACKED) and kind[0] == "b":
                return self._packed(elements, kind, is_written=wanted.has(Mark.WRITTEN))
            case WholeVector(_, members) if wanted.has(Mark.PACKED):
                return self._packed([Register(member) for member in members], kind)
        return f"a single .{kind} value is expected here"

    def _address_taken(self, symbol: SymbolRef, kind: str) -> str:
        """Checks that this instruction may take the address of a variable."""
        given = self._spaces.get(symbol.name, "")
        if given in ("texref", "surfref") and self._opcode == "mov" and kind != "u64":
            return f"the handle '{symbol.name}' is a .u64 value"
        if given == "param" and not symbol.offset:
            return f"the address of the parameter '{symbol.name}' cannot be taken"
        if given == "global" and self._opcode == "mov" and _width(kind) == 32 and not symbol.offset:
            return f"the address of '{symbol.name}' has 64 bits"
        if self._opcode in ("cvta", "mapa", "getctarank") and given:
            return self._variable(symbol, self._places[0] if self._places else "shared")
        return ""

    def _register(self, given: str, kind: str, relaxed: bool) -> str:
        if _holds(given, kind, relaxed):
            return ""
        return f"a .{given} register does not hold a .{kind} value"

    def _packed(self, elements: Sequence[Operand], kind: str, *, is_written: bool = False) -> str:
        """Checks that registers fill the other operand, or do not exceed it (literals, ``_``)."""
        if any(isinstance(element, Sink) for element in elements):
            has_value = any(isinstance(element, Register) for element in elements)
            if not has_value and not (isinstance(elements[0], Immediate) and not is_written):
                return "a vector of '_' alone has no type"
            if kind != "b32" and not is_written:
                return "'_' is a source of 'mov.b32' alone"
        registers = [element.name for element in elements if isinstance(element, Register)]
        widths, whole = sum(_width(self._types[name]) for name in registers), _width(kind)
        if widths > whole or (len(registers) == len(elements) and widths != whole):
            return f"the vector has {widths} bits, the other operand {whole}"
        return self._compatible(elements)


def _widths_of(special: SpecialRegister) -> tuple[int, ...]:
    """Returns the widths with which a special register may be read; the oldest also with 16."""
    stem = special.name.split(".")[0]
    if stem in ("%tid", "%ntid", "%ctaid", "%nctaid"):
        return 16, 32
    return (32, 64) if stem == "%gridid" else (special.bits,)


def _elements_of(operand: Operand) -> tuple[Operand, ...]:
    """Returns the elements of a vector; none for any other operand."""
    if isinstance(operand, WholeVector):
        return tuple(Register(name) for name in operand.members)
    return operand.elements if isinstance(operand, Vector) else ()


@cache
def _are_compatible(first: str, second: str) -> bool:
    """Returns whether registers of two types may be elements of one vector."""
    if first == second:
        return True
    if "pred" in (first, second):
        return False
    if _width(first) != _width(second):
        return False
    return "b" in (first[0], second[0]) or (first[0] in "us" and second[0] in "us")


_WHOLE_ADDRESSES = frozenset(
    (
        *("ld", "ldu", "st", "atom", "red", "prefetch", "prefetchu", "discard", "applypriority"),
        "multimem",
    )
)
"""The opcodes (first words) whose global and generic addresses have 64 bits."""


def _width(name: str) -> int:
    kind = number_type(name)
    return 128 if kind is None else kind.width


@cache
def _holds(register: str, kind: str, relaxed: bool) -> bool:
    """Returns whether a register of a declared type may be an operand of a type.

    Bit strings fit any type of their width, floats only themselves and bit strings; signedness is
    ignored. ``relaxed`` (loads, stores, conversions) allows wider registers.
    """
    if register == kind or (register == "f16x2" and kind == "pred"):
        return True
    wanted, width = number_type(kind), _width(register)
    if register == "pred" or kind == "pred":
        return False
    if kind == "b128" or wanted is None:
        return register == "b128" if kind == "b128" else True
    if kind in _ONLY_BITS:
        return register == f"b{wanted.width}"
    wide_enough = width >= wanted.width if relaxed else width == wanted.width
    if register[0] == "b":
        return wide_enough
    if register[0] == "f" and register != "f16x2":
        fits = width == wanted.width
        return (wide_enough if wanted.kind is NumberKind.BITS else fits) and (
            wanted.kind is NumberKind.BITS or _is_single_float(wanted)
        )
    return wide_enough and wanted.kind is not NumberKind.FLOAT


_ONLY_BITS = frozenset({"bf16", "f32x2", "bf16x2", "u16x2", "s16x2", "tf32"})


def _takes_function(wanted: Specification, kind: str) -> bool:
    """Returns whether ptxas takes a function's name as a number: no conversion or bit type."""
    if wanted.has(Mark.WRITTEN) or (wanted.has(Mark.RELAXED) and wanted.type == "2"):
        return False
    return wanted.type in ("1", "2", "W", "b32") and kind not in _ONLY_BITS


def _is_single_float(kind: NumberType) -> bool:
    return kind.kind is NumberKind.FLOAT and kind.count == 1


def _literal(value: int | float, text: str, kind: str, wanted: Specification) -> str:
    if wanted.has(Mark.WRITTEN):
        return "a result cannot be written to a literal"
    if isinstance(value, float):
        double = text.lstrip("-")[:2].lower() != "0f"
        fits = {"f32": True, "f64": double, "b32": not double, "b64": double}
        return "" if fits.get(kind, False) else f"a float literal is no .{kind} value"
    if kind[0] == "f" or kind in ("bf16", "bf16x2", "tf32", "s16x2", "u16x2"):
        return f"an integer literal is no .{kind} value"
    if wanted.has(Mark.WARPS) and value % 32:
        return f"{text} threads are not whole warps"
    literals = wanted.literals
    if literals is not None and value & 0xFFFFFFFF not in literals:
        reason = f"the literal {text} is out of range: {literals[0]} to {literals[-1]}"
        return reason if literals.step == 1 else f"{reason}, in steps of {literals.step}"
    return ""
