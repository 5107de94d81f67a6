"""Control-flow graphs: basic blocks of a kernel, joined by the transfers between them.

Blocks are numbered in program order; the last id is a virtual exit block without instructions, to
which ``ret``, ``exit``, ``trap`` and falling off the end lead. A block ends after a branch or an
ending instruction and before a label that some branch names; calls and barriers end no block. In
machine code one begins before each instruction at which lanes of a warp wait for one another::

    0: setp %p, ...          successors[0] = (2, 1): taken target first, then the fall-through
       @%p bra L2
    1: add ...               successors[1] = (2,)
    L2:
    2: ret                   successors[2] = (3,) = (exit,)

Blocks that no path from the entry reaches keep their id but take no part: they have no edges.

A ``trap``, and a call of a function that never returns, aborts the launch. Blocks from which all
paths lead to one take no part either: the graph is that of launches that are not aborted. If all
are, it has all edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, NewType

from ptxwcet.ir.kernel import Instruction, Kernel
from ptxwcet.ir.op_classes import AT_BARRIERS, AT_MEETINGS, ControlEffect
from ptxwcet.support.records import dataclass

BlockId = NewType("BlockId", int)
Edge = tuple[BlockId, BlockId]

_BRANCHES = (ControlEffect.BRANCH, ControlEffect.INDIRECT_BRANCH)
_ENDINGS = (ControlEffect.RETURN, ControlEffect.EXIT, ControlEffect.TRAP)


class BasicBlock(NamedTuple):
    """Instructions ``[start, end)`` of the kernel; ``label`` is a label at its start, if any."""

    id: BlockId
    start: int
    end: int
    label: str | None = None


class Transfer(NamedTuple):
    """Where control goes at the end of a block; see :class:`ControlFlowGraph`."""

    successors: tuple[BlockId, ...]
    taken: BlockId | None = None
    fallthrough: BlockId | None = None


@dataclass(frozen=True, slots=True)
class ControlFlowGraph:
    """Blocks and edges; everything is indexed by block id.

    ``taken[b]`` is where the ``bra`` (or ``ret``, ``exit``, ``trap``) at the end of ``b`` leads,
    None without one and for ``brx``; ``fallthrough[b]`` is where control goes if it is not taken.
    Both are set for a guarded branch, and equal if it branches to the next instruction.
    ``aborts`` are the outcomes of branches, taken or not, after which the launch is aborted: there
    is no edge for them.
    ``barriers`` are the indices of the instructions that arrive at a barrier, and wait or not.
    ``reverse_postorder`` holds the reachable blocks of a depth-first search from the entry.
    """

    blocks: tuple[BasicBlock, ...]
    successors: tuple[tuple[BlockId, ...], ...]
    predecessors: tuple[tuple[BlockId, ...], ...]
    taken: tuple[BlockId | None, ...]
    fallthrough: tuple[BlockId | None, ...]
    reverse_postorder: tuple[BlockId, ...]
    unreachable: tuple[BlockId, ...] = ()
    barriers: tuple[int, ...] = ()
    aborts: frozenset[tuple[BlockId, bool]] = frozenset()

    @property
    def entry(self) -> BlockId:
        """The block where the kernel starts."""
        return BlockId(0)

    @property
    def exit(self) -> BlockId:
        """The virtual exit: an empty block, the last id. It may be unreachable."""
        return BlockId(len(self.blocks) - 1)

    def has_two_ways(self, block: BlockId) -> bool:
        """Whether a branch at the end of ``block`` leads to one of two other places."""
        taken, following = self.taken[block], self.fallthrough[block]
        return taken is not None and following is not None and taken != following

    def edges(self) -> Iterable[Edge]:
        """All edges, by source and then in successor order."""
        for source, targets in enumerate(self.successors):
            for target in targets:
                yield BlockId(source), target

    def name(self, block: BlockId) -> str:
        """What people call the block: its label, ``entry``, ``exit`` or ``block <id>``."""
        label = self.blocks[block].label
        if label is not None:
            return label
        if block == self.exit:
            return "exit"
        return "entry" if block == self.entry else f"block {block}"


def build_cfg(kernel: Kernel, *, with_aborts: bool = False) -> ControlFlowGraph:
    """The control-flow graph of a kernel. Cost: linear in instructions, labels and branch targets.

    Every branch target must be a key of ``kernel.labels``, which the parser ensures.
    ``with_aborts`` keeps the edges after which the launch is aborted.
    """
    instructions = kernel.instructions
    plain = ControlEffect.NONE
    control = [i for i, one in enumerate(instructions) if one.form.control is not plain]
    starts = _block_starts(kernel, control)
    exit_block = BlockId(len(starts))
    block_at = {start: BlockId(b) for b, start in enumerate(starts)}
    block_at[len(instructions)] = exit_block
    ends = [*starts[1:], len(instructions)]
    names = _labels_at(kernel.labels, block_at)
    blocks = [
        BasicBlock(BlockId(b), start, end, names.get(start))
        for b, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    targets = {
        label: block_at[index] for label, index in kernel.labels.items() if index in block_at
    }
    lasts = [instructions[block.end - 1] if block.end else None for block in blocks]
    transfers = [
        _transfer(last, targets, block.id, exit_block)
        for last, block in zip(lasts, blocks, strict=True)
    ]
    barriers = tuple(i for i in control if instructions[i].form.control in AT_BARRIERS)
    if not with_aborts:
        transfers, aborts = _not_aborted(lasts, transfers)
        cfg = assemble_cfg(blocks, transfers, barriers)
        reached = aborts.difference((b, taken) for b in cfg.unreachable for taken in (True, False))
        return replace(cfg, aborts=reached)
    return assemble_cfg(blocks, transfers, barriers)


def _not_aborted(
    lasts: Sequence[Instruction | None], transfers: Sequence[Transfer]
) -> tuple[list[Transfer], frozenset[tuple[BlockId, bool]]]:
    """The transfers without those after which the launch is aborted, and which these are.

    All of them if every way from the entry is aborted.
    """
    failing: set[BlockId] = set()
    traps = {b for b, last in enumerate(lasts) if last and last.form.control is ControlEffect.TRAP}

    def goes_on(block: int) -> tuple[BlockId, ...]:
        ways, _, fallthrough = transfers[block]
        if block in traps:
            ways = () if fallthrough is None else (fallthrough,)
        return tuple(way for way in ways if way not in failing)

    predecessors = transpose([*(one.successors for one in transfers), ()])
    pending = [BlockId(block) for block in traps]
    while pending:
        block = pending.pop()
        if block not in failing and not goes_on(block):
            failing.add(block)
            pending += predecessors[block]
    if not traps or 0 in failing:
        return list(transfers), frozenset()
    kept, aborts = [], set[tuple[BlockId, bool]]()
    for number, transfer in enumerate(transfers):
        block, ways = BlockId(number), goes_on(number)
        if block not in failing:
            if transfer.fallthrough in failing:
                aborts.add((block, False))
            elif len(ways) < len(transfer.successors) or block in traps:
                aborts.add((block, True))
            transfer = transfer._replace(successors=ways)
        kept.append(transfer)
    return kept, frozenset(aborts)


def _block_starts(kernel: Kernel, control: Sequence[int]) -> list[int]:
    """Sorted indices of the first instructions of blocks; ``[0]`` for a kernel without any."""
    instructions, labels = kernel.instructions, kernel.labels
    starts = {0}
    for index in control:
        effect = instructions[index].form.control
        if effect in _BRANCHES:
            for target in instructions[index].targets:
                starts.add(labels[target])
            starts.add(index + 1)
        elif effect in _ENDINGS:
            starts.add(index + 1)
    starts.update(_meetings(kernel))
    if instructions:
        starts.discard(len(instructions))  # that is the virtual exit
    return sorted(starts)


def _meetings(kernel: Kernel) -> Iterable[int]:
    """Where blocks of machine code begin at which lanes wait for one another: so that what is
    executed before and behind is told apart. One that waits for scoreboards, too, is a block of
    its own: each group of lanes waits for what it has under way.
    """
    if kernel.code is None:
        return
    for index, instruction in enumerate(kernel.instructions):
        if instruction.convergence in AT_MEETINGS:
            yield index
            if kernel.code.encoded[index].waits:
                yield index + 1


def _labels_at(labels: Mapping[str, int], block_at: Mapping[int, BlockId]) -> dict[int, str]:
    """The first label at each block start."""
    names: dict[int, str] = {}
    for label, index in labels.items():
        if index in block_at:
            names.setdefault(index, label)
    return names


def _transfer(
    last: Instruction | None, targets: Mapping[str, BlockId], block: BlockId, exit_block: BlockId
) -> Transfer:
    """Where control goes after a block whose last instruction is ``last`` (None: it has none)."""
    following = BlockId(block + 1)
    effect = ControlEffect.NONE if last is None else last.form.control
    if last is None or (effect not in _BRANCHES and effect not in _ENDINGS):
        return Transfer((following,), None, following)
    guarded = last.form.guard_slot >= 0
    if effect is ControlEffect.INDIRECT_BRANCH:
        reached = [targets[label] for label in last.targets]
        if guarded:
            reached.append(following)
        return Transfer(tuple(dict.fromkeys(reached)), None, following if guarded else None)
    taken = targets[last.targets[0]] if effect is ControlEffect.BRANCH else exit_block
    if not guarded:
        return Transfer((taken,), taken, None)
    return Transfer((taken, following) if taken != following else (taken,), taken, following)


def assemble_cfg(
    blocks: Sequence[BasicBlock], transfers: Sequence[Transfer], barriers: Sequence[int] = ()
) -> ControlFlowGraph:
    """The graph of the given blocks, in order, and of what follows each; the exit is added.

    Transfers may lead to the exit, ``len(blocks)``. Those of unreachable blocks are dropped.
    Cost: linear in blocks and edges.
    """
    end = blocks[-1].end
    exit_block = BasicBlock(BlockId(len(blocks)), end, end)
    order = reverse_postorder([*(transfer.successors for transfer in transfers), ()], BlockId(0))
    reached = set(order)
    none = Transfer((), None, None)
    kept = [t if block in reached else none for block, t in enumerate(transfers)]
    kept.append(none)
    successors, taken, fallthrough = zip(*kept, strict=True)
    return ControlFlowGraph(
        blocks=(*blocks, exit_block),
        successors=successors,
        predecessors=transpose(successors),
        taken=taken,
        fallthrough=fallthrough,
        reverse_postorder=order,
        unreachable=tuple(block.id for block in blocks if block.id not in reached),
        barriers=tuple(barriers),
    )


def transpose(successors: Sequence[Iterable[BlockId]]) -> tuple[tuple[BlockId, ...], ...]:
    """For each block the sources of its incoming edges, ascending. Cost: linear."""
    predecessors: list[list[BlockId]] = [[] for _ in successors]
    for source, targets in enumerate(successors):
        for target in targets:
            predecessors[target].append(BlockId(source))
    return tuple(map(tuple, predecessors))


def reverse_postorder(
    successors: Sequence[Sequence[BlockId]], root: BlockId
) -> tuple[BlockId, ...]:
    """Blocks reachable from ``root``, each before its descendants unless an edge goes back.

    Successors are visited in order, so the result is deterministic. Cost: linear; no recursion.
    """
    order: list[BlockId] = []
    seen = [False] * len(successors)
    stack: list[int] = [root]
    while stack:
        block = stack.pop()
        if block < 0:  # ~b, met again when all that b leads to is done
            order.append(BlockId(~block))
        elif not seen[block]:
            seen[block] = True
            stack.append(~block)
            for target in reversed(successors[block]):
                if not seen[target]:
                    stack.append(target)
    order.reverse()
    return tuple(order)
