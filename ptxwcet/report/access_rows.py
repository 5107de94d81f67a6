"""Memory accesses as rows and as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from ptxwcet.ir.kernel import Kernel, Space
from ptxwcet.memory.analysis import KernelAccesses
from ptxwcet.report.columns import NOTEBOOK, TEXT, shown, text_table
from ptxwcet.report.head import row_like
from ptxwcet.report.source_lines import SourceLines, place, ptx_text
from ptxwcet.support.records import dataclass


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

    place: str = field(metadata=shown("line", notebook="place"))
    ptx_line: int
    ptx_file: str
    instruction: str
    text: str | None = field(
        metadata=shown("code", lambda row: row.text or row.instruction, only=NOTEBOOK)
    )
    space: str
    purpose: str = field(
        metadata=shown("access", lambda row: f"{row.purpose} {row.space} {row.bytes} B", only=TEXT)
        | shown("access", lambda row: f"{row.purpose} {row.space}", only=NOTEBOOK)
    )
    bytes: int
    most: TransactionsRow = field(
        metadata=shown("takes", lambda row: row.takes, notebook="takes of a warp")
    )
    least: TransactionsRow = field(
        metadata=shown("least", lambda row: getattr(row.least, row.kind), only=TEXT)
    )
    exact: bool
    reason: str = field(metadata=shown("because", at=1, only=TEXT) | shown("why", only=NOTEBOOK))
    share_percent: float | None = field(
        metadata=shown(
            "share", form=".1f", unit="%", none="-", is_right=False, notebook="% of the bound"
        )
    )

    @property
    def kind(self) -> str:
        """The kind of transactions that there are most of, and that decide how good it is."""
        return "sectors" if self.most.sectors else "passes" if self.most.passes else "words"

    @property
    def takes(self) -> str:
        """The number of transactions of that kind, in words."""
        most = getattr(self.most, self.kind)
        serial = f", {self.most.serial} in turn" if self.most.serial else ""
        mark = "" if self.exact else "<= "
        return f"{mark}{most} {self.kind if most != 1 else _ONE[self.kind]}{serial}"

    @property
    def excess(self) -> float:
        """How many times as many transactions it takes as so many bytes need."""
        least = getattr(self.least, self.kind)
        return float(getattr(self.most, self.kind) / least) if least else 1.0


def access_rows(
    kernel: Kernel,
    accesses: KernelAccesses,
    lines: SourceLines,
    paid: Mapping[int, int],
    bound_cycles: int | None,
) -> tuple[AccessRow, ...]:
    """Returns the accesses of a kernel but for those to its parameters, in program order.

    ``paid``: cycles of a bound of ``bound_cycles`` that each instruction pays, by index.
    """

    def share(index: int) -> float | None:
        return round(100 * paid.get(index, 0) / bound_cycles, 2) if bound_cycles else None

    return tuple(
        AccessRow(
            place(kernel, bounded.index),
            kernel.instructions[bounded.index].span.line,
            kernel.instructions[bounded.index].span.source.name,
            ptx_text(kernel, bounded.index),
            lines.text(kernel, bounded.index),
            bounded.access.space.value,
            bounded.access.purpose.value,
            bounded.access.access_bytes,
            row_like(TransactionsRow, bounded.most),
            row_like(TransactionsRow, bounded.least),
            bounded.exact,
            bounded.reason,
            share(bounded.index),
        )
        for bounded in accesses.accesses
        if bounded.access.space is not Space.PARAM
    )


def grouped_accesses(accesses: Sequence[AccessRow]) -> list[list[AccessRow]]:
    """Returns equal accesses in groups; first the groups that pay most of the bound."""
    groups: dict[tuple[object, ...], list[AccessRow]] = {}
    for access in accesses:
        what = (access.place, access.space, access.purpose, access.bytes)
        key = (*what, access.most, access.least, access.exact, access.reason)
        groups.setdefault(key, []).append(access)
    return sorted(groups.values(), key=_importance)


def access_lines(accesses: Sequence[AccessRow], most_rows: int) -> Iterator[str]:
    """Yields a table of accesses, with one row for equal accesses of a line, the costliest first.

    The omitted rows and the units of the numbers follow.
    """
    yield from text_table(list(map(_together, grouped_accesses(accesses))), most=most_rows)
    kinds = {access.kind for access in accesses}
    yield from (_KINDS[kind] for kind in ("sectors", "passes", "words") if kind in kinds)


_ONE = {"sectors": "sector", "passes": "pass", "words": "word"}
_KINDS = {
    "sectors": "sectors: 32 bytes each of global or local memory, of a warp, an execution",
    "passes": "passes: of shared memory, whose 32 banks give a word of 4 bytes each a pass",
    "words": "words: of constants, at distinct addresses",
}


def _importance(rows: Sequence[AccessRow]) -> tuple[float, float, int]:
    share = sum(row.share_percent or 0 for row in rows)
    return -share, -rows[0].excess, rows[0].ptx_line


def _together(accesses: Sequence[AccessRow]) -> AccessRow:
    """Returns one row for equal accesses: their number, and their total share."""
    first = accesses[0]
    if len(accesses) == 1:
        return first
    share = sum(access.share_percent or 0 for access in accesses)
    return replace(
        first,
        purpose=f"{len(accesses)} x {first.purpose}",
        share_percent=None if first.share_percent is None else share,
    )
