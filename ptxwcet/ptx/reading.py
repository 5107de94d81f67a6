"""Reads a PTX file from disk, with one clear diagnostic for anything but PTX text."""

from __future__ import annotations

import os
from typing import IO

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_TEXT_BYTES, read_at_most, read_bytes
from ptxwcet.support.source import SourceFile

_MARKS = (
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
    (b"\x7fELF", "an ELF file (a cubin?)"),
    (b"\x50\xed\x55\xba", "a fat binary"),
)
_AS_TEXT = "save it as plain ASCII text"
_HELP = {
    kind: "take the PTX out with 'cuobjdump -xptx all FILE'; a cubin holds machine code only"
    for _, kind in _MARKS[2:]
}


def read_source(path: str | os.PathLike[str]) -> SourceFile:
    """Returns the text of the file at ``path``; diagnostics print the path as given.

    Raises PtxwcetError (PW112) for a file that cannot be read, is not a regular file, is larger
    than 64 MiB, is empty, binary, or in another encoding than UTF-8. Cost: linear in the size.
    """
    name = os.fspath(path)
    try:
        data = read_bytes(path, MOST_TEXT_BYTES)
    except IsADirectoryError:
        raise _refused(f"'{name}' is a folder", "give a .ptx file") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _refused(f"cannot read '{name}': {reason}", None) from None
    return _source(name, data)


def read_stream(stream: IO[bytes], name: str) -> SourceFile:
    """Returns the text of a stream, which is called ``name``. Raises PtxwcetError (PW112)."""
    data = read_at_most(stream, MOST_TEXT_BYTES)
    if len(data) > MOST_TEXT_BYTES:
        raise _refused(f"'{name}' is larger than {MOST_TEXT_BYTES >> 20} MiB", None)
    return _source(name, data)


def _source(name: str, data: bytes) -> SourceFile:
    """Returns the text of these bytes. Raises PtxwcetError (PW112)."""
    if not data.strip():
        raise _refused(f"'{name}' is empty", "PTX is made with 'nvcc -ptx kernel.cu'")
    for mark, file_kind in _MARKS:
        if data.startswith(mark):
            raise _refused(f"'{name}' is {file_kind}, not PTX text", _HELP.get(file_kind, _AS_TEXT))
    if b"\0" in data:
        offset = data.index(b"\0")
        raise _refused(
            f"'{name}' is a binary file: byte {offset} is zero",
            "PTX is text; take it out of a binary with 'cuobjdump -ptx'",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refused(f"'{name}' is not UTF-8: bad byte on line {line}", _AS_TEXT) from None
    return SourceFile(name, text)


def _refused(message: str, help_text: str | None) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW112", message, help=help_text))
