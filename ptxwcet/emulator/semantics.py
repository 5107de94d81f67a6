"""The table opcode -> semantics: a row compiles an instruction to a step over the frame.

A new opcode is a new row of the table of its kind (``*_rows.py``). Control flow and barriers are
no rows: see :mod:`ptxwcet.emulator.nodes`.
"""

from __future__ import annotations

from ptxwcet.emulator.async_rows import ASYNC_ROWS
from ptxwcet.emulator.compare_rows import COMPARE_ROWS
from ptxwcet.emulator.convert_rows import CONVERT_ROWS
from ptxwcet.emulator.float_rows import FLOAT_ROWS
from ptxwcet.emulator.integer_rows import INTEGER_ROWS
from ptxwcet.emulator.matrix_rows import MATRIX_ROWS
from ptxwcet.emulator.memory_rows import MEMORY_ROWS
from ptxwcet.emulator.move_rows import MOVE_ROWS
from ptxwcet.emulator.registers import Context, Step
from ptxwcet.emulator.rows import FLOATS, Builder, Rows, types_of
from ptxwcet.emulator.warp_rows import WARP_ROWS
from ptxwcet.ir.kernel import Instruction


def _by_type(integers: Builder, floats: Builder) -> Builder:
    def build(context: Context, instruction: Instruction) -> Step:
        names = types_of(instruction)
        row = floats if names and names[-1] in FLOATS else integers
        return row(context, instruction)

    return build


SEMANTICS: Rows = {
    **FLOAT_ROWS,
    **INTEGER_ROWS,
    **{
        name: _by_type(row, FLOAT_ROWS[name])
        for name, row in INTEGER_ROWS.items()
        if name in FLOAT_ROWS
    },
    **COMPARE_ROWS,
    **MOVE_ROWS,
    **CONVERT_ROWS,
    **MEMORY_ROWS,
    **ASYNC_ROWS,
    **WARP_ROWS,
    **MATRIX_ROWS,
}
"""All rows."""
