"""Matrix instructions against numpy, with fragments laid out by the PTX ISA's own words."""

import ml_dtypes
import numpy as np
import pytest

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile

RANDOM = np.random.default_rng(51)
KINDS = {
    "f16": "f2", "bf16": ml_dtypes.bfloat16, "tf32": "f4", "f32": "f4", "f64": "f8", "s8": "i1",
    "u8": "u1", "s32": "i4", "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def run(body, *arrays, threads=32, findings=()):
    names = [f"p{i}" for i in range(len(arrays))]
    parameters = ", ".join(f".param .u64 {name}" for name in names)
    loads = "\n".join(f"  ld.param.u64 %a{i}, [{name}];" for i, name in enumerate(names))
    text = f"""\
.version 9.0
.target sm_100a
.address_size 64
.entry k({parameters}) {{
  .reg .b64 %a<9>, %d<40>; .reg .b32 %t, %r<60>; .reg .f64 %f<9>; .reg .pred %p;
  .shared .align 16 .b8 tile[8192];
{loads}
  mov.u32 %t, %tid.x;
{body}
  ret;
}}
"""
    module = parse_module(SourceFile("k.ptx", text))
    launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), arrays)
    done = execute(module.kernels[0], module, launch, options=EmulatorOptions())
    assert [finding.code for finding in done.findings] == list(findings), done.findings
    return done.buffers


def numbers(kind, *shape):
    """Small numbers whose products and sums are exact, of an element type."""
    if kind in ("u8", "s8"):
        low, high = (0, 255) if kind == "u8" else (-128, 127)
        return RANDOM.integers(low, high, shape, endpoint=True).astype(KINDS[kind])
    return RANDOM.integers(-4, 5, shape).astype("f4").astype(KINDS[kind])


# The layouts, element by element, as the ISA's figures have them.


def left_place(lane, register, element, kind, rows, bits):
    per = max(32 // bits, 1)
    group, place = lane >> 2, lane & 3
    if rows == 8:
        return group, place * per + element + 4 * per * register
    row = group if register % 2 == 0 else group + 8
    return row, place * per + element + 4 * per * (register // 2)


def right_place(lane, register, element, bits):
    per = max(32 // bits, 1)
    return (lane & 3) * per + element + 4 * per * register, lane >> 2


def sum_place(lane, index):
    return (lane >> 2) + 8 * (index // 2), (lane & 3) * 2 + index % 2


def packed(matrix, places, registers, bits):
    """Lane registers: (32, registers, elements) as bytes."""
    per = max(32 // bits, 1)
    out = np.zeros((32, registers, per), matrix.dtype)
    for lane in range(32):
        for register in range(registers):
            for element in range(per):
                out[lane, register, element] = matrix[places(lane, register, element)]
    return out.view(np.uint8).reshape(32, -1)


CASES = [
    # shape, D, A, B, C
    ((16, 8, 16), "f32", "f16", "f16", "f32"),
    ((16, 8, 8), "f32", "f16", "f16", "f32"),
    ((16, 8, 16), "f16", "f16", "f16", "f16"),
    ((16, 8, 8), "f16", "f16", "f16", "f16"),
    ((16, 8, 16), "f32", "bf16", "bf16", "f32"),
    ((16, 8, 8), "f32", "bf16", "bf16", "f32"),
    ((16, 8, 8), "f32", "tf32", "tf32", "f32"),
    ((16, 8, 4), "f32", "tf32", "tf32", "f32"),
    ((16, 8, 32), "s32", "s8", "s8", "s32"),
    ((16, 8, 32), "s32", "u8", "s8", "s32"),
    ((16, 8, 16), "s32", "s8", "u8", "s32"),
    ((8, 8, 16), "s32", "u8", "u8", "s32"),
    ((16, 8, 32), "f32", "e4m3", "e5m2", "f32"),
    ((8, 8, 4), "f64", "f64", "f64", "f64"),
    ((16, 8, 4), "f64", "f64", "f64", "f64"),
    ((16, 8, 8), "f64", "f64", "f64", "f64"),
    ((16, 8, 16), "f64", "f64", "f64", "f64"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "m{}n{}k{}".format(*c[0]) + ".".join(c[1:]))
def test_products(case):
    (m, n, k), to, left, right, add = case
    bits = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f64": 64}
    a, b, c = numbers(left, m, k), numbers(right, k, n), RANDOM.integers(-99, 99, (m, n))
    c = c.astype(KINDS[add])
    size = 8 if left == "f64" else 4
    a_count, b_count = (
        m * k * bits[left] // 32 // (8 * size),
        k * n * bits[right] // 32 // (8 * size),
    )
    a_bytes = packed(a, lambda *w: left_place(*w, left, m, bits[left]), a_count, bits[left])
    b_bytes = packed(b, lambda *w: right_place(*w, bits[right]), b_count, bits[right])
    elements = m * n // 32
    c_lanes = np.array([[c[sum_place(lane, i)] for i in range(elements)] for lane in range(32)])
    c_bytes = np.ascontiguousarray(c_lanes.astype(KINDS[add])).view(np.uint8).reshape(32, -1)
    register = "%d" if size == 8 else "%r"
    lines, groups, number = [], [], 10
    for pointer, data in enumerate((a_bytes, b_bytes, c_bytes)):
        count = data.shape[1] // size
        lines.append(f"  mad.wide.u32 %d1, %t, {data.shape[1]}, %a{pointer};")
        names = [f"{register}{number + i}" for i in range(count)]
        lines += [f"  ld.global.b{8 * size} {x}, [%d1+{size * i}];" for i, x in enumerate(names)]
        groups.append(names)
        number += count
    outputs = groups[2]
    text = ", ".join("{" + ", ".join(g) + "}" for g in (outputs, *groups))
    name = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{to}.{left}.{right}.{add}"
    lines.append(f"  {name} {text};")
    lines.append(f"  mad.wide.u32 %d1, %t, {c_bytes.shape[1]}, %a3;")
    lines += [f"  st.global.b{8 * size} [%d1+{size * i}], {x};" for i, x in enumerate(outputs)]
    found = run("\n".join(lines), a_bytes, b_bytes, c_bytes, np.zeros_like(c_bytes))[3]
    lanes = found.view(KINDS[to]).reshape(32, elements)
    exact = a.astype("f8") @ b.astype("f8") + c.astype("f8")
    for lane in range(32):
        for index in range(elements):
            assert float(lanes[lane, index]) == exact[sum_place(lane, index)]


def test_saturation_of_integer_products():
    body = """
  mov.b32 %r1, 0x7f7f7f7f; mov.b32 %r2, 0x7ffffff0;
  mma.sync.aligned.m16n8k16.row.col{}.s32.s8.s8.s32 {{%r3, %r4, %r5, %r6}}, {{%r1, %r1}}, {{%r1}},
    {{%r2, %r2, %r2, %r2}};
  mad.wide.u32 %d1, %t, 4, %a0; st.global.b32 [%d1], %r3;"""
    exact = 0x7FFFFFF0 + 16 * 127 * 127
    found = run(body.format(""), np.zeros(32, "i4"))[0]
    assert set(found.tolist()) == {exact - 2**32}
    found = run(body.format(".satfinite"), np.zeros(32, "i4"))[0]
    assert set(found.tolist()) == {2**31 - 1}


def test_rounding_and_tf32_truncation():
    """1 + 2**-11 is no half; tf32 inputs lose their low bits; sums round once at the end."""
    low = int(np.array(1 + 2.0**-12, "f4").view("u4"))
    body = f"""
  mov.b32 %r1, {low}; mov.b32 %r2, 0x3f800000; mov.b32 %r3, 0;
  mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {{%r4, %r5, %r6, %r7}}, {{%r1, %r1}}, {{%r2}},
    {{%r3, %r3, %r3, %r3}};
  mad.wide.u32 %d1, %t, 4, %a0; st.global.b32 [%d1], %r4;"""
    found = run(body, np.zeros(32, "f4"))[0]
    assert set(found.tolist()) == {4.0}


MATRIX_LOAD = """
  mov.u32 %r1, tile; mad.lo.u32 %r2, %t, 16, %r1; mad.wide.u32 %d1, %t, 16, %a0;
  ld.global.v4.b32 {{%r3, %r4, %r5, %r6}}, [%d1]; st.shared.v4.b32 [%r2], {{%r3, %r4, %r5, %r6}};
  bar.sync 0;
  ldmatrix.sync.aligned.m8n8.{count}{trans}.shared.b16 {{{names}}}, [%r2];
  mad.wide.u32 %d1, %t, 16, %a1; st.global.v4.b32 [%d1], {{%r10, %r11, %r12, %r13}};"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix(count, trans):
    data = RANDOM.integers(0, 2**16, (4, 8, 8)).astype("u2")
    names = ", ".join(f"%r{10 + i}" for i in range(count))
    body = MATRIX_LOAD.format(count=f"x{count}", trans=trans, names=names)
    found = run(body, data, np.zeros((32, 4, 2), "u2"))[1]
    for matrix in range(count):
        source = data[matrix].T if trans else data[matrix]
        for lane in range(32):
            expected = [source[lane // 4, lane % 4 * 2 + i] for i in range(2)]
            assert found[lane, matrix].tolist() == expected


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_and_movmatrix(trans):
    data = RANDOM.integers(0, 2**16, (2, 32, 2)).astype("u2")
    body = f"""
  mov.u32 %r1, tile; mad.lo.u32 %r2, %t, 16, %r1; mad.wide.u32 %d1, %t, 4, %a0;
  ld.global.b32 %r3, [%d1]; ld.global.b32 %r4, [%d1+128];
  stmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 [%r2], {{%r3, %r4}};
  bar.sync 0; mad.lo.u32 %r5, %t, 8, %r1; ld.shared.v2.b32 {{%r6, %r7}}, [%r5];
  mad.wide.u32 %d1, %t, 8, %a1; st.global.v2.b32 [%d1], {{%r6, %r7}};
  movmatrix.sync.aligned.m8n8.trans.b16 %r8, %r3;
  mad.wide.u32 %d1, %t, 4, %a2; st.global.b32 [%d1], %r8;"""
    _, stored, turned = run(body, data, np.zeros((2, 8, 8), "u2"), np.zeros((32, 2), "u2"))
    for matrix in range(2):
        whole = data[matrix].reshape(8, 8)
        np.testing.assert_array_equal(stored[matrix], whole.T if trans else whole)
    np.testing.assert_array_equal(turned.reshape(8, 8), data[0].reshape(8, 8).T)


WMMA = [
    ((16, 16, 16), "f16", "f32", 8, 8, 8),
    ((32, 8, 16), "f16", "f32", 8, 8, 8),
    ((8, 32, 16), "f16", "f16", 8, 8, 4),
    ((16, 16, 16), "bf16", "f32", 4, 4, 8),
    ((16, 16, 16), "s8", "s32", 2, 2, 8),
    ((32, 8, 16), "u8", "s32", 4, 1, 8),
    ((16, 16, 8), "tf32", "f32", 4, 4, 8),
]


@pytest.mark.parametrize("case", WMMA, ids=lambda c: "m{}n{}k{}.".format(*c[0]) + c[1])
@pytest.mark.parametrize("layouts", ["row.col", "col.row"])
def test_wmma(case, layouts):
    (m, n, k), kind, total, a_count, b_count, c_count = case
    left, right = layouts.split(".")
    a, b, c = numbers(kind, m, k), numbers(kind, k, n), numbers("s8", m, n).astype(KINDS[total])
    shape = f"m{m}n{n}k{k}"
    names = {
        "a": [f"%r{i}" for i in range(10, 10 + a_count)],
        "b": [f"%r{i}" for i in range(20, 20 + b_count)],
        "c": [f"%r{i}" for i in range(30, 30 + c_count)],
    }
    lists = {side: "{" + ", ".join(group) + "}" for side, group in names.items()}
    stride = {"a": k if left == "row" else m, "b": n if right == "row" else k, "c": n}
    typed = f"{total}.{kind}.{kind}.{total}" if kind != "f16" else f"{total}.{total}"
    body = f"""
  wmma.load.a.sync.aligned.{left}.{shape}.global.{kind} {lists["a"]}, [%a0], {stride["a"]};
  wmma.load.b.sync.aligned.{right}.{shape}.global.{kind} {lists["b"]}, [%a1], {stride["b"]};
  wmma.load.c.sync.aligned.row.{shape}.global.{total} {lists["c"]}, [%a2], {stride["c"]};
  wmma.mma.sync.aligned.{left}.{right}.{shape}.{typed} {lists["c"]}, {lists["a"]}, {lists["b"]},
    {lists["c"]};
  wmma.store.d.sync.aligned.row.{shape}.global.{total} [%a3], {lists["c"]}, {stride["c"]};"""

    def laid_out(matrix, layout):
        plain = matrix if layout == "row" else matrix.T
        raw = np.ascontiguousarray(plain)
        return raw.view(f"u{raw.itemsize}")

    arrays = laid_out(a, left), laid_out(b, right), c, np.zeros_like(c)
    found = run(body, *arrays)[3]
    exact = a.astype("f8") @ b.astype("f8") + c.astype("f8")
    np.testing.assert_array_equal(found.astype("f8"), exact.astype(KINDS[total]).astype("f8"))


def test_double_fragments():
    a, b, c = (RANDOM.random(shape) for shape in ((8, 4), (4, 8), (8, 8)))
    body = """
  wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%f1}, [%a0];
  wmma.load.b.sync.aligned.row.m8n8k4.global.f64 {%f2}, [%a1];
  wmma.load.c.sync.aligned.row.m8n8k4.global.f64 {%f3, %f4}, [%a2];
  wmma.mma.sync.aligned.row.row.m8n8k4.f64.f64.f64.f64 {%f5, %f6}, {%f1}, {%f2}, {%f3, %f4};
  wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%a3], {%f5, %f6};"""
    np.testing.assert_allclose(run(body, a, b, c, np.zeros((8, 8)))[3], a @ b + c, rtol=1e-14)


def test_a_part_of_a_warp():
    body = """
  setp.lt.u32 %p, %t, 9;
  @%p movmatrix.sync.aligned.m8n8.trans.b16 %r8, %t;"""
    run(body, np.zeros(1), findings=["PW437"])
