"""Files that are written whole or not at all.

Each is written beside its place under another name and moved there when it is complete, so that a
run that is stopped leaves no part of a file, and an older file as it was.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


@contextlib.contextmanager
def whole_file(path: Path, code: str) -> Iterator[IO[bytes]]:
    """A file to write; it is in its place when the block ends without an exception.

    What is no regular file (``/dev/null``, a pipe) is written as it is, never replaced; a link is
    followed. Raises PtxwcetError with ``code`` if it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        place = Path(os.path.realpath(path))
        handle, name = tempfile.mkstemp(prefix=".ptxwcet-", dir=place.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        message = f"cannot write '{path}': {error.strerror or error}"
        raise PtxwcetError(Diagnostic(code, message)) from None


def write_text(path: Path, text: str, code: str) -> None:
    """Writes a text in UTF-8, whole or not at all. Raises PtxwcetError with ``code``.

    A character that UTF-8 cannot hold, from a file name in another encoding, is written as ``\\u``
    and its number.
    """
    with whole_file(path, code) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, data: bytes, code: str) -> None:
    """Writes bytes, whole or not at all. Raises PtxwcetError with ``code``."""
    with whole_file(path, code) as file:
        file.write(data)
