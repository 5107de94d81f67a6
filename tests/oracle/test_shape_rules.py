"""What is claimed of the patterns of each form's results, against its execution lane by lane.

For every form, patterns are drawn for the registers that it reads; then lanes are drawn that have
these patterns, two warps a block and many blocks at once, and the emulator executes the form. Every
register that it writes must have the pattern that the domain gives.
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
from ptxwcet.flow.shapes.pattern import KNOWN, Agreement, Pattern, Value, constant, normal
from ptxwcet.flow.shapes.results import FUNCTIONS
from ptxwcet.flow.shapes.uniformity import _Uniformity
from ptxwcet.ir.semantics import meaning_of

BLOCKS, WARPS, LANES = 24, 2, 32
COMBINATIONS = {False: 25, True: 200}  # for forms without a term, and with one


def width_of(form: Form, name: str) -> int:
    kind = form.kernel.registers[name]
    return 1 if kind == "pred" else int(kind[1:])


LANE = np.arange(LANES)
BLOCK, WARP = Agreement.BLOCK, Agreement.WARP


def patterns(bits: int) -> list[Pattern | None]:
    """Patterns that values of registers have in kernels, and some at the edge; None: any lanes."""
    if bits == 1:
        return [Pattern(0, 0, agreement=BLOCK), Pattern(0, 0), None, normal(constant(1), 1)]
    half = 1 << bits - 1
    numbers = (0, 1, 2, 4, 5, 6, 8, 16, 31, 32, 33, 63, 64, 96, 255, -1, -32, -half, half - 1)
    strided = [
        *((0, 0, align, who) for who in (WARP, BLOCK) for align in (0, 5)),
        (0, 0, bits - 1, BLOCK),
        *((0, number, KNOWN, BLOCK) for number in numbers),
        *((1, 0, KNOWN, BLOCK), (1, 0, 5, WARP)) * 2,
        *((4, 0, 7, WARP), (1, 0, 10, WARP), (1, 5, KNOWN, BLOCK), (1, 0, 5, BLOCK)),
        *((1, 0, 0, BLOCK), (-1, 0, 5, WARP), (3, 0, 6, BLOCK), (1024, 0, 15, BLOCK)),
        *((16, 0, 9, WARP), (1, 0, bits, BLOCK), (65536, 0, 21, BLOCK), (2048, 0, 16, BLOCK)),
        *((2048, 0, KNOWN, BLOCK), (4096, 0, 17, WARP), (1, 32, KNOWN, BLOCK)),
        (1, 33, KNOWN, BLOCK),
    ]
    found = [Pattern(s * LANE + first, align, agreement=who) for s, first, align, who in strided]
    found += [Pattern(LANE // 4, 3), Pattern(LANE % 4 * 8, 5, agreement=BLOCK), Pattern(LANE ^ 1)]
    return [None, *(normal(pattern, bits) for pattern in found)]


def lanes_of(pattern: Pattern | None, bits: int, chance: random.Random) -> np.ndarray:
    """Values of a pattern in all lanes, most of them where something wraps or changes sign."""
    mask = (1 << bits) - 1
    step = 1 << min(0 if pattern is None else pattern.align, bits)
    edges = [0, step, -step, 1 << bits - 1, (1 << bits - 1) - step, 3 * step, 0x5555_5555_5555_5555]

    def bases(count: int) -> np.ndarray:
        """Numbers that all lanes may share; few for many lanes, repeated at random."""
        drawn = [*edges, *(chance.getrandbits(bits) for _ in range(8)), *range(0, 64, 7)]
        numbers = np.array([number // step * step & mask for number in drawn], np.uint64)
        return numbers[chance.choices(range(len(drawn)), k=count)]

    if pattern is None:
        values = bases(BLOCKS * WARPS * LANES)
    else:
        whole = pattern.agreement is BLOCK
        of_warps = np.repeat(bases(BLOCKS), WARPS) if whole else bases(BLOCKS * WARPS)
        values = (of_warps[:, None] + offsets(pattern)).reshape(-1) & np.uint64(mask)
    return values.astype(bool) if bits == 1 else values.astype(f"u{bits // 8}")


def offsets(pattern: Pattern) -> np.ndarray:
    return np.array([int(lane) % 2**64 for lane in pattern.offsets + 0 * LANE], dtype=np.uint64)


def has_pattern(values: np.ndarray, value: Value, bits: int) -> bool:
    if value is None:
        return True
    (pattern,) = value
    numbers = values.astype(np.uint64).reshape(BLOCKS, WARPS, LANES)
    rest = (numbers - offsets(pattern)) & np.uint64((1 << bits) - 1)
    if (rest & np.uint64((1 << min(pattern.align, bits)) - 1)).any():
        return False
    if pattern.span is not None:
        low, high = pattern.span
        read = [number - (number >> bits - 1 << bits) for number in numbers.reshape(-1).tolist()]
        if min(read) < low or max(read) > high:
            return False
    if pattern.cuts:
        rest &= np.uint64((1 << 16) - 1)
    if (rest != rest[:, :, :1]).any():
        return False
    return pattern.agreement is not BLOCK or not (rest != rest[:, :1, :1]).any()


def claimed(form: Form, given: dict[str, Pattern | None]) -> tuple[Value, ...]:
    table = _Uniformity(form.kernel, Launch((64, 1, 1)), (), race_free=False)
    table._values.update({n: None if each is None else (each,) for n, each in given.items()})
    return table._evaluate(0, form.instruction)


def wrong(form: Form, step: Step, chance: random.Random) -> str | None:
    """An example for which the domain is wrong, as text."""
    names = [*form.instruction.reads]
    widths = {name: width_of(form, name) for name in names}
    most = COMBINATIONS[meaning_of(form.instruction, form.kernel.registers) is not None]
    for given in combinations([widths[name] for name in names], most, chance):
        read = dict(zip(names, given, strict=True))
        registers = {name: lanes_of(each, widths[name], chance) for name, each in read.items()}
        registers = registers or {"%r8": np.zeros(BLOCKS * WARPS * LANES, np.uint32)}
        after = executed(form, step, registers)
        for name, found in zip(form.instruction.writes, claimed(form, read), strict=True):
            if not has_pattern(after[name], found, width_of(form, name)):
                return f"{form}: {read} gives {name} {found}"
    return None


def combinations(
    widths: list[int], most: int, chance: random.Random
) -> Iterator[tuple[Pattern | None, ...]]:
    columns = [patterns(bits) for bits in widths]
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
def test_results_have_the_pattern(name: str) -> None:
    mistakes = []
    for one in FORMS[name]:
        try:
            step = one.step(BLOCKS * WARPS * LANES)
        except Unsupported:
            continue
        mistakes.append(wrong(one, step, random.Random(str(one))))
    assert [mistake for mistake in mistakes if mistake is not None] == []
