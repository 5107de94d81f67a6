"""Where lanes of machine code that parted at a branch are sure to go on together.

From compute capability 7.0 on, lanes that part run apart until all of them wait at a BSYNC for one
convergence barrier in which they were registered together, or at a WARPSYNC of all lanes. The
immediate post-dominator says where all of them come to, and not that they wait there for one
another: in regions that are not properly nested (a switch with fall-through, a forward goto, a
function whose caller has the barrier) each group of lanes may run what follows alone.

The analysis keeps for each program point the barriers in which all lanes that come there are sure
to be registered, in the order in which they were set, and which instructions have set them. Lanes
that part at a branch ``b`` reconverge at a post-dominator ``p`` of it if ``p`` begins with a BSYNC
of such a barrier that was set by no instruction between ``b`` and ``p``, or with a WARPSYNC of all
lanes and there is no other one between them. Each group of lanes issues it, and waits there for its
own results: where it waits for scoreboards, the lanes are said to go on together behind it. Where
``p`` does nothing but end its lanes it does not matter whether they are together, but for how often
the end is issued.

*Why.* Let lanes be *together* that came to a place in one visit of a walk which joins lanes at
these places alone; by induction over the walk the hardware has them together, too. Let two lanes be
together at ``b``, where both are registered in a barrier B. If different visits had registered
them, they were apart then and were joined since at some ``q``, to which all ways lead from the
branch where they had parted before. If ``q`` is a BSYNC of a barrier A, A was set before they
parted and so before B: the analysis drops there all that was set behind A. If it is a WARPSYNC, it
drops all that was set between such a branch and ``q``. So one visit has registered both in B.
Neither has left B before ``p`` (where lanes leave it by BREAK it is dropped on their way), and
neither was registered anew, so that each waits at ``p`` for the other. Others may be waited for as
well, and lanes may be joined elsewhere, too: then the hardware makes one visit where the walk makes
several. Nothing but branches parts lanes: at each BSYNC that lanes come to together one visit has
registered all of them, and at each WARPSYNC they name the same lanes, or the kernel is refused.

Cost: a few rounds over the instructions; for a branch, the blocks up to its post-dominators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.dominance import DominatorTree
from ptxwcet.ir.kernel import (
    Immediate,
    Instruction,
    Kernel,
    MachineCode,
    Negated,
    Operand,
    Register,
    SymbolRef,
)
from ptxwcet.ir.op_classes import AT_MEETINGS, ControlEffect, Convergence
from ptxwcet.support.graph import reachable
from ptxwcet.support.records import dataclass

_BARRIER = re.compile(r"(?:.*:)?(B\d+)(?:@\d+)?")
_ALL_LANES = 0xFFFFFFFF
_MOVES = {"MOV", "UMOV", "IMAD", "HFMA2"}
"""What makes a register a literal of nothing but literals, whichever lanes execute it."""

Literal = tuple[str, bool]
"""A predicate and whether it holds."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A barrier in which all lanes are registered: what holds it, and what has set it."""

    names: frozenset[str]
    sites: frozenset[int]

    def without(self, name: str) -> _Open:
        """The barrier, where ``name`` holds another one."""
        return _Open(self.names - {name}, self.sites) if name in self.names else self

    def also(self, name: str) -> _Open:
        """The barrier, where ``name`` holds it, too."""
        return _Open(self.names | {name}, self.sites)


_State = tuple[_Open, ...]
"""The barriers that are open for all lanes, in the order in which they were set."""


@dataclass(frozen=True, slots=True)
class _Left:
    """Lanes in which all of ``when`` holds have left the barrier that ``name`` holds."""

    name: str
    when: frozenset[Literal]

    @property
    def predicates(self) -> set[str]:
        """The predicates that decide it."""
        return {name for name, _ in self.when}


@dataclass(frozen=True, slots=True)
class Reconvergence:
    """Where lanes go on together that part at the end of a block, by block.

    That is the virtual exit if they never do, and None where there is no immediate post-dominator.
    ``unsure`` are instructions at which lanes that came together may part: they wait for others
    than one another, for all that is known.
    """

    meetings: tuple[BlockId | None, ...]
    unsure: tuple[int, ...] = ()


def reconvergence_of(
    kernel: Kernel, cfg: ControlFlowGraph, postdominators: DominatorTree
) -> Reconvergence:
    """Returns where lanes meet: of PTX, which says nothing of it, at immediate post-dominators, as
    its machine is assumed to let them.
    """
    if kernel.code is None:
        return Reconvergence(postdominators.immediate)
    found = _Meetings(kernel, kernel.code, cfg, postdominators)
    return Reconvergence(found.all(), tuple(found.unsure()))


def not_nested(
    cfg: ControlFlowGraph, dominators: DominatorTree, postdominators: DominatorTree
) -> tuple[BlockId, ...]:
    """Returns the branches whose ways meet first where ways come in from outside of any region
    around them that ends there: their meeting does not post-dominate its immediate dominator.

    Compilers let lanes that part there run apart beyond that place. Cost: linear in the blocks.
    """
    found = []
    for block in cfg.reverse_postorder:
        meeting = postdominators.immediate[block]
        if len(set(cfg.successors[block])) > 1 and meeting not in (None, cfg.exit):
            begin = dominators.immediate[meeting]
            if begin is not None and not postdominators.dominates(meeting, begin):
                found.append(block)
    return tuple(found)


class _Meetings:
    def __init__(
        self,
        kernel: Kernel,
        code: MachineCode,
        cfg: ControlFlowGraph,
        postdominators: DominatorTree,
    ) -> None:
        self._kernel = kernel
        self._code = code
        self._cfg = cfg
        self._postdominators = postdominators
        self._apart = {block: self._between_and(block) for block in self._gathering()}
        self._states = self._settled()

    def all(self) -> tuple[BlockId | None, ...]:
        """The meeting of each block, as :func:`reconvergence_of` says."""
        return tuple(
            self._first_meeting(block.id)
            if len(set(self._cfg.successors[block.id])) > 1
            else self._postdominators.immediate[block.id]
            for block in self._cfg.blocks
        )

    def unsure(self) -> Iterator[int]:
        """The instructions at which lanes that came together need not wait for one another."""
        for block, state in self._states.items():
            start, end = self._bounds(block)
            if start == end:
                continue
            first = self._kernel.instructions[start]
            if first.convergence is Convergence.WAITS:
                name = _barrier(first)
                is_together = any(name in barrier.names for barrier in state)
                is_together &= len(first.operands) == 1  # a predicate says who waits
            else:
                is_together = self._has_one_mask(block, first)
            if first.convergence in AT_MEETINGS and (first.guard is not None or not is_together):
                yield start

    def _has_one_mask(self, block: BlockId, instruction: Instruction) -> bool:
        """Whether lanes that come to a WARPSYNC together name the same lanes: by one literal, moved
        on all ways, or by the result of a vote for which they were together, in the only block
        before.
        """
        match instruction.operands:
            case () | (Immediate(),) | (Immediate(), SymbolRef()):
                return True
            case (Register(mask),) | (Register(mask), SymbolRef()):
                pass
            case _:
                return False
        instructions, before = self._kernel.instructions, self._cfg.predecessors[block]
        writing = [n for n, writer in enumerate(instructions) if mask in writer.writes]
        values = {(instructions[n].mnemonic, *instructions[n].operands[1:]) for n in writing}
        if any(instructions[n].guard is not None for n in writing) or len(values) != 1:
            return False
        mnemonic, *sources = values.pop()
        opcode = str(mnemonic).partition(".")[0]
        if opcode in _MOVES and all(isinstance(source, Immediate) for source in sources):
            moved = {own.id for own in self._cfg.blocks if self._any_in(writing, (own.id,))}
            unset = reachable(self._cfg.successors, (self._cfg.entry,), moved - {block})
            return block not in unset
        is_before = len(writing) == 1 and len(before) == 1 and self._any_in(writing, before)
        return is_before and opcode == "VOTE"

    def _first_meeting(self, branch: BlockId) -> BlockId | None:
        """The nearest post-dominator of a branch at which its lanes are proved to be joined."""
        above = self._postdominators.immediate
        place = above[branch]
        while place is not None and place != self._cfg.exit:
            between = reachable(self._cfg.successors, self._cfg.successors[branch], (place,))
            if self._joins(place, between):
                waits = self._code.encoded[self._cfg.blocks[place].start].waits
                return above[place] if waits else place
            place = above[place]
        return place

    def _joins(self, place: BlockId, between: set[BlockId]) -> bool:
        """Whether lanes that come to a block through the blocks ``between`` are joined there."""
        start, end = self._bounds(place)
        first = self._kernel.instructions[start]
        if first.guard is not None:
            return False
        if self._gathers_all(place):
            return between.isdisjoint(self._apart)
        if first.convergence is Convergence.WAITS:
            name = _barrier(first)
            return any(
                name in barrier.names and not self._any_in(barrier.sites, between)
                for barrier in self._states.get(place, ())
            )
        return first.control is ControlEffect.EXIT and end == start + 1

    def _bounds(self, block: BlockId) -> tuple[int, int]:
        found = self._cfg.blocks[block]
        return found.start, found.end

    def _any_in(self, sites: Iterable[int], blocks: Iterable[BlockId]) -> bool:
        """Whether one of some instructions stands in one of some blocks."""
        bounds = [self._bounds(block) for block in blocks]
        return any(start <= site < end for site in sites for start, end in bounds)

    # --- where all lanes wait for all

    def _gathering(self) -> Iterator[BlockId]:
        return (block for block in self._cfg.reverse_postorder if self._gathers_all(block))

    def _gathers_all(self, block: BlockId) -> bool:
        """Whether a block begins with a WARPSYNC of all lanes that have not ended."""
        start, end = self._bounds(block)
        if start == end:
            return False
        first = self._kernel.instructions[start]
        if first.convergence is not Convergence.GATHERS or first.guard is not None:
            return False
        words = set(first.mnemonic.split(".")[1:])
        if words:
            return words == {"ALL"}
        mask = first.operands[0] if first.operands else None
        return isinstance(mask, Immediate) and mask.value == _ALL_LANES

    def _between_and(self, place: BlockId) -> set[BlockId]:
        """The blocks between any branch that a block post-dominates and that block."""
        found: set[BlockId] = set()
        for block in self._cfg.reverse_postorder:
            targets = self._cfg.successors[block]
            if len(set(targets)) > 1 and self._postdominators.strictly_dominates(place, block):
                found |= reachable(self._cfg.successors, targets, (place,))
        return found

    # --- which barriers are open

    def _settled(self) -> dict[BlockId, _State]:
        """The barriers that are open at the start of each block that is reached."""
        found: dict[BlockId, _State] = {self._cfg.entry: ()}
        pending = [self._cfg.entry]
        while pending:
            block = pending.pop()
            for target, state in self._behind(block, found[block]):
                old = found.get(target)
                new = state if old is None else _common(old, state)
                if new != old:
                    found[target] = new
                    pending.append(target)
        return found

    def _behind(self, block: BlockId, state: _State) -> Iterator[tuple[BlockId, _State]]:
        """The state on each edge out of a block."""
        cfg, instructions, left = self._cfg, self._kernel.instructions, list[_Left]()
        if block in self._apart:
            state = tuple(one for one in state if not self._any_in(one.sites, self._apart[block]))
        start, end = self._bounds(block)
        for index in range(start, end):
            state, more = _step(instructions[index], index, state)
            left += more
            lost = [one for one in left if one.predicates.intersection(instructions[index].writes)]
            if lost:  # what the predicate was is not known any more
                state = _dropped(state, lost)
                left = [one for one in left if one not in lost]
        holding = _literals(instructions[end - 1]) if cfg.has_two_ways(block) else None
        for target in cfg.successors[block]:
            gone = left
            if holding is not None:
                is_taken = target == cfg.taken[block]
                gone = [one for one in left if _may_hold(one, holding, is_taken=is_taken)]
            yield target, _dropped(state, gone)


def _common(old: _State, new: _State) -> _State:
    """The barriers that are open in both states, in an order that is that of both."""
    kept, after = list[_Open](), 0
    for barrier in old:
        for place in range(after, len(new)):
            names = barrier.names & new[place].names
            if names:
                kept.append(_Open(names, barrier.sites | new[place].sites))
                after = place + 1
                break
    return tuple(kept)


def _may_hold(left: _Left, holding: frozenset[Literal], *, is_taken: bool) -> bool:
    """Whether lanes that go this way at a branch may have left the barrier before it: it is taken
    by those in which all of ``holding`` holds.
    """
    if is_taken:
        return not any((name, not value) in holding for name, value in left.when)
    return not holding <= left.when


def _dropped(state: _State, gone: Iterable[_Left]) -> _State:
    names = {one.name for one in gone}
    return tuple(barrier for barrier in state if names.isdisjoint(barrier.names))


def _step(instruction: Instruction, index: int, state: _State) -> tuple[_State, tuple[_Left, ...]]:
    """The state behind an instruction, and what some lanes may have left."""
    effect = instruction.convergence
    if effect is Convergence.COPIES:
        return _copied(instruction, state), ()
    if effect in (Convergence.NONE, Convergence.GATHERS):
        return _without(state, instruction.writes), ()
    name = _barrier(instruction)
    if effect is Convergence.SETS:
        state = _without(state, [name])
        opened = _Open(frozenset([name]), frozenset([index]))
        return state if instruction.guard is not None else (*state, opened), ()
    if effect is Convergence.WAITS:
        places = [place for place, barrier in enumerate(state) if name in barrier.names]
        return state[: places[0]] if places else (), ()
    assert effect is Convergence.LEAVES
    guards = _literals(instruction)
    conditions = [_literal(one) for one in instruction.operands[:-1]]
    when = frozenset(one for one in conditions if one is not None)
    if guards is None or len(when) < len(conditions):
        return _dropped(state, [_Left(name, frozenset())]), ()
    return state, (_Left(name, guards | when),)


def _copied(instruction: Instruction, state: _State) -> _State:
    """The state behind a copy of a barrier to a register, or back."""
    target, source = (_name_of(operand) for operand in instruction.operands[:2])
    held = [place for place, barrier in enumerate(state) if source in barrier.names]
    copied = list(state if target is None else (one.without(target) for one in state))
    for place in held:
        if target is not None and instruction.guard is None:
            copied[place] = copied[place].also(target)
        if source is not None and "CLEAR" in instruction.mnemonic.split("."):
            copied[place] = copied[place].without(source)
    return tuple(barrier for barrier in copied if barrier.names)


def _without(state: _State, names: Sequence[str]) -> _State:
    """The state in which some names hold something else."""
    for name in names:
        state = tuple(barrier.without(name) for barrier in state)
    return tuple(barrier for barrier in state if barrier.names)


def _barrier(instruction: Instruction) -> str:
    """The name of the barrier that an instruction is about: its first or last operand."""
    for operand in (instruction.operands[0], instruction.operands[-1]):
        name = _name_of(operand)
        if name is not None and _BARRIER.fullmatch(name):
            return name
    return ""


def _name_of(operand: Operand) -> str | None:
    """The name of a register; that of a barrier without what tells its webs apart."""
    if not isinstance(operand, Register):
        return None
    barrier = _BARRIER.fullmatch(operand.name)
    return operand.name if barrier is None else barrier[1]


def _literal(operand: Operand) -> Literal | None:
    """What a predicate as an operand says, None if that is not known."""
    match operand:
        case Register(name):
            return name, True
        case Negated(Register(name)):
            return name, False
    return None


def _literals(instruction: Instruction) -> frozenset[Literal] | None:
    """What holds in the lanes that execute an instruction and no others; None if not known."""
    guard = instruction.guard
    if guard is None:
        return frozenset()
    if not guard.register.startswith("%"):
        return frozenset([(guard.register, not guard.negated)])
    registers = {
        operand.name.partition("@")[0]: operand.name
        for operand in map(_plain, instruction.operands)
        if isinstance(operand, Register)
    }
    literals = set[Literal]()
    for part in guard.register[1:].partition("@")[0].split("&"):
        name = registers.get(part.lstrip("!"))
        if name is None:
            return None
        literals.add((name, not part.startswith("!")))
    return frozenset(literals)


def _plain(operand: Operand) -> Operand:
    return operand.operand if isinstance(operand, Negated) else operand
