"""Containment: what the walk claims at each visit of a block, against what lanes hold there.

While a kernel is analysed, an observer keeps the state of every visit that is not undone. Then
lanes execute the kernel on adversarial data (:mod:`isa_interpreter`), and for each block that a
warp executes there must be a visit of that block by a group with this warp which contains it: its
lanes, the value of every register that is known, and what open predicates say. The symbols of a
state have one value for all registers: block indices and parameters those of the run, numbers of
iterations one in the range that was proved, a symbol that each lane has of its own one for each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
from isa_interpreter import WORD, Lane, Machine

from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import Condition, Known, Unknown, Value
from ptxwcet.flow.walk import state as walk_state
from ptxwcet.flow.walk.path import Path
from ptxwcet.flow.walk.state import Snapshot, WalkState
from ptxwcet.flow.walk.walk import Walk
from ptxwcet.ir.opcodes import CARRY

MOST_CANDIDATES = 4
"""Values of a symbol that are tried where an equation has several."""


@dataclass(eq=False)
class Visit:
    """The abstract state before a block; rows of ``mask`` are the warps of the walk."""

    block: int
    mask: np.ndarray
    registers: dict[str, Value]
    counts: dict[Symbol, int | None]  # of symbols whose range does not change any more


MOST_VISITS = 1_500
"""Blocks that a walk may visit here: each visit is kept, and held to the runs."""


@dataclass(eq=False)
class Walked:
    """The visits of one walk that ended."""

    walk: WalkState
    visits: list[Visit] = field(default_factory=list)
    by_block: dict[int, list[Visit]] = field(default_factory=dict)


class Recorder:
    """Keeps the visits of walks while it is installed; undone ones and broken off walks go."""

    def __init__(self) -> None:
        self.walks: list[Walked] = []
        self._open: dict[int, Walked] = {}
        self._marks: dict[int, tuple[Snapshot, int]] = {}

    @contextlib.contextmanager
    def installed(self) -> Iterator[Recorder]:
        take, undo, run = WalkState.snapshot, WalkState.restore, Walk.run

        def snapshot(walk: WalkState) -> Snapshot:
            found = take(walk)
            self._marks[id(found)] = found, len(self._open[id(walk)].visits)
            return found

        def restore(walk: WalkState, to: Snapshot) -> None:
            undo(walk, to)
            del self._open[id(walk)].visits[self._marks[id(to)][1] :]

        def whole(walk: Walk, symbolic: str | None = None) -> Path:
            self._open[id(walk)] = Walked(walk)
            try:
                path = run(walk, symbolic)
                self._end(self._open[id(walk)])
            finally:
                del self._open[id(walk)]
            return path

        with (
            patch.object(walk_state, "_MOST_VISITS", MOST_VISITS),
            patch.object(WalkState, "observer", self._visit),
            patch.object(WalkState, "snapshot", snapshot),
            patch.object(WalkState, "restore", restore),
            patch.object(Walk, "run", whole),
        ):
            yield self

    def _visit(self, walk: WalkState, block: int, mask: np.ndarray) -> None:
        registers = dict(walk.state.registers)
        fixed = {
            symbol: symbol.count
            for value in registers.values()
            if isinstance(value, Known)
            for symbol in value.terms
            if symbol.fixed
        }
        self._open[id(walk)].visits.append(Visit(block, mask.copy(), registers, fixed))

    def _end(self, walked: Walked) -> None:
        for visit in walked.visits:
            walked.by_block.setdefault(visit.block, []).append(visit)
        self.walks.append(walked)


@dataclass
class Missing:
    """A visit of lanes that no visit of the walk contains, and what is false of the first few."""

    block: int
    warp: int
    lanes: tuple[int, ...]
    why: str

    def __str__(self) -> str:
        return f"block {self.block}, warp {self.warp}, lanes {self.lanes}: {self.why}"


class Oracle:
    """Holds the visits of a run to those of the walks, as an observer of the interpreter."""

    def __init__(self, walks: list[Walked], block_at: Mapping[int, int]) -> None:
        self.walks = walks
        self.block_at = block_at
        self.missing: list[Missing] = []
        self.checked = 0
        self.aborts = False  # lanes came to a block from which all ways abort
        self._pins: list[tuple[Walked, dict[Symbol, int]]] | None = None
        self._hints: dict[tuple[int, int], int] = {}

    def begin(self) -> None:
        """A new run: its block index and parameters are other ones."""
        self.aborts = False
        self._pins = None
        self._hints = {}

    def __call__(self, machine: Machine, warp: int, start: int, lanes: tuple[Lane, ...]) -> None:
        if self._pins is None:
            self._pins = [
                (walked, pins)
                for walked in self.walks
                if (pins := pinned(walked.walk, machine)) is not None
            ]
        graph = machine.program.graph
        if graph.following[start] == (graph.end,):
            return  # a walk need not follow lanes that do nothing more but end
        self.checked += 1
        block = self.block_at.get(start)
        if block is None:
            self.aborts = True
            return
        concrete = _Lanes(machine, lanes)
        why: dict[str, None] = {}
        for number, (walked, pins) in enumerate(self._pins):
            if warp not in walked.walk.state.warps:
                continue
            row = walked.walk.state.warps.index(warp) * 32
            visits = walked.by_block.get(block, ())
            first = self._hints.get((number, block), 0)
            for i in range(len(visits)):
                place = (first + i) % len(visits)
                reason = contains(visits[place], row, concrete, walked.walk, pins)
                if not reason:
                    self._hints[number, block] = place
                    return
                why[reason] = None
        reasons = "; or ".join([*why][:4]) or "no visit of this warp"
        self.missing.append(Missing(block, warp, tuple(lane.number for lane in lanes), reasons))


def pinned(walk: WalkState, machine: Machine) -> dict[Symbol, int] | None:
    """The values of symbols that the launch of a run has; None if it is not one of the walk's."""
    found: dict[Symbol, int] = {}
    index = walk.state.index
    for symbol, first, place in zip(index.symbols, index.first, machine.index, strict=True):
        if symbol is not None:
            found[symbol] = place - first
            if place < first or (symbol.count is not None and place - first >= symbol.count):
                return None
    for name, (span, symbol) in walk.state._spans.items():
        sizes = {p.name: p.size_bytes for p in machine.program.kernel.parameters}
        size = sizes.get(name, WORD // 8)
        distance = _signed(machine.parameters[name], 8 * size) - _signed(span.first, 8 * size)
        if distance % span.step or not 0 <= distance // span.step < span.count:
            return None
        found[symbol] = distance // span.step
    return found


def _signed(value: int, width: int) -> int:
    half = 1 << (width - 1)
    return ((value + half) & ((1 << width) - 1)) - half


class _Lanes:
    """What the lanes of a warp hold."""

    def __init__(self, machine: Machine, lanes: tuple[Lane, ...]) -> None:
        self.numbers = machine.program.numbers
        self.lanes = lanes
        self.rows = np.array([lane.number for lane in lanes])

    def values(self, name: str) -> list[int] | None:
        """The raw bits of a register in each lane; None for one that no instruction names."""
        if name == CARRY:
            return [lane.carry for lane in self.lanes]
        place = self.numbers.get(name)
        return None if place is None else [lane.registers[place] for lane in self.lanes]


Equation = tuple[str, int, list[int], list[int], dict[Symbol, list[int]], int]
"""Register, place in lanes, numbers of lanes, distances from the base, coefficients, width."""


def contains(
    visit: Visit, row: int, concrete: _Lanes, walk: WalkState, pins: Mapping[Symbol, int]
) -> str:
    """Empty if a visit contains what lanes hold; else a register or symbol that does not."""
    rows = concrete.rows + row
    if not visit.mask[rows].all():
        return "lanes that are not there"
    solver = _Solver(visit, dict(pins))
    for name, value in visit.registers.items():
        raw = concrete.values(name)
        if raw is None:
            continue
        if isinstance(value, Known):
            reason = solver.equation(name, value, rows, raw, walk.graph.width(name))
            if reason:
                return reason
        elif isinstance(value, Unknown) and value.condition is not None:
            solver.conditions.append((name, value.condition, rows, raw))
    return solver.solve()


class _Solver:
    """Whether one value of each symbol, or one a lane, makes all registers what they are."""

    def __init__(self, visit: Visit, shared: dict[Symbol, int]) -> None:
        self.visit = visit
        self.shared = shared
        self.own: dict[Symbol, dict[int, int]] = {}
        self.open: list[tuple[str, int, int, dict[Symbol, int], int]] = []
        self.conditions: list[tuple[str, Condition, np.ndarray, list[int]]] = []

    def equation(
        self, name: str, value: Known, rows: np.ndarray, raw: list[int], width: int
    ) -> str:
        """Takes what a register says of each lane; gives its name if that is false already."""
        base = _numbers(value.base, rows)
        terms = {symbol: _numbers(c, rows) for symbol, c in value.terms.items()}
        valid = value.valid[rows] if value.valid is not None else np.ones(len(rows), bool)
        most = (1 << width) - 1
        if width == 1 and (terms or not set(base) <= {0, 1}):
            return f"{name} is no outcome: {value}"  # who reads it need not reduce it
        for i, row in enumerate(rows.tolist()):
            if not valid[i]:
                continue
            rest = (raw[i] - base[i]) & most
            left: dict[Symbol, int] = {}
            for symbol, numbers in terms.items():
                if symbol in self.shared:
                    rest = (rest - numbers[i] * self.shared[symbol]) & most
                elif numbers[i] & most:
                    left[symbol] = numbers[i]
            if left:
                self.open.append((name, row, rest, left, width))
            elif rest:
                return f"{name} is {raw[i]} in lane {row % 32}, not {base[i]} + {value.terms}"
        return ""

    def solve(self) -> str:
        """Solves equations with one unknown, as long as there are; those with more are left."""
        while True:
            waiting = []
            chosen: tuple[Symbol, list[int], str] | None = None
            progress = False
            for name, row, rest, left, width in self.open:
                most = (1 << width) - 1
                for symbol in list(left):
                    found = self._value(symbol, row)
                    if found is not None:
                        rest = (rest - left[symbol] * found) & most
                        left = {s: c for s, c in left.items() if s is not symbol}
                if not left:
                    if rest:
                        return f"{name} does not fit the symbols in lane {row % 32}"
                    progress = True
                    continue
                if len(left) == 1:
                    ((symbol, c),) = left.items()
                    values = self._fitting(symbol, c, rest, width)
                    if not values:
                        return f"{name} is beyond the range of {symbol} in lane {row % 32}"
                    if len(values) == 1:
                        self._set(symbol, row, values[0])
                        progress = True
                        continue
                    if not symbol.is_own and chosen is None:
                        chosen = symbol, values, name
                waiting.append((name, row, rest, left, width))
            self.open = waiting
            if progress:
                continue
            if chosen is None:
                return self._false_condition()
            return self._try(*chosen)

    def _try(self, symbol: Symbol, values: list[int], name: str) -> str:
        """One value after the other of a symbol that an equation leaves several of."""
        state = dict(self.shared), {s: dict(v) for s, v in self.own.items()}, list(self.open)
        reason = f"{name} fits no value of {symbol}"
        for value in values:
            self.shared = {**state[0], symbol: value}
            self.own = {s: dict(v) for s, v in state[1].items()}
            self.open = list(state[2])
            reason = self.solve()
            if not reason:
                break
        return reason

    def _value(self, symbol: Symbol, row: int) -> int | None:
        if symbol in self.shared:
            return self.shared[symbol]
        return self.own.get(symbol, {}).get(row)

    def _set(self, symbol: Symbol, row: int, value: int) -> None:
        if symbol.is_own:
            self.own.setdefault(symbol, {})[row] = value
        else:
            self.shared[symbol] = value

    def _limit(self, symbol: Symbol) -> int | None:
        """How many values a symbol has; None if nothing that is known limits them."""
        count = self.visit.counts.get(symbol, symbol.count)
        if count is None:
            return None
        for other, slope in symbol.slopes.items():
            if other not in self.shared:
                return None
            count += slope * self.shared[other]
        return count

    def _fitting(self, symbol: Symbol, c: int, rest: int, width: int) -> list[int]:
        """The values ``s`` in range with ``c * s == rest`` modulo ``2**width``, the first few."""
        size = 1 << width
        c %= size
        common = c & -c
        if rest % common:
            return []
        step = size // common
        first = rest // common * pow(c // common, -1, step) % step if step > 1 else 0
        limit = self._limit(symbol)
        found = [first + step * i for i in range(MOST_CANDIDATES)]
        return [value for value in found if limit is None or value < limit]

    def _false_condition(self) -> str:
        """The name of a predicate of which a condition is false; empty if there is none."""
        for name, condition, rows, raw in self.conditions:
            for row, holds in zip(rows.tolist(), raw, strict=True):
                if condition.lanes is not None and not condition.lanes[row]:
                    continue
                value = self._value(condition.symbol, row)
                interval = condition.when if holds else condition.otherwise
                if value is None or interval is None:
                    continue
                if not interval[0] <= value <= interval[1]:
                    return f"{name} is {holds} though {condition.symbol} is {value}"
        return ""


def _numbers(number: Any, rows: np.ndarray) -> list[int]:
    """A number for each lane."""
    if isinstance(number, int):
        return [number] * len(rows)
    found: list[int] = number[rows].tolist()
    return found
