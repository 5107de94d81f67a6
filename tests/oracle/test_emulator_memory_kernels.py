"""Loads, stores, atomic operations, asynchronous copies and barriers in memory, against Python."""

import numpy as np
import pytest
from executions import execute_first

from ptxwcet.emulator.launch import EmulatedLaunch

RANDOM = np.random.default_rng(41)


def run(body, *arrays, threads=32, findings=()):
    """Runs a kernel with pointers ``%a0``, ``%a1``, ...; the arrays afterwards."""
    names = [f"p{i}" for i in range(len(arrays))]
    parameters = ", ".join(f".param .u64 {name}" for name in names)
    loads = "\n".join(f"  ld.param.u64 %a{i}, [{name}];" for i, name in enumerate(names))
    text = f"""\
.version 9.0
.target sm_100a
.address_size 64
.entry k({parameters}) {{
  .reg .b64 %a<9>, %d<9>; .reg .b32 %t, %r<9>; .reg .b16 %h<9>; .reg .pred %p, %q;
  .shared .align 16 .b8 tile[4096];
{loads}
  mov.u32 %t, %tid.x;
{body}
  ret;
}}
"""
    launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), arrays)
    done = execute_first(text, launch)
    assert [finding.code for finding in done.findings] == list(findings), done.findings
    return done.buffers


@pytest.mark.parametrize("kind", ["u8", "s8", "u16", "s16", "u32", "s32", "b32"])
def test_narrow_loads_extend(kind):
    size = int(kind[1:]) // 8
    data = RANDOM.integers(0, 256, 32 * size).astype("u1")
    body = f"""
  mad.wide.u32 %d1, %t, {size}, %a0;
  ld.global.{kind} %r1, [%d1];
  mad.wide.u32 %d2, %t, 4, %a1;
  st.global.u32 [%d2], %r1;"""
    found = run(body, data, np.zeros(32, "u4"))[1].view("i4")
    signed = kind[0] == "s"
    for lane, value in enumerate(found.tolist()):
        part = data[lane * size : lane * size + size].tobytes()
        number = int.from_bytes(part, "little", signed=signed or size == 4)
        assert value == number


@pytest.mark.parametrize(
    ("count", "kind"), [(2, "u32"), (4, "u32"), (2, "b64"), (4, "u8"), (2, "u16")]
)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_vectors(count, kind, space):
    size = int(kind[1:]) // 8
    whole = count * size
    register = {1: "%h", 2: "%h", 4: "%r", 8: "%d"}[size]
    first = 3 if register == "%d" else 1
    elements = ", ".join(f"{register}{first + i}" for i in range(count))
    data = RANDOM.integers(0, 256, 32 * whole).astype("u1")
    through = ""
    if space == "shared":
        through = f"""
  mov.u32 %r8, tile; mad.lo.u32 %r8, %t, {whole}, %r8;
  st.shared.v{count}.{kind} [%r8], {{{elements}}};
  bar.sync 0;
  ld.shared.v{count}.{kind} {{{elements}}}, [%r8];"""
    body = f"""
  mul.wide.u32 %d1, %t, {whole}; add.u64 %d2, %a0, %d1; add.u64 %d1, %a1, %d1;
  ld.global.v{count}.{kind} {{{elements}}}, [%d2];{through}
  st.global.v{count}.{kind} [%d1], {{{elements}}};"""
    np.testing.assert_array_equal(run(body, data, np.zeros_like(data))[1], data)


def test_modifiers_change_no_value():
    data = RANDOM.integers(0, 99, 32).astype("i4")
    body = """
  mad.wide.u32 %d1, %t, 4, %a0; mad.wide.u32 %d2, %t, 4, %a1;
  createpolicy.fractional.L2::evict_last.b64 %d3, 1.0;
  prefetch.global.L2 [%d1];
  ld.global.nc.L1::no_allocate.b32 %r1, [%d1]; st.global.cs.b32 [%d2], %r1;
  ld.global.L2::cache_hint.b32 %r1, [%d1], %d3;
  ld.volatile.global.b32 %r1, [%d1]; ld.acquire.gpu.global.b32 %r1, [%d1];
  st.release.sys.global.b32 [%d2], %r1; fence.acq_rel.gpu; membar.gl;"""
    np.testing.assert_array_equal(run(body, data, np.zeros_like(data))[1], data)


def wrap(value, kind):
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


ATOMICS = {
    "add": lambda old, b: old + b,
    "min": min,
    "max": max,
    "and": lambda old, b: old & b,
    "or": lambda old, b: old | b,
    "xor": lambda old, b: old ^ b,
    "exch": lambda old, b: b,
    "inc": lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda old, b: b if old == 0 or old > b else old - 1,
}


@pytest.mark.parametrize(
    ("operation", "kind"),
    [("add", k) for k in ("u32", "s32", "u64")]
    + [(o, k) for o in ("min", "max") for k in ("u32", "s32", "u64", "s64")]
    + [(o, k) for o in ("and", "or", "xor", "exch") for k in ("b32", "b64")]
    + [("inc", "u32"), ("dec", "u32")],
)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomic_operations(operation, kind, space):
    """Four cells, hit by lanes in their order; each lane gets what was there before."""
    bits = int(kind[1:])
    data = RANDOM.integers(0, 2**63, 32, dtype="u8").astype(f"u{bits // 8}")
    if operation in ("inc", "dec"):
        data = RANDOM.integers(0, 5, 32).astype("u4")
    register = "%r" if bits == 32 else "%d"
    to, back = (f"{register}{7}", f"{register}{6}")
    address = "%d5"
    setup = "  and.b32 %r2, %t, 3; mad.wide.u32 %d5, %r2, {size}, %a1;"
    where = "global"
    if space == "shared":
        setup = """  and.b32 %r2, %t, 3; mov.u32 %r3, tile; mad.lo.u32 %r3, %r2, {size}, %r3;
  setp.lt.u32 %p, %t, 4; @%p st.shared.b{bits} [%r3], 0; bar.sync 0;"""
        address, where = "%r3", "shared"
    body = (
        setup.format(size=bits // 8, bits=bits)
        + f"""
  mul.wide.u32 %d1, %t, {bits // 8}; add.u64 %d2, %a0, %d1; add.u64 %d1, %a2, %d1;
  ld.global.b{bits} {to}, [%d2];
  atom.{where}.{operation}.{kind} {back}, [{address}], {to};
  st.global.b{bits} [%d1], {back};
  red.{where}.{operation if operation != "exch" else "or"}.{kind} [{address}], {to};"""
    )
    cells = np.zeros(4, data.dtype)
    _, after, olds = run(body, data, cells, np.zeros_like(data))
    state = [0] * 4
    for lane, value in enumerate(data.tolist()):
        cell, given = lane & 3, wrap(value, kind)
        assert wrap(int(olds[lane]), kind) == state[cell]
        state[cell] = wrap(ATOMICS[operation](state[cell], given), kind)
    for lane, value in enumerate(data.tolist()):
        rule = ATOMICS[operation if operation != "exch" else "or"]
        state[lane & 3] = wrap(rule(state[lane & 3], wrap(value, kind)), kind)
    if space == "global":
        assert [wrap(int(x), kind) for x in after] == state


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_compare_and_swap(bits):
    body = f"""
  cvt.u16.u32 %h1, %t; add.u16 %h2, %h1, 1; add.u32 %r2, %t, 1;
  cvt.u64.u32 %d1, %t; cvt.u64.u32 %d2, %r2; mov.u32 %r1, %t;
  atom.global.cas.b{bits} {"%h3" if bits == 16 else "%r3" if bits == 32 else "%d3"}, [%a0],
    {"%h1, %h2" if bits == 16 else "%r1, %r2" if bits == 32 else "%d1, %d2"};"""
    assert run(body, np.zeros(1, f"u{bits // 8}"))[0][0] == 32


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "f16x2", "bf16", "bf16x2"])
def test_floating_sums_are_rounded_one_by_one(kind):
    import ml_dtypes

    element = kind.removesuffix("x2")
    dtype = {"f16": "f2", "f32": "f4", "f64": "f8", "bf16": ml_dtypes.bfloat16}[element]
    pairs = 2 if kind.endswith("x2") else 1
    data = RANDOM.uniform(-1, 1, (32, pairs)).astype(dtype)
    size = data.itemsize * pairs
    register = {2: "%h", 4: "%r", 8: "%d"}[size]
    noftz = ".noftz" if element in ("f16", "bf16") else ""
    body = f"""
  mad.wide.u32 %d1, %t, {size}, %a0; ld.global.b{8 * size} {register}5, [%d1];
  atom.global.add{noftz}.{kind} {register}6, [%a1], {register}5;"""
    raw = data.view(f"u{data.itemsize}")
    _, found = run(body, raw, np.zeros(pairs, raw.dtype))
    total = np.zeros(pairs, dtype)
    for row in data:
        total = (total.astype("f8") + row.astype("f8")).astype(dtype)
    np.testing.assert_array_equal(found.view(dtype), total)


COPY = """
  mov.u32 %r8, tile; mad.lo.u32 %r7, %t, 16, %r8; mad.wide.u32 %d1, %t, 16, %a0;
  cp.async.cg.shared.global [%r7], [%d1], 16{size};
  cp.async.commit_group;
{wait}
  ld.shared.v2.b64 {{%d2, %d3}}, [%r7];
  mad.wide.u32 %d4, %t, 16, %a1; st.global.v2.b64 [%d4], {{%d2, %d3}};"""


def test_asynchronous_copies():
    data = RANDOM.integers(0, 256, 512).astype("u1")
    wait = "cp.async.wait_group 0;"
    found = run(COPY.format(size="", wait=wait), data, np.zeros_like(data))[1]
    np.testing.assert_array_equal(found, data)
    found = run(COPY.format(size=", 5", wait="cp.async.wait_all;"), data, np.zeros_like(data))[1]
    rows = found.reshape(32, 16)
    np.testing.assert_array_equal(rows[:, :5], data.reshape(32, 16)[:, :5])
    assert not rows[:, 5:].any()


def test_copies_that_are_not_waited_for():
    data = np.zeros(512, "u1")
    for wait in ("", "cp.async.wait_group 1;"):
        run(COPY.format(size="", wait=wait), data, data, findings=["PW438"])
    later = COPY.format(size="", wait="  cp.async.commit_group; cp.async.wait_group 1;")
    run(later, data, data)


def test_memory_barrier_phases():
    """A parity and a state say the same; expected arrivals count down phase by phase."""
    body = """
  mov.u32 %r8, tile; setp.eq.u32 %p, %t, 0;
  @%p mbarrier.init.shared.b64 [%r8], 33;
  bar.sync 0;
  mbarrier.arrive.shared.b64 %d1, [%r8];
  mbarrier.test_wait.shared.b64 %q, [%r8], %d1; selp.u32 %r1, 1, 0, %q;
  mbarrier.test_wait.parity.shared.b64 %q, [%r8], 0; selp.u32 %r2, 2, 0, %q;
  @%p mbarrier.arrive.shared.b64 %d2, [%r8];
  mbarrier.try_wait.shared.b64 %q, [%r8], %d1; selp.u32 %r3, 4, 0, %q;
  mbarrier.try_wait.parity.shared.b64 %q, [%r8], 0, 100; selp.u32 %r4, 8, 0, %q;
  mbarrier.try_wait.parity.shared.b64 %q, [%r8], 1; selp.u32 %r5, 16, 0, %q;
  mbarrier.pending_count.b64 %r6, %d1; shl.b32 %r6, %r6, 5;
  or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3; or.b32 %r1, %r1, %r4; or.b32 %r1, %r1, %r5;
  or.b32 %r1, %r1, %r6; mad.wide.u32 %d4, %t, 4, %a0; st.global.u32 [%d4], %r1;"""
    found = run(body, np.zeros(32, "u4"))[0].tolist()
    assert found == [4 + 8 + ((33 - lane) << 5) for lane in range(32)]


def test_bulk_copies_complete_a_barrier():
    data = RANDOM.integers(0, 256, 256).astype("u1")
    body = """
  mov.u32 %r8, tile; add.u32 %r7, %r8, 1024; setp.eq.u32 %p, %t, 0;
  @%p mbarrier.init.shared.b64 [%r7], 1;
  bar.sync 0;
  @%p mbarrier.arrive.expect_tx.shared.b64 %d1, [%r7], 256;
  @%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%a0], 256, [%r7];
L: mbarrier.try_wait.parity.shared.b64 %q, [%r7], 0;
  @!%q bra L;
  mad.lo.u32 %r1, %t, 4, %r8; ld.shared.u32 %r2, [%r1];
  mad.wide.u32 %d4, %t, 4, %a1; st.global.u32 [%d4], %r2;"""
    found = run(body, data, np.zeros(256, "u1"), threads=64)[1]
    np.testing.assert_array_equal(found, data)


def test_dropped_arrivals():
    body = """
  mov.u32 %r8, tile; setp.eq.u32 %p, %t, 0; setp.lt.u32 %q, %t, 2;
  @%p mbarrier.init.shared.b64 [%r8], 32;
  bar.sync 0;
  @%q mbarrier.arrive_drop.shared.b64 %d1, [%r8];
  @!%q mbarrier.arrive.shared.b64 %d1, [%r8];
  @!%q mbarrier.arrive.shared.b64 %d1, [%r8];
  mbarrier.try_wait.parity.shared.b64 %q, [%r8], 1; selp.u32 %r1, 1, 0, %q;
  mad.wide.u32 %d4, %t, 4, %a0; st.global.u32 [%d4], %r1;"""
    assert run(body, np.zeros(32, "u4"))[0].tolist() == [1] * 32
