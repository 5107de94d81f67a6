"""The lines of source, PTX and machine code of a kernel, with their shares in the bound."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial

from ptxwcet.ir.kernel import Kernel
from ptxwcet.report.source_lines import SourceLines
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile

_MOST_LINES = 20_000
"""The most lines of a file: a page with more is slow to open, and too long to read."""
_CONTEXT = 3
"""Lines shown before the first and after the last line with instructions."""
_LARGEST_GAP = 30
"""Lines without instructions that are shown between others."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code; or with ``left_out`` a number of lines that are not shown.

    ``instructions`` are the kernel's instructions on it. ``cycles`` is their share in the bound,
    None for a line without instructions and without a bound; ``heat`` is between 0 and 1.
    """

    number: int
    text: str = ""
    cycles: int | None = None
    heat: float = 0.0
    left_out: int = 0
    instructions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file and the lines of it that are shown: none of one that is not at hand."""

    name: str
    lines: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """The code of a kernel in all its forms, each with the same instructions.

    ``sources``, then the PTX from which bounded machine code was made, then the bounded ``code``:
    the requested file, and the files linked with it.
    """

    sources: tuple[CodeFile, ...]
    ptx: tuple[CodeFile, ...]
    code: tuple[CodeFile, ...]


@dataclass(slots=True)
class _Line:
    """The cycles and the instructions of a line."""

    cycles: int = 0
    instructions: list[int] = field(default_factory=list)


class _File(defaultdict[int, _Line]):
    """The lines of a file with instructions, by their numbers."""

    def __init__(self) -> None:
        super().__init__(_Line)

    def add(self, number: int, index: int, cycles: int) -> None:
        line = self[number]
        line.instructions.append(index)
        line.cycles += cycles


def build_listing(kernel: Kernel, paid: Mapping[int, int], files: SourceLines) -> Listing:
    """Returns the listing of a kernel; ``paid`` are cycles of the bound by instruction, or empty.

    Cost: linear in the lines.
    """
    code = kernel.code
    own = {kernel.span.source: _File()}
    sources: defaultdict[str, _File] = defaultdict(_File)
    ptx = _File()
    paths: dict[str, str] = {}
    for index, instruction in enumerate(kernel.instructions):
        cycles = paid.get(index, 0)
        place = instruction.location
        if place is not None and place.line:
            name = place.readable or place.file
            paths.setdefault(name, place.file)
            sources[name].add(place.line, index, cycles)
        if code is not None and code.encoded[index].ptx_line:
            ptx.add(code.encoded[index].ptx_line, index, cycles)
        lines = own.setdefault(instruction.origin.source, _File())
        lines.add(instruction.span.line, index, cycles)
    shown = partial(_shown, is_bounded=bool(paid))
    return Listing(
        tuple(
            CodeFile(name, shown(lines, dict(enumerate(files.lines(paths[name]), 1))))
            for name, lines in sources.items()
        ),
        () if code is None or not code.ptx else (CodeFile("", shown(ptx, code.ptx)),),
        tuple(
            CodeFile(file.name, shown(lines, _texts(file, is_code=code is not None)))
            for file, lines in own.items()
        ),
    )


def _texts(file: SourceFile, *, is_code: bool) -> dict[int, str]:
    """Returns the lines of a file by number; of machine code those with addresses and labels."""
    lines = enumerate(file.text.split("\n"), file.first_line)
    if not is_code:
        return dict(lines)
    return {
        number: text.rpartition(" ; /*")[0].replace("/*", "").replace("*/", " ") or text
        for number, text in lines
        if text.startswith("/*") or text.endswith(":")
    }


def _shown(
    with_code: Mapping[int, _Line], texts: Mapping[int, str], *, is_bounded: bool
) -> tuple[CodeLine, ...]:
    """Returns the lines near those with instructions, of the ``texts`` of lines in their order.

    A line that there is no text of, since it is not at hand or another one, is not shown.
    """
    most = max((line.cycles for line in with_code.values()), default=0)
    listed: list[CodeLine] = []
    numbers = [*texts]
    there = [place for place, number in enumerate(numbers) if number in with_code]
    previous = 0
    for begin, end in _windows(there, len(numbers)):
        if begin > previous:
            listed.append(CodeLine(numbers[begin] - 1, left_out=begin - previous))
        previous = end
        for number in numbers[begin:end]:
            line = with_code.get(number)
            if line is None:
                listed.append(CodeLine(number, texts[number]))
                continue
            listed.append(
                CodeLine(
                    number,
                    texts[number],
                    line.cycles if is_bounded else None,
                    round(math.sqrt(line.cycles / most), 3) if most else 0.0,
                    instructions=tuple(line.instructions),
                )
            )
    rest = len(listed) - _MOST_LINES
    return (*listed[:_MOST_LINES], *([CodeLine(0, left_out=rest)] if rest > 0 else []))


def _windows(places: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    """Ranges of lines from 0 to before ``end`` that hold all ``places``, far ones apart."""
    pending: tuple[int, int] | None = None
    for place in places:
        begin, stop = max(0, place - _CONTEXT), min(end, place + _CONTEXT + 1)
        if pending is None:
            pending = begin, stop
        elif begin - pending[1] <= _LARGEST_GAP:
            pending = pending[0], max(pending[1], stop)
        else:
            yield pending
            pending = begin, stop
    if pending is not None:
        yield pending
