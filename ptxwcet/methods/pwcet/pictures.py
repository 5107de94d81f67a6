"""Draws pictures of pWCET studies: those of [E] Figs. 3 to 9, and stability plots.

Each picture is drawn once and kept as SVG or PNG bytes; the same study gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxwcet.methods.pwcet.distributions import Family, Floats
from ptxwcet.methods.pwcet.report import PwcetReport
from ptxwcet.methods.pwcet.sample_study import Study
from ptxwcet.methods.pwcet.tail import Fit
from ptxwcet.report.page.pictures import file_name, picture_bytes, write_pictures
from ptxwcet.support.records import dataclass

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ptxwcet.methods.pwcet.study import PwcetAnswer


BLUE, RED, GREEN, GREY = "#4477aa", "#cc3311", "#228833", "#777777"
_COLOURS = (BLUE, RED, GREEN, "#aa7700", "#aa3377", "#33aacc", "#000000")
_LAWS = (GREEN, GREY, "#aa7700", "#aa3377")
_NOT_BOUNDING = " (FORCED: bounds nothing)"
_WIDE = 100
"""The ratio of the times in a picture from which on their axis is logarithmic."""


def new_figure(
    rows: int, columns: int, width: float, height: float, ratios: Sequence[float] | None = None
) -> tuple[Figure, Any]:
    """Returns a figure with its axes as a matrix; inches. ``ratios``: widths of the columns."""
    # Imported here: the library is loaded only when a picture is drawn.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, width_ratios=ratios)


def plain(label: str) -> str:
    """Returns a label that matplotlib prints as it is, and does not take for a formula."""
    return label.replace("$", r"\$")


def draw_exceedance(study: Study, unit: str, bound: int | None, *, shown: bool) -> Figure:
    """Draws the exceedance plot of a condition ([E] Figs. 7 to 9).

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
    plot.set_title(f"{plain(study.sample.label)}: exceedance{title}", wrap=True)
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
    """Sets axes that hold all finite drawings: logarithmic with times of heavy tails."""
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
    """Returns the probabilities to draw: from the start of the laws to a tenth of the least."""
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

    An end outside of the search is drawn beyond the right edge of the picture.
    """
    points = [p for p in (*study.band, *study.curve) if np.isfinite(p.law)]
    points.sort(key=lambda p: -p.exceedance)
    finite = [time for p in points for time in (p.pwcet, p.estimate) if np.isfinite(time)]
    right = max([study.sample.high_water_mark, *finite])
    plot.fill_betweenx(
        [p.exceedance for p in points],
        [p.low for p in points],
        [min(p.pwcet, 1e3 * right) for p in points],
        color=RED,
        alpha=0.12,
        lw=0,
        label=f"{100 * study.settings.confidence:g} % interval",
    )
    answers = [p for p in study.curve if np.isfinite(p.pwcet)]
    plot.plot(
        [p.pwcet for p in answers],
        [p.exceedance for p in answers],
        "o",
        color=RED,
        ms=5,
        label=f"pWCET{_NOT_BOUNDING if study.claim.guarantee is None else ''}",
    )
    return right


def _observed(plot: Any, study: Study, colour: str, label: str) -> None:
    """Draws the shares of runs that took at least each time."""
    ordered = np.sort(study.sample.times)
    n = len(ordered)
    ranks = np.unique(np.geomspace(1, n, min(n, 800)).astype(np.int64))[::-1]
    plot.step(ordered[n - ranks], ranks / n, where="post", color=colour, lw=1.2, label=label)


def draw_conditions(studies: Sequence[Study], with_curve: Sequence[Study], unit: str) -> Figure:
    """Draws distribution functions of all conditions ([E] Fig. 6), and their curves (Fig. 9)."""
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


_MOST_POINTS = 4000
_CAPTIONS = {
    "series": "times, autocorrelation, Ljung-Box, as in [E] Figs. 3 and 4",
    "extremogram": "as in [E] Fig. 5",
    "exceedance": "observed and fitted, as in [E] Figs. 7-9",
    "quantiles": "of the extremes against their laws",
    "stability": "what block size and threshold change",
    "conditions": "distribution functions, as in [E] Fig. 6, and curves, as in Fig. 9",
}


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture, by its name for files; ``condition`` empty: of all together."""

    name: str
    condition: str
    figure: Figure

    @property
    def caption(self) -> str:
        """The subject of the picture."""
        return f"{self.name.capitalize()}: {_CAPTIONS[self.name]}"

    def bytes(self, form: str) -> bytes:
        """Returns the picture as ``svg`` or ``png``."""
        return picture_bytes(self.figure, form)


def draw_plots(answer: PwcetAnswer, report: PwcetReport) -> tuple[Picture, ...]:
    """Draws all pictures: five of each condition, and one of all together if there are several.

    Curves that ``report`` does not show are not drawn. Cost: about a second a condition.
    """
    pictures = []
    rows = tuple(zip(answer.studies, report.conditions, answer.bounds, strict=True))
    for study, condition, static in rows:
        bound = static.cycles if static is not None else None
        figures = {
            "series": _series(study, report.unit),
            "extremogram": _extremogram(study),
            "exceedance": draw_exceedance(study, report.unit, bound, shown=bool(condition.curve)),
            "quantiles": _quantiles(study, report.unit),
            "stability": _stability(study, report.unit),
        }
        pictures += [Picture(name, study.sample.label, figure) for name, figure in figures.items()]
    if len(rows) > 1:
        with_curve = [study for study, condition, _ in rows if condition.curve]
        figure = draw_conditions(answer.studies, with_curve, report.unit)
        pictures.append(Picture("conditions", "", figure))
    return tuple(pictures)


def write_plots(pictures: Sequence[Picture], path: Path) -> None:
    """Writes the pictures, with names that begin as the path. Raises PtxwcetError (PW709)."""
    rows = []
    for picture in pictures:
        label = f"{file_name(picture.condition)}-" if picture.condition else ""
        rows.append((label + picture.name, f"{label}#-{picture.name}", picture.bytes))
    write_pictures(rows, path)


def _whole_lags(plot: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    plot.xaxis.set_major_locator(MaxNLocator(integer=True))


def _thinned(values: Floats) -> tuple[Floats, Floats]:
    """Returns places and values of points to draw: of a long series each piece's extremes."""
    n = len(values)
    if n <= _MOST_POINTS:
        return np.arange(n, dtype=np.float64), values
    size = -(-n // (_MOST_POINTS // 2))
    starts = np.arange(0, n, size)
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return np.repeat(starts, 2).astype(np.float64), np.stack([low, high], axis=1).ravel()


def _series(study: Study, unit: str) -> Figure:
    figure, axes = new_figure(3, 1, 7.5, 7.0)
    trace, correlation, test = axes[:, 0]
    places, values = _thinned(study.sample.times)
    trace.plot(places, values, ".", ms=2, color=BLUE)
    trace.set(title=f"{plain(study.sample.label)}: times", xlabel="run", ylabel=unit)
    serial, level = study.serial, study.settings.level
    lags = np.arange(1, len(serial.autocorrelation) + 1)
    correlation.vlines(lags, 0, serial.autocorrelation, color=BLUE)
    correlation.axhline(0, color="black", lw=0.8)
    _whole_lags(correlation)
    _whole_lags(test)
    for sign in (-1, 1):
        correlation.axhline(sign * serial.limit, color=RED, ls="--", lw=1)
    correlation.set(title="autocorrelation", xlabel="lag", ylabel="ACF")
    test.plot(lags, serial.ljung_box_p, "o", ms=4, color=BLUE)
    test.axhline(level, color=RED, ls="--", lw=1, label=f"level {level:g}")
    test.set(title="Ljung-Box up to each lag", xlabel="lag", ylabel="p", ylim=(-0.03, 1.03))
    test.legend(fontsize=8)
    return figure


def _extremogram(study: Study) -> Figure:
    figure, axes = new_figure(1, 1, 7.0, 3.2)
    pairs = study.pairs
    lags = np.arange(1, len(pairs.values) + 1)
    plot = axes[0, 0]
    plot.vlines(lags, 0, pairs.values, color=BLUE, lw=3)
    _whole_lags(plot)
    plot.axhline(pairs.expected, color="black", lw=0.8, label="independent")
    plot.axhline(pairs.limit, color=RED, ls="--", lw=1, label="limit at each lag")
    top = max(0.05, 1.2 * float(pairs.values.max()), 1.1 * pairs.limit)
    plot.set(xlabel="lag", ylabel="P(long | long before)", ylim=(0, top))
    title = f"{plain(study.sample.label)}: extremogram above {study.index.threshold:,.6g}"
    plot.set_title(title, wrap=True)
    plot.legend(fontsize=8)
    return figure


def _quantiles(study: Study, unit: str) -> Figure:
    figure, axes = new_figure(2, 2, 8.0, 7.0)
    for plot, family in zip(axes.ravel(), Family, strict=True):
        fit = study.fits[family]
        values = np.sort(fit.tail.extremes.values)
        n = len(values)
        keep = np.unique(np.linspace(0, n - 1, min(n, 1500)).astype(np.int64))
        theory = fit.tail.law.quantile(1 - (keep + 0.5) / n)
        plot.plot(theory, values[keep], ".", ms=3, color=BLUE)
        ends = [float(min(theory[0], values[0])), float(max(theory[-1], values[-1]))]
        plot.plot(ends, ends, color="black", lw=0.8)
        p = fit.goodness.p_anderson_darling
        plot.set_title(f"{family.value}: Anderson-Darling p = {p:.3f}", fontsize=10)
        plot.set(xlabel=f"law, {unit}", ylabel=f"observed, {unit}")
    figure.suptitle(f"{plain(study.sample.label)}: quantiles", wrap=True)
    return figure


def _stability(study: Study, unit: str) -> Figure:
    figure, axes = new_figure(2, 2, 8.5, 6.5)
    blocks, peaks = study.block_candidates, study.threshold_candidates
    _shapes(axes[0, 0], blocks, "block size", study.fits[Family.GEV].tail.extremes.block_size)
    axes[0, 0].set_xscale("log")
    threshold = study.fits[Family.GPD].tail.extremes.threshold
    _shapes(axes[0, 1], peaks, f"threshold, {unit}", threshold)
    plot = axes[1, 0]
    moved = np.asarray([fit.scale_at(peaks[0].choice) for fit in peaks])
    at = [fit.choice for fit in peaks]
    plot.errorbar(at, moved[:, 0], 1.96 * moved[:, 1], fmt="o", ms=4, color=BLUE, capsize=2)
    plot.axvline(threshold, color=RED, ls="--", lw=1)
    plot.set(xlabel=f"threshold, {unit}", ylabel="scale at the lowest threshold, 95 %")
    plot = axes[1, 1]
    excess = study.excesses
    plot.plot(excess.thresholds, excess.means, color=BLUE)
    plot.fill_between(
        excess.thresholds,
        excess.means - 1.96 * excess.errors,
        excess.means + 1.96 * excess.errors,
        color=BLUE,
        alpha=0.2,
        lw=0,
    )
    plot.axvline(threshold, color=RED, ls="--", lw=1)
    plot.set(xlabel=f"threshold, {unit}", ylabel=f"mean excess, {unit}")
    title = f"{plain(study.sample.label)}: stability; the dashed line is the choice"
    figure.suptitle(title, wrap=True)
    return figure


def _shapes(plot: Any, candidates: Sequence[Fit], label: str, chosen: float) -> None:
    errors = [1.96 * fit.shape_error for fit in candidates]
    plot.errorbar(
        [fit.choice for fit in candidates],
        [fit.tail.law.shape for fit in candidates],
        errors,
        fmt="o",
        ms=4,
        color=BLUE,
        capsize=2,
    )
    plot.axhline(0, color="black", lw=0.8)
    plot.axvline(chosen, color=RED, ls="--", lw=1)
    plot.set(xlabel=label, ylabel="xi, 95 %")
