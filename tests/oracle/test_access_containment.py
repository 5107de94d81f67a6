"""What accesses of the samples take, analysed and executed."""

import tomllib
from pathlib import Path

import pytest
from access_containment import analysed_and_executed
from places import LAUNCHES, SAMPLES

LARGE = {"sgemm_naive_1024"}
FILES = [file for file in sorted(LAUNCHES.glob("*.toml")) if file.stem not in LARGE]


def ptx_of(launch: Path) -> Path:
    kernel = tomllib.loads(launch.read_text())["kernel"]
    names = [path for path in SAMPLES.glob("*.ptx") if f".entry {kernel}(" in path.read_text()]
    (found,) = names
    return found


@pytest.mark.every(2)
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_none_needs_more(file: Path) -> None:
    compared, _, wrong = analysed_and_executed(ptx_of(file), file)
    assert compared
    assert not wrong
