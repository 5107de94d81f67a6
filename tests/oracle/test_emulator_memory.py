"""Loads and stores of every type, width, space and form, against Python's own bytes."""

import numpy as np
import pytest
from executions import execute_first
from refusals import refusals_of
from single_instruction import HEADER, evaluate

from ptxwcet.emulator.launch import EmulatedLaunch

RANDOM = np.random.default_rng(21)
EDGES = np.array(
    [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
     0x8000000000000000, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0xAAAAAAAAAAAAAAAA,
     0x5555555555555555, 0x80FF7F0180FF7F01, 0x7F8000017FC00000],
    dtype="u8",
)  # fmt: skip
WORDS = np.concatenate([EDGES, RANDOM.integers(0, 1 << 64, 500, dtype="u8")])
PLACE = ".shared .b64 m[4096]; .reg .b32 %s; mov.u32 %s, %tid.x; mul.lo.u32 %s, %s, 32;"


def run(body, *arguments, threads=32, declarations="", module="", shared=0, findings=False):
    """The buffers after a kernel whose parameters are p0, p1, ... as %d0, %d1, ..."""
    names = ", ".join(f".param .u64 p{n}" for n in range(len(arguments)))
    loads = " ".join(f"ld.param.u64 %d{n}, [p{n}];" for n in range(len(arguments)))
    text = (
        f"{HEADER}{module}\n.visible .entry k({names})\n{{ {declarations}\n"
        ".reg .b64 %d<9>, %x<9>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .f32 %f<9>;"
        f".reg .f64 %e<9>; .reg .pred %p<9>; {loads}\n{body}\nret; }}\n"
    )
    launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), arguments, (), shared)
    done = execute_first(text, launch)
    if findings:
        return done
    assert not done.findings, done.findings
    return done.buffers


@pytest.mark.parametrize("register", ["u2", "u4", "u8"])
@pytest.mark.parametrize("kind", [k + b for k in "bus" for b in ("8", "16", "32", "64")])
@pytest.mark.parametrize("offset", [0, 1, 3, 6])
def test_loads_extend(kind, register, offset):
    size = int(kind[1:]) // 8
    if size > np.dtype(register).itemsize or offset % size:
        return
    text = f"st.shared.b64 [%s], %a; ld.shared.{kind} %r0, [%s+{offset}];"
    found = evaluate(text, [WORDS], [register], before=PLACE)
    mask = (1 << 8 * np.dtype(register).itemsize) - 1
    for word, value in zip(WORDS.tolist(), found.tolist(), strict=True):
        data = word.to_bytes(8, "little")[offset : offset + size]
        assert value == int.from_bytes(data, "little", signed=kind[0] == "s") & mask


@pytest.mark.parametrize("register", ["u2", "u4", "u8"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_stores_cut(bits, register):
    if bits > 8 * np.dtype(register).itemsize:
        return
    values = WORDS.astype(register)
    for kind in "bus":
        text = f"st.shared.b64 [%s], -1; st.shared.{kind}{bits} [%s], %a; ld.shared.b64 %r0, [%s];"
        found = evaluate(text, [values], ["u8"], before=PLACE)
        for value, word in zip(values.tolist(), found.tolist(), strict=True):
            cut = (value % 256 ** (bits // 8)).to_bytes(bits // 8, "little")
            assert word.to_bytes(8, "little") == cut.ljust(8, b"\xff")


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_floats_keep_their_bits(kind):
    unsigned = f"u{int(kind[1:]) // 8}"
    values = WORDS.astype(unsigned)
    text = f"st.shared.{kind} [%s], %a; ld.shared.{kind} %r0, [%s];"
    found = evaluate(text, [values], [unsigned], before=PLACE)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(
    ("count", "kind"),
    [(2, "b8"), (4, "u8"), (4, "s8"), (2, "s16"), (4, "b16"), (2, "b32"), (4, "f32"), (2, "f64"),
     (8, "b32"), (8, "f32"), (4, "b64")],
)  # fmt: skip
def test_vectors(count, kind):
    size = int(kind[1:]) // 8
    data = RANDOM.integers(0, 256, (32, count * size)).astype("u1")
    bank = {1: "h", 2: "h", 4: "r", 8: "x"}[size] if kind[0] != "f" else {4: "f", 8: "e"}[size]
    group = "{" + ", ".join(f"%{bank}{n}" for n in range(count)) + "}"
    body = f"""mov.u32 %r8, %tid.x; mul.wide.u32 %x8, %r8, {count * size};
      add.u64 %d0, %d0, %x8; add.u64 %d1, %d1, %x8;
      ld.global.v{count}.{kind} {group}, [%d0]; st.global.v{count}.{kind} [%d1], {group};"""
    np.testing.assert_array_equal(run(body, data, np.zeros_like(data))[1], data)


def test_vector_elements_extend_and_sinks_drop():
    data = np.array([0x80, 0x7F, 0xFF, 1], "u1")
    body = """mov.u32 %r8, %tid.x; setp.ne.u32 %p0, %r8, 0; @%p0 ret;
      ld.global.v4.s8 {%r0, _, %r1, %r2}, [%d0]; st.global.v2.b32 [%d1], {%r0, %r1};
      st.global.b32 [%d1+8], %r2;"""
    found = run(body, data, np.zeros(3, "i4"))[1]
    assert found.tolist() == [-128, -1, 1]


def test_vector_registers():
    data = np.arange(4, dtype="f4")
    body = "ld.global.v4.f32 %v, [%d0]; st.global.v4.f32 [%d1], %v;"
    found = run(body, data, np.zeros(4, "f4"), threads=1, declarations=".reg .v4 .f32 %v;")[1]
    np.testing.assert_array_equal(found, data)


LOADS = ["ca", "cg", "cs", "lu", "cv", "nc", "volatile", "weak", "relaxed.gpu", "acquire.cta"]
LOADS += ["acquire.sys", "relaxed.cluster", "mmio.relaxed.sys", "L1::evict_last", "L2::128B"]
LOADS += ["L1::no_allocate.L2::256B", "nc.L1::evict_first"]
STORES = ["wb", "cg", "cs", "wt", "volatile", "weak", "relaxed.gpu", "release.cta", "release.sys"]
STORES += ["mmio.relaxed.sys", "L1::evict_last", "L1::no_allocate"]
ORDERED = ("volatile", "weak", "relaxed", "acquire", "release", "mmio")


def placed(word, operation):
    words = f"{word}.global" if word.startswith(ORDERED) else f"global.{word}"
    return f"{operation}.{words}"


@pytest.mark.parametrize("word", LOADS)
def test_load_hints(word):
    body = f"{placed(word, 'ld')}.u32 %r0, [%d0]; st.global.u32 [%d1], %r0;"
    data = np.array([0xDEADBEEF], "u4")
    assert run(body, data, np.zeros(1, "u4"), threads=1)[1] == data


@pytest.mark.parametrize("word", STORES)
def test_store_hints(word):
    body = f"ld.global.u32 %r0, [%d0]; {placed(word, 'st')}.u32 [%d1], %r0;"
    data = np.array([0xDEADBEEF], "u4")
    assert run(body, data, np.zeros(1, "u4"), threads=1)[1] == data


def test_what_has_no_effect():
    body = """createpolicy.fractional.L2::evict_last.b64 %x0, 1.0;
      createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %x1, 0.5;
      createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %x2, [%d0], 64, 128;
      prefetch.global.L1 [%d0]; prefetch.global.L2 [%d0]; prefetch.L2 [%d0]; prefetchu.L1 [%d0];
      prefetch.global.L2::evict_last [%d0]; applypriority.global.L2::evict_normal [%d0], 128;
      membar.cta; membar.gl; membar.sys; fence.sc.cta; fence.acq_rel.gpu; fence.proxy.alias;
      fence.proxy.async; fence.proxy.async.shared::cta; fence.mbarrier_init.release.cluster;
      ldu.global.u32 %r2, [%d0+4];
      ld.global.L2::cache_hint.u32 %r0, [%d0], %x0; ld.global.nc.L2::cache_hint.v2.u32 {%r1,%r2},
      [%d0], %x0; add.u32 %r0, %r0, %r2; st.global.L2::cache_hint.u32 [%d1], %r0, %x0;
      discard.global.L2 [%d0], 128;"""
    found = run(body, np.array([5, 7], "u4"), np.zeros(1, "u4"), threads=1)[1]
    assert found.tolist() == [12]


def test_addresses():
    data = np.arange(16, dtype="u4")
    body = """mov.u32 %r0, 4; ld.shared.u32 %r1, m[%r0]; ld.shared.u32 %r2, m[8];
      mov.u32 %r3, 0xfffffff0; ld.shared.u32 %r4, [%r3+28];
      mov.u32 %r3, m; add.u32 %r3, %r3, 20; ld.shared.u32 %r5, [%r3+-4]; ld.shared.u32 %r6, [m+16];
      ld.global.u32 %r7, c[1]; ld.const.u32 %r8, [c2+4];
      st.global.v4.u32 [%d1], {%r1, %r2, %r4, %r5};
      st.global.v4.u32 [%d1+16], {%r6, %r7, %r8, 0};"""
    fill = "".join(f"st.shared.u32 [m+{4 * n}], {100 + n};" for n in range(8))
    found = run(
        fill + body,
        data,
        np.zeros(8, "u4"),
        threads=1,
        declarations=".shared .align 16 .b8 m[32];",
        module=".global .u32 c[2] = {7, 9}; .const .u32 c2[2] = {11, 13};",
    )[1]
    assert found.tolist() == [101, 102, 103, 104, 104, 9, 13, 0]


@pytest.mark.parametrize("module", ["", ".const .b8 before[5]; .global .u32 g;"])
def test_constants_have_addresses_of_32_bits_in_their_window(module):
    """PTX ISA, state spaces: .const is a window of its own; cvta makes an address generic."""
    body = """mov.u32 %r0, c; ld.const.u32 %r1, [%r0]; add.u32 %r0, %r0, 8; ld.const.u32 %r2, [%r0];
      mov.u32 %r0, 1; ld.const.u32 %r3, c[%r0]; mov.u64 %x0, c; ld.const.u32 %r4, [%x0+4];
      cvta.const.u64 %x1, %x0; ld.u32 %r5, [%x1+8]; cvta.to.const.u64 %x2, %x1;
      ld.const.u32 %r6, [%x2]; cvta.const.u64 %x1, c; ld.u32 %r7, [%x1+4];
      st.global.v4.u32 [%d0], {%r1, %r2, %r3, %r4};
      st.global.v4.u32 [%d0+16], {%r5, %r6, %r7, 0};"""
    constants = f"{module} .const .align 4 .u32 c[3] = {{11, 13, 17}};"
    (found,) = run(body, np.zeros(8, "u4"), threads=1, module=constants)
    assert found.tolist() == [11, 17, 13, 13, 17, 11, 13, 0]


@pytest.mark.parametrize("offset", [-4, 12, 2**31])
def test_an_access_outside_of_the_constants_says_where(offset):
    body = f"mov.u64 %x0, c; add.s64 %x0, %x0, {offset}; ld.const.u32 %r0, [%x0];"
    module = ".const .u32 c[3] = {11, 13, 17};"
    (finding,) = run(body, np.zeros(8, "u4"), threads=1, module=module, findings=True).findings
    assert finding.code == "PW430"
    side = "before the start of c" if offset < 0 else "after the end of c"
    assert side in finding.message


def test_every_thread_has_its_local_memory():
    body = """mov.u32 %r0, %tid.x; st.local.u32 [l+4], %r0; mov.u64 %x0, l; cvta.local.u64 %x1, %x0;
      add.u32 %r1, %r0, 100; st.u32 [%x1+8], %r1; ld.u32 %r2, [%x1+4]; ld.local.u32 %r3, [%x0+8];
      mul.wide.u32 %x2, %r0, 8; add.u64 %d0, %d0, %x2; st.global.v2.u32 [%d0], {%r2, %r3};"""
    found = run(body, np.zeros((64, 2), "u4"), threads=64, declarations=".local .b8 l[16];")[0]
    np.testing.assert_array_equal(found[:, 0], np.arange(64))
    np.testing.assert_array_equal(found[:, 1], np.arange(64) + 100)


def test_param_variables_of_a_body_belong_to_a_thread():
    body = """mov.u32 %r0, %tid.x; st.param.b32 [q], %r0; ld.param.b32 %r1, [q];
      mul.wide.u32 %x2, %r0, 4; add.u64 %d0, %d0, %x2; st.global.u32 [%d0], %r1;"""
    found = run(body, np.zeros(64, "u4"), threads=64, declarations=".param .b32 q;")[0]
    np.testing.assert_array_equal(found, np.arange(64))


def test_inactive_lanes_keep_their_registers_and_memory():
    body = """mov.u32 %r0, %tid.x; mov.u32 %r1, 77; and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 0;
      mul.wide.u32 %x2, %r0, 4; add.u64 %d0, %d0, %x2; add.u64 %d1, %d1, %x2;
      @%p0 ld.global.u32 %r1, [%d0]; @!%p0 st.global.u32 [%d0], 5; st.global.u32 [%d1], %r1;"""
    data = np.arange(1000, 1032, dtype="u4")
    changed, found = run(body, data, np.zeros(32, "u4"))
    np.testing.assert_array_equal(found, np.where(np.arange(32) % 2, 77, data))
    np.testing.assert_array_equal(changed, np.where(np.arange(32) % 2, 5, data))


@pytest.mark.parametrize(
    "text", ["ld.global.b128 %q, [%d0];", "st.global.b128 [%d0], %q;", "red.async.relaxed.cluster"]
)
def test_refused_by_name(text):
    if text.startswith("red"):
        text += ".shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r0], %r1, [%r2];"
    (only,) = refusals_of(run, text, np.zeros(4, "u4"), threads=1, declarations=".reg .b128 %q;")
    assert only.code == "PW410"
    assert text.split()[0] in only.message
