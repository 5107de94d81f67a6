"""Which instructions order the accesses of warps without a barrier of the whole block."""

from __future__ import annotations

from functools import lru_cache

from ptxwcet.ir.kernel import Instruction, Kernel
from ptxwcet.ir.op_classes import ControlEffect, OpClass, Space

_ORDERS = frozenset({"acquire", "release", "acq_rel"})
_STRONG = frozenset({"volatile", "relaxed", "mmio"})


def orders_through_memory(kernel: Kernel, instruction: Instruction) -> bool:
    """Whether it takes or hands over an order at an address that may be shared memory.

    Accesses that say so do; strong ones and atomic operations do in a kernel with fences, wherever
    these stand: an order too many, rather than a race that is none.
    """
    name = instruction.opcode.name if instruction.opcode else ""
    if name not in ("ld", "st", "atom", "red"):
        return False
    if instruction.space not in (Space.SHARED, Space.GENERIC):
        return False
    words = frozenset(instruction.modifiers)
    if words & _ORDERS:
        return True
    return (name in ("atom", "red") or bool(words & _STRONG)) and _has_fence(kernel)


@lru_cache(maxsize=8)
def _has_fence(kernel: Kernel) -> bool:
    return any(one.op_class is OpClass.FENCE for one in kernel.instructions)


def orders_some_warps(kernel: Kernel) -> bool:
    """Whether an instruction of the kernel orders some warps of a block, but not all."""
    return any(_orders_some(kernel, instruction) for instruction in kernel.instructions)


def _orders_some(kernel: Kernel, instruction: Instruction) -> bool:
    name = instruction.opcode.name if instruction.opcode else ""
    if instruction.control is ControlEffect.ARRIVE or name == "mbarrier.init":
        return True
    if instruction.control is ControlEffect.BARRIER:
        return len(instruction.operands) > 1 + name.endswith(".red") * 2
    return orders_through_memory(kernel, instruction)
