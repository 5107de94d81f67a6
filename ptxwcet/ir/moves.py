"""Lists the opcodes of comparisons, copies and conversions, their forms, and integer semantics.

Source: the PTX ISA manual, chapter 9, section by section.
"""

from __future__ import annotations

from ptxwcet.ir.meanings import Rows, Sources, computed, saturated, single
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.operation import NumberKind
from ptxwcet.ir.permitted import Form
from ptxwcet.ir.terms import Term, const

_C = OpClass
_ALL = "u16 s16 u32 s32 u64 s64"
_BITS = "b16 b32 b64"
_ROUND = "[rn|rz|rm|rp]"
_ROUNDED = "rn|rz|rm|rp"
_LESS = "eq|ne|lt|le|gt|ge"
_FLOAT_LESS = f"{_LESS}|equ|neu|ltu|leu|gtu|geu|num|nan"
_SHARED = "shared|shared::cta|shared::cluster"


def rows() -> Rows:
    """Yields all rows of this family."""
    yield from _comparison_rows()
    yield from _move_rows()
    yield from _conversion_rows()
    yield from _narrow_rows()
    yield from _address_rows()


_COMPARED = (
    ("eq|ne", _BITS, ""),
    (_LESS, "s16 s32 s64", ""),
    (f"{_LESS}|lo|ls|hi|hs", "u16 u32 u64", ""),
    (_FLOAT_LESS, "f32", " [ftz]"),
    (_FLOAT_LESS, "f64 bf16 bf16x2", ""),
    (_FLOAT_LESS, "f16 f16x2", " [ftz]"),
)
"""The comparison operators, the types that they accept, and the optional modifiers."""


def _comparison_rows() -> Rows:
    yield Opcode("setp", _C.COMPARE, discards=True)
    yield computed(_compared, " ".join(_COMPARISONS | _JOINS))
    for less, types, rest in _COMPARED:
        yield Form(f"{less}{rest}", types, "=pred/pred 1 1")
        yield Form(f"{less} and|or|xor{rest}", types, "=pred/pred 1 1 !pred")
    yield Opcode("set", _C.COMPARE)
    yield computed(_set, " ".join(_COMPARISONS | _JOINS), floats=True)
    whole = "u32 s32 f32 f16 bf16 u16 s16 f16x2 bf16x2"
    for less, types, rest in _COMPARED:
        yield Form(f"{less}{rest}", whole, "=1 2 2", types)
        yield Form(f"{less} and|or|xor{rest}", whole, "=1 2 2 !pred", types)
    yield Opcode("selp", _C.MOVE)
    yield computed(_selected, floats=True)
    yield Form("", f"{_BITS} {_ALL} f32 f64", "=1 1 1 !pred")
    yield Opcode("slct", _C.MOVE)
    yield computed(_selected_by_sign, floats=True)
    yield Form("", f"{_BITS} {_ALL} f32 f64", "=1 1 1 2", "s32")
    yield Form("[ftz]", f"{_BITS} {_ALL} f32 f64", "=1 1 1 2", "f32")


def _move_rows() -> Rows:
    yield Opcode("mov", _C.MOVE, operands=(2, 2), special_sources=True, unjudged=("v[248]", 1))
    yield computed(_copied, floats=True, packed=True)
    yield Form("", f"{_ALL} f32 f64", "=1 &1")
    yield Form("", "pred", "=1 !1")
    yield Form("", f"{_BITS} b128", "=%1 %&1")


def _address_rows() -> Rows:
    spaces = "global|shared|shared::cta|shared::cluster|local|const|param|param::entry"
    yield Opcode("cvta", _C.MOVE)
    # Addresses of windows other than global memory are changed, so they have no row.
    yield computed(single(lambda s: s[0]), "global to")
    yield Form(spaces, "u32 u64", "=1 &1")
    yield Form(f"to {spaces}", "u32 u64", "=1 1")
    yield Opcode("isspacep", _C.MOVE)
    spaces = f"const|global|local|{_SHARED}|param|param::entry"
    for width in ("u64", "u32"):
        yield Form(spaces, "", f"=pred {width}")
    yield Opcode("istypep", _C.MOVE)
    yield Form("texref|samplerref|surfref", "", "=pred &u64")
    for name, operands in (("getctarank", "=u32 &1"), ("mapa", "=1 &1 u32")):
        yield Opcode(name, _C.MOVE)
        yield Form("[shared::cluster]", "u32 u64", operands)


def _conversion_rows() -> Rows:
    yield Opcode("cvt", _C.MOVE, operands=(2, 5), special_sources=True, unjudged=("s2f6", 2))
    yield computed(_converted, "sat")
    small, whole = f"u8 s8 {_ALL}", "=~1 ~2"
    for kind in small.split():
        signed, width = kind[0] == "s", int(kind[1:])
        sources = [(name, name[0] == "s", int(name[1:])) for name in small.split()]
        inside = [
            src for src, minus, bits in sources if src == kind or (bits < width and signed >= minus)
        ]
        outside = " ".join(name for name, *_ in sources if name not in inside)
        yield Form("", kind, whole, " ".join(inside))
        yield Form("[sat]", kind, whole, outside)
    to_whole = "rni|rzi|rmi|rpi"
    yield Form(f"{to_whole} [sat]", small, whole, "f16 f64")
    yield Form(to_whole, small, whole, "bf16")
    yield Form(f"{to_whole} [ftz] [sat]", small, whole, "f32")
    yield Form(f"{_ROUNDED} [sat]", "f16", whole, f"{small} f64")
    yield Form(f"{_ROUNDED} [sat]", "f64", whole, small)
    yield Form(_ROUNDED, "bf16", whole, f"{small} f64")
    yield Form(f"{_ROUNDED} [ftz] [sat]", "f32", whole, f"{small} f64")
    yield Form(f"[{to_whole}] [sat]", "f16", whole, "f16")
    yield Form(f"[{to_whole}] [sat]", "f64", whole, "f64")
    yield Form(f"[{to_whole}]", "bf16", whole, "bf16")
    yield Form(f"[{to_whole}] [ftz] [sat]", "f32", whole, "f32")
    yield Form(_ROUND, "f16", whole, "bf16")
    yield Form(_ROUND, "bf16", whole, "f16")
    yield Form(_ROUND, "f64", whole, "bf16")
    yield Form(f"{_ROUND} [ftz]", "f32", whole, "bf16")
    yield Form(f"{_ROUNDED} [ftz] [sat]", "f16", whole, "f32")
    yield Form("rn|rz relu|satfinite", "f16 bf16", whole, "f32")
    yield Form("rn|rz relu satfinite", "f16 bf16", whole, "f32")
    yield Form(f"{_ROUNDED} [ftz]", "bf16", whole, "f32")
    yield Form("[sat]", "f64", whole, "f16")
    yield Form("[ftz] [sat]", "f32", whole, "f16")
    yield Form("[ftz] [sat]", "f64", whole, "f32")


def _narrow_rows() -> Rows:
    """Yields conversions of pairs and quadruples, and to formats of at most 19 bits."""
    eight, small = "e4m3x2|e5m2x2", "e2m3x2|e3m2x2"
    yield Form("rn|rz [relu] [satfinite]", "f16x2 bf16x2", "=~1 ~2 ~2", "f32")
    yield Form("rs [relu] [satfinite]", "f16x2 bf16x2", "=~1 ~2 ~2 b32", "f32")
    yield Form("rna [satfinite]", "tf32", "=1 2", "f32")
    yield Form("rn|rz [relu] [satfinite]", "tf32", "=1 2", "f32")
    for kinds, width in ((f"{eight}|{small}", "b16"), ("e2m1x2", "b8")):
        yield Form(f"rn satfinite [relu] {kinds}", "f32", f"={width} 1 1")
        yield Form(f"rn satfinite [relu] {kinds}", "f16x2", f"={width} 1")
        yield Form(f"rn [relu] {kinds}", "f16x2", f"=1 {width}")
    quadruple = "4xf32 b32"
    words = "rs satfinite [relu]"
    yield Form(f"{words} e4m3x4|e5m2x4|e2m3x4|e3m2x4", "f32", f"=b32 {quadruple}")
    yield Form(f"{words} e2m1x4", "f32", f"=b16 {quadruple}")
    yield Form("rz|rp [satfinite] ue8m0x2", "f32", "=b16 1 1")
    yield Form("rz|rp [satfinite] ue8m0x2", "bf16x2", "=b16 1")
    yield Form("rn ue8m0x2", "bf16x2", "=1 b16")
    yield Opcode("cvt.pack", _C.MOVE)
    yield Form("sat", "u16 s16", "=u32 s32 s32", "s32")
    yield Form("sat", "u8 s8 u4 s4 u2 s2", "=u32 s32 s32 b32", "s32", more="b32")


# --- results of the opcodes on integers -----------------------------------------------------------


_ORDERS = ("lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
_COMPARISONS = frozenset({"eq", "ne", *_ORDERS})
_JOINS = frozenset({"and", "or", "xor"})


def _outcome(s: Sources) -> Term | None:
    operator = s.words[0] if s.words else ""
    kind, a, b = s.kind, s[0], s[1]
    if kind.kind in (NumberKind.PREDICATE, NumberKind.FLOAT):
        return None
    if operator in ("eq", "ne"):
        return a.equals(b) if operator == "eq" else ~a.equals(b)
    if kind.kind is NumberKind.BITS or operator not in _ORDERS:
        return None
    signed = kind.is_signed and operator in ("lt", "le", "gt", "ge")
    if operator in ("lt", "lo"):
        return a.less_than(b, signed=signed)
    if operator in ("gt", "hi"):
        return b.less_than(a, signed=signed)
    more, less = b.less_than(a, signed=signed), a.less_than(b, signed=signed)
    return ~more if operator in ("le", "ls") else ~less


def _joined(s: Sources, outcome: Term) -> tuple[Term, Term] | None:
    """Returns the outcome and its opposite, each combined with an optional third operand."""
    if len(s) == 2:
        return outcome, ~outcome
    third = s.read(2, 1)
    match s.words[1:]:
        case ("and",):
            return outcome & third, ~outcome & third
        case ("or",):
            return outcome | third, ~outcome | third
        case ("xor",):
            return outcome ^ third, ~outcome ^ third
    return None


def _compared(s: Sources) -> tuple[Term, ...] | None:
    outcome = _outcome(s)
    return None if outcome is None else _joined(s, outcome)


def _set(s: Sources) -> tuple[Term, ...] | None:
    outcome = _outcome(s)
    joined = None if outcome is None else _joined(s, outcome)
    target = s.operation.types[0]
    if joined is None or target.width != 32:
        return None
    yes = 0x3F80_0000 if target.kind is NumberKind.FLOAT else -1
    return (joined[0].choose(const(yes, 32), const(0, 32)),)


def _selected(s: Sources) -> tuple[Term, ...]:
    return (s.read(2, 1).choose(s[0], s[1]),)


def _selected_by_sign(s: Sources) -> tuple[Term, ...] | None:
    target, chooser = s.operation.types
    if chooser.kind is NumberKind.FLOAT:
        return None
    a, b = (s.read(place, target.width) for place in (0, 1))
    return (s.read(2, 32).less_than(0, signed=True).choose(b, a),)


def _copied(s: Sources) -> tuple[Term, ...] | None:
    """Computes ``mov``: a copy, a concatenation of several numbers, or a split into several."""
    width = s.width
    if len(s) == 1:
        if 0 < s.bits(0) < width or width % s.targets:
            return None
        part = width // s.targets
        return tuple(s[0].part(place * part, part) for place in range(s.targets))
    each = [s.bits(place) for place in range(len(s))]
    if 0 in each or sum(each) != width or s.targets != 1:
        return None
    whole = s.read(0, each[0])
    for place in range(1, len(s)):
        whole = s.read(place, each[place]).above(whole)
    return (whole,)


def _converted(s: Sources) -> tuple[Term, ...] | None:
    if len(s.operation.types) != 2:
        return None
    target, origin = s.operation.types
    value = s.read(0, origin.width)
    if "sat" not in s.words:
        return (value.resized(target.width, signed=origin.is_signed),)
    wide = max(target.width, origin.width) + 2
    return (
        saturated(
            value.extended(wide, signed=origin.is_signed), target.width, signed=target.is_signed
        ),
    )
