"""What every command prints goes through here: nothing in it steers a terminal."""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from typing import Any

import click

from ptxwcet.support.diagnostics import Diagnostic, exit_code, render_all
from ptxwcet.support.printable import printable

FULL_DISK = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""Errors of writing that are the place's, not the program's."""


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Prints a text, characters that are not printable shown as ``\\uXXXX`` (see printable).

    JSON text stays what it was: there the same spelling is the character.
    """
    click.echo(printable(text), err=err, nl=nl)


def echo_json(data: Any) -> None:
    """Prints data as JSON, two spaces a level."""
    echo(json.dumps(data, indent=2, ensure_ascii=False))


def finish(diagnostics: Sequence[Diagnostic], *, is_partial: bool = False) -> int:
    """Prints diagnostics to standard error; the exit code that goes with them (see exit_code)."""
    if diagnostics:
        echo(render_all(diagnostics), err=True)
    return exit_code(diagnostics, is_partial=is_partial)
