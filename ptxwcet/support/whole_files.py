"""Writes files whole or not at all.

Each is written next to its place under another name and moved there when it is complete, so that a
run that is stopped leaves no part of a file, and an older file as it was.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

FULL_DISK = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""The errors of writing that are caused by the place, not by the program or the user."""


@contextlib.contextmanager
def whole_file(path: Path, code: str) -> Iterator[IO[bytes]]:
    """Yields a file to write; it is in its place when the block ends without an exception.

    A file that is not regular (``/dev/null``, a pipe) is written as it is, never replaced; a link
    is followed. A replaced file passes on its permissions; a read-only file is not replaced. Raises
    PtxwcetError with ``code`` if it cannot be written, OSError if there is no room for it.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        place = Path(os.path.realpath(path))
        mode = _mode(place)
        # Imported here because most runs write no file.
        import tempfile

        handle, name = tempfile.mkstemp(prefix=".ptxwcet-", dir=place.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            os.chmod(name, mode)
            os.replace(name, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        if error.errno in FULL_DISK:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from None
        message = f"cannot write '{path}': {error.strerror or error}"
        raise PtxwcetError(Diagnostic(code, message)) from None


def _mode(place: Path) -> int:
    """Returns the permissions of a file that is written. Raises PermissionError."""
    try:
        mode = stat.S_IMODE(place.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
    if not mode & 0o222 or not os.access(place, os.W_OK):  # the system's owner may write all
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return mode


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
