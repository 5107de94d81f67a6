"""Bounds against an independent simulator: every kernel, latency and warp count it was run with.

P is the idealised machine, A and F are the simulator with its write-port hazard (README.md beside
the data). The columns are checked as facts: SAFE covers P on the nominal machine, the estimate of
the charged one is not exceeded by A and F in these rows (it is elsewhere: docs/machine-files.md),
one warp is exact, GUB is what the paper's method gives, the lower bound is below every run.
"""

from __future__ import annotations

import pytest
from reference_runs import reference_launch, reference_rows

from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel

pytestmark = pytest.mark.fast


def bounds(row: dict[str, str], machine: str) -> dict[str, int | None]:
    kernel, launch = reference_launch(row["kernel"], int(row["warps"]))
    described = load_machine(machine, int(row["gmem_lat"]))
    outcomes = analyse_kernel(kernel, launch, described).worst.outcomes
    return {
        name: outcome.cycles if isinstance(outcome, BlockBound) else None
        for name, outcome in outcomes.items()
    }


def label(row: dict[str, str]) -> str:
    return f"{row['kernel']}-{row['gmem_lat']}-{row['warps']}"


ROWS = reference_rows("micro.csv") + reference_rows("cuda.csv")


def test_every_measurement_is_there() -> None:
    assert len(ROWS) == len({label(row) for row in ROWS}) == 245


@pytest.mark.every(3)
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


@pytest.mark.every(3)
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
