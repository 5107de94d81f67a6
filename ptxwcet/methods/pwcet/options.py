"""Options of ``ptxwcet pwcet``: what to read, how to draw runs, how to analyse, what to write."""

from __future__ import annotations

import click

from ptxwcet.cli import completion, options
from ptxwcet.cli.paths import LAUNCH_FILE, MACHINE, OUTPUT_FILE, PICTURE_FOLDER
from ptxwcet.machine.loader import DEFAULT_MACHINE

_READING = (
    click.option("--unit", type=click.Choice(["cycles", "ns"]), help="Unit of the times."),
    click.option("--column", help="Column of the times, by name or number from 1."),
    click.option("--condition-column", help="Column that labels the runs' conditions."),
    click.option(
        "--counter-bits",
        type=click.Choice(["32", "64"]),
        help="Width of the clock registers of clock pairs.  [default: 32, that of %clock]",
    ),
)
_DRAWING = (
    options.LINKS,
    click.option("--launch", "launches", multiple=True, type=LAUNCH_FILE, help="A launch file."),
    click.option("--runs", type=click.IntRange(1, 10_000_000), help="Runs of each launch."),
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
        shell_complete=completion.machines,
        help=f"Machine file.  [default: {DEFAULT_MACHINE}]",
    ),
)
_ANALYSIS = (
    click.option(
        "--extremes",
        type=click.Choice(["pot", "bm"]),
        default="pot",
        show_default=True,
        help="Peaks over a threshold, or block maxima.",
    ),
    click.option(
        "--shape",
        type=click.Choice(["larger", "free", "zero"]),
        default="larger",
        show_default=True,
        help="Law of the curve: with a shape (free), without (zero), or the larger of both.",
    ),
    click.option("--block-size", type=click.IntRange(1), help="[default: chosen, from 25 up]"),
    click.option("--threshold", type=float, help="What peaks exceed.  [default: chosen]"),
    click.option(
        "--estimator", type=click.Choice(["mle", "pwm"]), default="mle", show_default=True
    ),
    click.option(
        "--interval", type=click.Choice(["profile", "bootstrap"]), help="[default: profile for mle]"
    ),
    click.option(
        "--probability",
        "probabilities",
        type=float,
        multiple=True,
        help="Probability that a run takes longer.  [default: 1e-6, 1e-9, 1e-12]",
    ),
    click.option("--level", type=float, default=0.05, show_default=True, help="Level of tests."),
    click.option("--confidence", type=float, default=0.95, show_default=True),
    click.option("--lags", type=click.IntRange(1, 500), default=20, show_default=True),
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
    click.option("--html", type=OUTPUT_FILE, help="Write one page with pictures."),
    click.option("--plots", type=PICTURE_FOLDER, help="Write pictures to a folder."),
    click.option(
        "--picture-format", type=click.Choice(["png", "svg"]), default="png", show_default=True
    ),
    click.option("--save-times", type=OUTPUT_FILE, help="Write the drawn times as CSV."),
    options.report_options,
)


DRAWING_NAMES = (
    *("links", "launches", "runs", "inputs", "policy", "jitter", "launch_gap", "sms"),
    *("resident_blocks", "registers", "machine"),
)
"""Parameters that say how to draw runs."""


def pwcet_options(command: options.Decorated) -> options.Decorated:
    """Adds the options of ``ptxwcet pwcet``."""
    return options.with_options(command, *_READING, *_DRAWING, *_ANALYSIS, *_OUTPUT)
