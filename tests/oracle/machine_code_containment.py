"""Executed machine code against what the analyses claim of the kernel that they read of it.

The code runs one to one, the translated kernel beside it (:mod:`translation_oracle`). At each visit
of a block the lanes are held to the states of the walk, visits of blocks to the paths, lanes that
part to the classes of branches, and accesses to what is said of their transactions and of what a
block and a launch touch.
"""

from __future__ import annotations

from collections import Counter as Counted
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from access_containment import compare
from containment_oracle import Oracle, Recorder
from executed_transactions import Counter
from footprint_oracle import Observer
from isa_interpreter import Execution, Lane
from path_attack import Checker, explorations
from sass_execution import Lanes, Program, _Block, run_machine_code
from translation_oracle import Translated

from ptxwcet.bounds.analysed import PreparedKernel
from ptxwcet.emulator.launch import EmulatedLaunch, ObservedAccess
from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.launch import NO_PLACED_FACTS, Launch
from ptxwcet.flow.paths.branch_kinds import BranchClass, classify_branches
from ptxwcet.flow.paths.call_variables import followed
from ptxwcet.flow.paths.extraction import extract_on, flow_graph
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.memory.footprint import Footprints
from ptxwcet.pipeline import build_flow
from ptxwcet.sass.translation import translated
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.launch_costs import kernel_accesses

_UNIFORM = (BranchClass.BLOCK, BranchClass.WARP)


@dataclass
class Held:
    """What came of a launch: why there are no paths, how much was compared, and what is wrong."""

    refused: str = ""
    visits: int = 0
    states: int = 0
    merged: int = 0
    accesses: int = 0
    exact: int = 0
    branches: int = 0
    uniform: int = 0
    footprints: int = 0
    wrong: list[str] = field(default_factory=list)


def launch_of(kernel: Kernel, given: EmulatedLaunch) -> Launch:
    """The launch as the analyses are told of it: block, grid, and the numbers among arguments."""
    numbers: dict[str, int | float] = {}
    content: dict[str, bytes] = {}
    for parameter, value in zip(kernel.parameters, given.arguments, strict=True):
        if isinstance(value, bytes):
            content[parameter.name] = value
        elif isinstance(value, int):
            numbers[parameter.name] = value
    return Launch(given.block, given.grid, numbers, parameter_bytes=content)


def held(
    kernel: Kernel,
    module: Module,
    given: EmulatedLaunch,
    constants: bytes = b"",
    own: Kernel | None = None,
    *,
    keeps_apart: bool = False,
    tables: bytes = b"",
) -> Held:
    """Analyses a kernel of machine code for a launch, and executes it; ``own``: its translation.

    ``keeps_apart``, ``tables``: see :class:`sass_execution.Program`.
    """
    own = translated(kernel) if own is None else own
    launch, result = launch_of(own, given), Held()
    graph = flow_graph(followed(build_flow(own, launch)), launch)
    recorder, pieces = Recorder(), None
    with recorder.installed(), explorations() as explored:
        try:
            pieces = extract_on(graph, launch, NO_PLACED_FACTS)
        except PtxwcetError as error:
            result.refused = error.diagnostics[0].code
    watch = _Watch(own, graph, launch)
    program = Program(kernel, module, tables)
    program.keeps_apart = keeps_apart
    beside = program.beside = Translated(own)
    watch.beside, beside.visitor, beside.observer = beside, watch.visit, watch.access
    beside.parting = watch.part
    beside.starts = frozenset(block.start for block in graph.cfg.blocks[:-1])
    if pieces is not None:
        blocks = {block.start: block.id for block in graph.cfg.blocks[:-1]}
        watch.oracle = Oracle(recorder.walks, blocks)
    run_machine_code(program, given, constants)
    watch.end()
    result.wrong += beside.wrong[:3]
    result.visits, result.merged = watch.visits, watch.merged
    for one in classify_branches(graph, NO_PLACED_FACTS, pieces):
        place = graph.cfg.blocks[one.block].end - 1
        result.branches += 1
        result.uniform += one.kind in _UNIFORM
        if one.kind in _UNIFORM and place in watch.parted:
            result.wrong.append(f"lanes part at {own.instructions[place].span.text} ({one.kind})")
    accesses = kernel_accesses(own, launch)
    result.accesses, result.exact, wrong = compare(own, accesses.accesses, watch.counter.seen)
    result.wrong += wrong[:3]
    if watch.oracle is not None and pieces is not None:
        result.states = watch.oracle.checked
        result.wrong += map(str, watch.oracle.missing[:2])
        paths = [SimpleNamespace(paths=one) for one in pieces]
        analysed = cast("PreparedKernel", SimpleNamespace(pieces=paths, cfg=graph.cfg))
        result.wrong += watch.too_often(Checker(analysed, explored))
        footprints = Footprints(graph, launch, accesses, pieces)
        if footprints.is_known:
            found, seen = footprints.of(), watch.touched
            for name, touched, most in (
                ("sectors of a block", seen.sectors.block, found.block_sectors),
                ("lines of a block", seen.lines.block, found.block_lines),
                ("sectors", seen.sectors.launch, found.launch_sectors),
                ("lines", seen.lines.launch, found.launch_lines),
            ):
                result.footprints += most is not None
                if most is not None and touched > most:
                    result.wrong.append(f"{touched} {name} touched, {most} said")
            if found.is_shared is False and seen.lines.is_shared:
                result.wrong.append("blocks share lines")
    return result


class _Registers:
    """The registers of a lane, by their names."""

    def __init__(self, words: dict[str, Any], lane: int) -> None:
        self.words, self.lane = words, lane

    def __getitem__(self, name: str) -> int:
        found = self.words.get(name)
        return 0 if found is None else int(found[self.lane])


class _Watch:
    """What is told of a run, as an observer of the walk's oracle and of accesses."""

    def __init__(self, kernel: Kernel, graph: FlowGraph, launch: Launch) -> None:
        self.kernel, self.graph, self.launch = kernel, graph.cfg, launch
        self.oracle: Oracle | None = None
        self.beside: Translated
        self.visits = self.merged = 0
        self.parted: set[int] = set()
        names = {
            index: one.opcode.name if one.opcode is not None else ""
            for index, one in enumerate(kernel.instructions)
        }
        atomic = frozenset(index for index, name in names.items() if name in ("atom", "red"))
        stores = frozenset(index for index, name in names.items() if name == "st")
        self.counter, self.touched = Counter(atomic, stores), Observer()
        self.counts: list[tuple[Any, list[Counted[int]]]] = []  # a block's, and of each warp
        self._lanes: dict[tuple[int, int], np.ndarray] = {}
        self._block: _Block | None = None
        self._facade: Any = None

    def access(self, access: ObservedAccess) -> None:
        self.counter(access)
        self.touched(access)

    def part(self, index: int, active: Lanes, taken: Lanes) -> None:
        for first in range(0, len(active), 32):
            there, gone = active[first : first + 32], taken[first : first + 32]
            if gone.any() and (there & ~gone).any():
                self.parted.add(index)

    def visit(self, block: _Block, kernel: Kernel, start: int, active: Lanes) -> None:
        if block is not self._block:
            self._begin(block)
        warps = self.counts[-1][1]
        for first in range(0, block.lanes, 32):
            lanes = np.flatnonzero(active[first : first + 32])
            if not len(lanes):
                continue
            self.visits += 1
            warps[first // 32][start] += 1
            own = self._lanes.setdefault((first // 32, start), np.zeros(32, int))
            own[lanes] += 1
            if self.oracle is not None and self.oracle.checked < 3_000:
                found = []
                for lane in lanes:
                    one = Lane(first + int(lane), [], {})
                    one.registers = cast("list[int]", _Registers(self.beside.words, one.thread))
                    found.append(one)
                missing = len(self.oracle.missing)
                self.oracle(self._facade, first // 32, start, tuple(found))
                if len(self.oracle.missing) > missing and len(found) > 1:
                    # lanes that the code lets meet earlier than the walk: each by itself
                    self.merged += 1
                    del self.oracle.missing[missing:]
                    for one in found:
                        self.oracle(self._facade, first // 32, start, (one,))

    def _begin(self, block: _Block) -> None:
        self.end()
        self._block, kernel = block, self.kernel
        x, y, _ = self.launch.grid or (1, 1, 1)
        index = block.number % x, block.number // x % y, block.number // (x * y)
        assert kernel.code is not None
        bank = block.banks["c[0x0]"]
        parameters = {
            one.name: int.from_bytes(bank[at : at + one.size_bytes], "little")
            for one, at in zip(kernel.parameters, kernel.code.parameters_at, strict=True)
        }
        graph = self.graph
        end = graph.blocks[-1].id
        following = {
            one.start: ("end",)
            if set(graph.successors[one.id]) == {end}
            else tuple(graph.successors[one.id])
            for one in graph.blocks[:-1]
        }
        numbers = {name: name for name in kernel.registers}
        program = SimpleNamespace(
            graph=SimpleNamespace(following=following, end="end"), numbers=numbers, kernel=kernel
        )
        self._facade = SimpleNamespace(program=program, index=index, parameters=parameters)
        self.counts.append((self._facade, [Counted() for _ in range(block.lanes // 32)]))
        if self.oracle is not None:
            self.oracle.begin()

    def end(self) -> None:
        """A lane by itself may not come to a block more often than its warp."""
        for (warp, start), own in self._lanes.items():
            warps = self.counts[-1][1]
            assert int(own.max()) <= warps[warp][start]
        self._lanes = {}

    def too_often(self, checker: Checker) -> list[str]:
        """What a warp has executed more often than the paths allow."""
        wrong = []
        for run, warps in self.counts:

            def departs(paths: Any, warps: list[Counted[int]] = warps) -> str:
                for number, visits in enumerate(warps):
                    nodes = next(one.nodes for one in paths if number in one.warps)
                    if text := checker.too_often(number, visits, checker.most(nodes)):
                        return text
                return ""

            text = checker.excluded(cast("Execution", run), departs)
            wrong += [text] if text else []
        return wrong[:2]
