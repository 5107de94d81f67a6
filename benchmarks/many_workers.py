"""A campaign with many workers, by simulation: who cannot keep up first.

    python benchmarks/many_workers.py --client-us 800 --batch-ms 4 --effort sweep/effort.csv

Discrete events: one client (keys, makes and keeps units, one after the other), one scheduler (a
time for each batch), so many workers with one thread, the batches of ``ptxwcet.sweeps.engine``.
The times are measured by ``benchmarks/bench_sweep.py feeding``; how long units take is drawn from
the ``effort.csv`` of a sweep. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import random
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from ptxwcet.sweeps.engine import BATCH_SECONDS, MOST_BATCH, THREADS_A_SECOND

NETWORK_SECONDS = 0.001
WORKERS = (1, 2, 16, 64, 256, 1000, 2000, 4000)


@dataclass
class Server:
    """Does one thing after another."""

    free: float = 0.0
    busy: float = 0.0

    def serve(self, now: float, seconds: float) -> float:
        """When something that comes now is done."""
        self.free = max(self.free, now) + seconds
        self.busy += seconds
        return self.free


@dataclass
class Outcome:
    """A simulated campaign: its seconds, and the share of them that each was busy."""

    seconds: float
    workers: float
    client: float
    scheduler: float


def simulate(
    workers: int, efforts: list[float], units: int, client_unit: float, batch: float, seed: int = 1
) -> Outcome:
    """A campaign of so many units.

    The client keeps two batches a worker under way, as the engine does; half of its time for a unit
    is before it is sent, half after it has come back. Half of a batch's time is the scheduler's.
    """
    draw = random.Random(seed)
    client, scheduler = Server(), Server()
    size = max(min(int(_batch_seconds(workers) / _mean(efforts)), MOST_BATCH), 1)
    waiting: deque[list[float]] = deque()
    idle = workers
    events: list[tuple[float, int, str, list[float]]] = []
    left, under_way, number, worked = units, 0, 0, 0.0
    now = 0.0

    def later(when: float, what: str, efforts_of: list[float]) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (when, number, what, efforts_of))

    def fill() -> None:
        nonlocal left, under_way
        while left and under_way < 2 * workers:
            taken = draw.choices(efforts, k=min(size, left))
            left -= len(taken)
            under_way += 1
            sent = client.serve(now, client_unit / 2 * len(taken) + batch / 4)
            later(scheduler.serve(sent, batch / 4) + NETWORK_SECONDS, "given", taken)

    fill()
    while events:
        now, _, what, taken = heapq.heappop(events)
        if what == "given":
            waiting.append(taken)
        elif what == "done":
            idle += 1
            back = scheduler.serve(now + NETWORK_SECONDS, batch / 4)
            later(client.serve(back, client_unit / 2 * len(taken) + batch / 4), "kept", taken)
        else:
            under_way -= 1
            fill()
        while idle and waiting:
            idle -= 1
            mine = waiting.popleft()
            worked += sum(mine)
            later(now + sum(mine), "done", mine)
    return Outcome(now, worked / now / workers, client.busy / now, scheduler.busy / now)


def _batch_seconds(workers: int) -> float:
    return BATCH_SECONDS * max(1.0, workers / THREADS_A_SECOND)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--client-us", type=float, required=True, help="of the client for a unit")
    parser.add_argument("--batch-ms", type=float, required=True, help="client and scheduler, each")
    parser.add_argument("--effort", type=Path, help="effort.csv of a sweep; without: 0.2 s a unit")
    parser.add_argument("--seconds", type=float, default=300.0, help="that workers are to have")
    options = parser.parse_args()
    efforts = [0.2]
    if options.effort is not None:
        with options.effort.open(encoding="utf-8") as file:
            efforts = [float(seconds) for _, seconds in list(csv.reader(file))[1:] if seconds]
    print(f"{len(efforts)} efforts, {_mean(efforts):.3f} s on average, {max(efforts):.2f} at most")
    print("| workers | units | units/s | workers busy | client busy | scheduler busy |")
    print("|---:|---:|---:|---:|---:|---:|")
    for workers in WORKERS:
        units = int(options.seconds * workers / _mean(efforts))
        found = simulate(workers, efforts, units, options.client_us / 1e6, options.batch_ms / 1e3)
        print(
            f"| {workers:,} | {units:,} | {units / found.seconds:,.1f} | {found.workers:.1%} | "
            f"{found.client:.1%} | {found.scheduler:.1%} |"
        )


if __name__ == "__main__":
    main()
