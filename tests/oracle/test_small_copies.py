"""Arrivals behind small copies (cp.async.mbarrier.arrive): bounded, executed, simulated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_mbarriers_kernels import machine, visits
from test_tensor_copies import kernel, module

from ptxwcet.bounds.safe import bound_safe
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.executed_paths import executed_blocks
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.facts.stated import NO_FACTS
from ptxwcet.flow.graph.polling import failing_round
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.extraction import extract_paths
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import Machine
from ptxwcet.pipeline import analyse_kernel, build_flow
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.policies import Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.cost import SMALL_COPIES
from ptxwcet.timing.counting import Counting, cost_of_counting
from ptxwcet.warp.program import PartialBarrier

NAME, TILES = "small_ring", 4


def with_copies_of(latency: int) -> Machine:
    found = machine("orin-ecrts2025")
    row = replace(found.timings[OpClass.ASYNC_COPY], latency_cycles=latency)  # type: ignore[type-var]
    return replace(found, timings={**found.timings, OpClass.ASYNC_COPY: row})


def launched(tiles: int = TILES) -> Launch:
    return Launch((64, 1, 1), (1, 1, 1), {kernel(NAME).parameters[-1].name: tiles})


def test_no_simulated_run_exceeds_the_bound_and_both_wait_for_the_copies() -> None:
    found = []
    for latency in (100, 500):
        on = with_copies_of(latency)
        analysis = analyse_kernel(kernel(NAME), launched(), on).worst.analysis
        bound = bound_safe(analysis).cycles
        run = reference_run(analysis.workload, SmConfiguration.of(on), Policy.YOUNGEST)
        assert bound / 4 < run.cycles <= bound
        found.append((run.cycles, bound))
    (run, bound), (later, late) = found
    assert later >= run + 2 * 350  # of two stages: the second time round waits again
    assert late >= bound + later - run


def test_warps_execute_what_was_walked_and_polls() -> None:
    own = kernel(NAME)
    data = np.random.default_rng(1).uniform(-1, 1, 64 * TILES).astype("f4")
    launch = EmulatedLaunch((64, 1, 1), (1, 1, 1), (data, np.zeros(32, "f4"), TILES))
    execution = execute(own, module(), launch, options=EmulatorOptions(record_paths=True))
    assert not execution.findings
    flow = build_flow(own, launched())
    (pieces,) = extract_paths(flow, launched(), place_facts(flow, NO_FACTS))
    (kind,) = executed_blocks(execution, flow.cfg, flow.postdominators.immediate, (1, 1, 1))
    walked = {warp: visits(path.nodes) for path in pieces.warps for warp in path.warps}
    polled = set()
    for wait, one in enumerate(own.instructions):
        if one.op_class is OpClass.MBARRIER_WAIT:
            round_ = failing_round(own, flow.cfg, wait)
            assert round_ is not None
            for index in (wait, *(at for at, _ in round_)):
                polled |= {b.id for b in flow.cfg.blocks if b.start <= index < b.end}
    for path in kind.paths.warps:
        seen = visits(path.nodes)
        for warp in path.warps:
            for block in (seen.keys() | walked[warp].keys()) - polled:
                assert seen[block] == walked[warp][block]


def test_only_arrivals_that_are_counted_are_followed() -> None:
    on = machine("orin-ecrts2025")
    with pytest.raises(PtxwcetError) as refused:
        analyse_kernel(kernel("small_copies_counted"), Launch((32, 1, 1)), on)
    (first, *_) = refused.value.diagnostics
    assert first.code == "PW223"
    assert "use .noinc" in first.message


def test_an_arrival_comes_a_time_of_its_row_behind_the_copies() -> None:
    """It passes the memory path twice: as an instruction, and when it arrives."""
    own, on = kernel(NAME), machine("titan-v")
    (behind,) = [one for one in own.instructions if "noinc" in one.modifiers][:1]
    (plain,) = [
        one
        for one in own.instructions
        if one.opcode is not None and one.opcode.name == "mbarrier.arrive"
    ][:1]
    found = [cost_of_counting(one, on, Counting("m+0", 32, 1), 0) for one in (behind, plain)]
    late, now = (one for one in found if isinstance(one, PartialBarrier))
    assert late.mbarrier is not None
    assert now.mbarrier is not None
    timed = late.instruction
    assert late.mbarrier.arrivals == now.mbarrier.arrivals == 32
    assert late.mbarrier.after_cycles == timed.initiation_cycles + timed.latency_cycles
    assert set(late.mbarrier.behind) == set(SMALL_COPIES)
    assert timed.path_cycles == 2 * now.instruction.path_cycles > 0
