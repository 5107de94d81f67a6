"""A misspelt word is refused wherever it is said, with what was meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import SAMPLES
from programs import run_program

import ptxwcet
from ptxwcet.support.source import SourceFile
from ptxwcet.support.toml_places import locate_table, nearest

pytestmark = pytest.mark.fast

SAXPY = (str(SAMPLES / "saxpy.ptx"), "--block", "64", "--grid", "4")


@pytest.mark.parametrize(
    ("said", "known", "meant"),
    [
        ("N", ("n", "x", "y"), "n"),  # the case alone
        ("Width", ("width", "height"), "width"),
        ("ffma", ("fma", "load"), "fma"),
        ("jetson", ("a100", "jetson-agx-orin"), "jetson-agx-orin"),  # a beginning
        ("jetson", ("jetson-agx-orin", "jetson-agx-xavier-of-8-sms"), None),  # of two
        ("je", ("jetson-agx-orin", "a100"), None),  # tells nothing
        ("q", ("n", "x"), None),
    ],
)
def test_what_is_meant(said: str, known: tuple[str, ...], meant: str | None) -> None:
    assert nearest(said, known) == ("" if meant is None else f"did you mean {meant}? ")


LAUNCH = 'kernel = "saxpy"\ngrid = 4\nblock = 64\n[arguments]\nn = 8\na = 1.5\n'
ARRAY = '{ shape = 8, dtype = "float32", init = "zeros" }'


@pytest.mark.parametrize(
    ("written", "misspelt", "meant"),
    [
        ("saxpy", "saxpi", "saxpy"),
        ("n = 8", "N = 8", "n"),
        ("y =", "yy =", "y"),
        ("float32", "flaot32", "float32"),
        ("zeros", "zeroes", "zeros"),
        ("shape", "shap", "shape"),
    ],
)
def test_words_of_launch_files(written: str, misspelt: str, meant: str, tmp_path: Path) -> None:
    text = f"{LAUNCH}x = {ARRAY}\ny = {ARRAY}\n"
    path = tmp_path / "launch.toml"
    path.write_text(text.replace(written, misspelt, 1))
    ended = run_program("run", SAMPLES / "saxpy.ptx", "--launch", path)
    assert ended.code in (1, 2)
    assert f"help: did you mean {meant}? " in ended.err


@pytest.mark.parametrize(
    ("change", "meant"),
    [
        ("memory.latencey=3", "latency"),
        ("memori.latency=3", "memory"),
        ("ffma.latency=3", "fma"),
        ("fp32_fm.initiation=3", "fp32_fma"),
    ],
)
def test_words_of_changes(change: str, meant: str) -> None:
    ended = run_program("what-if", *SAXPY, "--param", "n=9", "--set", change)
    assert ended.code == 2
    assert f"help: did you mean {meant}? for example" in ended.err


def test_words_of_options() -> None:
    for options, meant in (
        (("--policy", "gtoo"), "gto"),
        (("--param", "N=9"), "n"),
        (("--machine", "jetson"), "jetson-agx-orin"),
    ):
        ended = run_program(*SAXPY, *options)
        assert ended.code == 2
        assert f"help: did you mean {meant}? " in ended.err


def test_what_cannot_be_read_is_not_said_of_another_argument() -> None:
    """The file of ptxas has other names in Python and plans than on the command line."""
    with pytest.raises(ptxwcet.PtxwcetError) as raised:
        ptxwcet.bound(SAXPY[0], block=64, grid=4, params={"n": 9}, ptxas_info="absent")
    assert "registers=" not in str(raised.value)
    assert "cannot read 'absent', which ptxas should have written" in str(raised.value)


def test_functions_of_plans(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        f'[[sweep]]\nfiles = "{SAMPLES}/saxpy.ptx"\nblock = "{{cdv(n, 4)}}"\naxes = {{ n = [8] }}\n'
    )
    ended = run_program("sweep", path, "-o", tmp_path / "out")
    assert ended.code == 2
    assert "sweep.toml:3:11: error[PW811]: sweep 1: block: no function 'cdv'" in ended.err
    assert "help: did you mean cdiv? an expression has" in ended.err


def test_a_table_within_an_unknown_one_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('schema = 1\nname = "mine"\n[opps.fp32_fma]  # no such table\nlatency = 3\n')
    said = run_program("machine", "check", path).err
    assert "mine.toml:3:1: error[PW305]: unknown key opps" in said
    assert re.search(r"unknown key opps\n.*\n.*\n  help: did you mean ops\? ", said)
    source = SourceFile("m", '[a.b]\nx = 1\n["a"]\n')
    found = locate_table(source, "a")
    assert found is not None
    assert found.line == 3
    assert locate_table(source, "b") is None
