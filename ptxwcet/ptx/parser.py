"""PTX text to IR: :func:`parse_module`.

The text is split into items and statements by regular expressions; Lark parses each distinct shape
(see :mod:`ptxwcet.ptx.shapes`); names are resolved by scope while statements are read. After an
error the parser goes on at the next statement, so that one run reports the errors of a whole file.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from ptxwcet.ir.kernel import Module
from ptxwcet.ptx.items import ModuleReader
from ptxwcet.ptx.problems import Problems, TooManyProblemsError
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile


def parse_module(source: SourceFile) -> Module:
    """The IR of a PTX file.

    Raises PtxwcetError with all errors found, at most ``MOST_PROBLEMS``. Opcodes without a row are
    no error here: see :func:`ptxwcet.ir.kernel.unknown_instructions`. Cost: linear; see
    ``benchmarks/bench_parse.py`` for instructions a second.
    """
    problems = Problems(source)
    with _without_collector():
        try:
            reader = ModuleReader(source, problems)
            module = reader.read()
        except TooManyProblemsError:
            raise PtxwcetError(problems.in_order()) from None
    if problems.found:
        raise PtxwcetError(problems.in_order())
    return module


@contextmanager
def _without_collector() -> Iterator[None]:
    """No cyclic garbage collection meanwhile: nothing of what is built here is garbage.

    Freezing and unfreezing moves the new objects to the oldest generation at no cost; without it
    the next allocation would traverse them all. Left alone if someone else froze objects.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()
