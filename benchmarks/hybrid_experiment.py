"""The experiment of the hybrid analysis: the kernels of Betts and Donaldson's Table II.

    python benchmarks/hybrid_experiment.py --store build/hybrid --resume

Each kernel is executed and timed on many input vectors, its traces are analysed, and the page is
written with its table, pictures and data. Runs are kept in the store; ``--resume`` makes only those
that are missing, or of another kernel or launch. Analyses are kept as long as the code is the same.
``--only-trace`` stops before the page, ``--present`` makes no runs and takes those that are there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from hybrid_kernels import HybridKernel, hybrid_kernels
from hybrid_page import draw_convergence, draw_over_estimation, page, write_csv
from hybrid_rows import Row, kept_study
from hybrid_runs import Run, Store

OUT = Path(__file__).resolve().parents[1] / "docs" / "experiments"
COMMAND = "python benchmarks/hybrid_experiment.py --store build/hybrid"
INPUTS = 100
JITTER_PERCENT = 50
VARIED = ("MatrixMultiply", "Reduction-2", "Reduction-6", "VectorAdd")
"""Kernels whose latencies are varied as well: some quick ones."""


def trace(store: Store, kernel: HybridKernel, inputs: int, resume: bool) -> list[Run]:
    """The runs of a kernel; those that are there already are taken if it is resumed."""
    if not resume:
        store.clear(kernel)
    runs: list[Run] = []
    seconds, made = 0.0, 0
    for number in range(inputs):
        run = store.run(kernel, number) if resume else None
        if run is None:
            run = store.make(kernel, number)
            seconds += run.seconds
            made += 1
        runs.append(run)
    print(f"{kernel.name}: {len(runs)} runs, {made} traced now in {seconds:.1f} s", flush=True)
    return runs


def present(store: Store, kernel: HybridKernel, inputs: int) -> list[Run]:
    """The runs of a kernel that are there, up to the first that is not."""
    runs: list[Run] = []
    while len(runs) < inputs and (run := store.run(kernel, len(runs))) is not None:
        runs.append(run)
    return runs


def write_page(rows: Sequence[Row], varied: Sequence[Row], out: Path, command: str) -> None:
    """The page, its data and its pictures."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "hybrid.md").write_text(page(rows, varied, command), encoding="utf-8")
    data = {"rows": [asdict(row) for row in rows], "varied": [asdict(row) for row in varied]}
    (out / "hybrid.json").write_text(json.dumps(data) + "\n", encoding="utf-8")
    write_csv(rows, out / "hybrid.csv")
    draw_over_estimation(rows, out / "hybrid-overestimation.png")
    moving = [row for row in rows if len(set(row.marks)) > 1]
    panels = [("inputs alone", moving), (f"latencies up to {JITTER_PERCENT} % shorter", varied)]
    draw_convergence(panels, out / "hybrid-convergence.png")


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--kernels", default="", help="names of Table II, with commas")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--present", action="store_true")
    parser.add_argument("--only-trace", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    named = set(filter(None, options.kernels.split(",")))
    kernels = [one for one in hybrid_kernels() if not named or one.name in named]
    campaigns = [
        (Store(options.store, 0), kernels),
        (Store(options.store, JITTER_PERCENT), [one for one in kernels if one.name in VARIED]),
    ]
    found: list[list[Row]] = [[], []]
    for (store, chosen), rows in zip(campaigns, found, strict=True):
        for kernel in chosen:
            if options.present:
                runs = present(store, kernel, options.inputs)
            else:
                runs = trace(store, kernel, options.inputs, options.resume)
            if runs and not options.only_trace:
                rows.append(kept_study(store, kernel, runs))
    if not options.only_trace:
        write_page(*found, options.out, COMMAND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
