"""A launch as a table of a TOML file says it: the keys, what they hold, the request that they are.

Sequence files and plans of checks have such tables; paths in them are relative to their file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.flow.launch import MOST_DYNAMIC_SHARED
from ptxwcet.opened.request import Request

SIZES = ("block", "grid")
PATHS = ("launch", "facts", "source", "ptxas_info")
NUMBERS = {
    "registers": 1024,
    "resident_blocks": 1024,
    "dynamic_shared": MOST_DYNAMIC_SHARED,
}
"""Keys whose value is a number, and how large it may be."""
TABLES = ("params", "loop_bounds")
LINK = "link"
"""The key of the PTX files that a kernel's is linked with: all of them, a text or a list."""
MAKING = ("arch", "nvcc_options")
"""How plans say what CUDA source is compiled for, or which PTX of a binary is meant, and with which
options, as a shell would part them.
"""
MACHINE_CODE = "machine_code"
"""How plans say that what is bounded is the machine code of their files: true or false."""
LAUNCH_KEYS = (*SIZES, *PATHS, LINK, *NUMBERS, *TABLES)


def value_problem(key: str, value: object, numbers: Mapping[str, int] = NUMBERS) -> str | None:
    """What is wrong with the value of a key of a launch; None if nothing is, or for other keys.

    ``numbers`` are the keys that take whole numbers from ``least_of`` on, and the largest.
    """
    if key in (*PATHS, *MAKING) and not is_text(value):
        return f"{key} is a text"
    if key == MACHINE_CODE and type(value) is not bool:
        return f"{key} is true or false"
    listed = value if key == LINK and isinstance(value, list) else [value]
    if key == LINK and not all(map(is_text, listed)):
        return f"{key} is a text or a list of texts"
    if key in SIZES and not is_text(value) and type(value) is not int:
        return f"{key} is a text"
    if key in numbers and (type(value) is not int or not least_of(key) <= value <= numbers[key]):
        return f"{key} is a whole number from {least_of(key)} to {numbers[key]:,}"
    if key in TABLES and not (
        isinstance(value, Mapping) and all(type(one) in (int, float, str) for one in value.values())
    ):
        return f"{key} is a table of names and numbers"
    return None


def least_of(key: str) -> int:
    """The least that a key whose value is a number may be."""
    return 0 if key == "dynamic_shared" else 1


def is_text(value: object) -> bool:
    """Whether a value is a text with something in it."""
    return isinstance(value, str) and bool(value)


def launch_request(
    made: Request,
    kernel: str | None,
    table: Mapping[str, Any],
    folder: str,
    machine: str,
    memory_latency_cycles: int | None = None,
    sms: int | None = None,
) -> Request:
    """The request of a table without problems, for a kernel of a file, ``made`` with what was made
    of it.
    """

    def size(key: str) -> str | None:
        return None if key not in table else str(table[key])

    def beside(key: str) -> str | None:
        return None if key not in table else os.path.join(folder, table[key])

    links = table.get(LINK, ())
    return Request(
        made.path,
        () if kernel is None else (kernel,),
        size("block"),
        size("grid"),
        tuple(f"{name}={value}" for name, value in table.get("params", {}).items()),
        beside("source"),
        tuple(f"{place}={most}" for place, most in table.get("loop_bounds", {}).items()),
        machine,
        memory_latency_cycles,
        launch_file=beside("launch"),
        facts_file=beside("facts"),
        text=made.text,
        is_code=made.is_code,
        gpu=GridWishes(
            *(sms, table.get("resident_blocks"), table.get("registers")),
            dynamic_shared=table.get("dynamic_shared"),
        ),
        ptxas_info=beside("ptxas_info"),
        links=tuple(
            os.path.join(folder, one) for one in ([links] if isinstance(links, str) else links)
        ),
    )
