"""Result files are whole or not there."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from refusals import refusals_of

from ptxwcet.emulator.result_files import write_arrays, write_lines

pytestmark = pytest.mark.fast


def test_arrays_come_back(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    arrays = {"file": np.arange(6).reshape(2, 3), "in": np.array([1.5], np.float16)}
    write_arrays(path, arrays)
    with np.load(path) as found:
        assert found.files == ["file", "in"]
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            assert found[name].tolist() == array.tolist()
    again = tmp_path / "again.npz"
    write_arrays(again, arrays)
    assert again.read_bytes() == path.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.npz", "r.npz"]


def test_a_failure_leaves_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_lines(path, ["old"])

    def lines() -> Iterator[str]:
        yield "new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lines(path, lines())
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (row,) = refusals_of(write_arrays, tmp_path / "no/r.npz", {})
    assert row.code == "PW429"
    assert "No such file" in row.message
