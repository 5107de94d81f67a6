"""Path analysis against enumeration on random control flow: is a bound ever below the truth?

    python benchmarks/random_cfgs.py --kernels 100000 --processes 2 \\
        --json docs/experiments/random-cfgs.json --out docs/experiments/random-cfgs.csv

Each kernel (:mod:`cfg_kernels`) is bounded for one warp and for a block of two to four, and all its
executions are enumerated (:mod:`cfg_oracle`). The truth of one warp is the largest L; that of a
block is SAFE of its executions: in every world and every section, the largest over warps w of L_w
plus what the other warps take from it at most.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from cfg_clock import WarpRun
from cfg_conditions import RandomKernel
from cfg_kernels import random_kernel
from cfg_lanes import Unresolved
from cfg_oracle import Executions, TooMany
from cfg_report import Summary, Verdict, write_picture, write_report, write_rows

from ptxwcet.claims import TimingClaim
from ptxwcet.flow.facts.stated import FactSource, LoopFact, Place, StatedFacts
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile
from ptxwcet.warp.program import Scoreboard

MOST_EXECUTIONS = 1000
CHUNK = 500


@cache
def machine_variant(number: int) -> Machine:
    """One of the machines that kernels are bounded on: hazards, bubbles, returns, latencies."""
    latency = (200, 30, 8)[number // 8 % 3]
    return replace(
        load_machine("orin-ecrts2025", latency),
        scoreboard=(Scoreboard.RAW, Scoreboard.RAW_WAW)[number % 2],
        taken_branch_bubble_cycles=number // 2 % 2,
        issues_return=bool(number // 4 % 2),
    )


def check_seed(seed: int, most: int = MOST_EXECUTIONS) -> Verdict:
    """Bounds and truths of a seed's kernel."""
    case = random_kernel(seed)
    kernel = parse_module(SourceFile(f"random{seed}.ptx", case.text)).kernels[0]
    machine = machine_variant(seed)
    nothing = Verdict(seed, case.features)
    try:  # a traceback of the analysis is a finding like a bound too small
        alone = claim(kernel, case, machine, case.lanes)
        together = claim(kernel, case, machine, 32 * case.warps)
    except PtxwcetError as refused:
        return replace(nothing, refusal=refused.diagnostics[0].code)
    except Exception as crash:
        return replace(nothing, refusal=f"crash {type(crash).__name__}")
    try:
        count, truths = truth(kernel, case, machine, most)
    except TooMany:
        return replace(nothing, refusal="too many")
    if any(assumption.key == "no-data-races" for assumption in together.assumptions):
        truths = (truths[0], 0)  # the oracle's warps may find different words at one address
    bounds = alone.cycles, together.cycles
    return replace(nothing, executions=count, bounds=bounds, truths=truths)


def claim(kernel: Kernel, case: RandomKernel, machine: Machine, threads: int) -> TimingClaim:
    """SAFE of a block of so many threads. Raises PtxwcetError."""
    launch = Launch((threads, 1, 1), None, case.parameters)
    facts = StatedFacts(
        tuple(
            LoopFact(Place(label), FactSource("--loop-bound"), most)
            for label, most in case.loop_bounds.items()
        )
    )
    return analyse_kernel(kernel, launch, machine, facts).worst.bound.claim


def truth(
    kernel: Kernel, case: RandomKernel, machine: Machine, most: int
) -> tuple[int, tuple[int, int]]:
    """How many executions there are, and the truths of one warp and of a block. Raises TooMany."""
    found = Executions(kernel, machine, case.data_loops)
    worlds: list[Mapping[str, int]] = [{}]
    count = alone = together = 0
    while worlds:
        world = worlds.pop()
        try:
            warps = executed_warps(found, case, world, most - count)
        except Unresolved as unresolved:
            key = unresolved.key
            worlds += [{**world, key: value} for value in case.domains.get(key, (0, 1))]
            continue
        count += len(warps[0])
        alone = max(alone, max(run.cycles for run in warps[0]))
        together = max(together, block_cycles(warps))
    return count, (alone, together)


def executed_warps(
    found: Executions, case: RandomKernel, world: Mapping[str, int], most: int
) -> list[list[WarpRun]]:
    """The executions of each warp in a world; those of alike warps once."""
    warps = [found.of_warp(0, case.lanes, world, most)]
    for warp in range(1, case.warps):
        apart = case.text.count("%kw") > 2  # declared, defined, and compared with something
        warps.append(found.of_warp(warp, case.lanes, world, most) if apart else warps[0])
    return warps


def block_cycles(warps: Sequence[Sequence[WarpRun]]) -> int:
    """SAFE of a block whose warps each take any of their executions, section by section."""
    total = 0
    sections = max(len(run.sections) for runs in warps for run in runs)
    for number in range(sections):
        runs = [
            {run.sections[number] for run in each if number < len(run.sections)} for each in warps
        ]
        longest = 0
        for warp, own in enumerate(runs):
            lengths: dict[int, int] = {}
            for one in own:
                lengths[one.units] = max(lengths.get(one.units, 0), one.cycles)
            for units, cycles in lengths.items():
                taken = sum(
                    max((one.interference(units) for one in other), default=0)
                    for index, other in enumerate(runs)
                    if index != warp
                )
                longest = max(longest, cycles + taken)
        total += longest
    return total


# --- many kernels ---------------------------------------------------------------------------------


def check_chunk(first: int) -> tuple[int, Summary]:
    """What came of the kernels of :data:`CHUNK` seeds."""
    started = time.process_time()
    summary = Summary()
    for seed in range(first, first + CHUNK):
        summary.add(check_seed(seed))
    summary.seconds = time.process_time() - started
    return first, summary


def chunks(todo: Sequence[int], processes: int) -> Iterator[tuple[int, Summary]]:
    """Checks chunks, in this process if it is the only one."""
    if processes == 1:
        yield from map(check_chunk, todo)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(check_chunk, todo)


def run(arguments: argparse.Namespace) -> Summary:
    """All chunks, those that an earlier run has left in the file beside ``--json`` excepted."""
    done = Path(f"{arguments.json}.part")
    total, known = Summary(), set()
    if done.exists():
        for line in done.read_text().splitlines():
            entry = json.loads(line)
            known.add(entry["first"])
            total.merge(Summary.of(entry["summary"]))
    first = arguments.first
    todo = [seed for seed in range(first, first + arguments.kernels, CHUNK) if seed not in known]
    started = time.monotonic()
    with done.open("a") as log:
        for number, (seed, summary) in enumerate(chunks(todo, arguments.processes), 1):
            print(json.dumps({"first": seed, "summary": summary.data()}), file=log, flush=True)
            total.merge(summary)
            left = (time.monotonic() - started) / number * (len(todo) - number)
            print(
                f"{total.kernels} kernels, {len(total.unsound)} below, {left:.0f} s left",
                file=sys.stderr,
            )
    return total


def main() -> int:
    """Runs the comparison; 1 if some bound is below the truth or there is a traceback."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=10 * CHUNK, help=f"a multiple of {CHUNK}")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("random-cfgs.json"))
    parser.add_argument("--out", type=Path, help="CSV; the picture has the same name")
    arguments = parser.parse_args()
    total = run(arguments)
    arguments.json.write_text(json.dumps(total.data(), indent=1, sort_keys=True) + "\n")
    Path(f"{arguments.json}.part").unlink()
    text = write_report(total, " ".join(["python", *sys.argv]))
    print(text)
    if arguments.out is not None:
        write_picture(total, arguments.out.with_suffix(".png"))
        write_rows(total, arguments.out)
    return 1 if total.unsound or total.crashed else 0


if __name__ == "__main__":
    sys.exit(main())
