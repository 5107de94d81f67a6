"""Speed and memory of reading and analysing timed traces.

    python benchmarks/bench_hybrid.py [EVENTS]

Traces a sum of a block once, repeats the run until there are EVENTS events (default 10 million),
each repetition with times stretched at random, and analyses them from both forms. Prints processor
seconds of each step and the largest memory of a process that reads and analyses.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ptxwcet.commands.trace.study import TraceOptions, trace_kernel
from ptxwcet.methods.hybrid.study import HybridRequest, study_trace
from ptxwcet.opened.request import Request
from ptxwcet.trace.events import TimedTrace
from ptxwcet.trace.files import read_trace, write_trace

ROOT = Path(__file__).parents[1]
PTX = str(ROOT / "samples/block_reduce.ptx")
LAUNCH = ROOT / "samples/launches/block_reduce_tree.toml"


def repeated(run: TimedTrace, events: int) -> TimedTrace:
    """The run again and again, each with its times stretched by a random factor."""
    times = -(-events // len(run))
    factors = np.random.default_rng(1).uniform(1, 1.5, times)
    return TimedTrace(
        run.origin,
        run.ipoints,
        np.tile(run.ipoint, times),
        np.tile(run.sm, times),
        np.tile(run.warp, times),
        np.concatenate([(run.cycle * factor).astype(np.int64) for factor in factors]),
        np.arange(times) * len(run),
    )


def analyse(path: str) -> None:
    """Prints the seconds and the memory of one analysis, in a process of its own."""
    before = time.process_time()
    trace = read_trace(path)
    read = time.process_time() - before
    events = len(trace)
    del trace
    answer = study_trace(HybridRequest(Request(PTX), path))
    both = time.process_time() - before - read
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{Path(path).suffix}  {events:,} events, {answer.estimate.warps:,} warps: "
        f"read {read:.1f} s, read and analysed {both:.1f} s, {memory:.2f} GB, "
        f"{Path(path).stat().st_size / 1e6:.0f} MB"
    )


def main() -> None:
    events = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        launch = Path(folder) / "launch.toml"
        launch.write_text(LAUNCH.read_text())
        run = trace_kernel(Request(PTX, launch_file=str(launch)), TraceOptions("lrr"))
        trace = repeated(run, events)
        for form in ("npz", "csv"):
            path = f"{folder}/trace.{form}"
            before = time.process_time()
            write_trace(trace, path)
            print(f".{form}  written in {time.process_time() - before:.1f} s")
        del trace
        for form in ("npz", "csv"):
            worker = multiprocessing.get_context("spawn").Process(
                target=analyse, args=(f"{folder}/trace.{form}",)
            )
            worker.start()
            worker.join()


if __name__ == "__main__":
    main()
