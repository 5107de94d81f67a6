"""A certificate together with what it was confirmed for: one entry of one loop."""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.flow.certificates.certificate import Bound, Certificate
from ptxwcet.flow.certificates.checker import EntryFacts, Verdict, check
from ptxwcet.flow.certificates.passage import NotFollowed, iteration_of, way_from
from ptxwcet.flow.effort import Effort
from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.loops import Loop


@dataclass(frozen=True, slots=True)
class Proof:
    """A certificate and what it rests on: ``facts`` of registers when the loop is entered.

    They come from the walk. ``way`` is a block before the loop, of which every entry comes: what is
    executed from there on is known as well. None: nothing of what is before is looked at.
    """

    certificate: Certificate
    facts: tuple[Bound, ...]
    way: BlockId | None = None


def verdict_of(graph: FlowGraph, loop: Loop, proof: Proof, effort: Effort) -> Verdict:
    """What the checker says of a proof. Raises TooMuchEffort.

    Cost: see :func:`~ptxwcet.flow.certificates.checker.check`; passages are built once a graph.
    """
    known = graph.work.passages
    for start in (None, proof.way):
        if (loop.id, start) not in known:
            try:
                known[loop.id, start] = (
                    iteration_of(graph, loop) if start is None else way_from(graph, start, loop)
                )
            except NotFollowed:
                known[loop.id, start] = None
    iteration = known[loop.id, None]
    way = None if proof.way is None else known[loop.id, proof.way]
    if iteration is None or (way is None and proof.way is not None):
        return Verdict.NOT_SETTLED
    return check(proof.certificate, iteration, EntryFacts(proof.facts, way), effort)
