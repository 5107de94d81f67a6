"""What an open predicate says of a number holds only for what was written with it.

Each kernel was bounded below what it executes: two sides of a branch write one predicate, and the
second one's meaning was taken for both (``two_sides``); what is written under an open guard was
given the guard's meaning (``guard_condition``); a proof by induction assumed a meaning that an
iteration does not keep (``carried_cond``).
"""

from __future__ import annotations

import numpy as np
import pytest
from parsing import parse_file
from places import UNSOUND

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.validate.inputs import validate_input

MACHINE = load_machine("orin-ecrts2025")


ONES = np.ones(256, "i4")
LONGEST = np.array([15, 1], "i4")  # a loop of 15 iterations that is entered whenever it can be

CASES = [
    ("guard_condition", 0, 32, (np.array([15, 1, 0], "i4"),)),
    ("carried_cond", 0, 1, (LONGEST, 0)),
    ("two_sides", 0, 32, (np.load(UNSOUND / "two_sides_a.npy"), 0 * ONES)),
    ("two_sides", 1, 32, (np.load(UNSOUND / "two_sides_a.npy"), 0 * ONES)),
]


@pytest.mark.parametrize(("name", "kernel", "threads", "arguments"), CASES)
def test_a_condition_is_said_of_what_was_written_with_it(
    name: str, kernel: int, threads: int, arguments: tuple[np.ndarray | int, ...]
) -> None:
    path = UNSOUND / f"{name}.ptx"
    module = parse_file(path)
    facts = Launch((threads, 1, 1), (1, 1, 1))
    analysis = analyse_kernel(module.kernels[kernel], facts, MACHINE)
    launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), arguments)
    found = validate_input(analysis, module, launch, 1)
    assert not found.diagnostics
    assert all(row.safe_cycles is not None for row in found.rows)
