"""Machine code in time: bounds against a machine with stalls and scoreboards that count.

The machine (``scoreboard_machine.py``) knows nothing of the model. It has queues in front of its
units, or pipes that hold an issue back. What is false of the model has to be seen here.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from code_attack import (
    FALSE,
    Case,
    alone,
    block_case,
    launch_cycles,
    listed_case,
    no_copies,
    safe_cycles,
)
from code_programs import FORMS, Line, drawn_code, drawn_rows
from scoreboard_machine import Sm


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


@pytest.mark.every(40)
@pytest.mark.parametrize("seed", range(400))
def test_alone_a_warp_takes_what_is_said(seed: int) -> None:
    case = exact_case(seed)
    assert safe_cycles(case) == alone(case, queues=True)


@pytest.mark.every(40)
@pytest.mark.parametrize("seed", range(200))
@pytest.mark.parametrize("queues", [True, False])
def test_safe_covers_every_schedule(seed: int, queues: bool) -> None:
    case = block_case(seed, 3, (2, 2, 3))
    assert Sm(case.words, queues).worst() <= safe_cycles(case)


@pytest.mark.every(40)
@pytest.mark.parametrize("seed", range(200))
@pytest.mark.parametrize("queues", [True, False])
def test_safe_covers_random_schedules(seed: int, queues: bool) -> None:
    case = block_case(seed, 10, (2, 4, 6), cores=1 + seed % 2)
    bound, draw = safe_cycles(case), random.Random(seed)
    for choose in (min, max, draw.choice, draw.choice):
        assert Sm(case.words, queues, case.cores).run(choose) <= bound


@pytest.mark.every(40)
@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("queues", [True, False])
def test_launches_are_covered(seed: int, queues: bool) -> None:
    draw = random.Random(seed)
    case = block_case(seed, 6, (1, 2, 3), cores=draw.choice((1, 2)))
    blocks, slots = draw.choice((2, 3, 5)), draw.choice((1, 2, 3))
    bound = launch_cycles(case, blocks, slots)
    sm = Sm(case.words * blocks, queues, case.cores, len(case.words), slots)
    for choose in (min, max, draw.choice):
        assert sm.run(choose) <= bound


@pytest.mark.every(40)
@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("queues", [True, False])
def test_words_of_the_vendors_compiler(seed: int, queues: bool) -> None:
    bound, words = listed_case(seed, 12)
    draw = random.Random(seed)
    for choose in (min, max, draw.choice):
        assert Sm(words, queues).run(choose) <= bound


# --- what is false is seen ------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(FALSE))
def test_what_is_false_is_seen(name: str) -> None:
    change, queues, seeds = FALSE[name]
    cases = [block_case(seed, 8, (1,)) for seed in seeds]
    assert any(alone(case, queues=queues) > safe_cycles(case, change) for case in cases)
    assert all(alone(case, queues=queues) <= safe_cycles(case) for case in cases)


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
