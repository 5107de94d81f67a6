"""Random kernels whose counts are clamped: from data, unrolled, or with a start for each lane.

    python benchmarks/random_clamps.py --kernels 2000 --seed 1

A count is loaded and clamped (``min``, ``max``, a guard, a mask), or is the difference of two loads
that ``min(end, start + n)`` relates, or goes from the lane's index to a number. It is run as nvcc
unrolls loops: the rest by a loop of its own before or behind one by four; or as a nest. Each kernel
is analysed and executed on adversarial data under the containment oracle, every second one by walks
that do not tell lanes apart. Prints what is not contained or exceeds the path; exit code 1 then.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from containment_runs import contained, lanes_not_told_apart

from ptxwcet.flow.launch import Launch
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .b32 %r<40>; .reg .b64 %d<9>; .reg .pred %p<9>;
ld.param.u64 %d1, [data]; mov.u32 %r1, %tid.x;
ld.global.u32 %r2, [%d1]; ld.global.u32 %r3, [%d1+4];
"""
EDGES = (0, 1, 2, 3, 4, 5, 7, 8, 20, 31, 32, 33, -1, -2, 0x7FFFFFFF, -0x80000000)


def bounds(random: Random) -> list[str]:
    """Instructions that leave a start in %r4 and an end in %r5, in the type of the choice."""
    n, sign = random.choice((1, 3, 4, 5, 8, 20, 33)), random.choice("us")
    start = random.choice(("mov.u32 %r4, 0;", "mov.u32 %r4, %r1;", "mov.u32 %r4, %r2;"))
    choices = [
        [f"min.{sign}32 %r5, %r3, {n};"],
        [f"max.s32 %r5, %r3, {random.choice(EDGES)};", f"min.s32 %r5, %r5, {n};"],
        [f"and.b32 %r5, %r3, {random.choice((7, 15, 31))};"],
        [f"add.s32 %r6, %r4, {n};", f"min.{sign}32 %r5, %r3, %r6;"],
        [f"sub.s32 %r4, %r3, {n};", f"add.s32 %r5, %r3, {random.choice((n, n + 1))};"],
        [f"setp.gt.{sign}32 %p1, %r3, {n};", "@%p1 bra END;", "mov.u32 %r5, %r3;"],
        [f"mov.u32 %r5, {n};"],
        ["add.s32 %r5, %r1, %r3;", f"setp.gt.u32 %p1, %r3, {n};", "@%p1 bra END;"],
    ]
    return [start, *random.choice(choices)]


def loops(random: Random) -> list[str]:
    """Loops from %r4 to %r5: plain, a nest, or unrolled with the rest before or behind."""
    sign = random.choice("sssu")
    enter = f"setp.ge.{sign}32 %p2, %r4, %r5; @%p2 bra END;"
    step = random.choice((1, 1, 1, 2, 4))
    shape = random.randrange(4)
    if shape == 0:
        return [enter, f"A: add.s32 %r4, %r4, {step}; setp.lt.{sign}32 %p3, %r4, %r5; @%p3 bra A;"]
    if shape == 1:  # a nest whose inner count depends on the outer one
        inner = random.choice(("%r4", "%r5"))
        return [
            enter,
            "A: mov.u32 %r7, 0;",
            f"B: add.s32 %r7, %r7, {step}; setp.le.{sign}32 %p4, %r7, {inner}; @%p4 bra B;",
            f"add.s32 %r4, %r4, 1; setp.lt.{sign}32 %p3, %r4, %r5; @%p3 bra A;",
        ]
    rest = random.choice(("and.b32 %r9, %r8, 3;", "and.b32 %r9, %r8, 3;", "and.b32 %r9, %r8, 1;"))
    before = [
        "sub.s32 %r8, %r5, %r4;",
        rest,
        "setp.eq.s32 %p4, %r9, 0; @%p4 bra B;",
        f"A: add.s32 %r4, %r4, 1; add.s32 %r9, %r9, {random.choice((-1, -1, -1, -2))};",
        "setp.ne.s32 %p5, %r9, 0; @%p5 bra A;",
        f"B: setp.lt.{random.choice('us')}32 %p6, %r8, {random.choice((3, 4, 4))}; @%p6 bra END;",
        f"C: add.s32 %r4, %r4, 4; setp.lt.{sign}32 %p3, %r4, %r5; @%p3 bra C;",
    ]
    behind = [
        "sub.s32 %r8, %r5, %r4;",
        rest,
        "setp.lt.u32 %p4, %r8, 4; @%p4 bra B;",
        "sub.s32 %r10, %r8, %r9; mov.u32 %r11, 0;",
        f"A: add.s32 %r11, %r11, 4; setp.{random.choice(('ne', 'ne', 'lt'))}.s32 %p5, %r11, %r10;",
        "@%p5 bra A;",
        "B: setp.eq.s32 %p6, %r9, 0; @%p6 bra END;",
        "C: add.s32 %r9, %r9, -1; setp.ne.s32 %p3, %r9, 0; @%p3 bra C;",
    ]
    return [enter, *(before if shape == 2 else behind)]


def kernel_text(seed: int) -> str:
    """A kernel; the same for the same seed."""
    random = Random(seed)
    return HEAD + "\n".join([*bounds(random), *loops(random), "END: ret;", "}"])


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--executions", type=int, default=6)
    options = parser.parse_args()
    wrong = checked = refused = 0
    for seed in range(options.seed, options.seed + options.kernels):
        (kernel,) = parse_module(SourceFile("k.ptx", kernel_text(seed))).kernels
        told = lanes_not_told_apart() if seed % 2 else contextlib.nullcontext()
        with told:
            result = contained(
                kernel, Launch((32, 1, 1)), seed=seed, executions=options.executions, steps=300
            )
        refused += result.code is not None
        checked += result.checked
        if result.wrong:
            wrong += 1
            print(f"{seed}: {result.wrong}", flush=True)
    print(
        f"{options.kernels} kernels, {refused} refused, {checked} visits compared, {wrong} not "
        "contained"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
