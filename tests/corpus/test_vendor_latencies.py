"""The vendor's table against the vendor's compiler: it leaves no more than the table in chains.

Since Volta an instruction holds how many cycles its warp waits after it (bits 105 to 108 of its
word). In a chain nothing else is there to be issued meanwhile, so that is the distance to the next
instruction, which reads the result. Each chain ends with a store.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.results import vendor_cycles

sys.path.insert(0, str(Path(__file__).parent))
from cubin import PTXAS, assemble, code

pytestmark = pytest.mark.skipif(PTXAS is None, reason="no ptxas on PATH")

HEAD = ".version {version}\n.target sm_{arch}\n.address_size 64\n"
ENTRY = """.visible .entry {name}(.param .u64 p)
{{
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>; .reg .f64 %g<9>; .reg .pred %p<5>;
.reg .b16 %h<4>;
ld.param.u64 %d0, [p];
ld.volatile.global.u32 %r1, [%d0+4]; ld.volatile.global.u32 %r5, [%d0+8];
ld.volatile.global.u32 %r6, [%d0+12]; ld.volatile.global.f32 %f1, [%d0+16];
ld.volatile.global.f32 %f5, [%d0+20]; ld.volatile.global.f64 %g1, [%d0+32];
ld.volatile.global.f64 %g2, [%d0+40];
{body}
ret;
}}
"""
STORED = "st.global.u32 [%d0+100], %r2;"
GUARDED = "@%p2 st.global.u32 [%d0+100], %r6;"
CHOSEN = f"selp.b32 %r2, %r6, %r1, %p2; {STORED}"
FLOAT = "st.global.f32 [%d0+100], %f2;"
# class, how many instructions before the store its instruction stands, what is executed
CHAINS = {
    "add": ("int_add", 1, f"xor.b32 %r2, %r1, %r5; add.u32 %r2, %r2, %r6; {STORED}"),
    "add_alu": ("int_add", 2, f"add.u32 %r2, %r1, %r6; xor.b32 %r2, %r2, %r5; {STORED}"),
    "mad_alu": ("int_mad", 2, f"mad.lo.u32 %r2, %r1, %r6, %r5; xor.b32 %r2, %r2, %r5; {STORED}"),
    "wide": ("int_mul", 1, "mul.wide.u32 %d2, %r1, %r5; st.global.u64 [%d0+200], %d2;"),
    "address": ("int_mad", 1, "mad.wide.u32 %d3, %r1, %r5, %d0; st.global.u32 [%d3], %r1;"),
    "fma": ("fp32_fma", 1, f"fma.rn.f32 %f2, %f1, %f5, %f1; {FLOAT}"),
    "fma_fma": (
        *("fp32_fma", 2),
        f"fma.rn.f32 %f2, %f1, %f5, %f1; fma.rn.f32 %f2, %f2, %f5, %f2; {FLOAT}",
    ),
    "fma_alu": ("fp32_fma", 2, f"fma.rn.f32 %f2, %f1, %f5, %f1; max.f32 %f2, %f2, %f5; {FLOAT}"),
    "max": ("fp32_minmax", 1, f"max.f32 %f2, %f1, %f5; {FLOAT}"),
    "half": ("fp16_arith", 1, f"fma.rn.f16x2 %r2, %r1, %r5, %r6; {STORED}"),
    "half_alu": (
        *("fp16_arith", 2),
        f"fma.rn.f16x2 %r2, %r1, %r5, %r6; xor.b32 %r2, %r2, %r5; {STORED}",
    ),
    "guard": ("compare", 1, f"setp.lt.u32 %p2, %r1, %r5; {GUARDED}"),
    "chosen": ("compare", 2, f"setp.lt.u32 %p2, %r1, %r5; {CHOSEN}"),
    "guard_f64": ("compare", 1, f"setp.lt.f64 %p2, %g1, %g2; {GUARDED}"),
    "guard_f16": (
        *("compare", 1),
        f"mov.b32 {{%h0, %h1}}, %r1; setp.lt.f16 %p2, %h0, %h1; {GUARDED}",
    ),
    "f64": ("fp64_fma", 1, "fma.rn.f64 %g3, %g1, %g2, %g1; st.global.f64 [%d0+200], %g3;"),
    "f64_f64": (
        *("fp64_mul", 2),
        "mul.rn.f64 %g3, %g1, %g2; mul.rn.f64 %g3, %g3, %g2; st.global.f64 [%d0+200], %g3;",
    ),
    **{
        f"f64_{name}_alu": (
            *(f"fp64_{name}", 2),
            f"{text}; mov.b64 {{%r7, %r2}}, %g3; xor.b32 %r2, %r2, %r5; {STORED}",
        )
        for name, text in (
            ("add", "add.rn.f64 %g3, %g1, %g2"),
            ("mul", "mul.rn.f64 %g3, %g1, %g2"),
            ("fma", "fma.rn.f64 %g3, %g1, %g2, %g1"),
        )
    },
    "logic": ("logic", 1, f"and.b32 %r2, %r1, %r5; {STORED}"),
    "shift": ("shift", 1, f"shf.l.wrap.b32 %r2, %r1, %r5, 7; {STORED}"),
    "prmt": ("bitfield", 1, f"prmt.b32 %r2, %r1, %r5, 0x4321; {STORED}"),
}
# of which the table's figure is seen, and not only no more than it
SEEN = frozenset({"int_add", "fp32_fma", "fp32_minmax", "fp16_arith", "shift", "bitfield"})
SEEN_FP64 = frozenset({"fp64_add", "fp64_mul", "fp64_fma"})  # where it has a fixed latency


@pytest.mark.parametrize("arch", [75, 80, 86, 87, 89, 90, 100, 120])
def test_ptxas_leaves_no_more_than_the_table(arch: int, tmp_path: Path) -> None:
    known = vendor_cycles()[f"{arch // 10}.{arch % 10}"]
    entries = [ENTRY.format(name=name, body=body) for name, (_, _, body) in CHAINS.items()]
    version = "7.0" if arch <= 80 else "8.8"
    text = HEAD.format(version=version, arch=arch) + "".join(entries)
    binary = assemble(text, tmp_path, "chains")
    assert isinstance(binary, bytes), binary
    most: dict[str, int] = {}
    for name, words in code(binary).items():
        op, before, _ = CHAINS[name]
        if OpClass(op) not in known:
            continue  # a scoreboard says when the result is there
        left = distances(words)[-1 - before]
        assert left <= known[OpClass(op)], name
        most[op] = max(most.get(op, 0), left)
    asked = {op for op, _, _ in CHAINS.values()}
    assert most.keys() == {op for op in asked if OpClass(op) in known}
    seen = SEEN | SEEN_FP64 & most.keys()
    assert {op: most[op] for op in seen} == {op: known[OpClass(op)] for op in seen}


def distances(words: bytes) -> list[int]:
    """Cycles that a warp waits after each instruction up to the last store, that one included."""
    pairs = [struct.unpack_from("<QQ", words, place) for place in range(0, len(words), 16)]
    stores = [at for at, (low, _) in enumerate(pairs) if low & 0x1FF == 0x186]  # STG
    return [high >> 41 & 15 for _, high in pairs[: stores[-1] + 1]]
