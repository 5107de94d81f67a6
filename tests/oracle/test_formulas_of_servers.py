"""Formulas on machines with servers behind the units, against the bounds of single values.

The bound of a value rounds up what the memory of the GPU takes, which a formula has inside of it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest
from answers import only_answer
from places import SAMPLES

from ptxwcet.bounds.grid import CoRunner, MemoryServer, SetAside
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.bound.formula import LaunchFormula, SymbolicBound, bound_symbolic
from ptxwcet.opened.request import Request

MACHINES = ("titan-v", "jetson-agx-orin")


def request(
    name: str, kernel: str, block: str, grid: str | None, machine: str, co_runner: str | None = None
) -> Request:
    """A launch of a sample, of 1,024 x 1,024 elements where it has sizes beside the open one."""
    gpu = GridWishes(registers=32, co_runner=co_runner)
    path = str(SAMPLES / f"{name}.ptx")
    sizes = {"sgemm_naive": ("M", "N"), "transpose_tiled": ("width", "height")}.get(name, ())
    parameters = tuple(f"{size}=1024" for size in sizes)
    return Request(
        path, (kernel,), block=block, grid=grid, parameters=parameters, machine=machine, gpu=gpu
    )


def formula(asked: Request, symbolic: str) -> SymbolicBound:
    answer = bound_symbolic(asked, symbolic)
    assert not answer.refused, answer.refused[0].diagnostics[0].message
    return answer.answered[0]


def single(asked: Request, value: str) -> tuple[int, int]:
    """The bounds of a block and of the launch for one value."""
    row = only_answer(replace(asked, parameters=(*asked.parameters, value)))
    assert isinstance(row.launch_bound, LaunchBound)
    return row.worst.bound.cycles, row.launch_bound.claim.cycles


def numbers(seed: int, low: int, high: int) -> list[int]:
    draw = random.Random(seed)
    return sorted({low, high, *(low + int((high - low) ** draw.random() - 1) for _ in range(6))})


@pytest.mark.every(2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "kernel", "block", "grid", "parameter", "limits"),
    [
        ("loops", "loop_up", "64", "4", "n", (1, 10**6)),
        ("loops", "loop_strided", "96", "4", "n", (1, 10**6)),
        ("loops", "loop_unrolled", "64", "3", "n", (1, 10**6)),
        ("loops", "loop_break", "64", "4", "n", (1, 10**6)),
        ("saxpy", "saxpy", "32", "2", "n", (1, 150)),
        # from 384 on the guard keeps out nobody and stores fill sectors: less than of a range
        ("vector_add", "vector_add", "64", "6", "n", (1, 383)),
        ("block_reduce", "block_reduce_shuffle", "32", "1", "n", (1, 3000)),
    ],
)
def test_the_formula_is_the_bound_of_each_value(
    name: str,
    kernel: str,
    block: str,
    grid: str,
    parameter: str,
    limits: tuple[int, int],
    machine: str,
) -> None:
    asked = request(name, kernel, block, grid, machine)
    row = formula(asked, f"{parameter}={limits[0]}..{limits[1]}")
    assert isinstance(row.launch_formula, LaunchFormula)
    for number in numbers(limits[1], *limits):
        of_block, of_launch = single(asked, f"{parameter}={number}")
        assert row.formula.at(number) == of_block, number
        assert row.launch_formula.formula.at(number) >= of_launch, number
        assert row.formula.at(number) <= row.claim.cycles
        assert row.launch_formula.formula.at(number) <= row.launch_formula.claim.cycles
    assert row.formula.at(row.largest_at) == row.claim.cycles
    assert (
        row.launch_formula.formula.at(row.launch_formula.largest_at)
        == row.launch_formula.claim.cycles
    )
    assert {"alone-on-the-memory", "parameter-in-range"} <= {
        one.key for one in row.claim.assumptions
    }


@pytest.mark.parametrize("machine", MACHINES)
def test_counts_of_accesses_for_all_values(machine: str) -> None:
    """Rows of K numbers are aligned for some K only: the bound of such a value may be smaller."""
    asked = request("sgemm_naive", "sgemm_naive", "32x32", "32x32", machine, "65536,20")
    row = formula(asked, "K=32..1000000")
    assert isinstance(row.launch_formula, LaunchFormula)
    for number in (33, 47, 63, 64, 1001, 4096, 999_999):
        of_block, of_launch = single(asked, f"K={number}")
        assert row.formula.at(number) >= of_block
        assert number % 2 == 0 or row.formula.at(number) == of_block
        assert row.launch_formula.formula.at(number) >= of_launch


@pytest.mark.parametrize("machine", MACHINES)
def test_a_launch_whose_form_is_the_formulas(machine: str) -> None:
    """On one SM, of blocks that are alike and meet barriers, nothing else is less."""
    asked = request("sgemm_naive", "sgemm_naive", "32x32", "4x3", machine)
    asked = replace(asked, gpu=GridWishes(sms=1, resident_blocks=1))
    row = formula(asked, "K=33..1000001")
    assert isinstance(row.launch_formula, LaunchFormula)
    for number in (33, 65, 1001, 999_999):
        assert row.launch_formula.formula.at(number) == single(asked, f"K={number}")[1]


@pytest.mark.parametrize("co_runner", [None, "65536,20", "65536,30.5"])
@pytest.mark.parametrize("machine", MACHINES)
def test_the_number_of_blocks(machine: str, co_runner: str | None) -> None:
    """Others that use the memory count here, too."""
    asked = request("transpose_tiled", "transpose_tiled", "32x8", None, machine, co_runner)
    row = formula(asked, "blocks=1..1000000")
    assert isinstance(row.launch_formula, LaunchFormula)
    for grid in ("1", "2", "5", "97", "8x12", "31x7x2", "1000000"):
        launched = only_answer(replace(asked, grid=grid)).launch_bound
        assert isinstance(launched, LaunchBound)
        blocks = launched.blocks
        assert row.launch_formula.formula.at(blocks) >= launched.claim.cycles, grid
    keys = {one.key for one in row.launch_formula.claim.assumptions}
    assert ("co-runner" in keys) == (co_runner is not None)


def test_parts_of_a_cycle_are_what_waiting_is() -> None:
    """Rounded once they are that number; with others that is rounded twice, it may be one less."""
    draw = random.Random(0)
    above = 0
    for _ in range(2000):
        others = None
        if draw.random() < 0.7:
            others = CoRunner(draw.randint(0, 99), Fraction(draw.randint(0, 99), 100))
        each, sectors = draw.choice((0, 1, 79, 279, 1024, 3000)), draw.randint(0, 9999)
        cache, moved, outside = draw.randint(0, each), draw.randint(0, 99), draw.randint(0, sectors)
        aside = draw.choice((None, SetAside(cache, moved)))
        server, cycles = MemoryServer(each, others, aside), draw.randint(0, 9999)
        work = Fraction(each * sectors, 1024)
        if aside is not None:
            work = Fraction(cache * sectors + (each - cache) * (outside + moved), 1024)
        assert server.busy(sectors, outside) == ceil(work)
        expected = cycles + server.waiting(cycles, sectors, outside)
        found = -(-server.parts(cycles, sectors, outside) // server.divisor)
        if others is None:
            assert found == expected
        else:
            assert expected <= found < expected + 1 + 1 / (1 - others.rate)
            above += found > expected
    assert above
