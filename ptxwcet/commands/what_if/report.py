"""Bounds on machines with other figures: as plain data and as a table. Schema number 1."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from ptxwcet.commands.what_if.study import BoundVariants
from ptxwcet.opened.opening import Answer
from ptxwcet.report.columns import NOTEBOOK, TEXT, shown, text_table
from ptxwcet.report.head import MachineHead, Refused, kernel_report, kernels_text, row_like
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class VariantRow:
    """The bounds on the machine with ``variant``, in cycles, and their growth in per cent.

    ``cycles`` of a block, ``launch_cycles`` where the grid is known; None without a bound, for
    ``reason``.
    """

    variant: str = field(metadata=shown("machine"))
    cycles: int | None = field(metadata=shown("block", none="-"))
    growth_percent: float | None = field(
        metadata=shown("", form="+.1f", unit="%", notebook="block, %")
    )
    launch_cycles: int | None = field(metadata=shown("launch", none="-", is_optional=True))
    launch_growth_percent: float | None = field(
        metadata=shown("", form="+.1f", unit="%", notebook="launch, %", is_optional=True)
    )
    reason: str = field(
        metadata=shown("", lambda row: f"no bound: {row.reason}" if row.reason else "", only=TEXT)
        | shown("no bound", only=NOTEBOOK)
    )


@dataclass(frozen=True, slots=True)
class VariantsRow:
    """A kernel: its bounds on the machine as it is, and on each variant."""

    kernel: str
    readable: str
    bound_cycles: int
    launch_cycles: int | None
    variants: tuple[VariantRow, ...]
    status: Literal["analysed"] = "analysed"

    @property
    def rows(self) -> tuple[VariantRow, ...]:
        """The bounds on the machine as it is, then those of each variant."""
        own = VariantRow("as it is", self.bound_cycles, None, self.launch_cycles, None, "")
        return own, *self.variants


@dataclass(frozen=True, slots=True)
class WhatIfReport(MachineHead):
    """Bounds of the kernels of a file on machines that differ in one figure each."""

    kernels: tuple[VariantsRow | Refused, ...]


def build_what_if_report(answer: Answer[BoundVariants]) -> WhatIfReport:
    """Returns the report of bounds on machines that differ in one figure."""
    return kernel_report(WhatIfReport, answer, _row)


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
    """Returns the report as text: a table for each kernel."""
    return kernels_text(
        report, lambda kernel: [f"kernel     {kernel.readable}", *text_table(kernel.rows)]
    )
