"""The report of a sweep from its results: nothing is analysed, rows are counted and ordered.

Cost: some seconds for a million rows, linear but for sorting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ptxwcet.claims import Guarantee
from ptxwcet.report.head import report_head
from ptxwcet.sweeps.results.axes import Axes, identities
from ptxwcet.sweeps.results.results_table import Column, Integers, Mask, ResultsTable
from ptxwcet.sweeps.results.sweep_map import build_map, rows_of_policy
from ptxwcet.sweeps.results.sweep_model import (
    BestElsewhere,
    BestVariant,
    ColumnShares,
    Comparison,
    MachineRanking,
    Ranking,
    RefusalRow,
    Scope,
    SweepReport,
    Value,
    ValueShare,
    scheduler_text,
)

MOST_VALUES = 60
"""Most values of a column that is drawn or tabulated value by value: more cannot be read."""

_SCOPES: tuple[Scope, ...] = ("launch", "block")


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The variants with bounds of one kind on a machine: the least bound and first unit of each.

    ``policy`` is None for bounds that hold for every scheduler, see Ranking.
    ``rows`` are in order, ``ranks`` beside them; ``variants`` are the same numbers on all machines.
    """

    of: Scope
    guarantee: str
    policy: str | None
    rows: Integers
    ranks: Integers
    variants: Integers


def build_sweep_report(
    table: ResultsTable,
    *,
    best: int = 10,
    x: str | None = None,
    y: str | None = None,
    only: Sequence[str] = (),
) -> SweepReport:
    """The report of results; ``x`` and ``y`` are the columns of its map (axes.choose_axes).

    ``only`` is said in it, see :func:`ptxwcet.sweeps.results.axes.chosen_rows`. Raises
    :class:`ptxwcet.sweeps.results.axes.NotAnAxis` for a column that cannot be drawn.
    """
    axes = Axes.of(table)
    variants = identities([table.columns[name].codes for name in table.variant_columns])
    machines = table.columns["machine"]
    orders = {
        str(name): _orders(table, machines.rows_with(name), variants) for name in machines.values
    }
    outcomes = table.columns["outcome"]
    counts = {one: int(outcomes.rows_with(one).sum()) for one in ("bounded", "refused", "failed")}
    first = {name: ranked[0] for name, ranked in orders.items() if ranked}
    kinds = {name: (one.of, one.guarantee, one.policy) for name, one in first.items()}
    drawn, missing = build_map(table, axes, kinds, x, y, MOST_VALUES)
    return SweepReport(
        *report_head(),
        *(table.path, table.sha256),
        *(table.plan, table.plan_sha256),
        tuple(str(one) for one in table.columns["version"].values),
        tuple(only),
        *(table.rows, counts["bounded"], counts["refused"], counts["failed"]),
        axes.varying,
        axes.following,
        axes.fixed,
        tuple(_machine(table, name, ranked, best) for name, ranked in orders.items()),
        tuple(_comparison(table, first, pair) for pair in combinations(first, 2)),
        *(_refusals(table), _shares(table, axes)),
        *(drawn, missing),
    )


def _orders(table: ResultsTable, here: Mask, variants: Integers) -> tuple[Order, ...]:
    """The orders of a machine's rows: launches before blocks, stronger guarantees first.

    Bounds of the method scheduled stand alone, policy by policy: a bound that holds for one
    scheduler is no smaller than one that holds for all, it says less.
    """
    policies = table.columns["policy"]
    bounded = here & (table.cycles >= 0)
    orders = []
    for scope in _SCOPES:
        for guarantee in Guarantee:
            kind = bounded & table.columns["of"].rows_with(scope)
            kind &= table.columns["guarantee"].rows_with(guarantee.value)
            for policy in (None, *map(str, policies.values)):
                rows = np.flatnonzero(kind & rows_of_policy(table, policy))
                if len(rows):
                    orders.append(_order(table, scope, guarantee.value, policy, rows, variants))
    return tuple(orders)


def _order(
    table: ResultsTable,
    scope: Scope,
    guarantee: str,
    policy: str | None,
    rows: Integers,
    variants: Integers,
) -> Order:
    rows = rows[np.lexsort((table.units[rows], table.cycles[rows]))]
    _, first = np.unique(variants[rows], return_index=True)  # a variant counts once
    rows = rows[np.sort(first)]
    cycles = table.cycles[rows]
    ranks = np.searchsorted(cycles, cycles, side="left") + 1
    return Order(scope, guarantee, policy, rows, ranks, variants[rows])


def _machine(table: ResultsTable, name: str, orders: Sequence[Order], best: int) -> MachineRanking:
    here = table.columns["machine"].rows_with(name)
    bounded = here & table.columns["outcome"].rows_with("bounded")
    rankings = tuple(_ranking(table, order, best) for order in orders)
    return MachineRanking(
        *(name, _clock(table, here), _latency(table, here)),
        *(int(here.sum()), int(bounded.sum()), rankings),
    )


def _latency(table: ResultsTable, here: Mask) -> int | None:
    column = table.columns["memory_latency"]
    codes = np.unique(column.codes[here])
    return int(column.values[codes[0]]) if len(codes) == 1 and codes[0] >= 0 else None


def _clock(table: ResultsTable, here: Mask) -> float | None:
    """The clock of a machine, from its longest bound, where rounding of seconds matters least."""
    rows = np.flatnonzero(here & (table.cycles > 0) & (table.seconds > 0))
    if not len(rows):
        return None
    row = rows[np.argmax(table.cycles[rows])]
    megahertz = int(table.cycles[row]) / float(table.seconds[row]) / 1e6
    return float(f"{megahertz:.6g}")


def _ranking(table: ResultsTable, order: Order, best: int) -> Ranking:
    least = max(int(table.cycles[order.rows[0]]), 1)
    rows = tuple(
        BestVariant(
            int(rank),
            int(table.units[row]),
            variant_of(table, int(row)),
            int(table.cycles[row]),
            float(table.seconds[row]),
            round(int(table.cycles[row]) / least, 6),
            order.guarantee,
        )
        for row, rank in zip(order.rows[:best], order.ranks[:best], strict=True)
    )
    assumptions = table.columns["assumptions"]
    codes = np.unique(assumptions.codes[order.rows])
    keys = {key for code in codes if code >= 0 for key in str(assumptions.values[code]).split()}
    kind = (order.of, order.guarantee, order.policy)
    return Ranking(*kind, len(order.rows), tuple(sorted(keys)), rows)


def variant_of(table: ResultsTable, row: int) -> dict[str, Value]:
    """What a row is but for its machine, by column."""
    return {name: table.columns[name].value(row) for name in table.variant_columns}


def _comparison(table: ResultsTable, first: dict[str, Order], pair: tuple[str, str]) -> Comparison:
    one, other = (first[name] for name in pair)
    guarantees = (one.guarantee, other.guarantee)
    policies = (one.policy, other.policy)
    if one.of != other.of:
        reason = f"{pair[0]} has bounds of a {one.of} first, {pair[1]} of a {other.of}"
        return Comparison(pair, None, guarantees, policies, 0, None, (), reason)
    if one.policy != other.policy:
        kinds = (
            f"{name} {scheduler_text(each)}" for name, each in zip(pair, policies, strict=True)
        )
        reason = f"the first bounds of {' and of '.join(kinds)}"
        return Comparison(pair, None, guarantees, policies, 0, None, (), reason)
    _, here, there = np.intersect1d(one.variants, other.variants, return_indices=True)
    correlation = _rank_correlation(table.cycles[one.rows[here]], table.cycles[other.rows[there]])
    best = (
        _elsewhere(table, pair[0], pair[1], one, other),
        _elsewhere(table, pair[1], pair[0], other, one),
    )
    return Comparison(pair, one.of, guarantees, policies, len(here), correlation, best, "")


def _rank_correlation(one: Integers, other: Integers) -> float | None:
    """Spearman's: the correlation of mean ranks."""
    if len(one) < 2:
        return None
    deviations = [ranks - ranks.mean() for ranks in (_mean_ranks(one), _mean_ranks(other))]
    squares = [float((each * each).sum()) for each in deviations]
    if min(squares) == 0:
        return None  # all equal: there is no order
    together = float((deviations[0] * deviations[1]).sum())
    return round(together / math.sqrt(squares[0] * squares[1]), 4)


def _mean_ranks(values: Integers) -> NDArray[np.float64]:
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (last - (counts - 1) / 2)[groups.reshape(-1)]
    return mean


def _elsewhere(
    table: ResultsTable, name: str, other_name: str, order: Order, other: Order
) -> BestElsewhere:
    unit = int(table.units[order.rows[0]])
    places = np.flatnonzero(other.variants == order.variants[0])
    if not len(places):
        return BestElsewhere(name, other_name, unit, None, len(other.rows), None)
    place = int(places[0])
    least = max(int(table.cycles[other.rows[0]]), 1)
    times = round(int(table.cycles[other.rows[place]]) / least, 6)
    return BestElsewhere(name, other_name, unit, int(other.ranks[place]), len(other.rows), times)


def _refusals(table: ResultsTable) -> tuple[RefusalRow, ...]:
    """By code and outcome, the most frequent first."""
    codes, outcomes = table.columns["code"], table.columns["outcome"]
    told = (codes.codes >= 0) | ~outcomes.rows_with("bounded")
    rows = np.flatnonzero(told)
    keys = codes.codes[rows].astype(np.int64) * len(outcomes.values) + outcomes.codes[rows]
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    found = [
        RefusalRow(
            str(codes.value(row) or "no code"),
            outcomes.value(row),  # type: ignore[arg-type]  # checked when it was read
            int(count),
            round(100 * int(count) / table.rows, 2),
            int(table.units[row]),
            str(table.columns["message"].value(row) or ""),
        )
        for row, count in zip(rows[first].tolist(), counts, strict=True)
    ]
    return tuple(sorted(found, key=lambda each: (-each.units, each.code, each.outcome)))


def _shares(table: ResultsTable, axes: Axes) -> tuple[ColumnShares, ...]:
    """For each column that varies, and for the machines, which values have no bounds."""
    unbounded = ~table.columns["outcome"].rows_with("bounded")
    if not unbounded.any():
        return ()
    drawn = [(name, table.columns[name]) for name in ("machine", *axes.varying)]
    return tuple(
        ColumnShares(name, _value_shares(column, table.columns["code"], unbounded))
        for name, column in drawn
        if 2 <= len(column.values) <= MOST_VALUES
    )


def _value_shares(column: Column, codes: Column, unbounded: Mask) -> tuple[ValueShare, ...]:
    width = len(codes.values) + 1
    units = np.bincount(column.codes + 1, minlength=len(column.values) + 1)
    cells = (column.codes[unbounded] + 1).astype(np.int64) * width + codes.codes[unbounded] + 1
    counts = np.bincount(cells, minlength=len(units) * width).reshape(len(units), width)
    names = ("no code", *map(str, codes.values))
    return tuple(
        ValueShare(
            None if value == 0 else column.values[value - 1],
            int(units[value]),
            {
                name: int(count)
                for name, count in sorted(zip(names, counts[value], strict=True))
                if count
            },
        )
        for value in (*range(1, len(units)), 0)
        if units[value]
    )
