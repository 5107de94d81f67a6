"""What happens to who follows the first remedy that a refusal prints."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.opening import RefusedKernel, file_digest
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic

_OTHER = re.compile(r", or (?=a bound: |give |if all threads)")
SILENT = (
    "no fact that was tried leads further",
    "check the parameters and the launch",
    "no machine that comes with the tool has one",
)
"""How the help begins of refusals that suggest no option and no fact about the paths."""


def first_remedy(help_text: str) -> str:
    """The first of the remedies in a help text."""
    return _OTHER.split(help_text)[0]


def followed(request: Request, help_text: str, folder: Path, value: int, bound: int) -> Request:
    """The request with what the first remedy of a help says, and these numbers for its blanks.

    Facts go into a new file in ``folder``. The same request if nothing is said to be given.
    """
    said = first_remedy(help_text)
    values = tuple(f"{name}={value}" for name in re.findall(r"--param (\S+)=VALUE", said))
    bounds = tuple(
        f"{name}={bound}" for name in re.findall(r"--loop-bound '(.+?)=ITERATIONS'", said)
    )
    block = re.match(r"use --block (\S+)$", said)
    grid = "7" if "--grid SIZE" in said else request.grid
    facts = _facts_in(said, request.kernels, value)
    names = {name.partition("=")[0] for name in values}
    machine = re.search(r"machines with a timing for it: ([\w-]+)", said)
    kept = tuple(each for each in request.parameters if each.partition("=")[0] not in names)
    request = replace(
        request,
        machine=machine[1] if machine else request.machine,
        block=block[1] if block else request.block,
        grid=grid,
        parameters=(*kept, *values),
        loop_bounds=(*request.loop_bounds, *bounds),
    )
    if not facts:
        return request
    head = f'ptx = "sha256:{file_digest(request.path)}"\n'
    if request.facts_file is not None:
        head = Path(request.facts_file).read_text(encoding="utf-8")
    file = folder / "followed.toml"
    file.write_text(f"{head}\n{facts}", encoding="utf-8")
    return replace(request, facts_file=str(file))


def _facts_in(said: str, kernels: tuple[str, ...], value: int) -> str:
    """The tables of a facts file in a remedy, with numbers for their blanks."""
    tables = []
    for place, scope in re.findall(r'\[\[branch\]\] at = "([^"]+)" uniform = "(\w+)"', said):
        kernel = f'kernel = "{kernels[0]}"\n' if kernels else ""
        tables.append(f'[[branch]]\n{kernel}at = "{place}"\nuniform = "{scope}"\n')
    arrays = re.findall(r'([\w"]+) = "(\w+) LEAST\.\.MOST"', said)
    if arrays:
        ranges = [f'{name} = "{kind} 0..{value}"' for name, kind in arrays]
        table = f"arrays.{kernels[0]}" if kernels else "arrays"
        tables.append("\n".join([f"[{table}]", *ranges]) + "\n")
    return "\n".join(tables)


def outcome(request: Request) -> Diagnostic | None:
    """The first problem of the only kernel of a request; None if it is bounded."""
    (row,) = bound_file(request).kernels
    if isinstance(row, KernelAnalysis):
        return None
    assert isinstance(row, RefusedKernel)
    return row.diagnostics[0]


def leads_nowhere(request: Request, folder: Path) -> str:
    """Why the first remedy of a refusal is of no use; empty if it leads further, if none is
    printed, or if the kernel is bounded.
    """
    refused = outcome(request)
    if refused is None or refused.help is None:
        return ""
    for value, bound in ((20, 10), (700, 500)):
        given = followed(request, refused.help, folder, value, bound)
        if given == request:
            return "" if refused.help.startswith(SILENT) else f"not followed: {refused.help}"
        then = outcome(given)
        if then is not None and (then.code, then.span) == (refused.code, refused.span):
            return f"{refused.code} again after {first_remedy(refused.help)!r}"
        if then is not None and then.code in ("PW213", "PW219", "PW242", "PW243", "PW246"):
            return f"{then.code} {then.message} after {first_remedy(refused.help)!r}"
    return ""
