"""Operations on edge values, against Python integers and exact fractions."""

import struct
from fractions import Fraction

import numpy as np
import pytest

from ptxwcet.emulator import integer
from ptxwcet.emulator.floating import fused

EDGES = [0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31), 0x55555555, 31, 32]
A, B = (
    np.array(x, dtype=np.int32) for x in zip(*[(a, b) for a in EDGES for b in EDGES], strict=True)
)


def wrap(value):
    return (value + 2**31) % 2**32 - 2**31


def quotient(a, b):
    return wrap(-1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


@pytest.mark.parametrize(
    ("operation", "definition"),
    [
        (integer.multiply_high, lambda a, b: a * b >> 32),
        (integer.multiply_wide, lambda a, b: a * b),
        (integer.divide, quotient),
        (integer.remainder, lambda a, b: -1 if b == 0 else wrap(a - quotient(a, b) * b)),
        (integer.saturated_add, lambda a, b: min(max(a + b, -(2**31)), 2**31 - 1)),
        (integer.saturated_subtract, lambda a, b: min(max(a - b, -(2**31)), 2**31 - 1)),
    ],
)
def test_signed_integers(operation, definition):
    with np.errstate(all="ignore"):
        found = operation(A, B).tolist()
    assert found == [definition(a, b) for a, b in zip(A.tolist(), B.tolist(), strict=True)]


def test_shifts_clamp():
    amount = B.view(np.uint32)
    pairs = list(zip(A.tolist(), amount.tolist(), strict=True))
    assert integer.shift_right(A, amount).tolist() == [a >> min(b, 40) for a, b in pairs]
    assert integer.shift_left(A, amount).tolist() == [wrap(a << min(b, 40)) for a, b in pairs]


def test_fma_is_rounded_once():
    random = np.random.default_rng(5)
    bits = random.integers(0, 2**32, (3, 4000), dtype=np.uint32)
    with np.errstate(all="ignore"):
        bits[2, ::2] = (-(bits[0].view("f4") * bits[1].view("f4"))).view(np.uint32)[::2]
    a, b, c = bits.view(np.float32)
    result = fused(a, b, c)
    for x, y, z, r in zip(a, b, c, result, strict=True):
        if not np.isfinite([x, y, z, r]).all():
            continue
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        error = abs(exact - Fraction(float(r)))
        for way in (np.float32(-np.inf), np.float32(np.inf)):
            other = np.nextafter(r, way)
            if np.isfinite(other):
                away = abs(exact - Fraction(float(other)))
                odd = struct.unpack("<I", struct.pack("<f", r))[0] & 1
                assert error < away or (error == away and not odd)
