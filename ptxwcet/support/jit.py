"""The door of numba: functions compiled on first use and cached beside their module.

A compiled function may call only compiled functions of its own module: the cache is renewed when
that module changes, not when another does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, compiled to machine code; without a cache where no place can be written."""
    try:
        made = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no writable cache location
        made = numba.njit(nogil=True)(function)
    return cast(Callable[_P, _R], made)
