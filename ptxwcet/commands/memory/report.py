"""The report of a kernel's memory accesses, as plain data and as text. Schema number 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Literal

from ptxwcet.commands.memory.study import StudiedAccesses
from ptxwcet.opened.opening import Answer
from ptxwcet.report.access_rows import AccessRow, access_lines, access_rows
from ptxwcet.report.columns import NOTEBOOK, TEXT, shown, text_table
from ptxwcet.report.head import (
    KernelHead,
    MachineHead,
    Refused,
    kernel_head,
    kernel_report,
    kernels_text,
    row_like,
)
from ptxwcet.report.source_lines import SourceLines
from ptxwcet.support.records import dataclass

_MOST_ROWS = 40
_SHARED = {True: "blocks may share lines", False: "no line of two blocks"}


@dataclass(frozen=True, slots=True)
class FootprintRow:
    """What is touched of an array at most, in sectors of 32 and lines of 128 bytes: by a block, and
    by all blocks of the launch, None without a grid. ``array`` is None for what is of no array for
    sure. ``shared``: whether two blocks may touch one line; None without a grid.
    """

    array: str | None = field(metadata=shown("array", lambda row: row.array or "other"))
    block_sectors: int = field(
        metadata=shown("a block", lambda row: row.units("block"), only=TEXT)
        | shown("sectors of a block", only=NOTEBOOK)
    )
    block_lines: int = field(metadata=shown("lines of a block", only=NOTEBOOK))
    launch_sectors: int | None = field(
        metadata=shown("the launch", lambda row: row.units("launch"), none="-", only=TEXT)
        | shown("sectors of the launch", only=NOTEBOOK)
    )
    launch_lines: int | None = field(metadata=shown("lines of the launch", only=NOTEBOOK))
    shared: bool | None = field(
        metadata=shown("", lambda row: _SHARED.get(row.shared), only=TEXT)
        | shown("blocks may share lines", only=NOTEBOOK)
    )

    def units(self, of: str) -> str | None:
        """Returns the sectors, and in parentheses the lines; None where they are not known."""
        sectors, lines = getattr(self, f"{of}_sectors"), getattr(self, f"{of}_lines")
        return None if sectors is None else f"{sectors:,} ({lines:,})"


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

    @property
    def bound_text(self) -> str:
        """The bound of a block, to follow the kernel's name; empty without a bound."""
        cycles = self.bound_cycles
        return "" if cycles is None else f", bound {cycles:,} cycles a block"


@dataclass(frozen=True, slots=True)
class MemoryReport(MachineHead):
    """The accesses of the kernels of a file, in file order."""

    kernels: tuple[KernelAccessesRow | Refused, ...]


def build_memory_report(answer: Answer[StudiedAccesses], source: str | None) -> MemoryReport:
    """Returns the report of an answer; ``source`` is the path of the CUDA source if it is known."""
    lines = SourceLines(answer.path, source)
    return kernel_report(MemoryReport, answer, lambda studied: _row(studied, lines))


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
        array = one.launch.name_of(name) if name else None
        yield row_like(FootprintRow, touched, array=array, shared=touched.is_shared)


def _stated(studied: StudiedAccesses) -> Iterator[str]:
    """Yields what the launch states, apart from numbers, if counts of accesses may depend on it."""
    name_of = studied.launch.name_of
    for name, (low, high) in studied.launch.ranges.items():
        yield f"{name_of(name)} in {low}..{high}"
    for name in studied.accesses.aligned:
        yield f"{name_of(name)} is a multiple of {studied.launch.alignments[name]} bytes"
    for name in studied.accesses.given:
        yield f"{name_of(name)} has the bytes that the launch file says"


def render_memory_text(report: MemoryReport) -> str:
    """Returns a table of accesses for each kernel, by source line; the costliest first."""
    return kernels_text(report, _kernel_lines)


def _kernel_lines(kernel: KernelAccessesRow) -> Iterator[str]:
    size = "x".join(map(str, kernel.block))
    yield f"kernel     {kernel.readable}, block {size}{kernel.bound_text}"
    if not kernel.accesses:
        yield "           no access to memory"
        return
    yield from access_lines(kernel.accesses, _MOST_ROWS)
    if kernel.footprints:
        yield "touched at most, sectors (lines)"
        yield from text_table(kernel.footprints, indent="  ")
    if kernel.aligned_pointers:
        yield f"assumed: {', '.join(kernel.aligned_pointers)} are multiples of 256 bytes"
    if kernel.stated:
        yield f"assumed: {'; '.join(kernel.stated)}"
