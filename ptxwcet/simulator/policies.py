"""Warp schedulers by name, and the random numbers that runs depend on.

A policy is one row of :class:`Policy`: its name, its compiled choice, its rule for ties. The engine
of a block and that of a grid ask :data:`choose`; the plain reference, which is the oracle of both,
has the policies a second time.

In every cycle a scheduler sees which of its warps are eligible and issues one of them; none of
these policies idles while a warp is eligible. Ties are broken by warp number (0 = oldest).

Randomness is a pure function of its arguments, so a run can be repeated in any implementation:
``mix(seed, a, b)`` below decides a random policy's choice (a: cycle, b: sub-core) and the jitter of
an instruction (a: 2 * warp for initiations, 2 * warp + 1 for latencies, b: its index in the
warp's execution).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.jit import compiled, inlined, one_of, unsigned
from ptxwcet.support.records import dataclass
from ptxwcet.support.toml_places import nearest

if TYPE_CHECKING:  # names of policies are asked for where nothing runs: without numpy
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    Integers: TypeAlias = NDArray[np.int64]

_MASK = (1 << 64) - 1


class Sight(NamedTuple):
    """What the scheduler of sub-core ``core`` (of ``cores``) sees in a cycle.

    Its warps have the slots ``core``, ``core + cores``, ...; a block of ``warps`` warps has slots
    one after the other. A block that is alone on its SM is the only place of ``ages``.
    """

    upcoming: Integers  # [warp slot] the cycle in which its next instruction is eligible
    ages: Integers  # [rank] places of blocks, the oldest block first
    blocks: int
    warps: int
    core: int
    cores: int
    cycle: int
    turn: int  # slot issued last; -1: none
    last: int  # slot of the warp issued last; -1: none, or it has left
    stream: int  # of random numbers: the sub-core's own
    seed: int  # or what is decided for a scripted run


# --- choices: the slot of the warp that is issued, -1: none is eligible ---------------------------


@inlined
def _next_in_turn(see: Sight) -> int:
    begin = see.core if see.turn < 0 else see.turn + see.cores
    for slot in range(begin, len(see.upcoming), see.cores):
        if see.upcoming[slot] <= see.cycle:
            return slot
    for slot in range(see.core, min(begin, len(see.upcoming)), see.cores):
        if see.upcoming[slot] <= see.cycle:
            return slot
    return -1


@inlined
def _oldest(see: Sight) -> int:
    for rank in range(see.blocks):
        first = see.ages[rank] * see.warps
        begin = first + (see.core - first) % see.cores
        for slot in range(begin, first + see.warps, see.cores):
            if see.upcoming[slot] <= see.cycle:
                return slot
    return -1


@inlined
def _youngest(see: Sight) -> int:
    for rank in range(see.blocks - 1, -1, -1):
        first = see.ages[rank] * see.warps
        last = first + see.warps - 1
        for slot in range(last - (last - see.core) % see.cores, first - 1, -see.cores):
            if see.upcoming[slot] <= see.cycle:
                return slot
    return -1


@inlined
def _last_or_oldest(see: Sight) -> int:
    if see.last >= 0 and see.upcoming[see.last] <= see.cycle:
        return see.last
    return _oldest(see)


@inlined
def _last_or_youngest(see: Sight) -> int:
    if see.last >= 0 and see.upcoming[see.last] <= see.cycle:
        return see.last
    return _youngest(see)


@compiled
def _eligible(see: Sight) -> int:
    """Number of eligible warps."""
    found = 0
    for slot in range(see.core, len(see.upcoming), see.cores):
        if see.upcoming[slot] <= see.cycle:
            found += 1
    return found


@compiled
def _nth(see: Sight, index: int) -> int:
    """The eligible warp with that index in ascending order."""
    for slot in range(see.core, len(see.upcoming), see.cores):
        if see.upcoming[slot] <= see.cycle:
            if index == 0:
                return slot
            index -= 1
    return -1


@inlined
def drawn(seed: int, a: int, b: int, count: int) -> int:
    """``mix(seed, a, b) % count``, compiled; ``count`` is positive."""
    x = (
        unsigned(seed) * unsigned(0x9E3779B97F4A7C15)
        + unsigned(a) * unsigned(0xBF58476D1CE4E5B9)
        + unsigned(b) * unsigned(0x94D049BB133111EB)
    )
    x = (x ^ (x >> unsigned(30))) * unsigned(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> unsigned(27))) * unsigned(0x94D049BB133111EB)
    return int((x ^ (x >> unsigned(31))) % unsigned(count))


@compiled
def _random(see: Sight) -> int:
    count = _eligible(see)
    return _nth(see, drawn(see.seed, see.cycle, see.stream, count)) if count else -1


@compiled
def _scripted(see: Sight) -> int:
    """What is decided: ``d >= 0`` the eligible warp of that index, modulo their number; ``-w - 1``
    the first eligible warp that is not w, if there is one."""
    count = _eligible(see)
    if count == 0:
        return -1
    if see.seed >= 0:
        return _nth(see, see.seed % count)
    spared = -see.seed - 1
    for slot in range(see.core, len(see.upcoming), see.cores):
        if see.upcoming[slot] <= see.cycle and slot != spared:
            return slot
    return spared


class Policy(Enum):
    """A work-conserving warp scheduler: a row says its name, its choice, and its rule for ties.

    ``ties`` completes the sentence "it issues"; None if the choice is drawn, so that runs differ.
    """

    _value_: str
    choice: Callable[[Sight], int]
    ties: str | None

    LRR = "lrr", _next_in_turn, "the first eligible warp after the one issued last, by warp number"
    GTO = (
        "gto",
        _last_or_oldest,
        "the warp issued last while it is eligible, else the one with the lowest number",
    )
    GTY = (
        "gty",
        _last_or_youngest,
        "the warp issued last while it is eligible, else the one with the highest number",
    )
    OLDEST = "oldest", _oldest, "the eligible warp with the lowest number"
    YOUNGEST = "youngest", _youngest, "the eligible warp with the highest number"
    RANDOM = "random", _random, None  # each eligible warp with the same probability, by seed

    def __new__(cls, name: str, choice: Callable[[Sight], int], ties: str | None) -> Policy:
        """A row."""
        policy = object.__new__(cls)
        policy._value_, policy.choice, policy.ties = name, choice, ties
        return policy

    @property
    def code(self) -> int:
        """Its number for :data:`choose`."""
        return list(Policy).index(self)


SCRIPTED = len(Policy)
"""The number of a choice that is no policy: the run is told what to issue."""

choose = one_of((*(policy.choice for policy in Policy), _scripted))
"""The compiled choice of a number, for what a scheduler sees."""

POLICY_NAMES = ", ".join(policy.value for policy in Policy)
"""For messages and help."""


def find_policy(name: str) -> Policy:
    """The policy of that name. Raises PtxwcetError (PW530)."""
    for policy in Policy:
        if policy.value == name:
            return policy
    raise PtxwcetError(
        Diagnostic(
            "PW530",
            f"no scheduling policy is called {name!r}",
            help=f"{nearest(name, (one.value for one in Policy))}choose one: {POLICY_NAMES}",
        )
    )


@dataclass(frozen=True, slots=True)
class Jitter:
    """Timings shortened at random, at most by ``percent`` of each (0..100), by ``seed``.

    The instruction with index ``n`` of warp ``w`` (from 0, in its order of execution) takes
    ``initiation - mix(seed, 2w, n) mod (min(initiation - 1, initiation * percent // 100) + 1)`` and
    ``latency - mix(seed, 2w + 1, n) mod (latency * percent // 100 + 1)`` cycles.
    """

    percent: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.percent <= 100:
            raise PtxwcetError(
                Diagnostic(
                    "PW531",
                    f"a jitter of {self.percent} % is not possible",
                    help="timings can be shortened by 0 to 100 %",
                )
            )


NO_JITTER = Jitter()
"""Every instruction takes exactly the model's time."""


def mix(seed: int, a: int, b: int) -> int:
    """A random 64-bit number that depends on nothing but its arguments.

    ``seed * c1 + a * c2 + b * c3`` modulo 2^64, finished like SplitMix64.
    """
    x = (seed * 0x9E3779B97F4A7C15 + a * 0xBF58476D1CE4E5B9 + b * 0x94D049BB133111EB) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)
