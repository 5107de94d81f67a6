"""Attacks bounds by many random cases; the results are counts that add up over processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field

from ptxwcet.simulator.policies import Policy
from ptxwcet.support.records import dataclass
from ptxwcet.validate.cases import Case, Plan, standard_plan
from ptxwcet.validate.checks import Bounds, Findings, Violation, check_case
from ptxwcet.validate.generator import FAMILIES, mixed_case

MOST_STATES = 20_000
"""The states after which a search is given up: above the need of nearly all tiny families."""

_MOST_EXAMPLES = 20

# How GUB was exceeded, if not by a nominal run under a policy.
BY_WORST, BY_ADVERSARY, BY_JITTER = "exhaustive", "adversary", "jitter"


@dataclass
class Tally:
    """The counts over cases of one family; ``merge`` adds those of another.

    The histograms count cases by the permille of bound / longest observed (exhaustive worst case
    where there is one), rounded down: 1000 is exact.
    """

    cases: int = 0
    searched: int = 0  # exhaustively
    given_up: int = 0
    states: int = 0
    runs: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    violations: int = 0
    examples: list[str] = field(default_factory=list)
    gub_known: int = 0
    gub_exceeded: Counter[str] = field(default_factory=Counter)
    gub_examples: list[str] = field(default_factory=list)
    safe_permille: Counter[int] = field(default_factory=Counter)
    gub_permille: Counter[int] = field(default_factory=Counter)

    def add(self, findings: Findings) -> None:
        """Counts a case."""
        self.cases += 1
        self.searched += findings.worst is not None
        self.given_up += findings.given_up
        self.states += findings.states
        self.runs += len(findings.lengths) + len(findings.jittered)
        self.checks.update({check.value: n for check, n in findings.checks.items()})
        self.violations += len(findings.violations)
        name = findings.case.name
        _keep(self.examples, (f"{name}: {violation}" for violation in findings.violations))
        longest = findings.longest
        if longest:
            self.safe_permille[findings.safe * 1000 // longest] += 1
        if findings.gub is not None:
            self.gub_known += 1
            if longest:
                self.gub_permille[findings.gub * 1000 // longest] += 1
            exceeded = gub_exceeded_by(findings, findings.gub)
            self.gub_exceeded.update(exceeded.keys())
            if exceeded:
                by = ", ".join(f"{how} {cycles}" for how, cycles in exceeded.items())
                _keep(self.gub_examples, [f"{name}: GUB {findings.gub}, {by}"])

    def merge(self, other: Tally) -> None:
        """Adds the counts of other cases."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            match mine:
                case Counter():
                    mine.update(value)
                case list():
                    _keep(mine, value)
                case _:
                    setattr(self, name, mine + value)


def _keep(examples: list[str], more: Iterable[str]) -> None:
    examples += list(more)[: max(0, _MOST_EXAMPLES - len(examples))]


def gub_exceeded_by(findings: Findings, gub: int) -> dict[str, int]:
    """Returns the cycles of runs longer than GUB, by the kind of run."""
    longest = {policy.value: findings.longest_under(policy) for policy in Policy}
    longest[BY_WORST] = findings.worst or 0
    longest[BY_ADVERSARY] = 0 if findings.searched is None else findings.searched.cycles
    longest[BY_JITTER] = max((cycles for _, cycles in findings.jittered), default=0)
    return {how: cycles for how, cycles in longest.items() if cycles > gub}


def quantile(permille: Counter[int], share: float) -> int | None:
    """Returns the least ratio (permille) that at least this share of the cases does not exceed."""
    total = sum(permille.values())
    seen = 0
    for value in sorted(permille):
        seen += permille[value]
        if seen >= share * total:
            return value
    return None


def attack_plan(index: int, exhaustive: bool) -> Plan:
    """Returns the plan of the attack for the case of this index."""
    return standard_plan(index, most_states=MOST_STATES if exhaustive else 0)


def attack(
    seed: int, indices: Iterable[int], bounds: Bounds | None = None
) -> tuple[dict[str, Tally], list[tuple[Case, Plan, Violation]]]:
    """Checks the cases of these indices: returns counts by family, and each case's first violation.

    Cost: about a millisecond a case, and the exhaustive searches.
    """
    tallies = {family.name: Tally() for family in FAMILIES}
    violating = []
    for index in indices:
        family, case = mixed_case(seed, index)
        plan = attack_plan(index, family.exhaustive)
        findings = check_case(case, plan, bounds)
        tallies[family.name].add(findings)
        if findings.violations:
            violating.append((case, plan, findings.violations[0]))
    return tallies, violating
