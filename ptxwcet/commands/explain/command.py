"""``ptxwcet explain``: what a diagnostic code means."""

from __future__ import annotations

import textwrap

import click
from click.shell_completion import CompletionItem

from ptxwcet.cli.command import CommandGroup
from ptxwcet.cli.output import echo
from ptxwcet.support.explanations import explanations


def _complete_code(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    assert isinstance(context.command, CommandGroup)
    words = [*context.command.list_commands(context), *explanations()]
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


@click.command(cls=CommandGroup, example="ptxwcet explain PW203")
@click.argument("code", required=False, shell_complete=_complete_code)
@click.option("--format", "form", type=click.Choice(["text", "markdown"]), default="text")
def explain(code: str | None, form: str) -> None:
    """Explain diagnostic CODE (PW203); without one, list all codes."""
    pages = explanations()
    if code is not None and code.upper() not in pages:
        raise click.UsageError(f"there is no code {code!r}; ptxwcet explain lists all codes")
    chosen = pages if code is None else {code.upper(): pages[code.upper()]}
    if form == "markdown":
        echo("| code | what | why | what to do |\n|---|---|---|---|")
    for name, page in chosen.items():
        if form == "markdown":
            echo(f"| {name} | {page.title} | {page.cause} | {page.remedy} |")
        elif code is None:
            echo(f"{name}  {page.title}")
        else:
            echo(f"{name}: {page.title}\n\n{textwrap.fill(page.cause, 88)}\n")
            echo(textwrap.fill(f"What to do: {page.remedy}", 88))
