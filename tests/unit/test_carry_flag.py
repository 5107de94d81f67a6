"""The carry flag is a register that no operand names: every analysis must find it."""

from __future__ import annotations

import pytest
from parsing import parse_file
from places import CRASHES
from programs import run_program

from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.ir.kernel import CARRY
from ptxwcet.ir.verifier import verify_kernel

pytestmark = pytest.mark.fast

FILES = ["carry_loop.ptx", "carry_call.ptx"]


@pytest.mark.parametrize("name", FILES)
def test_it_is_a_register_of_the_kernel_and_of_its_copies(name: str) -> None:
    module = parse_file(CRASHES / name)
    for kernel in (*module.kernels, *module.functions):
        assert kernel.registers[CARRY] == "pred"
        assert not verify_kernel(kernel)
    (kernel,) = module.kernels
    whole = inline_calls(kernel, module)
    assert [register for register in whole.registers if CARRY in register] == [CARRY]


def test_kernels_without_one_have_none() -> None:
    module = parse_file(CRASHES.parent / "unsound" / "lane_shift.ptx")
    assert CARRY not in module.kernels[0].registers


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", ["bound", "facts", "cfg", "annotate phases", "validate"])
def test_commands_answer(command: str, name: str) -> None:
    ended = run_program(*command.split(), CRASHES / name, "--block", "32")
    assert ended.code in (0, 1)
    assert "PW9" not in ended.out + ended.err
