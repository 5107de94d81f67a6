"""One iteration of a loop on cases: all ways from its header back to it.

Blocks are taken in order; ways that meet with the same contents of registers that still matter go
on as one. Inner loops are not walked: what they may write is unknown behind them. An iteration that
leaves the loop does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.loops import Loop
from ptxwcet.flow.variant_cases import Case, Content, assumed
from ptxwcet.flow.variant_steps import Stepping, predicate_of, step
from ptxwcet.ir.kernel import Register

_MOST_CASES = 48
_MOST_STEPS = 6_000


class TooManyWays(Exception):
    """The iteration has more ways than are followed."""


@dataclass(frozen=True, slots=True)
class Body:
    """A loop's body: the registers that matter, those live before each block, those it writes.

    ``relevant`` are what branches in the body depend on; ``carried`` those of them that an
    iteration passes to the next; ``order`` has the blocks outside of inner loops and the headers of
    those.
    """

    graph: FlowGraph
    loop: Loop
    relevant: frozenset[str]
    carried: frozenset[str]
    written: frozenset[str]
    live: Mapping[int, frozenset[str]]
    order: tuple[int, ...]

    @property
    def types(self) -> Mapping[str, str]:
        """The types of the kernel's registers."""
        return self.graph.kernel.registers


def body_of(graph: FlowGraph, loop: Loop) -> Body:
    """What the iterations of a loop look at. Cost: a few rounds over its blocks."""
    relevant = _relevant(graph, loop)
    live = _live(graph, loop, relevant)
    inner = {block for child in loop.children for block in graph.forest.loops[child].body}
    headers = {graph.forest.loops[child].header for child in loop.children}
    order = tuple(
        block
        for block in graph.cfg.reverse_postorder
        if block in loop.body and (block not in inner or block in headers)
    )
    written = frozenset(
        name for index in _indices(graph, loop.body) for name in _writes(graph, index)
    )
    carried = live[loop.header] & written
    return Body(graph, loop, relevant, carried, written, live, order)


def _indices(graph: FlowGraph, blocks: Iterable[int]) -> Iterable[int]:
    for block in sorted(blocks):
        bounds = graph.cfg.blocks[block]
        yield from range(bounds.start, bounds.end)


def _writes(graph: FlowGraph, index: int) -> tuple[str, ...]:
    return graph.kernel.instructions[index].writes


def _relevant(graph: FlowGraph, loop: Loop) -> frozenset[str]:
    """The registers that decide branches of the body, and what they are computed from in it."""
    definitions: dict[str, list[int]] = {}
    wanted: list[str] = []
    for index in _indices(graph, loop.body):
        instruction = graph.kernel.instructions[index]
        for name in instruction.writes:
            definitions.setdefault(name, []).append(index)
    for block in loop.body:
        guard = graph.kernel.instructions[graph.last(block)].guard
        if guard is not None and graph.jumps(block):
            wanted.append(guard.register)
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            for index in definitions.get(name, ()):
                wanted += graph.kernel.instructions[index].reads
    return frozenset(found)


def _live(graph: FlowGraph, loop: Loop, relevant: frozenset[str]) -> dict[int, frozenset[str]]:
    """The relevant registers that are read before they are written, from each block of the body."""
    live: dict[int, frozenset[str]] = dict.fromkeys(loop.body, frozenset())
    order = [block for block in reversed(graph.cfg.reverse_postorder) if block in loop.body]
    changed = True
    while changed:
        changed = False
        for block in order:
            now: set[str] = set()
            for target in graph.cfg.successors[block]:
                now |= live.get(target, frozenset())
            bounds = graph.cfg.blocks[block]
            for index in range(bounds.end - 1, bounds.start - 1, -1):
                instruction = graph.kernel.instructions[index]
                if instruction.guard is None:
                    now -= set(instruction.writes)
                now |= relevant.intersection(instruction.reads)
            changed |= now != live[block]
            live[block] = frozenset(now)
    return live


def iterate(body: Body, start: Case, signed: bool, kept: frozenset[str]) -> list[Case]:
    """The cases in which an iteration from ``start`` goes back to the header.

    ``kept`` are registers whose content is wanted then. Raises TooManyWays. Cost: linear in the
    body for each way, at most a fixed number of steps.
    """
    how = Stepping(body.types, signed)
    graph, loop = body.graph, body.loop
    waiting: dict[int, list[Case]] = {loop.header: [start]}
    back: list[Case] = []
    steps = 0
    for block in body.order:
        cases = _merged(waiting.pop(block, []), body.live[block] | kept)
        entered = graph.forest.loop_at(graph.cfg.blocks[block].id)
        if entered is not None and entered.id != loop.id:
            ways = [
                (target, _behind(body, entered, case))
                for case in cases
                for _, target in entered.exits
            ]
        else:
            cases, count = _walked(body, block, cases, how)
            steps += count
            ways = [way for case in cases for way in _ways(body, block, case)]
        for target, case in ways:
            if target == loop.header:
                back.append(case)
            elif target in loop.body:
                waiting.setdefault(target, []).append(case)
        if steps > _MOST_STEPS:
            raise TooManyWays
    return _merged(back, body.live[loop.header] | kept)


def _walked(body: Body, block: int, cases: list[Case], how: Stepping) -> tuple[list[Case], int]:
    """The cases after the instructions of a block that matter, and how many steps that took."""
    steps = 0
    for index in _indices(body.graph, (block,)):
        instruction = body.graph.kernel.instructions[index]
        if body.relevant.isdisjoint(instruction.writes):
            continue
        steps += len(cases)
        cases = [after for case in cases for after in step(case, instruction, index, how)]
        if len(cases) > _MOST_CASES:
            raise TooManyWays
    return cases, steps


def _ways(body: Body, block: int, case: Case) -> list[tuple[int, Case]]:
    """Where a case goes on behind a block."""
    graph = body.graph
    successors = graph.cfg.successors[block]
    guard = graph.kernel.instructions[graph.last(block)].guard
    taken = graph.cfg.taken_successor(graph.cfg.blocks[block].id)
    if guard is None or taken is None or len(successors) < 2:
        return [(target, case) for target in successors]
    fallthrough = graph.cfg.fallthrough_successor(graph.cfg.blocks[block].id)
    assert fallthrough is not None
    predicate = predicate_of(case, Register(guard.register), f"{guard.register}@0")
    return [
        (target, one)
        for target, truth in ((taken, not guard.negated), (fallthrough, guard.negated))
        for one in assumed(case, predicate, truth)
    ]


def _behind(body: Body, inner: Loop, case: Case) -> Case:
    """The case behind an inner loop."""
    how = Stepping(body.types, signed=True)
    registers = dict(case.registers)
    for index in _indices(body.graph, inner.body):
        for name in _writes(body.graph, index):
            if name in body.relevant:
                registers[name] = how.unknown(name, f"{name}@{inner.header}")
    return Case(registers, case.ranges, case.facts, case.truths)


def _merged(cases: list[Case], live: frozenset[str]) -> list[Case]:
    """Cases with the same live registers as one: what holds in each of them."""
    groups: dict[tuple[tuple[str, Content], ...], list[Case]] = {}
    for case in cases:
        registers = {name: case.registers[name] for name in live if name in case.registers}
        key = tuple(sorted(registers.items(), key=lambda item: item[0]))
        groups.setdefault(key, []).append(case)
    merged = []
    for key, group in groups.items():
        first, *others = group
        ranges, facts, truths = dict(first.ranges), first.facts, dict(first.truths)
        for other in others:
            # what only some have is forgotten: nothing that is left mentions it
            ranges = {
                name: (min(low, other.ranges[name][0]), max(high, other.ranges[name][1]))
                for name, (low, high) in ranges.items()
                if name in other.ranges
            }
            facts = tuple(fact for fact in facts if fact in other.facts)
            truths = {name: t for name, t in truths.items() if other.truths.get(name) is t}
        merged.append(Case(dict(key), ranges, facts, truths))
    if len(merged) > _MOST_CASES:
        raise TooManyWays
    return merged
