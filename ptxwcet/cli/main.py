"""Entry point: ``ptxwcet FILE ...`` bounds kernels, ``ptxwcet COMMAND ...`` runs a command.

Exit codes: 0 answered; 1 refused, a check such as ``--budget`` failed, or the output could not be
written (a full disk, a closed pipe); 2 usage: an argument of the command line is malformed,
missing, unknown, or would be replaced. Bad input gives diagnostics on standard error, never a
traceback; a bug of ours gives PW901 and asks for a report. A signal that stops the program (130 for
Ctrl-C, 143 for TERM, 129 for HUP) leaves no part of a file and no process.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence

import click

from ptxwcet.cli.output import echo, finish
from ptxwcet.cli.tree import CommandTree
from ptxwcet.support.diagnostics import PtxwcetError, UsageError, internal_error
from ptxwcet.support.version import VERSION
from ptxwcet.support.whole_files import FULL_DISK

_DEFAULT_COMMAND = "bound"
_GO_ON = (
    "ptxwcet: stopped; no file is half written. The same command begins anew; sweep and validate "
    "attack go on with --resume, check takes what it has from --cache\n"
)


class _Commands(CommandTree):
    """All commands; words that do not begin with a command go to the default command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((arg for arg in args if not arg.startswith("-")), None)
        if first is not None and first not in self.list_commands(ctx):
            if not ctx.resilient_parsing:
                self.refuse_misspelt(ctx, first, "ptxwcet --help lists the commands")
            args = [_DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    VERSION,
    prog_name="ptxwcet",
    message="%(prog)s %(version)s, alpha: options and reports may change before 1.0",
)
def commands() -> None:
    """Bound the worst-case execution time of GPU kernels, from PTX, CUDA or machine code.

    ptxwcet FILE.ptx --block 32x32 --param K=1024 bounds the kernels of a file; it is short for
    ptxwcet bound FILE.ptx ... (see ptxwcet bound --help for its options). Help of a command lists
    those behind its name: ptxwcet validate attack.
    """


class _Stopped(BaseException):
    """A signal requests the end of the program: its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with the documented code."""
    # a closed stream is None, and an opened file would take its descriptor
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        _complain("ptxwcet: cannot write the output: standard output is closed\n")
        sys.exit(1)
    _accept_any_text()
    try:
        with _stopped_by(signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            code = _run(arguments)
            sys.stdout.flush()
    except _Stopped as stop:
        code = 128 + stop.number
        _complain(_GO_ON)
    except BrokenPipeError:  # the reader closed the pipe: no message
        _drop_output()
        code = 1
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        _drop_output()
        code = 1
        what = "the output" if error.filename is None else f"'{error.filename}'"
        _complain(f"ptxwcet: cannot write {what}: {error.strerror}\n")
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    """Runs the command line; the exit code. Raises OSError if standard output takes no more."""
    try:
        code = commands.main(
            args=None if arguments is None else list(arguments),
            prog_name="ptxwcet",
            standalone_mode=False,
        )
        return code if isinstance(code, int) else 0
    except PtxwcetError as error:
        code = finish(error.diagnostics)
        return 2 if isinstance(error, UsageError) else code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        raise _Stopped(signal.SIGINT) from None
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(file=shown)
        echo(shown.getvalue(), err=True, nl=False)
        return error.exit_code
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (*FULL_DISK, errno.EPIPE):
            raise
        return finish([internal_error(error)])


@contextlib.contextmanager
def _stopped_by(*numbers: int) -> Iterator[None]:
    """Signals that would end the process at once are exceptions meanwhile: files are cleaned up."""

    def stop(number: int, _: object) -> None:
        raise _Stopped(number)

    before = {}
    for number in set(numbers):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores one
            with contextlib.suppress(ValueError):  # not in the main thread
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _accept_any_text() -> None:
    """Replaces characters that the terminal's encoding lacks by escapes, instead of errors."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Discards pending output: the interpreter flushes once more at its end."""
    sink = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is sys.stderr:
                stream.flush()
                continue
            os.dup2(sink, stream.fileno())


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


if __name__ == "__main__":
    main()
