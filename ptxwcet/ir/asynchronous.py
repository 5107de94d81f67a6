"""Lists the opcodes of asynchronous copies, their groups and barriers, and tensor maps."""

from __future__ import annotations

from ptxwcet.ir.meanings import Rows
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.permitted import Form

_C = OpClass
_SCOPES = "cta|cluster|gpu|sys"
_SHARED = "shared|shared::cta|shared::cluster"
_L2 = "[L2::64B|L2::128B|L2::256B]"
_BYTES = "mbarrier::complete_tx::bytes"
_GROUP = "bulk_group"
_CACHED = "L2::cache_hint"


def rows() -> Rows:
    """Yields all rows of this family."""
    yield from _small_copies()
    yield from _barriers()
    yield Opcode("cp.async.bulk", _C.ASYNC_BULK, accesses=True)
    yield from _bulk_copies()
    yield from _tensor_copies()
    yield Opcode("multimem.cp.async.bulk", _C.ASYNC_BULK, accesses=True)
    yield from _copies_out()
    yield Opcode("cp.async.bulk.commit_group", _C.ASYNC_BULK)
    yield Form("")
    yield Opcode("cp.async.bulk.wait_group", _C.ASYNC_WAIT)
    yield Form("[read]", "", "$u32")
    yield from _reductions()
    yield from _stores()
    yield from _tensor_maps()
    yield from _other_copies()


def _with_hint(words: str, operands: str, types: str = "") -> Rows:
    """Yields a form, and the same form with a cache policy as its last operand."""
    yield Form(words, types, operands)
    yield Form(f"{words} {_CACHED}", types, f"{operands} b64")


def _small_copies() -> Rows:
    yield Opcode("cp.async", _C.ASYNC_COPY, accesses=True)
    for words, operands in (("ca", "[] [] $u32#4:16"), ("cg", "[] [] $u32#16:16")):
        into = f"{words} shared|shared::cta global {_L2}"
        yield Form(into, "", f"{operands} ?u32#0:16")
        yield Form(into, "", f"{operands} !pred")
        for policy in ("b64", "u32 b64", "!pred b64"):
            yield Form(f"{into} L2::cache_hint", "", f"{operands} {policy}")
    yield Opcode("cp.async.commit_group", _C.ASYNC_COPY)
    yield Form("")
    yield Opcode("cp.async.wait_all", _C.ASYNC_WAIT)
    yield Form("")
    yield Opcode("cp.async.wait_group", _C.ASYNC_WAIT)
    yield Form("", "", "$u32")


def _barriers() -> Rows:
    shared, cluster = "[shared|shared::cta]", f"[{_SHARED}]"
    yield Opcode("cp.async.mbarrier.arrive", _C.MBARRIER, accesses=True)
    yield Form(f"[noinc] {shared}", "b64", "[]")
    yield Opcode("mbarrier.init", _C.MBARRIER, accesses=True)
    yield Form(shared, "b64", "[] u32")
    yield Opcode("mbarrier.inval", _C.MBARRIER, accesses=True)
    yield Form(shared, "b64", "[]")
    for name in ("mbarrier.expect_tx", "mbarrier.complete_tx"):
        yield Opcode(name, _C.MBARRIER, accesses=True)
        yield Form(f"[relaxed] [cta|cluster] {cluster}", "b64", "[] u32")
    order = f"[release|relaxed] [cta|cluster] {cluster}"
    for name in ("arrive", "arrive_drop"):
        yield Opcode(f"mbarrier.{name}", _C.MBARRIER, discards=True, accesses=True)
        yield Form(order, "b64", "=b64 [] ?<u32")
        yield Form(f"{order} expect_tx", "b64", "=b64 [] u32")
        yield Form(f"noComplete [release] [cta] {shared}", "b64", "=b64 [] u32")
    order = f"[acquire|relaxed] [cta|cluster] {shared}"
    yield Opcode("mbarrier.test_wait", _C.MBARRIER_WAIT, accesses=True)
    yield Form(order, "b64", "=pred [] b64")
    yield Form(f"parity {order}", "b64", "=pred [] u32")
    yield Opcode("mbarrier.try_wait", _C.MBARRIER_WAIT, accesses=True)
    yield Form(order, "b64", "=pred [] b64 ?u32")
    yield Form(f"parity {order}", "b64", "=pred [] u32 ?u32")
    yield Opcode("mbarrier.pending_count", _C.MBARRIER)
    yield Form("", "b64", "=u32 b64")


def _bulk_copies() -> Rows:
    words = f"^shared::cluster global {_BYTES}"
    copy = "[] [] u32 []"
    yield from _with_hint(words, copy)
    yield from _with_hint(f"{words} multicast::cluster", f"{copy} b16")
    yield from _with_hint(f"^shared::cta global {_BYTES}", copy)
    yield Form(f"^shared::cluster shared::cta {_BYTES}", "", copy)
    yield from _copies_out()
    yield from _with_hint("^prefetch L2 global", "[] u32")


def _copies_out() -> Rows:
    out = f"^global shared::cta {_GROUP}"
    yield from _with_hint(out, "[] [] u32")
    yield Form(f"{out} cp_mask", "", "[] [] u32 b16")
    yield Form(f"{out} cp_mask {_CACHED}", "", "[] [] u32 b64 b16")


def _tensor_copies() -> Rows:
    """Yields forms for each number of dimensions; an im2col offset has two elements fewer."""
    for count in range(1, 6):
        modes = [("[tile]", f"[]{count}", "")]
        if count == 2:
            modes.append(("tile::gather4", "[]5", ""))
        if count > 2:
            modes.append(("im2col", f"[]{count}", f" {count - 2}xb16"))
            modes.append(("im2col::w|im2col::w::128", f"[]{count}", " 2xb16"))
        head = f"^tensor {count}d"
        for mode, source, offsets in modes:
            operands = f"[] {source} []{offsets}"
            rest = f"global {mode} {_BYTES} [cta_group::1|cta_group::2]"
            yield from _with_hint(f"{head} shared::cluster|shared::cta {rest}", operands)
            many = f"{head} shared::cluster {rest} multicast::cluster"
            yield from _with_hint(many, f"{operands} b16")
            fetch = f"^prefetch tensor {count}d L2 global {mode}"
            yield from _with_hint(fetch, f"{source}{offsets}")
        yield from _tensor_copies_out(count, "")


def _tensor_copies_out(count: int, operation: str) -> Rows:
    """Yields copies from shared memory to a tensor, with the reduction that is applied there."""
    stores = [("[tile]", count), *([("tile::scatter4", 5)] if count == 2 else [])]
    stores += [("im2col_no_offs", count)] if count > 2 else []
    for mode, size in stores:
        out = f"^tensor {count}d global shared::cta {mode} {_GROUP}{operation}"
        yield from _with_hint(out, f"[]{size} []")


_BULK_REDUCTIONS = (
    ("add", "u32 s32 u64 f32 f64"),
    ("add noftz", "f16 bf16"),
    ("min|max", "u32 s32 u64 s64 f16 bf16"),
    ("inc|dec", "u32"),
    ("and|or|xor", "b32 b64"),
)
_REMOTE_REDUCTIONS = (
    ("add", "u32 s32 u64"),
    ("min|max", "u32 s32"),
    ("inc|dec", "u32"),
    ("and|or|xor", "b32"),
)


def _reductions() -> Rows:
    yield Opcode("cp.reduce.async.bulk", _C.ASYNC_BULK, accesses=True)
    for count in range(1, 6):
        yield from _tensor_copies_out(count, " add|min|max|inc|dec|and|or|xor")
    yield from _bulk_reductions()
    for operation, types in _REMOTE_REDUCTIONS:
        words = f"^shared::cluster shared::cta {_BYTES} {operation}"
        yield Form(words, types, "[] [] u32 []")
    yield Opcode("multimem.cp.reduce.async.bulk", _C.ASYNC_BULK, accesses=True)
    yield from _bulk_reductions()
    yield Opcode("red.async", _C.ASYNC_BULK, accesses=True)
    for operation, types in (*_REMOTE_REDUCTIONS, ("add", "s64")):
        words = f"relaxed cluster [shared::cluster] {_BYTES} {operation}"
        yield Form(words, types, "[] 1 []")
    for operation, types in (
        ("add", "u32 s32 u64 s64"),
        ("min|max", "u32 s32 u64 s64"),
        ("inc|dec", "u32"),
        ("and|or|xor", "b32 b64"),
    ):
        yield Form(f"release gpu|sys [global] {operation}", types, "[] 1")
        yield Form(f"mmio release sys [global] {operation}", types, "[] 1")


def _bulk_reductions() -> Rows:
    for operation, types in _BULK_REDUCTIONS:
        yield from _with_hint(f"^global shared::cta {_GROUP} {operation}", "[] [] u32", types)


def _stores() -> Rows:
    yield Opcode("st.async", _C.ASYNC_BULK, accesses=True)
    types = "b32 u32 s32 f32 b64 u64 s64 f64"
    yield Form(f"[weak] [shared::cluster] {_BYTES} [v2|v4]", types, "[] {}1 []")
    types += " b8 u8 s8 b16 u16 s16"
    yield Form("release gpu|sys [global]", types, "[] 1")
    yield Form("mmio release sys [global]", types, "[] 1")
    yield Opcode("st.bulk", _C.ASYNC_BULK, accesses=True)
    yield Form("[weak] [shared::cta]", "", "[] u64 $u32#0:0")


def _tensor_maps() -> Rows:
    head = "tile [global|shared::cta]"
    yield Opcode("tensormap.replace", _C.ASYNC_BULK, accesses=True)
    for names, operands in (
        ("rank", "u32"),
        ("box_dim|global_dim|element_stride", "$u32#0:4 u32"),
        ("elemtype", "$u32#0:15"),
        ("interleave_layout", "$u32#0:2"),
        ("swizzle_mode|swizzle_atomicity", "$u32#0:3"),
        ("fill_mode", "$u32#0:1"),
    ):
        yield Form(f"{head} {names}", "b1024", f"[] {operands}", "b32")
    yield Form(f"{head} global_address", "b1024", "[] b64", "b64")
    yield Form(f"{head} global_stride", "b1024", "[] $u32#0:4 b64", "b64")
    yield Opcode("tensormap.cp_fenceproxy", _C.ASYNC_BULK, accesses=True)
    words = f"^global shared::cta tensormap::generic release {_SCOPES} sync aligned"
    yield Form(words, "", "[] [] $u32#128:128")


def _other_copies() -> Rows:
    yield Opcode("clusterlaunchcontrol.try_cancel", _C.ASYNC_BULK)
    words = f"async [shared::cta] {_BYTES} [multicast::cluster::all]"
    yield Form(words, "b128", "[] []")
    yield Opcode("clusterlaunchcontrol.query_cancel", _C.MOVE)
    yield Form("^is_canceled", "pred", "=pred b128", "b128")
    yield Form("get_first_ctaid v4", "b32", "=4xb32 b128", "b128")
    places = "|".join(f"get_first_ctaid::{axis}" for axis in "xyz")
    yield Form(f"^{places}", "b32", "=b32 b128", "b128")
