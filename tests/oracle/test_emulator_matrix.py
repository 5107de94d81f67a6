"""``mma`` against Python, in every form, with fragments laid out by the PTX ISA's own words."""

import itertools

import numpy as np
import pytest
from warp_matrices import KINDS, numbers, patterns, product, run

from ptxwcet.emulator.matrix_forms import PERMITTED

RANDOM = np.random.default_rng(51)


def forms(shapes, sums, lefts, rights=None, words=("",)):
    """Shapes in words, types of D and C, of A, of B (None: like A), and modifiers."""
    pairs = [(a, b) for a in lefts for b in (rights or [a])]
    for shape, to, (a, b), extra in itertools.product(shapes.split(), sums, pairs, words):
        yield shape, (to, a, b, to), extra


FLOATS = [
    *forms("m16n8k8 m16n8k16", ["f16", "f32"], ["f16"]),
    *forms("m16n8k8 m16n8k16", ["f32"], ["bf16"]),
    *forms("m16n8k4 m16n8k8", ["f32"], ["tf32"]),
    *forms("m16n8k16 m16n8k32", ["f16", "f32"], ["e4m3", "e5m2"], ["e4m3", "e5m2"]),
    *forms("m16n8k32", ["f16", "f32"], ["e4m3", "e5m2"], ["e4m3", "e5m2"], ["kind::f8f6f4"]),
    *forms("m8n8k4 m16n8k4 m16n8k8 m16n8k16", ["f64"], ["f64"], words=["", "rn", "rz", "rm", "rp"]),
]
WRAPPED = ["", "satfinite"]
INTEGERS = [
    *forms("m8n8k16 m16n8k16 m16n8k32", ["s32"], ["s8", "u8"], ["s8", "u8"], WRAPPED),
    *forms("m8n8k32 m16n8k32 m16n8k64", ["s32"], ["s4", "u4"], ["s4", "u4"], WRAPPED),
    *forms("m8n8k128 m16n8k128 m16n8k256", ["s32"], ["b1"], words=["xor.popc", "and.popc"]),
]


def named(case):
    shape, types, words = case
    return ".".join(filter(None, ("mma.sync.aligned", shape, "row.col", *types, words)))


def sizes(shape):
    m, n, k = shape[1:].replace("n", " ").replace("k", " ").split()
    return int(m), int(n), int(k)


def test_every_form_is_here():
    cases = [
        ".".join(filter(None, (shape, "sync.aligned.row.col", *types, words)))
        for shape, types, words in (*FLOATS, *INTEGERS)
    ]
    assert sorted(cases) == sorted(PERMITTED["mma"])


@pytest.mark.parametrize("case", FLOATS, ids=named)
def test_products_of_floats(case):
    """Small integers, whose products and sums every type holds."""
    shape, types, _ = case
    m, n, k = sizes(shape)
    a = patterns(RANDOM.integers(-4, 5, (m, k)), types[1])
    b = patterns(RANDOM.integers(-4, 5, (k, n)), types[2])
    c = patterns(RANDOM.integers(-99, 99, (m, n)), types[3])
    found = product(named(case), (m, n, k), types, (a, b, c))
    expected = numbers(a, types[1]) @ numbers(b, types[2]) + numbers(c, types[3])
    np.testing.assert_array_equal(numbers(found, types[0]), expected)


@pytest.mark.parametrize("case", INTEGERS, ids=named)
def test_products_of_integers(case):
    """Any patterns; C is such that some sums overflow."""
    shape, types, words = case
    m, n, k = sizes(shape)
    bits = {"b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8}
    a = RANDOM.integers(0, 1 << bits[types[1]], (m, k)).astype(object)
    b = RANDOM.integers(0, 1 << bits[types[2]], (k, n)).astype(object)
    ends = np.array([-(2**31), -(2**31) + 9, -7, 0, 5, 2**31 - 40, 2**31 - 1])
    c = patterns(RANDOM.choice(ends, (m, n)), "s32")
    found = product(named(case), (m, n, k), types, (a, b, c))
    left, right = numbers(a, types[1]), numbers(b, types[2])
    if "popc" in words:
        joined = (lambda x, y: x & y) if "and" in words else (lambda x, y: x ^ y)
        sums = [[sum(map(joined, row, column)) for column in right.T] for row in left]
        total = np.array(sums, dtype=object) + numbers(c, "s32")
    else:
        total = left @ right + numbers(c, "s32")
    if words == "satfinite":
        expected = np.clip(total, -(2**31), 2**31 - 1)
    else:
        expected = (total + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(numbers(found, "s32"), expected)
    assert (expected != total).any()


def test_two_warps_multiply_apart():
    """Each warp has matrices of its own."""
    body = """
  shr.u32 %r1, %t, 5; add.u32 %r1, %r1, 1; cvt.rn.f32.u32 %r2, %r1; mov.b32 %r3, 0x3f800000;
  mov.b32 %r4, 0;
  mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%r5, %r6, %r7, %r8}, {%r2, %r2}, {%r3},
    {%r4, %r4, %r4, %r4};
  mad.wide.u32 %d1, %t, 4, %a0; st.global.b32 [%d1], %r5;"""
    found = run(body, np.zeros(96, KINDS["f32"]), threads=96)[0]
    assert found.tolist() == [4.0] * 32 + [8.0] * 32 + [12.0] * 32
