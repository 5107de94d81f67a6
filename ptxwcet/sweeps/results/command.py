"""``ptxwcet sweep report RESULTS``: reports the results of a sweep, from its tables only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.made import command_line, page_time
from ptxwcet.cli.output import echo, echo_json, is_quiet
from ptxwcet.cli.paths import PICTURE_FILES, InputFile
from ptxwcet.support.extras import require_extra

if TYPE_CHECKING:
    from ptxwcet.sweeps.results.sweep_model import SweepReport


@click.command(
    "report",
    cls=Command,
    needs=("sweep",),
    example="ptxwcet sweep report results.parquet --best 5",
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
@click.option(
    "--map",
    "columns",
    metavar="[X][,Y]",
    help="Columns across and down the map.  [default: chosen]",
)
@click.option(
    "--per",
    metavar="COLUMNS",
    help="Columns that say which problem a variant solves, with commas between them: the best are "
    "those of one.  [default: the kernel's parameters]",
)
@options.option("picture", options.PICTURES_HELP, type=PICTURE_FILES)
@options.report_options_of("text", "json", "html")
def sweep_report(
    results: str,
    best: int,
    only: tuple[str, ...],
    columns: str | None,
    per: str | None,
    picture: Path | None,
    form: str,
) -> int:
    """Show what a sweep found: the best variants of each machine, what is refused, a map.

    RESULTS is results.parquet of ptxwcet sweep; nothing is analysed.
    Bounds are ranked machine by machine and problem by problem, those of launches and blocks and
    those of different guarantee apart. The map, of page, pictures and JSON, has the least bound
    over two columns: by default those that make the most cells.

    Exit code: 0 shown; 2 usage, or a file that is no result of a sweep.
    """
    # imported here: other commands do not need pandas and the report
    from ptxwcet.sweeps.results.results_table import read_results
    from ptxwcet.sweeps.results.sweep_build import NotAnAxis, build_sweep_report, chosen_rows
    from ptxwcet.sweeps.results.sweep_text import render_sweep_lines, render_sweep_text

    is_drawn = picture is not None or form == "html"
    if is_drawn:
        require_extra("report", "drawing pictures of a sweep")
    x, _, y = (columns or "").partition(",")
    table = read_results(results)
    try:
        table = chosen_rows(table, only)
        named = None if per is None else [one.strip() for one in per.split(",") if one.strip()]
        report = build_sweep_report(
            table, best=best, x=x or None, y=y or None, only=only, per=named
        )
    except NotAnAxis as error:
        raise click.UsageError(str(error)) from None
    if columns and not is_drawn and form != "json":
        raise click.UsageError("--map is drawn: give --picture, --format html or --format json")
    if is_drawn:
        _draw(report, picture, is_page=form == "html")
    if form == "json":
        echo_json(report)
    elif form == "text":
        echo(render_sweep_lines(report) if is_quiet() else render_sweep_text(report), nl=False)
    return 0


def _draw(report: SweepReport, picture: Path | None, *, is_page: bool) -> None:
    """Pictures, and a page with them."""
    # imported here: text needs neither matplotlib nor jinja2
    from ptxwcet.opened.opening import ReadFile
    from ptxwcet.report.page.parts import Made
    from ptxwcet.sweeps.results.pictures import draw_pictures, render_sweep_page, write_pictures

    pictures = draw_pictures(report)
    if picture is not None:
        write_pictures(pictures, picture)
    if is_page:
        read = (ReadFile("results", Path(report.file).name, report.sha256),)
        made = Made(command_line(), page_time(), read)
        echo(render_sweep_page(report, pictures, made), nl=False)
