"""``cvt``: between integer and floating-point types, with PTX's rounding and saturation."""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.floating import flush, saturate
from ptxwcet.emulator.launch import Array

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def convert(a: Array, to: np.dtype[np.generic], modifiers: frozenset[str]) -> Array:
    """``a`` at another type. Integers out of range of a float source are clamped, NaN gives 0."""
    with np.errstate(all="ignore"):
        if a.dtype.kind == "f":
            source = flush(a) if "ftz" in modifiers and a.dtype == np.float32 else a
            result = _from_float(source, to, modifiers)
        elif to.kind == "f":
            result = a.astype(to)
        else:
            result = _between_integers(a, to, "sat" in modifiers)
        if to.kind == "f":
            if "ftz" in modifiers and to == np.float32:
                result = flush(result)
            if "sat" in modifiers:
                result = saturate(result)
        return result


def _from_float(a: Array, to: np.dtype[np.generic], modifiers: frozenset[str]) -> Array:
    rounding = next((r for r in _INTEGRAL if r in modifiers), None)
    if rounding is not None:
        a = _INTEGRAL[rounding](a)
    if to.kind == "f":
        return a.astype(to)
    limits = np.iinfo(to.str)
    wide = a.astype(np.float64)
    low, high = wide <= float(limits.min), wide >= float(limits.max)
    inside = np.where(low | high | np.isnan(wide), 0.0, wide).astype(to)
    clamped = np.where(
        low, np.array(limits.min, to), np.where(high, np.array(limits.max, to), inside)
    )
    return np.where(np.isnan(wide), np.zeros_like(inside), clamped)


def _between_integers(a: Array, to: np.dtype[np.generic], clamp: bool) -> Array:
    if not clamp:
        return a.astype(to)
    limits, own = np.iinfo(to.str), np.iinfo(a.dtype.str)
    low, high = max(limits.min, own.min), min(limits.max, own.max)
    return np.clip(a, np.array(low, a.dtype), np.array(high, a.dtype)).astype(to)
