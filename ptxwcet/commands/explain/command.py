"""``ptxwcet explain``: prints the meaning of diagnostic codes."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from ptxwcet.cli import options
from ptxwcet.cli.command import CommandGroup
from ptxwcet.cli.output import echo
from ptxwcet.commands.explain.text import pages_of, render_explanations
from ptxwcet.support.explanations import explanations


def _complete_code(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    assert isinstance(context.command, CommandGroup)
    words = [*context.command.list_commands(context), *explanations()]
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


@click.command(cls=CommandGroup, example="ptxwcet explain PW203")
@click.argument("code", required=False, shell_complete=_complete_code)
@options.option("form", type=click.Choice(["text", "markdown"]), default="text", show_default=False)
def explain(code: str | None, form: str) -> None:
    """Explain diagnostic CODE (PW203); without one, list all codes."""
    try:
        pages = pages_of(code)
    except ValueError as error:
        raise click.UsageError(f"{error}; ptxwcet explain lists all codes") from None
    if form == "text":
        echo(render_explanations(pages), nl=False)
        return
    echo("| code | what | why | what to do |\n|---|---|---|---|")
    for name, page in pages.items():
        echo(f"| {name} | {page.title} | {page.cause} | {page.remedy} |")
