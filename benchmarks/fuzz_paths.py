"""Long fuzzing of path extraction: ``python benchmarks/fuzz_paths.py FIRST LAST`` (seeds).

Random kernels and launches of ``tests/oracle/test_walk_against_execution.py``, far more than in CI:
every warp of every block must execute what the extracted path allows. Prints mismatches and totals.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from ptxwcet.flow.launch import Launch

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "oracle")]

import test_walk_against_execution as oracle  # noqa: E402


def main() -> None:
    """Runs the seeds of the command line."""
    first, last = int(sys.argv[1]), int(sys.argv[2])
    answered = mismatches = 0
    slowest = 0.0
    for seed in range(first, last):
        chooser = random.Random(seed)
        threads = chooser.choice([8, 32, 48, 64, 96])
        launch = Launch(
            (threads, 1, 1), (chooser.randint(1, 3), 1, 1), {"n": chooser.randint(-1, 12)}
        )
        begin = time.perf_counter()
        try:
            answered += oracle.check(oracle.parse(oracle.Writer(seed).text()), launch)
        except AssertionError:
            mismatches += 1
            print(f"seed {seed}: an execution is outside the extracted path ({launch})")
        slowest = max(slowest, time.perf_counter() - begin)
    print(
        f"seeds {first} to {last - 1}: {mismatches} mismatches, {answered} answered, "
        f"{last - first - answered - mismatches} refused, slowest {slowest:.1f} s"
    )


if __name__ == "__main__":
    main()
