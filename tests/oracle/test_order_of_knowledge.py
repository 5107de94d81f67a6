"""The order of bounds follows the order of knowledge: who knows more gets no larger bound.

A value of a parameter against ranges that hold it and against nothing; the grid against none;
bounds of loops; fewer threads, where a kernel cannot tell how many there are (with ``%ntid`` a
thread of a smaller block may have more to do, and nothing is promised).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from places import ROOT

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError


@lru_cache(maxsize=512)
def cycles(request: Request) -> float:
    """The bound; infinite if it is refused."""
    try:
        rows = bound_file(request).answered
    except PtxwcetError:
        return float("inf")
    return rows[0].worst.bound.cycles if rows else float("inf")


def sample(name: str, kernel: str, block: str, *parameters: str) -> Request:
    path = ROOT / f"samples/{name}.ptx"
    return Request(str(path), (kernel,), block, parameters=parameters)


# request without the parameter, its name, a value, ranges that hold it, the smaller ones first
PARAMETERS = [
    (sample("vector_add", "vector_add", "128"), "n", 1000, ["1000..1023", "1..4096", "0..2000000"]),
    (sample("saxpy", "saxpy", "64"), "n", 300, ["300..310", "1..400", "0..5000"]),
    (sample("loops", "loop_up", "32"), "n", 17, ["17..18", "16..20", "1..64"]),
    (sample("loops", "loop_down", "32"), "n", 17, ["10..17", "1..64"]),
    (sample("loops", "loop_while", "32"), "n", 17, ["10..17", "1..64"]),
    (sample("loops", "loop_triangular", "32"), "n", 9, ["9..10", "1..16"]),
    (sample("loops", "loop_shifted", "32"), "n", 64, ["60..64", "1..256"]),
    (sample("loops", "loop_break", "32"), "n", 12, ["12..13", "1..64"]),
    (sample("sgemm_naive", "sgemm_naive", "16x16", "M=64", "N=64"), "K", 40, ["40..41", "1..64"]),
    (sample("transpose_naive", "transpose_naive", "16x16", "height=64"), "width", 64, ["1..64"]),
]


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("request_", "name", "value", "ranges"),
    PARAMETERS,
    ids=lambda one: one.kernels[0] if isinstance(one, Request) else "",
)
@pytest.mark.parametrize("grid", [None, "4"])
def test_a_value_a_range_nothing(
    request_: Request, name: str, value: int, ranges: list[str], grid: str | None
) -> None:
    known = [f"{name}={value}", *(f"{name}={text}" for text in ranges)]
    requests = [
        replace(request_, grid=grid, parameters=(*request_.parameters, one)) for one in known
    ]
    bounds = [cycles(one) for one in (*requests, replace(request_, grid=grid))]
    assert bounds == sorted(bounds)
    # the loop of saxpy steps by the threads of the grid
    assert bounds[0] < float("inf") or (grid is None and request_.kernels == ("saxpy",))


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("request_", "name", "value", "ranges"),
    PARAMETERS,
    ids=lambda one: one.kernels[0] if isinstance(one, Request) else "",
)
def test_a_grid_a_larger_grid_none(
    request_: Request, name: str, value: int, ranges: list[str]
) -> None:
    """Blocks of a smaller grid are blocks of a larger one, where the size itself is not read."""
    text = Path(request_.path).read_text()
    for known in (f"{name}={value}", f"{name}={ranges[-1]}"):
        one = replace(request_, parameters=(*request_.parameters, known))
        grids = [cycles(replace(one, grid=grid)) for grid in ("1", "2", "7", None)]
        assert max(grids) == grids[-1]
        if "%nctaid" not in text:
            assert grids == sorted(grids)


def test_bounds_of_a_loop_from_small_to_none() -> None:
    """The loop of loop_break: data may end it earlier."""
    one = sample("loops", "loop_break", "32", "n=12")
    label = "$L__BB15_2"
    bounds = [cycles(replace(one, loop_bounds=(f"{label}={most}",))) for most in (0, 1, 5, 12, 99)]
    bounds.append(cycles(one))
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[3] < float("inf")


WITHOUT_SIZE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 n)
{{
.reg .b32 %r<9>; .reg .pred %p<9>; .reg .b64 %d<4>; .reg .f32 %f<3>;
.shared .align 4 .b8 s[4096];
ld.param.u64 %d1, [data];
ld.param.u32 %r3, [n];
mov.u32 %r1, %tid.x;
mul.wide.u32 %d2, %r1, 4;
add.u64 %d2, %d1, %d2;
ld.global.u32 %r4, [%d2];
mov.f32 %f1, 0f3F800001;
mov.u32 %r2, 0;
{body}
st.global.f32 [%d2], %f1;
ret;
}}
"""
BODIES = {
    "straight": "div.rn.f32 %f1, %f1, %f1;",
    "by thread": "L:\nfma.rn.f32 %f1, %f1, %f1, %f1;\nadd.u32 %r2, %r2, 1;\n"
    "setp.lt.u32 %p1, %r2, %r1;\n@%p1 bra L;",
    "by n and barrier": "L:\nbar.sync 0;\nfma.rn.f32 %f1, %f1, %f1, %f1;\nadd.u32 %r2, %r2, 1;\n"
    "setp.lt.u32 %p1, %r2, %r3;\n@%p1 bra L;",
    "open side": "setp.lt.u32 %p1, %r4, 9;\n@%p1 bra M;\ndiv.rn.f32 %f1, %f1, %f1;\nM:",
    "some threads": "setp.lt.u32 %p1, %r1, 40;\n@%p1 bra M;\ndiv.rn.f32 %f1, %f1, %f1;\nM:",
    "data": "and.b32 %r4, %r4, 7;\nL:\nadd.u32 %r2, %r2, 1;\nfma.rn.f32 %f1, %f1, %f1, %f1;\n"
    "setp.lt.u32 %p1, %r2, %r4;\n@%p1 bra L;",
    "two sides": "setp.lt.u32 %p1, %r4, 9;\n@%p1 bra M;\nmul.f32 %f1, %f1, %f1;\nbra N;\nM:\n"
    "div.rn.f32 %f1, %f1, %f1;\nN:",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("n", ["n=6", "n=1..9"])
def test_fewer_threads_of_a_block_whose_size_is_not_read(name: str, n: str, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(WITHOUT_SIZE.format(body=BODIES[name]))
    blocks = (1, 2, 31, 32, 33, 40, 64, 96, 200)
    bounds = [cycles(Request(str(path), block=str(one), parameters=(n,))) for one in blocks]
    assert bounds == sorted(bounds)
    assert bounds[-1] < float("inf")


@pytest.mark.parametrize(
    ("name", "sizes", "parameters"),
    [
        ("sgemm_naive", ("16x1", "16x2", "16x3", "16x8", "16x16"), ("M=64", "N=64", "K=32")),
        ("stencil_2d", ("32x1", "32x2", "32x8"), ()),
        ("transpose_tiled", ("32x1", "32x4", "32x8"), ("width=64", "height=64")),
    ],
)
def test_fewer_rows_of_threads(
    name: str, sizes: tuple[str, ...], parameters: tuple[str, ...]
) -> None:
    one = sample(name, name, "32", *parameters)
    assert "%ntid" not in Path(one.path).read_text()
    bounds = [cycles(replace(one, block=size)) for size in sizes]
    assert bounds == sorted(bounds)
    assert bounds[-1] < float("inf")
