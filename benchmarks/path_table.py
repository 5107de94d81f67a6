"""The path analysis on the suite of kernels, as a table.

    python benchmarks/path_table.py --out docs/experiments/path-analysis.csv

Each kernel is bounded from its launch facts; a loop that stays undecided is asked for, and the
bound is tried again with the answer of ``benchmarks/kernels/suite/answers.toml``. Prints a
summary; the CSV file has a row for each kernel. Exit code 1 if a kernel has no bound after that.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from kernel_suite import Outcome, bound_kernel, entries, read_answers
from larger_launches import larger_seconds

SLOWEST = 3
"""Kernels named as the slowest."""
SHOWN = 3
"""Labels of loops named in a line."""


FIELDS = ("domain", "kernel", "loops", "automatic", "asked", "bound", "seconds", "larger", "note")


def row(outcome: Outcome) -> tuple[str, ...]:
    """A kernel's row, as texts in the order of FIELDS."""
    numbers = (len(outcome.loops), outcome.automatic, len(outcome.asked) + outcome.branches)
    bound = "" if outcome.bound is None else str(outcome.bound)
    seconds = (f"{outcome.seconds:.2f}", large(outcome))
    entry = outcome.entry
    return (entry.domain, entry.kernel, *map(str, numbers), bound, *seconds, note(outcome))


def large(outcome: Outcome) -> str:
    """Seconds of the larger launch."""
    seconds = outcome.larger_seconds
    return "" if seconds is None else f"{seconds:.2f}"


def note(outcome: Outcome) -> str:
    """Why a kernel has no bound, or which loops were asked for."""
    if outcome.refusal is not None:
        source = next((n for n in outcome.refusal.notes if n.startswith("source line: ")), "")
        return f"{outcome.refusal.code} {source.removeprefix('source line: ')}".strip()
    if outcome.branches:
        return f"{outcome.branches} branches asked for"
    labels = [f"`{label}`" for label in outcome.asked[:SHOWN]]
    more = len(outcome.asked) - SHOWN
    return ", ".join([*labels, f"and {more} more"] if more > 0 else labels)


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """The figures that the targets of the analysis are stated in."""
    loops = sum(len(one.loops) for one in outcomes)
    automatic = sum(one.automatic for one in outcomes)
    asked = sum(len(one.asked) for one in outcomes)
    branches = sum(one.branches for one in outcomes)
    alone = sum(one.bound_without_answers for one in outcomes)
    bounded = sum(one.bound is not None for one in outcomes)
    slow = sorted(outcomes, key=lambda one: -one.seconds)[:SLOWEST]
    slowest = ", ".join(f"{one.entry.kernel} {one.seconds:.2f} s" for one in slow)
    slow = sorted(outcomes, key=lambda one: -(one.larger_seconds or 0))[:SLOWEST]
    largest = ", ".join(f"{one.entry.kernel} {large(one)} s" for one in slow)
    return [
        f"**{len(outcomes)} kernels, {loops} loops: {automatic} loops ({automatic / loops:.1%}) "
        f"bounded from the launch facts alone, {asked} asked for, "
        f"and {branches} branches. "
        f"{alone} kernels bounded without a question, {bounded} with the answers, "
        f"{len(outcomes) - bounded} not.** Slowest: {slowest}; of the larger "
        f"launches: {largest}.",
    ]


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    answers = read_answers()
    bound_kernel(entries()[0], ())  # the first one pays for imports and the grammar
    outcomes = []
    for entry in entries():
        known = answers.get(entry.kernel, ())
        outcome = bound_kernel(entry, known)
        if outcome.bound is not None:
            outcome.larger_seconds = larger_seconds(outcome, known)
        outcomes.append(outcome)
    print(*summary(outcomes), sep="\n")
    if options.out is not None:
        with options.out.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([FIELDS, *map(row, outcomes)])
    return int(any(outcome.bound is None for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
