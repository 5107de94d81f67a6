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
    contained,
    corpus,
    few_steps,
    lanes_not_told_apart,
    launched,
)
from kernel_suite import entries
from parsing import parse_kernel
from random_programs import KINDS, random_kernel

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


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
def test_random_kernels_whose_lanes_are_not_told_apart(kind: str) -> None:
    with lanes_not_told_apart():
        for seed in range(4):
            one = random_kernel(seed, kind)
            kernel = parse_kernel(one.text)
            result = contained(kernel, one.launch, seed=seed, executions=3, steps=one.steps)
            assert not result.wrong, (kind, seed)
