"""Generates random blocks: families of distributions, a pure function of (family, seed, index).

A family is a row of :data:`FAMILIES`: uniform draws from its ranges, and percentages. The draws
are those of :func:`ptxwcet.simulator.policies.mix`, so a case can be made again by any
implementation of it, on any version of the language. *Tiny* families are small enough for the
exhaustive search; the others are for policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from ptxwcet.simulator.policies import mix
from ptxwcet.support.records import dataclass
from ptxwcet.validate.cases import Case, deal
from ptxwcet.warp.program import Barrier, Node, Repeat, Scoreboard, TimedInstruction

_T = TypeVar("_T")
_UNITS = "ABCDEF"
_REGISTERS = "abcd"
_ONE_IN_EIGHT = 12  # percent


class Draws:
    """The draws ``n = 0, 1, ...`` of case ``index``: ``mix(seed, index, n)``."""

    def __init__(self, seed: int, index: int) -> None:
        self._seed = seed
        self._index = index
        self._drawn = 0

    def below(self, count: int) -> int:
        """Returns a number from 0 to ``count - 1``."""
        self._drawn += 1
        return mix(self._seed, self._index, self._drawn) % count

    def within(self, limits: tuple[int, int]) -> int:
        """Returns a number of the closed range."""
        low, high = limits
        return low + self.below(high - low + 1) if high > low else low

    def pick(self, choices: Sequence[_T]) -> _T:
        """Returns one of the choices."""
        return choices[self.below(len(choices))]

    def chance(self, percent: int) -> bool:
        """Returns True in ``percent`` of a hundred draws."""
        return percent > 0 and self.below(100) < percent


@dataclass(frozen=True, slots=True)
class Family:
    """A distribution of blocks; ranges are closed and drawn uniformly.

    ``programs``: how many different ones (0: all warps execute the same, else at least 2 where
    there are two warps). ``length``: instructions of a program's section; ``latencies`` are drawn
    from the tuple. ``own_initiation``: each unit has one initiation for all its instructions, as
    [J] feature 3 demands. ``reads`` and ``writes``: percentages of instructions that read and
    write a register. ``loops``: percentage of an instruction's places taken by a Repeat, with
    counts of ``trips``. ``barriers``: of each warp that does not leave early (one warp in eight).
    ``servers`` of each unit are drawn from the tuple; empty: one a scheduler. ``memory_cycles`` for
    1024 sectors are drawn from the tuple, if present: then many instructions pass to the
    servers after their units, for ``path_cycles`` and with ``sectors`` drawn from theirs.
    """

    name: str
    title: str
    exhaustive: bool
    warps: tuple[int, int]
    differing: bool
    length: tuple[int, int]
    units: tuple[int, int]
    initiations: tuple[int, int]
    latencies: tuple[int, ...]
    own_initiation: bool = False
    reads: int = 50
    writes: int = 50
    scoreboards: tuple[Scoreboard, ...] = (Scoreboard.RAW, Scoreboard.RAW_WAW)
    conditional: int = 10
    bubbles: int = 10
    loops: int = 0
    trips: tuple[int, ...] = (2,)
    barriers: tuple[int, int] = (0, 0)
    schedulers: tuple[int, int] = (1, 1)
    servers: tuple[int, ...] = ()
    path_cycles: tuple[int, ...] = ()
    sectors: tuple[int, ...] = ()
    memory_cycles: tuple[int, ...] = ()


_SHORT = (0, 0, 0, 1, 2, 4)
_MIXED = (0, 0, 1, 3, 7, 20, 40)
_ALL = tuple(range(41))
_RAW = (Scoreboard.RAW,)

_PAIR = Family(
    "pair-differing",
    "two differing warps, few units, no latencies: where GUB has failed",
    exhaustive=True,
    warps=(2, 2),
    differing=True,
    length=(3, 5),
    units=(2, 3),
    initiations=(1, 3),
    latencies=(0,),
    scoreboards=_RAW,
    conditional=0,
    bubbles=0,
)
_TINY = Family(
    "tiny",
    "one to four warps of all kinds",
    exhaustive=True,
    warps=(1, 4),
    differing=True,
    length=(1, 4),
    units=(1, 6),
    initiations=(1, 8),
    latencies=_MIXED,
    loops=5,
)
_BLOCK = Family(
    "block",
    "one to eight warps, loops",
    exhaustive=False,
    warps=(1, 8),
    differing=True,
    length=(1, 20),
    units=(1, 6),
    initiations=(1, 8),
    latencies=_ALL,
    loops=12,
    trips=(2, 3, 5, 20),
)
FAMILIES: tuple[Family, ...] = (
    _PAIR,
    replace(
        _PAIR,
        name="pair-identical",
        title="two identical warps, few units, no latencies: where GUB has failed",
        differing=False,
        length=(4, 6),
    ),
    replace(
        _PAIR,
        name="pair-one-init",
        title="two identical warps, one initiation a unit ([J] feature 3)",
        differing=False,
        length=(5, 8),
        initiations=(1, 4),
        latencies=(0, 0, 0, 1),
        own_initiation=True,
    ),
    _TINY,
    replace(
        _TINY,
        name="tiny-identical",
        title="two to four identical warps of all kinds",
        warps=(2, 4),
        differing=False,
        length=(2, 3),
        units=(1, 4),
    ),
    replace(
        _TINY,
        name="tiny-barriers",
        title="two or three warps that meet barriers",
        warps=(2, 3),
        length=(0, 2),
        units=(1, 3),
        initiations=(1, 4),
        latencies=_SHORT,
        barriers=(1, 2),
    ),
    replace(
        _TINY,
        name="tiny-cores",
        title="two to four sub-cores with private units",
        warps=(2, 5),
        length=(1, 3),
        units=(1, 3),
        initiations=(1, 4),
        latencies=_SHORT,
        barriers=(0, 1),
        schedulers=(2, 4),
        loops=0,
    ),
    replace(
        _TINY,
        name="tiny-shared",
        title="one to three sub-cores, units with several servers or shared by sub-cores",
        warps=(2, 3),
        length=(1, 3),
        units=(1, 2),
        initiations=(1, 6),
        latencies=_SHORT,
        barriers=(0, 1),
        schedulers=(1, 3),
        servers=(1, 1, 2, 3, 4, 8),
        loops=0,
    ),
    _BLOCK,
    replace(
        _BLOCK,
        name="block-identical",
        title="two to eight identical warps, loops",
        warps=(2, 8),
        differing=False,
        length=(4, 30),
    ),
    replace(
        _BLOCK,
        name="block-one-init",
        title="two to eight identical warps, one initiation a unit ([J] feature 3)",
        warps=(2, 8),
        differing=False,
        length=(4, 20),
        units=(2, 5),
        latencies=_SHORT,
        own_initiation=True,
        loops=5,
        trips=(2,),
    ),
    replace(
        _BLOCK,
        name="block-barriers",
        title="two to eight warps that meet barriers, also in loops",
        warps=(2, 8),
        length=(0, 8),
        barriers=(1, 5),
        trips=(2, 3, 7),
    ),
    replace(
        _BLOCK,
        name="block-cores",
        title="two to eight warps on two to four sub-cores with private units",
        warps=(2, 8),
        length=(1, 12),
        barriers=(0, 3),
        trips=(2, 3, 7),
        schedulers=(2, 4),
    ),
    replace(
        _BLOCK,
        name="block-shared",
        title="one to four sub-cores, units with several servers or shared by sub-cores",
        warps=(2, 8),
        length=(1, 12),
        units=(1, 4),
        barriers=(0, 3),
        trips=(2, 3, 7),
        schedulers=(1, 4),
        servers=(1, 1, 2, 3, 4, 8),
    ),
    replace(
        _BLOCK,
        name="block-memory",
        title="one to eight warps whose accesses go on to the memory path and the memory",
        length=(1, 12),
        units=(1, 3),
        initiations=(1, 4),
        barriers=(0, 3),
        trips=(2, 3, 20),
        schedulers=(1, 4),
        path_cycles=(0, 1, 3, 12),
        sectors=(0, 1, 4, 32),
        memory_cycles=(0, 79, 279, 1024, 3000),
    ),
)
"""All families; a case's index deals them round robin (:func:`mixed_case`)."""

WITHOUT_MEMORY = tuple(family for family in FAMILIES if not family.memory_cycles)
"""The families that every simulator runs."""


def mixed_case(seed: int, index: int, families: Sequence[Family] = FAMILIES) -> tuple[Family, Case]:
    """Returns case ``index`` of a mixture of families in equal shares."""
    family = families[index % len(families)]
    return family, random_case(family, seed, index)


def random_case(family: Family, seed: int, index: int) -> Case:
    """Returns case ``index`` of a family. Cost: linear in the case, about a microsecond a draw."""
    writer = _Writer(family, Draws(seed, index))
    return writer.case(f"{family.name}, seed {seed}, index {index}")


class _Writer:
    def __init__(self, family: Family, draws: Draws) -> None:
        self._family = family
        self._draws = draws
        self._units = _UNITS[: draws.within(family.units)]
        self._own = [draws.within(family.initiations) for _ in self._units]
        self._memory = draws.pick(family.memory_cycles) if family.memory_cycles else 0

    def case(self, name: str) -> Case:
        family, draws = self._family, self._draws
        warps = draws.within(family.warps)
        scoreboard = draws.pick(family.scoreboards)
        schedulers = draws.within(family.schedulers)
        rounds = self._skeleton()
        count = 1
        if family.differing and warps > 1:
            count = draws.within((2, warps))
        programs = [self._program(rounds) for _ in range(count)]
        # Every program runs on some warp; the programs of the other warps are drawn.
        dealt = [w if w < count else draws.below(count) for w in range(warps)]
        servers: tuple[tuple[str, int], ...] = ()
        if family.servers:
            servers = tuple((unit, draws.pick(family.servers)) for unit in self._units)
        workload = deal([programs[n] for n in dealt], scoreboard)
        return Case(name, workload, schedulers, servers, self._memory)

    def _skeleton(self) -> tuple[int, ...]:
        """Returns how often each barrier (with the section before it) is executed in a row."""
        family, draws = self._family, self._draws
        return tuple(
            draws.pick(family.trips) if draws.chance(2 * family.loops) else 1
            for _ in range(draws.within(family.barriers))
        )

    def _program(self, rounds: tuple[int, ...]) -> tuple[Node, ...]:
        draws = self._draws
        body: list[Node] = []
        if rounds and draws.chance(_ONE_IN_EIGHT):  # an exited warp counts as arrived
            rounds = rounds[: draws.below(len(rounds))]
        for times in rounds:
            section = (*self._section(), Barrier(self._instruction()))
            if times == 1:
                body += section
            else:
                body.append(Repeat(times, (*section, *self._section())))
        body += self._section()
        return tuple(body)

    def _section(self) -> tuple[Node, ...]:
        """Returns instructions, some runs of which may become loops."""
        family, draws = self._family, self._draws
        plain = [self._instruction() for _ in range(draws.within(family.length))]
        cuts = [k for k in range(1, len(plain)) if draws.chance(2 * family.loops)]
        if not cuts:
            return tuple(plain)
        body: list[Node] = []
        for begin, end in pairwise([0, *cuts, len(plain)]):
            stretch = tuple(plain[begin:end])
            if draws.chance(50):
                body.append(Repeat(draws.pick(family.trips), stretch))
            elif draws.chance(_ONE_IN_EIGHT):  # a loop in a loop
                inner = Repeat(draws.pick(family.trips), stretch[:1])
                body.append(Repeat(draws.pick(family.trips), (inner, *stretch[1:])))
            else:
                body += stretch
        return tuple(body)

    def _instruction(self) -> TimedInstruction:
        family, draws = self._family, self._draws
        unit = draws.below(len(self._units))
        own = self._own[unit]
        drawn = TimedInstruction(
            self._units[unit],
            own if family.own_initiation else draws.within(family.initiations),
            draws.pick(family.latencies),
            (draws.pick(_REGISTERS),) if draws.chance(family.reads) else (),
            (draws.pick(_REGISTERS),) if draws.chance(family.writes) else (),
            conditional=draws.chance(family.conditional),
            bubble_cycles=draws.within((1, 3)) if draws.chance(family.bubbles) else 0,
        )
        return self._served(drawn) if family.memory_cycles and draws.chance(60) else drawn

    def _served(self, plain: TimedInstruction) -> TimedInstruction:
        """Returns the instruction with servers after its unit, their time in its latency."""
        path = self._draws.pick(self._family.path_cycles)
        sectors = self._draws.pick(self._family.sectors)
        latency = plain.latency_cycles + path + -(-self._memory * sectors // 1024)
        return replace(plain, latency_cycles=latency, path_cycles=path, sectors=sectors)
