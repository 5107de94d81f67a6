"""Speed of the main job: whole process, imports, and independence of trip counts.

Usage: python benchmarks/bench_analysis.py [runs]. Prints medians and ratios measured in one run.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request

SAMPLE = Path(__file__).parents[1] / "samples" / "sgemm_naive.ptx"
COUNTS = (10**3 // 32 * 32, 10**9 // 32 * 32)


def process_seconds(code: str, runs: int) -> float:
    """Median wall time of ``python -c code``, in seconds."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def analysis_seconds(count: int, runs: int) -> float:
    """Median time of one analysis of SGEMM with K = ``count``, in seconds."""
    request = Request(str(SAMPLE), block="32x32", parameters=(f"K={count}",))
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        bound_file(request)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    """Measures and prints."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    arguments = [str(SAMPLE), "--block", "32x32", "--param", "K=1024"]
    nothing = process_seconds("pass", runs)
    imports = process_seconds("import ptxwcet.commands.bound.command", runs)
    whole = process_seconds(f"from ptxwcet.cli.main import main; main({arguments!r})", runs)
    print(f"interpreter alone        {nothing:.3f} s")
    print(f"imports of the main job  {imports - nothing:.3f} s")
    print(f"whole process            {whole:.3f} s  (ratio to interpreter {whole / nothing:.1f})")
    small, large = (analysis_seconds(count, runs) for count in COUNTS)
    print(f"analysis, K = {COUNTS[0]:<12} {small * 1000:.1f} ms")
    print(f"analysis, K = {COUNTS[1]:<12} {large * 1000:.1f} ms  (ratio {large / small:.2f})")
    print(
        f"peak memory              {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB"
    )


if __name__ == "__main__":
    main()
