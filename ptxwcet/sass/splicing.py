"""Replaces calls of machine code by copies of their callees.

A call saves nothing: registers are those of the caller, and the function returns to the address in
a register. The return to the instruction after the call is proved, or the kernel is refused: the
register holds that address at the call, nothing in the function or its callees writes it, and each
return is by it or a copy, with a high word of 0 that was moved there just before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from ptxwcet.ir.building import instruction_of
from ptxwcet.ir.kernel import Encoded, Guard, Instruction, Kernel, LabelDefinition
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.operands import Register, SymbolRef, Vector
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import const
from ptxwcet.sass.pairs import moved_register
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_MOST_INSTRUCTIONS = 200_000


def with_copies(kernel: Kernel, functions: Mapping[str, Kernel]) -> Kernel:
    """Returns the kernel without calls; ``functions`` are those of its module.

    Raises PtxwcetError (PW125) for a call that cannot be replaced. Cost: linear in all copies.
    """
    if not any(i.callee is not None for i in kernel.instructions):
        return kernel
    splicer = _Splicer(functions)
    splicer.copy(kernel, "", None, ())
    assert kernel.code is not None
    ordered = sorted(splicer.labels.items(), key=lambda item: item[1])
    return replace(
        kernel,
        instructions=tuple(splicer.instructions),
        labels=dict(ordered),
        registers=splicer.registers,
        branch_tables=splicer.tables,
        body=tuple((index, LabelDefinition(name, name)) for name, index in ordered),
        code=replace(kernel.code, encoded=tuple(splicer.encoded)),
    )


class _Splicer:
    def __init__(self, functions: Mapping[str, Kernel]) -> None:
        self._functions = functions
        self._copies = 0
        self.instructions: list[Instruction] = []
        self.encoded: list[Encoded] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.tables: dict[str, tuple[str, ...]] = {}

    def copy(
        self,
        kernel: Kernel,
        prefix: str,
        returns: tuple[tuple[str, ...], str] | None,
        around: tuple[str, ...],
        kept: frozenset[str] = frozenset(),
    ) -> None:
        """Appends a copy of a kernel or function, followed by copies of its callees.

        ``prefix`` is that of its labels; ``returns``: the registers by which it has to return, and
        the label of the return. ``around`` are its callers, ``kept`` the registers by which it and
        these return, which nothing in it may write.
        """
        pending: list[tuple[Kernel, str, tuple[tuple[str, ...], str]]] = []
        begin = len(self.instructions)
        self.registers |= kernel.registers
        assert kernel.code is not None
        if begin + len(kernel.instructions) > _MOST_INSTRUCTIONS:
            _refuse(kernel.instructions[0], "copies of functions are too many")
        for index, instruction in enumerate(kernel.instructions):
            if lost := kept.intersection(instruction.writes):
                name = min(lost)
                _refuse(
                    instruction, f"a function that writes {name}, by which it or a caller returns"
                )
            if instruction.callee is not None:
                name = instruction.callee
                function = self._functions.get(name)
                if function is None or function.code is None or name in (*around, kernel.name):
                    _refuse(instruction, f"a call of {name}, which calls itself or is not known")
                self._copies += 1
                own = f"{name} {self._copies}:"
                behind = f"{own}behind"
                self.labels[behind] = begin + index + 1
                pending.append((function, own, (_return_registers(instruction), behind)))
                made = _jump(instruction, f"{own}begin")
            elif instruction.control is ControlEffect.RETURN and returns is not None:
                _require_return(kernel, index, returns[0])
                made = _jump(instruction, returns[1])
            else:
                targets = tuple(prefix + target for target in instruction.targets)
                made = _renamed(instruction, prefix, kernel)._replace(targets=targets)
            self.instructions.append(made)
            self.encoded.append(kernel.code.encoded[index])
        self.labels |= {prefix + name: begin + at for name, at in kernel.labels.items()}
        self.tables |= {
            prefix + name: tuple(prefix + target for target in table)
            for name, table in kernel.branch_tables.items()
        }
        for function, own, back in pending:
            self.labels[f"{own}begin"] = len(self.instructions)
            self.copy(function, own, back, (*around, kernel.name), kept.union(back[0]))


def _renamed(instruction: Instruction, prefix: str, kernel: Kernel) -> Instruction:
    """Returns the instruction, with labels and tables of this copy."""
    named = kernel.labels.keys() | kernel.branch_tables.keys()
    if not prefix or named.isdisjoint(instruction.names):
        return instruction
    names = tuple(prefix + name if name in named else name for name in instruction.names)
    return instruction._replace(names=names)


def _jump(instruction: Instruction, label: str) -> Instruction:
    """Returns a call or return as a branch with the same timing."""
    opcode = instruction.opcode
    assert opcode is not None
    guard: Guard | None = instruction.guard
    return instruction_of(
        instruction.mnemonic,
        [SymbolRef(label)],
        (instruction.origin, instruction.start, instruction.end),
        guard=guard,
        targets=(label,),
        decoded=(replace(opcode, control=ControlEffect.BRANCH), 0),
    )


def _return_registers(call: Instruction) -> tuple[str, ...]:
    """Returns the registers with the address after a call: the low word, then the high."""
    return tuple(operand.name for operand in call.operands if isinstance(operand, Register))


def _require_return(kernel: Kernel, index: int, registers: tuple[str, ...]) -> None:
    """Refuses a return that is not proved to use these registers or copies of them, made in the
    block of the return. Without a second register the high word has to be 0.
    """
    instruction = kernel.instructions[index]
    match instruction.operands:
        case (Vector((Register(low), Register(high))),):
            pass
        case _:
            _refuse(instruction, "a return by no register")
    starts = set(kernel.labels.values())
    expected = dict(zip((low, high), registers, strict=False))
    wanted = {name for name in (low, high) if expected.get(name) != name}
    at = index
    while wanted and at > 0 and at not in starts:
        at -= 1
        before = kernel.instructions[at]
        if before.control is not ControlEffect.NONE:
            break
        for name in wanted.intersection(before.writes):
            source = expected.get(name, "0")
            is_copy = moved_register(before) == source
            if not is_copy and not (source == "0" and _is_zero(before, kernel.registers)):
                _refuse(instruction, f"a return by {name}, which is not a copy of {source}")
            wanted.remove(name)
    if wanted:
        names = " and ".join(sorted(wanted))
        _refuse(instruction, f"a return by {names}, of which nothing is known")


def _is_zero(instruction: Instruction, registers: Mapping[str, str]) -> bool:
    """Returns whether an instruction that writes one register writes 0 there."""
    meaning = None if instruction.guard is not None else meaning_of(instruction, registers)
    return meaning is not None and meaning.results == (const(0, 32),)


def _refuse(instruction: Instruction, reason: str) -> NoReturn:
    raise PtxwcetError(
        Diagnostic(
            "PW125",
            f"machine code that is not known: {reason}",
            instruction.span,
            help="bound the kernel from its PTX, or compile it so that the function is inlined: "
            "as one file, without __noinline__, -rdc=true and -dc",
        )
    )
