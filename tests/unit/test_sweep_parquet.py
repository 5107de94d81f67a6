"""Results of a sweep as Parquet: written by others in other ways, and damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import run_program
from sweeps import sgemm_sweep, write_parquet

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = sgemm_sweep((16, 64, 128), (8, 16), (4, 8))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "results.parquet"
    write_parquet(ROWS, path)
    return path


def test_dictionaries_row_groups_and_empty_columns(path: Path, tmp_path: Path) -> None:
    table = parquet.read_table(path)
    encoded = table
    for name in ("file", "machine", "code", "policy"):
        place = table.schema.get_field_index(name)
        column = table.column(name)
        empty = name == "policy"
        new = pyarrow.nulls(len(table)) if empty else column.dictionary_encode()
        encoded = encoded.set_column(place, name, new)
    other = tmp_path / "other.parquet"
    parquet.write_table(encoded, other, row_group_size=7)
    shown = [run_program("sweep", "report", one, "--format", "json").out for one in (path, other)]
    first, second = (json.loads(one) for one in shown)
    assert first["machines"] == second["machines"]
    assert first["refusals"] == second["refusals"]


def dropped(table: Any) -> Any:
    return table.drop_columns(["guarantee"])


def lists(table: Any) -> Any:
    return table.set_column(
        table.schema.get_field_index("tm"), "tm", pyarrow.array([[1]] * len(table))
    )


def texts(table: Any) -> Any:
    place = table.schema.get_field_index("cycles")
    return table.set_column(place, "cycles", pyarrow.array(["1"] * len(table)))


def huge(table: Any) -> Any:
    values = pyarrow.array([2**64 - 1] * len(table), pyarrow.uint64())
    return table.set_column(table.schema.get_field_index("cycles"), "cycles", values)


def nothing(table: Any) -> Any:
    return table.slice(0, 0)


def twice(table: Any) -> Any:
    return table.append_column("tm", table.column("tm"))


def others(table: Any) -> Any:
    return table.select(["tm", "tn"])


@pytest.mark.parametrize("change", [dropped, lists, texts, huge, nothing, twice, others])
def test_parquet_of_something_else(
    change: Callable[[Any], Any], path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.parquet"
    parquet.write_table(change(parquet.read_table(path)), other)
    ended = run_program("sweep", "report", other)
    assert (ended.code, ended.out) == (2, "")
    assert "error[PW824]" in ended.err


def test_parquet_that_was_cut(path: Path) -> None:
    data = path.read_bytes()
    for size in (4, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        ended = run_program("sweep", "report", path)
        assert ended.code == 2
        assert "error[PW824]" in ended.err


def test_parquet_with_other_bytes_inside(path: Path) -> None:
    """Damage is an error that is told, or is not seen; never a traceback."""
    data = path.read_bytes()
    for place in range(0, len(data), len(data) // 15):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        ended = run_program("sweep", "report", path)
        assert ended.code in (0, 2), (place, ended.err)
        assert "PW901" not in ended.err
