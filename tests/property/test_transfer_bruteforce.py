"""Transfer functions against the operation itself, lane by lane and point by point of the region.

The reference below is written from the PTX ISA's definitions on Python ints. Operands are constants
or affine in two loop counters; after the transfer the result must be the operation's at every
point of the region as the transfer left it, in the canonical form of the receiving register.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing import parse_kernel

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.lane_state import BlockIndex, LaneState
from ptxwcet.flow.values.operands import Transfer
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.transfer import compile_transfer
from ptxwcet.flow.values.value import Known, Unknown, Value, clean_terms, wrap

LANES = 8
Reference = Callable[..., int]


@dataclass
class Lanes:
    """What a transfer function reads, from a dictionary."""

    registers: dict[str, Value]
    active: np.ndarray = field(default_factory=lambda: np.ones(LANES, dtype=bool))

    def register(self, name: str) -> Value:
        return self.registers[name]

    def special(self, name: str) -> Value:
        raise AssertionError(name)

    def parameter(self, name: str, offset: int, kind: IntegerType) -> Value:
        raise AssertionError(name)


def typed(value: int, kind: str) -> int:
    """The number that the low bits of a register stand for in a type."""
    if kind == "pred":
        return value & 1
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def extracted(kind: str, a: int, position: int, length: int) -> int:
    """bfe, bit by bit, as the ISA's pseudo code does it."""
    bits, position, length = int(kind[1:]), position & 255, length & 255
    unsigned = kind[0] != "s" or length == 0
    sign = 0 if unsigned else (a >> min(position + length - 1, bits - 1)) & 1
    result = 0
    for i in range(bits):
        inside = i < length and position + i < bits
        result |= ((a >> (position + i)) & 1 if inside else sign) << i
    return result


COMPARE: dict[str, Reference] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
JOIN: dict[str, Reference] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@dataclass(frozen=True)
class Form:
    """An instruction: its text with ``{}`` for sources, types of target and sources, meaning."""

    text: str
    target: str
    sources: tuple[str, ...]
    meaning: Reference

    def __str__(self) -> str:
        return self.text.partition(" ")[0]


def ring_and_bits() -> Iterator[Form]:
    for bits in (16, 32, 64):
        for letter in "su":
            t = f"{letter}{bits}"
            yield Form(f"add.{t}", t, (t, t), lambda a, b: a + b)
            yield Form(f"sub.{t}", t, (t, t), lambda a, b: a - b)
            yield Form(f"mul.lo.{t}", t, (t, t), lambda a, b: a * b)
            yield Form(f"mul.hi.{t}", t, (t, t), lambda a, b, n=bits: (a * b) >> n)
            yield Form(f"mad.lo.{t}", t, (t, t, t), lambda a, b, c: a * b + c)
            yield Form(f"min.{t}", t, (t, t), min)
            yield Form(f"max.{t}", t, (t, t), max)
            yield Form(f"div.{t}", t, (t, t), truncated)
            yield Form(f"rem.{t}", t, (t, t), lambda a, b: a - b * truncated(a, b))
            yield Form(f"shr.{t}", t, (t, "u32"), lambda a, n, w=bits: a >> min(n, w))
            if bits < 64:
                wide = f"{letter}{2 * bits}"
                yield Form(f"mul.wide.{t}", wide, (t, t), lambda a, b: a * b)
                yield Form(f"mad.wide.{t}", wide, (t, t, wide), lambda a, b, c: a * b + c)
        b = f"b{bits}"
        for name, meaning in JOIN.items():
            yield Form(f"{name}.{b}", b, (b, b), meaning)
        yield Form(f"not.{b}", b, (b,), lambda a: ~a)
        yield Form(f"neg.s{bits}", f"s{bits}", (f"s{bits}",), lambda a: -a)
        yield Form(f"abs.s{bits}", f"s{bits}", (f"s{bits}",), abs)
        yield Form(f"shl.{b}", b, (b, "u32"), lambda a, n, w=bits: a << n if n < w else 0)
        yield Form(f"mov.{b}", b, (b,), lambda a: a)
        yield Form(f"selp.{b}", b, (b, b, "pred"), lambda a, c, p: a if p else c)
    for name, meaning in JOIN.items():
        yield Form(f"{name}.pred", "pred", ("pred", "pred"), meaning)
    yield Form("not.pred", "pred", ("pred",), lambda a: 1 - a)


def single_lane() -> Iterator[Form]:
    for bits in (32, 64):
        b = f"b{bits}"
        yield Form(f"popc.{b}", "u32", (b,), lambda a: bin(a).count("1"))
        yield Form(f"clz.{b}", "u32", (b,), lambda a, n=bits: n - len(f"{a:b}".lstrip("0")))
        yield Form(f"brev.{b}", b, (b,), lambda a, n=bits: int(f"{a:0{n}b}"[::-1], 2))
        for letter in "us":
            t = f"{letter}{bits}"
            yield Form(f"bfe.{t}", t, (t, "u32", "u32"), lambda a, p, n, t=t: extracted(t, a, p, n))
    yield Form(
        "lop3.b32 {}, {}, {}, {}, 0xE8",
        "b32",
        ("b32", "b32", "b32"),
        lambda a, b, c: (a & b) | (b & c) | (a & c),
    )


def conversions() -> Iterator[Form]:
    kinds = [f"{letter}{bits}" for letter in "us" for bits in (8, 16, 32, 64)]
    for target, source in product(kinds, kinds):
        for register in ("b16", "b32", "b64"):
            if int(register[1:]) >= int(target[1:]):
                yield Form(
                    f"cvt.{target}.{source}",
                    f"{target}:{register}",
                    (source,),
                    lambda a, t=target: typed(a, t),
                )


def comparisons() -> Iterator[Form]:
    for bits in (16, 32, 64):
        for letter in "su":
            for name, meaning in COMPARE.items():
                t = f"{letter}{bits}"
                yield Form(f"setp.{name}.{t}", "pred", (t, t), meaning)
        for name, plain in UNSIGNED.items():
            t = f"u{bits}"
            yield Form(f"setp.{name}.{t}", "pred", (t, t), COMPARE[plain])
    for joined, meaning in JOIN.items():
        yield Form(
            f"setp.lt.{joined}.s32",
            "pred",
            ("s32", "s32", "pred"),
            lambda a, b, p, m=meaning: m(int(a < b), p),
        )


FORMS = [*ring_and_bits(), *single_lane(), *conversions(), *comparisons()]
PREFIX = {8: "h", 16: "h", 32: "r", 64: "d", 1: "p"}


def bits_of(kind: str) -> int:
    return 1 if kind == "pred" else int(kind[1:])


@cache
def compiled(form: Form, literals: tuple[int | None, ...]) -> Transfer:
    """The transfer function of the form; sources are registers 1, 2, ... or the given literals."""
    register = form.target.partition(":")[2] or form.target
    names = [f"%{PREFIX[bits_of(register)]}0"]
    for i, (kind, literal) in enumerate(zip(form.sources, literals, strict=True)):
        width = max(16, bits_of(kind)) if kind != "pred" else 1
        names.append(str(literal) if literal is not None else f"%{PREFIX[width]}{i + 1}")
    head = form.text if " " in form.text else f"{form.text} {', '.join(['{}'] * len(names))}"
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n"
        ".reg .b16 %h<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n.reg .pred %p<9>;\n"
        f"{head.format(*names)};\nret;\n}}\n"
    )
    kernel = parse_kernel(text, "one.ptx")
    return compile_transfer(kernel.instructions[0], 0, kernel.registers)


def at_point(value: Known, lane: int, point: Mapping[Symbol, int]) -> int:
    def number(x: object) -> int:
        return x if isinstance(x, int) else int(x[lane])  # type: ignore[index]

    return number(value.base) + sum(number(c) * point[s] for s, c in value.terms.items())


def may_be(value: Known, lane: int, point: Mapping[Symbol, int], expected: int, width: int) -> bool:
    """Whether the value is the expected one for some value of a fixed symbol that is new in it."""
    new = [symbol for symbol in value.terms if symbol not in point]
    found = at_point(value, lane, {**point, **dict.fromkeys(new, 0)})
    distance = (expected - found) % (1 << width)
    if not new:
        return distance == 0
    ((symbol, step),) = [(s, value.terms[s]) for s in new]
    assert symbol.fixed
    assert isinstance(step, int)
    return distance % step == 0 and distance // step <= symbol.last


def points(symbols: list[Symbol]) -> Iterator[dict[Symbol, int]]:
    """All points of a small region; of a large one the first few and the last of each counter."""
    if not symbols:
        yield {}
        return
    *outer, inner = symbols
    for point in points(outer):
        limit = 6
        if inner.count is not None:
            limit = inner.count + sum(c * point[s] for s, c in inner.slopes.items())
            assert limit >= 1
        for k in sorted({*range(min(limit, 6)), limit - 1}):
            yield {**point, inner: k}


def check(
    form: Form, operands: list[Known | int], symbols: list[Symbol], active: np.ndarray
) -> bool:
    """Whether the transfer answered; fails when the answer is wrong anywhere on the region."""
    if form.text.startswith("bfe"):  # literals of places and lengths have eight bits
        places = (one & 255 if isinstance(one, int) else one for one in operands[1:])
        operands = [operands[0], *places]
    literals = tuple(one if isinstance(one, int) else None for one in operands)
    transfer = compiled(form, literals)
    registers: dict[str, Value] = {}
    values: list[Known] = []
    for i, (kind, one) in enumerate(zip(form.sources, operands, strict=True)):
        known = Known(one) if isinstance(one, int) else one
        width = max(16, bits_of(kind)) if kind != "pred" else 1
        registers[f"%{PREFIX[width]}{i + 1}"] = known
        values.append(known)
    (result,) = transfer(Lanes(registers, active))
    if isinstance(result, Unknown):
        return False
    meant, _, register = form.target.partition(":")
    width = bits_of(register or meant)
    for point in points(symbols):
        for lane in np.flatnonzero(active).tolist():
            sources = [
                typed(at_point(v, lane, point), kind)
                for v, kind in zip(values, form.sources, strict=True)
            ]
            if form.text[:3] in ("div", "rem") and sources[1] == 0:
                continue
            expected = typed(form.meaning(*sources), meant)
            if result.valid is None or result.valid[lane]:
                assert may_be(result, lane, point, expected, width), (str(form), sources, expected)
    canonical = result.base if width == 1 else wrap(result.base, width)
    assert bool(np.all((np.asarray(result.base) == canonical) | ~active)), "not canonical"
    return True


def edges(bits: int) -> list[int]:
    half = 1 << (bits - 1)
    near = (-half, -half + 1, -half // 2, -255, -33, -2, -1, 0, 1, 2, 7, 31, 32, 33, 63, 64, 127)
    return [n for n in (*near, 128, 200, 255, half // 2, half - 2, half - 1) if -half <= n < half]


def lane_numbers(bits: int) -> st.SearchStrategy[int]:
    half = 1 << (bits - 1)
    return st.one_of(st.sampled_from(edges(bits)), st.integers(-half, half - 1))


@st.composite
def constants(draw: st.DrawFn, kind: str) -> Known | int:
    if kind == "pred":
        return Known(np.array(draw(st.lists(st.integers(0, 1), min_size=LANES, max_size=LANES))))
    numbers = lane_numbers(max(16, bits_of(kind)))
    shape = draw(st.integers(0, 3))
    if shape == 0:
        number = draw(numbers)
        literal_is_safe = bits_of(kind) >= 16
        return number if literal_is_safe else Known(number)
    if shape == 1:
        return Known(draw(numbers))
    lanes = draw(st.lists(numbers, min_size=LANES, max_size=LANES))
    return Known(np.array(lanes, dtype=np.int64))


@pytest.mark.every(2)
@pytest.mark.parametrize("form", FORMS, ids=str)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_constants(form: Form, data: st.DataObject) -> None:
    operands = [data.draw(constants(kind)) for kind in form.sources]
    answered = check(form, operands, [], np.ones(LANES, dtype=bool))
    is_open = form.text.startswith(("div", "rem", "bfe.u64", "bfe.s64"))
    assert answered or is_open, "constants are always evaluated"


@st.composite
def affine(draw: st.DrawFn, kind: str, symbols: list[Symbol]) -> Known:
    """A register affine in the counters; mostly small numbers, sometimes close to wrapping."""
    bits = max(16, bits_of(kind))
    small = st.integers(-40, 300)
    numbers = st.one_of(small, small, small, lane_numbers(bits))
    slopes = st.one_of(st.integers(-5, 9), st.sampled_from([8, 16, 32, 64, -32, 1 << (bits - 2)]))

    def lanes(one: st.SearchStrategy[int]) -> int | np.ndarray:
        if draw(st.booleans()):
            return draw(one)
        return np.array(draw(st.lists(one, min_size=LANES, max_size=LANES)), dtype=np.int64)

    terms = {s: lanes(slopes) for s in symbols if draw(st.booleans())}
    return Known(lanes(numbers), clean_terms(terms))


AFFINE = [f for f in FORMS if not f.text.startswith(("popc", "clz", "brev", "bfe", "lop3"))]


@pytest.mark.every(5)
@pytest.mark.parametrize("form", AFFINE, ids=str)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_affine_operands(form: Form, data: st.DataObject) -> None:
    limits = st.one_of(st.none(), st.integers(1, 9))
    symbols = [Symbol(f"k{i}", i, data.draw(limits)) for i in range(2)]
    if symbols[1].count is not None and data.draw(st.booleans()):
        symbols[1].slopes = {symbols[0]: data.draw(st.integers(0, 2))}
    operands: list[Known | int] = []
    for kind in form.sources:
        if kind == "pred" or data.draw(st.integers(0, 3)) == 0:
            operands.append(data.draw(constants(kind)))
        else:
            operands.append(data.draw(affine(kind, symbols)))
    active = np.array(data.draw(st.lists(st.booleans(), min_size=LANES, max_size=LANES)))
    active[data.draw(st.integers(0, LANES - 1))] = True
    check(form, operands, symbols, active)


@pytest.mark.every(5)
@pytest.mark.parametrize("form", FORMS, ids=str)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_operands_of_which_a_range_is_known(form: Form, data: st.DataObject) -> None:
    """A counter, a parameter and a word of each lane; decisions hold for all their values."""
    own = data.draw(st.booleans())
    symbols = [
        Symbol("n", -2, data.draw(st.integers(1, 9)), fixed=True),
        Symbol("e", -1, data.draw(st.integers(1, 9)), fixed=True, is_own=own),
        Symbol("k", 0, data.draw(st.one_of(st.none(), st.integers(1, 9)))),
    ]
    operands: list[Known | int] = []
    for kind in form.sources:
        if kind == "pred" or data.draw(st.integers(0, 3)) == 0:
            operands.append(data.draw(constants(kind)))
        else:
            operands.append(data.draw(affine(kind, symbols)))
    active = np.array(data.draw(st.lists(st.booleans(), min_size=LANES, max_size=LANES)))
    active[data.draw(st.integers(0, LANES - 1))] = True
    check(form, operands, symbols, active)


@pytest.mark.parametrize("name", ["and.b32", "shr.u32", "rem.u32", "div.u32", "min.u32"])
def test_results_of_unknown_operands_have_a_range(name: str) -> None:
    form = next(f for f in FORMS if f.text == name)
    transfer = compiled(form, (None, 7))
    (result,) = transfer(Lanes({"%r1": Unknown(frozenset())}))
    assert isinstance(result, Known)
    for number in (0, 1, 7, 8, 100, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1):
        assert may_be(result, 0, {}, form.meaning(number, 7), 32)


@pytest.mark.parametrize(
    "form", [f for f in FORMS if str(f)[:4] in ("add.", "setp", "mul.")], ids=str
)
def test_affine_operands_are_answered(form: Form) -> None:
    """A counter against a constant: what every loop does must not be lost."""
    if "hi" in str(form).split(".")[1:2] and str(form).startswith("mul"):
        pytest.skip("the high half of an affine product is not affine")
    symbol = Symbol("k", 0)
    counter = Known(3, {symbol: 4})
    operands: list[Known | int] = [counter, Known(96)]
    operands += [Known(1)] * (len(form.sources) - 2)
    assert check(form, operands, [symbol], np.ones(LANES, dtype=bool))


@pytest.mark.parametrize(
    ("kind", "register", "given_value", "expected"),
    [
        ("u8", "%h1", 200, 200),
        ("s8", "%h1", 200, -56),
        ("b8", "%r1", 200, 200),
        ("u16", "%r1", 60000, 60000),
        ("s16", "%r1", 60000, -5536),
        ("u16", "%h1", 60000, 60000 - 65536),
        ("u32", "%d1", 2**32 - 1, 2**32 - 1),
        ("s32", "%d1", -1, -1),
        ("u8", "%r1", -1, 255),
    ],
)
def test_parameters_are_extended(kind: str, register: str, given_value: int, expected: int) -> None:
    """A load into a wider register extends by its type (PTX ISA, operand size exceeding size)."""
    text = (
        f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .{kind} n)\n{{\n"
        ".reg .b16 %h<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n"
        f"ld.param.{kind} {register}, [n];\nret;\n}}\n"
    )
    kernel = parse_kernel(text, "one.ptx")
    launch = Launch((32, 1, 1), (1, 1, 1), {"n": given_value})
    state = LaneState(kernel, launch, BlockIndex((0, 0, 0), (None, None, None)), (0,))
    (value,) = compile_transfer(kernel.instructions[0], 0, kernel.registers)(state)
    assert isinstance(value, Known)
    assert value.base == expected
