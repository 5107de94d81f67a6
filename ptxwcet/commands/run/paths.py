"""Workloads of what was executed, as if it were known for every input."""

from __future__ import annotations

from ptxwcet.bounds.analysed import PreparedKernel, PreparedPiece
from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.emulator.executed_paths import executed_blocks
from ptxwcet.emulator.launch import Execution
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.dominance import compute_dominators, compute_postdominators
from ptxwcet.flow.graph.loops import find_loops
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.model import Machine
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.timing.programs import build_workload

EXECUTED_PATHS = Assumption(
    "executed-paths",
    "every run takes the paths that the emulator saw for this launch; other inputs may take others",
    AssumptionState.DOUBTFUL,
    "--executed",
)
"""What bounds of executed paths rest on: they are estimates."""


def prepare_executed(
    execution: Execution,
    launch: Launch,
    machine: Machine,
    *,
    unknown_at_worst: bool = False,
) -> PreparedKernel:
    """What the warps of a launch have executed, as if it were known for every input.

    The workloads rest on :data:`EXECUTED_PATHS`, which makes estimates of all bounds. Raises
    PtxwcetError (PW402, PW403) as :func:`ptxwcet.pipeline.prepare_kernel` does. Cost: linear in the
    folded paths.
    """
    assert launch.grid is not None, "an executed launch has a grid"
    cfg = build_cfg(execution.kernel)
    forest = find_loops(cfg, compute_dominators(cfg))
    meetings = compute_postdominators(cfg).immediate
    costs = LaunchCosts(execution.kernel, launch, machine, unknown_at_worst=unknown_at_worst)
    pieces = []
    for kind in executed_blocks(execution, cfg, meetings, launch.grid):
        workload = build_workload(
            kind.paths.warps, execution.kernel, cfg, costs, machine.scoreboard
        )
        assumptions = (EXECUTED_PATHS, *costs.assumptions)
        nominal = costs.is_nominal
        pieces.append(PreparedPiece(kind.paths, workload, assumptions, nominal, kind.count))
    return PreparedKernel(execution.kernel, cfg, forest, launch, machine, tuple(pieces))
