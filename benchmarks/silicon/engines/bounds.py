"""Bounds beside the whole kernels that were measured: ``python bounds.py [MACHINE]``.

Prints docs/experiments/silicon-h200-engines-bounds.csv: bounds of blocks and of launches, on h200
if no machine is given. Takes a minute.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ptxwcet

ROOT = Path(__file__).resolve().parents[3]
MEASURED = ROOT / "docs" / "experiments" / "silicon-h200-engines.json"
FILES = {
    "mbarriers": "tests/data/mbarriers/mbarriers.ptx",
    "engines_of_tests": "tests/data/engines/engines.ptx",
    "matmul_of_boxes_90": "benchmarks/triton_kernels/matmul_of_boxes_90.ptx",
    "matmul_90": "benchmarks/triton_kernels/matmul_90.ptx",
    "matmul_8_warps_90": "benchmarks/triton_kernels/matmul_8_warps_90.ptx",
}
SQUARES = {(32,): 512, (16,): 512, (16, 8): 512, (128,): 1024, (64,): 1024, (32, 16): 1024}
"""Of Triton's products by their grids: all sides of their matrices."""
COLUMNS = (
    *("kernel", "tiles", "blocks", "block_cycles", "block_bound", "block_ratio"),
    *("launch_us", "launch_bound_us", "launch_ratio"),
)
RING: dict[str | int, str] = {0: "box:64x4:4"}
BOXES: dict[str, dict[str | int, str]] = {
    "tensor_gemm": {0: "box:64x128:2", 1: "box:64x64:2"},
    "tensor_ring": RING,
    "tensor_ring_by_pointer": RING,
    "matmul_of_boxes": {0: "box:64x32:2", 5: "box:64x64:2", 10: "box:64x32:2"},
}
"""What is said of tensor maps, by the places of parameters."""
SHOWN = (6, 64, None)
"""How many tiles the table shows."""
SHARED = {"gemm": 65536, "tensor_gemm": 98304, "matmul_of_boxes": 65536, "matmul": 65536}


def cases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Module and kernel, and each experiment with them."""
    for name, (columns, *rows) in json.loads(MEASURED.read_text()).items():
        module, _, kernel = name.partition(":")
        for row in rows if module in FILES else ():
            yield module, kernel, dict(zip(columns, row, strict=True))


def bounded(module: str, kernel: str, one: dict[str, Any], machine: str) -> ptxwcet.Bound | str:
    """The bound of a launch, or why there is none."""
    tiles = one.get("tiles")
    params: dict[str | int, Any] = dict(BOXES.get(kernel, {}))
    if tiles is not None:
        params[{"gemm": 3, "tensor_gemm": 3}.get(kernel, 2)] = tiles
    elif kernel == "matmul":
        params |= dict.fromkeys(range(3, 9), SQUARES[tuple(one["grid"])])
    elif kernel == "matmul_of_boxes":
        params[15] = SQUARES[tuple(one["grid"])]
    grid = ",".join(map(str, one.get("grid") or [1]))
    shared = 114688 if module == "matmul_8_warps_90" else SHARED.get(kernel, 0)
    given: dict[str, Any] = {"dynamic_shared": shared} if shared else {}
    try:
        return ptxwcet.bound(
            ROOT / FILES[module], kernel=kernel, machine=machine, grid=grid, params=params,
            block=str(one["block"]), **given,
        )  # fmt: skip
    except ptxwcet.PtxwcetError as refused:
        return refused.diagnostics[0].code


def main() -> None:
    machine = sys.argv[1] if len(sys.argv) > 1 else "h200"
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    for module, kernel, one in cases():
        blocks, most = one.get("grid") or [1], (one.get("cycles") or [0, 0, 0])[2]
        if not most or blocks in ([2], [132], [133]) or one.get("tiles") not in SHOWN:
            continue
        found = bounded(module, kernel, one, machine)
        took = one["end_ns"][2] / 1000
        if isinstance(found, str):
            block, launch = [found, ""], ["", ""]
        else:
            block = [str(found.cycles), f"{found.cycles / most:.1f}"]
            longest = found.launch_microseconds
            launch = ["not bounded", ""]
            if longest is not None:
                launch = [f"{longest:.1f}", f"{longest / took:.1f}"]
        shape = (kernel, one.get("tiles") or "", " x ".join(map(str, blocks)))
        table.writerow([*shape, most, *block, f"{took:.2f}", *launch])


if __name__ == "__main__":
    main()
