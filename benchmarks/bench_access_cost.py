"""What the analysis of accesses adds to the time of a block's bound.

    python benchmarks/bench_access_cost.py [runs] [samples|suite|hybrid]

For each launch: the least processor time of reading and bounding on a machine that charges no
transactions, and of the same on one that does, measured in turn. Prints both, the share of reading,
and the median and the largest ratio. Launches that are refused are left out.
"""

from __future__ import annotations

import statistics
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from experiments.hybrid_kernels import hybrid_kernels
from kernel_suite import entries, request_for

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.opening import open_request
from ptxwcet.opened.request import Request

SAMPLES = Path(__file__).parents[1] / "samples"
MACHINES = ("orin-ecrts2025", "orin-ecrts2025-memory")


def main() -> None:
    """Measures and prints."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    launches = LAUNCHES[sys.argv[2] if len(sys.argv) > 2 else "samples"]
    ratios, alone = [], []
    print(f"{'launch':28} {'reading':>9} {'bound':>9} {'accesses':>9}  added")
    for name, request in launches():
        requests = [replace(request, machine=machine) for machine in MACHINES]
        if bound_file(requests[0]).refused:
            continue
        reading: list[float] = []
        times: list[list[float]] = [[], []]
        for _ in range(runs):
            reading.append(_seconds(open_request, requests[0]))
            for place, each in enumerate(requests):
                times[place].append(_seconds(bound_file, each))
        read, without, charged = map(min, (reading, *times))
        added = charged - without
        ratios.append(added / without)
        alone.append(added / (without - read))
        print(
            f"{name:28} {read * 1e3:6.1f} ms {without * 1e3:6.1f} ms {added * 1e3:6.1f} ms"
            f"  {100 * ratios[-1]:4.0f} %"
        )
    for text, found in (("the block bound", ratios), ("the bound without reading", alone)):
        print(
            f"added to {text}: median {100 * statistics.median(found):.0f} %, "
            f"largest {100 * max(found):.0f} %"
        )


def _seconds(study: Callable[[Request], object], request: Request) -> float:
    begin = time.process_time()
    study(request)
    return time.process_time() - begin


def _samples() -> Iterator[tuple[str, Request]]:
    for launch in sorted(SAMPLES.glob("launches/*.toml")):
        name = tomllib.loads(launch.read_text(encoding="utf-8"))["kernel"]
        (ptx,) = (p for p in SAMPLES.glob("*.ptx") if f".entry {name}(" in p.read_text("utf-8"))
        yield launch.stem, Request(str(ptx), launch_file=str(launch))


def _suite() -> Iterator[tuple[str, Request]]:
    for entry in entries():
        yield entry.kernel, request_for(entry, facts=entry.facts)


def _hybrid() -> Iterator[tuple[str, Request]]:
    for kernel in hybrid_kernels():
        yield kernel.launch.stem, kernel.request(kernel.launch)


LAUNCHES = {"samples": _samples, "suite": _suite, "hybrid": _hybrid}


if __name__ == "__main__":
    main()
