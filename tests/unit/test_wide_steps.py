"""Registers whose changes do not fit 64 bits: numpy would refuse or wrap their differences."""

import numpy as np
import pytest
from parsing import parse_kernel
from places import CRASHES

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.values.value import equal_in
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast


def test_numbers_at_both_ends_are_compared_without_a_difference() -> None:
    lanes = np.array([True, False])
    low, high = -(1 << 63), (1 << 63) - 1
    assert not equal_in(low, high, lanes)
    assert equal_in(np.array([low, high]), low, lanes)
    assert not equal_in(np.array([low, high]), high, lanes)


def test_a_step_wider_than_64_bits_is_no_internal_error() -> None:
    text = (CRASHES / "wide_steps.ptx").read_text(encoding="utf-8")
    kernel = parse_kernel(text, "wide_steps.ptx")
    launch = Launch((2, 1, 1), (1, 1, 1), {"n": 0})
    with pytest.raises(PtxwcetError, match="loop"):  # a refusal, not an error of ours
        analyse_kernel(kernel, launch, load_machine("orin-ecrts2025"))
