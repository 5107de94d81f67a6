"""How many rows of 16 bytes each form of ldmatrix and stmatrix touches: a table of its own.

PTX ISA, "Warp-level matrix load instruction": matrices have 8 rows, .m16n16 has 16; lane l gives
the address of row l, of the first matrix first. ptxas takes every form of the table.
"""

from __future__ import annotations

import pytest
from parsing import parse_text

from ptxwcet.memory.instructions import accesses_of

pytestmark = pytest.mark.fast

HEAD = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
{
.shared .align 128 .b8 s[8192];
.reg .b32 %r<9>, %a;
mov.u32 %a, s;
"""
PACKED = ("b8x16.b6x16_p32", "b8x16.b4x16_p64")
FORMS = [
    *((f"ldmatrix.sync.aligned.m8n8.x{n}{t}.shared.b16", n, 8 * n)
      for n in (1, 2, 4) for t in ("", ".trans")),
    *((f"stmatrix.sync.aligned.m8n8.x{n}{t}.shared.b16", n, 8 * n)
      for n in (1, 2, 4) for t in ("", ".trans")),
    *((f"stmatrix.sync.aligned.m16n8.x{n}.trans.shared.b8", n, 8 * n) for n in (1, 2, 4)),
    *((f"ldmatrix.sync.aligned.m8n16.x{n}.shared.{p}", n, 8 * n)
      for n in (1, 2, 4) for p in PACKED),
    *((f"ldmatrix.sync.aligned.m16n16.x{n}.trans.shared.{p}", 2 * n, 16 * n)
      for n in (1, 2) for p in ("b8", *PACKED)),
]  # fmt: skip


@pytest.mark.parametrize(("mnemonic", "registers", "rows"), FORMS)
def test_rows(mnemonic: str, registers: int, rows: int) -> None:
    vector = "{" + ", ".join(f"%r{n}" for n in range(registers)) + "}"
    operands = f"{vector}, [%a]" if mnemonic.startswith("ld") else f"[%a], {vector}"
    kernel = parse_text(f"{HEAD}{mnemonic} {operands};\nret;\n}}\n").kernels[0]
    (access,) = accesses_of(kernel.instructions[1])
    assert (access.lanes, access.access_bytes) == (rows, 16)
