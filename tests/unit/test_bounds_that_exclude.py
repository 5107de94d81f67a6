"""A loop bound that leaves out a side of a branch, or blocks, is assumed like one that ends a loop.

The bound rests on it though no loop in its paths is bounded by the user.
"""

from __future__ import annotations

import pytest
from parsing import parse_kernel
from places import UNSOUND

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.flow.facts.stated import FactSource, LoopFact, Place, StatedFacts
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.pipeline import analyse_kernel

pytestmark = pytest.mark.fast

TEXT = (UNSOUND / "side_excluded_by_bound.ptx").read_text()


def analysed(text: str, bound: int | None, ranges: dict[str, tuple[int, int]]) -> KernelAnalysis:
    kernel = parse_kernel(text)
    facts = () if bound is None else (LoopFact(Place("M"), FactSource("--loop-bound M"), bound),)
    launch = Launch((32, 1, 1), ranges=ranges)
    machine = load_machine(DEFAULT_MACHINE, None)
    return analyse_kernel(kernel, launch, machine, StatedFacts(loops=facts))


def keys(analysis: KernelAnalysis) -> set[str]:
    return {one.key for one in analysis.worst.bound.claim.assumptions}


ON_DATA = TEXT
ON_RANGE = TEXT.replace("ld.global.u32 %r1,[%rd1];", "ld.param.u32 %r1,[n];")
LOADED = "ld.global.u32 %r1,[%rd1]; and.b32 %r1,%r1,63;"
NEVER_ONCE = TEXT.replace("%r2,100;", "%r1,100;")


@pytest.mark.parametrize(
    ("text", "bound", "ranges"),
    [(ON_DATA, 20, {}), (ON_RANGE, 20, {"n": (1, 99)}), (NEVER_ONCE, 0, {})],
    ids=["side", "values", "never"],
)
def test_what_a_bound_excludes_rests_on_it(
    text: str, bound: int, ranges: dict[str, tuple[int, int]]
) -> None:
    with_fact = analysed(text, bound, ranges)
    assert "user-loop-bounds" in keys(with_fact)
    try:
        without = analysed(text, None, ranges)
    except Exception:  # the loop has no bound then
        return
    assert with_fact.worst.bound.cycles < without.worst.bound.cycles
    assert "user-loop-bounds" not in keys(without)


def test_a_bound_that_excludes_nothing_is_not_assumed() -> None:
    few = ON_DATA.replace("%r2,100;", "%r2,%r1;").replace("ld.global.u32 %r1,[%rd1];", LOADED)
    assert "user-loop-bounds" not in keys(analysed(few, 90, {}))
    assert "user-loop-bounds" not in keys(analysed(ON_DATA, 100, {}))
