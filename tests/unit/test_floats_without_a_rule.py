"""Operations on floats without a rule decide nothing: fewer digits, three operands."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import only_refusal

from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

TEXT = """.version 8.8
.target sm_100
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<2>;
ld.param.u64 %rd1, [p]; ld.global.f32 %f1, [%rd1]; mov.u32 %r9x, 0;
BODY
L: add.u32 %r9x, %r9x, 1; setp.lt.s32 %p1, %r9x, %r2; @%p1 bra L;
ret;
}
""".replace("%r9x", "%r8")


@pytest.mark.parametrize(
    "body",
    [  # 1023.99994 is 1024 as a tf32
        "mov.f32 %f2, 0f447FFFFF; cvt.rn.tf32.f32 %r3, %f2; mov.b32 %f3, %r3;"
        "cvt.rzi.s32.f32 %r2, %f3;",
        "max.f32 %f2, %f1, 0f00000000; min.f32 %f2, %f2, 0f447FFFFF; cvt.rn.tf32.f32 %r3, %f2;"
        "mov.b32 %f3, %r3; cvt.rzi.s32.f32 %r2, %f3;",
        "min.f32 %f2, %f1, 0f42C80000, 0f41000000; cvt.rzi.s32.f32 %r2, %f2;",
    ],
)
def test_nothing_is_concluded(body: str, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(TEXT.replace("BODY", body))
    (problem,) = only_refusal(Request(str(path), block="32")).diagnostics
    assert problem.code == "PW203"
