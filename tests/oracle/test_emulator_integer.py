"""Integer, logic, shift and bit-field instructions on edge values, against Python integers."""

import itertools

import numpy as np
import pytest
from single_instruction import evaluate

pytestmark = pytest.mark.fast

RANDOM = np.random.default_rng(21)
EDGES = {
    16: [0, 1, 2, 7, 31, 0x5555, 0xAAAA, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 255, 256],
    32: [0, 1, 2, 3, 31, 32, 33, 0x55555555, 0xAAAAAAAA, 0x7FFFFFFF, 0x80000000, 0x80000001,
         0xFFFFFFFF, 0xFFFFFF, 0x800000, 0x1000000, 0x7FFFFF, 255],
    64: [0, 1, 2, 63, 64, 0x5555555555555555, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**63 + 1,
         2**64 - 1],
}  # fmt: skip


def values(width, arity, count=600):
    """Bit patterns: all combinations of edge values (some for three operands), then random ones."""
    edges = list(itertools.product(EDGES[width], repeat=arity))
    if len(edges) > 1200:
        edges = [edges[i] for i in RANDOM.choice(len(edges), 1200, replace=False)]
    random = RANDOM.integers(0, 2**64, (count, arity), dtype="u8") >> RANDOM.integers(
        0, width, (count, arity)
    ).astype("u8")
    rows = [*edges, *((random & np.uint64(2**width - 1)).tolist())]
    return [np.array(column, dtype=f"u{width // 8}") for column in zip(*rows, strict=True)]


def signed(bits, width):
    return bits - (1 << width) if bits >> (width - 1) & 1 else bits


def number(bits, kind):
    return signed(bits, int(kind[1:])) if kind[0] == "s" else bits


def check(text, kind, arity, definition, *, result=None, sources=None):
    """Compares with ``definition`` over numbers of the kind; results are cut to their width."""
    width = int(kind[1:])
    wide = result or width
    given = sources or values(width, arity)
    found = evaluate(text, given, [f"u{wide // 8}"]).tolist()
    rows = zip(*(g.tolist() for g in given), strict=True)
    for row, one in zip(rows, found, strict=True):
        numbers = [number(bits, kind) for bits in row]
        assert one == definition(*numbers) & ((1 << wide) - 1), (text, row)


def clamp(value, low, high):
    return min(max(value, low), high)


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


KINDS = ["u16", "s16", "u32", "s32", "u64", "s64"]


@pytest.mark.parametrize("kind", KINDS)
def test_arithmetic(kind):
    width = int(kind[1:])
    for name, definition in {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul.lo": lambda a, b: a * b,
        "mul.hi": lambda a, b: a * b >> width,
        "min": min,
        "max": max,
    }.items():
        check(f"{name}.{kind} %r0, %a, %b;", kind, 2, definition)
    check(f"mad.lo.{kind} %r0, %a, %b, %c;", kind, 3, lambda a, b, c: a * b + c)
    check(f"mad.hi.{kind} %r0, %a, %b, %c;", kind, 3, lambda a, b, c: (a * b >> width) + c)
    check(f"sad.{kind} %r0, %a, %b, %c;", kind, 3, lambda a, b, c: c + abs(a - b))
    if kind[0] == "s":
        check(f"neg.{kind} %r0, %a;", kind, 1, lambda a: -a)
        check(f"abs.{kind} %r0, %a;", kind, 1, abs)
    if width < 64:
        wide = f"mul.wide.{kind} %r0, %a, %b;"
        check(wide, kind, 2, lambda a, b: a * b, result=2 * width)


@pytest.mark.parametrize("kind", KINDS)
def test_division(kind):
    a, b = values(int(kind[1:]), 2)
    given = [a[b != 0], b[b != 0]]
    check(f"div.{kind} %r0, %a, %b;", kind, 2, quotient, sources=given)
    rest = f"rem.{kind} %r0, %a, %b;"
    check(rest, kind, 2, lambda x, y: x - y * quotient(x, y), sources=given)


def test_wide_multiply_add():
    a, b = values(32, 2)
    c = np.resize(values(64, 1)[0], a.size)
    found = evaluate("mad.wide.s32 %r0, %a, %b, %c;", [a, b, c], ["u8"]).tolist()
    for x, y, z, one in zip(a.tolist(), b.tolist(), c.tolist(), found, strict=True):
        assert one == (signed(x, 32) * signed(y, 32) + z) % 2**64


def test_saturation():
    low, high = -(2**31), 2**31 - 1
    check("add.sat.s32 %r0, %a, %b;", "s32", 2, lambda a, b: clamp(a + b, low, high))
    check("sub.sat.s32 %r0, %a, %b;", "s32", 2, lambda a, b: clamp(a - b, low, high))
    check("add.s32.sat %r0, %a, %b;", "s32", 2, lambda a, b: clamp(a + b, low, high))
    text = "mad.hi.sat.s32 %r0, %a, %b, %c;"
    check(text, "s32", 3, lambda a, b, c: clamp((a * b >> 32) + c, low, high))
    text = "mad24.hi.sat.s32 %r0, %a, %b, %c;"
    check(text, "s32", 3, lambda a, b, c: clamp(signed(hi24(a, b) % 2**32, 32) + c, low, high))


def low24(a):
    return signed(a & 0xFFFFFF, 24) if a < 0 or a & 0x800000 else a & 0xFFFFFF


def hi24(a, b):
    return low24(a) * low24(b) >> 16


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_24_bit_products(kind):
    cut = (lambda a: a & 0xFFFFFF) if kind == "u32" else low24
    check(f"mul24.lo.{kind} %r0, %a, %b;", kind, 2, lambda a, b: cut(a) * cut(b))
    check(f"mul24.hi.{kind} %r0, %a, %b;", kind, 2, lambda a, b: cut(a) * cut(b) >> 16)
    check(f"mad24.lo.{kind} %r0, %a, %b, %c;", kind, 3, lambda a, b, c: cut(a) * cut(b) + c)
    hi = f"mad24.hi.{kind} %r0, %a, %b, %c;"
    check(hi, kind, 3, lambda a, b, c: (cut(a) * cut(b) >> 16) + c)


@pytest.mark.parametrize("kind", ["u16x2", "s16x2"])
def test_packed_halves(kind):
    a, b = values(32, 2)
    half = (lambda x: signed(x, 16)) if kind[0] == "s" else (lambda x: x)
    rules = {"add": lambda x, y: x + y, "min": min, "max": max}
    if kind[0] == "s":
        rules["max.relu"] = lambda x, y: max(x, y, 0)
        rules["min.relu"] = lambda x, y: max(min(x, y), 0)
    for name, rule in rules.items():
        word = name.split(".")[0]
        text = f"{word}{'.relu' if 'relu' in name else ''}.{kind} %r0, %a, %b;"
        found = evaluate(text, [a, b], ["u4"]).tolist()
        for x, y, one in zip(a.tolist(), b.tolist(), found, strict=True):
            parts = [rule(half(x >> s & 0xFFFF), half(y >> s & 0xFFFF)) & 0xFFFF for s in (0, 16)]
            assert one == parts[0] | parts[1] << 16, (text, x, y)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_logic(width):
    kind = f"b{width}"
    plain = f"u{width}"
    rules = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}
    for name, rule in rules.items():
        check(f"{name}.{kind} %r0, %a, %b;", plain, 2, rule)
    check(f"not.{kind} %r0, %a;", plain, 1, int.__invert__)
    check(f"cnot.{kind} %r0, %a;", plain, 1, lambda a: int(a == 0))


def test_predicate_logic():
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for name, rule in (("and", a & b), ("or", a | b), ("xor", a ^ b)):
        np.testing.assert_array_equal(evaluate(f"{name}.pred %r0, %a, %b;", [a, b], [bool]), rule)
    np.testing.assert_array_equal(evaluate("not.pred %r0, %a;", [a], [bool]), ~a)


@pytest.mark.parametrize("table", [0x00, 0x80, 0x96, 0xE8, 0xCA, 0x1F, 0xFF])
def test_three_input_logic(table):
    def definition(a, b, c):
        return sum(
            (table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i
            for i in range(32)
        )

    check(f"lop3.b32 %r0, %a, %b, %c, {table};", "u32", 3, definition)


@pytest.mark.parametrize("word", ["and", "or"])
def test_three_input_logic_with_a_predicate(word):
    a, b, c = values(32, 3, 100)
    q = RANDOM.random(a.size) < 0.5
    d, p = evaluate(f"lop3.{word}.b32 %r0|%r1, %a, %b, %c, 0x80, %d;", [a, b, c, q], ["u4", bool])
    np.testing.assert_array_equal(d, a & b & c)
    np.testing.assert_array_equal(p, (d != 0) & q if word == "and" else (d != 0) | q)


AMOUNTS = [0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1]


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"])
def test_shifts(kind):
    width = int(kind[1:])
    words = np.repeat(values(width, 1, 20)[0], len(AMOUNTS))
    amounts = np.resize(np.array(AMOUNTS, "u4"), words.size)
    for name in ["shl", "shr"] if kind[0] == "b" else ["shr"]:
        found = evaluate(f"{name}.{kind} %r0, %a, %b;", [words, amounts], [words.dtype]).tolist()
        for a, n, one in zip(words.tolist(), amounts.tolist(), found, strict=True):
            value, n = number(a, kind), min(n, width)
            moved = value << n if name == "shl" else value >> n
            assert one == moved % 2**width


@pytest.mark.parametrize("mode", ["l.clamp", "l.wrap", "r.clamp", "r.wrap"])
def test_funnel_shift(mode):
    a, b = values(32, 2, 100)
    n = np.resize(np.array(AMOUNTS, "u4"), a.size)
    found = evaluate(f"shf.{mode}.b32 %r0, %a, %b, %c;", [a, b, n], ["u4"]).tolist()
    for x, y, count, one in zip(a.tolist(), b.tolist(), n.tolist(), found, strict=True):
        pair = y << 32 | x
        shift = count & 31 if "wrap" in mode else min(count, 32)
        expected = pair << shift >> 32 if mode[0] == "l" else pair >> shift
        assert one == expected & 0xFFFFFFFF


PLACES = [0, 1, 7, 8, 16, 24, 31, 32, 33, 40, 63, 64, 65, 128, 133, 160, 192, 254, 255, 256 + 3,
          2**31]  # fmt: skip


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_field_extract(kind):
    width = int(kind[1:])
    grid = list(itertools.product(values(width, 1, 12)[0].tolist(), PLACES, PLACES))
    words, starts, lengths = zip(*grid, strict=True)
    given = [np.array(words, f"u{width // 8}"), np.array(starts, "u4"), np.array(lengths, "u4")]
    found = evaluate(f"bfe.{kind} %r0, %a, %b, %c;", given, [given[0].dtype]).tolist()
    for (a, start, length), one in zip(grid, found, strict=True):
        start, length = (one & 255 if width == 32 else one for one in (start, length))
        fill = a >> min(start + length - 1, width - 1) & 1 if kind[0] == "s" and length else 0
        bits = [
            a >> (start + i) & 1 if i < length and start + i < width else fill for i in range(width)
        ]
        assert one == sum(bit << i for i, bit in enumerate(bits)), (a, start, length)


@pytest.mark.parametrize("width", [32, 64])
def test_bit_field_insert(width):
    words = values(width, 2, 12)
    pairs = list(zip(*(w.tolist() for w in words), strict=True))[:40]
    grid = list(itertools.product(pairs, PLACES, PLACES))
    kind = f"u{width // 8}"
    given = [np.array([row[0][i] for row in grid], kind) for i in (0, 1)]
    given += [np.array([row[i] for row in grid], "u4") for i in (1, 2)]
    found = evaluate(f"bfi.b{width} %r0, %a, %b, %c, %d;", given, [kind]).tolist()
    for ((a, b), start, length), one in zip(grid, found, strict=True):
        start, length = (one & 255 if width == 32 else one for one in (start, length))
        bits = [
            a >> (i - start) & 1 if start <= i < start + length else b >> i & 1
            for i in range(width)
        ]
        assert one == sum(bit << i for i, bit in enumerate(bits)), (a, b, start, length)


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_highest_bit(kind):
    width = int(kind[1:])

    def place(a):
        return (~a if a < 0 else a).bit_length() - 1

    check(f"bfind.{kind} %r0, %a;", kind, 1, place, result=32)

    def shift(a):
        return width - 1 - place(a) if place(a) >= 0 else -1

    check(f"bfind.shiftamt.{kind} %r0, %a;", kind, 1, shift, result=32)


@pytest.mark.parametrize("width", [32, 64])
def test_counts(width):
    kind = f"u{width}"
    check(f"popc.b{width} %r0, %a;", kind, 1, lambda a: a.bit_count(), result=32)
    check(f"clz.b{width} %r0, %a;", kind, 1, lambda a: width - a.bit_length(), result=32)
    check(f"brev.b{width} %r0, %a;", kind, 1, lambda a: int(f"{a:0{width}b}"[::-1], 2))


def nth_set(word, start, wanted):
    """The pseudo-code of the ISA, where a base above 31 is outside of the loop's bounds.

    GPUs answer 0 to the least offset, which has no magnitude.
    """
    if wanted == -(2**31):
        return 0
    if wanted == 0:
        return start if start < 32 and word >> start & 1 else 0xFFFFFFFF
    place, left = start, abs(wanted) - 1
    while 0 <= place < 32:
        if word >> place & 1:
            if left == 0:
                return place
            left -= 1
        place += 1 if wanted > 0 else -1
    return 0xFFFFFFFF


BASES = [0, 1, 3, 5, 15, 16, 30, 31, 32, 33, 40, 63, 64, 2**31, 2**32 - 1]
OFFSETS = [0, 1, 2, 3, 9, 32, 2**31 - 1, -1, -2, -3, -9, -32, -(2**31)]


def test_nth_set_bit():
    grid = list(itertools.product(values(32, 1, 8)[0].tolist(), BASES, OFFSETS))
    kinds = zip(zip(*grid, strict=True), ("u4", "u4", "i4"), strict=True)
    words, bases, offsets = (np.array(column, kind) for column, kind in kinds)
    given = [words, bases, offsets.view("u4")]
    found = evaluate("fns.b32 %r0, %a, %b, %c;", given, ["u4"]).tolist()
    for row, one in zip(grid, found, strict=True):
        assert one == nth_set(*row), row


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_extension_and_masks(mode):
    words = np.repeat(values(32, 1, 20)[0], len(AMOUNTS))
    amounts = np.resize(np.array(AMOUNTS, "u4"), words.size)
    for kind in ("u32", "s32"):
        found = evaluate(f"szext.{mode}.{kind} %r0, %a, %b;", [words, amounts], ["u4"]).tolist()
        for a, n, one in zip(words.tolist(), amounts.tolist(), found, strict=True):
            n = min(n, 32) if mode == "clamp" else n & 31
            low = a & ((1 << n) - 1)
            value = signed(low, n) if kind == "s32" and n else low
            assert one == value & 0xFFFFFFFF
    grid = list(itertools.product(AMOUNTS, AMOUNTS))
    a, b = (np.array(column, "u4") for column in zip(*grid, strict=True))
    found = evaluate(f"bmsk.{mode}.b32 %r0, %a, %b;", [a, b], ["u4"]).tolist()
    for (start, length), one in zip(grid, found, strict=True):
        if mode == "wrap":
            start, length = start & 31, length & 31
        assert one == sum(1 << i for i in range(32) if start <= i < start + length)


def test_permutation_of_bytes():
    a, b, c = values(32, 3)
    found = evaluate("prmt.b32 %r0, %a, %b, %c;", [a, b, c], ["u4"]).tolist()
    for x, y, s, one in zip(a.tolist(), b.tolist(), c.tolist(), found, strict=True):
        source = (x | y << 32).to_bytes(8, "little")
        out = []
        for nibble in (s >> shift & 15 for shift in (0, 4, 8, 12)):
            byte = source[nibble & 7]
            out.append((255 if byte & 128 else 0) if nibble & 8 else byte)
        assert one == int.from_bytes(bytes(out), "little")


@pytest.mark.parametrize(
    ("mode", "pick"),
    [
        ("f4e", lambda s, i: i + s),
        ("b4e", lambda s, i: (s - i) % 8),
        ("rc8", lambda s, i: s),
        ("ecl", max),
        ("ecr", min),
        ("rc16", lambda s, i: 2 * (s & 1) + (i & 1)),
    ],
)
def test_permutation_modes(mode, pick):
    a, b = values(32, 2, 100)
    c = np.arange(a.size, dtype="u4")
    found = evaluate(f"prmt.b32.{mode} %r0, %a, %b, %c;", [a, b, c], ["u4"]).tolist()
    for x, y, s, one in zip(a.tolist(), b.tolist(), c.tolist(), found, strict=True):
        source = (x | y << 32).to_bytes(8, "little")
        assert one == int.from_bytes(bytes(source[pick(s & 3, i)] for i in range(4)), "little")


@pytest.mark.parametrize("kinds", ["u32.u32", "u32.s32", "s32.u32", "s32.s32"])
def test_dot_products(kinds):
    left, right = kinds.split(".")

    def parts(bits, kind, size):
        cut = [bits >> shift & ((1 << size) - 1) for shift in range(0, 32, size)]
        return [signed(part, size) if kind[0] == "s" else part for part in cut]

    def four(a, b, c):
        return c + sum(x * y for x, y in zip(parts(a, left, 8), parts(b, right, 8), strict=True))

    check(f"dp4a.{kinds} %r0, %a, %b, %c;", "u32", 3, four)
    for mode, first in (("lo", 0), ("hi", 2)):

        def two(a, b, c, first=first):
            chosen = parts(b, right, 8)[first : first + 2]
            return c + sum(x * y for x, y in zip(parts(a, left, 16), chosen, strict=True))

        check(f"dp2a.{mode}.{kinds} %r0, %a, %b, %c;", "u32", 3, two)


@pytest.mark.parametrize("width", [32, 64])
def test_carry_chains(width):
    """Sums, differences and products of twice the width, in two steps through the carry flag."""
    kind = f"u{width}"
    a, b, c, d = (np.resize(v, 1500) for v in values(width, 4))
    rows = list(zip(a.tolist(), b.tolist(), c.tolist(), d.tolist(), strict=True))
    sources, results = [a, b, c, d], [f"u{width // 8}"] * 2
    modulus = 1 << 2 * width

    def pairs(text):
        low, high = evaluate(text, sources, results)
        return [lo | hi << width for lo, hi in zip(low.tolist(), high.tolist(), strict=True)]

    text = f"add.cc.{kind} %r0, %a, %c; addc.{kind} %r1, %b, %d;"
    assert pairs(text) == [((x | y << width) + (z | w << width)) % modulus for x, y, z, w in rows]
    text = f"sub.cc.{kind} %r0, %a, %c; subc.{kind} %r1, %b, %d;"
    assert pairs(text) == [((x | y << width) - (z | w << width)) % modulus for x, y, z, w in rows]
    text = f"mad.lo.cc.{kind} %r0, %a, %b, %c; madc.hi.{kind} %r1, %a, %b, %d;"
    assert pairs(text) == [(x * y + (z | w << width)) % modulus for x, y, z, w in rows]
    text = f"mad.hi.cc.{kind} %r0, %a, %b, %c; madc.lo.{kind} %r1, %a, 0, %d;"
    expected = [
        ((x * y >> width) + z) % 2**width
        | ((w + ((x * y >> width) + z >> width)) % 2**width) << width
        for x, y, z, w in rows
    ]
    assert pairs(text) == expected
    text = f"add.cc.{kind} %r0, %a, %c; addc.cc.{kind} %r0, %b, %d; addc.{kind} %r1, 0, 0;"
    expected = [
        (y + w + (x + z >> width)) % 2**width | (y + w + (x + z >> width) >> width) << width
        for x, y, z, w in rows
    ]
    assert pairs(text) == expected
    text = f"sub.cc.{kind} %r0, %a, %c; subc.cc.{kind} %r0, %b, %d; subc.{kind} %r1, 0, 0;"
    expected = [
        (y - w - (x < z)) % 2**width | (-(y - w - (x < z) < 0) % 2**width) << width
        for x, y, z, w in rows
    ]
    assert pairs(text) == expected


def test_carry_is_kept_under_a_guard():
    a = np.array([2**32 - 1, 2**32 - 1], "u4")
    p = np.array([True, False])
    text = "add.cc.u32 %r0, %a, 1; @%b add.cc.u32 %r0, 0, 0; addc.u32 %r0, 0, 0;"
    assert evaluate(text, [a, p], ["u4"]).tolist() == [0, 1]


def test_division_by_zero_is_found():
    a = np.arange(40, dtype="u4")
    _, findings = evaluate("div.u32 %r0, 7, %a;", [a], ["u4"], findings=True)
    assert [(f.code, f.thread) for f in findings] == [("PW435", 0)]
