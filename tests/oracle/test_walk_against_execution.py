"""Extracted paths against execution: a slow SIMT interpreter and random kernels.

The interpreter shares nothing with path extraction: lanes are dictionaries of Python ints, blocks
and post-dominators are found from their definitions, loops simply run.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxwcet.flow.cfg import build_cfg
from ptxwcet.flow.dominance import compute_dominators, compute_postdominators
from ptxwcet.flow.extraction import extract_paths
from ptxwcet.flow.facts import Launch
from ptxwcet.flow.loops import find_loops
from ptxwcet.flow.paths import (
    PathChoice,
    PathGrowing,
    PathLoop,
    PathNode,
    PathRepeat,
    PathUnordered,
    Visit,
)
from ptxwcet.ir.kernel import Address, Immediate, Kernel, Negated, Pair, Register, SpecialRegister
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

Executed = list[tuple[int, bool]]  # first instruction of the block, taken

ROOT = Path(__file__).parents[2]

# --- the interpreter ------------------------------------------------------------------------------

OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
    "shl": lambda a, b: a << b if b < 64 else 0,
    "shr": lambda a, b: a >> b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "mov": lambda a: a,
    "cvt": lambda a: a,
    "cvta": lambda a: a,
    "neg": lambda a: -a,
    "selp": lambda a, b, p: a if p else b,
}
COMPARISONS = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


class Interpreter:
    """Executes one warp; ``trace`` is the sequence of blocks, taken sides first."""

    def __init__(
        self, kernel: Kernel, launch: Launch, warp: int, block: tuple[int, int, int]
    ) -> None:
        self.kernel = kernel
        self.trace: Executed = []
        ends = {"bra", "ret", "exit"}
        code = kernel.instructions
        self.ends = {
            i for i, one in enumerate(code) if one.opcode is not None and one.opcode.name in ends
        }
        targets = {kernel.labels[t] for one in code for t in one.targets}
        self.leaders = sorted(({0} | targets | {i + 1 for i in self.ends}) - {len(code)})
        self.join = self._postdominators()
        x, y, _ = launch.block
        self.lanes = {}
        for lane in range(32):
            thread = warp * 32 + lane
            if thread < launch.threads:
                tid = (thread % x, thread // x % y, thread // (x * y))
                self.lanes[lane] = {
                    f"%{name}.{axis}": value[i]
                    for name, value in (
                        ("tid", tid),
                        ("ctaid", block),
                        ("ntid", launch.block),
                        ("nctaid", launch.grid or (1, 1, 1)),
                    )
                    for i, axis in enumerate("xyz")
                }
        self.parameters = launch.parameters
        self.run(0, set(self.lanes), len(code))

    def end_of(self, leader: int) -> int:
        later = [one for one in self.leaders if one > leader]
        return later[0] if later else len(self.kernel.instructions)

    def successors(self, leader: int) -> list[int]:
        last = self.end_of(leader) - 1
        one = self.kernel.instructions[last]
        if last not in self.ends:
            return [last + 1]
        away = [self.kernel.labels[t] for t in one.targets] or [len(self.kernel.instructions)]
        return away if one.guard is None else [*away, last + 1]

    def _postdominators(self) -> dict[int, int]:
        """The nearest block on all paths to the end, by removing each block in turn."""
        end = len(self.kernel.instructions)
        join = {}
        for block in self.leaders:
            strict = [
                other
                for other in (*self.leaders, end)
                if other != block and not self._reaches(block, end, without=other)
            ]
            join[block] = self._nearest(strict, end)
        return join

    def _nearest(self, candidates: list[int], end: int) -> int:
        """The candidate that all the others still lie behind."""
        for one in candidates:
            others = [o for o in candidates if o != one]
            if one != end and all(not self._reaches(one, end, without=o) for o in others):
                return one
        return end

    def _reaches(self, start: int, end: int, without: int) -> bool:
        if without == end:
            return False
        seen, stack = {start}, [start]
        while stack:
            block = stack.pop()
            if block == end:
                return True
            for following in self.successors(block):
                if following != without and following not in seen:
                    seen.add(following)
                    stack.append(following)
        return False

    def run(self, block: int, mask: set[int], stop: int) -> set[int]:
        end = len(self.kernel.instructions)
        while mask and block not in (stop, end):
            last = self.end_of(block) - 1
            for index in range(block, last + 1):
                if index not in self.ends:
                    self.execute(index, mask)
            if last not in self.ends:
                self.trace.append((block, False))
                block = last + 1
                continue
            one = self.kernel.instructions[last]
            leaving = {lane for lane in mask if self.holds(one.guard, lane)}
            staying = mask - leaving
            if not one.targets:
                self.trace.append((block, False))
                mask, block = staying, last + 1
                continue
            target = self.kernel.labels[one.targets[0]]
            if not leaving or not staying or target == last + 1:
                self.trace.append((block, bool(leaving)))
                block = target if leaving else last + 1
                continue
            join = self.join[block]
            self.trace.append((block, target != join))
            mask = self.run(target, leaving, join) | self.run(last + 1, staying, join)
            block = join
        return mask

    def holds(self, guard: object, lane: int) -> bool:
        if guard is None:
            return True
        return bool(self.lanes[lane][guard.register]) != guard.negated  # type: ignore[attr-defined]

    def value(self, operand: object, lane: int, modifier: str) -> int:
        match operand:
            case Register(name):
                raw = self.lanes[lane].get(name, 0)
            case SpecialRegister(name):
                raw = self.lanes[lane].get(name, 0)
            case Immediate(value):
                raw = int(value)
            case Negated(inner):
                return int(not self.value(inner, lane, "pred"))
            case _:
                raw = 0
        if modifier == "pred":
            return raw
        bits = int(modifier[1:])
        raw &= (1 << bits) - 1
        return raw - (1 << bits) if modifier[0] == "s" and raw >> (bits - 1) else raw

    def execute(self, index: int, mask: set[int]) -> None:
        one = self.kernel.instructions[index]
        name = one.opcode.name if one.opcode is not None else ""
        types = [m for m in one.modifiers if m == "pred" or (m[0] in "usb" and m[1:].isdigit())]
        for lane in mask:
            if one.writes and self.holds(one.guard, lane):
                results = self.results(name, one, types, lane)
                for register, result in zip(one.writes, results, strict=False):
                    self.lanes[lane][register] = result

    def results(self, name: str, one: object, types: list[str], lane: int) -> list[int]:
        operands = one.operands  # type: ignore[attr-defined]
        modifiers = one.modifiers  # type: ignore[attr-defined]
        if name == "ld" and isinstance(operands[1], Address) and "param" in modifiers:
            return [int(self.parameters.get(operands[1].base.name, 0)) & (2**64 - 1)]
        if name == "setp" and types:
            a, b = (self.value(o, lane, types[-1]) for o in operands[1:3])
            outcome = COMPARISONS[modifiers[0]](a, b)
            pair = [int(outcome), int(not outcome)]
            return pair if isinstance(operands[0], Pair) else pair[:1]
        if name not in OPERATIONS or not types:
            return [0] * 4
        source = types[-1] if name in ("cvt", "mul", "mad") else types[0]
        inputs = [self.value(o, lane, source) for o in operands[1:]]
        if name == "mad" and "wide" in modifiers:
            inputs[2] = self.value(operands[3], lane, f"{source[0]}{2 * int(source[1:])}")
        if name == "selp":
            inputs[2] = self.value(operands[3], lane, "pred")
        return [OPERATIONS[name](*inputs)]


# --- matching paths -------------------------------------------------------------------------------


def match_path(
    nodes: tuple[PathNode, ...], trace: Executed, starts: list[int], at: set[int], index: int = 0
) -> set[int]:
    """The positions of the trace that the nodes can end at, from any position of ``at``."""
    for node in nodes:
        match node:
            case Visit(block, taken):
                step = (starts[block], taken)
                at = {p + 1 for p in at if p < len(trace) and trace[p] == step}
            case PathRepeat(count, least, body):
                at = repeated(body, trace, starts, at, (least.base, count.base))
            case PathGrowing(first, step, body):
                count = first + step * index
                at = repeated(body, trace, starts, at, (count, count))
            case PathLoop(body=body):
                at = match_path(body, trace, starts, at, index)
            case PathUnordered(first, second):
                at = match_path(first + second, trace, starts, at)
            case PathChoice(alternatives):
                at = set().union(*(match_path(one, trace, starts, at) for one in alternatives))
    return at


def repeated(
    body: tuple[PathNode, ...],
    trace: Executed,
    starts: list[int],
    at: set[int],
    counts: tuple[int, int],
) -> set[int]:
    least, most = counts
    ends = set(at) if least == 0 else set()
    for i in range(most):
        at = match_path(body, trace, starts, at, i)
        if i + 1 >= least:
            ends |= at
        if not at:
            break
    return ends


def check(kernel: Kernel, launch: Launch) -> bool:
    """Compares every warp of every block; False if the analysis refuses the kernel."""
    cfg = build_cfg(kernel)
    forest = find_loops(cfg, compute_dominators(cfg))
    joins = tuple(compute_postdominators(cfg).immediate)
    try:
        pieces = extract_paths(kernel, cfg, forest, joins, launch, {})
    except PtxwcetError:
        return False
    starts = [block.start for block in cfg.blocks]
    assert launch.grid is not None
    for x in range(launch.grid[0]):
        for warp in range(launch.warps):
            trace = Interpreter(kernel, launch, warp, (x, 0, 0)).trace
            paths = [path.nodes for piece in pieces for path in piece.warps if warp in path.warps]
            assert any(len(trace) in match_path(nodes, trace, starts, {0}) for nodes in paths)
    return True


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


def parse(text: str) -> Kernel:
    return parse_module(SourceFile("random.ptx", text)).kernels[0]


@settings(max_examples=150, deadline=None)
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
    answered = sum(check(parse(Writer(seed).text()), launch) for seed in range(100))
    assert answered >= 90


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 37, 70])
@pytest.mark.parametrize(
    "name",
    ["up", "down", "strided", "shifted", "while", "do_while", "unrolled", "triangular", "threads"],
)
def test_compiled_loops(name: str, n: int) -> None:
    if name == "while" and n == 0:
        n = 4
    path = ROOT / "samples/loops.ptx"
    module = parse_module(SourceFile(str(path), path.read_text()))
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
    module = parse_module(SourceFile(str(path), path.read_text()))
    kernel = next(k for k in module.kernels if k.name == name)
    parameters = {kernel.parameters[i].name: v for i, v in values.items()}
    assert check(kernel, Launch((threads, 1, 1), (3, 1, 1), parameters))
