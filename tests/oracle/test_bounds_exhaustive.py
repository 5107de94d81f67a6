"""Bounds against an exhaustive search over all work-conserving schedules of tiny blocks.

The search knows the model (section 1) and nothing of the bounds. It reproduces the published worst
cases, refutes GUB where it is known to fail, and attacks SAFE and the lower bound at random.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from known_blocks import DIFFERING, GOLDEN, LATENCIES, ONE_INIT, SAME
from thoroughness import drawn
from warp_nodes import drawn_path, instructions
from warp_nodes import timed as i

from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.gub import bound_gub
from ptxwcet.bounds.lower import bound_lower
from ptxwcet.bounds.methods import METHODS
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import FunctionalUnit, Machine
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    Unordered,
    WarpClass,
    WarpProgram,
)

Path = tuple[TimedInstruction | Barrier, ...]
INSTRUCTIONS = instructions(
    "AAB", "abc", most_names=1, latencies=(0, 0, 1, 3, 7), bubbles=(0, 0, 0, 2)
)


# --- the search -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Warp:
    """What one warp has done; times are relative to the current cycle, clipped at 0."""

    position: int
    earliest: int
    ready: tuple[tuple[str, int], ...]
    ends: int  # until the last of its initiations and latencies has ended
    waiting: bool  # at a barrier


State = tuple[tuple[Warp, ...], tuple[tuple[str, int], ...]]


class Search:
    """Largest or smallest end of a block over all work-conserving schedules, by memoised search."""

    def __init__(
        self, paths: tuple[Path, ...], scoreboard: Scoreboard, *, worst: bool, cores: int = 1
    ) -> None:
        self.paths = paths
        self.cores = cores
        self.waw = scoreboard is Scoreboard.RAW_WAW
        self.extreme = max if worst else min
        self.known: dict[State, int] = {}

    def run(self) -> int:
        warps = tuple(Warp(0, 0, (), 0, False) for _ in self.paths)
        return self.end((warps, ()))

    def end(self, state: State) -> int:
        """Cycles from now until everything has ended."""
        if state not in self.known:
            self.known[state] = self.search(state)
        return self.known[state]

    def search(self, state: State) -> int:
        warps, units = self.release(state[0]), state[1]
        times = [self.eligible_in(n, warp) for n, warp in enumerate(warps)]
        pending = max((warp.ends for warp in warps), default=0)
        known = [time for time in times if time is not None]
        if not known:
            blocked = [w.ends for n, w in enumerate(warps) if not w.waiting and self.done(n, w)]
            if any(warp.waiting for warp in warps):  # until a finished warp has ended
                step = min(time for time in blocked if time > 0)
                return step + self.end(later((warps, units), step))
            return pending
        first = min(known)
        # A finished warp may end, and so release others, before anything is eligible.
        if any(w.waiting for w in warps):
            ends = [w.ends for n, w in enumerate(warps) if self.done(n, w) and 0 < w.ends < first]
            if ends:
                return min(ends) + self.end(later((warps, units), min(ends)))
        if first:
            return first + self.end(later((warps, units), first))
        eligible = [n for n, time in enumerate(times) if time == 0]
        ports = [[n for n in eligible if n % self.cores == core] for core in range(self.cores)]
        choices = product(*[port for port in ports if port])
        return self.extreme(self.issue((warps, units), chosen, pending) for chosen in choices)

    def done(self, n: int, warp: Warp) -> bool:
        return warp.position == len(self.paths[n])

    def release(self, warps: tuple[Warp, ...]) -> tuple[Warp, ...]:
        """Opens the barrier if every warp waits there or has ended; they may issue from now on."""
        held = [w.waiting or (self.done(n, w) and w.ends == 0) for n, w in enumerate(warps)]
        if all(held) and any(w.waiting for w in warps):
            return tuple(replace(w, waiting=False) for w in warps)
        return warps

    def eligible_in(self, n: int, warp: Warp) -> int | None:
        if warp.waiting or self.done(n, warp):
            return None
        node = self.paths[n][warp.position]
        instruction = node.instruction if isinstance(node, Barrier) else node
        waits = instruction.reads + (instruction.writes if self.waw else ())
        ready = dict(warp.ready)
        return max([warp.earliest, *[ready.get(name, 0) for name in waits]])

    def issue(self, state: State, chosen: Iterable[int], pending: int) -> int:
        """One instruction of each chosen warp (one a sub-core) is issued in this cycle."""
        warps, units = list(state[0]), dict(state[1])
        for n in chosen:
            warps[n], ends = self.issued(n, warps[n], units)
            pending = max(pending, ends)
        following = (tuple(warps), tuple(sorted(units.items())))
        return max(pending, 1 + self.end(later(following, 1)))

    def issued(self, n: int, warp: Warp, free: dict[str, int]) -> tuple[Warp, int]:
        node = self.paths[n][warp.position]
        k = node.instruction if isinstance(node, Barrier) else node
        unit = f"{k.unit}{n % self.cores}"
        free[unit] = free.get(unit, 0) + k.initiation_cycles
        ends = free[unit] + k.latency_cycles
        ready = dict(warp.ready)
        for name in k.writes:
            ready[name] = max(ends, ready.get(name, 0)) if k.conditional else ends
        after = Warp(
            warp.position + 1,
            1 + k.bubble_cycles,
            tuple(sorted(ready.items())),
            max(warp.ends, ends),
            isinstance(node, Barrier),
        )
        return after, ends


def later(state: State, cycles: int) -> State:
    warps, units = state
    return (
        tuple(
            Warp(
                w.position,
                max(0, w.earliest - cycles),
                tuple((name, t - cycles) for name, t in w.ready if t > cycles),
                max(0, w.ends - cycles),
                w.waiting,
            )
            for w in warps
        ),
        tuple((name, t - cycles) for name, t in units if t > cycles),
    )


# --- bounds on the same blocks --------------------------------------------------------------------


def machine_with(units: set[str], cores: int = 1) -> Machine:
    """A machine that has each of these units once a scheduler; bounds ask it for nothing else."""
    return replace(
        load_machine(),
        schedulers_per_sm=cores,
        units=tuple(FunctionalUnit(unit, cores) for unit in sorted(units)),
        timings=MappingProxyType({}),
    )


def analysis_of(paths: tuple[Path, ...], scoreboard: Scoreboard, cores: int = 1) -> BlockAnalysis:
    classes = tuple(WarpClass(WarpProgram(path), (n,)) for n, path in enumerate(paths))
    nodes = [n.instruction if isinstance(n, Barrier) else n for path in paths for n in path]
    machine = machine_with({n.unit for n in nodes}, cores)
    return analyse_block(BlockWorkload(classes, scoreboard), machine)


def cycles(outcome: object) -> int:
    assert isinstance(outcome, BlockBound)
    return outcome.cycles


@pytest.mark.parametrize(
    ("paths", "gub", "worst", "safe"),
    [
        pytest.param((GOLDEN, GOLDEN), 23, 18, 24, id="paper example 1"),
        pytest.param(DIFFERING, 7, 8, 9, id="differing"),
        pytest.param((SAME, SAME), 10, 11, 13, id="identical"),
        pytest.param((ONE_INIT, ONE_INIT), 20, 21, 30, id="one initiation per unit"),
        pytest.param(LATENCIES, 46, 48, 48, id="latencies"),
    ],
)
def test_published_worst_cases(paths: tuple[Path, ...], gub: int, worst: int, safe: int) -> None:
    analysis = analysis_of(paths, Scoreboard.RAW)
    assert Search(paths, Scoreboard.RAW, worst=True).run() == worst
    assert cycles(bound_gub(analysis)) == gub
    assert cycles(bound_safe(analysis)) == safe
    assert safe >= worst


@pytest.mark.parametrize(
    ("path", "execution", "isolated"),
    [(GOLDEN, 9, 14), (SAME, 5, 5), (ONE_INIT, 10, 10), (LATENCIES[0], 8, 16)],
)
def test_published_isolated_runs(path: Path, execution: int, isolated: int) -> None:
    profile = analysis_of((path,), Scoreboard.RAW).uncut[0].profile
    assert (profile.execution_cycles, profile.isolated_cycles) == (execution, isolated)


def test_lower_bound_of_overlapping_sections() -> None:
    path: Path = (i("A", 1, 10), Barrier(i("barrier", 1, 0)), i("C", 1, 10))
    analysis = analysis_of((path,), Scoreboard.RAW)
    assert cycles(bound_lower(analysis)) == 13
    assert Search((path,), Scoreboard.RAW, worst=True).run() == 13
    assert cycles(bound_safe(analysis)) == 13


# --- random blocks --------------------------------------------------------------------------------


BARRIER = Barrier(TimedInstruction("A", 1, 2))
UPPER = [method for method in METHODS if method.is_for_report]


@st.composite
def blocks(draw: st.DrawFn, most_warps: int = 3) -> tuple[Path, ...]:
    """Two or three warps that meet the same barriers as long as they live."""
    count = draw(st.integers(0, 2))
    paths: list[Path] = []
    for _ in range(draw(st.integers(2, most_warps))):
        barriers = draw(st.sampled_from((count, count, max(0, count - 1))))
        sections = [
            tuple(draw(st.lists(INSTRUCTIONS, max_size=3 if count else 4)))
            for _ in range(barriers + 1)
        ]
        path: Path = sections[0]
        for section in sections[1:]:
            path = (*path, BARRIER, *section)
        paths.append(path)
    return tuple(paths)


@settings(max_examples=drawn(100), deadline=None)
@given(blocks(), st.sampled_from(Scoreboard))
def test_safe_covers_every_schedule(paths: tuple[Path, ...], scoreboard: Scoreboard) -> None:
    analysis = analysis_of(paths, scoreboard)
    worst = Search(paths, scoreboard, worst=True).run()
    for method in UPPER:
        assert worst <= cycles(method.evaluate(analysis)), method.name


@settings(max_examples=drawn(100), deadline=None)
@given(blocks(), st.sampled_from(Scoreboard))
def test_no_schedule_is_faster_than_the_lower_bound(
    paths: tuple[Path, ...], scoreboard: Scoreboard
) -> None:
    analysis = analysis_of(paths, scoreboard)
    assert cycles(bound_lower(analysis)) <= Search(paths, scoreboard, worst=False).run()


@st.composite
def faster(draw: st.DrawFn, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The same paths with shorter initiations and latencies and fewer registers to wait for."""

    def shorten(node: TimedInstruction | Barrier) -> TimedInstruction | Barrier:
        if isinstance(node, Barrier):
            return node
        return replace(
            node,
            initiation_cycles=draw(st.integers(1, node.initiation_cycles)),
            latency_cycles=draw(st.integers(0, node.latency_cycles)),
            reads=node.reads if draw(st.booleans()) else (),
            conditional=node.conditional and draw(st.booleans()),
        )

    return tuple(tuple(shorten(node) for node in path) for path in paths)


@settings(max_examples=drawn(150), deadline=None)
@given(st.data(), blocks(), st.sampled_from(Scoreboard))
def test_safe_covers_faster_timings(
    data: st.DataObject, paths: tuple[Path, ...], scoreboard: Scoreboard
) -> None:
    actual = data.draw(faster(paths))
    bound = cycles(bound_safe(analysis_of(paths, scoreboard)))
    assert Search(actual, scoreboard, worst=True).run() <= bound


# --- programs with several paths ------------------------------------------------------------------


def open_nodes() -> st.SearchStrategy[Node]:
    def wider(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        side = st.lists(inner, max_size=2).map(tuple)
        return st.one_of(
            st.builds(Unordered, side, side),
            st.builds(Choice, st.tuples(side, side)),
            st.builds(lambda body, least: Repeat(2, body, least), side, st.integers(0, 2)),
        )

    return st.recursive(INSTRUCTIONS, wider, max_leaves=4)


@st.composite
def open_blocks(draw: st.DrawFn) -> tuple[tuple[WarpProgram, ...], tuple[Path, ...]]:
    """Programs that allow several paths, and one path of each."""
    nodes = st.lists(open_nodes(), max_size=3).map(tuple)
    count = draw(st.integers(0, 1))
    programs = []
    for _ in range(2):
        first, second = draw(nodes), draw(nodes)
        programs.append(WarpProgram((*first, BARRIER, *second) if count else first))
    return tuple(programs), tuple(drawn_path(p.body, draw) for p in programs)


@settings(max_examples=drawn(100), deadline=None)
@given(open_blocks(), st.sampled_from(Scoreboard))
def test_safe_covers_every_path(
    case: tuple[tuple[WarpProgram, ...], tuple[Path, ...]], scoreboard: Scoreboard
) -> None:
    programs, paths = case
    assume(sum(len(path) for path in paths) <= 12)
    classes = tuple(WarpClass(program, (n,)) for n, program in enumerate(programs))
    analysis = analyse_block(BlockWorkload(classes, scoreboard), machine_with({"A", "B"}))
    assert Search(paths, scoreboard, worst=True).run() <= cycles(bound_safe(analysis))


@settings(max_examples=drawn(60), deadline=None)
@given(blocks(most_warps=4), st.sampled_from(Scoreboard), st.integers(2, 3))
def test_sub_cores_with_private_units(
    paths: tuple[Path, ...], scoreboard: Scoreboard, cores: int
) -> None:
    analysis = analysis_of(paths, scoreboard, cores)
    worst = Search(paths, scoreboard, worst=True, cores=cores).run()
    best = Search(paths, scoreboard, worst=False, cores=cores).run()
    assert cycles(bound_lower(analysis)) <= best <= worst <= cycles(bound_safe(analysis))


@settings(max_examples=drawn(100), deadline=None)
@given(st.lists(INSTRUCTIONS, min_size=1, max_size=3), st.integers(2, 3))
def test_classes_of_warps_and_loops_change_nothing(
    body: list[TimedInstruction], count: int
) -> None:
    """Repeat against its unrolling, and one class of two warps against two classes of one."""
    loop = WarpProgram((Repeat(count, (*body, BARRIER)),))
    flat: Path = (*body, BARRIER) * count
    units = {"A", "B"}
    together = analyse_block(
        BlockWorkload((WarpClass(loop, (0, 1)),), Scoreboard.RAW), machine_with(units)
    )
    apart = analysis_of((flat, flat), Scoreboard.RAW)
    for method in (bound_safe, bound_gub, bound_lower):
        assert cycles(method(together)) == cycles(method(apart))
