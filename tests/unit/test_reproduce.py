"""``benchmarks/reproduce.py``: quick experiments, the folder that it writes, what it refuses."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import click
import pytest
import reproduce
from experiments import catalogue, kernel_files, makespan
from experiments.catalogue import EXPERIMENTS
from experiments.ecrts2025_paper import published_4
from experiments.experiment import Results, Task
from experiments.folder import open_folder
from places import ROOT
from programs import Ended

from ptxwcet.support import extras

NAMES = tuple(EXPERIMENTS)


def reproduced(*arguments: object) -> Ended:
    """Runs ``python benchmarks/reproduce.py ARGUMENTS``."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = reproduce.main([str(one) for one in arguments])
    return Ended(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every experiment made again, quickly, in a folder each."""
    folder = tmp_path_factory.mktemp("reproduced")
    for name in NAMES:
        ended = reproduced(name, "--quick", "-o", folder / name)
        assert ended.code == 0, ended.err
        assert ended.out.startswith(f"{folder / name}: REPORT.md, ")
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- what is written ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_report_says_how_it_was_made(made: Path, name: str) -> None:
    text = (made / name / "REPORT.md").read_text(encoding="utf-8")
    assert "A reduced protocol" in text
    assert f"python benchmarks/reproduce.py {name} --quick -o {made / name}" in text
    assert EXPERIMENTS[name].paper in text
    assert re.search(r"versions \| ptxwcet \d.*Python 3.*numpy \d", text)
    assert (ROOT / EXPERIMENTS[name].page).is_file()


@pytest.mark.parametrize("name", NAMES)
def test_hashes_and_links_are_those_of_the_files(made: Path, name: str) -> None:
    folder = made / name
    text = (folder / "REPORT.md").read_text(encoding="utf-8")
    hashes = dict(re.findall(r"^\| (\S+) \| `([0-9a-f]{64})` \|$", text, re.MULTILINE))
    files = {path.name for path in folder.iterdir()} - {"REPORT.md", "reproduce.json"}
    assert files <= set(hashes)
    for file in files:
        assert hashes[file] == hashlib.sha256((folder / file).read_bytes()).hexdigest()
    links = set(re.findall(r"\]\(([^)]+)\)", text))
    assert links == files
    inputs = set(hashes) - files
    assert len(inputs) >= 2
    for name_of_input in inputs:
        room, _, place = name_of_input.partition("/")
        data = (kernel_files.kernel_folder(room) / place).read_bytes()
        assert hashes[name_of_input] == hashlib.sha256(data).hexdigest()


def test_table_4_is_nearest_to_the_paper_in_the_first_reading(made: Path) -> None:
    """From the data alone: what the report says of the readings, and of 4 warps at latency 200."""
    apart: dict[str, list[float]] = {}
    at_200 = {}
    for row in rows_of(made / "ecrts2025" / "table4.csv"):
        over = 100 * (int(row["gub"]) / int(row["lrr"]) - 1)
        warps, latency = int(row["warps"]), int(row["memory_latency"])
        apart.setdefault(row["reading"], []).append(
            abs(over - published_4(row["kernel"], latency, warps))
        )
        if (row["kernel"], warps, latency) == ("double_buffered", 4, 200):
            at_200[row["reading"]] = round(over, 2)
        assert int(row["lower"]) <= int(row["lrr"]) <= int(row["safe"])
    means = {reading: sum(some) / len(some) for reading, some in apart.items()}
    assert min(means, key=lambda reading: means[reading]) == "one code"
    assert at_200 == {"one code": 44.88, "own codes": 44.75, "own K": 28.92}
    text = (made / "ecrts2025" / "REPORT.md").read_text(encoding="utf-8")
    assert "| 200 | 13.49 | 13.95 | 8.40 | 8.81 | 40.40 | 44.88 | 44.75 | 28.92 |" in text


def test_rows_of_the_hybrid_experiment_have_the_published_beside_them(made: Path) -> None:
    rows = rows_of(made / "hybrid" / "hybrid.csv")
    assert [row["kernel"] for row in rows] == ["MatrixMultiply", "Reduction-6", "VectorAdd"]
    # their paths do not depend on data: one run shows what all do, and what the page has
    page = {row["kernel"]: row for row in rows_of(ROOT / "docs/experiments/hybrid.csv")}
    assert rows == [page[row["kernel"]] for row in rows]
    data = json.loads((made / "hybrid" / "hybrid.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in data["varied"]] == ["VectorAdd"]
    assert len(data["varied"][0]["marks"]) == 3


def test_the_makespan_paper_s_example_is_refuted(made: Path) -> None:
    data = json.loads((made / "makespan" / "makespan.json").read_text(encoding="utf-8"))
    assert (data["six"]["exact"], data["six"]["pessimistic"]) == (2401, 3000)
    assert min(data["refuted"]["extrapolated"]) < data["refuted"]["exact"]
    assert all(row["above"] == 0 for row in data["closed_form"])
    by_program = {row["warps"]: row["slots"] for row in data["five"]}
    by_table = {row["warps"]: row["slots"] for row in data["five_tables"]}
    assert by_program.items() <= by_table.items()


def test_no_time_of_the_voronoi_study_is_above_the_static_bound(made: Path) -> None:
    times = [int(row["cycles"]) for row in rows_of(made / "pwcet" / "times.csv")]
    assert len(times) == 1000
    text = (made / "pwcet" / "REPORT.md").read_text(encoding="utf-8")
    bound = re.search(r"^\| VOR-1 \| [\d,]+ \| ([\d,]+) \| \d\.\d\d \| SAFE", text, re.MULTILINE)
    assert bound is not None
    assert max(times) <= int(bound[1].replace(",", "")) == 29_903


def test_pictures_are_left_out_where_they_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.experiment.can_draw", lambda: False)
    results = Results()
    results.add_picture("a.png", "a picture", (2, 2), lambda figure: None)
    assert (results.files, results.undrawn) == ({}, ["a.png"])
    assert "not drawn" in results.sections[0]


# --- the folder -----------------------------------------------------------------------------------


def test_an_own_folder_is_replaced_and_nothing_older_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Results("nothing", files={"newer.csv": b"1"})
    monkeypatch.setattr(catalogue, "run_experiment", lambda experiment, task: found)
    folder = tmp_path / "again"
    folder.mkdir()
    manifest = {"experiment": "hybrid", "files": ["older.csv", "../outside.csv"]}
    (folder / "reproduce.json").write_text(json.dumps(manifest))
    (folder / "older.csv").write_text("1")
    (tmp_path / "outside.csv").write_text("1")
    ended = reproduced("hybrid", "--quick", "-q", "-o", folder)
    assert ended.code == 0, ended.err
    assert ended.err == ""
    assert {path.name for path in folder.iterdir()} == {
        *("REPORT.md", "newer.csv", "reproduce.json")
    }
    assert (tmp_path / "outside.csv").exists()


@pytest.mark.parametrize("stranger", ["notes.txt", "REPORT.md", "work"])
def test_a_folder_with_other_files_is_refused(tmp_path: Path, stranger: str) -> None:
    (tmp_path / stranger).write_text("mine")
    ended = reproduced("makespan", "--quick", "-o", tmp_path)
    assert ended.code == 2
    assert f"'{stranger}'" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == [stranger]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"experiment": "hybrid", "files": []}', "null"])
def test_a_manifest_of_something_else_makes_no_folder_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / "reproduce.json").write_text(text)
    with pytest.raises(click.UsageError, match="nothing is replaced"):
        open_folder(tmp_path, EXPERIMENTS["makespan"])


def test_a_file_added_to_an_own_folder_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    open_folder(folder, EXPERIMENTS["makespan"])
    open_folder(folder, EXPERIMENTS["makespan"])
    (folder / "makespan.json").write_text("mine")
    with pytest.raises(click.UsageError):
        open_folder(folder, EXPERIMENTS["makespan"])


def test_an_interrupted_experiment_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def parts(stops: bool) -> dict[str, Any]:
        def first() -> int:
            measured.append("first")
            return 7

        def second() -> int:
            if stops:
                raise KeyboardInterrupt
            measured.append("second")
            return 8

        return {"first": first, "second": second}

    task = Task(True, tmp_path, lambda text, done: None)
    written: dict[str, Any] = {}
    monkeypatch.setattr(makespan, "write_report", lambda results, data: written.update(data))
    monkeypatch.setattr(makespan, "_parts", lambda protocol, say: parts(True))
    with pytest.raises(KeyboardInterrupt):
        makespan.run(task)
    monkeypatch.setattr(makespan, "_parts", lambda protocol, say: parts(False))
    makespan.run(task)
    assert measured == ["first", "second"]
    assert written == {"first": 7, "second": 8}
    monkeypatch.setattr(makespan, "describe_sources", lambda: "another version")
    makespan.run(task)
    assert measured == ["first", "second"] * 2


# --- usage -----------------------------------------------------------------------------------


def test_an_unknown_experiment(tmp_path: Path) -> None:
    ended = reproduced("ecrts2024", "-o", tmp_path / "new")
    assert ended.code == 2
    assert "'ecrts2025', 'hybrid', 'makespan', 'pwcet'" in ended.err


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_extra_is_a_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = EXPERIMENTS[name].extras[-1]
    package = extras.PACKAGES_OF_EXTRAS[extra][0]
    there = extras._is_there
    monkeypatch.setattr(extras, "_is_there", lambda one: one != package and there(one))
    ended = reproduced(name, "--quick", "-o", tmp_path / "new")
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert f"needs {package}" in ended.err
    assert "pip install 'ptxwcet[" in ended.err
    assert not (tmp_path / "new").exists()
