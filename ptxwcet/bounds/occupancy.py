"""Computes the resident blocks of a launch on an SM, the limiting resources, and the waves.

The rules are those of the CUDA toolkit's occupancy calculator: warps and blocks are counted,
registers are allocated to warps within one part of the register file, shared memory to blocks, each
in whole units (docs/guide/choose.md). The figures are the machine file's.

PTX does not state the registers of a thread. If they are unknown, an SM holds at most as many
blocks as its other resources allow, and at least as many as if a thread had the most registers that
the machine (or ``.maxnreg``) allows: a bound of the launch must hold for each number between. Nor
does PTX state the order and the spacing of its shared variables.

Waves are counted by hand in Betts and Donaldson (ECRTS 2013, section VI-D): blocks are distributed
evenly to the SMs, and an SM begins its next wave when the last one has ended. Their example: 1024
blocks, 8 resident on each of 14 SMs, 10 waves (their Table II was made with 6 resident, which are
13: docs/methods/hybrid.md). Real dispatch is eager, so that waves overlap: this is the number of
rounds, not a statement about times.
"""

from __future__ import annotations

from ptxwcet.bounds.wishes import GridWishes, Spills
from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.ir.kernel import Kernel, Module, registers_at_entry
from ptxwcet.machine.model import Machine, OccupancyRules
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class BlockResources:
    """The resources that one block requires. ``registers_per_thread`` is None if unknown.

    ``registers_source`` names their source. ``shared_bytes``: static and dynamic together.
    """

    threads: int
    shared_bytes: int
    registers_per_thread: int | None = None
    registers_source: str = ""


@dataclass(frozen=True, slots=True)
class OccupancyLimit:
    """The most blocks of an SM by one resource; None if the resource sets no limit."""

    resource: str
    blocks: int | None


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The blocks of a launch that one SM holds at a time: the least of the limits."""

    resident_blocks: int
    warps_per_block: int
    limits: tuple[OccupancyLimit, ...]
    assumptions: tuple[Assumption, ...] = ()

    @property
    def resident_warps(self) -> int:
        """The warps that one SM holds at a time."""
        return self.resident_blocks * self.warps_per_block

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that would not suffice for a further block."""
        return tuple(own.resource for own in self.limits if own.blocks == self.resident_blocks)


def compute_occupancy(resources: BlockResources, machine: Machine) -> Occupancy:
    """Returns the number of blocks with these resources that one SM of the machine holds.

    Raises PtxwcetError: PW315 (the machine file has no table of occupancy), PW316 (an SM cannot
    hold a single block). Cost: constant.
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
    short = [limit.resource for limit in by_resource if limit.blocks == 0]
    if resources.threads > limits.threads_per_block:
        short.append(f"threads (at most {limits.threads_per_block} a block)")
    if resources.shared_bytes > limits.shared_bytes_per_block:
        short = [name for name in short if name != "shared memory"]
        short.append(f"shared memory (at most {limits.shared_bytes_per_block:,} bytes a block)")
    if short:
        raise _does_not_fit(resources, machine, short)
    resident = min(limit.blocks for limit in by_resource if limit.blocks is not None)
    return Occupancy(resident, warps, by_resource, _assumptions(resources))


def missing_rules(machine: Machine) -> PtxwcetError:
    """Returns PW315: the number of blocks that the machine runs at once is unknown."""
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
    """Returns the limit by registers, in whole units per warp, each from one register file part.

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
    asked = f"{resources.threads} threads, {resources.shared_bytes:,} bytes of shared memory"
    if resources.registers_per_thread:
        asked += f", {resources.registers_per_thread} registers a thread"
    return PtxwcetError(
        Diagnostic(
            "PW316",
            f"an SM of {machine.name} cannot hold one block of this launch: {', '.join(short)}",
            notes=(f"the block asks for {asked}",),
            help=_MORE_SHARED
            if resources.shared_bytes > machine.limits.shared_bytes_per_block
            else "launch smaller blocks, or choose another machine",
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
    return (assumed("registers-per-thread", text, source),)


@dataclass(frozen=True, slots=True)
class WaveSchedule:
    """A launch's waves: ``waves`` (Omega) of at most ``warps_per_wave`` warps (phi) on each SM."""

    blocks: int
    sms: int
    resident_blocks: int
    warps_per_block: int

    @property
    def waves(self) -> int:
        """The number of rounds until all blocks have run."""
        return -(-self.blocks // (self.sms * self.resident_blocks))

    @property
    def blocks_per_wave(self) -> int:
        """The most blocks that one SM runs in a wave."""
        return min(self.resident_blocks, -(-self.blocks // self.sms))

    @property
    def warps_per_wave(self) -> int:
        """The most warps that one SM runs in a wave."""
        return self.blocks_per_wave * self.warps_per_block


def schedule_waves(blocks: int, sms: int, occupancy: Occupancy) -> WaveSchedule:
    """Returns the waves of a grid with this many blocks. Cost: constant."""
    return WaveSchedule(blocks, sms, occupancy.resident_blocks, occupancy.warps_per_block)


_MORE_SHARED = (
    "let the launch ask for less shared memory; if the host allows its kernel more "
    "(cudaFuncAttributeMaxDynamicSharedMemorySize), take a machine file that says so: "
    "shared_bytes_per_block in [limits]"
)
_OPTION = "--resident-blocks"
_SAYING_REGISTERS = "--registers"
_SAYING_SHARED = "--dynamic-shared"
_MOST_STATIC_SHARED = 48 << 10
_LEAST_BEFORE_DYNAMIC = 16
"""The unit of static shared memory in a module that has dynamic shared memory, too."""


@dataclass(frozen=True, slots=True)
class LaunchedBlock:
    """The properties of a block that determine residency; unknown ones are None.

    ``static_shared_bytes``: its variables, at least and at most. ``names_dynamic``: it has shared
    memory whose size the launch sets. ``said_by``: the source of the registers. ``arrays``: names
    and bytes of the launch's arrays in persisting L2. ``spills``: of a thread, if known.
    """

    kernel: Kernel
    threads: int
    static_shared_bytes: tuple[int, int]
    names_dynamic: bool
    dynamic_shared_bytes: int | None = None
    registers: int | None = None
    said_by: str = ""
    arrays: tuple[tuple[str, int], ...] = ()
    spills: Spills | None = None

    @property
    def may_use_shared(self) -> bool:
        """Whether it may have shared memory, of its variables or of the launch."""
        return (
            self.static_shared_bytes[1] > 0 or self.names_dynamic or bool(self.dynamic_shared_bytes)
        )


@dataclass(frozen=True, slots=True)
class Residency:
    """The residency of a launch: an SM holds ``least`` to ``most`` of its blocks at a time.

    ``limited_by`` are the resources that set ``most``; ``open`` names the options that would
    determine the number, empty if it is known. A block has ``warps_per_block``, and an SM holds
    ``warps_per_sm`` at most, of any launch.
    """

    least: int
    most: int
    limited_by: tuple[str, ...]
    open: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    warps_per_block: int
    warps_per_sm: int

    def percent(self, blocks: int) -> float:
        """Returns the occupancy with this many blocks: the share of an SM's warps."""
        return round(100 * blocks * self.warps_per_block / self.warps_per_sm, 2)

    @property
    def least_percent(self) -> float:
        """The occupancy in per cent with the least number of blocks."""
        return self.percent(self.least)

    @property
    def most_percent(self) -> float:
        """The occupancy in per cent with the most blocks, as in the toolkit's calculator."""
        return self.percent(self.most)


def find_residency(block: LaunchedBlock, machine: Machine, wishes: GridWishes) -> Residency:
    """Returns the residency of a launch: all numbers of blocks that the facts permit.

    Raises PtxwcetError: PW315 (the machine has no table of occupancy), PW316 (an SM cannot hold one
    block), PW426 (registers above ``.maxnreg``). Cost: constant.
    """
    most = _occupancy(block, machine, block.registers, block.static_shared_bytes[0])
    if wishes.resident_blocks is not None:
        return _stated(wishes.resident_blocks, most, machine)
    limit = most_registers(block.kernel)
    if block.registers is not None and limit is not None and block.registers > limit:
        raise PtxwcetError(
            Diagnostic(
                "PW426",
                f"{block.registers} registers a thread ({block.said_by}) contradict .maxnreg "
                f"{limit} of kernel {block.kernel.readable}",
                block.kernel.span,
                help="say what ptxas -v prints for this PTX",
            )
        )
    assumptions, unknown = [], []
    registers = block.registers
    if registers is not None:
        text = f"a thread uses {registers} registers"
        assumptions.append(assumed("registers-per-thread", text, block.said_by))
    else:
        assert machine.occupancy is not None, "an occupancy was computed"
        highest = machine.occupancy.registers_per_thread.value
        registers = min(highest, limit or highest)
        unknown.append(_SAYING_REGISTERS)
    least = _least(block, machine, registers)
    if block.dynamic_shared_bytes is None and block.names_dynamic:
        least = 1
        unknown.append(_SAYING_SHARED)
    elif block.dynamic_shared_bytes is None:
        text = "the launch asks for no shared memory beside the kernel's variables"
        assumptions.append(assumed("no-dynamic-shared-memory", text, f"no {_SAYING_SHARED}"))
    is_open = least < most.resident_blocks
    return Residency(
        least,
        most.resident_blocks,
        most.limited_by,
        tuple(unknown or [_OPTION]) if is_open else (),
        tuple(assumptions),
        most.warps_per_block,
        machine.limits.threads_per_sm // machine.warp_size,
    )


def static_shared_bytes(kernel: Kernel, module: Module) -> tuple[int, int]:
    """Returns the shared memory of a kernel's variables in bytes: at least, at most.

    The least is the size of the variables that it names. Its own unnamed variables may be allocated
    too, each with padding up to the strictest alignment of any variable that it can see; a variable
    of dynamic size requires 16 bytes or more, named or not. Calls must have been inlined. Cost:
    linear in the kernel.
    """
    own = {v.name for v in kernel.variables}
    if kernel.code is not None:  # the block's whole shared memory, whatever its names
        whole = sum(v.size_bytes for v in kernel.variables if v.space == "shared")
        return whole, whole
    named = {name for i in kernel.instructions for name in i.names}
    outer = [v for v in module.variables if v.name not in own]
    seen = [v for v in (*outer, *kernel.variables) if v.space == "shared"]
    unit = max((v.alignment for v in seen), default=1)
    if not all(v.size_bytes for v in seen):
        unit = max(unit, _LEAST_BEFORE_DYNAMIC)
    kept = [v.size_bytes for v in seen if v.name in named | own]
    least = sum(v.size_bytes for v in seen if v.name in named)
    return least, sum(-(-size // unit) * unit for size in kept)


def require_static_shared(kernel: Kernel, module: Module) -> None:
    """Raises PtxwcetError (PW316) for variables in shared memory that no launch can have.

    ptxas refuses kernels with more than 48 KiB of them, for every architecture; memory allocated at
    the launch may be larger. Calls must have been inlined.
    """
    least, _ = static_shared_bytes(kernel, module)
    if least > _MOST_STATIC_SHARED:
        raise PtxwcetError(
            Diagnostic(
                "PW316",
                f"the variables of kernel {kernel.readable} in shared memory take {least:,} bytes, "
                f"more than the {_MOST_STATIC_SHARED:,} that ptxas allows any kernel",
                kernel.span,
                help="use smaller arrays, or shared memory whose size the launch sets (extern)",
            )
        )


def stated_registers(
    kernel: Kernel, wishes: GridWishes, written: int | None, place: str
) -> tuple[int | None, str]:
    """Returns a thread's registers and their source: code, user, or launch file at ``place``.

    Raises PtxwcetError (PW426) if they contradict each other.
    """
    given = wishes.registers
    if given is not None and written is not None and given != written:
        raise PtxwcetError(
            Diagnostic(
                "PW426",
                f"{wishes.registers_source} {given} contradicts {place}, which says {written}",
                help="leave one of them out, or let both say the same",
            )
        )
    stated, said_by = (written, place) if given is None else (given, wishes.registers_source)
    if kernel.code is None:
        exact = registers_at_entry(kernel)
        if exact is None or stated == exact:
            return stated, said_by
        if stated is None:
            return exact, ".maxnreg, to which ptxas keeps where setmaxnreg changes it"
        message = (
            f"{stated} registers a thread ({said_by}) contradict .maxnreg of kernel "
            f"{kernel.readable}: with setmaxnreg each thread starts with {exact} of them"
        )
        raise PtxwcetError(Diagnostic("PW426", message, kernel.span, help="leave it out"))
    counted = kernel.code.registers
    if stated is not None and stated != counted:
        message = f"{said_by} says {stated} registers a thread, the machine code has {counted}"
        raise PtxwcetError(Diagnostic("PW426", message, help="leave it out: the file is right"))
    return counted, "the machine code"


def _stated(blocks: int, most: Occupancy, machine: Machine) -> Residency:
    """Returns the stated residency. Raises PtxwcetError (PW316) if an SM cannot hold it."""
    if blocks > most.resident_blocks:
        raise PtxwcetError(
            Diagnostic(
                "PW316",
                f"an SM holds at most {most.resident_blocks} blocks of this launch "
                f"({', '.join(most.limited_by)}), {_OPTION} says {blocks}",
                help=f"leave {_OPTION} out: then it is computed",
            )
        )
    text = f"an SM holds {blocks} blocks of this launch at a time"
    rests_on = (assumed("stated-residency", text, _OPTION),)
    warps = most.warps_per_block, machine.limits.threads_per_sm // machine.warp_size
    return Residency(blocks, blocks, (_OPTION,), (), rests_on, *warps)


def _least(block: LaunchedBlock, machine: Machine, registers: int) -> int:
    """Returns the resident blocks of an SM for threads with this many registers; 1 if none fits."""
    try:
        return _occupancy(block, machine, registers, block.static_shared_bytes[1]).resident_blocks
    except PtxwcetError:
        return 1  # The launch happens, so they have fewer registers, or less shared memory.


def _occupancy(
    block: LaunchedBlock, machine: Machine, registers: int | None, static: int
) -> Occupancy:
    shared = static + (block.dynamic_shared_bytes or 0)
    resources = BlockResources(block.threads, shared, registers, block.said_by)
    return compute_occupancy(resources, machine)


def most_registers(kernel: Kernel) -> int | None:
    """Returns the most registers of a thread by ``.maxnreg``."""
    limits = (d.values[0] for d in kernel.performance if d.keyword == ".maxnreg")
    return next(limits, None)


def assumed(key: str, text: str, source: str) -> Assumption:
    """Returns an assumption that is stated, and not proved."""
    return Assumption(key, text, AssumptionState.ASSUMED, source)
