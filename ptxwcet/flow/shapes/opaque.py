"""Values of results that are not functions of registers alone: loads, votes, exchanges.

A load of one address by all lanes gives all of them the same word; that warps agree on it is only
claimed where memory does not change while the kernel runs (``param``, ``const``,
``ld.global.nc``), or on the assumption that the kernel has no data races, by warps that have
executed as many barriers. Votes and reductions over a warp agree in it, those of ``bar.red`` in the
block, if its warps come to the same barrier.
"""

from __future__ import annotations

from functools import cached_property

from ptxwcet.flow.launch import WARP_SIZE, Launch
from ptxwcet.flow.shapes.pattern import Agreement, agreement_on, number_of
from ptxwcet.flow.shapes.results import RegisterValues
from ptxwcet.flow.values.reductions import lanes_of_all, lanes_of_some, name_all, naming_themselves
from ptxwcet.ir.kernel import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Register,
    Space,
    SymbolRef,
)
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.operation import Operation, operation_of

_LOADS = frozenset({"ld", "ldu"})
_WEAK = frozenset(
    (
        *("weak", "nc", "v2", "v4", "v8", "ca", "cg", "cs", "lu", "unified"),
        *("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param"),
        *("param::entry", "param::func"),
    )
)
"""What a load may say without asking for a word that others may change while it runs."""
_WARP_WIDE = frozenset({"vote", "activemask", "redux"})


class OpaqueResults:
    """Results that are not functions of registers alone: loads, votes, exchanges, reductions."""

    def __init__(
        self, values: RegisterValues, kernel: Kernel, launch: Launch, *, race_free: bool
    ) -> None:
        self._values = values
        self._present = lanes_of_all(launch)
        self._possible = lanes_of_some(launch)
        self._kernel = kernel
        self._parameters = frozenset(parameter.name for parameter in kernel.parameters)
        self._race_free = race_free

    def agreement(self, instruction: Instruction, *, is_whole: bool, is_ordered: bool) -> Agreement:
        """Returns who agrees on every register that the instruction writes.

        ``is_whole``: all lanes of a warp that are not guarded off execute it together.
        ``is_ordered``: all warps come to it after as many barriers.
        """
        operation = operation_of(instruction.form)
        name = operation.name
        if name in _LOADS:
            return self._load(instruction, operation, is_ordered=is_ordered)
        if name in _WARP_WIDE or (name == "match" and "all" in operation.words):
            return self._members(instruction, operation)
        if instruction.control is ControlEffect.BARRIER:
            if len(instruction.operands) != 3:  # not of all threads: a count is given
                return Agreement.NONE
            return Agreement.BLOCK if is_ordered else Agreement.WARP
        if name == "shfl" and {"idx", "sync"} <= set(operation.words):
            return self._one_lane(instruction) if is_whole else Agreement.NONE
        return Agreement.NONE

    @cached_property
    def _own_masks(self) -> frozenset[str]:
        return naming_themselves(self._kernel)

    @cached_property
    def _has_local(self) -> bool:
        kernel = self._kernel
        return any(variable.space == "local" for variable in kernel.variables) or any(
            "local" in one.modifiers or one.mnemonic.startswith("alloca")
            for one in kernel.instructions
        )

    def _members(self, instruction: Instruction, operation: Operation) -> Agreement:
        """Whether the lanes of a warp exchange with the same lanes: their masks name the same
        members, and themselves among them. What others find is undefined.
        """
        if "sync" not in operation.words:
            return Agreement.WARP
        operand = instruction.operands[-1]
        members = self._values.operand(operand)
        mask = number_of(members)
        if mask is not None:
            return Agreement.WARP if name_all(mask, self._possible) else Agreement.NONE
        if isinstance(operand, Register) and operand.name in self._own_masks:
            return min(agreement_on(members), Agreement.WARP)
        return Agreement.NONE

    def _load(
        self, instruction: Instruction, operation: Operation, *, is_ordered: bool
    ) -> Agreement:
        if (
            not all(
                word in _WEAK or word.startswith(("L1::", "L2::", "const["))
                for word in operation.words
            )
            or not operation.types
        ):
            return Agreement.NONE
        address = instruction.operands[1]
        if instruction.space is Space.LOCAL or not isinstance(address, Address):
            return Agreement.NONE
        if instruction.space is Space.PARAM:  # variables for calls are a thread's own
            is_kernels = (
                isinstance(address.base, SymbolRef) and address.base.name in self._parameters
            )
            return Agreement.BLOCK if is_kernels else Agreement.NONE
        if instruction.space is Space.GENERIC and self._has_local:
            return Agreement.NONE  # one address may be another word for each thread
        agreement = self._values.agreement_on_read(instruction)
        is_fixed = instruction.space is Space.CONST or "nc" in operation.words
        is_fixed |= self._race_free and is_ordered
        return agreement if is_fixed else min(agreement, Agreement.WARP)

    def _one_lane(self, instruction: Instruction) -> Agreement:
        """The results of a ``shfl.idx`` by which all lanes of a warp read the same lane. They vary
        if the last warp lacks that lane or some lanes are no members: each may find something
        else. Each lane is in range, as groups have 32 lanes.
        """
        _, _, source, clamp, members = instruction.operands
        if not isinstance(clamp, Immediate):
            return Agreement.NONE
        lane, mask = self._values.operand(source), number_of(self._values.operand(members))
        if clamp.value != WARP_SIZE - 1 or mask is None or not name_all(mask, self._possible):
            return Agreement.NONE
        number = number_of(lane)
        if number is None:
            is_there = self._present == (1 << WARP_SIZE) - 1
            return min(agreement_on(lane), Agreement.WARP) if is_there else Agreement.NONE
        is_there = self._present >> number % WARP_SIZE & 1 == 1
        return Agreement.WARP if is_there else Agreement.NONE
