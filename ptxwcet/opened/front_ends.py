"""Front ends: one for each language of kernels. No other package names one.

A front end makes a :class:`ptxwcet.ir.kernel.Module` of files; all other stages use only the
module. Another language is a folder next to ``ptx`` and a row here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Protocol

from ptxwcet.ptx.reading import read_source as read_ptx
from ptxwcet.ptx.reading import read_stream as read_ptx_stream
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile

if TYPE_CHECKING:
    from ptxwcet.ir.kernel import Module
    from ptxwcet.sass.containers import HeldCode as HeldCode


class Program(Protocol):
    """A function that makes the module of a program: of a file, and of the files linked with it."""

    def __call__(self, main: SourceFile, *linked: SourceFile) -> Module:
        """Raises PtxwcetError with all errors found."""


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """A language: the ``suffixes`` of its files, and the functions that read a file and a program.

    ``rules``: inputs of answers besides the package's Python sources. ``prepare`` computes what is
    otherwise computed on first use. ``graph`` is the program for views of the graph, if it differs.
    ``is_compiled``: files made from those of another language, which a folder may have next to
    them.
    """

    suffixes: tuple[str, ...]
    read: Callable[[str | os.PathLike[str]], SourceFile]
    program: Program
    rules: Callable[[], str]
    prepare: Callable[[], object]
    graph: Program | None = None
    is_compiled: bool = False


# The parser is imported where a file is parsed: options and requests do not need it.


def _ptx_program(main: SourceFile, *linked: SourceFile) -> Module:
    from ptxwcet.ptx.linking import read_program

    return read_program(main, *linked)


def _ptx_rules() -> str:
    from ptxwcet.ptx.grammar import grammar_text

    return grammar_text()


def _ptx_tables() -> object:
    from ptxwcet.ptx.grammar import grammar

    return grammar()


def _read_cubin(path: str | os.PathLike[str]) -> SourceFile:
    from ptxwcet.sass.reading import read_source as read_cubin

    return read_cubin(path)


def read_code(name: str, data: bytes) -> SourceFile:
    """Returns the text of machine code: of a cubin's bytes, under a name.

    Raises PtxwcetError: PW123, PW124. Cost: as the disassembler.
    """
    from ptxwcet.sass.reading import listed

    return listed(name, data)


def held_code(name: str, data: bytes) -> list[HeldCode]:
    """Returns the machine code that a binary holds, in its order. Raises PtxwcetError (PW123)."""
    from ptxwcet.sass.containers import held_code as held

    return held(name, data)


def _cubin_program(main: SourceFile, *linked: SourceFile) -> Module:
    from ptxwcet.sass.lowering import read_program as read_listing
    from ptxwcet.sass.translation import translated_program

    return translated_program(read_listing(main, *linked))


def _cubin_graph(main: SourceFile, *linked: SourceFile) -> Module:
    from ptxwcet.sass.lowering import read_program as read_listing

    return read_listing(main, *linked)


_MACHINE_CODE = FrontEnd((".cubin",), _read_cubin, _cubin_program, str, str, _cubin_graph, True)
FRONT_ENDS = [
    FrontEnd((".ptx",), read_ptx, _ptx_program, _ptx_rules, _ptx_tables),
    _MACHINE_CODE,
]
"""The first reads what no other does by the suffix of its name: text that was made, too."""


def suffixes() -> tuple[tuple[str, ...], ...]:
    """Returns the suffixes of files whose kernels can be bounded: first of those that people and
    compilers write, then of those made from them.
    """
    groups: list[list[str]] = [[], []]
    for one in FRONT_ENDS:
        groups[one.is_compiled] += one.suffixes
    return tuple(map(tuple, groups))


def _front_end_of(name: str) -> FrontEnd:
    named = (one for one in FRONT_ENDS if name.lower().endswith(one.suffixes))
    return next(named, FRONT_ENDS[0])


def is_no_ptx(path: str) -> bool:
    """Returns whether the suffix of a file is of another front end than PTX."""
    return _front_end_of(path) is not FRONT_ENDS[0]


def read_source(path: str | os.PathLike[str]) -> SourceFile:
    """Returns the text of a file, as its front end reads it.

    Raises PtxwcetError: PW112, or the front end's errors.
    """
    return _front_end_of(os.fspath(path)).read(path)


def read_stream(stream: IO[bytes], name: str) -> SourceFile:
    """Returns the text of a stream, which is PTX. Raises PtxwcetError (PW112)."""
    return read_ptx_stream(stream, name)


def read_program(
    main: SourceFile, *linked: SourceFile, for_graph: bool = False, is_code: bool = False
) -> Module:
    """Returns the program of a file, whose kernels are the program's, and of the files linked with
    it.

    ``for_graph``: as views of the graph show it. ``is_code``: it is machine code, with any suffix.
    Raises PtxwcetError with all errors found. Cost: linear in the files.
    """
    front_end = _MACHINE_CODE if is_code else _front_end_of(main.name)
    make = front_end.graph if for_graph and front_end.graph is not None else front_end.program
    return make(main, *linked)
