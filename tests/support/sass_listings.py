"""Listings of machine code that are kept, and a program that stands in for the disassembler."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from places import DATA

from ptxwcet.sass import disassembler

SASS = DATA / "sass"


def listing(name: str) -> str:
    """The text that a kept cubin is read as."""
    return (SASS / f"{name}.sass").read_text(encoding="utf-8")


def raw(name: str) -> str:
    """What nvdisasm writes, made of what is kept of it."""
    lines = []
    for line in listing(name).splitlines():
        if found := re.fullmatch(r"/\*(\w+)\*/ (.*) ; /\* (\w{16})(\w{16}) \*/", line):
            lines += [f"        /*{found[1]}*/    {found[2]} ;   /* 0x{found[4]} */"]
            lines += [f"{'':40}/* 0x{found[3]} */"]
        elif line.startswith(".section"):
            lines += [f"//--------------------- .text.{line.split()[1]} --------", ".align 128"]
        elif line[:1] in ("/", "") or line.startswith(".L_"):
            lines += [line]
    return "\n".join(lines)


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program is taken for nvdisasm: it runs the Python text of the file that is returned.

    It is alone on the PATH with what the system has; others may be put beside it.
    """
    path = folder / "bin" / "nvdisasm"
    path.parent.mkdir()
    does = folder / "does.py"
    path.write_text(
        f"#!/bin/sh\n[ \"$1\" = --version ] && echo 'release 13.5, V13.5.37' && exit\n"
        f'exec {sys.executable} -S {does} "$@"\n'
    )
    path.chmod(0o755)
    monkeypatch.setattr(disassembler, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    return does
