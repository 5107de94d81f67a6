"""Kernels of tests/data/mbarriers: bounded, executed, simulated; refused if they are not static."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from programs import run_program

import ptxwcet
from ptxwcet.bounds.explanation import explain_launch
from ptxwcet.bounds.grid import Dispatch, bound_grid
from ptxwcet.bounds.launch_bound import LaunchBound, LaunchRules, kinds_of_blocks
from ptxwcet.bounds.memory_servers import memory_alone
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.commands.bound.formula import OpenParameter, analyse_symbolic_blocks
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.executed_paths import executed_blocks
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.facts.stated import NO_FACTS
from ptxwcet.flow.graph.polling import failing_round
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.extraction import extract_paths
from ptxwcet.flow.walk.path import Path as Nodes
from ptxwcet.flow.walk.path import PathLoop, PathRepeat, Visit
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.pipeline import analyse_kernel, build_flow
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.support.diagnostics import PtxwcetError

FILE = Path(__file__).parents[1] / "data" / "mbarriers" / "mbarriers.ptx"
RINGS = {"plain_ring": 4, "bulk_ring": 4, "ring_of_three": 3}


@cache
def machine(name: str) -> Machine:
    """A machine of the tool with an engine for bulk copies, and mbarriers as shared accesses."""
    found = load_machine(name)
    shared, far = found.timings[OpClass.LOAD_SHARED], found.timings[OpClass.LOAD_GLOBAL]
    polls = (("try_wait", 4000), ("test_wait", 2000))
    rows = {
        OpClass.MBARRIER: shared,
        OpClass.MBARRIER_WAIT: replace(shared, rates=polls),  # type: ignore[type-var]
        OpClass.ASYNC_BULK: replace(far, unit="TMA", rates=(("bytes", 32),)),  # type: ignore[type-var]
    }
    engine = replace(found.units[0], name="TMA", count=1)
    return replace(found, timings={**found.timings, **rows}, units=(*found.units, engine))


@cache
def module() -> Module:
    return parse_module(read_source(str(FILE)))


def kernel(name: str) -> Kernel:
    (found,) = [one for one in module().kernels if one.name == name]
    return found


def launched(name: str, *numbers: int, block: int = 128) -> Launch:
    names = [one.name for one in kernel(name).parameters][-len(numbers) :] if numbers else []
    return Launch((block, 1, 1), None, dict(zip(names, numbers, strict=True)))


def cycles(name: str, *numbers: int, block: int = 128, on: str = "orin-ecrts2025") -> int:
    analysis = analyse_kernel(kernel(name), launched(name, *numbers, block=block), machine(on))
    return bound_safe(analysis.worst.analysis).cycles


@pytest.mark.parametrize(
    ("name", "number", "on"),
    [
        ("plain_ring", 5, "orin-ecrts2025"),
        pytest.param("bulk_ring", 6, "titan-v", marks=pytest.mark.thorough),
        pytest.param("ring_of_three", 7, "orin-ecrts2025", marks=pytest.mark.thorough),
        pytest.param("there_and_back", None, "h100", marks=pytest.mark.thorough),
        pytest.param("gemm", 6, "h100", marks=pytest.mark.thorough),
    ],
)
def test_no_simulated_run_exceeds_the_bound(name: str, number: int | None, on: str) -> None:
    numbers = () if number is None else (number,)
    block = 160 if name == "gemm" else 128
    facts = launched(name, *numbers, block=block)
    analysis = analyse_kernel(kernel(name), facts, machine(on)).worst.analysis
    bound = bound_safe(analysis).cycles
    simulator = Simulator(analysis.workload, SmConfiguration.of(machine(on)))
    for policy in Policy:
        assert bound / 3 < simulator.cycles(policy) <= bound


def test_rings_cost_the_same_whatever_the_number_of_tiles() -> None:
    """A tile more costs as much as any other, and bounds of many tiles come at once."""
    for name, stages in [*RINGS.items()][2:]:
        few, more, many = (cycles(name, 48 * stages * n) for n in (10, 20, 4000))
        assert many - more == pytest.approx((more - few) * 398, rel=0.01)


def test_the_bound_of_a_product_with_a_ring_of_bulk_copies() -> None:
    """Both the copies and the products are in it, and it grows by a tile's part."""
    first, second, third = (cycles("gemm", n, block=160, on="h100") for n in (16, 32, 48))
    assert third - second == pytest.approx(second - first, rel=0.05)
    copied, multiplied = 2 * 8192 // 32, 4 * 2 * 64 * 64 * 16 // 4096
    assert (second - first) / 16 > copied + multiplied


@pytest.mark.parametrize("resident", [pytest.param(1, marks=pytest.mark.thorough), 3])
def test_a_launch_of_that_product(resident: int) -> None:
    """Its parts add up, also line by line; of one block it is the bound of a block, or nearly."""
    grid = (16, 16, 1)
    facts = replace(launched("gemm", 16, block=160), grid=grid)
    analysis = analyse_kernel(kernel("gemm"), facts, machine("h100"))
    pieces = [(piece.analysis, piece.count) for piece in analysis.pieces]
    kinds = kinds_of_blocks(pieces, grid)
    (kind,) = kinds
    assert (kind.count, kind.polling) == (256, Fraction(1, 80))
    dispatch = Dispatch(114, resident, memory=memory_alone(machine("h100")))
    bound = bound_grid(kinds, dispatch)
    left = 1 - resident * kind.polling
    whole = bound.cycles - bound.polling_cycles
    assert bound.cycles == ceil(whole / left)
    passed = -(-256 // 114) * (kind.slack_cycles + kind.work_cycles)
    assert (
        kind.work_cycles * 256 // 114
        < whole
        < passed + resident * kind.work_cycles / left + (bound.memory_cycles)
    )
    said = cast("LaunchBound", SimpleNamespace(blocks=256, bound=bound))
    paid = explain_launch(said, pieces)
    assert sum(one.total for one in paid.values()) == bound.cycles
    alone = bound_grid([replace(kind, count=1)], dispatch).cycles
    assert alone == pytest.approx(bound_safe(analysis.worst.analysis).cycles, rel=0.01)
    with pytest.raises(PtxwcetError, match="poll mbarriers"):
        analyse_symbolic_blocks(
            analysis, OpenParameter("blocks", "blocks", 1, 9), cast("LaunchRules", None)
        )


# --- executed -------------------------------------------------------------------------------------


def visits(nodes: Nodes) -> Counter[int]:
    out: Counter[int] = Counter()
    for node in nodes:
        match node:
            case Visit(block):
                out[block] += 1
            case PathLoop(body=body):
                out += visits(body)
            case PathRepeat(count, least, body):
                assert count == least
                for block, times in visits(body).items():
                    out[block] += count.base * times
            case _:
                raise AssertionError(node)
    return out


@pytest.mark.every(3)
@pytest.mark.parametrize("name", RINGS)
def test_warps_execute_what_was_walked_and_polls(name: str) -> None:
    """Each block as often as the emulator saw it, but for those that are polled in: these more."""
    found, tiles = kernel(name), 13
    random = np.random.default_rng(1)
    data = random.uniform(-1, 1, 256 * tiles).astype("f4"), np.zeros(96, "f4")
    launch = EmulatedLaunch((128, 1, 1), (1, 1, 1), (*data, tiles))
    execution = execute(found, module(), launch, options=EmulatorOptions(record_paths=True))
    facts = replace(launched(name, tiles), grid=(1, 1, 1))
    flow = build_flow(found, facts)
    (pieces,) = extract_paths(flow, facts, place_facts(flow, NO_FACTS))
    meetings = flow.postdominators.immediate
    (kind,) = executed_blocks(execution, flow.cfg, meetings, (1, 1, 1))
    walked = {warp: visits(path.nodes) for path in pieces.warps for warp in path.warps}
    executed = {warp: visits(path.nodes) for path in kind.paths.warps for warp in path.warps}
    polled = set()
    for wait, one in enumerate(found.instructions):
        if one.op_class is OpClass.MBARRIER_WAIT:
            again = failing_round(found, flow.cfg, wait)
            assert again is not None
            for index in (wait, *(at for at, _ in again)):
                polled |= {b.id for b in flow.cfg.blocks if b.start <= index < b.end}
    assert polled
    for warp, seen in executed.items():
        for block in seen.keys() | walked[warp].keys():
            if block in polled:
                assert seen[block] >= walked[warp][block]
            else:
                assert seen[block] == walked[warp][block]


# --- refused --------------------------------------------------------------------------------------


def said(name: str, *numbers: int, block: int = 64) -> str:
    with pytest.raises(PtxwcetError) as refused:
        cycles(name, *numbers, block=block)
    first = refused.value.diagnostics[0]
    return f"{first.code} {first.message}"


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("runs_ahead", (4,), "PW504 mbarrier _ZZ10runs_aheadE4full+0: a warp may count before"),
        ("too_few", (), "PW504 mbarrier _ZZ7too_fewE4full+0: warps wait there that no other"),
        ("told_by_data", (0,), "PW223 mbarrier.arrive.shared::cta.b64: which mbarrier it is"),
        ("told_by_data", (1,), "PW223 mbarrier.arrive.expect_tx.shared::cta.b64: the number of"),
        ("told_by_data", (2,), "PW222 whether all lanes of the warp come here"),
        ("told_by_data", (3,), "PW504 mbarrier _ZZ12told_by_dataE4full+0: 32 may arrive in a"),
        ("asks_once", (), "PW223 mbarrier.try_wait.parity.shared::cta.b64 is not in a loop that"),
    ],
)
def test_what_is_not_static_is_refused_where_it_is(
    name: str, numbers: tuple[int, ...], message: str
) -> None:
    assert said(name, *numbers).startswith(message)


def test_machines_of_the_tool_refuse_by_name() -> None:
    with pytest.raises(PtxwcetError) as refused:
        analyse_kernel(kernel("bulk_ring"), launched("bulk_ring", 4), load_machine("h100"))
    codes = {one.code for one in refused.value.diagnostics}
    named = {one.message.split()[0].partition(".shared")[0] for one in refused.value.diagnostics}
    assert codes == {"PW402"}
    assert {"mbarrier.init", "mbarrier.arrive.expect_tx", "cp.async.bulk"} <= named


ROWS = """[ops]
mbarrier = { unit = "MEM", initiation_cycles = 4, latency_cycles = 25, evidence = "assumed", source = "silicon: as a shared access" }
mbarrier_wait = { unit = "MEM", initiation_cycles = 4, latency_cycles = 25, rates = { try_wait = 4000, test_wait = 2000 }, evidence = "assumed", source = "silicon: as a shared access" }
async_bulk = { unit = "TMA", initiation_cycles = 4, latency_cycles = { memory_latency = true }, rates = { bytes = 32 }, evidence = "assumed", source = "silicon: as a global access" }
"""  # noqa: E501


def test_blocks_and_launches_are_simulated_through_every_door(tmp_path: Path) -> None:
    model = Path(ptxwcet.__file__).parent / "machine" / "models" / "titan-v.toml"
    text = model.read_text(encoding="utf-8").replace("[ops]\n", ROWS)
    own = tmp_path / "own.toml"
    text = text.replace('compute_capability = "7.0"', 'compute_capability = "9.0"')
    own.write_text(text.replace("[units]\n", "[units]\nTMA = 1\n"), encoding="utf-8")
    params = {"bulk_ring_param_2": 6}
    given = {"kernel": "bulk_ring", "block": 128, "params": params, "machine": str(own)}
    bound = ptxwcet.bound(str(FILE), **given)
    for policy in Policy:
        run = ptxwcet.simulate(str(FILE), policy=policy.value, **given)
        assert bound.cycles / 3 < run.cycles <= bound.cycles
    said = ["-k", "bulk_ring", "--block", "128", "--param", "bulk_ring_param_2=6"]
    how = ["--machine", str(own), "--policy", "lrr", "--sms", "2", "--resident-blocks", "2"]
    trace = str(tmp_path / "trace.csv")
    launched = ["--grid", "5", "-o", trace]
    code, out, _ = run_program("simulate", "launch", str(FILE), *said, *how, *launched)
    assert code == 0
    assert "known without execution" in out
