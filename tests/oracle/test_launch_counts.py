"""How many blocks of a launch do what: the analysis against the condition, index by index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from ptxwcet.bounds.launch_bound import LaunchBound, count_blocks
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.launch import Dim3, Launch
from ptxwcet.flow.walk.path import BlockPaths, Visit, WarpPath
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

FRAME = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u32 n)
{{
.reg .pred %p<9>;
.reg .b32 %r<20>;
.reg .b16 %h<4>;
ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %ctaid.y;
mov.u32 %r4, %ctaid.z;
mov.u32 %r5, %nctaid.x;
{body}
LONG:
mov.u32 %r9, 0;
L:
add.u32 %r9, %r9, 1;
setp.lt.u32 %p8, %r9, 40;
@%p8 bra L;
END:
ret;
}}
"""

# name -> PTX that leaves at END where the condition is false, and the condition; n is 3
CONDITIONS: dict[str, tuple[str, Callable[[int, int, int, Dim3], bool]]] = {
    "below": ("setp.gt.u32 %p1, %r2, 4;\n@%p1 bra END;", lambda x, y, z, _: x <= 4),
    "a stretch in the middle": (
        "setp.lt.u32 %p1, %r2, 2;\n@%p1 bra END;\nsetp.gt.u32 %p2, %r2, 3;\n@%p2 bra END;",
        lambda x, y, z, _: 2 <= x <= 3,
    ),
    "all but a stretch": (
        "setp.lt.u32 %p1, %r2, 2;\n@%p1 bra LONG;\nsetp.lt.u32 %p2, %r2, 4;\n@%p2 bra END;",
        lambda x, y, z, _: not 2 <= x <= 3,
    ),
    "y alone": ("setp.eq.u32 %p1, %r3, 1;\n@%p1 bra END;", lambda x, y, z, _: y != 1),
    "z alone": ("setp.ne.u32 %p1, %r4, 0;\n@%p1 bra END;", lambda x, y, z, _: z == 0),
    "x and z": (
        "setp.ge.u32 %p1, %r2, 2;\n@%p1 bra END;\nsetp.lt.u32 %p2, %r4, 1;\n@%p2 bra END;",
        lambda x, y, z, _: x < 2 and z >= 1,
    ),
    "x and y or z": (
        "setp.eq.u32 %p1, %r4, 1;\n@%p1 bra LONG;\nsetp.ge.u32 %p2, %r2, 2;\n@%p2 bra END;\n"
        "setp.lt.u32 %p3, %r3, 2;\n@%p3 bra END;",
        lambda x, y, z, _: z == 1 or (x < 2 and y >= 2),
    ),
    "the last one": (
        "sub.u32 %r5, %r5, 1;\nsetp.ne.u32 %p1, %r2, %r5;\n@%p1 bra END;",
        lambda x, y, z, grid: x == grid[0] - 1,
    ),
    "below a parameter": ("setp.ge.u32 %p1, %r3, %r1;\n@%p1 bra END;", lambda x, y, z, _: y < 3),
    "an index of 16 bits": (
        "mov.u16 %h1, %ctaid.x;\nsetp.gt.u16 %p1, %h1, 4;\n@%p1 bra END;",
        lambda x, y, z, _: x <= 4,
    ),
    "none": ("", lambda x, y, z, _: True),
}
GRIDS = ((1, 1, 1), (7, 1, 1), (1, 5, 1), (3, 4, 2), (9, 2, 3), (2, 3, 5), (5, 4, 1), (300, 7, 2))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_blocks_are_counted(condition: str, grid: Dim3) -> None:
    body, holds = CONDITIONS[condition]
    request = Request(
        "k.ptx",
        block="64",
        grid="x".join(map(str, grid)),
        parameters=("n=3",),
        text=FRAME.format(body=body),
    )
    (row,) = bound_file(request).answered
    assert isinstance(row.launch_bound, LaunchBound)
    long = sum(holds(x, y, z, grid) for x, y, z in product(*map(range, grid)))
    kinds = row.launch_bound.kinds
    whole = max(kind.work_cycles for kind in kinds)
    assert sum(kind.count for kind in kinds) == grid[0] * grid[1] * grid[2]
    if long:
        assert whole > 200
        # the kinds that go round the loop, which leave at different places
        assert sum(kind.count for kind in kinds if kind.work_cycles > 200) == long
    else:
        assert whole < 200


def piece(first: Dim3, last: Dim3, block: int) -> BlockPaths:
    return BlockPaths(first, last, (WarpPath((Visit(block, taken=False),), (0,)),))


def test_counting_by_hand() -> None:
    launch = Launch((32, 1, 1), (4, 3, 2))
    line = [piece((0, 0, 0), (1, 0, 0), 1), piece((2, 0, 0), (3, 0, 0), 2)]
    assert list(count_blocks(line, launch).values()) == [12, 12]
    # equal paths at both ends of an axis are one kind
    ends = [
        piece((0, 0, 0), (0, 0, 0), 1),
        piece((1, 0, 0), (2, 0, 0), 2),
        piece((3, 0, 0), (3, 0, 0), 1),
    ]
    assert list(count_blocks(ends, launch).values()) == [12, 12]
    corner = [
        piece((0, 0, 0), (3, 1, 1), 1),
        piece((0, 2, 0), (0, 2, 1), 2),
        piece((1, 2, 0), (3, 2, 1), 3),
    ]
    assert list(count_blocks(corner, launch).values()) == [16, 2, 6]
    # too many, too few, twice the same: nothing is known
    assert count_blocks(corner[:2], launch) == {}
    assert count_blocks([*corner, corner[1]], launch) == {}
    assert count_blocks(corner, replace(launch, ranges={"n": (1, 2)})) == {}
    assert count_blocks(corner, replace(launch, grid=None)) == {}
    assert count_blocks(corner, replace(launch, grid=(4, 3, 3))) == {}
