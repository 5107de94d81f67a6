"""``redux.sync`` on numbers in intervals against numbers of lanes, one by one."""

from __future__ import annotations

from functools import reduce
from operator import add, and_, or_, xor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from parsing import parse_kernel

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.lane_state import BlockIndex, LaneState
from ptxwcet.flow.values.operands import Transfer
from ptxwcet.flow.values.ranges import bounded, interval_of
from ptxwcet.flow.values.reductions import reduction_transfer
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Unknown, wrap

INDEX = BlockIndex((0, 0, 0), (None, None, None))
CAUSE = Cause(CauseKind.OPERATION, "redux", 0)
OPERATIONS = {"add": add, "min": min, "max": max, "and": and_, "or": or_, "xor": xor}
FORMS = [f"{name}.{kind}32" for name in ("add", "min", "max") for kind in "us"]
FORMS += [f"{name}.b32" for name in ("and", "or", "xor")]
EDGES = [0, 1, 2, 3, 7, 8, 31, 63, 64, 255, 2**27, 2**27 - 1, 2**26 + 1, 2**31 - 1]


def state_of(form: str, threads: int, mask: int) -> tuple[LaneState, Transfer]:
    text = (
        ".version 8.0\n.target sm_80\n.entry k()\n{\n.reg .b32 %r<3>;\n"
        f"redux.sync.{form} %r1, %r2, {mask};\nret;\n}}\n"
    )
    kernel = parse_kernel(text)
    warps = tuple(range(-(-threads // 32)))
    state = LaneState(kernel, Launch((threads, 1, 1)), INDEX, warps)
    return state, reduction_transfer(kernel.instructions[0], CAUSE)


@st.composite
def numbers(draw: st.DrawFn) -> tuple[str, int, Interval, list[int]]:
    """A form, the threads of a block, the interval of their numbers, and a number for each."""
    form = draw(st.sampled_from(FORMS))
    signs = [1, -1] if ".s" in form else [1]
    edges = st.builds(
        lambda edge, sign: edge * sign, st.sampled_from(EDGES), st.sampled_from(signs)
    )
    low, high = sorted((draw(edges), draw(edges)))
    threads = draw(st.sampled_from([1, 2, 5, 31, 32, 33, 64]))
    values = draw(st.lists(st.integers(low, high), min_size=threads, max_size=threads))
    ends = st.lists(st.sampled_from([low, high]), min_size=threads, max_size=threads)
    return form, threads, Interval(low, high), draw(st.sampled_from([values, draw(ends)]))


@given(numbers())
def test_every_result_lies_in_the_interval(case: tuple[str, int, Interval, list[int]]) -> None:
    form, threads, interval, values = case
    name, kind = form.split(".")
    state, transfer = state_of(form, threads, 0xFFFFFFFF)
    state.registers["%r2"] = bounded(interval, 32, frozenset())
    (found,) = transfer(state)
    spoken = interval_of(found, IntegerType(32, kind == "s32"), state.active)
    for first in range(0, threads, 32):
        total = wrap(reduce(OPERATIONS[name], values[first : first + 32]), 32)
        assert isinstance(total, int)
        assert spoken.holds(total if kind == "s32" else total & 0xFFFFFFFF)


@given(st.sampled_from(FORMS), st.integers(0, 2**32 - 1), st.integers(1, 64))
def test_of_lanes_that_are_no_members_nothing_is_said(form: str, mask: int, threads: int) -> None:
    state, transfer = state_of(form, threads, mask)
    state.registers["%r2"] = bounded(Interval(1, 7), 32, frozenset())
    (found,) = transfer(state)
    lanes = np.flatnonzero(state.active) % 32
    assert isinstance(found, Known) == all(mask >> int(lane) & 1 for lane in lanes)


def test_of_numbers_that_are_not_known_nothing_is_said() -> None:
    state, transfer = state_of("max.u32", 32, 0xFFFFFFFF)
    state.registers["%r2"] = Unknown(frozenset({CAUSE}))
    (found,) = transfer(state)
    assert found == Unknown(frozenset({CAUSE}))


def test_a_number_for_each_lane_adds_up() -> None:
    state, transfer = state_of("add.s32", 20, 0xFFFFFFFF)
    state.registers["%r2"] = Known(-3)
    (found,) = transfer(state)
    assert isinstance(found, Known)
    assert found.is_uniform_constant
    assert found.base == -60
