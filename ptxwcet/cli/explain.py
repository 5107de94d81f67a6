"""``ptxwcet explain``: what a diagnostic code means."""

from __future__ import annotations

import textwrap

import click

from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo
from ptxwcet.support.explanations import explanations


@click.command(cls=Command, example="ptxwcet explain PW203")
@click.argument("code", required=False)
@click.option("--format", "form", type=click.Choice(["text", "markdown"]), default="text")
def explain(code: str | None, form: str) -> None:
    """Explain diagnostic CODE (PW203); without one, list all codes."""
    known = explanations()
    if code is not None and code.upper() not in known:
        raise click.UsageError(f"there is no code {code!r}; ptxwcet explain lists all codes")
    chosen = known if code is None else {code.upper(): known[code.upper()]}
    if form == "markdown":
        echo("| code | what | why | what to do |\n|---|---|---|---|")
        for name, row in chosen.items():
            echo(f"| {name} | {row.title} | {row.cause} | {row.remedy} |")
    elif code is None:
        for name, row in chosen.items():
            echo(f"{name}  {row.title}")
    else:
        for name, row in chosen.items():
            echo(f"{name}: {row.title}\n")
            echo(textwrap.fill(row.cause, 88))
            echo()
            echo(textwrap.fill(f"What to do: {row.remedy}", 88))
