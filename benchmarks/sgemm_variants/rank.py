"""Does the bound rank variants as a simulated launch does? ``python rank.py FOLDER [--every 4]``.

FOLDER is that of ``build.py``. Each n-th variant is bounded for a product of 512 on the machine
``rtx3070-gpgpusim``, which has no caches and no memory that is waited for, and run once on the grid
simulator under ``lrr`` with nominal timings. Prints a row for each, the rank correlation
(Spearman), and how much longer the variant that the bound ranks first runs than the best one.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from unittest import mock

import numpy as np
from build import stem, variants
from scipy.stats import spearmanr

from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.trace.study import TraceOptions, trace_launch
from ptxwcet.opened.request import Request
from ptxwcet.simulator import grid_engine
from ptxwcet.simulator.grid import GridOptions, GridRun, GridShape, GridWorkload

MACHINE = "rtx3070-gpgpusim"
SIZE = 512


def main() -> int:
    """Bounds and runs the variants."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=4, help="of the variants, each so manieth")
    options = parser.parse_args()
    bounds, runs = [], []
    for variant in list(variants())[:: options.every]:
        bound, run = measured(options.folder / f"{stem(variant)}.ptx", variant)
        bounds.append(bound)
        runs.append(run)
        print(f"{stem(variant)} {bound} {run} {bound / run:.2f}", flush=True)
    ratios = np.array(bounds) / np.array(runs)
    print(f"{len(runs)} variants, n = {SIZE}, {MACHINE}")
    print(f"rank correlation {spearmanr(bounds, runs).statistic:.3f}")
    print(f"bound / run {ratios.min():.2f} to {ratios.max():.2f}, median {np.median(ratios):.2f}")
    chosen = runs[int(np.argmin(bounds))]
    print(f"the best by bound runs {chosen / min(runs):.3f} times as long as the best by run")
    return 0


def measured(ptx: Path, variant: dict[str, int]) -> tuple[int, int]:
    """Cycles of the bound of a launch, without its overhead, and of its run."""
    said = ptx.with_suffix(".sm_87.txt").read_text(encoding="utf-8")
    found = re.search(r"Used (\d+) registers", said)
    assert found is not None
    launch = ptx.with_suffix(".toml")
    arrays = "".join(
        f'{name} = {{ shape = [{SIZE}, {SIZE}], dtype = "float32", init = "zeros" }}\n'
        for name in "012"
    )
    sizes = "".join(f"{place} = {SIZE}\n" for place in "345")
    block = f"{variant['tn'] // variant['rn']}x{variant['tm'] // variant['rm']}"
    grid = f"{SIZE // variant['tn']}x{SIZE // variant['tm']}"
    launch.write_text(
        f'kernel = "sgemm"\ngrid = "{grid}"\nblock = "{block}"\n[arguments]\n{arrays}{sizes}'
    )
    gpu = GridWishes(registers=int(found[1]))
    request = Request(str(ptx), launch_file=str(launch), machine=MACHINE, gpu=gpu)
    answer, *_ = bound_file(request).kernels
    assert isinstance(answer.launch_bound, LaunchBound)
    caught: list[GridRun] = []
    simulate = grid_engine.simulate_grid

    def catch(workload: GridWorkload, shape: GridShape, options: GridOptions) -> GridRun:
        caught.append(simulate(workload, shape, options))
        return caught[-1]

    with mock.patch.object(grid_engine, "simulate_grid", catch):
        trace_launch(request, TraceOptions("lrr", request.gpu, most_events=10**8))
    return answer.launch_bound.claim.cycles - answer.launch_bound.overhead_cycles, caught[0].cycles


if __name__ == "__main__":
    sys.exit(main())
