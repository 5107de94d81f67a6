"""``ptxwcet selftest``: the built-in checks, as a summary for a certification dossier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json
from ptxwcet.studies.path_selftest import PathSelfTest, run_path_selftest
from ptxwcet.support.diagnostics import Diagnostic, render_all
from ptxwcet.validate.attack import Tally, quantile
from ptxwcet.validate.selftest import SelfTest, run_selftest

_MOST_SHOWN = 3


@click.command(cls=Command, needs=("sim",), example="ptxwcet selftest --timeout 10")
@options.timeout(
    45.0,
    "Seconds for random cases, without those for the known ones and for compiling.",
    click.FloatRange(min=0),
)
@click.option(
    "--cases",
    type=click.IntRange(min=0),
    help="Exactly so many random cases, whatever the time: the summary can be reproduced.",
)
@options.seed("Of the random cases.", 1)
@options.report_options
def selftest(seconds: float, cases: int | None, seed: int, form: str) -> int:
    """Check bounds, profiles and simulators against each other on known and random blocks.

    To every seventh random block comes a random grid, run whole on several SMs against its bound.

    A few fixed and random kernels are parsed, bounded and executed on adversarial data as well:
    every executed path must be an analysed one (PW538), its time within the bound (PW535).

    The summary depends on the installed files, the seed and the number of cases alone. Exit code: 0
    nothing violated; 1 something was, with a witness, or no random case was run.
    """
    summary = run_selftest(seed, seconds=seconds, cases=cases)
    paths = run_path_selftest(seed)
    if form == "json":
        echo_json(_plain(summary, paths))
    else:
        echo("\n".join(_lines(summary, paths)))
    if summary.witnesses:
        echo(render_all([w.diagnostic() for w in summary.witnesses]), err=True)
    if summary.grids.violations:
        echo(render_all(_contradicted(summary)), err=True)
    if paths.diagnostics:
        echo(render_all(paths.diagnostics), err=True)
    return 0 if _passed(summary, paths) else 1


def _contradicted(summary: SelfTest) -> list[Diagnostic]:
    """The first runs of grids above their bounds."""
    found = summary.grids.violations[:_MOST_SHOWN]
    return [Diagnostic("PW535", f"a bound is contradicted: {one}") for one in found]


def _passed(summary: SelfTest, paths: PathSelfTest) -> bool:
    return summary.passed and not paths.diagnostics


def _plain(summary: SelfTest, paths: PathSelfTest) -> dict[str, Any]:
    return {
        "schema": 1,
        "versions": dict(summary.versions),
        "sha256": {digest.what: digest.sha256 for digest in summary.digests},
        "seed": summary.seed,
        "known_cases": {name: list(problems) for name, problems in summary.known},
        "random_cases": summary.cases,
        "checks": dict(summary.checks),
        "families": {name: _family(tally) for name, tally in summary.families},
        "grids": {
            "grids": summary.grids.grids,
            "runs": summary.grids.runs,
            "contradicted": summary.grids.violations,
        },
        "violations": summary.violations,
        "witnesses": [list(witness.lines()) for witness in summary.witnesses],
        "paths": {
            "kernels": paths.kernels,
            "bounded": paths.bounded,
            "runs": paths.runs,
            "contradicted": [str(row) for row in paths.diagnostics],
        },
        "passed": _passed(summary, paths),
    }


def _family(tally: Tally) -> dict[str, Any]:
    return {
        "cases": tally.cases,
        "searched_exhaustively": tally.searched,
        "runs": tally.runs,
        "violations": tally.violations,
        "gub_exceeded": dict(sorted(tally.gub_exceeded.items())),
        "safe_over_longest_permille": {
            "least": quantile(tally.safe_permille, 0.0),
            "median": quantile(tally.safe_permille, 0.5),
            "most": quantile(tally.safe_permille, 1.0),
        },
    }


def _lines(summary: SelfTest, paths: PathSelfTest) -> Iterator[str]:
    yield "ptxwcet self-test"
    for name, version in summary.versions:
        yield f"  {name:<28} {version}"
    yield "sha256"
    for digest in summary.digests:
        yield f"  {digest.what:<28} {digest.sha256}"
    yield f"known cases: {len(summary.known)}"
    for name, problems in summary.known:
        yield f"  {name:<34} {'; '.join(problems) or 'as known'}"
    yield f"random cases: {summary.cases:,}, the first ones of seed {summary.seed}"
    columns = ("family", "cases", "searched", "runs", "violations", "SAFE / longest observed")
    yield (
        f"  {columns[0]:<16}" + "".join(f"{name:>12}" for name in columns[1:5]) + f"  {columns[5]}"
    )
    for name, tally in summary.families:
        counts = (tally.cases, tally.searched, tally.runs, tally.violations)
        yield f"  {name:<16}" + "".join(f"{n:>12,}" for n in counts) + f"  {_tightness(tally)}"
    yield "checks made"
    for name, count in summary.checks:
        yield f"  {name:<52} {count:>12,}"
    grids = summary.grids
    yield (
        f"grids: {grids.grids:,} random grids, {grids.runs:,} runs, "
        f"{len(grids.violations):,} contradicted"
    )
    yield (
        f"paths: {paths.kernels} kernels, {paths.bounded} bounded, {paths.runs} runs on "
        f"adversarial data, {len(paths.diagnostics)} contradicted"
    )
    violations = summary.violations + len(paths.diagnostics)
    yield f"violations: {violations}"
    if violations or summary.passed:
        yield "passed" if _passed(summary, paths) else "FAILED"
    else:
        yield "FAILED: no random case was run: give a longer --timeout, or --cases"


def _tightness(tally: Tally) -> str:
    """Least, median and largest ratio of the bound to the longest observed schedule."""
    values = [quantile(tally.safe_permille, share) for share in (0.0, 0.5, 1.0)]
    return " .. ".join("-" if value is None else f"{value / 1000:.3f}" for value in values)
