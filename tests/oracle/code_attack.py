"""Blocks of random machine code: the product's bound, and runs on the machine of the oracle."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from code_programs import Change, Code, Row, analysis_of, drawn_code, drawn_rows, faster
from scoreboard_machine import Program, Sm

from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.ir.op_classes import OpClass


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
