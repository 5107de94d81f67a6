"""``ptxwcet pwcet FILE ...``: probabilistic WCET of measured, or here drawn, execution times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.made import command_line, page_time
from ptxwcet.cli.output import echo, echo_json, finish
from ptxwcet.cli.paths import PICTURE_FILES, InputFile
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.opened.front_ends import is_no_ptx
from ptxwcet.opened.request import Request
from ptxwcet.support.csv_cells import spelled
from ptxwcet.support.diagnostics import Severity
from ptxwcet.support.extras import require_extra
from ptxwcet.support.whole_files import write_text

if TYPE_CHECKING:
    from ptxwcet.methods.pwcet.settings import Settings
    from ptxwcet.methods.pwcet.study import PwcetAnswer


# --- Options of ``ptxwcet pwcet``: what to read, how to draw runs, how to analyse, what to write --


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
    options.of("link"),
    options.option("launch", "A launch file.", multiple=True),
    options.option("runs", "Runs of each launch.", type=click.IntRange(1, 10_000_000)),
    options.option("inputs", "Different inputs to execute.  [default: RUNS]"),
    options.policy(),
    options.option("jitter"),
    options.option("launch_gap", "Start blocks so far apart at most, at random in each run."),
    options.of("sms", "resident_blocks", "registers"),
    options.option("machine", f"Machine file.  [default: {DEFAULT_MACHINE}]", default=None),
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
    options.option(
        "probabilities", "With which one run exceeds a time.  [default: 1e-6, 1e-9, 1e-12]"
    ),
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
    options.option("seed", "Of the runs drawn here, and of bootstraps.", default=0),
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
    options.option("picture", options.PICTURES_HELP, type=PICTURE_FILES),
    options.option("save", "Write the drawn times as CSV."),
    options.report_options_of("text", "json", "html"),
)


pwcet_options = options.all_of(*_READING, *_DRAWING, *_ANALYSIS, *_OUTPUT)
"""The options of ``ptxwcet pwcet``."""


# --- The command ----------------------------------------------------------------------------------


@click.command(
    cls=Command,
    needs=("pwcet",),
    example="ptxwcet pwcet times.csv --unit cycles --format html -o pwcet.html",
)
@click.argument("files", nargs=-1, required=True, type=InputFile(".cu"))
@pwcet_options
def pwcet(
    files: tuple[str, ...],
    picture: Path | None,
    save: Path | None,
    form: str,
    force: bool,
    static_bounds: tuple[str, ...],
    **given: Any,
) -> int:
    """Derive a probabilistic WCET from execution times (Berezovskyi et al., RTNS 2014).

    FILES are measurements, text columns or .npy; or one .ptx or .cubin whose runs are drawn here
    with --launch, --runs and --policy. Exit code: 0 answered; 1 refused, by the input or because
    the hypotheses of extreme value theory are rejected; 2 usage.
    """
    # here: scipy, statsmodels and numpy's arrays are no matter for other commands
    from ptxwcet.methods.pwcet.report import build_pwcet_report
    from ptxwcet.methods.pwcet.study import findings, with_stated_bounds
    from ptxwcet.methods.pwcet.text import render_pwcet_text

    settings = _settings(given)
    is_kernel = files[0].endswith(".ptx") or is_no_ptx(files[0])
    if is_kernel:
        require_extra("sim", "drawing runs of a kernel")
        answer = _drawn(files, settings, given)
    else:
        answer = _measured(files, settings, given)
        if save is not None:
            raise click.UsageError("--save writes drawn times: give a .ptx or .cubin, and --launch")
    answer = with_stated_bounds(answer, dict(_stated(one) for one in static_bounds))
    report = build_pwcet_report(answer, force=force)
    if save is not None:
        write_text(save, _times_csv(answer), "PW709")
    if picture is not None or form == "html":
        read = [("PTX or machine code" if is_kernel else "measurements", one) for one in files]
        read += [("linked PTX", one) for one in given["link"]]
        read += [("launch file", one) for one in given["launch"]]
        _draw(answer, report, picture, read, is_page=form == "html")
    if form == "json":
        echo_json(report)
    elif form == "text":
        echo(render_pwcet_text(report), nl=False)
    # warnings stand in the report; a refused curve that was forced is marked where it is printed
    errors = [one for one in findings(answer) if one.severity is Severity.ERROR and not force]
    return finish(errors)


def _stated(text: str) -> tuple[str, int]:
    label, _, value = text.rpartition("=")
    if not label or re.fullmatch("[0-9]{1,30}", value) is None:
        raise click.BadParameter(
            f"'{text}' is not CONDITION=TIME with a whole time", param_hint="'--static-bound'"
        )
    return label, int(value)


def _settings(given: dict[str, Any]) -> Settings:
    from ptxwcet.methods.pwcet.estimation import Estimator
    from ptxwcet.methods.pwcet.intervals import Interval
    from ptxwcet.methods.pwcet.settings import Extraction, Settings, Shape

    probabilities = given["probabilities"] or (1e-6, 1e-9, 1e-12)
    for name, value in (
        *(("--probability", one) for one in probabilities),
        ("--level", given["level"]),
        ("--confidence", given["confidence"]),
    ):
        if not 0 < value < 1:
            raise click.BadParameter(f"{value:g} is not between 0 and 1", param_hint=f"'{name}'")
    estimator, _, bootstraps = given["estimator"].partition("-")
    is_profile = estimator == Estimator.MLE.value and not bootstraps
    extremes, told = given["extremes"]
    return Settings(
        Extraction(extremes),
        Shape(given["shape"]),
        Estimator(estimator),
        Interval.PROFILE if is_profile else Interval.BOOTSTRAP,
        told if extremes == "bm" else None,
        told if extremes == "pot" else None,
        tuple(sorted(probabilities, reverse=True)),
        given["level"],
        given["confidence"],
        given["lags"],
        given["seed"],
    )


def _measured(files: tuple[str, ...], settings: Settings, given: dict[str, Any]) -> PwcetAnswer:
    from ptxwcet.methods.pwcet.study import study_files
    from ptxwcet.trace.measurements import ReadOptions, TimeUnit

    options.refuse_idle(
        "draws runs of a kernel: give a .ptx or .cubin", *options.names_of(*_DRAWING)
    )
    unit = given["unit"]
    times, _, labels = (given["column"] or "").partition(",")
    reading = ReadOptions(
        TimeUnit(unit) if unit else None,
        times or None,
        labels or None,
        int(given["counter_bits"] or 32),
    )
    return study_files(files, reading, settings)


def _drawn(files: tuple[str, ...], settings: Settings, given: dict[str, Any]) -> PwcetAnswer:
    from ptxwcet.methods.pwcet.runs import DrawOptions
    from ptxwcet.methods.pwcet.study import study_launches

    if len(files) > 1:
        raise click.UsageError("runs are drawn of one .ptx or .cubin at a time")
    options.refuse_idle("is about measurement files", *options.names_of(*_READING))
    missing = [name for name in ("launch", "runs", "policy") if not given[name]]
    if missing:
        names = ", ".join(f"--{name}" for name in missing)
        raise click.UsageError(f"to draw runs of a kernel, give {names}")
    grid = options.grid_of(given)
    drawing = DrawOptions(
        given["runs"],
        given["inputs"] or given["runs"],
        given["policy"],
        given["jitter"] or 0,
        grid.launch_gap_cycles,
        grid.sms,
        grid.resident_blocks,
        grid.registers,
        given["seed"],
    )
    machine = given["machine"] or DEFAULT_MACHINE
    requests = [
        Request(files[0], launch_file=launch, machine=machine, links=given["link"])
        for launch in given["launch"]
    ]
    with ProgressLine("runs") as line:
        return study_launches(requests, drawing, settings, line.show)


def _draw(
    answer: PwcetAnswer,
    report: Any,
    picture: Path | None,
    read: Sequence[tuple[str, str]],
    *,
    is_page: bool,
) -> None:
    """Pictures, and a page with them; ``read`` are the files of all this, and what they are."""
    from ptxwcet.methods.pwcet.page import render_pwcet_html
    from ptxwcet.methods.pwcet.pictures import draw_plots, write_plots
    from ptxwcet.opened.opening import ReadFile
    from ptxwcet.report.page.parts import Made

    pictures = draw_plots(answer, report)
    if picture is not None:
        write_plots(pictures, picture)
    if is_page:
        rests_on = tuple(ReadFile.of(*one) for one in read)
        made = Made(command_line(), page_time(), rests_on)
        echo(render_pwcet_html(report, pictures, made), nl=False)


def _times_csv(answer: PwcetAnswer) -> str:
    rows = [f"condition,{answer.unit.value}"]
    for study in answer.studies:
        rows += [f"{spelled(study.sample.label)},{value:.0f}" for value in study.sample.times]
    return "\n".join(rows) + "\n"
