"""The pictures of a sweep: the map of each machine, its best variants, the unbounded units.

The module also renders their page, one HTML file that loads nothing; external text is escaped.

Figures are made without a display and kept as SVG or PNG bytes; the same report gives the same
bytes. The colours are those of the pages, and are suitable for colour-blind people.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from matplotlib import colormaps, rc_context
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from ptxwcet.report.page.parts import Made, fill, page_file, themed
from ptxwcet.report.page.pictures import file_name, picture_bytes
from ptxwcet.report.page.pictures import write_pictures as write_files
from ptxwcet.support.printable import printable_line
from ptxwcet.support.records import dataclass
from ptxwcet.sweeps.results import sweep_text
from ptxwcet.sweeps.results.sweep_model import (
    ColumnShares,
    MachineRanking,
    MapPanel,
    Ranking,
    SweepMap,
    SweepReport,
    Value,
    scheduler_text,
)
from ptxwcet.sweeps.results.sweep_text import (
    MOST_RANKINGS,
    claim_text,
    problem_text,
    scope_text,
    seconds_text,
    time_digits,
    times_text,
    unit_of_time,
    value_text,
    variant_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PACKAGE = "ptxwcet.sweeps.results"
_SETTINGS: dict[Any, Any] = {"hatch.linewidth": 0.8}


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture: its kind (``map``, ``best``, ``refused``), a name for files, a caption."""

    kind: str
    name: str
    caption: str
    figure: Figure

    def bytes(self, form: str) -> bytes:
        """Returns the picture as ``svg`` or ``png``."""
        transparent = form == "svg"
        return picture_bytes(self.figure, form, dpi=150, transparent=transparent, **_SETTINGS)


def draw_pictures(report: SweepReport) -> tuple[Picture, ...]:
    """Returns all pictures of a report. Cost: a second or so, whatever its size."""
    with rc_context({**_SETTINGS, "font.size": 9}):
        return (*_maps(report), *_bests(report), *_refusals(report))


def write_pictures(pictures: Sequence[Picture], path: Path) -> None:
    """Writes the pictures, whose names begin with the path's. Raises PtxwcetError (PW709)."""
    rows = ((file_name(picture.name), f"{picture.kind}-#", picture.bytes) for picture in pictures)
    write_files(rows, path)


def render_sweep_page(report: SweepReport, pictures: Sequence[Picture], made: Made) -> str:
    """Returns the page. Cost: linear in its content."""
    numbers = itertools.count()

    def drawn(picture: Picture) -> str:
        svg = picture.bytes("svg").decode()
        for number, colour in enumerate(PALETTE):  # as parts.themed expects them
            svg = svg.replace(colour, f"#12345{number}")
        return Markup(themed(svg, f"p{next(numbers)}-").replace(SOFT, "var(--soft)"))

    return fill(
        "sweep.html",
        package=_PACKAGE,
        report=report,
        pictures=pictures,
        drawn=drawn,
        made=made,
        style=Markup(page_file("style.css") + page_file("sweep.css", _PACKAGE)),
        say=sweep_text,
        sentence=lambda text: f"{text[:1].upper()}{text[1:]}.",
    )


def _maps(report: SweepReport) -> Iterator[Picture]:
    if report.map is None:
        return
    for panel in report.map.panels:
        if panel.of is not None:
            alone = "" if panel.policy is None else f", {scheduler_text(panel.policy)},"
            what = f"the least bound of {scope_text(panel.of)}{alone}"
            what += f" {problem_text(report.map.problem)}".rstrip()
            caption = f"{panel.machine}: {what} in each cell"
            yield Picture("map", f"map-{panel.machine}", caption, draw_map(report.map, panel))


def _bests(report: SweepReport) -> Iterator[Picture]:
    for machine in report.machines:
        if machine.rankings:
            kinds = "; ".join(map(claim_text, machine.rankings[:MOST_RANKINGS]))
            caption = f"{machine.machine}: the best variants, {kinds}"
            figure = draw_best(machine)
            yield Picture("best", f"best-{machine.machine}", caption, figure)


def _refusals(report: SweepReport) -> Iterator[Picture]:
    if not report.shares:
        return
    yield Picture("refused", "refused", "Units without a bound, by code", draw_codes(report))
    for column in report.shares:
        caption = f"Share of units without a bound, by {column.column}"
        name = f"refused-{column.column}"
        yield Picture("refused", name, caption, draw_shares(report, column))


# --- bars -----------------------------------------------------------------------------------------

PALETTE = ("#4477aa", "#ee6677", "#ccbb44", "#228833", "#aa3377", "#8a8f98")
"""The colours of the pages, ``--c0`` to ``--c5``."""

_OF_GUARANTEES = {"safe-bound": 0, "probabilistic": 3, "estimate": 2, "observed": 5}
_OF_CODES = (1, 0, 2, 3, 4)  # and grey for the others
_RULE = "#cccccc"
_MOST_LABELS = 16
_MOST_BARS = 40
_OTHERS = "others"


def draw_best(machine: MachineRanking) -> Figure:
    """Returns the best variants of a machine as bars from zero, up to 40 for each kind of bound."""
    rankings = machine.rankings[:MOST_RANKINGS]
    counts = [min(len(ranking.best), _MOST_BARS) for ranking in rankings]
    height = sum(1.0 + 0.26 * count for count in counts)
    figure = Figure(figsize=(7.2, max(height, 1.8)), layout="constrained")
    parts = figure.subplots(len(counts), 1, squeeze=False, height_ratios=[2 + n for n in counts])
    for axes, ranking in zip(parts[:, 0], rankings, strict=True):
        _bars_of(axes, ranking)
        axes.set_title(f"{plain(machine.machine)}: {claim_text(ranking)}", wrap=True)
    return figure


def _bars_of(axes: Axes, ranking: Ranking) -> None:
    best = ranking.best[:_MOST_BARS]
    factor, unit = unit_of_time(best[0].seconds)
    times = [variant.seconds * factor for variant in best]
    places = range(len(times))
    axes.barh(places, times, height=0.7, color=PALETTE[_OF_GUARANTEES[ranking.guarantee]])
    labels = [
        plain(
            f"{row.rank}.  {variant_text(row.variant, ranking.varying) or f'unit {row.unit}'}", 64
        )
        for row in best
    ]
    axes.set_yticks(places, labels)
    for place, variant in zip(places, best, strict=True):
        label = f"{seconds_text(variant.seconds)}  ({times_text(variant.times_the_least)})"
        _at_the_end(axes, times[place], place, label)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set(xlabel=unit, xlim=(0, 1.42 * max(times) or 1), ylim=(len(times) - 0.4, -0.6))
    axes.tick_params(axis="y", length=0)
    _frame(axes, "x")


def draw_codes(report: SweepReport) -> Figure:
    """Returns how many units have no bound, by code."""
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
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    _frame(axes, "x")
    return figure


def draw_shares(report: SweepReport, column: ColumnShares) -> Figure:
    """Draws the share of units without a bound for each value of a column, stacked by code."""
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
    labels = [plain(value_text(value.value), 20) for value in column.values][::step]
    is_long = len(labels) * (max(map(len, labels)) + 2) > 56
    axes.set_xticks(places[::step], labels, rotation=30 if is_long else 0)
    if is_long:
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axes.set(xlabel=plain(column.column), ylabel="% of its units")
    axes.set(ylim=(0, _top(report)), xlim=(-0.6, len(places) - 0.4))
    axes.set_title(f"without a bound, by {plain(column.column)}", wrap=True)
    axes.tick_params(axis="x", length=0)
    _frame(axes, "y")
    figure.legend(loc="outside right upper", frameon=False, reverse=True)
    return figure


def _top(report: SweepReport) -> float:
    """Returns the end of the axis of shares in per cent: the same for all pictures of a report."""
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
    """Returns the colours of the most frequent codes; the others share one."""
    codes = dict.fromkeys(row.code for row in report.refusals if row.outcome != "bounded")
    return {code: PALETTE[number] for code, number in zip(codes, _OF_CODES, strict=False)}


def _at_the_end(axes: Axes, x: float, y: float, text: str) -> None:
    """Draws a text next to the end of a bar."""
    axes.annotate(
        text,
        (x, y),
        xytext=(5, 0),  # not by spaces: browsers omit them
        textcoords="offset points",
        va="center",
        fontsize=8,
    )


def _frame(axes: Axes, along: str) -> None:
    """Draws lines below the bars along one axis, and no box around them."""
    axes.set_axisbelow(True)
    if along == "y":  # horizontal bars have their numbers at their ends
        axes.grid(axis="y", color=_RULE, lw=0.6)
    for side in ("top", "right", "left" if along == "x" else "bottom"):
        axes.spines[side].set_visible(False)


# --- maps -----------------------------------------------------------------------------------------

PAPER, SOFT = "#ffffff", "#808080"
"""Colours that a page replaces by its own."""
_DARK, _LIGHT = "#010101", "#fefefe"  # on cells, whose colours are the same on a dark page
_MOST_WITH_NUMBERS = (12, 16)
_RATIO_OF_LOGARITHMS = 10
_LONGEST_LABEL = 24
_HATCHES = {"refused": "////", "other": "..."}


def draw_map(drawn: SweepMap, panel: MapPanel) -> Figure:
    """Draws the map of a machine. Colours are logarithmic if bounds differ ten times or more."""
    columns, rows = len(drawn.x_values), len(drawn.y_values)
    size = (min(11.0, max(5.2, 2.2 + 0.55 * columns)), min(10.0, max(3.4, 1.9 + 0.36 * rows)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    times = np.array([[np.nan if one is None else one for one in line] for line in panel.seconds])
    factor, unit = unit_of_time(float(np.nanmin(times)))
    cells = times * factor
    norm, is_logarithmic = _norm(cells)
    colours = colormaps["viridis_r"]
    edges = np.arange(max(columns, rows) + 1) - 0.5
    axes.pcolormesh(
        edges[: columns + 1],
        edges[: rows + 1],
        np.ma.masked_invalid(cells),
        cmap=colours,
        norm=norm,
        edgecolors=PAPER,
        linewidth=0.8,
    )
    if columns <= _MOST_WITH_NUMBERS[0] and rows <= _MOST_WITH_NUMBERS[1]:
        _write_numbers(axes, times, factor, lambda value: colours(norm(value)))
    _mark_least(axes, cells)
    legend = list(_hatch(axes, panel))
    _label(axes, drawn)
    alone = "" if panel.policy is None else f", {scheduler_text(panel.policy)}"
    title = f"{plain(panel.machine)}: least {panel.guarantee} of a {panel.of}{alone}"
    axes.set_title(title, wrap=True)
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=axes, pad=0.02)
    bar.set_label(f"least bound, {unit}" + ", logarithmic" * is_logarithmic)
    _tick_colours(bar, is_logarithmic)
    if legend:
        figure.legend(handles=legend, loc="outside lower center", ncols=3, frameon=False)
    return figure


def plain(label: str, longest: int = 60) -> str:
    """Returns a label that matplotlib prints as it is: no formula, no controls, not too long."""
    shown = printable_line(label)
    if len(shown) > longest:
        half = longest // 2
        shown = f"{shown[: longest - half - 1]}…{shown[len(shown) - half :]}"
    return shown.replace("$", r"\$")


def _norm(cells: Any) -> tuple[Any, bool]:
    least, most = float(np.nanmin(cells)), float(np.nanmax(cells))
    if least > 0 and most >= _RATIO_OF_LOGARITHMS * least:
        return LogNorm(least, most), True
    if least == most:  # one colour, with a margin
        least, most = 0.9 * least, 1.1 * most or 1.0
    return Normalize(least, most), False


def _write_numbers(axes: Axes, times: Any, factor: int, colour_of: Any) -> None:
    for (line, column), seconds in np.ndenumerate(times):
        if np.isfinite(seconds):
            red, green, blue, _ = colour_of(seconds * factor)
            is_bright = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
            axes.text(
                column,
                line,
                time_digits(float(seconds), 3, factor),
                ha="center",
                va="center",
                fontsize=8,
                color=_DARK if is_bright else _LIGHT,
            )


def _mark_least(axes: Axes, cells: Any) -> None:
    for row, column in np.argwhere(cells == np.nanmin(cells)):
        for colour, width in ((_LIGHT, 3.4), (_DARK, 1.8)):
            corner = (column - 0.46, row - 0.46)
            axes.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, ec=colour, lw=width))


def _hatch(axes: Axes, panel: MapPanel) -> Iterator[Patch]:
    """Hatches the cells without such a bound; yields the legend of the hatches."""
    seen: dict[str, Patch] = {}
    meanings = {"refused": "no bound", "other": "another kind of bound only"}
    for (row, column), units in np.ndenumerate(np.array(panel.units)):
        if not units or panel.seconds[row][column] is not None:
            continue
        kind = "other" if panel.other_kind[row][column] else "refused"
        style: dict[str, Any] = {"fc": PAPER, "ec": SOFT, "hatch": _HATCHES[kind], "lw": 0.4}
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **style))
        seen.setdefault(kind, Patch(label=meanings[kind], **style))
    if any(not units for line in panel.units for units in line):
        seen["none"] = Patch(label="not in the plan", fc=PAPER, ec=SOFT, lw=0.4)
    yield from seen.values()


def _label(axes: Axes, drawn: SweepMap) -> None:
    texts = [plain(value_text(value), _LONGEST_LABEL) for value in drawn.x_values]
    is_long = len(texts) * (max(map(len, texts)) + 2) > 60
    axes.set_xticks(*_ticks(drawn.x_values), rotation=90 if is_long else 0)
    axes.set_yticks(*_ticks(drawn.y_values))
    axes.set(xlabel=plain(drawn.x), ylabel=plain(drawn.y))
    axes.tick_params(length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _ticks(values: tuple[Value, ...]) -> tuple[list[int], list[str]]:
    """Returns places and labels: of many values every second or third."""
    step = -(-len(values) // 32)
    return list(range(0, len(values), step)), [
        plain(value_text(value), _LONGEST_LABEL) for value in values[::step]
    ]


def _tick_colours(bar: Any, is_logarithmic: bool) -> None:
    bar.outline.set_visible(False)
    bar.solids.set(rasterized=False, edgecolor="face")  # a page loads no picture inside a picture
    if is_logarithmic:
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter("{x:,g}")
