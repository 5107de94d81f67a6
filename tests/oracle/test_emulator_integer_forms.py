"""Forms of integer instructions: the emulator takes those that ptxas takes, and no others."""

import numpy as np
import pytest
from integer_probes import LEGAL, PTXAS, kernel, probes, verdicts
from parsing import parse_kernel
from refusals import refusals_of
from single_instruction import evaluate

from ptxwcet.emulator.registers import Context, Unsupported
from ptxwcet.emulator.semantics import SEMANTICS
from ptxwcet.support.diagnostics import PtxwcetError

PROBES = list(dict.fromkeys(probes()))
TAKEN = set(LEGAL.read_text(encoding="utf-8").splitlines())
# ptxas takes a saturation of these; the manual has none. Of products of 16 bits it forgets a half.
UNDOCUMENTED = [{"addc", "sat", "s32"}, {"subc", "sat", "s32"}, {"madc", "hi", "sat", "s32"},
                {"madc", "hi", "u16"}, {"madc", "hi", "s16"}]  # fmt: skip


def is_compiled(instruction):
    try:
        found = parse_kernel(kernel(instruction))
        first = found.instructions[0]
        SEMANTICS[first.opcode.name](Context(found, {}, 32), first)
    except (PtxwcetError, Unsupported):
        return False
    return True


def is_documented(instruction):
    return set(instruction.split()[0].split(".")) not in UNDOCUMENTED


def test_forms_are_those_of_ptxas():
    assert len(TAKEN) > 200
    assert set(PROBES) >= TAKEN
    expected = {text for text in TAKEN if is_documented(text)}
    found = {text for text in PROBES if is_compiled(text)}
    assert sorted(found - expected) == []
    assert sorted(expected - found) == []


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")
def test_stored_verdicts_are_those_of_ptxas():
    random = np.random.default_rng(3)
    asked = sorted(TAKEN) + random.choice(sorted(set(PROBES) - TAKEN), 300, replace=False).tolist()
    assert dict(zip(asked, verdicts(asked), strict=True)) == {t: t in TAKEN for t in asked}


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("shl.sat.b32 %r0, %a, %b;", "modifier .sat"),
        ("add.unheard.u32 %r0, %a, %b;", "modifier .unheard"),
        ("bfe.b32 %r0, %a, %b, %c;", "type .b32"),
        ("mad.u32 %r0, %a, %b, %c;", ".lo or .hi or .wide is to follow the opcode"),
        ("mul.u32.lo %r0, %a, %b;", ".lo or .hi or .wide is to follow the opcode"),
        ("shf.l.b32 %r0, %a, %b, %c;", "no .clamp or .wrap"),
        ("add.sat.cc.s32 %r0, %a, %b;", "modifiers .cc, .sat together"),
        ("mad.lo.sat.s32 %r0, %a, %b, %c;", "modifier .sat"),
    ],
)
def test_refusals_name_the_reason(instruction, reason):
    given = [np.array([1], "u4")] * 3
    results = ["u4", bool] if "|" in instruction else ["u4"]
    (only,) = refusals_of(evaluate, instruction, given, results)
    mnemonic = instruction.split()[0]
    assert (only.code, only.message) == ("PW113", f"there is no '{mnemonic}': {reason}")


def test_forms_without_documentation_are_read_but_not_executed():
    given = [np.array([1], "u4")] * 2
    (only,) = refusals_of(evaluate, "addc.sat.s32 %r0, %a, %b;", given, ["u4"])
    assert (only.code, only.message) == ("PW410", "addc.sat.s32 is not executed: modifier .sat")
