"""Products of warpgroups beside barriers of a part of the block: no theorem has both."""

from __future__ import annotations

import pytest

import ptxwcet

PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry both(.param .u64 a)
{
    .reg .pred %p;
    .reg .b32 %t;
    .reg .b64 %d, %e;
    .reg .f32 %f<4>;
    mov.b64 %d, 0;
    mov.b64 %e, 0;
    mov.f32 %f0, 0f00000000;
    mov.f32 %f1, 0f00000000;
    mov.f32 %f2, 0f00000000;
    mov.f32 %f3, 0f00000000;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d, %e, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    mov.u32 %t, %tid.x;
    setp.lt.u32 %p, %t, 128;
    @%p bra FIRST;
    MEET_2
    bra.uni END;
FIRST:
    MEET_1
END:
    ret;
}
"""


@pytest.mark.parametrize("meets", [False, True])
def test_products_beside_barriers_of_a_part_are_refused(meets: bool) -> None:
    text = PTX
    for number in "12":
        text = text.replace(f"MEET_{number}", f"bar.sync {number}, 128;" if meets else "")
    found = ptxwcet.analyse(text, block=256, machine="h100")["both"]
    codes = found.reason if isinstance(found, ptxwcet.Refused) else ""
    assert codes == ("PW403" if meets else "")


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [("", "@%p ret;", ""), ("@%p ret;", "", "PW403"), ("@%p bra END;", "", "PW403")],
)
def test_warps_that_may_have_ended_come_to_no_product(before: str, after: str, code: str) -> None:
    """The others of their warpgroup would wait for them at the product, for ever."""
    asks = "ld.param.u64 %d, [a]; ld.global.u32 %t, [%d]; setp.lt.u32 %p, %t, 128;"
    text = PTX.replace("wgmma.fence", f"{asks} {before} wgmma.fence", 1)
    text = text.replace("mov.u32 %t, %tid.x;", after).replace("setp.lt.u32 %p, %t, 128;\n", "\n")
    text = text.replace("@%p bra FIRST;", "").replace("MEET_1", "").replace("MEET_2", "")
    found = ptxwcet.analyse(text, block=256, machine="h100")["both"]
    assert (found.reason if isinstance(found, ptxwcet.Refused) else "") == code
