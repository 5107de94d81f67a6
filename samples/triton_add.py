"""Vector addition in Triton; run as a script it writes triton_add.ptx (needs triton, no GPU)."""

import re
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def triton_add(x, y, out, n, BLOCK: tl.constexpr):
    """``out = x + y``; each program adds BLOCK elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    sums = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, sums, mask=inside)


def main() -> None:
    """Compiles for sm_86 and keeps the file name, not the folder, in line information."""
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    source = ASTSource(triton_add, signature, constexprs={"BLOCK": 512}, attrs=aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", 86, 32), options={"ptx_version": 88})
    here = Path(__file__).resolve()
    text = compiled.asm["ptx"].replace(f"{here.parent}/", "")
    text = re.sub(r"\t\.section.*", "", text, flags=re.DOTALL)  # debug data: names of folders
    here.with_suffix(".ptx").write_text(text)


if __name__ == "__main__":
    main()
