"""Explains each diagnostic code, for ``ptxwcet explain`` and the site."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one code: a title, its cause, a remedy."""

    title: str
    cause: str
    remedy: str


@cache
def explanations() -> Mapping[str, Explanation]:
    """Returns all codes, in numeric order. Cost: one read of ``explanations.toml``."""
    text = Path(__file__).with_name("explanations.toml").read_text(encoding="utf-8")
    return {code: Explanation(**entry) for code, entry in tomllib.loads(text).items()}
