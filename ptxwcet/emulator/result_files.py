"""Files that a run writes: whole or not at all."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ptxwcet.support.array_files import Array
from ptxwcet.support.whole_files import whole_file

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # zip's earliest date: the same arrays make the same file


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes a ``.npz`` that ``numpy.load`` reads, an entry an array, in order.

    Raises PtxwcetError (PW429). Cost: linear in the arrays.
    """
    with whole_file(path, "PW429") as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _FIRST_DAY)
            with archive.open(entry, "w", force_zip64=True) as part:
                np.lib.format.write_array(part, array, allow_pickle=False)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines of text in UTF-8, as write_text does. Raises PtxwcetError (PW429)."""
    with whole_file(path, "PW429") as file:
        file.writelines(line.encode("utf-8", "backslashreplace") + b"\n" for line in lines)
