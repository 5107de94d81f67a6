"""What a release carries beside the code: one version, locked libraries, a true manual page."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from ptxwcet.support.version import VERSION

ROOT = Path(__file__).parents[2]


def test_the_manual_page_is_that_of_the_commands() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "man_page.py"))["manual_page"]()
    assert (ROOT / "docs" / "ptxwcet.1").read_text(encoding="utf-8") == made, (
        "python docs/man_page.py writes it anew"
    )


def test_the_manual_page_has_no_request_that_roff_does_not_know() -> None:
    if shutil.which("groff") is None:
        pytest.skip("no groff")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", str(ROOT / "docs" / "ptxwcet.1")],
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = [line for line in done.stderr.splitlines() if "cannot" not in line]  # lines to fill
    assert (done.returncode, wrong) == (0, [])


def test_one_version_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == VERSION
    newest = re.search(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert newest[1] == VERSION


def test_the_lock_names_all_that_the_gate_installs() -> None:
    """A version for each library of the project, within what the project asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = ("sim", "ilp", "pwcet", "report", "sweep", "all", "docs", "dev")
    asked = project["dependencies"] + [one for name in names for one in extras[name]]
    locked: dict[str, list[tuple[int, ...]]] = {}
    for line in (ROOT / ".ci" / "lock.txt").read_text(encoding="utf-8").splitlines():
        name, version = re.match(r"([\w.-]+)==([\d.]+)", line).groups()
        locked.setdefault(name.replace("_", "-").lower(), []).append(_numbers(version))
    for one in asked:
        found = re.fullmatch(r"([\w.-]+)>=([\d.]+)(?:,<([\d.]+))?", one)
        if found is None:
            assert one.startswith("ptxwcet["), one
            continue
        name, least, below = found.groups()
        for version in locked[name.replace("_", "-").lower()]:
            assert version >= _numbers(least), one
            assert below is None or version < _numbers(below), one


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.strip(".").split("."))
