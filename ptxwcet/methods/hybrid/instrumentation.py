"""Where the instrumentation points (ipoints) of a trace lie in a kernel's control-flow graph."""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.trace.events import END, Ipoint, TimedTrace


@dataclass(frozen=True, slots=True)
class Placement:
    """``blocks[i]`` is the block at whose beginning ipoint ``i`` lies, the exit for the end.

    ``start`` and ``end`` are the ipoints of the entry and of the end.
    """

    ipoints: tuple[Ipoint, ...]
    blocks: tuple[BlockId, ...]
    start: int
    end: int


def block_ipoints(kernel: Kernel, cfg: ControlFlowGraph) -> tuple[Ipoint, ...]:
    """One ipoint for each block in order, and the end: instrumentation of every basic block.

    Ipoint ``b`` lies at block ``b``, unreachable ones included; the end has the number of the exit.
    """
    return (*(_ipoint(kernel, cfg, block.id) for block in cfg.blocks[:-1]), END)


def _ipoint(kernel: Kernel, cfg: ControlFlowGraph, block: BlockId) -> Ipoint:
    start, end = cfg.blocks[block].start, cfg.blocks[block].end
    line = kernel.instructions[start].span.line if end > start else 0
    return Ipoint(cfg.name(block), line)


def place_ipoints(
    trace: TimedTrace, path: str, kernel: Kernel, cfg: ControlFlowGraph, sha256: str
) -> Placement:
    """Finds the blocks of a trace's ipoints by name and line.

    Raises PtxwcetError: PW607 if the trace is of another kernel or file, PW612 if it lacks the
    entry or the end, or names a point twice. Cost: linear in blocks and ipoints.
    """
    _check_origin(trace, path, kernel, sha256)
    at = {point: block for block, point in enumerate(block_ipoints(kernel, cfg))}
    blocks = []
    for number, point in enumerate(trace.ipoints):
        if point not in at:
            raise _other(
                path,
                f"ipoint {number} of the trace, {point.label} at line {point.line}, is no basic "
                f"block of kernel {kernel.readable}",
            )
        blocks.append(BlockId(at[point]))
    number_of = dict(zip(blocks, range(len(blocks)), strict=True))
    entry, end = number_of.get(cfg.entry), number_of.get(cfg.exit)
    if entry is None or end is None or len(number_of) < len(blocks):
        what = "names a block twice"
        if entry is None or end is None:
            what = f"has none at the {'end' if entry is not None else 'entry'} of the kernel"
        raise PtxwcetError(
            Diagnostic(
                "PW612",
                f"the table of ipoints of '{path}' {what}",
                help="the entry and the end of a kernel must be instrumented, each block at most "
                "once",
            )
        )
    return Placement(trace.ipoints, tuple(blocks), entry, end)


def _check_origin(trace: TimedTrace, path: str, kernel: Kernel, sha256: str) -> None:
    origin = trace.origin
    if origin.kernel != kernel.name:
        raise _other(path, f"it is of kernel {origin.readable}, not of {kernel.readable}")
    if origin.sha256 and origin.sha256 != sha256:
        raise _other(
            path,
            f"it was recorded from another PTX file (SHA-256 {origin.sha256[:12]}..., this file "
            f"has {sha256[:12]}...)",
        )


def _other(path: str, what: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW607",
            f"the trace '{path}' does not belong to this kernel: {what}",
            help="give the PTX file that was traced, or record the trace again",
        )
    )
