"""The picture of a map: cells in the colours of their least bounds, hatched where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxwcet.support.printable import printable_line
from ptxwcet.sweeps.results.sweep_model import MapPanel, SweepMap, Value, scheduler_text
from ptxwcet.sweeps.results.sweep_text import time_digits, unit_of_time, value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

INK, PAPER, SOFT = "#000000", "#ffffff", "#808080"
"""Colours that a page replaces by its own."""
_DARK, _LIGHT = "#010101", "#fefefe"  # on cells, whose colours are the same on a dark page
_MOST_WITH_NUMBERS = (12, 16)
_RATIO_OF_LOGARITHMS = 10
_LONGEST_LABEL = 24
_HATCHES = {"refused": "////", "other": "..."}


def draw_map(drawn: SweepMap, panel: MapPanel) -> Figure:
    """The map of a machine. Colours are logarithmic where bounds differ ten times or more."""
    # here: the library is loaded only when a picture is asked for
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

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
    axes.set_title(f"{plain(panel.machine)}: least {panel.guarantee} of a {panel.of}{alone}")
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=axes, pad=0.02)
    bar.set_label(f"least bound, {unit}" + ", logarithmic" * is_logarithmic)
    _tick_colours(bar, is_logarithmic)
    if legend:
        figure.legend(handles=legend, loc="outside lower center", ncols=3, frameon=False)
    return figure


def plain(label: str, longest: int = 60) -> str:
    """A label that matplotlib prints as it is: no formula, no controls, not too long."""
    shown = printable_line(label)
    if len(shown) > longest:
        half = longest // 2
        shown = f"{shown[: longest - half - 1]}…{shown[len(shown) - half :]}"
    return shown.replace("$", r"\$")


def _norm(cells: Any) -> tuple[Any, bool]:
    from matplotlib.colors import LogNorm, Normalize

    least, most = float(np.nanmin(cells)), float(np.nanmax(cells))
    if least > 0 and most >= _RATIO_OF_LOGARITHMS * least:
        return LogNorm(least, most), True
    if least == most:  # one colour, with something around it
        least, most = 0.9 * least, 1.1 * most or 1.0
    return Normalize(least, most), False


def _write_numbers(axes: Axes, times: Any, factor: int, colour_of: Any) -> None:
    for (row, column), seconds in np.ndenumerate(times):
        if np.isfinite(seconds):
            red, green, blue, _ = colour_of(seconds * factor)
            is_bright = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
            axes.text(
                column,
                row,
                time_digits(float(seconds), 3, factor),
                ha="center",
                va="center",
                fontsize=8,
                color=_DARK if is_bright else _LIGHT,
            )


def _mark_least(axes: Axes, cells: Any) -> None:
    from matplotlib.patches import Rectangle

    for row, column in np.argwhere(cells == np.nanmin(cells)):
        for colour, width in ((_LIGHT, 3.4), (_DARK, 1.8)):
            corner = (column - 0.46, row - 0.46)
            axes.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, ec=colour, lw=width))


def _hatch(axes: Axes, panel: MapPanel) -> Iterator[Patch]:
    """Hatches the cells without such a bound; what the hatches mean."""
    from matplotlib.patches import Patch, Rectangle

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
    """Places and labels: of many values every second or third."""
    step = -(-len(values) // 32)
    return list(range(0, len(values), step)), [
        plain(value_text(value), _LONGEST_LABEL) for value in values[::step]
    ]


def _tick_colours(bar: Any, is_logarithmic: bool) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    bar.outline.set_visible(False)
    bar.solids.set(rasterized=False, edgecolor="face")  # a page loads no picture in a picture
    if is_logarithmic:
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter("{x:,g}")
