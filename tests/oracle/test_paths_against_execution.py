"""Extracted paths against execution where loops are awkward: breaks, toggles, narrow counters.

Every body of these random kernels sits in a loop, many of them long enough to be summarised and not
only walked through; what decides inside depends on counters, lanes, both block indices and flags
with periods. The interpreter (simt.py) simply runs them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from parsing import parse_file
from places import REFERENCE
from simt import check, parse

from ptxwcet.flow.launch import Launch

PTX = REFERENCE / "ptx"

PROLOGUE = (
    "ld.param.u32 %r1, [n];",
    "mov.u32 %r2, %tid.x;",
    "mov.u32 %r3, %ctaid.x;",
    "mov.u32 %r4, %tid.y;",
    "mov.u32 %r5, %ctaid.y;",
    "mov.u32 %r6, 0;",
    "mov.u32 %r7, 1;",
    "mov.u32 %r8, %laneid;",
    "mov.u32 %r9, 5;",
)
PLAIN = tuple(f"%r{i}" for i in range(1, 10))
FORMULAS = (
    "add.s32 {0}, {1}, {2}",
    "sub.s32 {0}, {1}, {2}",
    "mad.lo.s32 {0}, {1}, {3}, {2}",
    "and.b32 {0}, {1}, {3}",
    "or.b32 {0}, {1}, {3}",
    "xor.b32 {0}, {1}, {3}",
    "shl.b32 {0}, {1}, {3}",
    "shr.u32 {0}, {1}, {3}",
    "shr.s32 {0}, {1}, 1",
    "min.s32 {0}, {1}, {2}",
    "max.u32 {0}, {1}, {2}",
    "div.u32 {0}, {1}, {3}",
    "rem.s32 {0}, {1}, {3}",
    "not.b32 {0}, {1}",
    "cvt.u32.u8 {0}, {1}",
    "cvt.s32.s16 {0}, {1}",
    "cvt.u8.u32 {0}, {1}",
)
UPDATES = (
    "xor.b32 {0}, {0}, 1",
    "add.s32 {0}, {0}, 1",
    "add.s32 {0}, {0}, %r2",
    "add.s32 {0}, {0}, -3",
    "mov.u32 {0}, %r8",
    "mov.u32 {0}, %r6",
    "mov.u32 {0}, %r7",
    "sub.s32 {0}, 3, {0}",
    "shl.b32 {0}, {0}, 1",
    "and.b32 {0}, {0}, 3",
)


class Awkward:
    """Writes a random kernel; ``%h`` are 16-bit, ``%r`` 32-bit and ``%d`` 64-bit registers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.used = {"h": 0, "r": 9, "d": 0, "p": 0, "L": 0}

    def fresh(self, letter: str) -> str:
        self.used[letter] += 1
        return f"{'' if letter == 'L' else '%'}{letter}{self.used[letter]}"

    def emit(self, *lines: str) -> None:
        self.lines += lines

    def text(self) -> str:
        self.emit(*PROLOGUE)
        if self.random.random() < 0.3:
            self.emit(f"@{self.predicate()} {self.random.choice(['ret', 'exit'])};")
        for _ in range(self.random.randint(1, 2)):
            self.loop(0, [])
        declared = "".join(
            f".reg .{kind} %{letter}<{self.used[letter] + 1}>;\n"
            for letter, kind in (("h", "b16"), ("r", "b32"), ("d", "b64"), ("p", "pred"))
        )
        body = "\n".join(self.lines)
        return (
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u32 n)\n{\n"
            f"{declared}{body}\nret;\n}}\n"
        )

    # --- values and tests -------------------------------------------------------------------------

    def value(self, counters: Sequence[str] = ()) -> str:
        """A 32-bit register: launch facts, a counter, a flag or something computed from them."""
        choices = [*PLAIN, *counters, *counters]
        source = self.random.choice(choices)
        if self.random.random() < 0.5:
            return source
        result, small = self.fresh("r"), self.random.choice([1, 2, 3, 5, 8])
        formula = self.random.choice(FORMULAS)
        self.emit(formula.format(result, source, self.random.choice(choices), small) + ";")
        return result

    def predicate(self, counters: Sequence[str] = ()) -> str:
        form = self.random.choice(["lt.s32", "le.u32", "gt.s32", "ge.u32", "eq.s32", "ne.s32"])
        left = self.value(counters)
        right = self.random.choice([str(self.random.randint(0, 40)), "3", self.value(counters)])
        name = self.fresh("p")
        self.emit(f"setp.{form} {name}, {left}, {right};")
        if self.random.random() < 0.2:
            joined, operator = self.fresh("p"), self.random.choice(["and", "or", "xor"])
            self.emit(f"setp.lt.{operator}.s32 {joined}, {self.value(counters)}, 9, {name};")
            return joined
        return self.random.choice([name, "!" + name])

    # --- statements -------------------------------------------------------------------------------

    def loop(self, depth: int, counters: list[str]) -> None:
        head, out, again = self.fresh("L"), self.fresh("L"), self.fresh("L")
        kind = self.random.choice(["s32", "s32", "u32", "s64", "u16"])
        letter = {"16": "h", "32": "r", "64": "d"}[kind[1:]]
        counter, step = self.fresh(letter), self.random.choice([1, 1, 2, 3, 7])
        trips = self.random.choice([3, 5, 12, 33] if depth == 0 else [2, 3, 5])
        start = self.random.choice([0, 0, 1, 5])
        wide = self.fresh("r") if letter != "r" else counter
        self.emit(f"mov.b{kind[1:]} {counter}, {start};")
        limit = self.limit(kind, start + step * trips, counters)
        test = self.random.choice(["lt", "ne"]) if limit.isdigit() else "lt"
        rotated, p = self.random.random() < 0.6, self.fresh("p")
        self.emit(f"{head}:")
        if not rotated:
            inverse = {"lt": "ge", "ne": "eq"}[test]
            self.emit(f"setp.{inverse}.{kind} {p}, {counter}, {limit};", f"@{p} bra {out};")
        if letter != "r":
            self.emit(f"cvt.u32.u{kind[1:]} {wide}, {counter};")
        self.body(depth + 1, [*counters, wide], out, again)
        self.emit(f"{again}:", f"add.{kind} {counter}, {counter}, {step};")
        if rotated:
            self.emit(f"setp.{test}.{kind} {p}, {counter}, {limit};", f"@{p} bra {head};")
        else:
            self.emit(f"bra {head};")
        self.emit(f"{out}:")

    def limit(self, kind: str, number: int, counters: list[str]) -> str:
        if kind not in ("s32", "u32") or self.random.random() < 0.5:
            return str(number)
        result = self.fresh("r")
        self.emit(f"and.b32 {result}, {self.value(counters)}, {self.random.choice([3, 7, 31])};")
        return result

    def body(self, depth: int, counters: list[str], out: str, again: str) -> None:
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if kind < 0.2 and depth < 3:
                self.loop(depth, counters)
            elif kind < 0.45:
                self.branch(depth, counters, out, again)
            elif kind < 0.53:
                self.emit(f"@{self.predicate(counters)} bra {self.random.choice([out, again])};")
            elif kind < 0.56:
                self.emit(f"@{self.predicate(counters)} ret;")
            else:
                self.flag(counters)

    def branch(self, depth: int, counters: list[str], out: str, again: str) -> None:
        other, join = self.fresh("L"), self.fresh("L")
        self.emit(f"@{self.predicate(counters)} bra {other};")
        if depth < 4:
            self.body(depth + 1, counters, out, again)
        if self.random.random() < 0.5:
            self.emit(f"bra {join};", f"{other}:")
            self.flag(counters)
            self.emit(f"{join}:")
        else:
            self.emit(f"{other}:")

    def flag(self, counters: list[str]) -> None:
        guard = f"@{self.predicate(counters)} " if self.random.random() < 0.3 else ""
        update = self.random.choice(UPDATES).format(self.random.choice(["%r6", "%r7", "%r9"]))
        self.emit(f"{guard}{update};")


LAUNCHES = st.builds(
    lambda block, grid, n: Launch(block, grid, {"n": n}),
    st.sampled_from([(32, 1, 1), (8, 8, 1), (40, 1, 1), (16, 3, 1), (5, 1, 1)]),
    st.sampled_from([(1, 1, 1), (3, 1, 1), (2, 2, 1), (9, 1, 1)]),
    st.integers(0, 20),
)


@settings(max_examples=12, deadline=None)
# an open branch to the next instruction
@example(seed=152867, launch=Launch((32, 1, 1), (1, 1, 1), {"n": 0}))
# a part of a warp that falls apart ends inside of the loop
@example(seed=17, launch=Launch((32, 1, 1), (9, 1, 1), {"n": 0}))
@given(seed=st.integers(0, 10**9), launch=LAUNCHES)
def test_awkward_kernels(seed: int, launch: Launch) -> None:
    check(parse(Awkward(seed).text()), launch)


def test_most_awkward_kernels_are_answered() -> None:
    launch = Launch((32, 1, 1), (1, 1, 1), {"n": 6})
    answered = sum(check(parse(Awkward(seed).text()), launch) for seed in range(15))
    assert answered >= 9


def kernel_text(body: str) -> str:
    return (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u8 n)\n{\n"
        ".reg .b16 %h<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n.reg .pred %p<9>;\n"
        f"{body}\nret;\n}}\n"
    )


BYTE_PARAMETER = """
ld.param.u8 %h1, [n]; cvt.u32.u16 %r1, %h1; mov.u32 %r2, 0;
L: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;
"""
BYTE_CONVERSION = """
mov.u32 %r1, 65736; cvt.u8.u32 %r2, %r1; mov.u32 %r3, 0;
L: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r2; @%p1 bra L;
"""
LONG_COMPARISON = """
mov.u32 %r1, %tid.x; cvt.u64.u32 %d1, %r1; shl.b64 %d4, %d1, 63; mov.u64 %d3, 1;
setp.lt.s64 %p2, %d4, %d3; @%p2 bra M; add.u32 %r1, %r1, 1; M:
"""
LATE_IMMEDIATE = """
mad.wide.u32 %d1, 1, 1, 4294967295; mov.u64 %d2, 0;
L: add.u64 %d2, %d2, 858993459; setp.lt.u64 %p1, %d2, %d1; @%p1 bra L;
"""


@pytest.mark.parametrize("body", [BYTE_PARAMETER, BYTE_CONVERSION, LONG_COMPARISON, LATE_IMMEDIATE])
def test_values_that_once_were_wrong(body: str) -> None:
    assert check(parse(kernel_text(body)), Launch((32, 1, 1), (1, 1, 1), {"n": 200}))


@pytest.mark.parametrize("threads", [32, 72, 128])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("vecadd", {3: 100}),
        ("saxpy_loop", {3: 500}),
        ("reduce_smem", {2: 300}),
        ("matvec_f64", {3: 8}),
        ("stencil1d", {}),
        ("diverge", {2: 12}),
    ],
)
def test_reference_kernels(name: str, values: dict[int, int], threads: int) -> None:
    path = PTX / "kernels.ptx"
    module = parse_file(path)
    kernel = next(k for k in module.kernels if k.name == name)
    scalars = {p.name: 90 for p in kernel.parameters if not p.is_array and p.type[0] != "f"}
    scalars |= {kernel.parameters[i].name: value for i, value in values.items()}
    assert check(kernel, Launch((threads, 1, 1), (2, 1, 1), scalars))
