"""Kernels whose warps are walked apart take no longer than their bounds, all warps together."""

from __future__ import annotations

import pytest
from parsing import parse_kernel
from path_attack import attack, machine
from random_apart import KIND
from random_machines import other_machine
from random_programs import random_kernel


@pytest.mark.every(2)
@pytest.mark.parametrize("first", range(0, 30, 6))
def test_no_answer_is_false(first: int) -> None:
    bounded = 0
    for seed in range(first, first + 6):
        one = random_kernel(seed, KIND)
        kernel = parse_kernel(one.text)
        found = attack(
            kernel,
            one.launch,
            other_machine(machine(), seed),
            seed=seed,
            executions=3,
            steps=one.steps,
            times_all=True,
        )
        assert found.violations == [], one.text
        bounded += found.code is None
    assert bounded > 0
