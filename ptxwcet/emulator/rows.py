"""Defines the elements of the tables of semantics: builders of an instruction's step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, reader, writer
from ptxwcet.ir.kernel import Instruction, Operand, Register
from ptxwcet.ir.operands import Vector, WholeVector
from ptxwcet.ir.words import is_type

Builder = Callable[[Context, Instruction], Step]
Operation = Callable[..., Array]
Rows = Mapping[str, Builder]

FLOATS = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"})
"""The types of floating-point arithmetic."""


def types_of(instruction: Instruction) -> list[str]:
    """Returns the type modifiers in order."""
    return [modifier for modifier in instruction.modifiers if is_type(modifier)]


def restricted(instruction: Instruction, allowed: frozenset[str]) -> frozenset[str]:
    """Returns the modifiers except types. Raises Unsupported for one that is not ``allowed``."""
    words = frozenset(word for word in instruction.modifiers if not is_type(word))
    if words - allowed:
        raise Unsupported("modifier ." + ", .".join(sorted(words - allowed)))
    return words


def elements_of(operand: Operand) -> tuple[Operand, ...] | None:
    """Returns the parts of a vector operand; None for any other operand."""
    if isinstance(operand, WholeVector):
        return tuple(Register(name) for name in operand.members)
    return operand.elements if isinstance(operand, Vector) else None


def apply(
    context: Context, instruction: Instruction, operation: Operation, read_types: tuple[str, ...]
) -> Step:
    """Builds a step that applies an operation to all lanes and writes under the mask."""
    destination, *sources = instruction.operands
    if len(sources) != len(read_types):
        raise Unsupported(f"{len(sources)} source operands")
    target = writer(context, destination)
    reads = [reader(context, s, t) for s, t in zip(sources, read_types, strict=True)]

    def step(frame: Frame) -> None:
        target(frame, operation(*[read(frame) for read in reads]))

    return step


def nothing(context: Context, instruction: Instruction) -> Step:
    """Builds a step without effect, for hints and fences."""
    return lambda frame: None
