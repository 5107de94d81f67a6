"""What the analysis of accesses adds to the time of a block's bound.

    python benchmarks/bench_access_cost.py [runs]

For each launch of the samples: the median time of reading and bounding on a machine that charges no
transactions, and of the same on one that does, measured in turn. Prints both, the share of reading,
and the median and the largest ratio.
"""

from __future__ import annotations

import statistics
import sys
import time
import tomllib
from pathlib import Path

from ptxwcet.studies.block_bound import bound_file
from ptxwcet.studies.opening import open_request
from ptxwcet.studies.request import Request

SAMPLES = Path(__file__).parents[1] / "samples"
MACHINES = ("orin-ecrts2025", "orin-ecrts2025-memory")


def main() -> None:
    """Measures and prints."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    ratios, alone = [], []
    print(f"{'launch':28} {'reading':>9} {'bound':>9} {'accesses':>9}  added")
    for launch in sorted(SAMPLES.glob("launches/*.toml")):
        name = tomllib.loads(launch.read_text(encoding="utf-8"))["kernel"]
        (ptx,) = (p for p in SAMPLES.glob("*.ptx") if f".entry {name}(" in p.read_text("utf-8"))
        requests = [Request(str(ptx), launch_file=str(launch), machine=one) for one in MACHINES]
        reading: list[float] = []
        times: list[list[float]] = [[], []]
        for _ in range(runs):
            begin = time.perf_counter()
            open_request(requests[0])
            reading.append(time.perf_counter() - begin)
            for place, request in enumerate(requests):
                begin = time.perf_counter()
                bound_file(request)
                times[place].append(time.perf_counter() - begin)
        read, without, charged = map(statistics.median, (reading, *times))
        added = charged - without
        ratios.append(added / without)
        alone.append(added / (without - read))
        print(
            f"{launch.stem:28} {read * 1e3:6.1f} ms {without * 1e3:6.1f} ms {added * 1e3:6.1f} ms"
            f"  {100 * ratios[-1]:4.0f} %"
        )
    for text, found in (("the block bound", ratios), ("the bound without reading", alone)):
        print(
            f"added to {text}: median {100 * statistics.median(found):.0f} %, "
            f"largest {100 * max(found):.0f} %"
        )


if __name__ == "__main__":
    main()
