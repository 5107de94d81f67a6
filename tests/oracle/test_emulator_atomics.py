"""Atomic operations against sequential Python: lane after lane, exact numbers rounded each step."""

import struct

import ml_dtypes
import mpmath
import numpy as np
import pytest
from refusals import refusals_of
from test_emulator_memory import run

RANDOM = np.random.default_rng(22)
LANES = 96
INTEGERS = {
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
CASES = [("add", k) for k in ("u32", "s32", "u64")]
CASES += [(op, k) for op in ("min", "max") for k in ("u32", "s32", "u64", "s64")]
CASES += [(op, k) for op in ("and", "or", "xor", "exch") for k in ("b32", "b64")]
CASES += [("inc", "u32"), ("dec", "u32")]
SHAPES = ["distinct", "one", "some"]


def places(shape):
    """Which element each lane accesses."""
    if shape == "distinct":
        return RANDOM.permutation(LANES)
    return np.zeros(LANES, int) if shape == "one" else RANDOM.integers(0, 7, LANES)


def numbers(kind, count):
    bits = int(kind[1:])
    edges = [0, 1, 2, 1 << bits - 1, (1 << bits - 1) - 1, (1 << bits) - 1, 0x55555555]
    values = RANDOM.integers(0, 1 << bits, count, dtype="u8")
    few = RANDOM.choice(np.array(edges, "u8"), count)
    return np.where(RANDOM.random(count) < 0.5, values, few).astype(f"u{bits // 8}")


def execute(statement, size, place, memory, *given, space="global", results=True):
    """Runs a statement with %d0 the address, %x0.. or %r0.. the values; memory and results."""
    wide = "x" if size == 8 else "h" if size == 2 else "r"
    loads = "".join(
        f"add.u64 %x8, %d{n + 2}, %x7; ld.global.b{8 * size} %{wide}{n}, [%x8];"
        for n in range(len(given))
    )
    shared = space == "shared"
    copy_in = copy_out = ""
    if shared:  # the first thread copies, all others wait
        count = len(memory)
        copy_in = "".join(
            f"ld.global.b{8 * size} %{wide}8, [%d0+{n * size}];"
            f"st.shared.b{8 * size} [m+{n * size}], %{wide}8;"
            for n in range(count)
        )
        copy_out = "".join(
            f"ld.shared.b{8 * size} %{wide}8, [m+{n * size}];"
            f"st.global.b{8 * size} [%d0+{n * size}], %{wide}8;"
            for n in range(count)
        )
        copy_in = f"setp.ne.u32 %p0, %r7, 0; @%p0 bra A; {copy_in} A: bar.sync 0;"
        copy_out = f"bar.sync 0; @%p0 bra B; {copy_out} B:"
    base = "mov.u64 %d8, m;" if shared else "mov.u64 %d8, %d0;"
    body = f"""mov.u32 %r7, %tid.x; mul.wide.u32 %x7, %r7, 4; add.u64 %x8, %d1, %x7;
      ld.global.u32 %r6, [%x8]; mul.wide.u32 %x6, %r6, {size}; mul.wide.u32 %x7, %r7, {size};
      {copy_in} {loads} {base} add.u64 %d8, %d8, %x6; {statement}
      add.u64 %x8, %d{len(given) + 2}, %x7; st.global.b{8 * size} [%x8], %{wide}5; {copy_out}"""
    out = np.zeros(len(place), given[0].dtype)
    buffers = run(
        body, memory, place.astype("u4"), *given, out, threads=len(place),
        declarations=f".shared .align 8 .b8 m[{memory.nbytes}];",
    )  # fmt: skip
    return buffers[0], buffers[-1]


def as_integer(word, kind):
    bits = int(kind[1:])
    return word - (word >> bits - 1 << bits) if kind[0] == "s" else word


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_integers(name, kind, shape, space):
    size = int(kind[1:]) // 8
    place, memory, given = places(shape), numbers(kind, LANES), numbers(kind, LANES)
    bank = "x" if size == 8 else "r"
    text = f"atom.{space}.{name}.{kind} %{bank}5, [%d8], %{bank}0;"
    changed, old = execute(text, size, place, memory, given, space=space)
    expected = [as_integer(word, kind) for word in memory.tolist()]
    for lane, (at, word) in enumerate(zip(place.tolist(), given.tolist(), strict=True)):
        assert int(old[lane]) == expected[at] % 256**size
        result = INTEGERS[name](expected[at], as_integer(word, kind)) % 256**size
        expected[at] = as_integer(result, kind)
    assert changed.tolist() == [value % 256**size for value in expected]
    reduced = f"mov.b{8 * size} %{bank}5, 0; red.{space}.{name}.{kind} [%d8], %{bank}0;"
    if name != "exch":
        np.testing.assert_array_equal(
            execute(reduced, size, place, memory, given, space=space)[0], changed
        )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_compare_and_swap(kind, shape):
    size = int(kind[1:]) // 8
    place = places(shape)
    memory, compare, given = (
        RANDOM.integers(0, 3, LANES).astype(f"u{size}") * np.array(256**size // 4, f"u{size}")
        for _ in range(3)
    )
    bank = {2: "h", 4: "r", 8: "x"}[size]
    text = f"atom.global.cas.{kind} %{bank}5, [%d8], %{bank}0, %{bank}1;"
    changed, old = execute(text, size, place, memory, compare, given)
    expected = memory.tolist()
    for lane, at in enumerate(place.tolist()):
        assert old[lane] == expected[at]
        if expected[at] == compare[lane]:
            expected[at] = int(given[lane])
    assert changed.tolist() == expected


def rounded_sum(a, b, mantissa, least, largest):
    """The nearest number of a format to the exact sum, ties to even; patterns of specials apart."""
    with mpmath.workprec(4000):
        exact = mpmath.mpf(a) + mpmath.mpf(b)
        if exact == 0:
            return a + b
        _, exponent = mpmath.frexp(exact)
        step = mpmath.mpf(2) ** max(int(exponent) - mantissa, least)
        value = mpmath.nint(exact / step) * step
        if abs(value) > largest:
            return float("inf") if value > 0 else float("-inf")
        return float(value) if value else float(mpmath.sign(exact)) * 0.0


FORMATS = {
    "f16": (np.float16, 11, -24, 65504.0, 0x7FFF),
    "bf16": (ml_dtypes.bfloat16, 8, -133, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), 0x7FFF),
    "f32": (np.float32, 24, -149, float(np.finfo("f4").max), 0x7FFFFFFF),
    "f64": (np.float64, 53, -1074, float(np.finfo("f8").max), None),
}


def patterns(kind, count):
    bits = 8 * np.dtype(FORMATS[kind][0]).itemsize
    words = RANDOM.integers(0, 1 << bits, count, dtype="u8").astype(f"u{bits // 8}")
    near = RANDOM.normal(size=count).astype(FORMATS[kind][0]).view(words.dtype)
    tiny = RANDOM.integers(0, 9, count).astype(words.dtype)
    tiny |= (RANDOM.integers(0, 2, count) << bits - 1).astype(words.dtype)
    return np.choose(RANDOM.integers(0, 3, count), [words, near, tiny])


def float_sum(kind, old, b, flushes):
    """The patterns' sum as a pattern; None for a NaN whose pattern is not fixed."""
    dtype, mantissa, least, largest, nan = FORMATS[kind]
    unsigned = f"u{np.dtype(dtype).itemsize}"
    x, y = (float(np.array(word, unsigned).view(dtype)) for word in (old, b))
    if flushes:
        x, y = (float(np.copysign(0, v)) if abs(v) < 2.0**-126 else v for v in (x, y))
    if x != x or y != y or (abs(x) == abs(y) == float("inf") and x != y):
        return nan
    if float("inf") in (abs(x), abs(y)):
        value = x if abs(x) == float("inf") else y
    else:
        value = rounded_sum(x, y, mantissa, least, largest)
    if flushes and abs(value) < 2.0**-126:
        value = float(np.copysign(0, value))
    return int(np.array(value, dtype).view(unsigned))


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_float_sums(kind, shape, space):
    size = np.dtype(FORMATS[kind][0]).itemsize
    place, memory, given = places(shape), patterns(kind, LANES), patterns(kind, LANES)
    if shape != "distinct":  # NaN and infinity stay: keep sums finite
        memory, given = (
            (RANDOM.normal(size=LANES) * 2.0 ** RANDOM.integers(-9, 9, LANES))
            .astype(FORMATS[kind][0])
            .view(f"u{size}")
            for _ in range(2)
        )
    bank = {2: "h", 4: "r", 8: "x"}[size]
    word = ".noftz" if size == 2 else ""
    text = f"atom.{space}.add{word}.{kind} %{bank}5, [%d8], %{bank}0;"
    changed, old = execute(text, size, place, memory, given, space=space)
    expected = memory.tolist()
    for lane, (at, value) in enumerate(zip(place.tolist(), given.tolist(), strict=True)):
        assert int(old[lane]) == expected[at] or expected[at] is None
        expected[at] = float_sum(kind, expected[at], value, kind == "f32" and space == "global")
    for found, wanted in zip(changed.tolist(), expected, strict=True):
        if wanted is None:
            assert np.isnan(struct.unpack("<d", struct.pack("<Q", found))[0])
        else:
            assert found == wanted, (hex(found), hex(wanted))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_pairs(kind):
    memory, given = (patterns(kind, 2 * LANES).view("u4") for _ in range(2))
    place = np.arange(LANES)
    text = f"atom.global.add.noftz.{kind}x2 %r5, [%d8], %r0;"
    changed, old = execute(text, 4, place, memory, given)
    np.testing.assert_array_equal(old, memory)
    rows = zip(memory.view("u2").tolist(), given.view("u2").tolist(), strict=True)
    assert changed.view("u2").tolist() == [float_sum(kind, a, b, False) for a, b in rows]


def test_vectors_of_floats():
    memory, given = np.arange(8, dtype="f4"), np.array([0.5, 1, 2, 4], "f4")
    body = """ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d1];
      atom.global.v4.f32.add {%f4, %f5, %f6, %f7}, [%d0], {%f0, %f1, %f2, %f3};
      st.global.v4.f32 [%d2], {%f4, %f5, %f6, %f7};
      red.global.v2.f32.add [%d0+24], {%f0, %f1};"""
    changed, _, old = run(body, memory, given, np.zeros(4, "f4"), threads=1)
    np.testing.assert_array_equal(old, memory[:4])
    np.testing.assert_array_equal(changed, memory + np.array([0.5, 1, 2, 4, 0, 0, 0.5, 1]))


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_vectors_of_extremes(kind, name):
    dtype = FORMATS[kind][0]
    memory = np.array([1, -2, 3, float("nan"), 7, 0, -1, float("inf")], dtype).view("u2")
    given = np.array([2, -3, float("nan"), 4, 6, 1, -1, 9], dtype).view("u2")
    body = f"""ld.global.v2.b16 {{%h0, %h1}}, [%d1];
      red.global.v2.{kind}.{name}.noftz [%d0], {{%h0, %h1}};
      ld.global.v4.b16 {{%h0, %h1, %h2, %h3}}, [%d1+8];
      red.global.v4.{kind}.{name}.noftz [%d0+8], {{%h0, %h1, %h2, %h3}};"""
    changed, _ = run(body, memory, given, threads=1)
    choose = {"min": np.fmin, "max": np.fmax}[name]
    expected = choose(memory.view(dtype).astype("f4"), given.view(dtype).astype("f4"))
    expected[2:4] = memory.view(dtype).astype("f4")[2:4]
    np.testing.assert_array_equal(changed.view(dtype).astype("f4"), expected)


WORDS = ["relaxed.cta", "acquire.gpu", "release.sys", "acq_rel.cluster", ""]


@pytest.mark.parametrize("order", WORDS)
def test_orders_scopes_policies_and_sinks(order):
    dot = f".{order}" if order else ""
    dot_red = dot if "acq" not in order else ""
    place, memory = np.zeros(LANES, int), np.array([7], "u4")
    given = RANDOM.integers(0, 1 << 32, LANES, dtype="u8").astype("u4")
    text = f"""createpolicy.fractional.L2::evict_last.b64 %x5, 1.0; mov.b32 %r5, 0;
      atom{dot}.global.add.L2::cache_hint.u32 _, [%d8], %r0, %x5;
      red{dot_red}.global.xor.L2::cache_hint.b32 [%d8], %r0, %x5;"""
    changed, _ = execute(text, 4, place, memory, given)
    expected = (7 + int(given.sum(dtype="u8"))) % 2**32 ^ int(np.bitwise_xor.reduce(given))
    assert changed.tolist() == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "atom.global.add.f16 %h0, [%d0], %h1;",
        "atom.global.inc.u64 %x0, [%d0], %x1;",
        "atom.global.exch.b128 %q, [%d0], %q;",
        "atom.global.add.b32 %r0, [%d0], %r1;",
        "atom.global.min.noftz.f16 %h0, [%d0], %h1;",
        "red.global.exch.b32 [%d0], %r0;",
        "red.acquire.gpu.global.add.u32 [%d0], %r0;",
        "multimem.red.relaxed.gpu.global.add.u32 [%d0], %r0;",
    ],
)
def test_refused(text):
    assert {
        d.code
        for d in refusals_of(run, text, np.zeros(4, "u4"), threads=1, declarations=".reg .b128 %q;")
    } <= {"PW108", "PW113", "PW410"}
