"""Formulas of the samples' bounds against the bounds at single values, on their own analysis."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from answers import only_answer
from effort import counted
from places import SAMPLES

from ptxwcet.commands.bound.formula import SymbolicAnswer, bound_symbolic
from ptxwcet.opened.request import Request

COUNTED = (
    "loop_up",
    "loop_down",
    "loop_strided",
    "loop_while",
    "loop_do_while",
    "loop_unrolled",
    "loop_unsigned",
    "loop_wide",
    "loop_block_stride",
    "loop_threads",
    "loop_break",
)


def request(
    name: str, kernel: str, block: str, parameters: Sequence[str] = (), grid: str = "1"
) -> Request:
    path = str(SAMPLES / f"{name}.ptx")
    return Request(
        path,
        (kernel,),
        block=block,
        grid=grid,
        parameters=tuple(parameters),
        machine="orin-ecrts2025",
    )


def concrete(asked: Request, value: str) -> tuple[int, str]:
    """The bound for one value and its guarantee."""
    given = Request(
        asked.path,
        asked.kernels,
        block=asked.block,
        grid=asked.grid,
        parameters=(*asked.parameters, value),
        machine=asked.machine,
    )
    row = only_answer(given)
    return row.worst.bound.cycles, row.worst.bound.claim.guarantee.value


@cache
def solved(asked: Request, symbolic: str) -> SymbolicAnswer:
    return bound_symbolic(asked, symbolic)


def check(asked: Request, name: str, limits: tuple[int, int], numbers: Sequence[int]) -> None:
    answer = solved(asked, f"{name}={limits[0]}..{limits[1]}")
    assert not answer.refused, answer.refused[0].diagnostics[0].message
    (row,) = answer.answered
    assert (row.formula.low, row.formula.high) == limits
    for number in numbers:
        cycles, guarantee = concrete(asked, f"{name}={number}")
        assert row.formula.at(number) == cycles, number
        assert cycles <= row.claim.cycles
        assert guarantee == row.claim.guarantee.value
    assert concrete(asked, f"{name}={row.largest_at}")[0] == row.claim.cycles


def sample(seed: int, count: int, limits: tuple[int, int]) -> list[int]:
    """Numbers of a range, most of them near its beginning."""
    draw = random.Random(seed)
    low, high = limits
    return [low + int((high - low) ** draw.random() - 1) for _ in range(count)]


@pytest.mark.every(3)
@pytest.mark.parametrize("kernel", COUNTED)
def test_every_value_of_counted_loops(kernel: str) -> None:
    asked = request("loops", kernel, "64")
    check(asked, "n", (1, 70), (*range(1, 34, 3), *range(60, 71, 2)))


@pytest.mark.every(4)
@pytest.mark.parametrize("kernel", COUNTED)
def test_values_of_counted_loops_up_to_a_million(kernel: str) -> None:
    asked = request("loops", kernel, "64")
    limits = (1, 10**6)
    check(asked, "n", limits, (*sample(len(kernel), 40, limits), 10**6))


def test_ranges_from_below_zero() -> None:
    check(request("loops", "loop_up", "64"), "n", (-40, 40), range(-40, 41, 4))
    check(request("loops", "loop_while", "64"), "n", (0, 40), range(0, 41, 3))


def test_both_counts_of_nested_loops() -> None:
    limits = (1, 10**6)
    numbers = (*range(1, 9), *sample(1, 30, limits))
    check(request("loops", "loop_nested", "64", ("m=13",)), "n", limits, numbers)
    check(request("loops", "loop_nested", "64", ("n=13",)), "m", limits, numbers)


@pytest.mark.parametrize(
    ("name", "kernel", "block", "parameter"),
    [
        ("saxpy", "saxpy", "64", "n"),
        ("vector_add", "vector_add", "256", "n"),
        ("histogram", "histogram", "64", "n"),
        ("block_reduce", "block_reduce_shuffle", "64", "n"),
        ("sgemm_naive", "sgemm_naive", "32x32", "K"),
        ("sgemm_double_buffered", "sgemm_double_buffered", "32x32", "K"),
    ],
)
def test_samples(name: str, kernel: str, block: str, parameter: str) -> None:
    limits = (32, 10**6)
    numbers = (*range(32, 300, 21), *sample(7, 15, limits), 10**6)
    check(request(name, kernel, block), parameter, limits, numbers)


def test_blocks_of_several_kinds() -> None:
    """The ranges of n on which blocks behave alike differ from block to block."""
    asked = request("vector_add", "vector_add", "64", grid="3")
    check(asked, "n", (0, 5000), (*range(0, 300, 23), *sample(5, 12, (1, 5000))))
    asked = request("saxpy", "saxpy", "32", grid="3")
    check(asked, "n", (1, 5000), (*range(1, 300, 23), *sample(5, 12, (1, 5000))))


def test_a_reduction_with_barriers_in_every_step() -> None:
    asked = request("block_reduce", "block_reduce_tree", "32")
    check(asked, "n", (1, 5000), (*range(1, 140, 3), *sample(3, 20, (1, 5000))))


TWO_SLOPES = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry two_slopes(.param .u32 n)
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    ld.param.u32 %r1, [n];
    setp.ge.s32 %p1, %r1, 100;
    add.s32 %r2, %r1, 5;
    mul.lo.s32 %r3, %r1, 3;
    sub.s32 %r3, %r3, 295;
    selp.b32 %r4, %r3, %r2, %p1;
    mov.u32 %r5, 0;
L:  add.s32 %r5, %r5, 1;
    setp.lt.s32 %p2, %r5, %r4;
    @%p2 bra L;
    ret;
}
"""


def test_paths_that_are_alike_at_first(tmp_path: Path) -> None:
    """From 100 on the loop runs three times as many iterations more for each value."""
    path = tmp_path / "two_slopes.ptx"
    path.write_text(TWO_SLOPES)
    check(Request(str(path), block="96"), "n", (0, 10**6), (*range(90, 120), 5, 4000, 10**6))


def test_triangles_are_quadratic() -> None:
    for name, kernel in (("triangular", "triangular_solve"), ("loops", "loop_triangular")):
        answer = bound_symbolic(request(name, kernel, "64"), "n=1..4096")
        (row,) = answer.refused
        assert row.diagnostics[0].code == "PW543"
        assert "product" in row.diagnostics[0].message


def test_coarser_paths_are_refused() -> None:
    """For a short range a table is possible, but not of the bounds that single values have."""
    check(request("triangular", "triangular_solve", "64"), "n", (1, 5), range(1, 6))
    (row,) = bound_symbolic(request("triangular", "triangular_solve", "64"), "n=1..30").refused
    assert row.diagnostics[0].code == "PW543"
    assert "less exactly" in row.diagnostics[0].message


def test_cost_does_not_depend_on_the_range() -> None:
    asked = request("loops", "loop_unrolled", "64")
    _, few = counted(lambda: bound_symbolic(asked, "n=1..4096"))
    answer, many = counted(lambda: bound_symbolic(asked, f"n=1..{2**31 - 1}"))
    (row,) = answer.answered
    assert many < 2 * few
    assert len(row.formula.rows) < 9
