"""How many blocks of a launch one SM holds at a time, what limits them, and in how many waves.

The rules are those of the CUDA toolkit's occupancy calculation: warps and blocks are counted,
registers are handed out to warps within one part of the register file, shared memory to blocks,
each in whole units (docs/guide/choose.md). The figures are the machine file's.

Registers of a thread are no part of PTX. Where nobody says them, an SM holds at most what its other
resources allow, and at least what it would hold if a thread had as many registers as the machine
(or ``.maxnreg``) lets it have: a bound of the launch must hold for each number between. Nor does
PTX say in which order, and with how much space between them, its shared variables lie.

Waves are the count that Betts and Donaldson make by hand (ECRTS 2013, section VI-D): blocks are
dealt out evenly to the SMs, and an SM begins its next wave when the last one has ended. There: 1024
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
    if resources.shared_bytes > limits.shared_bytes_per_block:
        short = [one for one in short if one != "shared memory"]
        short.append(f"shared memory (at most {limits.shared_bytes_per_block:,} bytes a block)")
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
    """``waves`` (Omega) of at most ``warps_per_wave`` warps (phi) on each SM."""

    blocks: int
    sms: int
    resident_blocks: int
    warps_per_block: int

    @property
    def waves(self) -> int:
        """Rounds until all blocks have run."""
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
    """The waves of a grid of so many blocks. Cost: constant."""
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
"""Static shared memory is rounded up to a multiple of this where the module has dynamic one."""


@dataclass(frozen=True, slots=True)
class LaunchedBlock:
    """A block as far as residency depends on it; what nobody says is None.

    ``static_shared_bytes``: its variables, at least and at most. ``names_dynamic``: it has shared
    memory whose size the launch sets. ``said_by``: who says the registers. ``arrays``: names and
    bytes of those that the launch sets aside in the L2 cache. ``spills``: of a thread, if known.
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
    """An SM holds ``least`` to ``most`` blocks of the launch at a time.

    ``limited_by`` are the resources that set ``most``; ``open`` says what would tell the number, by
    what has to be said, empty if it is known. A block has ``warps_per_block``, and an SM holds
    ``warps_per_sm`` at most, of whatever launch.
    """

    least: int
    most: int
    limited_by: tuple[str, ...]
    open: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    warps_per_block: int
    warps_per_sm: int

    def percent(self, blocks: int) -> float:
        """Occupancy with so many resident blocks: their warps, of those that an SM can hold."""
        return round(100 * blocks * self.warps_per_block / self.warps_per_sm, 2)

    @property
    def least_percent(self) -> float:
        """Occupancy in per cent with the least number of blocks."""
        return self.percent(self.least)

    @property
    def most_percent(self) -> float:
        """Occupancy in per cent with the most blocks: that of the toolkit's calculator."""
        return self.percent(self.most)


def find_residency(block: LaunchedBlock, machine: Machine, wishes: GridWishes) -> Residency:
    """The residency of a launch, whose numbers of blocks are all possible for what is not said.

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
    """Shared memory of a kernel's variables in bytes: at least, at most.

    At least those that it names. Its own that it does not name may be there too, each with space
    behind it up to the strictest alignment of any variable that it can see; one of dynamic size
    asks for 16 bytes or more, named or not. Calls must have been inlined. Cost: linear in the
    kernel.
    """
    own = {one.name for one in kernel.variables}
    if kernel.code is not None:  # all that the block has, however it is named
        whole = sum(one.size_bytes for one in kernel.variables if one.space == "shared")
        return whole, whole
    named = {name for one in kernel.instructions for name in one.names}
    outer = [one for one in module.variables if one.name not in own]
    seen = [one for one in (*outer, *kernel.variables) if one.space == "shared"]
    unit = max((one.alignment for one in seen), default=1)
    if not all(one.size_bytes for one in seen):
        unit = max(unit, _LEAST_BEFORE_DYNAMIC)
    kept = [one.size_bytes for one in seen if one.name in named | own]
    least = sum(one.size_bytes for one in seen if one.name in named)
    return least, sum(-(-size // unit) * unit for size in kept)


def require_static_shared(kernel: Kernel, module: Module) -> None:
    """Raises PtxwcetError (PW316) for variables in shared memory that no launch can have.

    ptxas refuses kernels with more than 48 KiB of them, for every architecture; what is allocated
    at the launch may be more. Calls must have been inlined.
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
    """Registers of a thread and who says them: machine code, the user, a launch file at ``place``.

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
    found = kernel.code.registers
    if stated is not None and stated != found:
        message = f"{said_by} says {stated} registers a thread, the machine code has {found}"
        raise PtxwcetError(Diagnostic("PW426", message, help="leave it out: the file is right"))
    return found, "the machine code"


def _stated(blocks: int, most: Occupancy, machine: Machine) -> Residency:
    """What the user says. Raises PtxwcetError (PW316) if an SM cannot hold so many."""
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
    """Blocks that an SM holds whose threads have so many registers; 1 if not even one."""
    try:
        return _occupancy(block, machine, registers, block.static_shared_bytes[1]).resident_blocks
    except PtxwcetError:
        return 1  # the launch happens, so they have fewer, or less shared memory


def _occupancy(
    block: LaunchedBlock, machine: Machine, registers: int | None, static: int
) -> Occupancy:
    shared = static + (block.dynamic_shared_bytes or 0)
    resources = BlockResources(block.threads, shared, registers, block.said_by)
    return compute_occupancy(resources, machine)


def most_registers(kernel: Kernel) -> int | None:
    """What ``.maxnreg`` says that a thread has at most."""
    said = (one.values[0] for one in kernel.performance if one.keyword == ".maxnreg")
    return next(said, None)


def assumed(key: str, text: str, source: str) -> Assumption:
    """What somebody says, and nobody has proved."""
    return Assumption(key, text, AssumptionState.ASSUMED, source)
