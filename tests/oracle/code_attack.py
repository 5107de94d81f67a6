"""Blocks of random machine code: the product's bound, and runs on the machine of the oracle."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from code_programs import (
    Change,
    Code,
    Line,
    Row,
    analysis_of,
    drawn_code,
    drawn_rows,
    faster,
    machine_with,
)
from scoreboard_machine import Program, Sm, Word

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.grid import Dispatch, bound_grid
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.ir.kernel import Instruction, Kernel, UnreadKernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.opcodes import ROWS, Pipe
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.machine_code import CodeTimes
from ptxwcet.warp.program import (
    BlockWorkload,
    Node,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)


@dataclass(frozen=True)
class Case:
    """A block: what its warps execute, how that is charged, and what the hardware makes of it."""

    codes: tuple[Code, ...]
    rows: Mapping[OpClass, Row]
    words: tuple[Program, ...]
    cores: int = 1


def block_case(seed: int, most: int, warps: tuple[int, ...], cores: int = 1) -> Case:
    """At most so many instructions a section; one of the numbers of warps. Some run faster."""
    draw = random.Random(seed)
    rows = drawn_rows(draw)
    count = draw.choice(warps)
    sections = draw.choice((1, 1, 2))
    own = [drawn_code(draw, most, sections) for _ in range(draw.choice((1, 2)))]
    codes = tuple(draw.choice(own) for _ in range(count))
    words = tuple(tuple(line.word(rows) for line in code) for code in codes)
    if draw.random() < 0.3:
        words = tuple(faster(draw, program) for program in words)
    return Case(codes, rows, words, cores)


def safe_cycles(case: Case, change: Change = lambda one, _: one) -> int:
    """The product's bound, of instructions that are changed."""
    bound = bound_safe(analysis_of(case.codes, case.rows, case.cores, change))
    assert isinstance(bound, BlockBound)
    return bound.cycles


def alone(case: Case, *, queues: bool) -> int:
    """How long the first warp takes by itself."""
    return Sm(case.words[:1], queues).run(min)


def launch_cycles(case: Case, blocks: int, slots: int, change: Change = lambda one, _: one) -> int:
    """The product's bound of so many blocks on one SM that holds ``slots`` of them."""
    analysis = analysis_of(case.codes, case.rows, case.cores, change)
    dispatch = Dispatch(1, slots, 0, 0, breadth_first=True)
    return bound_grid([block_kind(analysis, blocks)], dispatch).cycles


# --- what is false of the model -------------------------------------------------------------------


def earlier_release(one: TimedInstruction, _: Line) -> TimedInstruction:
    holds = any(name.startswith("sb.") for name in one.writes)
    return replace(one, latency_cycles=max(0, one.latency_cycles - holds))


def shorter_stall(one: TimedInstruction, line: Line) -> TimedInstruction:
    if line.kind == "fixed":
        return replace(one, latency_cycles=max(0, one.latency_cycles - 1))
    return replace(one, bubble_cycles=max(0, one.bubble_cycles - 1))


def last_holder(one: TimedInstruction, _: Line) -> TimedInstruction:
    return replace(one, conditional=False)


def no_copies(one: TimedInstruction, _: Line) -> TimedInstruction:
    return replace(one, reads=tuple(name for name in one.reads if name != "copies"))


def no_waiting_fence(one: TimedInstruction, line: Line) -> TimedInstruction:
    return replace(one, writes=one.writes[1:]) if line.kind == "fence" else one


def no_depbar(one: TimedInstruction, line: Line) -> TimedInstruction:
    return replace(one, reads=one.reads[:1]) if line.left else one


def stall_alone(one: TimedInstruction, line: Line) -> TimedInstruction:
    """Of a pipe without a queue: its own initiation would not count."""
    if line.kind != "fixed":
        return one
    return replace(one, writes=(), latency_cycles=0, bubble_cycles=line.stall - 1)


FALSE: Mapping[str, tuple[Change, bool, tuple[int, ...]]] = {
    "a scoreboard is released a cycle earlier": (earlier_release, True, (2, 14, 15)),
    "a stall is a cycle shorter": (shorter_stall, True, (2, 3, 4)),
    "the last holder of a scoreboard counts": (last_holder, True, (117, 150, 207)),
    "a fence is not waited for": (no_waiting_fence, True, (2, 4, 6)),
    "DEPBAR waits for nothing": (no_depbar, True, (38, 44, 102)),
    "without queues a stall need not last as long as its initiation": (
        stall_alone,
        False,
        (2, 3, 4),
    ),
}
"""Each with whether units have queues, and seeds of ``block_case(seed, 8, (1,))`` that show it."""


# --- words that the vendor's compiler made --------------------------------------------------------

_LISTINGS = Path(__file__).parents[1] / "data" / "sass"
_WORD = re.compile(r"/\* ([0-9a-f]{32}) \*/$")
_QUEUED_PIPES = (Pipe.ADDRESS, Pipe.VARIABLE)


@cache
def listed_kernels() -> tuple[Kernel, ...]:
    """Kernels and functions of the listings that are kept."""
    found: list[Kernel] = []
    for path in sorted(_LISTINGS.glob("*.sass")):
        module = read_program(SourceFile(path.name, path.read_text()))
        found += [*module.kernels, *module.functions]
    return tuple(one for one in found if not isinstance(one, UnreadKernel))


def _word_of(instruction: Instruction, rows: Mapping[OpClass, Row]) -> Word | None:
    """For the machine of the oracle, by the bits of its line; None for barriers."""
    source = instruction.span.source.text
    found = _WORD.search(source[instruction.end : source.index("\n", instruction.end)])
    assert found is not None
    assert instruction.opcode is not None
    bits, name = int(found[1], 16) >> 105, instruction.opcode.name
    boards = [None if board == 7 else board for board in (bits >> 5 & 7, bits >> 8 & 7)]
    waits = tuple(board for board in range(6) if bits >> 11 + board & 1)
    if name == "BAR":
        return None
    is_queued = ROWS[name].pipe in _QUEUED_PIPES and name != "BMOV"
    kind = "queued" if is_queued or any(board is not None for board in boards) else "fixed"
    op_class = OpClass.MOVE if name == "ULDC" else instruction.op_class
    if op_class is OpClass.CONTROL_OTHER:
        op_class = OpClass.BRANCH
    elif op_class is OpClass.TRAP and instruction.guard is not None:
        op_class = OpClass.RETURN
    assert op_class is not None
    unit, init, lat = rows[op_class]
    return Word(kind, unit, init, lat, bits & 15, lat, *boards, waits)


def listed_case(seed: int, most: int) -> tuple[int, tuple[Program, ...]]:
    """Warps that each execute a stretch of such code as if nothing led away: SAFE, and words."""
    draw = random.Random(seed)
    rows = dict.fromkeys(OpClass, ("A", 1, 0))
    for op_class in rows:
        rows[op_class] = draw.choice("ABC"), draw.choice((1, 2, 4)), draw.choice((0, 3, 9))
    machine = machine_with(rows)
    classes, words = [], []
    for number in range(draw.choice((1, 2, 3))):
        kernel = draw.choice(listed_kernels())
        costs = InstructionCosts(machine, 96, code=CodeTimes(kernel))
        first = draw.randrange(len(kernel.instructions))
        body: list[Node] = []
        own = []
        for index in range(first, min(first + most, len(kernel.instructions))):
            instruction = kernel.instructions[index]
            word = _word_of(instruction, rows)
            if word is not None and instruction.op_class is not OpClass.NANOSLEEP:
                body += costs.nodes(index, instruction)
                own.append(word)
        classes.append(WarpClass(WarpProgram(tuple(body)), (number,)))
        words.append(tuple(own))
    bound = bound_safe(analyse_block(BlockWorkload(tuple(classes), Scoreboard.RAW), machine))
    assert isinstance(bound, BlockBound)
    return bound.cycles, tuple(words)
