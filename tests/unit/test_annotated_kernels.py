"""Each kernel of ``tests/kernels`` prints what its comments state: see ``support/annotated.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from annotated import KERNELS, Case, Run, cases_of, failed_check, run_case

pytestmark = pytest.mark.fast

FILES = sorted(KERNELS.glob("*.ptx"))
CASES = [
    pytest.param(case, id=f"{file.stem}-{case.name}".rstrip("-"))
    for file in FILES
    for case in cases_of(file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("case", CASES)
def test_prints_what_its_comments_state(case: Case, tmp_path: Path) -> None:
    for run in case.runs:
        wrong = run_case(case, tmp_path, run)
        assert wrong is None, f"ptxwcet {' '.join(run.words)}\n{wrong}"


OUTPUT = "first line\nsecond   line\nBOUND 12 cycles\n"


@pytest.mark.parametrize(
    ("checks", "failed"),
    [
        ([("CHECK", "first"), ("CHECK-NEXT", "second line"), ("CHECK", "{{[0-9]+}} cycles")], None),
        ([("CHECK-NOT", "third")], None),
        ([("CHECK", "second"), ("CHECK", "first")], "CHECK: first"),
        ([("CHECK", "first"), ("CHECK-NEXT", "BOUND")], "CHECK-NEXT: BOUND"),
        ([("CHECK", "first"), ("CHECK", "first")], "CHECK: first"),
        ([("CHECK-NOT", "BOUND {{1.}}")], "CHECK-NOT: BOUND {{1.}}"),
        ([("CHECK", "BOUND 1. cycles")], "CHECK: BOUND 1. cycles"),
    ],
)
def test_checks_can_fail(checks: list[tuple[str, str]], failed: str | None) -> None:
    assert failed_check(checks, OUTPUT) == failed


def test_a_case_has_the_commands_of_the_head_or_its_own() -> None:
    head = "// RUN: ptxwcet %s\n// CHECK: a\n// BODY\n"
    own = "// RUN: not ptxwcet cfg %s\n// CHECK-NEXT: c\n"
    first, second = cases_of(f"{head}// CASE: x\n// CHECK-NOT: b\nret;\n// CASE: y\n{own}")
    assert first.runs == [Run(["%s"], 0, [("CHECK", "a"), ("CHECK-NOT", "b")])]
    assert second.runs == [Run(["cfg", "%s"], 1, [("CHECK-NEXT", "c")])]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("// CHECK: a\n", "a check in front of the first RUN"),
        ("// RUN: ptxwcet %s\n", "each RUN a CHECK"),
        (".version 8.0\n", "a kernel has a RUN"),
        ("// RUN: rm -rf /\n// CHECK: a\n", "a command is ptxwcet"),
        ("// CASE: a\n// RUN: ptxwcet %s\n// CHECK: a\n", "one line // BODY"),
    ],
)
def test_comments_without_a_place_are_errors(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        list(cases_of(text))
