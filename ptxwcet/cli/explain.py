"""``ptxwcet explain``: what a diagnostic code means."""

from __future__ import annotations

import textwrap

import click

from ptxwcet.cli.output import echo
from ptxwcet.cli.paths import GuardedCommand
from ptxwcet.support.explanations import EXPLANATIONS


@click.command(cls=GuardedCommand)
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Explain diagnostic CODE (PW203); without one, list all codes."""
    if code is None:
        for known, row in EXPLANATIONS.items():
            echo(f"{known}  {row.title}")
        return
    explanation = EXPLANATIONS.get(code.upper())
    if explanation is None:
        raise click.UsageError(f"there is no code {code!r}; ptxwcet explain lists all codes")
    echo(f"{code.upper()}: {explanation.title}\n")
    echo(textwrap.fill(explanation.cause, 88))
    echo()
    echo(textwrap.fill(f"What to do: {explanation.remedy}", 88))
