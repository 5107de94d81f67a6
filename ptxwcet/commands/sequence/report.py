"""The report of a sequence of launches, as plain data and as text. Schema number 1."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ptxwcet.claims import Guarantee
from ptxwcet.commands.bound.report import AssumptionRow, assumption_rows, rests_on
from ptxwcet.commands.sequence.study import BoundedLaunch, SequenceBound
from ptxwcet.opened.opening import Answer, file_digest
from ptxwcet.report.columns import shown, text_table
from ptxwcet.report.head import MachineHead, head_text, machine_head
from ptxwcet.support.printable import plural
from ptxwcet.support.records import dataclass
from ptxwcet.support.rounding import microseconds_of, time_text

_MOST_ROWS = 40


@dataclass(frozen=True, slots=True)
class SequencedLaunch:
    """A launch of the sequence, ``times`` in a row: bounds of one and of all of them."""

    file: str
    kernel: str
    readable: str = field(metadata=shown("launch", lambda row: row.launch_text, at=1))
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    times: int = field(metadata=shown("times", unit="x"))
    cycles: int = field(metadata=shown("cycles each"))
    total_cycles: int = field(metadata=shown("total"))
    share_percent: float = field(metadata=shown("share", form=".1f", unit="%"))
    guarantee: Annotated[str, Guarantee]

    @property
    def launch_text(self) -> str:
        """Kernel, grid, block and file."""
        grid, block = ("x".join(map(str, size)) for size in (self.grid, self.block))
        return f"{self.readable}, grid {grid}, block {block} ({self.file})"


@dataclass(frozen=True, slots=True)
class SequenceReport(MachineHead):
    """All launches of a sequence take at most ``cycles``, one after the other."""

    launches: tuple[SequencedLaunch, ...]
    cycles: int
    microseconds: float
    guarantee: Annotated[str, Guarantee]
    assumptions: tuple[AssumptionRow, ...]


def build_sequence_report(bound: SequenceBound) -> SequenceReport:
    """Returns the report of a sequence; deterministic for equal input."""
    claim = bound.claim
    rows = tuple(launch.row for launch in bound.launches)
    head = Answer(bound.path, file_digest(bound.path), bound.machine, rows)
    return SequenceReport(
        *machine_head(head),
        tuple(_row(launch, claim.cycles) for launch in bound.launches),
        claim.cycles,
        microseconds_of(claim.cycles, bound.machine.clock_mhz),
        claim.guarantee.value,
        assumption_rows(claim),
    )


def _row(bounded: BoundedLaunch, cycles: int) -> SequencedLaunch:
    launch, claim = bounded.row.launch, bounded.bound.claim
    assert launch.grid is not None, "a bounded launch has a grid"
    total = bounded.times * claim.cycles
    return SequencedLaunch(
        bounded.path,
        bounded.row.kernel.name,
        bounded.row.kernel.readable,
        launch.block,
        launch.grid,
        bounded.times,
        claim.cycles,
        total,
        round(100 * total / cycles, 2) if cycles else 0.0,
        claim.guarantee.value,
    )


def render_sequence_text(report: SequenceReport) -> str:
    """Returns the launches in order, their sum, and its assumptions."""
    head = "safe under" if report.guarantee == Guarantee.SAFE_BOUND.value else "holds only if"
    return "\n".join(
        [
            head_text(report),
            "",
            f"SEQUENCE   <= {report.cycles:,} cycles for "
            f"{plural(sum(row.times for row in report.launches), 'launch', 'launches')} "
            f"({time_text(report.microseconds)})   {report.guarantee}",
            "",
            *text_table(report.launches, most=_MOST_ROWS),
            "",
            head,
            *rests_on(report.assumptions, None),
            "",
        ]
    )
