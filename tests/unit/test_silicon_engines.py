"""The rows of h200 for engines are none below what was measured of one.

The figures are docs/experiments/silicon-h200-engines.json. What a row charges is what J1 does
(docs/methods/mbarriers.md): the initiations of all warps, and latencies.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.counting import Counting, cost_of_counting
from ptxwcet.warp.program import Mbarrier, PartialBarrier, TimedInstruction

ROOT = Path(__file__).parents[2]
ROWS = tomllib.loads((ROOT / "ptxwcet/machine/models/h200.toml").read_text())["ops"]
MEASURED = json.loads((ROOT / "docs/experiments/silicon-h200-engines.json").read_text())
POLL = ROWS["mbarrier_wait"]["initiation_cycles"], ROWS["mbarrier_wait"]["latency_cycles"]
COPY, PRODUCT = ROWS["async_bulk"], ROWS["mma_async"]
COLD = COPY["latency_cycles"]["at_least"]


def measured(kernel: str) -> Iterator[dict[str, Any]]:
    """The experiments of a kernel, each with the names of its columns."""
    columns, *rows = MEASURED[kernel]
    for row in rows:
        yield dict(zip(columns, row, strict=True))


def form(name: str) -> tuple[int, int]:
    initiation, latency = ROWS["mbarrier"]["forms"][f"{name}.shared::cta.b64"]
    return initiation, latency


def plain(row: str) -> tuple[int, int]:
    return ROWS[row]["initiation_cycles"], ROWS[row]["latency_cycles"]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("arrive", form("mbarrier.arrive")),
        ("arrive_tx", form("mbarrier.arrive.expect_tx")),
        ("init", form("mbarrier.init")),
        ("inval", plain("mbarrier")),
        ("expect", plain("mbarrier")),
        ("noinc", form("cp.async.mbarrier.arrive.noinc")),
        ("bulk_commit", plain("async_wait")),
        ("bulk_wait", plain("async_wait")),
        ("bulk_wait_read", plain("async_wait")),
        ("copy_commit", plain("async_wait")),
        ("copy_wait", plain("async_wait")),
        ("wg_fence", plain("async_wait")),
        ("wg_commit", plain("async_wait")),
        ("wg_wait", plain("async_wait")),
    ],
)
def test_single_instructions(name: str, row: tuple[int, int]) -> None:
    """Some of them, one behind the other, of one warp to 32."""
    initiation, latency = row
    for count in (1, 4, 16, 64):
        for one in measured(f"row_{name}_{count}") if f"row_{name}_{count}" in MEASURED else ():
            warps = one["block"] // 32
            # mbarriers are charged those of all sub-cores, others those of their own
            together = warps if "arrive" in name or name == "noinc" else -(-warps // 4)
            assert one["cycles"][2] <= count * together * initiation + latency, one


def test_polls_that_are_told_yes() -> None:
    initiation, latency = POLL
    for name in ("test", "try"):
        for count in (1, 4, 16, 64):
            for one in measured(f"row_{name}_{count}"):
                charged = count * (latency + one["block"] // 32 * initiation)
                assert one["cycles"][2] <= charged + 60, one  # the branches around them


def test_how_often_warps_ask_that_are_told_no() -> None:
    rates = ROWS["mbarrier_wait"]["rates"]
    for one in measured("rounds"):
        kind, lanes = ("try_wait", "test_wait")[one["numbers"][0]], one["numbers"][1]
        is_suspended = kind == "try_wait" and lanes == 32
        assert one["least_apart"] >= rates["whole_try_wait" if is_suspended else kind]
        if kind == "try_wait" and not is_suspended:  # as it would be with the other figure
            assert one["least_apart"] < rates["whole_try_wait"] / 10


def test_from_the_last_arrival_until_warps_go_on() -> None:
    own, round_of = sum(form("mbarrier.arrive")), 2 * sum(POLL)
    for one in measured("wake"):
        warps = one["block"] // 32
        asking = 2 * (warps - one["numbers"][4]) * POLL[0]
        for longest in (one["own"][2], one["others"][2]):
            assert longest <= own + round_of + asking, one


def test_barriers_of_the_block() -> None:
    initiation, latency = plain("barrier")
    for count in (1, 4, 16):
        for one in measured(f"row_sync_all_{count}"):
            warps = -(-one["block"] // 128)
            assert one["cycles"][2] <= count * (warps * initiation + latency)


@pytest.mark.parametrize(("median", "latency"), [(False, COLD), (True, 460)])
def test_copies(median: bool, latency: int) -> None:
    """Of one block, at all offsets; medians need no more than copies of what is in the L2."""
    arrival = sum(form("mbarrier.arrive.expect_tx")) + 2 * sum(POLL)
    rates, least = COPY["rates"], COPY["initiation_cycles"]
    compared = 0
    for kernel in ("bulk_in", "bulk_out", "tensor_in", "tensor_in_at", "tensor_out"):
        for one in measured(kernel):
            if one.get("grid") or one["over"] is None:
                continue  # other SMs ask the same memory; or the launch failed
            size, count = one["numbers"][:2]
            rate = rates["out_bytes" if kernel.endswith("out") else "bytes"]
            taken = count * max(least, -(-size // rate))
            if kernel.startswith("tensor"):
                rate = rates["out_bytes" if kernel.endswith("out") else "tensor_bytes"]
                rows = one["numbers"][2]
                taken = count * (least + rows * -(-size // rows // rate))
            assert one["over"][1 if median else 2] <= taken + latency + arrival, one
            compared += 1
    assert compared > 900


def product_cycles(kernel: str) -> int:
    kind, columns, factor = kernel.removeprefix("wg_").split("_")[:3]
    key = {"bf16": "f16", "e4m3": "f8", "s8": "int8"}.get(kind, kind)
    rates, n, depth = PRODUCT["rates"], int(columns), {"tf32": 8}.get(kind, 16)
    depth, width = (32, 1) if key in ("f8", "int8") else (depth, 32 // depth)
    in_registers = factor == "rs"
    moved = (n + (0 if in_registers else 64)) * depth * width
    operations = -(-2 * 64 * n * depth // rates[key])
    cycles = max(PRODUCT["initiation_cycles"], operations, -(-moved // rates["shared_bytes"]))
    return int(cycles + (rates["register_factor"] if in_registers else 0))


def test_products() -> None:
    """Of one to four warpgroups, alone, beside loads from shared memory and beside copies to it."""
    waits = 3 * sum(plain("async_wait"))
    compared = 0
    for kernel in MEASURED:
        if not kernel.startswith("wg_") or "turns" in kernel:
            continue
        each, count = product_cycles(kernel), int(kernel.rsplit("_", 1)[1])
        for one in measured(kernel):
            groups, _, _, late = one["numbers"]
            if one["over"] is None or late:
                continue  # the launch failed
            taken = count * groups * (each + (4 if groups > 1 else 0))
            assert one["over"][2] <= taken + PRODUCT["latency_cycles"] + waits, (kernel, one)
            compared += 1
    assert compared > 600


def test_registers_that_are_handed_over() -> None:
    longest = sum(plain("control_other"))
    for one in measured("registers"):
        assert max(one["give"][2], one["behind_give"][0]) <= longest or one["numbers"][0] < 3000
        if one["numbers"][0] >= one["numbers"][1]:
            assert one["behind_give"][2] <= longest


def test_warps_run_ahead_of_their_warpgroup() -> None:
    """They commit 7,000 cycles before the last one comes, which is what bounds allow for, and find
    their results there but where the first of the four is late.
    """
    late = [one for one in measured("holds_straight") if one["numbers"][0] in (0, 1, 3)]
    for one in late:
        last = one["numbers"][0]
        others = [warp for warp in range(4) if warp != last]
        assert max(one["commit"][warp] for warp in others) + 7000 < one["second"][last]
        ends = [one["over"][warp] - one["second"][last] for warp in others]
        assert min(ends) > 0 if last == 0 else max(ends) < -7000
    assert len(late) == 3


def test_all_results_were_right() -> None:
    kernels = [kernel for kernel in MEASURED if ":" in kernel]
    assert len(kernels) >= 13
    for kernel in kernels:
        assert all(one["right"] for one in measured(kernel))


# --- what the figures do -------------------------------------------------------------------------

ASKED = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k()
{
.reg .b32 %r<9>; .reg .pred %p<3>; .reg .b64 %rd<9>;
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;
mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;
mbarrier.arrive.shared::cta.b64 _, [%r1];
mbarrier.inval.shared::cta.b64 [%r1];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;
ret;
}
"""


H200 = load_machine("h200")


def asked() -> Kernel:
    (found,) = parse_module(SourceFile("k.ptx", ASKED)).kernels
    return found


def costed(place: int, lanes: int, number: int = 0) -> tuple[TimedInstruction, object]:
    cost = cost_of_counting(asked().instructions[place], H200, Counting("b+0", lanes, number), 0)
    if isinstance(cost, TimedInstruction):
        return cost, None
    assert isinstance(cost, PartialBarrier)
    return cost.instruction, cost.mbarrier


@pytest.mark.parametrize(
    ("place", "lanes", "apart"), [(0, 32, 7000), (0, 31, 125), (0, 1, 125), (1, 32, 90), (1, 1, 90)]
)
def test_whole_warps_ask_less_often(place: int, lanes: int, apart: int) -> None:
    _, found = costed(place, lanes)
    assert isinstance(found, Mbarrier)
    assert found.again_cycles == apart


def test_single_instructions_have_figures_of_their_own() -> None:
    for place, figures in ((2, form("mbarrier.arrive")), (3, plain("mbarrier"))):
        timed, _ = costed(place, 1, 1)
        passed = timed.path_cycles  # at the memory path, beside its unit
        assert (timed.initiation_cycles, timed.latency_cycles - passed) == figures


def test_copies_out_are_slower() -> None:
    for place, rate in ((4, "bytes"), (5, "out_bytes")):
        timed, _ = costed(place, 1, 16_384)
        assert timed.initiation_cycles == -(-16_384 // COPY["rates"][rate])
