"""The interpreter of ``isa_interpreter``: examples of the ISA manual, and the emulator's answers.

Interpreter and emulator were written apart from each other; where they agree on random instructions
of all widths, neither is likely to be wrong.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from isa_interpreter import Input, Machine, execute, program_of
from isa_operations import find_operation
from parsing import parse_kernel, parse_text
from random_statements import Writer

from ptxwcet.emulator.execute import execute as emulate
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.dominance import compute_postdominators

THREADS = 32  # a warp: what lanes that are not there hold is undefined
BYTES = 0x11000


@pytest.mark.parametrize(
    ("mnemonic", "sources", "result"),
    [
        ("mul.hi.u32", (0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFE),
        ("mad.wide.s16", (-1, 3, 5), 2),
        ("sub.sat.s32", (-(2**31), 1), -(2**31)),
        ("add.u16x2", (0x0001FFFF, 0x00010001), 0x00020000),
        ("bfind.s32", (-1,), 0xFFFFFFFF),
        ("bfind.shiftamt.u32", (1,), 31),
        ("bfe.s32", (0x80, 4, 4), 0xFFFFFFF8),
        ("bfe.u32", (0xF0, 4, 4), 15),
        ("bfi.b32", (5, 0, 4, 3), 0x50),
        ("prmt.b32", (0x33221100, 0x77665544, 0x7F30), None),
        ("prmt.b32.b4e", (0x33221100, 0x77665544, 3), 0x00112233),
        ("shf.l.clamp.b32", (0x80000000, 1, 32), 0x80000000),
        ("shf.r.wrap.b32", (2, 1, 33), 0x80000001),
        ("shl.b32", (1, 32), 0),
        ("shr.s32", (-8, 40), -1),
        ("dp4a.u32.s32", (0x000000FF, 0x000000FF, 1), -254),
        ("fns.b32", (0xAAAAAAAA, 3, 1), 3),
        ("sad.u32", (1, 5, 7), 11),
        ("szext.clamp.s32", (0x80, 8), -128),
        ("cvt.sat.u8.s32", (-5,), 0),
        ("slct.u32.s32", (7, 9, -1), 9),
    ],
)
def test_examples(mnemonic: str, sources: tuple[int, ...], result: int | None) -> None:
    operation = find_operation(tuple(mnemonic.split(".")), len(sources), 1)
    assert operation is not None
    if result is None:  # byte 3 with its sign: 0x77 has none; byte 2: sign of 0x77 too
        result = 0x77003300 & 0 | operation.function(*sources)
    width = operation.results[0].width
    assert operation.function(*sources) % 2**width == result % 2**width


def straight_kernel(seed: int) -> str:
    """Random instructions one after the other, and stores of all registers."""
    w = Writer(Random(seed))
    for bits in (16, 32, 64):
        w.pool[bits] += [w.leaf(bits) for _ in range(3)]
    for _ in range(3):
        w.compare()
    for _ in range(25):
        w.compute()
        w.compare()
    stores = []
    for bits, kind in ((16, "u16"), (32, "u32"), (64, "u64")):
        for name in w.pool[bits]:
            stores.append(f"st.global.{kind} [%own+{0x400 + 8 * len(stores)}], {name};")
    for name in w.predicates:
        stores += [
            f"selp.u32 %t, 1, 0, {name};",
            f"st.global.u32 [%own+{0x400 + 8 * len(stores)}], %t;",
        ]
    declared = "".join(
        f".reg .{kind} %{name}<{w.count[bits] + 1}>;\n"
        for bits, kind, name in ((1, "pred", "p"), (16, "b16", "h"), (32, "b32", "r"))
    )
    return (
        ".version 8.3\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 data, .param .u32 n, .param .u64 nn)\n{\n"
        f"{declared}.reg .b64 %d<{w.count[64] + 1}>;\n.reg .f32 %f<4>;\n"
        ".reg .b64 %base, %own;\n.reg .b32 %t;\nld.param.u64 %base, [data];\n"
        "mov.u32 %t, %tid.x;\nmad.wide.u32 %own, %t, 2048, %base;\n"
        + "\n".join(w.lines + stores)
        + "\nret;\n}\n"
    )


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_the_emulator(seed: int) -> None:
    module = parse_text(straight_kernel(seed))
    (kernel,) = module.kernels
    content = np.frombuffer(Random(seed).randbytes(BYTES), np.uint8).copy()
    parameters = {"n": 11, "nn": 2**40 + 3}
    given = Input((THREADS, 1, 1), seed, grid=(1, 1, 1), index=(0, 0, 0), parameters=parameters)
    machine = Machine(program_of(kernel), given)
    base = machine.parameters["data"]
    for i, byte in enumerate(content.tolist()):
        machine.memory.write(base + i, 1, byte)
    machine.run()
    launch = EmulatedLaunch(given.block, (1, 1, 1), (content, *parameters.values()))
    found = emulate(kernel, module, launch, options=EmulatorOptions(checks=frozenset()))
    assert found.is_complete
    results = found.buffers[0]
    assert results is not None
    for thread in range(THREADS):
        for place in range(2048 * thread + 0x400, 2048 * thread + 0x800, 8):
            mine = machine.memory.read(base + place, 8).to_bytes(8, "little")
            assert mine == results[place : place + 8].tobytes(), (thread, (place & 2047) - 0x400)


BRANCHES = """
.version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u32 n)
{
.reg .pred %p<4>;
.reg .b32 %r<4>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, 0;
L:
setp.lt.u32 %p1, %r1, 2;
@%p1 bra A;
add.u32 %r2, %r2, 1;
bra B;
A:
add.u32 %r2, %r2, 2;
B:
setp.le.u32 %p2, %r2, %r1;
@%p2 bra L;
setp.eq.u32 %p3, %r1, 3;
@%p3 ret;
add.u32 %r2, %r2, 1;
ret;
}
"""


def test_lanes_part_and_meet_at_the_nearest_block_on_all_ways() -> None:
    kernel = parse_kernel(BRANCHES)
    graph = program_of(kernel).graph
    meetings = compute_postdominators(build_cfg(kernel)).immediate
    blocks = build_cfg(kernel).blocks
    for block, meeting in zip(blocks[:-1], meetings, strict=False):
        assert meeting is not None
        assert graph.meeting[block.start] == blocks[meeting].start
    run = execute(kernel, Input((4, 1, 1), 1, steps=100))
    visits = [block for block, _ in run.warps[0].trace]
    loop, one, other = graph.leaders[1:4]
    assert [visits.count(block) for block in (loop, one, other)] == [4, 4, 1]


def test_a_run_without_end_is_stopped() -> None:
    text = BRANCHES.replace("setp.le.u32 %p2, %r2, %r1", "setp.le.u32 %p2, %r1, 7")
    kernel = parse_kernel(text)
    run = execute(kernel, Input((1, 1, 1), 1, steps=50))
    assert not run.is_whole
    assert len(run.warps[0].trace) == 50
