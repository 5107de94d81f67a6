"""Checks the relations that must hold between the bounds of a block and its runs.

Bound functions are parameters, so that a test can pass a broken one and see it detected. A check
compares two numbers from programs that share nothing but the workload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.bounds.grid import BlockKind, Dispatch, GridBound, bound_grid
from ptxwcet.bounds.gub import bound_gub
from ptxwcet.bounds.lower import bound_lower
from ptxwcet.bounds.memory_servers import MemoryDemand, memory_demand
from ptxwcet.bounds.outcome import BlockBound, Outcome
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.simulator.adversary import LongSchedule, search_long_schedule
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.simulator.policies import Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.phases import profile_warp
from ptxwcet.validate.cases import DETERMINISTIC, Case, Plan, Run, shortened, unrolled
from ptxwcet.warp.program import BlockWorkload, Repeat, Scoreboard, WarpClass, WarpProgram

BoundFunction = Callable[[BlockAnalysis], Outcome]
GridFunction = Callable[[Sequence[BlockKind], Dispatch], GridBound]


class Check(Enum):
    """A relation that must hold; the value is its printed form."""

    SAFE_WORST = "SAFE >= exhaustive worst case"
    SAFE_SHORTENED = "SAFE >= exhaustive worst case of shortened timings"
    WORST_SHORTENED = "exhaustive worst case of shortened timings >= run with this jitter"
    SAFE_RUN = "SAFE >= run of a policy"
    SAFE_JITTER = "SAFE >= run with jitter"
    LOWER_RUN = "lower bound <= run of a policy"
    SAFE_SEARCHED = "SAFE >= longest schedule of the adversary"
    WORST_RUN = "exhaustive worst case >= run of a policy"
    WORST_SEARCHED = "exhaustive worst case >= longest schedule of the adversary"
    WORST_ENUMERATED = "exhaustive worst case = longest of all schedules one by one"
    REFERENCE = "run of the engine = run of the plain reference"
    PROFILE = "profile of a warp = run of it alone"
    UNROLLED = "bounds of closed loops = bounds of unrolled loops"
    SKIPPED = "run with repetitions skipped = run stepped"
    GRID_RUN = "bound of a grid >= run of it"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The functions under test."""

    safe: BoundFunction = bound_safe
    gub: BoundFunction = bound_gub
    lower: BoundFunction = bound_lower
    grid: GridFunction = bound_grid


@dataclass(frozen=True, slots=True)
class Violation:
    """A check that failed: ``expected`` on its left side, ``found`` on its right (cycles).

    ``run`` is the run that contradicts it; None: the exhaustive search's schedule, or no run.
    """

    check: Check
    expected: int
    found: int
    run: Run | None = None

    def __str__(self) -> str:
        by = f" ({self.run})" if self.run is not None else ""
        return f"{self.check.value}: {self.expected} against {self.found}{by}"


@dataclass(frozen=True)
class Findings:
    """The results of a case, in cycles; None where not requested or refused.

    ``lengths`` are the nominal runs, ``jittered`` the others. ``schedule``: the warps in issue
    order, of the exhaustive search's worst schedule. ``searched`` is the adversary's best.
    """

    case: Case
    safe: int
    gub: int | None
    lower: int | None
    lengths: tuple[tuple[Run, int], ...]
    jittered: tuple[tuple[Run, int], ...]
    worst: int | None
    schedule: tuple[int, ...]
    states: int
    given_up: bool  # the search, above its cap
    searched: LongSchedule | None
    checks: Counter[Check]
    violations: tuple[Violation, ...]

    @property
    def longest(self) -> int:
        """The longest observation: the exhaustive worst case, else the longest nominal schedule."""
        observed = [cycles for _, cycles in self.lengths]
        searched = 0 if self.searched is None else self.searched.cycles
        return max([*observed, self.worst or 0, searched])

    def longest_under(self, policy: Policy) -> int:
        """Returns the longest nominal run under a policy; 0 without one."""
        return max((cycles for run, cycles in self.lengths if run.policy is policy), default=0)


def check_case(case: Case, plan: Plan, bounds: Bounds | None = None) -> Findings:
    """Bounds the case, runs it as planned and compares.

    Raises PtxwcetError if the block is refused or deadlocks. Cost: that of the runs, and of the
    exhaustive search.
    """
    return _Checker(case, plan, bounds or Bounds()).findings()


class _Checker:
    def __init__(self, case: Case, plan: Plan, bounds: Bounds) -> None:
        self._case = case
        self._plan = plan
        self._bounds = bounds
        self._checks: Counter[Check] = Counter()
        self._violations: list[Violation] = []
        self._analysis = case.analyse()
        self._simulator = Simulator(case.workload, case.configuration)

    def findings(self) -> Findings:
        safe = _answer(self._bounds.safe(self._analysis))
        if safe is None:
            raise ValueError("the safe bound answers every case")
        worst, schedule, states = self._search(self._case.workload)
        gathered = Findings(
            self._case,
            safe,
            _answer(self._bounds.gub(self._analysis)),
            _answer(self._bounds.lower(self._analysis)),
            self._run_all(self._plan.runs),
            self._run_all(self._plan.jittered),
            worst,
            schedule,
            states,
            bool(self._plan.most_states) and worst is None,
            self._attack(),
            self._checks,
            (),
        )
        self._compare(gathered)
        self._search_jittered(safe, gathered.jittered)
        self._enumerate(worst)
        self._refer()
        self._check_profiles()
        self._check_skipping(dict(gathered.lengths))
        self._check_unrolling((safe, gathered.gub, gathered.lower))
        return replace(gathered, violations=tuple(self._violations))

    def _compare(self, findings: Findings) -> None:
        """Compares the bounds and the exact worst case with every run of the unchanged case."""
        safe, lower, worst = findings.safe, findings.lower, findings.worst
        for run, cycles in findings.lengths:
            self._expect(Check.SAFE_RUN, safe >= cycles, (safe, cycles), run)
            if lower is not None:
                self._expect(Check.LOWER_RUN, lower <= cycles, (lower, cycles), run)
            if worst is not None:
                self._expect(Check.WORST_RUN, worst >= cycles, (worst, cycles), run)
        for run, cycles in findings.jittered:
            self._expect(Check.SAFE_JITTER, safe >= cycles, (safe, cycles), run)
        if worst is not None:
            self._expect(Check.SAFE_WORST, safe >= worst, (safe, worst))
        if findings.searched is not None:
            longest = findings.searched.cycles
            self._expect(Check.SAFE_SEARCHED, safe >= longest, (safe, longest))
            if worst is not None:
                self._expect(Check.WORST_SEARCHED, worst >= longest, (worst, longest))

    def _expect(
        self, check: Check, holds: bool, sides: tuple[int, int], run: Run | None = None
    ) -> None:
        self._checks[check] += 1
        if not holds:
            self._violations.append(Violation(check, *sides, run))

    def _run_all(self, runs: tuple[Run, ...]) -> tuple[tuple[Run, int], ...]:
        return tuple((run, run.cycles(self._simulator)) for run in runs)

    def _search(self, workload: BlockWorkload) -> tuple[int | None, tuple[int, ...], int]:
        if not self._plan.most_states:
            return None, (), 0
        try:
            worst = search_worst(
                workload, self._case.configuration, most_states=self._plan.most_states
            )
        except PtxwcetError as error:
            if error.diagnostics[0].code != "PW534":
                raise
            return None, (), 0
        return worst.cycles, tuple(worst.schedule), worst.states

    def _search_jittered(self, safe: int, jittered: tuple[tuple[Run, int], ...]) -> None:
        """Searches all schedules of one jitter's timings: those of a faster machine."""
        if not self._plan.search_jittered or not jittered:
            return
        run, cycles = jittered[0]
        worst, _, _ = self._search(shortened(self._case.workload, run.jitter))
        if worst is not None:
            self._expect(Check.SAFE_SHORTENED, safe >= worst, (safe, worst), run)
            self._expect(Check.WORST_SHORTENED, worst >= cycles, (worst, cycles), run)

    def _attack(self) -> LongSchedule | None:
        if not self._plan.schedules:
            return None
        warps = self._case.workload.warp_count
        return search_long_schedule(self._simulator, warps, runs=self._plan.schedules)

    def _enumerate(self, worst: int | None) -> None:
        if worst is None or not self._plan.most_enumerated:
            return
        longest = longest_of_all(self._simulator, most=self._plan.most_enumerated)
        if longest is not None:
            self._expect(Check.WORST_ENUMERATED, worst == longest, (worst, longest))

    def _refer(self) -> None:
        """Compares the engine's run, every event, with the reference's."""
        case = self._case
        if case.instructions > self._plan.most_referenced:
            return
        for run in self._plan.referenced:
            stepped = self._simulator.run(
                run.policy, seed=run.seed, jitter=run.jitter, record=case.instructions
            )
            plain = reference_run(
                case.workload, case.configuration, run.policy, seed=run.seed, jitter=run.jitter
            )
            self._expect(Check.REFERENCE, stepped == plain, (stepped.cycles, plain.cycles), run)

    def _check_profiles(self) -> None:
        """Compares each program's isolated length with a run of one warp.

        It has no wait at servers after the units, where a warp may wait for itself.
        """
        scoreboard = self._case.workload.scoreboard
        waits = memory_demand(self._analysis) != MemoryDemand()
        for warp_class in self._case.workload.classes:
            profile = profile_warp(warp_class.program.body, scoreboard)
            alone = run_alone(warp_class.program, scoreboard, self._case.memory_cycles)
            sides = (profile.isolated_cycles, alone)
            holds = sides[0] == sides[1] or (waits and sides[0] < sides[1])
            self._expect(Check.PROFILE, holds, sides)

    def _check_skipping(self, lengths: dict[Run, int]) -> None:
        if not has_loops(self._case.workload):
            return
        for policy in DETERMINISTIC:
            skipped = lengths.get(Run(policy))
            if skipped is not None:
                stepped = Run(policy).cycles(self._simulator, skip_repeats=False)
                self._expect(Check.SKIPPED, skipped == stepped, (skipped, stepped), Run(policy))

    def _check_unrolling(self, closed: tuple[int | None, ...]) -> None:
        case = self._case
        if not has_loops(case.workload) or case.instructions > self._plan.most_unrolled:
            return
        analysis = replace(case, workload=unrolled(case.workload)).analyse()
        functions = (self._bounds.safe, self._bounds.gub, self._bounds.lower)
        for before, function in zip(closed, functions, strict=True):
            after = _answer(function(analysis))
            if before is not None and after is not None:
                self._expect(Check.UNROLLED, before == after, (before, after))


def run_alone(program: WarpProgram, scoreboard: Scoreboard, memory_cycles: int = 0) -> int:
    """Returns the length of a lone warp's run on an idle machine (:class:`SmConfiguration`)."""
    workload = BlockWorkload((WarpClass(program, (0,)),), scoreboard)
    configuration = SmConfiguration(memory_cycles=memory_cycles)
    return Simulator(workload, configuration).cycles(Policy.LRR)


def has_loops(workload: BlockWorkload) -> bool:
    """Returns whether a program of the workload has a loop."""
    return any(isinstance(node, Repeat) for c in workload.classes for node in c.program.body)


def _answer(outcome: Outcome) -> int | None:
    return outcome.cycles if isinstance(outcome, BlockBound) else None


def longest_of_all(simulator: Simulator, *, most: int) -> int | None:
    """Returns the longest of all work-conserving schedules; None if that takes more runs.

    Depth first through the scripts of decisions that the engine follows: a decision is an index
    among the eligible warps, so the one after the last wraps to 0. Cost: about two runs each.
    """
    run = simulator.run_script(())
    longest, runs = run.cycles, 1
    decisions = run.decisions.tolist()
    while decisions:
        if runs == most:
            return None
        position = len(decisions) - 1
        tried = [*decisions[:position], decisions[position] + 1]
        run = simulator.run_script(tried)
        runs += 1
        if run.decisions[position] == 0:  # wrapped: this choice is exhausted
            decisions = decisions[:position]
            continue
        longest = max(longest, run.cycles)
        decisions = run.decisions.tolist()
    return longest
