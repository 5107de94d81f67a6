"""The experiments that can be made again, and how one is run."""

from __future__ import annotations

import importlib

from experiments.experiment import Experiment, Results, Task

EXPERIMENTS = {
    one.name: one
    for one in (
        Experiment(
            "ecrts2025",
            "experiments.ecrts2025",
            ("sim",),
            "L. Jeanmougin, T. Carle, C. Rochange: Bounding the WCET of a GPU Thread Block with a "
            "Multi-Phase Representation of Warps Execution, ECRTS 2025",
            "Tables 3 and 4: over-estimation of the bounds against simulated runs",
            "docs/experiments/ecrts2025.md",
        ),
        Experiment(
            "hybrid",
            "experiments.hybrid",
            ("sim", "ilp"),
            "A. Betts, A. Donaldson: Estimating the WCET of GPU-Accelerated Applications Using "
            "Hybrid Analysis, ECRTS 2013",
            "Table II: estimates from traces against high-water marks, 25 kernels",
            "docs/experiments/hybrid.md",
        ),
        Experiment(
            "makespan",
            "experiments.makespan",
            ("sim", "ilp"),
            "K. Berezovskyi, K. Bletsas, B. Andersson: Makespan computation for GPU threads "
            "running on a single streaming multiprocessor, ECRTS 2012",
            "Figures 5, 6 and 7: seconds of the integer program, convergence of the extrapolation",
            "docs/experiments/makespan.md",
        ),
        Experiment(
            "pwcet",
            "experiments.voronoi",
            ("sim", "pwcet"),
            "K. Berezovskyi, L. Santinelli, K. Bletsas, E. Tovar: WCET measurement-based and "
            "extreme value theory characterisation of CUDA kernels, RTNS 2014",
            "Tables 1 and 2: hypothesis tests and probabilistic WCET of a Voronoi kernel",
            "docs/experiments/pwcet-voronoi.md",
        ),
    )
}
"""The experiments by name."""


def run_experiment(experiment: Experiment, task: Task) -> Results:
    """Makes an experiment again. Cost: its module says; its libraries are imported here."""
    results = importlib.import_module(experiment.module).run(task)
    assert isinstance(results, Results)
    return results
