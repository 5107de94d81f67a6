"""Shapes of results that are not functions of registers alone: loads, votes, exchanges.

A load of one address by all lanes gives all of them the same word; that warps agree on it is only
claimed where memory does not change while the kernel runs (``param``, ``const``,
``ld.global.nc``), or on the assumption that the kernel has no data races. Votes and reductions over
a warp agree in it, those of ``bar.red`` in the block.
"""

from __future__ import annotations

from ptxwcet.flow.facts import WARP_SIZE
from ptxwcet.flow.lane_shapes import VARYING, Agreement, Shape, all_uniform, uniform
from ptxwcet.ir.kernel import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Register,
    Sink,
    Space,
    SpecialRegister,
    SymbolRef,
)
from ptxwcet.ir.op_classes import ControlEffect

_LOADS = frozenset({"ld", "ldu"})
_SEVERAL = frozenset({"setp", "mov"})  # with two predicates, or packing and unpacking registers
_WARP_WIDE = frozenset({"vote", "activemask", "redux"})


class OpaqueShapes:
    """Results that are not functions of registers alone: loads, exchanges, several results."""

    def __init__(self, shapes: dict[str, Shape], kernel: Kernel, *, race_free: bool) -> None:
        self._shapes = shapes
        self._parameters = frozenset(parameter.name for parameter in kernel.parameters)
        self._has_local = any(variable.space == "local" for variable in kernel.variables) or any(
            "local" in one.modifiers or one.mnemonic.startswith("alloca")
            for one in kernel.instructions
        )
        self._race_free = race_free

    def shape(self, instruction: Instruction, name: str) -> Shape:
        """The shape of every register that the instruction writes."""
        if name in _LOADS:
            return self._load(instruction)
        if name in _WARP_WIDE or (name == "match" and "all" in instruction.modifiers):
            return uniform(self._members(instruction))
        if instruction.control is ControlEffect.BARRIER:  # of all threads: no count is given
            return uniform(Agreement.BLOCK) if len(instruction.operands) == 3 else VARYING
        if name == "shfl" and "idx" in instruction.modifiers:
            return self._one_lane(instruction)
        if name in _SEVERAL and not self._has_special(instruction):
            return all_uniform([self._shapes[register] for register in instruction.reads])
        return VARYING

    def _has_special(self, instruction: Instruction) -> bool:
        return any(isinstance(operand, SpecialRegister) for operand in instruction.operands)

    def _members(self, instruction: Instruction) -> Agreement:
        """Whether the lanes of a warp exchange with the same lanes: they name the same members."""
        members = instruction.operands[-1]
        if "sync" not in instruction.modifiers or isinstance(members, Immediate):
            return Agreement.WARP
        if isinstance(members, Register):
            return min(self._shapes[members.name].uniform, Agreement.WARP)
        return Agreement.NONE

    def _load(self, instruction: Instruction) -> Shape:
        words = instruction.modifiers
        if instruction.space is Space.LOCAL or {"volatile", "relaxed", "acquire"} & set(words):
            return VARYING
        address = instruction.operands[1]
        if not isinstance(address, Address):
            return VARYING
        if instruction.space is Space.PARAM:  # variables for calls are a thread's own
            is_kernels = (
                isinstance(address.base, SymbolRef) and address.base.name in self._parameters
            )
            return uniform(Agreement.BLOCK) if is_kernels else VARYING
        if instruction.space is Space.GENERIC and self._has_local:
            return VARYING  # one address may be another word for each thread
        found = Agreement.BLOCK
        if isinstance(address.base, Register):
            found = self._shapes[address.base.name].uniform
        fixed = self._race_free or instruction.space is Space.CONST or "nc" in words
        return uniform(found if fixed else min(found, Agreement.WARP))

    def _one_lane(self, instruction: Instruction) -> Shape:
        """``shfl.idx`` in which all lanes of the warp read the same lane; no result that may be
        out of range.
        """
        operands = instruction.operands
        source, clamp = operands[2], operands[3]
        if not isinstance(operands[0], (Register, Sink)) or not isinstance(clamp, Immediate):
            return VARYING
        if clamp.value != WARP_SIZE - 1:
            return VARYING
        members = self._members(instruction)
        if isinstance(source, Register):
            return uniform(min(self._shapes[source.name].uniform, members))
        return uniform(members) if isinstance(source, Immediate) else VARYING
