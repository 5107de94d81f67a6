"""How many blocks of a launch an SM may hold, as far as it is known: from, to, and why.

Registers of a thread are no part of PTX. Where nobody says them, an SM holds at most what its other
resources allow, and at least what it would hold if a thread had as many registers as the machine
(or ``.maxnreg``) lets it have: a bound of the launch must hold for each number between. Nor does
PTX say in which order, and with how much space between them, its shared variables lie.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.compose.occupancy import BlockResources, Occupancy, compute_occupancy
from ptxwcet.compose.wishes import GridWishes
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.model import Machine
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_OPTION = "--resident-blocks"
_SAYING_REGISTERS = "--registers"
_MOST_STATIC_SHARED = 48 << 10
_LEAST_BEFORE_DYNAMIC = 16
"""Static shared memory is rounded up to a multiple of this where the module has dynamic one."""


@dataclass(frozen=True, slots=True)
class LaunchedBlock:
    """A block as far as residency depends on it; what nobody says is None.

    ``static_shared_bytes``: its variables, at least and at most. ``names_dynamic``: it has shared
    memory whose size the launch sets. ``said_by``: who says the registers. ``arrays``: names and
    bytes of those that the launch sets aside in the L2 cache.
    """

    kernel: Kernel
    threads: int
    static_shared_bytes: tuple[int, int]
    names_dynamic: bool
    dynamic_shared_bytes: int | None = None
    registers: int | None = None
    said_by: str = ""
    arrays: tuple[tuple[str, int], ...] = ()

    @property
    def most_registers(self) -> int | None:
        """What ``.maxnreg`` says that a thread has at most."""
        for directive in self.kernel.performance:
            if directive.keyword == ".maxnreg":
                return directive.values[0]
        return None


@dataclass(frozen=True, slots=True)
class Residency:
    """An SM holds ``least`` to ``most`` blocks of the launch at a time.

    ``limited_by`` are the resources that set ``most``; ``open`` says what would tell the number, by
    what has to be said, empty if it is known.
    """

    least: int
    most: int
    limited_by: tuple[str, ...]
    open: tuple[str, ...]
    assumptions: tuple[Assumption, ...]


def find_residency(block: LaunchedBlock, machine: Machine, wishes: GridWishes) -> Residency:
    """The residency of a launch, whose numbers of blocks are all possible for what is not said.

    Raises PtxwcetError: PW315 (the machine has no table of occupancy), PW316 (an SM cannot hold one
    block), PW426 (registers above ``.maxnreg``). Cost: constant.
    """
    most = _occupancy(block, machine, block.registers, block.static_shared_bytes[0])
    if wishes.resident_blocks is not None:
        return _stated(wishes.resident_blocks, most)
    limit = block.most_registers
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
        assumptions.append(_assumed("registers-per-thread", text, block.said_by))
    else:
        assert machine.occupancy is not None, "an occupancy was computed"
        highest = machine.occupancy.registers_per_thread.value
        registers = min(highest, limit or highest)
        unknown.append(_SAYING_REGISTERS)
    least = _least(block, machine, registers)
    if block.dynamic_shared_bytes is None and block.names_dynamic:
        least = 1
        unknown.append("--launch")
    elif block.dynamic_shared_bytes is None:
        text = "the launch asks for no shared memory beside the kernel's variables"
        assumptions.append(_assumed("no-dynamic-shared-memory", text, "no --launch"))
    is_open = least < most.resident_blocks
    return Residency(
        least,
        most.resident_blocks,
        most.limited_by,
        tuple(unknown or [_OPTION]) if is_open else (),
        tuple(assumptions),
    )


def static_shared_bytes(kernel: Kernel, module: Module) -> tuple[int, int]:
    """Shared memory of a kernel's variables in bytes: at least, at most.

    At least those that it names. Its own that it does not name may be there too, each with space
    behind it up to the strictest alignment of any variable that it can see; one of dynamic size
    asks for 16 bytes or more, named or not. Calls must have been inlined. Cost: linear in the
    kernel.
    """
    named = {name for one in kernel.instructions for name in one.names}
    own = {one.name for one in kernel.variables}
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


def stated_registers(wishes: GridWishes, written: int | None, place: str) -> tuple[int | None, str]:
    """Registers of a thread and who says them: the user, or a launch file at ``place``.

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
    if given is not None:
        return given, wishes.registers_source
    return written, place


def _stated(blocks: int, most: Occupancy) -> Residency:
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
    return Residency(blocks, blocks, (_OPTION,), (), (_assumed("stated-residency", text, _OPTION),))


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


def _assumed(key: str, text: str, source: str) -> Assumption:
    return Assumption(key, text, AssumptionState.ASSUMED, source)
