"""The worst path and the cycles of the bound by line, as rows: grouped and named, not computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.explanation import (
    BoundExplanation,
    LaunchCycles,
    PaidCycles,
    SectionExplanation,
    explain_launch,
)
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.commands.bound.report import (
    Explanation,
    PaidByLaunchRow,
    PaidRow,
    PaidSectionRow,
    PathRow,
)
from ptxwcet.ir.kernel import Kernel, code_place
from ptxwcet.report.access_rows import access_rows
from ptxwcet.report.source_lines import SourceLines, place, ptx_text
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.launch_costs import kernel_accesses

_Cycles = TypeVar("_Cycles", PaidCycles, LaunchCycles)
_Row = TypeVar("_Row", PaidRow, PaidByLaunchRow)
_END = "end of the kernel"
_WAITING = "no barrier: waiting at the memory path and the memory, altogether"


def path_rows(analysis: KernelAnalysis, explained: BoundExplanation) -> tuple[PathRow, ...]:
    """Returns how often the path that the bound charges executes each block, in program order.

    A block is counted by its first instruction that takes time: so a block that is cut by a barrier
    counts once.
    """
    by_class = explained.executions()
    timed = frozenset[int]().union(*by_class.values())
    path = []
    for block in analysis.cfg.blocks[:-1]:
        first = next((i for i in range(block.start, block.end) if i in timed), None)
        if first is None:
            continue
        for warp_class, executions in sorted(by_class.items()):
            if executions[first]:
                warps = analysis.worst.analysis.workload.classes[warp_class].warps
                lines = source_range(analysis.kernel, range(block.start, block.end))
                path.append(PathRow(analysis.cfg.name(block.id), lines, executions[first], warps))
    return tuple(path)


def source_range(kernel: Kernel, indices: range) -> str:
    """Returns the source lines of a block, first to last, in the file with most of them.

    Without source lines these are lines of PTX, or addresses of machine code.
    """
    located: dict[str, list[int]] = {}
    for index in indices:
        location = kernel.instructions[index].location
        if location is not None and location.line:
            located.setdefault(location.place.rpartition(":")[0], []).append(location.line)
    if not located and kernel.code is not None:
        ends = dict.fromkeys(code_place(kernel, index) for index in (indices[0], indices[-1]))
        return "-".join(ends)
    if located:
        name, lines = max(located.items(), key=lambda item: len(item[1]))
        prefix = f"{name}:"
    else:
        prefix = "PTX line "
        lines = [kernel.instructions[index].span.line for index in indices]
    first, last = min(lines), max(lines)
    shown = "" if located else kernel.instructions[indices[0]].span.shown_line
    of = shown.removeprefix(str(lines[0]))
    return f"{prefix}{first}{of}" if first == last else f"{prefix}{first}-{last}{of}"


def explanation_row(
    analysis: KernelAnalysis, explained: BoundExplanation, sources: SourceLines
) -> Explanation:
    """Returns the explanation as plain data; rows with the largest totals first."""
    kernel = analysis.kernel
    cycles, paid = explained.cycles, explained.paid

    def by_line(part: SectionExplanation | BoundExplanation) -> tuple[PaidRow, ...]:
        return _paid_rows(
            PaidRow,
            part.paid,
            partial(place, kernel),
            lambda i: sources.text(kernel, i),
            part.cycles,
        )

    def opcode(index: int) -> str:
        return kernel.instructions[index].mnemonic

    def op_class(index: int) -> str:
        kind = kernel.instructions[index].op_class
        return opcode(index).partition(".")[0] if kind is None else kind.value

    def by_kind(name: Callable[[int], str]) -> tuple[PaidRow, ...]:
        number = Counter(map(name, paid))
        counts = {kind: f"{n} instruction{'s' * (n > 1)}" for kind, n in number.items()}
        return _paid_rows(PaidRow, paid, name, lambda i: counts[name(i)], cycles)

    return Explanation(
        "safe",
        cycles,
        by_line(explained),
        by_kind(opcode),
        _paid_rows(
            PaidRow, paid, partial(code_place, kernel), lambda i: ptx_text(kernel, i), cycles
        ),
        tuple(_section_row(analysis, section, by_line(section)) for section in explained.sections),
        access_rows(
            kernel,
            kernel_accesses(kernel, analysis.launch),
            sources,
            {index: pay.total for index, pay in paid.items()},
            cycles,
        ),
        by_kind(op_class),
    )


def _section_row(
    analysis: KernelAnalysis, section: SectionExplanation, lines: tuple[PaidRow, ...]
) -> PaidSectionRow:
    interference = sum(paid.interference for paid in section.paid.values())
    origin = section.barrier_origin
    warp_class = section.warp_class
    classes = analysis.worst.analysis.workload.classes
    return PaidSectionRow(
        section.multiplicity,
        section.cycles,
        section.cycles - interference,
        interference,
        _WAITING
        if section.is_waiting
        else _END
        if origin is None
        else place(analysis.kernel, origin),
        () if warp_class is None else classes[warp_class].warps,
        lines,
    )


def launch_line_rows(
    analysis: KernelAnalysis, launched: LaunchBound, sources: SourceLines
) -> tuple[PaidByLaunchRow, ...] | None:
    """Returns the cycles of each line of a launch bound; None if a loop's waits do not settle."""
    kernel, pieces = analysis.kernel, [(one.analysis, one.count) for one in analysis.of_launch]
    try:
        paid = explain_launch(launched, pieces)
    except PtxwcetError:
        return None
    name, text = partial(place, kernel), partial(sources.text, kernel)
    return _paid_rows(PaidByLaunchRow, paid, name, text, launched.claim.cycles)


def _paid_rows(
    row: Callable[..., _Row],
    paid: Mapping[int, _Cycles],
    name: Callable[[int], str],
    text: Callable[[int], str | None],
    cycles: int,
) -> tuple[_Row, ...]:
    """Returns one row per name of instructions, without names that pay nothing."""
    sums: dict[str, _Cycles] = {}
    texts: dict[str, str | None] = {}
    for origin in sorted(paid):
        where = name(origin)
        sums[where] = sums[where].plus(paid[origin]) if where in sums else paid[origin]
        if where not in texts:
            texts[where] = text(origin)
    paying = [
        row(where, texts[where], *pay, pay.total, round(100 * pay.total / cycles, 2))
        for where, pay in sums.items()
        if pay.total
    ]
    return tuple(sorted(paying, key=lambda line: (-line.total, line.place)))
