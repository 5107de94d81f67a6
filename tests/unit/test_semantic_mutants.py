"""Statements with one token changed: stored verdicts of ptxas against the parser's.

``benchmarks/semantic_mutants.py`` draws the statements and asks ptxas.
"""

from __future__ import annotations

from collections import Counter

from parsing import parse_text
from places import ROOT
from ptxas_verdicts import kernel_text

from ptxwcet.ir.instruction_set import find_opcode
from ptxwcet.support.diagnostics import PtxwcetError

STORED = ROOT / "tests" / "data" / "ptx" / "semantic-mutants.tsv"
# ptxas takes the bits of 0f for those of a double: a number that nobody means
ODD = ("atom.", "mov.f64 %f64_1, 0f", "+4", "%laneid", " f;", " f,", ".bf16 ")
ROWS = [line.split("\t") for line in STORED.read_text(encoding="utf-8").splitlines()]


def is_refused(text: str) -> bool:
    try:
        parse_text(kernel_text([text]))
    except PtxwcetError:
        return True
    return False


def has_row(text: str) -> bool:
    words = text.split(" ", 1)[1] if text.startswith("@") else text
    mnemonic = words.split(" ")[0].rstrip(";").split(".")
    opcode, count = find_opcode(mnemonic)
    return opcode is not None and opcode.is_judged(tuple(mnemonic[count:]))


def test_what_ptxas_refuses_of_judged_opcodes_is_refused() -> None:
    found = Counter(is_refused(text) for said, text in ROWS if said == "refused" and has_row(text))
    assert found.total() > 400
    assert found[True] >= 0.98 * found.total()


def test_what_ptxas_takes_is_taken_but_for_odd_names() -> None:
    """Statements with a part of ODD are left out, all of atom and bf16 too: some are lost."""
    taken = [text for said, text in ROWS if said == "taken"]
    assert len(taken) > 400
    lost = [text for text in taken if is_refused(text)]
    odd = [t for t in lost if any(part in t for part in ODD)]
    assert sorted(set(lost) - set(odd)) == []
