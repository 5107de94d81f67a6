"""The origin of a page: its command and its time."""

from __future__ import annotations

import contextlib
import os
import shlex
from datetime import UTC, datetime

import click
from click.core import ParameterSource

from ptxwcet.opened.budgets import Budget


def command_line() -> str:
    """Returns the command as it was given, options in the order of their definition."""
    context = click.get_current_context()
    words = context.command_path.split()
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params.get(name)
        for word in value if isinstance(value, tuple) else (value,):
            if isinstance(parameter, click.Argument):
                words.append(str(word))
            elif isinstance(word, bool):
                words.append((parameter.opts if word else parameter.secondary_opts)[0])
            elif word is not None:
                words += [parameter.opts[-1], word.asked if isinstance(word, Budget) else str(word)]
    return shlex.join(words)


def page_time() -> datetime:
    """Returns the time, or SOURCE_DATE_EPOCH: with it, equal input gives equal bytes."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(int(stated), UTC)
    return datetime.now(UTC)
