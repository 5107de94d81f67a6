"""Entry point: ``ptxwcet FILE ...`` bounds kernels, ``ptxwcet COMMAND ...`` does the rest.

Exit codes: 0 answered; 1 refused, a check such as ``--budget`` failed, or the output could not be
written (a full disk, a reader that left); 2 usage: what is named on the command line is malformed,
missing, not known, or would be replaced. Bad input gives diagnostics on standard error, never a
traceback; a bug of ours gives PW901 and asks for a report. A signal that stops the program (130 for
Ctrl-C, 143 for TERM, 129 for HUP) leaves no part of a file and no process behind.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence

import click

from ptxwcet.cli.output import echo, finish
from ptxwcet.support.diagnostics import PtxwcetError, internal_error
from ptxwcet.support.version import VERSION
from ptxwcet.support.whole_files import FULL_DISK

_DEFAULT_COMMAND = "bound"
_GO_ON = (
    "ptxwcet: stopped; no file is half written. The same command begins anew; sweep and attack go "
    "on with --resume, check takes what it has from --cache\n"
)
# What --help lists: as docs/commands.md groups them.
_GROUPS = {
    "Bounds": {
        "bound": "Bound the kernels of files: a block, and the launch.",
        "annotate": "Their code, with what each line costs.",
        "report": "A page about a bound: source, graph, pictures.",
        "what-if": "The bounds on machines with other figures.",
        "facts": "A template of what is not known of a launch yet.",
        "sequence": "Launches one after the other.",
        "schema": "The JSON schema of a report.",
    },
    "Projects": {
        "check": "All kernels of a plan, against their budgets.",
        "compare": "Two versions of a kernel: what a change costs.",
        "diff": "Two results, of --format json.",
        "dossier": "All that an argument about a kernel rests on.",
    },
    "Sweeps": {
        "sweep": "Every combination of files, launches and machines.",
        "sweep-report": "What a sweep has found.",
    },
    "What is inside": {
        "cfg": "The control-flow graph.",
        "memory": "What each access takes of memory, and why.",
        "phases": "Execution and idle phases of one warp.",
        "explain": "What a diagnostic means, and what to do.",
    },
    "Runs on simulated machines": {
        "run": "Execute a launch on data, without a GPU.",
        "simulate": "Run a block cycle by cycle.",
        "trace": "Time a launch on a simulated GPU.",
        "warmup": "Compile the simulators now, once.",
    },
    "Is it right?": {
        "validate": "Attack the bounds of a kernel.",
        "check-certificates": "Confirm the proofs of a report again.",
        "selftest": "Check the installed tool.",
        "attack": "Try to contradict the tool, for long.",
    },
    "The other published methods": {
        "hybrid": "Estimates from timed traces.",
        "instrument": "PTX that writes its own trace.",
        "record": "Run it, and keep what it writes.",
        "import-dump": "A trace out of dumps.",
        "makespan": "Exact worst-case makespan of identical warps.",
        "pwcet": "Probabilistic WCET from measured times.",
    },
    "Machines": {
        "machine": "Show, check and begin machine files.",
    },
}
# Loaded only when used: a command must not pay for the libraries of another.
_COMMANDS = {
    "annotate": "ptxwcet.commands.annotate.command",
    "attack": "ptxwcet.sweeps.attack_command",
    "bound": "ptxwcet.commands.bound.command",
    "cfg": "ptxwcet.commands.cfg.command",
    "check": "ptxwcet.commands.check.command",
    "check-certificates": "ptxwcet.commands.certificates.command",
    "compare": "ptxwcet.commands.compare.command",
    "diff": "ptxwcet.commands.compare.diff",
    "dossier": "ptxwcet.dossier.command",
    "explain": "ptxwcet.commands.explain.command",
    "facts": "ptxwcet.commands.facts.command",
    "hybrid": "ptxwcet.methods.hybrid.command",
    "import-dump": "ptxwcet.methods.instrument.import_dump",
    "instrument": "ptxwcet.methods.instrument.command",
    "machine": "ptxwcet.commands.machine.command",
    "makespan": "ptxwcet.methods.makespan.command",
    "memory": "ptxwcet.commands.memory.command",
    "phases": "ptxwcet.commands.phases.command",
    "pwcet": "ptxwcet.methods.pwcet.command",
    "record": "ptxwcet.methods.instrument.record",
    "report": "ptxwcet.commands.page.command",
    "run": "ptxwcet.commands.run.command",
    "schema": "ptxwcet.commands.schema.command",
    "selftest": "ptxwcet.validate.selftest_command",
    "sequence": "ptxwcet.commands.sequence.command",
    "simulate": "ptxwcet.commands.simulate.command",
    "sweep": "ptxwcet.sweeps.command",
    "sweep-report": "ptxwcet.sweeps.results.command",
    "trace": "ptxwcet.commands.trace.command",
    "validate": "ptxwcet.validate.command",
    "warmup": "ptxwcet.validate.warmup_command",
    "what-if": "ptxwcet.commands.what_if.command",
}


class _Commands(click.Group):
    """A group whose commands are imported on use and whose default command takes a file."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands by group; none of them is loaded for it."""
        for group, commands in _GROUPS.items():
            with formatter.section(group):
                formatter.write_dl(list(commands.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((arg for arg in args if not arg.startswith("-")), None)
        if first is not None and first not in _COMMANDS:
            _require_file(first)
            args = [_DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


def _require_file(word: str) -> None:
    """click.UsageError for a word, as of a command, that is the name of no file."""
    is_word = word.replace("-", "").replace("_", "").isalpha()
    if is_word and not os.path.exists(word):
        # here: of a command or a file nothing is near
        from difflib import get_close_matches

        near = get_close_matches(word.lower(), _COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else "ptxwcet --help lists the commands"
        raise click.UsageError(f"'{word}' is no command, and no file of that name is here: {hint}")


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="ptxwcet")
def commands() -> None:
    """Bound the worst-case execution time of a GPU thread block from its PTX.

    ptxwcet FILE.ptx --block 32x32 --param K=1024 bounds the kernels of a file; it is short for
    ptxwcet bound FILE.ptx ... (see ptxwcet bound --help for its options).
    """


class _Stopped(BaseException):
    """A signal says that the program is to end: its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with the documented code."""
    # what is closed is None, and a file that is opened would take its place
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
    except BrokenPipeError:  # the reader has seen enough: no message
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
        return finish(error.diagnostics)
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
            with contextlib.suppress(ValueError):  # not the main thread
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _accept_any_text() -> None:
    """Text that the terminal's encoding lacks is shown as escapes, and raises nothing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Sends what is still to be written nowhere: the interpreter flushes once more at its end."""
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
