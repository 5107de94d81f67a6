"""``wmma`` against numpy: tiles out of memory, their product, and back."""

import itertools

import numpy as np
import pytest
from warp_matrices import BITS, KINDS, run

RANDOM = np.random.default_rng(53)
TILES = [(16, 16, 16), (8, 32, 16), (32, 8, 16)]
KINDS_OF_TILES = ["f16", "bf16", "s8", "u8"]
MIXES = list(itertools.product(["row", "col"], repeat=2))
PADDING = 8
"""Elements between rows or columns that belong to no tile."""


def numbers(kind, *shape):
    """Small numbers whose products and sums are exact, of an element type."""
    if kind in ("u8", "s8"):
        limits = np.iinfo(KINDS[kind])
        return RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(KINDS[kind])
    return RANDOM.integers(-4, 5, shape).astype("f4").astype(KINDS[kind])


def in_memory(matrix, layout, padding):
    """The matrix by rows or columns, with noise behind each, as an array, and its stride."""
    lines = np.ascontiguousarray(matrix if layout == "row" else matrix.T)
    whole = np.concatenate([lines, numbers("s8", len(lines), padding).astype(lines.dtype)], axis=1)
    return np.ascontiguousarray(whole).view(f"u{whole.itemsize}"), whole.shape[1]


def registers(side, shape, kind):
    m, n, k = shape
    elements = {"a": m * k, "b": k * n, "c": m * n, "d": m * n}[side]
    if side in "ab" and kind == "f16":
        return 8
    return elements * BITS[kind] // 32 // (64 if kind == "f64" else 32)


def operands(shape, types):
    """Names of the registers of D, A, B and C."""
    places = zip("dabc", types, (40, 10, 20, 30), strict=True)
    counts = [(registers(side, shape, kind), at, kind) for side, kind, at in places]
    return [
        "{" + ", ".join(f"%{'d' if kind == 'f64' else 'r'}{at + i}" for i in range(count)) + "}"
        for count, at, kind in counts
    ]


def multiplied(shape, types, layouts, matrices, padding=0):
    """D in memory by the last of the layouts of A, B, C and D, with what follows each line."""
    to, left, right, add = types
    m, n, k = shape
    d, a, b, c = operands(shape, types)
    (a_data, a_step), (b_data, b_step), (c_data, c_step) = [
        in_memory(matrix, layout, padding)
        for matrix, layout in zip(matrices, layouts[:3], strict=True)
    ]
    empty = np.zeros((m, n) if layouts[3] == "row" else (n, m), KINDS[to])
    d_data = np.concatenate([empty, np.full((len(empty), padding), 77, KINDS[to])], axis=1)
    name = f"m{m}n{n}k{k}"
    typed = f"{to}.{add}" if left == "f16" else f"{to}.{left}.{right}.{add}"
    body = f"""
  wmma.load.a.sync.aligned.{layouts[0]}.{name}.global.{left} {a}, [%a0], {a_step};
  mov.u32 %r1, {b_step};
  wmma.load.b.sync.aligned.{layouts[1]}.{name}.global.{right} {b}, [%a1], %r1;
  wmma.load.c.sync.aligned.{layouts[2]}.{name}.global.{add} {c}, [%a2], {c_step};
  wmma.mma.sync.aligned.{layouts[0]}.{layouts[1]}.{name}.{typed} {d}, {a}, {b}, {c};
  wmma.store.d.sync.aligned.{layouts[3]}.{name}.global.{to} [%a3], {d}, {d_data.shape[1]};"""
    return run(body, a_data, b_data, c_data, d_data)[3].view(KINDS[to]).reshape(d_data.shape)


def check(shape, types, layouts, padding):
    m, n, k = shape
    to, left, right, add = types
    a, b = numbers(left, m, k), numbers(right, k, n)
    c = numbers("s8", m, n).astype(KINDS[add])
    found = multiplied(shape, types, layouts, (a, b, c), padding)
    exact = a.astype("f8") @ b.astype("f8") + c.astype("f8")
    expected = exact.astype(KINDS[to]) if layouts[3] == "row" else exact.T.astype(KINDS[to])
    lines = expected.shape[1]
    np.testing.assert_array_equal(found[:, :lines].astype("f8"), expected.astype("f8"))
    assert (found[:, lines:] == 77).all()


def sums(kind):
    return {"f16": ["f16", "f32"], "bf16": ["f32"]}.get(kind, ["s32"])


@pytest.mark.parametrize("padding", [0, PADDING], ids=["dense", "wide"])
@pytest.mark.parametrize("mix", MIXES, ids=".".join)
@pytest.mark.parametrize("kind", KINDS_OF_TILES)
@pytest.mark.parametrize("shape", TILES, ids=lambda s: "m{}n{}k{}".format(*s))
def test_products(shape, kind, mix, padding):
    """All layouts of A and B; those of C and D are once alike and once the other way round."""
    other = {"row": "col", "col": "row"}
    for to, add in itertools.product(sums(kind), repeat=2):
        check(shape, (to, kind, kind, add), (*mix, *mix), padding)
        check(shape, (to, kind, kind, add), (*mix, other[mix[0]], mix[1]), padding)


@pytest.mark.parametrize("padding", [0, PADDING], ids=["dense", "wide"])
@pytest.mark.parametrize("mix", MIXES, ids=".".join)
def test_products_of_wide_elements(mix, padding):
    check((16, 16, 8), ("f32", "tf32", "tf32", "f32"), (*mix, *mix), padding)
    check((8, 8, 4), ("f64",) * 4, (*mix, *mix), padding)


@pytest.mark.parametrize("layout", ["row", "col"])
def test_without_a_stride_lines_are_dense(layout):
    """The default is the tile's own width, or its height by columns."""
    data = RANDOM.integers(0, 2**16, (8, 32) if layout == "row" else (32, 8)).astype("u2")
    vector = "{%r10, %r11, %r12, %r13}"
    body = f"""
  wmma.load.c.sync.aligned.{layout}.m8n32k16.global.f16 {vector}, [%a0];
  wmma.store.d.sync.aligned.row.m8n32k16.global.f16 [%a1], {vector};"""
    found = run(body, data, np.zeros((8, 32), "u2"))[1]
    np.testing.assert_array_equal(found, data if layout == "row" else data.T)


def test_tiles_in_shared_memory():
    """Written, read by another warp behind a barrier; without the barrier it is a race."""
    vector = "{%r10, %r11, %r12, %r13}"
    body = f"""
  mov.u32 %r1, tile; setp.lt.u32 %p, %t, 32;
  wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {vector}, [%a0];
  @%p wmma.store.d.sync.aligned.col.m16n16k16.shared.f16 [%r1], {vector};
  {{barrier}}
  @!%p wmma.load.c.sync.aligned.row.m16n16k16.shared::cta.f16 {vector}, [%r1];
  @!%p wmma.store.d.sync.aligned.row.m16n16k16.f16 [%a1], {vector};"""
    data = RANDOM.integers(0, 2**16, (16, 16)).astype("u2")
    arrays = data, np.zeros((16, 16), "u2")
    found = run(body.replace("{barrier}", "bar.sync 0;"), *arrays, threads=64)[1]
    np.testing.assert_array_equal(found, data.T)
    run(body.replace("{barrier}", ""), *arrays, threads=64, findings=["PW434"])


TILE_LOAD = (
    "wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 {%r10, %r11, %r12, %r13}, [%r1], %r2;"
)
TILE_STORE = (
    "wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%r1], {%r10, %r11, %r12, %r13}, %r2;"
)


@pytest.mark.parametrize("statement", [TILE_LOAD, TILE_STORE], ids=["load", "store"])
@pytest.mark.parametrize(
    ("before", "findings"),
    [
        ("", []),
        ("@%p add.u32 %r1, %r1, 2;", ["PW437"]),  # an address that differs
        ("@%p add.u32 %r2, %r2, 8;", ["PW437"]),  # a stride that differs
        ("add.u32 %r1, %r1, 1;", ["PW431"]),
        ("add.u32 %r1, %r1, 7680;", ["PW430"]),
    ],
    ids=["right", "address", "stride", "misaligned", "outside"],
)
def test_findings(statement, before, findings):
    body = f"""
  mov.u32 %r1, tile; mov.u32 %r2, 24; setp.eq.u32 %p, %t, 45; mov.b32 %r3, 0; mov.u32 %r4, %t;
fill:
  mad.lo.u32 %r5, %r4, 4, %r1; st.shared.b32 [%r5], %r3; add.u32 %r4, %r4, 64;
  setp.lt.u32 %p, %r4, 2048; @%p bra fill;
  bar.sync 0;
  setp.eq.u32 %p, %t, 45; shr.u32 %r6, %t, 5; mad.lo.u32 %r1, %r6, 1024, %r1;
  {before}
  {statement}"""
    run(body, np.zeros(1), threads=64, findings=findings)


def test_addresses_may_differ_between_warps():
    data = RANDOM.integers(0, 2**16, (3, 16, 16)).astype("u2")
    vector = "{%r10, %r11, %r12, %r13}"
    body = f"""
  shr.u32 %r1, %t, 5; mad.wide.u32 %d1, %r1, 512, %a0; mad.wide.u32 %d2, %r1, 512, %a1;
  wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {vector}, [%d1];
  wmma.store.d.sync.aligned.col.m16n16k16.global.f16 [%d2], {vector};"""
    found = run(body, data, np.zeros_like(data), threads=96)[1]
    np.testing.assert_array_equal(found, data.transpose(0, 2, 1))


def test_a_tile_never_written():
    body = "  mov.u32 %r1, tile; mov.u32 %r2, 16;\n  " + TILE_LOAD
    run(body, np.zeros(1), findings=["PW432"])
