"""Random kernels whose registers pass through ``.param`` variables: loops and blocks stay the same.

After some instructions that write a register the register is stored to a variable of the thread,
other parts of the variable are written, and the register is loaded again. Control flow is as
before, so that the analysis must find the same loops and blocks. That executions lie within the
paths is the business of ``test_paths_on_data.py``; for some kernels it is checked here again.
"""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from parsing import parse_text
from test_paths_on_data import MACHINE, WORDS, DataWriter

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow import flow_graph
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import Path, loop_entries, visited_blocks
from ptxwcet.ir.kernel import Module
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.validate.inputs import validate_input

WRITES = re.compile(r"(@!?%p\d+ )?(?!st|bra|bar|setp)[a-z0-9.]+ (%r\d+), [^;]*;")


def through_variables(text: str, seed: int) -> str:
    """The kernel with registers stored to and loaded from parts of a variable."""
    chooser = random.Random(seed)
    lines = []
    for line in text.splitlines():
        lines.append(line)
        found = WRITES.fullmatch(line.strip())
        if line.strip() == "{":
            lines.append(".param .align 8 .b8 v[16];")
        if found is None or chooser.random() < 0.4:
            continue
        if found[1]:  # a guard may not stand before an access to an argument
            continue
        register = found[2]
        at = chooser.choice((0, 4, 8))
        other = chooser.choice([place for place in (0, 4, 8, 12) if place != at])
        lines += [
            f"st.param.b32 [v+{at}], {register};",
            f"st.param.b8 [v+{other}], %r2;",
            f"ld.param.u32 {register}, [v+{at}];",
        ]
    return "\n".join(lines)


def analysis_of(module: Module, facts: Launch) -> KernelAnalysis | None:
    try:
        return analyse_kernel(module.kernels[0], facts, MACHINE)
    except PtxwcetError:
        return None


def check(seed: int, n: int, threads: int) -> tuple[Module, KernelAnalysis] | None:
    """The kernel with variables if it is answered: with the same loops as without them.

    Copies change what a search for a loop's bound looks at before its budget is used up: with the
    budgets of the product one of the two may be refused, or a bound may be smaller. Where that is
    so both are compared with more, as far as both are answered then.
    """
    plain = DataWriter(seed).text()
    module = parse_text(through_variables(plain, seed))
    facts = Launch((threads, 1, 1), (1, 1, 1), {"n": n})
    before, after = analysis_of(parse_text(plain), facts), analysis_of(module, facts)
    if after is None:
        return None
    if before is None or shape_of(before) != shape_of(after):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("MOST_SEARCH_STEPS", "MOST_PROOF_STEPS"):
                patch.setattr(flow_graph, name, 10 * getattr(flow_graph, name))
            before, after = analysis_of(parse_text(plain), facts), analysis_of(module, facts)
    if before is None or after is None:
        return None
    assert shape_of(before) == shape_of(after)
    return module, after


def shape_of(analysis: KernelAnalysis) -> list[object]:
    """Warps and blocks of every path, and the most iterations of every loop.

    Whether a loop is summarised or enumerated may differ, and so may how often it is entered.
    """
    return [
        (warp.warps, set(visited_blocks(warp.nodes)), _most_iterations(warp.nodes))
        for piece in analysis.pieces
        for warp in piece.paths.warps
    ]


def _most_iterations(nodes: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for entry in loop_entries(nodes):
        found[entry.loop] = max(found.get(entry.loop, 0), entry.iterations.base)
    return found


# a variant is found with the copies alone: without them the search for it uses up its budget
@example(326599308, 4, 48)
@settings(max_examples=1, deadline=None)
@given(seed=st.integers(0, 10**9), n=st.integers(-1, 6), threads=st.sampled_from([8, 32, 48]))
def test_loops_and_blocks_are_those_without_variables(seed: int, n: int, threads: int) -> None:
    check(seed, n, threads)


@pytest.mark.every(2)
@pytest.mark.parametrize("first", [0, 8])
def test_many_kernels_are_answered_and_executed(first: int) -> None:
    answered = 0
    for seed in range(first, first + 5):
        found = check(seed, 4, 48)
        if found is None:
            continue
        answered += 1
        module, analysis = found
        data = np.random.default_rng(seed).integers(0, 100, WORDS).astype("u4")
        launch = EmulatedLaunch((48, 1, 1), (1, 1, 1), (4, data))
        result = validate_input(analysis, module, launch, seed)
        assert not result.diagnostics, [str(one) for one in result.diagnostics]
    assert answered >= 2
