"""The state of the walk contains what lanes hold, at every visit of every block of real kernels.

What is compared is in ``containment_oracle``; data are adversarial. The sizes are chosen so that
the tests take a minute; ``benchmarks/containment.py`` does the same with more.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from containment_runs import (
    ROOT,
    Case,
    compared_in_the_values_left,
    contained,
    corpus,
    few_steps,
    lanes_not_told_apart,
    launched,
)
from kernel_suite import entries
from parsing import parse_kernel
from random_programs import KINDS, random_kernel

from ptxwcet.flow.launch import Launch

SAMPLES = sorted((ROOT / "samples" / "launches").glob("*.toml"))


def sample(path: Path) -> Case:
    """The sample whose kernel a launch file names."""
    name = path.read_text().split('kernel = "')[1].split('"')[0]
    for ptx in sorted((ROOT / "samples").glob("*.ptx")):
        if f".entry {name}(" in ptx.read_text():
            return launched(ptx, path)
    raise AssertionError(f"no sample has kernel {name}")


@pytest.mark.every(2)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples(path: Path) -> None:
    case = sample(path)
    steps = few_steps(case.launch, 4_000)
    result = contained(case.kernel, case.launch, seed=1, executions=2, steps=steps)
    assert not result.wrong


@pytest.mark.every(6)
@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.kernel)
def test_suite(entry) -> None:  # type: ignore[no-untyped-def]
    case = launched(entry.path, entry.launch)
    steps = few_steps(case.launch, 2_000)
    result = contained(case.kernel, case.launch, seed=1, executions=1, steps=steps)
    assert not result.wrong


@cache
def _corpus() -> tuple[Case, ...]:
    return tuple(corpus(32))


@pytest.mark.every(4)
@pytest.mark.parametrize("part", range(4))
def test_corpus(part: int) -> None:
    """Kernels without values of parameters: most are bounded by ranges and variants, or refused."""
    wrong = []
    checked = 0
    for case in _corpus()[part::8]:
        result = contained(case.kernel, case.launch, seed=1, executions=1, steps=40)
        checked += result.checked
        if result.wrong:
            wrong.append(f"{case.name}: {result.wrong}")
    assert wrong == []
    assert checked > 50


@pytest.mark.every(4)
@pytest.mark.parametrize("kind", KINDS)
def test_random_kernels(kind: str) -> None:
    for seed in range(8):
        one = random_kernel(seed, kind)
        kernel = parse_kernel(one.text)
        result = contained(kernel, one.launch, seed=seed, executions=3, steps=one.steps)
        assert not result.wrong, (kind, seed)


@pytest.mark.parametrize("seed", [918273911, 918274226])
def test_lanes_need_not_be_followed_to_a_trap(seed: int) -> None:
    """Runs of both come to a trap; of one in a block that the analysis does not have."""
    one = random_kernel(seed, "aborts")
    kernel = parse_kernel(one.text)
    assert not contained(kernel, one.launch, seed=seed, executions=6, steps=one.steps).wrong


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
def test_random_kernels_whose_lanes_are_not_told_apart(kind: str) -> None:
    with lanes_not_told_apart():
        for seed in range(4):
            one = random_kernel(seed, kind)
            kernel = parse_kernel(one.text)
            result = contained(kernel, one.launch, seed=seed, executions=3, steps=one.steps)
            assert not result.wrong, (kind, seed)


STAYS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b32 %r<9>; .reg .b64 %d<3>; .reg .pred %p<5>;
mov.u32 %r1, %tid.x; ld.param.u64 %d1, [p]; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
ld.global.u8 %r2, [%d1]; and.b32 %r2, %r2, MASK; FIRST
H: setp.ge.s32 %p1, %r3, LIMIT; @%p1 bra E;
setp.gt.s32 %p2, %r3, 5; @%p2 bra M; add.s32 %r4, %r4, 1;
M: add.s32 %r3, %r3, STEP; bra H;
E: setp.gt.s32 %p3, %r4, 3; @%p3 bra D;
D: ret;
}
"""
"""Lanes that stay by what memory holds, or by what they begin with."""


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("mask", [7, 31])
@pytest.mark.parametrize(
    ("first", "limit"),
    [
        ("mov.u32 %r3, 0; mov.u32 %r4, 0;", "%r2"),
        ("mov.u32 %r3, %r2; mov.u32 %r4, 0;", "33"),
        ("add.s32 %r3, %r1, 1; mov.u32 %r4, 0;", "31"),
    ],
)
def test_loops_compared_in_the_values_left(first: str, limit: str, mask: int, step: int) -> None:
    text = STAYS.replace("MASK", str(mask)).replace("FIRST", first)
    kernel = parse_kernel(text.replace("LIMIT", limit).replace("STEP", str(step)))
    with lanes_not_told_apart(), compared_in_the_values_left():
        result = contained(kernel, Launch((32, 1, 1)), seed=mask, executions=3, steps=500)
    assert not result.wrong
    assert result.checked > 10


@pytest.mark.every(6)
@pytest.mark.parametrize("kind", KINDS)
def test_random_kernels_compared_in_the_values_left(kind: str) -> None:
    with lanes_not_told_apart(), compared_in_the_values_left():
        for seed in range(3):
            one = random_kernel(seed, kind)
            kernel = parse_kernel(one.text)
            result = contained(kernel, one.launch, seed=seed, executions=2, steps=one.steps)
            assert not result.wrong, (kind, seed)
