"""A launch as a table of a TOML file: its keys, their values, and the resulting request.

Sequence files and plans of checks have such tables; paths in them are relative to their file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxwcet.opened.request import Request, request_of
from ptxwcet.support.options import (
    FILE,
    OPTIONS,
    PARAMETERS,
    SIZE,
    TEXT,
    Words,
    options_of_plan,
)

KEYS = {option.key: option for option in OPTIONS.values() if option.plans}
"""The options of plans, by their keys there."""
_NAMES = {key: option.name for key, option in KEYS.items()}


def keys_of(plan: str, rank: int | None = None, *, at_top: bool = False) -> tuple[str, ...]:
    """Returns the keys of a plan's tables, all or those of one rank, or those above its tables."""
    rows = (one for one in options_of_plan(plan) if rank in (None, one.kind.rank))
    return tuple(row.key for row in rows if row.at_top or not at_top)


_ALL = [KEYS[key] for key in keys_of("launch")]
MAKING = tuple(one.key for one in _ALL if one.at_top and one.kind.rank == TEXT.rank)
"""The keys of plans for the target of CUDA source, or the choice of a binary's PTX, and for
compiler options, split as by a shell.
"""
MACHINE_CODE = OPTIONS["machine_code"].key
"""The key of plans for bounding the machine code of their files: true or false."""
LINK = OPTIONS["link"].key
"""The key of the PTX files that a kernel's is linked with: all of them, a text or a list."""
SIZES, PATHS, TABLES = (keys_of("launch", kind.rank) for kind in (SIZE, FILE, PARAMETERS))


def value_problem(key: str, value: object) -> str | None:
    """Returns the problem of the value of an option in a plan; None for other keys."""
    option = KEYS.get(key)
    if option is None or option.kind.is_value(value):
        return None
    given = f", not {value!r}" if isinstance(option.kind, Words) else ""
    return f"{key} is {option.kind.held}{given}"


def launch_request(made: Request, table: Mapping[str, Any], folder: str, **given: Any) -> Request:
    """Returns the request of a table without problems, with the options ``given`` as defaults, for
    a file ``made`` with the output of its tool.
    """
    for key in table:
        if key in _NAMES:
            given.setdefault(_NAMES[key], table[key])
    return request_of(made.path, given, folder, text=made.text, is_code=made.is_code)
