"""The forms of each opcode, one row for each group of types. ``permitted.py`` says how to read one.

Opcodes that are left out (branches, calls) are judged elsewhere; a few forms of others are taken as
written (``_PARTLY``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ptxwcet.ir import permitted_async, permitted_matrix, permitted_memory, permitted_texture
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.opcodes import Opcode, count_types
from ptxwcet.ir.permitted import Form, matching
from ptxwcet.ir.permitted_operands import operand_counts, refusal

_WIDE = "u32 s32 u64 s64"
_SHORT = "u16 s16"
_ALL = f"{_SHORT} {_WIDE}"
_BITS = "b16 b32 b64"
_ROUND = "[rn|rz|rm|rp]"
_ROUNDED = "rn|rz|rm|rp"
_BINARY, _TERNARY, _UNARY = "=1 1 1", "=1 1 1 1", "=1 1"
_LESS = "eq|ne|lt|le|gt|ge"
_FLOAT_LESS = f"{_LESS}|equ|neu|ltu|leu|gtu|geu|num|nan"

_Rows = Iterator[tuple[str, Form]]


def _integer_rows() -> _Rows:
    yield "add", Form("", f"{_SHORT} u16x2 s16x2", _BINARY)
    yield "sub", Form("", _SHORT, _BINARY)
    for name in ("add", "sub"):
        yield name, Form("[cc]", "u32 u64 s64", _BINARY)
        yield name, Form("[cc|sat]", "s32", _BINARY)
    for name in ("addc", "subc"):
        yield name, Form("", _SHORT, _BINARY)
        yield name, Form("[cc]", _WIDE, _BINARY)
        yield name, Form("sat", "s32", _BINARY, documented=False)
    yield "mul", Form("^lo|hi", _ALL, _BINARY)
    yield "mul", Form("^wide", f"{_SHORT} u32 s32", "=W 1 1")
    yield "mad", Form("^lo|hi", _SHORT, _TERNARY)
    yield "mad", Form("^lo|hi [cc]", _WIDE, _TERNARY)
    yield "mad", Form("^wide", f"{_SHORT} u32 s32", "=W 1 1 W")
    yield "mad", Form("^hi sat", "s32", _TERNARY)
    yield "madc", Form("^lo|hi", _SHORT, _TERNARY)
    yield "madc", Form("^lo|hi [cc]", _WIDE, _TERNARY)
    yield "madc", Form("^hi sat", "s32", _TERNARY, documented=False)
    yield "mul24", Form("^lo|hi", "u32 s32", _BINARY)
    yield "mad24", Form("^lo|hi", "u32 s32", _TERNARY)
    yield "mad24", Form("^hi sat", "s32", _TERNARY)
    yield "div", Form("", _ALL, _BINARY)
    yield "rem", Form("", _ALL, _BINARY)
    for name in ("min", "max"):
        yield name, Form("", f"{_SHORT} u32 u64 s64 u16x2", _BINARY)
        yield name, Form("[relu]", "s32 s16x2", _BINARY)
    yield "sad", Form("", _ALL, _TERNARY)
    for name in ("neg", "abs"):
        yield name, Form("", "s16 s32 s64", _UNARY)
    yield "dp4a", Form("", "u32 s32", "=u32 u32 u32 u32", "u32 s32")
    yield "dp2a", Form("^lo|hi", "u32 s32", "=u32 u32 u32 u32", "u32 s32")


def _bit_rows() -> _Rows:
    for name in ("and", "or", "xor"):
        yield name, Form("", _BITS, _BINARY)
        yield name, Form("", "pred", "=1 !1 !1")
    yield "not", Form("", _BITS, _UNARY)
    yield "not", Form("", "pred", "=1 !1")
    yield "cnot", Form("", _BITS, _UNARY)
    yield "lop3", Form("", "b32", "=b32 b32 b32 b32 $b32")
    yield "lop3", Form("or|and", "b32", "=b32/pred b32 b32 b32 $b32 !pred")
    yield "shl", Form("", _BITS, "=1 1 u32")
    yield "shr", Form("", f"{_BITS} {_ALL}", "=1 1 u32")
    yield "shf", Form("^l|r clamp|wrap", "b32", "=b32 b32 b32 u32")
    yield "bfe", Form("", _WIDE, "=1 1 u32#0:255 u32#0:255")
    yield "bfi", Form("", "b32 b64", "=1 1 1 u32#0:255 u32#0:255")
    yield "bfind", Form("[shiftamt]", _WIDE, "=u32 1")
    for name in ("popc", "clz"):
        yield name, Form("", "b32 b64", "=u32 1")
    yield "brev", Form("", "b32 b64", _UNARY)
    yield "fns", Form("", "b32", "=b32 b32 b32 s32")
    yield "prmt", Form("[f4e|b4e|rc8|ecl|ecr|rc16]", "b32", "=b32 b32 b32 b32")
    yield "szext", Form("clamp|wrap", "u32 s32", "=1 1 u32")
    yield "bmsk", Form("clamp|wrap", "b32", "=b32 u32 u32")


def _float_rows() -> _Rows:
    for name in ("add", "sub", "mul"):
        yield name, Form(f"{_ROUND} [ftz] [sat]", "f32", _BINARY)
        yield name, Form(_ROUND, "f64", _BINARY)
        yield name, Form("[rn] [ftz] [sat]", "f16 f16x2", _BINARY)
        yield name, Form("[rn]", "bf16 bf16x2", _BINARY)
        yield name, Form(f"{_ROUND} [ftz]", "f32x2", _BINARY)
    for name in ("add", "sub"):
        yield name, Form(f"{_ROUND} [sat]", "f32", "=1 2 1", "f16 bf16")
    for name in ("fma", "mad"):
        yield name, Form(f"{_ROUNDED} [ftz] [sat]", "f32", _TERNARY)
        yield name, Form(_ROUNDED, "f64", _TERNARY)
    yield "mad", Form("[ftz] [sat]", "f32", _TERNARY)  # of the first targets
    yield "fma", Form("rn [ftz] [sat|relu]", "f16 f16x2", _TERNARY)
    yield "fma", Form("rn [relu|oob]", "bf16 bf16x2", _TERNARY)
    yield "fma", Form("rn [relu] oob", "f16 f16x2 bf16 bf16x2", _TERNARY)
    yield "fma", Form(f"{_ROUNDED} [ftz]", "f32x2", _TERNARY)
    yield "fma", Form(f"{_ROUNDED} [sat]", "f32", "=1 2 2 1", "f16 bf16")
    yield "div", Form("approx|full|rn|rz|rm|rp [ftz]", "f32", _BINARY)
    yield "div", Form(_ROUNDED, "f64", _BINARY)
    for name in ("neg", "abs"):
        yield name, Form("[ftz]", "f32 f16 f16x2", _UNARY)
        yield name, Form("", "f64 bf16 bf16x2", _UNARY)
    for name in ("min", "max"):
        yield name, Form("[ftz] [NaN] [xorsign] [abs]", "f32 f16 f16x2", _BINARY)
        yield name, Form("[ftz] [NaN] [abs]", "f32", _TERNARY, least=100)
        yield name, Form("", "f64", _BINARY)
        yield name, Form("[NaN] [xorsign] [abs]", "bf16 bf16x2", _BINARY)
    for name in ("rcp", "sqrt"):
        yield name, Form("approx|rn|rz|rm|rp [ftz]", "f32", _UNARY)
        yield name, Form(_ROUNDED, "f64", _UNARY)
    yield "rcp", Form("approx ftz", "f64", _UNARY)
    yield "rsqrt", Form("approx [ftz]", "f32 f64", _UNARY)
    for name in ("sin", "cos", "lg2"):
        yield name, Form("approx [ftz]", "f32", _UNARY)
    yield "ex2", Form("approx [ftz]", "f32", _UNARY)
    yield "ex2", Form("approx", "f16 f16x2", _UNARY)
    yield "ex2", Form("approx ftz", "bf16 bf16x2", _UNARY)
    yield "tanh", Form("approx", "f32 f16 f16x2 bf16 bf16x2", _UNARY)
    yield "copysign", Form("", "f32 f64", _BINARY)
    yield "testp", Form("finite|infinite|number|notanumber|normal|subnormal", "f32 f64", "=pred 1")


def _comparison_rows() -> _Rows:
    groups = (
        ("eq|ne", _BITS, ""),
        (_LESS, "s16 s32 s64", ""),
        (f"{_LESS}|lo|ls|hi|hs", "u16 u32 u64", ""),
        (_FLOAT_LESS, "f32", " [ftz]"),
        (_FLOAT_LESS, "f64 bf16 bf16x2", ""),
        (_FLOAT_LESS, "f16 f16x2", " [ftz]"),
    )
    for less, types, rest in groups:
        yield "setp", Form(f"{less}{rest}", types, "=pred/pred 1 1")
        yield "setp", Form(f"{less} and|or|xor{rest}", types, "=pred/pred 1 1 !pred")
        whole = "u32 s32 f32 f16 bf16 u16 s16 f16x2 bf16x2"
        yield "set", Form(f"{less}{rest}", whole, "=1 2 2", types)
        yield "set", Form(f"{less} and|or|xor{rest}", whole, "=1 2 2 !pred", types)
    yield "selp", Form("", f"{_BITS} {_ALL} f32 f64", "=1 1 1 !pred")
    yield "slct", Form("", f"{_BITS} {_ALL} f32 f64", "=1 1 1 2", "s32")
    yield "slct", Form("[ftz]", f"{_BITS} {_ALL} f32 f64", "=1 1 1 2", "f32")


def _move_rows() -> _Rows:
    yield "mov", Form("", f"{_ALL} f32 f64", "=1 &1")
    yield "mov", Form("", "pred", "=1 !1")
    yield "mov", Form("", f"{_BITS} b128", "=%1 %&1")
    spaces = "global|shared|shared::cta|shared::cluster|local|const|param|param::entry"
    yield "cvta", Form(spaces, "u32 u64", "=1 &1")
    yield "cvta", Form(f"to {spaces}", "u32 u64", "=1 1")


def _conversion_rows() -> _Rows:
    small, whole = f"u8 s8 {_ALL}", "=~1 ~2"
    for kind in small.split():
        signed, width = kind[0] == "s", int(kind[1:])
        sources = [(one, one[0] == "s", int(one[1:])) for one in small.split()]
        inside = [
            one for one, minus, bits in sources if one == kind or (bits < width and signed >= minus)
        ]
        outside = " ".join(one for one, *_ in sources if one not in inside)
        yield "cvt", Form("", kind, whole, " ".join(inside))
        yield "cvt", Form("[sat]", kind, whole, outside)
    to_whole = "rni|rzi|rmi|rpi"
    yield "cvt", Form(f"{to_whole} [sat]", small, whole, "f16 f64")
    yield "cvt", Form(to_whole, small, whole, "bf16")
    yield "cvt", Form(f"{to_whole} [ftz] [sat]", small, whole, "f32")
    yield "cvt", Form(f"{_ROUNDED} [sat]", "f16", whole, f"{small} f64")
    yield "cvt", Form(f"{_ROUNDED} [sat]", "f64", whole, small)
    yield "cvt", Form(_ROUNDED, "bf16", whole, f"{small} f64")
    yield "cvt", Form(f"{_ROUNDED} [ftz] [sat]", "f32", whole, f"{small} f64")
    yield "cvt", Form(f"[{to_whole}] [sat]", "f16", whole, "f16")
    yield "cvt", Form(f"[{to_whole}] [sat]", "f64", whole, "f64")
    yield "cvt", Form(f"[{to_whole}]", "bf16", whole, "bf16")
    yield "cvt", Form(f"[{to_whole}] [ftz] [sat]", "f32", whole, "f32")
    yield "cvt", Form(_ROUND, "f16", whole, "bf16")
    yield "cvt", Form(_ROUND, "bf16", whole, "f16")
    yield "cvt", Form(_ROUND, "f64", whole, "bf16")
    yield "cvt", Form(f"{_ROUND} [ftz]", "f32", whole, "bf16")
    yield "cvt", Form(f"{_ROUNDED} [ftz] [sat]", "f16", whole, "f32")
    yield "cvt", Form("rn|rz relu|satfinite", "f16 bf16", whole, "f32")
    yield "cvt", Form("rn|rz relu satfinite", "f16 bf16", whole, "f32")
    yield "cvt", Form(f"{_ROUNDED} [ftz]", "bf16", whole, "f32")
    yield "cvt", Form("[sat]", "f64", whole, "f16")
    yield "cvt", Form("[ftz] [sat]", "f32", whole, "f16")
    yield "cvt", Form("[ftz] [sat]", "f64", whole, "f32")


def _narrow_rows() -> _Rows:
    """Conversions of pairs and quadruples, and to formats of at most 19 bits."""
    eight, small = "e4m3x2|e5m2x2", "e2m3x2|e3m2x2"
    yield "cvt", Form("rn|rz [relu] [satfinite]", "f16x2 bf16x2", "=~1 ~2 ~2", "f32")
    yield "cvt", Form("rs [relu] [satfinite]", "f16x2 bf16x2", "=~1 ~2 ~2 b32", "f32")
    yield "cvt", Form("rna [satfinite]", "tf32", "=1 2", "f32")
    yield "cvt", Form("rn|rz [relu] [satfinite]", "tf32", "=1 2", "f32")
    for kinds, width in ((f"{eight}|{small}", "b16"), ("e2m1x2", "b8")):
        yield "cvt", Form(f"rn satfinite [relu] {kinds}", "f32", f"={width} 1 1")
        yield "cvt", Form(f"rn satfinite [relu] {kinds}", "f16x2", f"={width} 1")
        yield "cvt", Form(f"rn [relu] {kinds}", "f16x2", f"=1 {width}")
    quadruple = "4xf32 b32"
    words = "rs satfinite [relu]"
    yield "cvt", Form(f"{words} e4m3x4|e5m2x4|e2m3x4|e3m2x4", "f32", f"=b32 {quadruple}")
    yield "cvt", Form(f"{words} e2m1x4", "f32", f"=b16 {quadruple}")
    yield "cvt", Form("rz|rp [satfinite] ue8m0x2", "f32", "=b16 1 1")
    yield "cvt", Form("rz|rp [satfinite] ue8m0x2", "bf16x2", "=b16 1")
    yield "cvt", Form("rn ue8m0x2", "bf16x2", "=1 b16")
    yield "cvt.pack", Form("sat", "u16 s16", "=u32 s32 s32", "s32")
    yield "cvt.pack", Form("sat", "u8 s8 u4 s4 u2 s2", "=u32 s32 s32 b32", "s32", more="b32")


def _rows() -> _Rows:
    yield from _integer_rows()
    yield from _bit_rows()
    yield from _float_rows()
    yield from _comparison_rows()
    yield from _move_rows()
    yield from _conversion_rows()
    yield from _narrow_rows()
    yield from permitted_memory.rows()
    yield from permitted_async.rows()
    yield from permitted_matrix.rows()
    yield from permitted_texture.rows()


def _by_opcode() -> Mapping[str, tuple[Form, ...]]:
    found: dict[str, list[Form]] = {}
    for name, form in _rows():
        found.setdefault(name, []).append(form)
    return MappingProxyType({name: tuple(forms) for name, forms in found.items()})


def is_judged(name: str, modifiers: Sequence[str]) -> bool:
    """Whether rows say which forms of an instruction exist."""
    if name not in FORMS or name not in _PARTLY:
        return name in FORMS
    word, most = _PARTLY[name]
    return count_types(modifiers) > most or not any(map(word.match, modifiers))


_PARTLY = {
    "cvt": (re.compile("s2f6"), 2),
    "mov": (re.compile("v[248]"), 1),
}
"""Words whose forms are not judged, if there are no more types than that."""


FORMS: Mapping[str, tuple[Form, ...]] = _by_opcode()
"""The forms of each opcode that is judged."""


def counts_of(opcode: Opcode) -> tuple[tuple[int, int], int]:
    """The least and largest number of operands, and how many leading ones are written."""
    if opcode.operands is not None:
        return opcode.operands, opcode.destinations
    return operand_counts(FORMS[opcode.name])


def misfit(instruction: Instruction, types: Mapping[str, str]) -> str:
    """Why the operands of an instruction that is judged fit none of its forms; empty if they do.

    ``types``: of its registers.
    """
    assert instruction.opcode is not None
    forms, _ = matching(FORMS[instruction.opcode.name], instruction.modifiers)
    found = refusal(forms, instruction, types, {})
    return "" if found is None else found.message
