"""Compiles warp programs to integer tuples for the profile engine, with the dependences of loops.

Registers and units become indices. Two sets are computed for every loop, which make its closed form
possible (docs/methods/phases.md):

* its *carried registers*: those whose ready time before an iteration can change an issue in it or
  in a later one (liveness over the cyclic body; a conditional write does not end a life);
* its *coupled units*: those on which some instruction writes a register that a later instruction
  of the loop waits for. The queue of any other unit (a *free-running* unit) never delays an issue
  of the loop, and may grow without limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ptxwcet.support.records import dataclass
from ptxwcet.timing.demand import NO_PRICES, Prices
from ptxwcet.warp.program import (
    BlockChoice,
    BlockRepeat,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    Tally,
    TimedInstruction,
    Unordered,
)
from ptxwcet.warp.structure import issued

Step = tuple[tuple[int, ...], tuple[int, ...], int, int, int, bool, int]
"""Awaited registers, written registers, unit, init, init + lat, conditional, 1 + bubble."""


@dataclass(frozen=True, slots=True)
class Straight:
    """A run of instructions without control; ``exposed`` and ``killed`` summarise it for liveness.

    ``origins`` names the kernel's instruction of each step.
    """

    steps: tuple[Step, ...]
    exposed: frozenset[int]
    killed: frozenset[int]
    origins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A repeat; ``demand`` maps each unit to the largest total initiation of one body.

    ``credited``: it contains a credit. ``credit`` is the least credit of a body; ``demand`` is less
    the further credit of the path. ``drains``: the machine stops in it, so that the latest end of
    all instructions counts. ``exposed`` and ``killed`` summarise one body for liveness.
    """

    count: int
    least: int
    body: tuple[Compiled, ...]
    carried_registers: tuple[int, ...]
    coupled_units: tuple[int, ...]
    free_units: tuple[int, ...]
    demand: dict[int, int]
    credit: int
    credited: bool
    drains: bool
    exposed: frozenset[int]
    killed: frozenset[int]


@dataclass(frozen=True, slots=True)
class BothOrders:
    """Two sides executed in either order.

    ``effort`` is roughly the number of instructions executed for it. ``drains``: both orders are
    not examined, because that would double with each nest; instead each side is executed from a
    clean machine until the machine is clean again.
    """

    first: tuple[Compiled, ...]
    second: tuple[Compiled, ...]
    effort: int
    drains: bool


@dataclass(frozen=True, slots=True)
class OneOf:
    """A choice of one among several alternatives."""

    alternatives: tuple[tuple[Compiled, ...], ...]


@dataclass(frozen=True, slots=True)
class Credit:
    """The passing of a tally that costs ``cycles``: from here on all times count as earlier."""

    cycles: int


Compiled = Straight | Loop | BothOrders | OneOf | Credit


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A compiled body, with the registers and units that it names."""

    body: tuple[Compiled, ...]
    registers: tuple[str, ...]
    units: tuple[str, ...]

    @property
    def steps(self) -> Iterator[Step]:
        """All instructions of all paths. Cost: linear in the tree."""
        return _steps_of(self.body)


def compile_body(
    body: Sequence[Node], scoreboard: Scoreboard, prices: Prices = NO_PRICES
) -> CompiledProgram:
    """Compiles a body for a scoreboard. Cost: linear in the tree, times its loop depth."""
    compiler = _Compiler(scoreboard, prices)
    nodes = compiler.compile(body)
    return CompiledProgram(nodes, tuple(compiler.registers), tuple(compiler.units))


def _steps_of(body: Sequence[Compiled]) -> Iterator[Step]:
    for node in body:
        match node:
            case Straight(steps):
                yield from steps
            case Loop(body=inner):
                yield from _steps_of(inner)
            case BothOrders(first, second):
                yield from _steps_of((*first, *second))
            case OneOf(alternatives):
                for side in alternatives:
                    yield from _steps_of(side)


def charged(body: Sequence[Compiled]) -> tuple[Compiled, ...]:
    """Returns the body with a credit after each run of instructions, of their initiations."""
    out: list[Compiled] = []
    for node in body:
        match node:
            case Loop():
                inner = charged(node.body)
                credit, demand = _demand(inner)
                credited = _has_credit(inner)
                out.append(
                    replace(node, body=inner, demand=demand, credit=credit, credited=credited)
                )
            case BothOrders(first, second):
                out.append(replace(node, first=charged(first), second=charged(second)))
            case OneOf(alternatives):
                out.append(OneOf(tuple(map(charged, alternatives))))
            case Straight(steps):
                initiations = sum([step[3] for step in steps])
                out += [node, Credit(initiations)] if initiations else [node]
            case Credit():
                out.append(node)
    return tuple(out)


class _Compiler:
    def __init__(self, scoreboard: Scoreboard, prices: Prices) -> None:
        self.registers: dict[str, int] = {}
        self.units: dict[str, int] = {}
        self._prices = prices
        self._waits_for_writes = scoreboard is Scoreboard.RAW_WAW

    def compile(self, body: Sequence[Node]) -> tuple[Compiled, ...]:
        out: list[Compiled] = []
        steps: list[Step] = []
        origins: list[int] = []
        for node in body:
            own = issued(node)
            if own is not None:
                steps.append(self._step(own))
                origins.append(own.origin)
                continue
            if isinstance(node, Tally) and not self._prices.get(node.key):
                continue
            if steps:
                out.append(_straight(steps, origins))
                steps, origins = [], []
            match node:
                case Repeat() | BlockRepeat():
                    if node.count:
                        out.append(_loop(node.count, node.least, self.compile(node.body)))
                case Unordered(has_others=True):
                    out.append(BothOrders((), (), 0, drains=True))
                case Unordered(first, second):
                    out.append(_both_orders(self.compile(first), self.compile(second)))
                case Choice(alternatives) | BlockChoice(alternatives=alternatives):
                    out.append(OneOf(tuple(self.compile(side) for side in alternatives)))
                case Tally(key):
                    out.append(Credit(self._prices[key]))
        if steps:
            out.append(_straight(steps, origins))
        return tuple(out)

    def _step(self, instruction: TimedInstruction) -> Step:
        registers = self.registers
        waits = instruction.reads
        if self._waits_for_writes and instruction.writes:
            waits = tuple(dict.fromkeys((*waits, *instruction.writes)))
        initiation = instruction.initiation_cycles
        return (
            tuple([registers.setdefault(name, len(registers)) for name in waits]),
            tuple([registers.setdefault(name, len(registers)) for name in instruction.writes]),
            self.units.setdefault(instruction.unit, len(self.units)),
            initiation,
            initiation + instruction.latency_cycles,
            instruction.conditional,
            1 + instruction.bubble_cycles,
        )


_MOST_ORDERED = 250_000
"""The most instructions that are executed for both orders of two sides."""


def _both_orders(first: tuple[Compiled, ...], second: tuple[Compiled, ...]) -> BothOrders:
    short, long = sorted((effort_of(first), effort_of(second)))
    effort = 2 * (short + long)
    drains = effort > _MOST_ORDERED
    return BothOrders(first, second, 2 * short + long if drains else effort, drains)


_ITERATIONS = 4
"""The rough number of executions of a loop body until it repeats itself."""


def effort_of(body: Sequence[Compiled]) -> int:
    """Returns roughly the number of instructions that the engine executes for a body."""
    total = 0
    for node in body:
        match node:
            case Straight(steps):
                total += len(steps)
            case Loop(count=count, body=inner):
                total += min(count, _ITERATIONS) * effort_of(inner)
            case BothOrders(effort=effort):
                total += effort
            case OneOf(alternatives):
                total += sum(map(effort_of, alternatives))
            case Credit():
                pass
    return total


def _straight(steps: list[Step], origins: list[int]) -> Straight:
    exposed: set[int] = set()
    killed: set[int] = set()
    for waits, writes, _unit, _init, _total, conditional, _advance in steps:
        exposed.update([register for register in waits if register not in killed])
        if not conditional:
            killed.update(writes)
    return Straight(tuple(steps), frozenset(exposed), frozenset(killed), tuple(origins))


def _loop(count: int, least: int, body: tuple[Compiled, ...]) -> Loop:
    carried, killed = _effect(body)
    coupled: set[int] = set()
    _couple(body, carried, coupled)
    credit, demand = _demand(body)
    drains = _drains(body)
    if drains:
        coupled |= demand.keys()
    return Loop(
        count,
        least,
        body,
        tuple(sorted(carried)),
        tuple(sorted(coupled & demand.keys())),
        tuple(sorted(demand.keys() - coupled)),
        demand,
        credit,
        _has_credit(body),
        drains,
        carried,
        killed,
    )


def _drains(body: Sequence[Compiled]) -> bool:
    for node in body:
        match node:
            case Loop(drains=True) | BothOrders(drains=True):
                return True
            case BothOrders(first, second) if _drains((*first, *second)):
                return True
            case OneOf(alternatives) if any(map(_drains, alternatives)):
                return True
            case _:
                pass
    return False


def _has_credit(body: Sequence[Compiled]) -> bool:
    for node in body:
        match node:
            case Credit() | Loop(credited=True):
                return True
            case BothOrders(first, second) if _has_credit((*first, *second)):
                return True
            case OneOf(alternatives) if any(_has_credit(side) for side in alternatives):
                return True
            case _:
                pass
    return False


# --- liveness: which ready times can still delay an issue -----------------------------------------


def _effect(body: Sequence[Compiled]) -> tuple[frozenset[int], frozenset[int]]:
    """Returns the registers that a body reads first, and the ones that it surely writes. Live
    before it are ``exposed | live - killed``.
    """
    exposed, killed = frozenset[int](), frozenset[int]()
    for node in reversed(body):
        before, written = _effect_of(node)
        exposed, killed = before | (exposed - written), killed | written
    return exposed, killed


def _effect_of(node: Compiled) -> tuple[frozenset[int], frozenset[int]]:
    """Returns the :func:`_effect` of a node. More iterations expose nothing more than one."""
    match node:
        case Straight(_, exposed, killed):
            return exposed, killed
        case Loop(exposed=exposed, killed=killed, least=least):
            return exposed, killed if least else frozenset()
        case BothOrders(first, second):
            (exposed, killed), (other, written) = _effect(first), _effect(second)
            return exposed | other, killed | written
        case OneOf(alternatives) if alternatives:
            effects = [_effect(side) for side in alternatives]
            exposed = frozenset[int]().union(*(reads for reads, _ in effects))
            return exposed, frozenset[int].intersection(*(writes for _, writes in effects))
        case _:
            return frozenset(), frozenset()


def _live_before(body: Sequence[Compiled], live: frozenset[int]) -> frozenset[int]:
    exposed, killed = _effect(body)
    return exposed | (live - killed)


def _couple(body: Sequence[Compiled], live: frozenset[int], coupled: set[int]) -> None:
    """Adds the units on which a register is written that is live afterwards."""
    for node in reversed(body):
        match node:
            case Straight(steps):
                _couple_steps(steps, live, coupled)
            case Loop():
                again = frozenset() if node.count == 1 else node.exposed
                _couple(node.body, live | again, coupled)
            case BothOrders(first, second):
                _couple(first, live | _live_before(second, live), coupled)
                _couple(second, live | _live_before(first, live), coupled)
            case OneOf(alternatives):
                for side in alternatives:
                    _couple(side, live, coupled)
        live = _live_before((node,), live)


def _couple_steps(steps: Sequence[Step], after: frozenset[int], coupled: set[int]) -> None:
    live = set(after)
    for waits, writes, unit, _init, _total, conditional, _advance in reversed(steps):
        if unit not in coupled and not live.isdisjoint(writes):
            coupled.add(unit)
        if not conditional:
            live.difference_update(writes)
        live.update(waits)


def _demand(body: Sequence[Compiled]) -> tuple[int, dict[int, int]]:
    """Returns the least credit of a body, and for each unit the largest growth of its queue.

    The growth is the largest total initiation on the unit, less the credit of that path beyond the
    least credit.
    """
    credit = 0
    grown: dict[int, int] = {}  # initiations of a path less its credit
    for node in body:
        own, units = _demand_of(node)
        for unit in grown.keys() | units.keys():
            grown[unit] = grown.get(unit, -credit) + units.get(unit, -own)
        credit += own
    return credit, {unit: cycles + credit for unit, cycles in grown.items()}


def _demand_of(node: Compiled) -> tuple[int, dict[int, int]]:
    """Returns the least credit of a node, and for each unit the most initiations less credit."""
    match node:
        case Straight(steps):
            demand: dict[int, int] = {}
            for step in steps:
                demand[step[2]] = demand.get(step[2], 0) + step[3]
            return 0, demand
        case Loop(count=count, least=least, demand=demand, credit=credit):
            net = {unit: cycles - credit for unit, cycles in demand.items()}
            return credit and least * credit, {
                unit: (count if cycles >= 0 else least) * cycles for unit, cycles in net.items()
            }
        case BothOrders(first, second):
            return _net((*first, *second))
        case OneOf(alternatives):
            sides = [_net(side) for side in alternatives] or [(0, {})]
            units = set[int]().union(*(side for _, side in sides))
            return min(credit for credit, _ in sides), {
                unit: max(side.get(unit, -credit) for credit, side in sides) for unit in units
            }
        case Credit(cycles):
            return cycles, {}


def _net(body: Sequence[Compiled]) -> tuple[int, dict[int, int]]:
    credit, demand = _demand(body)
    return credit, {unit: cycles - credit for unit, cycles in demand.items()}
