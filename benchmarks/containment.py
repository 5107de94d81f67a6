"""The containment oracle on many random kernels, and on the corpus with more data than in tests.

    python benchmarks/containment.py --kernels 2000 --seed 1

At every visit of every block the state of the walk must contain what lanes hold
(``tests/oracle/containment_oracle.py``). Prints what does not; exit code 1 if there is something.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from containment_runs import Case, contained, corpus, few_steps, lanes_not_told_apart
from random_kernels import MOST_VISITS
from random_programs import KINDS, random_kernel

from ptxwcet.flow.walk import state as walk_state
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile


def random_cases(first: int, count: int) -> Iterator[tuple[Case, int]]:
    """Random kernels of all kinds in turn, and how many blocks their warps may execute."""
    for seed in range(first, first + count):
        kind = KINDS[seed % len(KINDS)]
        one = random_kernel(seed, kind)
        (kernel,) = parse_module(SourceFile("k.ptx", one.text)).kernels
        yield Case(f"{kind} {seed}", kernel, one.launch), one.steps


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--executions", type=int, default=6)
    parser.add_argument("--corpus", action="store_true", help="the corpus, not random kernels")
    parser.add_argument("--together", action="store_true", help="lanes are not told apart")
    options = parser.parse_args()
    told = lanes_not_told_apart() if options.together else contextlib.nullcontext()
    with told:
        return compare(options)


def compare(options: argparse.Namespace) -> int:
    """Compares what is asked for, and prints what is not contained."""
    walk_state._MOST_VISITS = MOST_VISITS
    cases = random_cases(options.seed, options.kernels)
    if options.corpus:
        cases = ((case, few_steps(case.launch, 8_000)) for case in corpus(64))
    wrong = checked = kernels = refused = 0
    for case, steps in cases:
        result = contained(
            case.kernel, case.launch, seed=options.seed, executions=options.executions, steps=steps
        )
        kernels += 1
        refused += result.code is not None
        checked += result.checked
        if result.wrong:
            wrong += 1
            print(f"{case.name}: {result.wrong}", flush=True)
    print(f"{kernels} kernels, {refused} refused, {checked} visits compared, {wrong} not contained")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
