"""Annotated code as data: the share of each line in the bound, and its cause. Schema number 1.

Every cycle of the bound of a block is charged to one line, so the lines add up to it; so do the
cycles of the launch bound (:mod:`ptxwcet.bounds.explanation` defines how cycles are charged).
``elsewhere`` has the cycles that belong to no line that is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import field
from enum import Enum
from functools import partial
from typing import Annotated, Literal

from ptxwcet.bounds.explanation import PaidCycles
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.commands.annotate.study import ExplainedKernel
from ptxwcet.commands.bound.build import bounded_row
from ptxwcet.commands.bound.report import BoundedKernel
from ptxwcet.opened.opening import Answer
from ptxwcet.report.columns import NOTEBOOK, TEXT, shown
from ptxwcet.report.head import MachineHead, Refused, kernel_report
from ptxwcet.report.listing import CodeFile, build_listing
from ptxwcet.report.source_lines import SourceLines, place
from ptxwcet.support.records import dataclass

SOURCE: Literal["source"] = "source"
PTX: Literal["ptx"] = "ptx"
LAUNCHER_GAPS = "between the starts of blocks"
OVERHEAD = "overhead of a launch"
OUTSIDE = "outside of the places that are asked for"
NO_INSTRUCTION = "of no instruction: none takes time"


class Part(Enum):
    """A part of a bound: the slowest warp issues an instruction, waits for its result or for its
    unit, or is delayed while other warps execute.
    """

    ISSUE = "issue"
    RESULT = "result"
    UNIT = "unit"
    OTHER_WARPS = "other-warps"


_VERBS = {
    Part.ISSUE: "issues",
    Part.RESULT: "waits for",
    Part.UNIT: "queues for",
    Part.OTHER_WARPS: "other warps:",
}
_LONGEST_CAUSE = 34


@dataclass(frozen=True, slots=True)
class Cause:
    """What most of the cycles of a line are: one part of them, by instructions of one opcode."""

    part: Annotated[str, Part]
    opcode: str
    cycles: int


@dataclass(frozen=True, slots=True)
class AnnotatedLine:
    """A line of code; ``line`` is None for what is no line, which ``text`` names.

    ``cycles`` of the bound of a block are the sum of four parts (docs/reading-a-bound.md), None
    for a line without instructions. ``launch_cycles`` are of the bound of the launch, None without
    one. ``cause`` is the largest of the four parts and the opcode that has most of it,
    None if nothing is paid.
    """

    line: int | None = field(
        metadata=shown("line", lambda row: str(row.line or ""), is_right=True, at=1)
    )
    text: str = field(metadata=shown("code", lambda row: row.text.expandtabs(4), at=1))
    cycles: int | None = field(
        default=None, metadata=shown("cycles", lambda row: row.cycles or None, is_right=True)
    )
    share_percent: float | None = field(
        default=None,
        metadata=shown("share", lambda row: row.share_text, is_right=True, only=TEXT)
        | shown("%", lambda row: row.share_percent or None, only=NOTEBOOK),
    )
    issue: int = 0
    waiting_for_result: int = 0
    waiting_for_unit: int = 0
    interference: int = 0
    launch_cycles: int | None = field(
        default=None,
        metadata=shown(
            "launch", lambda row: row.launch_cycles or None, is_right=True, is_optional=True, at=-1
        ),
    )
    cause: Cause | None = field(default=None, metadata=shown("cause", lambda row: row.cause_text))

    @property
    def share_text(self) -> str:
        """The share for people; empty if nothing is paid."""
        return f"{self.share_percent:.1f} %" if self.cycles else ""

    @property
    def cause_text(self) -> str:
        """The cause, and which part of the cycles it is unless it is all of them."""
        cause, cycles = self.cause, self.cycles
        if cause is None or not cycles:
            return ""
        text = f"{_VERBS[Part(cause.part)]} {cause.opcode}"
        if len(text) > _LONGEST_CAUSE:
            text = text[: _LONGEST_CAUSE - 3] + "..."
        part = "" if cause.cycles == cycles else f"{100 * cause.cycles / cycles:.0f} %"
        return f"{text} {part}"


@dataclass(frozen=True, slots=True)
class AnnotatedFile:
    """The lines of a file near those with instructions, in order."""

    name: str
    lines: tuple[AnnotatedLine, ...]


@dataclass(frozen=True, slots=True)
class AnnotatedKernel:
    """A kernel's code with its bound shared out: all lines and ``elsewhere`` add up to it.

    ``bound`` is the kernel's row of the main report. ``code`` is ``source``, or ``ptx`` where that
    is asked for or no source is at hand; ``missing`` are source files that are not. ``regions`` are
    the parts that are marked, or asked for (then ``files`` have nothing else): sums of cycles that
    the bounds charge to their instructions, and no bounds of the time between two places.
    """

    bound: BoundedKernel
    code: Annotated[str, (SOURCE, PTX)]
    missing: tuple[str, ...]
    files: tuple[AnnotatedFile, ...]
    elsewhere: tuple[AnnotatedLine, ...]
    regions: tuple[AnnotatedLine, ...] = ()
    status: Literal["annotated"] = "annotated"


@dataclass(frozen=True, slots=True)
class AnnotationReport(MachineHead):
    """The kernels of a file, each with its code or its refusal."""

    kernels: tuple[AnnotatedKernel | Refused, ...]


def build_annotation(
    answer: Answer[ExplainedKernel],
    *,
    source: str | None = None,
    wants_ptx: bool = False,
    only: bool = False,
) -> AnnotationReport:
    """Returns the annotated code of each kernel.

    ``source`` is the path of the CUDA source unless it is in the folder of the PTX file. ``only``:
    no other lines than those in regions. Cost: linear in the lines.
    """
    row_of = partial(_annotated, SourceLines(answer.path, source), wants_ptx, only)
    return kernel_report(AnnotationReport, answer, row_of)


def _annotated(
    files: SourceLines, wants_ptx: bool, only: bool, bounded: ExplainedKernel
) -> AnnotatedKernel:
    paid = bounded.explained.paid
    totals = {index: paid_cycles.total for index, paid_cycles in paid.items()}
    listing = build_listing(bounded.kernel, totals, files)
    at_hand = tuple(source for source in listing.sources if source.lines)
    is_source = bool(at_hand) and not wants_ptx
    shown = at_hand if is_source else listing.code
    bound = bounded_row(None, None, bounded.analysis)
    sums = _Sums(bounded, paid)
    named = {index for file in shown for line in file.lines for index in line.instructions}
    regions = bounded.regions
    asked = {index for inside in regions.values() for index in inside} if only else None
    listed = [(file.name, tuple(_lines(file, sums, asked))) for file in shown]
    every = paid.keys() | (bounded.launch or {}).keys()
    return AnnotatedKernel(
        bound,
        SOURCE if is_source else PTX,
        () if wants_ptx else tuple(source.name for source in listing.sources if not source.lines),
        tuple(AnnotatedFile(*paid_cycles) for paid_cycles in listed if paid_cycles[1] or not only),
        (
            *_rest(sums, (every if asked is None else every & asked) - named),
            *(() if asked is None else (sums.of(None, OUTSIDE, every - asked),)),
            *_of_launch_alone(bounded),
        ),
        tuple(sums.of(None, name, inside) for name, inside in regions.items()),
    )


def _lines(file: CodeFile, sums: _Sums, asked: Set[int] | None) -> Iterator[AnnotatedLine]:
    """Yields the lines with the cycles they pay; if some are requested, only these lines."""
    for line in file.lines:
        inside = [i for i in line.instructions if asked is None or i in asked]
        if inside:
            yield sums.of(line.number, line.text, inside)
        elif asked is None and not line.left_out:
            yield AnnotatedLine(line.number, line.text)


def _rest(sums: _Sums, indices: Iterable[int]) -> list[AnnotatedLine]:
    """Returns the cycles of instructions on no shown line, summed by place, largest first."""
    by_place: dict[str, list[int]] = {}
    for index in sorted(indices):
        by_place.setdefault(place(sums.row.kernel, index), []).append(index)
    found = [sums.of(None, where, group) for where, group in by_place.items()]
    return sorted(found, key=lambda line: (-(line.cycles or 0), line.text))


def _of_launch_alone(bounded: ExplainedKernel) -> Iterator[AnnotatedLine]:
    """Cycles of the launch's bound that belong to no instruction."""
    launched = bounded.analysis.launch_bound
    if not isinstance(launched, LaunchBound) or bounded.launch is None:
        return
    own = {
        LAUNCHER_GAPS: launched.bound.launcher_cycles,
        OVERHEAD: launched.overhead_cycles,
    }
    shared = sum(one.total for one in bounded.launch.values()) + sum(own.values())
    for text, cycles in (*own.items(), (NO_INSTRUCTION, launched.claim.cycles - shared)):
        if cycles:
            yield AnnotatedLine(None, text, launch_cycles=cycles)


@dataclass(frozen=True, slots=True)
class _Sums:
    """What several instructions pay together."""

    row: ExplainedKernel
    paid: Mapping[int, PaidCycles]

    def of(self, number: int | None, text: str, indices: Iterable[int]) -> AnnotatedLine:
        """Returns the row of a line with these instructions."""
        cycles_of_bound, launch = self.row.explained.cycles, self.row.launch
        total = PaidCycles()
        by_cause: Counter[tuple[int, str]] = Counter()
        launch_cycles = None if launch is None else 0
        for index in indices:
            paid = self.paid.get(index, PaidCycles())
            total = total.plus(paid)
            opcode = self.row.kernel.instructions[index].mnemonic
            for part, cycles in enumerate(paid):
                by_cause[part, opcode] += cycles
            if launch is not None and launch_cycles is not None and index in launch:
                launch_cycles += launch[index].total
        share = round(100 * total.total / cycles_of_bound, 2) if cycles_of_bound else 0.0
        return AnnotatedLine(
            number, text, total.total, share, *total, launch_cycles, _cause(by_cause)
        )


def _cause(by_cause: Counter[tuple[int, str]]) -> Cause | None:
    """Returns the part with most cycles, and the opcode with most of that part."""
    parts: Counter[int] = Counter()
    for (part, _), cycles in by_cause.items():
        parts[part] += cycles
    part = min(parts, key=lambda one: (-parts[one], one), default=0)
    if not parts[part]:
        return None
    opcodes = {opcode: cycles for (one, opcode), cycles in by_cause.items() if one == part}
    opcode = min(opcodes, key=lambda one: (-opcodes[one], one))
    return Cause(list(Part)[part].value, opcode, opcodes[opcode])
