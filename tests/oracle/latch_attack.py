"""Loops with several latches under facts that are true of executions: none is left out."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from unittest.mock import patch

from isa_interpreter import Execution, Input, Machine, Mask, execute
from isa_memory import PROFILES
from latch_kernels import latch_kernel
from path_attack import Checker, Violation, explorations, machine

from ptxwcet import pipeline
from ptxwcet.flow import flow_graph
from ptxwcet.flow.facts.stated import BranchFact, FactSource, LoopFact, Place, StatedFacts
from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.graph.loops import LoopForest
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.pipeline import analyse_kernel, build_flow
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

TEST = FactSource("observed")


class Watch:
    """Follows each lane of a run: body executions of entries, outcomes of branches."""

    def __init__(self, cfg: ControlFlowGraph, forest: LoopForest) -> None:
        self.cfg, self.forest = cfg, forest
        self.at = {block.start: block.id for block in cfg.blocks[:-1]}
        self.heads = {loop.header: loop for loop in forest.loops}
        self.bounds: Counter[int] = Counter()
        self.begin()
        self.mixed: dict[str, set[int]] = {"warp": set(), "block": set()}
        self.entered: set[int] = set()
        self.branched: set[int] = set()

    def begin(self) -> None:
        self.before: dict[int, int] = {}
        self.count: dict[tuple[int, int], int] = {}
        self.outcomes: dict[int, dict[int, list[int]]] = {}
        self.noted: Counter[int] = Counter()
        self.blocks: dict[int, set[int]] = {}

    def __call__(self, machine: Machine, warp: int, start: int, lanes: Mask) -> None:
        block = self.at[start]
        for lane in lanes:
            before = self.before.get(lane.thread)
            if before is not None and len(self.cfg.successors[before]) > 1:
                self.outcomes.setdefault(before, {}).setdefault(lane.thread, []).append(block)
            self.before[lane.thread] = block
            self.blocks.setdefault(lane.thread, set()).add(block)
            loop = self.heads.get(block)
            if loop is None:
                continue
            back = before is not None and before in loop.latches
            now = self.count.get((loop.id, lane.thread), 0) + 1 if back else 0
            self.count[loop.id, lane.thread] = now
            rotated = all(source in loop.latches for source, _ in loop.exits)
            self.noted[loop.id] = max(self.noted[loop.id], now + rotated)

    def take(self, run: Execution) -> None:
        """The run was whole."""
        for thread, block in self.before.items():
            if len(self.cfg.successors[block]) > 1:  # it has ended
                self.outcomes.setdefault(block, {}).setdefault(thread, []).append(-1)
        for loop, most in self.noted.items():
            self.entered.add(loop)
            self.bounds[loop] = max(self.bounds[loop], most)
        self.branched |= self.outcomes.keys()
        for block, threads in self.outcomes.items():
            if len({tuple(each) for each in threads.values()}) > 1 or not self.gone(threads):
                self.mixed["block"].add(block)
            warps: dict[int, set[tuple[int, ...]]] = {}
            for thread, each in threads.items():
                warps.setdefault(thread // 32, set()).add(tuple(each))
            whole = self.gone(threads, {*warps})
            if any(len(each) > 1 for each in warps.values()) or not whole:
                self.mixed["warp"].add(block)

    def gone(self, threads: Collection[int], warps: Collection[int] | None = None) -> bool:
        """Whether all threads that execute more than three blocks are here."""
        more = {t for t, blocks in self.blocks.items() if len(blocks) > 3}
        return set(threads) >= {t for t in more if warps is None or t // 32 in warps}


@dataclass
class Row:
    """What came of a kernel."""

    seed: int
    latches: int = 0
    codes: dict[str, str] = field(default_factory=dict)
    executions: int = 0
    violations: list[tuple[str, Violation, StatedFacts]] = field(default_factory=list)


def given_inputs(seed: int, block: int, count: int, n: int, steps: int) -> Iterator[Input]:
    rng = Random(seed)
    profiles = [*PROFILES, "random", "random", "random", "mixed", "nonzero"]
    rng.shuffle(profiles)
    for i in range(count):
        yield Input(
            block=(block, 1, 1),
            seed=seed * 1013 + i,
            profile=profiles[i % len(profiles)],
            grid=(1, 1, 1),
            parameters={"n": n, "z": 0},
            steps=steps,
            backwards=rng.random() < 0.5,
            leaving=("early", "late", "wait")[i % 3],
        )


def one_kernel(
    kernel: Kernel, block: int, seed: int, executions: int = 12, steps: int = 100
) -> Row:
    """Bounds a kernel with no facts, bounds of loops, and agreements; executes it."""
    launch = Launch((block, 1, 1), (1, 1, 1))
    row = Row(seed)
    flow = build_flow(kernel, launch)
    row.latches = max((len(loop.latches) for loop in flow.forest.loops), default=0)
    rng = Random(seed)
    n = rng.randint(0, 4)
    if rng.random() < 0.4:
        launch = replace(launch, parameters={"n": n})
    elif rng.random() < 0.5:
        launch = replace(launch, ranges={"n": (max(0, n - 2), n + 2)})
    watch = Watch(flow.cfg, flow.forest)
    runs: list[tuple[Execution, Input]] = []
    cut: list[tuple[Execution, Input]] = []
    for given in given_inputs(seed, block, executions, n, steps):
        watch.begin()
        run = execute(kernel, given, watch)
        if run.is_whole:
            watch.take(run)
            runs.append((run, given))
        else:
            cut.append((run, given))
    row.executions = len(runs)
    bounds = tuple(
        LoopFact(Place(flow.cfg.name(loop.header)), TEST, watch.bounds[loop.id])
        for loop in flow.forest.loops
        if loop.id in watch.entered
    )
    branches = sorted(watch.branched)
    scopes: dict[int, str] = {}
    for block_id in branches:
        if block_id not in watch.mixed["block"]:
            scopes[block_id] = "block"
        elif block_id not in watch.mixed["warp"]:
            scopes[block_id] = "warp"
    alike = tuple(
        BranchFact(Place(flow.cfg.name(b)), TEST, uniform=scope) for b, scope in scopes.items()
    )
    some = tuple(each for each in alike if rng.random() < 0.6)
    few = tuple(each for each in bounds if rng.random() < 0.6)
    less = tuple(replace(each, uniform="warp") if rng.random() < 0.5 else each for each in alike)
    every = {
        "none": StatedFacts(),
        "bounds": StatedFacts(loops=bounds),
        "alike": StatedFacts(branches=alike),
        "both": StatedFacts(loops=bounds, branches=alike),
        "some": StatedFacts(loops=bounds, branches=some),
        "few": StatedFacts(loops=few, branches=alike),
        "less": StatedFacts(loops=bounds, branches=less),
    }
    seen: dict[StatedFacts, None] = {}
    for name, facts in every.items():
        if facts in seen:
            continue
        seen[facts] = None
        _held(row, name, facts, kernel, launch, runs, cut)
    return row


@contextmanager
def quickly() -> Iterator[None]:
    """Each set of facts is tried alone, with the launch as it is, and no help is looked for."""
    with (
        patch.object(pipeline._Preparation, "excluded_ends", lambda *_: iter(())),
        patch.object(pipeline, "_least", lambda preparation, facts, best, policy: best),
        patch.object(pipeline, "_advised", lambda error, *_: error),
    ):
        yield


def _held(
    row: Row,
    name: str,
    facts: StatedFacts,
    kernel: Kernel,
    launch: Launch,
    runs: list[tuple[Execution, Input]],
    cut: list[tuple[Execution, Input]],
) -> None:
    try:
        with quickly(), explorations() as explored:
            analysis = analyse_kernel(kernel, launch, machine(), facts)
    except PtxwcetError as error:
        row.codes[name] = error.diagnostics[0].code
        if row.codes[name] == "PW217":
            violation = Violation("contradicted", str(error.diagnostics[0]))
            row.violations.append((name, violation, facts))
        if row.codes[name] == "PW205" and runs:
            violation = Violation("ends", str(error.diagnostics[0]), runs[0][1])
            row.violations.append((name, violation, facts))
        return
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} at {place.filename}:{place.lineno}"
        row.violations.append((name, Violation("internal error", text), facts))
        return
    row.codes[name] = "ok"
    checker = Checker(analysis, explored)
    for run, given in runs:
        violation = checker.check(run, given)
        if violation is None and not run.findings:
            violation = checker.check_time(run, given)
        if violation is not None:
            row.violations.append((name, violation, facts))
            break
    if name == "none":
        for run, given in cut:
            violation = checker.check(run, given)
            if violation is not None:
                row.violations.append((name, violation, facts))
                break


def main() -> None:
    flow_graph.MOST_WALK_STEPS = 9_000
    first, last = int(sys.argv[1]), int(sys.argv[2])
    total: Counter[str] = Counter()
    for seed in range(first, last):
        made = latch_kernel(seed)
        (kernel,) = parse_module(SourceFile("k.ptx", made.text)).kernels
        try:
            row = one_kernel(kernel, made.block, seed)
        except PtxwcetError as error:
            total[f"refused {error.diagnostics[0].code}"] += 1
            continue
        total["kernels"] += 1
        total["several latches"] += row.latches > 1
        total["executions"] += row.executions
        ok = any(code == "ok" for code in row.codes.values())
        total["bounded"] += ok
        total["bounded of several"] += ok and row.latches > 1
        for name, code in row.codes.items():
            total[f"{name} {code}"] += 1
        for name, violation, _ in row.violations:
            total[f"violation {violation.kind}"] += 1
            print(
                f"seed {seed} block {made.block} {name}: {violation.kind}: {violation.text}",
                flush=True,
            )
        if seed % 50 == 49:
            print(seed, dict(total), flush=True)
    print(dict(total))


if __name__ == "__main__":
    main()
