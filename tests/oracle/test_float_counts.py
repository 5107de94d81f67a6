"""Random counts out of floating-point numbers: what the walk says, held to executions.

``benchmarks/random_floats.py`` is the same by the thousand (docs/experiments/random-kernels.md).
"""

from __future__ import annotations

import random
import struct

import pytest
from containment_runs import contained
from path_attack import machine
from random_floats import held, random_kernel

from ptxwcet.flow.facts.parameters import parse_parameters, resolve_parameters
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.pipeline import prepare_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
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


def test_kernels_of_all_kinds_contain_executions() -> None:
    found = [held(random_kernel(seed), 2) for seed in range(1, 9)]
    assert [one.wrong for one in found if one.wrong] == []
    assert sum(one.checked for one in found) > 200


def test_what_is_computed_lane_by_lane_counts_as_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        HEAD
        + """fma.rn.f32 %f5, %f4, 0.001, 9.0;
L: sub.rn.f32 %f5, %f5, 0.7; cvt.rzi.s32.f32 %r3, %f5; setp.gt.s32 %p1, %r3, 0; @%p1 bra L;
ret;
}
"""
    )
    steps: dict[int, int] = {}
    spend = WalkState.spend
    kernel = parse_module(SourceFile("k.ptx", text)).kernels[0]
    for threads in (32, 1024):

        def counted(walk: WalkState, some: int, index: int, threads: int = threads) -> None:
            steps[threads] = steps.get(threads, 0) + some
            spend(walk, some, index)

        monkeypatch.setattr(WalkState, "spend", counted)
        prepare_kernel(kernel, Launch((threads, 1, 1)), machine())
    assert steps[1024] > steps[32] + 10 * 1024 / 4


def test_infinite_parameters_and_those_beyond_their_type() -> None:
    text = HEAD + "min.f32 %f5, %f1, 5.0; cvt.rzi.s32.f32 %r3, %f5;\n" + LOOP
    kernel = parse_module(SourceFile("k.ptx", text)).kernels[0]
    for value, visits in (("inf", 5), ("-inf", 0), ("3.4e38", 5)):
        said = resolve_parameters(kernel, parse_parameters([f"k_s={value}"]), None)
        launch = Launch((32, 1, 1), parameters=said.values)
        result = contained(kernel, launch, seed=1, executions=1, steps=80)
        assert (result.code, result.wrong) == (None, "")
        assert 32 * 80 > result.checked >= visits
    with pytest.raises(PtxwcetError, match="beyond the type"):
        resolve_parameters(kernel, parse_parameters(["k_s=3.5e38"]), None)
