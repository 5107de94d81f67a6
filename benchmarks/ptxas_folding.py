"""Thousands of random constants and straight-line programs, against what ptxas folds them to.

Run from the root of the repository, with ptxas at hand::

    PYTHONPATH=tests/oracle python benchmarks/ptxas_folding.py --count 4000 --programs 300 --seed 7

It prints the table of docs/experiments/machine-code-translation.md, then each case that differs.
"""

from __future__ import annotations

import argparse

from constant_folding import Folded, expressions, programs


def main() -> None:
    """Compares and prints; exits with 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    rows = {
        "constants": expressions(given.seed, given.count),
        "straight-line code": programs(given.seed, given.programs),
    }
    print("| what | alike | refused by both | refused here only | by ptxas only | not folded |")
    print("|---|---|---|---|---|---|")
    for name, found in rows.items():
        print(f"| {name} | {_counts(found)} |")
    wrong = [case for found in rows.values() for case in found.different]
    for case in [*wrong, *(case for found in rows.values() for case in found.refused_by_ptxas)]:
        print(f"\n{case}")
    for case in {case for found in rows.values() for case in found.refused_by_us}:
        print(f"\nrefused here: {case}")
    raise SystemExit(1 if wrong else 0)


def _counts(found: Folded) -> str:
    one_sided = (len(found.refused_by_us), len(found.refused_by_ptxas), found.not_folded)
    return " | ".join(f"{n:,}" for n in (found.compared, found.refused_by_both, *one_sided))


if __name__ == "__main__":
    main()
