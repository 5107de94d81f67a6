"""Blocks whose warps count at mbarriers and ask for their phases: docs/methods/mbarriers.md alone.

A warp is a tuple of operations. ``run_blocks`` is the machine in plain Python, cycle by cycle, with
warps that really poll, of one block or of several in slots of SMs; who issues, and which slot the
next block comes to, is asked of ``choose``. ``graph_of`` finds the phases of a block by searching
its graph for ways, or says why they are not static; ``claim`` is what J1 says of it, and
``launch_claim`` what is said of a launch. Nothing of the product is in here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor


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
    """A poll for the phase of a parity; behind one that fails comes a branch, then the next, no
    sooner than ``later`` cycles more than the least of the block.
    """

    name: int
    parity: int
    branch_unit: int = 0
    branch_init: int = 1
    branch_lat: int = 0
    bubble: int = 0
    later: int = 0


@dataclass(frozen=True)
class Product:
    """Four neighbours execute it together, on four sub-cores, each of which may be ahead of the
    others (docs/methods/warpgroups.md).
    """


@dataclass(frozen=True)
class Give:
    """Gives up so many registers."""

    registers: int


@dataclass(frozen=True)
class Take:
    """Waits until so many registers are there, and takes them."""

    registers: int


@dataclass(frozen=True)
class Meet:
    """All warps of the block wait here for one another."""


@dataclass(frozen=True)
class Op:
    """Unit, initiation, latency; which operations of its warp it waits for; what it does."""

    unit: int
    init: int
    lat: int
    reads: tuple[int, ...] = ()
    does: Count | Wait | Product | Meet | Give | Take | None = None


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
    """Of each wait its target, and whether all know that to be over when its section begins; of
    each phase of an mbarrier, from 0 on, who counts there.
    """

    target: dict[Node, int] = field(default_factory=dict)
    phases: dict[tuple[int, int], list[Node]] = field(default_factory=dict)
    known: set[Node] = field(default_factory=set)


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
                if isinstance(does, Meet):
                    break
                at[w] += 1
                moved = True
        if not moved and all(at[w] < len(ops) and isinstance(ops[at[w]].does, Meet)
                             for w, ops in enumerate(block.warps)):  # fmt: skip
            at, moved = [one + 1 for one in at], True
        if not moved:
            break
    if any(at[w] < len(ops) for w, ops in enumerate(block.warps)):
        raise NotStaticError("some wait for ever")
    if pending != list(block.expects) or any(owed):
        raise NotStaticError("a phase is not completed")
    return graph


def _meetings(ops: Warp) -> list[int]:
    return [n for n, op in enumerate(ops) if isinstance(op.does, Meet)]


def graph_of(block: Block, *, without: str = "") -> Graph:
    """The phases. Raises NotStaticError; ``without`` leaves out one of the conditions."""
    graph = _counting_order(block)
    followers: dict[object, list[object]] = {}
    opened: dict[Node, object] = {}  # what opens a barrier of the block, by its node
    for w, ops in enumerate(block.warps):
        for n in range(len(ops) - 1):
            followers.setdefault((w, n), []).append((w, n + 1))
        for number, n in enumerate(_meetings(ops)):
            opened[w, n] = ("met", number)
            followers.setdefault((w, n), []).append(("met", number))
            followers.setdefault(("met", number), []).append((w, n + 1))
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

        def is_over(phase: int, w: int = w, n: int = n, name: int = does.name) -> bool:
            """Whether there is a way from the end of a phase to what the warp did before."""
            found = behind.get(("over", name, phase), set())
            return n > 0 and ((w, n - 1) in found or opened.get((w, n - 1)) in found)

        if target >= 1 and not is_over(target - 1) and without != "asked":
            raise NotStaticError("asks for a phase while one of two before may be open")
        after = ("over", does.name, target + 1)
        is_seen = (does.name, target + 1) not in graph.phases or after in reach((w, n))
        if not is_seen and without != "seen":
            raise NotStaticError("the phase after may be over before this one was seen")
        told = behind.get(("over", does.name, target), set())
        is_known = ("met", _section(block, (w, n)) - 1) in told or without == "known"
        if target < 0 or (_between(block, graph, (w, n)) and is_known):
            graph.known.add((w, n))
    return graph


def _section(block: Block, node: Node) -> int:
    return sum(n < node[1] for n in _meetings(block.warps[node[0]]))


def _between(block: Block, graph: Graph, wait: Node) -> bool:
    """Whether a barrier of the block lies between the phase that a wait is for and the wait."""
    does = block.warps[wait[0]][wait[1]].does
    assert isinstance(does, Wait)
    counted = graph.phases.get((does.name, graph.target[wait]), [])
    return all(_section(block, one) < _section(block, wait) for one in counted)


@dataclass
class Claim:
    """P and lambda of each stretch; the bound of a block alone, and what a launch needs to know:
    lambda of the block, its work with one more round a wait, and what share of all cycles its polls
    may take. ``sections`` has all three for each section.
    """

    stretches: list[list[tuple[int, int]]]
    bound: int
    slack: int
    work: Fraction
    share: Fraction
    sections: list[tuple[int, Fraction, Fraction | None]]


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


def cuts_of(ops: Warp) -> list[int]:
    """Where the stretches of a warp begin, and its end."""
    ends = [n + 1 for n, op in enumerate(ops) if isinstance(op.does, Wait | Meet | Take)]
    return [0, *ends, len(ops)]


def claim(block: Block, graph: Graph, *, without: str = "") -> Claim:
    """What J1 says; ``without`` leaves out a part of it."""
    if without == "copies":
        block = replace(block, warps=tuple(map(_without_copies, block.warps)))
    cuts = [cuts_of(ops) for ops in block.warps]
    rows = [
        [_alone(ops, a, b) for a, b in pairwise(cut)]
        for ops, cut in zip(block.warps, cuts, strict=True)
    ]
    if without == "slack":
        rows = [[(0, own) for _, own in row] for row in rows]

    def stretch_of(w: int, n: int) -> int:
        return sum(cut <= n for cut in cuts[w][1:-1])

    known: dict[tuple[int, int], int] = {}
    begins: dict[int, int] = {0: 0}
    gives = [
        (w, n)
        for w, ops in enumerate(block.warps)
        for n, op in enumerate(ops)
        if isinstance(op.does, Give)
    ]

    def counted(v: int, n: int) -> int:
        """When a count has had its effect, at most."""
        tau, done = stretch_of(v, n), block.warps[v][n].does
        assert isinstance(done, Count)
        return start(v, tau) + rows[v][tau][0] + (0 if without == "after" else done.after)

    def begin(section: int) -> int:
        """P behind so many barriers of the block: all before is over."""
        if section not in begins:
            over = [begin(section - 1)]
            for w, cut in enumerate(cuts):
                for n, first in enumerate(cut[:-1]):
                    if _section(block, (w, first)) == section - 1:
                        over.append(start(w, n) + rows[w][n][0])
                for n, op in enumerate(block.warps[w]):
                    if isinstance(op.does, Count) and _section(block, (w, n)) == section - 1:
                        over.append(counted(w, n))
            begins[section] = max(over)
        return begins[section]

    def start(w: int, number: int) -> int:
        if number == 0:
            return 0
        if (w, number) not in known:
            known[w, number] = 0
            waiting = cuts[w][number] - 1
            op = block.warps[w][waiting]
            does = op.does
            if isinstance(does, Meet):
                known[w, number] = begin(_section(block, (w, waiting)) + 1)
                return known[w, number]
            begun = [begin(_section(block, (w, waiting)))]
            if without != "own":
                begun.append(start(w, number - 1) + rows[w][number - 1][0])
            if isinstance(does, Take):
                for v, n in () if without == "registers" else gives:
                    tau = stretch_of(v, n)
                    over = start(v, tau) + rows[v][tau][0]
                    if _section(block, (v, n)) < _section(block, (w, waiting)):
                        over = begun[0]
                    begun.append(over + op.init + op.lat)
                known[w, number] = max(begun)
                return known[w, number]
            assert isinstance(does, Wait)
            again = 2 * (op.init + op.lat) + does.branch_init + does.branch_lat + does.bubble
            if without == "round":
                again = 0
            for v, n in graph.phases.get((does.name, graph.target[w, waiting]), ()):
                if without == "others" or (w, waiting) in graph.known:
                    continue
                over = counted(v, n)
                if _section(block, (v, n)) < _section(block, (w, waiting)):
                    over = begun[0]
                begun.append(over + again)
            known[w, number] = max(begun)
        return known[w, number]

    stretches = [
        [(start(w, n), slack) for n, (slack, _) in enumerate(row)] for w, row in enumerate(rows)
    ]
    sections: list[tuple[int, Fraction, Fraction | None]] = []
    for section in range(1 + len(_meetings(block.warps[0])) if block.warps else 1):
        work, share = Fraction(0), None
        for ops in block.warps:
            met = _meetings(ops)
            own = [op for n, op in enumerate(ops) if sum(one < n for one in met) == section]
            if without != "work":
                work += sum(op.init for op in own)
                work += sum(isinstance(op.does, Product) for op in own)  # slots beside initiations
            asked = [op.init + op.does.branch_init for op in own if isinstance(op.does, Wait)]
            if any(isinstance(op.does, Wait | Count | Give | Take) for op in own):
                share = share or Fraction(0)
            if asked and without != "polls":
                work += (len(asked) + 1) * max(asked)
                rates = [op.does.later for op in own if isinstance(op.does, Wait)]
                share = (share or Fraction(0)) + Fraction(max(asked), block.again + min(rates))
        sections.append((begin(section + 1) - begin(section), work, share))
    share = max((one for _, _, one in sections if one is not None), default=Fraction(0))
    if share >= 1:
        raise NotStaticError("polls could take every cycle")
    slack = sum(one for one, _, _ in sections)
    work = sum((one for _, one, _ in sections), Fraction(0))
    bound = ceil((slack + work) / (1 - share))
    if without == "sections":
        bound = sum(ceil((waits + more) / (1 - (own or 0))) for waits, more, own in sections)
    return Claim(stretches, bound, slack, work, share, sections)


@dataclass(frozen=True)
class Machine:
    """SMs with slots and sub-cores, which have units of their own but for the engine."""

    cores: int = 1
    slots: int = 1
    sms: int = 1


def launch_claim(blocks: Sequence[Claim], machine: Machine, *, without: str = "") -> int:
    """G2 and G3 with polls: the least form, form by form. Raises NotStaticError."""
    count, slots, sms = len(blocks), machine.slots, machine.sms
    together = min(slots, count)
    slack = sorted((one.slack for one in blocks), reverse=True)
    work = sorted((one.work for one in blocks), reverse=True)
    shares = sorted((one.share for one in blocks), reverse=True)
    share = sum(shares[: 1 if without == "residents" else together], Fraction(0))
    if without == "share":
        share = Fraction(0)
    if share >= 1:
        raise NotStaticError("polls could take every cycle")

    def end(n: int) -> Fraction:
        return sum(work[:n], Fraction(sum(slack[: -(-n // slots)])))

    def start(n: int) -> Fraction:
        passed = n // slots
        if not passed:
            return Fraction(0)
        return sum(work[:n], Fraction(sum(slack[:passed])))

    if sms == 1:
        return ceil(end(count) / (1 - share))
    tail = Fraction(slack[0])
    if without != "tail":
        tail += ceil(sum(work[:together]) / (1 - share))
    split = max(min(end(n + 1), start((count - 1 - n) // (sms - 1)) + tail) for n in range(count))
    mean = sum(work, Fraction(0)) + (sms - 1) * tail + sum(slack[: -(-count // slots)])
    least = min(start((count - 1) // sms) + tail, split, floor(mean / sms))
    return ceil(least / (1 - share))


# --- the machine ----------------------------------------------------------------------------------

Choose = Callable[[int], int]
"""Which of so many possibilities; asked only where there are several."""


class DeadlockError(Exception):
    """Nothing will change any more."""


@dataclass
class Run:
    """The end; by how much J1's clock was exceeded at most, and that of the tail; who counted in
    which phase, and which phase was counted when a wait was told yes, by block, warp, operation.
    """

    cycles: int = 0
    exceeded: int = -(10**9)
    tail_exceeded: int = -(10**9)
    phases: dict[tuple[int, int, int], int] = field(default_factory=dict)
    told: dict[tuple[int, int, int], int] = field(default_factory=dict)


@dataclass
class _State:
    """A warp: its next operation; from when it may issue; whether it polls, and what comes next."""

    core: int
    next: int = 0
    earliest: int = 0
    stretch: int = 0
    polls: bool = False
    told: bool = False
    held: int = 0
    last: int = 0
    meets: bool = False
    takes: int = 0
    products: list[int] = field(default_factory=list)
    entered: dict[int, int] = field(default_factory=dict)
    ready: dict[int, int] = field(default_factory=dict)


@dataclass
class _Resident:
    """A block in a slot: its warps and mbarriers; what it was charged, in rounds and else."""

    index: int
    block: Block
    warps: list[_State]
    phase: list[int]
    pending: list[int]
    owed: list[int]
    effects: list[tuple[int, int, int, Count]] = field(default_factory=list)  # when, warp, op
    end: int = 0
    worked: int = 0
    rounds: int = 0
    given_up: list[tuple[int, int]] = field(default_factory=list)  # when, how many registers
    registers: int = 0

    def is_over(self, cycle: int) -> bool:
        ended = all(s.next == len(ops) for s, ops in zip(self.warps, self.block.warps, strict=True))
        ended &= not any(s.takes for s in self.warps)
        return ended and not self.effects and self.end <= cycle

    def hand_over(self, cycle: int, choose: Choose) -> None:
        """Registers that are there by now are for whoever waits for them, in any order."""
        self.registers += sum(many for at, many in self.given_up if at <= cycle)
        self.given_up = [one for one in self.given_up if one[0] > cycle]
        asking = [s for s in self.warps if s.takes]
        while asking:
            s = asking.pop(choose(len(asking)) if len(asking) > 1 else 0)
            if s.takes <= self.registers:
                self.registers, s.takes = self.registers - s.takes, 0
                s.earliest = max(s.earliest, cycle + s.held)

    def count(self, cycle: int, out: Run) -> None:
        """What takes effect by now."""
        self.effects.sort(key=lambda one: one[:3])
        while self.effects and self.effects[0][0] <= cycle:
            _, w, n, does = self.effects.pop(0)
            o = does.name
            out.phases[self.index, w, n] = self.phase[o]
            self.pending[o] -= does.arrivals
            self.owed[o] += does.owes - does.brings
            if self.pending[o] < 0:
                raise DeadlockError
            if self.pending[o] == self.owed[o] == 0:
                self.pending[o] = self.block.expects[o]
                self.phase[o] += 1

    def may_issue(self, w: int, cycle: int) -> bool:
        s, ops = self.warps[w], self.block.warps[w]
        if s.next == len(ops) or s.earliest > cycle or s.meets or s.takes:
            return False
        asks = ops[s.next].does
        if s.polls and not s.told and isinstance(asks, Wait):  # held, while the phase is not over
            return cycle >= s.held or self.phase[asks.name] % 2 != asks.parity
        return s.polls or all(s.ready[r] <= cycle for r in ops[s.next].reads)


class _Clocks:
    """The claims in each cycle, of each block in its slot, and behind the last start."""

    def __init__(self, said: Sequence[Claim], machine: Machine, out: Run, without: str) -> None:
        self.said, self.out, self.without = said, out, without
        self.passed = [0] * machine.slots * machine.sms  # lambda of the blocks ended in a slot
        self.last_start = -1
        self.before: dict[int, int] = {}  # rounds of a block before the last start
        self.piles: dict[int, int] = {}  # of each SM
        self.ended: dict[int, int] = {}  # what blocks were charged that ended behind that

    def start_tail(self, cycle: int, slots: _Slots, queues: _Queues) -> None:
        """The last block starts. A pile: rounds that are in one queue then."""
        self.last_start = cycle
        for sm, held in slots:
            self.piles.setdefault(sm, 0)
            self.before.update({one.index: one.rounds for one in held})
        for (sm, _, _), items in queues.items():
            pile = sum(init for end, init, is_round in items if is_round and end > cycle)
            self.piles[sm] = max(self.piles[sm], pile)

    def look(self, cycle: int, slots: _Slots, spent: Sequence[int]) -> None:
        """All claims at the begin of a cycle, of all that is not over."""
        tails = self._tails(slots) if self.last_start >= 0 else {}
        for number, (sm, held) in enumerate(slots):
            for one in held:
                for slack in self._open(cycle, one):
                    over = cycle - self.passed[number] - slack - spent[sm]
                    self.out.exceeded = max(self.out.exceeded, over)
                    if tails:
                        over = cycle - self.last_start - slack - tails[sm]
                        self.out.tail_exceeded = max(self.out.tail_exceeded, over)

    def _open(self, cycle: int, one: _Resident) -> Iterator[int]:
        """P + lambda, and what a copy takes behind that, of all that is not over."""
        stretches = self.said[one.index].stretches
        for s, ops, row in zip(one.warps, one.block.warps, stretches, strict=True):
            if s.polls:
                asks = ops[s.next].does
                if isinstance(asks, Wait) and one.phase[asks.name] % 2 != asks.parity:
                    yield sum(row[s.stretch + 1])
            elif not s.meets and (s.next < len(ops) or any(at > cycle for at in s.ready.values())):
                yield sum(row[s.stretch])
        for _, w, n, does in one.effects:
            tau = sum(cut <= n for cut in cuts_of(one.block.warps[w])[1:-1])
            yield sum(stretches[w][tau]) + (0 if self.without == "after" else does.after)

    def _tails(self, slots: _Slots) -> dict[int, int]:
        """Of each SM, what it has been charged of the blocks that are there at the last start."""
        tails = {sm: self.ended.get(sm, 0) for sm in self.piles}
        for sm, held in slots:
            tails[sm] += sum(one.worked + one.rounds - self.before[one.index] for one in held)
        if self.without != "pile":
            tails = {sm: charged + self.piles[sm] for sm, charged in tails.items()}
        return tails

    def end(self, number: int, sm: int, one: _Resident) -> None:
        """A block ends; in the tail its work still counts."""
        self.passed[number] += self.said[one.index].slack
        if self.last_start >= 0:
            more = one.worked + one.rounds - self.before[one.index]
            self.ended[sm] = self.ended.get(sm, 0) + more


_Slots = list[tuple[int, list[_Resident]]]
_Queues = dict[tuple[int, int, int], list[tuple[int, int, bool]]]


def run_blocks(
    blocks: Sequence[Block],
    machine: Machine,
    choose: Choose,
    said: Sequence[Claim] = (),
    *,
    shorter: Choose | None = None,
    without: str = "",
) -> Run:
    """Runs blocks, which start in their order as slots are free. ``shorter`` draws what times are
    less, below the numbers of the model.

    A wait that fails has its warp wait for the answer, issue a branch, and poll again.
    """
    out = Run()
    clocks = _Clocks(said, machine, out, without) if said else None
    slots: _Slots = [(sm, []) for sm in range(machine.sms) for _ in range(machine.slots)]
    queues: _Queues = {}  # of what has been issued there: when it ends, its charge
    spent = [0] * machine.sms
    started = cycle = quiet = 0
    products = any(isinstance(op.does, Product) for b in blocks for ops in b.warps for op in ops)
    whole = products and bool(choose(2))  # results are there when all four quarters are done

    def times(init: int, lat: int) -> tuple[int, int]:
        if shorter is None:
            return init, lat
        return init - shorter(init), lat - shorter(lat + 1)

    def enter(sm: int, one: _Resident, core: int, op: tuple[int, int, int], is_round: bool) -> int:
        unit, charge, lat = op
        init, lat = times(charge, lat)
        queue = queues.setdefault((sm, 0 if unit == ENGINE else core, unit), [])
        freed = max([cycle, *(end for end, _, _ in queue[-1:])]) + init
        queue.append((freed, charge, is_round))
        one.end = max(one.end, freed + lat)
        return freed + lat

    def charge(sm: int, one: _Resident, cycles: int, is_round: bool) -> None:
        spent[sm] += cycles
        one.worked += 0 if is_round else cycles
        one.rounds += cycles if is_round else 0

    while True:
        for number, (sm, held) in enumerate(slots):
            for one in held:
                one.count(cycle, out)
                one.hand_over(cycle, choose)
            if held and held[0].is_over(cycle):
                out.cycles = max(out.cycles, cycle)
                if clocks is not None:
                    clocks.end(number, sm, held[0])
                held.clear()
        while started < len(blocks):
            free = [number for number, (_, held) in enumerate(slots) if not held]
            if not free:
                break
            number = free[choose(len(free)) if len(free) > 1 else 0]
            block = blocks[started]
            warps = [
                _State((n + number * len(block.warps)) % machine.cores, earliest=cycle)
                for n in range(len(block.warps))
            ]
            new = _Resident(started, block, warps, [0] * len(block.expects), list(block.expects),
                            [0] * len(block.expects), end=cycle, registers=block.free)  # fmt: skip
            slots[number][1].append(new)
            started += 1
            if started == len(blocks) and clocks is not None:
                clocks.start_tail(cycle, slots, queues)
        if started == len(blocks) and not any(held for _, held in slots):
            return out
        if clocks is not None:
            clocks.look(cycle, slots, spent)
        issued = going = False
        for sm in range(machine.sms):
            resident = [held[0] for at, held in slots if at == sm and held]
            turn = choose(machine.cores) if machine.cores > 1 and products else 0
            for place in range(machine.cores):  # whose request comes first to what they share
                core = (turn + place) % machine.cores
                eligible = [
                    (one, w)
                    for one in resident
                    for w, s in enumerate(one.warps)
                    if s.core == core and one.may_issue(w, cycle)
                ]
                if not eligible:
                    continue
                issued = True
                one, w = eligible[choose(len(eligible)) if len(eligible) > 1 else 0]
                s, ops = one.warps[w], one.block.warps[w]
                op = ops[s.next]
                does = op.does
                if s.polls and s.told:  # the branch back
                    assert isinstance(does, Wait)
                    branch = does.branch_unit, does.branch_init, does.branch_lat
                    charge(sm, one, does.branch_init, True)
                    enter(sm, one, core, branch, True)
                    s.earliest = cycle + 1 + does.bubble
                    s.told = False
                    continue
                if isinstance(does, Product):
                    charge(sm, one, 1, False)
                    number, first = len(s.products), w - w % 4
                    s.products.append(s.next)
                    s.ready[s.next], s.next, s.earliest = 10**9, s.next + 1, cycle + 1
                    four = one.warps[first : first + 4]
                    is_last = all(len(each.products) > number for each in four)
                    # its quarter comes to the unit now, or with a later one, or with the last
                    come = [each for each in four if len(each.products) > number]
                    for each in come if is_last else [each for each in come if choose(2)]:
                        for n in [n for n in each.products[: number + 1] if n not in each.entered]:
                            op = one.block.warps[w][n]
                            charge(sm, one, op.init, False)
                            of = op.unit, op.init, op.lat
                            each.entered[n] = enter(sm, one, each.core, of, False)
                            ends = [other.entered.get(n, 10**9) for other in four]
                            if not whole:
                                each.ready[n] = each.entered[n]
                            elif max(ends) < 10**9:
                                for other in four:
                                    other.ready[n] = max(ends)
                    continue
                charge(sm, one, op.init, s.polls)
                end = enter(sm, one, core, (op.unit, op.init, op.lat), s.polls)
                s.earliest = cycle + 1
                if isinstance(does, Wait):
                    if one.phase[does.name] % 2 == does.parity:  # not yet: the answer, a branch
                        s.polls = s.told = True
                        s.held, s.earliest = cycle + one.block.again + does.later, end
                        continue
                    out.told[one.index, w, s.next] = one.phase[does.name]
                    s.polls, s.stretch = False, s.stretch + 1
                if isinstance(does, Give):
                    one.given_up.append((end, does.registers))
                if isinstance(does, Take):
                    s.earliest, s.stretch = end, s.stretch + 1
                    if does.registers <= one.registers:
                        one.registers -= does.registers
                    else:
                        s.takes, s.held = does.registers, sum(times(op.init, op.lat))
                if isinstance(does, Count):
                    if does.after or does.behind:
                        last = max([end, *(s.ready[k] for k in does.behind)])
                        at = last + times(1, does.after)[1]
                    else:
                        at = s.last = max(s.last, end)
                    one.effects.append((at, w, s.next, does))
                    one.end = max(one.end, at)
                s.ready[s.next] = end
                s.next += 1
                if isinstance(does, Meet):
                    s.meets, s.stretch = True, s.stretch + 1
                    if all(each.meets for each in one.warps):
                        for each in one.warps:
                            each.meets, each.earliest = False, cycle + 1
            going |= any(
                not s.polls and not s.meets and s.next < len(ops)
                for one in resident
                for s, ops in zip(one.warps, one.block.warps, strict=True)
            )
        quiet = 0 if issued and going else quiet + 1
        if quiet > 600 + 3 * max(one.again for one in blocks) and not any(
            one.effects or one.end > cycle for _, held in slots for one in held
        ):
            raise DeadlockError
        cycle += 1


ENGINE = 99
"""The unit that all sub-cores share."""
