"""Common parts of all commands: printing, an example, and the check that outputs are not inputs."""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ptxwcet.cli.output import Manner, echo, set_manner
from ptxwcet.cli.paths import check_outputs
from ptxwcet.cli.progress import StillAtWork
from ptxwcet.cli.tree import CommandTree
from ptxwcet.support.extras import require_extra
from ptxwcet.support.first_use import CACHE_VARIABLE, tell_first_use
from ptxwcet.support.whole_files import write_text

_COLORS = {"auto": None, "always": True, "never": False}
_REPORT_FILE = "report_file"


class Command(click.Command):
    """A command of ptxwcet: every one takes ``--quiet``, ``--verbose`` and ``--color``.

    Its outputs are compared with its inputs, and with one another, before it runs; a report is
    written to the file of ``-o`` if the command has that option (options.report_options).
    ``example`` is a working command line, shown at the end of ``--help``; ``needs`` are the extras
    without which it cannot run (support.extras). Long work is reported on standard error, unless
    the command has processes of its own (``forks``) and reports their progress itself.
    """

    def __init__(
        self,
        *args: Any,
        example: str,
        needs: tuple[str, ...] = (),
        forks: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.needs = needs
        self.forks = forks  # a process with threads must not be forked
        self.params += _printing()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses words; click.UsageError for an option that is given twice, or with nothing."""
        if not ctx.resilient_parsing:  # words under completion are incomplete
            values, _, order = self.make_parser(ctx).parse_args(list(args))
            _refuse_repeated(ctx, order)
            _refuse_empty(ctx, order, values)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Prints the example below the options."""
        formatter.write_paragraph()
        with formatter.section("Example"):
            formatter.write_text(self.example)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command, if its extras are installed and no output replaces an input.

        Raises PtxwcetError (PW233, PW235).
        """
        for extra in self.needs:
            require_extra(extra, ctx.command_path)
        check_outputs(self, ctx.params)
        own = {name: ctx.params.pop(name) for name in ("quiet", "verbose", "color")}
        output: Path | None = ctx.params.pop(_REPORT_FILE, None)
        report: list[str] | None = None if output is None else []
        set_manner(Manner(own["quiet"], _color(own["color"]), report))
        tell_first_use(None if own["quiet"] else _say_compiling)
        try:
            with (
                contextlib.nullcontext() if self.forks else StillAtWork(ctx.command_path),
                _warnings(logging.NullHandler() if own["quiet"] or own["verbose"] else _Warnings()),
                _logging() if own["verbose"] else contextlib.nullcontext(),
            ):
                code = super().invoke(ctx)
        finally:
            set_manner(Manner())
            tell_first_use(None)
        if output is not None and report is not None:  # an empty one too: it replaces an old one
            write_text(output, "".join(report), "PW233")
        return code


class _Warnings(logging.Handler):
    """Prints each warning once on standard error."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._said:
            self._said.add(message)
            echo(message, err=True)


@contextlib.contextmanager
def _warnings(handler: logging.Handler) -> Iterator[None]:
    """Sends warnings to a handler meanwhile, and not to Python's handler of last resort."""
    logger = logging.getLogger("ptxwcet")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class CommandGroup(Command, CommandTree):
    """A command with subcommands: ``validate FILE``, and ``validate attack``.

    Words that call a subcommand do not reach this command (CommandTree.resolve_command).
    """

    allow_extra_args = False
    allow_interspersed_args = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, invoke_without_command=True, **kwargs)

    def words(self) -> str:
        """Returns the text before the names of the subcommands."""
        return f"{self.name} "

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Returns how the command itself is used."""
        return click.Command.collect_usage_pieces(self, ctx)


def _refuse_repeated(ctx: click.Context, order: Sequence[click.Parameter]) -> None:
    """Refuses repeated single-valued options, whose last value click would take silently."""
    for option, times in Counter(order).items():
        if times == 1 or not isinstance(option, click.Option) or option.multiple:
            continue
        if option.secondary_opts or not option.is_flag:
            raise click.UsageError(f"{option.opts[-1]} is given {times} times: give it once", ctx)


def _refuse_empty(
    ctx: click.Context, order: Iterable[click.Parameter], values: Mapping[str, Any]
) -> None:
    for one in order:
        value = values.get(one.name or "")
        if "" in (value if isinstance(value, (list, tuple)) else (value,)):
            raise click.BadParameter("it is empty", ctx, one)


def _printing() -> list[click.Parameter]:
    return [
        click.Option(["-q", "--quiet"], is_flag=True, help="Print answers and errors only."),
        click.Option(
            ["-v", "--verbose"], is_flag=True, help="Log on standard error what takes time."
        ),
        click.Option(
            ["--color"],
            type=click.Choice(list(_COLORS)),
            default="auto",
            show_default=True,
            help="Colours, if a terminal reads; NO_COLOR is respected.",
        ),
    ]


def _say_compiling(subject: str, folder: Path | None) -> None:
    kept = (
        f"no folder can be written to keep it: set {CACHE_VARIABLE}"
        if folder is None
        else f"kept in {folder}"
    )
    echo(f"ptxwcet: compiling {subject} once, which takes seconds; {kept}", err=True)


def _color(chosen: str) -> bool | None:
    return False if chosen == "auto" and os.environ.get("NO_COLOR") else _COLORS[chosen]


@contextlib.contextmanager
def _logging() -> Iterator[None]:
    """Sends log messages to standard error meanwhile."""
    logger, handler = logging.getLogger("ptxwcet"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(relativeCreated)7.0f ms  %(message)s"))
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
