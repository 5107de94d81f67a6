"""Runs a kernel functionally: blocks one after the other, each to its end."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ptxwcet.emulator.block_run import BlockRun, TooLongError
from ptxwcet.emulator.executed_paths import BlockRecorder, PathBook
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions, Execution, Progress, WarpPath
from ptxwcet.emulator.layout import Layout
from ptxwcet.emulator.nodes import Node, compile_nodes
from ptxwcet.emulator.observation import Observation
from ptxwcet.emulator.registers import (
    Context,
    Frame,
    Stop,
    register_dtype,
    special_registers,
)
from ptxwcet.flow.graph.cfg import ControlFlowGraph, build_cfg
from ptxwcet.flow.graph.control_flow import describe_block
from ptxwcet.flow.graph.dominance import compute_dominators, compute_postdominators
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.graph.loops import find_loops
from ptxwcet.ir.kernel import Kernel, Module, require_ptx
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_FUNCTIONS = 16
"""Addresses of functions are multiples of it, far below those of variables."""


def execute(
    kernel: Kernel, module: Module, launch: EmulatedLaunch, *, options: EmulatorOptions
) -> Execution:
    """What the launch computes, with the findings.

    Raises PtxwcetError: PW127 (machine code), PW410 (instructions that are not executed, all of
    them), PW411 (more than ``max_instructions``, with the loop), PW412 and PW413 (arguments,
    variables), PW414 (launch without threads or with more than 1024 a block). Cost: linear in the
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
    functions = {one.name: _FUNCTIONS * n for n, one in enumerate(module.functions, 1)}
    symbols = functions | layout.symbols
    context = Context(kernel, symbols, lanes, is_observed=options.observer is not None)
    whole = build_cfg(kernel, with_aborts=True)  # an abort is executed, to be reported
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
        if type_name != "b128"  # what names one is refused; a declaration alone is fine
    }


def _endless(kernel: Kernel, cfg: ControlFlowGraph, node: Node, limit: int) -> PtxwcetError:
    forest = find_loops(cfg, compute_dominators(cfg))
    loop = forest.innermost(cfg.blocks[node.block].id)
    block = cfg.blocks[node.block].id if loop is None else loop.header
    place = "in no loop" if loop is None else f"in the loop at {describe_block(kernel, cfg, block)}"
    message = f"more than {limit:,} warp instructions; the last one {place}"
    return PtxwcetError(Diagnostic("PW411", message, node.last.span, help="--max-instructions"))
