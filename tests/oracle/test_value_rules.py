"""What the tables of values compute for each form, against its execution lane by lane.

For every form, registers are given values: numbers, affine in a counter, in a parameter of which a
range is known, or unknown. After the transfer function the result must be that of the emulator at
every point of the region that is left, for any number in place of what is unknown.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from instruction_forms import Form, executed, form, statements

from ptxwcet.emulator.registers import Unsupported
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.transfer import compile_transfer, register_width
from ptxwcet.flow.values.value import Known, Unknown, Value, clean_terms, wrap
from ptxwcet.ir.instruction_set import ROWS
from ptxwcet.ir.kernel import Space

LANES = 16
ROUNDS = 24
ACTIVE = np.ones(LANES, dtype=bool)


class State:
    """What a transfer function reads."""

    active = ACTIVE

    def __init__(self, registers: dict[str, Value]) -> None:
        self.registers = registers

    def register(self, name: str) -> Value:
        return self.registers[name]

    def special(self, name: str) -> Value:
        raise AssertionError(name)

    def parameter(self, name: str, offset: int, kind: IntegerType) -> Value | None:
        raise AssertionError(name)

    def address(self, name: str) -> Known | None:
        return None

    def load(self, space: Space, address: Known, kind: IntegerType) -> Known | None:
        raise AssertionError


FLOATS = {32: np.float32, 64: np.float64}
NEAR = [0, 0.5, 1, 1.5, 2.5, 3, 16, 1e-40, 1e-45, 1e-310, 2**24, 2**31, 2**63, 3e38, 1e39, np.inf]
NEAR += [np.nan]
"""Numbers of floating point, some with a fraction of a half, some subnormal or too large."""


def numbers(bits: int, chance: random.Random) -> int:
    """A number in the canonical form of a width, often at the edge of it or of a narrower one."""
    if bits == 1:
        return chance.getrandbits(1)
    if chance.random() < 0.3 and bits in FLOATS:
        near = chance.choice(NEAR) * chance.choice([1, 1, -1, chance.uniform(0.5, 2)])
        with np.errstate(over="ignore"):
            return int(wrap(int(np.array(near, FLOATS[bits]).view(f"u{bits // 8}")), bits))
    narrow = chance.choice([8, 16, 32, 63, bits])
    half = 1 << min(narrow, bits) - 1
    edge = chance.choice([-half, 1 - half, half - 1, half, -1, 0, 1, 2, 31, 32, 33, 64, 255, 256])
    return int(wrap(chance.choice([edge, chance.getrandbits(bits), chance.getrandbits(6)]), bits))


def content(bits: int, symbols: list[Symbol], chance: random.Random) -> Value:
    """A value of a register of a width."""

    def lanes(small: bool = False) -> int | np.ndarray:
        draw = (lambda: chance.randint(-9, 9)) if small else (lambda: numbers(bits, chance))
        if chance.random() < 0.6:
            return draw()
        return np.array([draw() for _ in range(LANES)], dtype=np.int64)

    way = chance.random()
    if way < 0.15:
        return Unknown(frozenset())
    if bits == 1 or way < 0.6:
        return Known(lanes())
    base = lanes() if chance.random() < 0.4 else chance.randint(-40, 300)
    steps = {s: lanes(small=True) for s in symbols if chance.random() < 0.6}
    return Known(base, clean_terms(steps))


def points(symbols: list[Symbol], chance: random.Random) -> list[dict[Symbol, int]]:
    """Points of the region: the origin and a few others."""
    found = []
    for turn in range(6):
        point: dict[Symbol, int] = {}
        for symbol in symbols:
            last = 5 if symbol.count is None else symbol.count - 1
            last += sum(c * point[s] for s, c in symbol.slopes.items())
            assert last >= 0
            point[symbol] = 0 if turn == 0 else chance.choice([last, chance.randint(0, last)])
        found.append(point)
    return found


def concrete(value: Value, bits: int, point: dict[Symbol, int], chance: random.Random) -> list[int]:
    if isinstance(value, Unknown):
        return [numbers(bits, chance) for _ in range(LANES)]
    total = np.zeros(LANES, dtype=object) + value.base
    for symbol, c in value.terms.items():
        total = total + np.asarray(c, dtype=object) * point[symbol]
    return [int(number) for number in total]


def is_among(value: Known, lane: int, point: dict[Symbol, int], found: int, bits: int) -> bool:
    def number(x: object) -> int:
        return x if isinstance(x, int) else int(x[lane])  # type: ignore[index]

    if value.valid is not None and not value.valid[lane]:
        return True
    if bits == 1 and number(value.base) not in (0, 1):
        return False  # rules for predicates expect them so
    known = number(value.base) + sum(number(c) * point.get(s, 0) for s, c in value.terms.items())
    distance = (found - known) % (1 << bits)
    new = [symbol for symbol in value.terms if symbol not in point]
    if not new:
        return distance == 0
    (symbol,) = new
    step = number(value.terms[symbol])
    return distance % step == 0 and distance // step <= symbol.last


def bits_as(values: list[int], bits: int) -> np.ndarray:
    mask = (1 << bits) - 1
    words = np.array([value & mask for value in values], dtype=np.uint64)
    return words.astype(bool) if bits == 1 else words.astype(f"u{bits // 8}")


def mistake(one: Form, chance: random.Random) -> str | None:
    """An example for which the result is wrong, as text."""
    kinds = one.kernel.registers
    widths = {name: register_width(kinds[name]) for name in one.instruction.reads}
    transfer = compile_transfer(one.instruction, 0, kinds)
    for _ in range(ROUNDS):
        symbols = [
            Symbol("n", -2, chance.randint(1, 9), fixed=True),
            Symbol("k", 0, chance.choice([None, chance.randint(1, 9)])),
        ]
        given = {name: content(bits, symbols, chance) for name, bits in widths.items()}
        results = transfer(State(given))
        if all(isinstance(value, Unknown) for value in results):
            continue
        for point in points(symbols, chance):
            lanes = {n: concrete(v, widths[n], point, chance) for n, v in given.items()}
            words = {name: bits_as(lanes[name], widths[name]) for name in given}
            words = words or {"%r8": np.zeros(LANES, np.uint32)}
            after = executed(one, one.step(LANES), words)
            for name, value in zip(one.instruction.writes, results, strict=True):
                bits = register_width(kinds[name])
                found = [int(word) for word in after[name]]
                divisor = one.text[:3] in ("div", "rem") and lanes[one.instruction.reads[-1]]
                for lane in range(LANES):
                    if isinstance(value, Unknown) or (divisor is not False and not divisor[lane]):
                        continue
                    if not is_among(value, lane, point, found[lane], bits):
                        return f"{one}: {[(n, v[lane]) for n, v in lanes.items()]}"
    return None


def by_opcode() -> dict[str, list[Form]]:
    found: dict[str, list[Form]] = {}
    for text in statements():
        one = form(text)
        assert one.instruction.opcode is not None
        try:
            one.step(1)
        except Unsupported:
            continue
        found.setdefault(one.instruction.opcode.name, []).append(one)
    return found


FORMS = by_opcode()


def test_every_rule_has_forms_that_are_executed() -> None:
    assert set(ROWS) <= set(FORMS)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", sorted(FORMS))
def test_results_are_those_of_the_execution(name: str) -> None:
    found = [mistake(one, random.Random(str(one))) for one in FORMS[name]]
    assert [one for one in found if one is not None] == []
