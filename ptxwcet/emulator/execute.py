"""Executes a kernel functionally: block after block, each to its end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from functools import partial
from itertools import groupby

import numpy as np

from ptxwcet.emulator.executed_paths import BlockRecorder, PathBook
from ptxwcet.emulator.launch import (
    Array,
    EmulatedLaunch,
    EmulatorOptions,
    Execution,
    Progress,
    WarpPath,
)
from ptxwcet.emulator.layout import Layout
from ptxwcet.emulator.nodes import Barrier, Node, Reduction, Table, compile_nodes
from ptxwcet.emulator.observation import Observation
from ptxwcet.emulator.registers import (
    Context,
    Frame,
    Place,
    Stop,
    register_dtype,
    special_registers,
)
from ptxwcet.emulator.stack import EXIT, Stack
from ptxwcet.flow.graph.cfg import ControlFlowGraph, build_cfg
from ptxwcet.flow.graph.control_flow import describe_block
from ptxwcet.flow.graph.dominance import compute_dominators, compute_postdominators
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.graph.loops import find_loops
from ptxwcet.ir.kernel import Guard, Kernel, Module, require_ptx
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

_FUNCTIONS = 16
"""The addresses of functions are multiples of this, far below the addresses of variables."""


def execute(
    kernel: Kernel, module: Module, launch: EmulatedLaunch, *, options: EmulatorOptions
) -> Execution:
    """Executes a launch and returns its results and findings.

    Raises PtxwcetError: PW127 (machine code), PW410 (instructions that are not executed, all of
    them), PW411 (more than ``max_instructions``, with the loop), PW412 and PW413 (arguments,
    variables), PW414 (launch without threads or with more than 1024 per block). Cost: linear in the
    warp instructions.
    """
    require_ptx(kernel, "the emulator executes")
    threads, blocks = math.prod(launch.block), math.prod(launch.grid)
    if not 0 < threads <= 1024 or blocks <= 0 or min(*launch.block, *launch.grid) < 1:
        message = f"a launch of {launch.grid} blocks of {launch.block} threads is not possible"
        raise PtxwcetError(Diagnostic("PW414", message, kernel.span))
    kernel = inline_calls(kernel, module)
    layout = Layout(kernel, module, launch)
    lanes = -(-threads // 32) * 32
    cfg = build_cfg(kernel)
    functions = {function.name: _FUNCTIONS * n for n, function in enumerate(module.functions, 1)}
    symbols = functions | layout.symbols
    context = Context(kernel, symbols, lanes, is_observed=options.observer is not None)
    whole = build_cfg(kernel, with_aborts=True)  # An abort is executed, so that it is reported.
    nodes = compile_nodes(context, whole, compute_postdominators(cfg))
    frame = Frame(lanes, layout.arena, options.checks, kernel)
    if options.observer is not None:
        frame.observation = Observation(options.observer, layout.arena, threads)
    frame.all_lanes = np.arange(lanes, dtype=np.int64)
    executed, paths, book = 0, [], PathBook()
    try:
        for block in range(blocks if nodes else 0):
            _enter(frame, launch, block)
            frame.ticks = executed
            run = BlockRun(frame, nodes, threads, options.max_instructions - executed)
            if options.progress is not None:
                run.report = partial(_report, options.progress, (block, blocks, executed))
            if options.record_paths:
                run.recorder = BlockRecorder(book, lanes // 32)
            try:
                run.run()
            finally:
                executed += run.executed
            if run.recorder is not None:
                bodies = run.recorder.paths()
                paths += [WarpPath(block, warp, body) for warp, body in enumerate(bodies)]
            if options.progress is not None:
                options.progress(block + 1, blocks, executed)
    except TooLongError as limit:
        raise _endless(kernel, cfg, limit.node, options.max_instructions) from None
    except Stop:
        pass
    return Execution(kernel, layout.results(), executed, tuple(frame.findings), tuple(paths))


def _report(progress: Progress, at: tuple[int, int, int], executed: int) -> None:
    block, blocks, before = at
    progress(block, blocks, before + executed)


def _enter(frame: Frame, launch: EmulatedLaunch, block: int) -> None:
    frame.block = block
    if frame.observation is not None:
        frame.observation.block = block
    frame.arena.start_block()
    frame.specials = special_registers(launch, block, frame.lanes)
    frame.registers = {
        name: np.zeros(frame.lanes, dtype=register_dtype(type_name))
        for name, type_name in frame.kernel.registers.items()
        if type_name != "b128"  # a use is refused, but a declaration is permitted
    }


def _endless(kernel: Kernel, cfg: ControlFlowGraph, node: Node, limit: int) -> PtxwcetError:
    forest = find_loops(cfg, compute_dominators(cfg))
    loop = forest.innermost(cfg.blocks[node.block].id)
    block = cfg.blocks[node.block].id if loop is None else loop.header
    place = "in no loop" if loop is None else f"in the loop at {describe_block(kernel, cfg, block)}"
    message = f"more than {limit:,} warp instructions; the last one {place}"
    return PtxwcetError(Diagnostic("PW411", message, node.last.span, help="--max-instructions"))


# --- The run of one block: warps at the same node execute it as one vector ------------------------


_FAIR = 64  # rounds, after which the warp that waited longest runs first
_BETWEEN_REPORTS = 1024  # rounds


class TooLongError(Exception):
    """The limit of instructions is reached in a node."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node


@dataclass(slots=True)
class _Gate:
    """A barrier with waiting warps: threads arrived, warps, lanes and values of a reduction."""

    arrived: int = 0
    waiting: list[int] = field(default_factory=list)
    reduction: Reduction | None = None
    lanes: list[int] = field(default_factory=list)


class BlockRun:
    """The execution of a block to its end, with ``budget`` warp instructions at most.

    Clocks start at the frame's ``ticks``.
    """

    def __init__(self, frame: Frame, nodes: tuple[Node, ...], threads: int, budget: int) -> None:
        self._frame, self._nodes, self._budget = frame, nodes, budget
        self._start = frame.ticks
        warps = frame.lanes // 32
        self._stacks = [Stack(0, (1 << min(32, threads - 32 * warp)) - 1) for warp in range(warps)]
        self._waiting: dict[int, Barrier] = {}
        self._gates: dict[tuple[int, int], _Gate] = {}
        self._predicates = np.zeros(frame.lanes, dtype=bool)
        self._last_run = [0] * warps
        frame.live = self._live
        self.executed = 0
        self.recorder: BlockRecorder | None = None
        self.report: Callable[[int], None] | None = None

    def run(self) -> None:
        """Runs all warps. Raises Stop (a fatal finding) and TooLongError."""
        turn = 0
        while True:
            ready = [
                warp
                for warp, stack in enumerate(self._stacks)
                if stack.entries and warp not in self._waiting
            ]
            if not ready:
                if not self._waiting:
                    return
                self._deadlock()
            turn += 1
            self._round(ready, turn)
            if self.report is not None and turn % _BETWEEN_REPORTS == 0:
                self.report(self.executed)

    def _live(self) -> Array:
        """Returns flags of the lanes that will execute an instruction before they end.

        The stack chooses which side of a branch runs first, so only ``ret`` counts as ended.
        """
        masks = np.array([self._running(stack) for stack in self._stacks], dtype=np.uint32)
        return np.unpackbits(masks.view(np.uint8), bitorder="little").view(np.bool_)

    def _running(self, stack: Stack) -> int:
        """Returns the lanes of a warp that will execute an instruction before they end."""
        live, seen = 0, 0
        for entry in reversed(stack.entries):
            if not self._only_ends(entry.node):
                live |= entry.mask & ~seen
            seen |= entry.mask
        return live

    def _only_ends(self, number: int) -> bool:
        for _ in self._nodes:
            if number == EXIT:
                return True
            node = self._nodes[number]
            if node.steps or node.table or node.barrier or node.guard:
                return False
            number = node.other if node.taken is None else node.taken
        return False

    def _round(self, ready: list[int], turn: int) -> None:
        stacks = self._stacks
        if turn % _FAIR:
            number = min(stacks[warp].entries[-1].node for warp in ready)
        else:
            number = stacks[min(ready, key=self._last_run.__getitem__)].entries[-1].node
        group = [warp for warp in ready if stacks[warp].entries[-1].node == number]
        node = self._nodes[number]
        before = self.executed
        self.executed += node.length * len(group)
        if self.executed > self._budget:
            raise TooLongError(node)
        masks = np.zeros(len(stacks), dtype=np.uint32)
        for warp in group:
            masks[warp] = stacks[warp].entries[-1].mask
            self._last_run[warp] = turn
        frame = self._frame
        frame.ticks = self._start + before
        frame.mask = _lanes(masks)
        for step in node.steps:
            step(frame)
        if node.barrier is not None:
            self._arrive(node.barrier, group, masks)
        self._transfer(node, group, masks)
        if self._gates:
            self._open_gates()

    def _transfer(self, node: Node, group: list[int], masks: Array) -> None:
        stacks = self._stacks
        taken = self._taken(node, masks)
        if self.recorder is not None and node.is_end:
            steps = list(zip(group, masks[group].tolist(), taken[group].tolist(), strict=True))
            self.recorder.add(node.block, steps)
        if node.table is not None:
            self._jump(node, node.table, group, taken)
        elif node.taken is None or node.guard is None:
            target = node.other if node.taken is None else node.taken
            for warp in group:
                stacks[warp].go(target)
        else:
            lanes = taken.tolist()
            for warp in group:
                if node.taken < 0:
                    stack = stacks[warp]
                    rest = stack.entries[-1].mask & ~lanes[warp]
                    stack.end(lanes[warp])
                    if rest:
                        stack.go(node.other)
                else:
                    stacks[warp].branch(lanes[warp], node.taken, node.other, node.meet)

    def _taken(self, node: Node, masks: Array) -> Array:
        """Returns the lanes of each warp that take the node's branch."""
        if node.taken is None and node.table is None:
            return np.zeros_like(masks)
        return masks if node.guard is None else masks & self._where(node.guard)

    def _where(self, guard: Guard) -> Array:
        """Returns the lanes of each warp whose guard holds."""
        words = np.packbits(self._frame.registers[guard.register], bitorder="little")
        words = words.view(np.uint32)
        return ~words if guard.negated else words

    def _jump(self, node: Node, table: Table, group: list[int], taken: Array) -> None:
        index = table.index(self._frame)
        for warp in group:
            lanes = int(taken[warp])
            sides: dict[int, int] = {}
            for lane in (bit for bit in range(32) if lanes >> bit & 1):
                place = int(index[32 * warp + lane])
                if place not in table.targets:
                    message = f"branch index {place} in a table of {len(table.targets)} targets"
                    if table.has_addresses:
                        message = "a call of what is none of the functions listed for it"
                    self._frame.report("PW440", message, node.last, Place(32 * warp + lane))
                target = table.targets[place]
                sides[target] = sides.get(target, 0) | 1 << lane
            self._stacks[warp].scatter(sides, node.other, node.meet)

    def _arrive(self, barrier: Barrier, group: list[int], masks: Array) -> None:
        frame = self._frame
        arriving = masks if barrier.guard is None else masks & self._where(barrier.guard)
        names = barrier.name(frame)
        counts = None if barrier.threads is None else barrier.threads(frame)
        if barrier.reduction is not None:
            now = np.unpackbits(arriving.view(np.uint8), bitorder="little").view(np.bool_)
            values = barrier.reduction.predicate(frame)
            self._predicates = np.where(now, values, self._predicates)
        for warp in group:
            lanes = int(arriving[warp])
            if not lanes:
                continue
            first = 32 * warp + (lanes & -lanes).bit_length() - 1
            if lanes != self._running(self._stacks[warp]):
                message = "barrier executed by a part of a warp; the others count as arrived"
                frame.report("PW436", message, barrier.instruction, Place(first, None, False))
            count = 0 if counts is None else int(counts[first])
            key = (int(names[first]), count)
            gate = self._gates.setdefault(key, _Gate())
            gate.arrived += 32
            frame.arena.races.release(key, [warp])
            if barrier.waits:
                gate.waiting.append(warp)
                gate.lanes.append(lanes)
                gate.reduction = barrier.reduction
                self._waiting[warp] = barrier

    def _open_gates(self) -> None:
        live = sum(1 for stack in self._stacks if stack.entries)
        for key, gate in list(self._gates.items()):
            if gate.arrived >= (key[1] or 32 * live):
                races = self._frame.arena.races
                if len(gate.waiting) == live:
                    races.forget()
                else:
                    races.acquire(key, gate.waiting)
                races.drop(key)
                if gate.reduction is not None:
                    self._reduce(gate, gate.reduction)
                for warp in gate.waiting:
                    del self._waiting[warp]
                del self._gates[key]

    def _reduce(self, gate: _Gate, reduction: Reduction) -> None:
        """Writes the result of ``bar.red`` for all waiting warps."""
        masks = np.zeros(len(self._stacks), dtype=np.uint32)
        masks[gate.waiting] = np.array(gate.lanes, dtype=np.uint32)
        lanes = np.unpackbits(masks.view(np.uint8), bitorder="little").view(np.bool_)
        values = self._predicates[lanes]
        size = self._frame.lanes
        self._frame.mask = lanes
        if reduction.kind == "popc":
            reduction.write(self._frame, np.full(size, values.sum(), dtype=np.uint32))
        else:
            result = values.all() if reduction.kind == "and" else values.any()
            reduction.write(self._frame, np.full(size, bool(result)))

    def _deadlock(self) -> None:
        """Reports the warps that wait, and their places. Raises Stop."""
        stuck = sorted(self._waiting.items(), key=lambda pair: (pair[1].instruction.start, pair[0]))
        parts = []
        for line, waiting in groupby(stuck, key=lambda pair: pair[1].instruction.span.shown_line):
            warps = [warp for warp, _ in waiting]
            shown = ", ".join(map(str, warps[:8])) + (", ..." if len(warps) > 8 else "")
            parts.append(f"warps {shown} at line {line}")
        ended = sum(1 for stack in self._stacks if not stack.entries)
        message = (
            f"deadlock: {len(stuck)} warps wait at barriers that no other warp will reach "
            f"({'; '.join(parts)}; {ended} warps have ended)"
        )
        warp, barrier = stuck[0]
        self._frame.report("PW433", message, barrier.instruction, Place(32 * warp))


def _lanes(masks: Array) -> Array | None:
    """Returns the masks of the warps as flags of the lanes; None if all are active."""
    lanes = np.unpackbits(masks.view(np.uint8), bitorder="little").view(np.bool_)
    return None if lanes.all() else lanes
