"""What a branch says of a value holds for lanes behind it, not for those that wait elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from parsing import parse_text

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.validate.inputs import validate_input

MACHINE = load_machine("orin-ecrts2025")
HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<9>; .reg .f32 %f<4>;
ld.param.u64 %d1, [data]; mov.u32 %r2, %tid.x;
mul.wide.u32 %d2, %r2, 4; add.s64 %d2, %d1, %d2;
ld.global.u32 %r3, [%d2]; and.b32 %r3, %r3, 3; mov.u32 %r4, 0;
"""
# lanes with 0 leave the loop early, and are the only ones that take the branch behind it
LOOP = """
L: setp.eq.u32 %p1, %r3, 0; @%p1 bra OUT;
add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 3; @%p2 bra L;
OUT: setp.ne.u32 %p3, %r3, 0; @%p3 bra END;
"""
# on one side of a branch lanes with 0 end; those with 0 on the other side take the branch behind
RETURN = """
setp.lt.u32 %p4, %r2, 16; @%p4 bra SIDE; bra OUT;
SIDE: setp.eq.u32 %p1, %r3, 0; @%p1 ret;
OUT: setp.ne.u32 %p3, %r3, 0; @%p3 bra END;
"""
TAIL = (
    "".join("ld.global.f32 %f1, [%d2]; add.f32 %f2, %f2, %f1;\n" for _ in range(4))
    + """
END: membar.cta; st.global.u32 [%d2], %r4; ret;
}
"""
)


@pytest.mark.parametrize("body", [LOOP, RETURN])
@pytest.mark.parametrize("word", [0, 1])
def test_lanes_that_wait_keep_their_values(body: str, word: int) -> None:
    module = parse_text(HEAD + body + TAIL)
    analysis = analyse_kernel(module.kernels[0], Launch((32, 1, 1), (1, 1, 1)), MACHINE)
    for seed in range(4):
        words = np.random.default_rng(seed).integers(0, 4, 32).astype("u4")
        words = np.full(32, word, "u4") if seed == 0 else words
        launch = EmulatedLaunch((32, 1, 1), (1, 1, 1), (words,))
        assert not validate_input(analysis, module, launch, seed).diagnostics
