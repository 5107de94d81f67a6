"""Lanes that ``elect.sync`` elects, against executions in which another one is."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from test_mbarriers_kernels import machine, visits

from ptxwcet.bounds.safe import bound_safe
from ptxwcet.emulator import warp_ops
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.executed_paths import executed_blocks
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.facts.stated import NO_FACTS
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.extraction import extract_paths
from ptxwcet.ir.kernel import Module
from ptxwcet.pipeline import analyse_kernel, build_flow
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n) {
.reg .pred %p<6>; .reg .b32 %r<8>; .shared .align 8 .b64 bar[2];
ld.param.u32 %r1, [n]; mov.u32 %r2, %laneid; mov.u32 %r7, -1; mov.u32 %r3, 0;
"""
ONCE = "@!%p1 bra E; L: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r1; @%p2 bra L; E: ret; }"
"""The elected lane runs the loop, as often as the parameter says."""
BY_LANE = ONCE.replace("add.u32 %r3, %r3, 1;", "add.u32 %r3, %r3, 1; add.u32 %r1, %r2, 3;")
"""As often as its own number says."""


def module(body: str) -> Module:
    return parse_module(SourceFile("x", HEAD + body))


def walked_and_executed(body: str, threads: int = 80) -> tuple[object, object]:
    """How often each warp visits each block: as walked, and as the emulator does."""
    whole = module(body)
    (found,) = whole.kernels
    facts = Launch((threads, 1, 1), (1, 1, 1), {"n": 5})
    flow = build_flow(found, facts)
    (pieces,) = extract_paths(flow, facts, place_facts(flow, NO_FACTS))
    launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), (5,))
    execution = execute(found, whole, launch, options=EmulatorOptions(record_paths=True))
    (kind,) = executed_blocks(execution, flow.cfg, flow.postdominators.immediate, (1, 1, 1))

    def counted(paths: object) -> dict[int, Counter[int]]:
        return {warp: visits(one.nodes) for one in paths.warps for warp in one.warps}  # type: ignore[attr-defined]

    return counted(pieces), counted(kind.paths)


@pytest.mark.parametrize("mask", ["-1", "0xffffffff", "%r7"])
@pytest.mark.parametrize("loop", [ONCE, BY_LANE])
def test_one_lane_of_each_warp_goes_where_it_was_walked(mask: str, loop: str) -> None:
    walked, executed = walked_and_executed(f"elect.sync _|%p1, {mask}; {loop}")
    assert walked == executed


def other_lane(monkeypatch: pytest.MonkeyPatch, lane: int) -> None:
    """Has the emulator elect another lane than the lowest one."""
    shifted = warp_ops.members

    def members(group: np.ndarray) -> np.ndarray:
        flags = shifted(group).copy()
        flags[:, :lane] = False
        return flags

    monkeypatch.setattr(warp_ops, "members", members)


@pytest.mark.parametrize("lane", [1, 15])
def test_which_lane_matters_only_to_what_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, lane: int
) -> None:
    """What is the same in all lanes is as long for any; else the assumption is needed."""
    other_lane(monkeypatch, lane)
    walked, executed = walked_and_executed(f"elect.sync _|%p1, -1; {ONCE}")
    assert walked == executed
    walked, executed = walked_and_executed(f"elect.sync _|%p1, -1; {BY_LANE}")
    assert walked != executed


def cycles(body: str, threads: int = 64) -> tuple[int, list[str]]:
    (found,) = module(body).kernels
    launch = Launch((threads, 1, 1), None, {"n": 5})
    analysis = analyse_kernel(found, launch, machine("orin-ecrts2025")).worst.analysis
    return bound_safe(analysis).cycles, [one.key for one in analysis.assumptions]


DATA = "shl.b32 %r4, %r2, 2; ld.shared.u32 %r6, [%r4]; setp.eq.u32 %p3, %r6, 0;"
ENDED = f"{DATA} @%p3 ret;"
COUNTED = "@%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; ret; }"


def test_the_assumption_is_printed_where_it_is_used_alone() -> None:
    first = "mov.u32 %r4, %tid.x; setp.lt.u32 %p3, %r4, 32; elect.sync %r5|%p4, -1;"
    used = cycles(f"{first} and.pred %p1, %p3, %p4; {COUNTED}")[1]
    assert "elected-lane-is-lowest" in used
    unused = cycles(f"{first} setp.eq.u32 %p1, %r4, 0; {COUNTED}")[1]
    assert "elected-lane-is-lowest" not in unused


@pytest.mark.parametrize("written", ["%r5", "%r5|_", "%r5|%p4"])
def test_who_is_elected_is_its_number(written: str) -> None:
    """Lane 0 of the first warp initialises, not lane 1 (whose number is what a predicate holds)."""
    asked = f"mov.u32 %r4, %tid.x; elect.sync {written}, -1; setp.eq.u32 %p1, %r4, %r5;"
    used = "@%p1 mbarrier.arrive.shared.b64 _, [bar]; W: mbarrier.try_wait.parity.shared.b64 %p3,"
    body = f"{asked} {COUNTED[: -len(' ret; }')]} {used} [bar], 0; @!%p3 bra W; ret; }}"
    assert cycles(body)[0] > 0


@pytest.mark.parametrize(
    ("elects", "why"),
    [
        ("elect.sync _|%p1, 0xff;", "with a mask that is not one of all lanes"),
        ("elect.sync _|%p1, %r2;", "with a mask that is not one of all lanes"),
        (
            "setp.lt.u32 %p3, %r2, 8; mov.pred %p1, 0; @!%p3 bra J; elect.sync _|%p1, -1; J:",
            "of some lanes of a warp",
        ),
        ("setp.lt.u32 %p3, %r2, 1; @%p3 ret; elect.sync _|%p1, -1;", "of some lanes of a warp"),
    ],
)
def test_what_is_not_a_whole_warp_is_refused_by_name(elects: str, why: str) -> None:
    with pytest.raises(PtxwcetError) as refused:
        cycles(f"{elects} {COUNTED}", threads=32)
    (first, *_) = refused.value.diagnostics
    assert any(f"elect.sync {why}" in note for note in first.notes), first


@pytest.mark.parametrize(
    "elects",
    [
        "mov.pred %p1, 0; @!%p3 bra J; elect.sync _|%p1, -1; J:",
        "mov.pred %p1, 0; @!%p3 bra J; elect.sync _|%p1, -1; @%p1 bra J; bra.uni J; J:",
        "@%p3 ret; elect.sync _|%p1, -1;",
        "@%p3 elect.sync _|%p1, -1;",
    ],
)
def test_lanes_that_data_sends_elsewhere_are_refused(elects: str) -> None:
    with pytest.raises(PtxwcetError) as refused:
        cycles(f"{DATA} {elects} {COUNTED}", threads=32)
    assert refused.value.diagnostics[0].code in ("PW202", "PW504")


def test_of_lanes_that_may_have_ended_any_other_may_be_elected() -> None:
    """Where data says that lane 0 has ended another one is elected, which loops more often."""
    lowest, gone = (cycles(f"{ends} elect.sync _|%p1, -1; {BY_LANE}") for ends in ("", ENDED))
    twice = cycles(f"elect.sync _|%p1, -1; {BY_LANE.replace('%r2, 3', '%r2, 34')}")
    assert gone[0] >= twice[0] > 2 * lowest[0]
