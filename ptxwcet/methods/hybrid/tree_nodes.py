"""The vertices of a timing tree ([B] II-C). Each is its own key: subtrees are shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A transition, by number."""

    transition: int


@dataclass(frozen=True, slots=True, eq=False)
class Serial:
    """Parts one after the other."""

    parts: tuple[TimingTree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """One of several parts."""

    parts: tuple[TimingTree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Iteration:
    """A body, at most ``bound`` times."""

    bound: int
    body: TimingTree


TimingTree: TypeAlias = Leaf | Serial | Alternative | Iteration
