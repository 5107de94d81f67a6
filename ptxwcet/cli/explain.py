"""``ptxwcet explain``: what a diagnostic code means."""

from __future__ import annotations

import textwrap

import click

from ptxwcet.support.explanations import EXPLANATIONS


@click.command()
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Explain diagnostic CODE (PW203); without one, list all codes."""
    if code is None:
        for known, row in EXPLANATIONS.items():
            click.echo(f"{known}  {row.title}")
        return
    explanation = EXPLANATIONS.get(code.upper())
    if explanation is None:
        raise click.UsageError(f"there is no code {code!r}; ptxwcet explain lists all codes")
    click.echo(f"{code.upper()}: {explanation.title}\n")
    click.echo(textwrap.fill(explanation.cause, 88))
    click.echo()
    click.echo(textwrap.fill(f"What to do: {explanation.remedy}", 88))
