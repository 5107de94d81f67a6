"""Loops whose iterations are found: executed one by one until a closed form is proved."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import BoundOrigin
from ptxwcet.flow.values.regions import Wavers, require_nonnegative
from ptxwcet.flow.values.value import Mask, Value
from ptxwcet.flow.walk.bounded import bodies_of_whole, runs_once
from ptxwcet.flow.walk.closed_forms import Rounds, periods_at, summarise
from ptxwcet.flow.walk.guards import after_assuming
from ptxwcet.flow.walk.iterations import (
    Claim,
    Entry,
    Iterations,
    Summary,
    is_rotated,
    most_lanes,
)
from ptxwcet.flow.walk.path import AffineCount, Path, PathLoop, is_exact
from ptxwcet.flow.walk.reachability import Reach
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.stops import Refused, Undecided

# Plain iterations of one loop entry before it is refused as not summarisable: halving and doubling
# loops need at most 64, table-driven ones in the corpus at most 1024.
_MOST_PLAIN_ITERATIONS = 4096
# Iterations after which a loop that data may leave is asked for: its counters have gone round.
_MOST_ITERATIONS = 1 << 32
# Entries of a loop without a closed form, after which none is looked for in iterations that another
# entry has executed without one.
_MOST_FAILURES = 4
_FOUND = (-1, 0)  # of a loop that has had one
# Lanes that have left a loop one after the other, after which it is asked whether all can.
_ONE_BY_ONE = 3


def analysed_loop(walk: WalkState, entry: Entry, claimed: Claim | None) -> tuple[int, Mask]:
    """Walks one entry of a loop; ``claimed`` bounds the executions of its body.

    Raises Undecided, Refused (PW204: no closed form, PW205: it never ends, PW217: the bound is
    wrong), Infeasible (no run that the bound is true of enters here). Cost: a few walks of the
    body for each closed form, else one for each iteration.
    """
    walk.recorded.loops[-1].entered = walk.reachability, walk.endings
    _require_time_to_leave(walk, entry)
    search, loop = _Search(walk, entry, claimed), entry.loop
    while search.is_open:
        search.start()
        with walk.recorded.sub_path():
            reached = walk.region(loop.header, search.entry.mask, entry.stop, loop)
            nodes = tuple(walk.recorded.nodes)
        if search.takes_whole(nodes, *reached):
            search.skip(summarise(walk, search.entry, search.compared(), search.plain))
    walk.recorded.add(search.path())
    return reached[0], search.arrived


def _require_time_to_leave(walk: WalkState, entry: Entry) -> None:
    """Raises Refused (PW206) at once where lanes leave a loop one by one, those that stay in a
    nested entry of it, and it takes more steps than there are until all have left like that.
    """
    work, opened = walk.graph.work, walk.recorded.loops[-1]
    opened.begun, opened.lanes = work.walking.spent, most_lanes(entry.mask)
    nested = [around for around in walk.recorded.loops if around.loop.id == entry.loop.id]
    nested = nested[-1 - _ONE_BY_ONE :]
    if len(nested) <= _ONE_BY_ONE or not work.told_apart:
        return
    one_by_one = all(outer.lanes - inner.lanes == 1 for outer, inner in pairwise(nested))
    if one_by_one and opened.lanes * (opened.begun - nested[-2].begun) > work.walking.most:
        raise walk.too_long(entry.loop.header)


class _Search:
    """The iterations of one entry of a loop, found one after the other or many at once.

    ``history`` has the registers at the start of the last ``plain`` iterations, which were executed
    one by one. ``arrived`` are the lanes that stand where the loop has ended.
    """

    def __init__(self, walk: WalkState, entry: Entry, claimed: Claim | None) -> None:
        self.entry = entry
        self.history: list[dict[str, Value]] = []
        self.plain = 0
        self.is_open = True
        self.arrived = entry.mask
        self._walk = walk
        self._claimed = claimed
        self._limit = None if claimed is None else claimed.most - is_rotated(entry.loop)
        self._opened = walk.recorded.loops[-1]
        self._iterations = Iterations()
        self._rounds = Rounds()
        self._reason = ""
        self._alive = self._entered = entry.mask
        self._reachability, self._endings = walk.reachability, walk.endings
        self._together = False  # all lanes have executed the same, up to where they left
        self._tried = False  # some closed form was looked for, none was found
        self._negative_cache = walk.negative_cache
        self._spent = 0  # steps before the iteration

    def start(self) -> None:
        """Begins an iteration."""
        self.history.append(dict(self._walk.state.registers))
        self._spent = self._walk.graph.work.walking.spent
        self._opened.begin(str(self._iterations.total))
        self._alive = self._walk.state.alive.copy()

    def takes_whole(self, nodes: Path, block: int, arrived: Mask) -> bool:
        """Takes an iteration that was walked; says whether a closed form is to be looked for."""
        if block != self.entry.loop.header or not np.array_equal(arrived, self.entry.mask):
            self._take_part(nodes, block, arrived)
            return False
        if self._remaining is not None and self._opened.undecided and self._remaining <= 0:
            self._stop(nodes)
            return False
        self._iterations.add(nodes, AffineCount(1), 1)
        self.plain += 1
        if self.plain > _MOST_PLAIN_ITERATIONS:
            raise _not_summarisable(self._walk, self.entry.loop)
        self.history = self.history[-max(periods_at(self._walk)) :]
        self._opened.remaining = self._remaining
        lives = np.array_equal(self._alive, self._walk.state.alive)
        return lives and self._opened.remaining != 0 and not self._is_known_to_fail

    @property
    def _is_known_to_fail(self) -> bool:
        """Whether to look for a closed form here would fail, as far as earlier entries tell:
        of a loop that data may leave. In a proof there is no other way.
        """
        entries, longest = self._negative_cache.get(self.entry.loop.id, (0, 0))
        is_short = entries >= _MOST_FAILURES and self.plain <= longest
        return is_short and self._opened.undecided is not None and not self._walk.is_proving

    @property
    def _remaining(self) -> int | None:
        """Most iterations that the claim leaves in any block and iteration of loops around."""
        return None if self._limit is None else self._limit - self._iterations.fewest

    def _take_part(self, nodes: Path, block: int, arrived: Mask) -> None:
        """Takes an iteration that not all lanes have completed: the last one, if any has left."""
        if block != self.entry.loop.header or not arrived.any():
            self._iterations.last = nodes
            self._together = np.array_equal(arrived, self._entered)
            self.is_open, self.arrived = False, arrived
            return
        self._iterations.add(nodes, AffineCount(1), 1)  # some lanes have exited for good
        self.entry = replace(self.entry, mask=arrived)
        self.history, self.plain, self._rounds = [], self.plain + 1, Rounds()

    def _stop(self, nodes: Path) -> None:
        """Ends the loop by the user's word: lanes leave on the ways that were noted."""
        assert self._limit is not None
        if self._limit < 0:
            reason = runs_once(self._walk, self.entry.loop)
            self._walk.contradict(reason, self._reachability.reach, self.entry.loop.id)
        end = self._opened.end
        self._iterations.last = () if end is None else (*nodes, *end)
        self._iterations.is_stopped = True
        self.is_open, self.arrived = False, np.zeros_like(self.entry.mask)

    def compared(self) -> list[dict[str, Value]]:
        """Returns the registers of ``history``. A loop that would be executed one by one until what
        decides a way out has none of its few values left, and for which no steps are left, is
        compared in those values: then it has a closed form as long as lanes may stay.
        """
        work, opened = self._walk.graph.work.walking, self._opened
        to_come = opened.few_left * (work.spent - self._spent)
        if not to_come or work.spent + to_come <= work.most or self._walk.is_proving:
            return self.history
        return [after_assuming(self._walk, registers, opened.assumed) for registers in self.history]

    def skip(self, summary: Summary | None) -> None:
        """Takes the iterations of which a closed form was found."""
        loop = self.entry.loop.id
        self._tried = summary is None and self._negative_cache.get(loop) != _FOUND
        if summary is None:
            return
        self._negative_cache[loop] = _FOUND
        most = self._remaining if self._opened.undecided else None
        is_cut = self._iterations.add(summary.nodes, summary.count, summary.period, most)
        is_cut |= most is not None and most <= summary.count.times(summary.period).base
        if is_cut and self._claimed is not None and self._claimed.origin is BoundOrigin.USER:
            self._walk.graph.work.relied.add(self.entry.loop.id)
        self._reason = self._reason or summary.reason
        self.history, self.plain = [], 0
        if self._limit is None or not self._opened.undecided:
            self._rounds.note(self._walk, self.entry)
        if self._iterations.total.base > _MOST_ITERATIONS and self._opened.undecided:
            raise Undecided(*self._opened.undecided)  # counters go round, for ever

    def path(self) -> PathLoop:
        """Returns the path of all iterations. Raises Refused or Infeasible for a wrong claim."""
        if self._tried and not self._walk.is_proving:
            entries, longest = self._negative_cache.get(self.entry.loop.id, (0, 0))
            self._negative_cache[self.entry.loop.id] = entries + 1, max(longest, self.plain)
        loop, claimed, opened = self.entry.loop, self._claimed, self._opened
        path = self._iterations.path(opened, may_pair=self._walk.may_pair)
        if self._iterations.is_stopped:
            assert claimed is not None
            most = bodies_of_whole(self._walk, loop, claimed.most)
            return PathLoop(loop.id, path, most, claimed.origin, claimed.reason, claimed.proof)
        bodies = self._iterations.bodies(loop.id, rotated=is_rotated(loop))
        if claimed is not None and claimed.origin is BoundOrigin.USER:
            self._check(claimed.most, bodies)
            if bodies.slopes and self._iterations.cut(max(0, claimed.most - is_rotated(loop))):
                self._walk.graph.work.relied.add(loop.id)
                path = self._iterations.path(opened, may_pair=self._walk.may_pair)
                most = bodies_of_whole(self._walk, loop, claimed.most)
                return PathLoop(loop.id, path, most, claimed.origin, claimed.reason)
        rotated = is_rotated(self._walk.graph.forest.loops[loop.id])
        most_bodies = self._iterations.most_bodies(loop.id, rotated=rotated)
        if most_bodies is None:
            raise _not_summarisable(self._walk, loop)
        reason = self._reason or "enumerated"
        if opened.undecided:
            reason += "; it may end earlier"
        one_by_one = not self._reason
        return PathLoop(
            loop.id, path, most_bodies, BoundOrigin.ANALYSIS, reason, one_by_one=one_by_one
        )

    def _check(self, most: int, bodies: AffineCount) -> None:
        """Compares what the user says with what was found, if a run that enters executes that.

        What some lanes or runs may do less often, or what they end early, contradicts no bound.
        Values of parameters and blocks with more iterations are split off, to be left out.
        """
        is_sure = (
            self._reachability.mask_is_exact or self._together
        ) and self._walk.endings == self._endings
        is_sure &= not self._opened.undecided and is_exact(self._iterations.last)
        if not is_sure:
            return
        fewest = bodies.over_symbols(largest=False)
        if fewest is not None and fewest > most:
            reason = _contradiction(self._walk, self.entry.loop, most, fewest)
            self._walk.contradict(reason, self._reachability.reach, self.entry.loop.id)
        elif bodies.base <= most and self._reachability.reach is not Reach.PERHAPS:
            with suppress(Wavers):
                slopes = {symbol: -slope for symbol, slope in bodies.slopes}
                require_nonnegative(most - bodies.base, slopes)


def _not_summarisable(walk: WalkState, loop: Loop) -> Refused:
    return Refused(
        "PW204",
        walk.cfg.blocks[loop.header].start,
        f"no closed form was found for this loop in {_MOST_PLAIN_ITERATIONS} iterations",
        f"give a bound: --loop-bound '{walk.cfg.name(loop.header)}=N'",
    )


def _contradiction(walk: WalkState, loop: Loop, claimed: int, runs: int) -> Refused:
    return Refused(
        "PW217",
        walk.cfg.blocks[loop.header].start,
        f"--loop-bound says {claimed} iterations, but the loop runs {runs}",
        "correct the bound or the launch facts: both cannot be true",
    )
