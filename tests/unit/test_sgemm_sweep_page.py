"""``docs/experiments/sgemm-sweep.md`` says what its results say."""

from __future__ import annotations

import re

import pyarrow.parquet
import pytest
from places import DOCS

from ptxwcet.sweeps.results.results_table import read_results
from ptxwcet.sweeps.results.sweep_build import build_sweep_report, chosen_rows

pytestmark = pytest.mark.fast

FOLDER = DOCS / "experiments"
UNITS = {"us": 1e-6, "ms": 1e-3}
MACHINES = {"Titan V": "titan-v", "Jetson AGX Orin": "jetson-agx-orin"}
AXES = ("tm", "tn", "tk", "rm", "rn", "stages")


def test_the_table_is_that_of_the_results() -> None:
    rows = pyarrow.parquet.read_table(FOLDER / "sgemm-sweep.parquet").to_pylist()
    page = (FOLDER / "sgemm-sweep.md").read_text(encoding="utf-8")
    assert len(rows) == 2152
    assert {row["outcome"] for row in rows} == {"bounded"}
    assert len({tuple(row[name] for name in AXES) for row in rows}) == 269
    machine, variant, seen = "", "", 0
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 5 or not cells[1].isdigit():
            continue
        machine = MACHINES[cells[0]] if cells[0] else machine
        variant = variant if cells[2] == "the same" else cells[2]
        chosen = [row for row in rows if row["machine"] == machine and row["n"] == int(cells[1])]
        best = min(chosen, key=lambda row: row["cycles"])
        worst = max(chosen, key=lambda row: row["cycles"])
        number, unit = cells[3].split()
        digit = 10.0 ** -len(number.partition(".")[2])
        assert 0 <= float(number) - best["seconds"] / UNITS[unit] < digit  # rounded up
        assert [best[name] for name in AXES] == [int(one) for one in re.findall(r"\d+", variant)]
        assert cells[4].startswith(f"{worst['cycles'] / best['cycles']:.1f} times")
        seen += 1
    assert seen == 8


def test_machines_are_compared_as_the_page_says() -> None:
    table = read_results(str(FOLDER / "sgemm-sweep.parquet"))
    page = (FOLDER / "sgemm-sweep.md").read_text(encoding="utf-8")
    found = {}
    for n in (512, 1024, 2048, 4096):
        (found[n],) = build_sweep_report(chosen_rows(table, [f"n={n}"])).comparisons
        assert found[n].variants == 269
    of_large = sorted(found[n].rank_correlation or 0 for n in (1024, 2048, 4096))
    assert f"(rank correlation {of_large[0]:.2f} to {of_large[-1]:.2f})" in page
    assert f"(rank correlation {found[512].rank_correlation:.2f})" in page
    of_orin, _ = found[512].best
    assert (of_orin.machine, of_orin.other) == ("jetson-agx-orin", "titan-v")
    said = f"is number {of_orin.rank} and takes {of_orin.times_the_least:.1f} times as long"
    assert said in " ".join(page.split())
