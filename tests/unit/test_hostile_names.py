"""No name of a file and no option of the compiler reaches a shell, through whatever door."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import command_tree as tree
import pytest
from places import SAMPLES
from programs import run_program

import ptxwcet
from ptxwcet.opened.nvcc import Compilation, ptx_text
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the PATH")
CUDA = '#include "size.h"\nextern "C" __global__ void add(float* a) { a[SIZE] = 1; }\n'
NAMES = (
    "$(touch pwned).cu",
    "`touch pwned`.cu",
    'a"; touch pwned; ".cu',
    "@ok.cu",
    "-x.cu",
    "d$(touch pwned)/k.cu",
    "a\nb\\.cu",
)
WORST = ('d$(touch pwned)/`touch pwned`"; touch pwned; ".cu', "@ok.cu")
# As nvcc: what it is given goes into a shell, @FILE is read, the source is the last argument.
COMPILER = f"""#!/bin/sh
for last; do eval "true \\"$last\\""; [ "$before" = -o ] && target="$last"; before="$last"; done
printf '%s\\n' "$last" >> "$CALLED"
case "$last" in -*|@*) exit 3;; esac
eval "true \\"$(realpath -s -- "$last")\\" \\"$(realpath -- "$last")\\""
cat {str(SAMPLES / "vector_add.ptx")!r} > "${{target:-one.sm_86.ptx}}"
"""
DOORS = [
    " ".join(words)
    for words, command in tree.all_commands()
    if any(one.name == "nvcc_options" for one in command.params)
]
MORE = {
    "hybrid": ("--launch", "launch.toml"),
    "report dossier": ("-o", "dossier.html"),
    "makespan": ("--load-store", "1/2", "--cores", "1"),
    "report": ("-o", "report.html"),
    "simulate": ("--policy", "gto"),
    "what-if": ("--set", "fma.latency=2"),
}


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that is careless with names; the file that it writes its sources to."""
    tools, work = tmp_path / "tools", tmp_path / "work"
    tools.mkdir()
    work.mkdir()
    for name in ("nvcc", "cuobjdump"):
        (tools / name).write_text(COMPILER)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    monkeypatch.setenv("CALLED", str(tmp_path / "called"))
    monkeypatch.chdir(work)
    return tmp_path / "called"


def write(name: str) -> None:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(CUDA)
    (path.parent / "size.h").write_text("#define SIZE 3\n")


@pytest.mark.parametrize("door", DOORS)
def test_commands(door: str, called: Path) -> None:
    Path("launch.toml").touch()
    for name in WORST:
        write(name)
        files = [name] * (2 if door == "compare" else 1)
        given = ("--block", "256", "--arch", "sm_86", "-k", "none", *MORE.get(door, ()))
        shown = run_program(*door.split(), *given, "--", *files)
        assert not Path("pwned").exists(), shown
    assert len(called.read_text().splitlines()) >= len(WORST)


def test_python(called: Path) -> None:
    for name in NAMES:
        write(name)
        found = ptxwcet.bound(name, block=256, params={"3": 1000}, arch="sm_86")
        assert found.cycles == 662
        assert not Path("pwned").exists(), name
    raw = SimpleNamespace(name="$(touch pwned)", code=CUDA, options=("-DX=$(touch pwned)",))
    with pytest.raises(PtxwcetError, match="shell may carry out"):
        ptxwcet.bound(raw, block=256)
    assert not Path("pwned").exists()


def test_the_working_folder_and_links(called: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("d$(touch pwned)")
    write(f"{folder}/k.cu")
    Path("link.cu").symlink_to(folder / "k.cu")
    ptx_text("link.cu", Compilation("sm_86"))
    monkeypatch.chdir(folder)
    ptx_text("k.cu", Compilation("sm_86"))
    assert not Path("pwned").exists()
    assert not Path("../pwned").exists()


def test_binaries(called: Path) -> None:
    for name in ("$(touch pwned).o", "@x.o", "-x.o", 'a"; touch pwned; ".o'):
        Path(name).write_bytes(b"\x7fELF")
        assert ".entry vector_add" in ptx_text(name, Compilation())
        assert not Path("pwned").exists()


@needs_nvcc
def test_the_real_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "d$(touch pwned)/`touch pwned`.cu"
    write(name)
    text = ptx_text(name, Compilation("sm_86", ('-DX="a b"', "-I.")))
    assert f'"{tmp_path}/{name}"' in text
    assert "[%rd2+12]" in text
    with open(name, "a", encoding="utf-8") as file:
        file.write("int x = ;\n")
    with pytest.raises(PtxwcetError) as raised:
        ptx_text(name, Compilation("sm_86"))
    assert f"{name}(3): error" in raised.value.diagnostics[0].render()
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("-Xcompiler", "-fplugin=x.so"),
        ("--run",),
        ("-ccbin", "evil"),
        ("-ccbin=evil",),
        ("--compiler-bindir", "evil"),
        ("@file",),
        ("-o", "elsewhere"),
        ("-oelsewhere",),
        ("--output-file=elsewhere",),
        ("-keep",),
        ("-MD",),
        ("other.cu",),
        ("-I", "@file"),
        ("-I", "-run"),
        ("-D", "X=`touch pwned`"),
        ("-DX=$(touch pwned)",),
        ("-DX=\\",),
        ('-Ia"; touch pwned; "',),
        ("-std=c++17; touch pwned",),
        ("-I",),
        ("-D",),
        ("",),
    ],
)
def test_options_that_are_not_passed_on(options: tuple[str, ...], called: Path) -> None:
    write("k.cu")
    with pytest.raises(PtxwcetError) as raised:
        ptx_text("k.cu", Compilation("sm_86", options))
    assert raised.value.diagnostics[0].code == "PW120"
    assert not called.exists()


def test_options_that_are(called: Path) -> None:
    write("k.cu")
    given = "-DN=4 -D M -UX -Iinclude -I /a/b --include-path=c -std=c++17 --use_fast_math -O3 -G"
    ptx_text("k.cu", Compilation("sm_86", (*given.split(), '-DS="x.h"', "-include", "a.h")))
    assert called.exists()
    with pytest.raises(PtxwcetError):
        ptx_text("k.cu", Compilation("sm_86; touch pwned"))
    assert not Path("pwned").exists()
