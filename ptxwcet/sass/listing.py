"""Parses the text of machine code that all later stages read: a line per instruction.

``reading`` writes it; it can be kept and read without a disassembler::

    .target sm_86
    .disassembler 13.5.37
    .variable const weights 0x0 28 0000803f   (its place in constant bank 3, size, first bytes)
    .section saxpy              (with .registers .shared .local .parameters .parameter .branches)
    .kernel saxpy               (or .function; several of one address are names of one function)
    //## File "saxpy.cu", line 7
    //## File ".nv_debug_ptx_txt", line 23     (of the PTX below)
    /*0000*/ @P0 IADD3 R2, R2, 0x20, RZ ; /* 000fe20007ffe0ff0000002002027810 */
    .L_x_1:
    .names .section ...             (debug information, for the names of parameters only)
    .ptx 23 add.s32 %r2, %r2, 32;   (the PTX that the compiler kept, for people: not analysed)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple, NoReturn

from ptxwcet.sass.elf import PTX
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile, Span

Places = tuple[tuple[str, int], ...]
"""The files and lines of CUDA, first the instruction's and then those that inlined it."""

_INSTRUCTION = re.compile(
    r"/\*([0-9a-f]{4,16})\*/ ((?:@(!?U?P[0-9T]) +)?([\w.]+) *(.*?) ;) /\* ([0-9a-f]{32}) \*/"
)
_LABEL = re.compile(r"([\w.$]+):")
LINE = re.compile(r'//## File "([^"]*)", line (\d{1,9})(?: inlined at "[^"]*", line \d+)?')
"""The origin of code in the disassembler's form; inlined places are on the lines that follow."""

_DIRECTIVE = re.compile(r"\.(\w+) (\S.*)")
_NUMBER = r"(?:0x[0-9a-f]{1,16}|0|[1-9]\d{0,15})"
_NUMBERS = re.compile(rf"{_NUMBER}(?: {_NUMBER})*")
_VARIABLE = re.compile(
    r"(const|global) ([\w$.@]+) 0x([0-9a-f]{1,16}) (\d{1,20})(?: ((?:[0-9a-f]{2})+))?"
)
PERFORMANCE = ("reqntid", "maxntid", "reqnctapercluster")
"""The directives of three numbers that PTX has, too."""

_FEWEST = {"parameter": 2, "branches": 2, **dict.fromkeys(PERFORMANCE, 3)}
_PTX_LINE = re.compile(r"(\d{1,9}) (\S.*)")


class Line(NamedTuple):
    """An instruction: ``guard`` as ``!P0``, empty without one; operands as they are written.

    ``start`` and ``end`` are its place in the text. ``places`` are of CUDA, ``ptx_line`` of PTX.
    """

    address: int
    guard: str
    mnemonic: str
    operands: str
    word: int
    start: int
    end: int
    places: Places
    ptx_line: int


@dataclass(frozen=True, slots=True)
class ListedSection:
    """The information on the code of a kernel, and its ``functions``, itself among them."""

    name: str
    numbers: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    functions: list[ListedFunction] = field(default_factory=list)

    def number(self, keyword: str) -> int:
        """Returns the value of a directive with a single number, 0 where it is missing."""
        return self.numbers.get(keyword, [(0,)])[0][0]

    def branches(self) -> Mapping[int, tuple[int, ...]]:
        """Returns the targets of indexed branches, by their addresses."""
        return {numbers[0]: numbers[1:] for numbers in self.numbers.get("branches", ())}


@dataclass(frozen=True, slots=True)
class ListedFunction:
    """A kernel or function under its ``names``, and its beginning in the text."""

    names: list[str]
    is_kernel: bool
    start: int
    lines: list[Line] = field(default_factory=list)


class ListedVariable(NamedTuple):
    """A variable of space ``const`` or ``global``, and its bytes when the file is loaded."""

    space: str
    name: str
    offset: int
    size: int
    initial: bytes


@dataclass(frozen=True, slots=True)
class Listing:
    """A whole text: its architecture, as ``86``, its sections and variables, its lines of PTX."""

    source: SourceFile
    architecture: int
    sections: tuple[ListedSection, ...]
    variables: tuple[ListedVariable, ...]
    ptx: Mapping[int, str]


def parse_listing(source: SourceFile) -> Listing:
    """Parses a listing. Raises PtxwcetError (PW123) for another text. Cost: linear."""
    return _Parser(source).listing()


class _Parser:
    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.architecture = 0
        self.sections: list[ListedSection] = []
        self.variables: list[ListedVariable] = []
        self.places: Places = ()
        self.pending: list[tuple[str, int]] = []
        self.ptx_line = 0
        self.ptx: dict[int, str] = {}

    def listing(self) -> Listing:
        offset = 0
        for text in self.source.text.split("\n"):
            self.line(text, offset)
            offset += len(text) + 1
        if not self.architecture:
            self.refuse(0, "it does not say its architecture")
        sections, variables = tuple(self.sections), tuple(self.variables)
        return Listing(self.source, self.architecture, sections, variables, self.ptx)

    def refuse(self, offset: int, why: str) -> NoReturn:
        span = Span(self.source, offset, offset + 1)
        message = f"this is no listing of machine code: {why}"
        raise PtxwcetError(Diagnostic("PW123", message, span, help="give the cubin itself"))

    def line(self, text: str, offset: int) -> None:
        if match := _INSTRUCTION.fullmatch(text):
            self.instruction(match, offset)
        elif match := LINE.fullmatch(text):
            if match[1] == PTX:
                self.ptx_line = int(match[2])
            else:
                self.pending.append((match[1], int(match[2])))
        elif match := _DIRECTIVE.fullmatch(text):
            self.directive(match[1], match[2], offset)
        elif match := _LABEL.fullmatch(text):
            section = self.section(offset)
            lines = section.functions[-1].lines if section.functions else []
            section.labels[match[1]] = lines[-1].address + 16 if lines else 0
        elif text:
            self.refuse(offset, "a line is not understood")

    def section(self, offset: int) -> ListedSection:
        if not self.sections:
            self.refuse(offset, "it begins without a section")
        return self.sections[-1]

    def directive(self, keyword: str, value: str, offset: int) -> None:
        if keyword == "target" and re.fullmatch(r"sm_\d{1,4}", value):
            self.architecture = int(value.removeprefix("sm_"))
        elif keyword == "variable" and (match := _VARIABLE.fullmatch(value)):
            data = bytes.fromhex(match[5] or "")
            offset, size = int(match[3], 16), int(match[4])
            self.variables.append(ListedVariable(match[1], match[2], offset, size, data))
        elif keyword == "ptx" and (match := _PTX_LINE.fullmatch(value)):
            self.ptx[int(match[1])] = match[2]
        elif keyword == "section":
            self.sections.append(ListedSection(value))
            self.places, self.pending, self.ptx_line = (), [], 0
        elif keyword in ("kernel", "function"):
            functions = self.section(offset).functions
            if functions and not functions[-1].lines:
                functions[-1].names.append(value)
            else:
                functions.append(ListedFunction([value], keyword == "kernel", offset))
        elif keyword not in ("disassembler", "names"):
            if not _NUMBERS.fullmatch(value):
                self.refuse(offset, "a directive is not understood")
            numbers = tuple(int(n, 0) for n in value.split())
            if len(numbers) < _FEWEST.get(keyword, 1):
                self.refuse(offset, "a directive is not whole")
            self.section(offset).numbers.setdefault(keyword, []).append(numbers)

    def instruction(self, match: re.Match[str], offset: int) -> None:
        section = self.section(offset)
        if not section.functions:
            self.refuse(offset, "an instruction stands in no function")
        if self.pending:
            self.places, self.pending = tuple(self.pending), []
        address, (start, end) = int(match[1], 16), match.span(2)
        lines = section.functions[-1].lines
        if lines and lines[-1].address + 16 != address:
            self.refuse(offset, "an instruction is missing")
        lines.append(
            Line(
                address,
                match[3] or "",
                match[4],
                match[5],
                int(match[6], 16),
                offset + start,
                offset + end,
                self.places,
                self.ptx_line,
            )
        )
