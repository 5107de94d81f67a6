"""Which forms of integer instructions the emulator executes: those that the manual has.

The forms themselves are rows of ``ptxwcet.ir.instruction_set``; those of floating-point types have
builders of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.emulator.registers import Context, Step, Unsupported
from ptxwcet.emulator.rows import Builder
from ptxwcet.ir.instruction_set import OPCODES
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.operation import NumberKind, number_type
from ptxwcet.ir.permitted import Form, matching


def permitted(name: str, builder: Builder) -> Builder:
    """The builder for the forms of an opcode, raising Unsupported for anything else."""
    forms = _INTEGER_FORMS[name]

    def build(context: Context, instruction: Instruction) -> Step:
        found, reason = matching(forms, instruction.modifiers)
        if not found:
            raise Unsupported(reason)
        return builder(context, instruction)

    return build


def _is_integer(form: Form) -> bool:
    kinds = [number_type(word) for word in form.types.split()]
    return all(kind is not None and kind.kind is not NumberKind.FLOAT for kind in kinds)


_INTEGER_FORMS: Mapping[str, tuple[Form, ...]] = {
    name: tuple(form for form in row.forms if form.documented and _is_integer(form))
    for name, row in OPCODES.items()
}
