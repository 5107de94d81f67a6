"""Bounds on machines with other figures: as plain data and as a table. Schema number 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ptxwcet.commands.what_if.study import BoundVariants
from ptxwcet.opened.opening import Answer
from ptxwcet.report.head import MachineHead, Refused, head_text, kernel_rows, machine_head, row_like
from ptxwcet.support.printable import aligned
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class VariantRow:
    """The bounds on the machine with ``variant``, in cycles, and their growth in per cent.

    ``cycles`` of a block, ``launch_cycles`` where the grid is known; None without a bound, for
    ``reason``.
    """

    variant: str
    cycles: int | None
    growth_percent: float | None
    launch_cycles: int | None
    launch_growth_percent: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class VariantsRow:
    """A kernel: its bounds on the machine as it is, and on each variant."""

    kernel: str
    readable: str
    bound_cycles: int
    launch_cycles: int | None
    variants: tuple[VariantRow, ...]
    status: Literal["analysed"] = "analysed"


@dataclass(frozen=True, slots=True)
class WhatIfReport(MachineHead):
    """Bounds of the kernels of a file on machines that differ in one figure each."""

    kernels: tuple[VariantsRow | Refused, ...]


def build_what_if_report(answer: Answer[BoundVariants]) -> WhatIfReport:
    """The report of bounds on machines that differ in one figure."""
    rows = kernel_rows(answer, lambda one: one.kernel, _row)
    return WhatIfReport(*machine_head(answer), rows)


def _row(bound: BoundVariants) -> VariantsRow:
    variants = tuple(
        row_like(
            VariantRow,
            each,
            growth_percent=_growth(bound.cycles, each.cycles),
            launch_growth_percent=_growth(bound.launch_cycles, each.launch_cycles),
        )
        for each in bound.variants
    )
    kernel = bound.kernel
    return VariantsRow(kernel.name, kernel.readable, bound.cycles, bound.launch_cycles, variants)


def _growth(old: int | None, new: int | None) -> float | None:
    return round(100 * (new - old) / old, 2) if old and new is not None else None


def render_what_if_text(report: WhatIfReport) -> str:
    """The report as text: a table for each kernel."""
    parts = [head_text(report)]
    for row in report.kernels:
        if isinstance(row, VariantsRow):
            parts += _kernel_lines(row)
    return "\n".join(parts) + "\n"


def _kernel_lines(kernel: VariantsRow) -> Iterator[str]:
    has_launch = kernel.launch_cycles is not None
    heads = ("machine", "block", "") + (("launch", "") if has_launch else ())
    table = [
        heads,
        _cells(("as it is", kernel.bound_cycles, None, kernel.launch_cycles, None), has_launch),
    ]
    for case in kernel.variants:
        grown = (case.cycles, case.growth_percent, case.launch_cycles, case.launch_growth_percent)
        table.append(_cells((case.variant, *grown), has_launch))
    yield ""
    yield f"kernel     {kernel.readable}"
    reasons = ["", "", *(f"no bound: {one.reason}" * bool(one.reason) for one in kernel.variants)]
    told = [(*line, reason) for line, reason in zip(table, reasons, strict=True)]
    yield from aligned(told, range(1, len(heads)))


def _cells(
    values: tuple[str, int | None, float | None, int | None, float | None], has_launch: bool
) -> tuple[str, ...]:
    name, *figures = values
    cells = [name]
    for cycles, growth in zip(figures[::2], figures[1::2], strict=True):
        cells.append("-" if cycles is None else f"{cycles:,}")
        cells.append("" if growth is None else f"{growth:+.1f} %")
    return tuple(cells if has_launch else cells[:3])
