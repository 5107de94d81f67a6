"""Attacks on paths: data that go round loops often, what is compared, what is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from parsing import parse_text
from places import SAMPLES
from programs import run_program

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.validate.inputs import MOST_ATTACKED, AdversarialData, attack_analysis
from ptxwcet.validate.path_selftest import run_path_selftest

MACHINE = load_machine("orin-ecrts2025")
COUNTED = """
.version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{{
.reg .pred %p<2>;
.reg .b32 %r<4>;
.reg .b64 %d<2>;
ld.param.u64 %d1, [data];
ld.global.u32 %r1, [%d1];
{limit}
mov.u32 %r2, 0;
L:
add.u32 %r2, %r2, 1;
setp.lt.u32 %p1, %r2, %r1;
@%p1 bra L;
st.global.u32 [%d1], %r2;
ret;
}}
"""
ZEROS = EmulatedLaunch((1, 1, 1), (1, 1, 1), (np.zeros(4, np.uint32),))


def module(limit: str) -> Module:
    return parse_text(COUNTED.format(limit=limit))


def analysis(limit: str) -> KernelAnalysis:
    launch = Launch((1, 1, 1), (1, 1, 1))
    return analyse_kernel(module(limit).kernels[0], launch, MACHINE)


def test_right_paths_hold_and_loops_run_longer_than_on_the_own_input() -> None:
    found = attack_analysis(analysis("and.b32 %r1, %r1, 15;"), module(""), ZEROS, 40, 1)
    assert found.compared + found.left_out == 40
    assert found.diagnostics == ()
    assert found.longest >= found.own + 3 * 14


def test_paths_of_fewer_iterations_are_left() -> None:
    """The paths of a kernel with at most 3 iterations, executed with at most 15."""
    code = module("and.b32 %r1, %r1, 15;")
    wrong = analysis("and.b32 %r1, %r1, 3;")
    wrong = replace(wrong, flow=ControlFlow.of(code.kernels[0]))
    found = attack_analysis(wrong, code, ZEROS, 40, 1)
    assert {row.code for row in found.diagnostics} == {"PW538"}


def test_a_run_without_end_is_none_that_a_small_bound_allows() -> None:
    code = module("mov.b32 %r1, %r1;")
    wrong = analysis("and.b32 %r1, %r1, 3;")
    wrong = replace(wrong, flow=ControlFlow.of(code.kernels[0]))
    most = EmulatedLaunch((1, 1, 1), (1, 1, 1), (np.full(4, MOST_ATTACKED, np.uint32),))
    found = attack_analysis(wrong, code, most, 1, 1)
    assert [row.code for row in found.diagnostics] == ["PW538"]
    assert "have no room for so many" in found.diagnostics[0].message


def test_facts_may_be_true_of_some_data_alone() -> None:
    stated = replace(analysis("and.b32 %r1, %r1, 3;"), facts=PlacedFacts({0: 3}))
    assert attack_analysis(stated, module(""), ZEROS, 5, 1).refusal


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint64", "float16", "float64"])
def test_data_keep_shape_and_type(dtype: str) -> None:
    data = AdversarialData((3, np.ones((4, 5), dtype), b"ab"), seed=2)
    seen = set()
    for i in range(60):
        scalar, array, aggregate = data.draw()
        assert (scalar, aggregate) == (3, b"ab")
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.dtype) == ((4, 5), np.dtype(dtype))
        seen.add(array.tobytes())
        data.note((scalar, array, aggregate), i)
    assert len(seen) > 40


def test_short_form_on_known_and_random_kernels() -> None:
    found = run_path_selftest(1, random_kernels=4)
    assert (found.kernels, found.diagnostics) == (8, ())
    assert found.bounded >= 4
    assert found.runs > 20
    assert run_path_selftest(1, random_kernels=4) == found


def test_command() -> None:
    samples = SAMPLES
    file, launch = samples / "histogram.ptx", samples / "launches" / "histogram.toml"
    options = ["--launch", str(launch), "--attack", "4", "--runs", "1", "--timeout", "0.2"]
    ended = run_program("validate", file, *options)
    assert ended.code == 0
    assert "runs on adversarial data compared" in ended.out
