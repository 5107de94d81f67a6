"""``ldmatrix``, ``stmatrix`` and ``movmatrix`` against numpy, and the checks of their accesses."""

import numpy as np
import pytest
from warp_matrices import run

RANDOM = np.random.default_rng(52)
TRANS = pytest.mark.parametrize("trans", ["", ".trans"])
COUNTS = pytest.mark.parametrize("count", [1, 2, 4])

MATRIX_LOAD = """
  mov.u32 %r1, tile; mad.lo.u32 %r2, %t, 16, %r1; mad.wide.u32 %d1, %t, 16, %a0;
  ld.global.v4.b32 {{%r3, %r4, %r5, %r6}}, [%d1]; st.shared.v4.b32 [%r2], {{%r3, %r4, %r5, %r6}};
  bar.sync 0;
  ldmatrix.sync.aligned.m8n8.{count}{trans}.shared.b16 {{{names}}}, [%r2];
  mad.wide.u32 %d1, %t, 16, %a1; st.global.v4.b32 [%d1], {{%r10, %r11, %r12, %r13}};"""


@COUNTS
@TRANS
def test_ldmatrix(count, trans):
    data = RANDOM.integers(0, 2**16, (2, 4, 8, 8)).astype("u2")
    names = ", ".join(f"%r{10 + i}" for i in range(count))
    body = MATRIX_LOAD.format(count=f"x{count}", trans=trans, names=names)
    found = run(body, data, np.zeros((2, 32, 4, 2), "u2"), threads=64)[1]
    for warp in range(2):
        for matrix in range(count):
            source = data[warp, matrix].T if trans else data[warp, matrix]
            for lane in range(32):
                expected = [source[lane // 4, lane % 4 * 2 + i] for i in range(2)]
                assert found[warp, lane, matrix].tolist() == expected


@pytest.mark.parametrize("count", [1, 2])
def test_ldmatrix_of_bytes(count):
    """Element r, c of the transpose: byte c % 4 of register r // 8 of lane 4 (r % 8) + c // 4.

    So a lane holds 4 elements of a column of memory, as the B fragment of ``m16n8k32`` has them.
    """
    data = RANDOM.integers(0, 2**8, (2, 2, 16, 16)).astype("u1")
    names = ", ".join(f"%r{10 + i}" for i in range(2 * count))
    body = MATRIX_LOAD.format(count=f"x{count}", trans=".trans", names=names)
    body = body.replace("m8n8", "m16n16").replace("b16", "b8")
    found = run(body, data, np.zeros((2, 32, 4, 4), "u1"), threads=64)[1]
    for warp in range(2):
        for matrix in range(count):
            for row in range(16):
                for column in range(16):
                    lane = row % 8 * 4 + column // 4
                    register = 2 * matrix + row // 8
                    wanted = data[warp, matrix, column, row]
                    assert found[warp, lane, register, column % 4] == wanted


@COUNTS
@TRANS
def test_stmatrix(count, trans):
    """Rows go where the lanes 0 to 8 * count - 1 say: here in reverse, 32 bytes apart."""
    data = RANDOM.integers(1, 2**16, (4, 32, 2)).astype("u2")
    names = ", ".join(f"%r{10 + i}" for i in range(count))
    loads = "\n".join(f"  ld.global.b32 %r{10 + i}, [%d1+{128 * i}];" for i in range(count))
    body = f"""
  mov.u32 %r1, tile; mad.lo.u32 %r2, %t, 32, %r1; mov.b32 %r3, 0;
  st.shared.v4.b32 [%r2], {{%r3, %r3, %r3, %r3}};
  st.shared.v4.b32 [%r2+16], {{%r3, %r3, %r3, %r3}};
  sub.u32 %r4, 31, %t; mad.lo.u32 %r5, %r4, 32, %r1; mad.wide.u32 %d1, %t, 4, %a0;
{loads}
  bar.sync 0;
  stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r5], {{{names}}};
  bar.sync 0; mad.wide.u32 %d1, %t, 32, %a1;
  ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r2];
  st.global.v4.b32 [%d1], {{%r20, %r21, %r22, %r23}};
  ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r2+16];
  st.global.v4.b32 [%d1+16], {{%r20, %r21, %r22, %r23}};"""
    stored = run(body, data, np.zeros((32, 16), "u2"))[1]
    expected = np.zeros((32, 16), "u2")
    for matrix in range(count):
        whole = data[matrix].reshape(8, 8)
        for row, values in enumerate(whole.T if trans else whole):
            expected[31 - 8 * matrix - row, :8] = values
    np.testing.assert_array_equal(stored, expected)


def test_movmatrix():
    data = RANDOM.integers(0, 2**16, (2, 8, 8)).astype("u2")
    body = """
  mad.wide.u32 %d1, %t, 4, %a0; ld.global.b32 %r1, [%d1];
  movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
  mad.wide.u32 %d1, %t, 4, %a1; st.global.b32 [%d1], %r2;"""
    turned = run(body, data, np.zeros((2, 8, 8), "u2"), threads=64)[1]
    np.testing.assert_array_equal(turned, data.transpose(0, 2, 1))


# --- findings -------------------------------------------------------------------------------------

FILLED = """
  mov.u32 %r1, tile; mad.lo.u32 %r2, %t, 16, %r1; mov.b32 %r3, 0;
  st.shared.v4.b32 [%r2], {%r3, %r3, %r3, %r3};
  bar.sync 0;"""
LOAD = "ldmatrix.sync.aligned.m8n8.x{}.shared.b16 {{{}}}, [%r2];"
STORE = "stmatrix.sync.aligned.m8n8.x{}.shared.b16 [%r2], {{{}}};"
REGISTERS = {1: "%r10", 2: "%r10, %r11", 4: "%r10, %r11, %r12, %r13"}
MOVES = pytest.mark.parametrize("move", [LOAD, STORE], ids=["ldmatrix", "stmatrix"])


def moved(move, count, before):
    return f"{FILLED}\n  {before}\n  {move.format(count, REGISTERS[count])}"


@MOVES
@COUNTS
def test_a_misaligned_row(move, count):
    """Only the addresses of the first 8, 16 or 32 lanes count."""
    last = 8 * count - 1
    wrong = f"setp.eq.u32 %p, %t, {last}; @%p add.u32 %r2, %r2, 8;"
    run(moved(move, count, wrong), np.zeros(1), findings=["PW431"])
    if count < 4:
        right = f"setp.gt.u32 %p, %t, {last}; @%p add.u32 %r2, %r2, 8;"
        run(moved(move, count, right), np.zeros(1))


@MOVES
def test_a_row_outside(move):
    wrong = "setp.eq.u32 %p, %t, 5; @%p add.u32 %r2, %r1, 8192;"
    run(moved(move, 1, wrong), np.zeros(1), findings=["PW430"])


@COUNTS
def test_rows_never_written(count):
    """Row 0 lies in the tile behind what was written, for a load; a store writes it."""
    before = f"setp.eq.u32 %p, %t, {8 * count - 1}; @%p add.u32 %r2, %r1, 4096;"
    run(moved(LOAD, count, before), np.zeros(1), findings=["PW432"])
    stored = moved(STORE, count, before)
    run(f"{stored}\n  {LOAD.format(count, REGISTERS[count])}", np.zeros(1))


@pytest.mark.parametrize(
    ("first", "second", "findings"),
    [
        (STORE, LOAD, ["PW434"]),
        (LOAD, STORE, ["PW434"]),
        (STORE, STORE, ["PW434"]),
        (LOAD, LOAD, []),
    ],
)
@COUNTS
def test_races(first, second, findings, count):
    """Warp 0 executes one and warp 1 the other at the rows of warp 0, without a barrier."""
    names = REGISTERS[count]
    shared = "and.b32 %r4, %t, 31; mad.lo.u32 %r2, %r4, 16, %r1; setp.lt.u32 %p, %t, 32;"
    body = f"""{FILLED}
  {shared}
  @%p {first.format(count, names)}
  {{barrier}}
  @!%p {second.format(count, names)}"""
    run(body.replace("{barrier}", ""), np.zeros(1), threads=64, findings=findings)
    run(body.replace("{barrier}", "bar.sync 0;"), np.zeros(1), threads=64)


FOUR = "{%r10, %r11, %r12, %r13}"
WARP_WIDE = {
    "ldmatrix": LOAD.format(1, "%r10"),
    "stmatrix": STORE.format(1, "%r10"),
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r11;",
    "mma": f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {FOUR}, {FOUR}, {{%r10, %r11}}"
    f", {FOUR};",
    "wmma.load": "wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 "
    "{%r10, %r11, %r12, %r13}, [%r1];",
    "wmma.store": "wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 "
    "[%r1], {%r10, %r11, %r12, %r13};",
    "wmma.mma": "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 "
    "{%f1, %f2}, {%f1}, {%f1}, {%f1, %f2};",
}


@pytest.mark.parametrize("name", WARP_WIDE)
def test_a_part_of_a_warp(name):
    whole = f"{FILLED}\n  {WARP_WIDE[name]}"
    run(whole, np.zeros(1))
    part = f"{FILLED}\n  setp.lt.u32 %p, %t, 31;\n  @%p {WARP_WIDE[name]}"
    run(part, np.zeros(1), findings=["PW437"])
    one_of_two = f"{FILLED}\n  setp.lt.u32 %p, %t, 32;\n  @%p {WARP_WIDE[name]}"
    run(one_of_two, np.zeros(1), threads=64)


def test_a_part_writes_only_its_registers():
    body = """
  mov.b32 %r2, 7; setp.lt.u32 %p, %t, 9;
  @%p movmatrix.sync.aligned.m8n8.trans.b16 %r2, %t;
  mad.wide.u32 %d1, %t, 4, %a0; st.global.b32 [%d1], %r2;"""
    found = run(body, np.zeros(32, "u4"), findings=["PW437"])[0]
    assert set(found[9:].tolist()) == {7}
    assert found[:9].tolist() != [7] * 9
