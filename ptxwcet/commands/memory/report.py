"""The report of a kernel's memory accesses, as plain data and as text. Schema number 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from ptxwcet.commands.memory.study import StudiedAccesses
from ptxwcet.opened.opening import Answer
from ptxwcet.report.access_rows import AccessRow, access_lines, access_rows
from ptxwcet.report.head import (
    KernelHead,
    MachineHead,
    Refused,
    head_text,
    kernel_head,
    kernel_rows,
    machine_head,
)
from ptxwcet.report.source_lines import SourceLines
from ptxwcet.support.records import dataclass

_MOST_ROWS = 40


@dataclass(frozen=True, slots=True)
class FootprintRow:
    """What is touched of an array at most, in sectors of 32 and lines of 128 bytes: by a block, and
    by all blocks of the launch, None without a grid. ``array`` is None for what is of no array for
    sure. ``shared``: whether two blocks may touch one line; None without a grid.
    """

    array: str | None
    block_sectors: int
    block_lines: int
    launch_sectors: int | None
    launch_lines: int | None
    shared: bool | None


@dataclass(frozen=True, slots=True)
class KernelAccessesRow(KernelHead):
    """The accesses of a kernel, by its instructions.

    ``aligned_pointers`` are assumed to be multiples of 256 bytes, and ``stated`` is what else is
    assumed, as it was said. ``bound_cycles`` is the bound of a block on the machine, None if there
    is none. ``footprints`` are those of global and local memory, empty if it is not known what the
    warps execute.
    """

    bound_cycles: int | None
    aligned_pointers: tuple[str, ...]
    stated: tuple[str, ...]
    accesses: tuple[AccessRow, ...]
    footprints: tuple[FootprintRow, ...]
    status: Literal["analysed"] = "analysed"


@dataclass(frozen=True, slots=True)
class MemoryReport(MachineHead):
    """The accesses of the kernels of a file, in file order."""

    kernels: tuple[KernelAccessesRow | Refused, ...]


def build_memory_report(answer: Answer[StudiedAccesses], source: str | None) -> MemoryReport:
    """The report of an answer; ``source`` is the path of the CUDA source if it is known."""
    lines = SourceLines(answer.path, source)
    rows = kernel_rows(answer, lambda one: one.kernel, lambda one: _row(one, lines))
    return MemoryReport(*machine_head(answer), rows)


def _row(studied: StudiedAccesses, lines: SourceLines) -> KernelAccessesRow:
    kernel, launch = studied.kernel, studied.launch
    return KernelAccessesRow(
        *kernel_head(kernel, launch),
        studied.bound_cycles,
        tuple(map(launch.name_of, studied.accesses.pointers)),
        tuple(_stated(studied)),
        access_rows(kernel, studied.accesses, lines, studied.paid, studied.bound_cycles),
        tuple(_footprints(studied)),
    )


def _footprints(one: StudiedAccesses) -> Iterator[FootprintRow]:
    for name, touched in one.footprints.items():
        yield FootprintRow(
            one.launch.name_of(name) if name else None,
            touched.block_sectors,
            touched.block_lines,
            touched.launch_sectors,
            touched.launch_lines,
            touched.is_shared,
        )


def _stated(one: StudiedAccesses) -> Iterator[str]:
    """What the launch says, beside numbers, and counts of accesses may rest on."""
    name_of = one.launch.name_of
    for name, (low, high) in one.launch.ranges.items():
        yield f"{name_of(name)} in {low}..{high}"
    for name in one.accesses.aligned:
        yield f"{name_of(name)} is a multiple of {one.launch.alignments[name]} bytes"
    for name in one.accesses.given:
        yield f"{name_of(name)} has the bytes that the launch file says"


def render_memory_text(report: MemoryReport) -> str:
    """A table of accesses for each kernel, by source line; the costliest first."""
    parts = [head_text(report)]
    for row in report.kernels:
        if isinstance(row, KernelAccessesRow):
            parts += _kernel_lines(row)
    return "\n".join(parts) + "\n"


def _kernel_lines(row: KernelAccessesRow) -> Iterator[str]:
    yield ""
    bound = "" if row.bound_cycles is None else f", bound {row.bound_cycles:,} cycles a block"
    size = "x".join(map(str, row.block))
    yield f"kernel     {row.readable}, block {size}{bound}"
    if not row.accesses:
        yield "           no access to memory"
        return
    yield from access_lines(row.accesses, _MOST_ROWS)
    yield from _footprint_lines(row.footprints)
    if row.aligned_pointers:
        yield f"assumed: {', '.join(row.aligned_pointers)} are multiples of 256 bytes"
    if row.stated:
        yield f"assumed: {'; '.join(row.stated)}"


def _footprint_lines(rows: Sequence[FootprintRow]) -> Iterator[str]:
    """A table of what is touched, however often it is."""
    if not rows:
        return
    yield "touched at most, sectors (lines)"
    table = [("", "array", "a block", "the launch", "")]
    for row in rows:
        launch = _units(row.launch_sectors, row.launch_lines)
        shared = "" if row.shared is None else _SHARED[row.shared]
        block = _units(row.block_sectors, row.block_lines)
        table.append(("", row.array or "other", block, launch, shared))
    widths = [max(len(cells[place]) for cells in table) for place in range(5)]
    for cells in table:
        line = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield "  ".join(line).rstrip()


def _units(sectors: int | None, lines: int | None) -> str:
    return "-" if sectors is None else f"{sectors:,} ({lines:,})"


_SHARED = {True: "blocks may share lines", False: "no line of two blocks"}
