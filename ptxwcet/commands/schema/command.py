"""``ptxwcet schema``: the JSON schemas of reports."""

from __future__ import annotations

import json

import click

from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo
from ptxwcet.commands.schema.report import REPORTS, schema_of


@click.command(cls=Command, example="ptxwcet schema report")
@click.argument("report", type=click.Choice(list(REPORTS)), default="report")
def schema(report: str) -> None:
    """Print the JSON schema of a REPORT: what --format json of a command writes."""
    echo(json.dumps(schema_of(report), indent=2))
