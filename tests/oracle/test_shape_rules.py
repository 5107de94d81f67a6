"""What the table of shapes says of each form, against its execution lane by lane.

For every form, shapes are drawn for the registers that it reads; then lanes are drawn that have
these shapes, two warps a block and many blocks at once, and the emulator executes the form. Every
register that it writes must have the shape that the table gives.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from instruction_forms import Form, executed, form, statements

from ptxwcet.emulator.registers import Step, Unsupported
from ptxwcet.flow.facts import Launch
from ptxwcet.flow.lane_shapes import VARYING, Agreement, Shape, constant, uniform
from ptxwcet.flow.shape_rules import SHAPE_RULES
from ptxwcet.flow.uniformity import _Shapes

BLOCKS, WARPS, LANES = 24, 2, 32
COMBINATIONS = {False: 40, True: 250}  # for opcodes without a rule of their own, and with one


def width_of(form: Form, name: str) -> int:
    kind = form.kernel.registers[name]
    return 1 if kind == "pred" else int(kind[1:])


PREDICATES = [uniform(Agreement.BLOCK), uniform(Agreement.WARP), VARYING, constant(1)]


def shapes(bits: int) -> list[Shape]:
    """Shapes that values of registers have in kernels, and some at the edge."""
    if bits == 1:
        return PREDICATES
    block, warp = Agreement.BLOCK, Agreement.WARP
    lane, tid = Shape(block, 1, 64, 0), Shape(warp, 1, 5)
    half = 1 << bits - 1
    return [
        VARYING,
        *(uniform(who, align) for who in (warp, block) for align in (0, 5)),
        uniform(block, bits - 1),
        *map(constant, (0, 1, 2, 4, 5, 6, 8, 16, 31, 32, 33, 63, 64, 96, 255, -1, -32)),
        constant(half), constant(half - 1),
        lane, lane, tid, tid,
        Shape(warp, 4, 7), Shape(warp, 1, 10), Shape(block, 1, 0, 5),
        Shape(block, 1, 5, 96), Shape(block, 1, 0), Shape(warp, -1, 5),
        Shape(block, 3, 6), Shape(block, 1024, 15), Shape(warp, 16, 9),
        Shape(block, 1, bits), Shape(block, 65536, 21), Shape(block, 2048, 16),
        Shape(block, 2048, 64, 0), Shape(warp, 4096, 17),
        Shape(block, 1, 5, 32), Shape(block, 1, 0, 33),
    ]  # fmt: skip


def lanes_of(shape: Shape, bits: int, chance: random.Random) -> np.ndarray:
    """Values of a shape in all lanes, most of them where something wraps or changes sign."""
    mask, result = (1 << bits) - 1, []
    step = 1 << min(shape.align, bits)
    edges = [0, step, -step, 1 << bits - 1, (1 << bits - 1) - step, 3 * step, 0x5555_5555_5555_5555]

    def base() -> int:
        if shape.constant is not None:
            return shape.constant
        number = chance.choice([*edges, chance.getrandbits(bits), chance.getrandbits(6)])
        return number // step * step

    for _ in range(BLOCKS):
        of_block = base()
        for _ in range(WARPS):
            of_warp = of_block if shape.agreement is Agreement.BLOCK else base()
            for lane in range(LANES):
                free = shape.agreement is Agreement.NONE
                result.append(base() if free else of_warp + shape.stride * lane)
    values = np.array([value & mask for value in result], dtype=np.uint64)
    return values.astype(bool) if bits == 1 else values.astype(f"u{bits // 8}")


def has_shape(values: np.ndarray, shape: Shape, bits: int) -> bool:
    if not shape.agreement:
        return True
    rest = values.astype(np.uint64).reshape(BLOCKS, WARPS, LANES)
    rest = rest - np.array([shape.stride * lane % 2**64 for lane in range(LANES)], np.uint64)
    rest &= np.uint64((1 << bits) - 1)
    if (rest != rest[:, :, :1]).any():
        return False
    if shape.agreement is Agreement.BLOCK and (rest != rest[:, :1, :1]).any():
        return False
    if (rest & np.uint64((1 << min(shape.align, bits)) - 1)).any():
        return False
    return shape.constant is None or bool((rest == shape.constant % (1 << bits)).all())


def claimed(form: Form, given: dict[str, Shape]) -> tuple[Shape, ...]:
    table = _Shapes(form.kernel, Launch((64, 1, 1)), (), race_free=False)
    table._shapes.update(given)
    return table._evaluate(form.instruction)


def wrong(form: Form, step: Step, chance: random.Random) -> str | None:
    """An example for which the table is wrong, as text."""
    names = [*form.instruction.reads]
    widths = {name: width_of(form, name) for name in names}
    assert form.instruction.opcode is not None
    most = COMBINATIONS[SHAPE_RULES.get(form.instruction.opcode.name) is not None]
    for given in combinations([widths[name] for name in names], most, chance):
        shapes = dict(zip(names, given, strict=True))
        registers = {n: lanes_of(s, widths[n], chance) for n, s in shapes.items()}
        registers = registers or {"%r8": np.zeros(BLOCKS * WARPS * LANES, np.uint32)}
        after = executed(form, step, registers)
        for name, found in zip(form.instruction.writes, claimed(form, shapes), strict=True):
            if not has_shape(after[name], found, width_of(form, name)):
                return f"{form}: {shapes} gives {name} {found}"
    return None


def combinations(
    widths: list[int], most: int, chance: random.Random
) -> Iterator[tuple[Shape, ...]]:
    columns = [shapes(bits) for bits in widths]
    total = int(np.prod([len(column) for column in columns]))
    if total <= most:
        yield from product(*columns)
    else:
        yield from (tuple(map(chance.choice, columns)) for _ in range(most))


def by_opcode() -> dict[str, list[Form]]:
    found: dict[str, list[Form]] = defaultdict(list)
    for text in statements():
        one = form(text)
        assert one.instruction.opcode is not None
        found[one.instruction.opcode.name].append(one)
    return found


FORMS = by_opcode()


def test_every_row_has_forms_that_are_executed() -> None:
    def is_executed(one: Form) -> bool:
        try:
            one.step(LANES)
        except Unsupported:
            return False
        return True

    assert {name for name in SHAPE_RULES if not any(map(is_executed, FORMS.get(name, [])))} == set()


@pytest.mark.parametrize("name", sorted(FORMS))
def test_results_have_the_shape(name: str) -> None:
    mistakes = []
    for one in FORMS[name]:
        try:
            step = one.step(BLOCKS * WARPS * LANES)
        except Unsupported:
            continue
        mistakes.append(wrong(one, step, random.Random(str(one))))
    assert [mistake for mistake in mistakes if mistake is not None] == []
