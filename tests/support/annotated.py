"""Kernels with comments that state how they are run and what is printed, as LLVM's FileCheck has.

A file of ``tests/kernels`` is PTX. ``// RUN: ptxwcet ARGUMENTS`` is a command, in which ``%s`` is
the file and ``%S`` the folder ``tests/kernels``. It has to end with exit code 0, ``// RUN: not
ptxwcet ...`` with 1, ``// RUN: usage ptxwcet ...`` with 2. The comments behind it hold of what
it prints, both streams together: ``// CHECK: text`` is in a line, and further down than the text of
the CHECK before it; ``// CHECK-NEXT: text`` is in the next line; ``// CHECK-NOT: text`` is in no
line. Blanks count as one blank, and ``{{...}}`` holds a regular expression.

``// CASE: name`` begins a kernel of its own: the text in front of the first CASE, with the line
``// BODY`` replaced by the lines of the case. A comment in front of the first CASE holds of each,
but the commands there are only for cases that have none of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

COMMENT = re.compile(r"\s*// (RUN|CHECK|CHECK-NEXT|CHECK-NOT):(.*)")

KERNELS = Path(__file__).parents[1] / "kernels"
CODES = {"": 0, "not ": 1, "usage ": 2}
RUN = re.compile(r"^\s*// RUN:", re.M)


@dataclass
class Run:
    """A command, the exit code that it has to end with, and the kinds and texts of its checks."""

    words: list[str]
    code: int
    checks: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Case:
    """A kernel with its commands; ``name`` is empty where the file has one kernel."""

    name: str
    text: str
    runs: list[Run]


def cases_of(text: str) -> Iterator[Case]:
    """Yields the kernels of a file. Raises ValueError for a comment that has no place."""
    head, *bodies = re.split(r"^// CASE: ?(.*)\n", text, flags=re.M)
    if not bodies:
        yield Case("", head, runs_of(head))
        return
    if head.count("// BODY\n") != 1:
        raise ValueError("the text in front of the first CASE has one line // BODY")
    for name, body in zip(bodies[::2], bodies[1::2], strict=True):
        whole = head.replace("// BODY\n", body)
        yield Case(name.strip(), whole, runs_of(body if RUN.search(body) else whole))


def runs_of(text: str) -> list[Run]:
    """Returns the commands of a kernel, with the checks behind each."""
    runs: list[Run] = []
    for line in text.splitlines():
        comment = COMMENT.match(line)
        if comment is None:
            continue
        kind, content = comment[1], comment[2].strip()
        if kind == "RUN":
            end, program, words = content.partition("ptxwcet ")
            if not program or end not in CODES:
                raise ValueError(f"a command is ptxwcet, not ptxwcet or usage ptxwcet: {content}")
            runs.append(Run(words.split(), CODES[end]))
        elif not runs:
            raise ValueError(f"a check in front of the first RUN: {content}")
        else:
            runs[-1].checks.append((kind, content))
    if not runs or not all(run.checks for run in runs):
        raise ValueError("a kernel has a RUN, and each RUN a CHECK")
    return runs


def failed_check(checks: list[tuple[str, str]], printed: str) -> str | None:
    """Returns the first check that the output does not pass, None if it passes all."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    at = -1
    for kind, text in checks:
        expression = expression_of(text)
        matching = [number for number, line in enumerate(lines) if expression.search(line)]
        if kind == "CHECK-NOT":
            passes = not matching
        elif kind == "CHECK-NEXT":
            at += 1
            passes = at in matching
        else:
            at = next((number for number in matching if number > at), len(lines))
            passes = at < len(lines)
        if not passes:
            return f"{kind}: {text}"
    return None


def expression_of(text: str) -> re.Pattern[str]:
    """Returns the regular expression of a check: its text, but for what is in ``{{...}}``."""
    parts = re.split(r"\{\{(.*?)\}\}", " ".join(text.split()))
    return re.compile("".join(p if i % 2 else re.escape(p) for i, p in enumerate(parts)))


def run_case(case: Case, folder: Path, run: Run) -> str | None:
    """Runs a command on a kernel; returns what is wrong, with the output, None if nothing is."""
    from programs import run_program

    file = folder / "kernel.ptx"
    file.write_text(case.text, encoding="utf-8")
    names = {"%s": str(file), "%S": str(KERNELS)}
    ended = run_program(*(re.sub("%[sS]", lambda name: names[name[0]], w) for w in run.words))
    printed = f"{ended.out}\n{ended.err}"
    if ended.code != run.code:
        return f"ended with {ended.code}:\n{printed}"
    failed = failed_check(run.checks, printed)
    return None if failed is None else f"{failed}\nis not in:\n{printed}"
