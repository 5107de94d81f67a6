"""Pictures of pWCET studies: what [E] Figs. 3 to 9 show, and stability plots.

Each picture is drawn once and kept as SVG or PNG bytes; the same study gives the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxwcet.methods.pwcet.curves import (
    BLUE,
    RED,
    draw_conditions,
    draw_exceedance,
    new_figure,
    plain,
)
from ptxwcet.methods.pwcet.distributions import Family, Floats
from ptxwcet.methods.pwcet.extraction import Candidate
from ptxwcet.methods.pwcet.report import PwcetReport
from ptxwcet.methods.pwcet.sample_study import Study
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.printable import printable_picture
from ptxwcet.support.whole_files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ptxwcet.methods.pwcet.study import PwcetAnswer

_MOST_POINTS = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture: a name for files, a title, a caption; ``condition`` empty: of all together."""

    name: str
    condition: str
    title: str
    caption: str
    figure: Figure

    def bytes(self, form: str) -> bytes:
        """The picture as ``svg`` or ``png``."""
        from matplotlib import rc_context

        sink = io.BytesIO()
        metadata: dict[str, str | None] = {"Date": None} if form == "svg" else {"Software": None}
        with rc_context({"svg.hashsalt": "ptxwcet", "svg.fonttype": "none"}):
            self.figure.savefig(sink, format=form, dpi=110, metadata=metadata)
        data = sink.getvalue()
        return printable_picture(data.decode()).encode() if form == "svg" else data


def draw_plots(answer: PwcetAnswer, report: PwcetReport) -> tuple[Picture, ...]:
    """All pictures: five of each condition, and one of all together if there are several.

    Curves that ``report`` does not show are not drawn. Cost: about a second a condition.
    """
    pictures = []
    for study, condition, static in zip(
        answer.studies, report.conditions, answer.bounds, strict=True
    ):
        bound = static.cycles if static is not None else None
        label, unit, shown = study.sample.label, report.unit, bool(condition.curve)
        shape = "as in [E] Figs. 3 and 4"
        pictures += [
            Picture(
                "series",
                label,
                "Series",
                f"times, autocorrelation, Ljung-Box, {shape}",
                _series(study, unit),
            ),
            Picture("extremogram", label, "Extremogram", "as in [E] Fig. 5", _extremogram(study)),
            Picture(
                "exceedance",
                label,
                "Exceedance",
                "observed and fitted, as in [E] Figs. 7-9",
                draw_exceedance(study, unit, bound, shown=shown),
            ),
            Picture(
                "quantiles",
                label,
                "Quantiles",
                "of the extremes against their laws",
                _quantiles(study, unit),
            ),
            Picture(
                "stability",
                label,
                "Stability",
                "what block size and threshold change",
                _stability(study, unit),
            ),
        ]
    if len(answer.studies) > 1:
        with_curve = [
            s for s, row in zip(answer.studies, report.conditions, strict=True) if row.curve
        ]
        pictures.append(
            Picture(
                "conditions",
                "",
                "Conditions",
                "distribution functions, as in [E] Fig. 6, and curves, as in Fig. 9",
                draw_conditions(answer.studies, with_curve, report.unit),
            )
        )
    return tuple(pictures)


def write_plots(pictures: Sequence[Picture], path: Path) -> None:
    """Writes the pictures, whose names begin as the path says. Raises PtxwcetError (PW709)."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PtxwcetError(
            Diagnostic(
                "PW709", f"cannot write into '{folder}': {error.strerror}", help="choose another"
            )
        ) from None
    taken: set[str] = set()
    for picture in pictures:
        label = "".join(c if c.isalnum() or c in "-_." else "_" for c in picture.condition)
        label = f"{path.stem}-{label}" if label else path.stem
        name = f"{label}-{picture.name}"
        number = 2
        while name.casefold() in taken:  # labels that differ in the characters left out
            name = f"{label}-{number}-{picture.name}"
            number += 1
        taken.add(name.casefold())
        write_bytes(folder / f"{name}{path.suffix}", picture.bytes(path.suffix[1:]), "PW709")


def _whole_lags(plot: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    plot.xaxis.set_major_locator(MaxNLocator(integer=True))


def _thinned(values: Floats) -> tuple[Floats, Floats]:
    """Places and values of points to draw: of a long series the least and largest of each piece."""
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
    plot.set_title(f"{plain(study.sample.label)}: extremogram above {study.index.threshold:,.6g}")
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
    figure.suptitle(f"{plain(study.sample.label)}: quantiles")
    return figure


def _stability(study: Study, unit: str) -> Figure:
    figure, axes = new_figure(2, 2, 8.5, 6.5)
    blocks, peaks = study.block_candidates, study.threshold_candidates
    _shapes(axes[0, 0], blocks, "block size", study.fits[Family.GEV].tail.extremes.block_size)
    axes[0, 0].set_xscale("log")
    threshold = study.fits[Family.GPD].tail.extremes.threshold
    _shapes(axes[0, 1], peaks, f"threshold, {unit}", threshold)
    plot = axes[1, 0]
    moved = np.asarray([row.scale_at(peaks[0].choice) for row in peaks])
    at = [row.choice for row in peaks]
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
    figure.suptitle(f"{plain(study.sample.label)}: stability; the dashed line is the choice")
    return figure


def _shapes(plot: Any, candidates: Sequence[Candidate], label: str, chosen: float) -> None:
    errors = [1.96 * row.shape_error for row in candidates]
    plot.errorbar(
        [row.choice for row in candidates],
        [row.shape for row in candidates],
        errors,
        fmt="o",
        ms=4,
        color=BLUE,
        capsize=2,
    )
    plot.axhline(0, color="black", lw=0.8)
    plot.axvline(chosen, color=RED, ls="--", lw=1)
    plot.set(xlabel=label, ylabel="xi, 95 %")
