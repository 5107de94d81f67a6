"""What an observer of the emulator is told, statement by statement, and the samples' counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from executed_transactions import executed_transactions, transactions_of_launch
from parsing import parse_text
from places import LAUNCHES, SAMPLES
from single_instruction import HEADER
from transaction_oracle import Transactions

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions, ObservedAccess
from ptxwcet.flow.launch import Dim3

ALL = 0xFFFFFFFF
REGISTERS = """.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<20>; .reg .f32 %f<4>;
.reg .b64 %d<8>;"""
MODULE = """.const .align 4 .b32 first[3] = {1, 2, 3};
.const .align 4 .b32 table[40];
.func (.param .b32 result) twice(.param .b64 at) { .reg .b64 %d<2>; .reg .b32 %r<2>;
  ld.param.b64 %d0, [at]; ld.global.b32 %r0, [%d0]; st.param.b32 [result], %r0; ret; }
"""


def observe(
    body: str, threads: int = 32, grid: Dim3 = (1, 1, 1), buffers: Sequence[int] = (4096,)
) -> list[tuple[str, ObservedAccess]]:
    """Mnemonic and access, without those of parameters, of a kernel with buffers in %d0, %d1."""
    names = ", ".join(f".param .u64 p{n}" for n in range(len(buffers)))
    loads = " ".join(f"ld.param.u64 %d{n}, [p{n}];" for n in range(len(buffers)))
    text = f"""{HEADER}{MODULE}.visible .entry k({names}) {{ {REGISTERS}
.shared .align 16 .b8 tile[2048]; .local .align 16 .b8 own[64];
{loads} mov.u32 %r0, %tid.x; mov.u32 %r1, %laneid; shl.b32 %r2, %r1, 2; cvt.u64.u32 %d7, %r2;
{body}
ret; }}"""
    module = parse_text(text)
    arrays = tuple(np.zeros(size, dtype=np.uint8) for size in buffers)
    launch = EmulatedLaunch((threads, 1, 1), grid, arrays)
    found: list[ObservedAccess] = []
    checks = frozenset[str]()
    options = EmulatorOptions(checks=checks, observer=found.append)
    done = execute(module.kernels[0], module, launch, options=options)
    assert done.is_complete, done.findings
    unseen = execute(module.kernels[0], module, launch, options=EmulatorOptions(checks=checks))
    assert unseen.warp_instructions == done.warp_instructions
    for seen, other in zip(done.buffers, unseen.buffers, strict=True):
        assert (seen == other).all()
    of = done.kernel.instructions
    rows = [(of[access.instruction].mnemonic, access) for access in found]
    return [row for row in rows if row[1].space != "param"]


def only(body: str, threads: int = 32) -> ObservedAccess:
    ((_, access),) = observe(body, threads)
    return access


def offsets(access: ObservedAccess) -> list[int]:
    """Addresses from the first one on."""
    first = access.addresses[0][1]
    return [address - first for _, address in access.addresses]


@pytest.mark.parametrize(
    ("statement", "size"),
    [
        ("add.u64 %d3, %d0, %d7; ld.global.f32 %f0, [%d3];", 4),
        ("ld.global.u8 %r3, [%d0+3];", 1),
        ("ld.volatile.global.b64 %d3, [%d0+8];", 8),
        ("ld.global.nc.v2.b32 {%r3, %r4}, [%d0];", 8),
        ("ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d0+32];", 16),
        ("ld.global.v2.u8 {%h0, %h1}, [%d0+2];", 2),
        ("st.global.v2.b64 [%d0], {%d0, %d0};", 16),
        ("st.global.b16 [%d0], %h0;", 2),
        ("atom.global.add.u32 %r3, [%d0], 1;", 4),
        ("atom.global.cas.b64 %d3, [%d0], %d0, %d0;", 8),
        ("red.global.add.f32 [%d0], %f0;", 4),
        ("red.global.v2.f32.add [%d0], {%f0, %f1};", 8),
    ],
)
def test_one_access_for_all_elements(statement: str, size: int) -> None:
    access = only(statement)
    assert (access.space, access.size, access.warp, access.block) == ("global", size, 0, 0)
    assert [lane for lane, _ in access.addresses] == list(range(32))
    assert access.active == access.existing == ALL


def test_addresses_of_lanes() -> None:
    access = only("add.u64 %d3, %d0, %d7; ld.global.f32 %f0, [%d3+64];")
    assert offsets(access) == [4 * lane for lane in range(32)]
    assert access.addresses[0][1] % 256 == 64


def test_generic_addresses_are_of_the_space_they_lie_in() -> None:
    body = """mov.u32 %r3, tile; add.u32 %r3, %r3, %r2; cvt.u64.u32 %d1, %r3;
    cvta.shared.u64 %d1, %d1; cvta.local.u64 %d2, 0; mov.u64 %d3, own; cvta.local.u64 %d2, %d3;
    mov.u64 %d4, table; cvta.const.u64 %d4, %d4; add.u64 %d5, %d0, %d7;
    setp.lt.u32 %p0, %r1, 8; setp.lt.u32 %p1, %r1, 12; setp.lt.u32 %p2, %r1, 20;
    selp.b64 %d4, %d4, %d5, %p2; selp.b64 %d4, %d2, %d4, %p1; selp.b64 %d4, %d1, %d4, %p0;
    ld.b32 %r4, [%d4];"""
    found = {access.space: access for _, access in observe(body)}
    lanes = {space: [lane for lane, _ in one.addresses] for space, one in found.items()}
    assert lanes == {
        "shared": list(range(8)),
        "local": list(range(8, 12)),
        "const": list(range(12, 20)),
        "global": list(range(20, 32)),
    }
    assert found["shared"].addresses == tuple((lane, 4 * lane) for lane in range(8))
    assert {address for _, address in found["local"].addresses} == {0}
    assert len({address for _, address in found["const"].addresses}) == 1
    assert offsets(found["global"]) == [4 * lane for lane in range(12)]
    assert {one.active for one in found.values()} == {ALL}


def test_spaces_by_name() -> None:
    body = """ld.const.b32 %r3, [table+8]; mov.u32 %r4, tile; add.u32 %r4, %r4, %r2;
    st.shared.b32 [%r4+128], %r3; mov.u32 %r5, own; and.b32 %r6, %r2, 60; add.u32 %r5, %r5, %r6;
    st.local.b32 [%r5], %r3;"""
    const, shared, local = (access for _, access in observe(body))
    assert (const.space, shared.space, local.space) == ("const", "shared", "local")
    assert {address % 4 for _, address in const.addresses} == {0}
    assert shared.addresses == tuple((lane, 128 + 4 * lane) for lane in range(32))
    assert local.addresses == tuple((lane, 4 * (lane % 16)) for lane in range(32))


def test_parameters_of_kernels_and_of_calls() -> None:
    module = parse_text(
        f"""{HEADER}{MODULE}.visible .entry k(.param .u64 p0) {{ {REGISTERS} ld.param.u64 %d0, [p0];
    {{ .param .b64 a; .param .b32 b; st.param.b64 [a], %d0; call.uni (b), twice, (a);
    ld.param.b32 %r0, [b]; }} ret; }}"""
    )
    launch = EmulatedLaunch((32, 1, 1), (1, 1, 1), (np.zeros(4, dtype=np.uint32),))
    kernel, seen = executed_transactions(module.kernels[0], module, launch)
    rows = [(kernel.instructions[at].mnemonic, space) for at, _, space in sorted(seen)]
    assert rows == [
        ("ld.param.u64", "param"),
        ("st.param.b64", "local"),
        ("ld.param.b64", "local"),
        ("ld.global.b32", "global"),
        ("st.param.b32", "local"),
        ("ld.param.b32", "local"),
    ]
    assert [row.largest for _, row in sorted(seen.items())] == [
        Transactions(words=2, addresses=1),
        Transactions(sectors=8, lines=2),
        Transactions(sectors=8, lines=2),
        Transactions(sectors=1, lines=1),
        Transactions(sectors=4, lines=1),
        Transactions(sectors=4, lines=1),
    ]


def test_masks() -> None:
    body = """setp.lt.u32 %p0, %r0, 40; @%p0 ld.global.b32 %r3, [%d0];
    setp.ge.u32 %p1, %r1, 4; @%p1 bra SKIP; st.global.b32 [%d0], %r3;
SKIP: st.global.b32 [%d0+4], %r3;"""
    rows = observe(body, threads=72)
    found = [(name, one.warp, one.active, one.existing) for name, one in rows]
    assert found == [
        ("ld.global.b32", 0, ALL, ALL),
        ("ld.global.b32", 1, 0xFF, ALL),
        ("st.global.b32", 0, 0xF, ALL),
        ("st.global.b32", 1, 0xF, ALL),
        ("st.global.b32", 2, 0xF, 0xFF),
        ("st.global.b32", 0, ALL, ALL),
        ("st.global.b32", 1, ALL, ALL),
        ("st.global.b32", 2, 0xFF, 0xFF),
    ]
    for _, one in rows:
        assert sum(1 << lane for lane, _ in one.addresses) == one.active


def test_blocks() -> None:
    rows = observe("ld.global.b32 %r3, [%d0];", threads=64, grid=(2, 2, 1))
    assert [(one.block, one.warp) for _, one in rows] == [(b, w) for b in range(4) for w in (0, 1)]


@pytest.mark.parametrize("size", [4, 8, 16])
def test_copies_have_a_source_and_a_target(size: int) -> None:
    kind = "cg" if size == 16 else "ca"
    body = f"""mov.u32 %r3, tile; mad.lo.u32 %r4, %r1, {size}, %r3; mul.wide.u32 %d3, %r1, 32;
    add.u64 %d3, %d0, %d3; cp.async.{kind}.shared.global [%r4], [%d3], {size};
    cp.async.wait_all;"""
    target, source = (access for _, access in observe(body))
    assert (target.space, target.size, source.space, source.size) == (
        "shared",
        size,
        "global",
        size,
    )
    assert target.addresses == tuple((lane, size * lane) for lane in range(32))
    assert offsets(source) == [32 * lane for lane in range(32)]


def test_a_source_that_is_cut_off_is_observed_where_something_is_left_of_it() -> None:
    body = """mov.u32 %r3, tile; shl.b32 %r4, %r1, 4; add.u32 %r4, %r4, %r3; cvt.u64.u32 %d3, %r1;
    shl.b64 %d3, %d3, 4; add.u64 %d3, %d0, %d3; sub.u32 %r5, %r1, 1; min.u32 %r5, %r5, 16;
    setp.eq.u32 %p0, %r1, 0; selp.b32 %r5, 0, %r5, %p0;
    cp.async.cg.shared.global [%r4], [%d3], 16, %r5; cp.async.wait_all;"""
    target, source = (access for _, access in observe(body))
    assert [lane for lane, _ in target.addresses] == list(range(32))
    assert [lane for lane, _ in source.addresses] == list(range(2, 32))
    assert source.size == 16
    assert source.active == ALL


@pytest.mark.parametrize(("count", "rows"), [(1, 8), (2, 16), (4, 32)])
def test_matrices_take_rows_of_16_bytes(count: int, rows: int) -> None:
    registers = ", ".join(f"%r{10 + n}" for n in range(count))
    body = f"""mov.u32 %r3, tile; shl.b32 %r4, %r1, 4; add.u32 %r4, %r4, %r3;
    ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {{{registers}}}, [%r4];
    stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [%r4], {{{registers}}};"""
    for _, access in observe(body):
        assert (access.space, access.size, access.active) == ("shared", 16, ALL)
        assert access.addresses == tuple((lane, 16 * lane) for lane in range(rows))


@pytest.mark.parametrize(("count", "rows"), [(1, 16), (2, 32)])
def test_matrices_of_bytes_have_16_rows(count: int, rows: int) -> None:
    registers = ", ".join(f"%r{10 + n}" for n in range(2 * count))
    body = f"""mov.u32 %r3, tile; shl.b32 %r4, %r1, 4; add.u32 %r4, %r4, %r3;
    ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8 {{{registers}}}, [%r4];"""
    ((_, access),) = observe(body)
    assert (access.space, access.size, access.active) == ("shared", 16, ALL)
    assert access.addresses == tuple((lane, 16 * lane) for lane in range(rows))


def test_bulk_copies_and_their_barrier() -> None:
    body = """setp.ne.u32 %p0, %r0, 0; @%p0 ret; mov.u32 %r3, tile; mov.u32 %r4, 96;
    mbarrier.init.shared.b64 [tile+1024], 1;
    mbarrier.arrive.expect_tx.shared.b64 %d3, [tile+1024], 96;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
      [%r3], [%d0+16], %r4, [tile+1024];"""
    rows = [(name.split(".")[0], one.space, one.size) for name, one in observe(body)]
    assert rows == [
        ("mbarrier", "shared", 8),
        ("mbarrier", "shared", 8),
        ("cp", "global", 96),
        ("cp", "shared", 96),
        ("cp", "shared", 8),
    ]


def test_where_the_emulator_puts_things() -> None:
    """Buffers and windows at multiples of 256 bytes, so that offsets have the residues of
    addresses; variables in shared and local memory where their alignment puts them."""
    body = """ld.global.b32 %r3, [%d0]; ld.global.b32 %r3, [%d1]; ld.global.b32 %r3, [%d2];"""
    for _, access in observe(body, buffers=(12, 1000, 4)):
        assert {address % 256 for _, address in access.addresses} == {0}
    text = f"""{HEADER}{MODULE}.visible .entry k(.param .u64 p0) {{ {REGISTERS}
.shared .align 1 .b8 byte[1]; .shared .align 16 .b8 tile[20];
.local .align 1 .b8 small[3]; .local .align 8 .b8 own[8]; ld.param.u64 %d0, [p0];
cvta.shared.u64 %d1, 0; cvta.local.u64 %d2, 0; mov.u64 %d3, tile; mov.u64 %d4, own;
mov.u64 %d5, table; cvta.const.u64 %d5, %d5;
st.global.b64 [%d0], %d1; st.global.b64 [%d0+8], %d2; st.global.b64 [%d0+16], %d3;
st.global.b64 [%d0+24], %d4; st.global.b64 [%d0+32], %d5; ret; }}"""
    module = parse_text(text)
    launch = EmulatedLaunch((32, 1, 1), (1, 1, 1), (np.zeros(5, dtype=np.uint64),))
    (buffer,) = execute(module.kernels[0], module, launch, options=EmulatorOptions()).buffers
    assert buffer is not None
    shared, local, tile, own, table = buffer.tolist()
    assert shared % 256 == local % 256 == table % 256 == 0
    assert (tile, own) == (16, 8)


def sample(name: str, file: str = "") -> dict[tuple[str, int], list[Transactions]]:
    """Counts of full warps by mnemonic and instruction."""
    ptx = SAMPLES / f"{file or name}.ptx"
    kernel, seen = transactions_of_launch(ptx, LAUNCHES / f"{name}.toml")
    found: dict[tuple[str, int], list[Transactions]] = {}
    for (at, _, space), row in seen.items():
        if row.full is not None and space != "param":
            found.setdefault((kernel.instructions[at].mnemonic, at), []).append(row.full)
    return found


def test_transposes() -> None:
    """Rows of 32 floats in both, columns of a matrix in one, of a padded tile in the other."""
    naive = sample("transpose_naive")
    assert {one.sectors for (name, _), rows in naive.items() for one in rows if "ld" in name} == {4}
    assert {one.sectors for (name, _), rows in naive.items() for one in rows if "st" in name} == {
        32
    }
    tiled = sample("transpose_tiled")
    for (name, _), rows in tiled.items():
        wanted = Transactions(passes=1) if "shared" in name else Transactions(sectors=4, lines=1)
        assert set(rows) == {wanted}


def test_what_is_served_in_turns_is_a_bank() -> None:
    """The histogram: more turns than passes, and than lanes on one word."""
    rows = [
        one
        for (name, _), counts in sample("histogram").items()
        for one in counts
        if name.startswith("atom.shared")
    ]
    assert rows
    assert any(max(one.passes, one.serial) < one.bank_turns for one in rows)
    assert all(one.bank_turns <= one.passes * one.serial for one in rows)
