"""Paths that are known without execution against executed ones, warp by warp, branch by branch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from random_launches import KINDS, Kind, load, random_launch

from ptxwcet.bounds.grid_plan import known_paths
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.executed_paths import executed_warps
from ptxwcet.emulator.launch import EmulatorOptions
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Dim3
from ptxwcet.flow.paths.call_variables import followed
from ptxwcet.flow.paths.extraction import extract_ranges
from ptxwcet.flow.walk.path import (
    AffineCount,
    BlockPaths,
    Path,
    PathChoice,
    PathRepeat,
    PathUnordered,
    Visit,
    WarpPath,
)
from ptxwcet.pipeline import build_flow


def unfolded(path: Path) -> Iterator[Visit]:
    for node in path:
        if isinstance(node, Visit):
            yield node
        else:
            assert isinstance(node, PathRepeat)
            for _ in range(node.count.base):
                yield from unfolded(node.body)


def check(kind: Kind, seed: int) -> bool | None:
    """Whether known paths are the executed ones; None if they are not known."""
    kernel, launch, emulated, stated = random_launch(kind, seed)
    module = load(kind.file)
    kernel = inline_calls(kernel, module)
    flow = build_flow(kernel, launch)
    placed = place_facts(flow, stated)
    known = known_paths(extract_ranges(followed(flow), launch, placed), emulated.grid)
    if known is None:
        return None
    execution = execute(kernel, module, emulated, options=EmulatorOptions(record_paths=True))
    executed = executed_warps(execution, flow.cfg, flow.postdominators.immediate)
    if known.of.shape != executed.of.shape:
        return False
    pairs = set(zip(known.of.ravel().tolist(), executed.of.ravel().tolist(), strict=True))
    return all(
        list(unfolded(known.paths[one])) == list(unfolded(executed.paths[other]))
        for one, other in pairs
    )


@pytest.mark.every(5)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_known_paths_are_the_executed_ones(kind: Kind) -> None:
    assert False not in [check(kind, seed) for seed in range(3)]


def visit(block: int, *, taken: bool = False) -> Visit:
    return Visit(block, taken)


def ranges(*rows: tuple[Dim3, Dim3, Path]) -> list[BlockPaths]:
    return [BlockPaths(first, last, (WarpPath(path, (0, 1)),)) for first, last, path in rows]


def test_ranges_cover_axes_that_decide_nothing() -> None:
    one, other = (visit(0),), (visit(1),)
    found = known_paths(
        ranges(((0, 0, 0), (1, 0, 0), one), ((2, 0, 0), (3, 0, 0), other)), (4, 3, 2)
    )
    assert found is not None
    assert found.paths == (one, other)
    expected = np.tile([[0, 0], [0, 0], [1, 1], [1, 1]], (6, 1))  # x runs fastest
    assert np.array_equal(found.of, expected)


@pytest.mark.parametrize(
    "path",
    [
        (PathUnordered((visit(1),), (visit(2),)),),
        (PathChoice(((visit(1),), (visit(2),))),),
        (PathRepeat(AffineCount(3), AffineCount(2), (visit(1),)),),
        (PathRepeat(AffineCount(3), AffineCount(3), (PathChoice(((visit(1),), ())),)),),
        (PathRepeat(AffineCount(3), AffineCount(3), (visit(1),), step=1),),
    ],
)
def test_what_is_left_open_is_not_known(path: Path) -> None:
    assert known_paths(ranges(((0, 0, 0), (0, 0, 0), path)), (2, 2, 1)) is None
