"""The forms of asynchronous copies, their groups and barriers, and of tensor maps, as rows."""

from __future__ import annotations

from collections.abc import Iterator

from ptxwcet.ir.permitted import Form

Rows = Iterator[tuple[str, Form]]

_SCOPES = "cta|cluster|gpu|sys"
_SHARED = "shared|shared::cta|shared::cluster"
_L2 = "[L2::64B|L2::128B|L2::256B]"
_BYTES = "mbarrier::complete_tx::bytes"
_GROUP = "bulk_group"
_CACHED = "L2::cache_hint"


def rows() -> Rows:
    """All rows: opcode and form."""
    yield from _small_copies()
    yield from _barriers()
    yield from _bulk_copies()
    yield from _tensor_copies()
    yield from _reductions()
    yield from _stores()
    yield from _tensor_maps()
    yield from _other_copies()


def _with_hint(words: str, operands: str, types: str = "") -> Iterator[Form]:
    """A form, and the same with a cache policy behind its operands."""
    yield Form(words, types, operands)
    yield Form(f"{words} {_CACHED}", types, f"{operands} b64")


def _small_copies() -> Rows:
    for words, operands in (("ca", "[] [] $u32#4:16"), ("cg", "[] [] $u32#16:16")):
        into = f"{words} shared|shared::cta global {_L2}"
        yield "cp.async", Form(into, "", f"{operands} ?u32")
        yield "cp.async", Form(into, "", f"{operands} !pred")
        for policy in ("b64", "u32 b64", "!pred b64"):
            yield "cp.async", Form(f"{into} L2::cache_hint", "", f"{operands} {policy}")
    yield "cp.async.commit_group", Form("")
    yield "cp.async.wait_all", Form("")
    yield "cp.async.wait_group", Form("", "", "$u32")
    yield "cp.async.bulk.commit_group", Form("")
    yield "cp.async.bulk.wait_group", Form("[read]", "", "$u32")


def _barriers() -> Rows:
    shared = "[shared|shared::cta]"
    yield "cp.async.mbarrier.arrive", Form(f"[noinc] {shared}", "b64", "[]")
    yield "mbarrier.init", Form(shared, "b64", "[] u32")
    yield "mbarrier.inval", Form(shared, "b64", "[]")
    cluster = f"[{_SHARED}]"
    for name in ("mbarrier.expect_tx", "mbarrier.complete_tx"):
        yield name, Form(f"[relaxed] [cta|cluster] {cluster}", "b64", "[] u32")
    for name in ("mbarrier.arrive", "mbarrier.arrive_drop"):
        order = "[release|relaxed] [cta|cluster]"
        yield name, Form(f"{order} {cluster}", "b64", "=b64 [] ?<u32")
        yield name, Form(f"{order} {cluster} expect_tx", "b64", "=b64 [] u32")
        yield name, Form(f"noComplete [release] [cta] {shared}", "b64", "=b64 [] u32")
    order = f"[acquire|relaxed] [cta|cluster] {shared}"
    yield "mbarrier.test_wait", Form(order, "b64", "=pred [] b64")
    yield "mbarrier.test_wait", Form(f"parity {order}", "b64", "=pred [] u32")
    yield "mbarrier.try_wait", Form(order, "b64", "=pred [] b64 ?u32")
    yield "mbarrier.try_wait", Form(f"parity {order}", "b64", "=pred [] u32 ?u32")
    yield "mbarrier.pending_count", Form("", "b64", "=u32 b64")


def _bulk_copies() -> Rows:
    words = f"^shared::cluster global {_BYTES}"
    copy = "[] [] u32 []"
    for form in _with_hint(words, copy):
        yield "cp.async.bulk", form
    for form in _with_hint(f"{words} multicast::cluster", f"{copy} b16"):
        yield "cp.async.bulk", form
    for form in _with_hint(f"^shared::cta global {_BYTES}", copy):
        yield "cp.async.bulk", form
    yield "cp.async.bulk", Form(f"^shared::cluster shared::cta {_BYTES}", "", copy)
    out = f"^global shared::cta {_GROUP}"
    for name in ("cp.async.bulk", "multimem.cp.async.bulk"):
        for form in _with_hint(out, "[] [] u32"):
            yield name, form
        yield name, Form(f"{out} cp_mask", "", "[] [] u32 b16")
        yield name, Form(f"{out} cp_mask {_CACHED}", "", "[] [] u32 b64 b16")
    for form in _with_hint("^prefetch L2 global", "[] u32"):
        yield "cp.async.bulk", form


def _tensor_copies() -> Rows:
    """For each number of dimensions; the offsets of im2col are a vector of two fewer."""
    for count in range(1, 6):
        ways = [("[tile]", f"[]{count}", "")]
        stores = [("[tile]", f"[]{count}")]
        if count == 2:
            ways.append(("tile::gather4", "[]5", ""))
            stores.append(("tile::scatter4", "[]5"))
        if count > 2:
            ways.append(("im2col", f"[]{count}", f" {count - 2}xb16"))
            ways.append(("im2col::w|im2col::w::128", f"[]{count}", " 2xb16"))
            stores.append(("im2col_no_offs", f"[]{count}"))
        head = f"^tensor {count}d"
        for mode, source, offsets in ways:
            group = "[cta_group::1|cta_group::2]"
            operands = f"[] {source} []{offsets}"
            rest = f"global {mode} {_BYTES} {group}"
            for form in _with_hint(f"{head} shared::cluster|shared::cta {rest}", operands):
                yield "cp.async.bulk", form
            many = f"{head} shared::cluster {rest} multicast::cluster"
            for form in _with_hint(many, f"{operands} b16"):
                yield "cp.async.bulk", form
            fetch = f"^prefetch tensor {count}d L2 global {mode}"
            for form in _with_hint(fetch, f"{source}{offsets}"):
                yield "cp.async.bulk", form
        for mode, target in stores:
            out = f"{head} global shared::cta {mode} {_GROUP}"
            for form in _with_hint(out, f"{target} []"):
                yield "cp.async.bulk", form
            operation = "add|min|max|inc|dec|and|or|xor"
            for form in _with_hint(f"{out} {operation}", f"{target} []"):
                yield "cp.reduce.async.bulk", form


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
    for operation, types in _BULK_REDUCTIONS:
        words = f"^global shared::cta {_GROUP} {operation}"
        for form in _with_hint(words, "[] [] u32", types):
            yield "cp.reduce.async.bulk", form
            yield "multimem.cp.reduce.async.bulk", form
    for operation, types in _REMOTE_REDUCTIONS:
        words = f"^shared::cluster shared::cta {_BYTES} {operation}"
        yield "cp.reduce.async.bulk", Form(words, types, "[] [] u32 []")
    for operation, types in (*_REMOTE_REDUCTIONS, ("add", "s64")):
        words = f"relaxed cluster [shared::cluster] {_BYTES} {operation}"
        yield "red.async", Form(words, types, "[] 1 []")
    for operation, types in (
        ("add", "u32 s32 u64 s64"),
        ("min|max", "u32 s32 u64 s64"),
        ("inc|dec", "u32"),
        ("and|or|xor", "b32 b64"),
    ):
        yield "red.async", Form(f"release gpu|sys [global] {operation}", types, "[] 1")
        yield "red.async", Form(f"mmio release sys [global] {operation}", types, "[] 1")


def _stores() -> Rows:
    types = "b32 u32 s32 f32 b64 u64 s64 f64"
    words = f"[weak] [shared::cluster] {_BYTES}"
    yield "st.async", Form(f"{words} [v2|v4]", types, "[] {}1 []")
    types += " b8 u8 s8 b16 u16 s16"
    yield "st.async", Form("release gpu|sys [global]", types, "[] 1")
    yield "st.async", Form("mmio release sys [global]", types, "[] 1")
    yield "st.bulk", Form("[weak] [shared::cta]", "", "[] u64 $u32#0:0")


def _tensor_maps() -> Rows:
    head = "tile [global|shared::cta]"
    for names, operands in (
        ("rank", "u32"),
        ("box_dim|global_dim|element_stride", "$u32#0:4 u32"),
        ("elemtype", "$u32#0:15"),
        ("interleave_layout", "$u32#0:2"),
        ("swizzle_mode|swizzle_atomicity", "$u32#0:3"),
        ("fill_mode", "$u32#0:1"),
    ):
        yield "tensormap.replace", Form(f"{head} {names}", "b1024", f"[] {operands}", "b32")
    yield "tensormap.replace", Form(f"{head} global_address", "b1024", "[] b64", "b64")
    yield "tensormap.replace", Form(f"{head} global_stride", "b1024", "[] $u32#0:4 b64", "b64")
    words = f"^global shared::cta tensormap::generic release {_SCOPES} sync aligned"
    yield "tensormap.cp_fenceproxy", Form(words, "", "[] [] $u32#128:128")


def _other_copies() -> Rows:
    words = f"async [shared::cta] {_BYTES} [multicast::cluster::all]"
    yield "clusterlaunchcontrol.try_cancel", Form(words, "b128", "[] []")
    name = "clusterlaunchcontrol.query_cancel"
    yield name, Form("^is_canceled", "pred", "=pred b128", "b128")
    yield name, Form("get_first_ctaid v4", "b32", "=4xb32 b128", "b128")
    places = "|".join(f"get_first_ctaid::{axis}" for axis in "xyz")
    yield name, Form(f"^{places}", "b32", "=b32 b128", "b128")
