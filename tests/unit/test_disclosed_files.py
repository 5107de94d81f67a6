"""Which files beside a PTX file a report shows lines of: sources, whatever the PTX names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import run_program

import ptxwcet
from ptxwcet.report.source_lines import SOURCES, SourceLines

pytestmark = pytest.mark.fast

SECRET = "password = hunter2"
PTX = """.version 8.0
.target sm_80
.address_size 64
.file 1 "NAME"
.visible .entry k(.param .u64 p) {
.reg .b64 %rd<3>;
.reg .b32 %r<3>;
.loc 1 1 1
ld.param.u64 %rd1, [p];
ld.global.u32 %r1, [%rd1];
st.global.u32 [%rd1+4], %r1;
ret;
}
"""


def kept(folder: Path, name: str) -> str:
    (folder / name).write_text(f"{SECRET}\nmore\n")
    return name


def linked(folder: Path, name: str, target: Path | str) -> str:
    if isinstance(target, Path):
        target.write_text(SECRET)
    (folder / name).symlink_to(target)
    return name


def binary(folder: Path, name: str) -> str:
    (folder / name).write_bytes(SECRET.encode() + b"\n\0")
    return name


HIDDEN: dict[str, Callable[[Path], str]] = {
    "hidden": lambda folder: kept(folder, ".env"),
    "hidden source": lambda folder: kept(folder, ".secret.cu"),
    "no suffix": lambda folder: kept(folder, "id_rsa"),
    "key": lambda folder: kept(folder, "server.pem"),
    "text": lambda folder: kept(folder, "secret.txt"),
    "backup": lambda folder: kept(folder, "k.cu~"),
    "link out": lambda folder: linked(folder, "passwd.cu", folder.parent / "passwd"),
    "link to a source elsewhere": lambda folder: linked(folder, "a.cu", folder.parent / "b.cu"),
    "link to what is hidden": lambda folder: linked(folder, "c.cu", kept(folder, ".env")),
    "link to a key": lambda folder: linked(folder, "d.cu", kept(folder, "id_rsa")),
    "link to itself": lambda folder: linked(folder, "e.cu", "e.cu"),
    "binary": lambda folder: binary(folder, "f.cu"),
}
DOORS = {
    "explain": ("bound", "--explain"),
    "explain json": ("bound", "--explain", "--format", "json"),
    "annotate": ("annotate",),
    "annotate json": ("annotate", "--format", "json"),
    "memory json": ("memory", "--format", "json"),
    "report": ("report", "-o", "out.html"),
}


def shown(folder: Path, door: tuple[str, ...], name: str, *, by_input: bool = False) -> str:
    """All that a door prints or writes about PTX that names a file."""
    text = PTX.replace("NAME", name)
    (folder / "k.ptx").write_text(text)
    (folder / "out.html").unlink(missing_ok=True)
    command, *options = door
    arguments = [command, "-" if by_input else "k.ptx", "--block", "32", *options]
    if by_input:
        done = subprocess.run(
            [sys.executable, "-m", "ptxwcet", *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        code, out = done.returncode, done.stdout + done.stderr
    else:
        ended = run_program(*arguments)
        code, out = ended.code, ended.out + ended.err
    assert code == 0, out
    page = folder / "out.html"
    return out + (page.read_text() if page.exists() else "")


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_doors(door: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "hunter2" in shown(tmp_path, door, kept(tmp_path, "k.cu"))
    assert "hunter2" not in shown(tmp_path, door, kept(tmp_path, ".env"))
    assert "hunter2" not in shown(tmp_path, door, str(tmp_path / ".env"))


@pytest.mark.parametrize("case", HIDDEN)
def test_what_is_not_shown(case: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    name = HIDDEN[case](folder)
    assert SourceLines(os.fspath(folder / "k.ptx"), None).lines(name) == []
    assert SourceLines(os.fspath(folder / "k.ptx"), None).lines(f"/elsewhere/{name}") == []


def test_sources_are_shown(tmp_path: Path) -> None:
    for suffix in SOURCES:
        name = kept(tmp_path, f"k{suffix}")
        assert SourceLines(str(tmp_path / "k.ptx"), None).lines(name)[0] == SECRET
    name = linked(tmp_path, "inner.cu", "k.cu")
    assert SourceLines(str(tmp_path / "k.ptx"), None).lines(name)[0] == SECRET
    (tmp_path / "folder").symlink_to(tmp_path)  # the user's own way to the PTX
    assert SourceLines(str(tmp_path / "folder" / "k.ptx"), None).lines("k.cu")[0] == SECRET
    given = str(tmp_path / kept(tmp_path, "notes.txt"))
    assert SourceLines("<stdin>", given).lines("notes.txt")[0] == SECRET


def test_standard_input_lies_beside_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kept(tmp_path, "k.cu")
    assert "hunter2" not in shown(tmp_path, ("annotate",), "k.cu", by_input=True)
    assert SourceLines("<stdin>", None).lines("k.cu") == []
    found = ptxwcet.bound(PTX.replace("NAME", "k.cu"), block=32)
    assert "hunter2" not in str(found)
