"""Floating-point arithmetic on edge values, against exact fractions rounded by definition."""

import math
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
from single_instruction import evaluate

RANDOM = np.random.default_rng(31)
# numpy type, bits of precision, least exponent of a normal number, bits of the pattern
FORMATS = {
    "f16": ("f2", 11, -14, 16),
    "bf16": (ml_dtypes.bfloat16, 8, -126, 16),
    "f32": ("f4", 24, -126, 32),
    "f64": ("f8", 53, -1022, 64),
}
ROUNDINGS = ["rn", "rz", "rm", "rp"]


def value_of(bits, name):
    """A pattern as a Python float (exact in all formats)."""
    kind, _, _, width = FORMATS[name]
    return float(np.array(bits, dtype=f"u{width // 8}").view(kind))


def largest(name):
    _, precision, least, _ = FORMATS[name]
    return Fraction(2) ** (1 - least) * (2 - Fraction(2) ** (1 - precision))


def rounded(exact, name, rounding):
    """An exact number in a format: the definition, by multiples of the unit in the last place."""
    _, precision, least, _ = FORMATS[name]
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    count = exact / unit
    low = math.floor(count)
    if rounding == "rm" or (rounding == "rz" and exact > 0):
        chosen = low
    elif rounding == "rp" or rounding == "rz":
        chosen = math.ceil(count)
    else:
        chosen = round(count)  # Python rounds halves to even
    result = chosen * unit
    if abs(result) > largest(name):
        stays = rounding == "rz" or rounding == ("rm" if exact > 0 else "rp")
        result = largest(name) if stays else math.inf
    return math.copysign(float(result), 1 if exact > 0 else -1)


def patterns(name, arity, count=700):
    """Edge patterns in pairs and random ones, among them close exponents and cancellations."""
    kind, precision, _, width = FORMATS[name]
    unsigned = f"u{width // 8}"
    one = int(np.array(1.0, dtype=kind).view(unsigned))
    top = int(np.array(np.inf, dtype=kind).view(unsigned))
    tiny = 1 << precision - 1
    plain = [0, 1, 2, tiny - 1, tiny, tiny + 1, one - 1, one, one + 1, 3 * one // 2, top - 1, top,
             top + 1, top | 1 << precision - 2]  # fmt: skip
    edges = plain + [bits | 1 << width - 1 for bits in plain]
    rows = [RANDOM.choice(edges, 900).astype(unsigned) for _ in range(arity)]
    random = RANDOM.integers(0, 2**64, (arity, count), dtype="u8") & np.uint64(2**width - 1)
    near = RANDOM.integers(-3, 3, (arity, count)) * (1 << precision - 1) + one
    near = (near + RANDOM.integers(0, 1 << precision - 1, (arity, count))).astype("u8")
    near |= RANDOM.integers(0, 2, (arity, count)).astype("u8") << np.uint64(width - 1)
    return [
        np.concatenate([r, a.astype(unsigned), b.astype(unsigned)])
        for r, a, b in zip(rows, random, near, strict=True)
    ]


def flushed(value, name):
    _, _, least, _ = FORMATS[name]
    return math.copysign(0.0, value) if abs(value) < 2.0**least else value


def same(found, expected):
    if math.isnan(expected):
        return math.isnan(found)
    return found == expected and math.copysign(1, found) == math.copysign(1, expected)


def with_sign(value):
    """Orders -0 before +0."""
    return value, math.copysign(1, value)


def special(name, values):
    """IEEE results without rounding: what doubles give where NaN, infinities or zeros decide."""
    with np.errstate(all="ignore"):
        v = [np.float64(value) for value in values]
        rules = {
            "add": lambda: v[0] + v[1],
            "sub": lambda: v[0] - v[1],
            "mul": lambda: v[0] * v[1],
            "div": lambda: v[0] / v[1],
            "rcp": lambda: 1 / v[0],
            "sqrt": lambda: np.sqrt(v[0]),
        }
        if name in ("fma", "mad"):
            bounded = np.isfinite(v[:2]).all()  # their product is a number, if not a double
            return float(v[2] if bounded else v[0] * v[1] + v[2])
        return float(rules[name]())


EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
}


def expected(name, values, form, rounding, ftz=False):
    finite = all(math.isfinite(value) for value in values)
    if not finite or (name in ("div", "rcp") and values[-1] == 0):
        return special(name, values)
    if name == "sqrt":
        return root(values[0], form, rounding)
    exact = EXACT[name](*map(Fraction, values))
    shift, least = (64, 2.0**-62) if form == "f32" else (10, 2.0**-4)  # digits, any exponent
    if ftz and abs(rounded(exact * 2**shift, form, rounding)) < least:
        return math.copysign(0.0, exact) if exact else expected(name, values, form, rounding)
    if exact != 0:
        return rounded(exact, form, rounding)
    if name in ("mul", "div"):
        return math.copysign(0.0, math.copysign(1, values[0]) * math.copysign(1, values[1]))
    first, last = values[0], values[-1]
    if name == "fma":
        sign = math.copysign(1, values[0]) * math.copysign(1, values[1])
        first = math.copysign(0.0 if 0 in values[:2] else 1.0, sign)
    if name == "sub":
        last = -last
    if first == 0 and last == 0 and math.copysign(1, first) == math.copysign(1, last):
        return math.copysign(0.0, first)
    return -0.0 if rounding == "rm" else 0.0


def root(value, form, rounding):
    if value <= 0:
        return value if value == 0 else math.nan
    scale = 1 << 2400
    number = Fraction(value) * scale
    below = Fraction(math.isqrt(number.numerator // number.denominator), 1 << 1200)
    if below * below != Fraction(value):
        below += Fraction(1, 1 << 1300)  # never a tie, and above what it was cut to
    return rounded(below, form, rounding)


def check(text, name, form, rounding, arity, ftz=False):
    width = FORMATS[form][3]
    given = patterns(form, arity)
    found = evaluate(text, given, [f"u{width // 8}"]).tolist()
    for row, bits in zip(zip(*(g.tolist() for g in given), strict=True), found, strict=True):
        values = [value_of(b, form) for b in row]
        if ftz:
            values = [flushed(value, form) for value in values]
        wanted = expected(name, values, form, rounding, ftz)
        if ftz:
            wanted = flushed(wanted, form)
        assert same(value_of(bits, form), wanted), (text, values, value_of(bits, form), wanted)
        if math.isnan(wanted) and form != "f64":
            assert bits == {16: 0x7FFF, 32: 0x7FFFFFFF}[width]


@pytest.mark.every(2)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("form", ["f32", "f64"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma", "div", "rcp", "sqrt"])
def test_rounded_arithmetic(name, form, rounding):
    arity = {"fma": 3, "rcp": 1, "sqrt": 1}.get(name, 2)
    operands = ", ".join(["%a", "%b", "%c"][:arity])
    check(f"{name}.{rounding}.{form} %r0, {operands};", name, form, rounding, arity)
    if form == "f32" and rounding in ("rn", "rm"):
        text = f"{name}.{rounding}.ftz.{form} %r0, {operands};"
        check(text, name, form, rounding, arity, ftz=True)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_an_infinite_addend_and_a_product_that_is_no_double(rounding):
    a, c = np.array([2.0**600, -(2.0**600)] * 2), np.array([np.inf, np.inf, -np.inf, -np.inf])
    values = [array.view("u8") for array in (a, np.abs(a), c)]
    found = evaluate(f"fma.{rounding}.f64 %r0, %a, %b, %c;", values, ["u8"]).view("f8")
    assert found.tolist() == c.tolist()


@pytest.mark.parametrize("form", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_half_arithmetic(name, form):
    arity = 3 if name == "fma" else 2
    operands = ", ".join(["%a", "%b", "%c"][:arity])
    check(f"{name}.rn.{form} %r0, {operands};", name, form, "rn", arity)
    if form == "f16":
        rounded = "fma.rn" if name == "fma" else name
        check(f"{rounded}.ftz.f16 %r0, {operands};", name, form, "rn", arity, ftz=True)


@pytest.mark.parametrize("form", ["f16x2", "bf16x2", "f32x2"])
@pytest.mark.parametrize("name", ["add", "mul", "fma"])
def test_packed_arithmetic_is_that_of_its_elements(name, form):
    arity = 3 if name == "fma" else 2
    element = form[:-2]
    width = FORMATS[element][3]
    operands = ", ".join(["%a", "%b", "%c"][:arity])
    single = patterns(element, arity, 300)
    one = evaluate(f"{name}.rn.{element} %r0, {operands};", single, [f"u{width // 8}"])
    size = len(one) // 2 * 2
    packed = [np.ascontiguousarray(s[:size]).view(f"u{width // 4}") for s in single]
    both = evaluate(f"{name}.rn.{form} %r0, {operands};", packed, [f"u{width // 4}"])
    np.testing.assert_array_equal(both.view(one.dtype), one[:size])


def test_saturation_and_relu():
    a, b = patterns("f32", 2)
    plain = evaluate("add.rn.f32 %r0, %a, %b;", [a, b], ["u4"]).view("f4").tolist()
    held = evaluate("add.rn.sat.f32 %r0, %a, %b;", [a, b], ["u4"]).view("f4").tolist()
    for x, y in zip(plain, held, strict=True):
        assert same(y, 0.0 if math.isnan(x) or x <= 0 else min(x, 1.0))
    a, b, c = patterns("f16", 3)
    plain = evaluate("fma.rn.f16 %r0, %a, %b, %c;", [a, b, c], ["u2"])
    values = plain.view("f2").tolist()
    found = evaluate("fma.rn.relu.f16 %r0, %a, %b, %c;", [a, b, c], ["u2"]).view("f2").tolist()
    for x, y in zip(values, found, strict=True):
        assert math.isnan(y) if math.isnan(x) else y == max(x, 0.0)
    found = evaluate("fma.rn.sat.f16 %r0, %a, %b, %c;", [a, b, c], ["u2"]).view("f2").tolist()
    for x, y in zip(values, found, strict=True):
        assert same(y, 0.0 if math.isnan(x) or x <= 0 else min(x, 1.0))


@pytest.mark.parametrize("form", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema(name, form):
    width = FORMATS[form][3]
    a, b = patterns(form, 2)
    choices = [""] if form == "f64" else ["", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"]
    for words in choices:
        text = f"{name}{words}.{form} %r0, %a, %b;"
        found = evaluate(text, [a, b], [f"u{width // 8}"]).tolist()
        for x, y, bits in zip(a.tolist(), b.tolist(), found, strict=True):
            u, v = value_of(x, form), value_of(y, form)
            sign = math.copysign(1, u) * math.copysign(1, v)
            if "abs" in words:
                u, v = abs(u), abs(v)
            if math.isnan(u) or math.isnan(v):
                wanted = v if math.isnan(u) else u
                wanted = math.nan if "NaN" in words else wanted
            else:
                wanted = (min if name == "min" else max)(u, v, key=with_sign)
            if "abs" in words and not math.isnan(wanted):
                wanted = math.copysign(wanted, sign)
            assert same(value_of(bits, form), wanted), (text, u, v)


@pytest.mark.parametrize("form", ["f16", "bf16", "f32", "f64", "f16x2", "bf16x2"])
def test_signs(form):
    element = form.removesuffix("x2")
    width = FORMATS[element][3] * (2 if form.endswith("x2") else 1)
    a, b = (np.ascontiguousarray(p[: len(p) // 2 * 2]).view(f"u{width // 8}")
            if form.endswith("x2") else p for p in patterns(element, 2))  # fmt: skip
    kind = FORMATS[element][0]

    def values(bits):
        return np.ascontiguousarray(bits).view(kind).astype("f8").tolist()

    for name, rule in (("neg", lambda x: -x), ("abs", abs)):
        found = evaluate(f"{name}.{form} %r0, %a;", [a], [a.dtype])
        for x, y in zip(values(a), values(found), strict=True):
            assert same(y, rule(x))
    if form in ("f32", "f64"):
        found = evaluate(f"copysign.{form} %r0, %a, %b;", [a, b], [a.dtype])
        for x, y, z in zip(values(a), values(b), values(found), strict=True):
            assert math.isnan(z) if math.isnan(y) else same(z, math.copysign(y, x))


# --- approximations: the largest errors and the special values of the PTX ISA ---------------------


def pattern(values):
    return np.array(values, "f4").view("u4")


def spread(low, high, count=2000):
    return RANDOM.uniform(low, high, count).astype("f4")


def worst_ulps(found, exact):
    rows = []
    for value, wanted in zip(found.view("f4").tolist(), exact, strict=True):
        size = abs(wanted)
        exponent = int(mpmath.floor(mpmath.log(size, 2))) if size else -126
        rows.append(float(abs(wanted - value) / mpmath.ldexp(1, max(exponent, -126) - 23)))
    return max(rows)


def mp(values):
    return [mpmath.mpf(float(value)) for value in values]


@pytest.mark.parametrize(
    ("name", "arguments", "function", "ulps"),
    [
        ("rcp.approx", spread(1e-30, 1e30), lambda x: 1 / x, 1),
        ("sqrt.approx", spread(0, 1e30), mpmath.sqrt, 1),
        ("rsqrt.approx", spread(1e-30, 1e30), lambda x: 1 / mpmath.sqrt(x), 2),
        ("ex2.approx", spread(-126, 127), lambda x: mpmath.power(2, x), 2),
        ("lg2.approx", spread(2, 1e30), lambda x: mpmath.log(x, 2), 2),
    ],
)
def test_approximations_in_ulps(name, arguments, function, ulps):
    found = evaluate(f"{name}.f32 %r0, %a;", [arguments.view("u4")], ["u4"])
    assert worst_ulps(found, [function(x) for x in mp(arguments)]) <= ulps


@pytest.mark.parametrize(
    ("name", "arguments", "function", "error"),
    [
        ("sin.approx", spread(-math.pi, math.pi), mpmath.sin, 2**-20.5),
        ("cos.approx", spread(-math.pi, math.pi), mpmath.cos, 2**-20.5),
        ("lg2.approx", spread(0.5, 2), lambda x: mpmath.log(x, 2), 2**-22),
    ],
)
def test_approximations_with_absolute_errors(name, arguments, function, error):
    found = evaluate(f"{name}.f32 %r0, %a;", [arguments.view("u4")], ["u4"]).view("f4").tolist()
    exact = [function(x) for x in mp(arguments)]
    assert max(abs(f - e) for f, e in zip(found, exact, strict=True)) <= error


def test_tanh_and_halves():
    arguments = spread(-9, 9)
    found = evaluate("tanh.approx.f32 %r0, %a;", [arguments.view("u4")], ["u4"]).view("f4")
    exact = [mpmath.tanh(x) for x in mp(arguments)]
    assert max(abs((f - e) / e) for f, e in zip(found.tolist(), exact, strict=True)) <= 2**-11
    halves = spread(-8, 8).astype("f2")
    for name, function, error in (
        ("tanh.approx", mpmath.tanh, 2**-10.987),
        ("ex2.approx", lambda x: mpmath.power(2, x), 2**-9.9),
    ):
        found = evaluate(f"{name}.f16 %r0, %a;", [halves.view("u2")], ["u2"]).view("f2")
        for x, y in zip(mp(halves), found.tolist(), strict=True):
            exact_one = function(x)
            assert abs(y - exact_one) <= max(error * abs(exact_one), 2**-25)


def test_divisions():
    a, b = spread(-1e10, 1e10), spread(1e-10, 1e10)
    for name in ("div.approx", "div.full"):
        found = evaluate(f"{name}.f32 %r0, %a, %b;", [a.view("u4"), b.view("u4")], ["u4"])
        exact = [x / y for x, y in zip(mp(a), mp(b), strict=True)]
        assert worst_ulps(found, exact) <= 2
    large = pattern([2.0**126.5, 2.0**127, 1.7 * 2.0**127])
    ones, infinite = pattern([1.0] * 3), pattern([math.inf] * 3)
    found = evaluate("div.approx.f32 %r0, %a, %b;", [ones, large], ["u4"]).view("f4")
    assert found.tolist() == [0.0] * 3
    found = evaluate("div.approx.f32 %r0, %a, %b;", [infinite, large], ["u4"]).view("f4")
    assert np.isnan(found).all()


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("name", "arguments", "results"),
    [
        ("rcp.approx", [-INF, -0.0, 0.0, INF, NAN], [-0.0, -INF, INF, 0.0, NAN]),
        ("sqrt.approx", [-INF, -1.0, -0.0, 0.0, INF, NAN], [NAN, NAN, -0.0, 0.0, INF, NAN]),
        ("rsqrt.approx", [-INF, -1.0, -0.0, 0.0, INF, NAN], [NAN, NAN, -INF, INF, 0.0, NAN]),
        ("sin.approx", [-INF, -0.0, 0.0, INF, NAN], [NAN, -0.0, 0.0, NAN, NAN]),
        ("cos.approx", [-INF, -0.0, 0.0, INF, NAN], [NAN, 1.0, 1.0, NAN, NAN]),
        ("lg2.approx", [-INF, -1.0, -0.0, 0.0, INF, NAN], [NAN, NAN, -INF, -INF, INF, NAN]),
        ("ex2.approx", [-INF, -0.0, 0.0, INF, NAN], [0.0, 1.0, 1.0, INF, NAN]),
        ("tanh.approx", [-INF, -0.0, 0.0, INF, NAN], [-1.0, -0.0, 0.0, 1.0, NAN]),
    ],
)
def test_special_values(name, arguments, results):
    """The tables of the PTX ISA."""
    found = evaluate(f"{name}.f32 %r0, %a;", [pattern(arguments)], ["u4"]).view("f4").tolist()
    assert all(same(x, y) for x, y in zip(found, results, strict=True)), found


def test_flushed_approximations():
    small = pattern([1e-40, -1e-40])
    found = evaluate("rcp.approx.ftz.f32 %r0, %a;", [small], ["u4"]).view("f4").tolist()
    assert found == [INF, -INF]
    found = evaluate("ex2.approx.ftz.f32 %r0, %a;", [pattern([-130.0])], ["u4"]).view("f4")
    assert found.tolist() == [0.0]
