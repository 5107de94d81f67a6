"""Lists the opcodes of arithmetic on integers and floats, their forms, and integer semantics.

Source: the PTX ISA manual, chapter 9, section by section.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxwcet.ir.meanings import Row, Rows, Sources, computed, least, saturated, single
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.opcodes import ByType, Opcode
from ptxwcet.ir.permitted import Form
from ptxwcet.ir.terms import Term, const

_C = OpClass
_ADD = ByType(_C.INT_ADD, _C.FP16_ARITH, _C.FP32_ADD, _C.FP64_ADD)
_MINMAX = ByType(_C.INT_MINMAX, _C.FP16_ARITH, _C.FP32_MINMAX, _C.FP64_MINMAX)
_MUL = ByType(_C.INT_MUL, _C.FP16_ARITH, _C.FP32_MUL, _C.FP64_MUL)
_MAD = ByType(_C.INT_MAD, _C.FP16_ARITH, _C.FP32_FMA, _C.FP64_FMA)
_DIV = ByType(_C.INT_DIV, _C.FP32_DIV, _C.FP32_DIV, _C.FP64_DIV)
_SFU = ByType(_C.FP32_SFU, _C.FP16_SFU, _C.FP32_SFU, _C.FP64_SFU)
_SIGN = ByType(_C.SIGN, _C.FP16_ARITH, _C.SIGN, _C.SIGN)

_WIDE = "u32 s32 u64 s64"
_SHORT = "u16 s16"
_ALL = f"{_SHORT} {_WIDE}"
_ROUND = "[rn|rz|rm|rp]"
_ROUNDED = "rn|rz|rm|rp"
_BINARY, _TERNARY, _UNARY = "=1 1 1", "=1 1 1 1", "=1 1"


def rows() -> Rows:
    """Yields all rows of this family."""
    yield from _sum_rows()
    yield from _product_rows()
    yield from _quotient_rows()
    yield from _order_rows()
    yield from _function_rows()


def _sum_rows() -> Rows:
    for name, sign in (("add", 1), ("sub", -1)):
        yield Opcode(name, _ADD)
        yield computed(_sum(sign), "sat cc", packed=True)
        yield Form("", f"{_SHORT} u16x2 s16x2" if name == "add" else _SHORT, _BINARY)
        yield Form("[cc]", "u32 u64 s64", _BINARY)
        yield Form("[cc|sat]", "s32", _BINARY)
        yield from _float_binary()
        yield Form(f"{_ROUND} [sat]", "f32", "=1 2 1", "f16 bf16")
    for name, sign in (("addc", 1), ("subc", -1)):
        yield Opcode(name, _ADD, reads_carry=True)
        yield computed(_sum_of_carry(sign), "cc")
        yield Form("", _SHORT, _BINARY)
        yield Form("[cc]", _WIDE, _BINARY)
        yield Form("sat", "s32", _BINARY, documented=False)


def _float_binary() -> Rows:
    yield Form(f"{_ROUND} [ftz] [sat]", "f32", _BINARY)
    yield Form(_ROUND, "f64", _BINARY)
    yield Form("[rn] [ftz] [sat]", "f16 f16x2", _BINARY)
    yield Form("[rn]", "bf16 bf16x2", _BINARY)
    yield Form(f"{_ROUND} [ftz]", "f32x2", _BINARY)


def _product_rows() -> Rows:
    yield Opcode("mul", _MUL)
    yield computed(_multiply, "lo hi wide")
    yield Form("^lo|hi", _ALL, _BINARY)
    yield Form("^wide", f"{_SHORT} u32 s32", "=W 1 1")
    yield from _float_binary()
    yield Opcode("mad", _MAD)
    yield computed(_multiply_add, "lo hi wide sat cc")
    yield Form("^lo|hi", _SHORT, _TERNARY)
    yield Form("^lo|hi [cc]", _WIDE, _TERNARY)
    yield Form("^wide", f"{_SHORT} u32 s32", "=W 1 1 W")
    yield Form("^hi sat", "s32", _TERNARY)
    yield from _float_ternary()
    yield Form("[ftz] [sat]", "f32", _TERNARY)  # only on the first targets
    yield Opcode("madc", _MAD, reads_carry=True)
    yield computed(_multiply_add_carry, "lo hi cc")
    yield Form("^lo|hi", _SHORT, _TERNARY)
    yield Form("^lo|hi [cc]", _WIDE, _TERNARY)
    yield Form("^hi sat", "s32", _TERNARY, documented=False)
    yield Opcode("fma", _MAD)
    yield from _float_ternary()
    yield Form("rn [ftz] [sat|relu]", "f16 f16x2", _TERNARY)
    yield Form("rn [relu|oob]", "bf16 bf16x2", _TERNARY)
    yield Form("rn [relu] oob", "f16 f16x2 bf16 bf16x2", _TERNARY)
    yield Form(f"{_ROUNDED} [ftz]", "f32x2", _TERNARY)
    yield Form(f"{_ROUNDED} [sat]", "f32", "=1 2 2 1", "f16 bf16")
    yield Opcode("mul24", _C.INT_MUL24)
    yield computed(single(_product_of_24), "lo hi")
    yield Form("^lo|hi", "u32 s32", _BINARY)
    yield Opcode("mad24", _C.INT_MUL24)
    yield computed(_multiply_add_24, "lo hi sat")
    yield Form("^lo|hi", "u32 s32", _TERNARY)
    yield Form("^hi sat", "s32", _TERNARY)
    yield Opcode("dp4a", _C.INT_DOT)
    yield computed(_dot_product(4, (8, 8)))
    yield Form("", "u32 s32", "=u32 u32 u32 u32", "u32 s32")
    yield Opcode("dp2a", _C.INT_DOT)
    yield computed(_dot_product(2, (16, 8)), "lo hi")
    yield Form("^lo|hi", "u32 s32", "=u32 u32 u32 u32", "u32 s32")


def _float_ternary() -> Rows:
    yield Form(f"{_ROUNDED} [ftz] [sat]", "f32", _TERNARY)
    yield Form(_ROUNDED, "f64", _TERNARY)


def _quotient_rows() -> Rows:
    yield Opcode("div", _DIV)
    yield computed(single(lambda s: s[0].divided_by(s[1], signed=s.kind.is_signed)))
    yield Form("", _ALL, _BINARY)
    yield Form("approx|full|rn|rz|rm|rp [ftz]", "f32", _BINARY)
    yield Form(_ROUNDED, "f64", _BINARY)
    yield Opcode("rem", _C.INT_DIV)
    yield computed(single(lambda s: s[0].remainder(s[1], signed=s.kind.is_signed)))
    yield Form("", _ALL, _BINARY)


def _order_rows() -> Rows:
    for name in ("min", "max"):
        yield Opcode(name, _MINMAX)
        yield computed(_extremum(name == "max"), "relu", packed=True)
        yield Form("", f"{_SHORT} u32 u64 s64 u16x2", _BINARY)
        yield Form("[relu]", "s32 s16x2", _BINARY)
        yield Form("[ftz] [NaN] [xorsign] [abs]", "f32 f16 f16x2", _BINARY)
        yield Form("[ftz] [NaN] [abs]", "f32", _TERNARY)
        yield Form("", "f64", _BINARY)
        yield Form("[NaN] [xorsign] [abs]", "bf16 bf16x2", _BINARY)
    yield Opcode("sad", _C.SIGN)
    yield computed(_distance)
    yield Form("", _ALL, _TERNARY)
    for name in ("neg", "abs"):
        yield Opcode(name, _SIGN)
        yield computed(single(lambda s: -s[0]) if name == "neg" else single(_magnitude))
        yield Form("", "s16 s32 s64", _UNARY)
        yield Form("[ftz]", "f32 f16 f16x2", _UNARY)
        yield Form("", "f64 bf16 bf16x2", _UNARY)
    yield Opcode("copysign", _C.SIGN)
    yield Form("", "f32 f64", _BINARY)
    yield Opcode("testp", _C.COMPARE)
    yield Form("finite|infinite|number|notanumber|normal|subnormal", "f32 f64", "=pred 1")


def _function_rows() -> Rows:
    for name in ("rcp", "sqrt"):
        yield Opcode(name, _SFU)
        yield Form("approx|rn|rz|rm|rp [ftz]", "f32", _UNARY)
        yield Form(_ROUNDED, "f64", _UNARY)
        if name == "rcp":
            yield Form("approx ftz", "f64", _UNARY)
    yield Opcode("rsqrt", _SFU)
    yield Form("approx [ftz]", "f32 f64", _UNARY)
    for name in ("sin", "cos", "lg2"):
        yield Opcode(name, _SFU)
        yield Form("approx [ftz]", "f32", _UNARY)
    yield Opcode("ex2", _SFU)
    yield Form("approx [ftz]", "f32", _UNARY)
    yield Form("approx", "f16 f16x2", _UNARY)
    yield Form("approx ftz", "bf16 bf16x2", _UNARY)
    yield Opcode("tanh", _SFU)
    yield Form("approx", "f32 f16 f16x2 bf16 bf16x2", _UNARY)


# --- results of the opcodes on integers -----------------------------------------------------------


def _greatest(a: Term, b: Term, *, signed: bool) -> Term:
    return a.less_than(b, signed=signed).choose(b, a)


def _magnitude(s: Sources) -> Term:
    return s[0].less_than(0, signed=True).choose(-s[0], s[0])


def _by_halves(build: Callable[[Sources, Term, Term], Term]) -> Row:
    """Builds a row from an operation on two operands; a packed type applies it to each half."""

    def row(s: Sources) -> tuple[Term, ...]:
        if s.kind.count == 1:
            return (build(s, s[0], s[1]),)
        high, low = (build(s, s[0].part(at, 16), s[1].part(at, 16)) for at in (16, 0))
        return (high.above(low),)

    return row


def _sum(sign: int) -> Row:
    def sum_or_difference(s: Sources, a: Term, b: Term) -> Term:
        if "sat" not in s.words:
            return a + b if sign > 0 else a - b
        x, y = (each.extended(a.width + 1, signed=True) for each in (a, b))
        return saturated(x + y if sign > 0 else x - y, a.width)

    halves = _by_halves(sum_or_difference)

    def row(s: Sources) -> tuple[Term, ...] | None:
        return _with_carry(s, sign, const(sign < 0, 1)) if "cc" in s.words else halves(s)

    return row


def _with_carry(s: Sources, sign: int, carry: Term) -> tuple[Term, ...]:
    """Computes a sum or difference with the incoming carry flag, and the outgoing flag."""
    return _carried(s[0], s[1], sign, carry)


def _carried(a: Term, b: Term, sign: int, carry: Term) -> tuple[Term, ...]:
    """Computes a sum or difference with its carry flag; after a difference, 1 means no borrow.

    The manual calls the flag of a difference a borrow. Both readings agree unless a sum uses the
    flag of a difference or the reverse; for that case, this is the behaviour of the machines.
    """
    width = a.width
    come = (carry if sign > 0 else ~carry).extended(width, signed=False)
    x, y, c = (each.extended(width + 1, signed=False) for each in (a, b, come))
    if sign > 0:
        return a + b + come, (x + y + c).part(width, 1)
    return a - b - come, ~(x - y - c).part(width, 1)


def _sum_of_carry(sign: int) -> Row:
    return lambda s: _with_carry(s, sign, s.read(len(s) - 1, 1))


def _product(s: Sources) -> Term | None:
    a, b, width = s[0], s[1], s.width
    if "lo" in s.words:
        return a * b
    x, y = (each.extended(2 * width, signed=s.kind.is_signed) for each in (a, b))
    if "wide" in s.words:
        return x * y
    return (x * y).part(width, width) if "hi" in s.words else None


def _multiply(s: Sources) -> tuple[Term, ...] | None:
    product = _product(s)
    return None if product is None else (product,)


def _multiply_add(s: Sources) -> tuple[Term, ...] | None:
    product = _product(s)
    if product is None:
        return None
    summand = s.read(2, product.width)
    if "cc" in s.words:
        return _carried(product, summand, 1, const(0, 1))
    if "sat" in s.words:
        x, y = (each.extended(product.width + 1, signed=True) for each in (product, summand))
        return (saturated(x + y, product.width),)
    return (product + summand,)


def _multiply_add_carry(s: Sources) -> tuple[Term, ...] | None:
    product = _product(s)
    if product is None or ("hi" in s.words and s.width == 16):  # ptxas drops its upper half
        return None
    return _carried(product, s.read(2, product.width), 1, s.read(len(s) - 1, 1))


def _product_of_24(s: Sources) -> Term:
    x, y = (s.read(place, 24).extended(48, signed=s.kind.is_signed) for place in (0, 1))
    return (x * y).part(16 if "hi" in s.words else 0, 32)


def _multiply_add_24(s: Sources) -> tuple[Term, ...]:
    product, summand = _product_of_24(s), s[2]
    if "sat" in s.words:
        x, y = (each.extended(33, signed=True) for each in (product, summand))
        return (saturated(x + y, 32),)
    return (product + summand,)


def _dot_product(lanes: int, bits: tuple[int, int]) -> Row:
    """Builds the row of ``dp4a`` or ``dp2a``: a sum of products of typed parts, plus a summand."""

    def row(s: Sources) -> tuple[Term, ...]:
        kinds = s.operation.types
        start = 2 if "hi" in s.words else 0
        total = s.read(2, 32)
        for lane in range(lanes):
            a = s.read(0, 32).part(lane * bits[0], bits[0])
            b = s.read(1, 32).part((start + lane) * bits[1], bits[1])
            x, y = (
                part.extended(32, signed=kind.is_signed)
                for part, kind in zip((a, b), kinds, strict=True)
            )
            total = total + x * y
        return (total,)

    return row


def _extremum(largest: bool) -> Row:
    def extremum(s: Sources, a: Term, b: Term) -> Term:
        signed = s.kind.is_signed
        chosen = _greatest(a, b, signed=signed) if largest else least(a, b, signed=signed)
        if "relu" not in s.words:
            return chosen
        return chosen.less_than(0, signed=True).choose(const(0, a.width), chosen)

    return _by_halves(extremum)


def _distance(s: Sources) -> tuple[Term, ...]:
    a, b = s[0], s[1]
    return (a.less_than(b, signed=s.kind.is_signed).choose(b - a, a - b) + s[2],)
