"""The pictures of bars: the best variants of a machine, and what has no bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ptxwcet.sweeps.results.map_picture import plain
from ptxwcet.sweeps.results.sweep_model import ColumnShares, MachineRanking, Ranking, SweepReport
from ptxwcet.sweeps.results.sweep_text import (
    claim_text,
    seconds_text,
    times_text,
    unit_of_time,
    value_text,
    variant_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#4477aa", "#ee6677", "#ccbb44", "#228833", "#aa3377", "#8a8f98")
"""The colours of the pages, ``--c0`` to ``--c5``."""

_OF_GUARANTEES = {"safe-bound": 0, "probabilistic": 3, "estimate": 2, "observed": 5}
_OF_CODES = (1, 0, 2, 3, 4)  # and grey for the others
_RULE = "#cccccc"
_MOST_LABELS = 16
_MOST_BARS = 40
_OTHERS = "others"


def draw_best(machine: MachineRanking, varying: Sequence[str]) -> Figure:
    """The best variants of a machine as bars from zero, up to 40 for each kind of bound."""
    # here: the library is loaded only when a picture is asked for
    from matplotlib.figure import Figure

    counts = [min(len(ranking.best), _MOST_BARS) for ranking in machine.rankings]
    height = sum(1.0 + 0.26 * count for count in counts)
    figure = Figure(figsize=(7.2, max(height, 1.8)), layout="constrained")
    parts = figure.subplots(len(counts), 1, squeeze=False, height_ratios=[2 + n for n in counts])
    for axes, ranking in zip(parts[:, 0], machine.rankings, strict=True):
        _bars_of(axes, ranking, varying)
        axes.set_title(f"{plain(machine.machine)}: {claim_text(ranking)}")
    return figure


def _bars_of(axes: Axes, ranking: Ranking, varying: Sequence[str]) -> None:
    best = ranking.best[:_MOST_BARS]
    factor, unit = unit_of_time(best[0].seconds)
    times = [one.seconds * factor for one in best]
    places = range(len(times))
    axes.barh(places, times, height=0.7, color=PALETTE[_OF_GUARANTEES[ranking.guarantee]])
    labels = [
        plain(f"{one.rank}.  {variant_text(one.variant, varying) or f'unit {one.unit}'}", 64)
        for one in best
    ]
    axes.set_yticks(places, labels)
    for place, one in zip(places, best, strict=True):
        said = f"{seconds_text(one.seconds)}  ({times_text(one.times_the_least)})"
        _at_the_end(axes, times[place], place, said)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set(xlabel=unit, xlim=(0, 1.42 * max(times) or 1), ylim=(len(times) - 0.4, -0.6))
    axes.tick_params(axis="y", length=0)
    _frame(axes, "x")


def draw_codes(report: SweepReport) -> Figure:
    """How many units have no bound, by code."""
    from matplotlib.figure import Figure

    colours = _colours(report)
    rows: dict[str, int] = {}
    for row in report.refusals:
        if row.outcome != "bounded":
            rows[row.code] = rows.get(row.code, 0) + row.units
    shown = list(rows.items())[:_MOST_LABELS]
    figure = Figure(figsize=(5.2, max(1.7, 1.0 + 0.3 * len(shown))), layout="constrained")
    axes = figure.subplots()
    places = range(len(shown))
    counts = [count for _, count in shown]
    axes.barh(
        places, counts, height=0.7, color=[colours.get(code, PALETTE[5]) for code, _ in shown]
    )
    axes.set_yticks(places, [plain(code) for code, _ in shown])
    for place, count in enumerate(counts):
        _at_the_end(axes, count, place, f"{count:,}  ({100 * count / report.units:.1f} %)")
    axes.set(xlabel="units", xlim=(0, 1.4 * max(counts)), ylim=(len(shown) - 0.4, -0.6))
    axes.set_title(f"without a bound: of {report.units:,} units")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    _whole_numbers(axes)
    _frame(axes, "x")
    return figure


def draw_shares(report: SweepReport, column: ColumnShares) -> Figure:
    """The share of units without a bound for each value of a column, codes one on the other."""
    from matplotlib.figure import Figure

    colours = {**_colours(report), _OTHERS: PALETTE[5]}
    figure = Figure(figsize=(5.2, 3.0), layout="constrained")
    axes = figure.subplots()
    places = range(len(column.values))
    base = [0.0] * len(column.values)
    for code, colour in colours.items():
        shares = [100 * _count(one.unbounded, code, colours) / one.units for one in column.values]
        if any(shares):
            axes.bar(places, shares, width=0.72, bottom=base, color=colour, label=plain(code))
            base = [low + share for low, share in zip(base, shares, strict=True)]
    step = -(-len(column.values) // _MOST_LABELS)
    labels = [plain(value_text(one.value), 20) for one in column.values][::step]
    is_long = len(labels) * (max(map(len, labels)) + 2) > 56
    axes.set_xticks(places[::step], labels, rotation=30 if is_long else 0)
    if is_long:
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axes.set(xlabel=plain(column.column), ylabel="% of its units")
    axes.set(ylim=(0, _top(report)), xlim=(-0.6, len(places) - 0.4))
    axes.set_title(f"without a bound, by {plain(column.column)}")
    axes.tick_params(axis="x", length=0)
    _frame(axes, "y")
    figure.legend(loc="outside right upper", frameon=False, reverse=True)
    return figure


def _top(report: SweepReport) -> float:
    """Where the axis of shares ends in per cent: in all pictures of a report at one place."""
    shares = (
        sum(value.unbounded.values()) / value.units
        for column in report.shares
        for value in column.values
    )
    return min(100.0, 110 * max(shares))


def _count(unbounded: Mapping[str, int], code: str, named: Mapping[str, str]) -> int:
    if code != _OTHERS:
        return unbounded.get(code, 0)
    return sum(count for one, count in unbounded.items() if one not in named)


def _colours(report: SweepReport) -> dict[str, str]:
    """The colours of the most frequent codes; the others share one."""
    codes = dict.fromkeys(row.code for row in report.refusals if row.outcome != "bounded")
    return {code: PALETTE[number] for code, number in zip(codes, _OF_CODES, strict=False)}


def _at_the_end(axes: Axes, x: float, y: float, text: str) -> None:
    """A text beside the end of a bar."""
    axes.annotate(
        text,
        (x, y),
        xytext=(5, 0),  # not by spaces: a browser leaves them out
        textcoords="offset points",
        va="center",
        fontsize=8,
    )


def _whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def _frame(axes: Axes, along: str) -> None:
    """Lines behind the bars along one axis, and no box around them."""
    axes.set_axisbelow(True)
    if along == "y":  # bars that lie have their numbers at their ends
        axes.grid(axis="y", color=_RULE, lw=0.6)
    for side in ("top", "right", "left" if along == "x" else "bottom"):
        axes.spines[side].set_visible(False)
