"""Blocks whose warps count at mbarriers and ask for their phases: docs/methods/joins.md alone.

A warp is a tuple of operations. ``run`` is the machine in plain Python, cycle by cycle, with warps
that really poll; whoever issues, when a count takes effect and how long things take is asked of
``choose``. ``graph_of`` finds the phases of a block by searching its graph for ways, or says why
they are not static; ``claim`` is what J1 says of it. Nothing of the product is in here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil


@dataclass(frozen=True)
class Count:
    """Arrivals; bytes added before them; bytes that a copy brings ``after`` its latency. What is
    ``behind`` operations of its warp has effect ``after`` the last of them and its own latency.
    """

    name: int
    arrivals: int = 0
    owes: int = 0
    brings: int = 0
    after: int = 0
    behind: tuple[int, ...] = ()


@dataclass(frozen=True)
class Wait:
    """A poll for the phase of a parity; behind one that fails comes a branch, then the next."""

    name: int
    parity: int
    branch_unit: int = 0
    branch_init: int = 1
    branch_lat: int = 0
    bubble: int = 0


@dataclass(frozen=True)
class Product:
    """Four neighbours execute it together, on four sub-cores (docs/methods/warpgroups.md)."""


@dataclass(frozen=True)
class Give:
    """Gives up so many registers."""

    registers: int


@dataclass(frozen=True)
class Take:
    """Waits until so many registers are there, and takes them."""

    registers: int


@dataclass(frozen=True)
class Op:
    """Unit, initiation, latency; which operations of its warp it waits for; what it does."""

    unit: int
    init: int
    lat: int
    reads: tuple[int, ...] = ()
    does: Count | Wait | Product | Give | Take | None = None


Warp = tuple[Op, ...]


@dataclass(frozen=True)
class Block:
    """The warps, of each mbarrier the arrivals of a phase, and the least cycles between polls; the
    registers that nobody has at first.
    """

    warps: tuple[Warp, ...]
    expects: tuple[int, ...]
    again: int
    free: int = 0


class NotStaticError(Exception):
    """Why phases are not the same in all runs."""


Node = tuple[int, int]


@dataclass
class Graph:
    """Of each wait its target; of each phase of an mbarrier, from 0 on, who counts there."""

    target: dict[Node, int] = field(default_factory=dict)
    phases: dict[tuple[int, int], list[Node]] = field(default_factory=dict)


def _counting_order(block: Block) -> Graph:
    """One run without times: each warp as far as it comes, in turn."""
    graph, at = Graph(), [0] * len(block.warps)
    phase = [0] * len(block.expects)
    pending, owed = list(block.expects), [0] * len(block.expects)
    giving, given = sum(isinstance(op.does, Give) for ops in block.warps for op in ops), 0
    while True:
        moved = False
        for w, ops in enumerate(block.warps):
            while at[w] < len(ops):
                does, node = ops[at[w]].does, (w, at[w])
                if isinstance(does, Take) and given < giving:
                    break
                given += isinstance(does, Give)
                if isinstance(does, Wait):
                    target = graph.target.setdefault(
                        node, phase[does.name] - (does.parity != phase[does.name] % 2)
                    )
                    if phase[does.name] <= target:
                        break
                if isinstance(does, Count):
                    o = does.name
                    graph.phases.setdefault((o, phase[o]), []).append(node)
                    pending[o] -= does.arrivals
                    owed[o] += does.owes - does.brings
                    if pending[o] < 0:
                        raise NotStaticError("more arrive than are expected")
                    if pending[o] == owed[o] == 0:
                        pending[o] = block.expects[o]
                        phase[o] += 1
                at[w] += 1
                moved = True
        if not moved:
            break
    if any(at[w] < len(ops) for w, ops in enumerate(block.warps)):
        raise NotStaticError("some wait for ever")
    if pending != list(block.expects) or any(owed):
        raise NotStaticError("a phase is not completed")
    return graph


def graph_of(block: Block, *, without: str = "") -> Graph:
    """The phases. Raises NotStaticError; ``without`` leaves out one of the conditions."""
    graph = _counting_order(block)
    followers: dict[object, list[object]] = {}
    for w, ops in enumerate(block.warps):
        for n in range(len(ops) - 1):
            followers.setdefault((w, n), []).append((w, n + 1))
    for (o, p), nodes in graph.phases.items():
        for node in nodes:
            followers.setdefault(node, []).append(("over", o, p))
    for node, target in graph.target.items():
        (w, n) = node
        does = block.warps[w][n].does
        assert isinstance(does, Wait)
        followers.setdefault(("over", does.name, target), []).append(node)

    if without == "early":  # as if registers were there only when all has been given up
        handing = [(w, n, op.does) for w, ops in enumerate(block.warps) for n, op in enumerate(ops)]
        for w, n, does in handing:
            takers = [(v, k) for v, k, other in handing if isinstance(other, Take)]
            followers.setdefault((w, n), []).extend(takers if isinstance(does, Give) else ())

    def reach(start: object) -> set[object]:
        seen, pending = {start}, [start]
        while pending:
            for one in followers.get(pending.pop(), ()):
                if one not in seen:
                    seen.add(one)
                    pending.append(one)
        return seen

    behind = {("over", *key): reach(("over", *key)) for key in graph.phases}
    for (o, p), nodes in graph.phases.items():
        for node in nodes:
            known = p == 0 or node in behind["over", o, p - 1]
            if not known and without != "order":
                raise NotStaticError("counts before the phase before is known to be over")
        adding = [(w, n) for w, n in nodes if getattr(block.warps[w][n].does, "owes", 0)]
        for w, n in adding:
            later = [k for v, k in nodes if v == w and k >= n
                     and getattr(block.warps[v][k].does, "arrivals", 0)]  # fmt: skip
            if not later and without != "sealed":
                raise NotStaticError("bytes are added by a warp that does not arrive behind that")
    for (w, n), target in graph.target.items():
        does = block.warps[w][n].does
        assert isinstance(does, Wait)
        before = ("over", does.name, target - 1)
        known = target < 1 or (n > 0 and (w, n - 1) in behind[before])
        if not known and without != "asked":
            raise NotStaticError("asks for a phase while one of two before may be open")
        after = ("over", does.name, target + 1)
        is_seen = (does.name, target + 1) not in graph.phases or after in reach((w, n))
        if not is_seen and without != "seen":
            raise NotStaticError("the phase after may be over before this one was seen")
    return graph


@dataclass
class Claim:
    """P and lambda of each stretch; the bound; what is in it of polls."""

    stretches: list[list[tuple[int, int]]]
    bound: int


def _alone(ops: Warp, first: int, last: int) -> tuple[int, int]:
    """Slack and charges of the operations ``first`` to ``last``, alone on a clean machine."""
    ready: dict[int, int] = {}
    free: dict[int, int] = {}
    t = own = most = length = 0
    for n in range(first, last):
        op = ops[n]
        s = max([t, *(ready[r] for r in op.reads if r in ready)])
        most = max(most, s - own)
        d = max(s, free.get(op.unit, 0))
        free[op.unit] = d + op.init
        ready[n] = d + op.init + op.lat
        length = max(length, ready[n])
        own += op.init
        t = s + 1
    return max(most, max(length, t) - own), own


def _without_copies(ops: Warp) -> Warp:
    """The operations, those that some count is behind without their latencies."""
    awaited = {n for op in ops if isinstance(op.does, Count) for n in op.does.behind}
    return tuple(replace(op, lat=0) if n in awaited else op for n, op in enumerate(ops))


def claim(block: Block, graph: Graph, *, without: str = "") -> Claim:
    """What J1 says; ``without`` leaves out a part of it."""
    if without == "copies":
        block = replace(block, warps=tuple(map(_without_copies, block.warps)))
    cuts = []
    for ops in block.warps:
        ends = [n + 1 for n, op in enumerate(ops) if isinstance(op.does, Wait | Take)]
        cuts.append([0, *ends, len(ops)])
    rows = [
        [_alone(ops, a, b) for a, b in pairwise(cut)]
        for ops, cut in zip(block.warps, cuts, strict=True)
    ]
    if without == "slack":
        rows = [[(0, own) for _, own in row] for row in rows]

    def stretch_of(w: int, n: int) -> int:
        return sum(cut <= n for cut in cuts[w][1:-1])

    known: dict[tuple[int, int], int] = {}
    gives = [
        (w, n)
        for w, ops in enumerate(block.warps)
        for n, op in enumerate(ops)
        if isinstance(op.does, Give)
    ]

    def start(w: int, number: int) -> int:
        if number == 0:
            return 0
        if (w, number) not in known:
            known[w, number] = 0
            waiting = cuts[w][number] - 1
            op = block.warps[w][waiting]
            begun = [0]
            if without != "own":
                begun.append(start(w, number - 1) + rows[w][number - 1][0])
            if isinstance(op.does, Take):
                for v, n in () if without == "registers" else gives:
                    tau = stretch_of(v, n)
                    begun.append(start(v, tau) + rows[v][tau][0] + op.init + op.lat)
                known[w, number] = max(begun)
                return known[w, number]
            assert isinstance(op.does, Wait)
            does = op.does
            again = 2 * (op.init + op.lat) + does.branch_init + does.branch_lat + does.bubble
            for v, n in graph.phases.get((does.name, graph.target[w, waiting]), ()):
                if without == "others":
                    continue
                tau, done = stretch_of(v, n), block.warps[v][n].does
                assert isinstance(done, Count)
                after = 0 if without == "after" else done.after
                over = start(v, tau) + rows[v][tau][0] + after
                begun.append(over + (0 if without == "round" else again))
            known[w, number] = max(begun)
        return known[w, number]

    stretches = [
        [(start(w, n), slack) for n, (slack, _) in enumerate(row)] for w, row in enumerate(rows)
    ]
    most = max((p + slack for row in stretches for p, slack in row), default=0)
    for w, ops in enumerate(block.warps):
        for n, op in enumerate(ops):
            if isinstance(op.does, Count):
                p, slack = stretches[w][stretch_of(w, n)]
                most = max(most, p + slack + (0 if without == "after" else op.does.after))
    work = sum(own for row in rows for _, own in row)
    for ops in block.warps:  # of a product 4 + init for its warpgroup: for each warp a quarter
        for op in ops:
            if isinstance(op.does, Product):
                work += 1 + Fraction(op.init, 4) - op.init
    total = most + (0 if without == "work" else work)
    share = Fraction(0)
    for ops in block.warps:
        asked = [(op.init + op.does.branch_init) for op in ops if isinstance(op.does, Wait)]
        if asked and without != "polls":
            total += (len(asked) + 1) * max(asked)
            share += Fraction(max(asked), block.again)
    if share >= 1:
        raise NotStaticError("polls could take every cycle")
    return Claim(stretches, ceil(total / (1 - share)))


# --- the machine ----------------------------------------------------------------------------------

Choose = Callable[[int], int]
"""Which of so many possibilities; asked only where there are several."""


class DeadlockError(Exception):
    """Nothing will change any more."""


@dataclass
class Run:
    """The end; by how much J1's clock was exceeded at most; who counted in which phase, and which
    phase was counted when a wait was told yes.
    """

    cycles: int = 0
    exceeded: int = -(10**9)
    phases: dict[Node, int] = field(default_factory=dict)
    told: dict[Node, int] = field(default_factory=dict)


@dataclass
class _State:
    """A warp: its next operation; from when it may issue; whether it polls, and what comes next."""

    next: int = 0
    earliest: int = 0
    stretch: int = 0
    polls: bool = False
    told: bool = False
    held: int = 0
    last: int = 0
    joins: bool = False
    takes: int = 0
    ready: dict[int, int] = field(default_factory=dict)


def run(
    block: Block,
    cores: int,
    choose: Choose,
    said: Claim | None = None,
    *,
    shorter: Choose | None = None,
) -> Run:
    """Runs a block. ``shorter`` draws what times are less, below the numbers of the model.

    A wait that fails has its warp wait for the answer, issue a branch, and poll again.
    """
    out = Run()
    warps = [_State() for _ in block.warps]
    phase = [0] * len(block.expects)
    pending, owed = list(block.expects), [0] * len(block.expects)
    free: dict[tuple[int, int], int] = {}
    effects: list[tuple[int, int, int, Count]] = []  # when, warp, operation
    ends: list[int] = [0]
    spent = cycle = quiet = 0
    free_registers, given_up = block.free, list[tuple[int, int]]()  # when, how many

    def times(init: int, lat: int) -> tuple[int, int]:
        if shorter is None:
            return init, lat
        return init - shorter(init), lat - shorter(lat + 1)

    def enter(core: int, unit: int, init: int, lat: int) -> int:
        nonlocal spent
        spent += init
        init, lat = times(init, lat)
        place = (0 if unit == ENGINE else core, unit)
        free[place] = max(cycle, free.get(place, 0)) + init
        ends.append(free[place] + lat)
        return ends[-1]

    while True:
        effects.sort(key=lambda one: (one[0], one[1], one[2]))
        while effects and effects[0][0] <= cycle:
            _, w, n, does = effects.pop(0)
            o = does.name
            out.phases[w, n] = phase[o]
            pending[o] -= does.arrivals
            owed[o] += does.owes - does.brings
            if pending[o] < 0:
                raise DeadlockError
            if pending[o] == owed[o] == 0:
                pending[o] = block.expects[o]
                phase[o] += 1
        free_registers += sum(many for at, many in given_up if at <= cycle)
        given_up = [one for one in given_up if one[0] > cycle]
        asking = [s for s in warps if s.takes]
        while asking:  # whoever comes first
            s = asking.pop(choose(len(asking)) if len(asking) > 1 else 0)
            if s.takes <= free_registers:
                free_registers, s.takes = free_registers - s.takes, 0
                s.earliest = max(s.earliest, cycle + s.held)
        over = all(s.next == len(ops) for s, ops in zip(warps, block.warps, strict=True))
        over &= not any(s.takes for s in warps)
        if over and not effects and max(ends) <= cycle:
            out.cycles = max(ends)
            return out
        if said is not None:
            for s, ops, row in zip(warps, block.warps, said.stretches, strict=True):
                done = s.next == len(ops) and all(s.ready[k] <= cycle for k in s.ready)
                if not s.polls and not done:
                    p, slack = row[s.stretch]
                    out.exceeded = max(out.exceeded, cycle - p - slack - spent)
        issued = False
        for core in range(cores):
            eligible = []
            for w, (s, ops) in enumerate(zip(warps, block.warps, strict=True)):
                if w % cores != core or s.next == len(ops) or s.earliest > cycle or s.joins:
                    continue
                if s.takes:
                    continue
                asks = ops[s.next].does
                if s.polls and not s.told and isinstance(asks, Wait):
                    # held, as long as the phase is not over
                    if cycle < s.held and phase[asks.name] % 2 == asks.parity:
                        continue
                    eligible.append(w)
                elif s.polls or all(s.ready[r] <= cycle for r in ops[s.next].reads):
                    eligible.append(w)
            if not eligible:
                continue
            issued = True
            w = eligible[choose(len(eligible)) if len(eligible) > 1 else 0]
            s, ops = warps[w], block.warps[w]
            op = ops[s.next]
            does = op.does
            if s.polls and s.told:  # the branch back
                assert isinstance(does, Wait)
                enter(core, does.branch_unit, does.branch_init, does.branch_lat)
                s.earliest = cycle + 1 + does.bubble
                s.told = False
                continue
            if isinstance(does, Product):
                spent += 1
                s.joins, first = True, w - w % 4
                four = warps[first : first + 4]
                if all(one.joins for one in four):
                    spent -= 3 * op.init  # each quarter adds it, and it counts once
                    for number, one in enumerate(four):
                        one.ready[one.next] = enter(number, op.unit, op.init, op.lat)
                        one.next, one.earliest, one.joins = one.next + 1, cycle + 1, False
                continue
            end = enter(core, op.unit, op.init, op.lat)
            s.earliest = cycle + 1
            if isinstance(does, Wait):
                if phase[does.name] % 2 == does.parity:  # not yet: the answer, then a branch
                    s.polls = s.told = True
                    s.held, s.earliest = cycle + block.again, end
                    continue
                out.told[w, s.next] = phase[does.name]
                s.polls, s.stretch = False, s.stretch + 1
            if isinstance(does, Give):
                given_up.append((end, does.registers))
            if isinstance(does, Take):
                s.earliest, s.stretch = end, s.stretch + 1
                if does.registers <= free_registers:
                    free_registers -= does.registers
                else:
                    s.takes, s.held = does.registers, sum(times(op.init, op.lat))
            if isinstance(does, Count):
                if does.after or does.behind:
                    last = max([end, *(s.ready[k] for k in does.behind)])
                    at = last + times(1, does.after)[1]
                else:
                    at = s.last = max(s.last, end)
                effects.append((at, w, s.next, does))
                ends.append(at)
            s.ready[s.next] = end
            s.next += 1
        going = issued and any(
            not s.polls and s.next < len(ops) for s, ops in zip(warps, block.warps, strict=True)
        )
        quiet = 0 if going else quiet + 1
        if quiet > 400 + 3 * block.again and not effects:
            raise DeadlockError
        cycle += 1


ENGINE = 99
"""The unit that all sub-cores share."""
