"""Tensor copies: what a box takes of memory, byte for byte; rings executed as bulk copies."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from test_mbarriers_kernels import machine, visits

from ptxwcet.bounds.safe import bound_safe
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.executed_paths import executed_blocks
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.facts.stated import NO_FACTS
from ptxwcet.flow.launch import Launch, TensorBox
from ptxwcet.flow.paths.extraction import extract_paths
from ptxwcet.ir.kernel import Kernel, Module, Register
from ptxwcet.ir.mbarriers import tensor_map_of
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import Machine, OpTiming
from ptxwcet.pipeline import analyse_kernel, build_flow
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.policies import Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.counting import Counting, cost_of_counting
from ptxwcet.warp.program import PartialBarrier, TimedInstruction

FILE = Path(__file__).parents[1] / "data" / "engines" / "engines.ptx"
TILES, BOX = 6, TensorBox((64, 4), 4)


@cache
def with_engine(name: str, rate: int = 32) -> Machine:
    """A machine whose engine copies boxes as fast as rows of bytes."""
    found = machine(name)
    row = found.timings[OpClass.ASYNC_BULK]
    row = replace(row, rates=(("bytes", 32), ("tensor_bytes", rate)))  # type: ignore[type-var]
    return replace(found, timings={**found.timings, OpClass.ASYNC_BULK: row})


@cache
def module() -> Module:
    return parse_module(read_source(str(FILE)))


def kernel(name: str) -> Kernel:
    (found,) = [one for one in module().kernels if one.name == name]
    return found


# --- what a box takes of memory -------------------------------------------------------------------


def touched(box: TensorBox, start: int, strides: tuple[int, ...], size: int) -> int:
    """How many pieces of memory a box has bytes in, from its first byte on: looked at one by one.

    Each row counts its own, as if others were far away.
    """
    places = [start]
    for count, stride in zip(box.dimensions[1:], strides, strict=True):
        places = [one + stride * n for one in places for n in range(count)]
    length = box.dimensions[0] * box.element_bytes
    return sum(len({byte // size for byte in range(one, one + length)}) for one in places)


def charged(box: TensorBox, *, is_out: bool, on: Machine) -> TimedInstruction:
    """What a copy of a box costs, of one lane."""
    mnemonic = "there_and_back"
    (copy_in, copy_out) = [
        one for one in kernel(mnemonic).instructions if "tensor" in one.modifiers
    ]
    number = box.rows * box.row_bytes
    what = Counting("full+0", 1, number, rows=box.rows)
    cost = cost_of_counting(copy_out if is_out else copy_in, on, what, 0)
    timed = cost.instruction if isinstance(cost, PartialBarrier) else cost
    assert isinstance(timed, TimedInstruction)
    return timed


def test_a_box_takes_no_more_of_memory_than_is_charged_and_sometimes_all_of_it() -> None:
    """Sectors of 32 bytes, and lines of the path; with the map (4 sectors, 2 lines)."""
    rng, on = random.Random(4), with_engine("titan-v")
    rules = on.memory
    assert rules is not None
    reached = {True: 0, False: 0}
    for _ in range(150):
        element = rng.choice([1, 2, 4, 8])
        inner = 16 // element * rng.randint(1, min(16, 256 * element // 16))
        rank = rng.randint(1, 4)
        box = TensorBox((inner, *(rng.randint(1, 3) for _ in range(rank - 1))), element)
        if rng.random() < 0.5:  # rows that all begin as badly as the first one
            strides = tuple(256 * rng.randint(1, 40) for _ in range(rank - 1))
            start = 256 * rng.randint(9, 99) - element
        else:
            strides = tuple(16 * rng.randint(1, 400) for _ in range(rank - 1))
            start = element * rng.randint(0, 999)
        for is_out in (False, True):
            unit = 32 if is_out else 256  # a copy in may ask for all around
            sectors = touched(box, start, strides, unit) * (unit // 32)
            partial = rules.fetches_of_partial_sectors * 2 * box.rows if is_out else 0
            timed = charged(box, is_out=is_out, on=on)
            assert sectors + partial + 4 <= timed.sectors
            reached[is_out] += sectors + partial + 4 == timed.sectors
            lines = touched(box, start, strides, 128) + 2
            least = max(rules.path_request_cycles.value, rules.path_line_cycles.value * lines)
            assert least <= timed.path_cycles
    assert min(reached.values()) > 30


def test_each_row_of_a_box_takes_whole_cycles_of_the_engine() -> None:
    """Beside what each copy takes."""
    on = with_engine("orin-ecrts2025", 64)
    row = on.timings[OpClass.ASYNC_BULK]
    assert isinstance(row, OpTiming)
    of_copy = row.initiation_cycles
    for dimensions, cycles in (((64, 8), 32), ((8, 8), 8), ((20, 3), 6), ((4,), 1)):
        timed = charged(TensorBox(dimensions, 4), is_out=False, on=on)
        assert timed.initiation_cycles == cycles + of_copy
    rates = (*row.rates, ("out_bytes", 16))
    slow = replace(on, timings={**on.timings, OpClass.ASYNC_BULK: replace(row, rates=rates)})
    for is_out, cycles in ((False, 32), (True, 128)):
        timed = charged(TensorBox((64, 8), 4), is_out=is_out, on=slow)
        assert timed.initiation_cycles == cycles + of_copy


# --- rings ----------------------------------------------------------------------------------------


def as_bulk_copies(name: str) -> Kernel:
    """The kernel with bulk copies of as many bytes in the place of tensor copies."""
    text = re.sub(
        r"tensor\.2d\.(shared::cluster\.global)\.tile(\S+ \[%r\d+\], \[%rd\d+), \{[^}]*\}\](, \[)",
        r"\1\2], 1024\3",
        FILE.read_text(),
    )
    return next(one for one in parse_module(SourceFile("x", text)).kernels if one.name == name)


def launched(name: str, place: str, box: TensorBox | None = BOX) -> Launch:
    tiles = kernel(name).parameters[-1].name
    boxes = {} if box is None else {f"{name}_param_0{place}": box}
    return Launch((128, 1, 1), (1, 1, 1), {tiles: TILES}, boxes=boxes)


def test_a_ring_is_executed_and_bounded_as_one_of_bulk_copies() -> None:
    """Of boxes of the same bytes, whose rows fill the cycles of the engine."""
    name, on = "tensor_ring_by_pointer", with_engine("orin-ecrts2025")
    plain, facts = as_bulk_copies(name), launched(name, "")
    found = analyse_kernel(kernel(name), facts, on).worst.analysis
    like = analyse_kernel(plain, replace(facts, boxes={}), on).worst.analysis
    further = bound_safe(found).cycles - bound_safe(like).cycles
    row = on.timings[OpClass.ASYNC_BULK]
    assert isinstance(row, OpTiming)
    each = TILES * row.initiation_cycles  # of boxes beside their rows
    assert each <= further <= each + 1  # the coordinates are read
    data = np.random.default_rng(1).uniform(-1, 1, 256 * TILES).astype("f4")
    launch = EmulatedLaunch((128, 1, 1), (1, 1, 1), (data, np.zeros(96, "f4"), TILES))
    execution = execute(plain, module(), launch, options=EmulatorOptions(record_paths=True))
    flow = build_flow(kernel(name), facts)
    (pieces,) = extract_paths(flow, facts, place_facts(flow, NO_FACTS))
    (kind,) = executed_blocks(execution, flow.cfg, flow.postdominators.immediate, (1, 1, 1))
    walked = {warp: visits(path.nodes) for path in pieces.warps for warp in path.warps}
    polled = {
        block.id
        for block in flow.cfg.blocks
        for one in kernel(name).instructions[block.start : block.end]
        if one.op_class is OpClass.MBARRIER_WAIT
    }
    polled |= {after for block in polled for after in flow.cfg.successors[block]}
    for path in kind.paths.warps:
        seen = visits(path.nodes)
        for warp in path.warps:
            for block in (seen.keys() | walked[warp].keys()) - polled:
                assert seen[block] == walked[warp][block]


@pytest.mark.parametrize(
    ("name", "block", "places"),
    [
        ("there_and_back", 64, ("+128", "+256")),
        pytest.param("tensor_ring", 128, ("+0",), marks=pytest.mark.thorough),
    ],
)
def test_no_simulated_run_exceeds_the_bound(name: str, block: int, places: tuple[str, ...]) -> None:
    on, own = with_engine("orin-ecrts2025"), kernel(name)
    box = BOX if name == "tensor_ring" else TensorBox((64, 16), 4)
    boxes = {f"{own.parameters[0].name}{place}": box for place in places}
    values = {own.parameters[-1].name: TILES} if name == "tensor_ring" else {}
    facts = Launch((block, 1, 1), None, values, boxes=boxes)
    analysis = analyse_kernel(own, facts, on).worst.analysis
    bound = bound_safe(analysis).cycles
    for policy in (Policy.LRR, Policy.YOUNGEST):
        run = reference_run(analysis.workload, SmConfiguration.of(on), policy)
        assert bound / 3 < run.cycles <= bound


# --- refused --------------------------------------------------------------------------------------


def said(name: str, facts: Launch, on: Machine | None = None) -> str:
    with pytest.raises(PtxwcetError) as refused:
        analyse_kernel(kernel(name), facts, on or with_engine("orin-ecrts2025"))
    first = refused.value.diagnostics[0]
    return f"{first.code} {first.message.partition(': ')[2] or first.message}: {first.help}"


def test_what_a_box_must_be() -> None:
    name = "tensor_ring"
    none = said(name, launched(name, "", None))
    assert none.startswith("PW223 how much it copies stands in the tensor map tensor_ring_param_0")
    assert none.endswith("--param tensor_ring_param_0=box:64x128:2")
    assert said(name, launched(name, "+0", TensorBox((64,), 4))).startswith("PW214")
    for rows in (3, 5):  # a box of other bytes than are expected: its phases would not end
        assert said(name, launched(name, "+0", TensorBox((64, rows), 4))).startswith("PW504")
    without = said(name, launched(name, "+0"), machine("orin-ecrts2025"))
    assert without.startswith("PW402")
    assert "tensor_bytes" in without
    either = said("either", Launch((64, 1, 1), None))
    assert either.startswith("PW223 which tensor map says how much it copies is not known")


INTO = "cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        (f"{INTO.format(3, 'im2col')} [%r1], [%d1, {{0,0,0}}], [%r1], {{%h1}};", "im2col"),
        (f"{INTO.format(2, 'tile::gather4')} [%r1], [%d1, {{0,0,0,0,0}}], [%r1];", "gather4"),
        (f"{INTO.format(1, 'tile')}.multicast::cluster [%r1], [%d1, {{0}}], [%r1], 1;", "block"),
        (f"{INTO.format(1, 'tile')}.cta_group::2 [%r1], [%d1, {{0}}], [%r1];", "one block"),
        ("cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%d1, {0}];", "one block"),
    ],
)
def test_other_copies_are_refused_by_name(copy: str, why: str) -> None:
    text = f""".version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128]) {{
.reg .b32 %r<3>; .reg .b64 %d<3>; .reg .b16 %h<3>; .shared .align 8 .b8 m[256];
mov.u32 %r1, m; mov.b64 %d1, map; cvta.param.u64 %d1, %d1; mov.u16 %h1, 1;
{copy}
ret; }}"""
    (own,) = parse_module(SourceFile("x", text)).kernels
    with pytest.raises(PtxwcetError) as refused:
        analyse_kernel(own, Launch((1, 1, 1)), with_engine("orin-ecrts2025"))
    assert refused.value.diagnostics[0].code == "PW223"
    assert why in refused.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("way", "place"),
    [
        ("mov.b64 %d1, map; cvta.param.u64 %d2, %d1;", "map+0"),
        ("mov.b64 %d1, map; add.s64 %d3, %d1, 128; cvta.param.u64 %d2, %d3;", "map+128"),
        ("mov.b32 %r1, map; cvt.u64.u32 %d1, %r1; cvta.param.u64 %d2, %d1;", "map+0"),
        ("ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1;", "p"),
        ("ld.param.u64 %d1, [p]; add.s64 %d2, %d1, 128;", None),
        ("ld.param.u64 %d2, [map+8];", None),
        ("ld.param.u32 %r1, [p]; cvt.u64.u32 %d2, %r1;", None),
        ("ld.param.u64 %d1, [p]; mov.b64 {%r1, %r2}, %d1; cvt.u64.u32 %d2, %r1;", None),
        ("mov.b64 %d2, map; @%p1 add.s64 %d2, %d2, 128;", None),
        ("mov.b64 %d1, map; @%p1 mov.b64 %d2, %d1;", None),
        ("add.s64 %d2, %d2, 128;", None),
        ("ld.global.u64 %d2, [%d3];", None),
    ],
)
def test_which_map_it_is_is_known_or_not(way: str, place: str | None) -> None:
    text = f""".version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .align 64 .b8 map[256], .param .u64 p) {{
.reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %d<4>;
{way}
ret; }}"""
    (own,) = parse_module(SourceFile("x", text)).kernels
    assert tensor_map_of(own, Register("%d2")) == place
