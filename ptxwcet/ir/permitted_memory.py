"""The forms of loads, stores, atomic operations, barriers and warp operations, as rows."""

from __future__ import annotations

from collections.abc import Iterator

from ptxwcet.ir.permitted import Form

Rows = Iterator[tuple[str, Form]]

_SCOPES = "cta|cluster|gpu|sys"
_SHARED = "shared|shared::cta|shared::cluster"
_NUMBERS = "b8 u8 s8 b16 u16 s16 b32 u32 s32 f32 b64 u64 s64 f64 b128"
_L1 = (
    "[L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate] "
    "[L2::evict_normal|L2::evict_first|L2::evict_last]"
)
_L2 = "[L2::64B|L2::128B|L2::256B]"
_VECTOR = "[v2|v4|v8]"


def rows() -> Rows:
    """All rows: opcode and form."""
    yield from _load_rows()
    yield from _store_rows()
    yield from _atomic_rows()
    yield from _multimem_rows()
    yield from _barrier_rows()
    yield from _warp_rows()
    yield from _other_rows()


def _with_policy(words: str, operands: str, types: str) -> Iterator[Form]:
    """A form, and the same with a cache policy as its last operand."""
    yield Form(words, types, operands)
    yield Form(f"{words} L2::cache_hint", types, f"{operands} b64")


def _load_rows() -> Rows:
    spaces = f"[global|{_SHARED}|local]"
    for words in (
        f"[weak] {spaces} [ca|cg|cs|lu|cv] {_L1} {_L2} {_VECTOR}",
        f"global nc [ca|cg|cs] {_L1} {_L2} {_VECTOR}",
        f"volatile {spaces} {_L2} {_VECTOR}",
        f"relaxed|acquire {_SCOPES} {spaces} {_L1} {_L2} {_VECTOR}",
    ):
        for form in _with_policy(words, "={}~1 []", _NUMBERS):
            yield "ld", form
    yield "ld", Form("mmio relaxed sys [global]", _NUMBERS, "=~1 []")
    yield "ld", Form(f"[weak] const [ca|cg|cs|lu|cv] {_VECTOR}", _NUMBERS, "={}~1 []")
    yield (
        "ld",
        Form(
            f"[weak] param|param::entry|param::func [ca|cg|cs|lu|cv] {_VECTOR}",
            _NUMBERS,
            "={}~1 []",
        ),
    )
    yield "ldu", Form("[global] [v2|v4]", _NUMBERS, "={}~1 []")


def _store_rows() -> Rows:
    spaces = f"[global|{_SHARED}|local]"
    for words in (
        f"[weak] {spaces} [wb|cg|cs|wt] {_L1} {_VECTOR}",
        f"volatile {spaces} {_VECTOR}",
        f"relaxed|release {_SCOPES} {spaces} {_L1} {_VECTOR}",
    ):
        for form in _with_policy(words, "[] {}~1", _NUMBERS):
            yield "st", form
    yield "st", Form("mmio relaxed sys [global]", _NUMBERS, "[] ~1")
    yield "st", Form(f"[weak] param|param::func [wb|cg|cs|wt] {_VECTOR}", _NUMBERS, "[] {}~1")


def _atomic_rows() -> Rows:
    spaces = f"[global|{_SHARED}]"
    halves = "f16 f16x2 bf16 bf16x2"
    operations = (
        ("add", "u32 s32 u64 f32 f64"),
        ("add noftz", halves),
        ("min|max", "u32 s32 u64 s64"),
        ("inc|dec", "u32"),
        ("and|or|xor", "b32 b64"),
    )
    for operation, types in operations:
        for name, order, operands in (
            ("atom", "relaxed|acquire|release|acq_rel", "=1 [] 1"),
            ("red", "relaxed|release", "[] 1"),
        ):
            for words in (f"[{_SCOPES}]", f"{order} [{_SCOPES}]"):
                for form in _with_policy(f"{words} {spaces} {operation}", operands, types):
                    yield name, form
    for order in (f"[{_SCOPES}]", f"relaxed|acquire|release|acq_rel [{_SCOPES}]"):
        for form in _with_policy(f"{order} {spaces} exch", "=1 [] 1", "b32 b64 b128"):
            yield "atom", form
        for form in _with_policy(f"{order} {spaces} cas", "=1 [] 1 1", "b16 b32 b64 b128"):
            yield "atom", form
    for operation, kind in (("and|or|xor|exch", "b32"), ("exch", "b128")):
        for words in (f"[{_SCOPES}]", f"relaxed|acquire|release|acq_rel [{_SCOPES}]"):
            words = f"{words} {spaces} {operation}"
            yield "atom", Form(words, kind, "=1 [] 1 1", documented=False)
    for name, order, operands in (("atom", "relaxed|acquire|release|acq_rel", "={}1 [] {}1"),
                                  ("red", "relaxed|release", "[] {}1")):  # fmt: skip
        for words in (f"[{_SCOPES}]", f"{order} [{_SCOPES}]"):
            tail = f"{words} [global] v2|v4|v8"
            for form in _with_policy(f"{tail} add", operands, "f32"):
                yield name, form
            for form in _with_policy(f"{tail} add|min|max noftz", operands, halves):
                yield name, form


def _barrier_rows() -> Rows:
    for family, words in (("bar", ""), ("bar.cta", ""), ("barrier", "[aligned]"),
                          ("barrier.cta", "[aligned]")):  # fmt: skip
        yield f"{family}.sync", Form(words, "", "u32#0:15 ?*u32")
        yield f"{family}.arrive", Form(words, "", "u32#0:15 *u32")
        for count in ("", " *u32"):
            barrier = f"u32#0:15{count} !pred"
            yield f"{family}.red", Form(f"{words} popc", "u32", f"=u32 {barrier}")
            yield f"{family}.red", Form(f"{words} and|or", "pred", f"=pred {barrier}")
    yield "barrier.cluster.arrive", Form("[release|relaxed] [aligned]")
    yield "barrier.cluster.wait", Form("[acquire] [aligned]")
    yield "bar.warp.sync", Form("", "", "u32")
    yield "membar", Form("cta|gl|sys")
    yield "fence", Form(f"[sc|acq_rel|acquire|release] {_SCOPES}")
    yield "fence", Form("mbarrier_init release cluster")
    yield "fence", Form("^proxy alias")
    yield "fence", Form("^proxy async [global|shared::cta|shared::cluster]")
    restricted = "sync_restrict::shared::cta|sync_restrict::shared::cluster"
    yield "fence", Form(f"acquire|release {restricted} cluster")
    yield "fence", Form(f"^proxy async::generic acquire|release {restricted} cluster")
    yield "fence", Form(f"^proxy tensormap::generic release {_SCOPES}")
    words = f"^proxy tensormap::generic acquire {_SCOPES}"
    yield "fence", Form(words, "", "[] $u32#128:128")


def _warp_rows() -> Rows:
    yield "shfl", Form("sync up|down|bfly|idx", "b32", "=b32/pred b32 b32 b32 b32")
    yield "shfl", Form("up|down|bfly|idx", "b32", "=b32/pred b32 b32 b32")
    yield "vote", Form("all|any|uni", "pred", "=pred !pred")
    yield "vote", Form("ballot", "b32", "=b32 !pred")
    yield "vote", Form("sync all|any|uni", "pred", "=pred !pred b32")
    yield "vote", Form("sync ballot", "b32", "=b32 !pred b32")
    yield "match", Form("sync any", "b32 b64", "=b32 1 b32")
    yield "match", Form("sync all", "b32 b64", "=b32/pred 1 b32")
    yield "redux", Form("sync add|min|max", "u32 s32", "=1 1 b32")
    yield "redux", Form("sync and|or|xor", "b32", "=1 1 b32")
    yield "redux", Form("sync min|max [abs] [NaN]", "f32", "=1 1 b32")
    yield "activemask", Form("", "b32", "=b32")
    yield "elect", Form("sync", "", "=b32/pred b32")


def _other_rows() -> Rows:
    for kind in ("global", "local"):
        yield "prefetch", Form(f"[{kind}] L1|L2", "", "[]")
    yield "prefetch", Form("global L2::evict_last|L2::evict_normal", "", "[]")
    yield "prefetch", Form("[const|param] tensormap", "", "[]")
    yield "prefetchu", Form("L1", "", "[]")
    spaces = f"const|global|local|{_SHARED}|param|param::entry"
    for width in ("u64", "u32"):
        yield "isspacep", Form(spaces, "", f"=pred {width}")
    yield "nanosleep", Form("", "u32", "u32")
    yield "setmaxnreg", Form("inc|dec sync aligned", "u32", "$u32")
    yield "pmevent", Form("", "", "$u32#0:15")
    yield "pmevent", Form("mask", "", "$u32")
    for name in ("brkpt", "griddepcontrol.wait", "griddepcontrol.launch_dependents"):
        yield name, Form("")
    yield "applypriority", Form("[global] L2::evict_normal", "", "[] $u32#128:128")
    yield "discard", Form("[global] L2", "", "[] $u32#128:128")
    yield from _policy_rows()
    yield "istypep", Form("texref|samplerref|surfref", "", "=pred &u64")
    for name, operands in (("getctarank", "=u32 &1"), ("mapa", "=1 &1 u32")):
        yield name, Form("[shared::cluster]", "u32 u64", operands)
    yield "alloca", Form("", "u32 u64", "=1 1 ?$u32")
    yield "stacksave", Form("", "u32 u64", "=1")
    yield "stackrestore", Form("", "u32 u64", "1")


def _policy_rows() -> Rows:
    pairs = (
        "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged",
        "L2::evict_last|L2::evict_normal L2::evict_first|L2::evict_unchanged",
        "L2::evict_first L2::evict_unchanged",
    )
    for pair in pairs:
        yield "createpolicy", Form(f"^fractional {pair}", "b64", "=b64 ?f32")
        yield "createpolicy", Form(f"^range [global] {pair}", "b64", "=b64 [] u32 u32")
    yield "createpolicy", Form("^cvt L2", "b64", "=b64 b64")


def _multimem_rows() -> Rows:
    numbers = "b32 u32 s32 f32 b64 u64 s64 f64 f16 f16x2 bf16 bf16x2"
    order = {
        "ld_reduce": ("[weak]", f"relaxed|acquire {_SCOPES}"),
        "st": ("[weak]", f"relaxed|release {_SCOPES}"),
        "red": ("", f"relaxed|release {_SCOPES}"),
    }
    narrow = "e4m3|e5m2|e4m3x2|e5m2x2|e4m3x4|e5m2x4"
    operations = (
        ("add", "u32 s32 u64 f32 f64 f16 f16x2 bf16 bf16x2"),
        ("min|max", "u32 s32 u64 s64 f16 f16x2 bf16 bf16x2"),
        ("and|or|xor", "b32 b64"),
    )
    for name, places in order.items():
        for place in places:
            words = f"{place} [global] {_VECTOR}"
            opcode = f"multimem.{name}"
            if name == "st":
                yield opcode, Form(words, numbers, "[] {}1")
                continue
            operands = "={}1 []" if name == "ld_reduce" else "[] {}1"
            for operation, types in operations:
                yield opcode, Form(f"{words} {operation}", types, operands)
            if name == "ld_reduce":
                sums = f"{words} add acc::f32"
                yield opcode, Form(sums, "f16 f16x2 bf16 bf16x2", operands)
                yield opcode, Form(f"{words} add|min|max [acc::f16] {narrow}", "", "={}b32 []")
