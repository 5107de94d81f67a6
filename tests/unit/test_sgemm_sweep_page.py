"""``docs/experiments/sgemm-sweep.md`` says what its results say."""

from __future__ import annotations

import re

import pyarrow.parquet
import pytest
from places import DOCS

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
        assert abs(best["seconds"] / UNITS[unit] - float(number)) < 0.01 * float(number)
        assert [best[name] for name in AXES] == [int(one) for one in re.findall(r"\d+", variant)]
        assert cells[4].startswith(f"{worst['cycles'] / best['cycles']:.1f} times")
        seen += 1
    assert seen == 8
