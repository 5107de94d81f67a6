"""Lists the opcodes of matrix moves and of products by a warp, a warp group or an SM."""

from __future__ import annotations

from collections.abc import Iterator

from ptxwcet.ir.meanings import Rows
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.permitted import Form

_C = OpClass
_ROUND = "[rn|rz|rm|rp]"
_TILES = "m16n16k16|m8n32k16|m32n8k16"
_WARP = "sync aligned"
_PLACE = "[global|shared|shared::cta]"
_F8 = "e4m3|e5m2"
_NARROW = f"{_F8}|e3m2|e2m3|e2m1"
_TENSOR_CORE = "cta_group::1|cta_group::2"


def rows() -> Rows:
    """Yields all rows of this family."""
    yield from _moves()
    yield from _products()
    yield from _sparse_products()
    yield from _tile_moves()
    yield from _tile_products()
    yield from _group_products()
    yield from _tensor_memory()
    yield from _tensor_products()


def _moves() -> Rows:
    shared, packed = "[shared|shared::cta]", "b6x16_p32|b4x16_p64"
    yield Opcode("ldmatrix", _C.MATRIX_MOVE, accesses=True)
    for size in (1, 2, 4):
        tail = f"{shared} x{size} {_WARP}"
        yield Form(f"m8n8 [trans] {tail}", "b16", f"={size}xb32 []")
        yield Form(f"m8n16 {packed} {tail}", "b8x16", f"={size}xb32 []")
    for size in (1, 2):
        tail = f"m16n16 trans {shared} x{size} {_WARP}"
        yield Form(tail, "b8", f"={2 * size}xb32 []")
        yield Form(f"{tail} {packed}", "b8x16", f"={2 * size}xb32 []")
    yield Opcode("stmatrix", _C.MATRIX_MOVE, accesses=True)
    for size in (1, 2, 4):
        tail = f"{shared} x{size} {_WARP}"
        yield Form(f"m8n8 [trans] {tail}", "b16", f"[] {size}xb32")
        yield Form(f"m16n8 trans {tail}", "b8", f"[] {size}xb32")
    yield Opcode("movmatrix", _C.MATRIX_MOVE)
    yield Form(f"m8n8 trans {_WARP}", "b16", "=b32 b32")


def _products() -> Rows:
    yield Opcode("mma", _C.MMA)
    whole = "=MN:1 MK:2 KN:3 MN:4"
    head = f"{_WARP} row col"
    for kinds, shapes, words in (
        ("f16 f16 f16 f16", "m16n8k8|m16n8k16", ""),
        ("f32 f16 f16 f32", "m16n8k8|m16n8k16", ""),
        ("f32 bf16 bf16 f32", "m16n8k8|m16n8k16", ""),
        ("f32 tf32 tf32 f32", "m16n8k4|m16n8k8", ""),
        ("f64 f64 f64 f64", "m8n8k4|m16n8k4|m16n8k8|m16n8k16", _ROUND),
        ("s32 s8,u8 s8,u8 s32", "m8n8k16|m16n8k16|m16n8k32", "[satfinite]"),
        ("s32 s4,u4 s4,u4 s32", "m8n8k32|m16n8k32|m16n8k64", "[satfinite]"),
        ("s32 b1 b1 s32", "m8n8k128|m16n8k128|m16n8k256", "xor|and popc"),
    ):
        yield _typed(f"{head} {shapes} {words}", kinds, whole)
    for kinds, d, c in (("f16 f16 f16 f16", 4, 4), ("f32 f16 f16 f16", 8, 4),
                        ("f32 f16 f16 f32", 8, 8)):  # fmt: skip
        words = f"{_WARP} m8n8k4 row|col row|col"
        halves, sums = (kind.replace("f16", "f16x2") for kind in (kinds[:3], kinds[-3:]))
        yield _typed(words, kinds, f"={d}x{halves} 2xf16x2 2xf16x2 {c}x{sums}")
    small = "=MN:1 MK:b8 KN:b8 MN:2"
    for kind in ("f16", "f32"):
        yield Form(f"{head} m16n8k16|m16n8k32 {_F8} {_F8}", kind, small, kind)
        words = f"{head} m16n8k32 kind::f8f6f4 {_NARROW} {_NARROW}"
        yield Form(words, kind, small, kind)
    scales = "<b32 2xu16 <b32 2xu16"
    scaled = f"{head} block_scale [scale_vec::1X|scale_vec::2X|scale_vec::4X] ue8m0|ue4m3"
    words = f"{scaled} m16n8k32 kind::mxf8f6f4 {_NARROW} {_NARROW}"
    yield Form(words, "f32", f"{small} {scales}", "f32")
    words = f"{scaled} m16n8k64 kind::mxf4|kind::mxf4nvf4 e2m1 e2m1"
    yield Form(words, "f32", f"=MN:1 MK:b4 KN:b4 MN:2 {scales}", "f32")


def _typed(words: str, kinds: str, operands: str) -> Form:
    """Returns a form with four types; a comma separates the choices for a type."""
    first, *more = (kind.replace(",", " ") for kind in kinds.split())
    return Form(words, first, operands, "".join(more[:1]), more=";".join(more[1:]))


def _sparse_products() -> Rows:
    head = f"{_WARP} sp|sp::ordered_metadata row col"
    for kinds, shapes, words in (
        ("f16 f16 f16 f16", "m16n8k16|m16n8k32", ""),
        ("f32 f16 f16 f32", "m16n8k16|m16n8k32", ""),
        ("f32 bf16 bf16 f32", "m16n8k16|m16n8k32", ""),
        ("f32 tf32 tf32 f32", "m16n8k8|m16n8k16", ""),
        ("s32 s8,u8 s8,u8 s32", "m16n8k32|m16n8k64", "[satfinite]"),
        ("s32 s4,u4 s4,u4 s32", "m16n8k64|m16n8k128", "[satfinite]"),
    ):
        operands = "=MN:1 Mk:2 KN:3 MN:4 b32 $u32#0:3"
        yield _typed(f"{head} {shapes} {words}", kinds, operands)
    for kind in ("f16", "f32"):
        words = f"{head} m16n8k64 [kind::f8f6f4] {_NARROW} {_NARROW}"
        yield Form(words, kind, "=MN:1 Mk:b8 KN:b8 MN:2 b32 $u32#0:3", kind)


def _tile_moves() -> Rows:
    tail = f"{_WARP} row|col {_PLACE}"
    results = (
        (_TILES, "f16 f32 s32"),
        ("m16n16k8", "f32"),
        ("m8n8k4", "f64"),
        ("m8n8k32|m8n8k128", "s32"),
    )
    yield Opcode("wmma.load", _C.MATRIX_MOVE, accesses=True)
    for matrix, part in (("a", "MK"), ("b", "KN")):
        words = f"^{matrix} {tail}"
        yield Form(f"{words} {_TILES}", "f16", "=8xf16x2 [] ?b32")
        load = f"={part}:1 [] ?b32"
        yield Form(f"{words} {_TILES}", "bf16 s8 u8", load)
        yield Form(f"{words} m16n16k8", "tf32", load)
        yield Form(f"{words} m8n8k4", "f64", load)
        yield Form(f"{words} m8n8k32", "s4 u4", load)
        yield Form(f"{words} m8n8k128", "b1", load)
    for shapes, kinds in results:
        yield Form(f"^c {tail} {shapes}", kinds, "=MN:1 [] ?b32")
    yield Opcode("wmma.store", _C.MATRIX_MOVE, accesses=True)
    for shapes, kinds in results:
        yield Form(f"^d {tail} {shapes}", kinds, "[] MN:1 ?b32")


def _tile_products() -> Rows:
    yield Opcode("wmma.mma", _C.MMA)
    mixed = f"{_WARP} row|col row|col"
    halves = "=MN:1 8xf16x2 8xf16x2 MN:2"
    yield Form(f"{mixed} {_TILES}", "f16 f32", halves, "f16 f32")
    for kinds, shapes, words in (
        ("f32 bf16 bf16 f32", _TILES, ""),
        ("f32 tf32 tf32 f32", "m16n16k8", ""),
        ("f64 f64 f64 f64", "m8n8k4", _ROUND),
        ("s32 s8 s8 s32", _TILES, "[satfinite]"),
        ("s32 u8 u8 s32", _TILES, "[satfinite]"),
        ("s32 s4 s4 s32", "m8n8k32", "[satfinite]"),
        ("s32 u4 u4 s32", "m8n8k32", "[satfinite]"),
        ("s32 b1 b1 s32", "m8n8k128", "xor|and popc"),
    ):
        yield _typed(f"{mixed} {shapes} {words}", kinds, "=MN:1 MK:2 KN:3 MN:4")


_COLUMNS = tuple(range(8, 257, 8))


def _group_products() -> Rows:
    """Yields products of 64 rows; ``b`` is in shared memory, the other factor may be in registers.

    A sparse factor has half as many columns.
    """
    yield Opcode("wgmma.mma_async", _C.MMA_ASYNC, accumulates=True)
    floats, bits = "$b32 $b32", "$b32#0:1"
    for kinds, depth, words, scales, moves in (
        ("f16,f32 f16 f16", 16, "", floats, True),
        ("f32 bf16 bf16", 16, "", floats, True),
        ("f32 tf32 tf32", 8, "", floats, False),
        ("f16,f32", 32, f"{_F8} {_F8}", floats, False),
        ("s32 s8,u8 s8,u8", 32, "[satfinite]", "", False),
        ("s32 b1 b1", 256, "and popc", "", False),
    ):
        columns = [count for count in _COLUMNS if kinds[0] == "f" or count < 32 or count % 16 == 0]
        for sparse, indices in (("", ""), ("sp ", " b32 $b32#0:1")):
            shapes = "|".join(f"m64n{count}k{depth * (2 if sparse else 1)}" for count in columns)
            factors = "4xf16x2" if scales else "4xb32"
            for first, transposed in (("b64", 2), (factors, 1)):
                operands = f"=MN:1 {first} b64{indices} !pred {scales}"
                operands += f" {bits}" * (transposed if moves else 0)
                yield _typed(f"{sparse}{_WARP} {shapes} {words}", kinds, operands)
    yield Opcode("wgmma.fence", _C.FENCE)
    yield Form(_WARP)
    yield Opcode("wgmma.commit_group", _C.MMA_ASYNC)
    yield Form(_WARP)
    yield Opcode("wgmma.wait_group", _C.ASYNC_WAIT)
    yield Form(_WARP, "", "$u32#0:7")


def _tensor_memory() -> Rows:
    for name, place, operands in (
        ("alloc", " [shared::cta]", "[] u32#32:512"),
        ("dealloc", "", "b32 u32#32:512"),
    ):
        yield _core(name)
        yield Form(f"{_TENSOR_CORE} {_WARP}{place}", "b32", operands)
    yield _core("relinquish_alloc_permit")
    yield Form(f"{_TENSOR_CORE} {_WARP}")
    yield _core("ld")
    for words, vector, offset in _parts_of_memory():
        yield Form(f"{words} [pack::16b]", "b32", f"={vector} []{offset}")
    yield _core("st")
    for words, vector, offset in _parts_of_memory():
        yield Form(f"{words} [unpack::16b]", "b32", f"[]{offset} {vector}")
    yield _core("cp")
    for shape in ("128x256b|4x256b|128x128b", "64x128b warpx2::02_13|warpx2::01_23",
                  "32x128b warpx4"):  # fmt: skip
        words = f"{_TENSOR_CORE} {shape}"
        yield Form(words, "", "[] b64")
        yield Form(f"{words} b6x16_p32|b4x16_p64", "b8x16", "[] b64")
    yield _core("shift")
    yield Form(f"{_TENSOR_CORE} down", "", "[]")
    yield _core("commit")
    arrive = f"{_TENSOR_CORE} mbarrier::arrive::one [shared::cluster]"
    yield Form(arrive, "b64", "[]")
    yield Form(f"{arrive} multicast::cluster", "b64", "[] b16")
    for name in ("wait::ld", "wait::st"):
        yield _core(name, _C.ASYNC_WAIT)
        yield Form(_WARP)
    for name in ("fence::before_thread_sync", "fence::after_thread_sync"):
        yield _core(name, _C.FENCE)
        yield Form("")


def _core(name: str, op_class: OpClass = _C.MMA_ASYNC) -> Opcode:
    return Opcode(f"tcgen05.{name}", op_class)


def _parts_of_memory() -> Iterator[tuple[str, str, str]]:
    """Yields words, the vector that holds such a part, and an offset after the address."""
    for shape, factor in (("32x32b", 1), ("16x64b", 1), ("16x128b", 2), ("16x256b", 4)):
        for count in (1, 2, 4, 8, 16, 32, 64, 128 // factor):
            yield f"sync [aligned] {shape} x{count}", f"{factor * count}xb32", ""
    for count in (1, 2, 4, 8, 16, 32, 64, 128):
        yield f"sync [aligned] 16x32bx2 x{count}", f"{count}xb32", " $u32"


def _tensor_products() -> Rows:
    yield _core("mma")
    whole = "kind::f16|kind::tf32|kind::i8|kind::f8f6f4"
    scaled = (
        "kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4 block_scale [scale_vec::1X|scale_vec::2X|"
        "scale_vec::4X|block16|block32]"
    )
    uses = ("fill", "use", "lastuse", "discard")
    kept = "[" + "|".join(f"collector::a::{use}" for use in uses) + "]"
    buffers = "[" + "|".join(f"collector::b{i}::{use}" for i in range(4) for use in uses) + "]"
    for sparse, indices in (("", ""), ("sp ", " []")):
        for first in ("b64", "[]"):
            factors = f"[] {first} b64{indices} b32"
            words = f"{sparse}{_TENSOR_CORE} {whole} [ashift] {kept}"
            for mask in ("", " 4xb32", " 8xb32"):
                operands = f"{factors}{mask} !pred ?$u32#0:15"
                yield Form(words, "", operands)
            words = f"{sparse}{_TENSOR_CORE} {scaled} {kept}"
            yield Form(words, "", f"{factors} [] [] !pred")
            words = f"ws {sparse}cta_group::1 {whole} {buffers}"
            yield Form(words, "", f"{factors} !pred ?b64")
