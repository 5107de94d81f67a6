"""What a person reads has the names that people gave: kernels, parameters, files; JSON has both."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from parsing import parse_file, parse_kernel, parse_text
from places import ROOT
from refusals import refusal_of

from ptxwcet.cli.main import commands
from ptxwcet.ir.kernel import SourceLocation
from ptxwcet.library.functions import analyse
from ptxwcet.opened.cuda_text import cuda_parameter_names
from ptxwcet.opened.opening import file_digest, select_kernels
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError, render_all
from ptxwcet.support.source import readable_paths

SOBEL = ROOT / "tests/data/names/sobel.ptx"
NUMBA = ROOT / "tests/corpus/ptx/numba"
MANGLED = "_Z5sobelPKfPfii"
LAUNCH = """
kernel = "sobel"
block = 32
grid = 4
[arguments]
in = { dtype = "float32", shape = [1200], init = "uniform", low = -1, high = 1, seed = 1 }
out = { dtype = "float32", shape = [1200], init = "zeros" }
width = 100
height = 12
"""
KNOWN = ("--block", "256", "--grid", "4", "--param", "width=100", "--param", "height=12")


class Told(NamedTuple):
    """What a command prints, errors last."""

    stdout: str
    output: str
    exit_code: int


def invoke(*words: str) -> Told:
    found = CliRunner().invoke(commands, list(words))
    if isinstance(found.exception, PtxwcetError):
        errors = render_all(found.exception.diagnostics)
        return Told(found.stdout, f"{found.output}{errors}\n", 1)
    assert found.exception is None or isinstance(found.exception, SystemExit)
    return Told(found.stdout, found.output, found.exit_code)


def said(text: str) -> str:
    """A text without the lines of the input that it quotes."""
    return "\n".join(line for line in text.splitlines() if not re.match(r" *\d* \| ", line))


@pytest.mark.parametrize(
    "words",
    [
        ("bound", "{}", "-k", "sobel", *KNOWN),
        ("bound", "{}", "-k", "sobel", *KNOWN, "--explain"),
        ("bound", "{}", "--block", "256", "--grid", "4"),
        ("bound", "{}", "-k", "nothing", "--block", "256"),
        ("bound", "{}", "--block", "256", "--param", "none=3"),
        ("bound", "{}"),
        ("bound", "{}", "-k", "sobel", *KNOWN, "--budget", "1"),
        ("bound", "{}", "-k", "sobel", *KNOWN[:-2], "--symbolic", "height=3..9"),
        ("bound", "{}", "-k", "hidden", "--block", "32", "--param", "n=1..9"),
        ("facts", "{}", "--block", "256"),
        ("cfg", "{}", "-k", "sobel", "--block", "256", "--format", "text"),
        ("cfg", "{}", "-k", "nothing"),
        ("simulate", "{}", "-k", "sobel", *KNOWN, "--policy", "gto"),
        ("makespan", "{}", "-k", "sobel", *KNOWN, "--load-store", "1", "--cores", "1"),
        ("run", "{}", "--launch", "{launch}"),
    ],
    ids=lambda words: " ".join(word for word in words if word != "{}")[:40],
)
def test_no_mangled_name_is_said(words: tuple[str, ...], tmp_path: Path) -> None:
    launch = tmp_path / "launch.toml"
    launch.write_text(LAUNCH, encoding="utf-8")
    found = invoke(*(word.format(SOBEL, launch=launch) for word in words))
    text = said(found.output)
    assert "_Z" not in text
    assert "/project/src" not in text
    assert not re.search(r"sobel\.cu:0\b", text)
    assert text


def test_a_report_names_kernel_parameters_and_lines() -> None:
    text = invoke("bound", str(SOBEL), "-k", "sobel", *KNOWN, "--explain").output
    assert "kernel     sobel\n" in text
    assert "width=100, height=12" in text
    assert re.search(r"^  compiler +\d", text, re.MULTILINE)
    assert re.search(r"^  sobel\.cu:5 .*out\[y \* width \+ x\]", text, re.MULTILINE)


def test_json_has_both_names() -> None:
    found = json.loads(invoke("bound", str(SOBEL), *KNOWN[:4], "--format", "json").stdout)
    rows = {row["kernel"]: row["readable"] for row in found["kernels"]}
    assert rows == {
        MANGLED: "sobel",
        "_Z5scaleIfLi4EEvPT_S0_": "scale<float, 4>",
        "_Z5scaleIdLi8EEvPT_S0_": "scale<double, 8>",
        "_ZN40_GLOBAL__N__23b75dab_8_sobel_cu_61ccdf0d6hiddenEPii": "(anonymous namespace)::hidden",
    }
    found = json.loads(
        invoke("bound", str(SOBEL), "-k", MANGLED, *KNOWN, "--format", "json").stdout
    )
    (row,) = found["kernels"]
    assert row["parameters"] == [[f"{MANGLED}_param_2", 100], [f"{MANGLED}_param_3", 12]]
    assert row["parameter_names"] == [
        [f"{MANGLED}_param_2", "width"],
        [f"{MANGLED}_param_3", "height"],
    ]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("sobel", ["sobel"]),
        (MANGLED, ["sobel"]),
        ("sobel(const float*, float*, int, int)", ["sobel"]),
        ("scale<float,4>", ["scale<float, 4>"]),
        ("scale", ["scale<float, 4>", "scale<double, 8>"]),
        ("hidden", ["(anonymous namespace)::hidden"]),
        ("(anonymous namespace)::hidden", ["(anonymous namespace)::hidden"]),
    ],
)
def test_kernels_are_asked_for_as_they_are_printed(name: str, chosen: list[str]) -> None:
    kernels = parse_file(SOBEL).kernels
    assert [one.readable for one in select_kernels(kernels, (name,), "f")] == chosen
    drawn = invoke("cfg", str(SOBEL), "-k", name).stdout
    assert re.findall(r'^  label="(.*)";$', drawn, re.MULTILINE) == chosen


def test_overloads_of_numba_are_told_apart_by_their_types() -> None:
    text = (NUMBA / "saxpy_75.ptx").read_text(encoding="utf-8")
    kernel = parse_kernel(text, "f")
    assert kernel.readable == "numba_kernels.saxpy"
    assert kernel.readable in repr(analyse(text, block=128))
    other = kernel.name.replace("Eif5Array", "Exd5Array")
    assert other != kernel.name
    body = text[text.index(".visible .entry") :]
    both = parse_text(text + body.replace(kernel.name, other), "f")
    assert [one.readable for one in both.kernels] == [
        "numba_kernels.saxpy(int32, float32, float32[:], float32[:])",
        "numba_kernels.saxpy(int64, float64, float32[:], float32[:])",
    ]


def test_parameters_without_a_source_have_short_names(tmp_path: Path) -> None:
    alone = Path(shutil.copy(SOBEL, tmp_path))
    (kernel, *_) = parse_file(alone).kernels
    names = cuda_parameter_names(kernel, Request(str(alone)))
    assert names == ("param_0", "param_1", "param_2", "param_3")
    short = ["--param", "param_2=100", "--param", f"{MANGLED}_param_3=12"]
    found = invoke("bound", str(alone), "-k", "sobel", "--block", "256", "--grid", "4", *short)
    assert found.exit_code == 0
    assert "param_2=100, param_3=12" in found.output
    asked = invoke("bound", str(alone), "-k", "hidden", "--block", "32")
    assert "give --param param_1=VALUE" in asked.output


def test_answers_to_a_template_are_read_under_its_names(tmp_path: Path) -> None:
    asked = invoke("facts", str(SOBEL), "--block", "256", "--grid", "4").stdout
    assert "[parameters.sobel]" in asked
    assert '[parameters."(anonymous namespace)::hidden"]' in asked
    facts = tmp_path / "facts.toml"
    facts.write_text(asked.replace('"?"', "12"), encoding="utf-8")
    options = ("--block", "256", "--grid", "4", "--param", "0=0")
    found = invoke("bound", str(SOBEL), "-k", "hidden", *options, "--facts", str(facts))
    assert found.exit_code == 0
    assert "n=12" in found.output


def test_a_name_in_a_facts_file_or_launch_file_means_one_kernel(tmp_path: Path) -> None:
    facts = tmp_path / "facts.toml"
    text = (
        f'ptx = "sha256:{file_digest(str(SOBEL))}"\n[[loop]]\nkernel = "scale"\nat = "x"\nbound = 3'
    )
    facts.write_text(text, encoding="utf-8")
    found = invoke("bound", str(SOBEL), "--block", "256", "--facts", str(facts)).output
    assert "error[PW208]: the PTX has several kernels 'scale'" in found
    assert "its kernels: scale<float, 4>, scale<double, 8>\n" in found
    launch = tmp_path / "launch.toml"
    launch.write_text('kernel = "scale"\nblock = 32\ngrid = 1\n', encoding="utf-8")
    found = invoke("run", str(SOBEL), "--launch", str(launch)).output
    assert f"error[PW208]: {SOBEL} has several kernels 'scale'" in found


def test_a_launch_file_and_an_option_may_name_a_kernel_in_two_ways(tmp_path: Path) -> None:
    launch = tmp_path / "launch.toml"
    launch.write_text(LAUNCH, encoding="utf-8")
    for name in ("sobel", MANGLED):
        found = invoke("bound", str(SOBEL), "-k", name, "--launch", str(launch))
        assert found.exit_code == 0
    assert (
        "contradicts" in invoke("bound", str(SOBEL), "-k", "hidden", "--launch", str(launch)).output
    )


def test_lines_are_of_files_as_they_are_seen_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SOBEL.read_text(encoding="utf-8").replace("/project/src", str(tmp_path))
    (tmp_path / "sobel.ptx").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = invoke("bound", "sobel.ptx", "-k", "scale<float, 4>", "--block", "256").output
    assert "src/sobel.cu:8" in found
    assert str(tmp_path) not in found
    asked = ("bound", "sobel.ptx", "-k", "hidden", "--block", "32")
    assert "give --param param_1=VALUE" in invoke(*asked).output
    (tmp_path / "src").mkdir()
    shutil.copy(SOBEL.with_suffix(".cu"), tmp_path / "src")
    assert "give --param n=VALUE" in invoke(*asked).output
    (tmp_path / "src" / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "src" / "deeper")  # a PTX does not have files above read
    asked = ("bound", "../../sobel.ptx", "-k", "hidden", "--block", "32")
    assert "give --param param_1=VALUE" in invoke(*asked).output


def test_files_of_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    here = f"{tmp_path}/lib/a.cuh"
    paths = ["/x/a/k.cu", "/x/b/k.cu", "/x/u.h", here, "rel/u.h", "C:\\src\\w.cu", "/y/b/k.cu", "/"]
    assert readable_paths([*paths, "/x/u.h"]) == {
        "/x/a/k.cu": "a/k.cu",
        "/x/b/k.cu": "x/b/k.cu",
        "/x/u.h": "u.h",
        here: "lib/a.cuh",
        "rel/u.h": "rel/u.h",
        "C:\\src\\w.cu": "w.cu",
        "/y/b/k.cu": "y/b/k.cu",
        "/": "/",
    }
    monkeypatch.chdir("/")
    assert readable_paths(["/x/a/k.cu"]) == {"/x/a/k.cu": "k.cu"}


def test_line_0_is_of_the_compiler() -> None:
    assert SourceLocation("/b/k.cu", 0, 3, None, "k.cu").place == "compiler"
    assert SourceLocation("/b/k.cu", 7, 3, None, "k.cu").place == "k.cu:7"
    assert SourceLocation("k.cu", 7, 3).place == "k.cu:7"


def test_a_kernel_that_is_not_there_is_answered_with_names_of_people() -> None:
    kernels = parse_file(SOBEL).kernels
    (note,) = refusal_of(select_kernels, kernels, ("scale<int, 1>",), "f").notes
    assert note.startswith("its kernels: sobel, scale<float, 4>, ")
