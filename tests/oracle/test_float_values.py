"""Floating-point numbers and ranges of them (``flow.values.floats``) against execution.

Operands are numbers, ranges or anything; what the emulator computes from numbers of theirs must be
in the range of the result, and where all operands are numbers the range must be that number. Sums
without a rounding mode must hold what a product before them gives if both are fused.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from instruction_forms import executed, form
from isa_floats import How, fused, to_float
from isa_types import Type

from ptxwcet.emulator.registers import Unsupported
from ptxwcet.flow.values.floats import Floats, format_of, is_determined, result_of
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.ir.operation import NumberType, number_type, operation_of

SAMPLES = 24
ROUNDS = 8
DTYPES = {32: np.float32, 64: np.float64}
NEAR = (0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 255.0, 1e-40, 1e-45, 1e-310, 2.0**24, 2.0**31, 2.0**63)
HUGE = (3e38, 1e300, math.inf)


def statements() -> Iterator[str]:
    """Forms that have a rule; ``%r`` has 32 bits, ``%d`` 64."""
    for (kind, r), ftz in product((("f32", "r"), ("f64", "d")), ("", ".ftz")):
        if kind == "f64" and ftz:
            continue
        end = f"{ftz}.{kind} %{r}0, %{r}1"
        for mode in (".rn", ".rz", ".rm", ".rp"):
            for sat in ("", ".sat") if kind == "f32" else ("",):
                for name in ("add", "sub", "mul"):
                    yield f"{name}{mode}{ftz}{sat}.{kind} %{r}0, %{r}1, %{r}2;"
                yield f"fma{mode}{ftz}{sat}.{kind} %{r}0, %{r}1, %{r}2, %{r}3;"
            yield f"div{mode}{end}, %{r}2;"
            yield f"rcp{mode}{end};"
            yield f"sqrt{mode}{end};"
        for name in ("min", "max"):
            yield f"{name}{end}, %{r}2;"
        for name in ("neg", "abs"):
            yield f"{name}{end};"
        for name in ("add", "sub", "mul"):
            yield f"{name}{end}, %{r}2;"
        for mode in ("rni", "rzi", "rmi", "rpi"):
            for whole, w in (("s32", "r"), ("u32", "r"), ("s64", "d"), ("u64", "d"), ("s16", "h")):
                yield f"cvt.{mode}{ftz}.{whole}.{kind} %{w}0, %{r}1;"
            yield f"cvt.{mode}{ftz}.{kind}.{kind} %{r}0, %{r}1;"
        for mode, whole in product(("rn", "rz", "rm", "rp"), ("s32", "u32", "s64", "u64", "u16")):
            w = {"16": "h", "32": "r", "64": "d"}[whole[1:]]
            yield f"cvt.{mode}.{kind}.{whole} %{r}0, %{w}1;"
    for mode in ("rn", "rz", "rm", "rp"):
        yield f"cvt.{mode}.f32.f64 %r0, %d1;"
        yield f"cvt.{mode}.ftz.sat.f32.f64 %r0, %d1;"
    yield from ("cvt.f64.f32 %d0, %r1;", "cvt.ftz.f64.f32 %d0, %r1;", "cvt.sat.f32.f32 %r0, %r1;")


def number(kind: NumberType, chance: random.Random) -> float:
    """A number of a format, often at the edge of something."""
    size = chance.choice([*NEAR, *NEAR, *HUGE]) * chance.choice([1, 1, chance.uniform(0.5, 2)])
    with np.errstate(over="ignore"):
        return float(DTYPES[kind.bits](math.copysign(size, chance.choice([1, 1, -1]))))


def operand(kind: NumberType, chance: random.Random) -> Floats | Interval:
    if format_of(kind) is None:
        low, high = (-(1 << kind.bits - 1) if kind.is_signed else 0, (1 << kind.bits - 1) - 1)
        ends = sorted(chance.choice([low, high, 0, 1, chance.randint(low, high)]) for _ in "ab")
        return Interval(*ends)
    ends = sorted((number(kind, chance) for _ in "ab"), key=lambda x: (x, math.copysign(1, x)))
    way = chance.random()
    if way < 0.3:
        return Floats(ends[0], ends[0])
    return Floats(*ends, nan=way > 0.85)


def drawn(one: Floats | Interval, kind: NumberType, chance: random.Random) -> np.ndarray:
    """Bits of numbers of an operand, both ends first."""
    if isinstance(one, Interval):
        some = [one.low, one.high, *(chance.randint(one.low, one.high) for _ in range(SAMPLES - 2))]
        return np.array([x % (1 << kind.bits) for x in some], dtype=f"u{kind.bits // 8}")
    found = [one.low, one.high]
    while len(found) < SAMPLES:
        part = chance.random()
        between = one.low + (one.high - one.low) * part if not one.is_number else one.low
        between = chance.choice([between, number(kind, chance), 0.0, -0.0, one.low, one.high])
        between = float(DTYPES[kind.bits](between)) if abs(between) < 3e38 else between
        if one.nan and part < 0.1:
            found.append(math.nan)
        elif is_inside(between, one):
            found.append(between)
    return np.array(found, DTYPES[kind.bits]).view(f"u{kind.bits // 8}")


def is_inside(found: float, one: Floats) -> bool:
    if math.isnan(found):
        return one.nan
    sign = math.copysign
    low, high = (one.low, sign(1, one.low)), (one.high, sign(1, one.high))
    return low <= (found, sign(1, found)) <= high


def mistake(text: str) -> tuple[int, str | None]:
    """How many results were known, and an example of one that is wrong."""
    chance, one = random.Random(text), form(text)
    operation = operation_of(one.instruction.form)
    assert is_determined(operation)
    target, origin = operation.types[0], operation.types[-1]
    said = 0
    for turn in range(ROUNDS):
        operands = [operand(origin, chance) for _ in one.instruction.operands[1:]]
        if turn < 3:
            operands = [Floats(x.low, x.low) if isinstance(x, Floats) else x for x in operands]
        result = result_of(operation, operands)
        names = one.instruction.reads
        words = {n: drawn(x, origin, chance) for n, x in zip(names, operands, strict=True)}
        if result is None:
            continue
        said += 1
        (bits,) = executed(one, one.step(SAMPLES), words).values()
        for lane, word in enumerate(bits.tolist()):
            inputs = [hex(column[lane]) for column in words.values()]
            shown = f"{text} {operands} of {inputs} is {result}, not {word:#x}"
            if isinstance(result, Interval):
                value = (
                    word - (1 << target.bits)
                    if target.is_signed and word >> target.bits - 1
                    else word
                )
                right = result.low <= value <= result.high
            else:
                value = np.array(word, f"u{target.bits // 8}").view(DTYPES[target.bits])
                right = is_inside(float(value), result)
            if not right:
                return said, shown
        exact = all(isinstance(x, Floats) and x.is_number for x in operands)
        plain = operation.name in ("add", "sub") and not set(operation.words) & {
            "rn",
            "rz",
            "rm",
            "rp",
        }
        if exact and not plain and result.low != result.high:
            return said, f"{text} {operands} is not one number: {result}"
    return said, None


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma", "div", "rcp", "sqrt", "cvt", ""])
def test_ranges_hold_what_is_executed(name: str) -> None:
    others = ("add", "sub", "mul", "fma", "div", "rcp", "sqrt", "cvt")
    wanted = [
        text for text in statements() if (text.startswith(name) if name else text[:3] not in others)
    ]
    wanted = [text for text in wanted if name or not text.startswith(others)]
    told = 0
    for text in wanted:
        try:
            said, wrong = mistake(text)
        except Unsupported:
            continue
        told += said > 0
        assert wrong is None
    assert told > len(wanted) / 2


def test_sums_hold_what_fusing_gives() -> None:
    chance, single = random.Random(7), Type("f", 32)
    kind = number_type("f32")
    assert kind is not None
    add = operation_of(form("add.f32 %r0, %r1, %r2;").instruction.form)
    told_apart = 0
    for _ in range(4_000):
        a, b, c = (number(kind, chance) for _ in range(3))
        if not all(abs(x) < 1e18 for x in (a, b, c)):
            continue
        c = chance.choice([c, float(np.float32(-a * b))])
        product_of = float(np.float32(a) * np.float32(b))
        result = result_of(add, [Floats(product_of, product_of), Floats(c, c)])
        assert isinstance(result, Floats)
        together = to_float(fused(a, b, c, How(single)), single)
        told_apart += together != product_of + c
        assert result.low <= together <= result.high
    assert told_apart > 20


def test_products_that_are_subnormal_before_they_are_rounded_alone() -> None:
    """ptxas makes zeros of some of them with ``.ftz``, and the least normal number without."""
    least, below = 2.0**-126, 1 - 2.0**-24
    numbers = [Floats(least, least), Floats(below, below)]
    for name, more in (("mul.rn", []), ("mul", []), ("fma.rn", [Floats(0.0, 0.0)])):
        operands = ", ".join(["%r0", "%r1", "%r2", "%r3"][: 3 + len(more)])
        with_ftz = operation_of(form(f"{name}.ftz.f32 {operands};").instruction.form)
        without = operation_of(form(f"{name}.f32 {operands};").instruction.form)
        assert result_of(with_ftz, [*numbers, *more]) is None
        assert result_of(without, [*numbers, *more]) == Floats(least, least)
        upper = [Floats(least, 1.0), numbers[1], *more]
        assert result_of(with_ftz, upper) is None
