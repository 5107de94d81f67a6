"""Attacks on bounds that are broken on purpose: each must see it, shrink it and save it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import attacks

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.bounds.grid import BlockKind, Dispatch, GridBound, bound_grid
from ptxwcet.bounds.outcome import BlockBound, Outcome
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.sweeps import attacks as package
from ptxwcet.sweeps.attacks import Attack, Seen
from ptxwcet.validate.checks import Bounds

SOURCES = ("../../benchmarks", "../oracle")


def _smaller_safe(block: BlockAnalysis) -> Outcome:
    """SAFE, a cycle too small."""
    outcome = bound_safe(block)
    assert isinstance(outcome, BlockBound)
    return replace(outcome, claim=replace(outcome.claim, cycles=outcome.cycles - 1))


def _without_tail(kinds: Sequence[BlockKind], dispatch: Dispatch) -> GridBound:
    return replace(bound_grid(kinds, dispatch), tail_cycles=0)


def _without_slack(kinds: Sequence[BlockKind], dispatch: Dispatch) -> GridBound:
    return replace(bound_grid(kinds, dispatch), slack_cycles=0)


def blocks(seed: int) -> Seen:
    return package.attack_blocks(seed, Bounds(safe=_smaller_safe))


def grids(seed: int) -> Seen:
    return package.attack_grids(seed, Bounds(grid=_without_tail))


@contextmanager
def _half_a_bound() -> Iterator[None]:
    """What is said of a kernel is half of its bound."""
    from ptxwcet.validate import inputs as input_validation

    right = input_validation.safe_cycles
    with patch("ptxwcet.validate.inputs.safe_cycles", lambda piece: right(piece) // 2):
        yield


def paths(seed: int) -> Seen:
    with _half_a_bound():
        return package.attack_paths(seed)


def kernels(seed: int) -> Seen:
    """Executions may be as long as half of what is allowed."""
    import path_attack

    right = path_attack.most_visits

    def half(nodes: Any) -> dict[int, int]:
        return {block: times // 2 for block, times in right(nodes).items()}

    with patch("path_attack.most_visits", half):
        return attacks.kernels(seed)


def grid_machine(seed: int) -> Seen:
    with patch("grid_attack.bound_grid", _without_tail):
        return attacks.grids(seed)


def servers(seed: int) -> Seen:
    with patch("server_attack.bound_grid", _without_slack):
        return attacks.servers(seed)


def launches(seed: int) -> Seen:
    with patch("launch_attack.bound_grid", _without_slack):
        return attacks.launches(seed)


def accesses(seed: int) -> Seen:
    """Every access needs more than is said."""
    import access_attack

    right = access_attack.compare

    def wrong(*given: Any) -> Any:
        count, exact, found = right(*given)
        return count, exact, [*found, "needs more"] if count else found

    with patch("access_attack.compare", wrong):
        return attacks.accesses(seed)


def ends(seed: int) -> Seen:
    """Kills its process, is stopped from outside, raises, or is fine."""
    if seed % 4 == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if seed % 4 == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed % 4 == 3:
        raise ZeroDivisionError
    return Seen(1, 1)


def _made(name: str, unit: Callable[[int], Seen]) -> Attack:
    return Attack(f"broken-{name}", f"{name}, broken on purpose", unit)


ATTACKS = tuple(
    _made(unit.__name__.replace("_", "-"), unit)
    for unit in (
        *(blocks, grids, paths, kernels, grid_machine, servers, launches, accesses),
        ends,
    )
)
