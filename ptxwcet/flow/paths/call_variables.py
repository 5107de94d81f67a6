"""``.param`` variables of a body as registers.

Arguments and results of functions pass through variables that belong to one thread::

    st.param.b32 [param0+0], %r1;        writes the register  param0+0:32
    ld.param.u32 %r2, [param0];          reads it             (the body of the function, inlined)

Each part of such a variable that is loaded somewhere, by offset and width, becomes a register of
the kernel; loads read theirs, and stores write all that they overlap. The instructions stay where
they are, so that paths are those of the kernel; only the analysis of values sees the registers, and
timing must not: on the machine of the model, memory makes no one wait for a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.values.accesses import Access, access_of, slot_name
from ptxwcet.ir.kernel import Instruction, Kernel, Space, SymbolRef
from ptxwcet.ir.verifier import rewritten
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class _Slot:
    """A part of a variable that is loaded as one element."""

    name: str
    start: int
    end: int


def followed(flow: ControlFlow) -> ControlFlow:
    """What analyses of values follow: the same, of the kernel with these registers."""
    return replace(flow, kernel=with_variable_registers(flow.kernel))


def with_variable_registers(kernel: Kernel) -> Kernel:
    """The kernel with registers for what is loaded from its ``.param`` variables.

    Itself if it has none, or if an access lies outside of its variable, which may change any other.
    A variable whose address is used in another way than by a load or store has no registers. Cost:
    linear in the kernel.
    """
    sizes = {v.name: v.size_bytes for v in kernel.variables if v.space == "param"}
    if not sizes:
        return kernel
    accesses: dict[int, tuple[str, Access]] = {}
    escaped: set[str] = set()
    for index, instruction in enumerate(kernel.instructions):
        named = sizes.keys() & set(instruction.names)
        access = _plain_access(instruction) if named else None
        if access is None or not isinstance(access.base, SymbolRef):
            escaped |= named
            continue
        variable = access.base.name
        first, behind = access.span
        if first < 0 or behind > sizes[variable]:
            return kernel
        accesses[index] = variable, access
    kept = {i: row for i, row in accesses.items() if row[0] not in escaped}
    return rewritten(_rewritten(kernel, kept)) if kept else kernel


def _plain_access(instruction: Instruction) -> Access | None:
    """The access, if the variable that the instruction names is its address and nothing else."""
    access = access_of(instruction)
    if access is None or access.space is not Space.PARAM:
        return None
    symbols = [one for one in access.elements if isinstance(one, SymbolRef)]
    return None if symbols else access


def _is_load(instruction: Instruction) -> bool:
    return instruction.opcode is not None and instruction.opcode.name == "ld"


def _rewritten(kernel: Kernel, accesses: Mapping[int, tuple[str, Access]]) -> Kernel:
    slots: dict[str, dict[str, _Slot]] = {}
    registers = dict(kernel.registers)
    for index, (variable, access) in accesses.items():
        if _is_load(kernel.instructions[index]):
            for slot in _slots(variable, access):
                slots.setdefault(variable, {})[slot.name] = slot
                registers[slot.name] = f"b{access.bits}"
    instructions = list(kernel.instructions)
    for index, (variable, access) in accesses.items():
        form = instructions[index].form
        if _is_load(instructions[index]):
            reads = tuple(slot.name for slot in _slots(variable, access))
            form = replace(form, implicit_reads=(*form.implicit_reads, *reads))
        else:
            first, behind = access.span
            writes = tuple(
                slot.name
                for slot in slots.get(variable, {}).values()
                if slot.start < behind and first < slot.end
            )
            form = replace(form, implicit_writes=(*form.implicit_writes, *writes))
        instructions[index] = instructions[index]._replace(form=form)
    return replace(kernel, instructions=tuple(instructions), registers=registers)


def _slots(variable: str, access: Access) -> Iterator[_Slot]:
    size = access.bits // 8
    for offset, _ in access.places():
        yield _Slot(slot_name(variable, offset, access.bits), offset, offset + size)
