"""What a run finds: where, whose, at which address; and the sibling where nothing is wrong."""

import numpy as np
import pytest
from executions import execute_first
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.emulator.races import READ, STRONG, WRITE, ClockRaces, EpochRaces

pytestmark = pytest.mark.fast


def findings(body, threads=64, grid=1, size=64, checks=None):
    """The findings of a kernel with a buffer of ``size`` words; ``%t`` is the thread."""
    text = f"""\
.version 9.0
.target sm_90
.address_size 64
.entry k(.param .u64 out) {{
  .reg .b32 %t, %w, %r<9>; .reg .b64 %o, %d<9>; .reg .pred %p, %q; .reg .b16 %h;
  .shared .align 8 .b8 tile[1024]; .local .align 4 .b8 own[16];
  mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; ld.param.u64 %o, [out]; mul.lo.u32 %r8, %t, 4;
  mov.u32 %r7, tile; add.u32 %r6, %r7, %r8; cvt.u64.u32 %d8, %r8; add.u64 %d7, %o, %d8;
  setp.eq.u32 %p, %w, 0; setp.eq.u32 %q, %w, 1;
{body}
  ret;
}}
"""
    launch = EmulatedLaunch((threads, 1, 1), (grid, 1, 1), (np.zeros(size, "i4"),))
    options = {} if checks is None else {"checks": frozenset(checks)}
    done = execute_first(text, launch, **options)
    return [(f.code, f.span.line, f.block, f.thread) for f in done.findings], done


def codes(body, **more):
    return [row[0] for row in findings(body, **more)[0]]


def test_out_of_bounds():
    rows, done = findings("  st.global.u32 [%d7], 1;", threads=65)
    assert rows == [("PW430", 10, 0, 64)]
    assert done.findings[0].fatal
    assert done.findings[0].address is not None
    assert codes("  st.global.u32 [%d7], 1;") == []
    assert codes("  ld.global.u32 %r1, [%o+-4];") == ["PW430"]
    assert codes("  ld.global.v2.u32 {%r1, %r2}, [%o+252];") == ["PW431"]
    assert codes("  ld.shared.u32 %r1, [tile+1024];") == ["PW430"]
    assert codes("  st.local.u32 [own+16], 1;") == ["PW430"]
    assert codes("  mov.u64 %d1, 0; st.global.u32 [%d1], 1;") == ["PW430"]


def test_misaligned():
    rows, _ = findings("  add.u64 %d1, %d7, 2;\n  ld.global.u32 %r1, [%d1];")
    assert rows == [("PW431", 11, 0, 0)]
    assert codes("  st.shared.v4.u32 [tile+8], {%r1, %r1, %r1, %r1};") == ["PW431"]
    assert codes("  st.shared.v2.u32 [tile+8], {%t, %t};", threads=1) == []


def test_uninitialised():
    assert findings("  ld.shared.u32 %r1, [%r6];")[0] == [("PW432", 10, 0, 0)]
    assert codes("  st.shared.u32 [%r6], %t; ld.shared.u32 %r1, [%r6];") == []
    half = "  st.local.b16 [own], 3; ld.local.u32 %r1, [own];"
    assert codes(half) == ["PW432"]
    assert codes(half, checks=["race"]) == []
    second = "  @%p st.shared.u32 [%r6], %t;\n  @%q ld.shared.u32 %r1, [%r6];"
    assert findings(second)[0] == [("PW432", 11, 0, 32)]


def test_uninitialised_again_in_the_next_block():
    body = """  mov.u32 %r1, %ctaid.x; setp.eq.u32 %p, %r1, 0;
  @%p st.shared.u32 [%r6], 1;
  ld.shared.u32 %r2, [%r6];"""
    rows, _ = findings(body, grid=2)
    assert rows == [("PW432", 12, 1, 0)]


STORE, LOAD = "  @%p st.shared.u32 [tile+8], 7;", "  @%q ld.shared.u32 %r1, [tile+8];"


def test_races_between_warps():
    rows, done = findings(f"{STORE}\n{LOAD}")
    assert rows == [("PW434", 11, 0, 32)]
    assert (done.findings[0].address, done.findings[0].fatal) == (8, False)
    assert codes(f"{STORE}\n  bar.sync 0;\n{LOAD}") == []
    assert codes(f"{STORE}\n  @%p ld.shared.u32 %r1, [tile+8];") == []  # its own warp
    assert codes("  st.shared.u32 [tile], 1;") == ["PW434"]
    assert codes("  st.shared.u32 [tile], 1;", threads=32) == []
    assert codes(f"{STORE}\n{LOAD}", checks=["uninitialised"]) == []


def test_races_by_generic_address():
    generic = "  cvta.shared.u64 %d1, 8; @%q ld.u32 %r1, [%d1];"
    assert codes(f"{STORE}\n{generic}") == ["PW434"]
    assert codes(f"{STORE}\n  bar.sync 0;\n{generic}") == []


def test_races_of_bytes():
    byte = "  @%p st.shared.u8 [tile+{}], 7;"
    assert codes(byte.format(9) + "\n" + LOAD, checks=["race"]) == ["PW434"]
    assert codes(byte.format(12) + "\n" + LOAD, checks=["race"]) == []
    wide = "  @%q ld.shared.v2.u32 {%r1, %r2}, [tile+8];"
    assert codes(byte.format(15) + "\n" + wide, checks=["race"]) == ["PW434"]


def test_reads_before_a_write():
    first = "  ld.shared.u32 %r1, [tile+8];\n"
    assert codes(first + STORE, checks=["race"]) == ["PW434"]
    assert codes(first + "  bar.sync 0;\n" + STORE, checks=["race"]) == []
    assert codes("  @%p ld.shared.u32 %r1, [tile+8];\n" + STORE, checks=["race"]) == []


def test_atomic_operations_race_with_plain_ones_only():
    add = "  atom.shared.add.u32 %r1, [tile], 1;"
    zero = "  @%p st.shared.u32 [tile], 0;"
    assert codes(f"{zero}\n  bar.sync 0;\n{add}\n{add}") == []
    assert codes(f"{zero}\n{add}") == ["PW434"]
    read = "  ld.shared.u32 %r2, [tile];"
    assert codes(f"{zero}\n  bar.sync 0;\n{add}\n{read}") == ["PW434"]
    assert codes(f"{zero}\n  bar.sync 0;\n{add}\n  bar.sync 0;\n{read}") == []


def test_barriers_of_some_warps_order_these():
    body = f"""{STORE}
  setp.lt.u32 %p, %w, 2; @%p bar.sync 1, 64;
{LOAD}"""
    assert codes(body, threads=96) == []
    outsider = body.replace("@%q ld", "ld")
    rows, _ = findings(outsider, threads=96)
    assert rows == [("PW434", 12, 0, 64)]
    one_way = """  @%p st.shared.u32 [tile], 1;
  @%p bar.arrive 1, 64; @%q bar.sync 1, 64;
  @%q ld.shared.u32 %r1, [tile];
  @%q st.shared.u32 [tile+4], 1;
  @%p ld.shared.u32 %r1, [tile+4];"""
    rows, _ = findings(one_way, checks=["race"])
    assert [row[:2] for row in rows] in ([("PW434", 13)], [("PW434", 14)])


ACCESS = st.tuples(
    st.integers(0, 3),
    st.integers(0, 5),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([WRITE, READ, STRONG]),
)


@pytest.mark.parametrize("kind_of_races", [EpochRaces, ClockRaces])
@given(st.lists(st.one_of(ACCESS, st.none()), max_size=25))
@settings(max_examples=drawn(300), deadline=None)
def test_the_first_race_is_found(kind_of_races, sequence):
    """Against the definition: pairs of accesses since the last barrier that share a byte."""
    races = kind_of_races(64, 4)
    before = []
    for step in sequence:
        if step is None:
            races.forget()
            before.clear()
            continue
        warp, place, size, kind = step
        cells = range(place * size, place * size + size)
        expected = any(
            other != warp and (WRITE in (kind, done) or {kind, done} == {READ, STRONG})
            for other, held, done in before
            if set(held) & set(cells)
        )
        found = races.access(kind, np.array([warp]), np.array([place * size]), size)
        assert (found is not None and bool(found[0])) == expected
        if expected:
            return
        before.append((warp, cells, kind))


@pytest.mark.parametrize("kind_of_races", [EpochRaces, ClockRaces])
@pytest.mark.parametrize("kind", [WRITE, STRONG, READ])
def test_races_within_a_step(kind_of_races, kind):
    races = kind_of_races(64, 4)
    found = races.access(kind, np.array([0, 1]), np.array([8, 8]), 4)
    assert (found is not None and bool(found.any())) == (kind == WRITE)


def test_an_arrival_releases_what_came_before_it_only():
    """Warp 0 writes after it has arrived: that write is not ordered before the other's read."""
    body = """  @%p bar.arrive 1, 64;
  @%p st.shared.u32 [tile], 1;
  @%q bar.sync 1, 64;
  @%q ld.shared.u32 %r1, [tile];"""
    assert codes(body, checks=["race"]) == ["PW434"]
    first = body.replace("  @%p bar.arrive 1, 64;\n", "").replace(
        "[tile], 1;", "[tile], 1; @%p bar.arrive 1, 64;"
    )
    assert codes(first, checks=["race"]) == []
