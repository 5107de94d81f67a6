"""A certificate together with what it was confirmed for: one entry of one loop."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field

from ptxwcet.flow.certificates.behind import Result, check_result
from ptxwcet.flow.certificates.certificate import Bound, Certificate
from ptxwcet.flow.certificates.checker import (
    EntryFacts,
    Verdict,
    check_entry,
    check_iteration,
)
from ptxwcet.flow.certificates.passage import (
    OUTSIDE,
    NotFollowed,
    Passage,
    departure_of,
    iteration_of,
    way_from,
)
from ptxwcet.flow.certificates.solving import State
from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.support.records import dataclass

_FOR_COMMON = 3
"""Entries whose facts a certificate was confirmed for, before it is tried with those in common."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A certificate and what it rests on: ``facts`` of registers when the loop is entered.

    They come from the walk. ``way`` is a block before the loop, of which every entry comes: what is
    executed from there on is known as well. None: nothing of what is before is looked at.
    """

    certificate: Certificate
    facts: tuple[Bound, ...]
    way: BlockId | None = None


@dataclass(slots=True)
class _Asked:
    """What was asked about the loops of a kernel: ``passages`` by loop and start, verdicts, and the
    states that contradicted certificates of a loop; which facts are ``enough`` for a certificate,
    of several entries those that they have in common, if these are.
    """

    passages: dict[tuple[int, BlockId | None, bool], Passage | None] = field(default_factory=dict)
    iterations: dict[tuple[int, Certificate], Verdict] = field(default_factory=dict)
    results: dict[tuple[int, Result], Verdict] = field(default_factory=dict)
    states: dict[int, list[State]] = field(default_factory=dict)
    divisors: dict[int, tuple[int, ...]] = field(default_factory=dict)
    enough: dict[tuple[int, Certificate, BlockId | None], list[frozenset[Bound]]] = field(
        default_factory=dict
    )


def verdict_of(graph: FlowGraph, loop: Loop, proof: Proof, effort: Effort) -> Verdict:
    """What the checker says of a proof. Raises TooMuchEffort.

    Cost: two questions to the solver; what belongs to the loop alone is asked once a graph, and
    nothing where facts were enough that are among these.
    """
    asked = graph.work.of_graph[_Asked]
    iteration = _passage(graph, loop, None)
    way = None if proof.way is None else _passage(graph, loop, proof.way)
    if iteration is None or (way is None and proof.way is not None):
        return Verdict.NOT_SETTLED
    key = (loop.id, proof.certificate)
    if key not in asked.iterations:  # what iterations do is the same for all entries
        states = asked.states.setdefault(loop.id, [])
        asked.iterations[key] = check_iteration(proof.certificate, iteration, effort, states)
    if asked.iterations[key] is not Verdict.CONFIRMED:
        return asked.iterations[key]
    enough = asked.enough.setdefault((*key, proof.way), [])
    facts = frozenset(proof.facts)
    if any(some <= facts for some in enough):
        return Verdict.CONFIRMED

    def verdict(facts: tuple[Bound, ...]) -> Verdict:
        found = check_entry(proof.certificate, iteration, EntryFacts(facts, way), effort)
        if found is Verdict.CONFIRMED or proof.way is None:
            return found
        thorough = _passage(graph, loop, proof.way, thorough=True)
        if thorough is None:
            return found
        return check_entry(proof.certificate, iteration, EntryFacts(facts, thorough), effort)

    found = verdict(proof.facts)
    if found is Verdict.CONFIRMED and len(enough) < _FOR_COMMON:
        enough.append(facts)
        if len(enough) == _FOR_COMMON:
            with suppress(TooMuchEffort):
                common = facts.intersection(*enough)
                if verdict(tuple(one for one in proof.facts if one in common)) is found:
                    enough[:] = [common]
    return found


def is_left_so(graph: FlowGraph, loop: Loop, result: Result, effort: Effort) -> bool:
    """Whether the checker confirms what a loop is said to leave in a register, and it writes none
    of those that are said to be fixed.

    Cost: two questions to the solver, once a graph.
    """
    verdicts = graph.work.of_graph[_Asked].results
    key = (loop.id, result)
    if key not in verdicts:
        verdicts[key] = Verdict.NOT_SETTLED
        iteration, departure = _passage(graph, loop, None), _passage(graph, loop, OUTSIDE)
        stay = not any(name in graph.writes(loop.body) for name, _ in result.fixed)
        if iteration is not None and departure is not None and stay:
            with suppress(TooMuchEffort):
                verdicts[key] = check_result(result, iteration, departure, effort)
    return verdicts[key] is Verdict.CONFIRMED


def divisors_in(graph: FlowGraph, loop: Loop) -> tuple[int, ...]:
    """The constants that registers are divided by in a loop. Cost: linear in its body, once."""
    found = graph.work.of_graph[_Asked].divisors
    if loop.id not in found:
        iteration = _passage(graph, loop, None)
        found[loop.id] = () if iteration is None else tuple(iteration.divisors())
    return found[loop.id]


def _passage(
    graph: FlowGraph, loop: Loop, start: BlockId | None, *, thorough: bool = False
) -> Passage | None:
    """An iteration, the ways out, or those from a block; None if it is not followed."""
    passages = graph.work.of_graph[_Asked].passages
    key = (loop.id, start, thorough)
    if key not in passages:
        try:
            if start is None:
                passages[key] = iteration_of(graph, loop)
            elif start == OUTSIDE:
                passages[key] = departure_of(graph, loop)
            else:
                passages[key] = way_from(graph, start, loop, thorough=thorough)
        except NotFollowed:
            passages[key] = None
    return passages[key]
