"""Bounds of Triton's kernels for their page: ``python benchmarks/triton_kernels/table.py``.

Each is bounded with its grid and its parameters alone; its block is in the PTX. Prints the table
that docs/experiments/triton.md shows. Takes a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import ptxwcet

HERE = Path(__file__).resolve().parent
MACHINES = {80: "a100", 90: "h100"}
SQUARE = dict.fromkeys(range(3, 9), 512)
LAUNCHES: dict[str, tuple[str, str, dict[int, int]]] = {
    "vector_add": ("98,304 elements", "96", {3: 98_304}),
    "softmax": ("1,823 x 781", "264", {2: 781, 3: 781, 4: 1_823, 5: 781}),
    "matmul": ("512 x 512 x 512", "32", SQUARE),
    "matmul_8_warps": ("512 x 512 x 512", "16", SQUARE),
    "layer_norm": ("1,151 x 8,192", "1151", {6: 8_192, 7: 8_192}),
    "attention": ("64 heads of 1,024 x 64", "16,64", {6: 1_024}),
    "attention_causal": ("64 heads of 1,024 x 64", "16,64", {6: 1_024}),
}
"""Kernel: what it is launched on, its grid, the values of its parameters by their places."""


def options(name: str) -> str:
    """What the command line needs beside the file and the machine."""
    _, grid, params = LAUNCHES[name]
    return " ".join([f"--grid {grid}", *[f"--param {at}={params[at]}" for at in params]])


def bounded(name: str, arch: int) -> ptxwcet.Bound:
    """The bound of a kernel as it is launched, on the machine of its architecture."""
    _, grid, params = LAUNCHES[name]
    path = HERE / f"{name}_{arch}.ptx"
    return ptxwcet.bound(path, machine=MACHINES[arch], grid=grid, params=params)


def rows() -> Iterator[str]:
    """The table, line by line."""
    yield "| kernel | data | warps | sm_ | on | options | a block | the launch | |"
    yield "|---|---|--:|--:|---|--:|--:|--:|--:|"
    for name, (data, _, _) in LAUNCHES.items():
        for arch, machine in MACHINES.items():
            found = bounded(name, arch)
            warps = found.analysis.launch.warps
            yield " | ".join(
                [
                    f"| {name} | {data} | {warps} | {arch} | {machine}",
                    f"{options(name).count('--')}",
                    f"{found.cycles:,}",
                    f"{found.launch_cycles:,}",
                    f"{found.launch_microseconds / 1000:,.3f} ms |",
                ]
            )


if __name__ == "__main__":
    print("\n".join(rows()))
