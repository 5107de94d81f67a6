"""What each PTX instruction without memory or other lanes computes, from the ISA manual.

Written from the manual's pseudo code, apart from the value analysis and from the emulator.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction

import isa_floats
from isa_bits import BITS
from isa_types import (
    PREDICATE,
    S32,
    U32,
    U64,
    Operation,
    Type,
    clamp,
    join,
    number,
    ones,
    split,
    types_of,
)

Words = tuple[str, ...]


def find_operation(words: Words, sources: int, results: int) -> Operation | None:
    """The operation of a mnemonic; None if it needs memory or other lanes.

    ``words`` is the mnemonic split at its dots. An operation that has no exact definition, or none
    here, is some function of its sources: the same sources give the same arbitrary result.
    """
    types = types_of(words)
    builder = _BUILDERS.get(words[0])
    if builder is not None:
        found = builder(words, types, sources)
        if found is not None:
            return found
    if words[0] in ARBITRARY:
        of = tuple(types[-1:] or [U32]) * sources
        return arbitrary(words, of, tuple(types[:1] or [U32]) * results)
    return None


def arbitrary(words: Words, sources: tuple[Type, ...], results: tuple[Type, ...]) -> Operation:
    """A function of which nothing is known but that it is one."""

    def function(*values: int) -> tuple[int, ...]:
        text = ".".join(words) + repr(values)
        digest = hashlib.blake2b(text.encode(), digest_size=16 * max(len(results), 1)).digest()
        found = []
        for i, of in enumerate(results):
            raw = int.from_bytes(digest[16 * i : 16 * i + 8], "little")
            small = digest[16 * i + 8] % 3
            found.append((raw % 5 if small == 0 else raw) & ones(of.width))
        return tuple(found)

    if len(results) == 1:
        return Operation(sources, results, lambda *values: function(*values)[0])
    return Operation(sources, results, function)


# --- arithmetic -----------------------------------------------------------------------------------


def _sum(words: Words, types: list[Type], sources: int) -> Operation | None:
    of = types[0]
    sign = 1 if words[0].startswith("add") else -1
    if of.kind in ("f", "bf", "tf"):
        return _float(words, types, sources)
    if of.parts > 1:
        return Operation(
            (of, of),
            (of,),
            lambda a, b: join(
                [x + sign * y for x, y in zip(split(a, of), split(b, of), strict=True)], of.bits
            ),
        )
    if "sat" in words:
        return Operation((of, of), (of,), lambda a, b: clamp(a + sign * b, of))
    reads, sets = words[0].endswith("c"), "cc" in words
    if not reads and not sets:
        return Operation((of, of), (of,), lambda a, b: a + sign * b)
    return _carrying(of, sign, reads=reads, sets=sets)


def _carrying(of: Type, sign: int, *, reads: bool, sets: bool) -> Operation:
    bits = of.bits
    plain = Type("u", bits)

    def function(a: int, b: int, carry: int = int(sign < 0)) -> object:
        total = a + (b if sign > 0 else b ^ ones(bits)) + carry  # the flag denies a borrow
        return (total, total >> bits) if sets else total

    return Operation((plain, plain), (of,), function, carries=reads, sets_carry=sets)


def _product(words: Words, types: list[Type], sources: int) -> Operation | None:
    of = types[0]
    if of.kind in ("f", "bf", "tf"):
        return _float(words, types, sources)
    double = Type(of.kind, 2 * of.bits)
    adds = words[0].startswith("mad")
    result = double if "wide" in words else of
    shift = of.bits if "hi" in words else 0

    def part(a: int, b: int) -> int:
        return (a * b) >> shift

    if not adds:
        return Operation((of, of), (result,), part)
    if "sat" in words:
        return Operation((of, of, result), (result,), lambda a, b, c: clamp(part(a, b) + c, of))
    reads, sets = words[0] == "madc", "cc" in words
    if not reads and not sets:
        return Operation((of, of, result), (result,), lambda a, b, c: part(a, b) + c)

    def carried(a: int, b: int, c: int, carry: int = 0) -> object:
        total = (part(a, b) & ones(result.bits)) + (c & ones(result.bits)) + carry
        return (total, int(total > ones(result.bits))) if sets else total

    return Operation((of, of, result), (result,), carried, carries=reads, sets_carry=sets)


def _product24(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    shift = 16 if "hi" in words else 0
    narrow = Type(of.kind, 24)

    def function(a: int, b: int, *c: int) -> int:
        found = (number(a, narrow) * number(b, narrow)) >> shift
        total = (number(found, of) if c else found) + sum(c)
        return clamp(total, of) if "sat" in words else total

    return Operation((of,) * sources, (of,), function)


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _quotient(words: Words, types: list[Type], sources: int) -> Operation | None:
    of = types[0]
    if of.kind not in ("s", "u", "b"):
        return _float(words, types, sources)
    undefined = arbitrary((*words, "by zero"), (of,), (of,)).function

    def divide(a: int, b: int) -> object:
        return _truncated(a, b) if b else undefined(a)

    def remainder(a: int, b: int) -> object:
        return a - _truncated(a, b) * b if b else undefined(a)

    return Operation((of, of), (of,), divide if words[0] == "div" else remainder)


def _extreme(words: Words, types: list[Type], sources: int) -> Operation | None:
    of = types[0]
    if of.kind not in ("s", "u", "b"):
        return _float(words, types, sources)
    choose: Callable[[int, int], int] = min if words[0] == "min" else max

    def one(a: int, b: int) -> int:
        return max(choose(a, b), 0) if "relu" in words else choose(a, b)

    if of.parts == 1:
        return Operation((of, of), (of,), one)
    return Operation(
        (of, of),
        (of,),
        lambda a, b: join(
            [one(x, y) for x, y in zip(split(a, of), split(b, of), strict=True)], of.bits
        ),
    )


def _sign(words: Words, types: list[Type], sources: int) -> Operation | None:
    of = types[0]
    if of.kind in ("s", "u", "b"):
        return Operation((of,), (of,), abs if words[0] == "abs" else lambda a: -a)
    top = sum(1 << (of.bits * (i + 1) - 1) for i in range(of.parts))
    if "ftz" in words and of != Type("f", 32):
        return arbitrary(words, (of,), (of,))

    def flushed(a: int) -> int:
        small = "ftz" in words and 0 < a & 0x7FFFFFFF < 0x800000
        return a & 0x80000000 if small else a

    if words[0] == "abs":
        return Operation((of,), (of,), lambda a: flushed(a) & ~top)
    return Operation((of,), (of,), lambda a: flushed(a) ^ top)


def _sad(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    return Operation((of,) * 3, (of,), lambda a, b, c: c + abs(a - b))


def _dot(words: Words, types: list[Type], sources: int) -> Operation:
    first, second = types[0].kind, types[1].kind
    four = words[0] == "dp4a"
    result = S32 if "s" in (first, second) else U32

    def function(a: int, b: int, c: int) -> int:
        if four:
            rows = zip(split(a, Type(first, 8, 4)), split(b, Type(second, 8, 4)), strict=True)
        else:
            half = split(b, Type(second, 8, 4))
            used = half[2:] if "hi" in words else half[:2]
            rows = zip(split(a, Type(first, 16, 2)), used, strict=True)
        return c + sum(x * y for x, y in rows)

    return Operation((U32, U32, result), (result,), function)


# --- floating point -------------------------------------------------------------------------------


def _float(words: Words, types: list[Type], sources: int) -> Operation:
    """An operation on one type that rounds its exact result once; any other is not followed."""
    of = types[0]
    modes = {*isa_floats.MODES[:4], "ftz", "sat"}
    function = isa_floats.ARITHMETIC.get(words[0])
    unknown = [word for word in words[1:-1] if word not in modes]
    needs_mode = words[0] in ("div", "rcp", "sqrt", "fma", "mad")
    if function is None or unknown or len(types) > 1 or not isa_floats.is_known(of):
        return arbitrary(words, (of,) * sources, (of,))
    if needs_mode and not modes.difference({"ftz", "sat"}) & set(words):
        return arbitrary(words, (of,) * sources, (of,))
    if words[0] in ("min", "max") and sources != 2:
        return arbitrary(words, (of,) * sources, (of,))
    how = isa_floats.How.said(words, of)
    return Operation((of,) * sources, (of,), lambda *raw: function(*map(how.read, raw), how))


# --- comparison and selection ---------------------------------------------------------------------

_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
_JOINS: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def _comparison(words: Words, of: Type) -> Callable[[int, int], int] | None:
    name = next((word for word in words[1:] if word in _NAMES), None)
    if name is None or of.parts > 1:
        return None
    if of.kind in ("s", "u", "b"):
        order = _ORDERS[_UNSIGNED.get(name, name)]
        if name in _UNSIGNED:
            return lambda a, b: int(order(a & ones(of.bits), b & ones(of.bits)))
        return lambda a, b: int(order(a, b))
    if not isa_floats.is_known(of):
        return None
    how = isa_floats.How.said(words, of)

    def floats(a: int, b: int) -> int:
        x, y = how.read(a), how.read(b)
        unordered = math.isnan(x) or math.isnan(y)
        if name in ("num", "nan"):
            return int(unordered == (name == "nan"))
        if unordered:
            return int(name in _UNORDERED)
        return int(_ORDERS[_UNORDERED.get(name, name)](x, y))

    return floats


_NAMES = {*_ORDERS, *_UNSIGNED, *_UNORDERED, "num", "nan"}


def _setp(words: Words, types: list[Type], sources: int) -> Operation:
    """``setp.cmp[.bool].type p|q, a, b [, c]``; both results, of which the second may be unused."""
    of = types[-1]
    compare = _comparison(words, of)
    joined = next((word for word in words if word in _JOINS), None)
    if compare is None:
        return arbitrary(words, (of, of, PREDICATE)[:sources], (PREDICATE, PREDICATE))

    def function(a: int, b: int, c: int = 1) -> tuple[int, int]:
        found = compare(a, b)
        if joined is None:
            return found, 1 - found
        return _JOINS[joined](found, c), _JOINS[joined](1 - found, c)

    return Operation((of, of, PREDICATE)[:sources], (PREDICATE, PREDICATE), function)


def _set(words: Words, types: list[Type], sources: int) -> Operation:
    result, of = types
    compare = _comparison(words, of)
    joined = next((word for word in words if word in _JOINS), None)
    if compare is None or (result.kind == "f" and result.bits != 32) or result.parts > 1:
        return arbitrary(words, (of, of, PREDICATE)[:sources], (result,))

    def function(a: int, b: int, c: int = 1) -> int:
        found = compare(a, b)
        if joined is not None:
            found = _JOINS[joined](found, c)
        if not found:
            return 0
        return 0x3F800000 if result.kind == "f" else ones(result.bits)

    return Operation((of, of, PREDICATE)[:sources], (result,), function)


def _selp(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    return Operation((of, of, PREDICATE), (of,), lambda a, b, p: a if p else b)


def _slct(words: Words, types: list[Type], sources: int) -> Operation:
    of, by = types
    if by.kind == "s":
        return Operation((of, of, by), (of,), lambda a, b, c: a if c >= 0 else b)
    how = isa_floats.How.said(words, by)
    return Operation((of, of, by), (of,), lambda a, b, c: a if how.read(c) >= 0 else b)


# --- moves and conversions ------------------------------------------------------------------------


def _mov(words: Words, types: list[Type], sources: int) -> Operation | None:
    of = types[-1]
    return Operation((of,), (of,), lambda a: a)


def _cvt(words: Words, types: list[Type], sources: int) -> Operation | None:
    if len(types) != 2 or sources != 1 or words[1] == "pack":
        return arbitrary(words, (types[-1],) * sources, (types[0],)) if types else None
    target, source = types
    integers = ("s", "u", "b")
    how = isa_floats.How.said(words, target)
    if target.kind in integers and source.kind in integers:
        return Operation((source,), (target,), lambda a: clamp(a, target) if how.sat else a)
    if {"relu", "satfinite"} & set(words):
        return arbitrary(words, (source,), (target,))
    if target.kind in integers and isa_floats.is_known(source):
        return Operation((source,), (target,), lambda a: _whole(a, source, how))
    if source.kind in integers and isa_floats.is_known(target):
        return Operation((source,), (target,), lambda a: how.ends(Fraction(a) if a else 0.0))
    if isa_floats.is_known(source) and isa_floats.is_known(target):
        return Operation((source,), (target,), lambda a: isa_floats.converted(a, source, how))
    return arbitrary(words, (source,), (target,))


def _whole(raw: int, source: Type, how: isa_floats.How) -> int:
    flushed = isa_floats.to_bits(how.read(raw, source), source)
    return isa_floats.to_integer(flushed, source, how.of, how.mode)


def _cvta(words: Words, types: list[Type], sources: int) -> Operation:
    """Generic and own addresses are the same numbers here: every space has its own window."""
    of = types[-1] if types else U64
    return Operation((of,), (of,), lambda a: a)


Builder = Callable[[Words, list[Type], int], Operation | None]
_BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(("add", "sub", "addc", "subc"), _sum),
    **dict.fromkeys(("mul", "mad", "madc", "fma"), _product),
    **dict.fromkeys(("mul24", "mad24"), _product24),
    **dict.fromkeys(("div", "rem"), _quotient),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("abs", "neg"), _sign),
    **dict.fromkeys(("dp4a", "dp2a"), _dot),
    "sad": _sad,
    "setp": _setp,
    "set": _set,
    "selp": _selp,
    "slct": _slct,
    "mov": _mov,
    "cvt": _cvt,
    "cvta": _cvta,
    "sqrt": _float,
    "rcp": _float,
    **BITS,
}

_VIDEO = ("add", "sub", "absdiff", "min", "max", "shl", "shr", "mad", "set", "avrg")
ARBITRARY = frozenset(
    (
        *("add", "sub", "mul", "fma", "min", "max", "rsqrt", "sin", "cos", "lg2"),
        *("ex2", "tanh", "testp", "copysign", "cvt", "isspacep", "istypep"),
        *(f"v{name}{count}" for name in _VIDEO for count in ("", "2", "4")),
    )
)
"""Instructions that are functions of their sources, but which one is not followed here."""
