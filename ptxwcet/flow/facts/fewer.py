"""A launch with some of what is stated of it left out.

A bound for fewer facts holds for more runs, so that it is a bound for all facts, too; the least of
several is one. Path analysis is not monotone in what it knows: with one more fact it may walk
another way, find another closed form, or analyse many parts where it has analysed one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from ptxwcet.flow.launch import Launch, Outcome, PlacedFacts

Stated = tuple[Launch, PlacedFacts]
"""What is stated of a kernel: of its launch, and at places of its graph."""

_Without = Callable[[Stated], Stated]

_MOST_APART = 6


def fewer_facts(launch: Launch, facts: PlacedFacts) -> Iterator[Stated]:
    """What is left when some facts are not used, few of them first; not all facts themselves.

    Facts about branches, ranges of parameters and arrays and the size of the grid are left out, and
    beside facts about branches bounds of loops, in all combinations if they are at most six; if
    they are more, first each alone, for it may be the one that was added last, and then in all
    combinations of kinds. Values of parameters stay: without them there is rarely a bound.
    """
    apart = _each(launch, facts)
    units = apart
    if len(apart) > _MOST_APART:
        for without in apart:
            yield without((launch, facts))
        units = _kinds(launch, facts)
    for size in range(1, len(units) + 1):
        for chosen in combinations(units, size):
            stated = launch, facts
            for without in chosen:
                stated = without(stated)
            yield stated


def _each(launch: Launch, facts: PlacedFacts) -> list[_Without]:
    units = [_without_never(frozenset({outcome})) for outcome in sorted(facts.never)]
    units += [_without_uniform(block) for block in facts.uniform]
    units += [_without_pair(number) for number in reversed(range(len(facts.exclusive)))]
    units += [_without_range(name) for name in launch.ranges]
    units += [_without_array(name) for name in launch.arrays]
    if _speaks_of_paths(facts):
        units += [_without_bound(loop) for loop in facts.loop_bounds]
    return units + [_without_grid] * (launch.grid is not None)


def _kinds(launch: Launch, facts: PlacedFacts) -> list[_Without]:
    units: list[_Without] = []
    if facts.never:
        units.append(lambda stated: (stated[0], replace(stated[1], never=frozenset())))
    if facts.uniform:
        units.append(lambda stated: (stated[0], replace(stated[1], uniform={})))
    if facts.exclusive:
        units.append(lambda stated: (stated[0], replace(stated[1], exclusive=())))
    if launch.ranges:
        units.append(lambda stated: (replace(stated[0], ranges={}), stated[1]))
    if launch.arrays:
        units.append(lambda stated: (replace(stated[0], arrays={}), stated[1]))
    if facts.loop_bounds and _speaks_of_paths(facts):
        units.append(lambda stated: (stated[0], replace(stated[1], loop_bounds={})))
    return units + [_without_grid] * (launch.grid is not None)


def _speaks_of_paths(facts: PlacedFacts) -> bool:
    """Whether something is said of branches; else what is said of loops is rarely too much, and
    trials without it cost as much as the analysis.
    """
    return bool(facts.never or facts.uniform or facts.exclusive)


def _without_never(outcomes: frozenset[Outcome]) -> _Without:
    def without(stated: Stated) -> Stated:
        launch, facts = stated
        return launch, replace(facts, never=facts.never - outcomes)

    return without


def _without_uniform(block: int) -> _Without:
    def without(stated: Stated) -> Stated:
        launch, facts = stated
        rest = {other: scope for other, scope in facts.uniform.items() if other != block}
        return launch, replace(facts, uniform=rest)

    return without


def _without_pair(number: int) -> _Without:
    """Leaves out a pair of exclusive outcomes; pairs with larger numbers have to go first."""

    def without(stated: Stated) -> Stated:
        launch, facts = stated
        pairs = facts.exclusive
        return launch, replace(facts, exclusive=pairs[:number] + pairs[number + 1 :])

    return without


def _without_bound(loop: int) -> _Without:
    def without(stated: Stated) -> Stated:
        launch, facts = stated
        rest = {other: bound for other, bound in facts.loop_bounds.items() if other != loop}
        return launch, replace(facts, loop_bounds=rest)

    return without


def _without_range(name: str) -> _Without:
    def without(stated: Stated) -> Stated:
        launch, facts = stated
        rest = {other: ends for other, ends in launch.ranges.items() if other != name}
        return replace(launch, ranges=rest), facts

    return without


def _without_array(name: str) -> _Without:
    def without(stated: Stated) -> Stated:
        launch, facts = stated
        rest = {other: row for other, row in launch.arrays.items() if other != name}
        return replace(launch, arrays=rest), facts

    return without


def _without_grid(stated: Stated) -> Stated:
    launch, facts = stated
    return replace(launch, grid=None), facts
