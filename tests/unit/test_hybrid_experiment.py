"""The experiment of the hybrid analysis: runs kept on disk, rows, tables."""

import dataclasses
import json
from pathlib import Path

import pytest
from experiments.hybrid_kernels import HybridKernel, hybrid_kernels
from experiments.hybrid_report import averages, by_kind, percent, table_2
from experiments.hybrid_rows import Row, kept_study, over, planned_schedule, study
from experiments.hybrid_runs import Run, Store

from ptxwcet.trace.files import read_trace

pytestmark = pytest.mark.fast

KERNELS = {kernel.name: kernel for kernel in hybrid_kernels()}
QUICK = KERNELS["VectorAdd"]


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three runs of a quick kernel with latencies that vary."""
    store = Store(tmp_path_factory.mktemp("runs"), 50)
    for number in range(3):
        store.make(QUICK, number)
    return store


def kept(store: Store, count: int) -> list[Run]:
    """The first runs of the quick kernel, which are there."""
    return [run for number in range(count) if (run := store.run(QUICK, number)) is not None]


@pytest.fixture(scope="module")
def row(varied: Store) -> Row:
    return study(varied, QUICK, kept(varied, 3))


def published_row(kernel: HybridKernel, row: Row) -> Row:
    theirs = kernel.published
    return dataclasses.replace(
        row,
        name=kernel.name,
        high_water_mark=theirs.high_water_mark,
        warp=theirs.warp,
        dynamic=theirs.dynamic,
        hybrid=theirs.hybrid,
    )


def test_runs_are_kept_and_made_again_alike(varied: Store, tmp_path: Path) -> None:
    runs = kept(varied, 3)
    assert len({run.trace for run in runs}) == 3
    again = Store(tmp_path, 50)
    for number, run in enumerate(runs):
        made = again.make(QUICK, number)
        assert dataclasses.replace(made, seconds=run.seconds) == run


def test_a_run_of_another_launch_is_made_again(varied: Store, tmp_path: Path) -> None:
    store = Store(tmp_path, 50)
    run = store.make(QUICK, 0)
    assert store.run(QUICK, 0) == run
    stale = json.dumps({**dataclasses.asdict(run), "made_of": "another"})
    store.file(QUICK, 0).write_text(stale, encoding="utf-8")
    assert store.run(QUICK, 0) is None
    assert varied.run(QUICK, 3) is None


def test_joined_runs_are_those_of_the_store(varied: Store) -> None:
    runs = kept(varied, 3)
    path = varied.join(QUICK, [*runs, runs[0]])
    whole = read_trace(path)
    assert len(whole) == sum(run.events for run in runs)
    bounds = [*whole.runs.tolist(), len(whole)]
    for first, last, run in zip(bounds, bounds[1:], runs, strict=False):
        assert int(whole.cycle[first:last].max()) == run.high_water_mark
    path.unlink()


def test_an_analysis_is_kept_with_its_runs(varied: Store, row: Row) -> None:
    runs = kept(varied, 3)
    assert kept_study(varied, QUICK, runs) == row
    path = varied.place(QUICK) / "row.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"waves": 1', '"waves": 7'), encoding="utf-8")
    assert kept_study(varied, QUICK, runs).waves == 7
    assert kept_study(varied, QUICK, runs[:2]).waves == 1


def test_later_inputs_of_known_kernels_take_the_path_of_the_analysis(tmp_path: Path) -> None:
    """The tenth input is executed, the eleventh is not: both make the same trace."""
    store = Store(tmp_path, 0)
    executed, analysed = store.make(QUICK, 9), store.make(QUICK, 10)
    assert executed.trace == analysed.trace
    assert executed.instructions == analysed.instructions


def test_a_row_holds_what_the_runs_show(row: Row) -> None:
    assert row.high_water_mark == max(row.marks)
    assert len(row.marks) == row.traces == 3
    assert row.kinds == ("random",) * 3
    assert (row.blocks, row.resident_blocks) == (47, 6)
    # 47 blocks on 14 multiprocessors: four at most on one, eight warps each, in a single wave
    assert (row.waves, row.warps_per_wave, row.planned_waves, row.planned_warps) == (1, 32, 1, 32)
    assert row.dynamic == row.warp + row.release_jitter
    assert row.hybrid == row.warp + 31 * row.start_gap
    assert row.longest_warp <= row.warp
    assert (row.block_alone, row.safe_block) == (
        594,
        661,
    )  # of the full block: the last one has less
    assert row.loop_share == 0
    assert row.barrier_share == 0


def test_planned_waves_are_counted_from_the_launch() -> None:
    schedule = planned_schedule(KERNELS["MatrixTranspose-1"], 8)
    assert (schedule.blocks, schedule.waves, schedule.warps_per_wave) == (1024, 10, 64)


def test_the_published_table_has_the_published_percentages(row: Row) -> None:
    rows = [published_row(kernel, row) for kernel in KERNELS.values()]
    _, lines = table_2(rows)
    for cells, kernel in zip(lines, KERNELS.values(), strict=True):
        assert cells[0] == kernel.name
        assert cells[4] == cells[5].strip("*")
        assert cells[7] == cells[8].strip("*")
    assert lines[0][4] == "14 %"
    assert "< 1 %" in lines[-1]
    for ours, _, theirs in averages(rows).values():
        assert ours == theirs


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 %"), (0.4, "< 1 %"), (1, "1 %"), (-0.3, "0 %"), (-7.6, "-8 %"), (2635.4, "2,635 %")],
)
def test_percent(value: float, text: str) -> None:
    assert percent(value) == text


def test_longest_runs_by_kind(row: Row) -> None:
    kinds = ("random", "sorted", "random", "constant")
    some = dataclasses.replace(row, marks=(5, 7, 9, 1000), kinds=kinds)
    same = dataclasses.replace(row, name="Scan-1", marks=(5, 5, 5, 5), kinds=kinds)
    _, lines = by_kind([some, same])
    assert lines == [["VectorAdd", "9", "7", "", "1,000", ""]]


def test_over() -> None:
    assert over(150, 100) == 50
    assert over(80, 100) == -20
