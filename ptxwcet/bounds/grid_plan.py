"""Prepares the input of the grid simulation: a launch on a GPU, and the programs of its warps.

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
from ptxwcet.flow.walk.path import (
    BlockPaths,
    Path,
    PathLoop,
    PathNode,
    PathRepeat,
    Visit,
    nodes_in,
)
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.model import Machine
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.grid import GridShape, GridWorkload, TracedLoop, TracedNode, TracedVisit
from ptxwcet.support.records import dataclass
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.programs import timed_visit
from ptxwcet.warp.program import Barrier, PartialBarrier, Scoreboard, Step


@dataclass(frozen=True, slots=True)
class GridPlan:
    """The distribution of a launch's blocks on the GPU; ``assumptions``: its unproved part."""

    shape: GridShape
    occupancy: Occupancy
    waves: WaveSchedule
    assumptions: tuple[Assumption, ...]


def plan_grid(launch: LaunchFile, module: Module, machine: Machine, wishes: GridWishes) -> GridPlan:
    """Returns the plan of a launch. Raises PtxwcetError: PW315, PW316 (occupancy), PW426 (registers
    that contradict one another). Cost: linear in the kernel.
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
    if registers is None:  # For a single run, any possible number of registers per thread will do.
        registers = most_registers(launch.kernel)
        source = "" if registers is None else f".maxnreg of kernel {launch.kernel.readable}"
    kernel = inline_calls(launch.kernel, module)
    shared = shared_bytes(kernel, module, launch.dynamic_shared_bytes)
    occupancy = compute_occupancy(BlockResources(threads, shared, registers, source), machine)
    return occupancy, occupancy.assumptions


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """The kernel that is executed, and the costs of its instructions."""

    kernel: Kernel
    cfg: ControlFlowGraph
    costs: InstructionCosts
    scoreboard: Scoreboard


def block_points(cfg: ControlFlowGraph) -> tuple[BlockId, ...]:
    """Returns the basic blocks that are instrumentation points: all that the entry reaches."""
    return tuple(b for b in sorted(cfg.reverse_postorder) if b != cfg.exit)


def build_grid_workload(launched: LaunchPaths, traced: TracedKernel) -> GridWorkload:
    """Returns the issues of every warp of every block of a launch, and the points that it passes.

    Raises PtxwcetError (PW401 to PW403) with all executed instructions that the machine refuses.
    Cost: linear in the distinct paths and in the warps.
    """
    warps = int(launched.of.shape[1])
    points = {block: number for number, block in enumerate(block_points(traced.cfg))}
    nodes = (node for path in launched.paths for node in nodes_in(path))
    steps = {
        visit: timed_visit(visit, traced.kernel, traced.cfg, traced.costs)
        for visit in dict.fromkeys(node for node in nodes if isinstance(node, Visit))
    }
    traced.costs.raise_refusals()
    joins = [step for row in steps.values() for step in row if isinstance(step, PartialBarrier)]
    names = {step.name for step in joins if step.warps == warps}

    def joined(step: Step) -> Step:
        """Returns a barrier at which some warps only arrive as one for all warps by number."""
        if isinstance(step, Barrier) and step.name in names:
            return PartialBarrier(step.instruction, step.name, warps)
        return step

    visits = {
        visit: TracedVisit(points[BlockId(visit.block)], tuple(map(joined, row)))
        for visit, row in steps.items()
    }

    def body(path: Path) -> tuple[TracedNode, ...]:
        out: list[TracedNode] = []
        for node in path:
            if isinstance(node, Visit):
                out.append(visits[node])
            else:
                assert isinstance(node, PathRepeat), "what is left open was refused"
                out.append(TracedLoop(node.count.base, body(node.body)))
        return tuple(out)

    programs = tuple(map(body, launched.paths))
    return GridWorkload(programs, launched.of, len(points), traced.scoreboard)


def known_paths(ranges: Sequence[BlockPaths], grid: Dim3) -> LaunchPaths | None:
    """Returns the paths of a launch if path extraction has exactly one for every warp, else None.

    ``ranges`` are those of :func:`~ptxwcet.flow.paths.extraction.extract_ranges`. Every execution
    takes such a path. Cost: linear in the paths and in the warps of the grid.
    """
    warps = sum(len(piece.warps) for piece in ranges[0].warps)
    # In an axis without influence, index 0 stands for all.
    whole = [all(w.last[axis] == 0 for w in ranges) for axis in range(3)]
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
    """Returns the path as visits and counted repeats only; None if anything is left open."""
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
            case PathRepeat(count, least, body, step=0) if count == least and not count.slopes:
                inside = _settled(body)
                if inside is None:
                    return None
                out.append(PathRepeat(count, least, inside))
            case _:
                return None
    return tuple(out)
