"""Attacks the kernels of a PTX file: executions on adversarial data against paths and bounds.

    python benchmarks/attack_file.py kernel.ptx --block 32 --param n=100 --executions 60

Prints for each kernel its bound or the code of its refusal, and what contradicts it. Exit code 1 if
something does.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from path_attack import attack, machine

from ptxwcet.opened.opening import open_request
from ptxwcet.opened.request import Request


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--block", default="32")
    parser.add_argument("--grid")
    parser.add_argument("--param", action="append", default=[])
    parser.add_argument("--kernel")
    parser.add_argument("--executions", type=int, default=60)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    request = Request(
        options.path,
        (options.kernel,) if options.kernel else (),
        block=options.block,
        grid=options.grid,
        parameters=tuple(options.param),
    )
    opened = open_request(request)
    failed = False
    for kernel in opened.kernels:
        found = attack(
            opened.whole(kernel),
            opened.launch_of(kernel),
            machine(),
            seed=options.seed,
            executions=options.executions,
            steps=options.steps,
        )
        answer = found.code or f"{found.cycles} cycles"
        print(f"{kernel.name}: {answer}, {found.executions} executions, {found.visits} blocks")
        for violation in found.violations:
            failed = True
            print(f"  {violation.kind}: {violation.text}\n  {violation.given}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
