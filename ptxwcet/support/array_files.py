"""Reads NumPy's ``.npy`` files without trusting the size in their header."""

from __future__ import annotations

import math
import os
import tokenize
from typing import IO, Any

import numpy as np

from ptxwcet.support.input_files import MOST_DATA_BYTES, open_input

Array = np.ndarray[Any, np.dtype[Any]]


def load_array(path: str | os.PathLike[str]) -> Array:
    """Reads the array in a ``.npy`` file into memory.

    The shape in the header is compared with the length of the file before anything is allocated.
    Raises OSError for a file that cannot be opened (see open_input), ValueError for a file that is
    not an array of numbers, or is shorter than its header states. Cost: linear in the file.
    """
    with open_input(path, MOST_DATA_BYTES) as file:
        if file.read(6) != np.lib.format.MAGIC_PREFIX:
            raise ValueError("it is no .npy file")
        shape, is_by_column, dtype = _header(file)
        size = math.prod(shape) * dtype.itemsize
        begin, end = file.tell(), file.seek(0, os.SEEK_END)
        if size > end - begin:
            raise ValueError("it is shorter than its header says")
        file.seek(begin)
        data = np.empty(size, np.uint8)
        if file.readinto(data.data) != size:  # type: ignore[attr-defined]
            raise ValueError("it became shorter while it was read")
    try:
        return data.view(dtype).reshape(shape, order="F" if is_by_column else "C")
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None


def header_of(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Returns shape and type from an array's header. Raises ValueError for one without numbers."""
    shape, _, dtype = _header(file)
    return shape, dtype


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Returns shape, whether the first index is the fastest, and type. Raises ValueError."""
    file.seek(0)
    try:
        major, _ = np.lib.format.read_magic(file)
        readers = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
        shape, is_by_column, dtype = readers[major - 1](file)
    except IndexError:
        raise ValueError("it is of a version for names of fields, not for numbers") from None
    except (
        *(EOFError, SyntaxError, TypeError, KeyError, AttributeError, OverflowError),
        *(MemoryError, RecursionError, tokenize.TokenError),
    ) as error:
        raise ValueError(str(error).split("\n")[0] or type(error).__name__) from None
    if dtype.hasobject or not dtype.itemsize or any(length < 0 for length in shape):
        raise ValueError("it holds no numbers")
    return shape, is_by_column, dtype
