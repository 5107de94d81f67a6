"""Speed of the simulator on SGEMM with 32 warps: ``python benchmarks/bench_simulator.py``.

Prints simulated warp instructions a second for each policy without and with skipping, the time to
compile the inner loop (an empty cache) and to load it (a full one), and the plain reference's speed
in the same run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.warp.program import BlockWorkload

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "sgemm_naive.ptx"
FIRST_RUN = """
import time
begin = time.perf_counter()
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.warp.program import *
imported = time.perf_counter()
one = WarpProgram((TimedInstruction("A", 1, 1),))
block = BlockWorkload((WarpClass(one, (0,)),), Scoreboard.RAW)
Simulator(block, SmConfiguration()).cycles(Policy.LRR)
print(imported - begin, time.perf_counter() - imported)
"""


def workload(k: int) -> tuple[BlockWorkload, SmConfiguration]:
    (row,) = bound_file(
        Request(str(SAMPLE), block="32x32", parameters=("M=1024", "N=1024", f"K={k}"))
    ).answered
    return row.worst.analysis.workload, SmConfiguration.of(row.machine)


def seconds(call: Callable[[], object], repetitions: int = 3) -> float:
    best = float("inf")
    for _ in range(repetitions):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def first_run(cache: str) -> tuple[float, float]:
    """Seconds to import the simulator and to finish its first run, in a fresh process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    made = subprocess.run(
        [sys.executable, "-c", FIRST_RUN], env=environment, capture_output=True, check=True
    )
    imports, run = map(float, made.stdout.split())
    return imports, run


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        compiling, loading = first_run(cache), first_run(cache)
    print(f"import of numba and the simulator  {loading[0]:.2f} s")
    print(f"first run, compiling               {compiling[1]:.2f} s")
    print(f"first run, from the cache          {loading[1]:.2f} s")
    simulator = Simulator(*workload(32 * 1024))
    simulator.cycles(Policy.LRR)
    for policy in Policy:
        whole = seconds(lambda p=policy: simulator.cycles(p, skip_repeats=False))  # type: ignore[misc]
        skipped = seconds(lambda p=policy: simulator.cycles(p))  # type: ignore[misc]
        print(
            f"{policy.value:<9} {simulator.instructions / whole / 1e6:6.1f} million warp "
            f"instructions/s; {1e3 * whole:.0f} ms stepped, {1e3 * skipped:.1f} ms with skipping"
        )
    small, shape = workload(64)
    stepped = seconds(lambda: Simulator(small, shape).cycles(Policy.LRR, skip_repeats=False))
    plain = seconds(lambda: reference_run(small, shape, Policy.LRR), 1)
    print(f"plain reference: {plain / stepped:.0f} times as long as the engine with preparation")


if __name__ == "__main__":
    main()
