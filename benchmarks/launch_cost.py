"""What the bound of a launch costs beside that of a block: the samples' launches on all machines.

    python benchmarks/launch_cost.py
    python benchmarks/launch_cost.py --machine rtx3070-gpgpusim --times 8

Of each launch file on each machine the least of some repetitions, in time of the processor:
``ptxwcet.bounds.launch_bound.bound_launch``, and all else that a bound takes, reading included.
Exit code 1 if a launch takes more than a tenth of that.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

from ptxwcet.bounds.launch_bound import bound_launch
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened import whole_launch
from ptxwcet.opened.request import Request

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "samples"
MACHINES = ROOT / "ptxwcet" / "machine" / "models"
SHOWN, MOST = 5, 0.1


def measured(request: Request, times: int) -> tuple[float, float]:
    """Seconds of the bound of the launch, and of all else."""
    spent: list[float] = []

    def timed(*arguments: Any) -> Any:
        begin = time.process_time()
        try:
            return bound_launch(*arguments)
        finally:
            spent.append(time.process_time() - begin)

    launches, others = [], []
    with mock.patch.object(whole_launch, "bound_launch", timed):
        for _ in range(times):
            spent.clear()
            begin = time.process_time()
            bound_file(request)
            launches.append(sum(spent))
            others.append(time.process_time() - begin - launches[-1])
    return min(launches), min(others)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--times", type=int, default=4, help="repetitions, of which the least counts"
    )
    parser.add_argument("--machine", action="append", help="machines (all)")
    options = parser.parse_args()
    machines = options.machine or sorted(one.stem for one in MACHINES.glob("*.toml"))
    rows = []
    for file in sorted((SAMPLES / "launches").glob("*.toml")):
        kernel = tomllib.loads(file.read_text())["kernel"]
        named = re.compile(rf"\.entry\s+{re.escape(kernel)}\b")
        (path,) = (one for one in SAMPLES.glob("*.ptx") if named.search(one.read_text()))
        for machine in machines:
            stated = {"kernels": (kernel,), "launch_file": str(file), "machine": machine}
            request = Request(str(path), **stated, unknown_at_worst=True)
            rows.append((*measured(request, options.times), f"{file.stem} on {machine}"))
    rows.sort(key=lambda row: row[0] / row[1], reverse=True)
    for launch, other, name in rows[:SHOWN]:
        print(f"{launch / other:.3f}  {1000 * launch:.2f} ms, {1000 * other:.1f} ms beside  {name}")
    ratios = [launch / other for launch, other, _ in rows]
    summed = sum(row[0] for row in rows) / sum(row[1] for row in rows)
    median = statistics.median(ratios)
    print(f"{len(rows)} launches: {summed:.3f} in sum, median {median:.3f}, most {ratios[0]:.3f}")
    return int(ratios[0] > MOST)


if __name__ == "__main__":
    sys.exit(main())
