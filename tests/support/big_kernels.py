"""Kernels of any size for the page: a chain of branches and loops, with source lines."""

from __future__ import annotations

_HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry big(.param .u64 out, .param .u32 n) {
\t.reg .pred %p<4>;
\t.reg .b32 %r<9>;
\t.reg .b64 %rd<4>;
\tld.param.u64 %rd1, [out];
\tld.param.u32 %r1, [n];
\tmov.u32 %r2, %tid.x;
"""


def big_kernel(instructions: int, file: str = "big.cu") -> str:
    """PTX with about so many instructions: parts of 25, each a branch and a loop of four rounds."""
    lines = [_HEAD]
    for part in range(max(1, instructions // 25)):
        lines.append(f"\t.loc 1 {part % 800 + 1} 0")
        lines += [f"\tsetp.gt.u32 %p1, %r2, {part};", f"\t@%p1 bra $J{part};"]
        lines += [f"\tadd.u32 %r3, %r2, {k};" for k in range(6)]
        lines += [f"$J{part}:", "\tmov.u32 %r4, 0;", f"$L{part}:", f"\t.loc 1 {part % 800 + 2} 0"]
        lines += ["\tmad.lo.u32 %r5, %r3, %r4, %r2;"] * 12
        lines += ["\tadd.u32 %r4, %r4, 1;", "\tsetp.lt.u32 %p2, %r4, 4;", f"\t@%p2 bra $L{part};"]
    return "\n".join([*lines, "\tret;", "}", f'.file 1 "{file}"', ""])
