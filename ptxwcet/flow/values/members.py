"""Which lanes take part in an instruction by which the lanes of a warp look at one another.

PTX ISA, instructions with ``sync``: a lane waits until all members of its mask that have not ended
execute the same instruction with the same mask; what it gets is undefined if its own mask does not
name it. So a result is one of certain lanes only if every lane that may execute the instruction is
known to be a member: where a number names all of them, or where each has its mask from
``activemask``, which names the lane that executes it. Nothing is known of a mask that is data.

Masks of lanes are integers here: bit ``i`` is lane ``i``.
"""

from __future__ import annotations

from ptxwcet.flow.launch import WARP_SIZE, Launch
from ptxwcet.ir.kernel import Instruction, Kernel
from ptxwcet.ir.operation import operation_of


def name_all(members: int, lanes: int) -> bool:
    """Whether a mask of 32 bits, read with any sign, names all of these lanes."""
    return not lanes & ~members


def lanes_of_some(launch: Launch) -> int:
    """The lanes that at least one warp of a block has."""
    return (1 << min(launch.threads, WARP_SIZE)) - 1


def lanes_of_all(launch: Launch) -> int:
    """The lanes that every warp of a block has."""
    return (1 << (launch.threads % WARP_SIZE or WARP_SIZE)) - 1


def naming_themselves(kernel: Kernel) -> frozenset[str]:
    """Registers that hold in each lane a mask which names that lane, whenever they hold one: those
    that only ``activemask`` writes. Cost: linear in the kernel.
    """
    masks = {one.writes[0] for one in kernel.instructions if _is_activemask(one)}
    written_otherwise = {
        name for step in kernel.instructions if not _is_activemask(step) for name in step.writes
    }
    return frozenset(masks - written_otherwise)


def _is_activemask(instruction: Instruction) -> bool:
    return operation_of(instruction.form).name == "activemask"
