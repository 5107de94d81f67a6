"""Lists the opcodes of textures, surfaces and video instructions, with their forms."""

from __future__ import annotations

from itertools import product

from ptxwcet.ir.meanings import Rows
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.permitted import Form

_C = OpClass


def rows() -> Rows:
    """Yields all rows of this family."""
    yield from _fetch_rows()
    yield from _query_rows()
    yield from _surface_rows()
    yield from _video_rows()
    yield from _packed_video_rows()


_GEOMETRIES = (
    ("1d", "f1", "s1", 1, True),
    ("2d", "f2", "s2", 2, True),
    ("3d", "f4", "s4", 4, False),
    ("a1d", "if2", "s2", 1, True),
    ("a2d", "if4", "s4", 2, True),
    ("cube", "f4", "", 0, True),
    ("acube", "if4", "", 0, True),
)
"""Coordinates as floats and as integers, elements of an offset, whether depths can be compared."""


def _tails(offset: int, compares: bool) -> list[str]:
    """Returns the operands that may follow the coordinates: an offset, a depth to compare with."""
    shifts, depths = ("", f" +{offset}xs32"), ("", " f32")
    tails = product(shifts if offset else shifts[:1], depths if compares else depths[:1])
    return [shift + depth for shift, depth in tails]


def _fetch_rows() -> Rows:
    yield Opcode("tex", _C.TEXTURE)
    for geometry, floats, whole, offset, compares in _GEOMETRIES:
        slope = f"{offset}xf32" if offset else "+1xf32"
        modes = (("", ""), ("^base ", ""), ("^level ", " f32"), ("^grad ", f" {slope} {slope}"))
        for (mode, detail), tail in product(modes, _tails(offset, compares)):
            for kind, coordinates in (("f32", floats), ("s32", whole)):
                if coordinates:
                    operands = f"[t]{coordinates}{detail}{tail}"
                    words = f"{mode}{geometry}"
                    yield Form(f"{words} v4", "u32 s32 f32", f"=4x1/pred {operands}", kind)
                    yield Form(f"{words} v2", "f16x2", f"=2x1/pred {operands}", kind)
    for geometry, (mode, detail) in product(("2dms", "a2dms"), (("", ""), ("^base ", ""))):
        for size, types in (("4", "u32 s32 f32"), ("2", "f16x2")):
            operands = f"={size}x1/pred [t]s4{detail}"
            yield Form(f"{mode}{geometry} v{size}", types, operands, "s32")
    yield Opcode("tld4", _C.TEXTURE)
    for geometry, floats, _, offset, compares in _GEOMETRIES:
        if geometry in ("2d", "a2d", "cube", "acube"):
            for tail in _tails(offset, compares):
                gather = f"=4x1/pred [t]{floats}{tail}"
                yield Form(f"^r|g|b|a {geometry} v4", "u32 s32 f32", gather, "f32")


def _query_rows() -> Rows:
    sizes = "width|height|depth"
    common = f"{sizes}|channel_data_type|channel_order|array_size|memory_layout"
    filters = "normalized_coords|force_unnormalized_coords|filter_mode|addr_mode_0|addr_mode_1"
    counts = "addr_mode_2|num_mipmap_levels|num_samples"
    yield Opcode("txq", _C.TEXTURE)
    yield Form(f"{common}|{filters}|{counts}", "b32", "=b32 [t]")
    yield Form(f"^level {sizes}", "b32", "=b32 [t] s32")
    yield Opcode("suq", _C.SURFACE)
    yield Form(common, "b32", "=b32 [s]")


def _surface_rows() -> Rows:
    outside, vector = "trap|clamp|zero", "[v2|v4]"
    kinds, numbers = "b8 b16 b32 b64", "b32 u32 s32 f32"
    arrays = (("1d", "s1"), ("2d", "s2"), ("3d", "s4"), ("a1d", "s2"), ("a2d", "s4"))
    yield Opcode("suld", _C.SURFACE)
    for geometry, coordinates in arrays:
        loads = f"^b {geometry} [ca|cg|cs|cv] {vector} {outside}"
        yield Form(loads, kinds, f"=<~1 [s]{coordinates}")
    yield Opcode("sust", _C.SURFACE)
    for geometry, coordinates in arrays:
        stores = f"{geometry} [wb|cg|cs|wt] {vector} {outside}"
        yield Form(f"^b {stores}", kinds, f"[s]{coordinates} <~1")
        yield Form(f"^p {stores}", numbers, f"[s]{coordinates} <~b32")
    yield Opcode("sured", _C.SURFACE)
    for geometry, coordinates in arrays[:3]:
        for operation, types in (
            ("add", "u32 s32 u64"),
            ("min|max", "u32 s32 u64 s64"),
            ("and|or", "b32"),
        ):
            yield Form(f"^b {operation} {geometry} {outside}", types, f"[s]{coordinates} ~1")
        words = f"add|min|max|and|or {geometry} {outside}"
        yield Form(f"^p {words}", "b32", f"[s]{coordinates} ~b32")


_WHOLE = "u32 s32"
_LESS = "eq|ne|lt|le|gt|ge"


def _video_rows() -> Rows:
    """Yields video forms; ``.s`` marks operands that permit selecting a byte or a half."""
    shift = "wrap|clamp"
    for name, words, third in (
        *((name, "[sat]", _WHOLE) for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax")),
        ("vshl", f"[sat] {shift}", "u32"),
        ("vshr", f"[sat] {shift}", "u32"),
        ("vset", _LESS, ""),
    ):
        yield Opcode(name, _C.VIDEO)
        for more, operands in (
            ("", "=u32 u32.s u32.s"),
            ("", "=u32.s u32.s u32.s u32"),
            (" add|min|max", "=u32 u32.s u32.s u32"),
        ):
            yield Form(f"{words}{more}", _WHOLE, operands, _WHOLE, more=third)
    words, operands = "[sat] [po] [shr7|shr15]", "=u32 -u32.s -u32.s -u32"
    yield Opcode("vmad", _C.VIDEO)
    yield Form(words, _WHOLE, operands, _WHOLE, more=_WHOLE)


def _packed_video_rows() -> Rows:
    """Yields forms on halves (``.h``) or bytes (``.b``) of two registers; ``m`` is their mask."""
    for count, part in (("2", "h"), ("4", "b")):
        operands = f"=u32.{part}m u32#.{part} u32#.{part} u32#"
        for name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
            yield Opcode(f"{name}{count}", _C.VIDEO)
            for words in ("[sat]", "add"):
                yield Form(words, _WHOLE, operands, _WHOLE, more=_WHOLE)
        yield Opcode(f"vset{count}", _C.VIDEO)
        yield Form(f"{_LESS} [add]", _WHOLE, operands, _WHOLE)
