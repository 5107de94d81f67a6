"""Random loops that end on data: what the analysis bounds by itself, against what they do.

    python benchmarks/random_variants.py --loops 20000 --seed 1

Each loop (:mod:`variant_loops`) is bounded, if it is, and executed on random data by an interpreter
of its own. No run may pass a loop more often than its bound says. Exit code 1 if one does.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from random import Random

from variant_loops import RandomLoop, draw_loop

from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.flow.paths.extraction import extract_paths
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

LAUNCH = Launch((1, 1, 1), (1, 1, 1))
MOST_PASSES = 5_000
"""Passes of a label after which a run is broken off."""


@dataclass(frozen=True)
class Excess:
    """A run that passed the loop at ``label`` more often than the bound ``most`` says."""

    loop: RandomLoop
    label: str
    most: int
    passed: int


def bounds_of(loop: RandomLoop) -> dict[str, int] | None:
    """Executions of the header for each loop by its label; None if the program has no bound."""
    (kernel,) = parse_module(SourceFile("k.ptx", loop.ptx())).kernels
    return bounds_of_kernel(kernel)


def bounds_of_kernel(kernel: Kernel) -> dict[str, int] | None:
    """Body executions of each loop of a kernel by its label; None if the kernel has no bound."""
    flow = ControlFlow.of(kernel)
    cfg, forest = flow.cfg, flow.forest
    try:
        pieces = extract_paths(flow, LAUNCH, PlacedFacts())
    except PtxwcetError:
        return None
    found = {cfg.name(one.header): 0 for one in forest.loops}
    for piece in pieces:
        for warp in piece.warps:
            for entry in loop_entries(warp.nodes):
                label = cfg.name(forest.loops[entry.loop].header)
                assert not entry.iterations.slopes
                found[label] = max(found[label], entry.iterations.base)
    return found


def check(loop: RandomLoop, bounds: dict[str, int], rng: Random, runs: int) -> Excess | None:
    """A run that exceeds a bound, if there is one among some."""
    for _ in range(runs):
        passed = loop.run(rng, min(MOST_PASSES, max(bounds.values()) + 1))
        for label, most in bounds.items():
            if passed[label] > most:
                return Excess(loop, label, most, passed[label])
    return None


def campaign(loops: int, seed: int, runs: int) -> tuple[int, int, list[Excess]]:
    """Draws loops: how many there were, how many had a bound, and which runs exceeded theirs."""
    rng = Random(seed)
    bounded = 0
    found: list[Excess] = []
    for _ in range(loops):
        loop = draw_loop(rng)
        bounds = bounds_of(loop)
        if bounds is None:
            continue
        bounded += 1
        excess = check(loop, bounds, rng, runs)
        if excess is not None:
            found.append(excess)
    return loops, bounded, found


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=60)
    options = parser.parse_args()
    loops, bounded, found = campaign(options.loops, options.seed, options.runs)
    for excess in found:
        print(f"{excess.label} passed {excess.passed} times, the bound says {excess.most}:")
        print(excess.loop.ptx())
    print(
        f"{loops} loops, {bounded} bounded ({bounded / loops:.0%}), {options.runs} runs each: "
        f"{len(found)} exceed their bound"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
