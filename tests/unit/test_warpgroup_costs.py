"""Products of warpgroups: what PTX makes of them, what waits for them, which are refused."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from answers import only_refusal
from parsing import parse_kernel

from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import OpTiming
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.timing.cost import (
    PENDING,
    InstructionCosts,
    Products,
    cost_instruction,
    product_cycles,
)
from ptxwcet.warp.program import Barrier, TimedInstruction

ROOT = Path(__file__).parents[2]
H100 = load_machine("h100")
HEAD = (
    ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u32 n)\n{{\n"
    ".reg .b32 %r<199>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<3>;\n{}\nret;\n}}\n"
)
WAIT = "wgmma.wait_group.sync.aligned 0;"


def product(
    columns: int = 8, kind: str = "k16.f32.f16.f16", *, first: int = 0, factor: str = "%rd1"
) -> str:
    halves = ".f16." in f"{kind}." and kind.endswith("f16.f16")
    moved = (", 0, 0" if factor.startswith("%rd") else ", 0") if halves else ""
    scales = "" if "s32" in kind else ", 1, 1"
    registers = ", ".join(f"%r{first + n}" for n in range(columns // 2))
    name = f"wgmma.mma_async.sync.aligned.m64n{columns}{kind}"
    return f"{name} {{{registers}}}, {factor}, %rd2, 1{scales}{moved};"


def kernel(*statements: str) -> Kernel:
    return parse_kernel(HEAD.format("\n".join(statements)))


def cost(statement: str, machine: str = "h100") -> TimedInstruction | Diagnostic:
    found = cost_instruction(kernel(statement).instructions[0], load_machine(machine), origin=3)
    assert isinstance(found, TimedInstruction | Diagnostic)
    return found


@pytest.mark.parametrize(
    ("columns", "factor", "cycles"),
    [
        (8, "%rd1", 18),  # (64 + 8) x 32 bytes, 128 a cycle
        (32, "%rd1", 24),
        (64, "%rd1", 32),  # as long as its operations
        (128, "%rd1", 64),
        (256, "%rd1", 128),
        (8, "{%r190, %r191, %r192, %r193}", 22),  # the least of any, and 6 for registers
        (64, "{%r190, %r191, %r192, %r193}", 38),
    ],
)
def test_a_product_takes_its_operations_or_its_bytes(
    columns: int, factor: str, cycles: int
) -> None:
    found = cost(product(columns, factor=factor))
    assert isinstance(found, TimedInstruction)
    assert (found.unit, found.initiation_cycles, found.latency_cycles) == ("TENSOR", cycles, 66)
    assert found.joins
    assert found.writes == (PENDING[3],)


def test_a_factor_in_registers_may_cost_more() -> None:
    row = H100.timings[OpClass.MMA_ASYNC]
    assert isinstance(row, OpTiming)
    rates = (*row.rates, ("register_factor", 6))
    in_registers = kernel(product(64, factor="{%r190, %r191, %r192, %r193}")).instructions[0]
    assert product_cycles(in_registers, replace(row, rates=rates)) == 32 + 6
    assert product_cycles(kernel(product(64)).instructions[0], replace(row, rates=rates)) == 32


@pytest.mark.parametrize(
    "kind",
    ["k16.f32.bf16.bf16", "k8.f32.tf32.tf32", "k32.f32.e4m3.e5m2", "k32.s32.s8.u8"],
)
def test_kinds_of_factors(kind: str) -> None:
    """Half as wide is twice as fast, and as deep: all take as long."""
    statement = product(128, kind)
    statement = statement.replace(", 1, 1;", ", 1, 1, 0, 0;") if "bf16" in kind else statement
    found = cost(statement)
    assert isinstance(found, TimedInstruction)
    assert found.initiation_cycles == 64


@pytest.mark.parametrize(
    ("statement", "machine", "code", "reason"),
    [
        (product(), "a100", "PW402", "not modelled"),
        (WAIT, "a100", "PW402", "not modelled"),
        ("wgmma.fence.sync.aligned;", "orin-ecrts2025", "PW402", "not modelled"),
        (
            "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%r0, %r1, %r2, %r3}, %rd1, "
            "%rd2, %r9, 0, 1, 1, 1, 0, 0;",
            "h100",
            "PW402",
            "no figure for products with a sparse factor",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r0, %r1, %r2, %r3}, "
            "%rd1, %rd2, 1;",
            "h100",
            "PW402",
            "no figure for products of b1",
        ),
        (f"@%p1 {product()}", "h100", "PW403", "guard"),
        ("tcgen05.fence::before_thread_sync;", "h100", "", ""),
        ("tcgen05.shift.cta_group::1.down [%r1];", "h100", "PW402", "(wgmma)"),
    ],
)
def test_what_is_refused_by_name(statement: str, machine: str, code: str, reason: str) -> None:
    text = HEAD.format(statement)
    if "tcgen05" in statement:
        text = text.replace("sm_90a", "sm_100a")
    found = cost_instruction(parse_kernel(text).instructions[0], load_machine(machine))
    if not code:
        assert isinstance(found, TimedInstruction)
        return
    assert isinstance(found, Diagnostic)
    assert found.code == code
    assert reason in found.message


def test_who_waits_for_products() -> None:
    statements = (
        "mov.b32 %r0, 0;",  # before it: of an accumulator
        product(first=0),
        product(first=0),  # accumulates in the same
        product(first=2),  # in some of them
        "add.u32 %r50, %r51, %r52;",
        WAIT,
        "add.u32 %r50, %r1, %r52;",
    )
    one = kernel(*statements)
    costs = InstructionCosts(H100, products=Products(one.instructions))
    found = [costs.nodes(n, each)[0] for n, each in enumerate(one.instructions[:-1])]
    waits = [isinstance(each, TimedInstruction) and PENDING[1] in each.reads for each in found]
    assert waits == [True, True, True, True, False, True, True]
    assert not costs.is_nominal
    # a barrier that reads one; an opcode of which nothing is known
    one = kernel(product(), "bar.red.popc.u32 %r50, 0, %p1;", "nonsense.u32 %r2;")
    costs = InstructionCosts(H100, unknown_at_worst=True, products=Products(one.instructions))
    barrier, unknown = [costs.nodes(n, one.instructions[n])[0] for n in (1, 2)]
    assert isinstance(barrier, Barrier)
    assert PENDING[0] not in barrier.instruction.reads  # of no accumulator
    assert isinstance(unknown, TimedInstruction)
    assert PENDING[0] in unknown.reads
    # all alike: the second goes on at once
    one = kernel(product(), product(), WAIT)
    costs = InstructionCosts(H100, products=Products(one.instructions))
    found = [costs.nodes(n, each)[0] for n, each in enumerate(one.instructions[:-1])]
    waits = [isinstance(each, TimedInstruction) and PENDING[1] in each.reads for each in found]
    assert waits == [False, False, True]


def refusal(text: str, block: str = "128", machine: str = "h100") -> Diagnostic:
    return only_refusal(Request("k.ptx", text=text, machine=machine, block=block)).diagnostics[0]


@pytest.mark.parametrize(
    ("body", "block", "reason"),
    [
        (f"{product()} {WAIT}", "64", "do not all take the same path"),
        (f"{product()} {WAIT}", "96", "do not all take the same path"),
        (
            f"mov.u32 %r60, %tid.x; setp.lt.u32 %p1, %r60, 32; @%p1 bra E; {product()} E: {WAIT}",
            "128",
            "do not all take the same path",
        ),
        (
            "ld.global.u32 %r60, [%rd7]; setp.eq.u32 %p1, %r60, 0; @%p1 bra E; "
            f"{product()} E: {WAIT}",
            "128",
            "whether or how often",
        ),
        (  # a warp that runs ahead puts it before products that the others have not issued
            f"{product()} mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            f"{{%f1, %f2, %f3, %f4}}, {{%r90, %r91, %r92, %r93}}, {{%r94, %r95}}, "
            f"{{%f1, %f2, %f3, %f4}}; {WAIT}",
            "128",
            "its warps use TENSOR of their sub-cores otherwise, too",
        ),
    ],
)
def test_products_that_warpgroups_do_not_execute_alike(body: str, block: str, reason: str) -> None:
    found = refusal(HEAD.format(body), block)
    assert found.code == "PW403"
    assert reason in found.message


def test_warps_with_products_use_no_unit_that_sub_cores_share() -> None:
    """There warps of a warpgroup would delay each other: they may copy nothing in bulk."""
    copy = "cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r61], 64;"
    group = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    found = refusal(HEAD.format(f"{product()} {copy} {group} {WAIT}"), machine="h200")
    assert (found.code, "share units: TMA" in found.message) == ("PW403", True)


def test_accumulators_are_not_known() -> None:
    loop = "L: add.u32 %r0, %r0, 1; setp.lt.u32 %p1, %r0, 9; @%p1 bra L;"
    found = refusal(HEAD.format(f"mov.u32 %r0, 4; {product()} {WAIT} {loop}"))
    assert found.code == "PW203"


# --- the page about Triton ------------------------------------------------------------------------


def table_module() -> ModuleType:
    path = ROOT / "benchmarks" / "triton_kernels" / "table.py"
    spec = importlib.util.spec_from_file_location("triton_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_tritons_kernels_is_true() -> None:
    table = table_module()
    page = (ROOT / "docs" / "experiments" / "triton.md").read_text(encoding="utf-8")
    for name, arch in (("vector_add", 90), ("matmul", 90)):
        found = table.bounded(name, arch)
        (row,) = [one for one in page.splitlines() if one.startswith(f"| {name} |")][1:2]
        assert f"| {arch} |" in row
        assert f" {found.cycles:,} | {found.launch_cycles:,} " in row
    first, second = page.split("## Published times", 1)
    names = [line.split(" | ")[0] for line in first.splitlines() if line.startswith("| ")][1:]
    assert all(one == other for one, other in list(pairwise(names))[::2])
    for name, data, _, _, _, measured in table.PUBLISHED:
        assert f"| {name} | {data} | {measured:,} | " in second
