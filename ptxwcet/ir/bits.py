"""Lists the opcodes of logic, shifts and bit fields, their forms, and their semantics.

Source: the PTX ISA manual, chapter 9, section by section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptxwcet.ir.meanings import Row, Rows, Sources, computed, least, single
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.permitted import Form
from ptxwcet.ir.terms import Op, Term, any_bits, const, term

_C = OpClass
_WIDE = "u32 s32 u64 s64"
_BITS = "b16 b32 b64"


def rows() -> Rows:
    """Yields all rows of this family."""
    yield from _logic_rows()
    yield from _shift_rows()
    yield from _field_rows()


def _logic_rows() -> Rows:
    for name, meaning in (
        ("and", single(lambda s: s[0] & s[1])),
        ("or", single(lambda s: s[0] | s[1])),
        ("xor", single(lambda s: s[0] ^ s[1])),
    ):
        yield Opcode(name, _C.LOGIC)
        yield computed(meaning)
        yield Form("", _BITS, "=1 1 1")
        yield Form("", "pred", "=1 !1 !1")
    yield Opcode("not", _C.LOGIC)
    yield computed(single(lambda s: ~s[0]))
    yield Form("", _BITS, "=1 1")
    yield Form("", "pred", "=1 !1")
    yield Opcode("cnot", _C.LOGIC)
    yield computed(single(lambda s: s[0].equals(0).extended(s.width, signed=False)))
    yield Form("", _BITS, "=1 1")
    yield Opcode("lop3", _C.LOGIC, discards=True)
    yield computed(_logic_of_three, "and or")
    yield Form("", "b32", "=b32 b32 b32 b32 $b32")
    yield Form("or|and", "b32", "=b32/pred b32 b32 b32 $b32 !pred")


def _shift_rows() -> Rows:
    yield Opcode("shl", _C.SHIFT)
    yield computed(single(lambda s: s[0].shifted_left(s.read(1, 32))))
    yield Form("", _BITS, "=1 1 u32")
    yield Opcode("shr", _C.SHIFT)
    yield computed(single(lambda s: s[0].shifted_right(s.read(1, 32), signed=s.kind.is_signed)))
    yield Form("", f"{_BITS} u16 s16 {_WIDE}", "=1 1 u32")
    yield Opcode("shf", _C.SHIFT)
    yield computed(_funnel, "l r wrap clamp")
    yield Form("^l|r clamp|wrap", "b32", "=b32 b32 b32 u32")


def _field_rows() -> Rows:
    yield Opcode("bfe", _C.BITFIELD)
    yield computed(_extracted)
    yield Form("", _WIDE, "=1 1 u32#0:255 u32#0:255")
    yield Opcode("bfi", _C.BITFIELD)
    yield computed(_inserted)
    yield Form("", "b32 b64", "=1 1 1 u32#0:255 u32#0:255")
    yield Opcode("bfind", _C.BITFIELD)
    yield computed(_found, "shiftamt")
    yield Form("[shiftamt]", _WIDE, "=u32 1")
    for name, op in (("popc", Op.POPC), ("clz", Op.CLZ)):
        yield Opcode(name, _C.BITFIELD)
        yield computed(_counted(op))
        yield Form("", "b32 b64", "=u32 1")
    yield Opcode("brev", _C.BITFIELD)
    yield computed(single(lambda s: term(Op.BREV, s.width, (s[0],))))
    yield Form("", "b32 b64", "=1 1")
    yield Opcode("fns", _C.BITFIELD)
    yield Form("", "b32", "=b32 b32 b32 s32")
    yield Opcode("prmt", _C.BITFIELD)
    yield computed(_permuted, " ".join(_PICKED))
    yield Form("[f4e|b4e|rc8|ecl|ecr|rc16]", "b32", "=b32 b32 b32 b32")
    yield Opcode("szext", _C.BITFIELD)
    yield computed(_extension, "wrap clamp")
    yield Form("clamp|wrap", "u32 s32", "=1 1 u32")
    yield Opcode("bmsk", _C.BITFIELD)
    yield computed(_mask_of, "wrap clamp")
    yield Form("clamp|wrap", "b32", "=b32 u32 u32")


# --- results of the opcodes -----------------------------------------------------------------------


def _logic_of_three(s: Sources) -> tuple[Term, ...] | None:
    """Computes ``lop3``; with a Boolean modifier also result != 0, combined with a predicate."""
    table = s.literal(3)
    if table is None:
        return None
    result = looked_up(table, s[0], s[1], s[2])
    if not s.words:
        return (result,)
    outcome, predicate = ~result.equals(0), s.read(4, 1)
    return result, outcome & predicate if "and" in s.words else outcome | predicate


def looked_up(table: int, a: Term, b: Term, c: Term) -> Term:
    """Computes a logic function of three words from its table of 8 bits; bit 7 is for 1, 1, 1."""
    result = const(0, a.width)
    for minterm in range(8):
        if table >> minterm & 1:
            x, y, z = (word if minterm & bit else ~word for word, bit in ((a, 4), (b, 2), (c, 1)))
            result = result | (x & y & z)
    return result


def _funnel(s: Sources) -> tuple[Term, ...]:
    amount = s.read(2, 32)
    limit = const(32, 32)
    amount = amount & 31 if "wrap" in s.words else least(amount, limit, signed=False)
    pair = s[1].above(s[0])
    if "l" in s.words:
        return (pair.shifted_left(amount).part(32, 32),)
    return (pair.shifted_right(amount, signed=False).part(0, 32),)


def _lowest(count: Term, width: int) -> Term:
    """Computes a mask of the ``count`` lowest bits."""
    return ~const(-1, width).shifted_left(count)


def _place_of_field(s: Sources, first: int) -> tuple[Term, Term, Callable[[Term], Term]]:
    """Returns the start of a field, its length, and a function that restricts a result to both.

    The manual reads eight bits of both. For 64-bit fields ptxas generates code that reads all 32:
    there the result is unconstrained for numbers above 255.
    """
    places = (first, first + 1)
    start, length = (s.read(place, 32) for place in places)
    if s.width == 32:
        return start & 255, length & 255, lambda result: result
    if all(s.literal(place) is not None for place in places):
        return start, length, lambda result: result
    small = (start | length).less_than(256, signed=False)
    return start, length, lambda result: small.choose(result, any_bits(result.width))


def _extracted(s: Sources) -> tuple[Term, ...]:
    width, signed = s.width, s.kind.is_signed
    start, length, is_determined = _place_of_field(s, 1)
    field = s[0].shifted_right(start, signed=signed)
    if not signed:
        return (is_determined(field & _lowest(length, width)),)
    end = start + length - 1
    top = least(end, const(width - 1, 32), signed=False)
    sign = (s[0].shifted_right(top, signed=False) & 1).part(0, 1)
    mask = _lowest(length, width)
    whole = sign.choose(field | ~mask, field & mask)
    return (is_determined(length.equals(0).choose(const(0, width), whole)),)


def _inserted(s: Sources) -> tuple[Term, ...]:
    start, length, is_determined = _place_of_field(s, 2)
    mask = _lowest(length, s.width).shifted_left(start)
    return (is_determined((s[1] & ~mask) | (s[0].shifted_left(start) & mask)),)


def _found(s: Sources) -> tuple[Term, ...]:
    return (first_found(s[0], signed=s.kind.is_signed, is_distance="shiftamt" in s.words),)


def first_found(value: Term, *, signed: bool, is_distance: bool) -> Term:
    """Computes the highest non-sign bit, or its distance from the top; -1 if absent."""
    if signed:
        value = value.less_than(0, signed=True).choose(~value, value)
    zeros = term(Op.CLZ, value.width, (value,)).resized(32, signed=False)
    if is_distance:
        return value.equals(0).choose(const(-1, 32), zeros)
    return const(value.width - 1, 32) - zeros


def _mask_of(s: Sources) -> tuple[Term, ...]:
    return (mask_of(s[0], s[1], wraps="wrap" in s.words),)


def mask_of(start: Term, length: Term, *, wraps: bool) -> Term:
    """Computes a mask of ``length`` ones that starts at bit ``start``."""
    if wraps:
        start, length = start & 31, length & 31
    return _lowest(length, 32).shifted_left(start)


def _extension(s: Sources) -> tuple[Term, ...]:
    return (length_extended(s[0], s[1], wraps="wrap" in s.words, signed=s.kind.is_signed),)


def length_extended(value: Term, bits: Term, *, wraps: bool, signed: bool) -> Term:
    """Extends the number in the ``bits`` lowest bits of a word to the whole word."""
    bits = bits & 31 if wraps else least(bits, const(32, 32), signed=False)
    unused = const(32, 32) - bits
    return value.shifted_left(unused).shifted_right(unused, signed=signed)


_PICKED: Mapping[str, tuple[str, ...]] = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}
"""The bytes that the modes of ``prmt`` pick, highest first, for the selector's two low bits."""


def _permuted(s: Sources) -> tuple[Term, ...]:
    pair, selector = s[1].above(s[0]), s[2]
    return (permuted(pair, selector, s.words[0] if s.words else ""),)


def permuted(pair: Term, selector: Term, mode: str = "") -> Term:
    """Picks a byte of two words, or its sign, for each of a selector's four lowest nibbles.

    With a ``mode`` the selector picks one of its four arrangements of bytes.
    """
    if mode:
        arrangements = [_bytes(pair, pattern) for pattern in _PICKED[mode]]
        choice = selector & 3
        result = arrangements[3]
        for number in (2, 1, 0):
            result = choice.equals(number).choose(arrangements[number], result)
        return result
    result = const(0, 32)
    for place in range(4):
        nibble = selector.part(4 * place, 4)
        byte = pair.shifted_right((nibble & 7).extended(8, signed=False) * 8, signed=False)
        picked = byte.part(0, 8)
        copied = picked.shifted_right(7, signed=True)
        picked = nibble.part(3, 1).choose(copied, picked)
        result = result | picked.extended(32, signed=False).shifted_left(8 * place)
    return result


def _bytes(pair: Term, pattern: str) -> Term:
    picked = pair.part(8 * int(pattern[0]), 8)
    for digit in pattern[1:]:
        picked = picked.above(pair.part(8 * int(digit), 8))
    return picked


def _counted(op: Op) -> Row:
    return lambda s: (term(op, s.width, (s[0],)).resized(32, signed=False),)
