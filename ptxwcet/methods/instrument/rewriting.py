"""PTX text with instrumentation inserted; apart from the insertions it stays byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.methods.instrument.buffers import MOST_POINTS
from ptxwcet.methods.instrument.code import (
    INSTRUCTIONS_AT_ENTRY,
    INSTRUCTIONS_AT_POINT,
    AddedNames,
    choose_names,
    entry_code,
    point_code,
)
from ptxwcet.methods.instrument.points import KernelPoints, choose_points
from ptxwcet.methods.instrument.refusals import refuse_kernels
from ptxwcet.ptx.functions import IS_FUNCTION, head_end
from ptxwcet.support.comments import blank_comments
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_HEAD_NAME = re.compile(r"\.entry\s+[\w$%]+\s*")


@dataclass(frozen=True, slots=True)
class Insertion:
    """Text that is put before the character at ``offset`` of the original."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class InstrumentedKernel:
    """A kernel with what was added to it."""

    points: KernelPoints

    @property
    def inserted_points(self) -> int:
        """Places that record: blocks, and each place where lanes end."""
        return len(self.points.blocks) + len(self.points.ends)

    @property
    def added_instructions(self) -> int:
        """PTX instructions added to its text."""
        return INSTRUCTIONS_AT_ENTRY + INSTRUCTIONS_AT_POINT * self.inserted_points


@dataclass(frozen=True, slots=True)
class InstrumentedModule:
    """The new text, and what was inserted where, in the order of the text."""

    text: str
    names: AddedNames
    kernels: tuple[InstrumentedKernel, ...]
    insertions: tuple[Insertion, ...]


def instrument_module(
    module: Module, kernels: Sequence[Kernel], places: Sequence[str] = ()
) -> InstrumentedModule:
    """The text of a module whose ``kernels`` record when warps pass the beginnings of blocks.

    ``places``: names or PTX lines of the blocks to record; none for every block. Raises
    PtxwcetError: PW650 (kernels that cannot be instrumented, all of them), PW651 (places that are
    no block). Cost: linear in the text.
    """
    refuse_kernels(module, kernels)
    names = choose_names(module.source.text)
    instrumented: list[InstrumentedKernel] = []
    insertions: list[Insertion] = []
    for points in choose_points(kernels, module, places):
        _check_count(points)
        instrumented.append(InstrumentedKernel(points))
        insertions += _insertions(module, points, names)
    ordered = tuple(sorted(insertions, key=lambda new: new.offset))  # stable: point, then end
    text = _apply(module.source.text, ordered).removeprefix("\ufeff")
    return InstrumentedModule(text, names, tuple(instrumented), ordered)


def _check_count(points: KernelPoints) -> None:
    if len(points.blocks) >= MOST_POINTS:
        kernel = points.kernel
        message = f"kernel {kernel.readable} has {len(points.blocks):,} blocks"
        help_text = f"at most {MOST_POINTS - 1:,} can have points: choose them with --at"
        raise PtxwcetError(Diagnostic("PW650", message, kernel.span, help=help_text))


def _insertions(module: Module, points: KernelPoints, names: AddedNames) -> Iterable[Insertion]:
    text, kernel = module.source.text, points.kernel
    for item in module.items:  # prototypes must keep agreeing with the definition
        if isinstance(item, Kernel) and item.is_entry and item.name == kernel.name:
            yield _parameters(item, names)
    brace = _body_start(kernel)
    yield Insertion(brace + 1, "\n" + entry_code(names))
    for number, point in enumerate(points.blocks):
        what = f"{point.ipoint.label}, line {point.ipoint.line}"
        yield _before(text, point.offset, point_code(names, number, what))
    for end in points.ends:
        code = point_code(names, len(points.blocks), "end", end.guard)
        yield _before(text, end.offset, code)


def _before(text: str, offset: int, code: str) -> Insertion:
    """``code`` on lines of its own before the statement at ``offset``."""
    line = text.rfind("\n", 0, offset) + 1
    if text[line:offset].strip(" \t"):
        return Insertion(offset, "\n" + code)
    return Insertion(line, code)


def _head(kernel: Kernel) -> tuple[int, str]:
    """Where the head of a kernel starts, and its text with comments blanked."""
    text, start = kernel.span.source.text, kernel.span.start
    keyword = IS_FUNCTION.match(text, start)
    assert keyword is not None, "a kernel's span starts with its head"
    return start, blank_comments(text[start : head_end(text, keyword.end())])


def _body_start(kernel: Kernel) -> int:
    start, head = _head(kernel)
    return start + len(head)


def _parameters(kernel: Kernel, names: AddedNames) -> Insertion:
    """Two parameters at the end of the list; a kernel without a list gets one."""
    start, head = _head(kernel)
    added = f"\n\t.param .u64 {names.buffer},\n\t.param .u64 {names.chunks}"
    match = _HEAD_NAME.search(head)
    assert match is not None, "a head names its kernel"
    if head[match.end() : match.end() + 1] != "(":
        return Insertion(start + len(head[: match.end()].rstrip()), f"({added}\n)")
    closing = head.index(")", match.end())
    if not kernel.parameters:
        return Insertion(start + match.end() + 1, added + "\n")
    return Insertion(start + len(head[:closing].rstrip()), "," + added)


def _apply(text: str, insertions: Sequence[Insertion]) -> str:
    pieces, done = [], 0
    for row in insertions:
        pieces += [text[done : row.offset], row.text]
        done = row.offset
    return "".join([*pieces, text[done:]])
