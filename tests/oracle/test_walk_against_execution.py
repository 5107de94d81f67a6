"""Extracted paths against execution: a slow SIMT interpreter and random kernels.

The interpreter shares nothing with path extraction: lanes are dictionaries of Python ints, blocks
and post-dominators are found from their definitions, loops simply run.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing import parse_file
from places import ROOT
from simt import check, parse
from thoroughness import drawn

from ptxwcet.flow.launch import Launch

# --- random kernels -------------------------------------------------------------------------------


class Writer:
    """Writes a random structured kernel: nested counted loops, branches, guarded moves."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.labels = 0
        self.registers = 10
        self.predicates = 0

    def text(self) -> str:
        for line in (
            "ld.param.u32 %r1, [n];",
            "mov.u32 %r2, %tid.x;",
            "mov.u32 %r3, %ctaid.x;",
            "mov.u32 %r4, 0;",
            "mov.u32 %r5, 7;",
        ):
            self.lines.append(line)
        if self.random.random() < 0.2:
            p = self.predicate(f"ge.s32 {{}}, %r2, {self.random.randint(1, 80)}")
            self.lines.append(f"@{p} ret;")
        self.body(0, [])
        body = "\n".join(self.lines)
        return (
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u32 n)\n{\n"
            f".reg .b32 %r<{self.registers + 1}>;\n.reg .pred %p<{self.predicates + 1}>;\n"
            f"{body}\nret;\n}}\n"
        )

    def predicate(self, form: str) -> str:
        self.predicates += 1
        name = f"%p{self.predicates}"
        self.lines.append(f"setp.{form.format(name)};")
        return name

    def register(self) -> str:
        self.registers += 1
        return f"%r{self.registers}"

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def body(self, depth: int, counters: list[str]) -> None:
        for _ in range(self.random.randint(1, 2)):
            kind = self.random.random()
            if depth < 3 and kind < 0.5:
                self.loop(depth, counters)
            elif depth < 4 and kind < 0.75:
                self.branch(depth, counters)
            else:
                self.move(counters)

    def limit(self, counters: list[str]) -> str:
        choices = ["%r1", str(self.random.randint(1, 7))]
        result = self.register()
        kind = self.random.randint(0, 4)
        if kind == 0:
            self.lines.append(f"and.b32 {result}, %r2, {self.random.choice([1, 3, 7])};")
            self.lines.append(f"add.s32 {result}, {result}, 1;")
            return result
        if kind == 1 and counters:
            self.lines.append(f"add.s32 {result}, {self.random.choice(counters)}, 1;")
            return result
        if kind == 2:
            self.lines.append(f"add.s32 {result}, %r3, {self.random.randint(0, 3)};")
            return result
        if kind == 3 and counters:
            self.lines.append(f"sub.s32 {result}, %r1, {self.random.choice(counters)};")
            return result
        self.registers -= 1
        return self.random.choice(choices)

    def loop(self, depth: int, counters: list[str]) -> None:
        shape = self.random.choice(["rotated", "while", "down", "shift", "times"])
        counter, head, out = self.register(), self.label(), self.label()
        step = self.random.randint(1, 3)
        limit = self.limit(counters)
        start = {"down": str(step * self.random.randint(1, 5)), "times": "1"}.get(shape, "0")
        self.lines.append(f"mov.u32 {counter}, {limit if shape == 'shift' else start};")
        self.lines.append(f"{head}:")
        if shape == "while":
            p = self.predicate(f"ge.s32 {{}}, {counter}, {limit}")
            self.lines.append(f"@{p} bra {out};")
        self.body(depth + 1, [*counters, counter])
        if shape == "while":
            self.lines += [f"add.s32 {counter}, {counter}, {step};", f"bra {head};", f"{out}:"]
            return
        update, test = {
            "rotated": (
                f"add.s32 {counter}, {counter}, {step}",
                f"lt.s32 {{}}, {counter}, {limit}",
            ),
            "down": (f"sub.s32 {counter}, {counter}, {step}", f"ne.s32 {{}}, {counter}, 0"),
            "shift": (f"shr.s32 {counter}, {counter}, 1", f"gt.s32 {{}}, {counter}, 0"),
            "times": (f"mul.lo.s32 {counter}, {counter}, 3", f"lt.s32 {{}}, {counter}, {limit}"),
        }[shape]
        self.lines.append(f"{update};")
        self.lines.append(f"@{self.predicate(test)} bra {head};")

    def branch(self, depth: int, counters: list[str]) -> None:
        other, out = self.label(), self.label()
        form = self.random.choice(
            ["lt.s32 {}, %r2, 13", "lt.s32 {}, %r3, 1", "eq.s32 {}, %r4, 0", "gt.s32 {}, %r1, 4"]
            + [f"lt.s32 {{}}, {counter}, 3" for counter in counters]
            + [f"lt.u32 {{}}, %r2, {counter}" for counter in counters]
        )
        p = self.predicate(form)
        bang = self.random.choice(["", "!"])
        self.lines.append(f"@{bang}{p} bra {other};")
        self.body(depth + 1, counters)
        if self.random.random() < 0.5:
            self.lines += [f"bra {out};", f"{other}:"]
            self.body(depth + 1, counters)
            self.lines.append(f"{out}:")
        else:
            self.lines.append(f"{other}:")

    def move(self, counters: list[str]) -> None:
        source = self.random.choice(["%r1", "%r2", *counters])
        p = self.predicate(f"gt.s32 {{}}, {source}, 2")
        self.lines.append(
            self.random.choice(
                [
                    "xor.b32 %r4, %r4, 1;",
                    f"@{p} xor.b32 %r4, %r4, 1;",
                    f"selp.b32 %r4, 0, 1, {p};",
                    "add.s32 %r5, %r5, %r1;",
                    f"and.b32 %r4, {source}, 1;",
                    f"max.s32 %r4, {source}, 3;",
                ]
            )
        )


@settings(max_examples=drawn(150), deadline=None)
@given(
    seed=st.integers(0, 10**9),
    n=st.integers(-1, 9),
    threads=st.sampled_from([8, 32, 48, 64]),
    grid=st.integers(1, 3),
)
def test_random_kernels(seed: int, n: int, threads: int, grid: int) -> None:
    launch = Launch((threads, 1, 1), (grid, 1, 1), {"n": n})
    check(parse(Writer(seed).text()), launch)


def test_most_random_kernels_are_answered() -> None:
    launch = Launch((48, 1, 1), (2, 1, 1), {"n": 6})
    answered = sum(check(parse(Writer(seed).text()), launch) for seed in range(drawn(100)))
    assert answered >= drawn(90)


@pytest.mark.every(2)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 37, 70])
@pytest.mark.parametrize(
    "name",
    ["up", "down", "strided", "shifted", "while", "do_while", "unrolled", "triangular", "threads"],
)
def test_compiled_loops(name: str, n: int) -> None:
    if name == "while" and n == 0:
        n = 4
    path = ROOT / "samples/loops.ptx"
    module = parse_file(path)
    kernel = next(k for k in module.kernels if k.name == f"loop_{name}")
    launch = Launch((64, 1, 1), (1, 1, 1), {kernel.parameters[1].name: n})
    assert check(kernel, launch)


@pytest.mark.parametrize(
    ("file", "name", "threads", "values"),
    [
        ("block_reduce", "block_reduce_tree", 128, {2: 500}),
        ("block_reduce", "block_reduce_shuffle", 96, {2: 301}),
        ("bitonic_sort", "bitonic_sort", 64, {}),
        ("scan", "scan", 128, {}),
        ("triangular", "triangular_sum", 32, {3: 77}),
        ("saxpy", "saxpy", 64, {0: 1000}),
        ("vector_add", "vector_add", 48, {3: 100}),
    ],
)
def test_compiled_kernels(file: str, name: str, threads: int, values: dict[int, int]) -> None:
    path = ROOT / f"samples/{file}.ptx"
    module = parse_file(path)
    kernel = next(k for k in module.kernels if k.name == name)
    parameters = {kernel.parameters[i].name: v for i, v in values.items()}
    assert check(kernel, Launch((threads, 1, 1), (3, 1, 1), parameters))
