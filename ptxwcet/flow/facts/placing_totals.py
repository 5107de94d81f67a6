"""Stated totals at the visits of a kernel's graph that they count."""

from __future__ import annotations

from collections.abc import Iterable

from ptxwcet.flow.facts.places import has_label, is_on_line
from ptxwcet.flow.facts.stated import CallFact, FactSource, LoopFact, conflict
from ptxwcet.flow.facts.totals import copies_of, loop_visits
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import Outcome, PlacedTotal
from ptxwcet.support.demangling import names_meant, readable_names
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


class PlacingTotals:
    """Totals placed so far, by what they count, with who states them."""

    def __init__(self, flow: ControlFlow) -> None:
        self._flow = flow
        self._kernel = flow.kernel
        self._found: dict[str, tuple[PlacedTotal, FactSource]] = {}

    @property
    def rows(self) -> tuple[PlacedTotal, ...]:
        """All totals; those that no visits count are left out."""
        return tuple(total for total, _ in self._found.values() if total.visits)

    def loop(self, loop: Loop, fact: LoopFact) -> None:
        """Adds the total of a loop, if the fact has one. Raises PtxwcetError (PW215)."""
        if fact.total is not None:
            what = f"iterations of the loop at {self._flow.label(loop.id)}"
            visits = loop_visits(self._flow, loop)
            source = fact.total_source or fact.source
            self._add(PlacedTotal(what, source.name, fact.total, visits, loop.id), source)

    def calls(self, facts: Iterable[CallFact]) -> None:
        """Adds the totals of functions. Raises PtxwcetError (PW215, PW250)."""
        copies = tuple(copies_of(self._flow))
        functions = {function for function, _, _ in copies}
        for fact in facts:
            meant = names_meant(fact.function, functions)
            here = [
                visits
                for function, caller, visits in copies
                if meant == (function,) and self._calls_at(caller, fact)
            ]
            if not here:
                raise PtxwcetError(self._no_call(fact, functions))
            where = "" if fact.place is None else f" at {fact.place}"
            counted = f"calls of {readable_names(functions)[meant[0]]}{where}"
            visits = frozenset[Outcome]().union(*here)
            self._add(PlacedTotal(counted, fact.source.name, fact.total, visits), fact.source)

    def _add(self, row: PlacedTotal, source: FactSource) -> None:
        known, by = self._found.setdefault(row.what, (row, source))
        if known.most != row.most:
            both = (str(known.most), by), (str(row.most), source)
            raise PtxwcetError(conflict(f"the total of {row.what}", *both))

    def _calls_at(self, caller: BlockId, fact: CallFact) -> bool:
        if fact.place is None:
            return True
        if fact.place.label:
            return has_label(self._flow, caller, fact.place.label)
        return is_on_line(self._kernel, self._flow.cfg.blocks[caller].end - 1, fact.place)

    def _no_call(self, fact: CallFact, called: set[str]) -> Diagnostic:
        where = "" if fact.place is None else f" at {fact.place}"
        names = ", ".join(sorted(readable_names(called).values())) or "none"
        return Diagnostic(
            "PW250",
            f"{fact.source.name}: kernel {self._kernel.readable} has no call of "
            f"{fact.function}{where}",
            fact.source.span or self._kernel.span,
            (f"functions that it calls, or that these call: {names}",),
            "name one function with a body, as here or as the PTX does; a compiler may have put it "
            "in the place of its calls",
        )
