"""213 small PTX files with ptxas's verdict: what it takes parses and lowers, the rest does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from parsing import parse_text
from places import DATA
from ptx_printer import print_module
from structures import structure

from ptxwcet.ir.kernel import unknown_instructions
from ptxwcet.ir.verifier import verify_kernel
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

CASES: list[dict[str, Any]] = json.loads((DATA / "ptx-cases.json").read_text(encoding="utf-8"))
ACCEPTED = [case for case in CASES if case["accepted"]]
REJECTED = [case for case in CASES if not case["accepted"]]

TAKEN_ALL_THE_SAME = {
    "non-ASCII in // comment",  # kinder than ptxas, with a warning
    "non-ASCII in .file string",  # likewise
}


def is_refused(text: str) -> bool:
    """Whether the parser reports an error or the module holds an opcode without a row."""
    try:
        module = parse_text(text, "case.ptx")
    except PtxwcetError:
        return True
    return any(unknown_instructions(kernel) for kernel in module.kernels + module.functions)


def test_there_are_213_cases() -> None:
    assert (len(CASES), len(ACCEPTED)) == (213, 148)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case["name"])
def test_accepted_cases_lower_and_survive_printing(case: dict[str, Any]) -> None:
    module = parse_text(case["source"], "case.ptx")
    for kernel in module.kernels + module.functions:
        assert unknown_instructions(kernel) == ()
        assert verify_kernel(kernel) == ()
        for instruction in kernel.instructions:
            assert instruction.op_class is not None
    printed = print_module(module)
    again = parse_text(printed)
    assert structure(again) == structure(module)
    assert print_module(again) == printed


def test_rejected_cases_are_refused_but_for_a_listed_few() -> None:
    taken = {case["name"] for case in REJECTED if not is_refused(case["source"])}
    assert taken == TAKEN_ALL_THE_SAME


@pytest.mark.parametrize("name", sorted(TAKEN_ALL_THE_SAME))
def test_a_character_outside_ascii_is_a_warning(name: str) -> None:
    (case,) = [case for case in CASES if case["name"] == name]
    (warning,) = parse_text(case["source"], "case.ptx").warnings
    assert warning.code == "PW116"
    assert warning.span is not None
    assert warning.span.text == "é"
