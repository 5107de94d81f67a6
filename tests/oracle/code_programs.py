"""Random machine code: its listing for the product, its words for the machine of the oracle."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from scoreboard_machine import Program, Word

from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.walk.path import Visit, WarpPath
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Evidence, FunctionalUnit, Machine, OpTiming
from ptxwcet.sass.lowering import read_program
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.machine_code import CodeTimes
from ptxwcet.timing.programs import build_workload
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

Row = tuple[str, int, int]
"""Unit, initiation, latency."""


@dataclass(frozen=True)
class Form:
    """How an instruction is written, how the hardware takes it, and the row that it is charged."""

    text: str
    kind: str
    op_class: OpClass


FORMS = {
    "IADD3": Form("IADD3 R0, R1, R2, RZ", "fixed", OpClass.INT_ADD),
    "FFMA": Form("FFMA R0, R1, R2, R3", "fixed", OpClass.FP32_FMA),
    "NOP": Form("NOP", "fixed", OpClass.BRANCH),
    "S2R": Form("S2R R9, SR_TID.X", "fixed", OpClass.MOVE),  # queued with a scoreboard
    "LDG": Form("LDG.E R4, [R2.64]", "queued", OpClass.LOAD_GLOBAL),
    "STG": Form("STG.E [R2.64], R4", "queued", OpClass.STORE_GLOBAL),
    "LDS": Form("LDS R5, [R6]", "queued", OpClass.LOAD_SHARED),
    "MUFU": Form("MUFU.RCP R7, R8", "queued", OpClass.FP32_SFU),
    "DEPBAR": Form("DEPBAR.LE SB{0}, {1:#x}", "fixed", OpClass.ASYNC_WAIT),
    "LDGSTS": Form("LDGSTS.E [R6], [R2.64]", "copy", OpClass.ASYNC_COPY),
    "LDGDEPBAR": Form("LDGDEPBAR", "commit", OpClass.ASYNC_WAIT),
    "MEMBAR": Form("MEMBAR.SC.GPU", "fence", OpClass.FENCE),
    "ERRBAR": Form("ERRBAR", "fence", OpClass.FENCE),
    "BAR": Form("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier", OpClass.BARRIER),
    "EXIT": Form("EXIT", "fixed", OpClass.RETURN),
}
PLAIN = ("IADD3", "IADD3", "FFMA", "FFMA", "S2R", "S2R", "LDG", "LDG", "LDS", "STG", "MUFU")
SELDOM = ("NOP", "DEPBAR", "LDGSTS", "LDGSTS", "LDGDEPBAR", "MEMBAR", "ERRBAR")


@dataclass(frozen=True)
class Line:
    """An instruction before it has times."""

    name: str
    stall: int
    on_write: int | None = None
    on_read: int | None = None
    waits: tuple[int, ...] = ()
    left: tuple[int, int] | None = None

    @property
    def kind(self) -> str:
        """How the hardware takes it."""
        held = self.on_write is not None or self.on_read is not None
        return "queued" if self.name == "S2R" and held else FORMS[self.name].kind

    @property
    def text(self) -> str:
        """The instruction with its word, but for its address."""
        boards = [7 if one is None else one for one in (self.on_write, self.on_read)]
        bits = self.stall | 1 << 4 | boards[0] << 5 | boards[1] << 8
        bits |= sum(1 << board for board in self.waits) << 11
        return f"{FORMS[self.name].text.format(*(self.left or ()))} ; /* {bits << 105:032x} */"

    def word(self, rows: Mapping[OpClass, Row]) -> Word:
        """For the machine of the oracle."""
        unit, init, lat = rows[FORMS[self.name].op_class]
        boards = self.on_write, self.on_read, self.waits, self.left
        return Word(self.kind, unit, init, lat, self.stall, lat, *boards)


Code = tuple[Line, ...]


def drawn_rows(draw: random.Random, fixed: str = "AB", queued: str = "AB") -> dict[OpClass, Row]:
    """Timings of all classes, of what is fixed and what is not on such units."""
    rows = {}
    for form in FORMS.values():
        units = fixed if form.kind == "fixed" else queued
        row = draw.choice(units), draw.choice((1, 1, 2, 4)), draw.choice((0, 1, 3, 9))
        rows[form.op_class] = row
    return rows


def drawn_line(draw: random.Random, name: str, boards: int = 2) -> Line:
    def board(chance: float) -> int | None:
        return draw.randrange(boards) if draw.random() < chance else None

    form = FORMS[name]
    stall = 0 if name == "ERRBAR" else draw.choice((1, 1, 1, 2, 2, 4, 6, 13))
    waits = tuple(one for one in range(boards) if draw.random() < 0.25)
    left = (draw.randrange(boards), draw.choice((0, 0, 1))) if name == "DEPBAR" else None
    if name == "LDGDEPBAR":
        return Line(name, stall, draw.randrange(boards), None, waits)
    if form.kind in ("queued", "copy") or name == "S2R":
        return Line(name, stall, board(0.6), board(0.3), waits)
    return Line(name, stall, None, board(0.2) if name == "MEMBAR" else None, waits, left)


def drawn_code(draw: random.Random, most: int, sections: int = 1) -> Code:
    """So many sections of at most so many instructions, with a barrier between them."""
    lines: list[Line] = []
    for number in range(sections):
        if number:
            lines.append(drawn_line(draw, "BAR"))
        names = [draw.choice(PLAIN if draw.random() < 0.75 else SELDOM) for _ in range(most)]
        lines += [drawn_line(draw, name) for name in names[: draw.randint(1, most)]]
    return (*lines, Line("EXIT", 5))


def kernel_of(code: Code) -> Kernel:
    """The kernel that a listing of the code gives."""
    head = ".target sm_86\n.disassembler 13.5.37\n.section k\n.registers 16\n.shared 0\n.local 0\n"
    lines = [f"/*{16 * number:04x}*/ {one.text}" for number, one in enumerate(code)]
    text = head + ".parameters 0x160\n.kernel k\n" + "\n".join(lines) + "\n"
    (kernel,) = read_program(SourceFile("k.sass", text)).kernels
    return kernel


def machine_with(rows: Mapping[OpClass, Row], cores: int = 1) -> Machine:
    """A machine of these timings."""
    timings = {
        op_class: OpTiming(unit, init, lat, Evidence.ASSUMED, "drawn")
        for op_class, (unit, init, lat) in rows.items()
    }
    units = tuple(FunctionalUnit(unit, cores) for unit in sorted({row[0] for row in rows.values()}))
    return replace(
        load_machine(),
        schedulers_per_sm=cores,
        units=units,
        timings=MappingProxyType(timings),
        memory=None,
        scoreboard=Scoreboard.RAW_WAW,  # which machine code has nothing of
    )


Change = Callable[[TimedInstruction, Line], TimedInstruction]


def workload_of(code: Code, machine: Machine, threads: int, change: Change) -> BlockWorkload:
    """What a warp executes, with each instruction changed."""
    kernel = kernel_of(code)
    cfg = build_cfg(kernel)
    costs = InstructionCosts(machine, threads, code=CodeTimes(kernel))
    path = WarpPath(tuple(Visit(block.id, taken=False) for block in cfg.blocks[:-1]), (0,))
    workload = build_workload([path], kernel, cfg, costs, machine.scoreboard)
    body: list[Node] = []
    for one in workload.classes[0].program.body:
        if isinstance(one, Barrier):
            line = code[one.instruction.origin]
            body.append(replace(one, instruction=change(one.instruction, line)))
        else:
            assert isinstance(one, TimedInstruction)
            body.append(change(one, code[one.origin]))
    return BlockWorkload((WarpClass(WarpProgram(tuple(body)), (0,)),), workload.scoreboard)


def analysis_of(
    codes: Sequence[Code],
    rows: Mapping[OpClass, Row],
    cores: int = 1,
    change: Change = lambda one, _: one,
) -> BlockAnalysis:
    """The product's analysis of a block whose warps execute these codes."""
    machine = machine_with(rows, cores)
    made = {code: workload_of(code, machine, 32 * len(codes), change) for code in {*codes}}
    classes = [
        WarpClass(made[code].classes[0].program, (number,)) for number, code in enumerate(codes)
    ]
    (scoreboard,) = {one.scoreboard for one in made.values()}
    return analyse_block(BlockWorkload(tuple(classes), scoreboard), machine)


def faster(draw: random.Random, program: Program) -> Program:
    """The same with shorter initiations and latencies, and what is read released before."""
    out = []
    for word in program:
        init, lat = draw.randint(1, word.init), draw.randint(0, word.lat)
        out.append(replace(word, init=init, lat=lat, reads=draw.randint(0, lat)))
    return tuple(out)
