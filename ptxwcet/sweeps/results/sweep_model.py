"""The results of a sweep as plain data: the best variants, unbounded units, a map. Schema 1.

A *variant* is a unit without its machine. Variants are ranked machine by machine, for one *problem*
(the kernel's parameters, or other columns that are named), and only among bounds of one kind: of
one scope (a launch, any one block), of one guarantee, and for every scheduler or for one policy
only. Comparisons of machines use times, never cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from ptxwcet.claims import Guarantee
from ptxwcet.report.head import FileHead
from ptxwcet.support.records import dataclass

Value = int | str | None
Scope = Literal["launch", "block"]


@dataclass(frozen=True, slots=True)
class BestVariant:
    """A variant: its rank (equal bounds have one rank), its bound in cycles, seconds and as a
    multiple of the least, and the unit that has it.
    """

    rank: int
    unit: int
    variant: Mapping[str, Value]
    cycles: int
    seconds: float
    times_the_least: float
    guarantee: Annotated[str, Guarantee]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The variants with a bound of one scope and guarantee on a machine, the best of them, and the
    keys of the assumptions that any of them rests on. All solve one ``problem``, empty if there is
    no other; ``varying`` are the columns that tell them apart.

    ``policy`` is that of the method scheduled, whose bounds hold for that scheduler alone; None:
    they hold for each.
    """

    problem: Mapping[str, Value]
    of: Scope
    guarantee: Annotated[str, Guarantee]
    policy: str | None
    variants: int
    varying: tuple[str, ...]
    assumptions: tuple[str, ...]
    best: tuple[BestVariant, ...]


@dataclass(frozen=True, slots=True)
class MachineRanking:
    """A machine: how its units ended, and its rankings, problem by problem: launches first,
    strongest guarantee first, bounds for every scheduler before those for one policy.

    ``clock_mhz`` is that of its rows, cycles over seconds; None where nothing is bounded. The
    latency of its memory is None if it is varied.
    """

    machine: str
    clock_mhz: float | None
    memory_latency_cycles: int | None
    units: int
    bounded: int
    rankings: tuple[Ranking, ...]


@dataclass(frozen=True, slots=True)
class RefusalRow:
    """Units that ended alike without a bound, or without one of their launch (PW800).

    The message is that of the first of them.
    """

    code: str
    outcome: Literal["bounded", "refused", "failed"]
    units: int
    share_percent: float
    first_unit: int
    message: str


@dataclass(frozen=True, slots=True)
class ValueShare:
    """The units with a value, and how many of them have no bound, by code."""

    value: Value
    units: int
    unbounded: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ColumnShares:
    """The share of units without a bound for each value of a column."""

    column: str
    values: tuple[ValueShare, ...]


@dataclass(frozen=True, slots=True)
class BestElsewhere:
    """Where the best variant of ``machine`` stands on ``other``: its rank of ``variants`` there,
    and its time as a multiple of the least there; None where it has no such bound.
    """

    machine: str
    other: str
    unit: int
    rank: int | None
    variants: int
    times_the_least: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two machines, by their first rankings of a problem: Spearman's correlation of the ranks of
    the variants that both bound (1 the same order, -1 the opposite; None where there is no order).

    Nothing is compared (``reason``) if one has bounds of launches and the other of blocks only.
    """

    machines: tuple[str, str]
    problem: Mapping[str, Value]
    of: Scope | None
    guarantees: tuple[str, str]
    policies: tuple[str | None, str | None]
    variants: int
    rank_correlation: float | None
    best: tuple[BestElsewhere, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class MapPanel:
    """The map of a machine, rows of cells from the first value of ``y`` on.

    Of each cell the least ``seconds`` of a bound of the scope and guarantee, for every scheduler or
    for one ``policy``, None without one, how many ``units`` it has, and how many of them have only
    bounds of another kind (``other_kind``).
    """

    machine: str
    of: Scope | None
    guarantee: Annotated[str, Guarantee] | None
    policy: str | None
    seconds: tuple[tuple[float | None, ...], ...]
    units: tuple[tuple[int, ...], ...]
    other_kind: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class SweepMap:
    """The least bounds over two columns, over all that the other columns say, for each machine.

    ``problem`` is the one that all units shown solve, if the columns do not say which it is.
    """

    problem: Mapping[str, Value]
    x: str
    y: str
    x_values: tuple[Value, ...]
    y_values: tuple[Value, ...]
    panels: tuple[MapPanel, ...]


@dataclass(frozen=True, slots=True)
class SweepReport(FileHead):
    """What a sweep found. ``file`` and ``sha256`` are those of the results.

    ``only`` is what the units shown were chosen by. ``problem`` are the columns that say which
    problem a unit solves, where there are several. ``varying`` are the columns that tell variants
    apart, ``following`` those that vary with them, ``fixed`` the others with their one value.
    """

    plan: str | None
    plan_sha256: str | None
    made_by: tuple[str, ...]
    only: tuple[str, ...]
    problem: tuple[str, ...]
    units: int
    bounded: int
    refused: int
    failed: int
    varying: tuple[str, ...]
    following: tuple[str, ...]
    fixed: Mapping[str, Value]
    machines: tuple[MachineRanking, ...]
    comparisons: tuple[Comparison, ...]
    refusals: tuple[RefusalRow, ...]
    shares: tuple[ColumnShares, ...]
    map: SweepMap | None
    map_missing: str


def scheduler_text(policy: str | None) -> str:
    """Returns which schedulers a bound holds for."""
    return "for every scheduler" if policy is None else f"for the policy {policy} alone"
