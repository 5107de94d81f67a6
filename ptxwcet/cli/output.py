"""The output of all commands: no character of an input controls the terminal.

The options that every command has (:mod:`ptxwcet.cli.command`) select the amount, the colours and
the destination of output; they are stored here while a command runs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from threading import RLock
from typing import Any

import click

from ptxwcet.support.diagnostics import Diagnostic, Severity, exit_code, render_all
from ptxwcet.support.printable import printable, printable_line
from ptxwcet.support.records import dataclass
from ptxwcet.support.seals import sealed

_STYLES: tuple[tuple[re.Pattern[str], dict[str, Any]], ...] = (
    (re.compile(r"\berror\[PW\d{3}\]:"), {"fg": "red", "bold": True}),
    (re.compile(r"\bwarning\[PW\d{3}\]:"), {"fg": "yellow", "bold": True}),
    (re.compile(r"^ +\| +(\^~*)$", re.MULTILINE), {"fg": "red"}),
    (re.compile(r"^  (?:note|help):", re.MULTILINE), {"fg": "cyan"}),
    (re.compile(r"^(?:KERNEL|BOUND|SEQUENCE|BEST) .*$", re.MULTILINE), {"bold": True}),
    (re.compile(r"^REFUSED .*$", re.MULTILINE), {"fg": "red", "bold": True}),
    (  # a line of code that pays a tenth of its bound or more
        re.compile(r"^ *(?:[\d,]+ +)?[\d,]+ +\d\d\.\d %  .*$", re.MULTILINE),
        {"fg": "yellow"},
    ),
)


@dataclass
class Manner:
    """The settings of printing. ``report`` collects standard output that goes to a file."""

    is_quiet: bool = False
    color: bool | None = None  # None: only on a terminal
    report: list[str] | None = None


_manner = Manner()
_printing = RLock()  # a thread of its own reports progress
_status_width = 0  # the width of the progress line on the terminal


def set_manner(manner: Manner) -> None:
    """Sets how all further output is printed."""
    global _manner
    _manner = manner


def is_quiet() -> bool:
    """Returns whether only answers and errors are printed."""
    return _manner.is_quiet


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Prints a text, with unprintable characters as ``\\uXXXX`` (see printable).

    JSON text keeps its meaning: the same spelling is the character there.
    """
    shown = printable(text)
    if not err and _manner.report is not None:
        _manner.report.append(shown + ("\n" if nl else ""))
        return
    stream = sys.stderr if err else sys.stdout
    is_painted = stream.isatty() if _manner.color is None else _manner.color
    with _printing:
        wipe_status()
        click.echo(_painted(shown) if is_painted else shown, err=err, nl=nl, color=_manner.color)


def show_status(text: str) -> None:
    """Shows a line of progress on the terminal, in place of the previous one."""
    global _status_width
    shown = printable_line(text)
    with _printing:
        click.echo("\r" + shown.ljust(_status_width), err=True, nl=False)
        _status_width = len(shown)


def wipe_status() -> None:
    """Leaves the terminal without a line of progress."""
    global _status_width
    with _printing:
        if _status_width:
            click.echo("\r" + " " * _status_width + "\r", err=True, nl=False)
        _status_width = 0


def _painted(text: str) -> str:
    """Returns the text in colours."""
    for pattern, style in _STYLES:
        text = pattern.sub(partial(_styled, style), text)
    return text


def _styled(style: dict[str, Any], found: re.Match[str]) -> str:
    return click.style(found[0], **style)


def echo_json(data: Any) -> None:
    """Prints data as JSON (:func:`json_text`)."""
    echo(json_text(data))


def show(form: str, report: Any, render: Callable[[Any], str]) -> None:
    """Prints a report: as JSON if that is the form, else the text that is made of it."""
    if form == "json":
        echo_json(report)
    else:
        echo(render(report), nl=False)


def json_text(data: Any) -> str:
    """Returns data as JSON, indented by two spaces; dataclasses as objects, enums as their values.

    Reports have a digest of their content.
    """
    return json.dumps(sealed(_plain(data)), indent=2, ensure_ascii=False)


def _plain(data: Any) -> Any:
    match data:
        case Enum():
            return data.value
        case Mapping():
            return {str(_plain(key)): _plain(value) for key, value in data.items()}
        case list() | tuple():
            return [_plain(one) for one in data]
        case _ if is_dataclass(data):
            return {field.name: _plain(getattr(data, field.name)) for field in fields(data)}
    return data


def finish(diagnostics: Sequence[Diagnostic], *, is_partial: bool = False) -> int:
    """Prints diagnostics to standard error; returns their exit code (see exit_code)."""
    shown = [one for one in diagnostics if not is_quiet() or one.severity is Severity.ERROR]
    if shown:
        echo(render_all(shown), err=True)
    return exit_code(diagnostics, is_partial=is_partial)
