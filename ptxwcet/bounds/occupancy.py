"""How many blocks of a launch one SM holds at a time, and what limits them.

The rules are those of the CUDA toolkit's occupancy calculation: warps and blocks are counted,
registers are handed out to warps within one part of the register file, shared memory to blocks,
each in whole units (docs/tracing.md). The figures are the machine file's.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.machine.model import Machine, OccupancyRules
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


@dataclass(frozen=True, slots=True)
class BlockResources:
    """What a block asks for. ``registers_per_thread`` is None if nobody says it.

    ``registers_source`` says who does. ``shared_bytes``: static and dynamic together.
    """

    threads: int
    shared_bytes: int
    registers_per_thread: int | None = None
    registers_source: str = ""


@dataclass(frozen=True, slots=True)
class OccupancyLimit:
    """Blocks that an SM holds as far as one resource goes; None: it sets no limit."""

    resource: str
    blocks: int | None


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks of a launch that one SM holds at a time: the least of the limits."""

    resident_blocks: int
    warps_per_block: int
    limits: tuple[OccupancyLimit, ...]
    assumptions: tuple[Assumption, ...] = ()

    @property
    def resident_warps(self) -> int:
        """Warps that one SM holds at a time."""
        return self.resident_blocks * self.warps_per_block

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources of which no further block would find enough."""
        return tuple(row.resource for row in self.limits if row.blocks == self.resident_blocks)


def compute_occupancy(resources: BlockResources, machine: Machine) -> Occupancy:
    """Blocks with these resources that one SM of the machine holds.

    Raises PtxwcetError: PW315 (the machine file has no table of occupancy), PW316 (an SM cannot
    hold even one). Cost: constant.
    """
    rules = machine.occupancy
    if rules is None:
        raise missing_rules(machine)
    limits = machine.limits
    warps = -(-resources.threads // machine.warp_size)
    by_resource = (
        OccupancyLimit("blocks", limits.blocks_per_sm),
        OccupancyLimit("warps", limits.threads_per_sm // machine.warp_size // warps),
        OccupancyLimit("registers", _blocks_by_registers(resources, warps, machine, rules)),
        OccupancyLimit("shared memory", _blocks_by_shared(resources, machine, rules)),
    )
    short = [row.resource for row in by_resource if row.blocks == 0]
    if resources.threads > limits.threads_per_block:
        short.append(f"threads (at most {limits.threads_per_block} a block)")
    if short:
        raise _does_not_fit(resources, machine, short)
    resident = min(row.blocks for row in by_resource if row.blocks is not None)
    return Occupancy(resident, warps, by_resource, _assumptions(resources))


def missing_rules(machine: Machine) -> PtxwcetError:
    """PW315: nothing is known of how many blocks the machine runs at once."""
    return PtxwcetError(
        Diagnostic(
            "PW315",
            f"machine {machine.name} does not say how many blocks run at once",
            help="add a table [occupancy] to its file (docs/machine-files.md), or give --sms and "
            "--resident-blocks",
        )
    )


def _blocks_by_registers(
    resources: BlockResources, warps: int, machine: Machine, rules: OccupancyRules
) -> int | None:
    """Warps get registers in whole units, all of a warp's from one part of the register file.

    A block is launched only if its warps, rounded up to a multiple of the parts, stay within the
    registers of a block.
    """
    registers = resources.registers_per_thread
    if not registers:
        return None
    parts = rules.register_partitions.value
    each = _rounded_up(registers * machine.warp_size, rules.registers_per_warp_unit.value)
    if registers > rules.registers_per_thread.value:
        return 0
    if each * _rounded_up(warps, parts) > rules.registers_per_block.value:
        return 0
    return machine.limits.registers_per_sm // parts // each * parts // warps


def _blocks_by_shared(
    resources: BlockResources, machine: Machine, rules: OccupancyRules
) -> int | None:
    wanted = resources.shared_bytes + rules.shared_bytes_reserved_per_block.value
    if not wanted:
        return None
    given = _rounded_up(wanted, rules.shared_bytes_unit.value)
    return machine.limits.shared_bytes_per_sm // given


def _rounded_up(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit


def _does_not_fit(resources: BlockResources, machine: Machine, short: list[str]) -> PtxwcetError:
    asked = f"{resources.threads} threads, {resources.shared_bytes} bytes of shared memory"
    if resources.registers_per_thread:
        asked += f", {resources.registers_per_thread} registers a thread"
    return PtxwcetError(
        Diagnostic(
            "PW316",
            f"an SM of {machine.name} cannot hold one block of this launch: {', '.join(short)}",
            notes=(f"the block asks for {asked}",),
            help="launch smaller blocks, or choose another machine",
        )
    )


def _assumptions(resources: BlockResources) -> tuple[Assumption, ...]:
    if resources.registers_per_thread is not None:
        text = f"a thread uses {resources.registers_per_thread} registers"
        source = resources.registers_source
    else:
        text = (
            "registers do not limit how many blocks an SM holds: PTX does not say how many "
            "a thread uses (ptxas -v does; give --registers)"
        )
        source = "no --registers"
    return (Assumption("registers-per-thread", text, AssumptionState.ASSUMED, source),)
