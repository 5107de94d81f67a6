"""Speed and memory of tracing ten million events: ``python benchmarks/bench_tracing.py``.

Prints, for the paths of some sample kernels repeated over a large grid on 14 SMs, instructions and
events timed a second and the peak memory of the process; then whole traces of launches, where the
executions are part of the time. ``--events N`` for another number.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from ptxwcet.bounds.grid_plan import TracedKernel, build_grid_workload
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.run.study import execute_recorded, open_launch
from ptxwcet.commands.trace.study import TraceOptions, trace_launch
from ptxwcet.emulator.executed_paths import executed_warps
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.request import Request
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.grid import GridOptions, GridShape, GridWorkload
from ptxwcet.simulator.grid_engine import simulate_grid
from ptxwcet.simulator.image import build_grid_image
from ptxwcet.simulator.policies import Policy
from ptxwcet.timing.cost import InstructionCosts

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
MACHINE = load_machine()
SMS = 14


def workload(sample: str, launch: str) -> GridWorkload:
    """What the warps of a sample's launch execute."""
    request = Request(
        str(SAMPLES / f"{sample}.ptx"), launch_file=str(SAMPLES / "launches" / f"{launch}.toml")
    )
    module = parse_module(read_source(request.path))
    opened, facts = open_launch(request, module)
    execution = execute_recorded(module, opened)
    cfg = build_cfg(execution.kernel)
    costs = InstructionCosts(MACHINE, facts.threads)
    traced = TracedKernel(execution.kernel, cfg, costs, MACHINE.scoreboard)
    paths = executed_warps(execution, cfg, compute_postdominators(cfg).immediate)
    return build_grid_workload(paths, traced)


def enlarged(small: GridWorkload, events: int) -> GridWorkload:
    """The grid repeated until it has about so many events."""
    each = build_grid_image(small, SmConfiguration()).events
    return replace(small, chosen=np.tile(small.chosen, (max(1, events // each), 1)))


def megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def time_simulation(name: str, grid: GridWorkload, resident: int, policy: Policy) -> None:
    shape = GridShape(SMS, resident, SmConfiguration.of(MACHINE))
    begin, used = time.perf_counter(), time.process_time()
    run = simulate_grid(grid, shape, GridOptions(policy, most_events=10**9))
    wall, used = time.perf_counter() - begin, time.process_time() - used
    events = len(run.cycle)
    print(
        f"{name:16}{policy.value:5}{events:>12,}{run.instructions:>13,}{used:8.2f}{wall:8.2f}"
        f"{events / used / 1e6:9.2f}{run.instructions / used / 1e6:9.1f}{megabytes():>8}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    events = parser.parse_args().events
    small = workload("saxpy", "saxpy")
    simulate_grid(small, GridShape(1, 1, SmConfiguration()), GridOptions(Policy.LRR))  # compile
    print(
        f"{'timing alone':16}{'':5}{'events':>12}{'instructions':>13}{'cpu s':>8}{'wall s':>8}"
        f"{'M ev./s':>9}{'M ins./s':>9}{'MB':>8}"
    )
    for sample, launch, resident in (
        ("mandelbrot", "mandelbrot", 6),
        ("sgemm_naive", "sgemm_naive", 1),
        ("scan", "scan_random", 6),
    ):
        grid = enlarged(workload(sample, launch), events)
        for policy in (Policy.LRR, Policy.GTO):
            time_simulation(sample, grid, resident, policy)
    print(f"\n{'whole traces':16}{'events':>12}{'cpu s':>7}")
    for sample, launch in (("mandelbrot", "mandelbrot"), ("scan", "scan_random")):
        request = Request(
            str(SAMPLES / f"{sample}.ptx"), launch_file=str(SAMPLES / "launches" / f"{launch}.toml")
        )
        used = time.process_time()
        options = TraceOptions("lrr", GridWishes(SMS), runs=20, jitter_percent=5)
        traced = trace_launch(request, options)
        used = time.process_time() - used
        print(f"{sample:16}{len(traced.trace):>12,}{used:7.2f}")


if __name__ == "__main__":
    main()
