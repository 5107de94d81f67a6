"""The keys of a plan of sweeps, and what each may hold: a value, a list, a range.

A range is TOML ``{ from = 1024, to = 4096, step = 1024 }``: both ends are included, ``step`` is 1
if it is left out. It is kept as Python's ``range``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from keyword import iskeyword

from ptxwcet.bounds.methods import SAFE_NAME, SCHEDULED
from ptxwcet.machine.checks import MOST_CYCLES
from ptxwcet.opened.launch_tables import LAUNCH_KEYS, NUMBERS, PATHS, SIZES, is_text
from ptxwcet.simulator.policies import Policy
from ptxwcet.sweeps.expressions import FUNCTIONS, LEAST, MOST

Value = int | float | str

LIMITS = {"memory_mib": 1 << 24, "seconds": 1_000_000}
"""The keys of ``[limits]``, and how large each may be."""

RESULT_COLUMNS = (
    *("unit", "key", "file", "file_sha256", "kernel", "readable", "machine", "machine_sha256"),
    *("memory_latency", "block", "grid", "method", "policy", "outcome", "of", "cycles", "seconds"),
    *("guarantee", "block_cycles", "launch_cycles", "assumptions", "code", "message", "version"),
    "sources_sha256",
)
"""The columns that all results have, in their order (tables.py): no axis has the name of one."""

DEFAULTS = ("machines", "method", "policy", "memory_latency")
"""What may stand at the top, for the tables that do not say it themselves."""
TOP_KEYS = (*DEFAULTS, "limits", "sweep")
TABLE_KEYS = ("files", "kernels", *DEFAULTS, "sms", *LAUNCH_KEYS, "where", "axes")

NUMBER_KEYS = {**NUMBERS, "sms": 1024, "memory_latency": MOST_CYCLES}
"""Keys that hold whole numbers from 1 on, and the largest."""
TEXT_KEYS = ("files", "kernels", "machines", "where", *PATHS)
_RANGED = (*SIZES, *NUMBER_KEYS)
_METHODS = (SAFE_NAME, SCHEDULED)
_POLICIES = tuple(policy.value for policy in Policy)
_MOST_PARAMETER = (1 << 64) - 1
_LONGEST_AXIS_TEXT = 1_000
_MOST_LISTED = 10_000
_MOST_OF_RANGE = 1_000_000
_RANGE_KEYS = ("from", "to", "step")
_AXIS_NAME = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)


class AxisError(Exception):
    """Values that cannot be an axis: the code of the problem, and what is wrong."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def _listed(value: object, what: str) -> Sequence[object]:
    """The values that a value of TOML lists: a list, a range, or one value that stands alone.

    ``what`` is how messages call it. The values of a list are not looked at. Raises AxisError:
    PW810 for an empty list or range, PW571 and PW572 for a range with mistakes, PW572 for too many
    values.
    """
    if isinstance(value, Mapping):
        return _range(value, what)
    if not isinstance(value, list):
        return (value,)
    if not value:
        raise AxisError("PW810", f"{what} has no values: the list is empty")
    if len(value) > _MOST_LISTED:
        raise AxisError("PW572", f"{what} has more than {_MOST_LISTED:,} values")
    return tuple(value)


def _range(table: Mapping[str, object], what: str) -> range:
    """The integers of a table with from, to and perhaps step. Raises AxisError."""
    unknown = [key for key in table if key not in _RANGE_KEYS]
    if unknown:
        message = f"{what}: a range has from, to and step, not {unknown[0]!r}"
        raise AxisError("PW571", message)
    ends: list[int] = []
    for key in _RANGE_KEYS:
        number = table.get(key, 1 if key == "step" else None)
        if type(number) is not int or not LEAST <= number <= MOST:
            message = f"{what}: {key} of a range is a whole number of 64 bits"
            raise AxisError("PW572", message if key in table else f"{message}, and is missing")
        ends.append(number)
    first, last, step = ends
    if step < 1:
        raise AxisError(
            "PW810", f"{what} has no values: its step is {step}, and has to be 1 or more"
        )
    if last < first:
        raise AxisError("PW810", f"{what} has no values: it is from {first} to {last}")
    if (last - first) // step >= _MOST_OF_RANGE:
        raise AxisError("PW572", f"{what} has more than {_MOST_OF_RANGE:,} values")
    return range(first, last + 1, step)


def read_values(key: str, value: object) -> Sequence[Value]:
    """The values of a key of a table or of the top. Raises AxisError: PW571, PW572, PW810."""
    if isinstance(value, Mapping) and key not in _RANGED:
        raise AxisError("PW572", _expected(key))
    values = _listed(value, key)
    good: list[Value] = []
    for each in _ends(values) if isinstance(values, range) else values:
        if not isinstance(each, int | str) or not _fits(key, each):
            raise AxisError("PW572", _expected(key))
        good.append(each)
    return values if isinstance(values, range) else good


def _ends(values: range) -> tuple[int, int]:
    """The least and the largest value of a range: if they fit, the others do."""
    return values[0], values[-1]


def _fits(key: str, value: int | str) -> bool:
    if key in TEXT_KEYS:
        return is_text(value)
    if key in SIZES:
        return is_text(value) or type(value) is int
    if key in NUMBER_KEYS:
        return is_text(value) or is_number(key, value)
    return value in (_METHODS if key == "method" else _POLICIES)


def is_number(key: str, value: object) -> bool:
    """Whether a value is a number that a key of NUMBER_KEYS may have."""
    return type(value) is int and 1 <= value <= NUMBER_KEYS[key]


def number_expected(key: str) -> str:
    """What a key of NUMBER_KEYS holds."""
    return f"{key} is a whole number from 1 to {NUMBER_KEYS[key]:,}"


def _expected(key: str) -> str:
    if key in TEXT_KEYS:
        return f"{key} is a text or a list of texts"
    if key in NUMBER_KEYS:
        return f"{number_expected(key)}, a text {{...}} that gives one, a list or a range of them"
    if key in SIZES:
        return f"{key} is a text, a whole number, or a list of them"
    words = _METHODS if key == "method" else _POLICIES
    return f"{key} is {', '.join(map(repr, words[:-1]))} or {words[-1]!r}, or a list of them"


def read_named_values(table: str, name: str, value: object) -> Sequence[Value]:
    """The values of a parameter or of a loop. Raises AxisError: PW571, PW572, PW810."""
    what = f"{name!r} of {table}"
    if not name or "=" in name:
        raise AxisError("PW572", f"{what} is no name")
    values = _listed(value, what)
    good: list[Value] = []
    for each in _ends(values) if isinstance(values, range) else values:
        is_whole = type(each) is int and LEAST <= each <= _MOST_PARAMETER
        is_finite = type(each) is float and math.isfinite(each)
        if not isinstance(each, int | float | str) or not (is_whole or is_finite or is_text(each)):
            raise AxisError("PW572", f"{what} is a number or a text, a list or a range of numbers")
        good.append(each)
    return values if isinstance(values, range) else good


def read_axis(name: str, value: object) -> Sequence[int | str]:
    """The values of an axis. Raises AxisError: PW571, PW572, PW810."""
    if _AXIS_NAME.fullmatch(name) is None or iskeyword(name):
        message = f"{name!r} cannot name an axis: take letters, digits and _, up to 64"
        raise AxisError("PW572", message)
    if name in FUNCTIONS:
        raise AxisError("PW572", f"{name!r} cannot name an axis: it is a function")
    if name in RESULT_COLUMNS:
        raise AxisError("PW572", f"{name!r} cannot name an axis: it is a column of all results")
    values = _listed(value, f"axis {name}")
    if isinstance(values, range):
        return values
    good: list[int | str] = []
    for each in values:
        is_whole = type(each) is int and LEAST <= each <= MOST
        is_short = isinstance(each, str) and 0 < len(each) <= _LONGEST_AXIS_TEXT
        if not isinstance(each, int | str) or not (is_whole or is_short):
            what = f"whole numbers of 64 bits or texts of up to {_LONGEST_AXIS_TEXT:,} characters"
            raise AxisError("PW572", f"axis {name} has values that are not {what}")
        good.append(each)
    return good


def read_limit(key: str, value: object) -> int:
    """The value of a key of ``[limits]``. Raises AxisError (PW572)."""
    if type(value) is not int or not 1 <= value <= LIMITS[key]:
        raise AxisError("PW572", f"{key} is a whole number from 1 to {LIMITS[key]:,}")
    return value
