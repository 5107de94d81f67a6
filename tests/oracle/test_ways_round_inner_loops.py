"""An inner loop's last iteration has ways that only go round again: no way through the region."""

from __future__ import annotations

from path_attack import attack, machine
from random_kernels import parse, small_budgets
from random_programs import random_kernel


def test_a_latch_that_leads_nowhere_else() -> None:
    one = random_kernel(61000403, "decided")
    with small_budgets(is_full=False):
        found = attack(
            parse(one.text), one.launch, machine(), seed=one.seed, executions=6, steps=one.steps
        )
    assert found.violations == []
