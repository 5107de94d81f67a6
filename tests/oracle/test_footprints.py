"""Footprints: no execution touches more, and no address lies elsewhere than its form says."""

from __future__ import annotations

import random
import tomllib

import numpy as np
import pytest
from access_kernels import access_kernel, open_access_kernel
from counting_kernels import counting_kernel
from footprint_oracle import Compared, of_launch_file, of_text
from places import LAUNCHES, SAMPLES

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.memory import footprint
from ptxwcet.memory.footprint import _Places, _units

FILES = (
    *("bitonic_sort", "convolution", "histogram", "loop_nested", "loop_triangular", "scan"),
    *("sgemm_cp_async", "stencil_2d", "transpose_tiled", "triton_add"),
)


@pytest.mark.parametrize("name", FILES)
def test_samples_touch_no_more(name: str) -> None:
    launch = LAUNCHES / f"{name}.toml"
    kernel = tomllib.loads(launch.read_text())["kernel"]
    (ptx,) = (one for one in SAMPLES.glob("*.ptx") if f".entry {kernel}(" in one.read_text())
    found = of_launch_file(ptx, launch)
    assert found is not None
    assert found.wrong == []
    assert found.checked or name == "histogram"


def of_counting(seed: int) -> Compared | None:
    one = counting_kernel(seed)
    return of_text(one.text, one.block, one.grid, (f"width={one.width}",), one.launch())


@pytest.mark.every(6)
@pytest.mark.parametrize("part", range(6))
def test_counted_addresses_lie_where_they_are_said_to(part: int) -> None:
    found = [of_counting(seed) for seed in range(16 * part, 16 * part + 16)]
    assert [one.wrong for one in found if one is not None and one.wrong] == []
    assert sum(one.checked for one in found if one is not None) > 60


@pytest.mark.every(4)
@pytest.mark.parametrize("part", range(4))
def test_random_accesses_touch_no_more(part: int) -> None:
    for seed in range(3 * part, 3 * part + 3):
        for one in (access_kernel(seed), open_access_kernel(seed)):
            grid = one.grid if one.says_grid else None
            found = of_text(one.text, one.block, grid, one.parameters, one.launch())
            assert found is None or found.wrong == [], seed


TEXT = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data) {
  .reg .b64 %d<9>; .reg .b32 %r<9>; .reg .pred %p<6>;
  ld.param.u64 %d1, [data]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %tid.x;
  add.s64 %d3, %d2, 8192; mov.u32 %r2, 0; setp.lt.u32 %p3, %r1, 9;
OUTER:
  mov.u32 %r3, 0;
  BEFORE
INNER:
  BODY
  add.s32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3; @%p1 bra INNER;
  AFTER
  add.s32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 4; @%p2 bra OUTER;
  ret;
}
"""
LOAD = "ld.global.u32 %r5, [%d3];"
STEP = "add.s64 %d3, %d3, 128;"
ANEW = "add.s64 %d3, %d2, 8192;"
OWN = "ld.global.u32 %r5, [%d6];"
NARROW = "mul.wide.u32 %d5, %r4, 128; add.s64 %d6, %d2, %d5; add.s64 %d4, %d4, 1;"


@pytest.mark.parametrize(
    ("before", "body", "after", "lines"),
    [
        (ANEW, LOAD + STEP, "", 3),
        (ANEW, STEP + LOAD, "", 4),
        (ANEW, LOAD + STEP, LOAD, 4),
        ("", LOAD + STEP, "", 12),
        (f"@%p3 {ANEW}", LOAD + STEP, "", 13),  # some lanes go on
        (f"@%p3 bra GO; {ANEW} GO:", LOAD + STEP, "", 13),
        (LOAD + STEP, "", "", 4),
        (ANEW, LOAD + STEP, STEP + LOAD, 0),
        (ANEW, "add.s64 %d4, %d3, 128; " + LOAD + "mov.u64 %d3, %d4;", "", 3),
        (ANEW, "add.s64 %d4, %d3, 128;", "mov.u64 %d3, %d4; " + LOAD, 0),
        # a counter of 64 bits, of which the lower half is used
        ("mov.u64 %d4, 3;", f"cvt.u32.u64 %r4, %d4; {NARROW}{OWN}", "", 3),
        ("mov.u64 %d4, 3;", f"mov.b64 {{%r4, %r6}}, %d4; {NARROW}{OWN}", "", 3),
        # made of itself and of what it was before it was added to
        (ANEW, f"add.s64 %d4, %d3, 4; {STEP} sub.s64 %d5, %d3, %d4; add.s64 %d3, %d3, %d5; {LOAD}",
         "", 0),
        # what is moved was made in an iteration before, perhaps of the loop around
        (ANEW, f"{LOAD} mov.u64 %d3, %d4; add.s64 %d4, %d3, 128;", "", 0),
    ],
)  # fmt: skip
def test_loops_by_hand(before: str, body: str, after: str, lines: int) -> None:
    """What is added to in a loop, or around it; ``lines``: of the footprint, if that is known."""
    text = TEXT.replace("BEFORE", before).replace("BODY", body).replace("AFTER", after)
    if not lines:  # what is read there may be from before all loops
        text = text.replace("mov.u32 %r2, 0;", "mov.u32 %r2, 0; add.s64 %d4, %d2, 64;", 1)
    given = EmulatedLaunch((32, 1, 1), (1, 1, 1), (np.zeros(1 << 14, dtype=np.uint32),))
    found = of_text(text, (32, 1, 1), (1, 1, 1), (), given)
    assert found is not None
    assert found.wrong == []
    assert not lines or found.footprint.block_lines <= lines


@pytest.mark.parametrize("most", [1 << 18, 40])
def test_units_by_brute_force(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of places from every base that is allowed; few places are told apart the second time."""
    monkeypatch.setattr(footprint, "_MOST_PLACES", most)
    rng = random.Random(f"units {most}")
    counted = 0
    for _ in range(80):
        zeros, unit = rng.choice((0, 2, 3, 5, 7, 9)), rng.choice((32, 128))
        sets = []
        for _ in range(rng.randint(1, 3)):
            size = rng.choice((1, 4, 8, 16, 32, 64))
            lanes = np.unique([size * rng.randrange(rng.choice((4, 60))) for _ in range(8)])
            steps = [rng.choice((4, 12, 32, 128, 160, 1024, -64)) for _ in range(rng.randint(0, 2))]
            counts = tuple((step, rng.randrange(5)) for step in steps)
            sets.append(_Places(lanes.astype(np.int64), counts, size))
        number, is_exact = _units(sets, unit, zeros)
        touched = [
            len({byte // unit for one in sets for byte in bytes_of(one, base)})
            for base in range(0, 1 << 9, 1 << zeros)
        ]
        assert max(touched) <= number
        if is_exact:
            assert set(touched) == {number}
        counted += is_exact
    assert counted > 10


def bytes_of(places: _Places, base: int) -> set[int]:
    starts = {base + int(lane) for lane in places.lanes}
    for step, most in places.counts:
        starts = {one + step * n for one in starts for n in range(most + 1)}
    return {one + byte for one in starts for byte in range(places.size)}
