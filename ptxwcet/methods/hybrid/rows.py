"""The report of a hybrid analysis as plain data. Schema number 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ptxwcet.claims import Guarantee
from ptxwcet.commands.bound.report import AssumptionRow
from ptxwcet.report.head import DiagnosticRow, FileHead


@dataclass(frozen=True, slots=True)
class TraceRow:
    """What was traced; ``file`` is empty for a trace made here. ``clock`` is the unit of times."""

    file: str
    recorder: str
    clock: str
    runs: int
    multiprocessors: int
    warps: int
    events: int


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """An estimate and by how much it exceeds the high-water mark.

    ``is_below_observed``: a traced run (of Z_warp, a warp) took longer; ``guarantee`` is then null.
    """

    cycles: int
    difference_percent: float
    guarantee: Annotated[str, Guarantee] | None
    is_below_observed: bool
    method: str
    citations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WavesRow:
    """Equation 2: ``waves`` (Omega), ``warps_per_wave`` (phi), ``start_gap`` (Delta)."""

    waves: int
    warps_per_wave: int
    start_gap: int
    cycles: int
    difference_percent: float
    guarantee: Annotated[str, Guarantee] | None
    is_below_observed: bool


@dataclass(frozen=True, slots=True)
class RoundsRow:
    """Rounds of blocks that wait at most ``block_wait``, their warps beginning at most
    ``block_skew`` apart."""

    rounds: int
    block_wait: int
    block_skew: int
    cycles: int
    difference_percent: float
    guarantee: Annotated[str, Guarantee] | None
    is_below_observed: bool


@dataclass(frozen=True, slots=True)
class JitterRow:
    """Release jitter of a multiprocessor's last warp (delta)."""

    multiprocessor: int
    cycles: int


@dataclass(frozen=True, slots=True)
class QuantileRow:
    """A warp on the worst path exceeds ``cycles`` with at most this probability.

    ``is_below_observed``: a traced warp took longer.
    """

    exceedance: float
    cycles: int
    guarantee: Annotated[str, Guarantee]
    is_below_observed: bool


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """A transition as observed, and its part of the warp-specific WCET."""

    source: str
    target: str
    place: str
    is_divergent: bool
    has_barrier: bool
    count: int
    best: int
    mean: float
    worst: int
    most_in_a_warp: int
    on_worst_path: int
    share_percent: float


@dataclass(frozen=True, slots=True)
class LoopRow:
    """A loop with the most iterations after one entry: transitions that go back to its beginning.

    ``unseen_static``: the static analysis allows more executions of the body than were seen, so
    many; None if not, or if it does not know.
    """

    header: str
    place: str
    most_iterations: int
    most_entries: int
    cycles: int
    share_percent: float
    unseen_static: int | None


@dataclass(frozen=True, slots=True)
class UnseenRow:
    """A transition that no warp made, though one came to its source."""

    source: str
    target: str
    place: str


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """Transitions and ipoints that were seen; see ``hybrid.coverage``.

    What the static analysis excludes for the launch facts given is left out of ``unseen``,
    ``unreached`` and ``never_iterated``; ``excluded`` counts such transitions.
    """

    transitions: int
    seen: int
    excluded: int
    divergent: int
    divergent_seen: int
    unseen: tuple[UnseenRow, ...]
    unreached: tuple[str, ...]
    never_iterated: tuple[str, ...]
    hidden_loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StaticRow:
    """The safe bound of one block on a machine; ``cycles`` None: refused, with the reason."""

    machine: str
    cycles: int | None
    guarantee: Annotated[str, Guarantee] | None
    refusal: DiagnosticRow | None


@dataclass(frozen=True, slots=True)
class HybridReport(FileHead):
    """Everything about one hybrid analysis; times in the unit of the trace's clock."""

    trace: TraceRow
    kernel: str
    readable: str
    high_water_mark: int
    longest_warp: int
    warp: EstimateRow
    dynamic: EstimateRow
    hybrid: EstimateRow
    is_proved_optimum: bool
    tree_cycles: int | None
    tree_refusal: str | None
    waves: WavesRow
    planned_waves: WavesRow | None
    planned_rounds: RoundsRow | None
    release_jitter: tuple[JitterRow, ...]
    quantiles: tuple[QuantileRow, ...]
    static: StaticRow
    barrier_cycles: int
    barrier_share_percent: float
    loops: tuple[LoopRow, ...]
    transitions: tuple[TransitionRow, ...]
    coverage: CoverageRow
    dropped_constraints: tuple[str, ...]
    assumptions: tuple[AssumptionRow, ...]
