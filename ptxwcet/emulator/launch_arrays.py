"""Builds the arrays of a launch file from TOML descriptions, and compares results.

A description is checked in full before an array is built, so that commands which need only the
launch (``ptxwcet FILE --launch``) build none. Problems are PW424 (malformed description) and PW425
(does not fit). Random numbers are from NumPy's ``RandomState`` (MT19937), whose streams are frozen
across NumPy versions, so that a seed means the same data everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from ptxwcet.support.array_files import Array, load_array
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import Span
from ptxwcet.support.toml_places import nearest

DTYPES = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
)
"""Element types of a launch file's arrays, by NumPy's names; bfloat16 as uint16 bits."""

_PART = 1 << 20  # the elements that are generated at once
MOST_BYTES = 1 << 31
"""The largest array in bytes: a larger size is a mistake, and would be allocated unnoticed."""

_SEEDS = (0, 2**32 - 1)
# The settings of each initialiser: name -> default, None where it must be given.
_SETTINGS: Mapping[str, Mapping[str, int | None]] = {
    "zeros": {},
    "ones": {},
    "value": {"value": None},
    "arange": {"start": 0, "step": 1},
    "uniform": {"low": None, "high": None, "seed": None},
    "integers": {"low": None, "high": None, "seed": None},
}


class Malformed(Exception):
    """A description that is wrong; it has message and help, the reader adds the place."""

    def __init__(self, message: str, help: str | None = None, code: str = "PW424") -> None:
        super().__init__(message)
        self.message, self.help, self.code = message, help, code


@dataclass(frozen=True, slots=True)
class ArraySource:
    """The origin of an array's data: a ``.npy`` file, listed values, or an initialiser."""

    span: Span | None = field(repr=False)
    dtype: str = ""
    shape: tuple[int, ...] = ()
    initialiser: str = ""
    settings: Mapping[str, int | float] = field(default_factory=dict)
    values: tuple[int | float, ...] = ()
    file: Path | None = None

    @property
    def size_bytes(self) -> int | None:
        """The bytes of the array, or None for a file, which must be read to know them."""
        if self.file is not None:
            return None
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def build(self) -> Array:
        """Builds the array: C-contiguous, native byte order, newly allocated. Cost: linear.

        Raises PtxwcetError (PW420 unreadable file, PW425 file with an array that cannot be used).
        """
        if self.file is not None:
            return _load(self.file, self.span)
        if self.initialiser == "values":
            return np.array(self.values, dtype=self.dtype).reshape(self.shape)
        return _initialised(self).reshape(self.shape)


def array_source(table: Mapping[str, Any], folder: Path, span: Span | None) -> ArraySource:
    """Reads the description ``table``; paths are relative to ``folder``. Raises Malformed."""
    if "file" in table:
        _only(table, ("file",), "an array from a file")
        if not isinstance(table["file"], str) or not table["file"].endswith(".npy"):
            raise Malformed("file must be the path of a .npy file, relative to the launch file")
        return ArraySource(span, file=folder / table["file"])
    dtype = table.get("dtype")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        problem = "dtype is missing" if dtype is None else f"dtype {dtype!r} is not known"
        remedy = f"one of {', '.join(DTYPES)}; bfloat16 is given as uint16 bits"
        raise Malformed(problem, nearest(str(dtype), DTYPES) + remedy)
    if "values" in table:
        _only(table, ("dtype", "shape", "values"), "an array of listed values")
        return _listed(table, dtype, span)
    kind = table.get("init")
    if not isinstance(kind, str) or kind not in _SETTINGS:
        problem = "init is missing" if kind is None else f"init {kind!r} is not known"
        remedy = f"one of {', '.join(_SETTINGS)}; or give values or file"
        raise Malformed(problem, nearest(str(kind), _SETTINGS) + remedy)
    _only(table, ("dtype", "shape", "init", *_SETTINGS[kind]), f"init {kind}")
    shape = _shape(table.get("shape"), dtype)
    settings = _settings(kind, table, dtype, math.prod(shape))
    return ArraySource(span, dtype, shape, kind, settings)


def _only(table: Mapping[str, Any], allowed: tuple[str, ...], subject: str) -> None:
    unknown = [key for key in table if key not in allowed]
    if unknown:
        remedy = f"{nearest(unknown[0], allowed)}{subject} takes {', '.join(allowed)}"
        raise Malformed(f"unknown key {unknown[0]!r}", remedy, code="PW422")


def _shape(value: object, dtype: str) -> tuple[int, ...]:
    sizes = value if isinstance(value, list) else [value]
    if not sizes or any(type(size) is not int or size < 1 for size in sizes):
        problem = "shape is missing" if value is None else f"shape {value!r} is not a shape"
        raise Malformed(problem, "a positive number, or a list of them: shape = [64, 32]")
    total = math.prod(sizes) * np.dtype(dtype).itemsize
    if total > MOST_BYTES or len(sizes) > 32:
        raise Malformed(
            f"shape {value!r} is too large: {total:,} bytes",
            f"at most {MOST_BYTES:,} bytes and 32 dimensions",
            code="PW425",
        )
    return tuple(sizes)


def _settings(
    kind: str, table: Mapping[str, Any], dtype: str, count: int
) -> dict[str, int | float]:
    settings: dict[str, int | float] = {}
    for key, default in _SETTINGS[kind].items():
        value = table.get(key, default)
        if value is None:
            raise Malformed(f"init {kind} needs {key}")
        whole = key == "seed" or kind == "integers"
        if type(value) is not int and (whole or type(value) is not float):
            wanted = "an integer" if whole else "a number"
            raise Malformed(f"{key} must be {wanted}, not {value!r}")
        settings[key] = value
    if "seed" in settings and not _SEEDS[0] <= settings["seed"] <= _SEEDS[1]:
        raise Malformed(f"seed {settings['seed']} must lie between {_SEEDS[0]} and {_SEEDS[1]}")
    if kind == "uniform" and dtype[0] != "f":
        raise Malformed(f"init uniform gives no {dtype}", 'init = "integers" does')
    if "high" in settings and not -math.inf < settings["low"] < settings["high"] < math.inf:
        raise Malformed(
            f"low {settings['low']} and high {settings['high']}: low must be less than high"
        )
    _check_range(kind, settings, dtype, count)
    return settings


def _check_range(kind: str, settings: Mapping[str, int | float], dtype: str, count: int) -> None:
    """Checks that all values of the array are values of its type."""
    ends = {
        "value": lambda: [settings["value"]],
        "arange": lambda: [settings["start"], settings["start"] + (count - 1) * settings["step"]],
        "uniform": lambda: [settings["low"], settings["high"]],
        "integers": lambda: [settings["low"], settings["high"] - 1],
    }
    numbers = ends[kind]() if kind in ends else []
    if kind == "integers" and not -(2**63) <= numbers[0] <= numbers[1] < 2**63:
        raise Malformed("low and high must lie within 64 signed bits", code="PW425")
    if kind == "arange" and dtype[0] != "f" and type(settings["step"]) is not int:
        raise Malformed(f"step {settings['step']} is not an integer, as {dtype} needs")
    for number in numbers:
        check_fits(number, dtype)


def check_fits(number: int | float, dtype: str) -> None:
    """Raises Malformed unless ``number`` is a value of ``dtype`` (floats are rounded to it)."""
    if dtype[0] == "f":
        most = float(np.finfo(dtype).max)
        finite = isinstance(number, int) or math.isfinite(number)
        if finite and abs(number) > most:
            raise Malformed(f"{number} is over the largest {dtype}", code="PW425")
        return
    limits = np.iinfo(dtype)
    if type(number) is not int:
        raise Malformed(f"{number!r} is not an integer, as {dtype} needs")
    if not int(limits.min) <= number <= int(limits.max):
        raise Malformed(f"{number} does not fit {dtype}", code="PW425")


def _listed(table: Mapping[str, Any], dtype: str, span: Span | None) -> ArraySource:
    values = table["values"]
    if not isinstance(values, list) or not values:
        raise Malformed("values must be a list of numbers")
    for value in values:
        if type(value) not in (int, float):
            raise Malformed(f"values must be numbers, not {value!r}", "nest by shape = [2, 3]")
        check_fits(value, dtype)
    shape = _shape(table.get("shape", len(values)), dtype)
    if math.prod(shape) != len(values):
        raise Malformed(
            f"shape {table['shape']!r} has {math.prod(shape)} elements, values {len(values)}",
            code="PW425",
        )
    return ArraySource(span, dtype, shape, "values", values=tuple(values))


def _initialised(source: ArraySource) -> Array:
    """Builds the elements, part by part: temporary data may be eight times as large."""
    count, settings = math.prod(source.shape), source.settings
    random = np.random.RandomState(int(settings.get("seed", 0)))
    made: Array = np.zeros(count, source.dtype)
    if source.initialiser == "zeros":
        return made  # no page of it is touched yet
    for begin in range(0, count, _PART):
        part = made[begin : begin + _PART]
        match source.initialiser:
            case "ones":
                part[:] = 1
            case "value":
                part[:] = np.full(len(part), settings["value"], source.dtype)
            case "arange":
                part[:] = _counted(begin, len(part), source).astype(source.dtype)
            case "uniform":
                drawn = random.uniform(settings["low"], settings["high"], len(part))
                part[:] = drawn.astype(source.dtype)
            case _:
                low, high = int(settings["low"]), int(settings["high"])
                part[:] = random.randint(low, high, len(part), np.int64).astype(source.dtype)
    return made


def _counted(begin: int, count: int, source: ArraySource) -> Array:
    """Returns elements of an arithmetic sequence, from element number ``begin`` on."""
    start, step = source.settings["start"], source.settings["step"]
    if source.dtype[0] == "f":
        return np.arange(begin, begin + count, dtype=np.float64) * step + start
    # Modulo 2^64, then 2^bits: exact, as first and last element fit the type.
    steps = np.arange(begin, begin + count, dtype=np.uint64)
    return steps * np.uint64(int(step) % 2**64) + np.uint64(int(start) % 2**64)


def _load(path: Path, span: Span | None) -> Array:
    try:
        data = load_array(path)
    except OSError as error:
        reason = error.strerror or "it is no .npy file"
        raise PtxwcetError(Diagnostic("PW420", f"cannot read '{path}': {reason}", span)) from None
    except ValueError as error:
        message = f"'{path}' is no array that can be read: {str(error).splitlines()[0]}"
        raise PtxwcetError(Diagnostic("PW425", message, span)) from None
    if data.dtype.newbyteorder("=").name not in DTYPES:
        message = f"'{path}' holds {data.dtype}, which no kernel can take"
        help_text = f"use one of {', '.join(DTYPES)}"
        raise PtxwcetError(Diagnostic("PW425", message, span, help=help_text))
    if data.size == 0:
        raise PtxwcetError(Diagnostic("PW425", f"'{path}' holds an array without elements", span))
    return np.ascontiguousarray(data, dtype=data.dtype.newbyteorder("="))


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between a result and the expected data: count, first and worst element."""

    wrong: int
    total: int
    first: tuple[int, ...]
    found: int | float
    wanted: int | float
    worst_absolute: float


def difference(
    result: Array, expected: Array, relative: float, absolute: float
) -> Difference | None:
    """Returns the elements with ``|result - expected| > absolute + relative * |expected|`` if any.

    NaN equals NaN, an infinity only itself. Integers are compared exactly when both tolerances are
    0. The shapes must be equal. Cost: linear.
    """
    with np.errstate(all="ignore"):
        equal = (result == expected) | ((result != result) & (expected != expected))
        apart = np.abs(result.astype(np.float64) - expected.astype(np.float64))
        room = absolute + relative * np.abs(expected.astype(np.float64))
    finite = np.isfinite(expected) & np.isfinite(result)
    wrong = ~(equal | (finite & (apart <= room) & (room > 0)))
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), result.shape))
    worst = float(np.max(np.where(finite & wrong, apart, 0.0)))
    return Difference(
        int(wrong.sum()),
        int(result.size),
        first,
        result[first].item(),
        expected[first].item(),
        worst,
    )
