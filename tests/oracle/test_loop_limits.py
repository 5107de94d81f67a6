"""Loops whose limits are reduced over the warp, or come from functions with several returns, and
loops with strides, windows and skips below a limit.

Kernels of ``tests/data/reach``, as nvcc -O3 compiles them: bounded at or above what executions on
arbitrary data do, and by hand not far above; refused where nothing limits them, or where the
language leaves undefined what is reduced.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from parsing import parse_file
from path_attack import attack, machine
from places import DATA

from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.ir.kernel import Kernel
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.support.diagnostics import PtxwcetError

FOLDER = DATA / "reach"
THREADS = {"reduced_half": 16}
MOST = {
    "reduced_max": 63,
    "reduced_min": 31,
    "reduced_sum": 96,
    "reduced_or": 31,
    "reduced_and": 255,
    "reduced_half": 48,
    "chosen": 7,
    "found_at": 20,
    "switched": 51,
    "searched": 99,
}
"""The largest limit of the loop, which nvcc unrolls by four."""


def kernels(file: str) -> dict[str, Kernel]:
    module = parse_file(FOLDER / file)
    return {kernel.name: inline_calls(kernel, module) for kernel in module.kernels}


LIMITS, REFUSED = kernels("limits.ptx"), kernels("refused.ptx")
STRIDES = kernels("strides.ptx")
NUMBA = kernels("numba.ptx")["strided_while"]
"""``while i < n: y[i] = 2 * x[i]; i += cuda.gridsize(1)``, as Numba compiles it."""
MOST_OF_STRIDES = {
    "strided": 8,  # 1000 in steps of 32, four at once
    "strided_third": 84,
    "strided_by": 5,
    "strided_far": 1,  # fewer than four: it is never entered
    "lowered": 36,
    "skipping": 1000,
    "cases": 6,
    "packets": 250,
    "lowest_bits": 10,
    "window": 250,
    "causal": 3,
}
"""No more iterations of the first loop than by hand, but of ``window``, which does without m."""


def launch(kernel: str) -> Launch:
    return Launch((THREADS.get(kernel, 32), 1, 1), (1, 1, 1))


def test_every_kernel_has_a_limit() -> None:
    assert set(LIMITS) == set(MOST)


@pytest.mark.parametrize("kernel", LIMITS)
def test_bounded_at_or_above_the_truth(kernel: str) -> None:
    found = attack(LIMITS[kernel], launch(kernel), machine(), seed=2, executions=20, steps=20_000)
    assert found.code is None
    assert not found.violations


@pytest.mark.parametrize("kernel", LIMITS)
def test_bounded_not_far_above_the_truth(kernel: str) -> None:
    analysis = analyse_kernel(LIMITS[kernel], launch(kernel), machine())
    (warp,) = [warp for piece in analysis.pieces for warp in piece.paths.warps]
    found = [entry.iterations.base for entry in loop_entries(warp.nodes)][-2:]
    assert found == [MOST[kernel] // 4, 3]


def strides(kernel: str, n: int = 1000) -> Launch:
    block = (32, 8, 1) if kernel == "causal" else (32, 1, 1)
    given = {f"{kernel}_param_2": n, f"{kernel}_param_3": 50}
    return Launch(block, (2, 1, 1), given)


@pytest.mark.every(3)
@pytest.mark.parametrize("kernel", MOST_OF_STRIDES)
def test_strides_are_bounded_at_or_above_the_truth(kernel: str) -> None:
    assert set(STRIDES) == set(MOST_OF_STRIDES)
    given = strides(kernel)
    found = attack(STRIDES[kernel], given, machine(), seed=3, executions=12, steps=20_000)
    assert found.code is None
    assert not found.violations
    assert found.checker is not None
    warps = [warp for piece in found.checker.analysis.pieces for warp in piece.paths.warps]
    counts = [entry for warp in warps for entry in loop_entries(warp.nodes)]
    first = min(entry.loop for entry in counts)
    most = max(entry.iterations.base for entry in counts if entry.loop == first)
    assert most <= MOST_OF_STRIDES[kernel]


def test_refused_where_a_number_may_wrap_around() -> None:
    """The lowest bit of -2**31 is itself: 0 comes next, to which nothing is added."""
    with pytest.raises(PtxwcetError) as caught:
        analyse_kernel(STRIDES["lowest_bits"], strides("lowest_bits", 2**31 - 1), machine())
    assert [one.code for one in caught.value.diagnostics] == ["PW205"]


@pytest.mark.parametrize("kernel", REFUSED)
def test_refused_where_nothing_limits_it(kernel: str) -> None:
    with pytest.raises(PtxwcetError) as caught:
        analyse_kernel(REFUSED[kernel], launch(kernel), machine())
    assert [one.code for one in caught.value.diagnostics] == ["PW203"]
    assert "the number of iterations of this loop is not known" in str(caught.value)


@pytest.mark.parametrize(
    ("n", "blocks", "most"), [(1000, 4, 1), (5, 2, 0), (5000, 3, 7), ((1, 5000), 3, 7)]
)
def test_strides_of_numba(n: int | tuple[int, int], blocks: int, most: int) -> None:
    """Three at most come first, in a loop of their own, and then four at a time."""
    name = "strided_while_param_14"
    given = Launch((64, 1, 1), (blocks, 1, 1), {} if isinstance(n, tuple) else {name: n})
    given = replace(given, ranges={name: n} if isinstance(n, tuple) else {})
    found = attack(NUMBA, given, machine(), seed=4, executions=12, steps=20_000)
    assert found.code is None
    assert not found.violations
    assert found.checker is not None
    warps = [warp for piece in found.checker.analysis.pieces for warp in piece.paths.warps]
    counts = [entry for warp in warps for entry in loop_entries(warp.nodes)]
    last = max((entry.loop for entry in counts), default=0)
    assert max((e.iterations.base for e in counts if e.loop == last), default=0) <= max(most, 3)
    if most > 3:
        assert max(e.iterations.base for e in counts if e.loop == last) == most


def test_strides_of_any_length_are_refused() -> None:
    """The grid is not said, and so not by how much the index grows: 0 in a grid of 2**26 blocks."""
    given = Launch((64, 1, 1), None, {"strided_while_param_14": 1000})
    with pytest.raises(PtxwcetError) as caught:
        analyse_kernel(NUMBA, given, machine())
    assert [one.code for one in caught.value.diagnostics] == ["PW203"]
