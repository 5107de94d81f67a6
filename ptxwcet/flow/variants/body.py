"""A region of a kernel executed on cases: all ways from its start to its end.

Blocks are taken in order; ways that meet with the same contents of registers that still matter go
on as one. Inner loops are not walked: what they may write is unknown behind them. Ways that leave
the region do not count.

What they compute are terms (:mod:`ptxwcet.ir.semantics`), which are read on cases: see
:mod:`ptxwcet.flow.variants.term_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ptxwcet.flow.certificates.passage import steady_steps
from ptxwcet.flow.effort import TooMuchEffort
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.operands import integer_of
from ptxwcet.flow.variants.cases import Case, Content, Raw, assumed, exact
from ptxwcet.flow.variants.linear_forms import Form, Ranges, plus, variable
from ptxwcet.flow.variants.operands import Stepping, predicate_of
from ptxwcet.flow.variants.regions import Region
from ptxwcet.flow.variants.term_rules import computed
from ptxwcet.ir.kernel import Instruction, Register
from ptxwcet.ir.operation import operation_of


def step(case: Case, instruction: Instruction, index: int, how: Stepping) -> list[Case]:
    """The cases after an instruction; ``index`` names what it leaves open.

    Cost: linear in its terms for each case.
    """
    guard = instruction.guard
    if guard is None:
        return _executed(case, instruction, index, how)
    predicate = predicate_of(case, Register(guard.register), f"{guard.register}@0")
    done = [
        after
        for split in assumed(case, predicate, not guard.negated)
        for after in _executed(split, instruction, index, how)
    ]
    return done + assumed(case, predicate, guard.negated)


def _executed(case: Case, instruction: Instruction, index: int, how: Stepping) -> list[Case]:
    if not instruction.writes:
        return [case]
    fresh, meaning = f"i{index}", how.meaning(instruction, index)
    if meaning is None:
        return [_opaque(case, instruction, fresh, how)]
    cases = []
    for after, contents in computed(case, meaning, fresh, how):
        for name, content in zip(instruction.writes, contents, strict=True):
            after = after.with_register(name, content)
        cases.append(after)
    return cases


def _opaque(case: Case, instruction: Instruction, fresh: str, how: Stepping) -> Case:
    """The case after an instruction that may write anything, or any number of a narrow type."""
    operation = operation_of(instruction.form)
    narrow = operation.integer if operation.name == "ld" else None
    for place, name in enumerate(instruction.writes):
        content = how.unknown(name, f"{fresh}.{place}")
        if narrow is not None and narrow.bits < how.width(name):
            bounds = integer_of(narrow).interval
            content = variable(f"{fresh}.{place}n")
            case = case.with_range(f"{fresh}.{place}n", bounds)
        case = case.with_register(name, content)
    return case


_MOST_CASES = 48
_MOST_STEPS = 6_000
_VISITS_OF_A_STEP = 4
"""An instruction takes as long as so many blocks in which nothing matters."""
_MOST_ITERATIONS = 1 << 20
"""Of an inner loop; a guess, as all that is found here."""


Behind = Mapping[str, Content]
"""What is known at the end of registers that one inner loop or instruction has written last."""


class Traversed(NamedTuple):
    """The cases that arrive at the end of a region, and those that leave it elsewhere.

    ``forgot``: something that was known of some of the cases is not known of what they became.
    """

    arrived: list[Case]
    leaving: list[Case]
    forgot: bool


def traverse(
    region: Region,
    start: Case,
    signed: bool,
    kept: frozenset[str] = frozenset(),
    behind: Behind | None = None,
    *,
    last: int = 0,
    splits: bool = False,
) -> Traversed:
    """The cases in which ``start`` comes to the end of a region; see the module docstring.

    ``signed`` says how unknown bits are read, ``kept`` are registers whose content is wanted at the
    end. ``last``: so many of the last iterations of inner loops are walked (0, 1 or 2). If any
    are, or if it is asked for, a case ``splits`` by whether numbers wrap around. Raises
    TooMuchEffort. Cost: linear in the region for each way, at most a fixed number of steps; the
    effort of ``start`` notes what is visited.
    """
    how, thorough = region.stepping(signed=signed, splits=splits or last > 0), last > 0
    waiting: dict[int, list[Case]] = {region.start: [start]}
    arrived: list[Case] = []
    leaving: list[Case] = []
    steps = 0
    forgot = False
    ways: list[tuple[int, Case]]
    for block in region.order:
        reached = waiting.pop(block, None)
        if reached is None:
            continue
        before = steps
        cases = _merged(reached, region.live[block] | kept, alike=thorough)
        forgot |= len(cases) < len(reached) and not thorough
        inner = region.inner.get(block)
        if block in region.around:
            cases = [_before_last(region, region.around[block], case, how) for case in cases]
        if inner is not None and thorough and not inner.children:
            ways, count = _last_iterations(region, inner, cases, how, last)
            steps += count
        elif inner is not None:
            ways = [
                (target, _behind(region, inner, case, behind or {}))
                for case in cases
                for _, target in inner.exits
            ]
        else:
            cases, count = _walked(region, block, cases, how, behind or {})
            steps += count
            ways = [way for case in cases for way in _ways(region, block, case)]
        for target, case in ways:
            if target == region.end:
                arrived.append(case)
            elif target in region.around and block in region.around[target].body:
                continue  # round again: not to the end
            elif target in region.blocks and target != region.start:
                waiting.setdefault(target, []).append(case)
            else:
                leaving.append(case)
        if start.effort is not None:
            start.effort.visited += len(reached) + _VISITS_OF_A_STEP * (steps - before)
        if steps > _MOST_STEPS:
            raise TooMuchEffort
    if waiting:
        raise TooMuchEffort  # an order that does not follow all ways
    if len(arrived) > _MOST_CASES:
        arrived = _merged(arrived, region.live[region.end] | kept)
    return Traversed(arrived, leaving, forgot)


def _walked(
    region: Region, block: int, cases: list[Case], how: Stepping, behind: Behind
) -> tuple[list[Case], int]:
    """The cases after the instructions of a block that matter, and how many steps that took."""
    steps = 0
    for index in region.steps_of(block):
        instruction = region.graph.kernel.instructions[index]
        steps += len(cases)
        cases = [after for case in cases for after in step(case, instruction, index, how)]
        for name in region.once.intersection(instruction.writes):
            if name in behind:
                cases = [_known(case, name, behind[name]) for case in cases]
        if len(cases) > _MOST_CASES:
            raise TooMuchEffort
    return cases, steps


def _known(case: Case, name: str, content: Content) -> Case:
    """The case with a register's known content at the end, where nothing else is known of it."""
    return case.with_register(name, content) if isinstance(case.registers.get(name), Raw) else case


def _ways(region: Region, block: int, case: Case) -> list[tuple[int, Case]]:
    """Where a case goes on behind a block."""
    register, targets = region.ways_of(block)
    if register is None:
        return [(target, case) for target, _ in targets]
    predicate = predicate_of(case, register, f"{register.name}@0")
    return [
        (target, after) for target, truth in targets for after in assumed(case, predicate, truth)
    ]


def _last_iterations(
    region: Region, inner: Loop, cases: list[Case], how: Stepping, last: int
) -> tuple[list[tuple[int, Case]], int]:
    """Where cases go on behind an inner loop whose last iteration is walked, and the steps taken.

    How many were before it is one number for all registers to which each adds a constant. If the
    last two are walked, the last one is the first of all, or behind one that has gone back.
    """
    begun = [_before_last(region, inner, case, how) for case in cases]
    steps = 0
    if last > 1:
        again, steps = _iteration(region, inner, begun, how)
        begun = cases + [case for target, case in again if target == inner.header]
    ways, count = _iteration(region, inner, begun, how)
    return [way for way in ways if way[0] != inner.header], steps + count


def _iteration(
    region: Region, inner: Loop, begun: list[Case], how: Stepping
) -> tuple[list[tuple[int, Case]], int]:
    """Where an iteration of an inner loop leads: out of it or to its header; and the steps."""
    waiting: dict[int, list[Case]] = {inner.header: begun}
    left: list[tuple[int, Case]] = []
    steps = 0
    for block in region.order_in(inner):
        if block not in waiting:
            continue
        reached = _merged(waiting.pop(block), region.live[block], alike=True)
        walked, count = _walked(region, block, reached, how, {})
        steps += count
        for target, case in [way for one in walked for way in _ways(region, block, one)]:
            if target not in inner.body or target == inner.header:
                left.append((target, case))
            else:
                waiting.setdefault(target, []).append(case)
    return left, steps


def _before_last(region: Region, inner: Loop, case: Case, how: Stepping) -> Case:
    """The case at the header of an inner loop when its last iteration begins."""
    now = _behind(region, inner, case, {})
    number = f"iterations@{inner.header}"
    now = now.with_range(number, Interval(0, _MOST_ITERATIONS))
    for name, step_ in steady_steps(region.graph, inner).items():
        kind = region.types.get(name, "pred")
        if name not in region.relevant or kind == "pred" or kind.startswith("f"):
            continue
        bits = how.width(name)
        before = case.registers.get(name, Raw(name))
        if isinstance(before, Raw):
            now, before = exact(now, before, IntegerType(bits, how.signed), name)
        if isinstance(before, Form):
            by = step_ - (1 << bits) if step_ >> (bits - 1) else step_
            now = now.with_register(name, plus(before, variable(number), by))
    return now


def _behind(region: Region, inner: Loop, case: Case, behind: Behind) -> Case:
    """The case behind an inner loop."""
    registers, settled = dict(case.registers), region.settled.get(inner.header, ())
    for name, unknown in region.left_by(inner).items():
        registers[name] = (behind.get(name) if name in settled else None) or unknown
    return replace(case, registers=registers)


def _merged(cases: list[Case], live: frozenset[str], *, alike: bool = False) -> list[Case]:
    """Cases with the same live registers as one: what holds in each of them.

    ``alike``: only those of which the same is known.
    """
    if len(cases) == 1:
        if cases[0].registers.keys() <= live:
            return cases  # most blocks of a long way do nothing that matters
        together = [cases]
    else:
        groups: dict[tuple[tuple[Content | None, ...], tuple[Form, ...]], list[Case]] = {}
        for case in cases:
            key = tuple(map(case.registers.get, live))
            groups.setdefault((key, case.facts if alike else ()), []).append(case)
        together = list(groups.values())
    merged = []
    for first, *others in together:
        ranges, facts, truths = first.ranges, first.facts, first.truths
        for other in others:
            # what only some have is forgotten: nothing that is left mentions it
            ranges = _hulls(ranges, other.ranges)
            if other.facts is not facts:
                facts = tuple(fact for fact in facts if fact in other.facts)
            if other.truths is not truths:
                truths = {name: t for name, t in truths.items() if other.truths.get(name) is t}
        registers = {name: held for name, held in first.registers.items() if name in live}
        merged.append(Case(registers, ranges, facts, truths, first.effort))
    if len(merged) > _MOST_CASES:
        raise TooMuchEffort
    return merged


def _hulls(one: Ranges, two: Ranges) -> Ranges:
    """The hulls of the ranges that variables have in both."""
    if one is two and all(interval.step == 1 for interval in one.values()):
        return one
    hulls: dict[str, Interval] = {}
    for name, interval in one.items():
        other = two.get(name)
        if other is not None:
            is_hull = interval.covers(other) and interval.step == 1
            hulls[name] = interval if is_hull else interval.hull(other)
    return hulls
