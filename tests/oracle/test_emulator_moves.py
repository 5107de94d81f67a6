"""mov with packing, cvta and isspacep, against Python's bytes and what symbols mean."""

import struct

import numpy as np
import pytest
from single_instruction import evaluate

from ptxwcet.support.diagnostics import PtxwcetError

RANDOM = np.random.default_rng(21)


def values(width, count=40):
    most = (1 << width) - 1
    edges = [0, 1, most, most >> 1, (most >> 1) + 1, most // 3, most // 3 * 2, 0x80, 0x7F, 0xFF]
    random = RANDOM.integers(0, 2**64, count, dtype=np.uint64)
    return np.array(edges + [int(v) & most for v in random], dtype=f"u{width // 8}")


@pytest.mark.parametrize(
    "name", ["b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"]
)
def test_bits_are_kept(name):
    bits = values(int(name[1:]))
    assert evaluate(f"mov.{name} %r0, %a;", [bits], [bits.dtype]).tolist() == bits.tolist()


@pytest.mark.parametrize(
    ("text", "kind", "bits"),
    [("mov.b16 %r0, 0xFFFE;", "u2", 0xFFFE), ("mov.s16 %r0, -2;", "u2", 0xFFFE),
     ("mov.u32 %r0, -1;", "u4", 2**32 - 1), ("mov.s64 %r0, -1;", "u8", 2**64 - 1),
     ("mov.f32 %r0, 1.5;", "u4", 0x3FC00000), ("mov.f32 %r0, 0f80000001;", "u4", 0x80000001),
     ("mov.f32 %r0, 0.1;", "u4", 0x3DCCCCCD), ("mov.f64 %r0, 0.1;", "u8", 0x3FB999999999999A),
     ("mov.f64 %r0, 0dFFF0000000000001;", "u8", 0xFFF0000000000001),
     ("mov.f32 %r0, 0f7F800001;", "u4", 0x7F800001), ("mov.f32 %r0, -0.0;", "u4", 2**31),
     ("mov.f32 %r0, 0d3FB999999999999A;", "u4", 0x3DCCCCCD),
     ("mov.b64 %r0, 0x8000000000000000;", "u8", 2**63)],
)  # fmt: skip
def test_literals(text, kind, bits):
    assert evaluate(text, [np.zeros(1, "u4")], [kind]).tolist() == [bits]


def test_predicates():
    flags = np.array([True, False])
    assert evaluate("mov.pred %r0, %a;", [flags], [bool]).tolist() == [True, False]
    assert evaluate("mov.pred %r0, !%a;", [flags], [bool]).tolist() == [False, True]
    assert evaluate("mov.pred %r0, 1;", [flags], [bool]).tolist() == [True, True]


# --- packing --------------------------------------------------------------------------------------

SHAPES = [(32, 2), (64, 2), (64, 4)]


@pytest.mark.parametrize(("width", "count"), SHAPES)
def test_pack(width, count):
    parts = [RANDOM.permutation(values(width // count)) for _ in range(count)]
    names = ", ".join("%" + letter for letter in "abcd"[:count])
    found = evaluate(f"mov.b{width} %r0, {{{names}}};", parts, [f"u{width // 8}"])
    for row, got in zip(zip(*parts, strict=True), found, strict=True):
        assert b"".join(p.tobytes() for p in row) == got.tobytes()


@pytest.mark.parametrize(("width", "count"), SHAPES)
def test_unpack(width, count):
    whole = values(width)
    names = ", ".join(f"%r{i}" for i in range(count))
    kinds = [f"u{width // count // 8}"] * count
    found = evaluate(f"mov.b{width} {{{names}}}, %a;", [whole], kinds)
    for position, bits in enumerate(whole.tolist()):
        data = bits.to_bytes(width // 8, "little")
        size = width // count // 8
        for part in range(count):
            want = int.from_bytes(data[part * size : (part + 1) * size], "little")
            assert found[part][position] == want


def test_bytes():
    whole = values(32)
    before = ".reg .b8 %x<4>; .reg .b16 %h;"
    text = "mov.b32 {%x0, %x1, %x2, %x3}, %a; mov.b32 %r0, {%x3, %x2, %x1, %x0};"
    found = evaluate(text, [whole], ["u4"], before=before)
    assert found.tolist() == [struct.unpack("<I", struct.pack(">I", v))[0] for v in whole.tolist()]
    half = values(16)
    text = "mov.b16 {%x0, %x1}, %a; mov.b16 %r0, {%x1, %x0};"
    found = evaluate(text, [half], ["u2"], before=before)
    assert found.tolist() == [struct.unpack("<H", struct.pack(">H", v))[0] for v in half.tolist()]


def test_parts_that_are_thrown_away_or_literals():
    whole = values(64)
    high = evaluate("mov.b64 {_, %r0}, %a;", [whole], ["u4"])
    assert high.tolist() == [v >> 32 for v in whole.tolist()]
    low = values(16)
    found = evaluate("mov.b32 %r0, {%a, 0x1234};", [low], ["u4"])
    assert found.tolist() == [0x12340000 + v for v in low.tolist()]
    single = values(32)
    found = evaluate("mov.b64 %r0, {%a, 1.0};", [single], ["u8"])
    assert found.tolist() == [0x3F80000000000000 + v for v in single.tolist()]


def test_vector_registers():
    whole = values(64)
    before = ".reg .v2 .b32 %v; .reg .v2 .b32 %w;"
    text = """mov.b64 %v, %a; mov.v2.b32 %w, %v; mov.v2.b32 %v, {%w.y, %w.x};
    mov.v2.b32 {%w.x, %w.y}, {%w.y, %w.x}; mov.b64 %r0, %v; mov.b64 %r1, %w; mov.b32 %r2, %v.x;"""
    found = evaluate(text, [whole], ["u8", "u8", "u4"], before=before)
    swapped = [(v << 32 | v >> 32) % 2**64 for v in whole.tolist()]
    assert [found[0].tolist(), found[1].tolist()] == [swapped, swapped]
    assert found[2].tolist() == [v >> 32 for v in whole.tolist()]


# --- addresses ------------------------------------------------------------------------------------

VARIABLES = """.shared .b32 %sh[8]; .local .b32 %lo[4]; .reg .b64 %x; .reg .b64 %y; .reg .b32 %z;
.reg .pred %p;""".replace("%sh", "sh").replace("%lo", "lo")
ZERO = np.zeros(64, "u4")
LANES = np.arange(64, dtype="u4")


@pytest.mark.parametrize(
    ("space", "name"),
    [("shared", "sh"), ("shared::cta", "sh"), ("shared::cluster", "sh"), ("local", "lo")],
)
def test_generic_addresses_name_the_same_memory(space, name):
    plain = space.split("::")[0]
    text = f"""cvta.{space}.u64 %x, {name}; add.u64 %x, %x, 8; st.b32 [%x], %a;
    cvta.to.{space}.u64 %y, %x; mov.u64 %r1, %y; ld.{plain}.b32 %r0, [{name}+8];
    mov.u64 %x, {name}+8; mov.u64 %r2, %x;"""
    same = np.full(64, 77, "u4")  # one value: the threads of a block share the shared variable
    source = LANES if plain == "local" else same
    stored, address, symbol = evaluate(
        text, [source], ["u4", "u8", "u8"], before=VARIABLES, findings=True
    )[0]
    assert stored.tolist() == source.tolist()
    assert address.tolist() == symbol.tolist()


def test_addresses_of_32_bits_of_shared_variables():
    found = evaluate("mov.u32 %r0, sh+12;", [ZERO], ["u4"], before=VARIABLES)
    wide = evaluate("mov.u64 %r0, sh+12;", [ZERO], ["u8"], before=VARIABLES)
    assert found.tolist() == wide.tolist()


SPACES = ["global", "shared", "local", "const", "param"]
WHERE = {
    "shared": "cvta.shared.u64 %x, sh; add.u64 %x, %x, 31;",
    "local": "cvta.local.u64 %x, lo; add.u64 %x, %x, 15;",
    "global": "ld.param.u64 %x, [p0];",
    "param": "mov.u64 %x, p1; cvta.param.u64 %x, %x; add.u64 %x, %x, 7;",
    "nowhere": "mov.u64 %x, 0;",
}


@pytest.mark.parametrize("place", WHERE)
@pytest.mark.parametrize("space", [*SPACES, "shared::cta", "shared::cluster", "param::entry"])
def test_spaces_of_generic_addresses(place, space):
    text = f"{WHERE[place]} isspacep.{space} %r0, %x;"
    found = evaluate(text, [ZERO], [bool], before=VARIABLES)
    inside = {"global": ["global"], "param": ["param", "global"], "nowhere": ["global"]}
    assert found.all() == found.any() == (space.split("::")[0] in inside.get(place, [place]))


def test_constant_variables_are_in_their_space(monkeypatch):
    import single_instruction

    header = single_instruction.HEADER + ".const .b32 table[4] = {1, 2, 3, 4};\n"
    monkeypatch.setattr(single_instruction, "HEADER", header)
    for space in SPACES:
        for offset, inside in ((0, True), (15, True), (16, False)):
            text = f"cvta.const.u64 %x, table+{offset}; isspacep.{space} %r0, %x;"
            found = evaluate(text, [ZERO], [bool], before=VARIABLES)
            assert found.all() == found.any() == (space == ("const" if inside else "global"))
    text = "cvta.const.u64 %x, table; cvta.to.const.u64 %y, %x; ld.const.b32 %r0, [%y+4];"
    assert set(evaluate(text, [ZERO], ["u4"], before=VARIABLES).tolist()) == {2}


def test_clusters_of_one_block():
    address = values(64)
    rank = np.zeros(len(address), "u4")
    found = evaluate("mapa.u64 %r0, %a, %b;", [address, rank], ["u8"])
    assert found.tolist() == address.tolist()
    found = evaluate("mapa.u64 %r0, %a, %b;", [address, rank + 1], ["u8"])
    assert set(found.tolist()) == {2**64 - 256}
    assert not evaluate("getctarank.u64 %r0, %a;", [address], ["u4"]).any()
    text = "mapa.shared::cluster.u32 %r0, sh, 0; getctarank.shared::cluster.u32 %r1, %r0;"
    found = evaluate(text, [ZERO], ["u4", "u4"], before=VARIABLES)
    assert not found[1].any()


@pytest.mark.parametrize(
    "text", ["mov.b128 {%x0, %x1}, %q;", "cvta.shared.u32 %a, %b;", "mov.u64 %r0, sh[1];"]
)
def test_refused_by_name(text):
    with pytest.raises(PtxwcetError) as refusal:
        evaluate(text, [ZERO, ZERO], ["u8"], before=VARIABLES + ".reg .b128 %q; .reg .b64 %x<2>;")
    assert "is not executed" in str(refusal.value)
