"""``ptxwcet sweep``: what it finds, what it finds again, and what it shares with checks."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pandas
import pyarrow.parquet
import pytest
from places import SAMPLES
from programs import run_program

import ptxwcet
from ptxwcet.commands.check import study
from ptxwcet.sweeps import engine
from ptxwcet.sweeps.tables import CSV, EFFORT, PARQUET

PLAN = """
[[sweep]]
files = ["saxpy.ptx", "vector_add.ptx"]
block = ["64", "128", "2048"]
grid = "4"
params = { n = [100, 200] }
"""
CHECK = """
[[check]]
files = ["saxpy.ptx", "vector_add.ptx"]
block = "128"
grid = "4"
params = { n = 200 }
budget = "1 ms"
"""
OF_THE_TOOL = ("key", "version", "sources_sha256", "machine_sha256")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two kernels, a plan of 12 units, and a check of two of them."""
    for name in ("saxpy", "vector_add"):
        for suffix in (".ptx", ".cu"):
            shutil.copy(SAMPLES / f"{name}{suffix}", tmp_path)
    (tmp_path / "sweep.toml").write_text(PLAN)
    (tmp_path / "ptxwcet.toml").write_text(CHECK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def swept(*options: str) -> str:
    done = run_program("sweep", "-o", "out", "--workers", "1", *options)
    assert done.code in (0, 1), done.err
    return done.out


def rows_of(folder: str | Path = "out") -> list[dict[str, str]]:
    with (Path(folder) / CSV).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_rows_of_a_plan(project: Path) -> None:
    assert "12 units: 8 bounded, 4 refused, 0 failed; 12 analysed now" in swept()
    rows = rows_of()
    assert [row["unit"] for row in rows] == [str(number) for number in range(12)]
    assert [row["param.n"] for row in rows[:4]] == ["100", "200", "100", "200"]
    assert {row["code"] for row in rows if row["block"] == "2048"} == {"PW211"}
    for row in rows:
        if row["outcome"] == "bounded":
            size = {"n": int(row["param.n"])}
            direct = ptxwcet.bound(row["file"], block=int(row["block"]), grid=4, params=size)
            assert (row["of"], int(row["cycles"])) == ("launch", direct.launch_cycles)
            assert int(row["block_cycles"]) == direct.cycles


def test_both_tables_say_the_same(project: Path) -> None:
    swept()
    table = pyarrow.parquet.read_table(Path("out") / PARQUET)
    columns = table.to_pydict()
    rows = rows_of()
    assert list(columns) == list(rows[0])
    for name, values in columns.items():
        assert ["" if value is None else str(value) for value in values] == [
            row[name] for row in rows
        ]
    assert table.schema.field("cycles").type == table.schema.field("param.n").type == "int64"
    assert table.schema.metadata[b"ptxwcet.columns"] == b'["param.n"]'
    effort = (Path("out") / EFFORT).read_text().splitlines()
    assert len(effort) == 13


def tables(folder: str = "out") -> tuple[bytes, bytes]:
    return (Path(folder) / PARQUET).read_bytes(), (Path(folder) / CSV).read_bytes()


def test_what_is_there_is_not_analysed_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept()
    before = tables()
    monkeypatch.setattr(engine, "chosen_cluster", no_cluster)
    assert "0 analysed now" in swept("--resume")
    assert tables() == before
    monkeypatch.undo()
    monkeypatch.chdir(project)
    text = Path("saxpy.ptx").read_text()
    Path("saxpy.ptx").write_text(text + "// changed\n")
    assert "12 units: 8 bounded, 4 refused, 0 failed; 6 analysed now" in swept("--resume")
    keys = [row["key"] for row in rows_of()]
    Path("saxpy.ptx").write_text(text)
    monkeypatch.setattr(engine, "chosen_cluster", no_cluster)
    assert "0 analysed now" in swept("--resume")  # both versions are kept
    assert tables() == before
    assert [row["key"] for row in rows_of()][6:] == keys[6:]


def no_cluster(*_: object) -> None:
    raise AssertionError("nothing is missing: no cluster is needed")


def test_checks_and_sweeps_share_answers(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run_program("check", "--format", "json")
    swept("--cache", "kept")
    asked: list[object] = []

    def run_nothing(_work: object, jobs: list[object], *_: object) -> list[object]:
        asked.extend(jobs)
        return []

    monkeypatch.setattr(study, "run_each", run_nothing)
    cached = run_program("check", "--format", "json", "--cache", "kept")
    assert asked == []
    assert (cached.code, cached.out) == (plain.code, plain.out)


def test_sweeps_use_what_checks_found(project: Path) -> None:
    run_program("check", "--cache", "kept")
    assert "10 analysed now" in swept("--cache", "kept")


def test_tables_of_equal_units_and_of_one(project: Path) -> None:
    Path("sweep.toml").write_text(
        '[[sweep]]\nfiles = "saxpy.ptx"\nblock = ["{64 + 0 * a}"]\ngrid = 4\nparams = { n = 9 }\n'
        "[sweep.axes]\na = [1, 2, 3]\n"
    )
    assert "3 units: 3 bounded, 0 refused, 0 failed; 1 analysed now" in swept()
    rows = rows_of()
    assert len({row["key"] for row in rows}) == 1
    assert [row["a"] for row in rows] == ["1", "2", "3"]


def test_data_frame(project: Path) -> None:
    frame = ptxwcet.sweep("sweep.toml", workers=1)
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 12
    assert str(frame["cycles"].dtype) == "Int64"  # whole numbers, though some are missing
    assert not Path("sweep").exists()
    assert set(frame.loc[frame["outcome"] == "refused", "code"]) == {"PW211"}


def test_a_unit_over_its_limits_is_a_row(project: Path) -> None:
    Path("sweep.toml").write_text(
        "[limits]\nmemory_mib = 1\n" + PLAN.replace('"64", "128", "2048"', '"64"')
    )
    output = swept()
    assert "4 units: 0 bounded, 0 refused, 4 failed" in output
    assert {row["code"] for row in rows_of()} <= {"PW801", "PW802"}
    Path("sweep.toml").write_text(PLAN)
    assert "error[PW823]" in run_program("sweep", "-o", "out", "--resume").err


def test_the_committed_sample_is_what_is_found(tmp_path: Path) -> None:
    """samples/sweep/results.parquet, but for what belongs to one version of the tool."""
    folder = tmp_path / "out"
    plan = SAMPLES / "sweep.toml"
    done = run_program("sweep", str(plan), "-o", str(folder), "--workers", "2")
    assert done.code == 0, done.err
    committed, now = (
        pyarrow.parquet.read_table(place / PARQUET).to_pylist()
        for place in (SAMPLES / "sweep", folder)
    )
    assert len(committed) == len(now)
    for old, new in zip(committed, now, strict=True):
        for name in OF_THE_TOOL:
            del old[name], new[name]
        new["file"] = "samples/" + Path(new["file"]).name
        assert old == new


ODD = ("a,b", 'c"d', "e\rf", "g\nh", "i\r\nj", " k ", "l\u2028m", "'n", "\N{SNOWMAN}", "7", "007")


def test_odd_texts_are_the_same_in_both_tables(project: Path) -> None:
    texts = ", ".join(json.dumps(text) for text in ODD)
    numbers = "9223372036854775807, 9223372036854775808, 18446744073709551615, -0.0, 1e300"
    plan = f"""
[[sweep]]
files = "saxpy.ptx"
block = "64"
params = {{ N = [{numbers}], odd = "{{t}}" }}
[sweep.axes]
t = [{texts}]
"""
    (project / "sweep.toml").write_text(plan, encoding="utf-8")
    (project / "saxpy.ptx").write_text("no kernel")  # refused at once, without a name
    swept()
    table = pyarrow.parquet.read_table(Path("out") / PARQUET).to_pylist()
    rows = rows_of()
    assert len(rows) == len(table) == 5 * len(ODD)
    for row, whole in zip(rows, table, strict=True):
        assert row == {name: "" if one is None else str(one) for name, one in whole.items()}
    assert list(dict.fromkeys(row["t"] for row in rows)) == list(ODD)


def test_a_bound_that_no_column_holds_is_a_row(project: Path) -> None:
    plan = '[[sweep]]\nfiles = "loops.ptx"\nkernels = "loop_shifted"\nblock = "1024"\n'
    plan += 'grid = ["1", "2147483647x65535x65535"]\n'
    (project / "sweep.toml").write_text(plan)
    shutil.copy(SAMPLES / "loops.ptx", project)
    assert "2 units: 1 bounded, 1 refused, 0 failed" in swept()
    fits, large = rows_of()
    assert (large["code"], large["cycles"], large["launch_cycles"]) == ("PW805", "", "")
    assert large["block_cycles"] == fits["block_cycles"] != ""
    assert "is too large for a table" in large["message"]
