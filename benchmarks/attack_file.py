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

from ptxwcet.api import Request, build_launch, state_facts
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source


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
    module = parse_module(read_source(options.path))
    request = Request(
        options.path, block=options.block, grid=options.grid, parameters=tuple(options.param)
    )
    facts = state_facts(request, module)
    failed = False
    for kernel in module.kernels:
        if options.kernel not in (None, kernel.name):
            continue
        launch = build_launch(kernel, request, facts.of_kernel(kernel.name))
        found = attack(
            inline_calls(kernel, module),
            launch,
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
