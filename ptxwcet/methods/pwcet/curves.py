"""Pictures of exceedance: observed shares, laws, the curve with its interval, the static bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxwcet.methods.pwcet.distributions import Floats
from ptxwcet.methods.pwcet.sample_study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, RED, GREEN, GREY = "#4477aa", "#cc3311", "#228833", "#777777"
_COLOURS = (BLUE, RED, GREEN, "#aa7700", "#aa3377", "#33aacc", "#000000")
_LAWS = (GREEN, GREY, "#aa7700", "#aa3377")
_NOT_BOUNDING = " (FORCED: bounds nothing)"
_WIDE = 100
"""Ratio of the times in a picture from which on their axis is logarithmic."""


def new_figure(
    rows: int, columns: int, width: float, height: float, ratios: Sequence[float] | None = None
) -> tuple[Figure, Any]:
    """A figure with its axes as a matrix; inches. ``ratios``: widths of the columns."""
    # here: the library is loaded only when a picture is asked for
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, width_ratios=ratios)


def plain(label: str) -> str:
    """A label that matplotlib prints as it is, and does not take for a formula."""
    return label.replace("$", r"\$")


def draw_exceedance(study: Study, unit: str, bound: int | None, *, shown: bool) -> Figure:
    """The exceedance plot of a condition ([E] Figs. 7 to 9).

    With a static ``bound`` a second panel shows the curve and the bound together. A curve that is
    not ``shown`` was refused.
    """
    panels = 1 if bound is None else 2
    ratios = None if bound is None else (2.2, 1)
    figure, axes = new_figure(1, panels, 7.2 + 3.6 * (panels - 1), 5.2, ratios)
    plot = axes[0, 0]
    _observed(plot, study, BLUE, "observed")
    mark = study.sample.high_water_mark
    plot.axvline(mark, color="black", lw=1, ls="--", label="high-water mark")
    right = mark
    if shown:
        _laws(plot, study)
        _curve(plot, study, RED, "estimated curve")
        right = _interval(plot, study)
    title = "" if shown else "   (curve REFUSED: the hypotheses do not hold)"
    plot.set_title(f"{plain(study.sample.label)}: exceedance{title}")
    _frame(plot, study, unit, right)
    if bound is not None:
        both = axes[0, 1]
        _observed(both, study, BLUE, "observed")
        if shown:
            _curve(both, study, RED, "estimated curve")
            _interval(both, study)
        both.axvline(bound, color=GREEN, lw=2, label=f"static bound\n{bound:,} {unit}")
        both.set_title("with the static bound")
        _frame(both, study, unit, max(float(bound), right))
    return figure


def _frame(plot: Any, study: Study, unit: str, right: float) -> None:
    """Axes that hold all that is drawn and finite: logarithmic where times of heavy tails are."""
    lowest = min(study.settings.probabilities) / 10
    plot.set(yscale="log", ylim=(lowest, 1.5), xlabel=unit, ylabel="P(one run takes longer)")
    left = float(study.sample.times.min())
    if right > _WIDE * left:
        plot.set_xscale("log")
        margin = (right / left) ** 0.03
        plot.set_xlim(left / margin, right * margin)
    else:
        plot.set_xlim(left - 0.03 * (right - left), right + 0.03 * (right - left))
    plot.grid(alpha=0.3)
    plot.legend(fontsize=8)


def _probabilities(study: Study) -> Floats:
    """Probabilities to draw: from where the laws begin to a tenth of the least asked for."""
    begins = [
        1.0 / fit.tail.extremes.block_size
        if fit.tail.law.family.is_of_maxima
        else fit.tail.extremes.rate
        for fit in study.used
    ]
    lowest = min(study.settings.probabilities) / 10
    return np.geomspace(0.999 * min(begins), lowest, 300)


def _laws(plot: Any, study: Study) -> None:
    p = _probabilities(study)
    for fit, colour in zip(study.fits.values(), _LAWS, strict=True):
        style = "-" if fit in study.used else ":"
        law = fit.tail.law
        label = law.family.value + (f", xi = {law.shape:.3f}" if law.family.has_shape else "")
        plot.plot(fit.tail.level(p), p, style, color=colour, lw=1, label=label)


def _curve(plot: Any, study: Study, colour: str, label: str, style: str = "-") -> None:
    p = _probabilities(study)
    levels = study.law_levels(p)
    beyond = levels >= study.sample.high_water_mark
    plot.plot(levels[beyond], p[beyond], style, color=colour, lw=2, label=label)


def _interval(plot: Any, study: Study) -> float:
    """Draws the interval and the answers as printed; returns the largest time among them.

    An end that was not found is drawn beyond the right edge of the picture.
    """
    points = [row for row in (*study.band, *study.curve) if np.isfinite(row.law)]
    points.sort(key=lambda point: -point.exceedance)
    finite = [time for row in points for time in (row.pwcet, row.estimate) if np.isfinite(time)]
    right = max([study.sample.high_water_mark, *finite])
    plot.fill_betweenx(
        [row.exceedance for row in points],
        [row.low for row in points],
        [min(row.pwcet, 1e3 * right) for row in points],
        color=RED,
        alpha=0.12,
        lw=0,
        label=f"{100 * study.settings.confidence:g} % interval",
    )
    answers = [row for row in study.curve if np.isfinite(row.pwcet)]
    plot.plot(
        [row.pwcet for row in answers],
        [row.exceedance for row in answers],
        "o",
        color=RED,
        ms=5,
        label=f"pWCET{_NOT_BOUNDING if study.claim.guarantee is None else ''}",
    )
    return right


def _observed(plot: Any, study: Study, colour: str, label: str) -> None:
    """Shares of runs that took at least each time."""
    ordered = np.sort(study.sample.times)
    n = len(ordered)
    ranks = np.unique(np.geomspace(1, n, min(n, 800)).astype(np.int64))[::-1]
    plot.step(ordered[n - ranks], ranks / n, where="post", color=colour, lw=1.2, label=label)


def draw_conditions(studies: Sequence[Study], with_curve: Sequence[Study], unit: str) -> Figure:
    """Distribution functions of all conditions ([E] Fig. 6), and their curves (Fig. 9)."""
    figure, axes = new_figure(1, 2, 11.0, 4.6)
    left, right = axes[0]
    for k, study in enumerate(studies):
        colour = _COLOURS[k % len(_COLOURS)]
        ordered = np.sort(study.sample.times)
        keep = np.linspace(0, len(ordered) - 1, min(len(ordered), 800)).astype(np.int64)
        share = (keep + 1) / len(ordered)
        left.step(ordered[keep], share, where="post", color=colour, label=plain(study.sample.label))
        _observed(right, study, colour, plain(study.sample.label))
        if study in with_curve:
            _curve(right, study, colour, "_", "--")
    left.set(xlabel=unit, ylabel="share of runs", title="distribution functions")
    right.set(xlabel=unit, yscale="log", ylabel="P(one run takes longer)")
    right.set_title("observed (full) and estimated curves (dashed)")
    for plot in (left, right):
        plot.grid(alpha=0.3)
        plot.legend(fontsize=8)
    return figure
