"""Bounds against an independent simulator: every kernel, latency and warp count it was run with.

P is the idealised machine, A and F are the simulator with its write-port hazard (README.md beside
the data). The columns are checked as facts: SAFE covers P on the nominal machine, the estimate of
the charged one is not exceeded by A and F in these rows (it is elsewhere: docs/machine-files.md),
one warp is exact, GUB is what the paper's method gives, the lower bound is below every run.
"""

from __future__ import annotations

import csv
from functools import cache

import pytest
from places import REFERENCE

from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile


def rows(name: str) -> list[dict[str, str]]:
    with (REFERENCE / name).open() as file:
        return list(csv.DictReader(file))


@cache
def kernels(file: str) -> dict[str, Kernel]:
    path = REFERENCE / "ptx" / f"{file}.ptx"
    module = parse_module(SourceFile(path.name, path.read_text()))
    return {kernel.name: kernel for kernel in module.kernels}


def launched(name: str, warps: int) -> tuple[Kernel, Launch]:
    """The kernel and its launch, as README.md beside the data says."""
    n = 32 * warps
    if name == "sgemm_naive":
        kernel = kernels("kernels")[f"sgemm_naive_{warps}"]
        return kernel, Launch((32, warps, 1), (1, 1, 1), arguments(kernel, {3: 32, 4: 64}))
    scalars = {
        "vecadd": {3: n},
        "saxpy_loop": {3: 8 * n},
        "reduce_smem": {2: 4 * n},
        "matvec_f64": {3: 8},
        "diverge": {2: 12},
    }
    kernel = kernels("kernels" if name in scalars else name)[name]
    return kernel, Launch((n, 1, 1), (1, 1, 1), arguments(kernel, scalars.get(name, {})))


def arguments(kernel: Kernel, scalars: dict[int, int]) -> dict[str, int | float]:
    return {kernel.parameters[index].name: value for index, value in scalars.items()}


def bounds(row: dict[str, str], machine: str) -> dict[str, int | None]:
    kernel, launch = launched(row["kernel"], int(row["warps"]))
    described = load_machine(machine, int(row["gmem_lat"]))
    outcomes = analyse_kernel(kernel, launch, described).worst.outcomes
    return {
        name: outcome.cycles if isinstance(outcome, BlockBound) else None
        for name, outcome in outcomes.items()
    }


def label(row: dict[str, str]) -> str:
    return f"{row['kernel']}-{row['gmem_lat']}-{row['warps']}"


ROWS = rows("micro.csv") + rows("cuda.csv")


def test_every_measurement_is_there() -> None:
    assert len(ROWS) == len({label(row) for row in ROWS}) == 245


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_nominal_machine(row: dict[str, str]) -> None:
    found = bounds(row, "orin-ecrts2025")
    runs = [int(row["P_gto"]), int(row["P_lrr"])]
    assert found["safe"] is not None
    assert found["lower"] is not None
    assert found["safe"] >= max(runs)
    assert found["lower"] <= min(runs)
    assert found["gub"] == int(row["GUB_alg1"])
    if row["warps"] == "1":
        assert found["safe"] == found["lower"] == runs[0]


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_charged_machine(row: dict[str, str]) -> None:
    found = bounds(row, "orin-ecrts2025-hazard")
    assert found["safe"] is not None
    assert found["safe"] >= max(int(row[run]) for run in ("A_gto", "A_lrr", "F_gto", "F_lrr"))
    assert found["lower"] is None


def test_the_charge_is_needed() -> None:
    """Nominal timings do not bound the simulator with its hazard: the case that is published."""
    row = next(r for r in ROWS if label(r) == "setp_mix-200-32")
    nominal = bounds(row, "orin-ecrts2025")["safe"]
    assert nominal is not None
    assert nominal == 1128 < int(row["A_gto"]) == 1320
