"""What the reference simulator was given and measured (``tests/data/reference-sim/README.md``)."""

from __future__ import annotations

import csv
from functools import cache

from parsing import kernels_of
from places import REFERENCE

from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel


def reference_rows(name: str) -> list[dict[str, str]]:
    """The rows of a table of measurements."""
    with (REFERENCE / name).open() as file:
        return list(csv.DictReader(file))


@cache
def _kernels(file: str) -> dict[str, Kernel]:
    return kernels_of(REFERENCE / "ptx" / f"{file}.ptx")


def reference_launch(name: str, warps: int) -> tuple[Kernel, Launch]:
    """A kernel of the tables and its launch."""
    n = 32 * warps
    if name == "sgemm_naive":
        kernel = _kernels("kernels")[f"sgemm_naive_{warps}"]
        return kernel, Launch((32, warps, 1), (1, 1, 1), _arguments(kernel, {3: 32, 4: 64}))
    scalars = {
        "vecadd": {3: n},
        "saxpy_loop": {3: 8 * n},
        "reduce_smem": {2: 4 * n},
        "matvec_f64": {3: 8},
        "diverge": {2: 12},
    }
    kernel = _kernels("kernels" if name in scalars else name)[name]
    return kernel, Launch((n, 1, 1), (1, 1, 1), _arguments(kernel, scalars.get(name, {})))


def _arguments(kernel: Kernel, scalars: dict[int, int]) -> dict[str, int | float]:
    return {kernel.parameters[index].name: value for index, value in scalars.items()}
