"""Verifies the IR: the invariants of every kernel that later stages rely on.

With PTXWCET_VERIFY in the environment it runs after lowering and after each pass that rewrites a
kernel (calls inlined, registers for ``.param`` variables); all tests set it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from ptxwcet.ir.kernel import (
    CARRY,
    Instruction,
    Kernel,
    LabelDefinition,
    ScopeBegin,
    ScopeEnd,
)
from ptxwcet.ir.op_classes import ControlEffect, Space
from ptxwcet.ir.operands import (
    Address,
    Bracket,
    Element,
    Operand,
    Register,
    SymbolRef,
    leaves,
)
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_CODE = "PW900"


def lowered(kernel: Kernel) -> Kernel:
    """Returns the kernel; with PTXWCET_VERIFY, raises PtxwcetError (PW900) if lowering broke it."""
    if os.environ.get("PTXWCET_VERIFY"):
        _require(verify_kernel(kernel))
    return kernel


def rewritten(kernel: Kernel) -> Kernel:
    """Returns the kernel; with PTXWCET_VERIFY, raises PtxwcetError (PW900) if a pass broke it."""
    if os.environ.get("PTXWCET_VERIFY"):
        _require(verify_rewritten(kernel))
    return kernel


def _require(faults: tuple[Diagnostic, ...]) -> None:
    if faults:
        raise PtxwcetError(faults)


def verify_rewritten(kernel: Kernel) -> tuple[Diagnostic, ...]:
    """Returns the violations of invariants 2 to 6 in a kernel that a pass has made from others.

    Its instructions keep their places in the text, which may be in functions, and it may have
    no body.
    """
    return tuple(fault for check in _ANYWHERE for fault in check(kernel))


def verify_kernel(kernel: Kernel) -> tuple[Diagnostic, ...]:
    """Returns the violations of the invariants; none for output of the parser unless it has a bug.

    1. Instruction extents are in the kernel's span, are not empty, and ascend without overlap;
       instructions of one statement have the same extent.
    2. Every label maps to an index from 0 to the number of instructions; the label definitions in
       the body are those labels, at these indices.
    3. Every register read, written or used as guard is declared; a guard is a predicate.
    4. Branch targets are labels of the kernel: exactly one for ``bra``, its table's for
       ``brx.idx``, none for anything else. Branch tables hold labels of the kernel.
    5. The registers read are in the guard, source operands, addresses and, where the opcode
       reads them, destinations; the registers written are in destination operands. Together
       they are exactly the registers that the operands name, the carry flag, and the registers
       for ``.param`` variables of an access.
    6. An opcode without a row has no op class, no memory space and no control effect; one with a
       row has an op class. A call has a callee or reads the register that holds it.
    7. Body items ascend in index, scopes are balanced, and inner scopes are numbered from 1 on in
       the order in which they open.

    Cost: linear in the number of operands.
    """
    checks = (_check_extents, _check_definitions, *_ANYWHERE, _check_body)
    return tuple(fault for check in checks for fault in check(kernel))


def _fault(message: str, instruction: Instruction | None, kernel: Kernel) -> Diagnostic:
    span = kernel.span if instruction is None else instruction.span
    return Diagnostic(_CODE, f"internal: {message}", span)


def _check_extents(kernel: Kernel) -> Iterator[Diagnostic]:
    previous, extent = kernel.span.start, (-1, -1)
    for instruction in kernel.instructions:
        least = extent[0] if extent == (instruction.start, instruction.end) else previous
        if not least <= instruction.start < instruction.end <= kernel.span.end:
            yield _fault("instruction out of place", instruction, kernel)
        previous, extent = instruction.end, (instruction.start, instruction.end)


def _check_labels(kernel: Kernel) -> Iterator[Diagnostic]:
    count = len(kernel.instructions)
    for label, index in kernel.labels.items():
        if not 0 <= index <= count:
            yield _fault(f"label {label} points outside the kernel", None, kernel)


def _check_definitions(kernel: Kernel) -> Iterator[Diagnostic]:
    defined = {
        item.unique: index for index, item in kernel.body if isinstance(item, LabelDefinition)
    }
    if defined != dict(kernel.labels):
        yield _fault("labels differ from the label definitions in the body", None, kernel)


def _check_registers(kernel: Kernel) -> Iterator[Diagnostic]:
    declared = kernel.registers
    for instruction in kernel.instructions:
        for name in (*instruction.reads, *instruction.writes):
            if name not in declared:
                yield _fault(f"register {name} is not declared", instruction, kernel)
        guard = instruction.guard
        if guard is not None and declared.get(guard.register) != "pred":
            yield _fault(f"guard {guard.register} is no predicate", instruction, kernel)


def _check_targets(kernel: Kernel) -> Iterator[Diagnostic]:
    for instruction in kernel.instructions:
        targets = instruction.targets
        if any(target not in kernel.labels for target in targets):
            yield _fault("branch to a label that does not exist", instruction, kernel)
        if instruction.control is ControlEffect.BRANCH:
            if len(targets) != 1:
                yield _fault("a branch has one target", instruction, kernel)
        elif instruction.control is ControlEffect.INDIRECT_BRANCH:
            table = instruction.operands[-1]
            expected = kernel.branch_tables.get(getattr(table, "name", ""))
            if targets != expected:
                yield _fault("targets differ from the branch table", instruction, kernel)
        elif targets:
            yield _fault("targets of an instruction that is no branch", instruction, kernel)
    for name, labels in kernel.branch_tables.items():
        if any(label not in kernel.labels for label in labels):
            yield _fault(f"table {name} holds a label that does not exist", None, kernel)


def _check_roles(kernel: Kernel) -> Iterator[Diagnostic]:
    for instruction in kernel.instructions:
        guard = instruction.guard
        named = set() if guard is None else {guard.register}
        in_addresses: set[str] = set(named)
        for operand in instruction.operands:
            named.update(registers_of(operand))
            if isinstance(operand, Address | Bracket | Element):
                in_addresses.update(registers_of(operand))
        reads, writes = set(instruction.reads), set(instruction.writes)
        form = instruction.form
        added = {CARRY}  # registers that instructions do not name
        if form.space is Space.PARAM:
            added |= {*form.implicit_reads, *form.implicit_writes} - named
        if (reads | writes) - added != named:
            yield _fault("registers read and written differ from the operands", instruction, kernel)
        if not in_addresses <= reads:
            yield _fault("a guard or address register is not read", instruction, kernel)
        if len(reads) != len(instruction.reads) or len(writes) != len(instruction.writes):
            yield _fault("a register is listed twice", instruction, kernel)


def registers_of(operand: Operand) -> Iterator[str]:
    """Yields the names of the registers in an operand; for vector registers, of their members."""
    return (leaf.name for leaf in leaves(operand) if isinstance(leaf, Register))


def _check_rows(kernel: Kernel) -> Iterator[Diagnostic]:
    for instruction in kernel.instructions:
        if instruction.is_known:
            if instruction.op_class is None:
                yield _fault("an opcode with a row has no op class", instruction, kernel)
        elif (
            instruction.op_class is not None
            or instruction.space is not Space.NONE
            or instruction.control is not ControlEffect.NONE
        ):
            yield _fault("an opcode without a row has effects", instruction, kernel)
        if (
            instruction.control is ControlEffect.CALL
            and instruction.callee is None
            and not any(isinstance(operand, Register) for operand in instruction.operands)
        ):
            yield _fault("a call of nothing", instruction, kernel)
        if instruction.control is ControlEffect.BRANCH and not isinstance(
            instruction.operands[0], SymbolRef
        ):
            yield _fault("a branch to something that is no label", instruction, kernel)


def _check_body(kernel: Kernel) -> Iterator[Diagnostic]:
    depth, opened, previous = 0, 0, 0
    for index, item in kernel.body:
        if index < previous or index > len(kernel.instructions):
            yield _fault("body items out of order", None, kernel)
        previous = index
        if isinstance(item, ScopeBegin):
            depth += 1
            opened += 1
            if item.number != opened:
                yield _fault(f"scope {item.number} opens as number {opened}", None, kernel)
        elif isinstance(item, ScopeEnd):
            depth -= 1
            if depth < 0:
                yield _fault("a scope ends that was not opened", None, kernel)
    if depth:
        yield _fault("a scope is not closed", None, kernel)


_ANYWHERE: tuple[Callable[[Kernel], Iterator[Diagnostic]], ...] = (
    _check_labels,
    _check_registers,
    _check_targets,
    _check_roles,
    _check_rows,
)
