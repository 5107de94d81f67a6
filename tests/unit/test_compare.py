"""``ptxwcet compare``: two versions of a kernel, and what pays the difference of their bounds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from places import SAMPLES
from programs import run_program

from ptxwcet.cli.paths import split_kernel
from ptxwcet.commands.explain.schema import schema_of

pytestmark = pytest.mark.fast

TRANSPOSE = ("--block", "32x8", "--param", "width=1024", "--param", "height=1024")
REDUCE = ("--block", "256", "--param", "n=10000", "--grid", "16")
BLOCK_REDUCE = SAMPLES / "block_reduce.ptx"


def compared(*arguments: object) -> tuple[int, dict[str, Any], str]:
    ended = run_program("compare", *arguments, "--format", "json")
    data = json.loads(ended.out)
    jsonschema.Draft202012Validator(schema_of("diff")).validate(data)
    return ended.code, data, ended.err


def differences(rows: list[dict[str, Any]]) -> int:
    return sum((row["new"] or 0) - (row["old"] or 0) for row in rows)


def assert_sums(row: dict[str, Any]) -> None:
    bounds = {one["what"]: one["new"] - one["old"] for one in row["bounds"] if one["old"]}
    paid = row["paid"]
    assert paid["difference"] == bounds.get("block", 0)
    for table in ("parts", "op_classes", "lines"):
        assert differences(paid[table]) == paid["difference"], table
        assert all(one["old"] != one["new"] for one in paid[table])
    assert differences(row["launch_parts"]) == bounds.get("launch", 0)


def test_the_tables_add_up_to_the_difference() -> None:
    code, data, error = compared(
        SAMPLES / "transpose_naive.ptx", SAMPLES / "transpose_tiled.ptx", *TRANSPOSE, "--grid", "64"
    )
    assert (code, error) == (0, "")
    (row,) = data["kernels"]
    assert row["about"][0] == {
        "what": "kernel",
        "old": "transpose_naive",
        "new": "transpose_tiled",
        "growth_percent": None,
    }
    assert_sums(row)
    assert row["paid"]["difference"] == 804
    parts = {one["what"]: (one["old"], one["new"]) for one in row["paid"]["parts"]}
    assert parts["waits for results"] == (476, 1159)
    classes = {one["what"]: (one["old"], one["new"]) for one in row["paid"]["op_classes"]}
    assert classes["store_shared"] == (None, 32)


def test_waiting_for_units_is_a_part() -> None:
    launch = ("--block", "32x32", "--param", "K=128", "--param", "M=1024", "--param", "N=1024")
    files = SAMPLES / "sgemm_naive.ptx", SAMPLES / "sgemm_double_buffered.ptx"
    (row,) = compared(*files, *launch)[1]["kernels"]
    assert_sums(row)
    assert "waits for units" in {one["what"] for one in row["paid"]["parts"]}


def test_lines_are_found_again_by_their_text(tmp_path: Path) -> None:
    """Two kernels of a file: the loop over the input is the same line, elsewhere."""
    _, data, _ = compared(
        f"{BLOCK_REDUCE}:block_reduce_tree", f"{BLOCK_REDUCE}:block_reduce_shuffle", *REDUCE
    )
    (row,) = data["kernels"]
    assert_sums(row)
    places = {(one["old_place"], one["new_place"]): one for one in row["paid"]["lines"]}
    moved = places["block_reduce.cu:6", "block_reduce.cu:20"]
    assert "sum += in[i]" in moved["text"]
    assert (moved["old"] is None, moved["new"] is None) == (False, False)
    assert places[None, "block_reduce.cu:22"]["old"] is None


def test_lines_without_a_text_are_found_by_their_place(tmp_path: Path) -> None:
    """Neither version has its source beside it, and one instruction more is in the new one."""
    text = (SAMPLES / "vector_add.ptx").read_text()
    old, new = tmp_path / "old.ptx", tmp_path / "new.ptx"
    old.write_text(text)
    line = next(one for one in text.splitlines() if "add.f32" in one or "add.rn.f32" in one)
    new.write_text(text.replace(line, f"{line}\n{line}"))
    code, data, _ = compared(old, new, "--block", "256", "--param", "3=1000")
    (row,) = data["kernels"]
    assert code == 0
    assert_sums(row)
    assert row["paid"]["difference"] > 0
    assert [one["old_place"] == one["new_place"] for one in row["paid"]["lines"]] == [True]
    assert {one["what"] for one in row["paid"]["op_classes"]} == {"fp32_add"}


def test_a_version_is_itself(tmp_path: Path) -> None:
    code, data, _ = compared(BLOCK_REDUCE, BLOCK_REDUCE, *REDUCE)
    assert code == 0
    assert {row["status"] for row in data["kernels"]} == {"same"}
    assert {row["paid"] for row in data["kernels"]} == {None}


def test_a_diff_of_explained_results_says_what_pays(tmp_path: Path) -> None:
    """The comparison is that of ptxwcet compare."""
    names = []
    for name in ("naive", "tiled"):
        text = (SAMPLES / f"transpose_{name}.ptx").read_text().replace(f"transpose_{name}(", "t(")
        (tmp_path / f"{name}.ptx").write_text(text)
        names.append(tmp_path / f"{name}.ptx")
    plain = ("--block", "32x8", "--param", "2=1024", "--param", "3=1024")
    _, data, _ = compared(*names, *plain)
    files = []
    for name in names:
        found = run_program(name, *plain, "--explain", "--format", "json")
        files.append(tmp_path / f"{name.stem}.json")
        files[-1].write_text(found.out)
    ended = run_program("compare", *files, "--format", "json")
    assert ended.code == 1  # it is worse, which compare does not judge
    assert json.loads(ended.out)["kernels"] == data["kernels"]
    without = run_program(names[0], *plain, "--format", "json")
    files[0].write_text(without.out)
    (row,) = json.loads(run_program("compare", *files, "--format", "json").out)["kernels"]
    assert row["paid"] is None


def test_a_refused_version() -> None:
    loops = SAMPLES / "loops.ptx"
    code, data, error = compared(
        f"{loops}:loop_up", f"{loops}:loop_nested", "--block", "64", "--param", "n=10"
    )
    assert code == 1
    assert "error[PW203]" in error
    (row,) = data["kernels"]
    assert row["paid"] is None
    assert "refused [PW203]" in str(row["about"])


def test_names_of_kernels_with_colons_and_of_files(tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLES / "vector_add.ptx", tmp_path / "a:b.ptx"))
    assert split_kernel(str(path)) == (str(path), None)
    assert split_kernel(f"{path}:ns::k<float>") == (str(path), "ns::k<float>")
    assert split_kernel("no such.ptx:k") == ("no such.ptx:k", None)


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        (("-", "-"), "standard input can be read once"),
        ((BLOCK_REDUCE, "no-such.ptx:k"), "cannot read"),
    ],
)
def test_usage(versions: tuple[object, object], message: str) -> None:
    ended = run_program("compare", *versions, "--block", "32")
    assert ended.code == 2
    assert message in ended.err
    ended = run_program("compare", BLOCK_REDUCE, f"{BLOCK_REDUCE}:no_such", "--block", "32")
    assert ended.code == 2
    assert "error[PW208]" in ended.err


def test_no_report_replaces_a_version(tmp_path: Path) -> None:
    path = Path(shutil.copy(BLOCK_REDUCE, tmp_path))
    ended = run_program("compare", f"{path}:block_reduce_tree", BLOCK_REDUCE, *REDUCE, "-o", path)
    assert ended.code == 2
    assert "would replace" in ended.err


def test_the_text_has_the_tables() -> None:
    ended = run_program(
        "compare", SAMPLES / "transpose_naive.ptx", SAMPLES / "transpose_tiled.ptx", *TRANSPOSE
    )
    shown = [line.split() for line in ended.out.splitlines()]
    assert ["476", "1,159", "+683", "waits", "for", "results"] in shown
    assert ["kernel:", "transpose_naive", "->", "transpose_tiled"] in shown
    assert "what pays the difference of +803 cycles of a block" in ended.out
