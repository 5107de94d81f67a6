"""What a module is apart from where it stands in a file: for comparing two parses."""

from __future__ import annotations

from typing import Any

from ptxwcet.ir.kernel import Instruction, Kernel, Module

Structure = tuple[Any, ...]


def structure(module: Module) -> Structure:
    """Everything but spans, as plain nested tuples: equal for equal programs. Cost: linear."""
    items = tuple(
        kernel_structure(item) if isinstance(item, Kernel) else item for item in module.items
    )
    header = (module.version, module.target, module.target_options, module.address_size)
    return (*header, items)


def kernel_structure(kernel: Kernel) -> Structure:
    """A kernel without its span, instructions by :func:`instruction_structure`."""
    return (
        (kernel.name, kernel.is_entry, kernel.linkage, kernel.has_body, kernel.attributes),
        (kernel.parameters, kernel.results, kernel.performance, kernel.variables),
        tuple(kernel.labels.items()),
        tuple(sorted(kernel.registers.items())),
        tuple(kernel.branch_tables.items()),
        kernel.body,
        tuple(instruction_structure(instruction) for instruction in kernel.instructions),
    )


def instruction_structure(instruction: Instruction) -> Structure:
    """Mnemonic, guard, operands, roles, targets and source line of an instruction."""
    return (
        instruction.mnemonic,
        instruction.guard,
        instruction.operands,
        instruction.reads,
        instruction.writes,
        instruction.targets,
        instruction.callee,
        instruction.location,
    )
