"""Runs the self-test: known cases, random cases, the engine against its two oracles; its report.

Everything in a :class:`SelfTest` is a function of the installed files, the seed and the number of
cases: two runs with these three equal print the same.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping

from ptxwcet.report.head import ReportHead, report_head
from ptxwcet.support.installation import (
    Digest,
    describe_installation,
    installed_digests,
    installed_versions,
)
from ptxwcet.support.records import dataclass
from ptxwcet.validate.attack import MOST_STATES, Tally, attack, quantile
from ptxwcet.validate.cases import Case, Plan, deal, standard_plan
from ptxwcet.validate.checks import Bounds, Check, Violation, check_case
from ptxwcet.validate.generator import FAMILIES
from ptxwcet.validate.grids import GridTally, attack_grids
from ptxwcet.validate.path_selftest import PathSelfTest
from ptxwcet.validate.witness import Witness, find_witness
from ptxwcet.warp.program import Barrier, BlockWorkload, Node, Repeat, Scoreboard, TimedInstruction

_CHUNK = 240
_CASES_A_GRID = 7
_MOST_WITNESSES = 3
_SHRINKING_SECONDS = 5.0


@dataclass(frozen=True)
class SelfTest:
    """The summary: the subjects, the means and the results of the tests.

    ``known`` are the corpus cases with the differences of those that fail; ``grids`` are the
    results of random grids.
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

    ``cases`` None: as many as the time allows, in whole chunks; else exactly this many, whatever
    the time. Every seventh case is accompanied by a random grid. The time begins when the corpus, a
    case of each family and a grid have been run once: code compiled on first use is compiled by
    then. Up to three violations of blocks are shrunk to witnesses.
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
    """Returns the grids of the cases ``first`` to ``end - 1``."""
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


def _differences(case: KnownCase, values: tuple[int | None, ...]) -> list[str]:
    expected = (case.worst, case.safe, case.gub, case.lower)
    names = ("worst case", "SAFE", "GUB", "lower bound")
    return [
        f"{name} is {value}, known is {right}"
        for name, value, right in zip(names, values, expected, strict=True)
        if value != right
    ]


# --- the report, schema number 1 ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tightness:
    """Bound over longest observed run in thousandths: least, median and most of the cases."""

    least: int | None
    median: int | None
    most: int | None


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """Random blocks of one kind; ``gub_exceeded``: in how many a kind of run exceeded GUB."""

    cases: int
    searched_exhaustively: int
    runs: int
    violations: int
    gub_exceeded: Mapping[str, int]
    safe_over_longest_permille: Tightness


@dataclass(frozen=True, slots=True)
class GridsRow:
    """Random grids against the bound of a launch; ``contradicted`` says which were above it."""

    grids: int
    runs: int
    contradicted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathsRow:
    """Kernels executed on adversarial data; ``contradicted`` are paths or times not foreseen."""

    kernels: int
    bounded: int
    runs: int
    contradicted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SelfTestReport(ReportHead):
    """What was tested, with what, and what was found.

    ``sha256`` is of the tool's Python sources together (``sources``) and of each machine file;
    ``known_cases`` by name say what differs from what is known; ``checks`` how often each check was
    made. ``witnesses`` are shrunk counterexamples, line by line.
    """

    versions: Mapping[str, str]
    sha256: Mapping[str, str]
    seed: int
    known_cases: Mapping[str, tuple[str, ...]]
    random_cases: int
    checks: Mapping[str, int]
    families: Mapping[str, FamilyRow]
    grids: GridsRow
    violations: int
    witnesses: tuple[tuple[str, ...], ...]
    paths: PathsRow
    passed: bool


def build_selftest_report(summary: SelfTest, paths: PathSelfTest) -> SelfTestReport:
    """Returns the report of a self-test: it has passed if both of its halves have."""
    grids = summary.grids
    return SelfTestReport(
        *report_head(),
        dict(summary.versions),
        {digest.what: digest.sha256 for digest in summary.digests},
        summary.seed,
        dict(summary.known),
        summary.cases,
        dict(summary.checks),
        {name: _family(tally) for name, tally in summary.families},
        GridsRow(grids.grids, grids.runs, tuple(map(str, grids.violations))),
        summary.violations,
        tuple(tuple(witness.lines()) for witness in summary.witnesses),
        PathsRow(paths.kernels, paths.bounded, paths.runs, tuple(map(str, paths.diagnostics))),
        summary.passed and not paths.diagnostics,
    )


def differences_from(report: SelfTestReport) -> Iterator[str]:
    """Yields the differences of this installation from the self-test's; none if all is the same."""
    versions, digests = describe_installation()
    for name, value in report.versions.items():
        if versions.get(name) != value:
            yield f"{name} {value}, here {versions.get(name, 'none')}"
    for name in dict.fromkeys((*digests, *report.sha256)):
        if digests.get(name) != report.sha256.get(name):
            yield f"other {name}"


def _family(tally: Tally) -> FamilyRow:
    return FamilyRow(
        tally.cases,
        tally.searched,
        tally.runs,
        tally.violations,
        dict(sorted(tally.gub_exceeded.items())),
        Tightness(*(quantile(tally.safe_permille, share) for share in (0.0, 0.5, 1.0))),
    )


def selftest_lines(report: SelfTestReport) -> Iterator[str]:
    """Yields the report as text for people."""
    yield "ptxwcet self-test"
    for name, version in report.versions.items():
        yield f"  {name:<28} {version}"
    yield "sha256"
    for name, digest in report.sha256.items():
        yield f"  {name:<28} {digest}"
    yield f"known cases: {len(report.known_cases)}"
    for name, problems in report.known_cases.items():
        yield f"  {name:<34} {'; '.join(problems) or 'as known'}"
    yield f"random cases: {report.random_cases:,}, the first ones of seed {report.seed}"
    columns = ("family", "cases", "searched", "runs", "violations", "SAFE / longest observed")
    yield (
        f"  {columns[0]:<16}" + "".join(f"{name:>12}" for name in columns[1:5]) + f"  {columns[5]}"
    )
    for name, family in report.families.items():
        counts = (family.cases, family.searched_exhaustively, family.runs, family.violations)
        yield f"  {name:<16}" + "".join(f"{n:>12,}" for n in counts) + f"  {_tightness(family)}"
    yield "checks made"
    for name, count in report.checks.items():
        yield f"  {name:<52} {count:>12,}"
    yield from _verdict(report)


def _verdict(report: SelfTestReport) -> Iterator[str]:
    grids, paths = report.grids, report.paths
    yield (
        f"grids: {grids.grids:,} random grids, {grids.runs:,} runs, "
        f"{len(grids.contradicted):,} contradicted"
    )
    yield (
        f"paths: {paths.kernels} kernels, {paths.bounded} bounded, {paths.runs} runs on "
        f"adversarial data, {len(paths.contradicted)} contradicted"
    )
    violations = report.violations + len(paths.contradicted)
    yield f"violations: {violations}"
    if violations or report.random_cases:
        yield "passed" if report.passed else "FAILED"
    else:
        yield "FAILED: no random case was run: give a longer --timeout, or --cases"


def _tightness(family: FamilyRow) -> str:
    """Returns least, median and largest ratio of the bound to the longest observed schedule."""
    ratios = family.safe_over_longest_permille
    values = (ratios.least, ratios.median, ratios.most)
    return " .. ".join("-" if value is None else f"{value / 1000:.3f}" for value in values)


# The first five are published: Example 1 of [J] and the four blocks that exceed GUB. In the others
# SAFE or the lower bound is exact, so that a bound that loses a cycle is detected: by each of them
# for another reason, which its name states.


@dataclass(frozen=True, slots=True)
class KnownCase:
    """A case with its exact worst case over all work-conserving schedules and its bounds."""

    case: Case
    worst: int
    safe: int
    gub: int
    lower: int


def _i(
    unit: str,
    initiation: int,
    latency: int,
    writes: str = "",
    reads: str = "",
    *,
    conditional: bool = False,
    bubble: int = 0,
) -> TimedInstruction:
    return TimedInstruction(
        unit, initiation, latency, tuple(reads.split()), tuple(writes.split()), conditional, bubble
    )


def _raw(*programs: tuple[Node, ...]) -> BlockWorkload:
    return deal(programs, Scoreboard.RAW)


def _waw(*programs: tuple[Node, ...]) -> BlockWorkload:
    return deal(programs, Scoreboard.RAW_WAW)


_EXAMPLE_1 = (_i("A", 2, 6, "r0"), _i("B", 3, 4), _i("B", 3, 4), _i("C", 2, 4, "r3", "r0"))
_IDENTICAL = (
    _i("B", 3, 0, "r1"),
    _i("A", 1, 0, "r2"),
    _i("A", 2, 0, "r3", "r2"),
    _i("B", 2, 0, "r4", "r1"),
)
_ONE_INIT = (
    _i("C", 4, 0, "r2"),
    _i("A", 2, 0, "r0"),
    _i("A", 2, 0),
    _i("C", 4, 0, "", "r0"),
    _i("B", 3, 0, "", "r2"),
    _i("A", 2, 0),
    _i("B", 3, 0),
)
_DIFFERING = _raw(
    (_i("C", 3, 0), _i("A", 1, 0, "x"), _i("B", 2, 0, "", "x")),
    (_i("C", 2, 0, "y"), _i("A", 2, 0), _i("B", 1, 0, "", "y")),
)
_LATENCIES = _raw(
    (_i("P", 1, 9, "q"), _i("M", 1, 10, "X"), _i("A", 4, 0, "u", "q"), _i("B", 4, 0, "v", "X")),
    (
        _i("Z", 1, 8, "z"),
        *[_i("C", 1, 0)] * 8,
        _i("A", 4, 0, "a", "z"),
        _i("B", 4, 0, "b", "a"),
        _i("T", 1, 20, "t", "b"),
    ),
)
_BARRIER = Barrier(_i("barrier", 1, 0))
_LATE_BARRIER = Barrier(_i("barrier", 1, 0, bubble=2))
_STORES = (_i("A", 4, 3),)
_CHAIN = (_i("A", 1, 6, "x"), _i("A", 1, 6, "x", "x"), _i("A", 1, 6, "x", "x"))
_GUARDED = (
    _i("M", 1, 20, "x"),
    _i("A", 1, 0, "x", conditional=True),
    _i("A", 2, 1, "y", "x"),
)
_LOOP = (_i("A", 1, 2, "s", "s"), _i("B", 2, 0, "", "s", bubble=1))

CORPUS: tuple[KnownCase, ...] = (
    KnownCase(Case("paper example 1", _raw(_EXAMPLE_1, _EXAMPLE_1)), 18, 24, 23, 14),
    KnownCase(Case("GUB fails: differing warps", _DIFFERING), 8, 9, 7, 6),
    KnownCase(Case("GUB fails: identical warps", _raw(_IDENTICAL, _IDENTICAL)), 11, 13, 10, 10),
    KnownCase(Case("GUB fails: one initiation a unit", _raw(_ONE_INIT, _ONE_INIT)), 21, 30, 20, 16),
    KnownCase(Case("GUB fails: latencies", _LATENCIES), 48, 48, 46, 38),
    KnownCase(
        Case("sections overlap", _raw((_i("A", 1, 10), _BARRIER, _i("C", 1, 10)))), 13, 13, 22, 13
    ),
    KnownCase(Case("issue slots only", _raw((_i("A", 1, 0),), (_i("B", 1, 0),))), 2, 2, 2, 2),
    KnownCase(Case("one queue", _raw(*[_STORES] * 4)), 19, 19, 19, 16),
    KnownCase(Case("one warp: isolated length", _waw(_CHAIN)), 21, 21, 21, 21),
    KnownCase(
        Case("a chain among short warps", _raw(_CHAIN, *[(_i("B", 1, 0),)] * 3)), 24, 24, 24, 21
    ),
    KnownCase(Case("guarded write keeps the older result", _raw(_GUARDED)), 24, 24, 24, 24),
    KnownCase(
        Case("write after write", _waw((_i("M", 1, 9, "x"), _i("A", 1, 1, "x")))), 12, 12, 12, 12
    ),
    KnownCase(Case("taken branches in a loop", _waw((Repeat(5, _LOOP),))), 25, 25, 25, 25),
    KnownCase(
        Case(
            "barrier waits for the slowest",
            _raw((_i("A", 6, 0), _BARRIER, _i("B", 5, 0)), (_BARRIER, _i("B", 5, 0))),
        ),
        13,
        17,
        17,
        10,
    ),
    KnownCase(Case("bubble of a barrier", _raw((_LATE_BARRIER, _i("A", 1, 0)), ())), 4, 4, 4, 4),
    KnownCase(
        Case("barrier of busy ports", _raw(*[(_i("A", 1, 0), _BARRIER, _i("B", 1, 0))] * 3)),
        9,
        9,
        9,
        9,
    ),
    KnownCase(
        Case("two sub-cores", _raw(_STORES, _STORES, _STORES, _STORES), schedulers=2), 11, 11, 11, 8
    ),
)
"""All known cases. Times in cycles."""
