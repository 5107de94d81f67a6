"""Runs one instruction over vectors of values: a kernel around it, parsed and executed."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
LETTERS = "abcdefg"


def header_of(text: str) -> str:
    """The head of a file with some statements: shfl and vote without .sync ended with sm_62."""
    if re.search(r"\b(shfl|vote)\.(?!sync)", text):
        return ".version 6.0\n.target sm_60\n.address_size 64\n"
    return HEADER


def evaluate(
    instruction: str,
    sources: Sequence[np.ndarray],
    results: Sequence[object],
    *,
    before: str = "",
    findings: bool = False,
):
    """The destinations of ``instruction`` for each element of the sources, as arrays.

    The sources are named ``%a``, ``%b``, ... and the destinations ``%r0``, ``%r1``, ...; their
    numpy types give the width of the registers, bool makes predicates. ``before`` is PTX that runs
    first. With ``findings`` the execution's findings come too. One thread an element, in blocks of
    at most 1024; the last elements are repeated to fill whole warps.
    """
    length = max(len(source) for source in sources)
    padded = -(-length // 32) * 32
    threads = min(padded, 1024)
    padded = -(-padded // threads) * threads
    given = [np.full(padded, s[-1], dtype=s.dtype) for s in sources]
    for array, source in zip(given, sources, strict=True):
        array[:length] = source
    kinds = [np.dtype(kind) for kind in results]
    outputs = [np.zeros(padded, "u1" if kind.kind == "b" else kind) for kind in kinds]
    inputs = [g.view("u1") if g.dtype.kind == "b" else g for g in given]
    text = _kernel(instruction, given, kinds, before)
    module = parse_module(SourceFile("one.ptx", text))
    launch = EmulatedLaunch((threads, 1, 1), (padded // threads, 1, 1), (*inputs, *outputs))
    done = execute(module.kernels[0], module, launch, options=EmulatorOptions())
    assert done.is_complete, done.findings
    found = [
        buffer[:length].astype(bool) if kind.kind == "b" else buffer[:length]
        for buffer, kind in zip(done.buffers[len(inputs) :], kinds, strict=True)
    ]
    answer = found[0] if len(found) == 1 else tuple(found)
    if findings:
        return answer, done.findings
    assert not done.findings, done.findings
    return answer


def _kernel(instruction, given, kinds, before):
    names = [f"p{i}" for i in range(len(given) + len(kinds))]
    parameters = ",\n  ".join(f".param .u64 {name}" for name in names)
    lines = [
        f"{header_of(instruction)}.visible .entry one({parameters})",
        "{",
        "  .reg .b32 %index, %byte, %cta, %width; .reg .b64 %at, %offset; .reg .pred %same;",
        "  mov.u32 %index, %tid.x; mov.u32 %cta, %ctaid.x; mov.u32 %width, %ntid.x;",
        "  mad.lo.u32 %index, %cta, %width, %index;",
    ]
    for position, source in enumerate(given):
        name = f"%{LETTERS[position]}"
        lines += _declare(name, source.dtype)
        lines += _locate(names[position], source.dtype.itemsize)
        lines += _load(name, source.dtype)
    for position, kind in enumerate(kinds):
        lines += _declare(f"%r{position}", kind)
    lines += [f"  {before}", f"  {instruction}"]
    for position, kind in enumerate(kinds):
        lines += _locate(names[len(given) + position], kind.itemsize)
        lines += _store(f"%r{position}", kind)
    return "\n".join([*lines, "  ret;", "}", ""])


def _declare(name, kind):
    if kind.kind == "b":
        return [f"  .reg .pred {name};"]
    return [f"  .reg .b{max(16, 8 * kind.itemsize)} {name};"]


def _locate(parameter, size):
    return [
        f"  ld.param.u64 %at, [{parameter}];",
        f"  mul.wide.u32 %offset, %index, {size};",
        "  add.u64 %at, %at, %offset;",
    ]


def _load(name, kind):
    if kind.kind == "b":
        return ["  ld.global.u8 %byte, [%at];", f"  setp.ne.u32 {name}, %byte, 0;"]
    return [f"  ld.global.{'u' if kind.itemsize == 1 else 'b'}{8 * kind.itemsize} {name}, [%at];"]


def _store(name, kind):
    if kind.kind == "b":
        return [f"  selp.u32 %byte, 1, 0, {name};", "  st.global.u8 [%at], %byte;"]
    return [f"  st.global.{'u' if kind.itemsize == 1 else 'b'}{8 * kind.itemsize} [%at], {name};"]
