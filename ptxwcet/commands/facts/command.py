"""``ptxwcet facts FILE``: writes the open questions as a facts file to be filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, finish
from ptxwcet.commands.facts.study import facts_template
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


@click.command(cls=Command, example="ptxwcet facts kernel.ptx --block 256 -o facts.toml")
@options.launch_options
@options.of("machine", "on_unknown")
@options.option("output", "Write to a file that does not exist yet.  [default: standard output]")
def facts(output: Path | None, **given: Any) -> int:
    """Write a template of a facts file: what the launch leaves open in the kernels of FILE.

    Only what is open is asked: bounds of loops, values of parameters, branches that all threads
    take alike. Fill in the answers and give the file with --facts. Where nothing is open, the
    machine may refuse the kernel for what its instructions cost: then that is said. Exit code: 0
    written, or nothing is open; 1 a kernel is refused whatever the answers are; 2 usage.
    """
    template = facts_template(options.request_from(**given))
    if not template.questions and template.refused:
        echo("no answer would help", err=True)
    elif not template.questions:
        echo("nothing is open: no facts are needed for this launch", err=output is None)
    elif output is None:
        echo(template.text, nl=False)
    else:
        write_template(output, template.text)
        plural = "" if template.questions == 1 else "s"
        echo(f"{output}: {template.questions} open question{plural}")
    diagnostics = [diagnostic for refused in template.refused for diagnostic in refused.diagnostics]
    return finish(diagnostics, is_partial=template.questions > 0)


def write_template(out: Path, text: str) -> None:
    """Writes a new file: answers in an old one are not to be lost."""
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        reason = "it exists" if isinstance(error, FileExistsError) else error.strerror
        raise PtxwcetError(Diagnostic("PW233", f"cannot write '{out}': {reason}")) from None
