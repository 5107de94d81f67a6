"""What each diagnostic code means, for ``ptxwcet explain`` and the site."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """One code: a title, why it happens, what to do."""

    title: str
    cause: str
    remedy: str


@cache
def explanations() -> Mapping[str, Explanation]:
    """All codes, in the order of their numbers. Cost: one read of ``explanations.toml``."""
    text = Path(__file__).with_name("explanations.toml").read_text(encoding="utf-8")
    return {code: Explanation(**row) for code, row in tomllib.loads(text).items()}
