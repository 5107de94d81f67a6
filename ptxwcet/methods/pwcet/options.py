"""Options of ``ptxwcet pwcet``: what to read, how to draw runs, how to analyse, what to write."""

from __future__ import annotations

import click

from ptxwcet.cli import options
from ptxwcet.cli.paths import LAUNCH_FILE, MACHINE, PICTURE_FILES
from ptxwcet.machine.loader import DEFAULT_MACHINE


def _extremes(_: click.Context, option: click.Parameter, text: str) -> tuple[str, float | None]:
    """Which extremes, and threshold or size of a block, if that is said."""
    name, colon, told = text.partition(":")
    try:
        if name == "bm":
            size = int(told) if colon else None
            if size != 0:
                return name, size
        if name == "pot":
            return name, float(told) if colon else None
    except ValueError:
        pass
    raise click.BadParameter(f"'{text}' is not pot:NUMBER or bm:NUMBER", param=option)


_READING = (
    click.option("--unit", type=click.Choice(["cycles", "ns"]), help="Unit of the times."),
    click.option(
        "--column",
        metavar="TIMES[,LABELS]",
        help="Column of the times, and that which labels the runs' conditions, by name or number "
        "from 1.",
    ),
    click.option(
        "--counter-bits",
        type=click.Choice(["32", "64"]),
        help="Width of the clock registers of clock pairs.  [default: 32, that of %clock]",
    ),
)
_DRAWING = (
    options.LINKS,
    click.option("--launch", "launches", multiple=True, type=LAUNCH_FILE, help="A launch file."),
    options.number("--runs", "Runs of each launch.", click.IntRange(1, 10_000_000)),
    click.option(
        "--inputs", type=click.IntRange(1), help="Different inputs to execute.  [default: RUNS]"
    ),
    options.policy(),
    options.jitter(None),
    options.launch_gap(None, "Start blocks so far apart at most, at random in each run."),
    options.SMS,
    options.RESIDENT_BLOCKS,
    options.REGISTERS,
    click.option(
        "--machine",
        type=MACHINE,
        help=f"Machine file.  [default: {DEFAULT_MACHINE}]",
    ),
)
_ANALYSIS = (
    click.option(
        "--extremes",
        metavar="pot[:THRESHOLD]|bm[:SIZE]",
        default="pot",
        show_default=True,
        callback=_extremes,
        help="Peaks over a threshold, or maxima of blocks of so many runs.  [default of both: "
        "chosen, SIZE from 25 up]",
    ),
    click.option(
        "--shape",
        type=click.Choice(["larger", "free", "zero"]),
        default="larger",
        show_default=True,
        help="Law of the curve: with a shape (free), without (zero), or the larger of both.",
    ),
    click.option(
        "--estimator",
        type=click.Choice(["mle", "mle-bootstrap", "pwm"]),
        default="mle",
        show_default=True,
        help="Maximum likelihood, with intervals of the profile or of bootstraps; or "
        "probability-weighted moments.",
    ),
    options.probabilities("With which one run exceeds a time.  [default: 1e-6, 1e-9, 1e-12]"),
    click.option("--level", type=float, default=0.05, show_default=True, help="Of the tests."),
    click.option(
        "--confidence", type=float, default=0.95, show_default=True, help="Of the intervals."
    ),
    click.option(
        "--lags",
        type=click.IntRange(1, 500),
        default=20,
        show_default=True,
        help="How many runs apart the tests look for dependence.",
    ),
    options.seed("Of the runs drawn here, and of bootstraps."),
    click.option("--force", is_flag=True, help="Print refused curves, marked."),
)
_OUTPUT = (
    click.option(
        "--static-bound",
        "static_bounds",
        multiple=True,
        metavar="CONDITION=TIME",
        help="A bound known otherwise, drawn into the picture.",
    ),
    options.picture(options.PICTURES_HELP, PICTURE_FILES),
    options.saved("Write the drawn times as CSV."),
    options.report_options_of("text", "json", "html"),
)


DRAWING_NAMES = (
    *("links", "launches", "runs", "inputs", "policy", "jitter", "launch_gap", "sms"),
    *("resident_blocks", "registers", "machine"),
)
"""Parameters that say how to draw runs."""


pwcet_options = options.all_of(*_READING, *_DRAWING, *_ANALYSIS, *_OUTPUT)
"""The options of ``ptxwcet pwcet``."""
