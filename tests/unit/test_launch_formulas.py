"""Formulas of launches, in a parameter or in the number of blocks, against single values."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from answers import only_answer
from places import SAMPLES

from ptxwcet.bounds.grid import (
    BlockKind,
    CoRunner,
    Dispatch,
    MemoryServer,
    SetAside,
    affine_bound,
    bounds_by_residency,
)
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import Refusal
from ptxwcet.commands.bound.formula import LaunchFormula, SymbolicBound, bound_symbolic
from ptxwcet.opened.opening import RefusedKernel
from ptxwcet.opened.request import Request

MANY = "orin-ecrts2025-16sm"


def symbolic(name: str, what: str, **said: Any) -> SymbolicBound:
    (row,) = bound_symbolic(Request(str(SAMPLES / f"{name}.ptx"), **said), what).answered
    return row


def single(name: str, **said: Any) -> int:
    row = only_answer(Request(str(SAMPLES / f"{name}.ptx"), **said))
    assert isinstance(row.launch_bound, LaunchBound)
    return row.launch_bound.claim.cycles


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("name", "block", "grid", "parameter", "values", "gpu"),
    [
        ("sgemm_naive", "32x32", "32x32", "K", (32, 33, 64, 1000, 4096), GridWishes()),
        ("saxpy", "64", "4", "n", (1, 31, 256, 257, 1000), GridWishes(registers=16)),
        ("saxpy", "64", "3", "n", (1, 700, 999), GridWishes(resident_blocks=2)),
        ("vector_add", "256", "4", "n", (1, 100, 257, 1000), GridWishes(sms=3)),
    ],
)
@pytest.mark.parametrize("machine", ["orin-ecrts2025", MANY])
def test_the_formula_holds_at_single_values(
    name: str,
    block: str,
    grid: str,
    parameter: str,
    values: tuple[int, ...],
    gpu: GridWishes,
    machine: str,
) -> None:
    if machine != MANY:
        gpu = replace(gpu, sms=None)
    said: dict[str, Any] = {"block": block, "grid": grid, "machine": machine, "gpu": gpu}
    sizes = ("M=1024", "N=1024") if name == "sgemm_naive" else ()
    range_of = f"{parameter}={values[0]}..{values[-1]}"
    row = symbolic(name, range_of, parameters=sizes, **said)
    assert isinstance(row.launch_formula, LaunchFormula)
    for value in values:
        exact = single(name, parameters=(*sizes, f"{parameter}={value}"), **said)
        assert row.launch_formula.formula.at(value) >= exact
        # all blocks alike, one form, and accesses that are aligned at no value or not charged
        if name == "sgemm_naive" and (machine != MANY or value == 33):
            assert row.launch_formula.formula.at(value) == exact
    largest = row.launch_formula.claim.cycles
    assert largest == row.launch_formula.formula.at(row.launch_formula.largest_at)
    assert largest >= max(map(row.launch_formula.formula.at, values))
    keys = {one.key for one in row.launch_formula.claim.assumptions}
    assert "alone-on-its-sm" not in keys
    assert {"parameter-in-range", "no-other-kernels"} <= keys


def test_the_formula_in_blocks_holds_for_every_grid() -> None:
    said: dict[str, Any] = {"block": "32x8", "machine": MANY, "gpu": GridWishes(registers=40)}
    said["parameters"] = ("width=1024", "height=1024")
    row = symbolic("transpose_tiled", "blocks=1..1000000000", **said)
    assert isinstance(row.launch_formula, LaunchFormula)
    assert row.formula.at(5) == 1_769
    for grid in ("1", "7", "16", "97", "8x12", "31x7x2", "1000000000"):
        blocks = 1
        for size in grid.split("x"):
            blocks *= int(size)
        assert row.launch_formula.formula.at(blocks) >= single("transpose_tiled", grid=grid, **said)


@pytest.mark.parametrize("seed", range(20))
def test_simple_forms_hold_for_every_residency(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        slack, work, sectors = rng.randint(0, 50), rng.randint(0, 50), rng.randint(0, 99)
        busiest = rng.choice((None, rng.randint(0, work)))
        outside = rng.choice((None, rng.randint(0, sectors)))
        kind = BlockKind(rng.randint(1, 200), slack, work, busiest, (), sectors, outside)
        least = rng.randint(1, 6)
        dispatch = Dispatch(
            rng.choice((1, 1, 2, 3, 7)),
            least + rng.choice((0, 0, 1, 5)),
            rng.choice((0, 3)),
            rng.choice((0, 2)),
            breadth_first=rng.random() < 0.5,
            memory=MemoryServer(
                rng.choice((0, 79, 1024)),
                rng.choice((None, CoRunner(rng.randint(0, 9), Fraction(rng.randint(0, 9), 10)))),
                rng.choice((None, SetAside(0, rng.randint(0, 99)))),
            ),
        )
        overhead, server = rng.randint(0, 9), dispatch.memory
        parts = affine_bound(kind, dispatch, least, overhead)
        simple = -(-parts // server.divisor) - overhead
        each = bounds_by_residency([kind], dispatch, least)
        assert simple >= max(bound.cycles for bound in each)
        is_rounded_once = server.co_runner is None
        is_one_form = dispatch.sms == 1 and dispatch.resident_blocks == least <= kind.count
        if is_one_form and is_rounded_once and busiest is None:
            assert simple == each[0].cycles


def test_what_has_no_formula_says_so() -> None:
    row = symbolic("vector_add", "n=1..100", block="256", grid="4", machine="ampere-realistic")
    assert isinstance(row.launch_formula, Refusal)
    assert symbolic("sgemm_naive", "K=1..100", block="32x32").launch_formula is None
    for what, grid, code in (
        ("blocks=1..100", "4", "PW542"),
        ("blocks=0..100", None, "PW213"),
        ("blocks", None, "PW213"),
        ("blocks=5..4", None, "PW213"),
    ):
        request = Request(str(SAMPLES / "transpose_tiled.ptx"), block="32x8", grid=grid)
        (refused,) = bound_symbolic(request, what).kernels
        assert isinstance(refused, RefusedKernel)
        assert [one.code for one in refused.diagnostics] == [code]
    request = Request(str(SAMPLES / "saxpy.ptx"), block="64", parameters=("n=100",))
    (refused,) = bound_symbolic(request, "blocks=1..9").kernels
    assert isinstance(refused, RefusedKernel)  # its loop strides by the grid
    machine = "ampere-realistic"
    request = Request(str(SAMPLES / "transpose_tiled.ptx"), block="32x8", machine=machine)
    (refused,) = bound_symbolic(request, "blocks=1..9").kernels
    assert isinstance(refused, RefusedKernel)
    assert [one.code for one in refused.diagnostics] == ["PW543"]
