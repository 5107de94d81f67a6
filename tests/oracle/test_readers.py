"""Latencies that depend on the reader: a second definition, on the text of a kernel, and runs.

The machine of the runs is a plain one that knows each reader's own latency. An instruction has one
latency in the analysis, so what is claimed is that nothing is issued later in a run than there.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from types import MappingProxyType

import pytest
from parsing import parse_kernel

from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Evidence, Machine, OpTiming, Reader
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.phases import profile_warp
from ptxwcet.timing.readers import kernel_readers
from ptxwcet.warp.program import Scoreboard, TimedInstruction

pytestmark = pytest.mark.fast

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>;
.reg .pred %p<9>; .shared .align 16 .b8 s[64];
"""
# How each reads its operands, said a second time; "-" is every way that has no name. R, P, ... are
# registers, the first is written where there is an arrow.
STATEMENTS = {
    "operand": [
        *("add.s32 R>,R,R", "mul.lo.s32 R>,R,R", "mad.lo.s32 R>,R,R,R", "min.s32 R>,R,R"),
        *("setp.lt.s32 P>,R,R", "setp.lt.and.s32 P>,R,R,P", "set.lt.u32.f32 R>,F,F"),
        *("and.b32 R>,R,R", "and.pred P>,P,P", "not.pred P>,P", "shl.b32 R>,R,R", "mov.u32 R>,R"),
        *("selp.b32 R>,R,R,P", "selp.f64 D>,D,D,P", "mov.b64 L>,{R,R}", "max.f32 F>,F,F"),
        *("mul.wide.u32 L>,R,R", "add.s64 L>,L,L", "mov.pred P>,P", "setp.gt.f32 P>,F,F"),
    ],
    "float": ["add.f32 F>,F,F", "mul.f32 F>,F,F", "fma.rn.f32 F>,F,F,F"],
    "half": ["add.f16 H>,H,H", "fma.rn.f16 H>,H,H,H"],
    "memory": [
        *("ld.global.u32 R>,[L]", "st.global.u32 [L],R", "ld.shared.f32 F>,[R]", "ld.u32 R>,[L+4]"),
        *("st.shared.v2.u32 [R],{R,R}", "atom.global.add.u32 R>,[L],R", "red.global.add.f32 [L],F"),
    ],
    "-": [
        *("cvt.rn.f32.s32 F>,R", "cvt.u64.u32 L>,R", "popc.b32 R>,R", "ex2.approx.f32 F>,F"),
        *("setp.lt.f64 P>,D,D", "setp.lt.and.f64 P>,D,D,P", "setp.lt.f16 P>,H,H", "add.f64 D>,D,D"),
        *("div.s32 R>,R,R", "bar.red.popc.u32 R>,0,P", "abs.f32 F>,F", "prefetch.global.L2 [L]"),
        *("shfl.sync.down.b32 R>|P>,R,R,R,R", "vote.sync.any.pred P>,P,R", "frob.b32 R>,R"),
        *("add.cc.u32 R>,R,R", "addc.u32 R>,R,R", "slct.f32.s32 F>,F,F,R"),
        "testp.finite.f32 P>,F",
    ],
}
WAY = {text: way for way, texts in STATEMENTS.items() for text in texts}
PREFIX = {"R": "%r", "P": "%p", "F": "%f", "H": "%h", "L": "%rd", "D": "%fd"}


class Plain:
    """A statement: its text, its class, registers read with the way, registers written."""

    def __init__(self, shape: str, draw: random.Random) -> None:
        way, opcode = WAY[shape], shape.split(" ")[0]
        carries = opcode.startswith(("add.cc", "addc"))
        self.way = "operand" if carries else way
        self.reads: list[tuple[str, str]] = []
        self.writes: list[str] = []

        def fill(match: re.Match[str]) -> str:
            name = f"{PREFIX[match[1]]}{draw.randrange(3)}"
            if match[2]:
                while name in self.writes:
                    name = f"{PREFIX[match[1]]}{draw.randrange(3)}"
                self.writes.append(name)
            else:
                self.reads.append((name, self.way))
            return name

        operands = re.sub(r"([RPFHLD])(>?)", fill, shape.split(" ")[1])
        if opcode.startswith("add.cc"):
            self.writes.append("carry")
        elif opcode.startswith("addc"):
            self.reads.append(("carry", "-"))
        if opcode == "frob.b32":  # nobody knows what it does with its first operand
            self.reads.append((self.writes[0], "-"))
        self.guarded = draw.random() < 0.2 and not opcode.startswith("bar")
        guard = f"@%p{draw.randrange(3)} " if self.guarded else ""
        if guard:
            self.reads.append((guard[1:].strip(), "guard"))
        self.text = f"{guard}{opcode} {operands};"


def drawn(seed: int) -> tuple[list[Plain], Kernel, Machine]:
    draw = random.Random(seed)
    statements = [Plain(draw.choice(list(WAY)), draw) for _ in range(draw.randint(2, 12))]
    body = "\n".join(one.text for one in statements)
    kernel = parse_kernel(f"{HEAD}{body}\nret;\n}}\n")
    machine = load_machine("orin-ecrts2025")
    timings = {op: row_of(op, draw) for op in OpClass}
    return statements, kernel, replace(machine, timings=MappingProxyType(timings))


def row_of(op: OpClass, draw: random.Random) -> OpTiming:
    latency = draw.randint(0, 40)
    known = [one for one in Reader if draw.random() < 0.7]
    readers = tuple((one, draw.randint(0, latency)) for one in known)
    unit, initiation = draw.choice(["INT", "SP", "MEM"]), draw.randint(1, 6)
    if op is OpClass.BARRIER:
        readers = ()
    return OpTiming(unit, initiation, latency, Evidence.ASSUMED, "drawn", readers=readers)


def latency_to(row: OpTiming, way: str) -> int:
    return {one.value: cycles for one, cycles in row.readers}.get(way, row.latency_cycles)


def plain_latency(index: int, statements: list[Plain], row: OpTiming) -> int:
    """The largest latency to whoever reads or writes a result of a statement, anywhere."""
    found = [row.latency_cycles] if not statements[index].writes else []
    for register in statements[index].writes:
        ways = [way for one in statements for name, way in one.reads if name == register]
        again = [one.way for one in statements if register in one.writes]
        found += [latency_to(row, way) for way in ways + again]
        found += [] if ways else [row.latency_cycles]
    return max(found)


def costs_of(kernel: Kernel, machine: Machine) -> list[TimedInstruction]:
    costs = InstructionCosts(machine, 32, unknown_at_worst=True, readers=kernel_readers(kernel))
    nodes = [costs.nodes(index, one)[0] for index, one in enumerate(kernel.instructions[:-1])]
    costs.raise_refusals()
    return [one if isinstance(one, TimedInstruction) else one.instruction for one in nodes]


def last_issue(order: list[int], statements: list[Plain], rows: list[OpTiming]) -> int:
    """When the last of some statements is issued by one warp, each reader waiting for its own."""
    cycle, free = -1, dict.fromkeys(["INT", "SP", "MEM"], 0)
    ready: dict[str, list[tuple[int, OpTiming]]] = {}
    for index in order:
        statement, row = statements[index], rows[index]
        again = [(name, statement.way) for name in statement.writes]
        waits = [
            done + latency_to(by, way)
            for name, way in [*statement.reads, *again]
            for done, by in ready.get(name, ())
        ]
        cycle = max([cycle + 1, *waits])
        done = max(cycle, free[row.unit]) + row.initiation_cycles
        free[row.unit] = done
        for name in statement.writes:
            before = ready.get(name, []) if statement.guarded else []
            ready[name] = [*before, (done, row)]
    return cycle


@pytest.mark.every(4)
@pytest.mark.parametrize("seed", range(300))
def test_one_latency_covers_all_readers(seed: int) -> None:
    statements, kernel, machine = drawn(seed)
    timed = costs_of(kernel, machine)
    rows = []
    for index, (one, instruction) in enumerate(zip(timed, kernel.instructions[:-1], strict=True)):
        op = instruction.op_class
        if op is None:  # charged its worst, which is not what is tested here
            row = OpTiming(
                one.unit, one.initiation_cycles, one.latency_cycles, Evidence.ASSUMED, ""
            )
        else:
            found = machine.timings[op]
            assert isinstance(found, OpTiming)
            row = found
            assert one.latency_cycles == plain_latency(index, statements, row)
        rows.append(row)
    draw = random.Random(seed)
    for _ in range(4):  # any order is one that some control flow may have
        order = [draw.randrange(len(statements)) for _ in range(draw.randint(2, 14))]
        profile = profile_warp([timed[index] for index in order], Scoreboard.RAW_WAW)
        assert last_issue(order, statements, rows) < profile.issue_end_cycles


def test_a_guard_that_is_an_operand_too() -> None:
    machine = drawn(0)[2]
    row = OpTiming(
        *("INT", 1, 20, Evidence.ASSUMED, ""), readers=((Reader.OPERAND, 3), (Reader.GUARD, 9))
    )
    machine = replace(machine, timings=MappingProxyType(dict.fromkeys(OpClass, row)))
    body = "setp.lt.s32 %p0, %r1, 4;\n{}\nret;\n}}\n"
    for text, latency in (
        ("selp.b32 %r2, %r1, %r1, %p0;", 3),
        ("@%p0 selp.b32 %r2, %r1, %r1, %p0;", 9),
        ("@%p0 bra L; L:", 9),
        ("@%p0 ret;", 9),
        ("vote.sync.any.pred %p1, %p0, -1;", 20),
        ("mov.u32 %r2, 1;", 20),
    ):
        kernel = parse_kernel(HEAD + body.format(text))
        assert costs_of(kernel, machine)[0].latency_cycles == latency, text
