"""Executed paths of random kernels against an interpreter that shares nothing with the emulator.

``simt.py`` runs one lane at a time over dictionaries and finds where lanes meet from the
definition; its trace of each warp must be the emulator's, step by step.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from parsing import parse_text
from simt import Interpreter
from test_paths_against_execution import LAUNCHES, Awkward
from test_walk_against_execution import Writer
from thoroughness import drawn

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.executed_paths import executed_blocks
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions, Execution, WarpPath
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.flow.launch import Launch
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.validate.containment import unrolled

LIMIT = 50_000


def compare(text: str, launch: Launch) -> bool:
    """Runs a kernel of one parameter in both; every warp of every block takes the same steps.

    False if the run is too long to compare.
    """
    module = parse_text(text)
    kernel = module.kernels[0]
    assert launch.grid is not None
    emulated = EmulatedLaunch(launch.block, launch.grid, tuple(launch.parameters.values()))
    options = EmulatorOptions(record_paths=True, max_instructions=LIMIT)
    try:
        done = execute(kernel, module, emulated, options=options)
    except PtxwcetError as error:
        if [one.code for one in error.diagnostics] != ["PW411"]:
            raise
        return False
    assert done.is_complete
    assert {finding.code for finding in done.findings} <= {"PW435"}
    facts = Launch(launch.block, launch.grid, {kernel.parameters[0].name: emulated.arguments[0]})
    cfg = build_cfg(kernel)
    starts = [block.start for block in cfg.blocks]
    meetings = compute_postdominators(cfg).immediate
    x, y, _ = launch.grid
    for row in done.paths:
        index = (row.block % x, row.block // x % y, row.block // (x * y))
        trace = Interpreter(kernel, facts, row.warp, index).trace
        alone = [WarpPath(0, row.warp, row.body)]
        one = Execution(kernel, (), 0, (), tuple(alone))
        (kind,) = executed_blocks(one, cfg, meetings, (1, 1, 1))
        steps = [(starts[v.block], v.taken) for v in unrolled(kind.paths.warps[0].nodes)]
        assert steps == trace
    return True


@settings(max_examples=drawn(60), deadline=None)
@given(
    seed=st.integers(0, 10**9),
    n=st.integers(-1, 7),
    threads=st.sampled_from([8, 32, 48]),
    grid=st.integers(1, 2),
)
def test_random_kernels(seed: int, n: int, threads: int, grid: int) -> None:
    compare(Writer(seed).text(), Launch((threads, 1, 1), (grid, 1, 1), {"n": n}))


@settings(max_examples=drawn(25), deadline=None)
@given(seed=st.integers(0, 10**9), launch=LAUNCHES)
def test_awkward_kernels(seed: int, launch: Launch) -> None:
    compare(Awkward(seed).text(), launch)


def test_most_random_kernels_are_compared() -> None:
    launch = Launch((40, 1, 1), (1, 1, 1), {"n": 5})
    assert sum(compare(Writer(seed).text(), launch) for seed in range(40)) >= 36
    assert sum(compare(Awkward(seed).text(), launch) for seed in range(20)) >= 12
