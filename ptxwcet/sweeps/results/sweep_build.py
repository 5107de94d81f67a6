"""Builds the report of a sweep from its results: rows are counted and sorted, not analysed.

Cost: some seconds for a million rows, linear except for sorting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from ptxwcet.claims import Guarantee
from ptxwcet.report.head import report_head
from ptxwcet.support.records import dataclass
from ptxwcet.support.toml_places import nearest
from ptxwcet.sweeps.results.results_table import ResultsTable
from ptxwcet.sweeps.results.sweep_model import (
    BestElsewhere,
    BestVariant,
    ColumnShares,
    Comparison,
    MachineRanking,
    MapPanel,
    Ranking,
    RefusalRow,
    Scope,
    SweepMap,
    SweepReport,
    Value,
    ValueShare,
    scheduler_text,
)

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MOST_VALUES = 60
"""Most values of a column that is drawn or tabulated value by value: more cannot be read."""

_VARIANT, _RANK, _PROBLEM = "#variant", "#rank", "#problem"
"""Columns of rows that no results have: the numbers of a row's variant and problem, its rank."""
_OF_MACHINES = frozenset(f"set.{key}" for key in ("ptxas_info", "registers", "sms"))
"""Columns of the plan in which a variant may differ from machine to machine and be the same one."""
_SCOPES: tuple[Scope, ...] = ("launch", "block")


class NotAnAxis(Exception):
    """A column that cannot be used as its option requires; the message has the reason."""


@dataclass(frozen=True, slots=True)
class _Axes:
    """The columns that distinguish variants, in their order.

    ``varying`` have several values. A parameter of the kernel, or a column that every sweep has, is
    ``following`` if the columns before it determine its value: a block that is made of the sizes of
    a tile; so are registers if these columns and the machine determine them. ``fixed`` have one
    value, or none.
    """

    varying: tuple[str, ...]
    following: tuple[str, ...]
    fixed: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class _Kind:
    """Bounds that can be compared: their scope, their guarantee, the one policy they hold for."""

    of: Scope
    guarantee: str
    policy: str | None

    def rows(self, bounded: DataFrame) -> DataFrame:
        """Returns the rows with such a bound."""
        policies = bounded["policy"]
        kept = policies.isna() if self.policy is None else policies == self.policy
        kept &= (bounded["of"] == self.of) & (bounded["guarantee"] == self.guarantee)
        return bounded[kept]


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """The variants with bounds of one kind, for a problem on a machine: each with its least bound
    and first unit.

    ``rows`` are in order, with their ranks; variants have the same numbers on all machines.
    """

    problem: int
    kind: _Kind
    rows: DataFrame

    @property
    def least(self) -> int:
        """The least bound, at least 1: the unit of the others."""
        return max(int(self.rows["cycles"].iloc[0]), 1)


def build_sweep_report(
    table: ResultsTable,
    *,
    best: int = 10,
    x: str | None = None,
    y: str | None = None,
    only: Sequence[str] = (),
    per: Sequence[str] | None = None,
) -> SweepReport:
    """Returns the report of results; ``x`` and ``y`` are the columns of its map.

    By default these are the two columns with the most different pairs. ``only`` is reported, see
    chosen_rows. ``per`` are the columns that define the problem of a unit; None: the parameters.
    Raises NotAnAxis for a column that does not exist or cannot be drawn.
    """
    axes = _axes(table)
    problem = tuple(_problem_columns(table, per))
    rows = table.rows.assign(
        **{
            _VARIANT: _numbered(_codes(table, (*axes.varying, *axes.fixed))),
            _PROBLEM: _numbered(_codes(table, problem)) if problem else 0,
        }
    )
    here = {name: rows[rows["machine"] == name] for name in map(str, table.values("machine"))}
    orders = {name: tuple(_orders(table, mine)) for name, mine in here.items()}
    first = {
        name: {order.problem: order for order in reversed(ranked)}
        for name, ranked in orders.items()
    }
    counted = rows["outcome"].value_counts()
    counts = [int(counted.get(outcome, 0)) for outcome in ("bounded", "refused", "failed")]
    drawn = _map(table, axes, rows, first, problem, (x, y))
    return SweepReport(
        *report_head(),
        *(table.path, table.sha256),
        *(table.plan, table.plan_sha256),
        tuple(map(str, table.values("version"))),
        *(tuple(only), problem),
        *(len(rows), counts[0], counts[1], counts[2]),
        axes.varying,
        axes.following,
        axes.fixed,
        tuple(
            _machine(table, name, here[name], orders[name], best, problem, axes.varying)
            for name in here
        ),
        tuple(
            _comparison((name, first[name][each]), (other, first[other][each]), problem)
            for name, other in combinations(first, 2)
            for each in sorted(first[name].keys() & first[other].keys())
        ),
        *(_refusals(rows), _shares(table, axes)),
        drawn,
        "" if drawn else f"a map needs two columns with 2 to {MOST_VALUES} values each",
    )


def chosen_rows(table: ResultsTable, wanted: Sequence[str]) -> ResultsTable:
    """Returns the rows with the values of ``NAME=VALUE``; several of one name are alternatives.

    Raises NotAnAxis for a name or a value that is not in the results.
    """
    values: dict[str, list[int | str]] = {}
    for text in wanted:
        name, equals, shown = text.partition("=")
        if not equals:
            raise NotAnAxis(f"--only '{text}' is not NAME=VALUE")
        _require_name("--only", name, (*table.variant_columns, "machine"))
        there = {str(value): value for value in table.values(name)}
        if shown not in there:
            listed = ", ".join(list(there)[:8]) + ", ..." * (len(there) > 8)
            raise NotAnAxis(f"--only: no unit has {name}={shown}; there are {listed or 'none'}")
        values.setdefault(name, []).append(there[shown])
    kept = table.rows["unit"].notna()
    for name, alternatives in values.items():
        kept &= table.rows[name].isin(alternatives)
    if not kept.any():
        raise NotAnAxis(f"--only: no unit has {' and '.join(wanted)}")
    return table.only(kept)


# --- columns --------------------------------------------------------------------------------------


def _codes(table: ResultsTable, names: Sequence[str]) -> DataFrame:
    """Returns the numbers of the values that rows have in these columns; -1 for none."""
    return table.rows[list(names)].apply(lambda column: column.cat.codes)


def _numbered(codes: DataFrame) -> Series:
    """Returns a number for each row, from 0: the same where all columns are the same."""
    return codes.groupby(list(codes), sort=False).ngroup()


def _axes(table: ResultsTable) -> _Axes:
    """Returns the axes of results. Cost: a grouping of the rows for each column that varies."""
    varying: list[str] = []
    following: list[str] = []
    fixed: dict[str, Value] = {}
    codes = _codes(table, table.variant_columns)
    so_far, groups = codes.iloc[:, 0] * 0, 1
    for name in table.variant_columns:
        values = table.values(name)
        if len(values) + table.has_empty(name) < 2:
            if values:
                fixed[name] = values[0]
            continue
        now = _numbered(codes[[name]].assign(**{_VARIANT: so_far}))
        count = int(now.max()) + 1
        is_named = name in table.plan_columns and not name.startswith("param.")
        on_each = codes[name].groupby([so_far, table.rows["machine"].cat.codes])
        is_told = name in _OF_MACHINES and int(on_each.nunique().max()) == 1
        if is_told or (count == groups and not is_named):
            following.append(name)
            continue
        varying.append(name)
        so_far, groups = now, count
    return _Axes(tuple(varying), tuple(following), fixed)


def _require_name(option: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        listed = f"{nearest(name, known)}there are {', '.join(known)}"
        raise NotAnAxis(f"{option}: no column '{name}'; {listed}")


def _problem_columns(table: ResultsTable, per: Sequence[str] | None) -> Iterator[str]:
    """Yields the varying columns that define the problem of a unit. Raises NotAnAxis."""
    for name in per or ():
        _require_name("--per", name, table.variant_columns)
    for name in table.variant_columns:
        is_one = name.startswith("param.") if per is None else name in per
        if is_one and len(table.values(name)) + table.has_empty(name) > 1:
            yield name


def _problem(rows: DataFrame, columns: Sequence[str]) -> dict[str, Value]:
    """Returns the problem that all rows solve: the values of columns."""
    first = {name: _value(rows[name].iloc[0]) for name in columns}
    return {name: value for name, value in first.items() if value is not None}


# --- rankings -------------------------------------------------------------------------------------


def _orders(table: ResultsTable, here: DataFrame) -> Iterator[_Order]:
    """Yields the orders of a machine's rows, problem by problem: launches before blocks, stronger
    guarantees first.

    Bounds of the method scheduled are ranked separately, by policy: a bound for one scheduler is
    not comparable with a bound for all.
    """
    bounded = here[here["cycles"] >= 0].sort_values(["cycles", "unit"])
    policies = (None, *map(str, table.values("policy")))
    kinds = [_Kind(*one) for one in product(_SCOPES, (one.value for one in Guarantee), policies)]
    for problem, alike in bounded.groupby(_PROBLEM):
        for kind in kinds:
            rows = kind.rows(alike).drop_duplicates(_VARIANT)
            if len(rows):
                ranks = rows["cycles"].rank(method="min").astype(int)
                yield _Order(int(problem), kind, rows.assign(**{_RANK: ranks}))


def _machine(
    table: ResultsTable,
    name: str,
    here: DataFrame,
    orders: Sequence[_Order],
    best: int,
    problem: Sequence[str],
    varying: Sequence[str],
) -> MachineRanking:
    latencies = here["memory_latency"].unique()
    is_one = len(latencies) == 1 and not here["memory_latency"].isna().any()
    return MachineRanking(
        *(name, _clock(here), int(latencies[0]) if is_one else None),
        *(len(here), int((here["outcome"] == "bounded").sum())),
        tuple(_ranking(table, order, best, problem, varying) for order in orders),
    )


def _clock(here: DataFrame) -> float | None:
    """Returns the clock of a machine, from its longest bound with the least rounding."""
    timed = here[(here["cycles"] > 0) & (here["seconds"] > 0)]
    if timed.empty:
        return None
    row = timed.loc[timed["cycles"].idxmax()]
    return float(f"{int(row['cycles']) / float(row['seconds']) / 1e6:.6g}")


def _ranking(
    table: ResultsTable,
    order: _Order,
    best: int,
    problem: Sequence[str],
    varying: Sequence[str],
) -> Ranking:
    rows = tuple(
        BestVariant(
            int(variant[_RANK]),
            int(variant["unit"]),
            {name: _value(variant[name]) for name in table.variant_columns},
            int(variant["cycles"]),
            float(variant["seconds"]),
            round(int(variant["cycles"]) / order.least, 6),
            order.kind.guarantee,
        )
        for variant in order.rows[:best].to_dict("records")
    )
    keys = {key for text in order.rows["assumptions"].dropna().unique() for key in text.split()}
    kind = (order.kind.of, order.kind.guarantee, order.kind.policy)
    apart = tuple(name for name in varying if order.rows[name].nunique(dropna=False) > 1)
    solved = _problem(order.rows, problem)
    return Ranking(solved, *kind, len(order.rows), apart, tuple(sorted(keys)), rows)


def _value(cell: Any) -> Value:
    """Returns a value of a categorical column, which has NaN for none."""
    return cell if isinstance(cell, str) else None if cell != cell else int(cell)


def _comparison(
    first: tuple[str, _Order], second: tuple[str, _Order], problem: Sequence[str]
) -> Comparison:
    (name, own), (other_name, other) = first, second
    pair, solved = (name, other_name), _problem(own.rows, problem)
    guarantees = (own.kind.guarantee, other.kind.guarantee)
    policies = (own.kind.policy, other.kind.policy)
    reason = ""
    if own.kind.of != other.kind.of:
        reason = f"{name} has bounds of a {own.kind.of} first, {other_name} of a {other.kind.of}"
    elif own.kind.policy != other.kind.policy:
        kinds = (
            f"{name} {scheduler_text(each)}" for name, each in zip(pair, policies, strict=True)
        )
        reason = f"the first bounds of {' and of '.join(kinds)}"
    if reason:
        return Comparison(pair, solved, None, guarantees, policies, 0, None, (), reason)
    wanted = [_VARIANT, "cycles"]
    both = own.rows[wanted].merge(other.rows[wanted], on=_VARIANT)
    ranks = both[["cycles_x", "cycles_y"]].rank()
    correlation = None
    if (ranks.nunique() > 1).all():  # otherwise there is no order
        correlation = round(float(ranks["cycles_x"].corr(ranks["cycles_y"])), 4)
    best = (_elsewhere(name, other_name, own, other), _elsewhere(other_name, name, other, own))
    kind = (own.kind.of, guarantees, policies)
    return Comparison(pair, solved, *kind, len(both), correlation, best, "")


def _elsewhere(name: str, other_name: str, order: _Order, other: _Order) -> BestElsewhere:
    best = order.rows.iloc[0]
    there = other.rows[other.rows[_VARIANT] == best[_VARIANT]]
    rank = times = None
    if len(there):
        rank = int(there[_RANK].iloc[0])
        times = round(int(there["cycles"].iloc[0]) / other.least, 6)
    return BestElsewhere(name, other_name, int(best["unit"]), rank, len(other.rows), times)


# --- refusals -------------------------------------------------------------------------------------


def _refusals(rows: DataFrame) -> tuple[RefusalRow, ...]:
    """Returns the refusals by code and outcome, the most frequent first."""
    told = rows[rows["code"].notna() | (rows["outcome"] != "bounded")]
    refusals = []
    for (code, outcome), alike in told.groupby([_told_codes(told), told["outcome"].astype(object)]):
        message = alike["message"].iloc[0]
        refusals.append(
            RefusalRow(
                *(code, outcome, len(alike), round(100 * len(alike) / len(rows), 2)),
                int(alike["unit"].iloc[0]),
                message if isinstance(message, str) else "",
            )
        )
    return tuple(sorted(refusals, key=lambda each: (-each.units, each.code, each.outcome)))


def _told_codes(rows: DataFrame) -> Series:
    return rows["code"].astype(object).fillna("no code")


def _shares(table: ResultsTable, axes: _Axes) -> tuple[ColumnShares, ...]:
    """Returns the values without bounds, for each varying column, and for the machines."""
    unbounded = table.rows[table.rows["outcome"] != "bounded"]
    if unbounded.empty:
        return ()
    return tuple(
        ColumnShares(name, tuple(_value_shares(table, unbounded, name)))
        for name in ("machine", *axes.varying)
        if 2 <= len(table.values(name)) <= MOST_VALUES
    )


def _value_shares(table: ResultsTable, unbounded: DataFrame, name: str) -> Iterator[ValueShare]:
    units = table.rows[name].cat.codes.value_counts()
    counts = unbounded.groupby([unbounded[name].cat.codes, _told_codes(unbounded)]).size().to_dict()
    for place, value in (*enumerate(table.values(name)), (-1, None)):
        if place in units:
            codes = {code: count for (at, code), count in counts.items() if at == place}
            yield ValueShare(value, int(units[place]), codes)


# --- the map --------------------------------------------------------------------------------------


def _map(
    table: ResultsTable,
    axes: _Axes,
    rows: DataFrame,
    first: Mapping[str, Mapping[int, _Order]],
    problem: Sequence[str],
    named: tuple[str | None, str | None],
) -> SweepMap | None:
    """Returns the least bounds over two columns, a panel for each machine. Raises NotAnAxis.

    Where a cell would have units of several problems, the map is of the one with most bounds.
    """
    chosen = _map_columns(table, axes, *named)
    if chosen is None:
        return None
    solved: dict[str, Value] = {}
    cells = rows.groupby([rows[name].cat.codes for name in chosen])[_PROBLEM]
    if int(cells.nunique().max()) > 1:
        bounded = rows[rows["cycles"] >= 0]
        most = (bounded if len(bounded) else rows)[_PROBLEM].value_counts(sort=False)
        rows = rows[rows[_PROBLEM] == most.sort_index().idxmax()]
        solved = _problem(rows, problem)
    at = set(rows[_PROBLEM].unique())
    panels = tuple(
        _panel(
            *(table, chosen, name, rows[rows["machine"] == name]),
            next((order.kind for each, order in sorted(orders.items()) if each in at), None),
        )
        for name, orders in first.items()
    )
    across, down = (tuple(value for _, value in _places(table, name)) for name in chosen)
    return SweepMap(solved, *chosen, across, down, panels)


def _places(table: ResultsTable, name: str) -> Iterator[tuple[int, Value]]:
    """Yields the values of a column by their numbers; no value is the last one."""
    yield from enumerate(table.values(name))
    if table.has_empty(name):
        yield -1, None


def _panel(
    table: ResultsTable, chosen: tuple[str, str], name: str, here: DataFrame, kind: _Kind | None
) -> MapPanel:
    bounded = here[here["cycles"] >= 0]
    shown = bounded[:0] if kind is None else kind.rows(bounded)
    across, down = ([place for place, _ in _places(table, name)] for name in chosen)

    def cells(rows: DataFrame, missing: Any, most: str) -> tuple[tuple[Any, ...], ...]:
        """Returns the aggregate of the rows of each cell; ``missing`` without rows."""
        grouped = rows.groupby([rows[name].cat.codes for name in chosen])["seconds"]
        found = grouped.agg(most).to_dict()
        return tuple(tuple(found.get((i, j), missing) for i in across) for j in down)

    others = bounded.drop(shown.index)
    return MapPanel(
        name,
        None if kind is None else kind.of,
        None if kind is None else kind.guarantee,
        None if kind is None else kind.policy,
        cells(shown, None, "min"),
        cells(here, 0, "size"),
        cells(others, 0, "size"),
    )


def _map_columns(
    table: ResultsTable, axes: _Axes, x: str | None, y: str | None
) -> tuple[str, str] | None:
    """Returns the columns of a map: the named ones, or the two with the most different pairs.

    The result is None without two drawable columns, neither of which follows from the other. Raises
    NotAnAxis for a name that does not exist or cannot be drawn.
    """
    for name in (x, y):
        if name is not None:
            _require_axis(table, "--map", name)
    if x is not None and x == y:
        raise NotAnAxis(f"--map names {x} twice: a map has two columns")
    sizes = {name: len(table.values(name)) for name in table.variant_columns}
    drawable = [name for name in axes.varying if 2 <= sizes[name] <= MOST_VALUES]
    if len(drawable) < 2:
        drawable += [name for name in axes.following if 2 <= sizes[name] <= MOST_VALUES]
    named = [name for name in (x, y) if name is not None]
    pairs = {
        pair: len(table.rows[list(pair)].drop_duplicates())
        for pair in combinations(dict.fromkeys((*named, *drawable)), 2)
        if set(named) <= set(pair)
    }
    if len(named) < 2:  # the map of two equivalent columns is a line
        most = {name: size + table.has_empty(name) for name, size in sizes.items()}
        pairs = {pair: n for pair, n in pairs.items() if n > max(most[name] for name in pair)}
    if not pairs and named:
        raise NotAnAxis(
            f"{named[0]}: no other column has 2 to {MOST_VALUES} values and does not follow from it"
        )
    if not pairs:
        return None
    best = max(pairs, key=pairs.__getitem__)  # the first of equal ones
    if x is not None or y is not None:
        return best if x == best[0] or y == best[1] else (best[1], best[0])
    return best if sizes[best[0]] >= sizes[best[1]] else (best[1], best[0])


def _require_axis(table: ResultsTable, option: str, name: str) -> None:
    _require_name(option, name, table.variant_columns)
    size = len(table.values(name))
    if size > MOST_VALUES:
        raise NotAnAxis(f"{option}: {name} has {size:,} values; a map shows up to {MOST_VALUES}")
    if size < 2:
        raise NotAnAxis(f"{option}: {name} has the same value in all units")
