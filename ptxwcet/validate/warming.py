"""Prepares in advance the tables and code of the first use: for images of containers."""

from __future__ import annotations

from collections.abc import Callable

from ptxwcet.methods.makespan.states import fill_table, longest_of_two
from ptxwcet.opened.front_ends import FRONT_ENDS
from ptxwcet.validate.attack import attack
from ptxwcet.validate.generator import FAMILIES
from ptxwcet.validate.grids import attack_grids


def warm_up(show: Callable[[int, int], None]) -> None:
    """Builds the tables of the parser, and runs every compiled function once.

    ``show`` is called with the completed steps, and all of them. Cost: half a minute the first
    time, a second afterwards.
    """
    steps: tuple[Callable[[], object], ...] = (
        *(reader.prepare for reader in FRONT_ENDS),
        lambda: attack(1, range(len(FAMILIES))),
        lambda: attack_grids(1, range(1)),
        lambda: fill_table("LC", 3, 1, 1, lambda done, every: True),
        lambda: longest_of_two("LC"),
    )
    for number, step in enumerate(steps):
        show(number, len(steps))
        step()
