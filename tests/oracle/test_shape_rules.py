"""What is said of the shapes of each form's results, against its execution lane by lane.

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
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.shapes.domain import FUNCTIONS
from ptxwcet.flow.shapes.shape import VARYING, Agreement, Shape, constant, uniform
from ptxwcet.flow.shapes.uniformity import _Shapes
from ptxwcet.ir.semantics import meaning_of

BLOCKS, WARPS, LANES = 24, 2, 32
COMBINATIONS = {False: 25, True: 200}  # for forms without a term, and with one


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


LANE = np.arange(LANES, dtype=np.uint64)


def lanes_of(shape: Shape, bits: int, chance: random.Random) -> np.ndarray:
    """Values of a shape in all lanes, most of them where something wraps or changes sign."""
    mask = (1 << bits) - 1
    step = 1 << min(shape.align, bits)
    edges = [0, step, -step, 1 << bits - 1, (1 << bits - 1) - step, 3 * step, 0x5555_5555_5555_5555]

    def bases(count: int) -> np.ndarray:
        """Numbers that all lanes may share; few for many lanes, repeated at random."""
        if shape.constant is not None:
            return np.full(count, shape.constant & mask, np.uint64)
        drawn = [*edges, *(chance.getrandbits(bits) for _ in range(8)), *range(0, 64, 7)]
        numbers = np.array([number // step * step & mask for number in drawn], np.uint64)
        return numbers[chance.choices(range(len(drawn)), k=count)]

    if shape.agreement is Agreement.NONE:
        values = bases(BLOCKS * WARPS * LANES)
    else:
        whole = shape.agreement is Agreement.BLOCK
        of_warps = np.repeat(bases(BLOCKS), WARPS) if whole else bases(BLOCKS * WARPS)
        lanes = np.uint64(shape.stride % 2**64) * LANE
        values = (of_warps[:, None] + lanes[None, :]).reshape(-1) & np.uint64(mask)
    return values.astype(bool) if bits == 1 else values.astype(f"u{bits // 8}")


def has_shape(values: np.ndarray, shape: Shape, bits: int) -> bool:
    if not shape.agreement:
        return True
    rest = values.astype(np.uint64).reshape(BLOCKS, WARPS, LANES)
    rest = rest - np.uint64(shape.stride % 2**64) * LANE
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
    return table._evaluate(0, form.instruction)


def wrong(form: Form, step: Step, chance: random.Random) -> str | None:
    """An example for which the table is wrong, as text."""
    names = [*form.instruction.reads]
    widths = {name: width_of(form, name) for name in names}
    most = COMBINATIONS[meaning_of(form.instruction, form.kernel.registers) is not None]
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

    assert {name for name in FUNCTIONS if not any(map(is_executed, FORMS.get(name, [])))} == set()


@pytest.mark.every(5)
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
