"""Blocks of random machine code: the product's bound, and runs on the machine of the oracle."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from code_programs import Change, Code, Line, Row, analysis_of, drawn_code, drawn_rows, faster
from scoreboard_machine import Program, Sm

from ptxwcet.bounds.grid import Dispatch, bound_grid
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.warp.program import TimedInstruction


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
