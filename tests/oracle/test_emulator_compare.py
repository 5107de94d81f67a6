"""set, setp, selp, slct and testp on edge values, against Python's numbers and struct."""

import math
import operator
import struct

import numpy as np
import pytest
from refusals import refusals_of
from single_instruction import evaluate

ORDERED = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
           "gt": operator.gt, "ge": operator.ge}  # fmt: skip
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
COMBINE = {"and": lambda t, c: t and c, "or": lambda t, c: t or c, "xor": lambda t, c: t != c}
INTEGERS = ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"]
FLOATS = ["f16", "bf16", "f32", "f64"]


def compare(word, a, b):
    """What a comparison of two floats means (PTX ISA, "Comparisons")."""
    unordered = math.isnan(a) or math.isnan(b)
    if word in ("num", "nan"):
        return unordered == (word == "nan")
    if word in ORDERED:
        return not unordered and ORDERED[word](a, b)
    return unordered or ORDERED[word[:-1]](a, b)


def pairs(values):
    """All pairs of values, as two arrays."""
    return np.repeat(values, len(values)), np.tile(values, len(values))


def integers(name):
    width = int(name[1:])
    most = (1 << width) - 1
    bits = [0, 1, 2, most, most - 1, most >> 1, (most >> 1) + 1, most // 3, most // 3 * 2, 31]
    random = np.random.default_rng(7).integers(0, 2**64, 25, dtype=np.uint64)
    return np.array(bits + [int(v) & most for v in random], dtype=f"u{width // 8}")


def number(bits, name):
    if name[0] in "bu":
        return bits
    width = int(name[1:])
    return bits - (1 << width) if bits >> width - 1 else bits


def patterns(name):
    """Zeros, subnormals, ones and neighbours, largest, infinite, NaN with payloads, both signs."""
    width = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[name]
    fraction = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[name]
    top = ((1 << width - 1 - fraction) - 1) << fraction
    one = top >> 1 & ~((1 << fraction) - 1)
    bits = [0, 1, (1 << fraction) - 1, 1 << fraction, one - 1, one, one + 1, top - 1, top, top + 1]
    bits += [top | 1 << fraction - 1, (1 << width - 1) - 1]
    both = bits + [b | 1 << width - 1 for b in bits]
    random = np.random.default_rng(8).integers(0, 2**64, 20, dtype=np.uint64)
    return np.array(both + [int(v) & (1 << width) - 1 for v in random], dtype=f"u{width // 8}")


def value(bits, name):
    if name == "bf16":
        return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    letter, size = {"f16": ("e", 2), "f32": ("f", 4), "f64": ("d", 8)}[name]
    return struct.unpack("<" + letter, int(bits).to_bytes(size, "little"))[0]


def flushed(x, name):
    least = 2.0**-14 if name == "f16" else 2.0**-126
    return math.copysign(0.0, x) if abs(x) < least else x


# --- setp -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    a, b = pairs(integers(name))
    words = list(ORDERED) + list(UNSIGNED) * (name[0] == "u")
    for word in words if name[0] != "b" else ["eq", "ne"]:
        found = evaluate(f"setp.{word}.{name} %r0|%r1, %a, %b;", [a, b], [bool, bool])
        meaning = ORDERED[UNSIGNED.get(word, word)]
        want = [
            meaning(number(x, name), number(y, name))
            for x, y in zip(a.tolist(), b.tolist(), strict=True)
        ]
        assert found[0].tolist() == want, word
        assert found[1].tolist() == [not w for w in want], word


WORDS = [*ORDERED, *[word + "u" for word in ORDERED], "num", "nan"]


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("word", WORDS)
def test_floats(name, word):
    a, b = pairs(patterns(name))
    found = evaluate(f"setp.{word}.{name} %r0, %a, %b;", [a, b], [bool])
    rows = zip(a.tolist(), b.tolist(), strict=True)
    assert found.tolist() == [compare(word, value(x, name), value(y, name)) for x, y in rows]


@pytest.mark.parametrize("name", ["f16", "f32"])
@pytest.mark.parametrize("word", ["eq", "lt", "gtu"])
def test_flushed(name, word):
    a, b = pairs(patterns(name))
    found = evaluate(f"setp.{word}.ftz.{name} %r0, %a, %b;", [a, b], [bool])
    for x, y, got in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
        numbers = [flushed(value(v, name), name) for v in (x, y)]
        assert got == compare(word, *numbers), (x, y)


@pytest.mark.parametrize("combine", COMBINE)
@pytest.mark.parametrize("mark", ["", "!"])
def test_combined_with_a_predicate(combine, mark):
    a = np.array([1, 1, 2, 2], dtype="i4")
    b = np.array([1, 1, 1, 1], dtype="i4")
    c = np.array([True, False, True, False])
    text = f"setp.eq.{combine}.s32 %r0|%r1, %a, %b, {mark}%c;"
    first, second = evaluate(text, [a, b, c], [bool, bool])
    other = [x != (mark == "!") for x in c.tolist()]
    equal = [True, True, False, False]
    assert first.tolist() == [COMBINE[combine](t, p) for t, p in zip(equal, other, strict=True)]
    assert second.tolist() == [
        COMBINE[combine](not t, p) for t, p in zip(equal, other, strict=True)
    ]


def packed(name):
    a, b = pairs(patterns(name))
    order = np.random.default_rng(9).permutation(len(a))
    return a, b, a[order], b[order]


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("word", ["lt", "neu", "ge", "nan"])
@pytest.mark.parametrize("combine", ["", "and", "xor"])
def test_packed_halves(name, word, combine):
    low_a, low_b, high_a, high_b = packed(name)
    a, b = high_a.astype("u4") << 16 | low_a, high_b.astype("u4") << 16 | low_b
    c = np.arange(len(a)) % 3 == 0
    text = f"setp.{word}.{name}x2 %r0|%r1, %a, %b;"
    if combine:
        text = f"setp.{word}.{combine}.{name}x2 %r0|%r1, %a, %b, !%c;"
    found = evaluate(text, [a, b, c], [bool, bool])
    for half, x, y in ((found[0], low_a, low_b), (found[1], high_a, high_b)):
        rows = zip(x.tolist(), y.tolist(), c.tolist(), half.tolist(), strict=True)
        for i, j, p, got in rows:
            want = compare(word, value(i, name), value(j, name))
            assert got == (COMBINE[combine](want, not p) if combine else want), (i, j)


def test_packed_halves_flushed():
    a = np.array([0x00010001, 0x80010001, 0x04000001], dtype="u4")
    b = np.zeros(3, dtype="u4")
    plain = evaluate("setp.ne.f16x2 %r0|%r1, %a, %b;", [a, b], [bool, bool])
    flushed_ = evaluate("setp.ne.ftz.f16x2 %r0|%r1, %a, %b;", [a, b], [bool, bool])
    assert [x.tolist() for x in plain] == [[True] * 3, [True] * 3]
    assert [x.tolist() for x in flushed_] == [[False] * 3, [False, False, True]]


# --- set ------------------------------------------------------------------------------------------

TRUE = {"u32": 2**32 - 1, "s32": 2**32 - 1, "u16": 65535, "s16": 65535, "f32": 0x3F800000,
        "f16": 0x3C00, "bf16": 0x3F80}  # fmt: skip


@pytest.mark.parametrize(
    ("to", "source"),
    [("u32", "s32"), ("s32", "f32"), ("f32", "u64"), ("f32", "f64"), ("f16", "s16"),
     ("bf16", "f16"), ("u16", "f16"), ("s16", "bf16"), ("u32", "f16"), ("f16", "f16"),
     ("bf16", "bf16")],
)  # fmt: skip
@pytest.mark.parametrize("combine", ["", "or"])
def test_set(to, source, combine):
    a, b = pairs(integers(source) if source in INTEGERS else patterns(source))
    c = np.arange(len(a)) % 5 == 0
    text = f"set.lt.{to}.{source} %r0, %a, %b;"
    if combine:
        text = f"set.lt.or.{to}.{source} %r0, %a, %b, %c;"
    found = evaluate(text, [a, b, c], ["u4" if TRUE[to] > 65535 else "u2"])
    meaning = number if source in INTEGERS else value
    for x, y, p, got in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True):
        truth = meaning(x, source) < meaning(y, source) or (p and combine == "or")
        assert got == (TRUE[to] if truth else 0), (x, y)


@pytest.mark.parametrize(("to", "true"), [("f16x2", 0x3C00), ("u32", 0xFFFF), ("s32", 0xFFFF)])
@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_set_of_packed_halves(to, true, ftz):
    low_a, low_b, high_a, high_b = packed("f16")
    a, b = high_a.astype("u4") << 16 | low_a, high_b.astype("u4") << 16 | low_b
    found = evaluate(f"set.gtu{ftz}.{to}.f16x2 %r0, %a, %b;", [a, b], ["u4"])
    for shift, left, right in ((0, low_a, low_b), (16, high_a, high_b)):
        for x, y, got in zip(left.tolist(), right.tolist(), found.tolist(), strict=True):
            numbers = [value(v, "f16") for v in (x, y)]
            if ftz:
                numbers = [flushed(v, "f16") for v in numbers]
            assert got >> shift & 0xFFFF == (true if compare("gtu", *numbers) else 0), (x, y)


def test_set_of_packed_bfloats():
    a = np.array([0x3F807FFF, 0x00010000], dtype="u4")
    b = np.array([0x3F813F80, 0x00000000], dtype="u4")
    found = evaluate("set.lt.bf16x2.bf16x2 %r0, %a, %b;", [a, b], ["u4"])
    assert found.tolist() == [0x3F800000, 0]
    found = evaluate("set.neu.u32.bf16x2 %r0, %a, %b;", [a, b], ["u4"])
    assert found.tolist() == [0xFFFFFFFF, 0xFFFF0000]


# --- selections and properties --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["b16", "s16", "u32", "f32", "b64", "f64"])
@pytest.mark.parametrize("mark", ["", "!"])
def test_select(name, mark):
    a, b = pairs(integers(f"b{name[1:]}"))
    c = np.arange(len(a)) % 3 == 0
    found = evaluate(f"selp.{name} %r0, %a, %b, {mark}%c;", [a, b, c], [a.dtype])
    chosen = [x if p != (mark == "!") else y for x, y, p in zip(a, b, c, strict=True)]
    assert found.tolist() == chosen


@pytest.mark.parametrize("name", ["b16", "u32", "f32", "f64"])
def test_select_by_a_float(name):
    c = patterns("f32")
    a, b = (
        np.full(len(c), 7, f"u{int(name[1:]) // 8}"),
        np.full(len(c), 9, f"u{int(name[1:]) // 8}"),
    )
    for ftz in ("", ".ftz"):
        found = evaluate(f"slct{ftz}.{name}.f32 %r0, %a, %b, %c;", [a, b, c], [a.dtype])
        for bits, got in zip(c.tolist(), found.tolist(), strict=True):
            x = flushed(value(bits, "f32"), "f32") if ftz else value(bits, "f32")
            assert got == (7 if x >= 0 else 9), hex(bits)


def test_select_by_an_integer():
    c = integers("s32")
    a, b = np.full(len(c), 7, "u8"), np.full(len(c), 9, "u8")
    found = evaluate("slct.s64.s32 %r0, %a, %b, %c;", [a, b, c], ["u8"])
    assert found.tolist() == [7 if number(x, "s32") >= 0 else 9 for x in c.tolist()]


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_properties(name):
    bits = patterns(name)
    field, fraction = (255, 23) if name == "f32" else (2047, 52)
    meaning = {
        "finite": lambda e, f: e < field,
        "infinite": lambda e, f: e == field and f == 0,
        "number": lambda e, f: e < field or f == 0,
        "notanumber": lambda e, f: e == field and f != 0,
        "normal": lambda e, f: 0 < e < field or (e == 0 and f == 0),
        "subnormal": lambda e, f: e == 0 and f != 0,
    }
    for word, definition in meaning.items():
        found = evaluate(f"testp.{word}.{name} %r0, %a;", [bits], [bool])
        for x, got in zip(bits.tolist(), found.tolist(), strict=True):
            assert got == definition(x >> fraction & field, x & (1 << fraction) - 1), (word, hex(x))


@pytest.mark.parametrize(
    "text", ["setp.lo.s32 %r0, %a, %a;", "setp.lt.b32 %r0, %a, %a;", "setp.ltu.u32 %r0, %a, %a;",
             "setp.eq.ftz.s32 %r0, %a, %a;", "selp.ftz.f32 %a, %a, %a, %r0;",
             "testp.odd.f32 %r0, %a;"],
)  # fmt: skip
def test_refused_by_name(text):
    assert {d.code for d in refusals_of(evaluate, text, [np.zeros(1, "u4")], [bool])} <= {
        "PW108",
        "PW113",
        "PW410",
    }
