"""How a bound on a loop is said stands in one module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import PACKAGE
from programs import run_program

from ptxwcet.commands.bound.loop_text import PER_ENTRY, iterations_text

LOOP = """
.version 7.5
.target sm_75
.address_size 64
.visible .entry k()
{
.reg .b32 %r<2>;
.reg .pred %p<2>;
mov.u32 %r1, 0;
L: add.u32 %r1, %r1, STEP;
setp.lt.u32 %p1, %r1, 42;
@%p1 bra L;
ret;
}
"""


def test_one_module_says_what_a_bound_on_a_loop_counts() -> None:
    texts = (path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".html", ".js"})
    head = re.compile(f"(?:, |>){PER_ENTRY}")
    assert [path.name for path in texts if head.search(path.read_text(encoding="utf-8"))] == []


@pytest.fixture
def otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of bounds are said another way, by whoever imported the function, too."""
    other = (lambda iterations: f"<{iterations}>").__code__
    monkeypatch.setattr(iterations_text, "__code__", other)


@pytest.mark.usefixtures("otherwise")
def test_one_function_says_the_number_in_every_text(tmp_path: Path) -> None:
    old, new = tmp_path / "old.ptx", tmp_path / "new.ptx"
    old.write_text(LOOP.replace("STEP", "1"))
    new.write_text(LOOP.replace("STEP", "2"))
    block = "--block=32"
    assert "<42>  analysis" in run_program("bound", old, block).out
    assert "at most <42>" in run_program("cfg", old, block, "--format", "text").out
    assert "at most <42>" in run_program("cfg", old, block).out
    assert "loop L: <42> -> <21> (-50.00 %)" in run_program("compare", old, new, block).out


@pytest.mark.thorough
@pytest.mark.usefixtures("otherwise")
@pytest.mark.parametrize("command", ["report", "report dossier"])
def test_one_function_says_the_number_on_every_page(tmp_path: Path, command: str) -> None:
    kernel, page = tmp_path / "kernel.ptx", tmp_path / "page.html"
    kernel.write_text(LOOP.replace("STEP", "1"))
    assert run_program(*command.split(), kernel, "--block=32", "-o", page).code == 0
    assert "&lt;42&gt;</td>" in page.read_text(encoding="utf-8")
