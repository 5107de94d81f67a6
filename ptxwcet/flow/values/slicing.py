"""The control slice: the registers that can influence which path is taken.

Backward closure from the guards of branches, exits, barriers and calls over the instructions that
define them; most loads and other opaque operations end it (their results are unknown whatever their
operands). Flow-insensitive: a register is in the slice everywhere or nowhere. Cost: linear in the
kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from ptxwcet.flow.values.transfer import reads_matter
from ptxwcet.ir.kernel import Instruction, Kernel, Register
from ptxwcet.ir.op_classes import ControlEffect


def control_slice(kernel: Kernel) -> frozenset[str]:
    """Unique names of the registers whose values decide control flow."""
    definitions: dict[str, list[Instruction]] = defaultdict(list)
    wanted: list[str] = []
    for instruction in kernel.instructions:
        for name in instruction.writes:
            definitions[name].append(instruction)
        if instruction.control is not ControlEffect.NONE:
            wanted += _control_reads(instruction)
    deciders: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in deciders:
            continue
        deciders.add(name)
        for definition in definitions[name]:
            guard = definition.guard
            if guard is not None:
                wanted.append(guard.register)
            if reads_matter(definition, kernel.registers):
                wanted += definition.reads
    return frozenset(deciders)


def deciding(kernel: Kernel, registers: Iterable[str]) -> list[int]:
    """The instructions, in order, on which registers depend by what is read, loads included.

    Cost: linear in the kernel.
    """
    writers: dict[str, list[int]] = defaultdict(list)
    for index, instruction in enumerate(kernel.instructions):
        for name in instruction.writes:
            writers[name].append(index)
    wanted = list(registers)
    indices: set[int] = set()
    while wanted:
        for index in writers.pop(wanted.pop(), ()):
            if index not in indices:
                indices.add(index)
                wanted += kernel.instructions[index].reads
    return sorted(indices)


def decisive_variables(kernel: Kernel, names: Collection[str]) -> tuple[str, ...]:
    """Those of the variables or parameters that instructions of the control slice name, in order.

    Cost: linear in the kernel, constant without names.
    """
    if not names:
        return ()
    decisive = control_slice(kernel)
    named: dict[str, None] = {}
    for instruction in kernel.instructions:
        if decisive.intersection(instruction.writes):
            named.update(dict.fromkeys(name for name in instruction.names if name in names))
    return tuple(named)


def _control_reads(instruction: Instruction) -> list[str]:
    guard = instruction.guard
    names = [] if guard is None else [guard.register]
    if instruction.control is not ControlEffect.CALL:
        names += [o.name for o in instruction.operands if isinstance(o, Register)]
    return names
