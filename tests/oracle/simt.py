"""A slow SIMT interpreter for one warp; extracted paths compared with what it executes.

The interpreter shares nothing with path extraction: lanes are dictionaries of Python ints, blocks
and post-dominators are found from their definitions, loops simply run. Loads give 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.flow.paths.extraction import extract_paths
from ptxwcet.flow.walk.path import Visit
from ptxwcet.ir.kernel import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Pair,
    Register,
    SpecialRegister,
    SymbolRef,
)
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile
from ptxwcet.validate.containment import find_departure

Executed = list[tuple[int, bool]]  # first instruction of the block, taken

# --- the interpreter ------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
    "shl": lambda a, b: a << b if b < 64 else 0,
    "shr": lambda a, b: a >> min(b, 64),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "mov": lambda a: a,
    "cvt": lambda a: a,
    "cvta": lambda a: a,
    "neg": lambda a: -a,
    "not": lambda a: ~a,
    "div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0,
    "rem": lambda a, b: (abs(a) % abs(b)) * (1 if a >= 0 else -1) if b else 0,
    "selp": lambda a, b, p: a if p else b,
}
COMPARISONS: dict[str, Callable[..., bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


@dataclass(frozen=True)
class Decoded:
    """What executing an instruction needs, looked up once."""

    name: str
    types: tuple[str, ...]
    operands: tuple[Operand, ...]
    modifiers: tuple[str, ...]
    writes: tuple[str, ...]
    guard: Guard | None
    target: int | None


class Blocks:
    """The blocks of a kernel by their first instruction, and where divergent lanes meet again."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        code = kernel.instructions
        self.code = [self._decoded(one) for one in code]
        self.ends = {i for i, one in enumerate(self.code) if one.name in ("bra", "ret", "exit")}
        targets = {one.target for one in self.code if one.target is not None}
        self.leaders = sorted(({0} | targets | {i + 1 for i in self.ends}) - {len(code)})
        self.last = {
            start: end - 1
            for start, end in zip(self.leaders, [*self.leaders[1:], len(code)], strict=True)
        }
        self.join = self._postdominators()

    def _decoded(self, one: Instruction) -> Decoded:
        return Decoded(
            one.opcode.name if one.opcode is not None else "",
            tuple(m for m in one.modifiers if m == "pred" or (m[0] in "usb" and m[1:].isdigit())),
            one.operands,
            one.modifiers,
            one.writes,
            one.guard,
            self.kernel.labels[one.targets[0]] if one.targets else None,
        )

    def successors(self, leader: int) -> list[int]:
        last = self.last[leader]
        one = self.code[last]
        if last not in self.ends:
            return [last + 1]
        away = len(self.code) if one.target is None else one.target
        return [away] if one.guard is None else [away, last + 1]

    def _postdominators(self) -> dict[int, int]:
        """The nearest block on all paths to the end, by removing each block in turn."""
        end = len(self.code)
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


@lru_cache(maxsize=8)
def blocks_of(kernel: Kernel) -> Blocks:
    return Blocks(kernel)


class Interpreter:
    """Executes one warp; ``trace`` is the sequence of blocks, taken sides first."""

    def __init__(
        self, kernel: Kernel, launch: Launch, warp: int, block: tuple[int, int, int]
    ) -> None:
        self.blocks = blocks_of(kernel)
        self.trace: Executed = []
        x, y, _ = launch.block
        self.lanes: dict[int, dict[str, int]] = {}
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
                self.lanes[lane]["%laneid"] = lane
        self.parameters = launch.parameters
        self.run(0, set(self.lanes), len(self.blocks.code))

    def run(self, block: int, mask: set[int], stop: int) -> set[int]:
        blocks = self.blocks
        end = len(blocks.code)
        while mask and block not in (stop, end):
            last = blocks.last[block]
            for index in range(block, last + 1):
                if index not in blocks.ends:
                    self.execute(index, mask)
            if last not in blocks.ends:
                self.trace.append((block, False))
                block = last + 1
                continue
            one = blocks.code[last]
            leaving = {lane for lane in mask if self.holds(one.guard, lane)}
            staying = mask - leaving
            target = one.target
            if target is None:
                self.trace.append((block, False))
                mask, block = staying, last + 1
                continue
            if not leaving or not staying or target == last + 1:
                self.trace.append((block, bool(leaving)))
                block = target if leaving else last + 1
                continue
            join = blocks.join[block]
            self.trace.append((block, target != join))
            mask = self.run(target, leaving, join) | self.run(last + 1, staying, join)
            block = join
        return mask

    def holds(self, guard: Guard | None, lane: int) -> bool:
        return guard is None or bool(self.lanes[lane][guard.register]) != guard.negated

    @staticmethod
    def typed(raw: int, modifier: str) -> int:
        bits = int(modifier[1:])
        raw &= (1 << bits) - 1
        return raw - (1 << bits) if modifier[0] == "s" and raw >> (bits - 1) else raw

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
        return raw if modifier == "pred" else self.typed(raw, modifier)

    def execute(self, index: int, mask: set[int]) -> None:
        one = self.blocks.code[index]
        for lane in mask:
            if one.writes and self.holds(one.guard, lane):
                results = self.results(one, lane)
                for register, result in zip(one.writes, results, strict=False):
                    self.lanes[lane][register] = result

    def results(self, one: Decoded, lane: int) -> list[int]:
        name, types, operands, modifiers = one.name, one.types, one.operands, one.modifiers
        if name == "ld" and types and isinstance(operands[1], Address) and "param" in modifiers:
            assert isinstance(operands[1].base, SymbolRef)
            return [self.typed(int(self.parameters.get(operands[1].base.name, 0)), types[-1])]
        if name == "setp" and types:
            a, b = (self.value(o, lane, types[-1]) for o in operands[1:3])
            outcome = COMPARISONS[modifiers[0]](a, b)
            pair = [int(outcome), int(not outcome)]
            joined = next((m for m in modifiers[1:] if m in ("and", "or", "xor")), None)
            if joined is not None:
                other = self.value(operands[3], lane, "pred")
                pair = [OPERATIONS[joined](side, other) for side in pair]
            return pair if isinstance(operands[0], Pair) else pair[:1]
        if name not in OPERATIONS or not types:
            return [0] * 4
        source = types[-1] if name in ("cvt", "mul", "mad") else types[0]
        inputs = [self.value(o, lane, source) for o in operands[1:]]
        if name == "mad" and "wide" in modifiers:
            inputs[2] = self.value(operands[3], lane, f"{source[0]}{2 * int(source[1:])}")
        if name == "selp":
            inputs[2] = self.value(operands[3], lane, "pred")
        result = OPERATIONS[name](*inputs)
        return [self.typed(result, types[0]) if name == "cvt" else result]


# --- comparison -----------------------------------------------------------------------------------


def check(kernel: Kernel, launch: Launch, bounds: Mapping[int, int] | None = None) -> bool:
    """Compares every warp of every block; False if the analysis refuses the kernel."""
    flow = ControlFlow.of(kernel)
    cfg = flow.cfg
    try:
        pieces = extract_paths(flow, launch, PlacedFacts(bounds or {}))
    except PtxwcetError:
        return False
    block_at = {block.start: block.id for block in cfg.blocks[:-1]}
    assert launch.grid is not None
    for x, y, warp in product(*map(range, (*launch.grid[:2], launch.warps))):
        trace = Interpreter(kernel, launch, warp, (x, y, 0)).trace
        executed = tuple(Visit(block_at[start], taken) for start, taken in trace)
        paths = [path.nodes for piece in pieces for path in piece.warps if warp in path.warps]
        assert any(find_departure(nodes, executed) is None for nodes in paths)
    return True


def parse(text: str) -> Kernel:
    return parse_module(SourceFile("random.ptx", text)).kernels[0]
