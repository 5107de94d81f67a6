"""What the grid simulation runs: the shape of a launch on a GPU, and what its warps execute.

Points are numbered as :func:`block_points` gives them: the reachable basic blocks in the order of
their ids, and after them the end of a warp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ptxwcet.bounds.occupancy import (
    BlockResources,
    Occupancy,
    OccupancyLimit,
    WaveSchedule,
    assumed,
    compute_occupancy,
    missing_rules,
    most_registers,
    schedule_waves,
    stated_registers,
)
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import Assumption
from ptxwcet.emulator.executed_paths import LaunchPaths
from ptxwcet.emulator.launch_model import LaunchFile
from ptxwcet.emulator.layout import shared_bytes
from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Dim3
from ptxwcet.flow.walk.path import BlockPaths, Path, PathLoop, PathNode, PathRepeat, Visit
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.model import Machine
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.grid import GridShape, GridWorkload, TracedLoop, TracedNode, TracedVisit
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.programs import timed_visit
from ptxwcet.warp.program import PartialBarrier, Scoreboard


@dataclass(frozen=True, slots=True)
class GridPlan:
    """How the blocks of a launch share the GPU; ``assumptions``: what nobody has proved of it."""

    shape: GridShape
    occupancy: Occupancy
    waves: WaveSchedule
    assumptions: tuple[Assumption, ...]


def plan_grid(launch: LaunchFile, module: Module, machine: Machine, wishes: GridWishes) -> GridPlan:
    """The plan of a launch. Raises PtxwcetError: PW315, PW316 (occupancy), PW426 (registers that
    contradict one another). Cost: linear in the kernel.
    """
    occupancy, assumptions = _occupancy(launch, module, machine, wishes)
    if wishes.sms is not None:
        sms, source = wishes.sms, "--sms"
    elif machine.occupancy is not None:
        sms, source = machine.occupancy.sms.value, machine.occupancy.sms.source
    else:
        raise missing_rules(machine)
    rests_on = [
        *assumptions,
        assumed("sms", f"the GPU has {sms} SM{'s' if sms > 1 else ''}", source),
    ]
    gap = wishes.launch_gap_cycles
    if gap:
        text = f"between the starts of two blocks lie at least {gap} cycles"
        rests_on.append(assumed("launch-gap", text, "--launch-gap"))
    shape = GridShape(sms, occupancy.resident_blocks, SmConfiguration.of(machine), gap)
    waves = schedule_waves(math.prod(launch.grid), sms, occupancy)
    return GridPlan(shape, occupancy, waves, tuple(rests_on))


def _occupancy(
    launch: LaunchFile, module: Module, machine: Machine, wishes: GridWishes
) -> tuple[Occupancy, tuple[Assumption, ...]]:
    threads = math.prod(launch.block)
    if wishes.resident_blocks is not None:
        given = wishes.resident_blocks
        warps = -(-threads // machine.warp_size)
        occupancy = Occupancy(given, warps, (OccupancyLimit("--resident-blocks", given),))
        text = f"an SM holds {given} blocks of this launch at a time"
        return occupancy, (assumed("resident-blocks", text, "--resident-blocks"),)
    written = launch.registers_per_thread, launch.place("registers_per_thread")
    registers, source = stated_registers(launch.kernel, wishes, *written)
    if registers is None:  # of one run it is as good as any number that a thread has so many
        registers = most_registers(launch.kernel)
        source = "" if registers is None else f".maxnreg of kernel {launch.kernel.readable}"
    kernel = inline_calls(launch.kernel, module)
    shared = shared_bytes(kernel, module, launch.dynamic_shared_bytes)
    occupancy = compute_occupancy(BlockResources(threads, shared, registers, source), machine)
    return occupancy, occupancy.assumptions


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """The kernel that is executed, and what its instructions cost."""

    kernel: Kernel
    cfg: ControlFlowGraph
    costs: InstructionCosts
    scoreboard: Scoreboard


def block_points(cfg: ControlFlowGraph) -> tuple[BlockId, ...]:
    """The basic blocks that are instrumentation points: all that the entry reaches."""
    return tuple(b for b in sorted(cfg.reverse_postorder) if b != cfg.exit)


def build_grid_workload(launched: LaunchPaths, traced: TracedKernel) -> GridWorkload:
    """What every warp of every block of a launch issues, and the points that it passes.

    Raises PtxwcetError (PW401 to PW403) with all executed instructions that the machine refuses.
    Cost: linear in the distinct paths and in the warps.
    """
    builder = _Builder(traced)
    programs = tuple(builder.body(path) for path in launched.paths)
    traced.costs.raise_refusals()
    return GridWorkload(programs, launched.of, len(builder.points), traced.scoreboard)


def known_paths(ranges: Sequence[BlockPaths], grid: Dim3) -> LaunchPaths | None:
    """The paths of a launch if path extraction has found exactly one for every warp, else None.

    ``ranges`` are those of :func:`~ptxwcet.flow.paths.extraction.extract_ranges`. Such a path is
    what every execution takes. Cost: linear in the paths and in the warps of the grid.
    """
    warps = sum(len(row.warps) for row in ranges[0].warps)
    # in an axis that decides nothing, index 0 stands for all
    whole = [all(row.last[axis] == 0 for row in ranges) for axis in range(3)]
    of = np.full((*reversed(grid), warps), -1, np.int64)
    numbers: dict[Path, int] = {}
    for piece in ranges:
        last = [grid[axis] - 1 if whole[axis] else piece.last[axis] for axis in range(3)]
        x, y, z = (slice(a, b + 1) for a, b in zip(piece.first, last, strict=True))
        for warp_path in piece.warps:
            path = _settled(warp_path.nodes)
            if path is None:
                return None
            of[z, y, x, list(warp_path.warps)] = numbers.setdefault(path, len(numbers))
    assert (of >= 0).all(), "the ranges cover the grid"
    return LaunchPaths(tuple(numbers), of.reshape(-1, warps))


def _settled(nodes: Path) -> Path | None:
    """The path as visits and counted repeats alone; None if anything is left open."""
    out: list[PathNode] = []
    for node in nodes:
        match node:
            case Visit():
                out.append(node)
            case PathLoop(body=body):
                inside = _settled(body)
                if inside is None:
                    return None
                out += inside
            case PathRepeat(count, least, body) if count == least and not count.slopes:
                inside = _settled(body)
                if inside is None:
                    return None
                out.append(PathRepeat(count, least, inside))
            case _:
                return None
    return tuple(out)


class _Builder:
    def __init__(self, traced: TracedKernel) -> None:
        self._traced = traced
        self.points = {block: number for number, block in enumerate(block_points(traced.cfg))}
        self._visits: dict[Visit, TracedVisit] = {}

    def body(self, path: Path) -> tuple[TracedNode, ...]:
        """A path as traced nodes; equal visits are one object."""
        return tuple(self._nodes(path))

    def _nodes(self, path: Path) -> Sequence[TracedNode]:
        nodes: list[TracedNode] = []
        for node in path:
            if isinstance(node, Visit):
                nodes.append(self._visit(node))
            else:
                assert isinstance(node, PathRepeat), "what is left open was refused"
                nodes.append(TracedLoop(node.count.base, self.body(node.body)))
        return nodes

    def _visit(self, visit: Visit) -> TracedVisit:
        found = self._visits.get(visit)
        if found is None:
            traced = self._traced
            steps = timed_visit(visit, traced.kernel, traced.cfg, traced.costs)
            for step in steps:
                if isinstance(step, PartialBarrier):
                    raise PtxwcetError(_join_in_grid(step, traced.kernel))
            whole = tuple(step for step in steps if not isinstance(step, PartialBarrier))
            found = TracedVisit(self.points[BlockId(visit.block)], whole)
            self._visits[visit] = found
        return found


def _join_in_grid(join: PartialBarrier, kernel: Kernel) -> Diagnostic:
    return Diagnostic(
        "PW504",
        f"barrier {join.name} is one of {join.warps} warps: launches are simulated with barriers "
        "of the whole block only",
        kernel.instructions[join.instruction.origin].span,
        help="simulate a block alone (no --grid)",
    )
