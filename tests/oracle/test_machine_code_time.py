"""Machine code in time: bounds against a machine with stalls and scoreboards that count.

The machine (``scoreboard_machine.py``) knows nothing of the model. It has queues in front of its
units, or pipes that hold an issue back. What is false of the model has to be seen here.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from code_attack import Case, alone, block_case, safe_cycles
from code_programs import FORMS, Change, Line, drawn_code, drawn_rows
from scoreboard_machine import Sm

from ptxwcet.warp.program import TimedInstruction


def exact_case(seed: int) -> Case:
    """One warp, of what the model charges no more than this machine takes.

    Fixed instructions have units of their own and wait for their initiation anyway; nothing waits
    for copies that come later, or for some of what holds a scoreboard.
    """
    draw = random.Random(seed)
    rows = drawn_rows(draw, "AB", "CD")
    lines = []
    for line in drawn_code(draw, 9):
        _, init, lat = rows[FORMS[line.name].op_class]
        if line.name in ("LDGSTS", "LDGDEPBAR", "DEPBAR", "S2R"):
            continue
        if line.kind == "fixed":
            line = replace(line, stall=max(line.stall, init))
        if line.kind == "fence":
            line = replace(line, stall=min(line.stall, init + lat))
        lines.append(line)
    code = tuple(lines)
    return Case((code,), rows, (tuple(line.word(rows) for line in code),))


@pytest.mark.every(5)
@pytest.mark.parametrize("seed", range(400))
def test_alone_a_warp_takes_what_is_said(seed: int) -> None:
    case = exact_case(seed)
    assert safe_cycles(case) == alone(case, queues=True)


@pytest.mark.every(5)
@pytest.mark.parametrize("seed", range(200))
@pytest.mark.parametrize("queues", [True, False])
def test_safe_covers_every_schedule(seed: int, queues: bool) -> None:
    case = block_case(seed, 3, (2, 2, 3))
    assert Sm(case.words, queues).worst() <= safe_cycles(case)


@pytest.mark.every(5)
@pytest.mark.parametrize("seed", range(200))
@pytest.mark.parametrize("queues", [True, False])
def test_safe_covers_random_schedules(seed: int, queues: bool) -> None:
    case = block_case(seed, 10, (2, 4, 6), cores=1 + seed % 2)
    bound, draw = safe_cycles(case), random.Random(seed)
    for choose in (min, max, draw.choice, draw.choice):
        assert Sm(case.words, queues, case.cores).run(choose) <= bound


# --- what is false is seen ------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("change", "queues"),
    [
        (earlier_release, True),
        (shorter_stall, True),
        (last_holder, True),
        (no_waiting_fence, True),
        (no_depbar, True),
        (stall_alone, False),
    ],
)
def test_what_is_false_is_seen(change: Change, queues: bool) -> None:
    cases = (block_case(seed, 8, (1,)) for seed in range(400))
    assert any(alone(case, queues=queues) > safe_cycles(case, change) for case in cases)


@pytest.mark.parametrize("wait", [Line("DEPBAR", 4, left=(0, 0)), Line("IADD3", 4, waits=(0,))])
def test_who_waits_for_copies_waits_for_what_they_take(wait: Line) -> None:
    rows = drawn_rows(random.Random(0))
    rows[FORMS["LDGSTS"].op_class] = ("A", 2, 50)
    code = (Line("LDGSTS", 2), Line("LDGDEPBAR", 2, 0), wait, Line("EXIT", 5))
    case = Case((code,), rows, (tuple(line.word(rows) for line in code),))
    assert safe_cycles(case) == alone(case, queues=True) > 52
    assert safe_cycles(case, no_copies) < alone(case, queues=True)


def test_who_holds_a_scoreboard_needs_a_queue() -> None:
    """Two of them on one unit, and one of another: where the first two hold issues back, the third
    is 9 cycles later than the model says.
    """
    rows = {**drawn_rows(random.Random(0))}
    for name, row in {"MUFU": ("A", 10, 0), "IADD3": ("B", 1, 0), "EXIT": ("B", 1, 0)}.items():
        rows[FORMS[name].op_class] = row
    code = (Line("MUFU", 1), Line("MUFU", 1), Line("IADD3", 15), Line("EXIT", 5))
    words = tuple(line.word(rows) for line in code)
    held_back = tuple(replace(word, kind="fixed") for word in words)
    case = Case((code,), rows, (words,))
    assert alone(case, queues=False) == safe_cycles(case) == 22
    assert Sm((held_back,), queues=False).run(min) == 31
