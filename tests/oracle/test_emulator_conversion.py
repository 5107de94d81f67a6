"""cvt on edge values, against exact fractions, struct and ml_dtypes."""

import math
import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from single_instruction import evaluate

from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

# --- values ---------------------------------------------------------------------------------------

INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
DECODED = {
    "f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype("f4"),
    "f64": np.dtype("f8"), "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2), "e2m3": np.dtype(ml_dtypes.float6_e2m3fn),
    "e3m2": np.dtype(ml_dtypes.float6_e3m2fn), "e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
}  # fmt: skip
FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52, "e4m3": 3, "e5m2": 2, "e2m3": 3,
            "e3m2": 2, "e2m1": 1, "tf32": 10}  # fmt: skip
LEAST_EXPONENT = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022, "e4m3": -6, "e5m2": -14,
                  "e2m3": 0, "e3m2": -2, "e2m1": 0, "tf32": -126}  # fmt: skip
LARGEST = {"f16": 65504, "bf16": (2 - Fraction(1, 128)) * 2**127, "f32": 2**128 - 2**104,
           "f64": 2**1024 - 2**971, "e4m3": 448, "e5m2": 57344, "e2m3": Fraction(15, 2),
           "e3m2": 28, "e2m1": 6, "tf32": (2 - Fraction(1, 1024)) * 2**127}  # fmt: skip


def integers(name, count=400):
    dtype = np.dtype(("i" if name[0] == "s" else "u") + str(int(name[1:]) // 8))
    limits = np.iinfo(dtype)
    around = [0, limits.min, limits.max, 0x5555555555555555, 0xAAAAAAAAAAAAAAAA]
    for power in (7, 8, 11, 15, 16, 24, 25, 31, 32, 33, 53, 54, 63, 64):
        around += [s * ((1 << power) + d) for s in (1, -1) for d in (-2, -1, 0, 1, 2, 3)]
        around += [(1 << power) + (1 << max(power - 24, 0)) + d for d in (-1, 0, 1)]
        around += [(1 << power) + (1 << max(power - 11, 0)) + d for d in (-1, 0, 1)]
    random = np.random.default_rng(1).integers(0, 2**64, count, dtype=np.uint64)
    shift = np.random.default_rng(2).integers(0, 64, count, dtype=np.uint64)
    whole = (1 << limits.bits) - 1
    bits = [v & whole for v in around] + [int(v) & whole for v in (random >> shift)]
    return np.array(bits, dtype=f"u{dtype.itemsize}").view(dtype)


def floats(name, count=500):
    """Patterns of all kinds, with halfway cases of narrower formats and of integers."""
    dtype = np.dtype(f"u{DECODED[name].itemsize}")
    width = 8 * dtype.itemsize
    random = np.random.default_rng(3).integers(0, 2**64, count, dtype=np.uint64)
    patterns = [int(v) & (1 << width) - 1 for v in random]
    fraction = FRACTION[name]
    field = (1 << width - 1 - fraction) - 1
    for exponent in (0, 1, field // 2, field - 1, field):
        base = exponent << fraction
        patterns += [base + d for d in (0, 1, 2, 3) if base + d < 1 << width - 1]
        patterns += [base | (1 << fraction) - 1, base | 1 << fraction - 1]
    numbers = [0.5, 1.5, 2.5, 0.25, 0.75, 1e-30, 127.5, 128.5, 255.5, 256.0, 32767.5, 65503.9]
    numbers += [65504.0, 65519.9, 65520.0, 65535.5, 448.0, 463.9, 464.0, 465.0, 57344.0, 61440.0]
    numbers += [2.0**p + d for p in (31, 32, 63, 64) for d in (-1.0, 0.0, 0.5)]
    numbers += [2.0**31 - 0.5, 2.0**63 - 1024, 2.0**64 - 2048, 2.0**63 - 2**39, 2.0**64 - 2**40]
    for bits in (1, 2, 3, 7, 10, 23):
        for scale in (0, 5, -14, -16, -24, -25, -126, -130, -149, 127):
            for tail in (0, 1, -1):
                half = (1 + 2.0**-bits + 2.0 ** -(bits + 1)) * 2.0**scale
                numbers.append(half + tail * half * 2.0**-30)
                even = (1 + 2.0 ** -(bits + 1)) * 2.0**scale
                numbers.append(even + tail * even * 2.0**-30)
    with np.errstate(all="ignore"):
        patterns += np.array(numbers).astype(DECODED[name]).view(dtype).tolist()
    signs = [p ^ 1 << width - 1 for p in patterns]
    return np.array(patterns + signs, dtype=dtype)


def exact(values):
    """Fractions; infinities and NaN as floats."""
    plain = [float(v) if v.dtype.kind in "fV" else int(v) for v in values]
    return [Fraction(v) if math.isfinite(v) else v for v in plain]


def decoded(bits, name):
    return bits.view(DECODED[name])


# --- definition of rounding -----------------------------------------------------------------------


def rounded(value, name, mode):
    """A fraction rounded to a format with an unlimited exponent upwards."""
    if value == 0:
        return value
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, LEAST_EXPONENT[name]) - FRACTION[name])
    steps = value / quantum
    whole = {
        "rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil,
        "rna": lambda s: math.floor(abs(s) + Fraction(1, 2)) * (1 if s > 0 else -1),
    }[mode](steps)  # fmt: skip
    return whole * quantum


def expected(value, name, mode, finite=False):
    """What the format holds for a number: a fraction, or a float if infinite."""
    largest = LARGEST[name]
    if not isinstance(value, Fraction):
        return value if not finite or math.isnan(value) else math.copysign(1, value) * largest
    result = rounded(value, name, mode)
    if abs(result) <= largest:
        return result
    inwards = {"rz": True, "rm": value > 0, "rp": value < 0}.get(mode, False)
    return (1 if value > 0 else -1) * (largest if finite or inwards else math.inf)


def same(found, wanted, sources):
    """Numbers equal, NaN where NaN is wanted, signs of zeros as those of the sources."""
    for got, want, source in zip(found, wanted, sources, strict=True):
        number = float(got)
        if isinstance(want, float) and math.isnan(want):
            assert math.isnan(number), (source, got)
        elif isinstance(want, float):
            assert number == want, (source, got, want)
        else:
            assert math.isfinite(number), (source, got, want)
            assert Fraction(number) == want, (source, got, want)
            if want == 0:
                assert math.copysign(1, number) == math.copysign(1, float(source)), source


# --- integers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("sat", ["", ".sat"])
def test_between_integers(to, source, sat):
    values = integers(source, 100)
    width, signed = int(to[1:]), to[0] == "s"
    wider = width > int(source[1:]) and (signed or source[0] == "u")
    if sat and (wider or to == source):
        with pytest.raises(PtxwcetError):  # as ptxas: there is nothing to saturate
            evaluate(f"cvt.sat.{to}.{source} %r0, %a;", [values], ["u8"])
        return
    found = evaluate(f"cvt{sat}.{to}.{source} %r0, %a;", [values], ["u8"])
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    for value, got in zip(values.tolist(), found.tolist(), strict=True):
        want = min(max(value, low), high) if sat else value & (1 << width) - 1
        if signed and want >= 1 << width - 1:
            want -= 1 << width
        assert got == want % 2**64, value


def test_low_bits_of_a_wide_register():
    bits = np.array([0x1234567890ABCD80, 0xFFFFFFFFFFFF7FFF, 0x8000], dtype="u8")
    found = evaluate("cvt.s32.s8 %r0, %a;", [bits], ["i4"]).tolist()
    assert found == [-128, -1, 0]
    found = evaluate("cvt.rn.f32.u16 %r0, %a;", [bits], ["f4"]).tolist()
    assert found == [0xCD80, 0x7FFF, 0x8000]


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_integers_to_floats(to, source, mode):
    values = integers(source, 100)
    found = evaluate(f"cvt.{mode}.{to}.{source} %r0, %a;", [values], [f"u{DECODED[to].itemsize}"])
    wanted = [expected(value, to, mode) for value in exact(values)]
    same(decoded(found, to), wanted, [abs(int(v)) if v == 0 else v for v in values.tolist()])


@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_floats_to_integers(to, source, mode):
    bits = floats(source, 150)
    found = evaluate(f"cvt.{mode}.{to}.{source} %r0, %a;", [bits], ["u8"])
    width, signed = int(to[1:]), to[0] == "s"
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    whole = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode]
    for value, got in zip(exact(decoded(bits, source)), found.tolist(), strict=True):
        if isinstance(value, Fraction):
            want = min(max(whole(value), low), high)
        elif math.isnan(value):
            want = (-1 if signed else 1) << width - 1 if source == "f64" or width == 64 else 0
        else:
            want = high if value > 0 else low
        assert got == want % 2**64, value


def test_flushed_before_rounding_to_an_integer():
    bits = np.array([1, 0x007FFFFF, 0x00800000, 0x80000001], dtype="u4")
    plain = evaluate("cvt.rpi.s32.f32 %r0, %a;", [bits], ["i4"]).tolist()
    flushed = evaluate("cvt.rpi.ftz.s32.f32 %r0, %a;", [bits], ["i4"]).tolist()
    assert (plain, flushed) == ([1, 1, 1, 0], [0, 0, 1, 0])


# --- floats ---------------------------------------------------------------------------------------

FLOATS = ["f16", "bf16", "f32", "f64"]
NARROWER = [("f64", "f32"), ("f64", "f16"), ("f64", "bf16"), ("f32", "f16"), ("f32", "bf16"),
            ("f16", "bf16"), ("bf16", "f16")]  # fmt: skip
WIDER = [("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("f32", "f64")]


@pytest.mark.parametrize(("source", "to"), NARROWER)
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_narrower_floats(to, source, mode):
    bits = floats(source)
    found = evaluate(f"cvt.{mode}.{to}.{source} %r0, %a;", [bits], [f"u{DECODED[to].itemsize}"])
    values = decoded(bits, source)
    same(decoded(found, to), [expected(v, to, mode) for v in exact(values)], values)


@pytest.mark.parametrize(("source", "to"), [*WIDER, *[(f, f) for f in FLOATS]])
def test_exact_floats(to, source):
    bits = floats(source)
    found = evaluate(f"cvt.{to}.{source} %r0, %a;", [bits], [f"u{DECODED[to].itemsize}"])
    values = decoded(bits, source)
    same(decoded(found, to), exact(values), values)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_rounded_to_integral_floats(kind, mode):
    bits = floats(kind)
    found = evaluate(f"cvt.{mode}.{kind}.{kind} %r0, %a;", [bits], [bits.dtype])
    whole = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode]
    values = decoded(bits, kind)
    wanted = [Fraction(whole(v)) if isinstance(v, Fraction) else v for v in exact(values)]
    same(decoded(found, kind), wanted, values)


@pytest.mark.parametrize(
    ("form", "nan"),
    [("rn.f16.f32", 0x7FFF), ("rz.f16.f32", 0x7FFF), ("rn.bf16.f32", 0x7FFF),
     ("f32.f32", 2**31 - 1), ("rn.tf32.f32", 0x7FFFE000), ("rn.satfinite.f16.f32", 0x7FFF)],
)  # fmt: skip
def test_nan_is_canonical(form, nan):
    bits = np.array([0x7F800001, 0xFFC12345, 0xFFFFFFFF], dtype="u4")
    kind = "u4" if nan > 65535 else "u2"
    assert evaluate(f"cvt.{form} %r0, %a;", [bits], [kind]).tolist() == [nan] * 3


@pytest.mark.parametrize(
    ("form", "nan", "result"),
    [("f64.f32", 0x7FC12345, 0x7FF82468A0000000), ("f64.f32", 0xFFA00001, 0xFFFC000020000000),
     ("ftz.f64.f32", 0x7FC12345, 0x7FFFFFFFE0000000)],
)  # fmt: skip
def test_nan_at_double_precision_is_what_ptxas_folds(form, nan, result):
    bits = np.array([nan], dtype="u4" if nan > 65535 else "u2")
    assert evaluate(f"cvt.{form} %r0, %a;", [bits], ["u8"]).tolist() == [result]


@pytest.mark.parametrize("to", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("words", ["relu", "satfinite", "relu.satfinite"])
def test_relu_and_satfinite(to, mode, words):
    bits = floats("f32")
    found = evaluate(f"cvt.{mode}.{words}.{to}.f32 %r0, %a;", [bits], ["u2"])
    values = decoded(bits, "f32")
    wanted = [expected(v, to, mode, "satfinite" in words) for v in exact(values)]
    signs = values
    if "relu" in words:
        wanted = [w if math.isnan(w) else max(w, Fraction(0)) for w in wanted]
        signs = np.abs(values)
    same(decoded(found, to), wanted, signs)


@pytest.mark.parametrize("form", ["rn.sat.f16.f32", "rp.sat.f32.f64", "sat.f64.f32", "sat.f16.f16",
                                  "sat.f32.f32", "rmi.sat.f32.f32"])  # fmt: skip
def test_saturated_to_one(form):
    *words, to, source = form.split(".")
    bits = floats(source)
    found = evaluate(f"cvt.{form} %r0, %a;", [bits], [f"u{DECODED[to].itemsize}"])
    wanted = []
    for value in exact(decoded(bits, source)):
        held = 0 if math.isnan(value) else min(max(value, Fraction(0)), Fraction(1))
        held = Fraction(math.floor(held)) if "rmi" in words else Fraction(held)
        wanted.append(rounded(held, to, words[0] if words[0] in ("rn", "rp") else "rn"))
    same(decoded(found, to), wanted, [1] * len(wanted))


def test_saturated_integer_sources():
    values = np.array([-5, 0, 1, 7], dtype="i4")
    assert evaluate("cvt.rn.sat.f32.s32 %r0, %a;", [values], ["f4"]).tolist() == [0, 0, 1, 1]


def test_flushed_subnormal_results_and_sources():
    tiny = 2.0**-126
    doubles = np.array([tiny, tiny * 0.75, -tiny * 0.75, -tiny, 2.0**-149])
    found = evaluate("cvt.rn.ftz.f32.f64 %r0, %a;", [doubles], ["u4"])
    assert found.tolist() == [0x00800000, 0, 0x80000000, 0x80800000, 0]
    singles = np.array([0x00800000, 0x007FFFFF, 0x80000001], dtype="u4")
    for form, kind in (("ftz.f32.f32", "f4"), ("ftz.f64.f32", "f8")):
        found = evaluate(f"cvt.{form} %r0, %a;", [singles], [kind])
        assert found.tolist() == [tiny, 0, 0]
        assert np.signbit(found).tolist() == [False, False, True]


def test_only_single_precision_is_flushed():
    halves = np.array([0x0001, 0x83FF], dtype="u2")
    found = evaluate("cvt.ftz.f32.f16 %r0, %a;", [halves], ["f4"])
    assert found.tolist() == [2.0**-24, -1023 * 2.0**-24]
    singles = np.array([2.0**-24, -(2.0**-127)], dtype="f4")
    assert evaluate("cvt.rn.ftz.f16.f32 %r0, %a;", [singles], ["u2"]).tolist() == [1, 0x8000]
    assert evaluate("cvt.rn.bf16.f32 %r0, %a;", [singles], ["u2"]).tolist() == [0x3380, 0x8040]
    assert evaluate("cvt.rn.ftz.bf16.f32 %r0, %a;", [singles], ["u2"]).tolist() == [0x3380, 0x8000]


# --- tf32 and packed formats ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", ["rna", "rn", "rz", "rn.relu", "rna.satfinite", "rz.relu.satfinite"]
)
def test_tf32(form):
    bits = floats("f32")
    found = evaluate(f"cvt.{form}.tf32.f32 %r0, %a;", [bits], ["u4"])
    values = decoded(bits, "f32")
    wanted = [expected(v, "tf32", form.split(".")[0], "satfinite" in form) for v in exact(values)]
    if "relu" in form:
        wanted = [w if math.isnan(w) else max(w, Fraction(0)) for w in wanted]
        values = np.abs(values)
    number = ~np.isnan(values)  # the digits of others are rounded like those of numbers
    wanted = [one for one, is_number in zip(wanted, number, strict=True) if is_number]
    same(found.view("f4")[number], wanted, values[number])
    assert not (found & 0x1FFF).any()


def pair_sources(name):
    bits = floats(name, 300)
    return bits, np.roll(bits, 77)


def pattern_values(name, width):
    """What each pattern of a narrow format stands for, by the other library."""
    return np.arange(1 << width, dtype="u1").view(DECODED[name]).astype("f8")


@pytest.mark.parametrize("to", ["f16", "bf16"])
@pytest.mark.parametrize("words", ["rn", "rz", "rn.relu", "rz.satfinite"])
def test_pairs_of_halves(to, words):
    a, b = pair_sources("f32")
    found = evaluate(f"cvt.{words}.{to}x2.f32 %r0, %a, %b;", [a, b], ["u4"])
    for source, half in ((a, found >> 16), (b, found & 0xFFFF)):
        single = evaluate(f"cvt.{words}.{to}.f32 %r0, %a;", [source], ["u2"])
        assert half.tolist() == single.tolist()


NARROW = [("e4m3", 8), ("e5m2", 8), ("e2m3", 8), ("e3m2", 8), ("e2m1", 4)]


@pytest.mark.parametrize(("to", "width"), NARROW)
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_pairs_of_narrow_floats(to, width, relu):
    a, b = pair_sources("f32")
    if width == 4:
        before = ".reg .b8 %pair;"
        text = f"cvt.rn.satfinite{relu}.{to}x2.f32 %pair, %a, %b; cvt.u16.u8 %r0, %pair;"
    else:
        before, text = "", f"cvt.rn.satfinite{relu}.{to}x2.f32 %r0, %a, %b;"
    found = evaluate(text, [a, b], ["u2"], before=before)
    for source, half in ((a, found >> width), (b, found & (1 << width) - 1)):
        values = decoded(source, "f32")
        wanted = [expected(v, to, "rn", True) for v in exact(values)]
        if to[:2] != "e4" and to[:2] != "e5":
            wanted = [LARGEST[to] if math.isnan(w) else w for w in wanted]
        signs = np.where(np.isnan(values), 1, values)
        if relu:
            wanted = [w if math.isnan(w) else max(w, Fraction(0)) for w in wanted]
            signs = np.abs(values)
        same(half.astype("u1").view(DECODED[to]), wanted, signs)


def test_nan_of_narrow_floats():
    nan = np.array([0xFFC00001], dtype="u4")
    zero = np.array([0], dtype="u4")
    for to in ("e4m3", "e5m2"):
        found = evaluate(f"cvt.rn.satfinite.{to}x2.f32 %r0, %a, %b;", [nan, zero], ["u2"])
        assert found.tolist() == [0x7F00]


@pytest.mark.parametrize("to", ["e4m3", "e5m2"])
def test_pairs_from_pairs_of_halves(to):
    a, b = pair_sources("f16")
    packed = a.astype("u4") << 16 | b
    found = evaluate(f"cvt.rn.satfinite.{to}x2.f16x2 %r0, %a;", [packed], ["u2"])
    for source, half in ((a, found >> 8), (b, found & 255)):
        values = decoded(source, "f16")
        wanted = [expected(v, to, "rn", True) for v in exact(values)]
        same(half.astype("u1").view(DECODED[to]), wanted, values)


@pytest.mark.parametrize(("source", "width"), NARROW)
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_pairs_to_pairs_of_halves(source, width, relu):
    patterns = np.arange(1 << 2 * width, dtype="u2")
    before, name = ("", "%a") if width == 8 else (".reg .b8 %pair; cvt.u8.u16 %pair, %a;", "%pair")
    found = evaluate(
        f"cvt.rn{relu}.f16x2.{source}x2 %r0, {name};", [patterns], ["u4"], before=before
    )
    for half, bits in ((found >> 16, patterns >> width), (found, patterns & (1 << width) - 1)):
        with np.errstate(all="ignore"):
            values = bits.astype("u1").view(DECODED[source]).astype("f2")
        want = np.where(np.isnan(values), np.uint16(0x7FFF), values.view("u2"))
        if relu:
            want = np.where(values.view("i2") < 0, np.where(np.isnan(values), 0x7FFF, 0), want)
        kept = bits < (64 if source in ("e2m3", "e3m2") else 256)  # two bits are no part of it
        assert (half & 0xFFFF)[kept].tolist() == want[kept].tolist()


def test_scale_factors():
    numbers = [1.0, 1.5, 2.0**-127, 2.0**-126, 1.25 * 2.0**-127, 0.0, -3.0, 2.0**-149, 3.4e38]
    values = np.array([*numbers, np.inf, np.nan], dtype="f4")
    zero = np.zeros(len(values), dtype="f4")
    down, up = (
        evaluate(f"cvt.{mode}.ue8m0x2.f32 %r0, %a, %b;", [zero, values], ["u2"]).tolist()
        for mode in ("rz", "rp")
    )
    assert down == [127, 127, 0, 1, 0, 0, 128, 0, 254, 255, 255]
    assert up == [127, 128, 0, 1, 1, 0, 129, 0, 255, 255, 255]
    held = evaluate("cvt.rp.satfinite.ue8m0x2.f32 %r0, %a, %b;", [values, zero], ["u2"])
    assert (held >> 8).tolist() == [127, 128, 0, 1, 1, 0, 129, 0, 254, 254, 255]
    patterns = np.arange(256, dtype="u2")
    back = evaluate("cvt.rn.bf16x2.ue8m0x2 %r0, %a;", [patterns | 127 << 8], ["u4"])
    assert (back >> 16).tolist() == [0x3F80] * 256
    found = (back & 0xFFFF).astype("u2").view(ml_dtypes.bfloat16).astype("f8")
    assert found[:255].tolist() == [2.0 ** (p - 127) for p in range(255)]
    assert np.isnan(found[255])


@pytest.mark.parametrize("narrow", ["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"])
def test_pack(narrow):
    a, b = integers("s32"), np.roll(integers("s32"), 31)
    c = np.roll(a, 5).view("u4")
    width = int(narrow[1:])
    low = -(1 << width - 1) if narrow[0] == "s" else 0
    high = low + (1 << width) - 1
    if width == 16:
        found = evaluate(f"cvt.pack.sat.{narrow}.s32 %r0, %a, %b;", [a, b], ["u4"])
    else:
        text = f"cvt.pack.sat.{narrow}.s32.b32 %r0, %a, %b, %c;"
        found = evaluate(text, [a, b, c], ["u4"])
    for x, y, rest, got in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True):
        fields = [min(max(v, low), high) % (1 << width) for v in (y, x)]
        want = fields[0] + (fields[1] << width)
        if width < 16:
            want += (rest << 2 * width) % 2**32
        assert got == want, (x, y, rest)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [("cvt.rn.f16.f32 %r0, 1.5;", "f2", 1.5), ("cvt.rzi.s32.f64 %r0, -7.75;", "i4", -7),
     ("cvt.rn.f32.f64 %r0, 0d3FF8000000000000;", "f4", 1.5), ("cvt.s32.s8 %r0, 300;", "i4", 44),
     ("cvt.rn.f32.s8 %r0, -1;", "f4", -1), ("cvt.u64.u32 %r0, %tid.x;", "u8", 0)],
)  # fmt: skip
def test_sources_without_a_register(text, kind, value):
    assert evaluate(text, [np.zeros(1, "u4")], [kind]).tolist() == [value]


@pytest.mark.parametrize(
    "form", ["cvt.rs.f16x2.f32 %r0, %a, %a, %a;", "cvt.s32.f32 %r0, %a;", "cvt.f16.f32 %r0, %a;",
             "cvt.rn.foo.f32.s32 %r0, %a;", "cvt.rzi.f64.f32 %r0, %a;"],
)  # fmt: skip
def test_refused_by_name(form):
    with pytest.raises(PtxwcetError) as refusal:
        evaluate(form, [np.zeros(1, "u4")], ["u4"])
    assert re.search("is not executed|there is no", str(refusal.value))
