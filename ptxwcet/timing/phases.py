"""Algorithm 1: computes the phases of one warp in isolation ([J] 3.1; model, section 1).

An execution phase is a maximal interval in which at least one initiation of the warp is in
progress, an idle phase is the rest, up to the end of the last latency. ``L`` is the length of the
whole run, ``E`` the sum of its execution phases.

Example ([J] Fig. 2): i0 on A (2, 6); i1, i2 on B (3, 4); i3 on C (2, 4) reading i0's result gives
exec [0, 7), idle [7, 8), exec [8, 10), idle [10, 14): E = 9, L = 14.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from ptxwcet.support.records import dataclass
from ptxwcet.timing.compilation import CompiledProgram, compile_body
from ptxwcet.timing.demand import NO_PRICES, Prices
from ptxwcet.timing.engine import Engine, Idle, IdleRepeat, WarpState
from ptxwcet.warp.program import Node, Scoreboard, is_single_path


class PhaseKind(Enum):
    """The activity of a warp in a phase."""

    EXECUTION = "exec"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase Phi: ``duration`` cycles from cycle ``start`` of the isolated run."""

    kind: PhaseKind
    start: int
    duration: int


@dataclass(frozen=True, slots=True)
class PhaseRepeat:
    """A repetition of ``phases``: ``count`` times in all, ``period_cycles`` apart."""

    count: int
    period_cycles: int
    phases: tuple[Phase | PhaseRepeat, ...]


@dataclass(frozen=True, slots=True)
class WarpProfile:
    """The isolated run of a warp.

    ``isolated_cycles`` is L: exact for a single known path, otherwise no path takes longer.
    ``execution_cycles`` is E and ``phases`` the phases in order; both are None without a single
    known path (E is not monotone) or if the idle phases of a loop did not settle.
    ``issue_end_cycles`` is the first cycle after the last issue and its bubble. ``simulated_steps``
    is the number of instructions executed individually to compute it.
    """

    isolated_cycles: int
    execution_cycles: int | None
    issue_end_cycles: int
    phases: tuple[Phase | PhaseRepeat, ...] | None
    simulated_steps: int


def profile_warp(
    body: Sequence[Node],
    scoreboard: Scoreboard,
    prices: Prices = NO_PRICES,
    *,
    program: CompiledProgram | None = None,
) -> WarpProfile:
    """Returns the profile of a body from a clean machine; barriers count as ordinary instructions.

    With ``prices`` the two lengths are maxima of a path's length less the cost of its tallies; the
    limits of tallies do not count here (:mod:`ptxwcet.timing.demand`). ``program`` is the compiled
    form of these arguments, if it is available. Raises PW404 if a loop does not settle within the
    work limit. Cost: a few executions of each loop body per loop entry, whatever the trip counts.
    """
    if program is None:
        program = compile_body(body, scoreboard, prices)
    single = is_single_path(tuple(body))
    state = WarpState(
        [0] * len(program.registers), [0] * max(1, len(program.units)), gap=0 if single else None
    )
    engine = Engine[WarpState]()
    engine.run(program.body, state)
    execution = None if state.gap is None else max(state.free) - state.gap
    phases = None if execution is None else _phases(state)
    completion, issue_end = state.completion - state.credit, state.t - state.credit
    return WarpProfile(completion, execution, issue_end, phases, engine.steps)


def _phases(state: WarpState) -> tuple[Phase | PhaseRepeat, ...]:
    out, end = _alternate(state.idles, 0, 0)
    busy = max(state.free)
    if busy > end:
        out.append(Phase(PhaseKind.EXECUTION, end, busy - end))
    if state.completion > busy:
        out.append(Phase(PhaseKind.IDLE, busy, state.completion - busy))
    return tuple(out)


def _alternate(
    idles: Iterable[Idle | IdleRepeat], end: int, offset: int
) -> tuple[list[Phase | PhaseRepeat], int]:
    """Returns execution phases between idle intervals, ``offset`` later, and the last end."""
    out: list[Phase | PhaseRepeat] = []
    for item in idles:
        match item:
            case Idle(start, stop):
                out.append(Phase(PhaseKind.EXECUTION, end, start + offset - end))
                out.append(Phase(PhaseKind.IDLE, start + offset, stop - start))
                end = stop + offset
            case IdleRepeat(count, period, items):
                inner, last = _alternate(items, end, offset + period)
                out.append(PhaseRepeat(count, period, tuple(inner)))
                end = last + (count - 1) * period
    return out, end
