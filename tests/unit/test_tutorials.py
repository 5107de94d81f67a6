"""Tutorials and other pages: what they write is written, what they run prints what is shown."""

from __future__ import annotations

import io
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from pages import CodeBlock, ShownCommand, code_blocks, missing, shown_commands
from places import DOCS, ROOT, SAMPLES
from programs import Ended, run_program

from ptxwcet.validate.selftest import CORPUS

TUTORIALS = DOCS / "tutorials"
PAGES = {
    path.relative_to(DOCS).with_suffix("").as_posix(): path
    for path in (
        *sorted(TUTORIALS.glob("*.md")),
        *sorted((DOCS / "refutations").glob("*.md")),
        DOCS / "index.md",
        DOCS / "reading-a-bound.md",
        DOCS / "guide" / "choose.md",
    )
}


class Reader:
    """Somebody who does in a folder what a page says."""

    def __init__(self, page: str = "") -> None:
        self.code = 0
        self.same_numbers = numba_is_that_of(page)
        self.commands: list[ShownCommand] = []

    def follow(self, block: CodeBlock) -> None:
        """Writes a file, or types the commands of a console."""
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        if block.language == "console":
            for command in shown_commands(block.text):
                self.type(command)

    def type(self, command: ShownCommand) -> None:
        """Runs a command: a code other than 0 has to be looked at by the next one."""
        self.commands.append(command)
        if command.line == "echo $?":
            assert command.output == (str(self.code),)
            self.code = 0
            return
        assert self.code == 0, f"failed before: {command.line}"
        ended = run(command.words)
        if ended is None:
            return
        self.code = ended.code
        shown = command.output
        printed = [*ended.out.splitlines(), *ended.err.splitlines()]
        if command.words[0] == "python" and not self.same_numbers:
            shown, printed = without_numbers(shown), without_numbers(printed)
        assert missing(shown, printed) == [], command.line


def run(words: list[str]) -> Ended | None:
    """How a command ended; None if what it needs is not here."""
    match words:
        case ["ptxwcet", *arguments]:
            return run_program(*arguments)
        case ["nvcc", *arguments]:
            compile_cuda(arguments)
            return None
        case ["python", script]:
            return run_script(script)
    pytest.fail(f"no test runs {words}")


def compile_cuda(arguments: list[str]) -> None:
    """By the compiler that is here, if there is one; what is kept are the bytes of the page."""
    target = arguments[-1]
    kept = TUTORIALS / target
    if shutil.which("nvcc"):
        subprocess.run(["nvcc", *arguments], check=True)
        pattern = r"\.entry (\w+)"
        assert re.findall(pattern, Path(target).read_text()) == re.findall(
            pattern, kept.read_text()
        )
    shutil.copy(kept, target)


def run_script(script: str) -> Ended | None:
    """Runs it if what it imports is here; of PTX that it writes the bytes of the page are kept."""
    out = io.StringIO()
    ended: Ended | None = None
    try:
        with redirect_stdout(out):
            runpy.run_path(script, run_name="__main__")
        ended = Ended(0, out.getvalue(), "")
    except Exception:
        uses_numba = re.search(r"^from (numba|smooth) ", Path(script).read_text(), re.MULTILINE)
        if not uses_numba or numba_compiles():
            raise
    kept = TUTORIALS / Path(script).with_suffix(".ptx").name
    if kept.exists():
        shutil.copy(kept, kept.name)
    return ended


@cache
def numba_compiles() -> bool:
    """Whether Numba is here, and the part of CUDA that it compiles with."""
    try:
        from numba import cuda

        cuda.compile_ptx(lambda: None, "void()", cc=(8, 6))
    except Exception:
        return False
    return True


def numba_is_that_of(page: str) -> bool:
    """Whether the page's numbers are of the compiler that is here."""
    version = re.search(r"Numba (\d+\.\d+\.\d+)", page)
    return version is None or metadata.version("numba") == version[1]


def without_numbers(lines: Sequence[str]) -> list[str]:
    return [re.sub(r"\d+", "0", line.replace(",", "")) for line in lines]


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_what_a_page_says_happens(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "smooth", raising=False)  # one that a page writes
    (tmp_path / "samples").symlink_to(SAMPLES)
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    for script in page.parent.glob("*_counterexample.py"):
        shutil.copy(script, tmp_path)
    text = page.read_text(encoding="utf-8")
    reader = Reader(text)
    for block in code_blocks(text):
        reader.follow(block)
    assert reader.code == 0
    least = 5 if page.parent == TUTORIALS else 1
    assert sum(bool(command.output) for command in reader.commands) >= least


def test_there_are_three_tutorials() -> None:
    assert {"tutorials/cuda", "tutorials/machine", "tutorials/python-kernels"} <= set(PAGES)


def test_another_number_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = "ptxwcet machine"
    Reader().type(ShownCommand(line, ("...", "  orin-ecrts2025-16sm...")))
    with pytest.raises(AssertionError):
        Reader().type(ShownCommand(line, ("...", "  orin-ecrts2025-17sm...")))
    with pytest.raises(AssertionError):
        Reader().type(ShownCommand("echo $?", ("1",)))


def test_the_counterexamples_are_the_known_cases() -> None:
    """The program on the page, which knows nothing of ptxwcet, has the tool's four workloads."""
    program = runpy.run_path(str(DOCS / "refutations" / "gub_counterexample.py"))
    found = [
        (program["gub"](warps), program["longest"](program["Run"](warps)).end)
        for warps in program["WORKLOADS"].values()
    ]
    assert found == [(known.gub, known.worst) for known in CORPUS if known.worst > known.gub]
