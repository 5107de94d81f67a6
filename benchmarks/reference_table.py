"""Bounds against the reference simulator's measurements, as CSV.

    python benchmarks/reference_table.py

Writes ``docs/experiments/reference-simulator.csv`` and prints the loosest kernels.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source

DATA = Path(__file__).parents[1] / "tests" / "data" / "reference-sim"
ROWS = Path(__file__).parents[1] / "docs" / "experiments" / "reference-simulator.csv"
HEAD = """| kernel | SAFE / P: mean | most | hazard: least | most |
|---|--:|--:|--:|--:|"""
LOOSEST = 10
"""Kernels that are printed."""
FIELDS = ("kernel", "latency", "warps", "lower", "P", "SAFE", "GUB", "A_F", "hazard")

Row = dict[str, int | str]


def kernels() -> dict[str, Kernel]:
    """All entries of the reference files by name; loading order does not matter."""
    found = {}
    for path in sorted((DATA / "ptx").glob("*.ptx")):
        found.update({kernel.name: kernel for kernel in parse_module(read_source(path)).kernels})
    return found


def launch_of(name: str, warps: int) -> tuple[str, Launch]:
    """Entry name and launch of a row, as the data's README gives them."""
    threads = 32 * warps
    values = {
        "vecadd": {3: threads},
        "saxpy_loop": {3: 8 * threads},
        "sgemm_naive": {3: 32, 4: 64},
        "reduce_smem": {2: 4 * threads},
        "matvec_f64": {3: 8},
        "diverge": {2: 12},
    }.get(name, {})
    entry = f"{name}_{warps}" if name == "sgemm_naive" else name
    block = (32, warps, 1) if name == "sgemm_naive" else (threads, 1, 1)
    return entry, Launch(block, (1, 1, 1), {f"{entry}_param_{i}": v for i, v in values.items()})


def measure() -> list[Row]:
    """A row for each block that was run."""
    known = kernels()
    rows: list[Row] = []
    for file in ("micro", "cuda"):
        for row in csv.DictReader((DATA / f"{file}.csv").open()):
            latency, warps = int(row["gmem_lat"]), int(row["warps"])
            entry, launch = launch_of(row["kernel"], warps)
            plain = analyse_kernel(
                known[entry], launch, load_machine("orin-ecrts2025", latency)
            ).worst
            charged = analyse_kernel(
                known[entry], launch, load_machine("orin-ecrts2025-hazard", latency)
            ).worst
            gub, lower = plain.outcomes["gub"], plain.outcomes["lower"]
            assert isinstance(gub, BlockBound)
            assert isinstance(lower, BlockBound)
            ideal = max(int(row["P_gto"]), int(row["P_lrr"]))
            real = max(int(row[c]) for c in ("A_gto", "A_lrr", "F_gto", "F_lrr"))
            safe, hazard = plain.bound.cycles, charged.bound.cycles
            if safe < ideal or lower.cycles > ideal or hazard < real:
                sys.exit(f"{row['kernel']}, {warps} warps, latency {latency}: a bound is exceeded")
            if gub.cycles != int(row["GUB_alg1"]):
                sys.exit(f"{row['kernel']}, {warps} warps, latency {latency}: another GUB")
            values = (row["kernel"], latency, warps, lower.cycles, ideal, safe)
            values += (gub.cycles, real, hazard)
            rows.append(dict(zip(FIELDS, values, strict=True)))
    return rows


def page(rows: Sequence[Row]) -> str:
    """Returns the loosest kernels as a table in Markdown."""
    table = []
    for name in dict.fromkeys(row["kernel"] for row in rows):
        own = [row for row in rows if row["kernel"] == name]
        safe = [int(row["SAFE"]) / int(row["P"]) for row in own]
        assert min(safe) == 1
        hazard = [int(row["hazard"]) / int(row["A_F"]) for row in own]
        mean = sum(safe) / len(safe)
        line = f"| {name} | {mean:.3f} | {max(safe):.3f} | {min(hazard):.3f} | {max(hazard):.3f} |"
        table.append((mean, line))
    loosest = [line for _, line in sorted(table, reverse=True)[:LOOSEST]]
    mean = sum(int(row["SAFE"]) / int(row["P"]) for row in rows) / len(rows)
    result = f"{len(rows)} rows, SAFE on average {mean:.3f} times the run, no violation."
    return "\n".join([HEAD, *loosest, "", result, ""])


def main() -> None:
    """Writes the rows and prints the loosest kernels."""
    rows = measure()
    with ROWS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(page(rows))


if __name__ == "__main__":
    main()
