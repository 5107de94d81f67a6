"""Plans: which runs and searches a case is put through."""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.simulator.engine import DEFAULT_LIMIT, Simulator
from ptxwcet.simulator.policies import NO_JITTER, Jitter, Policy

DETERMINISTIC = tuple(policy for policy in Policy if policy is not Policy.RANDOM)
"""Policies whose run is the same for every seed."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a run is made: all that :meth:`Simulator.run` needs to make it again."""

    policy: Policy
    seed: int = 0
    jitter: Jitter = NO_JITTER

    def __str__(self) -> str:
        text: str = self.policy.value
        if self.policy is Policy.RANDOM:
            text += f", seed {self.seed}"
        if self.jitter.percent:
            text += f", jitter {self.jitter.percent} % seed {self.jitter.seed}"
        return text

    def cycles(
        self, simulator: Simulator, *, skip_repeats: bool = True, limit: int = DEFAULT_LIMIT
    ) -> int:
        """The length of the run. Raises PtxwcetError as the simulator does."""
        return simulator.cycles(
            self.policy,
            seed=self.seed,
            jitter=self.jitter,
            skip_repeats=skip_repeats,
            limit=limit,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with a case: ``most_states`` 0 leaves out the exhaustive search.

    ``jittered`` are compared with upper bounds only; with ``search_jittered`` the timings of the
    first of them are searched exhaustively too. ``schedules`` are tried by the adversary.
    ``most_enumerated``: largest number of schedules that are run one by one. ``referenced`` runs
    are compared with the plain reference, instruction by instruction. ``most_referenced`` and
    ``most_unrolled``: longest case, in instructions, that the reference runs and whose loops are
    unrolled.
    """

    runs: tuple[Run, ...]
    jittered: tuple[Run, ...] = ()
    most_states: int = 0
    search_jittered: bool = False
    schedules: int = 0
    most_enumerated: int = 0
    referenced: tuple[Run, ...] = ()
    most_referenced: int = 150
    most_unrolled: int = 1000


def standard_plan(number: int, *, most_states: int = 0) -> Plan:
    """Every policy, two random seeds and four jittered runs; seeds differ from case to case.

    One case of eight meets the adversary, another one the plain reference, a third, if tiny, the
    enumeration of its schedules; two, if tiny, are searched with shortened timings too.
    """
    jittered = (
        Run(Policy.LRR, 0, Jitter(25, number)),
        Run(Policy.GTO, 0, Jitter(50, number)),
        Run(Policy.YOUNGEST, 0, Jitter(75, number)),
        Run(Policy.RANDOM, number, Jitter(100, number)),
    )
    runs = (
        *map(Run, DETERMINISTIC),
        Run(Policy.RANDOM, 2 * number),
        Run(Policy.RANDOM, 2 * number + 1),
    )
    turn = number // 16 % 8  # families take turns by the lowest digits
    referenced = (runs[number % len(runs)], jittered[number % len(jittered)])
    first = number % len(jittered)
    return Plan(
        runs,
        (*jittered[first:], *jittered[:first]),
        most_states,
        search_jittered=turn in (3, 4),
        schedules=60 if turn == 0 else 0,
        most_enumerated=1000 if turn == 1 else 0,
        referenced=referenced if turn == 2 else (),
    )
