"""Launches of the suite made larger, to see what an analysis takes then.

The launch files of the suite are small enough to be executed. Here their scalars and grids are
``FACTOR`` times as large and their blocks as large as blocks can be. Arrays keep their sizes: a
bound never builds them. The answers grow alike; nothing is claimed of these bounds but their cost.
"""

from __future__ import annotations

import re
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from kernel_suite import Answer, Outcome, control_flow, request_for

from ptxwcet.commands.bound.study import bound_file

FACTOR = 30
LEAST = 8
"""Smaller scalars stay: they are radii, directions and numbers of features."""
BLOCKS = {"32": "1024", "64": "1024", "128": "1024", '"16x16"': '"32x32"', '"16x8"': '"32x32"'}
"""By their text in the launch file; the others have shapes that their kernels rely on."""


def enlarged(text: str, *, blocks: bool) -> str:
    """The launch file ``text`` with larger scalars and grid, and larger blocks if asked for."""
    head, arguments = text.split("[arguments]")
    arguments = re.sub(
        r"(?m)^(\w+) = (\d+)$",
        lambda m: f"{m[1]} = {int(m[2]) * (FACTOR if int(m[2]) >= LEAST else 1)}",
        arguments,
    )
    head = re.sub(r'(?m)^grid = "?([0-9x]+)"?$', lambda m: f'grid = "{_grid(m[1])}"', head)
    if blocks:
        head = re.sub(r"(?m)^block = (.+)$", lambda m: f"block = {BLOCKS.get(m[1], m[1])}", head)
    return f"{head}[arguments]{arguments}"


def _grid(text: str) -> str:
    sizes = (int(size) for size in text.split("x"))
    return "x".join(str(size * FACTOR if size > 1 else 1) for size in sizes)


def larger_seconds(outcome: Outcome, answers: tuple[Answer, ...]) -> float | None:
    """Seconds of the processor for the larger launch; None if that has no bound."""
    kernel = control_flow(outcome.entry).kernel
    text = enlarged(outcome.entry.launch.read_text(), blocks=kernel.max_threads is None)
    grown = tuple(
        replace(one, bound=one.bound * FACTOR) for one in answers if one.loop in outcome.asked
    )
    with tempfile.TemporaryDirectory() as folder:
        launch = Path(folder) / "larger.toml"
        launch.write_text(text, encoding="utf-8")
        request = replace(request_for(outcome.entry, grown, outcome.facts), launch_file=str(launch))
        begin = time.process_time()
        answer = bound_file(request)
        return time.process_time() - begin if answer.answered else None
