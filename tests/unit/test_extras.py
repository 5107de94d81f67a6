"""The main job without the packages of extras; commands that need them say which to install."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from places import ROOT

from ptxwcet.support.extras import PACKAGES_OF_EXTRAS

BLOCKED = sorted({name for names in PACKAGES_OF_EXTRAS.values() for name in names} | {"pandas"})
PROGRAM = f"""
import contextlib, io, sys
class Blocking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocking())
from ptxwcet.cli import progress
from ptxwcet.cli.main import main
progress.FIRST_SECONDS = 3600.0
for line in sys.stdin.read().splitlines():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(line.split())
        except SystemExit as end:
            code = end.code
    print(repr((code, out.getvalue(), err.getvalue())))
"""
LAUNCH = "--launch samples/launches/saxpy.toml"
SAXPY = "samples/saxpy.ptx --block 256 --grid 4 --param n=1000"
SERVED = (
    f"{SAXPY}",
    f"{SAXPY} --format json",
    f"{SAXPY} --explain",
    "samples/saxpy.ptx --block 256 --grid 4 --symbolic n=1..1000",
    "samples/mandelbrot.ptx --block 16x16 --param most=10 -q",
    f"cfg {SAXPY}",
    f"cfg {SAXPY} --format text",
    f"annotate phases {SAXPY}",
    f"memory {SAXPY}",
    f"annotate {SAXPY}",
    f"compare samples/saxpy.ptx {SAXPY}",
    "facts samples/saxpy.ptx --block 256 --grid 4",
    "explain PW235",
    "machine",
    "explain schema",
    "simulate --help",
    "makespan LLCLL --warps 600 --load-store 1 --cores 1",
)
REFUSED = {
    f"{SAXPY} --policy gto": "sim",
    f"simulate {SAXPY} --policy gto": "sim",
    f"validate {SAXPY}": "sim",
    "validate tool": "sim",
    "sweep report samples/sweep/results.parquet": "sweep",
    "simulate warmup": "sim",
    f"simulate launch samples/saxpy.ptx {LAUNCH} --policy gto -o never.csv": "sim",
    f"hybrid samples/saxpy.ptx {LAUNCH} --policy gto": "ilp",
    "pwcet README.md": "pwcet",
    "makespan LCL --warps 2 --load-store 1 --cores 1 --method exact": "sim",
    "makespan LC --warps 2 --load-store 1 --cores 1 --method ilp": "ilp",
}


def answers(lines: Sequence[str]) -> list[tuple[int, str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(lines),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [eval(line) for line in done.stdout.splitlines()]


def test_the_main_job_needs_no_extra() -> None:
    for line, (code, out, error) in zip(SERVED, answers(SERVED), strict=True):
        assert (code, error) == (0, ""), line
        assert out, line


def test_the_data_of_a_dossier_need_no_extra_but_its_self_test(tmp_path: Path) -> None:
    line = f"report dossier {SAXPY} -o {tmp_path}"
    (code, out, error), page, tested = answers(
        [f"{line}/d.json --selftest none", f"{line} --selftest none", f"{line}/d.json"]
    )
    assert (code, out, error) == (0, f"{tmp_path}/d.json: bounded\n", "")
    assert json.loads((tmp_path / "d.json").read_text())["outcome"] == "bounded"
    assert (page[0], tested[0]) == (2, 2)
    assert page[2].endswith("pip install 'ptxwcet[report]'\n")
    assert tested[2].endswith("pip install 'ptxwcet[sim]'\n")


def test_a_command_without_its_packages_says_what_to_install() -> None:
    for line, (code, out, error) in zip(REFUSED, answers(list(REFUSED)), strict=True):
        assert (code, out) == (2, ""), (line, error)
        assert error.count("\n") == 1, (line, error)
        assert error.startswith("error[PW235]: "), (line, error)
        assert error.endswith(f"pip install 'ptxwcet[{REFUSED[line]}]'\n"), (line, error)


@pytest.mark.parametrize("extra", PACKAGES_OF_EXTRAS)
def test_extras_bring_what_they_are_said_to(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = {line.partition(">")[0] for line in project["optional-dependencies"][extra]}
    assert set(PACKAGES_OF_EXTRAS[extra]) <= brought
    assert not brought & {line.partition(">")[0] for line in project["dependencies"]}
    assert extra in project["optional-dependencies"]["all"][0]
