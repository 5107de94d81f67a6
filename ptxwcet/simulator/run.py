"""Defines the result of a simulation: cycles, each warp's stalls, and issues if recorded."""

from __future__ import annotations

from dataclasses import fields

from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Stalls:
    """The cycles of a warp by activity or cause of waiting; one row per barrier section.

    ``dependency``: a register was not ready; ``unit_busy`` is the part of that wait that its
    producer spent queueing for a unit (not counted in ``dependency``). ``issue_slot``: eligible,
    another warp was issued. ``branch``: the bubble after a taken branch.
    """

    issued: int = 0
    dependency: int = 0
    unit_busy: int = 0
    issue_slot: int = 0
    barrier: int = 0
    branch: int = 0

    def __add__(self, other: Stalls) -> Stalls:
        return Stalls(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Stalls)))

    @property
    def cycles(self) -> int:
        """The sum of all causes: from the section's start to the warp's next section or exit."""
        return sum(getattr(self, f.name) for f in fields(Stalls))


@dataclass(frozen=True, slots=True)
class SectionRun:
    """The activity of a warp between two barriers, summed over the executions of this code.

    ``after`` is the origin of the barrier that the section follows (None: the program's start); the
    wait at the barrier that ends it is included.
    """

    after: int | None
    executions: int
    stalls: Stalls


@dataclass(frozen=True, slots=True)
class WarpRun:
    """One warp: ``end_cycle`` is the end of its last initiation and latency.

    ``drain_cycles`` pass between its last issue and its end, ``finished_cycles`` from there to the
    end of the block: both and the stalls of its sections add up to the block's cycles.
    """

    warp: int
    end_cycle: int
    sections: tuple[SectionRun, ...]
    drain_cycles: int
    finished_cycles: int

    @property
    def stalls(self) -> Stalls:
        """The stalls of all sections, added up."""
        return sum((section.stalls for section in self.sections), Stalls())


@dataclass(frozen=True, slots=True)
class IssueEvent:
    """One issued instruction: ``origin`` is its index in the kernel (-1: synthetic).

    It initiates in ``[dispatch_cycle, initiation_end_cycle)``; results are ready at ``end_cycle``.
    """

    warp: int
    origin: int
    unit: str
    issue_cycle: int
    dispatch_cycle: int
    initiation_end_cycle: int
    end_cycle: int


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A run of a block. ``events`` are the first issues, as many as were requested.

    ``instructions`` were issued by all warps, ``stepped`` of them one by one; the others are in
    repetitions of a joint state of all warps, skipped in closed form.
    """

    cycles: int
    policy: Policy
    seed: int
    jitter: Jitter
    schedulers: int
    instructions: int
    stepped: int
    warps: tuple[WarpRun, ...]
    events: tuple[IssueEvent, ...] = ()

    @property
    def issue_utilisation(self) -> float:
        """The issued instructions per issue slot of the SM, 0 to 1."""
        return self.instructions / (self.cycles * self.schedulers) if self.cycles else 0.0

    @property
    def repeats(self) -> bool:
        """True if a joint state repeated, so that part of the run was skipped in closed form."""
        return self.stepped < self.instructions
