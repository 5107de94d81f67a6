"""Computes the slack of a warp: its time beyond the charge of its own initiations.

For a path through a body, alone on a clean machine, with s(k) the issue of instruction k, O(k) the
initiations of the instructions before it and ``own`` those of all, the *slack* is ::

    max( max over k of s(k) - O(k),  L - own )

and the slack of the body is the largest over its paths. That is not the largest L less the largest
``own``: these may belong to different paths. A credit after every run of instructions, of their
initiations, makes the profile engine count ``L - own`` along each path (timing.compilation); the
issues are compared as they pass. docs/methods/grid.md states its use.

Where other lanes of the warp may go on (``OTHERS_BETWEEN``) more orders are possible than are
examined: one that has earned more than it took may run later. There ``s - O`` never falls.

Example: ``A(1, 10) -> x; A(1, 0) reads x`` has L = 12, own = 2, the second issue at 11 with 1 cycle
before it: slack 10.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Self

from ptxwcet.support.records import dataclass
from ptxwcet.timing.compilation import (
    BothOrders,
    CompiledProgram,
    Loop,
    Straight,
    charged,
    compile_body,
)
from ptxwcet.timing.demand import Prices, find_limits, least_over_prices
from ptxwcet.timing.engine import Engine, Snapshot, WarpState
from ptxwcet.warp.program import Node, Scoreboard


def warp_slack(
    body: Sequence[Node],
    scoreboard: Scoreboard,
    *,
    through_bubble: bool,
    program: CompiledProgram | None = None,
) -> int:
    """Computes the slack of a body in cycles, an upper bound over all allowed paths.

    ``through_bubble``: the length lasts at least until the bubble of the last instruction is over.
    ``program`` is the body compiled without prices, if available. Raises PW404. Cost: that of a
    profile, for each price that is tried for a limit.
    """

    def relaxed(limited: Prices) -> int:
        kept = None if limited else program
        compiled = compile_body(body, scoreboard, limited) if kept is None else kept
        registers, units = len(compiled.registers), max(1, len(compiled.units))
        state = _Lag([0] * registers, [0] * units, gap=None)
        engine = _SlackEngine()
        engine.run(charged(compiled.body), state)
        end = max(state.completion, state.t) if through_bubble else state.completion
        return max(engine.most, end - state.credit)

    return least_over_prices(find_limits(body), relaxed)[0]


_NEVER = -(1 << 80)


@dataclass(slots=True)
class _Lag(WarpState):
    """The engine's state, with ``t`` less the credit when other lanes last ran."""

    last: int = _NEVER

    def take_latest(self, other: Self, changed: Collection[int]) -> None:
        self.last = max(self.last, other.last)
        WarpState.take_latest(self, other, changed)

    def relative(self, loop: Loop) -> tuple[object, ...]:
        key = WarpState.relative(self, loop)
        return (*key, self.t - self.credit - self.last) if loop.drains else key


class _SlackEngine(Engine[_Lag]):
    """The profile engine, which keeps the largest ``s(k) - O(k)`` of all issues.

    Skipped periods of a loop are between two executed ones: from one to the next the issues move by
    a constant, and so does the charge.
    """

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def _one_after_the_other(self, node: BothOrders, state: _Lag) -> None:
        super()._one_after_the_other(node, state)
        if not node.first and not node.second:
            state.t = max(state.t, state.last + state.credit)
            state.last = state.t - state.credit

    def _skip(self, loop: Loop, state: _Lag, before: Snapshot, period: int, periods: int) -> int:
        since = state.t - state.credit - state.last
        skipped = super()._skip(loop, state, before, period, periods)
        if loop.drains:
            state.last = state.t - state.credit - since
        return skipped

    def _straight(self, piece: Straight, state: _Lag) -> None:
        self._count(len(piece.steps))
        ready, free, t, completion = state.ready, state.free, state.t, state.completion
        before, most = state.credit, self.most
        for waits, writes, unit, initiation, total, conditional, advance in piece.steps:
            for register in waits:
                if ready[register] > t:
                    t = ready[register]
            if t - before > most:
                most = t - before
            dispatch = free[unit]
            if dispatch < t:
                dispatch = t
            free[unit] = dispatch + initiation
            done = dispatch + total
            if done > completion:
                completion = done
            for register in writes:
                if not conditional or done > ready[register]:
                    ready[register] = done
            before += initiation
            t += advance
        state.t, state.completion, self.most = t, completion, most
