"""Semantics of ``cvt``."""

from __future__ import annotations

from ptxwcet.emulator.conversion import convert
from ptxwcet.emulator.registers import Context, Step, Unsupported, dtype_of
from ptxwcet.emulator.rows import Rows, apply, restricted, types_of
from ptxwcet.ir.kernel import Instruction


def _convert(context: Context, instruction: Instruction) -> Step:
    names = types_of(instruction)
    known = frozenset({"rn", "rni", "rzi", "rmi", "rpi", "sat", "ftz"})
    words = restricted(instruction, known)
    to, source = names
    if "f16" in names and to == "f16" and source == "f64":
        raise Unsupported("f64 to f16")
    if {"rni", "rzi", "rmi", "rpi"} & words == set() and (
        dtype_of(source).kind == "f" and dtype_of(to).kind != "f"
    ):
        raise Unsupported("float to integer without a rounding")
    dtype = dtype_of(to)
    return apply(context, instruction, lambda a: convert(a, dtype, words), (source,))


CONVERT_ROWS: Rows = {"cvt": _convert}
"""Rows for conversions between types."""
