"""``ptxwcet run``: results, findings, expectations; nothing half-done is written as done."""

import json
from pathlib import Path

import numpy as np
import pytest
from places import SAMPLES
from programs import run_program

pytestmark = pytest.mark.fast

SAXPY = (str(SAMPLES / "saxpy.ptx"), "--launch", str(SAMPLES / "launches/saxpy.toml"))
ADD = (str(SAMPLES / "vector_add.ptx"), "--launch", str(SAMPLES / "launches/vector_add.toml"))


def changed(tmp_path: Path, name: str, old: str, new: str) -> str:
    text = (SAMPLES / f"launches/{name}.toml").read_text()
    assert text.count(old) == 1
    path = tmp_path / f"{name}.toml"
    path.write_text(text.replace(old, new))
    return str(path)


def test_writes_the_arrays(tmp_path: Path) -> None:
    out = tmp_path / "result.npz"
    code, text, err = run_program("run", *SAXPY, "-o", str(out))
    assert (code, err) == (0, "")
    assert "kernel     saxpy, block 64x1x1, grid 4x1x1" in text
    assert "ran to the end" in text
    with np.load(out) as found:
        assert found.files == ["x", "y"]
        assert found["x"].shape == (1000,)


def test_expected_results(tmp_path: Path) -> None:
    code, text, err = run_program("run", *ADD)
    assert (code, err) == (0, "")
    assert "c: as expected" in text
    launch = changed(tmp_path, "vector_add", "start = 1, step = 2 }", "start = 1, step = 3 }")
    code, text, err = run_program("run", ADD[0], "--launch", launch)
    assert code == 1
    assert "c: NOT as expected" in text
    assert "error[PW428]: 199 of 200 elements of c" in err
    assert "c[1] = 3.0, expected 4.0" in err


def test_json() -> None:
    code, text, _ = run_program("run", *ADD, "--format", "json")
    answer = json.loads(text)
    assert code == 0
    assert answer["complete"]
    assert answer["expected"] == {"c": True}
    assert answer["findings"] == []
    assert (answer["block"], answer["grid"]) == ([64, 1, 1], [4, 1, 1])


def test_a_fault_stops_the_run_and_nothing_is_written(tmp_path: Path) -> None:
    launch = str(tmp_path / "short.toml")
    text = Path(ADD[2]).read_text()
    text = text[: text.index("[expected]")]
    Path(launch).write_text(text.replace("c = { shape = 200", "c = { shape = 199"))
    out, paths = tmp_path / "r.npz", tmp_path / "p.jsonl"
    options = ("-o", str(out), "--paths", str(paths))
    code, text, err = run_program("run", ADD[0], "--launch", launch, *options)
    assert code == 1
    assert "error[PW4" in err
    assert "vector_add.cu:4" in err
    assert "was stopped" in text
    assert "no results are written" in err
    assert not out.exists()
    assert not paths.exists()


def test_a_run_that_is_too_long(tmp_path: Path) -> None:
    out = tmp_path / "r.npz"
    code, _, err = run_program("run", *SAXPY, "--max-instructions", "50", "-o", str(out))
    assert code == 1
    assert "error[PW4" in err
    assert "50" in err
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Missing argument"),
        ((SAXPY[0],), 2, "--launch"),
        ((SAXPY[0], "--launch", "none.toml"), 2, "cannot read 'none.toml'"),
        (("none.ptx", *SAXPY[1:]), 2, "cannot read 'none.ptx'"),
        ((*SAXPY, "-o", "x.npy"), 2, ".npz"),
        ((*SAXPY, "-o", "no/such/folder.npz"), 2, "no folder 'no/such'"),
        ((*SAXPY, "--paths", "no/such/folder.jsonl"), 2, "no folder 'no/such'"),
        ((*SAXPY, "--max-instructions", "0"), 2, "--max-instructions"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], code: int, message: str) -> None:
    found, _, err = run_program("run", *arguments)
    assert found == code
    assert message in err
    assert "Traceback" not in err


def test_block_over_the_limit(tmp_path: Path) -> None:
    launch = changed(tmp_path, "saxpy", "block = 64", "block = 2048")
    code, _, err = run_program("run", SAXPY[0], "--launch", launch)
    assert code == 1
    assert "PW211" in err
