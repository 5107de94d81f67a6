"""The exact worst case of a small block over all work-conserving schedules.

Forward dynamic programming over joint states (:mod:`ptxwcet.simulator.exhaustive_core`). For each
state the latest cycle suffices, and the worst makespan is the latest end of any instruction
on any transition. It knows the model's machine and nothing of the bounds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptxwcet.simulator.configuration import SmConfiguration, require_simple
from ptxwcet.simulator.exhaustive_core import (
    DEADLOCK,
    OVER_CAP,
    Block,
    Found,
    Shape,
    StateVector,
    replay,
    search,
)
from ptxwcet.simulator.image import Image, build_image
from ptxwcet.simulator.parts import (
    CONDITIONAL,
    END,
    ENDED,
    KIND,
    PHASE,
    ROW,
    RUNNING,
    WAITS_BEGIN,
    WAITS_END,
    WARP_COLUMNS,
    WRITES_BEGIN,
    WRITES_END,
    Integers,
)
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    PartialBarrier,
    Repeat,
    TimedInstruction,
    WarpProgram,
    unroll,
)

DEFAULT_CAP = 2_000_000
"""States before a search is given up: a few hundred megabytes."""

# Instructions of all warps together: loops are unrolled, and states count their issues.
_MOST_INSTRUCTIONS = 100_000


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The longest work-conserving schedule of a block.

    ``states`` were explored. ``schedule`` lists the warps in issue order, those of one cycle in the
    order of their sub-cores: a witness that takes ``cycles``.
    """

    cycles: int
    states: int
    schedule: tuple[int, ...]


def search_worst(
    workload: BlockWorkload,
    configuration: SmConfiguration,
    *,
    most_states: int = DEFAULT_CAP,
    symmetry: bool = True,
) -> WorstCase:
    """Explores every work-conserving schedule of a block.

    ``symmetry`` False keeps apart the states that differ by an exchange of equal warps; for tests.
    Raises ValueError if a program is not a single path, PtxwcetError PW532 if some schedule
    deadlocks and PW534 above the cap. Cost: exponential in the number of warps at worst.
    """
    instructions = sum(len(c.warps) * _length(c.program.body) for c in workload.classes)
    if instructions > _MOST_INSTRUCTIONS:
        raise PtxwcetError(_too_many(f"{instructions:,} instructions have to be scheduled"))
    block, start = _prepare(workload, configuration, symmetry=symmetry)
    result, before, choices = search(block, start, instructions, most_states)
    outcome = Found(*result)
    if outcome.status == OVER_CAP:
        raise PtxwcetError(_too_many(f"more than {most_states:,} states"))
    if outcome.status == DEADLOCK:
        raise PtxwcetError(
            Diagnostic(
                "PW532",
                "deadlock: in some schedule, every warp that has not ended waits at a barrier",
                help="all warps must meet the same barriers",
            )
        )
    schedule = np.zeros(instructions, np.int64)
    count = replay(block, start, _way(outcome, before, choices), schedule)
    return WorstCase(outcome.cycles, outcome.states, tuple(schedule[:count].tolist()))


def _length(body: tuple[Node, ...]) -> int:
    """Instructions that a single path executes. Cost: linear in the tree."""
    total = 0
    for node in body:
        match node:
            case TimedInstruction() | Barrier() | PartialBarrier():
                total += 1
            case Repeat(count=count, body=inner) if node.exact:
                total += count * _length(inner)
            case _:
                raise ValueError("only a single known path can be searched")
    return total


def _way(found: Found, before: Integers, choices: Integers) -> Integers:
    """The choices from the start to the transition that ends last."""
    way: list[int] = []
    state, choice = int(found.last_state), int(found.last_choice)
    while state >= 0:
        way.append(choice)
        state, choice = int(before[state]), int(choices[state])
    return np.array(way[::-1], np.int64)


def _prepare(
    workload: BlockWorkload, configuration: SmConfiguration, *, symmetry: bool
) -> tuple[Block, StateVector]:
    """The block as arrays, and the state before the first issue."""
    image = build_image(_unrolled(workload), configuration)
    warps, cores = workload.warp_count, configuration.schedulers
    kinds = [0] * warps
    for number, warp_class in enumerate(workload.classes):
        for warp in warp_class.warps:
            kinds[warp] = number
    core = [warp % cores for warp in range(warps)]
    group = [kinds[w] * cores + core[w] if symmetry else w for w in range(warps)]
    per_warp = WARP_COLUMNS + image.register_count
    queues, most_servers = len(image.servers), int(image.servers.max())
    barriers = len(image.barrier_names)
    shape = Shape(
        warps=warps,
        cores=cores,
        per_warp=per_warp,
        registers=image.register_count,
        queues=queues,
        most_servers=most_servers,
        barriers=barriers,
        wide=bool(image.wide.any()),
        width=warps * per_warp + queues * most_servers + barriers,
    )
    block = Block(
        image.code,
        image.registers,
        *_liveness(image),
        np.array(core, np.int64),
        np.array(group, np.int64),
        image.queue_of,
        image.servers,
        image.wide,
        shape,
    )
    vec = np.zeros(shape.width, np.int32)
    table = vec[: warps * per_warp].reshape(warps, per_warp)
    table[:, ROW] = image.starts
    table[:, PHASE] = np.where(image.code[image.starts, KIND] == END, ENDED, RUNNING)
    return block, vec


def _unrolled(workload: BlockWorkload) -> BlockWorkload:
    """The workload without loops. Raises PtxwcetError (PW504, PW547, PW548)."""
    classes = []
    for warp_class in workload.classes:
        body = tuple(unroll(warp_class.program.body))
        for node in body:
            require_simple(node)
        classes.append(replace(warp_class, program=WarpProgram(body)))
    return replace(workload, classes=tuple(classes))


def _liveness(image: Image) -> tuple[Integers, Integers]:
    """Which registers' times still matter at each row; see :class:`Block`."""
    code, operands, registers = image.code, image.registers, image.register_count
    live = np.zeros((len(code), registers), np.int64)
    awaited = np.zeros((len(code), registers), np.int64)
    after = np.zeros(registers, np.int64)  # matters before the row that follows
    for at in range(len(code) - 1, -1, -1):
        if code[at, KIND] == END:
            after = np.zeros(registers, np.int64)
            continue
        before = after.copy()
        if not code[at, CONDITIONAL]:
            before[operands[code[at, WRITES_BEGIN] : code[at, WRITES_END]]] = 0
        live[at] = before
        awaited[at, operands[code[at, WAITS_BEGIN] : code[at, WAITS_END]]] = 1
        after = before | awaited[at]
    return live, awaited


def _too_many(what: str) -> Diagnostic:
    return Diagnostic(
        "PW534",
        f"the exhaustive search is given up: {what}",
        help="search a smaller block, or raise the cap",
    )
