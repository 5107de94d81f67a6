"""``benchmarks/silicon/blocks*.py``: clocks become block times; the page shows what was found."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from places import ROOT

from ptxwcet.opened.front_ends import read_program, read_source

pytestmark = pytest.mark.fast


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "silicon")
    import blocks_compare

    return blocks_compare


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "silicon")
    import blocks_run

    return blocks_run


def clocks(*blocks: tuple[int, list[tuple[int, int]]]) -> np.ndarray[Any, Any]:
    """Words of threads: of each block its SM, and the first and last clock of each thread."""
    rows = [[start, end, sm, 1] for sm, threads in blocks for start, end in threads]
    return (np.array(rows, dtype=np.int64) % 2**32).astype(np.uint32).reshape(-1)


def test_a_block_lasts_from_its_first_clock_to_its_last(run: ModuleType) -> None:
    words = clocks((3, [(100, 150), (90, 170)]), (5, [(7, 20), (8, 40)]))
    found = run.block_times(words, 2)
    assert (found["block"], found["worst"], found["least"]) == (80, 0, 33)
    assert (found["span"], found["sms"], found["resident"]) == (80, 2, 1)
    assert (found["unwritten"], found["moved"]) == (0, 0)


def test_clocks_that_overflow_count_on(run: ModuleType) -> None:
    top = 2**32
    words = clocks(
        (0, [(top - 50, top + 25), (top - 60, top + 5)]), (0, [(top + 30, top + 50)] * 2)
    )
    found = run.block_times(words, 2)
    assert (found["block"], found["span"], found["resident"]) == (85, 110, 1)


def test_blocks_that_share_an_sm_are_seen(run: ModuleType) -> None:
    words = clocks((0, [(0, 50)]), (0, [(49, 90)]), (0, [(50, 60)]), (1, [(10, 20)]))
    assert run.block_times(words, 4)["resident"] == 2
    words[7] = 0  # a thread that wrote nothing
    assert run.block_times(words, 4)["unwritten"] == 1


def test_arrays_are_those_of_launch_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "silicon")
    import blocks

    one = blocks.Launched(
        "samples", ROOT / "samples/launches/saxpy.toml", ROOT / "samples/saxpy.ptx"
    )
    job = blocks.job_of(one)  # asserts that each array is built alike
    assert job["kernel"] == "saxpy"
    assert any(argument.get("expected") for argument in job["arguments"])


def test_the_timed_copy_reads_clocks_at_the_ends_of_each_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "silicon")
    import blocks

    module = read_program(read_source(str(ROOT / "samples" / "vector_add.ptx")))
    path = tmp_path / "timed.ptx"
    path.write_text(blocks.timed_text(module, module.kernels), encoding="utf-8")
    copy = read_program(read_source(str(path)))
    (plain,), (timed,) = module.kernels, copy.kernels
    assert len(timed.parameters) == len(plain.parameters) + 1
    texts = [copy.source.text[one.start : one.end] for one in timed.instructions]
    ends = [place for place, text in enumerate(texts) if text == "ret;"]
    assert len(ends) == sum(one.opcode.name == "ret" for one in plain.instructions)
    reads = [place for place, text in enumerate(texts) if "%clock" in text]
    assert reads[0] == 0
    assert len(reads) == 1 + len(ends)
    assert all("st.global.v4.u32" in texts[place - 1] for place in ends)


def job(expected: str | None) -> dict[str, Any]:
    arguments = [{"name": "n"}, {"name": "out", "expected": expected}]
    return {"name": "suite/one", "grid": [2, 1, 1], "arguments": arguments}


def line(sha: str, cycles: int, *, repeats: bool = True, unfused: str = "") -> dict[str, Any]:
    data = base64.b64encode(zlib.compress(np.array([1, 2.5], "f4").tobytes())).decode()
    shared = {"block": [9 * cycles, cycles], "resident": [2, 1]}
    return {
        "name": "suite/one",
        "times_us": {"cold": [3.0, 5.0], "warm": [2.0]},
        "outputs": {"1": {"sha256": sha, "repeats": repeats, "data": data}},
        "unfused": {"1": {"sha256": unfused, "data": data}},
        "blocks": {
            "as it is": {"cold": shared, "warm": {"block": [cycles // 2], "resident": [1]}},
            "alone": {"cold": {"block": [cycles - 1], "resident": [1]}},
        },
    }


def compared(compare: ModuleType, folder: Path, lines: list[dict[str, Any]]) -> Any:
    paths = []
    for number, one in enumerate(lines):
        paths.append(folder / f"{number}.jsonl")
        paths[-1].write_text(json.dumps(one) + "\n" + '{"cut": ', encoding="utf-8")
    bounded = {"timed PTX": {"block": 1000, "launch": 7000}}
    plain = {"plain PTX": {"block": 900, "launch": 9900}}
    l2 = {"timed PTX": {"block": 450, "launch": 6000}}
    bounds = {"rows": {"suite/one": bounded | plain}, "l2": {"suite/one": l2}}
    (row,) = compare.rows_of([job("aa")], bounds, paths)
    return row


def test_blocks_that_share_their_sm_are_left_out(compare: ModuleType, tmp_path: Path) -> None:
    row = compared(compare, tmp_path, [line("aa", 800), line("aa", 500)])
    assert row.cycles == {"cold": 800, "warm": 400}
    assert row.us == {"cold": [4.0, 5.0], "warm": [2.0, 2.0]}
    assert (row.equal, row.differ) == (1, [])
    assert row.ratio("timed PTX") == 1.25
    assert row.ratio("timed PTX", ("warm",)) == 1.125
    assert row.ratio("timed code") is None
    assert row.launch_ratio("plain PTX", 1980.0) == 1.0


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([line("bb", 1, unfused="aa")], "fused"),
        ([line("bb", 1, repeats=False, unfused="aa")], "order"),
        ([line("cc", 1), line("bb", 1, unfused="aa")], "order"),
        ([line("bb", 1)], "open"),
    ],
)
def test_why_an_array_differs(
    compare: ModuleType, tmp_path: Path, lines: list[dict[str, Any]], why: str
) -> None:
    row = compared(compare, tmp_path, lines)
    assert [one["why"] for one in row.differ] == [why]
    (said,) = compare.judged(row, {1: np.array([1, 2], "f4")}, "ex2.approx.f32")
    assert said["why"] == ("approximate" if why == "open" else why)
    assert (said["elements"], said["error"], said["unfused error"]) == (1, 0.25, 0.25)
    (said,) = compare.judged(row, {1: np.array([1, 2], "f4")}, "add.f32")
    assert said["why"] == why


def test_a_bound_that_is_exceeded_is_named(compare: ModuleType, tmp_path: Path) -> None:
    row = compared(compare, tmp_path, [line("aa", 1001)])
    assert compare.contradicted([row]) == []  # two blocks: others used the memory
    alone = compare.Row(**{**vars(row), "blocks": 1})
    assert compare.contradicted([alone]) == [
        "suite/one: timed PTX, cold/warm, 0.999",
        "suite/one: timed PTX, warm, 0.9",
    ]


def test_the_page_shows_the_results(compare: ModuleType) -> None:
    data = json.loads(compare.DATA.read_text())
    rows = compare.kept(data)
    assert len(rows) == 413
    assert "\n".join(compare.table_of(rows, data)) in compare.PAGE.read_text()
    rest = {key: data[key] for key in data if key != "rows"}
    assert compare.written(rows, rest) == compare.DATA.read_text()
    assert not compare.contradicted(rows)
    assert not [one for row in rows for one in row.differ if one["why"] == "open"]
