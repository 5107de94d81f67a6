"""Compares a block's bounds with its runs: every policy, many seeds, jitter, the adversary.

The requirement on a bound depends on its side: an upper bound holds for every run, a lower bound
for runs with nominal timings, a known schedule's length for the stepped run of its policy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from enum import Enum

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.bounds.outcome import BlockBound, Outcome
from ptxwcet.claims import Refusal
from ptxwcet.simulator.adversary import search_long_schedule
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator, claim_schedule
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.validate.cases import DETERMINISTIC, Case, Plan, Run
from ptxwcet.validate.checks import Check, Violation, run_alone
from ptxwcet.validate.witness import Witness, find_witness
from ptxwcet.warp.program import BlockWorkload, WarpProgram

# Instructions per second that a run surely steps: to estimate beforehand whether it is affordable.
_STEPPED_PER_SECOND = 10_000_000
_SHARE_OF_SEEDS = 0.7  # of the time; the rest is the adversary's
_MOST_SCHEDULES = 2000
_ESTIMATES = ("gub",)
_FROM_BELOW = ("lower",)


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort: ``seeds`` random streams, timings shortened by ``jitter_percent``, seconds."""

    seeds: int
    jitter_percent: int
    seconds: float


class Side(Enum):
    """The side of the runs on which a bound lies."""

    ABOVE = ">="
    BELOW = "<="
    EXACT = "="


@dataclass(frozen=True)
class Observed:
    """An observed run: its length, its kind, and its resolution of the workload."""

    cycles: int
    by: str
    workload: BlockWorkload
    run: Run | None = None
    schedules: int = 0  # tried by the adversary, if the run is its


@dataclass(frozen=True)
class MethodRow:
    """A method's bound and the run closest to it; ``proved``: exceeding it is a bug."""

    method: str
    guarantee: str
    side: Side
    cycles: int
    observed: Observed
    proved: bool

    @property
    def holds(self) -> bool:
        """Whether the run agrees with the bound."""
        match self.side:
            case Side.ABOVE:
                return self.cycles >= self.observed.cycles
            case Side.BELOW:
                return self.cycles <= self.observed.cycles
            case _:
                return self.cycles == self.observed.cycles


@dataclass(frozen=True)
class BlockValidation:
    """The rows, the methods without an answer, and the extent of the runs.

    ``given_up`` runs were too long for the time limit. ``witness`` shows the first proved bound
    that does not hold.
    """

    rows: tuple[MethodRow, ...]
    refused: tuple[tuple[str, str], ...]
    runs: int
    schedules: int
    resolutions: int
    given_up: int
    witness: Witness | None

    @property
    def holds(self) -> bool:
        """Whether every proved bound agrees with every run."""
        return all(method.holds for method in self.rows if method.proved)


def validate_block(
    name: str,
    analysis: BlockAnalysis,
    outcomes: Mapping[str, Outcome],
    effort: Effort,
    resolve: Callable[[BlockWorkload, int | None], BlockWorkload],
) -> BlockValidation:
    """Runs a block as often as the effort permits, and compares.

    ``resolve`` makes a single path of a workload with several: the largest, without a seed, else at
    random. Deterministic policies with nominal timings are always run; nothing new begins after the
    time limit. Raises PtxwcetError as the simulator does (PW532).
    """
    runs = _Runs(analysis, effort, resolve)
    runs.make()
    comparisons = []
    refused = []
    for method, outcome in outcomes.items():
        if isinstance(outcome, Refusal):
            refused.append((method, outcome.reason))
        elif (comparison := runs.compare(outcome)) is not None:
            comparisons.append(comparison)
    comparisons += runs.compare_schedules()
    failed = next((method for method in comparisons if method.proved and not method.holds), None)
    return BlockValidation(
        tuple(comparisons),
        tuple(refused),
        runs.made,
        runs.schedules,
        runs.resolutions,
        runs.given_up,
        None if failed is None else _witness(name, analysis, failed, effort),
    )


@dataclass
class _Runs:
    """The runs so far. Extremes: of all runs, and of those with nominal timings."""

    analysis: BlockAnalysis
    effort: Effort
    resolve: Callable[[BlockWorkload, int | None], BlockWorkload]
    made: int = 0
    schedules: int = 0
    resolutions: int = 0
    given_up: int = 0
    longest: Observed | None = None
    shortest: Observed | None = None
    _end: float = field(default=0.0, init=False)

    def make(self) -> None:
        """Makes all runs: by seed, until a share of the time is over; then the adversary's."""
        run_alone(WarpProgram(()), self.analysis.workload.scoreboard)  # compiled before the clock
        self._end = time.monotonic() + self.effort.seconds * _SHARE_OF_SEEDS
        is_single = self.analysis.is_single_path
        configuration = SmConfiguration.of(self.analysis.machine)
        workload = self.analysis.workload
        simulator: Simulator | None = None
        for seed in range(max(1, self.effort.seeds)):
            if seed and self._left() <= 0:
                break
            if simulator is None or not is_single:
                if not is_single:
                    workload = self.resolve(self.analysis.workload, seed or None)
                simulator = Simulator(workload, configuration)
                self.resolutions += 1
            for run in self._plan(seed, again=is_single and seed > 0):
                self._run(simulator, workload, run)
        self._end += self.effort.seconds * (1 - _SHARE_OF_SEEDS)
        self._attack(configuration)

    def _left(self) -> float:
        return self._end - time.monotonic()

    def _plan(self, seed: int, *, again: bool) -> Iterator[Run]:
        """Yields deterministic policies (once per workload), a random one, and all with jitter."""
        if not again:
            yield from map(Run, DETERMINISTIC)
        if self.effort.seeds:
            yield Run(Policy.RANDOM, seed)
        if self.effort.jitter_percent and self.effort.seeds:
            jitter = Jitter(self.effort.jitter_percent, seed)
            for policy in Policy:
                yield Run(policy, seed if policy is Policy.RANDOM else 0, jitter)

    def _run(self, simulator: Simulator, workload: BlockWorkload, run: Run) -> None:
        is_first = run.jitter.percent == 0 and run.policy is not Policy.RANDOM
        seconds = max(1.0, self._left()) if is_first else self._left()
        steps = int(seconds * _STEPPED_PER_SECOND)
        if not is_first and (seconds <= 0 or simulator.instructions > steps):
            self.given_up += 1
            return
        try:
            cycles = run.cycles(simulator, limit=steps)
        except PtxwcetError as error:
            if error.diagnostics[0].code != "PW533":
                raise
            self.given_up += 1
            return
        self.made += 1
        self._note(Observed(cycles, str(run), workload, run), nominal=run.jitter.percent == 0)

    def _note(self, observed: Observed, *, nominal: bool) -> None:
        if self.longest is None or observed.cycles > self.longest.cycles:
            self.longest = observed
        if nominal and (self.shortest is None or observed.cycles < self.shortest.cycles):
            self.shortest = observed

    def _attack(self, configuration: SmConfiguration) -> None:
        """Runs the adversary on the longest resolution, as often as the time allows."""
        if self.longest is None or not self.effort.seeds:
            return
        workload = self.longest.workload
        simulator = Simulator(workload, configuration)
        begin = time.monotonic()
        if simulator.instructions > self._left() * _STEPPED_PER_SECOND:
            return
        Run(Policy.RANDOM).cycles(simulator)
        once = time.monotonic() - begin + 1e-4
        runs = min(_MOST_SCHEDULES, int(self._left() / (2 * once)))
        if runs < 1:
            return
        search = search_long_schedule(simulator, workload.warp_count, runs=runs)
        self.schedules = search.runs
        by = f"adversary, from {search.origin}"
        self._note(Observed(search.cycles, by, workload, schedules=runs), nominal=True)

    def compare(self, bound: BlockBound) -> MethodRow | None:
        """Returns a bound with the run closest to it; None if every run was given up."""
        side = Side.BELOW if bound.method in _FROM_BELOW else Side.ABOVE
        observed = self.longest if side is Side.ABOVE else self.shortest
        if observed is None:
            return None
        guarantee = bound.claim.guarantee.value
        proved = bound.method not in _ESTIMATES
        return MethodRow(bound.method, guarantee, side, bound.cycles, observed, proved)

    def compare_schedules(self) -> Iterator[MethodRow]:
        """Yields method ``scheduled`` for each policy that it supports, with the stepped run."""
        workload, machine = self.analysis.workload, self.analysis.machine
        if not self.analysis.is_single_path:
            return
        simulator = Simulator(workload, SmConfiguration.of(machine))
        steps = int(max(1.0, self._left()) * _STEPPED_PER_SECOND)
        for policy in DETERMINISTIC:
            if simulator.instructions > steps:
                return
            scheduled = claim_schedule(
                workload,
                machine,
                policy,
                self.analysis.assumptions,
                is_nominal=self.analysis.is_nominal,
            )
            if isinstance(scheduled, Refusal):
                return
            run = Run(policy)
            stepped = run.cycles(simulator, skip_repeats=False)
            observed = Observed(stepped, f"{policy.value}, stepped", workload, run)
            guarantee = scheduled.claim.guarantee.value
            yield MethodRow(
                "scheduled", guarantee, Side.EXACT, scheduled.run.cycles, observed, True
            )


def _witness(name: str, analysis: BlockAnalysis, failed: MethodRow, effort: Effort) -> Witness:
    """Returns the contradiction, shrunk with the bounds that the checks evaluate themselves."""
    observed = failed.observed
    match failed.side:
        case Side.BELOW:
            check = Check.LOWER_RUN
        case Side.EXACT:
            check = Check.SKIPPED
        case _ if observed.run is None:
            check = Check.SAFE_SEARCHED
        case _:
            check = Check.SAFE_JITTER if observed.run.jitter.percent else Check.SAFE_RUN
    run = observed.run
    nominal = run is not None and check is not Check.SAFE_JITTER
    plan = Plan(
        runs=(run,) if run is not None and nominal else (),
        jittered=(run,) if run is not None and not nominal else (),
        schedules=min(100, observed.schedules),
    )
    servers = tuple((unit.name, unit.count) for unit in analysis.machine.units)
    shape = SmConfiguration.of(analysis.machine)
    case = Case(name, observed.workload, shape.schedulers, servers, shape.memory_cycles)
    violation = Violation(check, failed.cycles, observed.cycles, run)
    return find_witness(case, violation, plan, seconds=effort.seconds)
