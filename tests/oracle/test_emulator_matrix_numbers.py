"""What ``mma`` and ``wmma`` of floats compute, to the last bit: as docs/guide/run.md says.

The reference adds exact fractions that are cut off at a place below the largest exponent, or for
f64 are rounded at each step in the order of k, and rounds the sum to a format by definition.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from warp_matrices import BITS, numbers, patterns, product, run, value

RANDOM = np.random.default_rng(54)
FORMATS = {"f16": (11, -14, 15), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
"""Digits, smallest and largest exponent."""
NAN = {"f16": 0x7FFF, "f32": 0x7FFFFFFF}


def rounded(exact, kind, rounding="rn"):
    """An exact number other than 0 at a format, by definition."""
    digits, low, high = FORMATS[kind]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (max(exponent, low) - digits + 1)
    below, rest = divmod(size, unit)
    away = {
        "rn": rest * 2 > unit or (rest * 2 == unit and below % 2 == 1),
        "rz": False,
        "rm": exact < 0 and rest > 0,
        "rp": exact > 0 and rest > 0,
    }[rounding]
    result = (below + away) * unit
    if result >= Fraction(2) ** (high + 1):
        grows = rounding == "rn" or rounding == ("rp" if exact > 0 else "rm")
        result = math.inf if grows else (2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** high
    return math.copysign(float(result), -1.0 if exact < 0 else 1.0)


def summed(row, column, start):
    """A fraction, or a double that is no finite number or a zero."""
    products = [float(a) * float(b) for a, b in zip(row, column, strict=True)]
    summands = [float(start), *products]
    exponents = [math.frexp(start)[1]]
    exponents += [math.frexp(a)[1] + math.frexp(b)[1] - 1 for a, b in zip(row, column, strict=True)]
    if not any(summands) or not all(map(math.isfinite, summands)):
        return sum(products, float(start))
    place = max(e for e, one in zip(exponents, summands, strict=True) if one) - 26
    unit = Fraction(2) ** place
    return sum(math.trunc(Fraction(one) / unit) for one in summands) * unit


def bits_of(number, kind):
    """The pattern of a sum at a format: f32 by cutting off, NaN in one pattern."""
    if not isinstance(number, Fraction):
        return NAN[kind] if math.isnan(number) else int(patterns(np.array(number), kind)[()])
    near = 0.0
    if abs(number) >= 2**128:
        near = math.copysign(math.inf, number)
    elif number:
        near = rounded(number, kind, "rz" if kind == "f32" else "rn")
    return int(patterns(np.array(near), kind)[()])


SHAPES = {
    ("f16", "f16"): (16, 8, 8), ("f32", "f16"): (16, 8, 16), ("f32", "bf16"): (16, 8, 16),
    ("f32", "tf32"): (16, 8, 8), ("f32", "e4m3"): (16, 8, 32), ("f16", "e5m2"): (16, 8, 32),
    ("f32", "e5m2"): (16, 8, 16), ("f16", "e4m3"): (16, 8, 16),
}  # fmt: skip
TYPES = list(SHAPES)


def multiplied(to, kind, a, b, c):
    shape = SHAPES[to, kind]
    m, n, k = shape
    name = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{to}.{kind}.{kind}.{to}"
    return product(name, shape, (to, kind, kind, to), (a, b, c))


def expected(to, kind, a, b, c):
    left, right, add = numbers(a, kind), numbers(b, kind), numbers(c, to)
    whole = of_bytes if kind[0] == "e" else lambda *given: bits_of(summed(*given), to)
    return [
        [
            whole(row, right[:, j], add[i, j], *[to] * (kind[0] == "e"))
            for j in range(right.shape[1])
        ]
        for i, row in enumerate(left)
    ]


def of_bytes(row, column, start, to):
    """Of each four the first two, then the others, beginning with 0; C is added to that."""
    total = 0.0
    for first in (0, 2):
        part = [k for k in range(len(row)) if k % 4 // 2 * 2 == first]
        total = value(bits_of(summed(row[part], column[part], total), to), to)
    plain = total + float(start)
    if not math.isfinite(plain) or plain == 0:
        return bits_of(plain, to)
    return int(patterns(np.array(rounded(Fraction(total) + Fraction(start), to)), to)[()])


def any_patterns(kind, *shape):
    bits = BITS[kind]
    drawn = RANDOM.integers(0, 1 << bits, shape, dtype=np.uint64).astype(object)
    return drawn & ~0x1FFF if kind == "tf32" else drawn


@pytest.mark.parametrize(("to", "kind"), TYPES)
def test_any_patterns(to, kind):
    """Most sums have a NaN or an infinity, or overflow."""
    m, n, k = SHAPES[to, kind]
    a, b, c = any_patterns(kind, m, k), any_patterns(kind, k, n), any_patterns(to, m, n)
    assert multiplied(to, kind, a, b, c).tolist() == expected(to, kind, a, b, c)


@pytest.mark.parametrize("spread", [2, 12])
@pytest.mark.parametrize(("to", "kind"), TYPES)
def test_random_numbers(to, kind, spread):
    """With all digits, of sizes near to each other, and so far apart that doubles lose digits."""
    m, n, k = SHAPES[to, kind]

    def drawn(of, scale, *shape):
        exponents = RANDOM.integers(-scale, scale + 1, shape)
        found = patterns(RANDOM.standard_normal(shape) * 2.0**exponents, of)
        return found & ~0x1FFF if of == "tf32" else found

    scale = {"bf16": 4 * spread, "tf32": 4 * spread, "e4m3": 2, "e5m2": spread // 2}
    reach = scale.get(kind, spread)
    a, b, c = drawn(kind, reach, m, k), drawn(kind, reach, k, n), drawn(to, spread, m, n)
    assert multiplied(to, kind, a, b, c).tolist() == expected(to, kind, a, b, c)


@pytest.mark.parametrize(("to", "kind"), TYPES)
@pytest.mark.parametrize(
    ("a", "b", "c", "sign"),
    [
        (-0.0, 1.0, -0.0, 1),
        (0.0, -1.0, -0.0, 1),
        (-0.0, -1.0, -0.0, 0),
        (0.0, 1.0, -0.0, 0),
        (-0.0, 1.0, 0.0, 0),
        (0.0, 1.0, 0.0, 0),
    ],
)
def test_signs_of_zeros(to, kind, a, b, c, sign):
    """The sum of zeros of one sign has that sign; of eight bits +0 is among them."""
    m, n, k = SHAPES[to, kind]
    sign = 0 if kind[0] == "e" else sign
    filled = [
        patterns(np.full(shape, number), of)
        for shape, number, of in (((m, k), a, kind), ((k, n), b, kind), ((m, n), c, to))
    ]
    found = multiplied(to, kind, *filled)
    assert set(found.reshape(-1)) == {sign << BITS[to] - 1}


def single(to, kind, pairs, start):
    """C and products of some pairs, all others being 1 * 0, at the first element."""
    m, n, k = SHAPES[to, kind]
    a, b = patterns(np.ones((m, k)), kind), patterns(np.zeros((k, n)), kind)
    for place, (left, right) in enumerate(pairs):
        a[0, place], b[place, 0] = patterns(np.array([left, right]), kind)
    c = patterns(np.full((m, n), start), to)
    return value(multiplied(to, kind, a, b, c)[0, 0], to)


@pytest.mark.parametrize(
    ("to", "kind", "pairs", "start", "result"),
    [
        # of f16 halfway to the next number: to even; a little more: up; of f32 never up
        ("f16", "f16", [(2.0**-11, 1)], 1, 1.0),
        ("f16", "f16", [(2.0**-11, 1)], 1 + 2.0**-10, 1 + 2.0**-9),
        ("f16", "f16", [(2.0**-11, 1), (2.0**-12, 2.0**-12)], 1, 1 + 2.0**-10),
        ("f32", "f16", [(2.0**-12, 2.0**-12)], 1, 1.0),
        ("f32", "f16", [(2.0**-12, 2.0**-12)], 1 + 2.0**-23, 1 + 2.0**-23),
        ("f32", "f16", [(2.0**-12, 2.0**-12), (2.0**-12, 2.0**-12)], 1, 1 + 2.0**-23),
        # what is 26 places below the largest exponent, or further, is lost, whatever comes of it
        ("f32", "f16", [(2.0**-12, 2.0**-13)] * 4, 1, 1 + 2.0**-23),
        ("f32", "f16", [(2.0**-13, 2.0**-13)] * 8, 1, 1.0),
        ("f32", "bf16", [(2.0**60, 1), (-(2.0**60), 1), (1, 1)], 1, 0.0),
        ("f32", "bf16", [(2.0**26, 1), (-(2.0**26), 1)], 3, 2.0),
        ("f32", "bf16", [(1.5, 1.5 * 2.0**25), (-1.5, 1.5 * 2.0**25)], 1, 1.0),
        ("f32", "f16", [(2.0**15, 1), (-(2.0**15), 1)], 2.0**-30, 0.0),
        # subnormal numbers stay; those of a sum as well
        ("f16", "f16", [(2.0**-24, 1)], 0, 2.0**-24),
        ("f16", "f16", [(2.0**-13, 2.0**-12)], 0, 0.0),
        ("f16", "f16", [(1.5 * 2.0**-13, 2.0**-12)], 0, 2.0**-24),
        ("f32", "bf16", [(2.0**-133, 2.0**-16)], 0, 2.0**-149),
        ("f32", "e5m2", [(2.0**-16, 1)], 0, 2.0**-16),
        ("f32", "e4m3", [(2.0**-9, 1)], 0, 2.0**-9),
        # beyond the largest number, and back again
        ("f16", "f16", [(65504, 1)], 16, math.inf),
        ("f16", "f16", [(65504, 1)], 15.99, 65504.0),
        ("f16", "f16", [(-65504, 2)], 0, -math.inf),
        ("f16", "f16", [(65504, 2), (-65504, 1)], 0, 65504.0),
        ("f32", "bf16", [(2.0**127, 2), (2.0**127, -1)], 0, 2.0**127),
        ("f32", "bf16", [(2.0**127, 2)], 0, math.inf),
        ("f16", "e5m2", [(57344, 2)], 0, math.inf),
        # infinities
        ("f32", "f16", [(math.inf, -1)], 5, -math.inf),
        ("f32", "e5m2", [(math.inf, 1)], 5, math.inf),
        ("f32", "f16", [(math.inf, 1)], math.inf, math.inf),
    ],
)
def test_sums(to, kind, pairs, start, result):
    assert single(to, kind, pairs, start) == result


@pytest.mark.parametrize(
    ("to", "kind", "pairs", "start"),
    [
        ("f32", "f16", [(math.inf, 0)], 0),
        ("f32", "f16", [(math.inf, 1)], -math.inf),
        ("f32", "bf16", [(math.inf, 1), (-math.inf, 1)], 0),
        ("f16", "f16", [(math.nan, 1)], 0),
        ("f16", "e4m3", [(math.nan, 0)], 0),
        ("f32", "e5m2", [(1, 1)], math.nan),
    ],
)
def test_not_a_number(to, kind, pairs, start):
    assert math.isnan(single(to, kind, pairs, start))


def test_low_bits_of_tf32_do_not_count():
    m, n, k = SHAPES["f32", "tf32"]
    a, b = any_patterns("tf32", m, k), any_patterns("tf32", k, n)
    c = patterns(RANDOM.standard_normal((m, n)), "f32")
    noise = RANDOM.integers(0, 1 << 13, (m, k)).astype(object)
    found = multiplied("f32", "tf32", a | noise, b, c)
    np.testing.assert_array_equal(found, multiplied("f32", "tf32", a, b, c))


# --- f64 ------------------------------------------------------------------------------------------

ROUNDINGS = ["", ".rn", ".rz", ".rm", ".rp"]


def fused_sum(row, column, start, rounding):
    """Multiply-adds in the order of k, each rounded; exact zeros follow IEEE 754."""
    total = start
    for a, b in zip(row, column, strict=True):
        if math.isinf(total):  # all factors are finite
            break
        exact = Fraction(a) * Fraction(b) + Fraction(total)
        if exact:
            total = rounded(exact, "f64", rounding)
            continue
        first, second = math.copysign(1, a) * math.copysign(1, b), math.copysign(1, total)
        zeros = total == 0 and (a == 0 or b == 0)
        below = first < 0 if zeros and first == second else rounding == "rm"
        total = -0.0 if below else 0.0
    return total


EXPONENTS = {"digits": (0, 1), "sizes": (-60, 60), "small": (-540, -520), "large": (508, 514)}
"""Ranges of exponents: those of ``small`` give subnormal products, ``large`` infinite sums."""


def doubles(drawn, *shape):
    if drawn == "zeros":
        return RANDOM.choice([0.0, -0.0, 1.0, -1.0, 2.0**-60], shape)
    return RANDOM.standard_normal(shape) * 2.0 ** RANDOM.integers(*EXPONENTS[drawn], shape)


@pytest.mark.parametrize("drawn", [*EXPONENTS, "zeros"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("k", [4, 16])
def test_products_of_doubles(k, rounding, drawn):
    shape, kinds = (16, 8, k), ("f64",) * 4
    a, b, c = (doubles(drawn, *size) for size in ((16, k), (k, 8), (16, 8)))
    name = f"mma.sync.aligned.m16n8k{k}.row.col.f64.f64.f64.f64{rounding}"
    found = product(name, shape, kinds, tuple(patterns(x, "f64") for x in (a, b, c)))
    word = rounding[1:] or "rn"
    wanted = [[fused_sum(row, b[:, j], c[i, j], word) for j in range(8)] for i, row in enumerate(a)]
    np.testing.assert_array_equal(found, patterns(np.array(wanted), "f64"))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_roundings_of_tiles(rounding, sign):
    """wmma: 1 + 2**-56 four times."""
    a, b, c = np.full((8, 4), sign * 2.0**-56), np.ones((4, 8)), np.full((8, 8), sign)
    body = f"""
  wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {{%f1}}, [%a0];
  wmma.load.b.sync.aligned.row.m8n8k4.global.f64 {{%f2}}, [%a1];
  wmma.load.c.sync.aligned.row.m8n8k4.global.f64 {{%f3, %f4}}, [%a2];
  wmma.mma.sync.aligned.row.row.m8n8k4.f64.f64.f64.f64{rounding} {{%f5, %f6}}, {{%f1}}, {{%f2}},
    {{%f3, %f4}};
  wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%a3], {{%f5, %f6}};"""
    found = run(body, a, b, c, np.zeros((8, 8)))[3]
    away = rounding == (".rp" if sign > 0 else ".rm")
    assert set(found.reshape(-1).tolist()) == {sign * (1 + 4 * 2.0**-52 * away)}


@pytest.mark.parametrize(
    ("a", "c"), list(itertools.product([math.inf, -math.inf, math.nan, 1.0], repeat=2))
)
@pytest.mark.parametrize("rounding", ["", ".rz"])
def test_doubles_without_bounds(a, c, rounding):
    shape, kinds = (8, 8, 4), ("f64",) * 4
    left, right, add = np.full((8, 4), a), np.ones((4, 8)), np.full((8, 8), c)
    name = f"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64{rounding}"
    found = product(name, shape, kinds, tuple(patterns(x, "f64") for x in (left, right, add)))
    result = value(found[0, 0], "f64")
    wanted = summed([a] * 4, [1.0] * 4, c)
    assert result == wanted or (math.isnan(result) and math.isnan(wanted))
