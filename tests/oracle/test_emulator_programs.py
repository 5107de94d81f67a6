"""Programs that nvcc made, executed, against other libraries: long chains of many instructions."""

import math
from functools import cache

import ml_dtypes
import mpmath
import numpy as np
import pytest
from parsing import parse_file
from places import DATA

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions

pytestmark = pytest.mark.fast

PROGRAMS = DATA / "emulator"
RANDOM = np.random.default_rng(11)
mpmath.mp.prec = 120


@cache
def module(name):
    return parse_file(PROGRAMS / f"{name}.ptx")


def run(program, kernel, block, *arguments, grid=(1, 1, 1), shared=0):
    (entry,) = [k for k in module(program).kernels if k.name == kernel]
    launch = EmulatedLaunch(block, grid, arguments, (), shared)
    done = execute(entry, module(program), launch, options=EmulatorOptions())
    assert not done.findings, done.findings
    assert done.is_complete
    return done.buffers


def apply(kernel, *inputs):
    size = inputs[0].size
    grid = -(-size // 256)
    buffers = run(
        "math_functions", kernel, (256, 1, 1), *inputs, np.zeros_like(inputs[0]), size,
        grid=(grid, 1, 1),
    )  # fmt: skip
    return buffers[-2]


def floats(kind, low, high, count=300):
    """Numbers between, ends and zeros among them, spread over the exponents as well."""
    spread = RANDOM.uniform(low, high, count)
    near = spread * 10.0 ** RANDOM.uniform(-6, 0, count)
    special = [low, high, 0.0, -0.0, 1.0, 0.5]
    values = np.array([*spread, *near, *special]).astype(kind)
    return values[(values >= low) & (values <= high)]


def ulps(found, exact):
    """The distance of each result from the exact value in units of the last place."""
    info = np.finfo(found.dtype)
    rows = []
    for value, wanted in zip(found.tolist(), exact, strict=True):
        if mpmath.isnan(wanted) or mpmath.isinf(wanted):
            same = math.isnan(value) if mpmath.isnan(wanted) else value == float(wanted)
            rows.append(0.0 if same else math.inf)
            continue
        size = abs(wanted)
        exponent = int(mpmath.floor(mpmath.log(size, 2))) if size else info.minexp
        unit = mpmath.ldexp(1, max(exponent, info.minexp) - info.nmant)
        if math.isinf(value):
            rows.append(0.0 if size >= float(info.max) * (1 + 2.0**-info.nmant) else math.inf)
        else:
            rows.append(float(abs(wanted - value) / unit))
    return max(rows)


# name, low, high of the arguments, function, largest error in units of the last place: those that
# NVIDIA states for the library (CUDA programming guide, mathematical functions), and half a unit
# for the rounding of the exact value where that is exact
UNARY = [
    ("f32_sin", -1e6, 1e6, mpmath.sin, 2),
    ("f32_cos", -1e6, 1e6, mpmath.cos, 2),
    ("f32_tan", -1e5, 1e5, mpmath.tan, 4),
    ("f32_exp", -100, 88, mpmath.exp, 2),
    ("f32_exp2", -140, 127, lambda x: mpmath.power(2, x), 2),
    ("f32_expm1", -10, 80, mpmath.expm1, 1.5),
    ("f32_log", 1e-30, 1e30, mpmath.log, 1.5),
    ("f32_log1p", -0.999, 1e20, mpmath.log1p, 1.5),
    ("f32_tanh", -12, 12, mpmath.tanh, 2),
    ("f32_erf", -5, 5, mpmath.erf, 2),
    ("f32_cbrt", -1e20, 1e20, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), 1.5),
    ("f32_asin", -1, 1, mpmath.asin, 2.5),
    ("f32_atan", -1e10, 1e10, mpmath.atan, 2.5),
    ("f32_sqrt", 0, 1e30, mpmath.sqrt, 0.5),
    ("f32_rint", -100, 100, lambda x: mpmath.mpf(float(np.rint(float(x)))), 0),
    ("f32_floor", -100, 100, mpmath.floor, 0),
    ("f32_lgamma", 0.1, 1e6, mpmath.loggamma, 6.5),
    ("f64_sin", -1e12, 1e12, mpmath.sin, 2),
    ("f64_exp", -740, 709, mpmath.exp, 1.5),
    ("f64_log", 1e-300, 1e300, mpmath.log, 1.5),
    ("f64_sqrt", 0, 1e300, mpmath.sqrt, 0.5),
    ("f64_tanh", -30, 30, mpmath.tanh, 2),
    ("f64_erf", -6, 6, mpmath.erf, 2),
    ("f64_cbrt", -1e200, 1e200, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), 1.5),
]
BINARY = [
    ("f32_pow", 1e-3, 100, -15, 15, mpmath.power, 4),
    ("f32_div", -1e10, 1e10, 1e-5, 1e5, lambda x, y: x / y, 0.5),
    ("f32_hypot", -1e20, 1e20, -1e20, 1e20, mpmath.hypot, 3),
    ("f32_atan2", -1e3, 1e3, -1e3, 1e3, mpmath.atan2, 3),
    ("f64_pow", 1e-3, 1e3, -90, 90, mpmath.power, 2),
    ("f64_div", -1e100, 1e100, 1e-50, 1e50, lambda x, y: x / y, 0.5),
]


def kind_of(name):
    return "f4" if name.startswith("f32") else "f8"


@pytest.mark.parametrize("row", UNARY, ids=lambda row: row[0])
def test_functions(row):
    name, low, high, function, most = row
    x = floats(kind_of(name), low, high)
    exact = [function(mpmath.mpf(value)) for value in x.tolist()]
    assert ulps(apply(name, x), exact) <= most


@pytest.mark.parametrize("row", BINARY, ids=lambda row: row[0])
def test_functions_of_two_arguments(row):
    name, low, high, low2, high2, function, most = row
    x, y = floats(kind_of(name), low, high), floats(kind_of(name), low2, high2)
    size = min(x.size, y.size)
    x, y = x[:size], RANDOM.permutation(y[:size])
    if name == "f32_atan2":  # mpmath has no zero with a sign
        x, y = x[x != 0], y[x != 0]
    exact = [
        function(mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    assert ulps(apply(name, x, y), exact) <= most


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_fmod_is_exact(kind):
    x, y = floats(kind, -1e6, 1e6), floats(kind, 1e-3, 1e3)
    size = min(x.size, y.size)
    found = apply("f32_fmod" if kind == "f4" else "f64_fmod", x[:size], y[:size])
    np.testing.assert_array_equal(found, np.fmod(x[:size], y[:size]))


def integers(kind, count=500):
    info = np.iinfo(kind)
    bits = RANDOM.integers(0, 2**64, count, dtype="u8") >> RANDOM.integers(0, 64, count).astype(
        "u8"
    )
    values = [*bits.astype(kind).tolist(), info.min, info.max, 1, 2, 3, 7]
    return np.array(values, dtype=kind)


@pytest.mark.parametrize(
    ("name", "kind", "definition"),
    [
        ("s64_div", "i8", lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
        ("s64_rem", "i8", lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1)),
        ("u64_div", "u8", lambda a, b: a // b),
        ("u64_mulhi", "u8", lambda a, b: a * b >> 64),
        ("s32_div", "i4", lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
        ("s32_rem", "i4", lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1)),
    ],
)
def test_integer_division(name, kind, definition):
    a, b = integers(kind), RANDOM.permutation(integers(kind))
    least = np.iinfo(kind).min
    kept = (b != 0) & ~((a == least) & (b == np.array(-1).astype(kind)))
    a, b = a[kept], b[kept]
    expected = [definition(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert apply(name, a, b).tolist() == expected


# --- threads that work together -------------------------------------------------------------------


def block(*sizes):
    return (*sizes, 1, 1, 1)[:3]


def test_compaction_by_votes():
    data = RANDOM.integers(-50, 50, 500).astype("i4")
    out, counts = np.full(512, -9, "i4"), np.zeros(4, "i4")
    _, out, counts, _ = run(
        "collectives", "compact", block(128), data, out, counts, 500, grid=(4, 1, 1)
    )
    for index, part in enumerate(np.split(np.append(data, [-1] * 12), 4)):
        kept = part[part >= 0].tolist()
        assert counts[index] == len(kept)
        assert out[128 * index :][:128].tolist() == kept + [-9] * (128 - len(kept))


@pytest.mark.parametrize("threads", [32, 256])
def test_sort_by_reducing_barriers(threads):
    data = RANDOM.integers(0, 2**32, (2, threads), dtype="u4")
    (found,) = run("collectives", "split_sort", block(threads), data, grid=(2, 1, 1))
    np.testing.assert_array_equal(found, np.sort(data, axis=1))


def test_matching_lanes_count_together():
    keys = RANDOM.integers(0, 7, 150).astype("i4")
    _, counts, _ = run("collectives", "grouped_count", block(192), keys, np.zeros(7, "i4"), 150)
    np.testing.assert_array_equal(counts, np.bincount(keys, minlength=7))


def test_reductions_of_warps():
    data = RANDOM.integers(0, 999, 96).astype("i4")
    data[40] = 2000
    data[64:] += 4
    data[5] = 3
    _, found = run("collectives", "reductions", block(96), data, np.zeros((96, 6), "i4"))
    for warp in range(3):
        part = data[32 * warp :][:32]
        equal = len(set((part // 1000).tolist())) == 1
        votes = int((part == 3).any()) + 2 * int((part > 3).all())
        for lane, row in enumerate(found[32 * warp :][:32].tolist()):
            other = (lane & ~7) | ((lane ^ 5) & 7)
            xor = int(np.bitwise_xor.reduce(part))
            expected = [part.sum(), part.min(), xor, -1 if equal else -7, part[other], votes]
            assert row == expected


def test_named_barriers_hand_over():
    data = RANDOM.random((6, 64), dtype="f4")
    _, found, _ = run("collectives", "hand_over", block(128), data, np.zeros(64, "f4"), 6)
    expected = np.zeros(64, "f4")
    for row in data:
        expected += row[::-1]
    np.testing.assert_array_equal(found, expected)


def test_swap_loop():
    data = RANDOM.random(70)
    _, total = run("collectives", "swap_add", block(70), data, np.zeros(1))
    np.testing.assert_allclose(total[0], data.sum(), rtol=1e-14)


def test_dispatch():
    code = RANDOM.integers(-1, 10, 129).astype("i4")
    _, found = run("collectives", "dispatch", block(64), code, np.zeros(128, "i4"), grid=(2, 1, 1))

    def bits(x):
        return x & 0xFFFFFFFF

    def permuted(x):
        source = (0x01020304 << 32 | bits(x)).to_bytes(8, "little")
        return int.from_bytes(bytes(source[s] for s in (0, 4, 1, 5)), "little")

    for t, found_one in enumerate(found.view("u4").tolist()):
        rules = {
            0: t * 3 + 1, 1: t ^ 0x55, 2: t - 7 * int(code[t + 1]), 3: int(f"{t:032b}"[::-1], 2),
            4: t // 3, 5: (t + 11) ** 2, 6: t * t, 7: ~t, 8: permuted(t),
        }  # fmt: skip
        assert found_one == bits(rules.get(int(code[t]), -1))


def test_packed_halves():
    x, y = (RANDOM.uniform(-2, 2, 128).astype("f2") for _ in range(2))
    out = np.zeros(128, "f2")
    found = run("collectives", "half_axpy", block(64), x, y, out, 1.3)[2]
    exact = float(np.float16(1.3)) * x.astype("f8") + np.maximum(y, np.float16(-0.5)).astype("f8")
    np.testing.assert_array_equal(found, exact.astype("f2"))  # f64 holds sum and product


def test_brain_floats():
    x, y = (RANDOM.uniform(-2, 2, (32, 8)).astype(ml_dtypes.bfloat16) for _ in range(2))
    found = run(
        "collectives", "brain_dot", block(32), x.view("u2"), y.view("u2"), np.zeros(32, "f4")
    )[2]
    sums = np.zeros((32, 2), ml_dtypes.bfloat16)
    for i in range(4):
        part = slice(2 * i, 2 * i + 2)
        exact = x[:, part].astype("f8") * y[:, part].astype("f8") + sums.astype("f8")
        sums = exact.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found, sums.astype("f4").sum(axis=1, dtype="f4"))


def test_tensor_cores():
    a, b = RANDOM.uniform(-1, 1, (16, 80)), RANDOM.uniform(-1, 1, (16, 80))
    a, b = a.astype("f2"), b.astype("f2")
    found = run("collectives", "tensor_product", block(32), a, b, np.zeros((16, 16), "f4"), 80)[2]
    np.testing.assert_allclose(found, 2 * a.astype("f8") @ b.astype("f8").T, rtol=1e-5, atol=1e-5)


def test_barrier_in_memory():
    data = RANDOM.integers(0, 99, (5, 96)).astype("i4")
    _, found, _ = run("collectives", "memory_barrier_sum", block(96), data, np.zeros(96, "i4"), 5)
    np.testing.assert_array_equal(found, np.roll(data, -1, axis=1).sum(axis=0))
