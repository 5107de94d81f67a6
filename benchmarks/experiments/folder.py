"""The folder of a reproduction: made, recognised again, filled; never somebody else's.

``reproduce.json`` says which experiment the folder is of and which files it has written. A folder
with anything else in it is refused, so that nothing is replaced that this program has not made.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from experiments.experiment import Experiment, Results, markdown_table
from experiments.kernel_files import name_of
from experiments.sample_launches import MACHINE
from ptxwcet.machine.loader import find_machine_file
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.installation import describe_sources
from ptxwcet.support.version import VERSION
from ptxwcet.support.whole_files import write_bytes, write_text

REPORT = "REPORT.md"
_MANIFEST = "reproduce.json"
_WORK = "work"
_LIBRARIES = ("numpy", "numba", "scipy", "statsmodels", "matplotlib")


def open_folder(folder: Path, experiment: Experiment) -> Path:
    """Makes the folder, or takes an older one of this experiment; its folder for work.

    Raises click.UsageError if the folder holds what is not of this experiment, PtxwcetError
    (PW233) if it cannot be made.
    """
    stranger = _stranger(folder, experiment)
    if stranger is not None:
        raise click.UsageError(
            f"'{folder}' holds '{stranger}', which reproducing {experiment.name} has not written: "
            "nothing is replaced; name another folder, or an empty one"
        )
    work = folder / _WORK
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(work, error) from None
    written = sorted(_written(folder, experiment) or ())
    _write_manifest(folder, {"experiment": experiment.name, "files": written})
    return work


def _not_writable(path: Path, error: OSError) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW233", f"cannot use '{path}': {error.strerror or error}"))


def _stranger(folder: Path, experiment: Experiment) -> str | None:
    """A file in the folder that is none of this experiment's; None if there is none."""
    try:
        there = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _not_writable(folder, error) from None
    written = _written(folder, experiment)
    if written is None:
        return there[0] if there else None
    own = {*written, _MANIFEST, _WORK}
    return next((name for name in there if name not in own), None)


def _written(folder: Path, experiment: Experiment) -> set[str] | None:
    """The names of the files that this experiment has written there; None if it has not."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        if manifest["experiment"] != experiment.name:
            return None
        names = map(str, manifest["files"])
        return {name for name in names if Path(name).name == name}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _write_manifest(folder: Path, data: dict[str, Any]) -> None:
    write_text(folder / _MANIFEST, json.dumps(data, indent=1) + "\n", "PW233")


def fill_folder(
    folder: Path, experiment: Experiment, results: Results, command: str, is_quick: bool
) -> tuple[str, ...]:
    """Writes the report and its files in place of older ones; their names.

    The folder for work is removed. Raises PtxwcetError (PW233).
    """
    files = {REPORT: report_text(experiment, results, command, is_quick).encode(), **results.files}
    older = _written(folder, experiment) or set()
    both = sorted({*older, *files})
    _write_manifest(folder, {"experiment": experiment.name, "files": both})
    for name in older - set(files):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise _not_writable(folder / name, error) from None
    for name, data in files.items():
        write_bytes(folder / name, data, "PW233")
    _write_manifest(folder, {"experiment": experiment.name, "files": sorted(files)})
    shutil.rmtree(folder / _WORK, ignore_errors=True)
    return tuple(files)


def report_text(experiment: Experiment, results: Results, command: str, is_quick: bool) -> str:
    """The report: what was done and with what, the results, hashes of all files."""
    protocol = f"**reduced** (`--quick`): {results.protocol}" if is_quick else results.protocol
    particulars = [
        ("paper", experiment.paper),
        ("made again", experiment.tables),
        ("command", f"`{command}`"),
        ("protocol", protocol),
        ("versions", ", ".join(f"{name} {version}" for name, version in _versions())),
        ("sources of ptxwcet", f"SHA-256 `{describe_sources()}`"),
        ("what it means", f"`{experiment.page}` of the project"),
    ]
    lines = [f"| {what} | {says} |" for what, says in particulars]
    head = "\n".join(["| | |", "|---|---|", *lines])
    warning = (
        ["**A reduced protocol: a check that everything works, not the experiment.**"]
        if is_quick
        else []
    )
    hashes = markdown_table(("file", "SHA-256"), _hashes(results))
    return "\n\n".join(
        [
            f"# Reproduction of {experiment.name}",
            *warning,
            head,
            *results.sections,
            "## Hashes",
            "What was read, and what was written.",
            hashes,
            "",
        ]
    ).replace("\n\n\n", "\n\n")


def _versions() -> Iterator[tuple[str, str]]:
    yield "ptxwcet", VERSION
    yield "Python", platform.python_version()
    for name in _LIBRARIES:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, "not installed"


def _hashes(results: Results) -> Iterator[tuple[str, str]]:
    inputs = {name_of(path): path.read_bytes() for path in results.inputs}
    machine = find_machine_file(MACHINE)
    inputs[f"machine {machine.stem}"] = machine.read_bytes()
    for name, data in (*sorted(inputs.items()), *sorted(results.files.items())):
        yield name, f"`{hashlib.sha256(data).hexdigest()}`"
