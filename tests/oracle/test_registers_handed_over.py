"""Warpgroups that hand registers over (setmaxnreg): bounded, simulated, refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from test_mbarriers_kernels import machine
from test_tensor_copies import kernel, with_engine

from ptxwcet.bounds.grid import Dispatch, bound_grid
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.flow.launch import Launch, TensorBox
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import Machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.policies import Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.warp.program import REGISTERS, PartialBarrier
from ptxwcet.warp.structure import entered


@cache
def with_row() -> Machine:
    found = machine("orin-ecrts2025")
    row = found.timings[OpClass.MOVE]
    return replace(found, timings={**found.timings, OpClass.CONTROL_OTHER: row})


def specialised() -> Launch:
    return Launch((384, 1, 1), None, {kernel("specialised").parameters[-1].name: 3})


def test_a_block_is_bounded_and_a_launch() -> None:
    analysis = analyse_kernel(kernel("specialised"), specialised(), with_row()).worst.analysis
    handed = [
        (len(one.warps), node.waits)
        for one in analysis.workload.classes
        for node in entered(one.program.body)
        if isinstance(node, PartialBarrier) and node.name == REGISTERS
    ]
    gives = sum(count for count, waits in handed if not waits)
    assert (gives, sum(count for count, waits in handed if waits)) == (4, 8)
    assert "registers-suffice" in [one.key for one in analysis.assumptions]
    bound = bound_safe(analysis).cycles
    configuration = SmConfiguration.of(with_row())
    run = reference_run(analysis.workload, configuration, Policy.YOUNGEST)
    assert bound / 4 < run.cycles <= bound
    assert run.cycles <= bound_grid([block_kind(analysis, 1)], Dispatch(1, 1)).cycles


HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data) {
.reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %d<4>;
mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128;
"""
GIVE, TAKE = (f"setmaxnreg.{way}.sync.aligned.u32 40;" for way in ("dec", "inc"))
LATE = "ld.param.u64 %d1, [data]; ld.global.u32 %r2, [%d1]; add.u32 %r3, %r2, %r2;"


def cycles(body: str, on: Machine | None = None) -> int:
    (own,) = parse_module(SourceFile("x", HEAD + body + "\nret; }")).kernels
    analysis = analyse_kernel(own, Launch((256, 1, 1)), on or with_row())
    return bound_safe(analysis.worst.analysis).cycles


def test_who_takes_waits_for_all_who_give() -> None:
    """A load before it is given up delays what comes behind the increase; without one it is free.

    Behind a barrier of the block that comes after all that is given up nobody waits.
    """
    parted = "@!%p1 bra T;{} bra.uni E; T: {} E:"
    here = cycles(parted.format(LATE + GIVE, TAKE + LATE))
    nobody = cycles(parted.format(LATE, LATE))
    behind = cycles(f"@%p1 bra S; bra.uni M; S: {GIVE} M: bar.sync 0; @%p1 bra E; {TAKE} {LATE} E:")
    latency = with_row().memory_latency_cycles
    assert here >= nobody + latency
    assert behind < here


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (TAKE, "PW504 what is given up of registers: registers are taken, and no warp has"),
        (f"@%p1 bra T; {GIVE} bar.sync 0; bra.uni E; T: bar.sync 0; {GIVE} {TAKE} E:", "PW504"),
        (f"@%p1 bra T; {GIVE} bra.uni E; T: {GIVE} {TAKE} {GIVE} E:", "PW504"),
        (f"@%p1 bra T; {GIVE} {GIVE} bra.uni E; T: {TAKE} E:", "PW504 what is given up"),
        (f"setp.ge.u32 %p2, %r1, 112; @%p2 bra T; {GIVE} T: @%p1 bra E; {TAKE} E:", "PW222 setm"),
    ],
)
def test_what_is_not_sure_is_refused(body: str, why: str) -> None:
    with pytest.raises(PtxwcetError) as refused:
        cycles(body)
    (first, *_) = refused.value.diagnostics
    assert f"{first.code} {first.message}".startswith(why)


def test_who_hands_over_must_be_known() -> None:
    """Of a path that does not say who gives up and takes neither is an instruction as others."""
    (own,) = parse_module(SourceFile("x", HEAD + f"{GIVE} {TAKE} ret; }}")).kernels
    for at in (2, 3):
        costs = LaunchCosts(own, Launch((256, 1, 1)), with_row())
        costs.nodes(at, own.instructions[at])
        with pytest.raises(PtxwcetError, match="no bound is proved"):
            costs.raise_refusals()


def test_a_decrease_alone_is_an_instruction() -> None:
    """As ever: nobody waits for it, and a launch of such a kernel may be bounded."""
    assert 0 < cycles(GIVE) - cycles("") <= 8


@pytest.mark.thorough
def test_a_product_of_boxes_whose_warpgroups_hand_registers_over() -> None:
    """Copies of boxes, products, registers: the bound grows by a tile's part, copied and worked."""
    own, on = kernel("tensor_gemm"), with_engine("h100")
    row = on.timings[OpClass.MOVE]
    on = replace(on, timings={**on.timings, OpClass.CONTROL_OTHER: row})
    first, second, *_, tiles = (one.name for one in own.parameters)
    boxes = {f"{first}+0": TensorBox((64, 128), 2), f"{second}+0": TensorBox((64, 64), 2)}
    found = [
        bound_safe(analyse_kernel(own, facts, on).worst.analysis).cycles
        for facts in (
            Launch((384, 1, 1), None, {tiles: number}, boxes=boxes) for number in (16, 32, 48)
        )
    ]
    assert found[2] - found[1] == pytest.approx(found[1] - found[0], rel=0.05)
    copied, multiplied = 3 * 8192 // 32, 2 * 4 * 2 * 64 * 64 * 16 // 4096
    assert (found[1] - found[0]) / 16 > copied + multiplied
