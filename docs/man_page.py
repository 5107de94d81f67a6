"""The manual page of the program, ``man ptxwcet``: made from the commands themselves.

    python docs/man_page.py

writes docs/ptxwcet.1, which the wheel installs under share/man; a test holds it against the
commands. The field has click-man for that, which does not see commands that are loaded by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from ptxwcet.cli.main import commands
from ptxwcet.cli.tree import HEADINGS
from ptxwcet.support.version import VERSION

PAGE = Path(__file__).parent / "ptxwcet.1"
_EXIT_CODES = (
    ("0", "answered"),
    ("1", "refused, a check such as --budget failed, or the output could not be written"),
    ("2", "usage: what the command line names is malformed, missing, or not known"),
    ("128 + N", "stopped by signal N"),
)
_NEVER = {"--help", "--quiet", "--verbose", "--color"}  # those of every command: said once


def manual_page() -> str:
    """The whole page, in the macros of man(7)."""
    group = commands
    assert isinstance(group, click.Group)
    lines = [
        f'.TH PTXWCET 1 "" "ptxwcet {VERSION}" "User Commands"',
        ".SH NAME",
        r"ptxwcet \- bounds on how long GPU kernels can take, from PTX and machine code",
        ".SH SYNOPSIS",
        r".B ptxwcet",
        r"\fIFILE\fR... [\fIOPTIONS\fR]",
        ".br",
        r".B ptxwcet",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        *_text(group.help or ""),
        ".SH OPTIONS OF EVERY COMMAND",
        *_options(_named(group, ("bound",)), lambda names: bool(names & _NEVER)),
    ]
    for heading, rows in HEADINGS.items():
        lines.append(f".SH {_plain(heading.upper())}")
        for words in rows:
            lines += _command(_named(group, tuple(words.split())), words)
    lines.append(".SH EXIT STATUS")
    for code, meaning in _EXIT_CODES:
        lines += [".TP", rf"\fB{code}\fR", _plain(meaning)]
    lines += [
        ".SH SEE ALSO",
        "The documentation of the project: docs/index.md of its sources. "
        r"\fBptxwcet explain\fR \fICODE\fR says what a diagnostic means.",
    ]
    return "\n".join(lines) + "\n"


def _named(group: click.Group, words: tuple[str, ...]) -> click.Command:
    command: click.Command = group
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None, words
        command = found
    return command


def _command(command: click.Command, words: str) -> Iterator[str]:
    context = click.Context(command, info_name=f"ptxwcet {words}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS ptxwcet {words}"
    yield rf"\fBptxwcet {words}\fR {_plain(usage)}"
    yield from _text(command.help or "", first=".PP")
    yield from _options(command, lambda names: not names & _NEVER)
    if example := getattr(command, "example", ""):
        yield from (".PP", "Example:", ".PP", ".nf", ".RS", _plain(example), ".RE", ".fi")


def _options(command: click.Command, wanted: Callable[[set[str]], bool]) -> Iterator[str]:
    whole = click.Context(commands, info_name="ptxwcet", **commands.context_settings)
    context = click.Context(command, parent=whole)
    for parameter in command.get_params(context):  # arguments are in the line of usage
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record and wanted(set(parameter.opts)):
            names, text = record
            yield from (".TP", rf"\fB{_plain(names)}\fR", _plain(text) or r"\&")


def _text(text: str, first: str | None = None) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number or first is not None:
            yield ".PP"
        yield _plain(" ".join(paragraph.replace("\b", "").split()))


def _plain(text: str) -> str:
    """Text as roff takes it: no character of it is a request or an escape."""
    shown = text.replace("\\", r"\e").replace("-", r"\-")
    return "\n".join(rf"\&{line}" if line[:1] in {".", "'"} else line for line in shown.split("\n"))


if __name__ == "__main__":
    PAGE.write_text(manual_page(), encoding="utf-8")
