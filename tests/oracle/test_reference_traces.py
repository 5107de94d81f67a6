"""Every issue, dispatch and write-back of three traced kernels of the reference simulator."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from functools import cache

import pytest
from issue_trace import trace_issue
from parsing import parse_file, parse_kernel
from places import REFERENCE
from reference_runs import reference_rows

from ptxwcet.ir.kernel import Instruction
from ptxwcet.machine.loader import load_machine
from ptxwcet.timing.cost import cost_instruction
from ptxwcet.timing.phases import profile_warp
from ptxwcet.warp.program import Barrier, TimedInstruction, WarpProgram

FIRST_ISSUE = 2  # the simulator's cycle of the first issue, and its cycles from issue to dispatch
MEMORY_LATENCY = 200


@cache
def instructions_by_line() -> dict[int, Instruction]:
    path = REFERENCE / "ptx" / "kernels.ptx"
    module = parse_file(path)
    return {i.span.line: i for kernel in module.kernels for i in kernel.instructions}


def events(name: str) -> tuple[list[int], dict[int, dict[str, int]]]:
    """PTX lines in issue order, and per dynamic instruction the cycle of each event."""
    lines: list[int] = []
    times: dict[int, dict[str, int]] = defaultdict(dict)
    with (REFERENCE / f"trace_{name}.csv").open() as file:
        for row in csv.DictReader(file):
            times[int(row["uid"])][row["event"]] = int(row["cycle"])
            if row["event"] == "I":
                lines.append(int(row["ptx_line"]))
    return lines, times


def traced_program(name: str) -> list[TimedInstruction | Barrier]:
    machine = load_machine("orin-ecrts2025", MEMORY_LATENCY)
    lines, _ = events(name)
    by_line = instructions_by_line()
    program: list[TimedInstruction | Barrier] = []
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        instruction = by_line[line]
        later = sorted(known for known in by_line if known > line)
        taken = following is not None and following != later[0]
        cost = cost_instruction(instruction, machine, taken=taken)
        assert isinstance(cost, TimedInstruction | Barrier)
        program.append(cost)
    return program


@pytest.mark.parametrize("name", ["diverge", "reduce_smem", "saxpy_loop"])
def test_every_event_of_the_trace(name: str) -> None:
    _, times = events(name)
    program = traced_program(name)
    machine = load_machine("orin-ecrts2025", MEMORY_LATENCY)
    records = trace_issue(program, machine.scoreboard)
    assert len(records) == len(times) > 80
    for uid, record in zip(sorted(times), records, strict=True):
        seen = times[uid]
        assert record.issue + FIRST_ISSUE == seen["I"], uid
        assert record.dispatch + 2 * FIRST_ISSUE == seen["D"], uid
        assert record.ready + FIRST_ISSUE == seen["W"], uid
    last = max(seen["W"] for seen in times.values())
    profile = profile_warp(WarpProgram(tuple(program)).body, machine.scoreboard)
    assert profile.isolated_cycles == last - FIRST_ISSUE


@pytest.mark.parametrize("row", reference_rows("opcode_table.csv"), ids=lambda row: row["opcode"])
def test_measured_issue_to_write_back(row: dict[str, str]) -> None:
    """The timing of each measured opcode, except where a slower one is charged on purpose."""
    opcode = row["opcode"]
    instruction = parse_one(opcode)
    cost = cost_instruction(instruction, load_machine("orin-ecrts2025", MEMORY_LATENCY))
    node = cost.instruction if isinstance(cost, Barrier) else cost
    assert isinstance(node, TimedInstruction)
    measured = int(row["issue_to_writeback"])
    total = node.initiation_cycles + node.latency_cycles
    if opcode in {"ld.u32", "atom.global.add.u32"}:
        assert total == MEMORY_LATENCY + 4 > measured
        return
    assert total == measured
    assert node.initiation_cycles == int(row["cfg_init"])
    assert node.unit == row["FU"]


def parse_one(opcode: str) -> Instruction:
    operands = _operands(opcode)
    opcode = opcode.replace("mad.f32", "mad.rn.f32")  # as PTX has it for all but the oldest GPUs
    text = (
        ".version 6.0\n.target sm_60\n.address_size 64\n.visible .entry k()\n{\n"
        ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .pred %p<3>;\n"
        f".shared .b32 s; {opcode} {operands};\n ret;\n}}\n"
    )
    return parse_kernel(text).instructions[0]


def _operands(opcode: str) -> str:
    words = opcode.split(".")
    base = words[0]
    if base in {"membar"}:
        return ""
    if base == "bar":
        return "0"
    if base == "setp":
        value = "%f1" if words[-1] == "f32" else "%r1"
        return f"%p1, {value}, {value}"
    if base == "selp":
        return "%r1, %r2, %r3, %p1"
    if base == "ld":
        target = "{%r1,%r2,%r3,%r4}" if "v4" in words else "%r1"
        target = target.replace("%r", "%f") if words[-1] == "f32" else target
        return f"{'%rd1' if words[-1] == 'u64' else target}, [%rd2]"
    if base == "st":
        return "[%rd1], %r1"
    if base == "atom":
        return "%r1, [%rd1], %r2"
    if base == "shfl":
        tail = ", -1" if "sync" in words else ""
        return f"%r1, %r2, 1, 31{tail}"
    if base == "vote":
        return "%r1, %p1"
    if base == "cvt":
        types = [word for word in words if re.fullmatch(r"[suf]\d+", word)]
        return ", ".join(_register(kind, n) for n, kind in enumerate(types, 1))
    counts = {"mad": 4, "fma": 4, "mad24": 4, "sad": 4, "bfe": 4, "prmt": 4, "bfi": 5}
    unary = {"mov", "abs", "neg", "not", "popc", "clz", "brev", "rcp", "sqrt", "rsqrt"}
    unary |= {"sin", "cos", "ex2", "lg2"}
    count = 2 if base in unary else counts.get(base, 3)
    kinds = [words[-1]] * count
    if "wide" in words:
        kinds[0] = "s64"
        if base == "mad":
            kinds[3] = "s64"
    return ", ".join(_register(kind, n) for n, kind in enumerate(kinds, 1))


def _register(kind: str, number: int) -> str:
    prefix = {"f32": "%f", "f64": "%fd"}.get(kind, "%rd" if kind.endswith("64") else "%r")
    return f"{prefix}{number}"
