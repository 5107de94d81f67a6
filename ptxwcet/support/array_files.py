"""NumPy's ``.npy`` files, read without trusting what their header says about the size."""

from __future__ import annotations

import os
import tokenize
from typing import Any

import numpy as np

from ptxwcet.support.input_files import MOST_DATA_BYTES, are_supplied, open_input

Array = np.ndarray[Any, np.dtype[Any]]


def load_array(path: str | os.PathLike[str]) -> Array:
    """The array in a ``.npy`` file, in memory.

    The shape of the header is compared with the length of the file before anything is allocated.
    Raises OSError for a file that cannot be opened (see open_input), ValueError for one that is no
    array of numbers, or is shorter than it says. Cost: linear in the file.
    """
    with open_input(path, MOST_DATA_BYTES) as file:
        if file.read(6) != np.lib.format.MAGIC_PREFIX:
            raise ValueError("it is no .npy file")
    try:
        if are_supplied():
            with open_input(path, MOST_DATA_BYTES) as file:
                return np.array(np.load(file, allow_pickle=False))
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        return np.array(mapped)
    except (
        *(EOFError, SyntaxError, TypeError, KeyError, AttributeError, OverflowError),
        *(MemoryError, RecursionError, tokenize.TokenError, OSError),
    ) as error:
        raise ValueError(str(error).split("\n")[0] or type(error).__name__) from None
