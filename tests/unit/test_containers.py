"""PTX out of CUDA source and of binaries, with the user's own tools."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from places import SAMPLES
from programs import run_program

import ptxwcet
from ptxwcet.opened.nvcc import Compilation, ptx_text
from ptxwcet.opened.request import needs_tool
from ptxwcet.support.diagnostics import PtxwcetError

CUDA = 'extern "C" __global__ void add(float* a, int n) { if (threadIdx.x < n) *a = 1; }'
PTX = (SAMPLES / "vector_add.ptx").read_text()
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the PATH")

OPENER = f"""#!{sys.executable}
import pathlib, sys
assert sys.argv[1:3] == ["-xptx", "all"]
for line in pathlib.Path(sys.argv[3]).read_text().splitlines()[1:]:
    name, _, path = line.partition(" ")
    pathlib.Path(name).write_text(pathlib.Path(path).read_text())
"""


def binary(folder: Path, monkeypatch: pytest.MonkeyPatch, *members: tuple[str, Path]) -> str:
    """A file that begins as an ELF file, and a tool on the PATH that takes these members out."""
    tool = folder / "bin" / "cuobjdump"
    tool.parent.mkdir()
    tool.write_text(OPENER)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    path = folder / "app"
    path.write_text("\n".join(["\x7fELF", *(f"{name} {ptx}" for name, ptx in members), ""]))
    return str(path)


def refusal(path: str, architecture: str | None = None, *kernels: str) -> tuple[str, str]:
    with pytest.raises(PtxwcetError) as raised:
        ptx_text(path, Compilation(architecture), kernels)
    (one,) = raised.value.diagnostics
    return one.code, one.render()


def test_ptx_needs_no_tool(tmp_path: Path) -> None:
    assert not needs_tool(str(SAMPLES / "saxpy.ptx"))
    assert not needs_tool(str(tmp_path / "missing"))
    assert needs_tool(str(SAMPLES / "saxpy.cu"))
    for mark in (b"\x7fELF....", b"\x50\xed\x55\xba....", b"!<arch>\n"):
        (tmp_path / "binary").write_bytes(mark)
        assert needs_tool(str(tmp_path / "binary"))


@needs_nvcc
def test_cuda_source_is_compiled_for_the_architecture_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "add.cu"
    path.write_text("#include SIZES\n" + CUDA)
    (tmp_path / "sizes.h").write_text("")
    options = ("--nvcc-options", "-DSIZES='\"sizes.h\"'")
    said = ("--block", "64", "--param", "n=40", "--arch", "sm_86")
    shown = run_program(str(path), *said, *options)
    assert shown.code == 0, shown.err
    assert "launch     block 64x1x1 (2 warps), any grid; n=40" in shown.out
    assert "PW120" in run_program(str(path), *said).err
    path.write_text(CUDA)
    found = ptxwcet.bound(path, block=64, params={"n": 40}, arch="sm_86")
    assert f"{found.cycles:,} cycles for any one block" in shown.out
    assert ".target sm_90\n" in ptx_text(str(path), Compilation("sm_90"))


def test_no_architecture_is_guessed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "nvcc"
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, text = refusal(str(SAMPLES / "saxpy.cu"))
    assert code == "PW120"
    assert "--arch sm_86" in text
    assert "does not compile" in refusal(str(SAMPLES / "saxpy.cu"), "sm_86")[1]
    monkeypatch.setenv("PATH", "")
    assert "nvcc is not on the PATH" in refusal(str(SAMPLES / "saxpy.cu"), "sm_86")[1]


def test_a_binary_with_one_ptx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = binary(tmp_path, monkeypatch, ("app.1.sm_80.ptx", SAMPLES / "vector_add.ptx"))
    assert ptx_text(path, Compilation()) == PTX
    assert ptx_text(path, Compilation("compute_80")) == PTX
    code, text = refusal(path, "sm_86")
    assert (code, "app.1.sm_80.ptx: vector_add" in text) == ("PW121", True)
    shown = run_program(path, "--block", "256", "--param", "3=1000", "-q")
    assert shown.out == "vector_add 662 safe-bound\n"


def test_which_ptx_of_a_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = [
        ("app.1.sm_80.ptx", SAMPLES / "vector_add.ptx"),
        ("app.2.sm_86.ptx", SAMPLES / "vector_add.ptx"),
        ("app.3.sm_86.ptx", SAMPLES / "saxpy.ptx"),
    ]
    path = binary(tmp_path, monkeypatch, *members)
    assert "holds 3 PTX files" in refusal(path)[1]
    assert "holds 2 PTX files" in refusal(path, "sm_86")[1]
    assert "holds 2 PTX files" in refusal(path, None, "vector_add")[1]
    assert ptx_text(path, Compilation("sm_86"), ["vector_add"]) == PTX
    assert ".entry saxpy" in ptx_text(path, Compilation(), ["saxpy"])


def test_a_binary_without_ptx_or_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = binary(tmp_path, monkeypatch)
    code, text = refusal(path)
    assert (code, "holds no PTX" in text) == ("PW121", True)
    monkeypatch.setenv("PATH", "")
    assert "cuobjdump is not on the PATH" in refusal(path)[1]


def test_ptx_is_compiled_already() -> None:
    shown = run_program(str(SAMPLES / "saxpy.ptx"), "--block", "64", "--arch", "sm_86")
    assert (shown.code, "compiled already" in shown.err) == (2, True)


def test_a_folder_is_its_ptx(tmp_path: Path) -> None:
    for name in ("vector_add.ptx", "saxpy.cu"):
        shutil.copy(SAMPLES / name, tmp_path)
    shown = run_program(str(tmp_path), "--block", "256", "--param", "3=1000", "-q")
    assert shown.out == "vector_add 662 safe-bound\n"
