"""Traces of the hybrid experiment, kept on disk: one run of a kernel for each input vector.

A run is a JSON file with what is to be remembered of it, and names its trace by digest: kernels
whose paths do not depend on data make the same trace for every input, which is kept once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from experiments.hybrid_kernels import CLASSES, HybridKernel, write_input
from experiments.sample_launches import MACHINE
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.trace.study import TracedLaunch, TraceOptions, trace_launch
from ptxwcet.opened.request import Request
from ptxwcet.support.installation import describe_sources
from ptxwcet.support.whole_files import write_text
from ptxwcet.trace.events import TimedTrace
from ptxwcet.trace.files import read_trace, write_columns

POLICY = "lrr"
SMS = 14
"""Multiprocessors: the number of the machine that was simulated for the published table."""


@dataclass(frozen=True, slots=True)
class Run:
    """One input vector: what it was like, its trace, and how long the kernel took in it.

    ``made_of`` is a digest of the PTX, the launch file and this program; ``longest_block`` is the
    longest time between the start of a block and its end, in cycles.
    """

    made_of: str
    number: int
    kind: str
    trace: str
    events: int
    high_water_mark: int
    longest_block: int
    instructions: int
    resident_blocks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Store:
    """Where runs of one campaign are kept; ``jitter_percent`` shortens latencies at random."""

    folder: Path
    jitter_percent: int

    def place(self, kernel: HybridKernel) -> Path:
        """The folder of a kernel's runs."""
        return self.folder / f"jitter{self.jitter_percent}" / kernel.kernel

    def file(self, kernel: HybridKernel, number: int) -> Path:
        """What is remembered of a run."""
        return self.place(kernel) / f"{number:04}.json"

    def run(self, kernel: HybridKernel, number: int) -> Run | None:
        """A run that was made before of the same kernel and launch; None if there is none."""
        path = self.file(kernel, number)
        if not path.exists():
            return None
        run = Run(**json.loads(path.read_text(encoding="utf-8")))
        return run if run.made_of == digest(kernel) else None

    def join(self, kernel: HybridKernel, runs: Sequence[Run]) -> Path:
        """Writes a trace with the runs behind one another, each that differs once."""
        names = dict.fromkeys(run.trace for run in runs)
        path = self.place(kernel) / "all.npz"
        write_columns(
            joined([read_trace(self.place(kernel) / f"{one}.npz") for one in names]), path
        )
        return path

    def make(self, kernel: HybridKernel, number: int) -> Run:
        """Executes and times the kernel on an input vector, and keeps the run.

        The first ten inputs, of all kinds, are executed in any case; a later one is not if path
        analysis knows the one path of each warp, whatever the input.
        """
        place = self.place(kernel)
        begin = time.process_time()
        launch = write_input(kernel, number, place / "input")
        options = TraceOptions(
            POLICY,
            GridWishes(SMS),
            seed=number,
            jitter_percent=self.jitter_percent,
            execute=number < len(CLASSES),
        )
        request = Request(str(kernel.path), launch_file=str(launch), machine=MACHINE)
        traced = trace_launch(request, options)
        seconds = time.process_time() - begin
        shutil.rmtree(place / "input")
        run = self._keep(kernel, number, traced, seconds)
        text = json.dumps(asdict(run), indent=1)
        write_text(self.file(kernel, number), text, "PW233")
        return run

    def _keep(self, kernel: HybridKernel, number: int, traced: TracedLaunch, seconds: float) -> Run:
        place = self.place(kernel)
        written = place / "written.npz"
        write_columns(traced.trace, written)
        name = hashlib.sha256(written.read_bytes()).hexdigest()[:16]
        written.replace(place / f"{name}.npz")
        (run,) = traced.runs
        return Run(
            digest(kernel),
            number,
            CLASSES[number % len(CLASSES)],
            name,
            len(traced.trace),
            run.cycles,
            int((run.blocks.end - run.blocks.start).max()),
            run.instructions,
            traced.plan.shape.resident_blocks,
            round(seconds, 3),
        )


@cache
def digest(kernel: HybridKernel) -> str:
    """What a run depends on besides its number: the kernel, its launch and this program."""
    files = kernel.path.read_bytes() + kernel.launch.read_bytes()
    return hashlib.sha256(files + describe_sources().encode()).hexdigest()[:16]


def joined(traces: Sequence[TimedTrace]) -> TimedTrace:
    """Runs of several traces of one kernel as one trace."""
    first = traces[0]
    assert all(one.origin == first.origin and one.ipoints == first.ipoints for one in traces)
    starts = np.cumsum([0, *(len(one) for one in traces[:-1])])
    return TimedTrace(
        first.origin,
        first.ipoints,
        np.concatenate([one.ipoint for one in traces]),
        np.concatenate([one.sm for one in traces]),
        np.concatenate([one.warp for one in traces]),
        np.concatenate([one.cycle for one in traces]),
        np.concatenate([one.runs + start for one, start in zip(traces, starts, strict=True)]),
    )
