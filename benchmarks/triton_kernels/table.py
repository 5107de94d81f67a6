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


# Kernel; what was measured: code, batch, length, heads; grid; registers, shared bytes; cycles
PUBLISHED = (
    ("attention_d64_80", "FlashAttention 2, B 32, S 256, H 32", "2,1024", 255, 81_920, 140_114),
    ("attention_d128_80", "FlashAttention 2, B 32, S 256, H 16", "2,512", 255, 98_304, 120_424),
    ("attention_d64_causal_80", "the first, causal", "2,1024", 255, 81_920, 123_712),
    ("attention_d128_causal_80", "the second, causal", "2,512", 255, 98_304, 112_770),
    ("attention_d64_90", "FlashAttention 3, B 16, S 512, H 32", "4,512", 162, 114_688, 187_395),
    ("attention_d128_90", "FlashAttention 3, B 4, S 8192, H 16", "64,64", 152, 131_072, 4_665_000),
)
LENGTHS = {"2,1024": 256, "2,512": 256, "4,512": 512, "64,64": 8_192}


def published() -> Iterator[str]:
    """The bounds of attention at the tile of code that was measured on an H100."""
    yield "| kernel | measured | of it, cycles | bound of ours, cycles | |"
    yield "|---|---|--:|--:|--:|"
    for name, data, grid, registers, shared, measured in PUBLISHED:
        found = ptxwcet.bound(
            HERE / f"{name}.ptx",
            machine="h100",
            grid=grid,
            params={6: LENGTHS[grid]},
            registers=registers,
            dynamic_shared=shared,
        )
        cycles = found.launch_cycles
        assert cycles is not None
        assert cycles >= measured
        yield f"| {name} | {data} | {measured:,} | {cycles:,} | {cycles / measured:.1f} |"


if __name__ == "__main__":
    print("\n".join(rows()))
    print("\n".join(published()))
