"""Attack on the bounds with real programs and timings: ``python benchmarks/attack_samples.py``.

Every bounded sample kernel, in the launches of the multi-phase protocol, on ``orin-ecrts2025`` with
global-memory latencies 5, 50 and 200: all policies, random schedules, jitter, and the adversary.
Prints docs/experiments/attack-samples.csv. SAFE and the lower bound must hold; whether GUB is
exceeded is reported.
"""

from __future__ import annotations

import csv
import itertools
import sys
import time
from dataclasses import dataclass, field

from experiments.sample_launches import SampleLaunch, sample_launches

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.simulator.adversary import search_long_schedule
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Jitter, Policy

COLUMNS = (
    *("schedules", "runs", "safe_exceeded", "lower_bound_undercut", "gub_exceeded"),
    *("longest_over_safe", "where"),
)
LATENCIES = (5, 50, 200)
SEEDS = 60
JITTERS = (5, 25, 50, 100)
ADVERSARY_RUNS = 300


@dataclass
class Tally:
    """Runs by kind of schedule, and how close they came to the bounds."""

    runs: int = 0
    safe_exceeded: int = 0
    gub_exceeded: int = 0
    lower_undercut: int = 0
    closest_to_safe: float = 0.0
    closest: str = ""
    kernels: set[str] = field(default_factory=set)

    def add(self, row: KernelAnalysis, cycles: int, label: str, *, nominal: bool) -> None:
        outcomes = row.worst.outcomes
        self.runs += 1
        self.kernels.add(row.kernel.name)
        safe, gub, lower = (outcomes[name] for name in ("safe", "gub", "lower"))
        assert isinstance(safe, BlockBound)
        self.safe_exceeded += cycles > safe.cycles
        self.gub_exceeded += isinstance(gub, BlockBound) and cycles > gub.cycles
        self.lower_undercut += nominal and isinstance(lower, BlockBound) and cycles < lower.cycles
        if row.launch.warps > 1 and cycles / safe.cycles > self.closest_to_safe:
            self.closest_to_safe = cycles / safe.cycles
            self.closest = f"{row.kernel.name}, {row.launch.warps} warps, {label}"


def attack(row: KernelAnalysis, tallies: dict[str, Tally]) -> None:
    workload = row.worst.analysis.workload
    if not row.worst.analysis.is_single_path:
        return
    simulator = Simulator(workload, SmConfiguration.of(row.machine))

    def tally(kind: str, cycles: int, label: str, *, nominal: bool = True) -> None:
        tallies.setdefault(kind, Tally()).add(row, cycles, label, nominal=nominal)

    for policy in Policy:
        if policy is not Policy.RANDOM:
            tally(policy.value, simulator.cycles(policy), policy.value)
    for seed in range(SEEDS):
        tally("random", simulator.cycles(Policy.RANDOM, seed=seed), f"random, seed {seed}")
    for percent, seed in itertools.product(JITTERS, range(SEEDS // 10)):
        for policy in (Policy.LRR, Policy.GTO, Policy.RANDOM):
            cycles = simulator.cycles(policy, seed=seed, jitter=Jitter(percent, seed))
            label = f"{policy.value}, jitter {percent} %, seed {seed}"
            tally("jitter", cycles, label, nominal=False)
    runs = max(20, min(ADVERSARY_RUNS, 20_000_000 // simulator.instructions))
    found = search_long_schedule(simulator, workload.warp_count, runs=runs)
    tally("adversary", found.cycles, f"adversary from {found.origin}")
    tallies["adversary"].runs += found.runs - 1


def analysed(launch: SampleLaunch, latency: int) -> tuple[KernelAnalysis, ...]:
    return bound_file(launch.request(latency)).answered


def main() -> None:
    begin = time.perf_counter()
    tallies: dict[str, Tally] = {}
    for launch, latency in itertools.product(sample_launches(), LATENCIES):
        for row in analysed(launch, latency):
            attack(row, tallies)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    for kind, t in tallies.items():
        exceeded = (t.safe_exceeded, t.lower_undercut, t.gub_exceeded)
        table.writerow([kind, t.runs, *exceeded, f"{t.closest_to_safe:.4f}", t.closest])
    kernels = set().union(*(t.kernels for t in tallies.values()))
    total = sum(t.runs for t in tallies.values())
    seconds = time.perf_counter() - begin
    print(
        f"{len(kernels)} kernels with one known path, {total:,} runs, {seconds:.0f} s",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
