"""The lines of the PTX and of its source side by side, with what each pays of the bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.ir.kernel import Kernel
from ptxwcet.report.source_lines import SourceLines
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile

_MOST_LINES = 20_000
"""The most lines of a file: a page with more is slow to open, and nobody reads it."""
_CONTEXT = 3
"""Lines shown before the first and behind the last one with instructions."""
_LARGEST_GAP = 30
"""Lines without instructions that are shown between others."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code; or with ``left_out`` so many lines that are not shown.

    ``sources`` are the keys of the source lines that it is of (of a source line, its own),
    ``blocks`` the basic blocks with instructions of it, which are ``instructions`` of the kernel.
    ``cycles`` it pays of the bound, None for a
    line without instructions and without a bound; ``heat`` is between 0 and 1.
    """

    number: int
    text: str = ""
    cycles: int | None = None
    heat: float = 0.0
    sources: tuple[str, ...] = ()
    blocks: tuple[int, ...] = ()
    left_out: int = 0
    instructions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file and the lines of it that are shown: none of one that is not at hand."""

    name: str
    lines: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """The code of a kernel: its sources, its PTX, and that of files that are linked with it."""

    sources: tuple[CodeFile, ...]
    ptx: CodeFile
    linked: tuple[CodeFile, ...] = ()


@dataclass(slots=True)
class _Line:
    """What is known of a line with instructions."""

    cycles: int = 0
    sources: dict[str, None] = field(default_factory=dict)
    blocks: dict[int, None] = field(default_factory=dict)
    instructions: list[int] = field(default_factory=list)

    def add(self, index: int, cycles: int, source: str, block: int | None) -> None:
        self.instructions.append(index)
        self.cycles += cycles
        if source:
            self.sources[source] = None
        if block is not None:
            self.blocks[block] = None


def build_listing(
    kernel: Kernel, cfg: ControlFlowGraph | None, paid: Mapping[int, int], files: SourceLines
) -> Listing:
    """The listing of a kernel; ``paid`` are cycles of the bound by instruction, empty without one.

    Cost: linear in the lines.
    """
    blocks = () if cfg is None else cfg.blocks
    block_of = {index: int(b.id) for b in blocks for index in range(b.start, b.end)}
    own = kernel.span.source
    ptx: dict[SourceFile, dict[int, _Line]] = {own: {}}
    sources: dict[str, dict[int, _Line]] = {}
    paths: dict[str, str] = {}
    for index, instruction in enumerate(kernel.instructions):
        cycles, block, key = paid.get(index, 0), block_of.get(index), ""
        place = instruction.location
        if place is not None and place.line:
            name = place.readable or place.file
            paths.setdefault(name, place.file)
            lines = sources.setdefault(name, {})
            key = f"{list(sources).index(name)}:{place.line}"
            lines.setdefault(place.line, _Line()).add(index, cycles, key, block)
        lines = ptx.setdefault(instruction.origin.source, {})
        lines.setdefault(instruction.span.line, _Line()).add(index, cycles, key, block)
    shown, *linked = (
        CodeFile(
            file.name,
            _shown(lines, file.text.split("\n") if lines else [], file.first_line, bool(paid)),
        )
        for file, lines in ptx.items()
    )
    return Listing(
        tuple(
            CodeFile(name, _shown(lines, files.lines(paths[name]), 1, bool(paid)))
            for name, lines in sources.items()
        ),
        shown,
        tuple(linked),
    )


def _shown(
    with_code: Mapping[int, _Line], text: Sequence[str], first: int, is_bounded: bool
) -> tuple[CodeLine, ...]:
    """The lines near those with instructions, of a text that begins at line ``first``.

    A line that the text does not have, since it is not at hand or another one, is not shown.
    """
    most = max((line.cycles for line in with_code.values()), default=0)
    listed: list[CodeLine] = []
    there = [number for number in sorted(with_code) if first <= number < first + len(text)]
    for begin, end in _windows(there, first, first + len(text)):
        previous = listed[-1].number + 1 if listed else first
        if begin > previous:
            listed.append(CodeLine(begin - 1, left_out=begin - previous))
        for number in range(begin, end):
            line = with_code.get(number)
            if line is None:
                listed.append(CodeLine(number, text[number - first]))
                continue
            listed.append(
                CodeLine(
                    number,
                    text[number - first],
                    line.cycles if is_bounded else None,
                    round(math.sqrt(line.cycles / most), 3) if most else 0.0,
                    tuple(line.sources),
                    tuple(line.blocks),
                    instructions=tuple(line.instructions),
                )
            )
    rest = len(listed) - _MOST_LINES
    return (*listed[:_MOST_LINES], *([CodeLine(0, left_out=rest)] if rest > 0 else []))


def _windows(numbers: Sequence[int], first: int, end: int) -> Iterator[tuple[int, int]]:
    """Ranges of lines from ``first`` to before ``end`` that hold all numbers, far ones apart."""
    pending: tuple[int, int] | None = None
    for number in numbers:
        begin, stop = max(first, number - _CONTEXT), min(end, number + _CONTEXT + 1)
        if pending is None:
            pending = begin, stop
        elif begin - pending[1] <= _LARGEST_GAP:
            pending = pending[0], max(pending[1], stop)
        else:
            yield pending
            pending = begin, stop
    if pending is not None:
        yield pending
