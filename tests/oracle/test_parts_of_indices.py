"""Parts of the block indices are held to runs of the blocks that they are for, not of any."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from parsing import parse_kernel
from path_attack import Attack, attack, machine

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths import extraction
from ptxwcet.flow.paths.extraction import Piece
from ptxwcet.flow.values.regions import SplitRequest

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u32 n)
{
.reg .b32 %r<9>; .reg .pred %p<3>;
mov.u32 %r1, %ctaid.x;
ld.param.u32 %r4, [n];
setp.lt.u32 %p1, %r1, 3;
selp.b32 %r2, 40, 7, %p1;
setp.gt.s32 %p1, %r4, 5;
selp.b32 %r3, 3, 1, %p1;
LOOP:
sub.s32 %r2, %r2, 1;
setp.ne.s32 %p1, %r2, 0;
@%p1 bra LOOP;
AGAIN:
sub.s32 %r3, %r3, 1;
setp.ne.s32 %p1, %r3, 0;
@%p1 bra AGAIN;
ret;
}
"""
LAUNCH = Launch((32, 1, 1), (6, 1, 1), ranges={"n": (-9, 9)})


def attacked() -> Attack:
    return attack(parse_kernel(TEXT), LAUNCH, machine(), seed=1, executions=12, steps=200)


def test_parts_that_are_right() -> None:
    found = attacked()
    assert (found.code, found.violations, found.executions) == (None, [], 12)


def lost(piece: Piece, split: SplitRequest) -> list[Piece]:
    """The upper part is gone."""
    return RIGHT(piece, split)[:1]


RIGHT = extraction.split_piece


@pytest.fixture
def exchanged() -> Iterator[None]:
    """Parts with the paths of one another."""
    explore = extraction._explore

    def turned(*args: object, **options: object) -> object:
        found = explore(*args, **options)  # type: ignore[arg-type]
        pieces, paths = zip(*found, strict=True)
        return list(zip(pieces, reversed(paths), strict=True))

    with patch.object(extraction, "_explore", turned):
        yield


@pytest.mark.usefixtures("exchanged")
def test_parts_with_paths_of_others_are_seen() -> None:
    assert [one.kind for one in attacked().violations] == ["path"]


def test_a_part_that_is_lost_is_seen() -> None:
    with patch.object(extraction, "split_piece", lost):
        (violation,) = attacked().violations
    assert violation.kind == "path"
