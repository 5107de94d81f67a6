"""No command of traces and times writes its output over one of its inputs."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxwcet.cli.main import commands

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.mark.parametrize(
    "words",
    [
        ["record", "k.ptx", "--launch", "l.toml", "-o", "k.ptx"],
        ["record", "k.ptx", "--launch", "l.toml", "-o", "k.json"],
        ["import-dump", "d.csv", "--sidecar", "k.json", "-o", "d.csv"],
        [
            "pwcet",
            "k.ptx",
            "--launch",
            "l.toml",
            "--runs",
            "9",
            "--policy",
            "lrr",
            "--save-times",
            "k.ptx",
        ],
        ["instrument", "k.ptx", "--out", "i.ptx", "--at", ",,"],
    ],
)
def test_usage(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(SAMPLES / "vector_add.ptx", tmp_path / "k.ptx")
    shutil.copy(SAMPLES / "launches" / "vector_add.toml", tmp_path / "l.toml")
    for name in ("k.json", "d.csv"):
        (tmp_path / name).write_text("kept")
    monkeypatch.chdir(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    answer = CliRunner().invoke(commands, words)
    assert answer.exit_code == 2, answer.output
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
