"""The report of a kernel's memory accesses, as plain data and as text. Schema number 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ptxwcet.ir.kernel import Space
from ptxwcet.memory.analysis import AnalysedAccess, Transactions
from ptxwcet.report.explanation import SourceLines, ptx_text
from ptxwcet.report.head import (
    MachineHead,
    Refused,
    head_text,
    kernel_rows,
    machine_head,
    name_rows,
)
from ptxwcet.report.places import place
from ptxwcet.studies.memory_accesses import StudiedAccesses
from ptxwcet.studies.opening import Answer
from ptxwcet.support.diagnostics import Diagnostic

_MOST_ROWS = 40


@dataclass(frozen=True, slots=True)
class TransactionsRow:
    """What one execution takes of a warp: sectors of 32 bytes and lines of 128 bytes of global and
    local memory, passes over the banks of shared memory, distinct addresses of constants, and lanes
    of an atomic operation one after the other.
    """

    sectors: int
    lines: int
    passes: int
    words: int
    serial: int


@dataclass(frozen=True, slots=True)
class AccessRow:
    """An access: where, what, what it takes at ``most`` of a warp, and the ``least`` for as many
    bytes.

    ``exact``: each warp takes ``most`` if all of its lanes take part. ``reason`` is how the lanes
    differ. ``share_percent`` of the bound of a block is paid by its instruction, None without one.
    """

    place: str
    ptx_line: int
    instruction: str
    text: str | None
    space: str
    purpose: str
    bytes: int
    most: TransactionsRow
    least: TransactionsRow
    exact: bool
    reason: str
    share_percent: float | None

    @property
    def kind(self) -> str:
        """The kind of transactions that there are most of, and that decide how good it is."""
        return "sectors" if self.most.sectors else "passes" if self.most.passes else "words"

    @property
    def excess(self) -> float:
        """How many times as many transactions it takes as so many bytes need."""
        least = getattr(self.least, self.kind)
        return float(getattr(self.most, self.kind) / least) if least else 1.0


@dataclass(frozen=True, slots=True)
class KernelAccessesRow:
    """The accesses of a kernel, by its instructions.

    ``aligned_pointers`` are assumed to be multiples of 256 bytes. ``bound_cycles`` is the bound of
    a block on the machine, None if there is none.
    """

    kernel: str
    readable: str
    block: tuple[int, int, int]
    grid: tuple[int, int, int] | None
    parameters: tuple[tuple[str, int | float], ...]
    parameter_names: tuple[tuple[str, str], ...]
    bound_cycles: int | None
    aligned_pointers: tuple[str, ...]
    accesses: tuple[AccessRow, ...]
    status: Literal["analysed"] = "analysed"


@dataclass(frozen=True, slots=True)
class MemoryReport(MachineHead):
    """The accesses of the kernels of a file, in file order."""

    kernels: tuple[KernelAccessesRow | Refused, ...]


def build_memory_report(
    answer: Answer[StudiedAccesses],
    source: str | None,
    failures: list[Diagnostic] | None = None,
) -> MemoryReport:
    """The report of an answer; ``source`` is the path of the CUDA source if it is known."""
    lines = SourceLines(answer.path, source)
    rows = kernel_rows(answer, lambda one: one.kernel, lambda one: _row(one, lines), failures)
    return MemoryReport(*machine_head(answer), rows)


def _row(one: StudiedAccesses, lines: SourceLines) -> KernelAccessesRow:
    kernel, launch = one.kernel, one.launch
    return KernelAccessesRow(
        kernel.name,
        kernel.readable,
        launch.block,
        launch.grid,
        tuple(sorted(launch.parameters.items())),
        name_rows(launch),
        one.bound_cycles,
        tuple(map(launch.name_of, one.accesses.pointers)),
        tuple(
            access_row(one, each, lines)
            for each in one.accesses.accesses
            if each.access.space is not Space.PARAM
        ),
    )


def access_row(one: StudiedAccesses, found: AnalysedAccess, lines: SourceLines) -> AccessRow:
    """An access as plain data."""
    kernel, index, access = one.kernel, found.index, found.access
    share = None
    if one.bound_cycles:
        share = round(100 * one.paid.get(index, 0) / one.bound_cycles, 2)
    return AccessRow(
        place(kernel, index),
        kernel.instructions[index].span.line,
        ptx_text(kernel, index),
        lines.text(kernel, index),
        access.space.value,
        access.purpose.value,
        access.access_bytes,
        _transactions(found.most),
        _transactions(found.least),
        found.exact,
        found.reason,
        share,
    )


def _transactions(found: Transactions) -> TransactionsRow:
    return TransactionsRow(found.sectors, found.lines, found.passes, found.words, found.serial)


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
    groups: dict[tuple[object, ...], list[AccessRow]] = {}
    for one in row.accesses:
        key = (one.place, one.space, one.purpose, one.bytes, one.most, one.reason)
        groups.setdefault(key, []).append(one)
    ordered = sorted(groups.values(), key=_importance)
    table = [("line", "access", "takes", "least", "share", "because"), *map(_cells, ordered)]
    yield from _aligned(table[: _MOST_ROWS + 1])
    hidden = len(table) - 1 - _MOST_ROWS
    if hidden > 0:
        yield f"and {hidden} more (--format json lists all)"
    kinds = {one.kind for one in row.accesses}
    yield from (_KINDS[kind] for kind in ("sectors", "passes", "words") if kind in kinds)
    if row.aligned_pointers:
        yield f"assumed: {', '.join(row.aligned_pointers)} are multiples of 256 bytes"


_ONE = {"sectors": "sector", "passes": "pass", "words": "word"}
_KINDS = {
    "sectors": "sectors: 32 bytes each of global or local memory, of a warp, an execution",
    "passes": "passes: of shared memory, whose 32 banks give a word of 4 bytes each a pass",
    "words": "words: of constants, at distinct addresses",
}


def _importance(rows: Sequence[AccessRow]) -> tuple[float, float, int]:
    share = sum(one.share_percent or 0 for one in rows)
    return -share, -rows[0].excess, rows[0].ptx_line


def _cells(rows: Sequence[AccessRow]) -> tuple[str, ...]:
    one = rows[0]
    times = f"{len(rows)} x " if len(rows) > 1 else ""
    most, least = getattr(one.most, one.kind), getattr(one.least, one.kind)
    mark = "" if one.exact else "<= "
    share = sum(each.share_percent or 0 for each in rows)
    serial = f", {one.most.serial} in turn" if one.most.serial else ""
    return (
        one.place,
        f"{times}{one.purpose} {one.space} {one.bytes} B",
        f"{mark}{most} {one.kind if most != 1 else _ONE[one.kind]}{serial}",
        str(least),
        "-" if one.share_percent is None else f"{share:.1f} %",
        one.reason,
    )


def _aligned(table: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in table) for i in range(5)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[5]]).rstrip()
