"""The control slice: the registers that can influence which path is taken.

Backward closure from the guards of branches, exits, barriers and calls over the instructions that
define them; most loads and other opaque operations end it (their results are unknown whatever their
operands). Flow-insensitive: a register is in the slice everywhere or nowhere. Cost: linear in the
kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from ptxwcet.flow.values.float_transfer import float_operation, takes_either
from ptxwcet.flow.values.transfer import reads_matter
from ptxwcet.ir.kernel import Instruction, Kernel, Register
from ptxwcet.ir.op_classes import COUNTING, ControlEffect


def control_slice(kernel: Kernel) -> frozenset[str]:
    """Unique names of the registers whose values decide control flow."""
    definitions: dict[str, list[Instruction]] = defaultdict(list)
    wanted: list[str] = []
    for instruction in kernel.instructions:
        for name in instruction.writes:
            definitions[name].append(instruction)
        if instruction.control is not ControlEffect.NONE:
            wanted += _control_reads(instruction)
        elif instruction.op_class in COUNTING:
            # here: few kernels count at mbarriers
            from ptxwcet.ir.mbarriers import counting_reads

            wanted += counting_reads(instruction)
    deciders: set[str] = set()
    floats = _Floats(kernel, definitions)
    while wanted:
        name = wanted.pop()
        if name in deciders:
            continue
        deciders.add(name)
        for definition in definitions[name]:
            guard = definition.guard
            if guard is not None:
                wanted.append(guard.register)
            if reads_matter(definition, kernel.registers) or floats.matters(definition):
                wanted += definition.reads
    return frozenset(deciders)


class _Floats:
    """Which operations of floating point may have results that are known, by what they read."""

    def __init__(self, kernel: Kernel, definitions: Mapping[str, list[Instruction]]) -> None:
        self._kernel = kernel
        self._definitions = definitions

    def matters(self, instruction: Instruction) -> bool:
        """Whether the operands of an operation need be tracked."""
        operation = float_operation(instruction)
        if operation is None:
            return False
        enough = any if takes_either(operation) else all
        sources = instruction.operands[1:]
        return enough(not isinstance(o, Register) or o.name in self._followed for o in sources)

    @cached_property
    def _followed(self) -> Collection[str]:
        """Registers that something else than an operation on unknown numbers may write."""
        self.__dict__["_followed"] = found = set[str]()
        open_ones = []
        for name, writers in self._definitions.items():
            for one in writers:
                if float_operation(one) is not None:
                    open_ones.append((name, one))
                elif reads_matter(one, self._kernel.registers):
                    found.add(name)
        changed = True
        while changed:
            before = len(found)
            found.update(name for name, one in open_ones if self.matters(one))
            changed = len(found) > before
        return found


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

    Of a word of an aggregate it is the aggregate that is named.

    Cost: linear in the kernel, constant without names.
    """
    if not names:
        return ()
    decisive = control_slice(kernel)
    named: dict[str, None] = {}
    for instruction in kernel.instructions:
        if decisive.intersection(instruction.writes):
            held = instruction.names
            named.update(dict.fromkeys(one for one in names if one.partition("+")[0] in held))
    return tuple(named)


def _control_reads(instruction: Instruction) -> list[str]:
    guard = instruction.guard
    names = [] if guard is None else [guard.register]
    if instruction.control is not ControlEffect.CALL:
        names += [o.name for o in instruction.operands if isinstance(o, Register)]
    return names
