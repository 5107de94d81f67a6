"""The experiments that can be made again, and how one is run."""

from __future__ import annotations

import importlib

from ptxwcet.reproduce.experiment import Experiment, Results, Task

EXPERIMENTS = {
    one.name: one
    for one in (
        Experiment(
            "ecrts2025",
            "ptxwcet.reproduce.ecrts2025",
            ("sim",),
            "L. Jeanmougin, T. Carle, C. Rochange: Bounding the WCET of a GPU Thread Block with a "
            "Multi-Phase Representation of Warps Execution, ECRTS 2025",
            "Tables 3 and 4: over-estimation of the bounds against simulated runs",
            "docs/experiments/ecrts2025.md",
        ),
        Experiment(
            "hybrid",
            "ptxwcet.reproduce.hybrid",
            ("sim", "ilp"),
            "A. Betts, A. Donaldson: Estimating the WCET of GPU-Accelerated Applications Using "
            "Hybrid Analysis, ECRTS 2013",
            "Table II: estimates from traces against high-water marks, 25 kernels",
            "docs/experiments/hybrid.md",
        ),
    )
}
"""By name."""


def run_experiment(experiment: Experiment, task: Task) -> Results:
    """Makes an experiment again. Cost: its module says; its libraries are imported here."""
    results = importlib.import_module(experiment.module).run(task)
    assert isinstance(results, Results)
    return results
