"""Closed forms of loops: guessed from the last iterations, proved by induction.

From the register changes of ``p`` iterations it is guessed that every further ``p`` iterations
change them alike; ``p`` iterations are executed once more with the iteration number as a symbol,
which *proves* the guess for the largest number of iterations over which no decision changes
(:mod:`ptxwcet.flow.values.regions`). Registers that break the guess become unknown.

A closed form ends where a counter wraps around. If the registers are then what they were after an
earlier closed form, and nothing else decides, all that follows is a repetition: a loop whose
decisions are all known never ends, and one that data may leave is left by data alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import (
    Cause,
    CauseKind,
    Known,
    Mask,
    Number,
    Unknown,
    Value,
    add,
    clean_terms,
    equal_in,
    implies,
    multiply,
    substitute,
)
from ptxwcet.flow.walk.iterations import Entry, Summary
from ptxwcet.flow.walk.path import AffineCount, Path, close_symbol, is_exact
from ptxwcet.flow.walk.reachability import Reach
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.stops import Refused, Undecided, never_ends
from ptxwcet.ir.kernel import counts_at_mbarriers
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.support.records import dataclass

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
                raise _endless(walk, entry.loop)
        self._seen = [*self._seen[1 - _MOST_STATES :], now]


def _deciding(graph: FlowGraph, loop: Loop) -> frozenset[str]:
    """Returns the registers at the header that decide where control goes in an iteration."""
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
    """Returns whether registers hold the same in all lanes of the loop, as far as known."""
    unknown = Unknown(frozenset())
    for name in names:
        new, old = now.get(name, unknown), then.get(name, unknown)
        if not (implies(new, old, entry.mask) and implies(old, new, entry.mask)):
            return False
    return True


# Loops whose inner counts vary with the iteration are enumerated exactly up to this many
# iterations.
_ENUMERATED_ITERATIONS = 64
# Numbers of iterations that may change registers alike where a single one does not.
PERIODS = (1, 2, 3, 4, 8)
# Of loops that count at mbarriers: rings of 3, 5 to 7 and 8 stages, each with both parities.
_PERIODS_OF_RINGS = (*PERIODS, 6, 10, 12, 14, 16)
_MOST_HAVOC_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class _Proof:
    """``period`` iterations along ``nodes`` from registers ``start``, ``counter`` saying which."""

    counter: Symbol
    nodes: Path
    period: int
    start: dict[str, Value]


def periods_at(walk: WalkState) -> tuple[int, ...]:
    """Returns the numbers of iterations of which it is tried whether they repeat."""
    return _PERIODS_OF_RINGS if counts_at_mbarriers(walk.graph.kernel) else PERIODS


def summarise(
    walk: WalkState, entry: Entry, history: list[dict[str, Value]], plain: int
) -> Summary | None:
    """Tries to prove that further iterations repeat with some period; None if it cannot.

    ``history`` has the registers at the start of the last iterations, of which ``plain`` were
    executed one by one. The state is then that after all iterations of the summary. Raises
    Undecided or Refused (PW205) if nothing ends the loop. Cost: a few walks of its body.
    """
    periods = periods_at(walk)
    if plain > max(periods) and plain & (plain - 1):
        return None  # back off: only after 16, 32, ... plain iterations
    endless = False
    for period in periods:
        if period > len(history) or (endless and _is_steady(walk, entry, history, period)):
            continue
        summary, endless = _prove(walk, entry, history[-period], period)
        if summary is not None:
            return summary
    return None


def _is_steady(walk: WalkState, entry: Entry, history: list[dict[str, Value]], period: int) -> bool:
    """Returns whether ``period`` iterations have changed registers as one has, so often: what is
    guessed of them is what is guessed of one, and ends no sooner.
    """
    temporaries = walk.graph.temporaries(entry.loop)
    for name, now in walk.state.registers.items():
        if isinstance(now, Known) and name not in temporaries:
            once, often = (
                _difference(walk, name, now, history[-count].get(name), entry.mask)
                for count in (1, period)
            )
            if once is None or often is None:
                if once is not often:
                    return False
            elif not equal_in(multiply(once, period, walk.graph.width(name)), often, entry.mask):
                return False
    return True


def _prove(
    walk: WalkState, entry: Entry, earlier: dict[str, Value], period: int
) -> tuple[Summary | None, bool]:
    """Proves what ``period`` iterations change, since the registers were ``earlier``, or undoes.

    Says as well whether that was proved, but nothing found that ends it.
    """
    before = walk.snapshot()
    opened = walk.recorded.loops[-1]
    noted = opened.noted()
    havoc: set[str] = set()
    endless = False
    for _ in range(_MOST_HAVOC_ROUNDS):
        with walk.proof() as counter:
            start = _guess(walk, earlier, counter, entry.mask, havoc)
            try:
                nodes = _iterate(walk, entry, period)
            except (Undecided, Refused):
                nodes = None
        if nodes is None:
            break
        broken = _broken(walk, start, counter)
        if broken <= walk.graph.temporaries(entry.loop):
            start |= {name: _not_affine(name) for name in broken}
            summary = _accept(walk, entry.loop, _Proof(counter, nodes, period, start))
            if summary is None:
                endless = counter.count is None
                break
            opened.close(counter)
            return summary, False
        havoc |= broken
        walk.restore(before)
        opened.keep_only(noted)
    walk.restore(before)
    opened.keep_only(noted)
    return None, endless


def _guess(
    walk: WalkState, earlier: dict[str, Value], counter: Symbol, mask: Mask, havoc: set[str]
) -> dict[str, Value]:
    """Makes registers functions of the iteration number: now + counter * (now - earlier).

    Of those that no iteration reads as the one before has left them this is guessed to be shown
    alone: in the iterations that are walked now, nothing is known of them.
    """
    registers = walk.state.registers
    for name, now in list(registers.items()):
        if name in havoc:
            registers[name] = _not_affine(name)
            continue
        then = earlier.get(name)
        if then is now or isinstance(now, Unknown):
            continue
        step = _difference(walk, name, now, then, mask)
        if step is None:
            registers[name] = _not_affine(name)
        elif not isinstance(step, int) or step != 0:
            terms = clean_terms({**now.terms, counter: step})
            registers[name] = Known(now.base, terms, now.valid, now.otherwise)
    guessed = dict(registers)
    for name in walk.graph.temporaries(walk.recorded.loops[-1].loop).intersection(registers):
        registers[name] = _not_affine(name)
    return guessed


def _not_affine(name: str) -> Unknown:
    """Returns what is known of a register that is no function of the iteration number."""
    return Unknown(frozenset({Cause(CauseKind.NOT_AFFINE, name)}))


def _difference(
    walk: WalkState, name: str, now: Known, then: Value | None, mask: Mask
) -> Number | None:
    """Returns the change of a register in each lane; None if it is no known number."""
    if not isinstance(then, Known):
        return None
    for value in (now, then):
        if value.valid is not None and bool((mask & ~value.valid).any()):
            return None
    if now.terms or then.terms:
        symbols = now.terms.keys() | then.terms.keys()
        if not all(equal_in(now.terms.get(s, 0), then.terms.get(s, 0), mask) for s in symbols):
            return None
    width = walk.graph.width(name)
    if width == 1:
        return 0 if equal_in(now.base, then.base, mask) else None
    step = add(now.base, multiply(then.base, -1, width), width)
    if isinstance(step, int):
        return step
    lanes = np.where(mask, step, 0)
    distinct = np.unique(lanes[mask])
    return int(distinct[0]) if len(distinct) == 1 and mask.all() else lanes


def _iterate(walk: WalkState, entry: Entry, period: int) -> Path | None:
    """Walks ``period`` iterations; returns their path, None if some lanes leave or end."""
    loop, alive = entry.loop, walk.state.alive.copy()
    with walk.recorded.sub_path():
        for number in range(period):
            walk.recorded.loops[-1].begin_again(period, number)
            block, arrived = walk.region(loop.header, entry.mask, entry.stop, loop)
            if block != loop.header or not np.array_equal(arrived, entry.mask):
                return None
        if not np.array_equal(alive, walk.state.alive):
            return None
        return tuple(walk.recorded.nodes)


def _broken(walk: WalkState, start: dict[str, Value], counter: Symbol) -> set[str]:
    """Returns registers of which the iterations do not show what was guessed, at ``counter + 1``.

    Conditions are guessed to stay as they are, and belong to what is shown.
    """
    broken = set()
    for name, before in start.items():
        expected: Value = before
        if isinstance(before, Known):
            step = before.terms.get(counter, 0)
            width = walk.graph.width(name)
            base = before.base if width == 1 else add(before.base, step, width)
            expected = Known(base, before.terms, before.valid, before.otherwise)
        if not implies(walk.state.registers[name], expected, walk.state.alive):
            broken.add(name)
    return broken


def _accept(walk: WalkState, loop: Loop, proof: _Proof) -> Summary | None:
    """Goes to the end of what is proved; None if that is not worth it.

    The user's bound ends what nothing else does.
    """
    opened, counter, nodes = walk.recorded.loops[-1], proof.counter, proof.nodes
    if opened.remaining is not None and opened.undecided:
        rounds = -(-opened.remaining // proof.period)
        if counter.count is None or (counter.count > rounds and not counter.slopes):
            counter.count, counter.slopes = rounds, {}
    if counter.count is None:
        if opened.shrinks:
            return None
        raise _endless(walk, loop)
    if counter.count < 2 and not counter.slopes:
        return None
    closed = close_symbol(nodes, counter, growing=True)
    few = counter.count <= _ENUMERATED_ITERATIONS and not counter.slopes
    if few and is_exact(nodes) and not is_exact(closed):
        return None
    slopes = tuple(counter.slopes.items())
    last = AffineCount(counter.count - 1, slopes)
    for name, value in walk.state.registers.items():
        if isinstance(value, Known):
            walk.state.registers[name] = substitute(
                value, counter, last.base, dict(slopes), walk.graph.width(name)
            )
    reason = _reason(walk, loop, proof.start, counter)
    return Summary(closed, AffineCount(counter.count, slopes), proof.period, reason)


def _endless(walk: WalkState, loop: Loop) -> Refused | Undecided:
    """Returns why a loop is refused that nothing ends which is known.

    It never ends if that is so in every run: all runs come to it with these lanes, and none of its
    exits is open, nor the end of the kernel on a side of a branch in it.
    """
    opened = walk.recorded.loops[-1]
    if opened.undecided is not None:
        return Undecided(*opened.undecided)
    sources = sorted({source for source, _ in loop.exits})
    reachability, endings = opened.entered
    is_sure = (
        reachability.mask_is_exact
        and reachability.reach is Reach.ALWAYS
        and endings == walk.endings
    )
    if is_sure and walk.graph.work.unresolved_branches.isdisjoint(sources):
        return never_ends(walk.cfg.blocks[loop.header].start)
    why = "nothing that is known ends it, but it is not shown that every launch comes to it"
    last = sources[-1] if sources else loop.latches[-1]
    return Undecided(walk.graph.last(last), frozenset(), why)


def _reason(walk: WalkState, loop: Loop, start: dict[str, Value], counter: Symbol) -> str:
    """Returns the exit test and its counters, in one line that a reader can check."""
    kernel = walk.graph.kernel
    for source, _ in loop.exits:
        guard = kernel.instructions[walk.graph.last(source)].guard
        for index in range(walk.graph.last(source), -1, -1):
            instruction = kernel.instructions[index]
            if guard is None or guard.register not in instruction.writes:
                continue
            steps = []
            for name in instruction.reads:
                value = start.get(name)
                if isinstance(value, Known) and isinstance(value.terms.get(counter), int):
                    steps.append(f"{name} {value.terms[counter]:+d} an iteration")
            if steps:
                return f"{instruction.span.text.rstrip(';')}: {', '.join(steps)}"
            break
    return "counted"
