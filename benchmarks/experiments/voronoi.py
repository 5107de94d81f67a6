"""The Voronoi study: the four conditions of Berezovskyi et al. (RTNS 2014, section 5), simulated.

1, 8, 28 and 32 blocks of 1024 threads on 8 SMs, 32 seeds of the diagram.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.experiment import Progress, Results, Task
from experiments.kernel_files import kernel_folder
from experiments.sample_launches import MACHINE
from experiments.voronoi_report import write_report
from ptxwcet.methods.pwcet.runs import DrawnCondition, DrawOptions, RunProgress, draw_runs
from ptxwcet.methods.pwcet.sample_study import make_sample, study_sample
from ptxwcet.methods.pwcet.settings import Extraction, Settings, Shape
from ptxwcet.methods.pwcet.study import study_measurements
from ptxwcet.opened.request import Request
from ptxwcet.trace.measurements import Measurements, TimeUnit

_BLOCKS = (1, 8, 28, 32)
_RUNS = 2000
_QUICK_BLOCKS = (1,)
_QUICK_RUNS = 1000
"""The fewest that give blocks of 25 enough extremes."""
_DRAWING = DrawOptions(
    _RUNS, inputs=4, policy="lrr", jitter_percent=25, launch_gap_cycles=200, sms=8, seed=1
)
_PUBLISHED = Settings(Extraction.BLOCKS, Shape.ZERO, block_size=25)
"""Gumbel's law and blocks of 25, as theirs."""


def run(task: Task) -> Results:
    """Makes Tables 1 and 2 and pictures. Cost: two minutes of processor time; 6 s if reduced."""
    conditions = _QUICK_BLOCKS if task.is_quick else _BLOCKS
    drawing = replace(_DRAWING, runs=_QUICK_RUNS) if task.is_quick else _DRAWING
    results = Results(
        f"{drawing.runs:,} runs each of {', '.join(map(str, conditions))} blocks, "
        f"{drawing.inputs} different inputs, latencies and initiations shortened at random by up "
        f"to {drawing.jitter_percent} %, block starts up to {drawing.launch_gap_cycles} cycles "
        "apart"
    )
    drawn: list[DrawnCondition] = []
    for blocks in conditions:
        show = _shown(task.progress, f"VOR-{blocks}", len(drawn), len(conditions))
        drawn.append(_draw(results, blocks, drawing, show))
    task.progress("analysis", 1.0)
    sources = tuple(row.condition.label for row in drawn)
    measured = Measurements(TimeUnit.CYCLES, tuple(row.condition for row in drawn), sources)
    answer = study_measurements(measured, Settings())
    answer = replace(answer, bounds=tuple(row.bound for row in drawn))
    theirs = [
        study_sample(make_sample(row.label, row.times, 0), _PUBLISHED)
        for row in measured.conditions
    ]
    write_report(results, conditions, answer, theirs)
    return results


def _draw(results: Results, blocks: int, drawing: DrawOptions, show: RunProgress) -> DrawnCondition:
    """The runs of a condition, called as in the paper."""
    folder = kernel_folder("voronoi")
    kernel, launch = folder / "voronoi.ptx", folder / f"voronoi-{blocks}.toml"
    results.inputs |= {kernel, launch}
    request = Request(str(kernel), launch_file=str(launch), machine=MACHINE)
    drawn = draw_runs(request, drawing, show)
    return replace(drawn, condition=replace(drawn.condition, label=f"VOR-{blocks}"))


def _shown(progress: Progress, label: str, before: int, total: int) -> RunProgress:
    return lambda done, runs: progress(f"{label}, run {done}", (before + done / runs) / total)
