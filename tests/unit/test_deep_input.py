"""Input that is deep: answered or refused with a code, whatever the depth; no depth of Python's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from programs import run_program

import ptxwcet
from ptxwcet.flow.graph.inlining import MOST_COPIED, inline_calls
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

pytestmark = pytest.mark.fast

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def in_kernel(text: str) -> str:
    return (
        f"{HEAD}.entry k(.param .u32 n)\n{{\n.reg .pred %p;\n.reg .b32 %r<9>;\n{text}\nret;\n}}\n"
    )


def calls(levels: int, times: int) -> str:
    """Functions of which each calls the one before so many times."""
    rows = [".func f0() { .reg .b32 %r<3>; mov.u32 %r1, 1; ret; }"]
    rows += (f".func f{n}() {{ {f'call f{n - 1}; ' * times}ret; }}" for n in range(1, levels))
    return "\n".join([HEAD, *rows, f".entry k() {{ call f{levels - 1}; ret; }}", ""])


def branches(depth: int) -> str:
    begin = "".join(f"setp.gt.s32 %p, %r1, {n};\n@%p bra L{n};\n" for n in range(depth))
    return in_kernel(begin + "".join(f"L{n}:\n" for n in reversed(range(depth))))


def loops(depth: int) -> str:
    begin = "".join(f"L{n}:\n" for n in range(depth))
    end = "".join(f"setp.lt.s32 %p, %r1, 1;\n@%p bra L{n};\n" for n in reversed(range(depth)))
    return in_kernel(begin + end)


def chain(depth: int) -> str:
    """Values of which each depends on the one before."""
    rows = [f".reg .b32 %v<{depth + 1}>;", "mov.u32 %v0, %tid.x;"]
    rows += (f"add.u32 %v{n}, %v{m}, %v{m};" for m, n in pairwise(range(depth)))
    return in_kernel("\n".join([*rows, f"L:\nsetp.lt.u32 %p, %r1, %v{depth - 1};\n@%p bra L;"]))


SHAPES: dict[str, Callable[[int], str]] = {
    "scopes": lambda depth: in_kernel("{" * depth + "}" * depth),
    "unclosed scopes": lambda depth: in_kernel("{" * depth),
    "parentheses": lambda depth: in_kernel(f"mov.u32 %r1, {'(' * depth}1{')' * depth};"),
    "signs": lambda depth: in_kernel(f"mov.u32 %r1, {'-' * depth}1;"),
    "complements": lambda depth: in_kernel(f"mov.u32 %r1, {'~ ' * depth}1;"),
    "sums": lambda depth: in_kernel(f"mov.u32 %r1, {'1+' * depth}1;"),
    "choices": lambda depth: in_kernel(f"mov.u32 %r1, {'1?2:' * depth}1;"),
    "vectors": lambda depth: in_kernel(f"mov.u32 %r1, {'{' * depth}%r1{'}' * depth};"),
    "brackets": lambda depth: in_kernel(f"ld.global.u32 %r1, {'[' * depth}%r1{']' * depth};"),
    "offsets": lambda depth: in_kernel(f"ld.global.u32 %r1, [%r1{'+1' * depth}];"),
    "initialisers": lambda depth: (
        in_kernel("") + f".global .u32 a[1] = {'{' * depth}1{'}' * depth};\n"
    ),
    "dimensions": lambda depth: in_kernel("") + f".global .u32 a{'[1]' * depth};\n",
    "names": lambda depth: in_kernel("").replace(" k(", f" _Z1kI{'1SI' * depth}i{'E' * depth}Evv("),
    "pointers": lambda depth: in_kernel("").replace(" k(", f" _Z1k{'P' * depth}i("),
    "calls": lambda depth: calls(depth, 1),
    "doubled calls": lambda depth: calls(min(depth, 5_000), 2),
    "branches": branches,
    "loops": loops,
    "values": chain,
}


DEPTHS = (300, 1_500, 10_000)
LONG = ("branches", "loops", "values")  # not deep for Python, but long for the analysis


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("shape", "depth"),
    [(shape, depth) for shape in SHAPES for depth in DEPTHS if depth == 300 or shape not in LONG],
)
def test_depth(shape: str, depth: int, tmp_path: Path) -> None:
    path = tmp_path / "deep.ptx"
    path.write_text(SHAPES[shape](depth))
    shown = run_program(path, "--block", "32", "-q")
    assert "PW901" not in shown.err
    assert shown.code in (0, 1)


def test_chains_of_calls_are_bounded() -> None:
    cycles = [ptxwcet.bound(calls(levels, 1), block=32).cycles for levels in (1, 2, 1_000)]
    assert cycles[2] - cycles[0] == 999 * (cycles[1] - cycles[0])


def test_copies_are_counted() -> None:
    assert len(inlined(calls(8, 2)).instructions) == 5 * 2**7 - 1  # t(0) = 2, t(n) = 2 t(n - 1) + 3
    with pytest.raises(PtxwcetError) as raised:
        inlined(calls(60, 2))
    (one,) = raised.value.diagnostics
    assert one.code == "PW252"
    assert one.span is not None
    # names are counted, too: those of a function with many registers and few instructions
    wide = calls(2, 200).replace("%r<3>", "%r<60000>")
    with pytest.raises(PtxwcetError, match=f"{MOST_COPIED:,}"):
        inlined(wide)


def inlined(text: str) -> Kernel:
    module = parse_module(SourceFile("k.ptx", text))
    return inline_calls(module.kernels[0], module)
