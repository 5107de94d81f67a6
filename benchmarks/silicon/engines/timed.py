"""Puts readings of the clock around a kernel of PTX: when each block began and ended.

    python timed.py IN.ptx OUT.ptx

The kernel is what it was; each warp reads the clocks first and last, and one lane of it leaves the
least and the largest of its block in `kept_times`: five numbers a block, %clock64 at the beginning
and at the end, %globaltimer likewise, and the SM.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

BLOCKS = 8192
BEGIN = """
\t.reg .b64 %kept<8>;
\t.reg .b32 %keptr<8>;
\tmov.u64 %kept1, %clock64;
\tmov.u64 %kept2, %globaltimer;
"""
END = """
{
\t.reg .pred %keptp;
\tmov.u64 %kept3, %clock64;
\tmov.u64 %kept4, %globaltimer;
\tactivemask.b32 %keptr1;
\tmov.u32 %keptr2, %lanemask_lt;
\tand.b32 %keptr1, %keptr1, %keptr2;
\tsetp.ne.u32 %keptp, %keptr1, 0;
\t@%keptp bra KEPT;
\tmov.u32 %keptr1, %ctaid.x;
\tmov.u32 %keptr2, %ctaid.y;
\tmov.u32 %keptr3, %nctaid.x;
\tmad.lo.u32 %keptr1, %keptr2, %keptr3, %keptr1;
\tmul.wide.u32 %kept5, %keptr1, 40;
\tmov.u64 %kept6, kept_times;
\tadd.u64 %kept5, %kept6, %kept5;
\tred.global.min.u64 [%kept5], %kept1;
\tred.global.max.u64 [%kept5+8], %kept3;
\tred.global.min.u64 [%kept5+16], %kept2;
\tred.global.max.u64 [%kept5+24], %kept4;
\tmov.u32 %keptr4, %smid;
\tcvt.u64.u32 %kept6, %keptr4;
\tst.global.u64 [%kept5+32], %kept6;
KEPT:
\tret;
}
"""


def timed(text: str) -> str:
    """The module with times kept."""
    head = re.search(r"^\.address_size 64\s*$", text, re.M)
    assert head is not None
    variable = f"\n.visible .global .align 8 .u64 kept_times[{5 * BLOCKS}];\n"
    text = text[: head.end()] + variable + text[head.end() :]
    text = re.sub(r"^(\.visible )?\.entry [^{]*\n\{", lambda m: m.group() + BEGIN, text, flags=re.M)
    text, count = re.subn(r"^\s*ret;\s*$", lambda _: END, text, flags=re.M)
    text = re.sub(r"^\s*\.(loc|file)\s.*$", "", text, flags=re.M)  # names that are not there
    assert count
    assert not re.search(r"@\S+\s+(ret|exit);", text)
    return text


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(timed(Path(sys.argv[1]).read_text()))
