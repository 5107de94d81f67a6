"""Loops that come back to where they were: counters that have gone round.

A closed form ends where a counter wraps around. If the registers are then what they were after an
earlier closed form, and nothing else decides, all that follows is a repetition: a loop whose
decisions are all known never ends, and one that data may leave is left by data alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.values.value import Unknown, Value, implies
from ptxwcet.flow.walk.iterations import Entry
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.stops import Undecided, never_ends
from ptxwcet.ir.op_classes import ControlEffect

# States that are compared with: a round has a closed form for each wrap of its counters.
_MOST_STATES = 16


class Rounds:
    """The registers at the header of a loop after each closed form of one entry."""

    def __init__(self) -> None:
        self._seen: list[Mapping[str, Value]] = []

    def note(self, walk: WalkState, entry: Entry) -> None:
        """Notes the registers as they are now.

        Raises Undecided, or Refused (PW205), if they have been so before. Cost: linear in the
        registers that decide for each state that was noted, the first time in the loop.
        """
        now = dict(walk.state.registers)
        if self._seen:
            names = _deciding(walk.graph, entry.loop)
            if any(_equal(walk, entry, names, now, then) for then in self._seen):
                opened = walk.trail.loops[-1]
                if opened.undecided is not None:
                    raise Undecided(*opened.undecided)
                raise never_ends(walk.cfg.blocks[entry.loop.header].start)
        self._seen = [*self._seen[1 - _MOST_STATES :], now]


def _deciding(graph: FlowGraph, loop: Loop) -> frozenset[str]:
    """The registers at the header that decide where control goes in an iteration."""
    guards = {
        instruction.guard.register
        for instruction in (graph.kernel.instructions[i] for i in graph.indices(loop.body))
        if instruction.guard is not None and instruction.control is not ControlEffect.NONE
    }
    # here: few counters go round
    from ptxwcet.flow.variants.regions import body_of

    return body_of(graph, loop, frozenset(guards)).live[loop.header]


def _equal(
    walk: WalkState,
    entry: Entry,
    names: frozenset[str],
    now: Mapping[str, Value],
    then: Mapping[str, Value],
) -> bool:
    """Whether registers hold the same in all lanes of the loop, as far as they are known."""
    unknown = Unknown(frozenset())
    for name in names:
        new, old = now.get(name, unknown), then.get(name, unknown)
        if not (implies(new, old, entry.mask) and implies(old, new, entry.mask)):
            return False
    return True
