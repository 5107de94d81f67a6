"""Whole launches, executed and run as grids, against the bound of the launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from launch_attack import attack, length, runs_of
from thoroughness import drawn

from ptxwcet import pipeline
from ptxwcet.bounds import launch_bound
from ptxwcet.bounds.grid import BlockKind
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.launch_bound import LaunchBound, _sms, count_blocks, kinds_of_blocks
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.opened.opening import open_request
from ptxwcet.opened.request import Request
from ptxwcet.validate.grid_study import executed_workload

SEEDS = range(drawn(18))
MUTANT_SEEDS = range(60)

UNNAMED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{
.shared .align 4 .b8 tile[40000];
.reg .b32 %r<4>;
.reg .b64 %d<4>;
ld.param.u64 %d1, [data];
ld.global.u32 %r1, [%d1];
ld.global.u32 %r2, [%d1+4];
add.u32 %r3, %r1, %r2;
ret;
}
"""


def test_shared_memory_that_is_not_named_is_there() -> None:
    """ptxas gives the kernel 40000 bytes: an SM holds 4 of its blocks, not 16."""
    said = GridWishes(registers=16)
    request = Request("k.ptx", block="32", grid="64", text=UNNAMED, gpu=said)
    (row,) = bound_file(request).answered
    bound = row.launch_bound
    assert isinstance(bound, LaunchBound)
    data = np.zeros(4, np.uint32)
    launch = EmulatedLaunch((32, 1, 1), (64, 1, 1), (data,))
    options = EmulatorOptions(record_paths=True)
    done = execute(row.kernel, open_request(request).module, launch, options=options)
    workload = executed_workload(row, done)
    longest = max(length(row, workload, 1, 4, 0, run) for run in runs_of(0))
    assert longest <= bound.claim.cycles
    (sixteen,) = bound_file(
        Request("k.ptx", block="32", grid="64", text=UNNAMED, gpu=GridWishes(resident_blocks=16))
    ).answered
    assert isinstance(sixteen.launch_bound, LaunchBound)
    assert longest > sixteen.launch_bound.claim.cycles


def test_random_launches() -> None:
    codes: Counter[str] = Counter()
    features: Counter[str] = Counter()
    counted = exact = runs = 0
    for seed in SEEDS:
        found = attack(seed)
        assert found.violations == [], seed
        codes[found.code] += 1
        features.update(found.features)
        counted += found.counted
        exact += found.exact
        runs += found.runs
    assert codes[""] > 0.8 * len(SEEDS)
    assert counted > 0.4 * len(SEEDS)
    assert exact > 0.2 * len(SEEDS)
    assert runs > 30 * len(SEEDS)
    assert len(features) >= 8


# --- each part of what lies between paths and bound, broken ---------------------------------------


def _one_moved(pieces: Any, launch: Any) -> dict[Any, int]:
    """One block counted as another kind."""
    counts = count_blocks(pieces, launch)
    if len(counts) > 1:
        first, *_, last = counts
        counts[first], counts[last] = counts[first] + 1, counts[last] - 1
    return counts


def _rarest_alone(pieces: Any, launch: Any) -> dict[Any, int]:
    """All blocks counted as the kind of which there are fewest."""
    counts = count_blocks(pieces, launch)
    if len(counts) > 1:
        kept = min(counts, key=lambda warps: counts[warps])
        counts = {**dict.fromkeys(counts, 0), kept: sum(counts.values())}
    return counts


def _despite_ranges(pieces: Any, launch: Any) -> dict[Any, int]:
    """All blocks counted for one part of a parameter's range."""
    counts = count_blocks(pieces, launch)
    if launch.ranges and launch.grid is not None:
        *others, last = {piece.warps: 0 for piece in pieces}
        return {**dict.fromkeys(others, 0), last: int(np.prod(launch.grid))}
    return counts


def _smallest(pieces: Sequence[Any], grid: Any) -> tuple[BlockKind, ...]:
    """Where it is not known who executes what, the smallest of every figure."""
    kinds = kinds_of_blocks(pieces, grid)
    if len(kinds) == 1 and len(pieces) > 1:
        one = min(
            (kinds_of_blocks([piece], grid)[0] for piece in pieces), key=lambda k: k.work_cycles
        )
        return (replace(one, count=kinds[0].count),)
    return kinds


def _less_work(analysis: Any, count: int) -> BlockKind:
    kind = block_kind(analysis, count)
    return replace(kind, work_cycles=kind.work_cycles - 1)


def _no_slack(analysis: Any, count: int) -> BlockKind:
    kind = block_kind(analysis, count)
    stretches = (replace(one, slack_cycles=one.slack_cycles // 2) for one in kind.stretches)
    return replace(kind, slack_cycles=kind.slack_cycles // 2, stretches=tuple(stretches))


def _one_more_sm(machine: Any, wishes: Any) -> int:
    return _sms(machine, wishes) + 1


@pytest.mark.parametrize(
    ("module", "name", "broken"),
    [
        (pipeline, "count_blocks", _one_moved),
        (pipeline, "count_blocks", _rarest_alone),
        (pipeline, "count_blocks", _despite_ranges),
        (launch_bound, "kinds_of_blocks", _smallest),
        (launch_bound, "block_kind", _less_work),
        (launch_bound, "block_kind", _no_slack),
        (launch_bound, "_sms", _one_more_sm),
    ],
)
def test_what_is_broken_is_seen(
    module: Any, name: str, broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, broken)
    for seed in MUTANT_SEEDS:
        try:
            if attack(seed).violations:
                return
        except AssertionError:
            return
    pytest.fail(f"{broken.__name__} is not seen")
