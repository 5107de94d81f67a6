"""A launch with some of what is stated of it left out.

A bound for fewer facts holds for more runs, so that it is a bound for all facts, too; the least of
several is one. Path analysis is not monotone in what it knows: with one more fact it may walk
another way, find another closed form, or analyse many parts where it has analysed one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.support.records import dataclass

Stated = tuple[Launch, PlacedFacts]
"""What is stated of a kernel: of its launch, and at places of its graph."""

_Leaving = Callable[[Stated], Stated]

_MOST_APART = 6
_OF_LAUNCH = ("ranges", "arrays", "parameters", "parameter_bytes", "constants")
_KINDS = (
    "never",
    "uniform",
    "exclusive",
    "ranges",
    "arrays",
    "loop_bounds",
    "totals",
    *_OF_LAUNCH[2:],
)
"""Kinds of facts; without those at the end there is rarely a bound, or trials find it late."""


@dataclass(frozen=True, slots=True)
class Fewer:
    """What is ``stated`` without some facts, which ``without`` names by numbers of their own."""

    stated: Stated
    without: frozenset[int]


def fewer_facts(launch: Launch, facts: PlacedFacts, decisive: Collection[str]) -> Iterator[Fewer]:
    """What is left when some facts are not used, few of them first; not all facts themselves.

    Facts about branches and loops, values and ranges of parameters, arrays, what memory holds, and
    the size of the grid are left out, in all combinations if they are at most six; if they are
    more, first each alone, for it may be the one that was added last, and then in all combinations
    of kinds. ``decisive`` are the parameters and constants that may decide a path: others do
    nothing for it.
    """
    stated = launch, facts
    keys = {name: list(getattr(launch if name in _OF_LAUNCH else facts, name)) for name in _KINDS}
    for name in _OF_LAUNCH:
        keys[name] = [one for one in keys[name] if one in decisive or name == "arrays"]
    grid = [_without_grid] * (launch.grid is not None)
    units = [*grid, *(_without(name, [one]) for name, row in keys.items() for one in row)]
    numbers = list(enumerate(units))
    if len(units) > _MOST_APART:
        for number, without in numbers:
            yield Fewer(without(stated), frozenset({number}))
        kinds = [*grid, *(_without(name, row) for name, row in keys.items() if row)]
        numbers = list(enumerate(kinds, len(units)))
    for size in range(1, len(numbers) + 1):
        for chosen in combinations(numbers, size):
            rest = stated
            for _, without in chosen:
                rest = without(rest)
            yield Fewer(rest, frozenset(number for number, _ in chosen))


def _without(field: str, left_out: Collection[Any]) -> _Leaving:
    """Leaves out some facts of a kind: keys of a mapping, or the facts themselves."""

    def without(stated: Stated) -> Stated:
        launch, facts = stated
        if field in _OF_LAUNCH:
            return replace(launch, **{field: _rest(getattr(launch, field), left_out)}), facts
        return launch, replace(facts, **{field: _rest(getattr(facts, field), left_out)})

    return without


def _rest(facts: Any, left_out: Collection[Any]) -> Any:
    if isinstance(facts, Mapping):
        return {key: fact for key, fact in facts.items() if key not in left_out}
    return type(facts)(fact for fact in facts if fact not in left_out)


def _without_grid(stated: Stated) -> Stated:
    launch, facts = stated
    return replace(launch, grid=None), facts
