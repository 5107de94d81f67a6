"""``ptxwcet sweep-report RESULTS``: what a sweep found, from its results alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.made import command_line, page_time
from ptxwcet.cli.output import echo, echo_json, is_quiet
from ptxwcet.cli.paths import OUTPUT_FILE, PICTURE_FOLDER, InputFile
from ptxwcet.support.extras import require_extra
from ptxwcet.support.whole_files import write_text

if TYPE_CHECKING:
    from ptxwcet.sweeps.results.sweep_model import SweepReport


@click.command(
    cls=Command,
    name="sweep-report",
    needs=("sweep",),
    example="ptxwcet sweep-report results.parquet --best 5",
)
@click.argument("results", type=InputFile())
@click.option(
    "--best",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="How many of the best variants of each machine to show.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only units with this value of a column; several of one column are alternatives.",
)
@click.option("--x", metavar="COLUMN", help="Column across the map.  [default: chosen]")
@click.option("--y", metavar="COLUMN", help="Column down the map.  [default: chosen]")
@click.option("--html", type=OUTPUT_FILE, help="Write one page with pictures (extra report).")
@click.option("--plots", type=PICTURE_FOLDER, help="Write the pictures to a folder (extra report).")
@click.option(
    "--picture-format",
    type=click.Choice(["png", "svg"]),
    default="png",
    show_default=True,
    help="Format of the pictures of --plots.",
)
@options.report_options
def sweep_report(
    results: str,
    best: int,
    only: tuple[str, ...],
    x: str | None,
    y: str | None,
    html: Path | None,
    plots: Path | None,
    picture_format: str,
    form: str,
) -> int:
    """Show what a sweep found: the best variants of each machine, what is refused, a map.

    RESULTS is results.parquet of ptxwcet sweep; nothing is analysed.
    Bounds are ranked machine by machine, those of launches and blocks and those of different
    guarantee apart. The map, of page, pictures and JSON, has the least bound over two columns: by
    default those that make the most cells.

    Exit code: 0 shown; 2 usage, or a file that is no result of a sweep.
    """
    # here: pandas and what builds the report are no matter for other commands
    from ptxwcet.sweeps.results.results_table import read_results
    from ptxwcet.sweeps.results.sweep_build import NotAnAxis, build_sweep_report, chosen_rows
    from ptxwcet.sweeps.results.sweep_text import render_sweep_lines, render_sweep_text

    if html is not None or plots is not None:
        require_extra("report", "drawing pictures of a sweep")
    if plots is None:
        options.refuse_idle("says how to draw: give --plots, too", "picture_format")
    table = read_results(results)
    try:
        table = chosen_rows(table, only)
        report = build_sweep_report(table, best=best, x=x, y=y, only=only)
    except NotAnAxis as error:
        raise click.UsageError(str(error)) from None
    if (x or y) and html is None and plots is None and form != "json":
        raise click.UsageError("--x and --y choose a map: give --html, --plots or --format json")
    if html is not None or plots is not None:
        _draw(report, html, plots, picture_format)
    if form == "json":
        echo_json(report)
    else:
        echo(render_sweep_lines(report) if is_quiet() else render_sweep_text(report), nl=False)
    return 0


def _draw(report: SweepReport, html: Path | None, plots: Path | None, form: str) -> None:
    """Page and pictures."""
    # here: matplotlib and jinja2 are no matter for those who want text
    from ptxwcet.opened.opening import ReadFile
    from ptxwcet.report.page.parts import Made
    from ptxwcet.sweeps.results.pictures import draw_pictures, render_sweep_page, write_pictures

    pictures = draw_pictures(report)
    if plots is not None:
        write_pictures(pictures, plots, form)
    if html is not None:
        read = (ReadFile("results", Path(report.file).name, report.sha256),)
        made = Made(command_line(), page_time(), read)
        write_text(html, render_sweep_page(report, pictures, made), "PW709")
