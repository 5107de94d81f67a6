"""Random counts out of floating-point numbers: what the walk says, held to executions."""

from __future__ import annotations

import random
import struct

import pytest
from containment_runs import contained

from ptxwcet.flow.launch import Launch
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile

HEAD = """.version 8.0
.target sm_86
.address_size 64
.visible .entry k(.param .u64 k_p, .param .f32 k_s, .param .u32 k_n)
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<40>;
ld.param.u64 %rd1, [k_p]; ld.param.f32 %f1, [k_s]; ld.param.u32 %r1, [k_n];
mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;
ld.global.f32 %f2, [%rd3]; cvt.rn.f32.s32 %f3, %r1; cvt.rn.f32.u32 %f4, %r2;
"""
LOOP = """mov.u32 %r4, 0; setp.ge.s32 %p1, %r4, %r3; @%p1 bra END;
AGAIN: add.s32 %r4, %r4, 1; setp.lt.s32 %p2, %r4, %r3; @%p2 bra AGAIN;
END: st.global.u32 [%rd3], %r4; ret;
}
"""
NUMBERS = (0.0, -0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 7.0, -1.0, -2.5, 0.1, 1e-40)

EITHER = ("min", "max", "min", "max")


def literal(number: float) -> str:
    return "0f" + struct.pack(">f", number).hex().upper()


def program(chance: random.Random) -> str:
    """Operations on a parameter, loaded numbers, an index and constants, clamped, converted."""
    lines, known = [], ["%f1", "%f2", "%f3", "%f4"]

    def operand() -> str:
        return chance.choice([chance.choice(known), known[-1], literal(chance.choice(NUMBERS))])

    for place in range(5, 5 + chance.randint(1, 7)):
        target = f"%f{place}"
        match chance.randrange(6):
            case 0:
                lines.append(f"fma.rn.f32 {target}, {operand()}, {operand()}, %f3;")
            case 1:
                name = chance.choice(["neg", "abs", "sqrt.rn"])
                lines.append(f"{name}.f32 {target}, {chance.choice(known)};")
            case _:
                name = chance.choice(["add", "sub", "mul", "add.rn", "mul.rn", "div.rn", *EITHER])
                lines.append(f"{name}.f32 {target}, {chance.choice(known)}, {operand()};")
        known.append(target)
    last = known[-1]
    if chance.random() < 0.7:
        ends = literal(chance.choice([0.0, -2.0, 1.0])), literal(chance.choice([5.0, 9.5]))
        lines.append(f"max.f32 %f30, {last}, {ends[0]}; min.f32 %f31, %f30, {ends[1]};")
        last = "%f31"
    way, kind = chance.choice(["rni", "rzi", "rmi", "rpi"]), chance.choice(["s32", "s32", "u32"])
    lines.append(f"cvt.{way}.{kind}.f32 %r3, {last};")
    if chance.random() < 0.3:
        lines.append("min.s32 %r3, %r3, 12;")
    return HEAD + "\n".join(lines) + "\n" + LOOP


@pytest.mark.parametrize("part", range(3))
def test_counts_contain_executions(part: int) -> None:
    chance, codes = random.Random(part), []
    for number in range(14):
        text = program(chance)
        kernel = parse_module(SourceFile("k.ptx", text)).kernels[0]
        parameters: dict[str, int | float] = {}
        if chance.random() < 0.8:
            parameters["k_s"] = chance.choice(NUMBERS)
        if chance.random() < 0.6:
            parameters["k_n"] = chance.randint(-3, 12)
        launch = Launch((32, 1, 1), parameters=parameters)
        result = contained(kernel, launch, seed=number, executions=3, steps=80)
        assert result.wrong == "", text
        codes.append(result.code)
    assert codes.count(None) > 3
