"""Files that a run writes: whole or not at all.

Each is written beside its place under another name and moved there when it is complete, so that a
run that is stopped leaves no part of a file, and an older file as it was.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np

from ptxwcet.emulator.launch_arrays import Array
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # zip's earliest date: the same arrays make the same file


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes a ``.npz`` that ``numpy.load`` reads, an entry an array, in order.

    Raises PtxwcetError (PW429). Cost: linear in the arrays.
    """
    with _whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _FIRST_DAY)
            with archive.open(entry, "w", force_zip64=True) as part:
                np.lib.format.write_array(part, array, allow_pickle=False)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines of text in UTF-8. Raises PtxwcetError (PW429)."""
    with _whole_file(path) as file:
        file.writelines(line.encode() + b"\n" for line in lines)


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        message = f"cannot write '{path}': {error.strerror or error}"
        raise PtxwcetError(Diagnostic("PW429", message)) from None
