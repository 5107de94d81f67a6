"""The random grids of the self-test: what they are, and that a false bound of a grid is seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ptxwcet.bounds.grid import BlockKind, Dispatch, GridBound, bound_grid
from ptxwcet.cli.main import main
from ptxwcet.validate import selftest_command as command
from ptxwcet.validate.checks import Bounds, Check
from ptxwcet.validate.generator import FAMILIES
from ptxwcet.validate.grids import attack_grids, bound_case, random_grid
from ptxwcet.validate.selftest import run_selftest

GRIDS = range(12 * len(FAMILIES))


def test_no_run_is_longer_than_the_bound() -> None:
    found = attack_grids(3, GRIDS)
    assert found.violations == []
    assert (found.grids, found.runs) == (len(GRIDS), 6 * len(GRIDS))


def test_grids_are_of_all_shapes_and_follow_from_their_seed() -> None:
    grids = [random_grid(3, index) for index in GRIDS]
    assert grids == [random_grid(3, index) for index in GRIDS]
    assert {grid.sms for grid in grids} == {grid.resident_blocks for grid in grids} == {1, 2, 3, 4}
    assert {len(grid.blocks) for grid in grids} == set(range(1, 13))
    assert {len(set(grid.blocks)) for grid in grids} == {1, 2, 3}
    assert 0.1 < sum(grid.gap_cycles > 0 for grid in grids) / len(grids) < 0.5
    for grid in grids:
        assert len({case.workload.warp_count for case in grid.kinds}) == 1
    works = {bound_case(grid, Bounds()) for grid in grids}
    assert len(works) > len(grids) / 2


def without_tail(kinds: Sequence[BlockKind], dispatch: Dispatch) -> GridBound:
    return replace(bound_grid(kinds, dispatch), tail_cycles=0)


def without_gaps(kinds: Sequence[BlockKind], dispatch: Dispatch) -> GridBound:
    return bound_grid(kinds, replace(dispatch, gap_cycles=0))


def one_more_slot(kinds: Sequence[BlockKind], dispatch: Dispatch) -> GridBound:
    return bound_grid(kinds, replace(dispatch, resident_blocks=dispatch.resident_blocks + 1))


def one_more_sm(kinds: Sequence[BlockKind], dispatch: Dispatch) -> GridBound:
    return bound_grid(kinds, replace(dispatch, sms=dispatch.sms + 1))


def one_block_less(kinds: Sequence[BlockKind], dispatch: Dispatch) -> GridBound:
    first, *others = sorted(kinds, key=lambda kind: -kind.count)
    return bound_grid([replace(first, count=max(1, first.count - 1)), *others], dispatch)


def less_slack(kinds: Sequence[BlockKind], dispatch: Dispatch) -> GridBound:
    less = [replace(kind, slack_cycles=max(0, kind.slack_cycles - 1)) for kind in kinds]
    return bound_grid(less, dispatch)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "broken",
    [without_tail, without_gaps, one_more_slot, one_more_sm, one_block_less, less_slack],
)
def test_a_false_bound_is_seen(broken: object) -> None:
    found = attack_grids(3, GRIDS, Bounds(grid=broken))  # type: ignore[arg-type]
    assert found.violations


def test_the_summary(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    summary = run_selftest(1, cases=20)
    assert (summary.grids.grids, summary.grids.runs) == (3, 18)
    assert dict(summary.checks)[Check.GRID_RUN.value] == 18
    assert summary.passed
    assert run_selftest(1, cases=0).grids.grids == 0

    def broken(seed: int, **given: object) -> object:
        return run_selftest(seed, cases=60, bounds=Bounds(grid=without_tail))

    monkeypatch.setattr(command, "run_selftest", broken)
    with pytest.raises(SystemExit) as stop:
        main(["validate", "tool", "--format", "json"])
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert stop.value.code == 1
    assert (data["passed"], data["grids"]["grids"]) == (False, 9)
    assert data["violations"] == len(data["grids"]["contradicted"]) > 0
    assert "PW535" in err
    assert "grid of " in err
