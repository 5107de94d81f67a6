"""Parameters of functions that are vector registers: members are registers of their own."""

from __future__ import annotations

import pytest
from parsing import parse_text

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.ir.operands import Register, WholeVector
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

HEAD = ".version 9.0\n.target sm_90\n.address_size 0x40\n"
FUNCTION = ".func (.reg .b32 r) f(.reg .v2 .u32 i) { add.u32 r, i.x, i.y; ret; }\n"


def test_members_of_a_vector_parameter_are_registers() -> None:
    (function,) = parse_text(HEAD + FUNCTION, "f.ptx").functions
    assert function.instructions[0].operands[1:] == (Register("i.x"), Register("i.y"))
    assert function.registers["i.x"] == "u32"


def test_a_vector_parameter_is_a_vector_as_a_whole() -> None:
    text = FUNCTION.replace("add.u32 r, i.x, i.y;", "mov.b64 r, i;").replace(".b32 r", ".b64 r")
    (function,) = parse_text(HEAD + text, "f.ptx").functions
    assert function.instructions[0].operands[1] == WholeVector("i", ("i.x", "i.y"))


@pytest.mark.parametrize("argument", ["v", "q"])
def test_a_call_with_a_vector_is_refused_or_bounded_but_no_fault(argument: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    body = f"{{ .reg .v2 .u32 v; .reg .b32 q, s; call (s), f, ({argument}); ret; }}\n"
    path = tmp_path / "k.ptx"
    path.write_text(f"{HEAD}{FUNCTION}.visible .entry k()\n{body}")
    try:
        (row,) = bound_file(Request(str(path), block="32")).kernels
        codes = [one.code for one in getattr(row, "diagnostics", ())]
    except PtxwcetError as error:
        codes = [one.code for one in error.diagnostics]
    assert codes == ([] if argument == "q" else ["PW108"])
