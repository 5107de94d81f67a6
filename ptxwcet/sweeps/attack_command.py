"""``ptxwcet validate attack NAME ...``: attacks the tool's own answers, on all cores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, json_text
from ptxwcet.cli.paths import InputFile, OutputFolder
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, render_all
from ptxwcet.support.whole_files import write_text

if TYPE_CHECKING:
    from ptxwcet.sweeps.attack_report import AttackReport
    from ptxwcet.sweeps.attacks import Attack, AttackFile

REPORT = "attack.json"
_SECONDS = 60.0
_MOST_SHOWN = 10


def _is_name(word: str) -> bool:
    """Returns whether a word is the name of an attack, and not of a file."""
    return "." not in word and os.sep not in word


@click.command(
    "attack",
    cls=Command,
    needs=("sweep", "sim"),
    example="ptxwcet validate attack blocks --cases 2 -o attack",
)
@click.argument(
    "names",
    nargs=-1,
    type=InputFile(unless=_is_name),
    metavar="[NAME|FILE.py]...",
)
@options.option(
    "seconds",
    f"Start units for so long.  [default: {_SECONDS:g}]",
    type=click.FloatRange(min=0),
)
@options.option("cases", "Exactly so many units of each attack: the summary can be reproduced.")
@options.option("seed", "Of the first unit; the others have those that follow.", default=1)
@options.workers("Units at once, which the summary of --cases does not depend on", cluster=True)
@options.option(
    "folder",
    "Folder of summary and witnesses; made if it is not there.",
    type=OutputFolder(".json", ".ptx", ".txt", ".sqlite"),
    default="attack",
)
@options.option(
    "resume",
    "Go on in a folder of the same attacks and seed; --timeout and --cases may be others.",
)
def validate_attack(
    names: tuple[str, ...],
    seconds: float | None,
    cases: int | None,
    seed: int,
    workers: int | str | None,
    folder: Path,
    resume: bool,
) -> int:
    """Try to contradict the tool: random cases, held against runs, searches and executions.

    NAMEs are blocks, grids, paths, and those of a Python FILE with more attacks, whose code is run,
    by workers, too (docs/guide/attack.md); without a name all attack in turn. A unit of an attack
    follows from its seed. Counts are written as attack.json; what contradicts the
    tool is shrunk and saved in the folder's witnesses.

    Exit code: 0 nothing was contradicted; 1 something was, or a unit was not finished, or the
    cluster was lost; 2 usage, a file of attacks or a folder that cannot be used, or no scheduler.
    """
    # imported here: without the extra there is a message, not a traceback
    from ptxwcet.sweeps.attack_report import attack_lines
    from ptxwcet.sweeps.attack_run import AttackPlan, run_attacks
    from ptxwcet.sweeps.attacks import read_attack_file
    from ptxwcet.sweeps.engine import chosen_cluster

    if seconds is not None and cases is not None:
        raise click.UsageError("--timeout and --cases both say how far: leave one out")
    files = [name for name in names if not _is_name(name)]
    if len(files) > 1:
        raise click.UsageError("attacks are read from one file at a time")
    read = read_attack_file(Path(files[0])) if files else None
    chosen = _chosen(tuple(name for name in names if name not in files), read)
    plan = AttackPlan(chosen, read, seed, cases, _SECONDS if seconds is None else seconds)
    with ProgressLine("units") as progress:

        def show(done: int, violations: int, part: float) -> None:
            progress.show_part(f"{done:,} units, {violations:,} violations", part)

        report = run_attacks(
            plan,
            folder,
            lambda: chosen_cluster(workers),
            resume=resume,
            progress=show,
        )
    write_text(folder / REPORT, json_text(report) + "\n", "PW832")
    echo("\n".join(attack_lines(report)))
    echo(f"{folder / REPORT}")
    _tell(report, folder)
    return 0 if report.passed else 1


def _chosen(names: tuple[str, ...], file: AttackFile | None) -> tuple[Attack, ...]:
    """Returns the attacks of these names, all without one. Raises PtxwcetError (PW831)."""
    from ptxwcet.sweeps.attacks import ATTACKS

    by_name = {one.name: one for one in (*ATTACKS, *(file.attacks if file is not None else ()))}
    for name in names:
        if name not in by_name:
            raise PtxwcetError(
                Diagnostic(
                    "PW831",
                    f"no attack is called '{name}': there are {', '.join(by_name)}",
                    help="a FILE.py adds those of a file"
                    if file is None
                    else f"'{file.path.name}' has {', '.join(one.name for one in file.attacks)}",
                )
            )
    return tuple(by_name[name] for name in dict.fromkeys(names or by_name))


def _tell(report: AttackReport, folder: Path) -> None:
    """Prints PW830 for the first witnesses."""
    told = [
        Diagnostic(
            "PW830",
            f"attack {witness.attack}, seed {witness.seed}: {witness.kind}: {witness.title}",
            notes=tuple(f"witness: {folder / name}" for name in witness.files),
            help="please report this with the witness: a bound that is contradicted is a bug",
        )
        for witness in report.witnesses[:_MOST_SHOWN]
    ]
    if told:
        echo(render_all(told), err=True)
