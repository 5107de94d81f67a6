"""Bounds against the reference simulator's measurements, as a Markdown table.

Usage: python benchmarks/reference_table.py > docs/experiments/reference-simulator.md
"""

from __future__ import annotations

import csv
from pathlib import Path

from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source

DATA = Path(__file__).parents[1] / "tests" / "data" / "reference-sim"
HEAD = """# Bounds against an independent simulator

Made by `python benchmarks/reference_table.py`. P: the machine of the model (worst of GTO and LRR);
A, F: the simulator's own configuration, with write-port hazards and operand collectors that all
units share. In every row SAFE >= P, GUB equals the value computed from executed paths, the lower
bound is at most P, and the estimate of the hazard machine (last column) is at least A and F. On
other kernels that estimate is exceeded: docs/machine-files.md says which, and what is not modelled.

| kernel | latency | warps | lower | P | SAFE | GUB | SAFE / P | A, F | hazard machine |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


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


def main() -> None:
    """Prints the table and a closing line with the number of violations."""
    known = kernels()
    violations = rows = 0
    print(HEAD)
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
            rows += 1
            violations += safe < ideal or hazard < real or gub.cycles != int(row["GUB_alg1"])
            print(
                f"| {row['kernel']} | {latency} | {warps} | {lower.cycles} | {ideal} | {safe} "
                f"| {gub.cycles} | {safe / ideal:.3f} | {real} | {hazard} |"
            )
    print(f"\n{rows} rows, {violations} violations.")


if __name__ == "__main__":
    main()
