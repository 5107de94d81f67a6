"""``benchmarks/silicon``: launches are bounded as they ran, and the page shows the results."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from places import ROOT

import ptxwcet
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.machine.loader import load_machine, machine_files

pytestmark = pytest.mark.fast

GPUS = ("titanv", "rtx4070")


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "silicon")
    import compare

    return compare


def gpu_of(compare: ModuleType, name: str) -> Any:
    (found,) = (one for one in compare.GPUS if one.name == name)
    return found


@pytest.mark.parametrize("name", GPUS)
def test_the_tables_say_what_ran(compare: ModuleType, name: str) -> None:
    rows = gpu_of(compare, name).launches()
    assert len(rows) == 28
    for row in rows:
        x, *y = map(int, row["block"].split("x"))
        rest = y[0] if y else 1
        elements, blocks = int(row["elements"]), int(row["grid_blocks"])
        if row["kernel"] == "reduce_sum":
            assert blocks == -(-elements // 512)
            assert (row["registers_per_thread"], row["shared_bytes"]) == ("14", "1024")
        elif row["rows"]:
            across, down = int(row["columns"]), int(row["rows"])
            assert blocks == -(-across // x) * -(-down // rest)
            assert elements == across * down
        else:
            assert blocks == -(-elements // x)
        if row["kernel"] == "matmul_tiled":
            assert row["registers_per_thread"] == "32"


@pytest.mark.parametrize("name", GPUS)
def test_a_launch_is_bounded_as_it_ran(compare: ModuleType, name: str, tmp_path: Path) -> None:
    gpu = gpu_of(compare, name)
    row = next(one for one in gpu.launches() if one["kernel"] == "reduce_sum")
    found = compare.bounded(row, gpu.machine, tmp_path)
    said = ptxwcet.bound(
        ROOT / "benchmarks/silicon/reduce_sum.ptx",
        block=256,
        grid=512,
        params={"N": 262144},
        registers=14,
        dynamic_shared=1024,
        machine=gpu.machine,
    )
    assert found.launch_cycles == said.launch_cycles
    launched, roofline = found.analysis.launch_bound, found.roofline
    assert isinstance(launched, LaunchBound)
    assert roofline is not None
    assert launched.residency.open == ()
    assert "no-dynamic-shared-memory" not in found.launch_assumptions
    memory = load_machine(gpu.machine).memory
    assert memory is not None
    cycles = memory.server_cycles_per_1024_sectors.value  # arrays are streams
    sectors = 262144 * 4 // 32 + 512 * 4 // 32
    assert roofline.arrays_cycles == -(-cycles * sectors // 1024)


@pytest.mark.parametrize("name", GPUS)
def test_the_page_shows_the_results(compare: ModuleType, name: str) -> None:
    data = json.loads(gpu_of(compare, name).data.read_text())
    rows = [compare.Row(**one) for one in data["rows"]]
    assert [(row.kernel, row.measured_ms) for row in rows] == [
        (one["kernel"], float(one["mean_ms"])) for one in gpu_of(compare, name).launches()
    ]
    assert "\n".join(compare.table_of(rows)) in compare.PAGE.read_text()
    for row in rows:
        for title in row.bounds_ms:
            assert row.ratio(title) >= 1 or row.is_at_floor, (row.kernel, row.size, title)
    summary = compare.summary_of(rows)
    assert {title: data[title] for title in summary} == summary


MACHINE = """schema = 1
[memory]
size = 1
b = { value = 2 }

[satisfies]
c = 3
"""


def test_claims_are_other_than_the_file_says(compare: ModuleType) -> None:
    def said(**claims: str | None) -> str:
        there: str = compare.with_claims(
            MACHINE, {k.replace("__", "."): v for k, v in claims.items()}
        )
        return there

    assert said() == MACHINE
    assert said(memory__size="9") == MACHINE.replace("size = 1", "size = 9")
    assert said(memory__b=None) == MACHINE.replace("b = { value = 2 }\n", "")
    assert said(satisfies__d="4").endswith("[satisfies]\nd = 4\nc = 3\n")
    assert said(satisfies=None) == MACHINE.replace("[satisfies]\nc = 3\n", "")
    assert said(new__e="5") == f"{MACHINE}\n[new]\ne = 5\n"


def test_a_variant_is_a_machine_file(compare: ModuleType, tmp_path: Path) -> None:
    free = '{ value = 0, evidence = "assumed", source = "silicon: free" }'
    for gpu in compare.GPUS:
        text = machine_files(gpu.machine)[0].read_text()
        path = tmp_path / "machine.toml"
        of_path = free.replace("silicon", "path")
        claims = {
            f"memory.server_{worst}cycles_per_1024_sectors": of_path for worst in ("", "worst_")
        }
        path.write_text(compare.with_claims(text, claims))
        assert load_machine(str(path)).cycles_per_1024_sectors == 0


def test_rank_correlation(compare: ModuleType) -> None:
    correlation = compare.rank_correlation
    assert correlation([1, 2, 3, 4], [10, 20, 30, 99]) == pytest.approx(1)
    assert correlation([1, 2, 3, 4], [9, 7, 5, 1]) == pytest.approx(-1)
    # 1 - 6 sum d^2 / (n (n^2 - 1)), by hand: d = 0, 1, 1, 0
    assert correlation([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(1 - 6 * 2 / 60)
    # ties have the mean of their places: 0, 1.5, 1.5, 3 against 0, 1, 2, 3
    assert correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
