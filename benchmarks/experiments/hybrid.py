"""The experiment of the hybrid analysis: the kernels of Betts and Donaldson's Table II.

Each kernel is executed and timed on many input vectors, and its traces are analysed. Runs are kept
in the folder for work, so that an interrupted experiment goes on where it stopped.
"""

from __future__ import annotations

from dataclasses import asdict

from experiments.experiment import Results, Task
from experiments.hybrid_kernels import HybridKernel, hybrid_kernels
from experiments.hybrid_report import write_report
from experiments.hybrid_rows import Row, kept_study
from experiments.hybrid_runs import Store

JITTER_PERCENT = 50
_INPUTS = 100
_VARIED = ("MatrixMultiply", "Reduction-2", "Reduction-6", "VectorAdd")
"""Kernels whose latencies are varied as well: some quick ones."""
_QUICK_INPUTS = 3
_QUICK = ("MatrixMultiply", "Reduction-6", "VectorAdd")
_QUICK_VARIED = ("VectorAdd",)


def run(task: Task) -> Results:
    """Makes Table II, and varies latencies of some kernels. Cost: an hour; seconds if reduced."""
    inputs = _QUICK_INPUTS if task.is_quick else _INPUTS
    every = hybrid_kernels()
    kernels = [kernel for kernel in every if not task.is_quick or kernel.name in _QUICK]
    names = _QUICK_VARIED if task.is_quick else _VARIED
    varied = [kernel for kernel in every if kernel.name in names]
    campaigns = [(Store(task.work, 0), kernels), (Store(task.work, JITTER_PERCENT), varied)]
    total = len(kernels) + len(varied)
    studied: list[Row] = []
    for store, chosen in campaigns:
        for kernel in chosen:
            studied.append(_study(task, store, kernel, inputs, len(studied), total))
    results = Results(
        f"{len(kernels)} kernels, {inputs} input vectors each; {len(varied)} of them again with "
        f"every initiation and latency shortened at random by up to {JITTER_PERCENT} %"
    )
    results.inputs |= {path for kernel in kernels for path in kernel.files}
    plain, again = studied[: len(kernels)], studied[len(kernels) :]
    results.add_json(
        "hybrid.json", {"rows": [*map(asdict, plain)], "varied": [*map(asdict, again)]}
    )
    write_report(results, plain, again)
    return results


def _study(
    task: Task, store: Store, kernel: HybridKernel, inputs: int, done: int, total: int
) -> Row:
    """What the runs of a kernel show; those that are kept are not made again."""
    runs = []
    for number in range(inputs):
        task.progress(f"{kernel.name}, run {number + 1}", (done + number / inputs) / total)
        kept = store.run(kernel, number)
        runs.append(store.make(kernel, number) if kept is None else kept)
    return kept_study(store, kernel, runs)
