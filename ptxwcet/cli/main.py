"""Entry point: ``ptxwcet FILE ...`` bounds kernels, ``ptxwcet COMMAND ...`` does the rest.

Exit codes: 0 answered; 1 refused, or a check such as ``--budget`` failed; 2 usage. Bad input gives
diagnostics on standard error, never a traceback; a bug of ours gives PW901 and asks for a report.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

from ptxwcet import __version__
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, render_all

_DEFAULT_COMMAND = "bound"
# Loaded only when used: a command must not pay for the libraries of another.
_COMMANDS = {
    "bound": "ptxwcet.cli.bound",
    "cfg": "ptxwcet.cli.cfg",
    "explain": "ptxwcet.cli.explain",
    "facts": "ptxwcet.cli.facts",
    "hybrid": "ptxwcet.cli.hybrid",
    "import-dump": "ptxwcet.cli.import_dump",
    "instrument": "ptxwcet.cli.instrument",
    "machine": "ptxwcet.cli.machine",
    "makespan": "ptxwcet.cli.makespan",
    "phases": "ptxwcet.cli.phases",
    "pwcet": "ptxwcet.cli.pwcet",
    "record": "ptxwcet.cli.record",
    "run": "ptxwcet.cli.run",
    "simulate": "ptxwcet.cli.simulate",
    "trace": "ptxwcet.cli.trace",
    "selftest": "ptxwcet.cli.selftest",
    "validate": "ptxwcet.cli.validate",
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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((arg for arg in args if not arg.startswith("-")), None)
        if first is not None and first not in _COMMANDS:
            args = [_DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ptxwcet")
def commands() -> None:
    """Bound the worst-case execution time of a GPU thread block from its PTX.

    ptxwcet FILE.ptx --block 32x32 --param K=1024 bounds the kernels of a file; it is short for
    ptxwcet bound FILE.ptx ... (see ptxwcet bound --help for its options).
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with the documented code."""
    try:
        code = commands.main(
            args=None if arguments is None else list(arguments),
            prog_name="ptxwcet",
            standalone_mode=False,
        )
        sys.exit(code if isinstance(code, int) else 0)
    except PtxwcetError as error:
        click.echo(render_all(error.diagnostics), err=True)
        sys.exit(1)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        click.echo(_internal(error).render(), err=True)
        if os.environ.get("PTXWCET_TRACEBACK"):
            traceback.print_exc()
        sys.exit(1)


def _internal(error: Exception) -> Diagnostic:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return Diagnostic(
        "PW901",
        f"internal error: {type(error).__name__} at {where}: {error}",
        help="this is a bug of ptxwcet: please report it with the input; PTXWCET_TRACEBACK=1 shows "
        "where it happened",
    )
