"""The registry of bound methods. A new method is a file here, a row below and a page in docs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.bounds.gub import bound_gub
from ptxwcet.bounds.lower import bound_lower
from ptxwcet.bounds.outcome import Outcome
from ptxwcet.bounds.safe import bound_safe


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """A method: its name, what it is in a few words, its page, its function."""

    name: str
    title: str
    documentation: str
    evaluate: Callable[[BlockAnalysis], Outcome]


METHODS: tuple[BoundMethod, ...] = (
    BoundMethod("safe", "safe upper bound", "docs/methods/safe.md", bound_safe),
    BoundMethod("gub", "GUB as published", "docs/methods/gub.md", bound_gub),
    BoundMethod("lower", "lower bound", "docs/methods/lower-bound.md", bound_lower),
)
"""All methods; the first one is what is reported as the bound."""
