"""The operands that a form has: each is compared with the word of its specification.

The words stand in the rows of :class:`ptxwcet.ir.permitted.Form`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.opcodes import is_type
from ptxwcet.ir.operands import (
    Address,
    Bracket,
    Element,
    Immediate,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    SymbolRef,
    Vector,
    WholeVector,
    leaves,
)
from ptxwcet.ir.operation import NumberKind, NumberType, number_type
from ptxwcet.ir.permitted import Form


@dataclass(frozen=True, slots=True)
class OperandRefusal:
    """The operand at fault, counted from 0, and what is wrong with it."""

    place: int
    message: str


def refusal(
    forms: Iterable[Form],
    instruction: Instruction,
    types: Mapping[str, str],
    functions: Collection[str] = (),
) -> OperandRefusal | None:
    """Why the operands of an instruction fit none of the forms that have its modifiers.

    ``types``: the type of each register by unique name; ``functions``: the operands that are names
    of functions. Cost: linear in forms and operands.
    """
    operands = instruction.operands
    checker = _Checker(instruction.modifiers, types, functions)
    furthest: OperandRefusal | None = None
    for form in forms:
        objection = checker.refusal(form.operands, operands)
        if objection is None:
            return None
        if furthest is None or objection.place > furthest.place:
            furthest = objection
    return furthest


@dataclass(frozen=True, slots=True)
class _Specification:
    """One operand of a form, decoded from its word."""

    text: str
    optional: bool
    written: bool
    negatable: bool
    relaxed: bool
    packed: bool
    symbol: bool
    vector: bool
    literals: tuple[int, int] | None
    literal_only: bool
    warps: bool
    type: str
    second: str
    size: int
    fragment: str


def _specification(text: str) -> _Specification:
    """An operand's word: marks, the type (``1`` and ``2`` the instruction's own, ``W`` twice the
    first's width), ``/type`` for the other half of a pair, ``#low:high`` for literals.

    Marks: ``?`` may be left out, ``=`` written, ``!`` may be negated, ``~`` wider registers too,
    ``%`` also a vector that is packed, ``&`` also a variable, ``{}`` as many as ``.v2`` says,
    ``$`` only a literal, ``*`` literals are multiples of the warp size. ``4x`` before the type is a
    vector of four; ``MK:`` the part of a matrix of M rows and K columns that a thread holds, by the
    shape among the modifiers (a small letter: half as many, of a sparse matrix). ``[]`` is an
    address, ``[]3`` one with three coordinates behind it.
    """
    marks, rest = "", text
    while rest[0] in "?=!~%&{}$*":
        marks, rest = marks + rest[0], rest[1:]
    size, fragment = 0, ""
    if (counted := re.match(r"(\d+)x", rest)) is not None:
        size, rest = int(counted[1]), rest[counted.end() :]
    elif rest[2:3] == ":":
        fragment, rest = rest[:2], rest[3:]
    name, _, limits = rest.partition("#")
    low, _, high = limits.partition(":")
    first, _, second = name.partition("/")
    return _Specification(
        text=text,
        optional="?" in marks,
        written="=" in marks,
        negatable="!" in marks,
        relaxed="~" in marks,
        packed="%" in marks,
        symbol="&" in marks,
        vector="{" in marks,
        literals=(int(low), int(high)) if limits else None,
        literal_only="$" in marks,
        warps="*" in marks,
        type=first,
        second=second,
        size=size,
        fragment=fragment,
    )


@cache
def _specifications(text: str) -> tuple[tuple[_Specification, ...], int]:
    """The operands of a form, and how many there are at least."""
    found = tuple(_specification(word) for word in text.split())
    return found, sum(not one.optional for one in found)


@cache
def operand_counts(forms: tuple[Form, ...]) -> tuple[tuple[int, int], int]:
    """The least and largest number of operands of some forms, and how many are written at most."""
    found = [_specifications(form.operands) for form in forms]
    most = max(len(operands) for operands, _ in found)
    written = max(sum(one.written for one in operands) for operands, _ in found)
    return (min(least for _, least in found), most), written


@cache
def depends_on_literals(forms: tuple[Form, ...]) -> bool:
    """Whether the value of an integer literal decides if operands fit one of the forms."""
    return any(
        specification.literals is not None or specification.warps
        for form in forms
        for specification in _specifications(form.operands)[0]
    )


_SIZES = {"v2": 2, "v4": 4, "v8": 8}
_SHAPE = re.compile(r"m(?P<M>\d+)n(?P<N>\d+)(?:k(?P<K>\d+))?\Z")
_COORDINATE = _specification("s32")


class _Checker:
    """Compares operands with specifications for one instruction."""

    def __init__(
        self, modifiers: Sequence[str], types: Mapping[str, str], functions: Collection[str]
    ) -> None:
        self._types = types
        self._functions = functions
        self._modifiers = modifiers
        self._own = [word for word in modifiers if is_type(word)]
        sizes = [_SIZES[word] for word in modifiers if word in _SIZES]
        self._size = sizes[0] if sizes else 0

    def refusal(self, text: str, operands: Sequence[Operand]) -> OperandRefusal | None:
        """The first operand that does not fit."""
        wanted, least = _specifications(text)
        if not least <= len(operands) <= len(wanted):
            count = str(least) if least == len(wanted) else f"{least} to {len(wanted)}"
            message = f"this form takes {count} operands, {len(operands)} given"
            return OperandRefusal(min(len(operands), len(wanted)) - 1, message)
        for place, (operand, specification) in enumerate(zip(operands, wanted, strict=False)):
            message = self._operand(operand, specification)
            if message:
                return OperandRefusal(place, message)
        return None

    def _operand(self, operand: Operand, wanted: _Specification) -> str:
        if wanted.type.startswith("[]"):
            return self._place(operand, wanted.type[2:])
        if isinstance(operand, Pair):
            if not wanted.second:
                return "a pair of results is not permitted here"
            return self._value(operand.first, wanted, wanted.type) or self._value(
                operand.second, wanted, wanted.second
            )
        if wanted.size:
            return self._elements(operand, wanted, wanted.size, wanted.type)
        if wanted.fragment:
            return self._fragment(operand, wanted)
        if wanted.vector and (self._size or isinstance(operand, Vector | WholeVector)):
            return self._vector(operand, wanted)
        return self._value(operand, wanted, wanted.type)

    def _fragment(self, operand: Operand, wanted: _Specification) -> str:
        """A matrix: registers of 32 bits, or of 64 for f64; all threads of a warp hold a part."""
        shape = next(found for found in map(_SHAPE.match, self._modifiers) if found is not None)
        rows, columns = (
            int(shape[letter.upper()]) // (2 if letter.islower() else 1)
            for letter in wanted.fragment
        )
        element = self._named(wanted.type)
        bits = rows * columns * int(element.lstrip("bfstu"))
        kind = "b64" if element == "f64" else "b32"
        size = max(1, bits // 32 // _width(kind))
        if "K" in wanted.fragment.upper() and any(
            isinstance(leaf, Immediate) for leaf in leaves(operand)
        ):
            return "a literal is no factor of a product of matrices"
        return self._elements(operand, wanted, size, kind)

    def _elements(self, operand: Operand, wanted: _Specification, size: int, kind: str) -> str:
        """Exactly so many values in braces, or a vector register."""
        if not isinstance(operand, Vector | WholeVector):
            return f"a vector of {size} is expected here"
        elements = (
            operand.elements
            if isinstance(operand, Vector)
            else tuple(Register(name) for name in operand.members)
        )
        if len(elements) != size:
            return f"a vector of {size} is expected here, {len(elements)} given"
        messages = (self._value(one, wanted, kind) for one in elements)
        return next((message for message in messages if message), "")

    def _place(self, operand: Operand, coordinates: str) -> str:
        """An address, with coordinates behind it if a number of them is wanted."""
        if not coordinates:
            return self._address(operand)
        if not isinstance(operand, Bracket) or len(operand.elements) != 2:
            return "an address with coordinates in brackets is expected here"
        base, vector = operand.elements
        if isinstance(base, Address) and base.offset:
            return "an address with coordinates takes no offset"
        if not isinstance(vector, Vector) or len(vector.elements) != int(coordinates):
            return f"{coordinates} coordinates are expected here"
        messages = (self._value(one, _COORDINATE, "s32") for one in vector.elements)
        return next((message for message in messages if message), "")

    def _address(self, operand: Operand) -> str:
        if not isinstance(operand, Address | Element):
            return "an address in brackets is expected here"
        base = operand.base if isinstance(operand, Address) else operand.index.base
        if isinstance(base, Register) and base.name in self._types:
            kind = self._types[base.name]
            if kind[0] not in "bus" or kind == "b128":
                return f"an address cannot be a .{kind} register"
        return ""

    def _vector(self, operand: Operand, wanted: _Specification) -> str:
        return self._elements(operand, wanted, self._size or 1, wanted.type)

    def _named(self, name: str) -> str:
        """The type that a specification names."""
        if name == "W":
            return f"{self._own[0][0]}{2 * int(self._own[0][1:])}"
        return self._own[int(name) - 1] if name.isdigit() else name

    def _value(self, operand: Operand, wanted: _Specification, name: str) -> str:
        kind = self._named(name)
        match operand:
            case Register(register):
                if wanted.literal_only:
                    return "a literal is expected here"
                return self._register(self._types[register], kind, wanted.relaxed)
            case Immediate(value, text):
                return _literal(value, text, kind, wanted)
            case Negated(inner):
                if not wanted.negatable:
                    return "'!' is not permitted here"
                return self._value(inner, wanted, name)
            case SpecialRegister(register):
                if any(one[0] == "f" or one == "bf16" for one in self._own):
                    return f"the special register '{register}' is no value here"
                return ""
            case Sink():
                return ""
            case SymbolRef(symbol):
                if wanted.symbol and kind[0] in "bus":
                    return ""
                if symbol in self._functions and _takes_function(wanted, kind):
                    return ""
                return f"the name '{symbol}' is no value here"
            case Element() if wanted.symbol and kind[0] in "bus":
                return ""
            case Vector((first, second)) if kind in ("bf16", "bf16x2"):  # ptxas takes pairs there
                return self._value(first, wanted, name) or self._value(second, wanted, name)
            case Vector(elements) if wanted.packed and kind[0] == "b":
                return self._packed(elements, kind)
            case WholeVector(_, members) if wanted.packed:
                return self._packed([Register(member) for member in members], kind)
        return f"a single .{kind} value is expected here"

    def _register(self, given: str, kind: str, relaxed: bool) -> str:
        if _holds(given, kind, relaxed):
            return ""
        return f"a .{given} register does not hold a .{kind} value"

    def _packed(self, elements: Sequence[Operand], kind: str) -> str:
        """Registers fill the other operand; with literals or ``_`` they are no wider than it."""
        registers = [one.name for one in elements if isinstance(one, Register)]
        widths, whole = sum(_width(self._types[name]) for name in registers), _width(kind)
        if widths > whole or (len(registers) == len(elements) and widths != whole):
            return f"the vector has {widths} bits, the other operand {whole}"
        return ""


def _width(name: str) -> int:
    found = number_type(name)
    return 128 if found is None else found.width


@cache
def _holds(register: str, kind: str, relaxed: bool) -> bool:
    """Whether a register of a declared type may be an operand of a type.

    Bit strings go with any type of their width, floats only with themselves and bit strings;
    signed and unsigned are alike. ``relaxed`` (loads, stores, conversions) allows wider ones.
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


def _takes_function(wanted: _Specification, kind: str) -> bool:
    """Whether ptxas takes a function's name as a number: not in conversions and numbers of bits."""
    if wanted.written or (wanted.relaxed and wanted.type == "2"):
        return False
    return wanted.type in ("1", "2", "W", "b32") and kind not in _ONLY_BITS


def _is_single_float(kind: NumberType) -> bool:
    return kind.kind is NumberKind.FLOAT and kind.count == 1


def _literal(value: int | float, text: str, kind: str, wanted: _Specification) -> str:
    if wanted.written:
        return "a result cannot be written to a literal"
    if isinstance(value, float):
        double = text.lstrip("-")[:2].lower() != "0f"
        fits = {"f32": True, "f64": double, "b32": not double, "b64": double}
        return "" if fits.get(kind, False) else f"a float literal is no .{kind} value"
    if kind[0] == "f" or kind in ("bf16", "bf16x2", "tf32", "s16x2", "u16x2"):
        return f"an integer literal is no .{kind} value"
    if wanted.warps and value % 32:
        return f"{text} threads are not whole warps"
    if wanted.literals is not None:
        low, high = wanted.literals
        if not low <= value & 0xFFFFFFFF <= high:
            return f"the literal {text} is out of range: {low} to {high}"
    return ""
