"""The files that an answer rests on, with their digests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ptxwcet.machine.loader import machine_files
from ptxwcet.opened.front_ends import is_no_ptx
from ptxwcet.opened.opening import Answer, ReadFile, digest_of
from ptxwcet.opened.request import Request


def files_of(request: Request, answer: Answer[Any]) -> tuple[ReadFile, ...]:
    """The files that an answer rests on, each with its digest.

    Files have been read before. Cost: linear in their sizes.
    """
    beside = Path(request.path).with_suffix(".cu")
    source = request.source or (str(beside) if request.text is None and beside.is_file() else None)
    was_made = request.text is not None and Path(request.path).is_file()
    kind = "machine code" if request.is_code or is_no_ptx(request.path) else "PTX"
    own, *extended = machine_files(request.machine)
    others: tuple[tuple[str, str | None], ...] = (
        (f"what the {kind} was made or taken from", request.path if was_made else None),
        ("machine", str(own)),
        *(("extended machine", str(path)) for path in extended),
        ("CUDA source", source),
        ("launch file", request.launch_file),
        ("facts", request.facts_file),
        ("ptxas output", request.ptxas_info),
    )
    own_digest = digest_of(replace(request, links=()))
    for path in request.links:
        beside = Path(path).with_suffix(".cu")
        others += (("linked PTX", path), ("CUDA source", str(beside) if beside.is_file() else None))
    ptx = ReadFile(kind, answer.path, own_digest)
    return (ptx, *(ReadFile.of(what, path) for what, path in others if path is not None))
