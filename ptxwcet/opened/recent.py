"""Modules of PTX that several questions in a row are about: parsed once."""

from __future__ import annotations

from functools import lru_cache

from ptxwcet.ir.kernel import Module
from ptxwcet.opened.front_ends import read_program
from ptxwcet.opened.opening import sources_of, warned_of
from ptxwcet.opened.request import Request
from ptxwcet.support.input_files import working_folder
from ptxwcet.support.source import SourceFile


def recent_module(request: Request) -> Module:
    """The PTX of a request, parsed anew only if it changed or was not among the last ones.

    Raises PtxwcetError. Cost: the file is read.
    """
    files = tuple((one.name, one.text) for one in sources_of(request))
    return warned_of(_parsed(files, working_folder()))


@lru_cache(maxsize=4)
def _parsed(files: tuple[tuple[str, str], ...], folder: str) -> Module:
    # texts, not digests of them: a file may be another one when it is read again; names of files
    # are shown as they are from the folder
    return read_program(*(SourceFile(*one) for one in files))
