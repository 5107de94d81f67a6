"""Random launches of every sample and reference kernel: executed paths and times in the analysis.

``benchmarks/executed_launches.py`` is the same by the thousand (docs/experiments).
"""

from dataclasses import replace

import pytest
from random_launches import KINDS, load, random_launch

from ptxwcet.commands.run.study import prepare_executed
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatorOptions
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import (
    AffineCount,
    PathFork,
    PathParts,
    PathRepeat,
    PathUnordered,
    Visit,
)
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.validate.containment import Departure, find_departure, length
from ptxwcet.validate.inputs import validate_input

MACHINE = load_machine("orin-ecrts2025")
BY_NAME = {kind.name: kind for kind in KINDS}


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_executions_stay_within_the_analysis(kind):
    for seed in range(1000, 1003):
        kernel, facts, launch, bounds = random_launch(kind, seed)
        analysis = analyse_kernel(kernel, facts, MACHINE, bounds)
        result = validate_input(analysis, load(kind.file), launch, seed)
        assert not result.diagnostics, [str(one) for one in result.diagnostics]
        assert result.rows
        assert all(row.longest_cycles <= row.safe_cycles for row in result.rows)


def test_every_kernel_with_arguments_has_launches():
    files = {kind.file for kind in KINDS}
    kernels = {(file, k.name) for file in files for k in load(file).kernels if k.parameters}
    assert kernels == {(kind.file, kind.kernel) for kind in KINDS}


def test_a_path_that_the_analysis_lacks_is_reported():
    kernel, facts, launch, _ = random_launch(BY_NAME["sgemm_naive"], 3)
    other = {
        name: value * 2 if name.endswith("5") else value for name, value in facts.parameters.items()
    }
    wrong = analyse_kernel(kernel, Launch(facts.block, facts.grid, other), MACHINE)
    result = validate_input(wrong, load("samples/sgemm_naive.ptx"), launch, 0)
    assert [one.code for one in result.diagnostics] == ["PW538"]
    assert result.rows[0].safe_cycles is None


def test_a_bound_that_is_a_cycle_too_small_is_reported():
    kernel, facts, launch, _ = random_launch(BY_NAME["loop_up"], 3)
    launch = replace(launch, block=(1, 1, 1))
    facts = replace(facts, block=(1, 1, 1))
    analysis = analyse_kernel(kernel, facts, MACHINE)
    assert not validate_input(analysis, load("samples/loops.ptx"), launch, 0).diagnostics
    (piece,) = analysis.pieces
    bound = piece.outcomes["safe"]
    claim = replace(bound.claim, cycles=bound.claim.cycles - 1)
    piece = replace(piece, outcomes={**piece.outcomes, "safe": replace(bound, claim=claim)})
    result = validate_input(
        replace(analysis, pieces=(piece,)), load("samples/loops.ptx"), launch, 0
    )
    assert [one.code for one in result.diagnostics] == ["PW535"]


def test_executed_programs_keep_their_instructions():
    """Folding, dropping masks and building programs lose and add nothing: issue counts agree."""
    for name in ("sgemm_naive", "mandelbrot", "bitonic_sort", "loop_triangular", "histogram"):
        kind = BY_NAME[name]
        kernel, facts, launch, _ = random_launch(kind, 7)
        options = EmulatorOptions(record_paths=True)
        done = execute(kernel, load(kind.file), launch, options=options)
        prepared = prepare_executed(done, facts, MACHINE)
        sizes = [block.end - block.start for block in prepared.cfg.blocks]

        def instructions(nodes, sizes=sizes):
            return sum(
                node.count.base * instructions(node.body)
                if isinstance(node, PathRepeat)
                else sizes[node.block]
                for node in nodes
            )

        assert done.warp_instructions == sum(
            piece.count * len(warp.warps) * instructions(warp.nodes)
            for piece in prepared.pieces
            for warp in piece.paths.warps
        )


def visits(*blocks):
    return tuple(Visit(block, taken=False) for block in blocks)


def repeat(least, count, *nodes):
    return PathRepeat(AffineCount(count), AffineCount(least), nodes)


def test_containment_by_hand():
    a, b, c = visits(0, 1, 2)
    path = (a, repeat(1, 3, b, PathUnordered((c,), (a,))), c)
    assert find_departure(path, (a, b, c, a, c)) is None
    assert find_departure(path, (a, repeat(2, 2, b, a, c), c)) is None
    assert find_departure(path, (a, repeat(4, 4, b, a, c), c)) == Departure(10, b)
    assert find_departure(path, (a, c)) == Departure(1, c)
    assert find_departure(path, (a, b, c, c, c)) == Departure(3, c)
    assert find_departure(path, (a, b, c, a)) == Departure(4, None)
    taken = Visit(1, taken=True)
    assert find_departure((a, b), (a, taken)) == Departure(1, taken)
    assert length((a, repeat(5, 5, b, c))) == 11


def test_a_side_may_come_late_where_the_path_has_it_late():
    """Lanes that leave a loop with a side of their own execute it when the others have come."""
    side, rest = visits(5), visits(3)
    fork = PathFork(2, side, (), straight=False, jumps=True)
    parting = Visit(2, taken=True)
    late = (fork, *rest, PathParts(1, (side,)))
    assert find_departure(late, (parting, *rest, *side)) is None
    assert find_departure(late, (parting, *side, *rest)) is None
    assert find_departure((fork, *rest), (parting, *rest)) is not None
