"""The self-test: known cases, random cases, the engine against its two oracles.

Everything in a :class:`SelfTest` is a function of the installed files, the seed and the number of
cases: two runs with these three equal print the same.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from ptxwcet.support.installation import Digest, installed_digests, installed_versions
from ptxwcet.validate.attack import MOST_STATES, Tally, attack
from ptxwcet.validate.cases import Case, Plan, standard_plan
from ptxwcet.validate.checks import Bounds, Check, Violation, check_case
from ptxwcet.validate.corpus import CORPUS, KnownCase
from ptxwcet.validate.generator import FAMILIES
from ptxwcet.validate.grids import GridTally, attack_grids
from ptxwcet.validate.witness import Witness, find_witness

_CHUNK = 240
_CASES_A_GRID = 7
_MOST_WITNESSES = 3
_SHRINKING_SECONDS = 5.0


@dataclass(frozen=True)
class SelfTest:
    """The summary: what was tested, with what, and what was found.

    ``known`` are the corpus cases with, for those that fail, what differs; ``grids`` what came of
    random grids.
    """

    versions: tuple[tuple[str, str], ...]
    digests: tuple[Digest, ...]
    seed: int
    cases: int
    known: tuple[tuple[str, tuple[str, ...]], ...]
    checks: tuple[tuple[str, int], ...]
    families: tuple[tuple[str, Tally], ...]
    grids: GridTally
    violations: int
    witnesses: tuple[Witness, ...]

    @property
    def passed(self) -> bool:
        """Whether random cases were run and nothing was violated."""
        return self.cases > 0 and self.violations == 0


def run_selftest(
    seed: int, *, seconds: float = 45.0, cases: int | None = None, bounds: Bounds | None = None
) -> SelfTest:
    """Runs the self-test: the corpus, then random cases until the time is up or all are done.

    ``cases`` None: as many as the time allows, in whole chunks; else exactly so many, whatever
    the time. To every seventh case comes a random grid. The time begins when the corpus, a case of
    each family and a grid have been run once: what is compiled on first use is compiled by then. Up
    to three violations of blocks are shrunk to witnesses.
    """
    corpus, failing, checks = _check_corpus(bounds)
    if cases is None:
        attack(seed, range(len(FAMILIES)), bounds)
        attack_grids(seed, range(1), bounds)
    end = time.monotonic() + seconds
    tallies = {family.name: Tally() for family in FAMILIES}
    grids = GridTally()
    done = 0
    while done < cases if cases is not None else (time.monotonic() < end and not failing):
        size = _CHUNK if cases is None else min(_CHUNK, cases - done)
        by_family, violating = attack(seed, range(done, done + size), bounds)
        grids.merge(attack_grids(seed, _grids(done, done + size), bounds))
        done += size
        failing += violating
        for name, tally in by_family.items():
            tallies[name].merge(tally)
    for tally in tallies.values():
        checks.update(tally.checks)
    if grids.runs:
        checks[Check.GRID_RUN.value] = grids.runs
    wrong = sum(bool(problems) for _, problems in corpus)
    return SelfTest(
        installed_versions(),
        installed_digests(),
        seed,
        done,
        corpus,
        tuple(sorted(checks.items())),
        tuple(tallies.items()),
        grids,
        wrong + len(grids.violations) + sum(tally.violations for tally in tallies.values()),
        tuple(
            find_witness(case, violation, plan, bounds, seconds=_SHRINKING_SECONDS)
            for case, plan, violation in failing[:_MOST_WITNESSES]
        ),
    )


def _grids(first: int, end: int) -> range:
    """The grids that come to the cases ``first`` to ``end - 1``."""
    return range(-(-first // _CASES_A_GRID), -(-end // _CASES_A_GRID))


_Failing = list[tuple[Case, Plan, Violation]]


def _check_corpus(
    bounds: Bounds | None,
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], _Failing, Counter[str]]:
    results = []
    failing: _Failing = []
    checks: Counter[str] = Counter()
    for number, entry in enumerate(CORPUS):
        plan = standard_plan(number, most_states=MOST_STATES)
        findings = check_case(entry.case, plan, bounds)
        checks.update({check.value: n for check, n in findings.checks.items()})
        if findings.violations:
            failing.append((entry.case, plan, findings.violations[0]))
        values = (findings.worst, findings.safe, findings.gub, findings.lower)
        problems = [str(violation) for violation in findings.violations]
        results.append((entry.case.name, (*_differences(entry, values), *problems)))
    return tuple(results), failing, checks


def _differences(known: KnownCase, values: tuple[int | None, ...]) -> list[str]:
    expected = (known.worst, known.safe, known.gub, known.lower)
    names = ("worst case", "SAFE", "GUB", "lower bound")
    return [
        f"{name} is {value}, known is {right}"
        for name, value, right in zip(names, values, expected, strict=True)
        if value != right
    ]
