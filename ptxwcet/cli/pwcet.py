"""``ptxwcet pwcet FILE ...``: probabilistic WCET of measured, or here drawn, execution times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxwcet.api import Request
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, render_all

if TYPE_CHECKING:
    from ptxwcet.pwcet.settings import Settings
    from ptxwcet.pwcet_study import PwcetAnswer

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
    click.option("--launch", "launches", multiple=True, type=click.Path(), help="A launch file."),
    click.option("--runs", type=click.IntRange(1, 10_000_000), help="Runs of each launch."),
    click.option(
        "--inputs", type=click.IntRange(1), help="Different inputs to execute.  [default: RUNS]"
    ),
    click.option("--policy", help="Warp scheduler: lrr, gto, gty, oldest, youngest, random."),
    click.option(
        "--jitter",
        type=int,
        metavar="PERCENT",
        help="Shorten each initiation and latency at random by up to so much.",
    ),
    click.option(
        "--launch-gap",
        type=click.IntRange(0, 2**31),
        metavar="CYCLES",
        help="Start blocks so far apart at most, at random in each run.",
    ),
    click.option("--sms", type=click.IntRange(1, 1024), help="SMs.  [default: the machine's]"),
    click.option("--resident-blocks", type=click.IntRange(1, 64), help="Blocks an SM holds."),
    click.option("--registers", type=click.IntRange(1, 255), help="Registers of a thread."),
    click.option("--machine", help=f"Machine file.  [default: {DEFAULT_MACHINE}]"),
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
        help="Law: with a shape (free), Gumbel or exponential (zero), the larger of both.",
    ),
    click.option("--block-size", type=click.IntRange(1), help="[default: chosen, from 25 up]"),
    click.option("--threshold", type=float, help="Of the peaks.  [default: chosen]"),
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
        help="With which one run exceeds.  [default: 1e-6, 1e-9, 1e-12]",
    ),
    click.option("--level", type=float, default=0.05, show_default=True, help="Of the tests."),
    click.option("--confidence", type=float, default=0.95, show_default=True),
    click.option("--lags", type=click.IntRange(1, 500), default=20, show_default=True),
    click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True),
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
    click.option("--html", type=click.Path(path_type=Path), help="Write one page with pictures."),
    click.option("--plots", type=click.Path(path_type=Path), help="Write pictures to a folder."),
    click.option(
        "--picture-format", type=click.Choice(["png", "svg"]), default="png", show_default=True
    ),
    click.option(
        "--save-times", type=click.Path(path_type=Path), help="Write the drawn times as CSV."
    ),
    click.option(
        "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
    ),
)


_DRAWING_NAMES = (
    *("launches", "runs", "inputs", "policy", "jitter", "launch_gap", "sms"),
    *("resident_blocks", "registers", "machine"),
)


def _add(command: Any) -> Any:
    for option in reversed(_READING + _DRAWING + _ANALYSIS + _OUTPUT):
        command = option(command)
    return command


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@_add
def pwcet(
    files: tuple[str, ...],
    html: Path | None,
    plots: Path | None,
    picture_format: str,
    save_times: Path | None,
    form: str,
    force: bool,
    static_bounds: tuple[str, ...],
    **options: Any,
) -> int:
    """Derive a probabilistic WCET from execution times (Berezovskyi et al., RTNS 2014).

    FILES are measurements, text columns or .npy; or one .ptx whose runs are drawn here with
    --launch, --runs and --policy. Exit code: 0 answered; 1 refused, by the input or because the
    hypotheses of extreme value theory are rejected; 2 usage.
    """
    # here: scipy, statsmodels and numpy's arrays are no matter for other commands
    from ptxwcet.pwcet_study import with_stated_bounds
    from ptxwcet.report.json_format import render_json
    from ptxwcet.report.pwcet_model import build_pwcet_report
    from ptxwcet.report.pwcet_text import render_pwcet_text

    settings = _settings(options)
    if files[0].endswith(".ptx"):
        answer = _drawn(files, settings, options)
    else:
        answer = _measured(files, settings, options)
        if save_times is not None:
            raise click.UsageError("--save-times writes drawn times: give a .ptx and --launch")
    answer = with_stated_bounds(answer, dict(_stated(one) for one in static_bounds))
    report = build_pwcet_report(answer, force=force)
    if save_times is not None:
        _write(save_times, _times_csv(answer))
    if html is not None or plots is not None:
        _draw(answer, report, html, plots, picture_format)
    click.echo(render_json(report) if form == "json" else render_pwcet_text(report), nl=False)
    refused = () if force else answer.refused
    diagnostics = [
        Diagnostic(
            "PW710",
            f"condition '{study.sample.label}': no probabilistic WCET",
            notes=study.claim.refused_for,
            help="see docs/methods/pwcet.md for each test; --force prints the curve, marked",
        )
        for study in refused
    ]
    if diagnostics:
        click.echo(render_all(diagnostics), err=True)
    return 1 if diagnostics else 0


def _stated(text: str) -> tuple[str, int]:
    label, _, value = text.rpartition("=")
    if not label or not value.isdecimal():
        raise click.BadParameter(
            f"'{text}' is not CONDITION=TIME with a whole time", param_hint="'--static-bound'"
        )
    return label, int(value)


def _settings(options: dict[str, Any]) -> Settings:
    from ptxwcet.pwcet.estimation import Estimator
    from ptxwcet.pwcet.intervals import Interval
    from ptxwcet.pwcet.settings import Extraction, Settings, Shape

    probabilities = options["probabilities"] or (1e-6, 1e-9, 1e-12)
    for name, value in (
        *(("--probability", one) for one in probabilities),
        ("--level", options["level"]),
        ("--confidence", options["confidence"]),
    ):
        if not 0 < value < 1:
            raise click.BadParameter(f"{value:g} is not between 0 and 1", param_hint=f"'{name}'")
    estimator = Estimator(options["estimator"])
    interval = options["interval"]
    if interval == "profile" and estimator is not Estimator.MLE:
        raise click.UsageError("--interval profile needs --estimator mle")
    default = Interval.PROFILE if estimator is Estimator.MLE else Interval.BOOTSTRAP
    return Settings(
        Extraction(options["extremes"]),
        Shape(options["shape"]),
        estimator,
        Interval(interval) if interval else default,
        options["block_size"],
        options["threshold"],
        tuple(sorted(probabilities, reverse=True)),
        options["level"],
        options["confidence"],
        options["lags"],
        options["seed"],
    )


def _refuse_options(options: dict[str, Any], names: tuple[str, ...], why: str) -> None:
    given = [name for name in names if options[name] not in (None, ())]
    if given:
        option = "--" + given[0].replace("_", "-").replace("launches", "launch")
        raise click.UsageError(f"{option} {why}")


def _measured(files: tuple[str, ...], settings: Settings, options: dict[str, Any]) -> PwcetAnswer:
    from ptxwcet.pwcet_study import study_files
    from ptxwcet.trace.measurement_files import ReadOptions
    from ptxwcet.trace.measurements import TimeUnit

    drawing: tuple[str, ...] = (
        "launches",
        "runs",
        "inputs",
        "policy",
        "jitter",
        "launch_gap",
        "sms",
    )
    drawing += ("resident_blocks", "registers", "machine")
    _refuse_options(options, drawing, "draws runs of a kernel: give a .ptx file")
    unit = options["unit"]
    reading = ReadOptions(
        TimeUnit(unit) if unit else None,
        options["column"],
        options["condition_column"],
        int(options["counter_bits"] or 32),
    )
    return study_files(files, reading, settings)


def _drawn(files: tuple[str, ...], settings: Settings, options: dict[str, Any]) -> PwcetAnswer:
    from ptxwcet.pwcet_runs import DrawOptions
    from ptxwcet.pwcet_study import study_launches

    if len(files) > 1:
        raise click.UsageError("runs are drawn of one .ptx file at a time")
    reading = ("unit", "column", "condition_column", "counter_bits")
    _refuse_options(options, reading, "is about measurement files")
    missing = [name for name in ("launches", "runs", "policy") if not options[name]]
    if missing:
        names = ", ".join("--" + name.replace("launches", "launch") for name in missing)
        raise click.UsageError(f"to draw runs of a kernel, give {names}")
    drawing = DrawOptions(
        options["runs"],
        options["inputs"] or options["runs"],
        options["policy"],
        options["jitter"] or 0,
        options["launch_gap"] or 0,
        options["sms"],
        options["resident_blocks"],
        options["registers"],
        options["seed"],
    )
    machine = options["machine"] or DEFAULT_MACHINE
    requests = [
        Request(files[0], launch_file=launch, machine=machine) for launch in options["launches"]
    ]
    with ProgressLine() as line:
        return study_launches(
            requests, drawing, settings, lambda done, runs: line.show(done, runs, 0)
        )


def _draw(
    answer: PwcetAnswer, report: Any, html: Path | None, plots: Path | None, form: str
) -> None:
    from ptxwcet.report.pwcet_html import render_pwcet_html
    from ptxwcet.report.pwcet_plots import draw_plots, write_plots

    if plots is not None:
        write_plots(draw_plots(answer, report), plots, form)
    if html is not None:
        _write(html, render_pwcet_html(report, draw_plots(answer, report)))


def _times_csv(answer: PwcetAnswer) -> str:
    rows = [f"condition,{answer.unit.value}"]
    for study in answer.studies:
        rows += [f"{study.sample.label},{value:.0f}" for value in study.sample.times]
    return "\n".join(rows) + "\n"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PtxwcetError(
            Diagnostic("PW709", f"cannot write '{path}': {error.strerror}", help="choose another")
        ) from None
