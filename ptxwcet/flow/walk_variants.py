"""Bounds that the walk finds for loops that it cannot count: variants of what their exits test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxwcet.flow.integers import IntegerType, as_exact
from ptxwcet.flow.linear_forms import Range
from ptxwcet.flow.loops import Loop
from ptxwcet.flow.regions import Wavers
from ptxwcet.flow.values import Known, Mask
from ptxwcet.flow.variant_entry import Entry, entry_along
from ptxwcet.flow.variant_measures import Measure
from ptxwcet.flow.variant_regions import Region, body_of, way_to
from ptxwcet.flow.variants import Variant, find_variant
from ptxwcet.flow.walk_state import WalkState

# Dominators of a loop that are looked at for what leads to it; fewer if that is too much.
_STEPS_BEFORE = (10, 5, 3, 1)


def variant_of(walk: WalkState, loop: Loop, mask: Mask) -> Variant | None:
    """How often lanes ``mask`` that enter a loop now may go back to its header; None if not known.

    Cost: see :func:`~ptxwcet.flow.variants.find_variant`, once for each state at the entry.
    """
    body, ways = _regions(walk, loop)
    walk.state.active = mask
    known = _Known(walk, mask)
    names = body.live[loop.header] | body.carried
    names |= {name for way in ways for name in way.relevant - way.written}
    key = (loop.id, tuple((name, known.summary(name)) for name in sorted(names)))
    variants = walk.graph.work.variants
    if key not in variants:
        variants[key] = _found(body, ways, known)
    return variants[key]


def _regions(walk: WalkState, loop: Loop) -> tuple[Region, tuple[Region, ...]]:
    """A loop's body, and what leads to it: from longer ways to shorter ones."""
    known = walk.graph.work.regions
    if loop.id not in known:
        body = body_of(walk.graph, loop)
        wanted = body.live[loop.header]
        ways = [way_to(walk.graph, loop, wanted, steps) for steps in _STEPS_BEFORE]
        known[loop.id] = body, tuple(way for way in ways if way is not None)
    return known[loop.id]


def _found(body: Region, ways: tuple[Region, ...], known: _Known) -> Variant | None:
    """The variant for what leads to the loop along the longest way that is not too much."""
    for way in ways:
        entry = entry_along(known, way, signed=True)
        if entry is not None:
            found = find_variant(body, entry)
            if found is not None:
                return found
            break
    return find_variant(body, Entry(known))


@dataclass(frozen=True, slots=True)
class _Known:
    """What the walk knows of registers of the lanes that enter a loop, one by one."""

    walk: WalkState
    mask: Mask

    def interval(self, measure: Measure) -> Range | None:
        """The values of a sum of registers, read as numbers of a type; of each alone if need be."""
        low = high = measure.constant
        together = self._exact(measure)
        if together is not None:
            return together
        for name, c in measure.terms:
            part = self._exact(Measure(((name, 1),), 0, measure.kind))
            if part is None:
                part = measure.kind.low, measure.kind.high
            low += min(c * part[0], c * part[1])
            high += max(c * part[0], c * part[1])
        return low, high

    def summary(self, name: str) -> tuple[Range | None, Range | None]:
        """What is known of a register."""
        width = self.walk.graph.width(name)
        if width < 8:
            return None, None
        signed, unsigned = (
            self._exact(Measure(((name, 1),), 0, IntegerType(width, signed=one)))
            for one in (True, False)
        )
        return signed, unsigned

    def _exact(self, measure: Measure) -> Range | None:
        """The values of a sum of registers that are all known; None if one is not, or may wrap."""
        base: Any = measure.constant
        terms: dict[Any, Any] = {}
        for name, c in measure.terms:
            value = self.walk.state.register(name)
            if not isinstance(value, Known):
                return None
            if any(s.in_loops and (s.count is None or s.slopes) for s in value.terms):
                return None
            try:
                exact = as_exact(value, measure.kind, self.mask)
            except Wavers:
                return None
            base = base + c * np.asarray(exact.base, dtype=object)
            for symbol, slope in exact.terms.items():
                terms[symbol] = terms.get(symbol, 0) + c * np.asarray(slope, dtype=object)
        low = high = base
        for symbol, slope in terms.items():
            reach = slope * symbol.last
            low, high = low + np.minimum(reach, 0), high + np.maximum(reach, 0)
        shape = self.mask.shape
        lows = np.broadcast_to(np.asarray(low, dtype=object), shape)[self.mask]
        highs = np.broadcast_to(np.asarray(high, dtype=object), shape)[self.mask]
        return int(min(lows.tolist())), int(max(highs.tolist()))
