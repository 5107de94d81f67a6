"""Lists the opcodes of loads, stores, atomic operations, fences and cache hints, with forms."""

from __future__ import annotations

from ptxwcet.ir.meanings import Rows
from ptxwcet.ir.op_classes import OpClass, Space
from ptxwcet.ir.opcodes import BySpace, Opcode
from ptxwcet.ir.permitted import Form

_C = OpClass
_LOAD = BySpace(
    {
        Space.GENERIC: _C.LOAD_GENERIC,
        Space.GLOBAL: _C.LOAD_GLOBAL,
        Space.SHARED: _C.LOAD_SHARED,
        Space.LOCAL: _C.LOAD_LOCAL,
        Space.PARAM: _C.LOAD_PARAM,
        Space.CONST: _C.LOAD_CONST,
    }
)
_STORE = BySpace(
    {
        Space.GENERIC: _C.STORE_GENERIC,
        Space.GLOBAL: _C.STORE_GLOBAL,
        Space.SHARED: _C.STORE_SHARED,
        Space.LOCAL: _C.STORE_LOCAL,
        Space.PARAM: _C.STORE_PARAM,
        Space.CONST: _C.STORE_GENERIC,
    }
)
_ATOMIC = BySpace(
    {
        **dict.fromkeys(Space, _C.ATOMIC_GENERIC),
        Space.GLOBAL: _C.ATOMIC_GLOBAL,
        Space.SHARED: _C.ATOMIC_SHARED,
    }
)

_SCOPES = "cta|cluster|gpu|sys"
_SHARED = "shared|shared::cta|shared::cluster"
_NUMBERS = "b8 u8 s8 b16 u16 s16 b32 u32 s32 f32 b64 u64 s64 f64 b128"
_L1 = (
    "[L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate] "
    "[L2::evict_normal|L2::evict_first|L2::evict_last]"
)
_L2 = "[L2::64B|L2::128B|L2::256B]"
_VECTOR = "[v2|v4|v8]"
_HALVES = "f16 f16x2 bf16 bf16x2"


def rows() -> Rows:
    """Yields all rows of this family."""
    yield from _load_rows()
    yield from _store_rows()
    yield from _atomic_rows()
    yield from _multimem_rows()
    yield from _hint_rows()
    yield from _fence_rows()


def _with_policy(words: str, operands: str, types: str) -> Rows:
    """Yields a form, and the same form with a cache policy as its last operand."""
    yield Form(words, types, operands)
    yield Form(f"{words} L2::cache_hint", types, f"{operands} b64")


def _load_rows() -> Rows:
    spaces, places = f"[global|{_SHARED}|local]", "param|param::entry|param::func"
    yield Opcode("ld", _LOAD)
    for words in (
        f"[weak] {spaces} [ca|cg|cs|lu|cv] {_L1} {_L2} {_VECTOR}",
        f"global nc [ca|cg|cs] {_L1} {_L2} {_VECTOR}",
        f"volatile {spaces} {_L2} {_VECTOR}",
        f"relaxed|acquire {_SCOPES} {spaces} {_L1} {_L2} {_VECTOR}",
    ):
        yield from _with_policy(words, "={}~1 []", _NUMBERS)
    yield Form("mmio relaxed sys [global]", _NUMBERS, "=~1 []")
    yield Form(f"[weak] const [ca|cg|cs|lu|cv] {_VECTOR}", _NUMBERS, "={}~1 []")
    yield Form(f"[weak] {places} [ca|cg|cs|lu|cv] {_VECTOR}", _NUMBERS, "={}~1 []")
    yield Opcode("ldu", _LOAD)
    yield Form("[global] [v2|v4]", _NUMBERS, "={}~1 []")


def _store_rows() -> Rows:
    spaces = f"[global|{_SHARED}|local]"
    yield Opcode("st", _STORE)
    for words in (
        f"[weak] {spaces} [wb|cg|cs|wt] {_L1} {_VECTOR}",
        f"volatile {spaces} {_VECTOR}",
        f"relaxed|release {_SCOPES} {spaces} {_L1} {_VECTOR}",
    ):
        yield from _with_policy(words, "[] {}~1", _NUMBERS)
    yield Form("mmio relaxed sys [global]", _NUMBERS, "[] ~1")
    yield Form(f"[weak] param|param::func [wb|cg|cs|wt] {_VECTOR}", _NUMBERS, "[] {}~1")


_OPERATIONS = (
    ("add", "u32 s32 u64 f32 f64"),
    ("add noftz", _HALVES),
    ("min|max", "u32 s32 u64 s64"),
    ("inc|dec", "u32"),
    ("and|or|xor", "b32 b64"),
)


def _atomic_rows() -> Rows:
    spaces = f"[global|{_SHARED}]"
    orders = (f"[{_SCOPES}]", f"relaxed|acquire|release|acq_rel [{_SCOPES}]")
    yield Opcode("atom", _ATOMIC, discards=True)
    for operation, types in _OPERATIONS:
        for order in orders:
            yield from _with_policy(f"{order} {spaces} {operation}", "=1 [] 1", types)
    for order in orders:
        yield from _with_policy(f"{order} {spaces} exch", "=1 [] 1", "b32 b64 b128")
        yield from _with_policy(f"{order} {spaces} cas", "=1 [] 1 1", "b16 b32 b64 b128")
    for operation, kind in (("and|or|xor|exch", "b32"), ("exch", "b128")):
        for order in orders:
            yield Form(f"{order} {spaces} {operation}", kind, "=1 [] 1 1", documented=False)
    yield from _vector_forms(orders, "={}1 [] {}1")
    orders = (f"[{_SCOPES}]", f"relaxed|release [{_SCOPES}]")
    yield Opcode("red", _ATOMIC)
    for operation, types in _OPERATIONS:
        for order in orders:
            yield from _with_policy(f"{order} {spaces} {operation}", "[] 1", types)
    yield from _vector_forms(orders, "[] {}1")


def _vector_forms(orders: tuple[str, ...], operands: str) -> Rows:
    for order in orders:
        tail = f"{order} [global] v2|v4|v8"
        yield from _with_policy(f"{tail} add", operands, "f32")
        yield from _with_policy(f"{tail} add|min|max noftz", operands, _HALVES)


def _multimem_rows() -> Rows:
    numbers = f"b32 u32 s32 f32 b64 u64 s64 f64 {_HALVES}"
    narrow = "e4m3|e5m2|e4m3x2|e5m2x2|e4m3x4|e5m2x4"
    operations = (
        ("add", f"u32 s32 u64 f32 f64 {_HALVES}"),
        ("min|max", f"u32 s32 u64 s64 {_HALVES}"),
        ("and|or|xor", "b32 b64"),
    )
    yield Opcode("multimem.ld_reduce", _C.MULTIMEM, accesses=True)
    for order in ("[weak]", f"relaxed|acquire {_SCOPES}"):
        words = f"{order} [global] {_VECTOR}"
        for operation, types in operations:
            yield Form(f"{words} {operation}", types, "={}1 []")
        yield Form(f"{words} add acc::f32", _HALVES, "={}1 []")
        yield Form(f"{words} add|min|max [acc::f16] {narrow}", "", "={}b32 []")
    yield Opcode("multimem.st", _C.MULTIMEM, accesses=True)
    for order in ("[weak]", f"relaxed|release {_SCOPES}"):
        yield Form(f"{order} [global] {_VECTOR}", numbers, "[] {}1")
    yield Opcode("multimem.red", _C.MULTIMEM, accesses=True)
    for order in ("", f"relaxed|release {_SCOPES}"):
        for operation, types in operations:
            yield Form(f"{order} [global] {_VECTOR} {operation}", types, "[] {}1")


def _hint_rows() -> Rows:
    yield Opcode("prefetch", _C.PREFETCH, accesses=True)
    for space in ("global", "local"):
        yield Form(f"[{space}] L1|L2", "", "[]")
    yield Form("global L2::evict_last|L2::evict_normal", "", "[]")
    yield Form("[const|param] tensormap", "", "[]")
    yield Opcode("prefetchu", _C.PREFETCH, accesses=True)
    yield Form("L1", "", "[]")
    yield Opcode("applypriority", _C.PREFETCH, accesses=True)
    yield Form("[global] L2::evict_normal", "", "[] $u32#128:128")
    yield Opcode("discard", _C.PREFETCH, accesses=True)
    yield Form("[global] L2", "", "[] $u32#128:128")
    yield Opcode("createpolicy", _C.PREFETCH)
    for pair in (
        "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged",
        "L2::evict_last|L2::evict_normal L2::evict_first|L2::evict_unchanged",
        "L2::evict_first L2::evict_unchanged",
    ):
        yield Form(f"^fractional {pair}", "b64", "=b64 ?f32")
        yield Form(f"^range [global] {pair}", "b64", "=b64 [] u32 u32")
    yield Form("^cvt L2", "b64", "=b64 b64")


def _fence_rows() -> Rows:
    yield Opcode("membar", _C.FENCE)
    yield Form("cta|gl|sys")
    yield Opcode("fence", _C.FENCE)
    yield Form(f"[sc|acq_rel|acquire|release] {_SCOPES}")
    yield Form("mbarrier_init release cluster")
    yield Form("^proxy alias")
    yield Form("^proxy async [global|shared::cta|shared::cluster]")
    restricted = "sync_restrict::shared::cta|sync_restrict::shared::cluster"
    yield Form(f"acquire|release {restricted} cluster")
    yield Form(f"^proxy async::generic acquire|release {restricted} cluster")
    yield Form(f"^proxy tensormap::generic release {_SCOPES}")
    yield Form(f"^proxy tensormap::generic acquire {_SCOPES}", "", "[] $u32#128:128")
