"""Warp schedulers by name, and the random numbers that runs depend on.

The functions themselves are compiled (:mod:`ptxwcet.simulator.engine`), one for each policy. In
every cycle a scheduler sees which of its warps are eligible and issues one of them; none of these
policies idles while a warp is eligible. Ties are broken by warp number (0 = oldest).

Randomness is a pure function of its arguments, so a run can be repeated in any implementation:
``mix(seed, a, b)`` below decides a random policy's choice (a: cycle, b: sub-core) and the jitter of
an instruction (a: 2 * warp for initiations, 2 * warp + 1 for latencies, b: its index in the
warp's execution).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_MASK = (1 << 64) - 1


class Policy(Enum):
    """A work-conserving warp scheduler."""

    LRR = "lrr"  # loose round robin: the first eligible warp after the one issued last
    GTO = "gto"  # greedy then oldest: the warp issued last if eligible, else the oldest
    GTY = "gty"  # greedy then youngest
    OLDEST = "oldest"  # the eligible warp with the lowest number
    YOUNGEST = "youngest"  # the eligible warp with the highest number
    RANDOM = "random"  # each eligible warp with the same probability, by seed

    @property
    def code(self) -> int:
        """The number by which compiled code knows the policy."""
        return list(Policy).index(self)


def find_policy(name: str) -> Policy:
    """The policy of that name. Raises PtxwcetError (PW530)."""
    for policy in Policy:
        if policy.value == name:
            return policy
    known = ", ".join(policy.value for policy in Policy)
    raise PtxwcetError(
        Diagnostic("PW530", f"no scheduling policy is called {name!r}", help=f"choose one: {known}")
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
