"""A kernel's control flow as one value: its graph, its loops and its dominator trees."""

from __future__ import annotations

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph, build_cfg
from ptxwcet.flow.graph.dominance import DominatorTree, compute_dominators, compute_postdominators
from ptxwcet.flow.graph.loops import IrreducibleRegion, LoopForest, find_loops
from ptxwcet.flow.graph.reconvergence import Reconvergence, reconvergence_of
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """A kernel, its graph, and what follows from the graph alone."""

    kernel: Kernel
    cfg: ControlFlowGraph
    forest: LoopForest
    dominators: DominatorTree
    postdominators: DominatorTree
    reconvergence: Reconvergence

    @classmethod
    def of(cls, kernel: Kernel) -> ControlFlow:
        """That of a kernel whose calls are replaced. Cost: near linear in its graph.

        Raises PtxwcetError (PW231) for loops that are nested too deep.
        """
        cfg = build_cfg(kernel)
        dominators = compute_dominators(cfg)
        forest = find_loops(cfg, dominators)
        postdominators = compute_postdominators(cfg)
        reconvergence = reconvergence_of(kernel, cfg, postdominators)
        return cls(kernel, cfg, forest, dominators, postdominators, reconvergence)

    def meeting(self, block: int) -> BlockId | None:
        """Where all ways from a block meet first: its immediate post-dominator, if it has one.

        Whether lanes go on together there is another question (``reconvergence``).
        """
        return self.postdominators.immediate[block]

    def label(self, loop: int) -> str:
        """What people call a loop: the name of its header."""
        return self.cfg.name(self.forest.loops[loop].header)


class OnFlow:
    """What is known of a kernel on its control flow ``flow``, whose parts it names."""

    __slots__ = ()
    flow: ControlFlow

    @property
    def kernel(self) -> Kernel:
        """The kernel, calls replaced."""
        return self.flow.kernel

    @property
    def cfg(self) -> ControlFlowGraph:
        """Its graph."""
        return self.flow.cfg

    @property
    def forest(self) -> LoopForest:
        """Its loops."""
        return self.flow.forest


def irreducible_diagnostics(flow: ControlFlow) -> tuple[Diagnostic, ...]:
    """One error (PW201) for each irreducible region: how it is entered, and its blocks."""
    return tuple(_irreducible(flow.kernel, flow.cfg, one) for one in flow.forest.irreducible)


def _irreducible(kernel: Kernel, cfg: ControlFlowGraph, region: IrreducibleRegion) -> Diagnostic:
    notes = []
    for entry in region.entries:
        outside = [p for p in cfg.predecessors[entry] if p not in region.blocks]
        ways = ", ".join(describe_block(kernel, cfg, p) for p in outside) or "the kernel's start"
        notes.append(f"entry {describe_block(kernel, cfg, entry)} is reached from {ways}")
    names = ", ".join(describe_block(kernel, cfg, block) for block in region.blocks)
    notes.append(f"the loop's blocks: {names}")
    entries = " and ".join(cfg.name(entry) for entry in region.entries)
    return Diagnostic(
        "PW201",
        f"irreducible loop in {kernel.readable}: it can be entered at {entries}",
        span=kernel.instructions[cfg.blocks[region.entries[0]].start].span,
        notes=tuple(notes),
        help="a loop without a single entry has no iteration count to bound: remove the jump into "
        "the loop (a goto or a switch case inside it), or compile the kernel with another "
        "optimisation level",
    )


def endless_diagnostics(flow: ControlFlow) -> tuple[Diagnostic, ...]:
    """At most one error (PW230): the reachable blocks from which no path leads to the end."""
    kernel, cfg = flow.kernel, flow.cfg
    stuck = [b for b in sorted(cfg.reverse_postorder) if not flow.postdominators.covers(b)]
    if not stuck:
        return ()
    names = ", ".join(describe_block(kernel, cfg, block) for block in stuck)
    return (
        Diagnostic(
            "PW230",
            f"{kernel.readable} may run for ever: {cfg.name(stuck[0])} cannot reach its end",
            span=kernel.instructions[cfg.blocks[stuck[0]].end - 1].span,
            notes=(f"blocks without a way to the end of the kernel: {names}",),
            help="give the loop an exit; a loop without one has no bound",
        ),
    )


def parting_diagnostics(flow: ControlFlow) -> tuple[Diagnostic, ...]:
    """At most one error (PW224): an instruction of machine code at which lanes that came together
    may part, as no analysis expects.
    """
    for index in flow.reconvergence.unsure:
        waiting = flow.kernel.instructions[index]
        return (
            Diagnostic(
                "PW224",
                f"lanes of a warp that come to {waiting.mnemonic} together may part there: it is "
                "not known that one BSSY has registered all of them",
                span=waiting.span,
                help="bound the kernel from its PTX",
            ),
        )
    return ()


def describe_block(kernel: Kernel, cfg: ControlFlowGraph, block: BlockId) -> str:
    """A block's name with its line in the PTX text and, where known, in the source."""
    start, end = cfg.blocks[block].start, cfg.blocks[block].end
    if start == end:
        return cfg.name(block)
    first = kernel.instructions[start]
    place = f"line {first.span.shown_line}"
    if first.location is not None:
        place += f", {first.location.place}"
    return f"{cfg.name(block)} ({place})"
