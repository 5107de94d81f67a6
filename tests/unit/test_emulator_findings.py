"""Each finding of the memory checks: reported where it must be, and not where it must not."""

import numpy as np
import pytest
from executions import execute_first

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.emulator.memory import BASE

pytestmark = pytest.mark.fast

HEADER = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 given, .param .u64 other)
{
.reg .b64 %d<9>, %x<9>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .pred %p<9>;
.shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bar[2]; .local .align 8 .b8 mine[24];
ld.param.u64 %d0, [given]; ld.param.u64 %d1, [other];
mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; and.b32 %r2, %r0, 31; mul.wide.u32 %x0, %r0, 4;
mov.u32 %r3, tile; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r3; cvt.u32.u64 %r5, %x0;
setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1;
mov.u32 %r6, bar; setp.eq.u32 %p3, %r0, 32;
"""
FIRST = HEADER.count("\n") + 1
GIVEN = np.arange(64, dtype="u4")


def run(*lines, threads=64, blocks=1, checks=None):
    text = HEADER + "\n".join(lines) + "\nret;\n}\n"
    arguments = (GIVEN, np.zeros(64, "u4"))
    launch = EmulatedLaunch((threads, 1, 1), (blocks, 1, 1), arguments)
    options = {} if checks is None else {"checks": frozenset(checks)}
    return execute_first(text, launch, **options)


def found(*lines, **options):
    """Code, line of the body (1 is the first), block, thread and address of each finding."""
    return [
        (f.code, f.span.line - FIRST + 1, f.block, f.thread, f.address)
        for f in run(*lines, **options).findings
    ]


def address_of(parameter):
    """The address of a buffer: where the emulator puts the first two arguments."""
    first = 256
    size = GIVEN.nbytes
    second = (first + size + 256 + 255) // 256 * 256
    second = (second + 8 + 256 + 255) // 256 * 256
    return BASE + (first if parameter == "given" else second)


# --- bounds and alignment -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "where"),
    [
        (256, "0 bytes after the end of given (256 bytes)"),
        (-8, "8 bytes before the start of given"),
        (300, "44 bytes after the end of given (256 bytes)"),
    ],
)
def test_outside_a_buffer(offset, where):
    done = run(f"@%p3 ld.global.u32 %r7, [%d0+{offset}];")
    (finding,) = done.findings
    assert (finding.code, finding.span.line, finding.thread) == ("PW430", FIRST, 32)
    assert finding.address == address_of("given") + offset
    assert finding.message == f"global access of 4 bytes outside every allocation: {where}"
    assert not done.is_complete
    assert not run("@%p3 ld.global.u32 %r7, [%d0+252];").findings


def test_outside_names_the_nearest():
    (finding,) = run("st.global.u8 [%d1+-3], 1;").findings
    assert finding.message.endswith("3 bytes before the start of other")
    (finding,) = run("st.shared.u8 [bar+17], 1;", threads=1).findings
    assert finding.message.endswith("1 bytes after the end of bar (16 bytes)")
    assert finding.address == 512 + 17
    assert not run("st.shared.u8 [bar+15], 1;", threads=1).findings


@pytest.mark.parametrize("offset", [24 + 8, 1 << 20, -1, 152])
def test_outside_local_memory(offset):
    access = f"mov.u64 %x1, mine; st.local.u8 [%x1+{offset}], 1;"
    assert found(access, blocks=2) == [("PW430", 1, 0, 0, offset % 2**64)]
    generic = f"mov.u64 %x1, mine; cvta.local.u64 %x1, %x1; st.u8 [%x1+{offset}], 1;"
    assert [row[:4] for row in found(generic)] == [("PW430", 1, 0, 0)]
    assert not found("mov.u64 %x1, mine; st.local.u8 [%x1+23], 1;")


def test_null_pointer_and_wrong_space():
    assert found("mov.u64 %x1, 0; st.u32 [%x1], 1;") == [("PW430", 1, 0, 0, 0)]
    window = "mov.u64 %x1, tile; cvta.shared.u64 %x1, %x1;"
    (finding,) = run(window + "st.global.u32 [%x1], 1;", threads=1).findings
    assert finding.message.endswith("it lies in shared or local memory")
    assert not found(window + "st.u32 [%x1], 1;", threads=1)


@pytest.mark.parametrize(
    ("text", "size"), [("st.global.u32 [%d1+2], 1;", 4), ("st.global.u64 [%d1+4], 1;", 8)]
)
def test_misaligned(text, size):
    (finding,) = run("@%p3 " + text).findings
    assert (finding.code, finding.thread) == ("PW431", 32)
    assert finding.message == f"global address not a multiple of {size}"
    assert not found("@%p3 st.global.u64 [%d1+8], 1;")


def test_misaligned_vector():
    assert found("@%p3 ld.global.v4.u32 {%r3,%r4,%r5,%r6}, [%d0+8];") == [
        ("PW431", 1, 0, 32, address_of("given") + 8)
    ]
    assert not found("@%p3 ld.global.v4.u32 {%r3,%r4,%r5,%r6}, [%d0+16];")


# --- uninitialised --------------------------------------------------------------------------------


def test_uninitialised():
    assert found("@%p3 ld.shared.u32 %r7, [tile+12];") == [("PW432", 1, 0, 32, 12)]
    part = "st.shared.u8 [tile+12], 1; st.shared.u8 [tile+13], 1;"
    assert found(part + "ld.shared.u32 %r7, [tile+12];", threads=1) == [("PW432", 1, 0, 0, 12)]
    assert not found(part + "ld.shared.u16 %r7, [tile+12];", threads=1)
    assert found("ld.local.u32 %r7, [mine+4];") == [("PW432", 1, 0, 0, 4)]
    assert not found("st.local.u32 [mine+4], 5; ld.local.u32 %r7, [mine+4];")
    assert not found("ld.shared.u32 %r7, [tile+12];", checks=["race"])


def test_memory_of_a_block_starts_uninitialised():
    lines = ["mov.u32 %r8, %ctaid.x; setp.eq.u32 %p4, %r8, 0; @%p4 st.shared.u32 [%r4], 1;"]
    assert found(*lines, "bar.sync 0;", "ld.shared.u32 %r7, [%r4];", blocks=2) == [
        ("PW432", 3, 1, 0, 0)
    ]


# --- races ----------------------------------------------------------------------------------------

BARRIER = "bar.sync 0;"
RACES = {
    "write, read": ("@%p1 st.shared.u32 [%r4], 1;", "@%p2 ld.shared.u32 %r7, [%r4+-128];", 32, 0),
    "read, write": (
        "st.shared.u32 [%r4], 1; bar.sync 0; @%p1 ld.shared.u32 %r7, [%r4];",
        "@%p2 st.shared.u32 [%r4+-128], 1;",
        32,
        0,
    ),
    "one byte of a word": (
        "@%p0 st.shared.u8 [tile+6], 1;",
        "@%p3 st.shared.u32 [tile+4], 1;",
        32,
        4,
    ),
    "last byte of a vector": (
        "@%p0 st.shared.u8 [tile+31], 1;",
        "@%p3 st.shared.v4.u32 [tile+16], {%r0, %r0, %r0, %r0};",
        32,
        16,
    ),
    "atomic, plain": (
        "@%p0 st.shared.u32 [tile], 1; bar.sync 0; @%p0 atom.shared.add.u32 %r7, [tile], 1;",
        "@%p3 st.shared.u32 [tile], 1;",
        32,
        0,
    ),
    "atomic, read": (
        "@%p0 st.shared.u32 [tile], 1; bar.sync 0; @%p3 red.shared.add.u32 [tile], 1;",
        "@%p0 ld.shared.u32 %r7, [tile];",
        0,
        0,
    ),
    "volatile, plain": (
        "@%p0 st.volatile.shared.u32 [tile], 1;",
        "@%p3 st.shared.u32 [tile], 1;",
        32,
        0,
    ),
    "generic": (
        "@%p0 st.shared.u32 [tile+8], 1; mov.u64 %x1, tile; cvta.shared.u64 %x1, %x1;",
        "@%p3 st.u32 [%x1+8], 1;",
        32,
        None,
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_races(name):
    first, second, thread, address = RACES[name]
    rows = [row for row in found(first, second) if row[0] != "PW432"]
    assert [row[:4] for row in rows] == [("PW434", 2, 0, thread)]
    assert address is None or rows[0][4] == address
    assert not found(first, BARRIER, second)
    assert not found(first, second, checks=["division"])


NO_RACES = [
    ("@%p0 st.shared.u8 [tile+6], 1;", "@%p3 st.shared.u8 [tile+7], 1;"),
    ("@%p0 st.shared.u16 [tile+6], 1;", "@%p3 st.shared.u32 [tile+8], 1;"),
    ("st.shared.u32 [%r4], 1; bar.sync 0;",
     "ld.shared.u32 %r7, [tile]; ld.shared.u8 %r7, [tile+1];"),
    ("@%p0 st.shared.u32 [tile], 1; bar.sync 0;", "atom.shared.add.u32 %r7, [tile], 1;"),
    ("@%p0 st.shared.u32 [tile], 1; bar.sync 0;",
     "@%p0 st.volatile.shared.u32 [tile], 1; @%p3 ld.volatile.shared.u32 %r7, [tile];"),
    ("st.shared.u32 [%r4], 1; bar.sync 0;",
     "@%p1 ld.volatile.shared.u32 %r7, [tile]; @%p2 ld.shared.u32 %r7, [tile];"),
    ("@%p1 st.shared.u8 [%r4], 1; @%p1 st.shared.u8 [%r4+1], 1;", "@%p1 ld.shared.u16 %r7, [%r4];"),
]  # fmt: skip


@pytest.mark.parametrize("lines", NO_RACES)
def test_no_races(lines):
    assert not found(*lines)


def test_a_read_of_several_warps_after_bytes_of_one():
    lines = ["st.shared.u32 [%r4], 1; bar.sync 0; @%p0 ld.shared.u8 %r7, [tile+1];"]
    lines += ["@%p2 ld.shared.u32 %r7, [tile];", "@%p1 st.shared.u8 [tile], 1;"]
    assert [row[:4] for row in found(*lines)] == [("PW434", 3, 0, 0)]
    assert not found(*lines[:1], "@%p1 st.shared.u8 [tile+1], 1;")


def test_lanes_of_a_warp_that_write_one_place():
    store = "@%p2 st.shared.u32 [tile+4], %r0;"
    done = run(store)
    assert [(f.code, f.thread, f.address, f.fatal) for f in done.findings] == [
        ("PW434", 33, 4, False)
    ]
    assert "two lanes of a warp" in done.findings[0].message
    assert done.is_complete
    assert not found("@%p2 st.shared.u32 [tile+4], %r1;")
    assert not found("st.shared.u32 [%r4], %r0;")


LOCK = """@%p0 st.shared.u32 [bar], 0; @%p0 st.shared.u32 [tile], 0; bar.sync 0;
  setp.ne.u32 %p4, %r2, 0; @%p4 bra DONE;
TAKE: atom.shared.cas.b32 %r7, [bar], 0, 1; setp.ne.u32 %p5, %r7, 0; @%p5 bra TAKE;
  membar.cta; ld.shared.u32 %r8, [tile]; add.u32 %r8, %r8, 1; st.shared.u32 [tile], %r8; membar.cta;
  atom.shared.exch.b32 %r7, [bar], 0; DONE:"""


def test_a_lock_orders_its_holders():
    assert not found(LOCK, threads=256)
    open_ = found(LOCK.replace("membar.cta;", ""), threads=256)
    assert {row[:2] for row in open_} == {("PW434", 4)}
    words = LOCK.replace("membar.cta;", "")
    words = words.replace("atom.shared.cas", "atom.acquire.cta.shared.cas")
    words = words.replace("atom.shared.exch", "atom.release.cta.shared.exch")
    assert not found(words, threads=256)


def test_a_flag_hands_over():
    lines = ["@%p0 st.shared.u32 [bar], 0; bar.sync 0; @%p2 bra WAIT;"]
    lines += ["@%p0 st.shared.u32 [tile], 7; @%p0 st.release.cta.shared.u32 [bar], 1; bra DONE;"]
    lines += ["WAIT: ld.acquire.cta.shared.u32 %r7, [bar]; setp.eq.u32 %p4, %r7, 0;"]
    lines += ["@%p4 bra WAIT;", "ld.shared.u32 %r8, [tile]; DONE:"]
    assert not found(*lines)
    weaker = [line.replace("acquire", "relaxed").replace("release", "relaxed") for line in lines]
    assert [row[:4] for row in found(*weaker)] == [("PW434", 5, 0, 32)]


# --- asynchronous copies --------------------------------------------------------------------------

COPY = "add.u64 %x1, %d0, %x0; cp.async.ca.shared.global [%r4], [%x1], 4;"
COMMIT, WAIT, READ = "cp.async.commit_group;", "cp.async.wait_group 0;", "ld.shared.u32 %r7, [%r4];"


def test_reads_before_the_wait():
    assert found(COPY, COMMIT, READ) == [("PW438", 3, 0, 0, 0)]
    assert found(COPY, WAIT, READ) == [("PW438", 3, 0, 0, 0)]  # not committed
    assert found(COPY, COMMIT, BARRIER, READ) == [("PW438", 4, 0, 0, 0)]
    assert not found(COPY, COMMIT, WAIT, READ)
    assert not found(COPY, "cp.async.wait_all;", READ)
    assert not found(COPY, COMMIT, READ, checks=["uninitialised"])


def test_groups():
    second = "cp.async.ca.shared.global [%r4+256], [%x1], 4;"
    older = [COPY, COMMIT, second, COMMIT, "cp.async.wait_group 1;"]
    assert not found(*older, READ)
    assert found(*older, "ld.shared.u32 %r7, [%r4+256];") == [("PW438", 6, 0, 0, 256)]
    assert not found(*older, WAIT, "ld.shared.u32 %r7, [%r4+256];")


def test_each_thread_waits_for_itself():
    lines = [COPY, COMMIT, "@%p1 cp.async.wait_group 0;", READ]
    assert found(*lines) == [("PW438", 4, 0, 32, 128)]


def test_others_see_a_copy_after_a_barrier():
    other = "@%p2 ld.shared.u32 %r7, [%r4+-128];"
    assert [row[:4] for row in found(COPY, COMMIT, WAIT, other)] == [("PW434", 4, 0, 32)]
    assert [row[:4] for row in found(COPY, COMMIT, BARRIER, WAIT, other)] == [("PW434", 5, 0, 32)]
    assert not found(COPY, COMMIT, WAIT, BARRIER, other)


def test_writes_before_the_wait():
    assert found(COPY, COMMIT, "@%p0 st.shared.u32 [%r4], 1;") == [("PW438", 3, 0, 0, 0)]
    assert found(COPY, COMMIT, "@%p3 st.global.u32 [%x1], 1;") == [
        ("PW438", 3, 0, 32, address_of("given") + 128)
    ]
    assert found(COPY, COMMIT, COPY) == [("PW438", 3, 0, 0, 0)]
    assert not found(COPY, COMMIT, WAIT, "st.shared.u32 [%r4], 1; st.global.u32 [%x1], 1;")
    assert not found(COPY, COMMIT, "ld.global.u32 %r7, [%x1];")


def test_a_source_of_two_copies_stays_in_use():
    lines = ["@%p1 cp.async.ca.shared.global [%r4], [%d0], 4; cp.async.commit_group;"]
    lines[0] = lines[0].replace("@%p1 ", "")
    lines += ["@%p1 cp.async.wait_group 0;", "@%p0 st.global.u32 [%d0], 1;"]
    assert [row[:4] for row in found(*lines)] == [("PW438", 3, 0, 0)]


def test_a_block_starts_without_copies():
    assert not found(COPY, COMMIT, blocks=2)


# --- mbarriers and bulk copies --------------------------------------------------------------------

INIT = "@%p0 mbarrier.init.shared.b64 [bar], 32; bar.sync 0;"
SPIN = "L: mbarrier.try_wait.parity.shared.b64 %p5, [bar], 0; @!%p5 bra L;"
GUARDED_SPIN = f"@!%p2 bra E; {SPIN} E:"


def test_an_mbarrier_orders_those_who_wait():
    write = "@%p1 st.shared.u32 [%r4], 1;"
    arrive = "@%p1 mbarrier.arrive.shared.b64 %x2, [bar];"
    read = "@%p2 ld.shared.u32 %r7, [%r4+-128];"
    assert not found(INIT, write, arrive, GUARDED_SPIN, read)
    assert [row[:4] for row in found(INIT, write, arrive, read)] == [("PW434", 4, 0, 32)]
    late = found(INIT, arrive, write, GUARDED_SPIN, read)
    assert [row[0] for row in late] == ["PW434"]
    relaxed = arrive.replace("arrive", "arrive.relaxed.cta")
    assert [row[0] for row in found(INIT, write, relaxed, GUARDED_SPIN, read)] == ["PW434"]


def test_copies_that_an_mbarrier_waits_for():
    copy = "add.u64 %x1, %d0, %x0; @%p1 cp.async.ca.shared.global [%r4], [%x1], 4;"
    arrive = "@%p1 cp.async.mbarrier.arrive.noinc.shared.b64 [bar];"
    read = "@%p2 ld.shared.u32 %r7, [%r4+-128];"
    assert not found(INIT, copy, arrive, GUARDED_SPIN, read)
    assert found(INIT, copy, arrive, "@%p1 ld.shared.u32 %r7, [%r4];") == [("PW438", 4, 0, 0, 0)]
    assert {row[0] for row in found(INIT, copy, arrive, read)} == {"PW434", "PW438"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@%p0 mbarrier.arrive.shared.b64 %x2, [bar], 33;", "33 arrivals where 32 are pending"),
        ("@%p0 mbarrier.arrive.shared.b64 %x2, [bar], 0;", "0 arrivals where 32 are pending"),
        ("@%p0 mbarrier.arrive.noComplete.shared.b64 %x2, [bar], 32;", ".noComplete completes"),
        ("@%p0 mbarrier.init.shared.b64 [bar+8], 0;", "expected count"),
        ("@%p0 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048576;",
         "1048576 bytes are owed"),
        ("@%p0 mbarrier.inval.shared.b64 [bar]; @%p0 mbarrier.arrive.shared.b64 %x2, [bar];",
         "no mbarrier object"),
        ("@%p0 mbarrier.inval.shared.b64 [bar];"
         "@%p0 mbarrier.test_wait.parity.shared.b64 %p5, [bar], 0;",
         "no mbarrier object"),
    ],
)  # fmt: skip
def test_misused_mbarriers(text, message):
    (finding,) = run(INIT, text).findings
    assert (finding.code, finding.span.line, finding.thread) == ("PW441", FIRST + 1, 0)
    assert message in finding.message
    assert not found(INIT, "@%p0 mbarrier.arrive.noComplete.shared.b64 %x2, [bar], 31;")


def test_an_mbarrier_needs_a_barrier_after_its_init():
    init = "@%p0 mbarrier.init.shared.b64 [bar], 64;"
    arrive = "mbarrier.arrive.shared.b64 %x2, [bar];"
    assert [row[:4] for row in found(init, arrive)] == [("PW434", 2, 0, 32)]
    assert not found(init, BARRIER, arrive)


BULK = (
    "@%p0 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;"
    "@%p0 mbarrier.arrive.expect_tx.shared.b64 %x2, [bar], 256;"
    "mov.u32 %r8, 256; @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    " [tile], [%d0], %r8, [bar];"
)


def test_bulk_copies_into_shared_memory():
    assert not found(BULK, SPIN, READ)
    assert {row[0] for row in found(BULK, READ)} == {"PW434", "PW438"}
    assert found(BULK, "@%p0 ld.shared.u32 %r7, [tile+252];") == [("PW438", 2, 0, 0, 252)]
    assert found(BULK, "@%p0 st.global.u32 [%d0+4], 1;")[0][0] == "PW438"
    assert not found(BULK, SPIN, "@%p0 st.global.u32 [%d0+4], 1;")


STORE_BULK = [
    "st.shared.u32 [%r4], %r0; bar.sync 0;",
    "mov.u32 %r8, 256; @%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [tile], %r8;",
    "@%p0 cp.async.bulk.commit_group;",
]


def test_bulk_copies_into_global_memory():
    wait, read = "@%p0 cp.async.bulk.wait_group 0;", "@%p0 cp.async.bulk.wait_group.read 0;"
    again, use = "@%p0 st.shared.u32 [tile], 1;", "@%p0 ld.global.u32 %r7, [%d1+4];"
    assert found(*STORE_BULK, again) == [("PW438", 4, 0, 0, 0)]
    assert found(*STORE_BULK, use) == [("PW438", 4, 0, 0, address_of("other") + 4)]
    assert not found(*STORE_BULK, wait, again + use)
    assert not found(*STORE_BULK, read, again)
    assert [row[0] for row in found(*STORE_BULK, read, use)] == ["PW438"]


def test_bulk_copies_outside_and_misaligned():
    copy = "@%p0 cp.async.bulk.global.shared::cta.bulk_group"
    fill = "st.shared.u32 [%r4], %r0; bar.sync 0;"
    outside = f"mov.u32 %r8, 256; {copy} [%d1+16], [tile], %r8;"
    assert found(fill, outside) == [("PW430", 2, 0, 0, address_of("other") + 256)]
    assert found(fill, f"mov.u32 %r8, 24; {copy} [%d1], [tile], %r8;")[0][0] == "PW431"
    assert found(fill, f"mov.u32 %r8, 16; {copy} [%d1+8], [tile], %r8;")[0][0] == "PW431"
    assert not found(fill, f"mov.u32 %r8, 240; {copy} [%d1+16], [tile], %r8;")
    unwritten = f"mov.u32 %r8, 272; {copy} [%d1], [tile], %r8;"
    assert {row[0] for row in found(fill, unwritten)} == {"PW432", "PW430"}
