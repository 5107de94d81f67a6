"""Modules of PTX that several questions in a row are about: parsed once."""

from __future__ import annotations

from functools import lru_cache

from ptxwcet.ir.kernel import Module
from ptxwcet.ptx.parser import parse_module
from ptxwcet.studies.opening import text_of, warned_of
from ptxwcet.studies.request import Request
from ptxwcet.support.input_files import working_folder
from ptxwcet.support.source import SourceFile


def recent_module(request: Request) -> Module:
    """The PTX of a request, parsed anew only if it changed or was not among the last ones.

    Raises PtxwcetError. Cost: the file is read.
    """
    return warned_of(_parsed(request.path, text_of(request), working_folder()))


@lru_cache(maxsize=4)
def _parsed(path: str, text: str, folder: str) -> Module:
    # a text, not a digest of it: the file may be another one when it is read again; names of files
    # are shown as they are from the folder
    return parse_module(SourceFile(path, text))
