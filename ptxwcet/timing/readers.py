"""Determines the consumers of a kernel's results, and the latencies that result from them.

On silicon a result may be ready for one consumer before another: a predicate for an operand before
the guard of a branch. Here an instruction nevertheless has a single latency, the largest that any
reader of its registers needs, wherever in the kernel that is and whatever paths lead there: then no
reader waits less than on silicon (docs/machine-files.md). A later write of a register counts as a
reader of the kind of the writer's operands. An instruction whose kind of reading is unknown, and a
register without readers, get the largest latency of the row.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.ir.kernel import Instruction, Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import Machine, OpTiming, Reader

_OPERAND = (
    *(OpClass.INT_ADD, OpClass.INT_MINMAX, OpClass.INT_MUL, OpClass.INT_MAD),
    *(OpClass.FP32_MINMAX, OpClass.COMPARE, OpClass.LOGIC, OpClass.SHIFT, OpClass.MOVE),
)
_FLOAT = (OpClass.FP32_ADD, OpClass.FP32_MUL, OpClass.FP32_FMA)
_MEMORY = (
    *(OpClass.LOAD_CONST, OpClass.LOAD_SHARED, OpClass.LOAD_GLOBAL, OpClass.LOAD_LOCAL),
    *(OpClass.LOAD_GENERIC, OpClass.STORE_SHARED, OpClass.STORE_GLOBAL, OpClass.STORE_LOCAL),
    *(OpClass.STORE_GENERIC, OpClass.ATOMIC_SHARED, OpClass.ATOMIC_GLOBAL, OpClass.ATOMIC_GENERIC),
)
_KINDS = {
    **dict.fromkeys(_OPERAND, Reader.OPERAND),
    **dict.fromkeys(_FLOAT, Reader.FLOAT),
    OpClass.FP16_ARITH: Reader.HALF,
    **dict.fromkeys(_MEMORY, Reader.MEMORY),
}
_SIMPLE = {
    OpClass.MOVE: frozenset({"mov", "selp"}),
    OpClass.COMPARE: frozenset({"setp", "set"}),
}
"""The simple instructions of a class; others convert or test, in several steps."""
_ELSEWHERE = frozenset({"f64", "f16", "f16x2", "bf16", "bf16x2"})
"""The types that other units execute, whatever the class of the instruction."""

ReadersOf = Mapping[str, frozenset[Reader | None]]
"""Register -> how it is read or written again; None represents every other kind."""

NO_READERS: ReadersOf = {}
"""No information on any register: each result gets the largest latency."""


def kernel_readers(kernel: Kernel) -> ReadersOf:
    """Returns the readers of each register that an operand or a guard reads. Cost: linear.

    The carry flag, which no operand names, is left out, as are registers without readers.
    """
    read: dict[str, set[Reader | None]] = {}
    written: dict[str, set[Reader | None]] = {}
    for instruction in kernel.instructions:
        form, kind = instruction.form, _operand_kind(instruction)
        for slot in form.read_slots:
            own = Reader.GUARD if slot == form.guard_slot else kind
            read.setdefault(instruction.names[slot], set()).add(own)
        for name in instruction.writes:
            written.setdefault(name, set()).add(kind)
    return {name: frozenset(kinds | written.get(name, set())) for name, kinds in read.items()}


def _operand_kind(instruction: Instruction) -> Reader | None:
    """Returns how an instruction reads its operands, the guard aside."""
    op_class, opcode = instruction.op_class, instruction.opcode
    if op_class is None or opcode is None:
        return None
    kind = _KINDS.get(op_class)
    if opcode.name not in _SIMPLE.get(op_class, {opcode.name}):
        return None
    if kind in (Reader.OPERAND, Reader.FLOAT) and op_class is not OpClass.MOVE:
        return kind if _ELSEWHERE.isdisjoint(instruction.modifiers) else None
    return kind


def readers_on(machine: Machine, kernel: Kernel) -> ReadersOf:
    """Returns :func:`kernel_readers`, empty if no latency of the machine depends on them."""
    rows = machine.timings.values()
    depends = any(isinstance(row, OpTiming) and row.readers for row in rows)
    return kernel_readers(kernel) if depends else NO_READERS


def latency_for(instruction: Instruction, timing: OpTiming, readers: ReadersOf) -> int:
    """Returns the latency of an instruction that satisfies all readers of its results."""
    if not timing.readers:
        return timing.latency_cycles
    latencies = dict(timing.readers)
    kinds = [readers.get(name, frozenset({None})) for name in instruction.writes]
    all_kinds = frozenset[Reader | None]().union(*kinds) or {None}
    return max(
        timing.latency_cycles if kind is None else latencies.get(kind, timing.latency_cycles)
        for kind in all_kinds
    )
