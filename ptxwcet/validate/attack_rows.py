"""Summarises the long attacks on bounds: reads a file that is part of the tool.

It is made from the results in the project's docs/experiments (benchmarks/attack_summaries.py).
"""

from __future__ import annotations

import json
from importlib import resources

from ptxwcet.report.reading import read_as
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class ControlRow:
    """A figure that is no bound, attacked alike: how often it was checked, and was exceeded.

    Most such figures are known to be too small, so that they show what the attack can see.
    """

    what: str
    checked: int
    exceeded: int


@dataclass(frozen=True, slots=True)
class AttackRow:
    """An attack: what was attacked, by what, how many cases and runs, and how many went wrong.

    ``experiment`` is the file of the project with all of its counts, ``sha256`` that file's.
    ``sources_sha256`` is of the Python sources that were attacked, None if it was not recorded.
    """

    experiment: str
    sha256: str
    attacked: str
    by: str
    command: str
    cases: int
    runs: int
    exceeded: int
    controls: tuple[ControlRow, ...]
    sources_sha256: str | None


@dataclass(frozen=True, slots=True)
class _Rows:
    rows: tuple[AttackRow, ...]


def attack_rows() -> tuple[AttackRow, ...]:
    """Returns all attacks, in a fixed order."""
    text = resources.files("ptxwcet.validate").joinpath("attacks.json").read_text(encoding="utf-8")
    return read_as(_Rows, {"rows": json.loads(text)}).rows
