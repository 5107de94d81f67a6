"""Terms of instructions against their execution, form by form, on numbers at the edges.

The emulator's rows are the second definition: they share nothing with the terms. Divisors of 0 are
left out, since the ISA determines nothing there.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from instruction_forms import Form, executed, form, statements

from ptxwcet.emulator.registers import Unsupported
from ptxwcet.ir.instruction_set import ROWS
from ptxwcet.ir.operands import Register
from ptxwcet.ir.operation import NumberKind, operation_of
from ptxwcet.ir.semantics import Meaning, meaning_of
from ptxwcet.ir.terms import evaluate

LANES = 400


def number(bits: int, chance: random.Random) -> int:
    if bits == 1:
        return chance.getrandbits(1)
    small = chance.choice((8, 16, 24, 32, 33, 63, 64))
    edge = chance.choice((0, 1, 2, 5, 31, 32, 33, 63, 64, 127, 128, 255, 256))
    power = 1 << min(small, bits) - 1
    drawn = (edge, -edge, power, power - 1, power + 1, -power, chance.getrandbits(bits))
    return chance.choice(drawn) % (1 << bits)


def width_of(one: Form, name: str) -> int:
    kind = one.kernel.registers.get(name, "pred")
    return 1 if kind == "pred" else int(kind[1:])


def known(one: Form) -> Meaning | None:
    return meaning_of(one.instruction, one.kernel.registers)


def forms() -> dict[str, list[Form]]:
    found: dict[str, list[Form]] = {}
    for text in statements():
        one = form(text)
        assert one.instruction.opcode is not None
        found.setdefault(one.instruction.opcode.name, []).append(one)
    return found


FORMS = forms()


def is_executed(one: Form) -> bool:
    try:
        one.step(1)
    except Unsupported:
        return False
    return True


def mistake(one: Form, chance: random.Random) -> str | None:
    """An example for which a term is wrong, as text."""
    meaning = known(one)
    if meaning is None or not is_executed(one):
        return None
    if not all(isinstance(each, Register) for each in meaning.sources):
        return None  # the launch knows
    names = [*one.instruction.reads]
    lanes = {name: [number(width_of(one, name), chance) for _ in range(LANES)] for name in names}
    arrays = {}
    for name, values in lanes.items():
        bits = width_of(one, name)
        words = np.array(values, dtype=np.uint64)
        arrays[name] = words.astype(bool) if bits == 1 else words.astype(f"u{bits // 8}")
    after = executed(one, one.step(LANES), arrays or {"%r8": np.zeros(LANES, np.uint32)})
    for place, written in enumerate(one.instruction.writes):
        root, width = meaning.results[place], width_of(one, written)
        assert root.width == width, one.text
        for lane in range(LANES):
            sources = [
                lanes[each.name][lane] for each in meaning.sources if isinstance(each, Register)
            ]
            two = {evaluate(root, sources, undetermined) for undetermined in (0, -1)}
            if len(two) == 1 and two != {int(after[written][lane])}:
                return f"{one}: {sources} gives {after[written][lane]:#x}, not {two.pop():#x}"
    return None


@pytest.mark.parametrize("name", sorted(ROWS.keys() & FORMS.keys()))
def test_terms_are_what_is_executed(name: str) -> None:
    found = [mistake(one, random.Random(str(one))) for one in FORMS[name]]
    assert [one for one in found if one is not None] == []


def test_every_row_has_forms_that_are_executed() -> None:
    assert ROWS.keys() <= FORMS.keys()
    for name in ROWS:
        assert any(known(one) is not None and is_executed(one) for one in FORMS[name]), name


NO_TERMS = {"fma", "copysign", "testp", "isspacep", "fns", "cvt.pack", "cvta"}
"""Opcodes that are no function of integers, or have forms that are none."""


def test_every_integer_form_has_a_term() -> None:
    missing = [
        one.text
        for name, group in FORMS.items()
        for one in group
        if name not in NO_TERMS
        and known(one) is None
        and all(t.kind is not NumberKind.FLOAT for t in operation_of(one.instruction.form).types)
        and is_executed(one)
    ]
    assert missing == []
