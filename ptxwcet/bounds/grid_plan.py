"""The shape of a launch on a GPU: SMs, resident blocks, waves, and what all that rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptxwcet.bounds.occupancy import (
    BlockResources,
    Occupancy,
    OccupancyLimit,
    compute_occupancy,
    missing_rules,
)
from ptxwcet.bounds.residency import stated_registers
from ptxwcet.bounds.waves import WaveSchedule, schedule_waves
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.emulator.launch_model import LaunchFile
from ptxwcet.emulator.layout import shared_bytes
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.model import Machine
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.grid import GridShape


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
    assumed = [
        *assumptions,
        _assumed("sms", f"the GPU has {sms} SM{'s' if sms > 1 else ''}", source),
    ]
    gap = wishes.launch_gap_cycles
    if gap:
        text = f"between the starts of two blocks lie at least {gap} cycles"
        assumed.append(_assumed("launch-gap", text, "--launch-gap"))
    shape = GridShape(sms, occupancy.resident_blocks, SmConfiguration.of(machine), gap)
    waves = schedule_waves(math.prod(launch.grid), sms, occupancy)
    return GridPlan(shape, occupancy, waves, tuple(assumed))


def _occupancy(
    launch: LaunchFile, module: Module, machine: Machine, wishes: GridWishes
) -> tuple[Occupancy, tuple[Assumption, ...]]:
    threads = math.prod(launch.block)
    if wishes.resident_blocks is not None:
        given = wishes.resident_blocks
        warps = -(-threads // machine.warp_size)
        occupancy = Occupancy(given, warps, (OccupancyLimit("--resident-blocks", given),))
        text = f"an SM holds {given} blocks of this launch at a time"
        return occupancy, (_assumed("resident-blocks", text, "--resident-blocks"),)
    written = launch.registers_per_thread, launch.place("registers_per_thread")
    registers, source = stated_registers(wishes, *written)
    if registers is None:
        registers, source = _most_registers(launch)
    kernel = inline_calls(launch.kernel, module)
    shared = shared_bytes(kernel, module, launch.dynamic_shared_bytes)
    occupancy = compute_occupancy(BlockResources(threads, shared, registers, source), machine)
    return occupancy, occupancy.assumptions


def _most_registers(launch: LaunchFile) -> tuple[int | None, str]:
    """What ``.maxnreg`` says: for one run, that a thread has so many is as good as any number."""
    for directive in launch.kernel.performance:
        if directive.keyword == ".maxnreg":
            return directive.values[0], f".maxnreg of kernel {launch.kernel.readable}"
    return None, ""


def _assumed(key: str, text: str, source: str) -> Assumption:
    return Assumption(key, text, AssumptionState.ASSUMED, source)
